#include "autocomp_cuda.cuh"

/*
 * cumsum: cumsum
 * schedule: tile i0 2 | threads 128 | scan | peel_tail
 * predicted: 3.44 us, bound by latency, 1% of the roofline
 * rule: tiling/gpu-scan: the schedule
 *
 * kernel cumsum(in0: f32[i0:9, i1:301]) -> out0: f32[i0:9, i1:301]
 * axes i0=9 i1=301
 * tile i0=2
 * grid i0
 *   in0_t: f32[i0, i1] fragment = copy in0
 *   s: f32[i0, i1] fragment = scan add i1 in0_t
 *   store out0 = s
 *
 * in0_t: reg (i1,64,5) lane (i1,1,32) wave (i0,1,2)(i1,32,2)
 * s: reg (i1,64,5) lane (i1,1,32) wave (i0,1,2)(i1,32,2)
 */
extern "C" __global__ void __launch_bounds__(128) k_cumsum(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane + wave / 2 * 32;
  const int i0_t = wave % 2;
  int block = blockIdx.x;
  const int i0_b = block * 2;
  float in0_t[5];
  float s[5];
  #pragma unroll
  for (int q = 0; q < 5; ++q) {
    ac_load_where<1>(&in0_t[q], (i0_b + i0_t < 9) & ((q < 4 || i1_t + q * 64 < 301)), in0 + (i0_b + i0_t)*301 + (i1_t + q * 64), 0.0f);
  }
  float sum2[5], front[5];
  #pragma unroll
  for (int g = 0; g < 5; ++g) {
    sum2[g] = front[g] = 0.0f;
    #pragma unroll
    for (int e = 0; e < 1; ++e) {
      const int r = (g) + e;
      sum2[g] = (sum2[g] + in0_t[r]);
      s[r] = sum2[g];
    }
  }
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    const float other = ac_shuffle_xor(sum2[r], 1);
    if (lane / 1 % 2 == 1) front[r] = (other + front[r]);
    sum2[r] = (sum2[r] + other);
  }
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    const float other = ac_shuffle_xor(sum2[r], 2);
    if (lane / 2 % 2 == 1) front[r] = (other + front[r]);
    sum2[r] = (sum2[r] + other);
  }
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    const float other = ac_shuffle_xor(sum2[r], 4);
    if (lane / 4 % 2 == 1) front[r] = (other + front[r]);
    sum2[r] = (sum2[r] + other);
  }
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    const float other = ac_shuffle_xor(sum2[r], 8);
    if (lane / 8 % 2 == 1) front[r] = (other + front[r]);
    sum2[r] = (sum2[r] + other);
  }
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    const float other = ac_shuffle_xor(sum2[r], 16);
    if (lane / 16 % 2 == 1) front[r] = (other + front[r]);
    sum2[r] = (sum2[r] + other);
  }
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    box[(wave * 5 + r) * 32 + lane] = sum2[r];
  }
  ac_sync();
  const int place = (wave / 2);
  #pragma unroll
  for (int r = 0; r < 5; ++r) {
    float before = 0.0f, all = 0.0f;
    const float part0 = box[((wave % 2 + 0) * 5 + r) * 32 + lane];
    if (0 < place) before = (before + part0);
    all = (all + part0);
    const float part1 = box[((wave % 2 + 0 + 2) * 5 + r) * 32 + lane];
    if (1 < place) before = (before + part1);
    all = (all + part1);
    front[r] = (before + front[r]);
    sum2[r] = all;
  }
  #pragma unroll
  for (int h = 0; h < 1; ++h) {
    float carry = 0.0f;
    #pragma unroll
    for (int v = 0; v < 5; ++v) {
      const int g = h * 5 + v * 1;
      front[g] = (carry + front[g]);
      carry = (carry + sum2[g]);
    }
    #pragma unroll
    for (int v = 0; v < 5; ++v) {
      sum2[h * 5 + v * 1] = carry;
    }
  }
  #pragma unroll
  for (int g = 0; g < 5; ++g) {
    #pragma unroll
    for (int e = 0; e < 1; ++e) {
      const int r = (g) + e;
      s[r] = (front[g] + s[r]);
    }
  }
  #pragma unroll
  for (int q = 0; q < 5; ++q) {
    if ((i0_b + i0_t < 9) & ((q < 4 || i1_t + q * 64 < 301))) ac_store<1>(out0 + (i0_b + i0_t)*301 + (i1_t + q * 64), &s[q]);
  }
}
