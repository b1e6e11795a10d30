#include "autocomp_cuda.cuh"

/*
 * conv: transpose transpose conv transpose
 * schedule: tile i0 1, i1 32, i2 2, i3 16, r0 1, r1 3, r2 24 | stages 8 | threads 128 | turned_store | batch_copies
 * predicted: 7.54 us, bound by latency, 0% of the roofline
 * rule: layout/conv-channels-last: made transpose f16[2, 29, 31, 24]
 * rule: layout/conv-channels-last: made transpose f16[40, 3, 3, 24]
 * rule: layout/conv-channels-last: made conv f16[2, 15, 16, 40]
 * rule: layout/conv-channels-last: made transpose f16[2, 40, 15, 16]
 * rule: fusion/view: conv into operand 0 of transpose
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel conv(in0: f16[i0:2, i2:15, i3:16, r0:3, r1:3, r2:24] of in0[2, 24, 29, 31] at [i0, r2, 2*i2 + r0 - 1, 2*i3 + r1 - 1] where 2*i2 + r0 - 1 >= 0, -2*i2 - 1*r0 + 29 >= 0, 2*i3 + r1 - 1 >= 0, -2*i3 - 1*r1 + 31 >= 0 else 0.0, in1: f16[i1:40, r0:3, r1:3, r2:24] of in1[40, 24, 3, 3] at [i1, r2, r0, r1]) -> out0: f16[i0:2, i1:40, i2:15, i3:16]
 * axes i0=2 i1=40 i2=15 i3=16 r0=3 r1=3 r2=24
 * tile i0=1 i1=32 i2=2 r0=1
 * grid i0, i1, i2
 *   acc: f32[i0, i1, i2, i3] fragment = fill 0.0
 *   pipelined r0 stages=8
 *     in0_t: f16[i0, i2, i3, r0, r1, r2] block = copy in0
 *     in1_t: f16[i1, r0, r1, r2] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1, i2, i3] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i2,1,2)(i1,16,2)
 * cast_t: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i2,1,2)(i1,16,2)
 * in0_t: shared, 5120 bytes f16, ring of 8
 * in1_t: shared, 5120 bytes f16, ring of 8
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 5 steps
 */
extern "C" __global__ void __launch_bounds__(128) k_conv(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i3_t = lane / 4;
  const int i2_t = wave % 2;
  const int i1_t = lane % 4 * 2 + wave / 2 * 16;
  int block = blockIdx.x;
  const int i2_b = block % 8 * 2;
  block /= 8;
  const int i1_b = block % 2 * 32;
  block /= 2;
  const int i0_b = block;
  float acc[8];
  float cast_t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 7; ++it) {
    if (it < 3) {
      const int r0_b = it;
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          const int row = c / 80, col = c % 80;
          held[q] = ac_fetched<1>(in0 + (i0_b*21576 + (i2_b + (row / 16))*62 + (row % 16)*2 + r0_b*31 + (col % 3) + (col / 3)*899 - 32), (threadIdx.x + (q0 + q) * 128 < 2560) & (i2_b + (row / 16) < 15) & ((col / 3) < 24) & (2*(i2_b + (row / 16)) + r0_b + -1 >= 0) & (-2*(i2_b + (row / 16)) + -1*r0_b + 29 >= 0) & (2*(row % 16) + (col % 3) + -1 >= 0) & (-2*(row % 16) + -1*(col % 3) + 31 >= 0));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 0 + it * 5120 + ac_swizzle<160>(c / 80, (c % 80) * 2), held[q]);
        }
      }
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          const int row = c / 80, col = c % 80;
          held[q] = ac_fetched<1>(in1 + ((i1_b + (row))*216 + r0_b*3 + (col % 3) + (col / 3)*9), (threadIdx.x + (q0 + q) * 128 < 2560) & (i1_b + (row) < 40) & ((col / 3) < 24));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 40960 + it * 5120 + ac_swizzle<160>(c / 80, (c % 80) * 2), held[q]);
        }
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 3; ++it) {
    const int r0_b2 = it;
    ac_wait<6>();
    ac_sync();
    const int ahead = it + 7;
    if (ahead < 3) {
      const int r0_b3 = ahead;
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          const int row = c / 80, col = c % 80;
          held[q] = ac_fetched<1>(in0 + (i0_b*21576 + (i2_b + (row / 16))*62 + (row % 16)*2 + r0_b3*31 + (col % 3) + (col / 3)*899 - 32), (threadIdx.x + (q0 + q) * 128 < 2560) & (i2_b + (row / 16) < 15) & ((col / 3) < 24) & (2*(i2_b + (row / 16)) + r0_b3 + -1 >= 0) & (-2*(i2_b + (row / 16)) + -1*r0_b3 + 29 >= 0) & (2*(row % 16) + (col % 3) + -1 >= 0) & (-2*(row % 16) + -1*(col % 3) + 31 >= 0));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 0 + ahead % 8 * 5120 + ac_swizzle<160>(c / 80, (c % 80) * 2), held[q]);
        }
      }
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          const int row = c / 80, col = c % 80;
          held[q] = ac_fetched<1>(in1 + ((i1_b + (row))*216 + r0_b3*3 + (col % 3) + (col / 3)*9), (threadIdx.x + (q0 + q) * 128 < 2560) & (i1_b + (row) < 40) & ((col / 3) < 24));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 40960 + ahead % 8 * 5120 + ac_swizzle<160>(c / 80, (c % 80) * 2), held[q]);
        }
      }
    }
    ac_commit();
    const int slot = it % 8;
    #pragma unroll
    for (int kk = 0; kk < 5; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 5120 + ac_swizzle<160>(wave % 2 * 16 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 40960 + slot * 5120 + ac_swizzle<160>(wave / 2 * 16 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
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
  for (int q = 0; q < 8; ++q) {
    ac_store<1>(box + (i1_t + q % 2 + q / 4 * 8) * 40 + (i2_t) * 16 + (i3_t + q / 2 % 2 * 8), &cast_t[q]);
  }
  ac_sync();
  const int column = threadIdx.x % 2 * 8;
  for (int row2 = threadIdx.x / 2; row2 < 64; row2 += 64) {
    ac_pack_of<8, f16> held[1];
    for (int u = 0; u < 1; ++u) {
      ac_move<8>(held[u].v, box + ((row2 + u * 64) / 2) * 40 + ((row2 + u * 64) % 2) * 16 + (column));
    }
    for (int u = 0; u < 1; ++u) {
      if ((i1_b + (row2 + u * 64) / 2 < 40) & (i2_b + (row2 + u * 64) % 2 < 15)) ac_move<8>(out0 + (i0_b)*9600 + (i1_b + (row2 + u * 64) / 2)*240 + (i2_b + (row2 + u * 64) % 2)*16 + (column), held[u].v);
    }
  }
}
