#include "autocomp_cuda.cuh"

/*
 * reduce_max_max_sumexp_cast_sub_4more_join: cast reduce_max max_sumexp sub div exp mul cast
 * schedule: tile i0 1, i1 2048, r0_part 32
 * predicted: 4.74 us, bound by launch, 6% of the roofline
 * rule: monoids/max-sumexp: made max_sumexp f32[2, 1]
 * rule: idioms/divide-by-row: made div f32[2, 1]
 * rule: idioms/divide-by-row: made mul f32[2, 131072]
 * rule: fusion/reduce-prologue: cast into operand 0 of reduce_max
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/row-statistic: reduce_max into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of exp
 * rule: fusion/reduce-prologue: cast into operand 0 of max_sumexp
 * rule: fusion/row-statistic: reduce_sum into operand 1 of div
 * rule: fusion/row-statistic: exp into operand 0 of mul
 * rule: fusion/row-statistic: div into operand 1 of mul
 * rule: fusion/row-statistic: div into operand 0 of cast
 *
 * kernel reduce_max_max_sumexp_cast_sub_4more_join(in0: f16[i0:2, i1:131072], part0: f32[i0:2, r0_part:32], part1: f32[i0:2, r0_part:32], part2: f32[i0:2, r0_part:32]) -> out0: f16[i0:2, i1:131072]
 * axes i0=2 i1=131072 r0_part=32
 * tile i0=1 i1=2048
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   part0_t: f32[i0, r0_part] fragment = copy part0
 *   m_t: f32[i0] fragment = reduce max r0_part part0_t
 *   part1_t: f32[i0, r0_part] fragment = copy part1
 *   part2_t: f32[i0, r0_part] fragment = copy part2
 *   m_t2: f32[i0] fragment = reduce max r0_part part1_t
 *   where_t: f32[i0, r0_part] fragment = map where(part1_t == -inf, 0.0, part2_t * exp(part1_t - m_t2))
 *   s_t: f32[i0] fragment = reduce add r0_part where_t
 *   div_t: f32[i0] fragment = map 1.0 / s_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, exp(cast(f32, in0_t) - m_t) * div_t)
 *   store out0 = cast_t
 *
 * in0_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,8)
 * part0_t: reg () lane (r0_part,1,32) wave (-,0,8)
 * m_t: reg () lane (-,0,32) wave (-,0,8)
 * part1_t: reg () lane (r0_part,1,32) wave (-,0,8)
 * part2_t: reg () lane (r0_part,1,32) wave (-,0,8)
 * m_t2: reg () lane (-,0,32) wave (-,0,8)
 * where_t: reg () lane (r0_part,1,32) wave (-,0,8)
 * s_t: reg () lane (-,0,32) wave (-,0,8)
 * div_t: reg () lane (-,0,32) wave (-,0,8)
 * cast_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_reduce_max_max_sumexp_cast_sub_4more_join(const f16 *__restrict__ in0, const float *__restrict__ part0, const float *__restrict__ part1, const float *__restrict__ part2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int r0_part_t = lane;
  const int i1_t = lane * 8 + wave * 256;
  int block = blockIdx.x;
  const int i1_b = block % 64 * 2048;
  block /= 64;
  const int i0_b = block;
  float in0_t[8];
  float part0_t[1];
  float m_t[1];
  float part1_t[1];
  float part2_t[1];
  float m_t2[1];
  float where_t[1];
  float n_s_t[1];
  float div_t[1];
  float cast_t[8];
  for (int q = 0; q < 1; ++q) {
    ac_load<8>(&in0_t[q * 8], in0 + i0_b*131072 + (i1_b + i1_t + (q * 8)));
  }
  for (int q = 0; q < 1; ++q) {
    ac_load<1>(&part0_t[q], part0 + i0_b*32 + (r0_part_t));
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = -ac_inf<float>();
  }
  for (int r = 0; r < 1; ++r) {
    t[0] = ac_max(t[0], part0_t[r]);
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
  for (int r = 0; r < 1; ++r) {
    m_t[r] = t[r];
  }
  for (int q = 0; q < 1; ++q) {
    ac_load<1>(&part1_t[q], part1 + i0_b*32 + (r0_part_t));
  }
  for (int q = 0; q < 1; ++q) {
    ac_load<1>(&part2_t[q], part2 + i0_b*32 + (r0_part_t));
  }
  float t2[1];
  for (int r = 0; r < 1; ++r) {
    t2[r] = -ac_inf<float>();
  }
  for (int r = 0; r < 1; ++r) {
    t2[0] = ac_max(t2[0], part1_t[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 16));
  }
  for (int r = 0; r < 1; ++r) {
    m_t2[r] = t2[r];
  }
  for (int r = 0; r < 1; ++r) {
    where_t[r] = ((part1_t[r] == -ac_inf<float>()) ? 0.0f : (part2_t[r] * ac_exp((part1_t[r] - m_t2[r]))));
  }
  float t3[1];
  for (int r = 0; r < 1; ++r) {
    t3[r] = 0.0f;
  }
  for (int r = 0; r < 1; ++r) {
    t3[0] = (t3[0] + where_t[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t3[r] = (t3[r] + ac_shuffle_xor(t3[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    t3[r] = (t3[r] + ac_shuffle_xor(t3[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    t3[r] = (t3[r] + ac_shuffle_xor(t3[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    t3[r] = (t3[r] + ac_shuffle_xor(t3[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t3[r] = (t3[r] + ac_shuffle_xor(t3[r], 16));
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t3[r];
  }
  for (int r = 0; r < 1; ++r) {
    div_t[r] = (1.0f / n_s_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = (ac_exp((in0_t[r] - m_t[0])) * div_t[0]);
  }
  for (int q = 0; q < 1; ++q) {
    ac_store<8>(out0 + (i0_b*131072 + (i1_b + i1_t + (q * 8))), &cast_t[(q * 8)]);
  }
}

#include "autocomp_cuda.cuh"

/*
 * reduce_max_max_sumexp_cast_sub_4more_part: cast reduce_max max_sumexp sub div exp mul cast
 * schedule: tile i0 1, r0_part 1 | threads 512
 * predicted: 4.57 us, bound by launch, 3% of the roofline
 * rule: monoids/max-sumexp: made max_sumexp f32[2, 1]
 * rule: idioms/divide-by-row: made div f32[2, 1]
 * rule: idioms/divide-by-row: made mul f32[2, 131072]
 * rule: fusion/reduce-prologue: cast into operand 0 of reduce_max
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/row-statistic: reduce_max into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of exp
 * rule: fusion/reduce-prologue: cast into operand 0 of max_sumexp
 * rule: fusion/row-statistic: reduce_sum into operand 1 of div
 * rule: fusion/row-statistic: exp into operand 0 of mul
 * rule: fusion/row-statistic: div into operand 1 of mul
 * rule: fusion/row-statistic: div into operand 0 of cast
 *
 * kernel reduce_max_max_sumexp_cast_sub_4more_part(in0: f16[r0_part:32, i0:2, r0:4096] of in0[2, 131072] at [i0, r0 + 4096*r0_part]) -> part0: f32[r0_part:32, i0:2] of part0[2, 32] at [i0, r0_part], part1: f32[r0_part:32, i0:2] of part1[2, 32] at [i0, r0_part], part2: f32[r0_part:32, i0:2] of part2[2, 32] at [i0, r0_part]
 * axes r0_part=32 i0=2 r0=4096
 * tile r0_part=1 i0=1
 * grid r0_part, i0
 *   in0_t: f16[r0_part, i0, r0] fragment = copy in0
 *   cast_t: f32[r0_part, i0, r0] fragment = map cast(f32, in0_t)
 *   m_t: f32[r0_part, i0] fragment = reduce max r0 cast_t
 *   store part0 = m_t
 *   p: f32[r0_part, i0, r0] fragment = map exp(cast_t - m_t)
 *   l: f32[r0_part, i0] fragment = reduce add r0 p
 *   store part1 = m_t
 *   store part2 = l
 *
 * in0_t: reg (r0,1,8) lane (r0,8,32) wave (r0,256,16)
 * cast_t: reg (r0,1,8) lane (r0,8,32) wave (r0,256,16)
 * m_t: reg () lane (-,0,32) wave (-,0,16)
 * p: reg (r0,1,8) lane (r0,8,32) wave (r0,256,16)
 * l: reg () lane (-,0,32) wave (-,0,16)
 */
extern "C" __global__ void __launch_bounds__(512) k_reduce_max_max_sumexp_cast_sub_4more_part(const f16 *__restrict__ in0, float *__restrict__ part0, float *__restrict__ part1, float *__restrict__ part2) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int r0_t = lane * 8 + wave * 256;
  int block = blockIdx.x;
  const int i0_b = block % 2;
  block /= 2;
  const int r0_part_b = block;
  float in0_t[8];
  float cast_t[8];
  float m_t[1];
  float p[8];
  float l[1];
  for (int q = 0; q < 1; ++q) {
    ac_load<8>(&in0_t[q * 8], in0 + i0_b*131072 + (r0_t + (q * 8)) + r0_part_b*4096);
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
  for (int q = 0; q < 1; ++q) {
    if ((lane == 0) & (wave == 0)) ac_store<1>(part0 + i0_b*32 + r0_part_b, &m_t[q]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    p[r] = ac_exp((cast_t[r] - m_t[0]));
  }
  float t2[1];
  for (int r = 0; r < 1; ++r) {
    t2[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t2[0] = (t2[0] + p[r]);
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
    l[r] = t2[r];
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane == 0) & (wave == 0)) ac_store<1>(part1 + i0_b*32 + r0_part_b, &m_t[q]);
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane == 0) & (wave == 0)) ac_store<1>(part2 + i0_b*32 + r0_part_b, &l[q]);
  }
}
