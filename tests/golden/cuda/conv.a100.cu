#include "autocomp_cuda.cuh"

/*
 * conv_relu: conv transpose relu
 * schedule: tile i0 1, i1 32, i2 1, i3 20, r0 1, r1 1, r2 64 | stages 8 | threads 128 | turned_store | cache_windows
 * predicted: 5.70 us, bound by l2, 3% of the roofline
 * rule: layout/conv-channels-last: made conv f16[2, 20, 20, 64]
 * rule: layout/conv-channels-last: made transpose f16[2, 64, 20, 20]
 * rule: fusion/view: conv into operand 0 of transpose
 * rule: fusion/convolution-epilogue: conv into operand 0 of relu
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel conv_relu(in0: f16[i0:2, i2:20, i3:20, r0:3, r1:3, r2:64] of in0[2, 20, 20, 64] at [i0, i2 + r0 - 1, i3 + r1 - 1, r2] where i2 + r0 - 1 >= 0, -1*i2 - 1*r0 + 20 >= 0, i3 + r1 - 1 >= 0, -1*i3 - 1*r1 + 20 >= 0 else 0.0, in1: f16[i1:64, r0:3, r1:3, r2:64]) -> out0: f16[i0:2, i1:64, i2:20, i3:20]
 * axes i0=2 i1=64 i2=20 i3=20 r0=3 r1=3 r2=64
 * tile i0=1 i1=32 i2=1 r0=1 r1=1
 * grid i0, i1, i2
 *   acc: f32[i0, i1, i2, i3] fragment = fill 0.0
 *   pipelined r0, r1 stages=8
 *     in0_t: f16[i0, i2, i3, r0, r1, r2] block = copy in0
 *     in1_t: f16[i1, r0, r1, r2] block = copy in1
 *     acc += mma in0_t, in1_t
 *   relu_t: f16[i0, i1, i2, i3] fragment = map relu(cast(f16, acc))
 *   store out0 = relu_t
 *
 * acc: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i3,16,2)(i1,16,2)
 * relu_t: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i3,16,2)(i1,16,2)
 * in0_t: shared, 4096 bytes f16, ring of 8
 * in1_t: shared, 4096 bytes f16, ring of 8
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(128) k_conv_relu(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i3_t = lane / 4 + wave % 2 * 16;
  const int i1_t = lane % 4 * 2 + wave / 2 * 16;
  int block = blockIdx.x;
  const int i2_b = block % 20;
  block /= 20;
  const int i1_b = block % 2 * 32;
  block /= 2;
  const int i0_b = block;
  float acc[8];
  float relu_t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 7; ++it) {
    if (it < 3 * 3) {
      const int r1_b = it % 3;
      const int r0_b = it / 3;
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 8;
        ac_copy_kept<16>(smem + 0 + it * 4096 + c * 16, in0 + (i0_b*25600 + i2_b*1280 + (row)*64 + r0_b*1280 + r1_b*64 + (col) - 1344), ((row) < 20) & (i2_b + r0_b + -1 >= 0) & (-1*i2_b + -1*r0_b + 20 >= 0) & ((row) + r1_b + -1 >= 0) & (-1*(row) + -1*r1_b + 20 >= 0));
      }
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 8;
        ac_copy<16>(smem + 32768 + it * 4096 + c * 16, in1 + ((i1_b + (row))*576 + r0_b*192 + r1_b*64 + (col)), true);
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 3 * 3; ++it) {
    const int r1_b2 = it % 3;
    const int r0_b2 = it / 3;
    ac_wait<6>();
    ac_sync();
    const int ahead = it + 7;
    if (ahead < 3 * 3) {
      const int r1_b3 = ahead % 3;
      const int r0_b3 = ahead / 3;
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 8;
        ac_copy_kept<16>(smem + 0 + ahead % 8 * 4096 + c * 16, in0 + (i0_b*25600 + i2_b*1280 + (row)*64 + r0_b3*1280 + r1_b3*64 + (col) - 1344), ((row) < 20) & (i2_b + r0_b3 + -1 >= 0) & (-1*i2_b + -1*r0_b3 + 20 >= 0) & ((row) + r1_b3 + -1 >= 0) & (-1*(row) + -1*r1_b3 + 20 >= 0));
      }
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 8;
        ac_copy<16>(smem + 32768 + ahead % 8 * 4096 + c * 16, in1 + ((i1_b + (row))*576 + r0_b3*192 + r1_b3*64 + (col)), true);
      }
    }
    ac_commit();
    const int slot = it % 8;
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 4096 + ac_swizzle<128>(wave % 2 * 16 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 32768 + slot * 4096 + ac_swizzle<128>(wave / 2 * 16 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
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
    relu_t[r] = ac_relu(acc[r]);
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if (i3_t + q / 2 % 2 * 8 < 20) ac_store<1>(box + (i1_t + q % 2 + q / 4 * 8) * 24 + (i3_t + q / 2 % 2 * 8), &relu_t[q]);
  }
  ac_sync();
  #pragma unroll 4
  for (int c = threadIdx.x; c < 160; c += 128) {
    ac_move<4>(out0 + (i0_b)*25600 + (i1_b + c / 5)*400 + (i2_b)*20 + (c % 5 * 4), box + (c / 5) * 24 + (c % 5 * 4));
  }
}
