#include "autocomp_cuda.cuh"

/*
 * reduce_sum: reduce_sum
 * schedule: tile i0 8, r0 256 | threads 512 | thread_partials
 * predicted: 4.96 us, bound by latency, 6% of the roofline
 * rule: tiling/gpu-columns: the schedule
 *
 * kernel reduce_sum(in0: f32[i0:200, r0:1500] of in0[1500, 200] at [r0, i0]) -> out0: f32[i0:200]
 * axes i0=200 r0=1500
 * tile i0=8 r0=256
 * grid i0
 *   s: f32[i0] fragment = fill 0
 *   serial r0
 *     in0_t: f32[i0, r0] fragment = copy in0
 *     s += reduce add r0 in0_t
 *   store out0 = s
 *
 * in0_t: reg (i0,1,4) lane (i0,4,2)(r0,1,16) wave (r0,16,16)
 * s: reg (i0,1,4) lane (i0,4,2)(-,0,16) wave (-,0,16)
 */
extern "C" __global__ void __launch_bounds__(512) k_reduce_sum(const float *__restrict__ in0, float *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t = lane % 2 * 4;
  const int r0_t = lane / 2 + wave * 16;
  int block = blockIdx.x;
  const int i0_b = block * 8;
  float s[4];
  float in0_t[4];
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    s[r] = 0.0f;
  }
  for (int it = 0; it < 6; ++it) {
    const int r0_b = it * 256;
    for (int q = 0; q < 1; ++q) {
      ac_load_where<4>(&in0_t[q * 4], r0_b + r0_t < 1500, in0 + (i0_b + i0_t + (q * 4)) + (r0_b + r0_t)*200, 0.0f);
    }
    float t[4];
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      t[r] = 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      t[(r)] = (t[(r)] + in0_t[r]);
    }
    #pragma unroll
    for (int r = 0; r < 4; ++r) {
      s[r] = (s[r] + t[r]);
    }
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    s[r] = (s[r] + ac_shuffle_xor(s[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    s[r] = (s[r] + ac_shuffle_xor(s[r], 4));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    s[r] = (s[r] + ac_shuffle_xor(s[r], 8));
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    s[r] = (s[r] + ac_shuffle_xor(s[r], 16));
  }
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    box[(wave * 4 + r) * 32 + lane] = s[r];
  }
  ac_sync();
  for (int q = wave; q < 4; q += 16) {
    #pragma unroll
    for (int p = 1; p < 16; ++p) {
      box[(0 * 4 + q) * 32 + lane] = (box[(0 * 4 + q) * 32 + lane] + box[(p * 4 + q) * 32 + lane]);
    }
  }
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    s[r] = box[(0 * 4 + r) * 32 + lane];
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane / 2 == 0) & (wave == 0)) ac_store<4>(out0 + ((i0_b + i0_t + (q * 4))), &s[(q * 4)]);
  }
}
