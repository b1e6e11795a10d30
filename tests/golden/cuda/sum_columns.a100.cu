#include "autocomp_cuda.cuh"

/*
 * reduce_sum: reduce_sum
 * schedule: tile i0 1
 * predicted: 5.16 us, bound by cache fill, 6% of the roofline
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_sum(in0: f32[i0:200, r0:1500] of in0[1500, 200] at [r0, i0]) -> out0: f32[i0:200]
 * axes i0=200 r0=1500
 * tile i0=1
 * grid i0
 *   in0_t: f32[i0, r0] fragment = copy in0
 *   s_t: f32[i0] fragment = reduce add r0 in0_t
 *   store out0 = s_t
 *
 * in0_t: reg (r0,256,6) lane (r0,1,32) wave (r0,32,8)
 * s_t: reg () lane (-,0,32) wave (-,0,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_reduce_sum(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int r0_t = lane + wave * 32;
  int block = blockIdx.x;
  const int i0_b = block;
  float in0_t[6];
  float n_s_t[1];
  #pragma unroll
  for (int q = 0; q < 6; ++q) {
    if (r0_t + q * 256 < 1500) ac_load<1>(&in0_t[q], in0 + i0_b + (r0_t + q * 256)*200);
    else ac_fill<1>(&in0_t[q], 0.0f);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 6; ++r) {
    if (r0_t + r * 256 < 1500) t[0] = (t[0] + in0_t[r]);
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
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t[r] = t[r];
  }
  for (int q = 0; q < 1; ++q) {
    if (lane == 0 && wave == 0) ac_store<1>(out0 + i0_b, &n_s_t[q]);
  }
}
