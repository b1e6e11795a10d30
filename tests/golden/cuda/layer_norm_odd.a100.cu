#include "autocomp_cuda.cuh"

/*
 * reduce_sum_mul_sub_add_6more: reduce_sum mul sub mul reduce_sum mul add rsqrt mul mul add
 * schedule: tile i0 1 | threads 128 | peel_tail
 * predicted: 4.39 us, bound by launch, 1% of the roofline
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of mul
 * rule: fusion/row-statistic: sub into operand 1 of mul
 * rule: fusion/reduce-row: mul into operand 0 of reduce_sum
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 0 of add
 * rule: fusion/row-statistic: add into operand 0 of rsqrt
 * rule: fusion/row-statistic: sub into operand 0 of mul
 * rule: fusion/row-statistic: rsqrt into operand 1 of mul
 * rule: fusion/row-statistic: mul into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 0 of add
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_sum_mul_sub_add_6more(in0: f32[i0:27, i1:1023], in1: f32[i1:1023], in2: f32[i1:1023]) -> out0: f32[i0:27, i1:1023]
 * axes i0=27 i1=1023
 * tile i0=1
 * grid i0
 *   in0_t: f32[i0, i1] fragment = copy in0
 *   s_t: f32[i0] fragment = reduce add i1 in0_t
 *   mul_t: f32[i0] fragment = map s_t * 0.0009775171056389809
 *   sub_t: f32[i0, i1] fragment = map in0_t - mul_t
 *   mul_t2: f32[i0, i1] fragment = map sub_t * sub_t
 *   s_t2: f32[i0] fragment = reduce add i1 mul_t2
 *   rsqrt_t: f32[i0] fragment = map rsqrt(s_t2 * 0.0009775171056389809 + 9.999999747378752e-06)
 *   in1_t: f32[i1] fragment = copy in1
 *   in2_t: f32[i1] fragment = copy in2
 *   add_t: f32[i0, i1] fragment = map sub_t * rsqrt_t * in1_t + in2_t
 *   store out0 = add_t
 *
 * in0_t: reg (i1,128,8) lane (i1,1,32) wave (i1,32,4)
 * s_t: reg () lane (-,0,32) wave (-,0,4)
 * mul_t: reg () lane (-,0,32) wave (-,0,4)
 * sub_t: reg (i1,128,8) lane (i1,1,32) wave (i1,32,4)
 * mul_t2: reg (i1,128,8) lane (i1,1,32) wave (i1,32,4)
 * s_t2: reg () lane (-,0,32) wave (-,0,4)
 * rsqrt_t: reg () lane (-,0,32) wave (-,0,4)
 * in1_t: reg (i1,128,8) lane (i1,1,32) wave (i1,32,4)
 * in2_t: reg (i1,128,8) lane (i1,1,32) wave (i1,32,4)
 * add_t: reg (i1,128,8) lane (i1,1,32) wave (i1,32,4)
 */
extern "C" __global__ void __launch_bounds__(128) k_reduce_sum_mul_sub_add_6more(const float *__restrict__ in0, const float *__restrict__ in1, const float *__restrict__ in2, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane + wave * 32;
  int block = blockIdx.x;
  const int i0_b = block;
  float in0_t[8];
  float n_s_t[1];
  float mul_t[1];
  float sub_t[8];
  float mul_t2[8];
  float n_s_t2[1];
  float rsqrt_t[1];
  float in1_t[8];
  float in2_t[8];
  float add_t[8];
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in0_t[q], (q < 7 || i1_t + q * 128 < 1023), in0 + i0_b*1023 + (i1_t + q * 128), 0.0f);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[0] = (t[0] + in0_t[r]);
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
  float *box = (float *)(smem + 0);
  for (int r = 0; r < 1; ++r) {
    box[(wave * 1 + r) * 32 + lane] = t[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    float sum = box[((0) * 1 + r) * 32 + lane];
    sum = (sum + box[((1) * 1 + r) * 32 + lane]);
    sum = (sum + box[((2) * 1 + r) * 32 + lane]);
    sum = (sum + box[((3) * 1 + r) * 32 + lane]);
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    mul_t[r] = (n_s_t[r] * 0.000977517106f);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    sub_t[r] = (in0_t[r] - mul_t[0]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    mul_t2[r] = (sub_t[r] * sub_t[r]);
  }
  float t2[1];
  for (int r = 0; r < 1; ++r) {
    t2[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    if ((r < 7 || i1_t + r * 128 < 1023)) t2[0] = (t2[0] + mul_t2[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 16));
  }
  float *box2 = (float *)(smem + 512);
  for (int r = 0; r < 1; ++r) {
    box2[(wave * 1 + r) * 32 + lane] = t2[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    float sum = box2[((0) * 1 + r) * 32 + lane];
    sum = (sum + box2[((1) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((2) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((3) * 1 + r) * 32 + lane]);
    t2[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t2[r] = t2[r];
  }
  for (int r = 0; r < 1; ++r) {
    rsqrt_t[r] = ac_rsqrt(((n_s_t2[r] * 0.000977517106f) + 9.99999975e-06f));
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in1_t[q], (q < 7 || i1_t + q * 128 < 1023), in1 + (i1_t + q * 128), 0.0f);
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in2_t[q], (q < 7 || i1_t + q * 128 < 1023), in2 + (i1_t + q * 128), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    add_t[r] = (((sub_t[r] * rsqrt_t[0]) * in1_t[r]) + in2_t[r]);
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    if ((q < 7 || i1_t + q * 128 < 1023)) ac_store<1>(out0 + i0_b*1023 + (i1_t + q * 128), &add_t[q]);
  }
}
