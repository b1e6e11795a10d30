#include "autocomp_cuda.cuh"

/*
 * conv: conv
 * schedule: tile i0 1, i1 1, i2 1, i3 23, r0 2, r1 3; 4 stages; 64 threads
 * predicted: 6.58 us, bound by launch, 0% of the roofline
 * rule: tiling/gpu-narrow: the schedule
 *
 * kernel conv(in0: f16[i0:2, i1:12, i2:19, i3:23, r0:3, r1:3] of in0[2, 12, 19, 23] at [i0, i1, i2 + r0 - 1, i3 + r1 - 1] where i2 + r0 - 1 >= 0, -1*i2 - 1*r0 + 19 >= 0, i3 + r1 - 1 >= 0, -1*i3 - 1*r1 + 23 >= 0 else 0.0, in1: f16[i1:12, r0:3, r1:3]) -> out0: f16[i0:2, i1:12, i2:19, i3:23]
 * axes i0=2 i1=12 i2=19 i3=23 r0=3 r1=3
 * tile i0=1 i1=1 i2=1 r0=2
 * grid i0, i1, i2
 *   acc: f32[i0, i1, i2, i3] fragment = fill 0.0
 *   pipelined r0 stages=4
 *     in0_t: f16[i0, i1, i2, i3, r0, r1] block = copy in0
 *     in1_t: f16[i1, r0, r1] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1, i2, i3] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (n of 1,1,2)(i3,8,2) lane (n of 1,2,4)(i3,1,8) wave (i3,16,2)
 * cast_t: reg (i3,8,2) lane (-,0,4)(i3,1,8) wave (i3,16,2)
 * in0_t: shared, 1024 bytes f16, ring of 4
 * in1_t: shared, 512 bytes f16, ring of 4
 * acc: mma.m16n8k16.f16, 1 x 1 a wave, 1 steps
 */
extern "C" __global__ void __launch_bounds__(64) conv(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i3_t = lane / 4 + wave * 16;
  int block = blockIdx.x;
  const int i2_b = block % 19;
  block /= 19;
  const int i1_b = block % 12;
  block /= 12;
  const int i0_b = block;
  float acc[4];
  float cast_t[2];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 3; ++it) {
    if (it < 2) {
      const int r0_b = it * 2;
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 32), col = c % 32;
        ac_copy<2>(smem + 0 + it * 1024 + ac_swizzle<64>(c / 32, (col) * 2), in0 + i0_b*5244 + i1_b*437 + i2_b*23 + (col) + (r0_b + (row / 3))*23 + (row % 3) - 24, (col) < 23 && (row / 3) < 2 && r0_b + (row / 3) < 3 && i2_b + (r0_b + (row / 3)) + -1 >= 0 && -1*i2_b + -1*(r0_b + (row / 3)) + 19 >= 0 && (col) + (row % 3) + -1 >= 0 && -1*(col) + -1*(row % 3) + 23 >= 0);
      }
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 16), col = c % 16;
        ac_copy<2>(smem + 4096 + it * 512 + ac_swizzle<32>(c / 16, (col) * 2), in1 + i1_b*9 + (r0_b + (col / 3))*3 + (col % 3), (col / 3) < 2 && r0_b + (col / 3) < 3);
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 2; ++it) {
    const int r0_b2 = it * 2;
    ac_wait<2>();
    ac_sync();
    const int ahead = it + 3;
    if (ahead < 2) {
      const int r0_b3 = ahead * 2;
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 32), col = c % 32;
        ac_copy<2>(smem + 0 + ahead % 4 * 1024 + ac_swizzle<64>(c / 32, (col) * 2), in0 + i0_b*5244 + i1_b*437 + i2_b*23 + (col) + (r0_b3 + (row / 3))*23 + (row % 3) - 24, (col) < 23 && (row / 3) < 2 && r0_b3 + (row / 3) < 3 && i2_b + (r0_b3 + (row / 3)) + -1 >= 0 && -1*i2_b + -1*(r0_b3 + (row / 3)) + 19 >= 0 && (col) + (row % 3) + -1 >= 0 && -1*(col) + -1*(row % 3) + 23 >= 0);
      }
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 16), col = c % 16;
        ac_copy<2>(smem + 4096 + ahead % 4 * 512 + ac_swizzle<32>(c / 16, (col) * 2), in1 + i1_b*9 + (r0_b3 + (col / 3))*3 + (col % 3), (col / 3) < 2 && r0_b3 + (col / 3) < 3);
      }
    }
    ac_commit();
    const int slot = it % 4;
    #pragma unroll
    for (int kk = 0; kk < 1; ++kk) {
      unsigned fa[1][4], fb[1][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4_t(fa[m], smem + 0 + slot * 1024 + ac_swizzle<64>(kk * 16 + lane / 16 * 8 + lane % 8, (wave % 2 * 16 + m * 16 + lane / 8 % 2 * 8) * 2));
      }
      ac_ldmatrix2(fb[0], smem + 4096 + slot * 512 + ac_swizzle<32>(0 + 0 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_mma_f16(&acc[(m * 1 + n) * 4], fa[m], fb[n]);
        }
      }
    }
  }
  ac_wait<0>();
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    cast_t[r] = acc[(r) * 2];
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if (lane % 4 == 0 && i3_t + q * 8 < 23) ac_store<1>(out0 + i0_b*5244 + i1_b*437 + i2_b*23 + (i3_t + q * 8), &cast_t[q]);
  }
}
