#include "autocomp_cuda.cuh"

/*
 * reduce_sum_add_cast_mul_5more: add cast cast mul reduce_sum mul add rsqrt mul mul cast
 * schedule: tile i0 1 | threads 512
 * predicted: 4.59 us, bound by launch, 3% of the roofline
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
 * kernel reduce_sum_add_cast_mul_5more(in0: f16[i0:20, i1:4096], in1: f16[i0:20, i1:4096], in2: f16[i1:4096]) -> out0: f16[i0:20, i1:4096]
 * axes i0=20 i1=4096
 * tile i0=1
 * grid i0
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   in1_t: f16[i0, i1] fragment = copy in1
 *   cast_t: f32[i0, i1] fragment = map cast(f32, in0_t + in1_t)
 *   mul_t: f32[i0, i1] fragment = map cast_t * cast_t
 *   s_t: f32[i0] fragment = reduce add i1 mul_t
 *   rsqrt_t: f32[i0] fragment = map rsqrt(s_t * 0.000244140625 + 9.999999747378752e-06)
 *   in2_t: f16[i1] fragment = copy in2
 *   cast_t2: f32[i1] fragment = map cast(f32, in2_t)
 *   cast_t3: f16[i0, i1] fragment = map cast(f16, cast_t * rsqrt_t * cast_t2)
 *   store out0 = cast_t3
 *
 * in0_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * in1_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * cast_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * mul_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * s_t: reg () lane (-,0,32) wave (-,0,16)
 * rsqrt_t: reg () lane (-,0,32) wave (-,0,16)
 * in2_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * cast_t2: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 * cast_t3: reg (i1,1,8) lane (i1,8,32) wave (i1,256,16)
 */
extern "C" __global__ void __launch_bounds__(512) k_reduce_sum_add_cast_mul_5more(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane * 8 + wave * 256;
  int block = blockIdx.x;
  const int i0_b = block;
  float in0_t[8];
  float in1_t[8];
  float cast_t[8];
  float mul_t[8];
  float n_s_t[1];
  float rsqrt_t[1];
  float in2_t[8];
  float cast_t2[8];
  float cast_t3[8];
  for (int q = 0; q < 1; ++q) {
    ac_load<8>(&in0_t[q * 8], in0 + i0_b*4096 + (i1_t + (q * 8)));
  }
  for (int q = 0; q < 1; ++q) {
    ac_load<8>(&in1_t[q * 8], in1 + i0_b*4096 + (i1_t + (q * 8)));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = (in0_t[r] + in1_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    mul_t[r] = (cast_t[r] * cast_t[r]);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t[0] = (t[0] + mul_t[r]);
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
    sum = (sum + box[((4) * 1 + r) * 32 + lane]);
    sum = (sum + box[((5) * 1 + r) * 32 + lane]);
    sum = (sum + box[((6) * 1 + r) * 32 + lane]);
    sum = (sum + box[((7) * 1 + r) * 32 + lane]);
    sum = (sum + box[((8) * 1 + r) * 32 + lane]);
    sum = (sum + box[((9) * 1 + r) * 32 + lane]);
    sum = (sum + box[((10) * 1 + r) * 32 + lane]);
    sum = (sum + box[((11) * 1 + r) * 32 + lane]);
    sum = (sum + box[((12) * 1 + r) * 32 + lane]);
    sum = (sum + box[((13) * 1 + r) * 32 + lane]);
    sum = (sum + box[((14) * 1 + r) * 32 + lane]);
    sum = (sum + box[((15) * 1 + r) * 32 + lane]);
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    rsqrt_t[r] = ac_rsqrt_half(((n_s_t[r] * 0.000244140625f) + 9.99999975e-06f));
  }
  for (int q = 0; q < 1; ++q) {
    ac_load<8>(&in2_t[q * 8], in2 + (i1_t + (q * 8)));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t2[r] = in2_t[r];
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t3[r] = ((cast_t[r] * rsqrt_t[0]) * cast_t2[r]);
  }
  for (int q = 0; q < 1; ++q) {
    ac_store<8>(out0 + (i0_b*4096 + (i1_t + (q * 8))), &cast_t3[(q * 8)]);
  }
}
