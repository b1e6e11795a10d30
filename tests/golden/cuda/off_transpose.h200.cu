#include "autocomp_cuda.cuh"

/*
 * transpose: transpose
 * schedule: tile i0 64, i1 64 | threads 512
 * predicted: 3.24 us, bound by launch, 1% of the roofline
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel transpose(in0: f16[i0:333, i1:321] of in0[321, 333] at [i1, i0]) -> out0: f16[i0:333, i1:321]
 * axes i0=333 i1=321
 * tile i0=64 i1=64
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   store out0 = in0_t
 *
 * in0_t: reg (i0,8,8) lane (i1,1,32) wave (i1,32,2)(i0,1,8)
 */
extern "C" __global__ void __launch_bounds__(512) k_transpose(const f16 *__restrict__ in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i1_t = lane + wave % 2 * 32;
  const int i0_t = wave / 2;
  int block = blockIdx.x;
  const int i1_b = block % 6 * 64;
  block /= 6;
  const int i0_b = block * 64;
  float in0_t[8];
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in0_t[q], (i0_b + i0_t + q * 8 < 333) & (i1_b + i1_t < 321), in0 + (i0_b + i0_t + q * 8) + (i1_b + i1_t)*333, 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if ((i0_b + i0_t + q * 8 < 333) & (i1_b + i1_t < 321)) ac_store<1>(out0 + (i0_b + i0_t + q * 8)*321 + (i1_b + i1_t), &in0_t[q]);
  }
}
