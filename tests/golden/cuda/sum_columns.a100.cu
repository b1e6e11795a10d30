#include "autocomp_cuda.cuh"

/*
 * reduce_sum: reduce_sum
 * schedule: tile i0 8, r0 3000; 1024 threads
 * predicted: 4.00 us, bound by l2
 *
 * kernel reduce_sum(in0: f32[i0:500, r0:3000] of in0[3000, 500] at [r0, i0]) -> out0: f32[i0:500]
 * axes i0=500 r0=3000
 * tile i0=8
 * grid i0
 *   in0_t: f32[i0, r0] fragment = copy in0
 *   s_t: f32[i0] fragment = reduce add r0 in0_t
 *   store out0 = s_t
 *
 * in0_t: reg (i0,1,4)(r0,512,6) lane (i0,4,2)(r0,1,16) wave (r0,16,32)
 * s_t: reg (i0,1,4) lane (i0,4,2)(-,0,16) wave (-,0,32)
 */
extern "C" __global__ void __launch_bounds__(1024) reduce_sum(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int r0_t = lane / 2 + wave * 16;
  const int i0_t = lane % 2 * 4;
  int block = blockIdx.x;
  const int i0_b = block * 8;
  float in0_t[24];
  float n_s_t[4];
  #pragma unroll
  for (int q = 0; q < 6; ++q) {
    if (i0_b + i0_t + (q * 4) % 4 < 500 && r0_t + (q * 4) / 4 * 512 < 3000) ac_load<4>(&in0_t[q * 4], in0 + (i0_b + i0_t + (q * 4) % 4) + (r0_t + (q * 4) / 4 * 512)*500);
    else ac_fill<4>(&in0_t[q * 4], 0.0f);
  }
  float t[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    t[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 24; ++r) {
    if (r0_t + r / 4 * 512 < 3000) t[(r % 4)] = (t[(r % 4)] + in0_t[r]);
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
    sum = (sum + box[((8) * 4 + r) * 32 + lane]);
    sum = (sum + box[((9) * 4 + r) * 32 + lane]);
    sum = (sum + box[((10) * 4 + r) * 32 + lane]);
    sum = (sum + box[((11) * 4 + r) * 32 + lane]);
    sum = (sum + box[((12) * 4 + r) * 32 + lane]);
    sum = (sum + box[((13) * 4 + r) * 32 + lane]);
    sum = (sum + box[((14) * 4 + r) * 32 + lane]);
    sum = (sum + box[((15) * 4 + r) * 32 + lane]);
    sum = (sum + box[((16) * 4 + r) * 32 + lane]);
    sum = (sum + box[((17) * 4 + r) * 32 + lane]);
    sum = (sum + box[((18) * 4 + r) * 32 + lane]);
    sum = (sum + box[((19) * 4 + r) * 32 + lane]);
    sum = (sum + box[((20) * 4 + r) * 32 + lane]);
    sum = (sum + box[((21) * 4 + r) * 32 + lane]);
    sum = (sum + box[((22) * 4 + r) * 32 + lane]);
    sum = (sum + box[((23) * 4 + r) * 32 + lane]);
    sum = (sum + box[((24) * 4 + r) * 32 + lane]);
    sum = (sum + box[((25) * 4 + r) * 32 + lane]);
    sum = (sum + box[((26) * 4 + r) * 32 + lane]);
    sum = (sum + box[((27) * 4 + r) * 32 + lane]);
    sum = (sum + box[((28) * 4 + r) * 32 + lane]);
    sum = (sum + box[((29) * 4 + r) * 32 + lane]);
    sum = (sum + box[((30) * 4 + r) * 32 + lane]);
    sum = (sum + box[((31) * 4 + r) * 32 + lane]);
    t[r] = sum;
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    n_s_t[r] = t[r];
  }
  for (int q = 0; q < 1; ++q) {
    if (lane / 2 == 0 && wave == 0 && i0_b + i0_t + (q * 4) < 500) ac_store<4>(out0 + (i0_b + i0_t + (q * 4)), &n_s_t[(q * 4)]);
  }
}
