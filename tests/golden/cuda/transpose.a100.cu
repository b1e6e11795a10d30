#include "autocomp_cuda.cuh"

/*
 * add: transpose add
 * schedule: tile i0 64, i1 64; 128 threads
 * predicted: 4.24 us, bound by launch
 *
 * kernel add(in0: f16[i0:520, i1:300], in1: f16[i0:520, i1:300] of in1[300, 520] at [i1, i0]) -> out0: f16[i0:520, i1:300]
 * axes i0=520 i1=300
 * tile i0=64 i1=64
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   in1_t: f16[i0, i1] fragment = copy in1
 *   add_t: f16[i0, i1] fragment = map in0_t + in1_t
 *   store out0 = add_t
 *
 * in0_t: reg (i1,1,4)(i0,8,8) lane (i1,4,16)(i0,1,2) wave (i0,2,4)
 * in1_t: reg (i1,1,4)(i0,8,8) lane (i1,4,16)(i0,1,2) wave (i0,2,4)
 * add_t: reg (i1,1,4)(i0,8,8) lane (i1,4,16)(i0,1,2) wave (i0,2,4)
 */
extern "C" __global__ void __launch_bounds__(128) add(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 16 * 4;
  const int i0_t = lane / 16 + wave * 2;
  int block = blockIdx.x;
  const int i1_b = block % 5 * 64;
  block /= 5;
  const int i0_b = block * 64;
  float in0_t[32];
  float in1_t[32];
  float add_t[32];
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if (i0_b + i0_t + (q * 4) / 4 * 8 < 520 && i1_b + i1_t + (q * 4) % 4 < 300) ac_load<4>(&in0_t[q * 4], in0 + (i0_b + i0_t + (q * 4) / 4 * 8)*300 + (i1_b + i1_t + (q * 4) % 4));
    else ac_fill<4>(&in0_t[q * 4], 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    const int c = threadIdx.x + q * 128;
    const int row = (c / 8) % 16 * 4 + (c / 8) / 16, col = ac_chunk<128>(c / 8, c % 8) * 8;
    ac_copy<16>(smem + 0 + c * 16, in1 + (i0_b + (col)) + (i1_b + (row))*520, i0_b + (col) < 520 && i1_b + (row) < 300);
  }
  ac_commit();
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 32; ++r) {
    in1_t[r] = ac_held(*(const f16 *)(smem + 0 + ac_swizzle<128>(((i1_t + r % 4)) % 4 * 16 + ((i1_t + r % 4)) / 4, ((i0_t + r / 4 * 8)) * 2)));
  }
  #pragma unroll
  for (int r = 0; r < 32; ++r) {
    add_t[r] = (in0_t[r] + in1_t[r]);
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if (i0_b + i0_t + (q * 4) / 4 * 8 < 520 && i1_b + i1_t + (q * 4) % 4 < 300) ac_store<4>(out0 + (i0_b + i0_t + (q * 4) / 4 * 8)*300 + (i1_b + i1_t + (q * 4) % 4), &add_t[(q * 4)]);
  }
}
