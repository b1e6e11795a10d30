#include "autocomp_cuda.cuh"

/*
 * reduce_sum: reduce_sum
 * schedule: tile i0 4
 * predicted: 3.20 us, bound by l2
 *
 * kernel reduce_sum(in0: f32[i0:500, r0:3000] of in0[3000, 500] at [r0, i0]) -> out0: f32[i0:500]
 * axes i0=500 r0=3000
 * tile i0=4
 * grid i0
 *   in0_t: f32[i0, r0] fragment = copy in0
 *   s_t: f32[i0] fragment = reduce add r0 in0_t
 *   store out0 = s_t
 *
 * in0_t: reg (i0,1,4)(r0,256,12) lane (r0,1,32) wave (r0,32,8)
 * s_t: reg (i0,1,4) lane (-,0,32) wave (-,0,8)
 */
extern "C" __global__ void __launch_bounds__(256) reduce_sum(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int r0_t = lane + wave * 32;
  int block = blockIdx.x;
  const int i0_b = block * 4;
  float in0_t[48];
  float n_s_t[4];
  #pragma unroll
  for (int q = 0; q < 12; ++q) {
    if (r0_t + (q * 4) / 4 * 256 < 3000) ac_load<4>(&in0_t[q * 4], in0 + (i0_b + (q * 4) % 4) + (r0_t + (q * 4) / 4 * 256)*500);
    else ac_fill<4>(&in0_t[q * 4], 0.0f);
  }
  float t[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 48; ++r) {
    if (r0_t + r / 4 * 256 < 3000) t[(r % 4)] = (t[(r % 4)] + in0_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 4));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 8));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = (t[r] + ac_shuffle_xor(t[r], 16));
  }
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    box[(wave * 4 + r) * 32 + lane] = t[r];
  }
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    float sum = box[((0) * 4 + r) * 32 + lane];
    sum = (sum + box[((1) * 4 + r) * 32 + lane]);
    sum = (sum + box[((2) * 4 + r) * 32 + lane]);
    sum = (sum + box[((3) * 4 + r) * 32 + lane]);
    sum = (sum + box[((4) * 4 + r) * 32 + lane]);
    sum = (sum + box[((5) * 4 + r) * 32 + lane]);
    sum = (sum + box[((6) * 4 + r) * 32 + lane]);
    sum = (sum + box[((7) * 4 + r) * 32 + lane]);
    t[r] = sum;
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    n_s_t[r] = t[r];
  }
  for (int q = 0; q < 1; ++q) {
    if (lane == 0 && wave == 0) ac_store<4>(out0 + (i0_b + (q * 4)), &n_s_t[(q * 4)]);
  }
}
