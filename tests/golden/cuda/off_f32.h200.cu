#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 32, i1 64, r0 77 | stages 6
 * predicted: 4.55 us, bound by launch, 2% of the roofline
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel matmul(in0: f32[i0:200, r0:77], in1: f32[i1:136, r0:77] of in1[77, 136] at [r0, i1]) -> out0: f32[i0:200, i1:136]
 * axes i0=200 i1=136 r0=77
 * tile i0=32 i1=64
 * grid i0, i1
 *   in0_t: f32[i0, r0] block = copy in0
 *   in1_t: f32[i1, r0] block = copy in1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   store out0 = acc
 *
 * acc: reg (i1,1,4)(i0,4,2) lane (i0,1,2)(i1,4,8)(i0,2,2) wave (i0,8,4)(i1,32,2)
 * in0_t: shared, 10240 bytes f32, ring of 1
 * in1_t: shared, 20480 bytes f32, ring of 1
 * acc: fma, 2 x 1 a wave, 77 steps
 */
extern "C" __global__ void __launch_bounds__(256) k_matmul(const float *__restrict__ in0, const float *__restrict__ in1, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t = lane % 2 + lane / 16 * 2 + wave % 4 * 8;
  const int i1_t = lane / 2 % 8 * 4 + wave / 4 * 32;
  int block = blockIdx.x;
  const int i1_b = block % 3 * 64;
  block /= 3;
  const int i0_b = block * 32;
  float acc[8];
  #pragma unroll
  for (int q = 0; q < 10; ++q) {
    const int c = threadIdx.x + q * 256;
    const int row = c / 80, col = c % 80;
    ac_copy<4>(smem + 0 + ac_swizzle<320>(c / 80, (col) * 4), in0 + ((i0_b + (row))*77 + (col)), (i0_b + (row) < 200) & ((col) < 77));
  }
  ac_commit();
  #pragma unroll
  for (int q = 0; q < 5; ++q) {
    const int c = threadIdx.x + q * 256;
    const int row = (c / 16), col = c % 16 * 4;
    ac_copy<16>(smem + 10240 + c * 16, in1 + ((i1_b + (col)) + (row)*136), (i1_b + (col) < 136) & ((row) < 77));
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll 11
  for (int kk = 0; kk < 77; kk += 1) {
    float fb[4];
    for (int r = 0; r < 1; ++r) {
      ac_load<4>(&fb[r * 4], (const float *)(smem + 10240 + (kk) * 256 + ((i1_t + (r * 4))) * 4));
    }
    float fa[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      ac_load<1>(&fa[r * 1], (const float *)(smem + 0 + ac_swizzle<320>((i0_t), (kk) * 4 ^ ((r * 4)) / 2 % 4 * 16) + ((r * 4)) * 320));
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      const int s = (r / 4 % 2 ? 3 - r % 4 : r % 4) % 4 + r / 4 % 2 * 4;
      acc[s] += fa[((s / 4))] * fb[((s % 4))];
    }
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if ((i0_b + i0_t + (q * 4) / 4 * 4 < 200) & (i1_b + i1_t + (q * 4) % 4 < 136)) ac_store<4>(out0 + ((i0_b + i0_t + (q * 4) / 4 * 4)*136 + (i1_b + i1_t + (q * 4) % 4)), &acc[(q * 4)]);
  }
}
