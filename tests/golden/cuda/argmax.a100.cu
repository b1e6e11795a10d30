#include "autocomp_cuda.cuh"

/*
 * reduce_argmax: reduce_argmax
 * schedule: tile i0 2 | threads 128 | peel_tail
 * predicted: 4.31 us, bound by launch, 0% of the roofline
 * rule: tiling/gpu-rows: the schedule
 *
 * kernel reduce_argmax(in0: f32[i0:50, r0:300]) -> out0: i64[i0:50]
 * axes i0=50 r0=300
 * tile i0=2
 * grid i0
 *   in0_t: f32[i0, r0] fragment = copy in0
 *   m_t: f32[i0] fragment = reduce max r0 in0_t
 *   at: i32[i0, r0] fragment = map where(or(in0_t == m_t, isnan(in0_t)), idx(r0, i32), 2147483647)
 *   i: i32[i0] fragment = reduce min r0 at
 *   i2: i64[i0] fragment = map cast(i64, i)
 *   store out0 = i2
 *
 * in0_t: reg (r0,1,2)(r0,128,3) lane (r0,2,32) wave (i0,1,2)(r0,64,2)
 * m_t: reg () lane (-,0,32) wave (i0,1,2)(-,0,2)
 * at: reg (r0,1,2)(r0,128,3) lane (r0,2,32) wave (i0,1,2)(r0,64,2)
 * i: reg () lane (-,0,32) wave (i0,1,2)(-,0,2)
 * i2: reg () lane (-,0,32) wave (i0,1,2)(-,0,2)
 */
extern "C" __global__ void __launch_bounds__(128) k_reduce_argmax(const float *__restrict__ in0, long long *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i0_t = wave % 2;
  const int r0_t = lane * 2 + wave / 2 * 64;
  int block = blockIdx.x;
  const int i0_b = block * 2;
  float in0_t[6];
  float m_t[1];
  int at[6];
  int i[1];
  long long i2[1];
  #pragma unroll
  for (int q = 0; q < 3; ++q) {
    ac_load_where<2>(&in0_t[q * 2], ((q * 2) < 4 || r0_t + (q * 2) % 2 + (q * 2) / 2 * 128 < 300), in0 + (i0_b + i0_t)*300 + (r0_t + (q * 2) % 2 + (q * 2) / 2 * 128), 0.0f);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = -ac_inf<float>();
  }
  #pragma unroll
  for (int r = 0; r < 6; ++r) {
    if ((r < 4 || r0_t + r % 2 + r / 2 * 128 < 300)) t[0] = ac_max(t[0], in0_t[r]);
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
    float sum = box[((wave % 2 + 0) * 1 + r) * 32 + lane];
    sum = ac_max(sum, box[((wave % 2 + 2) * 1 + r) * 32 + lane]);
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    m_t[r] = t[r];
  }
  #pragma unroll
  for (int r = 0; r < 6; ++r) {
    at[r] = (((in0_t[r] == m_t[0]) || ac_isnan(in0_t[r])) ? (int)((r0_t + r % 2 + r / 2 * 128)) : 2147483647);
  }
  int t2[1];
  for (int r = 0; r < 1; ++r) {
    t2[r] = 2147483647;
  }
  #pragma unroll
  for (int r = 0; r < 6; ++r) {
    if ((r < 4 || r0_t + r % 2 + r / 2 * 128 < 300)) t2[0] = ac_min<int>(t2[0], at[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_min<int>(t2[r], ac_shuffle_xor(t2[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_min<int>(t2[r], ac_shuffle_xor(t2[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_min<int>(t2[r], ac_shuffle_xor(t2[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_min<int>(t2[r], ac_shuffle_xor(t2[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    t2[r] = ac_min<int>(t2[r], ac_shuffle_xor(t2[r], 16));
  }
  int *box2 = (int *)(smem + 512);
  for (int r = 0; r < 1; ++r) {
    box2[(wave * 1 + r) * 32 + lane] = t2[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    int sum = box2[((wave % 2 + 0) * 1 + r) * 32 + lane];
    sum = ac_min<int>(sum, box2[((wave % 2 + 2) * 1 + r) * 32 + lane]);
    t2[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    i[r] = t2[r];
  }
  for (int r = 0; r < 1; ++r) {
    i2[r] = ((long long)(i[r]));
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane == 0) & (wave / 2 == 0)) ac_store<1>(out0 + (i0_b + i0_t), &i2[q]);
  }
}
