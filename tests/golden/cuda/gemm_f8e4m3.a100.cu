#include "autocomp_cuda.cuh"

/*
 * cast_matmul: cast cast transpose matmul
 * schedule: tile i0 16, i1 32, r0 99 | stages 8 | threads 64 | turned_store | batch_copies
 * predicted: 7.68 us, bound by latency, 0% of the roofline
 * rule: fusion/view: cast into operand 0 of transpose
 * rule: fusion/contract-prologue-a: cast into operand 0 of matmul
 * rule: fusion/contract-prologue-b: transpose into operand 1 of matmul
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel cast_matmul(in0: f8e4m3[i0:100, r0:99], in1: f8e4m3[i1:75, r0:99]) -> out0: f16[i0:100, i1:75]
 * axes i0=100 i1=75 r0=99
 * tile i0=16 i1=32
 * grid i0, i1
 *   in0_t: f8e4m3[i0, r0] block = copy in0
 *   in1_t: f8e4m3[i1, r0] block = copy in1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 1792 bytes f8e4m3, ring of 1
 * in1_t: shared, 3584 bytes f8e4m3, ring of 1
 * acc: mma.m16n8k16.f16 of f8e4m3, 1 x 2 a wave, 7 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_cast_matmul(const f8e4m3 *__restrict__ in0, const f8e4m3 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 16;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block % 3 * 32;
  block /= 3;
  const int i0_b = block * 16;
  float acc[8];
  float cast_t[8];
  for (int q0 = 0; q0 < 28; q0 += 7) {
    ac_pack_of<1, f8e4m3> held[7];
    #pragma unroll
    for (int q = 0; q < 7; ++q) {
      const int c = threadIdx.x + (q0 + q) * 64;
      const int row = c / 112, col = c % 112;
      held[q] = ac_fetched<1>(in0 + ((i0_b + (row))*99 + (col)), (i0_b + (row) < 100) & ((col) < 99));
    }
    #pragma unroll
    for (int q = 0; q < 7; ++q) {
      const int c = threadIdx.x + (q0 + q) * 64;
      ac_keep(smem + 0 + ac_swizzle<112>(c / 112, (c % 112) * 1), held[q]);
    }
  }
  ac_commit();
  for (int q0 = 0; q0 < 56; q0 += 8) {
    ac_pack_of<1, f8e4m3> held[8];
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
      const int c = threadIdx.x + (q0 + q) * 64;
      const int row = c / 112, col = c % 112;
      held[q] = ac_fetched<1>(in1 + ((i1_b + (row))*99 + (col)), (i1_b + (row) < 75) & ((col) < 99));
    }
    #pragma unroll
    for (int q = 0; q < 8; ++q) {
      const int c = threadIdx.x + (q0 + q) * 64;
      ac_keep(smem + 2048 + ac_swizzle<112>(c / 112, (c % 112) * 1), held[q]);
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
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        ac_take<f8e4m3, f16, 2>(fa[m], q * 2, smem + 0 + ac_swizzle<112>(0 + m * 16 + lane / 4 + (q * 2) / 2 % 2 * 8, (kk * 16 + lane % 4 * 4 + (q * 2) % 2 + (q * 2) / 4 * 2) * 1));
      }
    }
    #pragma unroll
    for (int n = 0; n < 2; ++n) {
      for (int q = 0; q < 1; ++q) {
        ac_take<f8e4m3, f16, 4>(fb[n], q * 4, smem + 2048 + ac_swizzle<112>(wave / 1 * 16 + n * 8 + lane / 4, (kk * 16 + lane % 4 * 4 + (q * 4)) * 1));
      }
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
        if (i0_b + (row2 + u * 2) < 100) ac_move<1>(out0 + (i0_b + (row2 + u * 2))*75 + (i1_b + column), held[u].v);
      }
    }
  }
}
