#include "autocomp_cuda.cuh"
AC_DEVICE void ac_wgmma_n64_f16_s00(int keep, float *d, unsigned long long a, unsigned long long b) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b), "r"(keep));
}
AC_DEVICE void ac_wgmma_n128_f16_r1(int keep, float *d, const unsigned *a, unsigned long long b) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));
}

/*
 * matmul_softmax_weighted_sum_iota_ge_2more: iota iota ge transpose matmul mul where softmax_weighted_sum
 * schedule: tile i0 1, i1 64, i2 128, r1 64 | stages 2 | resident 2 | softmax_overlap 1 | rescale_threshold 14 | warp_specialise 1 | tma_store | interleave_epilogue | mma_zero_init | thread_partials | skip_masks
 * predicted: 4.54 us, bound by latency, 0% of the roofline
 * rule: monoids/online-softmax-half: made softmax_weighted_sum f16[1, 2, 130, 128]
 * rule: fusion/map-into-map: iota into operand 0 of ge
 * rule: fusion/map-into-map: iota into operand 1 of ge
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/map-into-map: ge into operand 0 of where
 * rule: fusion/epilogue: mul into operand 1 of where
 * rule: fusion/scores-into-online: where into operand 0 of softmax_weighted_sum
 * rule: tiling/gpu-online-warpgroups: the schedule
 *
 * kernel matmul_softmax_weighted_sum_iota_ge_2more(in0: f16[i0:2, i1:130, r0:128], in1: f16[i0:2, r0:128, r1:130] of in1[2, 130, 128] at [i0, r1, r0], in2: f16[i0:2, i2:128, r1:130] of in2[2, 130, 128] at [i0, r1, i2]) -> out0: f16[i0:2, i1:130, i2:128]
 * axes i0=2 i1=130 i2=128 r0=128 r1=130
 * tile i0=1 i1=64 r1=64
 * grid i0, i1
 *   m: f32[i0, i1] fragment = fill -3.4028234663852886e+38
 *   l: f32[i0, i1] fragment = fill 0.0
 *   o: f32[i0, i1, i2] fragment = fill 0.0
 *   in0_t: f16[i0, i1, r0] block = copy in0
 *   pipelined r1 stages=2 overlap=1 until=i1+0
 *     in1_t: f16[i0, r0, r1] block = copy in1
 *     acc: f32[i0, i1, r1] fragment = fill 0.0
 *     acc += mma in0_t, in1_t
 *     where_t: f32[i0, i1, r1] fragment = map where(idx(i1, i64) >= idx(r1, i64), acc, -inf)
 *     where_t_in: f32[i0, i1, r1] fragment = map where(idx(r1) < 130, where_t, -inf)
 *     p: f32[i0, i1, r1] fragment = map exp(where_t_in * 0.125 - m)
 *     p_in: f32[i0, i1, r1] fragment = map where(idx(r1) < 130, p, 0.0)
 *     l_t: f32[i0, i1] fragment = reduce add r1 p_in
 *     when of=l_t above=16376.0
 *       m_t: f32[i0, i1] fragment = reduce max r1 where_t_in
 *       m_t2: f32[i0, i1] fragment = map m_t * 0.125
 *       m1: f32[i0, i1] fragment = map max(m, m_t2)
 *       l = map l * exp(m - m1)
 *       o = map o * exp(m - m1)
 *       p = map exp(where_t_in * 0.125 - m1)
 *       p_in = map where(idx(r1) < 130, p, 0.0)
 *       l_t = reduce add r1 p_in
 *       m = map m1
 *     l = map l + l_t
 *     in2_t: f16[i0, i2, r1] block = copy in2
 *     p_n: f16[i0, i1, r1] fragment = map cast(f16, p_in)
 *     o += mma p_n, in2_t
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
 * p: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * p_in: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)
 * l_t: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * m_t: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * m_t2: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * m1: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)
 * r: reg (i2,1,2)(i1,8,2)(i2,8,16) lane (i2,2,4)(i1,1,8) wave (i1,16,4)
 * cast_t: reg (i2,1,2)(i1,8,2)(i2,8,16) lane (i2,2,4)(i1,1,8) wave (i1,16,4)
 * in0_t: shared, 16384 bytes f16, ring of 1
 * in1_t: shared, 16384 bytes f16, ring of 2
 * in2_t: shared, 16384 bytes f16, ring of 2
 * acc: wgmma.m64n64k16.f16, 1 x 1 a wave, 8 steps
 * o: wgmma.m64n128k16.f16, 1 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(256, 2) k_matmul_softmax_weighted_sum_iota_ge_2more(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2, const __grid_constant__ ac_tensor_map map3) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE - 4;
  (void)lane; (void)wave;
  if (threadIdx.x == AC_WAVE) {
    ac_map_ask(&map0);
    ac_map_ask(&map1);
    ac_map_ask(&map2);
    ac_map_ask(&map3);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1; ++i) {
      ac_barrier_init(smem + 81920, 1);
      ac_barrier_init(smem + 81928, 4);
    }
    for (int i = 0; i < 2; ++i) {
      ac_barrier_init(smem + 81936 + 8 * (i), 1);
      ac_barrier_init(smem + 81952 + 8 * (i), 4);
    }
    for (int i = 0; i < 2; ++i) {
      ac_barrier_init(smem + 81968 + 8 * (i), 1);
      ac_barrier_init(smem + 81984 + 8 * (i), 4);
    }
    ac_barrier_fence();
  }
  __syncthreads();
  if (team == 0) {
    ac_registers_release<40>();
    if (threadIdx.x == 0) {
      unsigned q1 = 0;
      unsigned q2 = 0;
      int block = blockIdx.x;
      const int i1_b = (3 - 1 - block % 3) * 64;
      block /= 3;
      const int i0_b = block;
      ac_barrier_expect(smem + 81920, 16384);
      ac_bulk_load(smem + 0, &map0, smem + 81920, 0, i1_b, i0_b);
      ac_bulk_load(smem + 0 + 8192, &map0, smem + 81920, 0 + 64, i1_b, i0_b);
      for (int it = 0; it < ac_min(3, (i1_b + 63) / 64 + 1); ++it) {
        const int r1_b = it * 64;
        ac_barrier_wait(smem + 81952 + 8 * (q1 % 2), 1 ^ (q1 / 2 % 2));
        ac_barrier_expect(smem + 81936 + 8 * (q1 % 2), 16384);
        ac_bulk_load(smem + 16384 + q1 % 2 * 16384, &map1, smem + 81936 + 8 * (q1 % 2), 0, r1_b, i0_b);
        ac_bulk_load(smem + 16384 + q1 % 2 * 16384 + 8192, &map1, smem + 81936 + 8 * (q1 % 2), 0 + 64, r1_b, i0_b);
        ac_barrier_wait(smem + 81984 + 8 * (q2 % 2), 1 ^ (q2 / 2 % 2));
        ac_barrier_expect(smem + 81968 + 8 * (q2 % 2), 16384);
        ac_bulk_load(smem + 49152 + q2 % 2 * 16384, &map2, smem + 81968 + 8 * (q2 % 2), 0, r1_b, i0_b);
        ac_bulk_load(smem + 49152 + q2 % 2 * 16384 + 8192, &map2, smem + 81968 + 8 * (q2 % 2), 0 + 64, r1_b, i0_b);
        ++q1;
        ++q2;
      }
    }
    return;
  }
  ac_registers_claim<216>();
  const unsigned long long in2_t_at = ac_descriptor(smem + 49152, 8192, 1024);
  const int r1_t = lane % 4 * 2;
  const int i1_t = lane / 4 + wave * 16;
  const unsigned long long in1_t_at = ac_descriptor(smem + 16384, 1, 1024);
  const unsigned long long in0_t_at = ac_descriptor(smem + 0, 1, 1024);
  unsigned q1 = 0;
  unsigned q2 = 0;
  float m_2[2];
  float l[2];
  float o[64];
  float acc[32];
  float where_t[32];
  float where_t_in[32];
  float p[32];
  float p_in[32];
  float l_t[2];
  float m_t[2];
  float m_t2[2];
  float m1[2];
  float p_n[32];
  float r_2[64];
  float cast_t[64];
  int block = blockIdx.x;
  const int i1_b2 = (3 - 1 - block % 3) * 64;
  block /= 3;
  const int i0_b2 = block;
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
  unsigned fa2[16];
  {
    const int r1_b2 = 0 * 64;
    ac_barrier_wait(smem + 81920, 0);
    ac_barrier_wait(smem + 81936 + 8 * (q1 % 2), q1 / 2 % 2);
    ac_keep(acc);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n64_f16_s00(kk > 0, &acc[(m * 1 + n) * 32], ac_descriptor_at(in0_t_at, kk % 4 * 2 + kk / 4 * 512), ac_descriptor_at(in1_t_at, q1 % 2 * 1024 + kk % 4 * 2 + kk / 4 * 512));
        }
      }
    }
    ac_team_commit();
    ac_team_wait<0>();
    if (lane == 0) ac_barrier_arrive(smem + 81952 + 8 * (q1 % 2));
    ac_keep(acc);
    if (i1_b2 + -1*(r1_b2 + 63) >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t[r] = acc[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t[r] = (((long long)((i1_b2 + i1_t + r / 2 % 2 * 8)) >= (long long)((r1_b2 + r1_t + r % 2 + r / 4 * 8))) ? acc[r] : -ac_inf<float>());
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
      l_t[r] = t2[r];
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      m_2[r] = m1[r];
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = (l[r] + l_t[r]);
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      p_n[r] = p_in[r];
    }
    ac_pack<f16, 32>(fa2, p_n);
    ++q1;
  }
  for (int it2 = 1; it2 < ac_min(3, (i1_b2 + 63) / 64 + 1); ++it2) {
    const int r1_b3 = it2 * 64;
    ac_barrier_wait(smem + 81936 + 8 * (q1 % 2), q1 / 2 % 2);
    ac_keep(acc);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n64_f16_s00(kk > 0, &acc[(m * 1 + n) * 32], ac_descriptor_at(in0_t_at, kk % 4 * 2 + kk / 4 * 512), ac_descriptor_at(in1_t_at, q1 % 2 * 1024 + kk % 4 * 2 + kk / 4 * 512));
        }
      }
    }
    ac_team_commit();
    ac_barrier_wait(smem + 81968 + 8 * (q2 % 2), q2 / 2 % 2);
    ac_keep(o);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n128_f16_r1(1, &o[(m * 1 + n) * 64], &fa2[(m * 4 + kk) * 4], ac_descriptor_at(in2_t_at, q2 % 2 * 1024 + kk * 128));
        }
      }
    }
    ac_team_commit();
    ac_team_wait<1>();
    if (lane == 0) ac_barrier_arrive(smem + 81952 + 8 * (q1 % 2));
    ac_keep(acc);
    if (i1_b2 + -1*(r1_b3 + 63) >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t[r] = acc[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t[r] = (((long long)((i1_b2 + i1_t + r / 2 % 2 * 8)) >= (long long)((r1_b3 + r1_t + r % 2 + r / 4 * 8))) ? acc[r] : -ac_inf<float>());
      }
    }
    if (-1*(r1_b3 + 63) + 129 >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t_in[r] = where_t[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        where_t_in[r] = ((-1*(r1_b3 + r1_t + r % 2 + r / 4 * 8) + 129 >= 0) ? where_t[r] : -ac_inf<float>());
      }
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      p[r] = ac_exp_scaled_difference_half(where_t_in[r], 0.180336878f, m_2[(r / 2 % 2)]);
    }
    if (-1*(r1_b3 + 63) + 129 >= 0) {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        p_in[r] = p[r];
      }
    }
    else {
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        p_in[r] = ((-1*(r1_b3 + r1_t + r % 2 + r / 4 * 8) + 129 >= 0) ? p[r] : 0.0f);
      }
    }
    float t3[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      t3[r] = 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      t3[(r / 2 % 2)] = (t3[(r / 2 % 2)] + p_in[r]);
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l_t[r] = t3[r];
    }
    const bool n_far = ac_any(!(l_t[0] <= 16376.0f && l_t[1] <= 16376.0f));
    if (n_far) {
      float t4[2];
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        t4[r] = -ac_inf<float>();
      }
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        t4[(r / 2 % 2)] = ac_max(t4[(r / 2 % 2)], where_t_in[r]);
      }
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        t4[r] = ac_max(t4[r], ac_shuffle_xor(t4[r], 1));
      }
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        t4[r] = ac_max(t4[r], ac_shuffle_xor(t4[r], 2));
      }
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        m_t[r] = t4[r];
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
      if (-1*(r1_b3 + 63) + 129 >= 0) {
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p_in[r] = p[r];
        }
      }
      else {
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p_in[r] = ((-1*(r1_b3 + r1_t + r % 2 + r / 4 * 8) + 129 >= 0) ? p[r] : 0.0f);
        }
      }
      float t5[2];
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        t5[r] = 0.0f;
      }
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        t5[(r / 2 % 2)] = (t5[(r / 2 % 2)] + p_in[r]);
      }
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        l_t[r] = t5[r];
      }
    }
    ac_team_wait<0>();
    if (lane == 0) ac_barrier_arrive(smem + 81984 + 8 * (q2 % 2));
    ac_keep(o);
    ac_keep(fa2);
    ++q2;
    if (n_far) {
      #pragma unroll
      for (int r = 0; r < 64; ++r) {
        o[r] = (o[r] * ac_exp_difference_half(m_2[(r / 2 % 2)], m1[(r / 2 % 2)]));
      }
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        m_2[r] = m1[r];
      }
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = (l[r] + l_t[r]);
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      p_n[r] = p_in[r];
    }
    ac_pack<f16, 32>(fa2, p_n);
    ++q1;
  }
  ac_barrier_wait(smem + 81968 + 8 * (q2 % 2), q2 / 2 % 2);
  ac_keep(o);
  ac_team_fence();
  #pragma unroll
  for (int kk = 0; kk < 4; ++kk) {
    for (int m = 0; m < 1; ++m) {
      for (int n = 0; n < 1; ++n) {
        ac_wgmma_n128_f16_r1(1, &o[(m * 1 + n) * 64], &fa2[(m * 4 + kk) * 4], ac_descriptor_at(in2_t_at, q2 % 2 * 1024 + kk * 128));
      }
    }
  }
  ac_team_commit();
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 1));
  }
  #pragma unroll
  for (int r = 0; r < 2; ++r) {
    l[r] = (l[r] + ac_shuffle_xor(l[r], 2));
  }
  ac_team_wait<0>();
  if (lane == 0) ac_barrier_arrive(smem + 81984 + 8 * (q2 % 2));
  ac_keep(o);
  unsigned char *const box3 = smem + 82944 + (wave / 4) * 16384;
  for (int m = 0; m < 1; ++m) {
    #pragma unroll
    for (int g = 0; g < 2; ++g) {
      #pragma unroll
      for (int r = (m * 2 + g) * 32; r < (m * 2 + g) * 32 + 32; ++r) {
        r_2[r] = ac_div_half(o[r], l[(r / 2 % 2)]);
      }
      #pragma unroll
      for (int r = (m * 2 + g) * 32; r < (m * 2 + g) * 32 + 32; ++r) {
        cast_t[r] = r_2[r];
      }
      unsigned char *to = box3 + (m * 2 + g) % 2 * 8192;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        unsigned part[4];
        ac_pack<f16, 8>(part, &cast_t[(m * 2 + g) * 32 + q * 8]);
        ac_stmatrix4(to + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16), part);
      }
      ac_async_fence();
      ac_barrier_sync(2 + wave / 4, 128);
      if (threadIdx.x % 128 == 0) ac_bulk_store(&map3, to, (g * 64), (i1_b2 + (wave / 4 * 1 + m) * 64), (i0_b2));
    }
  }
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
}
