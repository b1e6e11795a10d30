#include "autocomp_cuda.cuh"

/*
 * matmul_mul_softmax_weighted_sum_join: transpose slice matmul mul softmax_weighted_sum
 * schedule: tile i0 1, i1 1, i2 128, r1_part 4 | threads 128 | shared_divisors | thread_partials | skip_masks
 * predicted: 4.32 us, bound by launch, 0% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[2, 16, 128]
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/scores-into-online: mul into operand 0 of softmax_weighted_sum
 *
 * kernel matmul_mul_softmax_weighted_sum_join(part0: f32[i0:2, i1:16, r1_part:4] of part0[4, 2, 16] at [r1_part, i0, i1], part2: f32[i0:2, i1:16, i2:128, r1_part:4] of part2[4, 2, 16, 128] at [r1_part, i0, i1, i2], part1: f32[i0:2, i1:16, r1_part:4] of part1[4, 2, 16] at [r1_part, i0, i1]) -> out0: f16[i0:2, i1:16, i2:128]
 * axes i0=2 i1=16 i2=128 r1_part=4
 * tile i0=1 i1=1
 * grid i0, i1
 *   part0_t: f32[i0, i1, r1_part] fragment = copy part0
 *   eq_t: bool[i0, i1, r1_part] fragment = map part0_t == -inf
 *   part2_t: f32[i0, i1, i2, r1_part] fragment = copy part2
 *   m_t: f32[i0, i1] fragment = reduce max r1_part part0_t
 *   exp_t: f32[i0, i1, r1_part] fragment = map exp(part0_t - m_t)
 *   where_t: f32[i0, i1, i2, r1_part] fragment = map where(eq_t, 0.0, part2_t * exp_t)
 *   s_t: f32[i0, i1, i2] fragment = reduce add r1_part where_t
 *   part1_t: f32[i0, i1, r1_part] fragment = copy part1
 *   where_t2: f32[i0, i1, r1_part] fragment = map where(eq_t, 0.0, part1_t * exp_t)
 *   s_t2: f32[i0, i1] fragment = reduce add r1_part where_t2
 *   cast_t: f16[i0, i1, i2] fragment = map cast(f16, s_t / s_t2)
 *   store out0 = cast_t
 *
 * part2_t: reg (i2,1,8) lane (i2,8,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * part0_t: reg () lane (-,0,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * eq_t: reg () lane (-,0,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * m_t: reg () lane (-,0,16)(-,0,2) wave (-,0,2)(-,0,2)
 * exp_t: reg () lane (-,0,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * where_t: reg (i2,1,8) lane (i2,8,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * s_t: reg (i2,1,8) lane (i2,8,16)(-,0,2) wave (-,0,2)(-,0,2)
 * part1_t: reg () lane (-,0,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * where_t2: reg () lane (-,0,16)(r1_part,1,2) wave (r1_part,2,2)(-,0,2)
 * s_t2: reg () lane (-,0,16)(-,0,2) wave (-,0,2)(-,0,2)
 * cast_t: reg (i2,1,8) lane (i2,8,16)(-,0,2) wave (-,0,2)(-,0,2)
 */
extern "C" __global__ void __launch_bounds__(128) k_matmul_mul_softmax_weighted_sum_join(const float *__restrict__ part0, const float *__restrict__ part2, const float *__restrict__ part1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i2_t = lane % 16 * 8;
  const int r1_part_t = lane / 16 + wave % 2 * 2;
  int block = blockIdx.x;
  const int i1_b = block % 16;
  block /= 16;
  const int i0_b = block;
  float part0_t[1];
  unsigned char eq_t[1];
  float part2_t[8];
  float m_t[1];
  float exp_t[1];
  float where_t[8];
  float n_s_t[8];
  float part1_t[1];
  float where_t2[1];
  float n_s_t2[1];
  float cast_t[8];
  for (int q = 0; q < 1; ++q) {
    ac_load<1>(&part0_t[q], part0 + i0_b*16 + i1_b + (r1_part_t)*32);
  }
  for (int r = 0; r < 1; ++r) {
    eq_t[r] = (part0_t[r] == -ac_inf<float>());
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    ac_load<4>(&part2_t[q * 4], part2 + i0_b*2048 + i1_b*128 + (i2_t + (q * 4)) + (r1_part_t)*4096);
  }
  float t[1];
  for (int r = 0; r < 1; ++r) {
    t[r] = -ac_inf<float>();
  }
  for (int r = 0; r < 1; ++r) {
    t[0] = ac_max(t[0], part0_t[r]);
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
    float sum = box[((wave / 2 * 2 + 0) * 1 + r) * 32 + lane];
    sum = ac_max(sum, box[((wave / 2 * 2 + 1) * 1 + r) * 32 + lane]);
    t[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    m_t[r] = t[r];
  }
  for (int r = 0; r < 1; ++r) {
    exp_t[r] = ac_exp((part0_t[r] - m_t[r]));
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    where_t[r] = (eq_t[0] ? 0.0f : (part2_t[r] * exp_t[0]));
  }
  float t2[8];
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t2[r] = 0.0f;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t2[(r)] = (t2[(r)] + where_t[r]);
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    t2[r] = (t2[r] + ac_shuffle_xor(t2[r], 16));
  }
  float *box2 = (float *)(smem + 512);
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    box2[(wave * 8 + r) * 32 + lane] = t2[r];
  }
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    float sum = box2[((wave / 2 * 2 + 0) * 8 + r) * 32 + lane];
    sum = (sum + box2[((wave / 2 * 2 + 1) * 8 + r) * 32 + lane]);
    t2[r] = sum;
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    n_s_t[r] = t2[r];
  }
  for (int q = 0; q < 1; ++q) {
    ac_load<1>(&part1_t[q], part1 + i0_b*16 + i1_b + (r1_part_t)*32);
  }
  for (int r = 0; r < 1; ++r) {
    where_t2[r] = (eq_t[r] ? 0.0f : (part1_t[r] * exp_t[r]));
  }
  float t3[1];
  for (int r = 0; r < 1; ++r) {
    t3[r] = 0.0f;
  }
  for (int r = 0; r < 1; ++r) {
    t3[0] = (t3[0] + where_t2[r]);
  }
  for (int r = 0; r < 1; ++r) {
    t3[r] = (t3[r] + ac_shuffle_xor(t3[r], 16));
  }
  float *box3 = (float *)(smem + 4608);
  for (int r = 0; r < 1; ++r) {
    box3[(wave * 1 + r) * 32 + lane] = t3[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    float sum = box3[((wave / 2 * 2 + 0) * 1 + r) * 32 + lane];
    sum = (sum + box3[((wave / 2 * 2 + 1) * 1 + r) * 32 + lane]);
    t3[r] = sum;
  }
  for (int r = 0; r < 1; ++r) {
    n_s_t2[r] = t3[r];
  }
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = ac_divide(n_s_t[r], n_s_t2[0]);
  }
  for (int q = 0; q < 1; ++q) {
    if ((lane / 16 == 0) & (wave % 2 == 0) & (wave / 2 == 0)) ac_store<8>(out0 + (i0_b*2048 + i1_b*128 + (i2_t + (q * 8))), &cast_t[(q * 8)]);
  }
}

#include "autocomp_cuda.cuh"

/*
 * matmul_mul_softmax_weighted_sum_part: transpose slice matmul mul softmax_weighted_sum
 * schedule: tile i0 1, i1 16, i2 128, r1 32, r1_part 1 | stages 2 | threads 32 | shared_divisors | thread_partials | skip_masks
 * predicted: 9.54 us, bound by latency, 1% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[2, 16, 128]
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/scores-into-online: mul into operand 0 of softmax_weighted_sum
 *
 * kernel matmul_mul_softmax_weighted_sum_part(in0: f16[i0:2, i1:16, r0:192], in1: f16[r1_part:4, i0:2, r0:192, r1:96] of in1[2, 300, 192] at [i0, r1 + 96*r1_part, r0] where -1*r1 - 96*r1_part + 299 >= 0 else 0.0, in1_v: f16[r1_part:4, i0:2, i2:128, r1:96] of in1[2, 300, 192] at [i0, r1 + 96*r1_part, i2] where -1*r1 - 96*r1_part + 299 >= 0 else 0.0) -> part0: f32[r1_part:4, i0:2, i1:16], part1: f32[r1_part:4, i0:2, i1:16], part2: f32[r1_part:4, i0:2, i1:16, i2:128]
 * axes r1_part=4 i0=2 i1=16 i2=128 r0=192 r1=96
 * tile r1_part=1 i0=1 r1=32
 * grid r1_part, i0
 *   m: f32[r1_part, i0, i1] fragment = fill -3.4028234663852886e+38
 *   l: f32[r1_part, i0, i1] fragment = fill 0.0
 *   o: f32[r1_part, i0, i1, i2] fragment = fill 0.0
 *   in0_t: f16[i0, i1, r0] block = copy in0
 *   pipelined r1 stages=2
 *     in1_t: f16[r1_part, i0, r0, r1] block = copy in1
 *     acc: f32[r1_part, i0, i1, r1] fragment = fill 0.0
 *     acc += mma in0_t, in1_t
 *     where_t: f32[r1_part, i0, i1, r1] fragment = map where(inside(-1*r1 - 96*r1_part + 299), cast(f32, cast(f16, acc) * 0.07000732421875), -inf)
 *     m_t: f32[r1_part, i0, i1] fragment = reduce max r1 where_t
 *     m1: f32[r1_part, i0, i1] fragment = map max(m, m_t)
 *     l = map l * exp(m - m1)
 *     p: f32[r1_part, i0, i1, r1] fragment = map exp(where_t - m1)
 *     l += reduce add r1 p
 *     o = map o * exp(m - m1)
 *     in1_v_t: f16[r1_part, i0, i2, r1] block = copy in1_v
 *     p_n: f16[r1_part, i0, i1, r1] fragment = map cast(f16, p)
 *     o += mma p_n, in1_v_t
 *     m = map m1
 *   store part0 = m
 *   store part1 = l
 *   store part2 = o
 *
 * acc: reg (r1,1,2)(i1,8,2)(r1,8,4) lane (r1,2,4)(i1,1,8) wave ()
 * o: reg (i2,1,2)(i1,8,2)(i2,8,16) lane (i2,2,4)(i1,1,8) wave ()
 * p_n: reg (r1,1,2)(i1,8,2)(r1,8,4) lane (r1,2,4)(i1,1,8) wave ()
 * m: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave ()
 * l: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave ()
 * where_t: reg (r1,1,2)(i1,8,2)(r1,8,4) lane (r1,2,4)(i1,1,8) wave ()
 * m_t: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave ()
 * m1: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave ()
 * p: reg (r1,1,2)(i1,8,2)(r1,8,4) lane (r1,2,4)(i1,1,8) wave ()
 * in0_t: shared, 6144 bytes f16, ring of 1
 * in1_t: shared, 12288 bytes f16, ring of 2
 * in1_v_t: shared, 8192 bytes f16, ring of 2
 * acc: mma.m16n8k16.f16, 1 x 4 a wave, 12 steps
 * o: mma.m16n8k16.f16, 1 x 16 a wave, 2 steps
 */
extern "C" __global__ void __launch_bounds__(32) k_matmul_mul_softmax_weighted_sum_part(const f16 *__restrict__ in0, const f16 *__restrict__ in1, float *__restrict__ part0, float *__restrict__ part1, float *__restrict__ part2) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i2_t = lane % 4 * 2;
  const int i1_t = lane / 4;
  const int r1_t = lane % 4 * 2;
  int block = blockIdx.x;
  const int i0_b = block % 2;
  block /= 2;
  const int r1_part_b = block;
  float m_2[2];
  float l[2];
  float o[64];
  float acc[16];
  float where_t[16];
  float m_t[2];
  float m1[2];
  float p[16];
  float p_n[16];
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
  for (int q = 0; q < 12; ++q) {
    const int c = threadIdx.x + q * 32;
    const int row = (c / 24), col = ac_chunk<384>(c / 24, c % 24) * 8;
    ac_copy<16>(smem + 0 + c * 16, in0 + (i0_b*3072 + (row)*192 + (col)), true);
  }
  ac_commit();
  for (int it = 0; it < 1; ++it) {
    if (it < 3) {
      const int r1_b = it * 32;
      #pragma unroll 16
      for (int q = 0; q < 24; ++q) {
        const int c = threadIdx.x + q * 32;
        const int row = (c / 24), col = ac_chunk<384>(c / 24, c % 24) * 8;
        ac_copy<16>(smem + 6144 + it * 12288 + c * 16, in1 + (i0_b*57600 + (col) + (r1_b + (row))*192 + r1_part_b*18432), -1*(r1_b + (row)) + -96*r1_part_b + 299 >= 0);
      }
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int c = threadIdx.x + q * 32;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 30720 + it * 8192 + c * 16, in1 + (i0_b*57600 + (col) + (r1_b + (row))*192 + r1_part_b*18432), -1*(r1_b + (row)) + -96*r1_part_b + 299 >= 0);
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 3; ++it) {
    const int r1_b2 = it * 32;
    ac_wait<0>();
    ac_sync();
    const int ahead = it + 1;
    if (ahead < 3) {
      const int r1_b3 = ahead * 32;
      #pragma unroll 16
      for (int q = 0; q < 24; ++q) {
        const int c = threadIdx.x + q * 32;
        const int row = (c / 24), col = ac_chunk<384>(c / 24, c % 24) * 8;
        ac_copy<16>(smem + 6144 + ahead % 2 * 12288 + c * 16, in1 + (i0_b*57600 + (col) + (r1_b3 + (row))*192 + r1_part_b*18432), -1*(r1_b3 + (row)) + -96*r1_part_b + 299 >= 0);
      }
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        const int c = threadIdx.x + q * 32;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 30720 + ahead % 2 * 8192 + c * 16, in1 + (i0_b*57600 + (col) + (r1_b3 + (row))*192 + r1_part_b*18432), -1*(r1_b3 + (row)) + -96*r1_part_b + 299 >= 0);
      }
    }
    ac_commit();
    const int slot = it % 2;
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      acc[r] = 0.0f;
    }
    #pragma unroll
    for (int kk = 0; kk < 12; ++kk) {
      unsigned fa[1][4], fb[4][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + ac_swizzle<384>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      #pragma unroll
      for (int n = 0; n < 2; ++n) {
        ac_ldmatrix4(fb[2 * n], fb[2 * n + 1], smem + 6144 + slot * 12288 + ac_swizzle<384>(0 + n * 16 + lane / 16 * 8 + lane % 8, (kk * 16 + lane / 8 % 2 * 8) * 2));
      }
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
          ac_mma_f16(&acc[(m * 4 + n) * 4], fa[m], fb[n]);
        }
      }
    }
    if (-1*(r1_b2 + 31) + -96*r1_part_b + 299 >= 0) {
      #pragma unroll
      for (int r = 0; r < 16; ++r) {
        where_t[r] = (acc[r] * 0.0700073242f);
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 16; ++r) {
        where_t[r] = ((-1*(r1_b2 + r1_t + r % 2 + r / 4 * 8) + -96*r1_part_b + 299 >= 0) ? (acc[r] * 0.0700073242f) : -ac_inf<float>());
      }
    }
    float t[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      t[r] = -ac_inf<float>();
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      t[(r / 2 % 2)] = ac_max(t[(r / 2 % 2)], where_t[r]);
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
      m1[r] = ac_max(m_2[r], m_t[r]);
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = (l[r] * ac_exp((m_2[r] - m1[r])));
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      p[r] = ac_exp((where_t[r] - m1[(r / 2 % 2)]));
    }
    float t2[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      t2[r] = 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      t2[(r / 2 % 2)] = (t2[(r / 2 % 2)] + p[r]);
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = (l[r] + t2[r]);
    }
    #pragma unroll
    for (int r = 0; r < 64; ++r) {
      o[r] = (o[r] * ac_exp((m_2[(r / 2 % 2)] - m1[(r / 2 % 2)])));
    }
    #pragma unroll
    for (int r = 0; r < 16; ++r) {
      p_n[r] = p[r];
    }
    #pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      unsigned fa[1][4], fb[16][2];
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          fa[m][q] = ac_pair<f16>(p_n[(((m * 2 + kk) * 8 + 2 * q + 0) % 2) + (((m * 2 + kk) * 8 + 2 * q + 0) / 2 % 2) * 2 + (((m * 2 + kk) * 8 + 2 * q + 0) / 4 % 2) * 4 + (((m * 2 + kk) * 8 + 2 * q + 0) / 8) * 8], p_n[(((m * 2 + kk) * 8 + 2 * q + 1) % 2) + (((m * 2 + kk) * 8 + 2 * q + 1) / 2 % 2) * 2 + (((m * 2 + kk) * 8 + 2 * q + 1) / 4 % 2) * 4 + (((m * 2 + kk) * 8 + 2 * q + 1) / 8) * 8]);
        }
      }
      #pragma unroll
      for (int n = 0; n < 8; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 30720 + slot * 8192 + ac_swizzle<256>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (0 + n * 16 + lane / 16 * 8) * 2));
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
  for (int q = 0; q < 2; ++q) {
    if (lane % 4 == 0) ac_store<1>(part0 + i0_b*16 + (i1_t + q * 8) + r1_part_b*32, &m_2[q]);
  }
  #pragma unroll
  for (int q = 0; q < 2; ++q) {
    if (lane % 4 == 0) ac_store<1>(part1 + i0_b*16 + (i1_t + q * 8) + r1_part_b*32, &l[q]);
  }
  #pragma unroll
  for (int q = 0; q < 32; ++q) {
    ac_store<2>(part2 + (i0_b*2048 + (i1_t + (q * 2) / 2 % 2 * 8)*128 + (i2_t + (q * 2) % 2 + (q * 2) / 4 * 8) + r1_part_b*4096), &o[(q * 2)]);
  }
}
