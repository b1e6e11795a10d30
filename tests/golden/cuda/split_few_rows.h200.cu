/*
 *
 * kernel matmul(in0: f16[i0:16, r0:520], in1: f16[i1:264, r0:520] of in1[520, 264] at [r0, i1]) -> out0: f16[i0:16, i1:264]
 * axes i0=16 i1=264 r0=520
 * tile i1=256 r0=64
 * grid i1 cluster=4
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=3 parts=4
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i0,1,2)(i1,8,2)(i0,8,2)(i1,64,2) lane (i0,2,4)(i1,1,8) wave (i1,16,4)(i1,128,2)
 * cast_t: reg (i0,1,2)(i1,8,2)(i0,8,2)(i1,64,2) lane (i0,2,4)(i1,1,8) wave (i1,16,4)(i1,128,2)
 * in1_t: shared, 32768 bytes f16, ring of 3
 * in0_t: shared, 2048 bytes f16, ring of 3
 * acc: wgmma.m64n16k16.f16, 2 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(384) k_matmul(const f16 *in0, const f16 *in1, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1) {
  extern __shared__ __align__(1024) unsigned char smem[];
  unsigned char *const own = ac_own_memory(smem);
  const int rank = ac_cluster_rank();
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE - 4;
  (void)lane; (void)wave;
  if (threadIdx.x == AC_WAVE) {
    ac_map_ask(&map0);
    ac_map_ask(&map1);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) {
      ac_barrier_init(own + 116744 + 8 * (i), 1);
      ac_barrier_init(own + 116768 + 8 * (i), 8);
    }
    ac_barrier_init(own + 116736, 1);
    ac_barrier_expect(own + 116736, 12288);
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
      int block = blockIdx.x / 4;
      const int i1_b = block * 256;
      const int begin = rank * ((9 + 3) / 4), turns = ac_min((9 + 3) / 4, 9 - begin);
      for (int it = 0; it < turns; ++it) {
        const int r0_b = (begin + it) * 64;
        ac_barrier_wait(own + 116768 + 8 * (q0 % 3), 1 ^ (q0 / 3 % 2));
        ac_barrier_expect(own + 116744 + 8 * (q0 % 3), 34816);
        ac_bulk_load(own + 98304 + q0 % 3 * 2048, &map1, own + 116744 + 8 * (q0 % 3), r0_b, 0);
        ac_bulk_load(own + 0 + q0 % 3 * 32768, &map0, own + 116744 + 8 * (q0 % 3), i1_b, r0_b);
        ac_bulk_load(own + 0 + q0 % 3 * 32768 + 8192, &map0, own + 116744 + 8 * (q0 % 3), i1_b + 64, r0_b);
        ac_bulk_load(own + 0 + q0 % 3 * 32768 + 16384, &map0, own + 116744 + 8 * (q0 % 3), i1_b + 128, r0_b);
        ac_bulk_load(own + 0 + q0 % 3 * 32768 + 24576, &map0, own + 116744 + 8 * (q0 % 3), i1_b + 192, r0_b);
        ++q0;
      }
    }
    ac_cluster_wait();
    return;
  }
  ac_launch_wait();
  ac_launch_next();
  ac_registers_claim<232>();
  const int i0_t = lane % 4 * 2;
  const int i1_t = lane / 4 + wave % 4 * 16 + wave / 4 * 128;
  const unsigned long long in0_t_at = ac_descriptor(own + 98304, 1, 1024);
  const unsigned long long in1_t_at = ac_descriptor(own + 0 + ac_uniform(wave / 4) * 16384, 8192, 1024);
  unsigned q0 = 0;
  float acc[16];
  float cast_t[16];
  int block = blockIdx.x / 4;
  const int i1_b2 = block * 256;
  #pragma unroll
  for (int r = 0; r < 16; ++r) {
    acc[r] = 0.0f;
  }
  const int begin2 = rank * ((9 + 3) / 4), turns2 = ac_min((9 + 3) / 4, 9 - begin2);
  for (int it2 = 0; it2 < turns2; ++it2) {
    const int r0_b2 = (begin2 + it2) * 64;
    ac_barrier_wait(own + 116744 + 8 * (q0 % 3), q0 / 3 % 2);
    ac_keep(acc);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      #pragma unroll
      for (int m = 0; m < 2; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n16_f16_s10(1, &acc[(m * 1 + n) * 8], ac_descriptor_at(in1_t_at, q0 % 3 * 2048 + m * 64 / 64 * 512 + kk * 128), ac_descriptor_at(in0_t_at, q0 % 3 * 128 + kk % 4 * 2));
        }
      }
    }
    ac_team_commit();
    ac_team_wait<1>();
    if (it2 > 0 && lane == 0) ac_barrier_arrive(own + 116768 + 8 * ((q0 - 1) % 3));
    ++q0;
  }
  ac_team_wait<0>();
  ac_keep(acc);
  ac_cluster_wait();
  #pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    if (piece != rank) {
      for (int q = 0; q < 1; ++q) {
        ac_send(own + 104448 + (rank - (piece < rank)) * 4096 + q * 4096 + (threadIdx.x - 128) * 16, piece, &acc[piece * 4 + q * 4], own + 116736);
      }
    }
  }
  ac_barrier_wait_far(own + 116736, 0);
  #pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    if (piece == rank) {
      for (int q = 0; q < 1; ++q) {
        ac_add_parts<4>(&acc[piece * 4 + q * 4], own + 104448 + q * 4096 + (threadIdx.x - 128) * 16, 4096, piece);
      }
    }
  }
  #pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    if (piece == rank) {
      #pragma unroll
      for (int r = piece * 4; r < piece * 4 + 4; ++r) {
        cast_t[r] = acc[r];
      }
    }
  }
  #pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    if (piece == rank) {
      #pragma unroll
      for (int q = piece * 4; q < piece * 4 + 4; ++q) {
        if (i1_b2 + i1_t + q / 2 % 2 * 8 + q / 8 * 64 < 264) ac_store<1>(out0 + (i0_t + q % 2 + q / 4 % 2 * 8)*264 + (i1_b2 + i1_t + q / 2 % 2 * 8 + q / 8 * 64), &cast_t[q]);
      }
    }
  }
}
