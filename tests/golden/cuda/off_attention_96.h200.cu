#include "autocomp_cuda.cuh"

/*
 * matmul_mul_softmax_weighted_sum: transpose matmul mul softmax_weighted_sum
 * schedule: tile i0 64, i1 96, r1 100 | stages 3 | threads 128
 * predicted: 61.66 us, bound by latency, 0% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[1, 1, 100, 96]
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/scores-into-online: mul into operand 0 of softmax_weighted_sum
 * rule: tiling/gpu-online: the schedule
 *
 * kernel matmul_mul_softmax_weighted_sum(in0: f16[i0:100, r0:96], in1: f16[r0:96, r1:100] of in1[100, 96] at [r1, r0], in2: f16[i1:96, r1:100] of in2[100, 96] at [r1, i1]) -> out0: f16[i0:100, i1:96]
 * axes i0=100 i1=96 r0=96 r1=100
 * tile i0=64
 * grid i0
 *   in0_t: f16[i0, r0] block = copy in0
 *   in1_t: f16[r0, r1] block = copy in1
 *   acc: f32[i0, r1] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   m_t: f32[i0] fragment = reduce max r1 acc
 *   m_t2: f32[i0] fragment = map m_t * 0.125
 *   p: f32[i0, r1] fragment = map exp(acc * 0.125 - m_t2)
 *   l: f32[i0] fragment = reduce add r1 p
 *   in2_t: f16[i1, r1] block = copy in2
 *   p_n: f16[i0, r1] fragment = map cast(f16, p)
 *   o: f32[i0, i1] fragment = fill 0.0
 *   o += mma p_n, in2_t
 *   r: f32[i0, i1] fragment = map o / l
 *   cast_t: f16[i0, i1] fragment = map cast(f16, r)
 *   store out0 = cast_t
 *
 * acc: reg (r1,1,2)(i0,8,2)(r1,8,14) lane (r1,2,4)(i0,1,8) wave (i0,16,4)
 * o: reg (i1,1,2)(i0,8,2)(i1,8,12) lane (i1,2,4)(i0,1,8) wave (i0,16,4)
 * p_n: reg (r1,1,2)(i0,8,2)(r1,8,14) lane (r1,2,4)(i0,1,8) wave (i0,16,4)
 * m_t: reg (i0,8,2) lane (-,0,4)(i0,1,8) wave (i0,16,4)
 * m_t2: reg (i0,8,2) lane (-,0,4)(i0,1,8) wave (i0,16,4)
 * p: reg (r1,1,2)(i0,8,2)(r1,8,14) lane (r1,2,4)(i0,1,8) wave (i0,16,4)
 * l: reg (i0,8,2) lane (-,0,4)(i0,1,8) wave (i0,16,4)
 * r: reg (i1,1,2)(i0,8,2)(i1,8,12) lane (i1,2,4)(i0,1,8) wave (i0,16,4)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,12) lane (i1,2,4)(i0,1,8) wave (i0,16,4)
 * in0_t: shared, 12288 bytes f16, ring of 1
 * in1_t: shared, 21504 bytes f16, ring of 1
 * in2_t: shared, 21504 bytes f16, ring of 1
 * acc: mma.m16n8k16.f16, 1 x 14 a wave, 6 steps
 * o: mma.m16n8k16.f16, 1 x 12 a wave, 7 steps
 */
extern "C" __global__ void __launch_bounds__(128) k_matmul_mul_softmax_weighted_sum(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2;
  const int i0_t = lane / 4 + wave * 16;
  const int r1_t = lane % 4 * 2;
  int block = blockIdx.x;
  const int i0_b = block * 64;
  float acc[56];
  float m_t[2];
  float m_t2[2];
  float p[56];
  float l[2];
  float p_n[56];
  float o[48];
  float r_2[48];
  float cast_t[48];
  #pragma unroll
  for (int q = 0; q < 6; ++q) {
    const int c = threadIdx.x + q * 128;
    const int row = (c / 12), col = ac_chunk<192>(c / 12, c % 12) * 8;
    ac_copy<16>(smem + 0 + c * 16, in0 + ((i0_b + (row))*96 + (col)), i0_b + (row) < 100);
  }
  ac_commit();
  #pragma unroll
  for (int q = 0; q < 11; ++q) {
    const int c = threadIdx.x + q * 128;
    if (c >= 1344) break;
    const int row = (c / 12), col = ac_chunk<192>(c / 12, c % 12) * 8;
    ac_copy<16>(smem + 12288 + c * 16, in1 + ((col) + (row)*96), (row) < 100);
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 56; ++r) {
    acc[r] = 0.0f;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int kk = 0; kk < 6; ++kk) {
    unsigned fa[1][4], fb[14][2];
    for (int m = 0; m < 1; ++m) {
      ac_ldmatrix4(fa[m], smem + 0 + ac_swizzle<192>(wave % 4 * 16 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
    }
    #pragma unroll
    for (int n = 0; n < 7; ++n) {
      ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 12288 + ac_swizzle<192>(0 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
    }
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int n = 0; n < 14; ++n) {
        ac_mma_f16(&acc[(m * 14 + n) * 4], fa[m], fb[n]);
      }
    }
  }
  float t[2];
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t[r] = -ac_inf<float>();
  }
  #pragma unroll
  for (int r = 0; r < 56; ++r) {
    if (r1_t + r % 2 + r / 4 * 8 < 100) t[(r / 2 % 2)] = ac_max(t[(r / 2 % 2)], acc[r]);
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t[r] = ac_max(t[r], ac_shuffle_xor(t[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    m_t[r] = t[r];
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    m_t2[r] = (m_t[r] * 0.125f);
  }
  #pragma unroll
  for (int r = 0; r < 56; ++r) {
    p[r] = ac_exp_scaled_difference_half(acc[r], 0.180336878f, m_t2[(r / 2 % 2)]);
  }
  float t2[2];
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t2[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 56; ++r) {
    if (r1_t + r % 2 + r / 4 * 8 < 100) t2[(r / 2 % 2)] = (t2[(r / 2 % 2)] + p[r]);
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] = t2[r];
  }
  #pragma unroll
  for (int q = 0; q < 11; ++q) {
    const int c = threadIdx.x + q * 128;
    if (c >= 1344) break;
    const int row = (c / 12), col = ac_chunk<192>(c / 12, c % 12) * 8;
    ac_copy<16>(smem + 33792 + c * 16, in2 + ((col) + (row)*96), (row) < 100);
  }
  ac_commit();
  #pragma unroll
  for (int r = 0; r < 56; ++r) {
    p_n[r] = p[r];
  }
  #pragma unroll
  for (int r = 0; r < 48; ++r) {
    o[r] = 0.0f;
  }
  ac_wait<0>();
  ac_sync();
  #pragma unroll
  for (int kk = 0; kk < 7; ++kk) {
    unsigned fa[1][4], fb[12][2];
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        fa[m][q] = ac_pair<f16>(r1_t + ((m * 7 + kk) * 8 + 2 * q + 0) % 2 + ((m * 7 + kk) * 8 + 2 * q + 0) / 4 % 2 * 8 + ((m * 7 + kk) * 8 + 2 * q + 0) / 8 * 16 < 100 ? p_n[(((m * 7 + kk) * 8 + 2 * q + 0) % 2) + (((m * 7 + kk) * 8 + 2 * q + 0) / 2 % 2) * 2 + (((m * 7 + kk) * 8 + 2 * q + 0) / 4 % 2) * 4 + (((m * 7 + kk) * 8 + 2 * q + 0) / 8) * 8] : 0.0f, r1_t + ((m * 7 + kk) * 8 + 2 * q + 1) % 2 + ((m * 7 + kk) * 8 + 2 * q + 1) / 4 % 2 * 8 + ((m * 7 + kk) * 8 + 2 * q + 1) / 8 * 16 < 100 ? p_n[(((m * 7 + kk) * 8 + 2 * q + 1) % 2) + (((m * 7 + kk) * 8 + 2 * q + 1) / 2 % 2) * 2 + (((m * 7 + kk) * 8 + 2 * q + 1) / 4 % 2) * 4 + (((m * 7 + kk) * 8 + 2 * q + 1) / 8) * 8] : 0.0f);
      }
    }
    #pragma unroll
    for (int n = 0; n < 6; ++n) {
      ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 33792 + ac_swizzle<192>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (0 + n * 16 + lane / 16 * 8) * 2));
    }
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int n = 0; n < 12; ++n) {
        ac_mma_f16(&o[(m * 12 + n) * 4], fa[m], fb[n]);
      }
    }
  }
  #pragma unroll
  for (int r = 0; r < 48; ++r) {
    r_2[r] = ac_div_half(o[r], l[(r / 2 % 2)]);
  }
  #pragma unroll
  for (int r = 0; r < 48; ++r) {
    cast_t[r] = r_2[r];
  }
  #pragma unroll
  for (int q = 0; q < 24; ++q) {
    if (i0_b + i0_t + (q * 2) / 2 % 2 * 8 < 100) ac_store<2>(out0 + (i0_b + i0_t + (q * 2) / 2 % 2 * 8)*96 + (i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), &cast_t[(q * 2)]);
  }
}
