/*
 *
 * kernel matmul_mul_softmax_weighted_sum(in0: f16[i0:128, i1:512, r0:64], in1: f16[i0:128, r0:64, r1:512] of in1[128, 512, 64] at [i0, r1, r0], in2: f16[i0:128, i2:64, r1:512] of in2[128, 512, 64] at [i0, r1, i2]) -> out0: f16[i0:128, i1:512, i2:64]
 * axes i0=128 i1=512 i2=64 r0=64 r1=512
 * tile i0=1 i1=256 r1=64
 * grid i0, i1 persistent=yes
 *   m: f32[i0, i1] fragment = fill -3.4028234663852886e+38
 *   l: f32[i0, i1] fragment = fill 0.0
 *   o: f32[i0, i1, i2] fragment = fill 0.0
 *   in0_t: f16[i0, i1, r0] block = copy in0
 *   pipelined r1 stages=4 overlap=2
 *     in1_t: f16[i0, r0, r1] block = copy in1
 *     acc: f32[i0, i1, r1] fragment = fill 0.0
 *     acc += mma in0_t, in1_t
 *     p: f32[i0, i1, r1] fragment = map exp(acc * 0.125 - m)
 *     l_t: f32[i0, i1] fragment = reduce add r1 p
 *     when of=l_t above=16376.0
 *       m_t: f32[i0, i1] fragment = reduce max r1 acc
 *       m_t2: f32[i0, i1] fragment = map m_t * 0.125
 *       m1: f32[i0, i1] fragment = map max(m, m_t2)
 *       l = map l * exp(m - m1)
 *       o = map o * exp(m - m1)
 *       p = map exp(acc * 0.125 - m1)
 *       l_t = reduce add r1 p
 *       m = map m1
 *     l = map l + l_t
 *     in2_t: f16[i0, i2, r1] block = copy in2
 *     p_n: f16[i0, i1, r1] fragment = map cast(f16, p)
 *     o += mma p_n, in2_t
 *   r: f32[i0, i1, i2] fragment = map o / l
 *   cast_t: f16[i0, i1, i2] fragment = map cast(f16, r)
 *   store out0 = cast_t
 *
 * acc: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * o: reg (i2,1,2)(i1,8,2)(i2,8,8) lane (i2,2,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * p_n: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * m: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * l: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * p: reg (r1,1,2)(i1,8,2)(r1,8,8) lane (r1,2,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * l_t: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * m_t: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * m_t2: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * m1: reg (i1,8,2) lane (-,0,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * r: reg (i2,1,2)(i1,8,2)(i2,8,8) lane (i2,2,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * cast_t: reg (i2,1,2)(i1,8,2)(i2,8,8) lane (i2,2,4)(i1,1,8) wave (i1,16,4)(i1,64,4)
 * in0_t: shared, 32768 bytes f16, ring of 2
 * in1_t: shared, 8192 bytes f16, ring of 4
 * in2_t: shared, 8192 bytes f16, ring of 4
 * acc: wgmma.m64n64k16.f16, 1 x 1 a wave, 4 steps
 * o: wgmma.m64n64k16.f16, 1 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(640) k_matmul_mul_softmax_weighted_sum(const f16 *in0, const f16 *in1, const f16 *in2, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2, const __grid_constant__ ac_tensor_map map3) {
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
    for (int i = 0; i < 2; ++i) {
      ac_barrier_init(smem + 131072 + 8 * (i), 1);
      ac_barrier_init(smem + 131088 + 8 * (i), 16);
    }
    for (int i = 0; i < 4; ++i) {
      ac_barrier_init(smem + 131104 + 8 * (i), 1);
      ac_barrier_init(smem + 131136 + 8 * (i), 16);
    }
    for (int i = 0; i < 4; ++i) {
      ac_barrier_init(smem + 131168 + 8 * (i), 1);
      ac_barrier_init(smem + 131200 + 8 * (i), 16);
    }
    ac_barrier_fence();
  }
  for (int i = threadIdx.x; i < 512; i += 640) reinterpret_cast<unsigned *>(smem + 132096)[i] = 0x3c003c00u;
  ac_async_fence();
  __syncthreads();
  if (team == 0) {
    ac_registers_release<32>();
    if (threadIdx.x == 0) {
      unsigned q0 = 0;
      unsigned q1 = 0;
      unsigned q2 = 0;
      ac_launch_wait();
      ac_launch_next();
      for (int tile = blockIdx.x; tile < 128 * 2; tile += gridDim.x) {
        int block = tile;
        const int i1_b = block % 2 * 256;
        block /= 2;
        const int i0_b = block;
        ac_barrier_wait(smem + 131088 + 8 * (q0 % 2), 1 ^ (q0 / 2 % 2));
        ac_barrier_expect(smem + 131072 + 8 * (q0 % 2), 32768);
        ac_bulk_load(smem + 0 + q0 % 2 * 32768, &map0, smem + 131072 + 8 * (q0 % 2), 0, i1_b, i0_b);
        for (int it = 0; it < 8; ++it) {
          const int r1_b = it * 64;
          ac_barrier_wait(smem + 131136 + 8 * (q1 % 4), 1 ^ (q1 / 4 % 2));
          ac_barrier_expect(smem + 131104 + 8 * (q1 % 4), 8192);
          ac_bulk_load(smem + 65536 + q1 % 4 * 8192, &map1, smem + 131104 + 8 * (q1 % 4), 0, r1_b, i0_b);
          ac_barrier_wait(smem + 131200 + 8 * (q2 % 4), 1 ^ (q2 / 4 % 2));
          ac_barrier_expect(smem + 131168 + 8 * (q2 % 4), 8192);
          ac_bulk_load(smem + 98304 + q2 % 4 * 8192, &map2, smem + 131168 + 8 * (q2 % 4), 0, r1_b, i0_b);
          ++q1;
          ++q2;
        }
        ++q0;
      }
    }
    return;
  }
  ac_launch_wait();
  ac_launch_next();
  ac_registers_claim<112>();
  const unsigned long long in2_t_at = ac_descriptor(smem + 98304, 33792, 1024);
  if (wave / 4 == 3) ac_barrier_pass(6, 256);
  const unsigned long long in1_t_at = ac_descriptor(smem + 65536, 1, 1024);
  const unsigned long long in0_t_at = ac_descriptor(smem + 0 + ac_uniform(wave / 4) * 8192, 1, 1024);
  unsigned q0 = 0;
  unsigned q1 = 0;
  unsigned q2 = 0;
  float m_2[2];
  float l[2];
  float o[32];
  float acc[32];
  float p[32];
  float l_t[2];
  float m_t[2];
  float m_t2[2];
  float m1[2];
  float p_n[32];
  float r_2[32];
  float cast_t[32];
  for (int tile = blockIdx.x; tile < 128 * 2; tile += gridDim.x) {
    int block = tile;
    const int i1_b2 = block % 2 * 256;
    block /= 2;
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
    for (int r = 0; r < 32; ++r) {
      o[r] = 0.0f;
    }
    float sums[4] = {};
    bool based = false;
    unsigned fa2[16];
    {
      const int r1_b2 = 0 * 64;
      ac_barrier_wait(smem + 131072 + 8 * (q0 % 2), q0 / 2 % 2);
      for (int box = 0; box < 1; ++box) {
        ac_scale<f16, 8192>(smem + 0 + q0 % 2 * 32768 + box * 32768 + wave / 4 * 8192, 0.180336878f);
      }
      ac_async_fence();
      ac_barrier_sync(2 + wave / 4, 128);
      ac_barrier_wait(smem + 131104 + 8 * (q1 % 4), q1 / 4 % 2);
      ac_keep(acc);
      ac_team_fence();
      #pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        for (int m = 0; m < 1; ++m) {
          for (int n = 0; n < 1; ++n) {
            ac_wgmma_n64_f16_s00(kk > 0, &acc[(m * 1 + n) * 32], ac_descriptor_at(in0_t_at, q0 % 2 * 2048 + kk % 4 * 2), ac_descriptor_at(in1_t_at, q1 % 4 * 512 + kk % 4 * 2));
          }
        }
      }
      ac_team_commit();
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        m_2[r] = 0.0f;
      }
      ac_team_wait<0>();
      if (lane == 0) ac_barrier_arrive(smem + 131136 + 8 * (q1 % 4));
      ac_keep(acc);
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        p[r] = ac_exp2_half(acc[r]);
      }
      #pragma unroll
      for (int r = 0; r < 32; ++r) {
        p_n[r] = p[r];
      }
      ac_pack<f16, 32>(fa2, p_n);
      const bool n_far = ac_any(ac_halves_above<0x73ff>(fa2));
      based = n_far || !ac_rows_reach<0x3800>(fa2);
      if (based) {
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m_2[r] = -3.40282347e+38f;
        }
        float t[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          t[r] = -ac_inf<float>();
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          t[(r / 2 % 2)] = ac_max(t[(r / 2 % 2)], acc[r]);
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
          m_t2[r] = m_t[r];
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m1[r] = ac_max(m_2[r], m_t2[r]);
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p[r] = ac_exp2_half((acc[r] - m1[(r / 2 % 2)]));
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m_2[r] = m1[r];
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p_n[r] = p[r];
        }
        ac_pack<f16, 32>(fa2, p_n);
      }
      ++q1;
    }
    #pragma unroll 4
    for (int it2 = 1; it2 < 8; ++it2) {
      const int r1_b3 = it2 * 64;
      ac_barrier_wait(smem + 131104 + 8 * (it2 % 4), it2 / 4 % 2);
      ac_barrier_sync(6 + wave / 4, 256);
      ac_keep(acc);
      ac_team_fence();
      #pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        for (int m = 0; m < 1; ++m) {
          for (int n = 0; n < 1; ++n) {
            ac_wgmma_n64_f16_s00(kk > 0, &acc[(m * 1 + n) * 32], ac_descriptor_at(in0_t_at, q0 % 2 * 2048 + kk % 4 * 2), ac_descriptor_at(in1_t_at, it2 % 4 * 512 + kk % 4 * 2));
          }
        }
      }
      ac_team_commit();
      ac_barrier_wait(smem + 131168 + 8 * ((it2 - 1) % 4), (it2 - 1) / 4 % 2);
      ac_keep(o);
      ac_keep(sums);
      ac_team_fence();
      #pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        for (int m = 0; m < 1; ++m) {
          for (int n = 0; n < 1; ++n) {
            ac_wgmma_n72_f16_r1_sums(1, &o[(m * 1 + n) * 32], sums, &fa2[(m * 4 + kk) * 4], ac_descriptor_beside(in2_t_at, (it2 - 1) % 4 * 512 + kk * 128));
          }
        }
      }
      ac_team_commit();
      ac_barrier_pass(6 + (wave / 4 + 1) % 4, 256);
      ac_team_wait<0>();
      if (lane == 0) ac_barrier_arrive(smem + 131136 + 8 * (it2 % 4));
      if (lane == 0) ac_barrier_arrive(smem + 131200 + 8 * ((it2 - 1) % 4));
      ac_keep(acc);
      ac_keep(o);
      ac_keep(sums);
      #pragma unroll
      for (int r = 0; r < 2; ++r) {
        l[r] = sums[2 * r];
      }
      ac_keep(fa2);
      ++q2;
      if (based) {
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p[r] = ac_exp2_half((acc[r] - m_2[(r / 2 % 2)]));
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p_n[r] = p[r];
        }
        ac_pack<f16, 32>(fa2, p_n);
      }
      else {
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p[r] = ac_exp2_half(acc[r]);
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p_n[r] = p[r];
        }
        ac_pack<f16, 32>(fa2, p_n);
      }
      const bool n_far2 = ac_any(ac_halves_above<0x73ff>(fa2));
      if (n_far2) {
        float t2[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          t2[r] = -ac_inf<float>();
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          t2[(r / 2 % 2)] = ac_max(t2[(r / 2 % 2)], acc[r]);
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 1));
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          t2[r] = ac_max(t2[r], ac_shuffle_xor(t2[r], 2));
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m_t[r] = t2[r];
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m_t2[r] = m_t[r];
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m1[r] = ac_max(m_2[r], m_t2[r]);
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p[r] = ac_exp2_half((acc[r] - m1[(r / 2 % 2)]));
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          o[r] = (o[r] * ac_exp2_half((m_2[(r / 2 % 2)] - m1[(r / 2 % 2)])));
        }
        #pragma unroll
        for (int r = 0; r < 4; ++r) {
          sums[r] = (sums[r] * ac_exp2_half((m_2[(r / 2)] - m1[(r / 2)])));
        }
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
          m_2[r] = m1[r];
        }
        #pragma unroll
        for (int r = 0; r < 32; ++r) {
          p_n[r] = p[r];
        }
        based = true;
        ac_pack<f16, 32>(fa2, p_n);
      }
      ++q1;
    }
    ac_barrier_wait(smem + 131168 + 8 * (q2 % 4), q2 / 4 % 2);
    ac_keep(o);
    ac_keep(sums);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n72_f16_r1_sums(1, &o[(m * 1 + n) * 32], sums, &fa2[(m * 4 + kk) * 4], ac_descriptor_beside(in2_t_at, q2 % 4 * 512 + kk * 128));
        }
      }
    }
    ac_team_commit();
    ++q2;
    ac_team_wait<0>();
    if (lane == 0) ac_barrier_arrive(smem + 131200 + 8 * ((q2 - 1) % 4));
    ac_keep(o);
    ac_keep(sums);
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
      l[r] = sums[2 * r];
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      r_2[r] = ac_div_half(o[r], l[(r / 2 % 2)]);
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      cast_t[r] = r_2[r];
    }
    unsigned char *const box3 = smem + 134144 + (wave / 4) * 8192;
    if (threadIdx.x % 128 == 0) ac_bulk_wait<0>();
    for (int m = 0; m < 1; ++m) {
      for (int g = 0; g < 1; ++g) {
        unsigned char *to = box3 + (m * 1 + g) % 2 * 8192;
        ac_barrier_sync(2 + wave / 4, 128);
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          unsigned part[4];
          ac_pack<f16, 8>(part, &cast_t[(m * 1 + g) * 32 + q * 8]);
          ac_stmatrix4(to + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16), part);
        }
        ac_async_fence();
        ac_barrier_sync(2 + wave / 4, 128);
        if (threadIdx.x % 128 == 0) ac_bulk_store(&map3, to, (g * 64), (i1_b2 + (wave / 4 * 1 + m) * 64), (i0_b2));
      }
    }
    if (lane == 0) ac_barrier_arrive(smem + 131088 + 8 * (q0 % 2));
    ++q0;
  }
  if (wave / 4 == 0) ac_barrier_sync(6, 256);
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
}
