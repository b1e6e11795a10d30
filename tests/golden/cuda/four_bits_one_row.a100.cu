#include "autocomp_cuda.cuh"

/*
 * reduce_sum_bitand_shr_concat_3more: bitand shr reshape reshape reshape reshape concat reshape cast sub mul reshape mul reduce_sum
 * schedule: tile i0 2 | threads 64 | one_load
 * predicted: 3.83 us, bound by latency, 0% of the roofline
 * rule: algebra/row-times-matrix: made reshape f16[256, 1]
 * rule: algebra/row-times-matrix: made mul f16[256, 96]
 * rule: algebra/row-times-matrix: made reduce_sum f16[1, 96]
 * rule: fusion/view: bitand into operand 0 of reshape
 * rule: fusion/view: shr into operand 0 of reshape
 * rule: fusion/map-into-map: reshape into operand 0 of concat
 * rule: fusion/map-into-map: reshape into operand 1 of concat
 * rule: fusion/view: concat into operand 0 of reshape
 * rule: fusion/map-into-map: reshape into operand 0 of cast
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/map-into-map: sub into operand 0 of mul
 * rule: fusion/view: mul into operand 0 of reshape
 * rule: fusion/map-into-map: reshape into operand 1 of mul
 * rule: fusion/reduce-prologue: mul into operand 0 of reduce_sum
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_sum_bitand_shr_concat_3more(in0: f16[r0:4, r1:32, r2:2] of in0[256] at [64*r0 + 2*r1 + r2], in1: u8[i0:96, r0:4, r1:32, r2:2] of in1[128, 96] at [32*r0 + r1, ((r2 + 95) mod 96) + i0 + 95*r2 - 95], in2: f16[i0:96, r0:4] of in2[4, 96] at [r0, i0]) -> out0: f16[i0:96]
 * axes i0=96 r0=4 r1=32 r2=2
 * tile i0=2
 * grid i0
 *   in0_t: f16[r0, r1, r2] fragment = copy in0
 *   in1_t: u8[i0, r0, r1, r2] fragment = copy in1
 *   in2_t: f16[i0, r0] fragment = copy in2
 *   cast_t: f32[i0, r0, r1, r2] fragment = map cast(f32, in0_t * ((cast(f16, where(idx(r2) < 1, bitand(in1_t, 15), shr(in1_t, 4))) - 8.0) * in2_t))
 *   s_t: f32[i0] fragment = reduce add r0,r1,r2 cast_t
 *   cast_t2: f16[i0] fragment = map cast(f16, s_t)
 *   store out0 = cast_t2
 *
 * in1_t: reg (r1,16,2)(r0,1,4) lane (i0,1,2)(r2,1,2)(r1,1,8) wave (r1,8,2)
 * in0_t: reg (r1,16,2)(r0,1,4) lane (-,0,2)(r2,1,2)(r1,1,8) wave (r1,8,2)
 * in2_t: reg (r0,1,4) lane (i0,1,2)(-,0,2)(-,0,8) wave (-,0,2)
 * cast_t: reg (r1,16,2)(r0,1,4) lane (i0,1,2)(r2,1,2)(r1,1,8) wave (r1,8,2)
 * s_t: reg () lane (i0,1,2)(-,0,2)(-,0,8) wave (-,0,2)
 * cast_t2: reg () lane (i0,1,2)(-,0,2)(-,0,8) wave (-,0,2)
 */
extern "C" __global__ void __launch_bounds__(64) k_reduce_sum_bitand_shr_concat_3more(const f16 *__restrict__ in0, const unsigned char *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t = lane % 2;
  const int r2_t = lane / 2 % 2;
  const int r1_t = lane / 4 + wave * 8;
  int block = blockIdx.x;
  const int i0_b = block * 2;
  float in0_t[8];
  alignas(16) unsigned char in1_t[8];
  float in2_t[4];
  float cast_t[8];
  float n_s_t[1];
  float cast_t2[1];
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load<1>(&in0_t[q], in0 + (q / 2)*64 + (r1_t + q % 2 * 16)*2 + (r2_t));
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load<1>(&in1_t[q], in1 + (ac_wrapped((r2_t) + 95, 96) + (i0_b + i0_t) + (q / 2)*3072 + (r1_t + q % 2 * 16)*96 + (r2_t)*95 - 95));
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_load<1>(&in2_t[q], in2 + (i0_b + i0_t) + (q)*96);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = (in0_t[r] * (ac_small((unsigned char)(((-1*(r2_t) >= 0) ? (unsigned char)((in1_t[r] & 15u)) : (unsigned char)(ac_shr<unsigned char>(in1_t[r], 4u)))), 8.0f) * in2_t[(r / 2)]));
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[0] = (t[0] + cast_t[r]);
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
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    cast_t2[r] = n_s_t[r];
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane / 2 % 2 == 0) & (lane / 4 == 0) & (wave == 0)) ac_store<1>(out0 + (i0_b + i0_t), &cast_t2[q]);
  }
}
