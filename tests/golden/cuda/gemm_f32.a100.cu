#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 16, i1 16, r0 100 | stages 4 | threads 64 | instruction f64 | turned_store
 * predicted: 5.39 us, bound by launch, 3% of the roofline
 * rule: tiling/gpu-small-products: the schedule
 *
 * kernel matmul(in0: f32[i0:100, r0:100], in1: f32[i1:150, r0:100] of in1[100, 150] at [r0, i1]) -> out0: f32[i0:100, i1:150]
 * axes i0=100 i1=150 r0=100
 * tile i0=16 i1=16
 * grid i0, i1
 *   in0_t: f32[i0, r0] block = copy in0
 *   in1_t: f32[i1, r0] block = copy in1
 *   acc: f64[i0, i1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   cast_t: f32[i0, i1] fragment = map cast(f32, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2) lane (i1,2,4)(i0,1,8) wave (i1,8,2)
 * cast_t: reg (i1,1,2)(i0,8,2) lane (i1,2,4)(i0,1,8) wave (i1,8,2)
 * in0_t: shared, 6400 bytes f32, ring of 1
 * in1_t: shared, 6400 bytes f32, ring of 1
 * acc: mma.m8n8k4.f64.f32, 2 x 1 a wave, 25 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul(const float *__restrict__ in0, const float *__restrict__ in1, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 8;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block % 10 * 16;
  block /= 10;
  const int i0_b = block * 16;
  double acc[4];
  float cast_t[4];
  #pragma unroll
  for (int q = 0; q < 6; ++q) {
    const int c = threadIdx.x + q * 64;
    const int row = (c / 25), col = ac_chunk<400>(c / 25, c % 25) * 4;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*100 + (col)), i0_b + (row) < 100);
  }
  if (threadIdx.x < 16) {
    const int c = threadIdx.x + 384;
    const int row = (c / 25), col = ac_chunk<400>(c / 25, c % 25) * 4;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*100 + (col)), i0_b + (row) < 100);
  }
  ac_commit();
  #pragma unroll
  for (int q = 0; q < 12; ++q) {
    const int row = threadIdx.x / 8 + q * 8, col = threadIdx.x % 8 * 2;
    ac_copy<8>(smem + 7168 + ac_swizzle<64>(threadIdx.x / 8 + q * 8, (col) * 4), in1 + ((i1_b + (col)) + (row)*150), i1_b + (col) < 150);
  }
  if (threadIdx.x < 32) {
    const int row = threadIdx.x / 8 + 12 * 8, col = threadIdx.x % 8 * 2;
    ac_copy<8>(smem + 7168 + ac_swizzle<64>(threadIdx.x / 8 + 12 * 8, (col) * 4), in1 + ((i1_b + (col)) + (row)*150), i1_b + (col) < 150);
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    acc[r] = 0.0;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int kk = 0; kk < 25; ++kk) {
    double fa[2][1], fb[1][1];
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
      for (int q = 0; q < 1; ++q) {
        ac_take<float, double, 1>(fa[m], q, smem + 0 + ac_swizzle<400>(0 + m * 8 + lane / 4, (kk * 4 + lane % 4) * 4));
      }
    }
    for (int n = 0; n < 1; ++n) {
      for (int q = 0; q < 1; ++q) {
        ac_take<float, double, 1>(fb[n], q, smem + 7168 + ac_swizzle<64>(kk * 4 + lane % 4, (wave / 1 * 8 + n * 8 + lane / 4) * 4));
      }
    }
    #pragma unroll
    for (int m = 0; m < 2; ++m) {
      for (int n = 0; n < 1; ++n) {
        ac_mma_f64_m8(&acc[(m * 1 + n) * 2], fa[m], fb[n]);
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    cast_t[r] = ((float)(acc[r]));
  }
  ac_sync();
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_store<2>(box + (i0_t + (q * 2) / 2 * 8) * 20 + (i1_t + (q * 2) % 2), &cast_t[(q * 2)]);
  }
  ac_sync();
  const int column = threadIdx.x % 8 * 2;
  if (i1_b + column < 150) {
    for (int row2 = threadIdx.x / 8; row2 < 16; row2 += 16) {
      ac_pack_of<2, float> held[2];
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        ac_move<2>(held[u].v, box + ((row2 + u * 8)) * 20 + (column));
      }
      #pragma unroll
      for (int u = 0; u < 2; ++u) {
        if (i0_b + (row2 + u * 8) < 100) ac_move<2>(out0 + (i0_b + (row2 + u * 8))*150 + (i1_b + column), held[u].v);
      }
    }
  }
}
