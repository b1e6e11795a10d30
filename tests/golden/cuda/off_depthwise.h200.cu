#include "autocomp_cuda.cuh"

/*
 * conv: conv
 * schedule: tile i0 1, i1 2, i2 15, i3 16, r0 3, r1 3 | threads 512 | peel_tail | window_strips
 * predicted: 3.26 us, bound by latency, 1% of the roofline
 * rule: tiling/gpu-columns: the schedule
 *
 * kernel conv(in0: f16[i0:2, i1:72, i2:15, i3:16, r0:3, r1:3] of in0[2, 72, 29, 31] at [i0, i1, 2*i2 + r0 - 1, 2*i3 + r1 - 1] where 2*i2 + r0 - 1 >= 0, -2*i2 - 1*r0 + 29 >= 0, 2*i3 + r1 - 1 >= 0, -2*i3 - 1*r1 + 31 >= 0 else 0.0, in1: f16[i1:72, r0:3, r1:3]) -> out0: f16[i0:2, i1:72, i2:15, i3:16]
 * axes i0=2 i1=72 i2=15 i3=16 r0=3 r1=3
 * tile i0=1 i1=2
 * grid i0, i1
 *   in0_t: f16[i0, i1, i2, i3, r0, r1] fragment = copy in0
 *   in1_t: f16[i1, r0, r1] fragment = copy in1
 *   cast_t: f32[i1, r0, r1] fragment = map cast(f32, in1_t)
 *   mul_t: f32[i0, i1, i2, i3, r0, r1] fragment = map cast(f32, in0_t) * cast_t
 *   s_t: f32[i0, i1, i2, i3] fragment = reduce add r0,r1 mul_t
 *   cast_t2: f16[i0, i1, i2, i3] fragment = map cast(f16, s_t)
 *   store out0 = cast_t2
 *
 * in0_t: reg (r1,2,2)(r0,1,3)(i2,1,2) lane (i3,1,16)(i1,1,2) wave (i2,2,8)(r1,1,2)
 * in1_t: reg (r1,2,2)(r0,1,3) lane (-,0,16)(i1,1,2) wave (-,0,8)(r1,1,2)
 * cast_t: reg (r1,2,2)(r0,1,3) lane (-,0,16)(i1,1,2) wave (-,0,8)(r1,1,2)
 * mul_t: reg (r1,2,2)(r0,1,3)(i2,1,2) lane (i3,1,16)(i1,1,2) wave (i2,2,8)(r1,1,2)
 * s_t: reg (i2,1,2) lane (i3,1,16)(i1,1,2) wave (i2,2,8)(-,0,2)
 * cast_t2: reg (i2,1,2) lane (i3,1,16)(i1,1,2) wave (i2,2,8)(-,0,2)
 */
extern "C" __global__ void __launch_bounds__(512) k_conv(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane / 16;
  const int i3_t = lane % 16;
  const int i2_t = wave % 8 * 2;
  const int r1_t = wave / 8;
  int block = blockIdx.x;
  const int i1_b = block % 36 * 2;
  block /= 36;
  const int i0_b = block;
  float in0_t[10];
  float in1_t[6];
  float cast_t[6];
  float mul_t[12];
  float n_s_t[2];
  float cast_t2[2];
  #pragma unroll
  for (int q = 0; q < 10; ++q) {
    ac_load_where<1>(&in0_t[q], ((q < 1 || r1_t + q % 2 * 2 < 3)) & (i2_t + ((q / 2) > 2 ? ((q / 2) - 1) / 2 : 0) < 15) & (2*(i2_t) + (q / 2) + -1 >= 0) & (-2*(i2_t) + -1*(q / 2) + 29 >= 0) & (2*(i3_t) + (r1_t + q % 2 * 2) + -1 >= 0) & (-2*(i3_t) + -1*(r1_t + q % 2 * 2) + 31 >= 0), in0 + i0_b*64728 + (i1_b + i1_t)*899 + (i2_t)*62 + (i3_t)*2 + (q / 2)*31 + (r1_t + q % 2 * 2) - 32, 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 6; ++q) {
    ac_load_where<1>(&in1_t[q], (q < 1 || r1_t + q % 2 * 2 < 3), in1 + (i1_b + i1_t)*9 + (q / 2)*3 + (r1_t + q % 2 * 2), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 6; ++r) {
    cast_t[r] = in1_t[r];
  }
  #pragma unroll
  for (int r = 0; r < 12; ++r) {
    mul_t[r] = (in0_t[(r % 2) + (r / 2 % 3) * 2 + (r / 6 * 2) * 2] * cast_t[(r % 2) + (r / 2 % 3) * 2]);
  }
  float t[2];
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 12; ++r) {
    if ((r < 1 || r1_t + r % 2 * 2 < 3)) t[(r / 6)] = (t[(r / 6)] + mul_t[r]);
  }
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    box[(wave * 2 + r) * 32 + lane] = t[r];
  }
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    float sum = box[((wave % 8 + 0) * 2 + r) * 32 + lane];
    sum = (sum + box[((wave % 8 + 8) * 2 + r) * 32 + lane]);
    t[r] = sum;
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    n_s_t[r] = t[r];
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    cast_t2[r] = n_s_t[r];
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if ((wave / 8 == 0) & ((q < 1 || i2_t + q < 15))) ac_store<1>(out0 + i0_b*17280 + (i1_b + i1_t)*240 + (i2_t + q)*16 + (i3_t), &cast_t2[q]);
  }
}
