#include "autocomp_cuda.cuh"

/*
 * mul_silu_matmul: mul silu matmul
 * schedule: tile i0 16, i1 32, r0 99 | stages 8 | threads 64 | turned_store | batch_copies
 * predicted: 6.60 us, bound by latency, 0% of the roofline
 * rule: fusion/map-into-map: mul into operand 0 of silu
 * rule: fusion/contract-prologue-a: silu into operand 0 of matmul
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel mul_silu_matmul(in0: f16[i0:101, r0:99], in1: f16[r0:99], in2: f16[i1:75, r0:99] of in2[99, 75] at [r0, i1]) -> out0: f16[i0:101, i1:75]
 * axes i0=101 i1=75 r0=99
 * tile i0=16 i1=32
 * grid i0, i1
 *   in0_t: f16[i0, r0] fragment = copy in0
 *   in1_t: f16[r0] fragment = copy in1
 *   silu_t: f16[i0, r0] fragment = map silu(in0_t * in1_t)
 *   in2_t: f16[i1, r0] block = copy in2
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc += mma silu_t, in2_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: reg (r0,64,2)(i0,1,16) lane (r0,1,32) wave (r0,32,2)
 * in1_t: reg (r0,64,2) lane (r0,1,32) wave (r0,32,2)
 * silu_t: reg (r0,64,2)(i0,1,16) lane (r0,1,32) wave (r0,32,2)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * silu_t: shared, 3584 bytes f16, ring of 1
 * in2_t: shared, 7168 bytes f16, ring of 1
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 7 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_mul_silu_matmul(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 16;
  const int i0_t = lane / 4;
  const int r0_t = lane + wave * 32;
  int block = blockIdx.x;
  const int i1_b = block % 3 * 32;
  block /= 3;
  const int i0_b = block * 16;
  float in0_t[32];
  float in1_t[2];
  float silu_t[32];
  float acc[8];
  float cast_t[8];
  ac_clear<3584, 64>(smem + 0);
  #pragma unroll
  for (int q = 0; q < 32; ++q) {
    ac_load_where<1>(&in0_t[q], (i0_b + q / 2 < 101) & (r0_t + q % 2 * 64 < 99), in0 + (i0_b + q / 2)*99 + (r0_t + q % 2 * 64), 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_load_where<1>(&in1_t[q], r0_t + q * 64 < 99, in1 + (r0_t + q * 64), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 32; ++r) {
    silu_t[r] = ac_silu_half((in0_t[r] * in1_t[(r % 2)]));
  }
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 32; ++r) {
    if (r0_t + r % 2 * 64 < 99) *(f16 *)(smem + 0 + ac_swizzle<224>((r / 2), ((r0_t + r % 2 * 64)) * 2)) = ac_stored<f16>(silu_t[r]);
  }
  for (int q0 = 0; q0 < 56; q0 += 8) {
    ac_pack_of<1, f16> held[8];
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
      const int row = threadIdx.x / 32 + (q0 + q) * 2, col = threadIdx.x % 32;
      held[q] = ac_fetched<1>(in2 + ((i1_b + (col)) + (row)*75), (i1_b + (col) < 75) & ((row) < 99));
    }
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
      ac_keep(smem + 4096 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 2, (threadIdx.x % 32) * 2), held[q]);
    }
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int kk = 0; kk < 7; ++kk) {
    unsigned fa[1][4], fb[2][2];
    for (int m = 0; m < 1; ++m) {
      ac_ldmatrix4(fa[m], smem + 0 + ac_swizzle<224>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
    }
    for (int n = 0; n < 1; ++n) {
      ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 4096 + ac_swizzle<64>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (wave / 1 * 16 + n * 16 + lane / 16 * 8) * 2));
    }
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int n = 0; n < 2; ++n) {
        ac_mma_f16(&acc[(m * 2 + n) * 4], fa[m], fb[n]);
      }
    }
  }
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
  if (i1_b + column < 75) {
    for (int row2 = threadIdx.x / 32; row2 < 16; row2 += 16) {
      ac_pack_of<1, f16> held[8];
      #pragma unroll
      for (int u = 0; u < 8; ++u) {
        ac_move<1>(held[u].v, box + ((row2 + u * 2)) * 40 + (column));
      }
      #pragma unroll
      for (int u = 0; u < 8; ++u) {
        if (i0_b + (row2 + u * 2) < 101) ac_move<1>(out0 + (i0_b + (row2 + u * 2))*75 + (i1_b + column), held[u].v);
      }
    }
  }
}
