#include "autocomp_cuda.cuh"

/*
 * reduce_sum_gather_cast_add_7more: gather cast add cast mul reduce_sum mul add rsqrt mul mul cast
 * schedule: tile i0 1, i1 2 | threads 64 | wide_gathers
 * predicted: 4.31 us, bound by latency, 0% of the roofline
 * rule: fusion/map-into-map: gather into operand 0 of add
 * rule: fusion/map-into-map: add into operand 0 of cast
 * rule: fusion/map-into-map: cast into operand 0 of mul
 * rule: fusion/map-into-map: cast into operand 1 of mul
 * rule: fusion/reduce-prologue: mul into operand 0 of reduce_sum
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 0 of add
 * rule: fusion/row-statistic: add into operand 0 of rsqrt
 * rule: fusion/map-into-map: cast into operand 0 of mul
 * rule: fusion/row-statistic: rsqrt into operand 1 of mul
 * rule: fusion/row-statistic: mul into operand 0 of mul
 * rule: fusion/map-into-map: cast into operand 1 of mul
 * rule: fusion/row-statistic: mul into operand 0 of cast
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_sum_gather_cast_add_7more(in1: f16[in1_0:1000, in1_1:72], in0: i64[i0:4, i1:9], in2: f16[i1:9, i2:72], in3: f16[i2:72]) -> out0: f16[i0:4, i1:9, i2:72]
 * axes i0=4 i1=9 i2=72 in1_0=1000 in1_1=72
 * tile i0=1 i1=2
 * grid i0, i1
 *   in0_t: i64[i0, i1] fragment = copy in0
 *   where_t: i64[i0, i1] fragment = map where(in0_t < 0, in0_t + idx(1000, i64), in0_t)
 *   v: f16[i0, i1, i2] fragment = map in1{where_t, idx(i2, i64)}
 *   in2_t: f16[i1, i2] fragment = copy in2
 *   cast_t: f32[i0, i1, i2] fragment = map cast(f32, v + in2_t)
 *   mul_t: f32[i0, i1, i2] fragment = map cast_t * cast_t
 *   s_t: f32[i0, i1] fragment = reduce add i2 mul_t
 *   rsqrt_t: f32[i0, i1] fragment = map rsqrt(s_t * 0.013888888992369175 + 9.999999747378752e-06)
 *   in3_t: f16[i2] fragment = copy in3
 *   cast_t2: f32[i2] fragment = map cast(f32, in3_t)
 *   cast_t3: f16[i0, i1, i2] fragment = map cast(f16, cast_t * rsqrt_t * cast_t2)
 *   store out0 = cast_t3
 *
 * v: reg (i2,1,4) lane (i2,4,32) wave (i1,1,2)
 * in0_t: reg () lane (-,0,32) wave (i1,1,2)
 * where_t: reg () lane (-,0,32) wave (i1,1,2)
 * in2_t: reg (i2,1,4) lane (i2,4,32) wave (i1,1,2)
 * cast_t: reg (i2,1,4) lane (i2,4,32) wave (i1,1,2)
 * mul_t: reg (i2,1,4) lane (i2,4,32) wave (i1,1,2)
 * s_t: reg () lane (-,0,32) wave (i1,1,2)
 * rsqrt_t: reg () lane (-,0,32) wave (i1,1,2)
 * in3_t: reg (i2,1,4) lane (i2,4,32) wave (-,0,2)
 * cast_t2: reg (i2,1,4) lane (i2,4,32) wave (-,0,2)
 * cast_t3: reg (i2,1,4) lane (i2,4,32) wave (i1,1,2)
 */
extern "C" __global__ void __launch_bounds__(64) k_reduce_sum_gather_cast_add_7more(const f16 *__restrict__ in1, const long long *__restrict__ in0, const f16 *__restrict__ in2, const f16 *__restrict__ in3, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i2_t = lane * 4;
  const int i1_t = wave;
  int block = blockIdx.x;
  const int i1_b = block % 5 * 2;
  block /= 5;
  const int i0_b = block;
  long long in0_t[1];
  long long where_t[1];
  float v[4];
  float in2_t[4];
  float cast_t[4];
  float mul_t[4];
  float n_s_t[1];
  float rsqrt_t[1];
  float in3_t[4];
  float cast_t2[4];
  float cast_t3[4];
  for (int q = 0; q < 1; ++q) {
    ac_load_where<1>(&in0_t[q], i1_b + i1_t < 9, in0 + i0_b*9 + (i1_b + i1_t), 0ll);
  }
  for (int r = 0; r < 1; ++r) {
    where_t[r] = ((in0_t[r] < 0ll) ? (long long)((unsigned long long)in0_t[r] + (unsigned long long)(long long)(1000)) : in0_t[r]);
  }
  for (int q = 0; q < 1; ++q) {
    ac_load_where<4>(&v[(q * 4)], (i1_b + i1_t < 9) & (i2_t + (q * 4) < 72), in1 + ac_here((ac_clamp((long long)(where_t[0]), (long long)1000)) * 72 + (long long)((i2_t + (q * 4)))), 0.0f);
  }
  for (int q = 0; q < 1; ++q) {
    ac_load_where<4>(&in2_t[q * 4], (i1_b + i1_t < 9) & (i2_t + (q * 4) < 72), in2 + (i1_b + i1_t)*72 + (i2_t + (q * 4)), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    cast_t[r] = (v[r] + in2_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    mul_t[r] = (cast_t[r] * cast_t[r]);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    if (i2_t + r < 72) t[0] = (t[0] + mul_t[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 16));
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    rsqrt_t[r] = ac_rsqrt_half(((n_s_t[r] * 0.013888889f) + 9.99999975e-06f));
  }
  for (int q = 0; q < 1; ++q) {
    ac_load_where<4>(&in3_t[q * 4], i2_t + (q * 4) < 72, in3 + (i2_t + (q * 4)), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    cast_t2[r] = in3_t[r];
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    cast_t3[r] = ((cast_t[r] * rsqrt_t[0]) * cast_t2[r]);
  }
  for (int q = 0; q < 1; ++q) {
    if ((i1_b + i1_t < 9) & (i2_t + (q * 4) < 72)) ac_store<4>(out0 + (i0_b*648 + (i1_b + i1_t)*72 + (i2_t + (q * 4))), &cast_t3[(q * 4)]);
  }
}
