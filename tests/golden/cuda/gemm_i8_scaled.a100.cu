#include "autocomp_cuda.cuh"

/*
 * cast_matmul_mul_relu: cast cast transpose matmul cast mul relu
 * schedule: tile i0 16, i1 32, r0 96 | stages 8 | threads 64
 * predicted: 4.14 us, bound by l2, 0% of the roofline
 * rule: fusion/view: cast into operand 0 of transpose
 * rule: fusion/contract-prologue-a: cast into operand 0 of matmul
 * rule: fusion/contract-prologue-b: transpose into operand 1 of matmul
 * rule: fusion/epilogue: matmul into operand 0 of cast
 * rule: fusion/epilogue: cast into operand 0 of mul
 * rule: fusion/epilogue: mul into operand 0 of relu
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel cast_matmul_mul_relu(in0: i8[i0:100, r0:96], in1: i8[i1:72, r0:96], in2: f32[i1:72]) -> out0: f32[i0:100, i1:72]
 * axes i0=100 i1=72 r0=96
 * tile i0=16 i1=32
 * grid i0, i1
 *   in0_t: i8[i0, r0] block = copy in0
 *   in1_t: i8[i1, r0] block = copy in1
 *   acc: i32[i0, i1] fragment = fill 0
 *   acc += mma in0_t, in1_t
 *   in2_t: f32[i1] fragment = copy in2
 *   relu_t: f32[i0, i1] fragment = map relu(cast(f32, acc) * in2_t)
 *   store out0 = relu_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in2_t: reg (i1,1,2)(i1,8,2) lane (i1,2,4)(-,0,8) wave (i1,16,2)
 * relu_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 1536 bytes i8, ring of 1
 * in1_t: shared, 3072 bytes i8, ring of 1
 * acc: mma.m16n8k32.s8, 1 x 2 a wave, 3 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_cast_matmul_mul_relu(const signed char *__restrict__ in0, const signed char *__restrict__ in1, const float *__restrict__ in2, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t = lane / 4;
  const int i1_t = lane % 4 * 2 + wave * 16;
  int block = blockIdx.x;
  const int i1_b = block % 3 * 32;
  block /= 3;
  const int i0_b = block * 16;
  int acc[8];
  float in2_t[4];
  float relu_t[8];
  #pragma unroll
  for (int q = 0; q < 1; ++q) {
    const int c = threadIdx.x + q * 64;
    const int row = (c / 6), col = ac_chunk<96>(c / 6, c % 6) * 16;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*96 + (col)), i0_b + (row) < 100);
  }
  if (threadIdx.x < 32) {
    const int c = threadIdx.x + 64;
    const int row = (c / 6), col = ac_chunk<96>(c / 6, c % 6) * 16;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*96 + (col)), i0_b + (row) < 100);
  }
  ac_commit();
  #pragma unroll
  for (int q = 0; q < 3; ++q) {
    const int c = threadIdx.x + q * 64;
    const int row = (c / 6), col = ac_chunk<96>(c / 6, c % 6) * 16;
    ac_copy<16>(smem + 2048 + c * 16, in1 + ((i1_b + (row))*96 + (col)), i1_b + (row) < 72);
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int kk = 0; kk < 3; ++kk) {
    unsigned fa[1][4], fb[2][2];
    for (int m = 0; m < 1; ++m) {
      ac_ldmatrix4(fa[m], smem + 0 + ac_swizzle<96>(0 + m * 16 + lane % 16, (kk * 32 + lane / 16 * 16) * 1));
    }
    for (int n = 0; n < 1; ++n) {
      ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 2048 + ac_swizzle<96>(wave / 1 * 16 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 32 + lane / 8 % 2 * 16) * 1));
    }
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int n = 0; n < 2; ++n) {
        ac_mma_s8(&acc[(m * 2 + n) * 4], fa[m], fb[n]);
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_load_where<2>(&in2_t[q * 2], i1_b + i1_t + (q * 2) % 2 + (q * 2) / 2 * 8 < 72, in2 + (i1_b + i1_t + (q * 2) % 2 + (q * 2) / 2 * 8), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    relu_t[r] = ac_relu((((float)(acc[r])) * in2_t[(r % 2) + (r / 4) * 2]));
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    if ((i0_b + i0_t + (q * 2) / 2 % 2 * 8 < 100) & (i1_b + i1_t + (q * 2) % 2 + (q * 2) / 4 * 8 < 72)) ac_store<2>(out0 + ((i0_b + i0_t + (q * 2) / 2 % 2 * 8)*72 + (i1_b + i1_t + (q * 2) % 2 + (q * 2) / 4 * 8)), &relu_t[(q * 2)]);
  }
}
