#include "autocomp_cuda.cuh"

/*
 * cumsum: cumsum
 * schedule: tile i0 1, i1 32, r0 301
 * predicted: 3.60 us, bound by latency, 1% of the roofline
 * rule: tiling/gpu-columns: the schedule
 *
 * kernel cumsum(in0: f32[i0:9, i1:301, r0:301] of in0[9, 301] at [i0, r0] where i1 - 1*r0 >= 0 else 0.0) -> out0: f32[i0:9, i1:301]
 * axes i0=9 i1=301 r0=301
 * tile i0=1 i1=32
 * grid i0, i1
 *   in0_t: f32[i0, i1, r0] fragment = copy in0
 *   s_t: f32[i0, i1] fragment = reduce add r0 in0_t
 *   store out0 = s_t
 *
 * in0_t: reg (r0,32,10)(i1,8,4) lane (r0,1,32) wave (i1,1,8)
 * s_t: reg (i1,8,4) lane (-,0,32) wave (i1,1,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_cumsum(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int r0_t = lane;
  const int i1_t = wave;
  int block = blockIdx.x;
  const int i1_b = block % 10 * 32;
  block /= 10;
  const int i0_b = block;
  float in0_t[40];
  float n_s_t[4];
  #pragma unroll
  for (int q = 0; q < 40; ++q) {
    if (i1_b + i1_t + q / 10 * 8 < 301 && r0_t + q % 10 * 32 < 301 && (i1_b + i1_t + q / 10 * 8) + -1*(r0_t + q % 10 * 32) >= 0) ac_load<1>(&in0_t[q], in0 + i0_b*301 + (r0_t + q % 10 * 32));
    else ac_fill<1>(&in0_t[q], 0.0f);
  }
  float t[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 40; ++r) {
    if (r0_t + r % 10 * 32 < 301) t[(r / 10)] = (t[(r / 10)] + in0_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 4));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 8));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 16));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    n_s_t[r] = t[r];
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    if (lane == 0 && i1_b + i1_t + q * 8 < 301) ac_store<1>(out0 + i0_b*301 + (i1_b + i1_t + q * 8), &n_s_t[q]);
  }
}
