#include "autocomp_cuda.cuh"

/*
 * matmul_softmax_weighted_sum_iota_ge_2more: iota iota ge transpose matmul mul where softmax_weighted_sum
 * schedule: tile i0 1, i1 64, i2 128, r1 64 | stages 3 | threads 128 | thread_partials | skip_masks
 * predicted: 8.09 us, bound by latency, 1% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[1, 2, 130, 128]
 * rule: fusion/map-into-map: iota into operand 0 of ge
 * rule: fusion/map-into-map: iota into operand 1 of ge
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/map-into-map: ge into operand 0 of where
 * rule: fusion/epilogue: mul into operand 1 of where
 * rule: fusion/scores-into-online: where into operand 0 of softmax_weighted_sum
 * rule: tiling/gpu-online: the schedule
 *
 * kernel matmul_softmax_weighted_sum_iota_ge_2more(in0: f16[i0:2, i1:130, r0:128], in1: f16[i0:2, r0:128, r1:130] of in1[2, 130, 128] at [i0, r1, r0], in2: f16[i0:2, i2:128, r1:130] of in2[2, 130, 128] at [i0, r1, i2]) -> out0: f16[i0:2, i1:130, i2:128]
 * axes i0=2 i1=130 i2=128 r0=128 r1=130
 * tile i0=1 i1=64 r1=64
 * grid i0, i1
 *   m: f32[i0, i1] fragment = fill -3.4028234663852886e+38
 *   l: f32[i0, i1] fragment = fill 0.0
 *   o: f32[i0, i1, i2] fragment = fill 0.0
 *   in0_t: f16[i0, i1, r0] block = copy in0
 *   pipelined r1 stages=3 until=i1+0
 *     in1_t: f16[i0, r0, r1] block = copy in1
 *     acc: f32[i0, i1, r1] fragment = fill 0.0
 *     acc += mma in0_t, in1_t
 *     where_t: f32[i0, i1, r1] fragment = map where(idx(i1, i64) >= idx(r1, i64), acc, -inf)
 *     where_t_in: f32[i0, i1, r1] fragment = map where(idx(r1) < 130, where_t, -inf)
 *     m_t: f32[i0, i1] fragment = reduce max r1 where_t_in
 *     m_t2: f32[i0, i1] fragment = map m_t * 0.125
 *     m1: f32[i0, i1] fragment = map max(m, m_t2)
 *     l = map l * exp(m - m1)
 *     p: f32[i0, i1, r1] fragment = map exp(where_t_in * 0.125 - m1)
 *     p_in: f32[i0, i1, r1] fragment = map where(idx(r1) < 130, p, 0.0)
 *     l += reduce add r1 p_in
 *     o = map o * exp(m - m1)
 *     in2_t: f16[i0, i2, r1] block = copy in2
 *     p_n: f16[i0, i1, r1] fragment = map cast(f16, p_in)
 *     o += mma p_n, in2_t
 *     m = map m1
 *   r: f32[i0, i1, i2] fragment = map o / l
 *   cast_t: f16[i0, i1, i2] fragment = map cast(f16, r)
 *   store out0 = cast_t
 *
 * acc: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * o: reg (i2,1,2)(i1,8,2)(i2,8,16) lane (i2,2,4)(i1,1,8) wave (i1,16,4)
 * p_n: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * m: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * l: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * where_t: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * where_t_in: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * m_t: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * m_t2: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * m1: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * p: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * p_in: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * r: reg (i2,1,2)(i1,8,2)(i2,8,16) lane (i2,2,4)(i1,1,8) wave (i1,16,4)
 * cast_t: reg (i2,1,2)(i1,8,2)(i2,8,16) lane (i2,2,4)(i1,1,8) wave (i1,16,4)
 * in0_t: shared, 16384 bytes f16, ring of 1
 * in1_t: shared, 16384 bytes f16, ring of 3
 * in2_t: shared, 16384 bytes f16, ring of 3
 * acc: mma.m16n8k16.f16, 1 x 8 a wave, 8 steps
 * o: mma.m16n8k16.f16, 1 x 16 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(128) k_matmul_softmax_weighted_sum_iota_ge_2more(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i2_t = lane % 4 * 2;
  const int r1_t = lane % 4 * 2;
  const int i1_t = lane / 4 + wave * 16;
  int block = blockIdx.x;
  const int i1_b = (3 - 1 - block % 3) * 64;
  block /= 3;
  const int i0_b = block;
  float m_2[2];
  float l[2];
  float o[64];
  float acc[32];
  float where_t[32];
  float where_t_in[32];
  float m_t[2];
  float m_t2[2];
  float m1[2];
  float p[32];
  float p_in[32];
  float p_n[32];
  float r_2[64];
  float cast_t[64];
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    m_2[r] = -3.40282347e+38f;
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 64; ++r) {
    o[r] = 0.0f;
  }
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    const int c = threadIdx.x + q * 128;
    const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
    ac_copy<16>(smem + 0 + c * 16, in0 + (i0_b*16640 + (i1_b + (row))*128 + (col)), i1_b + (row) < 130);
  }
  ac_commit();
  for (int it = 0; it < 2; ++it) {
    if (it < ac_min(3, (i1_b + 63) / 64 + 1)) {
      const int r1_b = it * 64;
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 16384 + it * 16384 + c * 16, in1 + (i0_b*16640 + (col) + (r1_b + (row))*128), r1_b + (row) < 130);
      }
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 65536 + it * 16384 + c * 16, in2 + (i0_b*16640 + (col) + (r1_b + (row))*128), r1_b + (row) < 130);
      }
    }
    ac_commit();
  }
  for (int it = 0; it < ac_min(3, (i1_b + 63) / 64 + 1); ++it) {
    const int r1_b2 = it * 64;
    ac_wait<1>();
    ac_sync();
    const int ahead = it + 2;
    if (ahead < ac_min(3, (i1_b + 63) / 64 + 1)) {
      const int r1_b3 = ahead * 64;
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 16384 + ahead % 3 * 16384 + c * 16, in1 + (i0_b*16640 + (col) + (r1_b3 + (row))*128), r1_b3 + (row) < 130);
      }
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 128;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 65536 + ahead % 3 * 16384 + c * 16, in2 + (i0_b*16640 + (col) + (r1_b3 + (row))*128), r1_b3 + (row) < 130);
      }
    }
    ac_commit();
    const int slot = it % 3;
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      acc[r] = 0.0f;
    }
    #pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      unsigned fa[1][4], fb[8][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + ac_swizzle<256>(wave % 4 * 16 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      #pragma unroll
      for (int n = 0; n < 4; ++n) {
        ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 16384 + slot * 16384 + ac_swizzle<256>(0 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
      }
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int n = 0; n < 8; ++n) {
          ac_mma_f16(&acc[(m * 8 + n) * 4], fa[m], fb[n]);
        }
      }
    }
    if (i1_b + -1*(r1_b2 + 63) >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t[r] = acc[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t[r] = (((long long)((i1_b + i1_t + r / 2 % 2 * 8)) >= (long long)((r1_b2 + r1_t + r % 2 + r / 4 * 8))) ? acc[r] : -ac_inf<float>());
      }
    }
    if (-1*(r1_b2 + 63) + 129 >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t_in[r] = where_t[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t_in[r] = ((-1*(r1_b2 + r1_t + r % 2 + r / 4 * 8) + 129 >= 0) ? where_t[r] : -ac_inf<float>());
      }
    }
    float t[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      t[r] = -ac_inf<float>();
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      t[(r / 2 % 2)] = ac_max(t[(r / 2 % 2)], where_t_in[r]);
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
    for (int r = 0; r < 2; ++r) {
      m1[r] = ac_max(m_2[r], m_t2[r]);
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = (l[r] * ac_exp_difference_half(m_2[r], m1[r]));
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      p[r] = ac_exp_scaled_difference_half(where_t_in[r], 0.180336878f, m1[(r / 2 % 2)]);
    }
    if (-1*(r1_b2 + 63) + 129 >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        p_in[r] = p[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        p_in[r] = ((-1*(r1_b2 + r1_t + r % 2 + r / 4 * 8) + 129 >= 0) ? p[r] : 0.0f);
      }
    }
    float t2[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      t2[r] = 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      t2[(r / 2 % 2)] = (t2[(r / 2 % 2)] + p_in[r]);
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = (l[r] + t2[r]);
    }
    #pragma unroll
    for (int r = 0; r < 64; ++r) {
      o[r] = (o[r] * ac_exp_difference_half(m_2[(r / 2 % 2)], m1[(r / 2 % 2)]));
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      p_n[r] = p_in[r];
    }
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      unsigned fa[1][4], fb[16][2];
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          fa[m][q] = ac_pair<f16>(p_n[(((m * 4 + kk) * 8 + 2 * q + 0) % 2) + (((m * 4 + kk) * 8 + 2 * q + 0) / 2 % 2) * 2 + (((m * 4 + kk) * 8 + 2 * q + 0) / 4 % 2) * 4 + (((m * 4 + kk) * 8 + 2 * q + 0) / 8) * 8], p_n[(((m * 4 + kk) * 8 + 2 * q + 1) % 2) + (((m * 4 + kk) * 8 + 2 * q + 1) / 2 % 2) * 2 + (((m * 4 + kk) * 8 + 2 * q + 1) / 4 % 2) * 4 + (((m * 4 + kk) * 8 + 2 * q + 1) / 8) * 8]);
        }
      }
      #pragma unroll
      for (int n = 0; n < 8; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 65536 + slot * 16384 + ac_swizzle<256>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (0 + n * 16 + lane / 16 * 8) * 2));
      }
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int n = 0; n < 16; ++n) {
          ac_mma_f16(&o[(m * 16 + n) * 4], fa[m], fb[n]);
        }
      }
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      m_2[r] = m1[r];
    }
  }
  ac_wait<0>();
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 64; ++r) {
    r_2[r] = ac_div_half(o[r], l[(r / 2 % 2)]);
  }
  #pragma unroll
  for (int r = 0; r < 64; ++r) {
    cast_t[r] = r_2[r];
  }
  #pragma unroll
  for (int q = 0; q < 32; ++q) {
    if (i1_b + i1_t + (q * 2) / 2 % 2 * 8 < 130) ac_store<2>(out0 + (i0_b*16640 + (i1_b + i1_t + (q * 2) / 2 % 2 * 8)*128 + (i2_t + (q * 2) % 2 + (q * 2) / 4 * 8)), &cast_t[(q * 2)]);
  }
}
