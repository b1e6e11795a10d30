#include "autocomp_cuda.cuh"

/*
 * conv: conv
 * schedule: tile i0 1, i1 2, i2 15, i3 16, r0 3, r1 3 | threads 512
 * predicted: 3.74 us, bound by launch, 1% of the roofline
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
 * in0_t: reg (r0,2,2)(i2,4,4)(i1,1,2) lane (r1,1,4)(r0,1,2)(i3,1,4) wave (i3,4,4)(i2,1,4)
 * in1_t: reg (r0,2,2)(i1,1,2) lane (r1,1,4)(r0,1,2)(-,0,4) wave (-,0,4)(-,0,4)
 * cast_t: reg (r0,2,2)(i1,1,2) lane (r1,1,4)(r0,1,2)(-,0,4) wave (-,0,4)(-,0,4)
 * mul_t: reg (r0,2,2)(i2,4,4)(i1,1,2) lane (r1,1,4)(r0,1,2)(i3,1,4) wave (i3,4,4)(i2,1,4)
 * s_t: reg (i2,4,4)(i1,1,2) lane (-,0,4)(-,0,2)(i3,1,4) wave (i3,4,4)(i2,1,4)
 * cast_t2: reg (i2,4,4)(i1,1,2) lane (-,0,4)(-,0,2)(i3,1,4) wave (i3,4,4)(i2,1,4)
 */
extern "C" __global__ void __launch_bounds__(512) k_conv(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i3_t = lane / 8 + wave % 4 * 4;
  const int r1_t = lane % 4;
  const int r0_t = lane / 4 % 2;
  const int i2_t = wave / 4;
  int block = blockIdx.x;
  const int i1_b = block % 36 * 2;
  block /= 36;
  const int i0_b = block;
  float in0_t[16];
  float in1_t[4];
  float cast_t[4];
  float mul_t[16];
  float n_s_t[8];
  float cast_t2[8];
  #pragma unroll
  for (int q = 0; q < 16; ++q) {
    ac_load_where(&in0_t[q], i2_t + q / 2 % 4 * 4 < 15 && r0_t + q % 2 * 2 < 3 && r1_t < 3 && 2*(i2_t + q / 2 % 4 * 4) + (r0_t + q % 2 * 2) + -1 >= 0 && -2*(i2_t + q / 2 % 4 * 4) + -1*(r0_t + q % 2 * 2) + 29 >= 0 && 2*(i3_t) + (r1_t) + -1 >= 0 && -2*(i3_t) + -1*(r1_t) + 31 >= 0, in0 + i0_b*64728 + (i1_b + q / 8)*899 + (i2_t + q / 2 % 4 * 4)*62 + (i3_t)*2 + (r0_t + q % 2 * 2)*31 + (r1_t) - 32, 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_load_where(&in1_t[q], r0_t + q % 2 * 2 < 3 && r1_t < 3, in1 + (i1_b + q / 2)*9 + (r0_t + q % 2 * 2)*3 + (r1_t), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    cast_t[r] = in1_t[r];
  }
  #pragma unroll
  for (int r = 0; r < 16; ++r) {
    mul_t[r] = (in0_t[r] * cast_t[(r % 2) + (r / 8) * 2]);
  }
  float t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 16; ++r) {
    if (r0_t + r % 2 * 2 < 3 && r1_t < 3) t[(r / 2 % 4) + (r / 8) * 4] = (t[(r / 2 % 4) + (r / 8) * 4] + mul_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 4));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    n_s_t[r] = t[r];
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t2[r] = n_s_t[r];
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if (lane % 4 == 0 && lane / 4 % 2 == 0 && i2_t + q % 4 * 4 < 15) ac_store<1>(out0 + i0_b*17280 + (i1_b + q / 4)*240 + (i2_t + q % 4 * 4)*16 + (i3_t), &cast_t2[q]);
  }
}
