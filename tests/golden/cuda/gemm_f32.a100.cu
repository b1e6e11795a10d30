#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 16, i1 32, r0 100 | stages 8 | threads 64 | turned_store
 * predicted: 5.93 us, bound by latency, 3% of the roofline
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel matmul(in0: f32[i0:100, r0:100], in1: f32[i1:150, r0:100] of in1[100, 150] at [r0, i1]) -> out0: f32[i0:100, i1:150]
 * axes i0=100 i1=150 r0=100
 * tile i0=16 i1=32
 * grid i0, i1
 *   in0_t: f32[i0, r0] block = copy in0
 *   in1_t: f32[i1, r0] block = copy in1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   store out0 = acc
 *
 * acc: reg (i1,1,4)(i0,4,2) lane (i0,1,2)(i1,4,8)(i0,2,2) wave (i0,8,2)
 * in0_t: shared, 12800 bytes f32, ring of 1
 * in1_t: shared, 12800 bytes f32, ring of 1
 * acc: fma, 2 x 1 a wave, 100 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul(const float *__restrict__ in0, const float *__restrict__ in1, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t = lane % 2 + lane / 16 * 2 + wave * 8;
  const int i1_t = lane / 2 % 8 * 4;
  int block = blockIdx.x;
  const int i1_b = block % 5 * 32;
  block /= 5;
  const int i0_b = block * 16;
  float acc[8];
  #pragma unroll
  for (int q = 0; q < 12; ++q) {
    const int c = threadIdx.x + q * 64;
    const int row = (c / 25), col = ac_chunk<400>(c / 25, c % 25) * 4;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*100 + (col)), ((row) < 16) & (i0_b + (row) < 100));
  }
  if (threadIdx.x < 32) {
    const int c = threadIdx.x + 768;
    const int row = (c / 25), col = ac_chunk<400>(c / 25, c % 25) * 4;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*100 + (col)), ((row) < 16) & (i0_b + (row) < 100));
  }
  ac_commit();
  #pragma unroll 16
  for (int q = 0; q < 25; ++q) {
    const int row = threadIdx.x / 16 + q * 4, col = threadIdx.x % 16 * 2;
    ac_copy<8>(smem + 13312 + (threadIdx.x / 16 + q * 4) * 128 + (col) * 4, in1 + ((i1_b + (col)) + (row)*150), i1_b + (col) < 150);
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll 5
  for (int kk = 0; kk < 100; kk += 4) {
    float fb[16];
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      for (int r = 0; r < 1; ++r) {
        ac_load<4>(&fb[u * 4 + r * 4], (const float *)(smem + 13312 + (kk + u) * 128 + ((i1_t + (r * 4))) * 4));
      }
    }
    float fa[8];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      ac_load<4>(&fa[r * 4], (const float *)(smem + 0 + ac_swizzle<400>((i0_t), (kk) * 4 ^ ((r * 4)) / 8 % 1 * 16) + ((r * 4)) * 400));
    }
    #pragma unroll
    for (int u = 0; u < 4; ++u) {
      #pragma unroll
      for (int r = 0; r < 8; ++r) {
        const int s = (r / 4 % 2 ? 3 - r % 4 : r % 4) % 4 + r / 4 % 2 * 4;
        acc[s] += fa[((s / 4)) * 4 + u] * fb[u * 4 + ((s % 4))];
      }
    }
  }
  ac_sync();
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_store<2>(box + (i0_t + (q * 2) / 4 * 4) * 34 + (i1_t + (q * 2) % 4), &acc[(q * 2)]);
  }
  ac_sync();
  const int column = threadIdx.x % 16 * 2;
  if (i1_b + column < 150) {
    for (int row2 = threadIdx.x / 16; row2 < 16; row2 += 16) {
      ac_pack_of<2, float> held[4];
      #pragma unroll
      for (int u = 0; u < 4; ++u) {
        ac_move<2>(held[u].v, box + ((row2 + u * 4)) * 34 + (column));
      }
      #pragma unroll
      for (int u = 0; u < 4; ++u) {
        if (i0_b + (row2 + u * 4) < 100) ac_move<2>(out0 + (i0_b + (row2 + u * 4))*150 + (i1_b + column), held[u].v);
      }
    }
  }
}
