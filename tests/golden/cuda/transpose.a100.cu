#include "autocomp_cuda.cuh"

/*
 * add: transpose add
 * schedule: tile i0 64, i1 64 | threads 512 | batch_copies
 * predicted: 4.06 us, bound by launch, 1% of the roofline
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel add(in0: f16[i0:264, i1:150], in1: f16[i0:264, i1:150] of in1[150, 264] at [i1, i0]) -> out0: f16[i0:264, i1:150]
 * axes i0=264 i1=150
 * tile i0=64 i1=64
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   in1_t: f16[i0, i1] fragment = copy in1
 *   add_t: f16[i0, i1] fragment = map in0_t + in1_t
 *   store out0 = add_t
 *
 * in0_t: reg (i1,1,2)(i0,16,4) lane (i1,2,32) wave (i0,1,16)
 * in1_t: reg (i1,1,2)(i0,16,4) lane (i1,2,32) wave (i0,1,16)
 * add_t: reg (i1,1,2)(i0,16,4) lane (i1,2,32) wave (i0,1,16)
 */
extern "C" __global__ void __launch_bounds__(512) k_add(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane * 2;
  const int i0_t = wave;
  int block = blockIdx.x;
  const int i1_b = block % 3 * 64;
  block /= 3;
  const int i0_b = block * 64;
  float in0_t[8];
  float in1_t[8];
  float add_t[8];
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    if ((i0_b + i0_t + (q * 2) / 2 * 16 < 264) & (i1_b + i1_t + (q * 2) % 2 < 150)) ac_load_soon<2>(&in0_t[q * 2], in0 + (i0_b + i0_t + (q * 2) / 2 * 16)*150 + (i1_b + i1_t + (q * 2) % 2));
    else ac_fill<2>(&in0_t[q * 2], 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 1; ++q) {
    const int row = threadIdx.x / 8 + q * 64, col = threadIdx.x % 8 * 8;
    ac_copy<16>(smem + 0 + ((threadIdx.x / 8) % 2 * 32 + (threadIdx.x / 8) / 2 + q * 32) * 144 + (col) * 2, in1 + ((i0_b + (col)) + (i1_b + (row))*264), (i0_b + (col) < 264) & (i1_b + (row) < 150));
  }
  ac_commit();
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    in1_t[r] = ac_held(*(const f16 *)(smem + 0 + (((i1_t + r % 2)) % 2 * 32 + ((i1_t + r % 2)) / 2) * 144 + ((i0_t + r / 2 * 16)) * 2));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    add_t[r] = (in0_t[r] + in1_t[r]);
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    if ((i0_b + i0_t + (q * 2) / 2 * 16 < 264) & (i1_b + i1_t + (q * 2) % 2 < 150)) ac_store<2>(out0 + ((i0_b + i0_t + (q * 2) / 2 * 16)*150 + (i1_b + i1_t + (q * 2) % 2)), &add_t[(q * 2)]);
  }
}
