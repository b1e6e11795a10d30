#include "autocomp_cuda.cuh"

/*
 * gather: gather
 * schedule: tile i0 16, i1 64 | threads 128
 * predicted: 3.21 us, bound by launch, 0% of the roofline
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel gather(in1: f16[in1_0:517, in1_1:77], in0: i64[i0:205]) -> out0: f16[i0:205, i1:77]
 * axes i0=205 i1=77 in1_0=517 in1_1=77
 * tile i0=16 i1=64
 * grid i0, i1
 *   in0_t: i64[i0] fragment = copy in0
 *   where_t: i64[i0] fragment = map where(in0_t < 0, in0_t + idx(517, i64), in0_t)
 *   v: f16[i0, i1] fragment = map in1{where_t, idx(i1, i64)}
 *   store out0 = v
 *
 * v: reg (i0,2,8) lane (i1,1,32) wave (i1,32,2)(i0,1,2)
 * in0_t: reg (i0,2,8) lane (-,0,32) wave (-,0,2)(i0,1,2)
 * where_t: reg (i0,2,8) lane (-,0,32) wave (-,0,2)(i0,1,2)
 */
extern "C" __global__ void __launch_bounds__(128) k_gather(const f16 *__restrict__ in1, const long long *__restrict__ in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i1_t = lane + wave % 2 * 32;
  const int i0_t = wave / 2;
  int block = blockIdx.x;
  const int i1_b = block % 2 * 64;
  block /= 2;
  const int i0_b = block * 16;
  long long in0_t[8];
  long long where_t[8];
  float v[8];
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in0_t[q], i0_b + i0_t + q * 2 < 205, in0 + (i0_b + i0_t + q * 2), 0ll);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    where_t[r] = ((in0_t[r] < 0ll) ? (long long)((unsigned long long)in0_t[r] + (unsigned long long)(long long)(517)) : in0_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    v[r] = ac_held(in1[(ac_clamp((long long)(where_t[r]), (long long)517)) * 77 + ac_clamp((long long)((long long)((i1_b + i1_t))), (long long)77)]);
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if ((i0_b + i0_t + q * 2 < 205) & (i1_b + i1_t < 77)) ac_store<1>(out0 + (i0_b + i0_t + q * 2)*77 + (i1_b + i1_t), &v[q]);
  }
}
