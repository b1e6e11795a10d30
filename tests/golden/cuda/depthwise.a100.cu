#include "autocomp_cuda.cuh"

/*
 * conv: conv
 * schedule: tile i0 1, i1 1, i2 8, i3 23, r0 3, r1 3
 * predicted: 3.58 us, bound by latency, 1% of the roofline
 * rule: tiling/gpu-columns: the schedule
 *
 * kernel conv(in0: f16[i0:2, i1:12, i2:19, i3:23, r0:3, r1:3] of in0[2, 12, 19, 23] at [i0, i1, i2 + r0 - 1, i3 + r1 - 1] where i2 + r0 - 1 >= 0, -1*i2 - 1*r0 + 19 >= 0, i3 + r1 - 1 >= 0, -1*i3 - 1*r1 + 23 >= 0 else 0.0, in1: f16[i1:12, r0:3, r1:3]) -> out0: f16[i0:2, i1:12, i2:19, i3:23]
 * axes i0=2 i1=12 i2=19 i3=23 r0=3 r1=3
 * tile i0=1 i1=1 i2=8
 * grid i0, i1, i2
 *   in0_t: f16[i0, i1, i2, i3, r0, r1] fragment = copy in0
 *   in1_t: f16[i1, r0, r1] fragment = copy in1
 *   cast_t: f32[i1, r0, r1] fragment = map cast(f32, in1_t)
 *   mul_t: f32[i0, i1, i2, i3, r0, r1] fragment = map cast(f32, in0_t) * cast_t
 *   s_t: f32[i0, i1, i2, i3] fragment = reduce add r0,r1 mul_t
 *   cast_t2: f16[i0, i1, i2, i3] fragment = map cast(f16, s_t)
 *   store out0 = cast_t2
 *
 * in0_t: reg (r1,1,3)(r0,1,3) lane (i3,1,32) wave (i2,1,8)
 * in1_t: reg (r1,1,3)(r0,1,3) lane (-,0,32) wave (-,0,8)
 * cast_t: reg (r1,1,3)(r0,1,3) lane (-,0,32) wave (-,0,8)
 * mul_t: reg (r1,1,3)(r0,1,3) lane (i3,1,32) wave (i2,1,8)
 * s_t: reg () lane (i3,1,32) wave (i2,1,8)
 * cast_t2: reg () lane (i3,1,32) wave (i2,1,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_conv(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i3_t = lane;
  const int i2_t = wave;
  int block = blockIdx.x;
  const int i2_b = block % 3 * 8;
  block /= 3;
  const int i1_b = block % 12;
  block /= 12;
  const int i0_b = block;
  float in0_t[9];
  float in1_t[9];
  float cast_t[9];
  float mul_t[9];
  float n_s_t[1];
  float cast_t2[1];
  #pragma unroll
  for (int q = 0; q < 9; ++q) {
    ac_load_where<1>(&in0_t[q], (i2_b + i2_t < 19) & (i3_t < 23) & ((i2_b + i2_t) + (q / 3) + -1 >= 0) & (-1*(i2_b + i2_t) + -1*(q / 3) + 19 >= 0) & ((i3_t) + (q % 3) + -1 >= 0) & (-1*(i3_t) + -1*(q % 3) + 23 >= 0), in0 + i0_b*5244 + i1_b*437 + (i2_b + i2_t)*23 + (i3_t) + (q / 3)*23 + (q % 3) - 24, 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 9; ++q) {
    ac_load<1>(&in1_t[q], in1 + i1_b*9 + (q / 3)*3 + (q % 3));
  }
  #pragma unroll
  for (int r = 0; r < 9; ++r) {
    cast_t[r] = in1_t[r];
  }
  #pragma unroll
  for (int r = 0; r < 9; ++r) {
    mul_t[r] = (in0_t[r] * cast_t[r]);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 9; ++r) {
    t[0] = (t[0] + mul_t[r]);
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    cast_t2[r] = n_s_t[r];
  }
  for (int q = 0; q < 1; ++q) {
    if ((i2_b + i2_t < 19) & (i3_t < 23)) ac_store<1>(out0 + i0_b*5244 + i1_b*437 + (i2_b + i2_t)*23 + (i3_t), &cast_t2[q]);
  }
}
