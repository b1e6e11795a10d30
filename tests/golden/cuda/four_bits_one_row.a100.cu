#include "autocomp_cuda.cuh"

/*
 * matmul_bitand_shr_concat_3more: bitand shr reshape reshape reshape concat reshape cast sub mul reshape matmul
 * schedule: tile i0 32, r0 2, r1 32, r2 2 | stages 4 | threads 64 | prefetch_factors | turned_store
 * predicted: 4.56 us, bound by l2, 0% of the roofline
 * rule: fusion/view: bitand into operand 0 of reshape
 * rule: fusion/view: shr into operand 0 of reshape
 * rule: fusion/map-into-map: reshape into operand 0 of concat
 * rule: fusion/map-into-map: reshape into operand 1 of concat
 * rule: fusion/view: concat into operand 0 of reshape
 * rule: fusion/map-into-map: reshape into operand 0 of cast
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/map-into-map: sub into operand 0 of mul
 * rule: fusion/view: mul into operand 0 of reshape
 * rule: fusion/contract-prologue-b: reshape into operand 1 of matmul
 * rule: tiling/gpu-skinny: the schedule
 *
 * kernel matmul_bitand_shr_concat_3more(in0: f16[r0:4, r1:32, r2:2] of in0[256] at [64*r0 + 2*r1 + r2], in1: u8[i0:96, r0:4, r1:32, r2:2] of in1[128, 96] at [32*r0 + r1, i0 + 96*r2] where -1*r2 >= 0 else 0.0, in1_v: u8[i0:96, r0:4, r1:32, r2:2] of in1[128, 96] at [32*r0 + r1, i0 + 96*r2 - 96] where r2 - 1 >= 0 else 0.0, in2: f16[i0:96, r0:4] of in2[4, 96] at [r0, i0]) -> out0: f16[i0:96]
 * axes i0=96 r0=4 r1=32 r2=2
 * tile i0=32 r0=2
 * grid i0
 *   acc: f32[i0] fragment = fill 0.0
 *   pipelined r0 stages=4
 *     in0_t: f16[r0, r1, r2] block = copy in0
 *     in1_t: u8[i0, r0, r1, r2] fragment = copy in1
 *     in1_v_t: u8[i0, r0, r1, r2] fragment = copy in1_v
 *     in2_t: f16[i0, r0] fragment = copy in2
 *     mul_t: f16[i0, r0, r1, r2] fragment = map (cast(f16, where(idx(r2) < 1, bitand(in1_t, 15), shr(in1_v_t, 4))) - 8.0) * in2_t
 *     acc += mma in0_t, mul_t
 *   cast_t: f16[i0] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i0,1,2)(m of 1,8,2)(i0,8,2) lane (i0,2,4)(m of 1,1,8) wave (i0,16,2)
 * in1_t: reg (i0,1,16)(r1,16,2)(r0,1,2) lane (i0,16,2)(r2,1,2)(r1,1,8) wave (r1,8,2)
 * in1_v_t: reg (i0,1,16)(r1,16,2)(r0,1,2) lane (i0,16,2)(r2,1,2)(r1,1,8) wave (r1,8,2)
 * in2_t: reg (i0,1,16)(r0,1,2) lane (i0,16,2)(-,0,2)(-,0,8) wave (-,0,2)
 * mul_t: reg (i0,1,16)(r1,16,2)(r0,1,2) lane (i0,16,2)(r2,1,2)(r1,1,8) wave (r1,8,2)
 * cast_t: reg (i0,1,2)(i0,8,2) lane (i0,2,4)(-,0,8) wave (i0,16,2)
 * in0_t: shared, 4096 bytes f16, ring of 4
 * mul_t: shared, 8192 bytes f16, ring of 1
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 8 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul_bitand_shr_concat_3more(const f16 *__restrict__ in0, const unsigned char *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t2 = lane % 4 * 2 + wave * 16;
  const int r1_t = lane / 4 + wave * 8;
  const int r2_t = lane / 2 % 2;
  const int i0_t = lane % 2 * 16;
  int block = blockIdx.x;
  const int i0_b = block * 32;
  float acc[8];
  alignas(16) unsigned char in1_t[64];
  alignas(16) unsigned char in1_v_t[64];
  float in2_t[32];
  float mul_t[64];
  float cast_t[4];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 3; ++it) {
    if (it < 2) {
      const int r0_b = it * 2;
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int row = q, col = threadIdx.x * 2;
        ac_copy<4>(smem + 0 + it * 4096 + ac_swizzle<256>(q, (col) * 2), in0 + ((r0_b + (col / 64))*64 + (col / 2 % 32)*2 + (col % 2)), true);
      }
    }
    ac_commit();
  }
  unsigned in2_t_asked[16];
  const int r0_b2 = 0 * 2;
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_ask<8>(&in2_t_asked[q * 4], in2 + (i0_b + i0_t + (q * 8) % 16) + (r0_b2 + (q * 8) / 16)*96);
  }
  for (int it = 0; it < 2; ++it) {
    const int r0_b3 = it * 2;
    ac_wait<2>();
    ac_sync();
    const int ahead = it + 3;
    if (ahead < 2) {
      const int r0_b4 = ahead * 2;
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int row = q, col = threadIdx.x * 2;
        ac_copy<4>(smem + 0 + ahead % 4 * 4096 + ac_swizzle<256>(q, (col) * 2), in0 + ((r0_b4 + (col / 64))*64 + (col / 2 % 32)*2 + (col % 2)), true);
      }
    }
    ac_commit();
    const int slot = it % 4;
    #pragma unroll
    for (int q = 0; q < 4; ++q) {
      ac_load_where<16>(&in1_t[q * 16], -1*(r2_t) >= 0, in1 + (i0_b + i0_t + (q * 16) % 16) + (r0_b3 + (q * 16) / 32)*3072 + (r1_t + (q * 16) / 16 % 2 * 16)*96 + (r2_t)*96, 0u);
    }
    #pragma unroll
    for (int q = 0; q < 4; ++q) {
      ac_load_where<16>(&in1_v_t[q * 16], (r2_t) + -1 >= 0, in1 + (i0_b + i0_t + (q * 16) % 16) + (r0_b3 + (q * 16) / 32)*3072 + (r1_t + (q * 16) / 16 % 2 * 16)*96 + (r2_t)*96 - 96, 0u);
    }
    #pragma unroll
    for (int q = 0; q < 4; ++q) {
      ac_unpack<f16, 8>(&in2_t[q * 8], &in2_t_asked[q * 4]);
    }
    #pragma unroll
    for (int r = 0; r < 64; ++r) {
      mul_t[r] = (ac_small((unsigned char)(((-1*(r2_t) >= 0) ? (unsigned char)((in1_t[r] & 15u)) : (unsigned char)(ac_shr<unsigned char>(in1_v_t[r], 4u)))), 8.0f) * in2_t[(r % 16) + (r / 32) * 16]);
    }
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
      ac_store<8>((f16 *)(smem + 16384 + ac_swizzle<64>((r2_t) + (r1_t + (q * 8) / 16 % 2 * 16) * 2 + ((q * 8) / 32) * 64, ((i0_t + (q * 8) % 16)) * 2)), &mul_t[(q * 8)]);
    }
    if (it + 1 < 2) {
      const int r0_b5 = (it + 1) * 2;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        ac_ask<8>(&in2_t_asked[q * 4], in2 + (i0_b + i0_t + (q * 8) % 16) + (r0_b5 + (q * 8) / 16)*96);
      }
    }
    ac_sync();
    #pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 4096 + ac_swizzle<256>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 16384 + ac_swizzle<64>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (wave / 1 * 16 + n * 16 + lane / 16 * 8) * 2));
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
  for (int r = 0; r < 4; ++r) {
    cast_t[r] = acc[(r % 2) + (r / 2) * 4];
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if (lane / 4 == 0) ac_store<2>(box + (i0_t2 + (q * 2) % 2 + (q * 2) / 2 * 8), &cast_t[(q * 2)]);
  }
  ac_sync();
  #pragma unroll 4
  for (int c = threadIdx.x; c < 4; c += 64) {
    ac_move<8>(out0 + (i0_b + c % 4 * 8), box + (c % 4 * 8));
  }
}
