#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 16, i1 32, r0 64 | stages 8 | threads 64 | turned_store | batch_copies
 * predicted: 7.00 us, bound by latency, 0% of the roofline
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel matmul(in0: f16[i0:200, r0:133], in1: f16[i1:177, r0:133] of in1[133, 177] at [r0, i1]) -> out0: f16[i0:200, i1:177]
 * axes i0=200 i1=177 r0=133
 * tile i0=16 i1=32 r0=64
 * grid i0, i1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=8
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 2048 bytes f16, ring of 8
 * in1_t: shared, 4096 bytes f16, ring of 8
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 16;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block % 6 * 32;
  block /= 6;
  const int i0_b = block * 16;
  float acc[8];
  float cast_t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 7; ++it) {
    if (it < 3) {
      const int r0_b = it * 64;
      for (int q0 = 0; q0 < 16; q0 += 8) {
        ac_pack_of<1, f16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = (q0 + q), col = threadIdx.x;
          held[q] = ac_fetched<1>(in0 + ((i0_b + (row))*133 + (r0_b + (col))), (i0_b + (row) < 200) & (r0_b + (col) < 133));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 0 + it * 2048 + ac_swizzle<128>((q0 + q), (threadIdx.x) * 2), held[q]);
        }
      }
      for (int q0 = 0; q0 < 32; q0 += 8) {
        ac_pack_of<1, f16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = threadIdx.x / 32 + (q0 + q) * 2, col = threadIdx.x % 32;
          held[q] = ac_fetched<1>(in1 + ((i1_b + (col)) + (r0_b + (row))*177), (i1_b + (col) < 177) & (r0_b + (row) < 133));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 16384 + it * 4096 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 2, (threadIdx.x % 32) * 2), held[q]);
        }
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 3; ++it) {
    const int r0_b2 = it * 64;
    ac_wait<6>();
    ac_sync();
    const int ahead = it + 7;
    if (ahead < 3) {
      const int r0_b3 = ahead * 64;
      for (int q0 = 0; q0 < 16; q0 += 8) {
        ac_pack_of<1, f16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = (q0 + q), col = threadIdx.x;
          held[q] = ac_fetched<1>(in0 + ((i0_b + (row))*133 + (r0_b3 + (col))), (i0_b + (row) < 200) & (r0_b3 + (col) < 133));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 0 + ahead % 8 * 2048 + ac_swizzle<128>((q0 + q), (threadIdx.x) * 2), held[q]);
        }
      }
      for (int q0 = 0; q0 < 32; q0 += 8) {
        ac_pack_of<1, f16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = threadIdx.x / 32 + (q0 + q) * 2, col = threadIdx.x % 32;
          held[q] = ac_fetched<1>(in1 + ((i1_b + (col)) + (r0_b3 + (row))*177), (i1_b + (col) < 177) & (r0_b3 + (row) < 133));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 16384 + ahead % 8 * 4096 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 2, (threadIdx.x % 32) * 2), held[q]);
        }
      }
    }
    ac_commit();
    const int slot = it % 8;
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 2048 + ac_swizzle<128>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 16384 + slot * 4096 + ac_swizzle<64>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (wave / 1 * 16 + n * 16 + lane / 16 * 8) * 2));
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
    ac_store<2>(box + (i0_t + (q * 2) / 2 % 2 * 8) * 40 + (i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), &cast_t[(q * 2)]);
  }
  ac_sync();
  const int column = threadIdx.x % 32;
  if (i1_b + column < 177) {
    for (int row2 = threadIdx.x / 32; row2 < 16; row2 += 16) {
      ac_pack_of<1, f16> held[8];
      #pragma unroll
      for (int u = 0; u < 8; ++u) {
        ac_move<1>(held[u].v, box + ((row2 + u * 2)) * 40 + (column));
      }
      #pragma unroll
      for (int u = 0; u < 8; ++u) {
        if (i0_b + (row2 + u * 2) < 200) ac_move<1>(out0 + (i0_b + (row2 + u * 2))*177 + (i1_b + column), held[u].v);
      }
    }
  }
}
