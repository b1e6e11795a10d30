#include "autocomp_cuda.cuh"

/*
 * reduce_max_reduce_sum_cast_sub_4more: cast reduce_max sub exp reduce_sum div mul cast
 * schedule: tile i0 1 | threads 512
 * predicted: 3.76 us, bound by launch, 1% of the roofline
 * rule: idioms/divide-by-row: made div f32[20, 1]
 * rule: idioms/divide-by-row: made mul f32[20, 4096]
 * rule: fusion/reduce-prologue: cast into operand 0 of reduce_max
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/row-statistic: reduce_max into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of exp
 * rule: fusion/reduce-row: exp into operand 0 of reduce_sum
 * rule: fusion/row-statistic: reduce_sum into operand 1 of div
 * rule: fusion/row-statistic: exp into operand 0 of mul
 * rule: fusion/row-statistic: div into operand 1 of mul
 * rule: fusion/row-statistic: div into operand 0 of cast
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_max_reduce_sum_cast_sub_4more(in0: f16[i0:20, i1:4096]) -> out0: f16[i0:20, i1:4096]
 * axes i0=20 i1=4096
 * tile i0=1
 * grid i0
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   cast_t: f32[i0, i1] fragment = map cast(f32, in0_t)
 *   m_t: f32[i0] fragment = reduce max i1 cast_t
 *   exp_t: f32[i0, i1] fragment = map exp(cast_t - m_t)
 *   s_t: f32[i0] fragment = reduce add i1 exp_t
 *   div_t: f32[i0] fragment = map 1.0 / s_t
 *   cast_t2: f16[i0, i1] fragment = map cast(f16, exp_t * div_t)
 *   store out0 = cast_t2
 *
 * in0_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * cast_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * m_t: reg () lane (-,0,32) wave (-,0,16)
 * exp_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * s_t: reg () lane (-,0,32) wave (-,0,16)
 * div_t: reg () lane (-,0,32) wave (-,0,16)
 * cast_t2: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 */
extern "C" __global__ void __launch_bounds__(512) k_reduce_max_reduce_sum_cast_sub_4more(const f16 *__restrict__ in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane * 8 + wave * 256;
  int block = blockIdx.x;
  const int i0_b = block;
  float in0_t[8];
  float cast_t[8];
  float m_t[1];
  float exp_t[8];
  float n_s_t[1];
  float div_t[1];
  float cast_t2[8];
  for (int q = 0; q < 1; ++q) {
    ac_load<8>(&in0_t[q * 8], in0 + i0_b*4096 + (i1_t + (q * 8)));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = in0_t[r];
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = -ac_inf<float>();
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[0] = ac_max(t[0], cast_t[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 16));
  }
  float *box = (float *)(smem + 0);
  for (int r = 0; r < 1; ++r) {
    box[(wave * 1 + r) * 32 + lane] = t[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    float sum = box[((0) * 1 + r) * 32 + lane];
    sum = ac_max(sum, box[((1) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((2) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((3) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((4) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((5) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((6) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((7) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((8) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((9) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((10) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((11) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((12) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((13) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((14) * 1 + r) * 32 + lane]);
    sum = ac_max(sum, box[((15) * 1 + r) * 32 + lane]);
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    m_t[r] = t[r];
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    exp_t[r] = ac_exp_difference_half(cast_t[r], m_t[0]);
  }
  float t2[1];
  for (int r = 0; r < 1; ++r) {
    t2[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t2[0] = (t2[0] + exp_t[r]);
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
  float *box2 = (float *)(smem + 2048);
  for (int r = 0; r < 1; ++r) {
    box2[(wave * 1 + r) * 32 + lane] = t2[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    float sum = box2[((0) * 1 + r) * 32 + lane];
    sum = (sum + box2[((1) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((2) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((3) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((4) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((5) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((6) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((7) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((8) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((9) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((10) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((11) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((12) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((13) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((14) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((15) * 1 + r) * 32 + lane]);
    t2[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t2[r];
  }
  for (int r = 0; r < 1; ++r) {
    div_t[r] = ac_div_half(1.0f, n_s_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t2[r] = (exp_t[r] * div_t[0]);
  }
  for (int q = 0; q < 1; ++q) {
    ac_store<8>(out0 + (i0_b*4096 + (i1_t + (q * 8))), &cast_t2[(q * 8)]);
  }
}
