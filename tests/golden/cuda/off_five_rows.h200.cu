#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 5, i1 32, r0 256 | stages 4 | threads 64 | turned_store
 * predicted: 4.62 us, bound by latency, 2% of the roofline
 * rule: tiling/gpu-skinny: the schedule
 *
 * kernel matmul(in0: f16[i0:5, r0:520], in1: f16[i1:1208, r0:520] of in1[520, 1208] at [r0, i1]) -> out0: f16[i0:5, i1:1208]
 * axes i0=5 i1=1208 r0=520
 * tile i1=32 r0=256
 * grid i1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=4
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 8192 bytes f16, ring of 4
 * in1_t: shared, 16384 bytes f16, ring of 4
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 16 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 16;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block * 32;
  float acc[8];
  float cast_t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 3; ++it) {
    if (it < 3) {
      const int r0_b = it * 256;
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 32), col = ac_chunk<512>(c / 32, c % 32) * 8;
        ac_copy<16>(smem + 0 + it * 8192 + c * 16, in0 + ((row)*520 + (r0_b + (col))), ((row) < 5) & (r0_b + (col) < 520));
      }
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 32768 + it * 16384 + c * 16, in1 + ((i1_b + (col)) + (r0_b + (row))*1208), (i1_b + (col) < 1208) & (r0_b + (row) < 520));
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 3; ++it) {
    const int r0_b2 = it * 256;
    ac_wait<2>();
    ac_sync();
    const int ahead = it + 3;
    if (ahead < 3) {
      const int r0_b3 = ahead * 256;
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 32), col = ac_chunk<512>(c / 32, c % 32) * 8;
        ac_copy<16>(smem + 0 + ahead % 4 * 8192 + c * 16, in0 + ((row)*520 + (r0_b3 + (col))), ((row) < 5) & (r0_b3 + (col) < 520));
      }
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 32768 + ahead % 4 * 16384 + c * 16, in1 + ((i1_b + (col)) + (r0_b3 + (row))*1208), (i1_b + (col) < 1208) & (r0_b3 + (row) < 520));
      }
    }
    ac_commit();
    const int slot = it % 4;
    #pragma unroll
    for (int kk = 0; kk < 16; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 8192 + ac_swizzle<512>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 32768 + slot * 16384 + ac_swizzle<64>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (wave / 1 * 16 + n * 16 + lane / 16 * 8) * 2));
      }
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
          ac_mma_f16(&acc[(m * 2 + n) * 4], fa[m], fb[n]);
        }
      }
    }
  }
  ac_wait<0>();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = acc[r];
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    if (i0_t + (q * 2) / 2 % 2 * 8 < 5) ac_store<2>(box + (i0_t + (q * 2) / 2 % 2 * 8) * 40 + (i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), &cast_t[(q * 2)]);
  }
  ac_sync();
  #pragma unroll 4
  for (int c = threadIdx.x; c < 20; c += 64) {
    if (i1_b + c % 4 * 8 < 1208) ac_move<8>(out0 + (c / 4)*1208 + (i1_b + c % 4 * 8), box + (c / 4) * 40 + (c % 4 * 8));
  }
}
