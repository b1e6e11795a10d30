#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 16, i1 32, r0 77 | stages 4 | threads 128 | instruction f64
 * predicted: 3.63 us, bound by launch, 2% of the roofline
 * rule: tiling/gpu-small-products: the schedule
 *
 * kernel matmul(in0: f32[i0:200, r0:77], in1: f32[i1:136, r0:77] of in1[77, 136] at [r0, i1]) -> out0: f32[i0:200, i1:136]
 * axes i0=200 i1=136 r0=77
 * tile i0=16 i1=32
 * grid i0, i1
 *   in0_t: f32[i0, r0] block = copy in0
 *   in1_t: f32[i1, r0] block = copy in1
 *   acc: f64[i0, i1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   cast_t: f32[i0, i1] fragment = map cast(f32, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2) lane (i1,2,4)(i0,1,8) wave (i1,8,4)
 * cast_t: reg (i1,1,2)(i0,8,2) lane (i1,2,4)(i0,1,8) wave (i1,8,4)
 * in0_t: shared, 5120 bytes f32, ring of 1
 * in1_t: shared, 10240 bytes f32, ring of 1
 * acc: mma.m16n8k8.f64.f32, 1 x 1 a wave, 10 steps
 */
extern "C" __global__ void __launch_bounds__(128) k_matmul(const float *__restrict__ in0, const float *__restrict__ in1, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 8;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block % 5 * 32;
  block /= 5;
  const int i0_b = block * 16;
  double acc[4];
  float cast_t[4];
  #pragma unroll
  for (int q = 0; q < 10; ++q) {
    const int c = threadIdx.x + q * 128;
    const int row = c / 80, col = c % 80;
    ac_copy<4>(smem + 0 + ac_swizzle<320>(c / 80, (col) * 4), in0 + ((i0_b + (row))*77 + (col)), (i0_b + (row) < 200) & ((col) < 77));
  }
  ac_commit();
  #pragma unroll
  for (int q = 0; q < 5; ++q) {
    const int c = threadIdx.x + q * 128;
    const int row = (c / 8), col = ac_chunk<128>(c / 8, c % 8) * 4;
    ac_copy<16>(smem + 5120 + c * 16, in1 + ((i1_b + (col)) + (row)*136), (i1_b + (col) < 136) & ((row) < 77));
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    acc[r] = 0.0;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int kk = 0; kk < 10; ++kk) {
    double fa[1][4], fb[1][2];
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        ac_take<float, double, 2>(fa[m], q * 2, smem + 0 + ac_swizzle<320>(0 + m * 16 + lane / 4 + (q * 2) / 2 * 8, (kk * 8 + lane % 4 * 2 + (q * 2) % 2) * 4));
      }
    }
    for (int n = 0; n < 1; ++n) {
      #pragma unroll
      for (int q = 0; q < 2; ++q) {
        ac_take<float, double, 1>(fb[n], q, smem + 5120 + ac_swizzle<128>(kk * 8 + lane % 4 * 2 + q, (wave / 1 * 8 + n * 8 + lane / 4) * 4));
      }
    }
    for (int m = 0; m < 1; ++m) {
      for (int n = 0; n < 1; ++n) {
        ac_mma_f64(&acc[(m * 1 + n) * 4], fa[m], fb[n]);
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    cast_t[r] = ((float)(acc[r]));
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if ((i0_b + i0_t + (q * 2) / 2 * 8 < 200) & (i1_b + i1_t + (q * 2) % 2 < 136)) ac_store<2>(out0 + ((i0_b + i0_t + (q * 2) / 2 * 8)*136 + (i1_b + i1_t + (q * 2) % 2)), &cast_t[(q * 2)]);
  }
}
