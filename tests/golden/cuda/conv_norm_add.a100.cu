#include "autocomp_cuda.cuh"

/*
 * conv_cast_add_rsqrt_6more: conv cast cast cast cast cast add rsqrt mul reshape mul mul sub reshape add cast add relu
 * schedule: tile i0 1, i1 32, i2 2, i3 14, r0 8, r1 3, r2 3 | stages 6 | threads 128 | turned_store | batch_copies
 * predicted: 11.90 us, bound by latency, 0% of the roofline
 * rule: fusion/convolution-epilogue: conv into operand 0 of cast
 * rule: fusion/map-into-map: cast into operand 0 of add
 * rule: fusion/map-into-map: add into operand 0 of rsqrt
 * rule: fusion/map-into-map: cast into operand 0 of mul
 * rule: fusion/map-into-map: rsqrt into operand 1 of mul
 * rule: fusion/view: mul into operand 0 of reshape
 * rule: fusion/convolution-epilogue: cast into operand 0 of mul
 * rule: fusion/map-into-map: reshape into operand 1 of mul
 * rule: fusion/map-into-map: cast into operand 0 of mul
 * rule: fusion/map-into-map: mul into operand 1 of mul
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/map-into-map: mul into operand 1 of sub
 * rule: fusion/view: sub into operand 0 of reshape
 * rule: fusion/convolution-epilogue: mul into operand 0 of add
 * rule: fusion/map-into-map: reshape into operand 1 of add
 * rule: fusion/convolution-epilogue: add into operand 0 of cast
 * rule: fusion/convolution-epilogue: cast into operand 0 of add
 * rule: fusion/convolution-epilogue: add into operand 0 of relu
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel conv_cast_add_rsqrt_6more(in0: f16[i0:2, i2:14, i3:14, r0:32, r1:3, r2:3] of in0[2, 32, 14, 14] at [i0, r0, i2 + r1 - 1, i3 + r2 - 1] where i2 + r1 - 1 >= 0, -1*i2 - 1*r1 + 14 >= 0, i3 + r2 - 1 >= 0, -1*i3 - 1*r2 + 14 >= 0 else 0.0, in1: f16[i1:32, r0:32, r1:3, r2:3], in2: f16[i1:32], in3: f16[i1:32], in4: f16[i1:32], in5: f16[i1:32], in6: f16[i0:2, i1:32, i2:14, i3:14]) -> out0: f16[i0:2, i1:32, i2:14, i3:14]
 * axes i0=2 i1=32 i2=14 i3=14 r0=32 r1=3 r2=3
 * tile i0=1 i2=2 r0=8
 * grid i0, i2
 *   acc: f32[i0, i1, i2, i3] fragment = fill 0.0
 *   pipelined r0 stages=6
 *     in0_t: f16[i0, i2, i3, r0, r1, r2] block = copy in0
 *     in1_t: f16[i1, r0, r1, r2] block = copy in1
 *     acc += mma in0_t, in1_t
 *   in2_t: f16[i1] fragment = copy in2
 *   in3_t: f16[i1] fragment = copy in3
 *   mul_t: f32[i1] fragment = map cast(f32, in2_t) * rsqrt(cast(f32, in3_t) + 9.999999747378752e-06)
 *   in4_t: f16[i1] fragment = copy in4
 *   in5_t: f16[i1] fragment = copy in5
 *   sub_t: f32[i1] fragment = map cast(f32, in4_t) - cast(f32, in5_t) * mul_t
 *   in6_t: f16[i0, i1, i2, i3] fragment = copy in6
 *   relu_t: f16[i0, i1, i2, i3] fragment = map relu(cast(f16, cast(f32, cast(f16, acc)) * mul_t + sub_t) + in6_t)
 *   store out0 = relu_t
 *
 * acc: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i2,1,2)(i1,16,2)
 * in2_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (-,0,2)(i1,16,2)
 * in3_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (-,0,2)(i1,16,2)
 * mul_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (-,0,2)(i1,16,2)
 * in4_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (-,0,2)(i1,16,2)
 * in5_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (-,0,2)(i1,16,2)
 * sub_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (-,0,2)(i1,16,2)
 * in6_t: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i2,1,2)(i1,16,2)
 * relu_t: reg (i1,1,2)(i3,8,2)(i1,8,2) lane (i1,2,4)(i3,1,8) wave (i2,1,2)(i1,16,2)
 * in0_t: shared, 5120 bytes f16, ring of 6
 * in1_t: shared, 5120 bytes f16, ring of 6
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 5 steps
 */
extern "C" __global__ void __launch_bounds__(128) k_conv_cast_add_rsqrt_6more(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, const f16 *__restrict__ in3, const f16 *__restrict__ in4, const f16 *__restrict__ in5, const f16 *__restrict__ in6, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i2_t = wave % 2;
  const int i3_t = lane / 4;
  const int i1_t = lane % 4 * 2 + wave / 2 * 16;
  int block = blockIdx.x;
  const int i2_b = block % 7 * 2;
  block /= 7;
  const int i0_b = block;
  float acc[8];
  float in2_t[4];
  float in3_t[4];
  float mul_t[4];
  float in4_t[4];
  float in5_t[4];
  float sub_t[4];
  float in6_t[8];
  float relu_t[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 5; ++it) {
    if (it < 4) {
      const int r0_b = it * 8;
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int row = threadIdx.x / 32 + (q0 + q) * 4, col = threadIdx.x % 32;
          held[q] = ac_fetched<1>(in0 + (i0_b*6272 + (i2_b + (col / 16))*14 + (col % 16) + (r0_b + (row / 9))*196 + (row / 3 % 3)*14 + (row % 3) - 15), (threadIdx.x + (q0 + q) * 128 < 2560) & ((col % 16) < 14) & ((row / 9) < 8) & ((i2_b + (col / 16)) + (row / 3 % 3) + -1 >= 0) & (-1*(i2_b + (col / 16)) + -1*(row / 3 % 3) + 14 >= 0) & ((col % 16) + (row % 3) + -1 >= 0) & (-1*(col % 16) + -1*(row % 3) + 14 >= 0));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 0 + it * 5120 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 4, (threadIdx.x % 32) * 2), held[q]);
        }
      }
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          const int row = c / 80, col = c % 80;
          held[q] = ac_fetched<1>(in1 + ((row)*288 + (r0_b + (col / 9))*9 + (col / 3 % 3)*3 + (col % 3)), (threadIdx.x + (q0 + q) * 128 < 2560) & ((col / 9) < 8));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 30720 + it * 5120 + ac_swizzle<160>(c / 80, (c % 80) * 2), held[q]);
        }
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 4; ++it) {
    const int r0_b2 = it * 8;
    ac_wait<4>();
    ac_sync();
    const int ahead = it + 5;
    if (ahead < 4) {
      const int r0_b3 = ahead * 8;
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int row = threadIdx.x / 32 + (q0 + q) * 4, col = threadIdx.x % 32;
          held[q] = ac_fetched<1>(in0 + (i0_b*6272 + (i2_b + (col / 16))*14 + (col % 16) + (r0_b3 + (row / 9))*196 + (row / 3 % 3)*14 + (row % 3) - 15), (threadIdx.x + (q0 + q) * 128 < 2560) & ((col % 16) < 14) & ((row / 9) < 8) & ((i2_b + (col / 16)) + (row / 3 % 3) + -1 >= 0) & (-1*(i2_b + (col / 16)) + -1*(row / 3 % 3) + 14 >= 0) & ((col % 16) + (row % 3) + -1 >= 0) & (-1*(col % 16) + -1*(row % 3) + 14 >= 0));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 0 + ahead % 6 * 5120 + ac_swizzle<64>(threadIdx.x / 32 + (q0 + q) * 4, (threadIdx.x % 32) * 2), held[q]);
        }
      }
      for (int q0 = 0; q0 < 20; q0 += 7) {
        ac_pack_of<1, f16> held[7];
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          const int row = c / 80, col = c % 80;
          held[q] = ac_fetched<1>(in1 + ((row)*288 + (r0_b3 + (col / 9))*9 + (col / 3 % 3)*3 + (col % 3)), (threadIdx.x + (q0 + q) * 128 < 2560) & ((col / 9) < 8));
        }
        #pragma unroll
        for (int q = 0; q < 7; ++q) {
          const int c = threadIdx.x + (q0 + q) * 128;
          if (threadIdx.x + (q0 + q) * 128 < 2560) ac_keep(smem + 30720 + ahead % 6 * 5120 + ac_swizzle<160>(c / 80, (c % 80) * 2), held[q]);
        }
      }
    }
    ac_commit();
    const int slot = it % 6;
    #pragma unroll
    for (int kk = 0; kk < 5; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4_t(fa[m], smem + 0 + slot * 5120 + ac_swizzle<64>(kk * 16 + lane / 16 * 8 + lane % 8, (wave % 2 * 16 + m * 16 + lane / 8 % 2 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 30720 + slot * 5120 + ac_swizzle<160>(wave / 2 * 16 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
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
  for (int q = 0; q < 2; ++q) {
    ac_load<2>(&in2_t[q * 2], in2 + (i1_t + (q * 2) % 2 + (q * 2) / 2 * 8));
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_load<2>(&in3_t[q * 2], in3 + (i1_t + (q * 2) % 2 + (q * 2) / 2 * 8));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    mul_t[r] = (in2_t[r] * ac_rsqrt_half((in3_t[r] + 9.99999975e-06f)));
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_load<2>(&in4_t[q * 2], in4 + (i1_t + (q * 2) % 2 + (q * 2) / 2 * 8));
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_load<2>(&in5_t[q * 2], in5 + (i1_t + (q * 2) % 2 + (q * 2) / 2 * 8));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    sub_t[r] = (in4_t[r] - (in5_t[r] * mul_t[r]));
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in6_t[q], i3_t + q / 2 % 2 * 8 < 14, in6 + i0_b*6272 + (i1_t + q % 2 + q / 4 * 8)*196 + (i2_b + i2_t)*14 + (i3_t + q / 2 % 2 * 8), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    relu_t[r] = ac_relu((((acc[r] * mul_t[(r % 2) + (r / 4) * 2]) + sub_t[(r % 2) + (r / 4) * 2]) + in6_t[r]));
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if (i3_t + q / 2 % 2 * 8 < 14) ac_store<1>(box + (i1_t + q % 2 + q / 4 * 8) * 30 + (i2_t) * 14 + (i3_t + q / 2 % 2 * 8), &relu_t[q]);
  }
  ac_sync();
  #pragma unroll 4
  for (int c = threadIdx.x; c < 448; c += 128) {
    ac_move<2>(out0 + (i0_b)*6272 + (c / 7 / 2)*196 + (i2_b + c / 7 % 2)*14 + (c % 7 * 2), box + (c / 7 / 2) * 30 + (c / 7 % 2) * 14 + (c % 7 * 2));
  }
}
