#include "autocomp_cuda.cuh"

/*
 * conv: transpose conv transpose
 * schedule: tile i0 1, i1 1, i2 12, i3 2, i4 23, r0 1, r1 3, r2 6 | stages 8 | threads 64 | pdl | late_launch | turned_store | batch_copies
 * predicted: 4.38 us, bound by launch, 0% of the roofline
 * rule: layout/conv-channels-last: made transpose f16[48, 3, 3, 6]
 * rule: layout/conv-channels-last: made conv f16[2, 21, 23, 48]
 * rule: layout/conv-channels-last: made transpose f16[2, 48, 21, 23]
 * rule: fusion/view: conv into operand 0 of transpose
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel conv(in0: f16[i0:2, i1:4, i3:21, i4:23, r0:3, r1:3, r2:6] of in0[2, 21, 23, 24] at [i0, i3 + 2*r0 - 2, i4 + 2*r1 - 2, 6*i1 + r2] where i3 + 2*r0 - 2 >= 0, -1*i3 - 2*r0 + 22 >= 0, i4 + 2*r1 - 2 >= 0, -1*i4 - 2*r1 + 24 >= 0 else 0.0, in1: f16[i1:4, i2:12, r0:3, r1:3, r2:6] of in1[48, 6, 3, 3] at [12*i1 + i2, r2, r0, r1]) -> out0: f16[i0:2, i1:4, i2:12, i3:21, i4:23] of out0[2, 48, 21, 23] at [i0, 12*i1 + i2, i3, i4]
 * axes i0=2 i1=4 i2=12 i3=21 i4=23 r0=3 r1=3 r2=6
 * tile i0=1 i1=1 i3=2 r0=1
 * grid i0, i1, i3
 *   acc: f32[i0, i1, i2, i3, i4] fragment = fill 0.0
 *   pipelined r0 stages=8
 *     in0_t: f16[i0, i1, i3, i4, r0, r1, r2] block = copy in0
 *     in1_t: f16[i1, i2, r0, r1, r2] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1, i2, i3, i4] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i2,1,2)(i4,8,2)(i2,8,2)(i4,16,2) lane (i2,2,4)(i4,1,8) wave (i3,1,2)
 * cast_t: reg (i2,1,2)(i4,8,2)(i2,8,2)(i4,16,2) lane (i2,2,4)(i4,1,8) wave (i3,1,2)
 * in0_t: shared, 4096 bytes f16, ring of 8
 * in1_t: shared, 1024 bytes f16, ring of 8
 * acc: mma.m16n8k16.f16, 2 x 2 a wave, 2 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_conv(const f16 *in0, const f16 *in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i4_t = lane / 4;
  const int i3_t = wave;
  const int i2_t = lane % 4 * 2;
  int block = blockIdx.x;
  const int i3_b = block % 11 * 2;
  block /= 11;
  const int i1_b = block % 4;
  block /= 4;
  const int i0_b = block;
  float acc[16];
  float cast_t[16];
  ac_launch_wait();
  #pragma unroll
  for (int r = 0; r < 16; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 7; ++it) {
    if (it < 3) {
      const int r0_b = it;
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int row = threadIdx.x / 16 + q * 4, col = threadIdx.x % 16 * 2;
        ac_copy<4>(smem + 0 + it * 4096 + ac_swizzle<64>(threadIdx.x / 16 + q * 4, (col) * 2), in0 + (i0_b*11592 + i1_b*6 + (i3_b + (row / 32))*552 + (row % 32)*24 + r0_b*1104 + (col / 6)*48 + (col % 6) - 1152), (i3_b + (row / 32) < 21) & ((row % 32) < 23) & ((col / 6) < 3) & ((i3_b + (row / 32)) + 2*r0_b + -2 >= 0) & (-1*(i3_b + (row / 32)) + -2*r0_b + 22 >= 0) & ((row % 32) + 2*(col / 6) + -2 >= 0) & (-1*(row % 32) + -2*(col / 6) + 24 >= 0));
      }
      for (int q0 = 0; q0 < 8; q0 += 8) {
        ac_pack_of<1, f16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = threadIdx.x / 32 + (q0 + q) * 2, col = threadIdx.x % 32;
          held[q] = ac_fetched<1>(in1 + (i1_b*648 + (row)*54 + r0_b*3 + (col / 6) + (col % 6)*9), ((row) < 12) & ((col / 6) < 3));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 32768 + it * 1024 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 2, (threadIdx.x % 32) * 2), held[q]);
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
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int row = threadIdx.x / 16 + q * 4, col = threadIdx.x % 16 * 2;
        ac_copy<4>(smem + 0 + ahead % 8 * 4096 + ac_swizzle<64>(threadIdx.x / 16 + q * 4, (col) * 2), in0 + (i0_b*11592 + i1_b*6 + (i3_b + (row / 32))*552 + (row % 32)*24 + r0_b3*1104 + (col / 6)*48 + (col % 6) - 1152), (i3_b + (row / 32) < 21) & ((row % 32) < 23) & ((col / 6) < 3) & ((i3_b + (row / 32)) + 2*r0_b3 + -2 >= 0) & (-1*(i3_b + (row / 32)) + -2*r0_b3 + 22 >= 0) & ((row % 32) + 2*(col / 6) + -2 >= 0) & (-1*(row % 32) + -2*(col / 6) + 24 >= 0));
      }
      for (int q0 = 0; q0 < 8; q0 += 8) {
        ac_pack_of<1, f16> held[8];
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          const int row = threadIdx.x / 32 + (q0 + q) * 2, col = threadIdx.x % 32;
          held[q] = ac_fetched<1>(in1 + (i1_b*648 + (row)*54 + r0_b3*3 + (col / 6) + (col % 6)*9), ((row) < 12) & ((col / 6) < 3));
        }
        #pragma unroll
        for (int q = 0; q < 8; ++q) {
          ac_keep(smem + 32768 + ahead % 8 * 1024 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 2, (threadIdx.x % 32) * 2), held[q]);
        }
      }
    }
    ac_commit();
    const int slot = it % 8;
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      unsigned fa[2][4], fb[2][2];
      #pragma unroll
      for (int m = 0; m < 2; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 4096 + ac_swizzle<64>(wave % 2 * 32 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 32768 + slot * 1024 + ac_swizzle<64>(0 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
      }
      #pragma unroll
      for (int m = 0; m < 2; ++m) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
          ac_mma_f16(&acc[(m * 2 + n) * 4], fa[m], fb[n]);
        }
      }
    }
  }
  ac_wait<0>();
  ac_launch_next();
  #pragma unroll
  for (int r = 0; r < 16; ++r) {
    cast_t[r] = acc[r];
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 16; ++q) {
    if ((i2_t + q % 2 + q / 4 % 2 * 8 < 12) & (i4_t + q / 2 % 2 * 8 + q / 8 * 16 < 23)) ac_store<1>(box + (i2_t + q % 2 + q / 4 % 2 * 8) * 47 + (i3_t) * 23 + (i4_t + q / 2 % 2 * 8 + q / 8 * 16), &cast_t[q]);
  }
  ac_sync();
  #pragma unroll 4
  for (int c = threadIdx.x; c < 552; c += 64) {
    if (i3_b + c / 23 % 2 < 21) ac_move<1>(out0 + (i0_b)*23184 + (i1_b)*5796 + (c / 23 / 2)*483 + (i3_b + c / 23 % 2)*23 + (c % 23), box + (c / 23 / 2) * 47 + (c / 23 % 2) * 23 + (c % 23));
  }
}

#include "autocomp_cuda.cuh"

/*
 * transpose: transpose
 * schedule: tile i0 1, i1 64, i2 24 | threads 128 | pdl | batch_copies
 * predicted: 3.21 us, bound by launch, 0% of the roofline
 * rule: layout/conv-channels-last: made transpose f16[2, 21, 23, 24]
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel transpose(in0: f16[i0:2, i1:483, i2:24] of in0[2, 24, 483] at [i0, i2, i1]) -> out0: f16[i0:2, i1:483, i2:24]
 * axes i0=2 i1=483 i2=24
 * tile i0=1 i1=64
 * grid i0, i1
 *   in0_t: f16[i0, i1, i2] fragment = copy in0
 *   store out0 = in0_t
 *
 * in0_t: reg (i2,1,8)(i1,32,2) lane (i2,8,4)(i1,1,8) wave (i1,8,4)
 */
extern "C" __global__ void __launch_bounds__(128) k_transpose(const f16 *in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane / 4 + wave * 8;
  const int i2_t = lane % 4 * 8;
  int block = blockIdx.x;
  const int i1_b = block % 8 * 64;
  block /= 8;
  const int i0_b = block;
  float in0_t[16];
  ac_launch_wait();
  ac_launch_next();
  for (int q0 = 0; q0 < 12; q0 += 6) {
    ac_pack_of<1, f16> held[6];
    #pragma unroll
    for (int q = 0; q < 6; ++q) {
      const int row = threadIdx.x / 64 + (q0 + q) * 2, col = threadIdx.x % 64;
      held[q] = ac_fetched<1>(in0 + (i0_b*11592 + (i1_b + (col)) + (row)*483), i1_b + (col) < 483);
    }
    #pragma unroll
    for (int q = 0; q < 6; ++q) {
      ac_keep(smem + 0 + ((threadIdx.x / 64 + (q0 + q) % 4 * 2) * 3 + (q0 + q) / 4) * 130 + (threadIdx.x % 64) * 2, held[q]);
    }
  }
  ac_commit();
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 16; ++r) {
    in0_t[r] = ac_held(*(const f16 *)(smem + 0 + (((i2_t + r % 8)) % 8 * 3 + ((i2_t + r % 8)) / 8) * 130 + ((i1_t + r / 8 * 32)) * 2));
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if ((i1_b + i1_t + (q * 8) / 8 * 32 < 483) & (i2_t + (q * 8) % 8 < 24)) ac_store<8>(out0 + (i0_b*11592 + (i1_b + i1_t + (q * 8) / 8 * 32)*24 + (i2_t + (q * 8) % 8)), &in0_t[(q * 8)]);
  }
}
