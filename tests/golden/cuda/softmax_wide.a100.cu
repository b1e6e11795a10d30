#include "autocomp_cuda.cuh"

/*
 * reduce_max_max_sumexp_cast_sub_3more: cast reduce_max max_sumexp sub exp div cast
 * schedule: tile i0 1, i1 8192, r0 8192, r1 8192; 1024 threads
 * predicted: 22.93 us, bound by special functions, 1% of the roofline
 * rule: monoids/max-sumexp: made max_sumexp f32[2, 1]
 * rule: fusion/reduce-prologue: cast into operand 0 of reduce_max
 * rule: fusion/map-into-map: cast into operand 0 of sub
 * rule: fusion/row-statistic: reduce_max into operand 1 of sub
 * rule: fusion/row-statistic: sub into operand 0 of exp
 * rule: fusion/reduce-prologue: cast into operand 0 of max_sumexp
 * rule: fusion/row-statistic: exp into operand 0 of div
 * rule: fusion/row-statistic: reduce_sum into operand 1 of div
 * rule: fusion/row-statistic: div into operand 0 of cast
 * rule: tiling/gpu-long-rows: the schedule
 *
 * kernel reduce_max_max_sumexp_cast_sub_3more(in0: f16[i0:2, i1:131072]) -> out0: f16[i0:2, i1:131072]
 * axes i0=2 i1=131072
 * tile i0=1 i1=8192
 * grid i0
 *   m: f32[i0] fragment = fill -inf
 *   m2: f32[i0] fragment = fill -3.4028234663852886e+38
 *   l: f32[i0] fragment = fill 0.0
 *   serial i1
 *     in0_t: f16[i0, i1] fragment = copy in0
 *     cast_t: f32[i0, i1] fragment = map cast(f32, in0_t)
 *     m += reduce max i1 cast_t
 *     m_t: f32[i0] fragment = reduce max i1 cast_t
 *     m1: f32[i0] fragment = map max(m2, m_t)
 *     l = map l * exp(m2 - m1)
 *     p: f32[i0, i1] fragment = map exp(cast_t - m1)
 *     l += reduce add i1 p
 *     m2 = map m1
 *   serial i1
 *     in0_t2: f16[i0, i1] fragment = copy in0
 *     cast_t2: f32[i0, i1] fragment = map cast(f32, in0_t2)
 *     cast_t3: f16[i0, i1] fragment = map cast(f16, exp(cast_t2 - m) / l)
 *     store out0 = cast_t3
 *
 * in0_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,32)
 * m: reg () lane (-,0,32) wave (-,0,32)
 * m2: reg () lane (-,0,32) wave (-,0,32)
 * l: reg () lane (-,0,32) wave (-,0,32)
 * cast_t: reg (i1,1,8) lane (i1,8,32) wave (i1,256,32)
 * m_t: reg () lane (-,0,32) wave (-,0,32)
 * m1: reg () lane (-,0,32) wave (-,0,32)
 * p: reg (i1,1,8) lane (i1,8,32) wave (i1,256,32)
 * in0_t2: reg (i1,1,8) lane (i1,8,32) wave (i1,256,32)
 * cast_t2: reg (i1,1,8) lane (i1,8,32) wave (i1,256,32)
 * cast_t3: reg (i1,1,8) lane (i1,8,32) wave (i1,256,32)
 */
extern "C" __global__ void __launch_bounds__(1024) reduce_max_max_sumexp_cast_sub_3more(const f16 *__restrict__ in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane * 8 + wave * 256;
  int block = blockIdx.x;
  const int i0_b = block;
  float m_2[1];
  float m2[1];
  float l[1];
  float in0_t[8];
  float cast_t[8];
  float m_t[1];
  float m1[1];
  float p[8];
  float in0_t2[8];
  float cast_t2[8];
  float cast_t3[8];
  for (int r = 0; r < 1; ++r) {
    m_2[r] = -ac_inf<float>();
  }
  for (int r = 0; r < 1; ++r) {
    m2[r] = -3.40282347e+38f;
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = 0.0f;
  }
  for (int it = 0; it < 16; ++it) {
    const int i1_b = it * 8192;
    for (int q = 0; q < 1; ++q) {
      ac_load<8>(&in0_t[q * 8], in0 + i0_b*131072 + (i1_b + i1_t + (q * 8)));
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      cast_t[r] = in0_t[r];
    }
    float t[1];
    for (int r = 0; r < 1; ++r) {
      t[r] = -ac_inf<float>();
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      t[0] = ac_max(t[0], cast_t[r]);
    }
    for (int r = 0; r < 1; ++r) {
      m_2[r] = ac_max(m_2[r], t[r]);
    }
    float t2[1];
    for (int r = 0; r < 1; ++r) {
      t2[r] = -ac_inf<float>();
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      t2[0] = ac_max(t2[0], cast_t[r]);
    }
    for (int r = 0; r < 1; ++r) {
      m_t[r] = t2[r];
    }
    for (int r = 0; r < 1; ++r) {
      m1[r] = ac_max(m2[r], m_t[r]);
    }
    for (int r = 0; r < 1; ++r) {
      l[r] = (l[r] * ac_exp_difference_half(m2[r], m1[r]));
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      p[r] = ac_exp_difference_half(cast_t[r], m1[0]);
    }
    float t3[1];
    for (int r = 0; r < 1; ++r) {
      t3[r] = 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      t3[0] = (t3[0] + p[r]);
    }
    for (int r = 0; r < 1; ++r) {
      l[r] = (l[r] + t3[r]);
    }
    for (int r = 0; r < 1; ++r) {
      m2[r] = m1[r];
    }
  }
  float own_base[1];
  for (int r = 0; r < 1; ++r) {
    own_base[r] = m2[r];
  }
  float both[2];
  for (int r = 0; r < 1; ++r) {
    both[0 + r] = m_2[r];
  }
  for (int r = 0; r < 1; ++r) {
    both[1 + r] = m2[r];
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    both[r] = ac_max(both[r], ac_shuffle_xor(both[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    both[r] = ac_max(both[r], ac_shuffle_xor(both[r], 2));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    both[r] = ac_max(both[r], ac_shuffle_xor(both[r], 4));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    both[r] = ac_max(both[r], ac_shuffle_xor(both[r], 8));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    both[r] = ac_max(both[r], ac_shuffle_xor(both[r], 16));
  }
  float *box = (float *)(smem + 0);
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    box[(wave * 2 + r) * 32 + lane] = both[r];
  }
  ac_sync();
  for (int q = wave; q < 2; q += 32) {
    #pragma unroll
    for (int p = 1; p < 32; ++p) {
      box[(0 * 2 + q) * 32 + lane] = ac_max(box[(0 * 2 + q) * 32 + lane], box[(p * 2 + q) * 32 + lane]);
    }
  }
  ac_sync();
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    both[r] = box[(0 * 2 + r) * 32 + lane];
  }
  for (int r = 0; r < 1; ++r) {
    m_2[r] = both[0 + r];
  }
  for (int r = 0; r < 1; ++r) {
    m2[r] = both[1 + r];
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = (l[r] * ac_exp_difference_half(own_base[r], m2[r]));
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 1));
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 2));
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 4));
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 8));
  }
  for (int r = 0; r < 1; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 16));
  }
  float *box2 = (float *)(smem + 8192);
  for (int r = 0; r < 1; ++r) {
    box2[(wave * 1 + r) * 32 + lane] = l[r];
  }
  ac_sync();
  for (int r = 0; r < 1; ++r) {
    float sum = box2[((0) * 1 + r) * 32 + lane];
    sum = (sum + box2[((1) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((2) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((3) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((4) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((5) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((6) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((7) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((8) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((9) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((10) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((11) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((12) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((13) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((14) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((15) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((16) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((17) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((18) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((19) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((20) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((21) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((22) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((23) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((24) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((25) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((26) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((27) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((28) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((29) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((30) * 1 + r) * 32 + lane]);
    sum = (sum + box2[((31) * 1 + r) * 32 + lane]);
    l[r] = sum;
  }
  for (int it2 = 0; it2 < 16; ++it2) {
    const int i1_b2 = it2 * 8192;
    for (int q = 0; q < 1; ++q) {
      ac_load<8>(&in0_t2[q * 8], in0 + i0_b*131072 + (i1_b2 + i1_t + (q * 8)));
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      cast_t2[r] = in0_t2[r];
    }
    #pragma unroll
    for (int r = 0; r < 8; ++r) {
      cast_t3[r] = ac_div_half(ac_exp_difference_half(cast_t2[r], m_2[0]), l[0]);
    }
    for (int q = 0; q < 1; ++q) {
      ac_store<8>(out0 + i0_b*131072 + (i1_b2 + i1_t + (q * 8)), &cast_t3[(q * 8)]);
    }
  }
}
