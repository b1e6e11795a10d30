#include "autocomp_cuda.cuh"

/*
 * reduce_sum_mul_sub: reduce_sum mul sub mul reduce_sum mul
 * schedule: tile i0 1, i1 8 | peel_tail
 * predicted: 3.48 us, bound by launch, 1% of the roofline
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: fusion/row-statistic: mul into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of mul
 * rule: fusion/row-statistic: sub into operand 1 of mul
 * rule: fusion/reduce-row: mul into operand 0 of reduce_sum
 * rule: fusion/row-statistic: reduce_sum into operand 0 of mul
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_sum_mul_sub(in0: f32[i0:3, i1:77, r0:250] of in0[3, 250, 77] at [i0, r0, i1]) -> out0: f32[i0:3, i1:77]
 * axes i0=3 i1=77 r0=250
 * tile i0=1 i1=8
 * grid i0, i1
 *   in0_t: f32[i0, i1, r0] fragment = copy in0
 *   s_t: f32[i0, i1] fragment = reduce add r0 in0_t
 *   mul_t: f32[i0, i1] fragment = map s_t * 0.004000000189989805
 *   sub_t: f32[i0, i1, r0] fragment = map in0_t - mul_t
 *   mul_t2: f32[i0, i1, r0] fragment = map sub_t * sub_t
 *   s_t2: f32[i0, i1] fragment = reduce add r0 mul_t2
 *   mul_t3: f32[i0, i1] fragment = map s_t2 * 0.004000000189989805
 *   store out0 = mul_t3
 *
 * in0_t: reg (r0,32,8) lane (i1,1,8)(r0,1,4) wave (r0,4,8)
 * s_t: reg () lane (i1,1,8)(-,0,4) wave (-,0,8)
 * mul_t: reg () lane (i1,1,8)(-,0,4) wave (-,0,8)
 * sub_t: reg (r0,32,8) lane (i1,1,8)(r0,1,4) wave (r0,4,8)
 * mul_t2: reg (r0,32,8) lane (i1,1,8)(r0,1,4) wave (r0,4,8)
 * s_t2: reg () lane (i1,1,8)(-,0,4) wave (-,0,8)
 * mul_t3: reg () lane (i1,1,8)(-,0,4) wave (-,0,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_reduce_sum_mul_sub(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int r0_t = lane / 8 + wave * 4;
  const int i1_t = lane % 8;
  int block = blockIdx.x;
  const int i1_b = block % 10 * 8;
  block /= 10;
  const int i0_b = block;
  float in0_t[8];
  float n_s_t[1];
  float mul_t[1];
  float sub_t[8];
  float mul_t2[8];
  float n_s_t2[1];
  float mul_t3[1];
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in0_t[q], (i1_b + i1_t < 77) & ((q < 7 || r0_t + q * 32 < 250)), in0 + i0_b*19250 + (i1_b + i1_t) + (r0_t + q * 32)*77, 0.0f);
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
    sum = (sum + box[((4) * 1 + r) * 32 + lane]);
    sum = (sum + box[((5) * 1 + r) * 32 + lane]);
    sum = (sum + box[((6) * 1 + r) * 32 + lane]);
    sum = (sum + box[((7) * 1 + r) * 32 + lane]);
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    mul_t[r] = (n_s_t[r] * 0.00400000019f);
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
    if ((r < 7 || r0_t + r * 32 < 250)) t2[0] = (t2[0] + mul_t2[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 16));
  }
  float *box2 = (float *)(smem + 1024);
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
    t2[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t2[r] = t2[r];
  }
  for (int r = 0; r < 1; ++r) {
    mul_t3[r] = (n_s_t2[r] * 0.00400000019f);
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane / 8 == 0) & (wave == 0) & (i1_b + i1_t < 77)) ac_store<1>(out0 + i0_b*77 + (i1_b + i1_t), &mul_t3[q]);
  }
}
