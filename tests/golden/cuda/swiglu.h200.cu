#include "autocomp_cuda.cuh"

/*
 * matmul_silu_mul: matmul matmul silu mul
 * schedule: tile i0 16, i1 32, r0 64, r1 64 | stages 8 | threads 64 | turned_store
 * predicted: 4.03 us, bound by l2, 0% of the roofline
 * rule: fusion/epilogue: matmul into operand 0 of silu
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/epilogue: silu into operand 1 of mul
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel matmul_silu_mul(in0: f16[i0:64, r0:192], in1: f16[i1:136, r0:192] of in1[192, 136] at [r0, i1], in2: f16[i1:136, r0:192] of in2[192, 136] at [r0, i1]) -> out0: f16[i0:64, i1:136]
 * axes i0=64 i1=136 r0=192
 * tile i0=16 i1=32 r0=64
 * grid i0, i1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc2: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=8
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *     in2_t: f16[i1, r0] block = copy in2
 *     acc2 += mma in0_t, in2_t
 *   mul_t: f16[i0, i1] fragment = map cast(f16, acc) * silu(cast(f16, acc2))
 *   store out0 = mul_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * acc2: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * mul_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 2048 bytes f16, ring of 8
 * in1_t: shared, 4096 bytes f16, ring of 8
 * in2_t: shared, 4096 bytes f16, ring of 8
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 4 steps
 * acc2: mma.m16n8k16.f16, 1 x 2 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul_silu_mul(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
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
  float acc2[8];
  float mul_t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc2[r] = 0.0f;
  }
  for (int it = 0; it < 7; ++it) {
    if (it < 3) {
      const int r0_b = it * 64;
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 8;
        ac_copy<16>(smem + 0 + it * 2048 + c * 16, in0 + ((i0_b + (row))*192 + (r0_b + (col))), true);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 16384 + it * 4096 + c * 16, in1 + ((i1_b + (col)) + (r0_b + (row))*136), i1_b + (col) < 136);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 49152 + it * 4096 + c * 16, in2 + ((i1_b + (col)) + (r0_b + (row))*136), i1_b + (col) < 136);
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
      for (int q = 0; q < 2; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 8;
        ac_copy<16>(smem + 0 + ahead % 8 * 2048 + c * 16, in0 + ((i0_b + (row))*192 + (r0_b3 + (col))), true);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 16384 + ahead % 8 * 4096 + c * 16, in1 + ((i1_b + (col)) + (r0_b3 + (row))*136), i1_b + (col) < 136);
      }
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 49152 + ahead % 8 * 4096 + c * 16, in2 + ((i1_b + (col)) + (r0_b3 + (row))*136), i1_b + (col) < 136);
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
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 2048 + ac_swizzle<128>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 49152 + slot * 4096 + ac_swizzle<64>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (wave / 1 * 16 + n * 16 + lane / 16 * 8) * 2));
      }
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
          ac_mma_f16(&acc2[(m * 2 + n) * 4], fa[m], fb[n]);
        }
      }
    }
  }
  ac_wait<0>();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    mul_t[r] = (acc[r] * ac_silu_half(acc2[r]));
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_store<2>(box + (i0_t + (q * 2) / 2 % 2 * 8) * 40 + (i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), &mul_t[(q * 2)]);
  }
  ac_sync();
  const int column = threadIdx.x % 4 * 8;
  if (i1_b + column < 136) {
    for (int row2 = threadIdx.x / 4; row2 < 16; row2 += 16) {
      ac_pack_of<8, f16> held[1];
      for (int u = 0; u < 1; ++u) {
        ac_move<8>(held[u].v, box + ((row2 + u * 16)) * 40 + (column));
      }
      for (int u = 0; u < 1; ++u) {
        ac_move<8>(out0 + (i0_b + (row2 + u * 16))*136 + (i1_b + column), held[u].v);
      }
    }
  }
}
