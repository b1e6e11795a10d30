/*
 *
 * kernel matmul_add_gelu_add(in0: f16[i0:136, r0:328], in1: f16[i1:264, r0:328] of in1[328, 264] at [r0, i1], in2: f16[i1:264], in3: f16[i0:136, i1:264]) -> out0: f16[i0:136, i1:264]
 * axes i0=136 i1=264 r0=328
 * tile i0=128 i1=128 r0=64
 * grid i0, i1 cluster=2
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=3 parts=2
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   in2_t: f16[i1] fragment = copy in2
 *   in3_t: f16[i0, i1] fragment = copy in3
 *   add_t: f16[i0, i1] fragment = map gelu(cast(f16, acc) + in2_t) + in3_t
 *   store out0 = add_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,16) lane (i1,2,4)(i0,1,8) wave (i0,16,4)(i0,64,2)
 * in2_t: reg (i1,1,2)(i1,8,16) lane (i1,2,4)(-,0,8) wave (-,0,4)(-,0,2)
 * in3_t: reg (i1,1,2)(i0,8,2)(i1,8,16) lane (i1,2,4)(i0,1,8) wave (i0,16,4)(i0,64,2)
 * add_t: reg (i1,1,2)(i0,8,2)(i1,8,16) lane (i1,2,4)(i0,1,8) wave (i0,16,4)(i0,64,2)
 * in0_t: shared, 16384 bytes f16, ring of 3
 * in1_t: shared, 16384 bytes f16, ring of 3
 * acc: wgmma.m64n128k16.f16, 1 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(384) k_matmul_add_gelu_add(const f16 *in0, const f16 *in1, const f16 *in2, const f16 *in3, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2) {
  extern __shared__ __align__(1024) unsigned char smem[];
  unsigned char *const own = ac_own_memory(smem);
  const int rank = ac_cluster_rank();
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE - 4;
  (void)lane; (void)wave;
  if (threadIdx.x == AC_WAVE) {
    ac_map_ask(&map0);
    ac_map_ask(&map1);
    ac_map_ask(&map2);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) {
      ac_barrier_init(own + 131080 + 8 * (i), 1);
      ac_barrier_init(own + 131104 + 8 * (i), 8);
    }
    ac_barrier_init(own + 131072, 1);
    ac_barrier_expect(own + 131072, 32768);
    ac_barrier_fence();
  }
  ac_cluster_arrive();
  __syncthreads();
  if (team == 0) {
    ac_registers_release<40>();
    if (threadIdx.x == 0) {
      unsigned q0 = 0;
      ac_launch_wait();
      ac_launch_next();
      int block = blockIdx.x / 2;
      const int i1_b = block % 3 * 128;
      block /= 3;
      const int i0_b = block * 128;
      const int begin = rank * ((6 + 1) / 2), turns = ac_min((6 + 1) / 2, 6 - begin);
      for (int it = 0; it < turns; ++it) {
        const int r0_b = (begin + it) * 64;
        ac_barrier_wait(own + 131104 + 8 * (q0 % 3), 1 ^ (q0 / 3 % 2));
        ac_barrier_expect(own + 131080 + 8 * (q0 % 3), 32768);
        ac_bulk_load(own + 0 + q0 % 3 * 16384, &map0, own + 131080 + 8 * (q0 % 3), r0_b, i0_b);
        ac_bulk_load(own + 49152 + q0 % 3 * 16384, &map1, own + 131080 + 8 * (q0 % 3), i1_b, r0_b);
        ac_bulk_load(own + 49152 + q0 % 3 * 16384 + 8192, &map1, own + 131080 + 8 * (q0 % 3), i1_b + 64, r0_b);
        ++q0;
      }
    }
    ac_cluster_wait();
    return;
  }
  ac_launch_wait();
  ac_launch_next();
  ac_registers_claim<232>();
  const int i0_t = lane / 4 + wave % 4 * 16 + wave / 4 * 64;
  const int i1_t = lane % 4 * 2;
  const unsigned long long in1_t_at = ac_descriptor(own + 49152, 8192, 1024);
  const unsigned long long in0_t_at = ac_descriptor(own + 0 + ac_uniform(wave / 4) * 8192, 1, 1024);
  unsigned q0 = 0;
  float acc[64];
  float in2_t[32];
  float in3_t[64];
  float add_t[64];
  int block = blockIdx.x / 2;
  const int i1_b2 = block % 3 * 128;
  block /= 3;
  const int i0_b2 = block * 128;
  #pragma unroll
  for (int r = 0; r < 64; ++r) {
    acc[r] = 0.0f;
  }
  const int begin2 = rank * ((6 + 1) / 2), turns2 = ac_min((6 + 1) / 2, 6 - begin2);
  for (int it2 = 0; it2 < turns2; ++it2) {
    const int r0_b2 = (begin2 + it2) * 64;
    ac_barrier_wait(own + 131080 + 8 * (q0 % 3), q0 / 3 % 2);
    ac_keep(acc);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n128_f16_s01(1, &acc[(m * 1 + n) * 64], ac_descriptor_at(in0_t_at, q0 % 3 * 1024 + kk % 4 * 2), ac_descriptor_at(in1_t_at, q0 % 3 * 1024 + kk * 128));
        }
      }
    }
    ac_team_commit();
    ac_team_wait<1>();
    if (it2 > 0 && lane == 0) ac_barrier_arrive(own + 131104 + 8 * ((q0 - 1) % 3));
    ++q0;
  }
  ac_team_wait<0>();
  ac_keep(acc);
  ac_cluster_wait();
  #pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    if (piece != rank) {
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        ac_send(own + 98304 + (rank - (piece < rank)) * 32768 + q * 4096 + (threadIdx.x - 128) * 16, piece, &acc[piece * 32 + q * 4], own + 131072);
      }
    }
  }
  ac_barrier_wait_far(own + 131072, 0);
  #pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    if (piece == rank) {
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        ac_add_parts<2>(&acc[piece * 32 + q * 4], own + 98304 + q * 4096 + (threadIdx.x - 128) * 16, 32768, piece);
      }
    }
  }
  #pragma unroll
  for (int q = 0; q < 16; ++q) {
    ac_load_where<2>(&in2_t[q * 2], i1_b2 + i1_t + (q * 2) % 2 + (q * 2) / 2 * 8 < 264, in2 + (i1_b2 + i1_t + (q * 2) % 2 + (q * 2) / 2 * 8), 0.0f);
  }
  #pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    if (piece == rank) {
      #pragma unroll
      for (int q = piece * 16; q < piece * 16 + 16; ++q) {
        ac_load_where<2>(&in3_t[q * 2], (i0_b2 + i0_t + (q * 2) / 2 % 2 * 8 < 136) & (i1_b2 + i1_t + (q * 2) % 2 + (q * 2) / 4 * 8 < 264), in3 + (i0_b2 + i0_t + (q * 2) / 2 % 2 * 8)*264 + (i1_b2 + i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), 0.0f);
      }
    }
  }
  #pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    if (piece == rank) {
      #pragma unroll
      for (int r = piece * 32; r < piece * 32 + 32; ++r) {
        add_t[r] = (ac_gelu_half((acc[r] + in2_t[(r % 2) + (r / 4) * 2])) + in3_t[r]);
      }
    }
  }
  unsigned char *const box2 = own + 132096 + (wave / 4) * 16384;
  #pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    if (piece == rank) {
      for (int b = piece * 1; b < piece * 1 + 1; ++b) {
        const int m = b / 2, g = b % 2;
        unsigned char *to = box2 + (m * 2 + g) % 2 * 8192;
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          unsigned part[4];
          ac_pack<f16, 8>(part, &add_t[(m * 2 + g) * 32 + q * 8]);
          ac_stmatrix4(to + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16), part);
        }
        ac_async_fence();
        ac_barrier_sync(2 + wave / 4, 128);
        if (threadIdx.x % 128 == 0) ac_bulk_store(&map2, to, (i1_b2 + g * 64), (i0_b2 + (wave / 4 * 1 + m) * 64));
      }
    }
  }
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
}
