#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 16, i1 32, r0 64 | stages 8 | threads 64 | turned_store | batch_copies
 * predicted: 4.80 us, bound by latency, 0% of the roofline
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel matmul(in0: bf16[i0:100, r0:141], in1: bf16[i1:136, r0:141] of in1[141, 136] at [r0, i1]) -> out0: bf16[i0:100, i1:136]
 * axes i0=100 i1=136 r0=141
 * tile i0=16 i1=32 r0=64
 * grid i0, i1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=8
 *     in0_t: bf16[i0, r0] block = copy in0
 *     in1_t: bf16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: bf16[i0, i1] fragment = map cast(bf16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 2048 bytes bf16, ring of 8
 * in1_t: shared, 4096 bytes bf16, ring of 8
 * acc: mma.m16n8k16.bf16, 1 x 2 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul(const bf16 *__restrict__ in0, const bf16 *__restrict__ in1, bf16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 16;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block % 5 * 32;
  block /= 5;
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
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 16384 + it * 4096 + c * 16, in1 + ((i1_b + (col)) + (r0_b + (row))*136), (i1_b + (col) < 136) & (r0_b + (row) < 141));
      }
      for (int q0 = 0; q0 < 16; q0 += 8) {
        ac_pack_of<1, bf16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = (q0 + q), col = threadIdx.x;
          held[q] = ac_fetched<1>(in0 + ((i0_b + (row))*141 + (r0_b + (col))), (i0_b + (row) < 100) & (r0_b + (col) < 141));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 0 + it * 2048 + ac_swizzle<128>((q0 + q), (threadIdx.x) * 2), held[q]);
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
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 16384 + ahead % 8 * 4096 + c * 16, in1 + ((i1_b + (col)) + (r0_b3 + (row))*136), (i1_b + (col) < 136) & (r0_b3 + (row) < 141));
      }
      for (int q0 = 0; q0 < 16; q0 += 8) {
        ac_pack_of<1, bf16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = (q0 + q), col = threadIdx.x;
          held[q] = ac_fetched<1>(in0 + ((i0_b + (row))*141 + (r0_b3 + (col))), (i0_b + (row) < 100) & (r0_b3 + (col) < 141));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 0 + ahead % 8 * 2048 + ac_swizzle<128>((q0 + q), (threadIdx.x) * 2), held[q]);
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
          ac_mma_bf16(&acc[(m * 2 + n) * 4], fa[m], fb[n]);
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
  bf16 *box = (bf16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_store<2>(box + (i0_t + (q * 2) / 2 % 2 * 8) * 40 + (i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), &cast_t[(q * 2)]);
  }
  ac_sync();
  const int column = threadIdx.x % 4 * 8;
  if (i1_b + column < 136) {
    for (int row2 = threadIdx.x / 4; row2 < 16; row2 += 16) {
      ac_pack_of<8, bf16> held[1];
      for (int u = 0; u < 1; ++u) {
        ac_move<8>(held[u].v, box + ((row2 + u * 16)) * 40 + (column));
      }
      for (int u = 0; u < 1; ++u) {
        if (i0_b + (row2 + u * 16) < 100) ac_move<8>(out0 + (i0_b + (row2 + u * 16))*136 + (i1_b + column), held[u].v);
      }
    }
  }
}
