/*
 *
 * kernel matmul_add_gelu_add(in0: f16[i0:136, r0:328], in1: f16[i1:264, r0:328] of in1[328, 264] at [r0, i1], in2: f16[i1:264], in3: f16[i0:136, i1:264]) -> out0: f16[i0:136, i1:264]
 * axes i0=136 i1=264 r0=328
 * tile i0=128 i1=128 r0=64
 * grid i0, i1 order=grouped(8) persistent=yes stream=yes
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=3
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
extern "C" __global__ void __launch_bounds__(384) k_matmul_add_gelu_add(const f16 *in0, const f16 *in1, const f16 *in2, const f16 *in3, f16 *__restrict__ out0, unsigned char *__restrict__ scratch, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2, const __grid_constant__ ac_tensor_map map3) {
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
    for (int i = 0; i < 3; ++i) {
      ac_barrier_init(smem + 98304 + 8 * (i), 1);
      ac_barrier_init(smem + 98328 + 8 * (i), 8);
    }
    for (int i = 0; i < 2; ++i) {
      ac_barrier_init(smem + 164864 + 8 * (i), 1);
      ac_barrier_init(smem + 164880 + 8 * (i), 2);
    }
    ac_barrier_fence();
  }
  __syncthreads();
  if (team == 0) {
    ac_registers_release<40>();
    if (threadIdx.x == 0) {
      unsigned beside = 0;
      unsigned q0 = 0;
      ac_launch_wait();
      ac_launch_next();
      const int waves = 2 * 3 / gridDim.x, place = gridDim.x - 1 - blockIdx.x;
      const long long row = (long long)(2 * 3 - waves * gridDim.x) * (6);
      const int end = int(row * (place + 1) / gridDim.x);
      for (int wave_of = 0, next = int(row * place / gridDim.x); wave_of < waves || next < end; ++wave_of) {
        int tile = wave_of * gridDim.x + blockIdx.x, begin = 0, turns = 6;
        if (wave_of >= waves) {
          tile = waves * gridDim.x + next / (6);
          begin = next % (6);
          turns = ac_min(turns - begin, end - next);
          next += turns;
        }
        int block = tile;
        const int rows_i0 = 2, cols_i1 = 3, all_i0 = rows_i0 * cols_i1;
        const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
        const int high_i0 = 2;
        const int i0_b = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 128;
        const int i1_b = tile_i0 % (8 * cols_i1) / high_i0 * 128;
        block /= all_i0;
        for (int it = 0; it < turns; ++it) {
          const int r0_b = (begin + it) * 64;
          ac_barrier_wait(smem + 98328 + 8 * (q0 % 3), 1 ^ (q0 / 3 % 2));
          ac_barrier_expect(smem + 98304 + 8 * (q0 % 3), 32768);
          ac_bulk_load(smem + 0 + q0 % 3 * 16384, &map0, smem + 98304 + 8 * (q0 % 3), r0_b, i0_b);
          ac_bulk_load(smem + 49152 + q0 % 3 * 16384, &map1, smem + 98304 + 8 * (q0 % 3), i1_b, r0_b);
          ac_bulk_load(smem + 49152 + q0 % 3 * 16384 + 8192, &map1, smem + 98304 + 8 * (q0 % 3), i1_b + 64, r0_b);
          ++q0;
        }
        if (begin == 0) {
          ac_barrier_wait(smem + 164880 + 8 * (beside % 2), 1 ^ (beside / 2 % 2));
          ac_barrier_expect(smem + 164864 + 8 * (beside % 2), 32768);
          #pragma unroll
          for (int m = 0; m < 2; ++m) {
            #pragma unroll
            for (int g = 0; g < 2; ++g) {
              for (int part = 0; part < 1; ++part) {
                ac_bulk_load(smem + 99328 + beside % 2 * 32768 + (m * 2 + g) * 8192 + part * 8192, &map2, smem + 164864 + 8 * (beside % 2), (i1_b + g * 64), (i0_b + m * 64));
              }
            }
          }
          ++beside;
        }
      }
    }
    return;
  }
  ac_launch_wait();
  ac_launch_next();
  ac_registers_claim<232>();
  const int i1_t = lane % 4 * 2;
  const unsigned long long in1_t_at = ac_descriptor(smem + 49152, 8192, 1024);
  const unsigned long long in0_t_at = ac_descriptor(smem + 0 + ac_uniform(wave / 4) * 8192, 1, 1024);
  unsigned beside = 0;
  unsigned q0 = 0;
  float acc[64];
  float in2_t[32];
  float in3_t[64];
  float add_t[64];
  const int waves = 2 * 3 / gridDim.x, place = gridDim.x - 1 - blockIdx.x;
  const long long row = (long long)(2 * 3 - waves * gridDim.x) * (6);
  const int end = int(row * (place + 1) / gridDim.x);
  for (int wave_of = 0, next = int(row * place / gridDim.x); wave_of < waves || next < end; ++wave_of) {
    int tile = wave_of * gridDim.x + blockIdx.x, begin = 0, turns = 6;
    if (wave_of >= waves) {
      tile = waves * gridDim.x + next / (6);
      begin = next % (6);
      turns = ac_min(turns - begin, end - next);
      next += turns;
    }
    int block = tile;
    const int rows_i0 = 2, cols_i1 = 3, all_i0 = rows_i0 * cols_i1;
    const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
    const int high_i0 = 2;
    const int i0_b2 = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 128;
    const int i1_b2 = tile_i0 % (8 * cols_i1) / high_i0 * 128;
    block /= all_i0;
    #pragma unroll
    for (int r = 0; r < 64; ++r) {
      acc[r] = 0.0f;
    }
    for (int it2 = 0; it2 < turns; ++it2) {
      const int r0_b2 = (begin + it2) * 64;
      ac_barrier_wait(smem + 98304 + 8 * (q0 % 3), q0 / 3 % 2);
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
      if (it2 > 0 && lane == 0) ac_barrier_arrive(smem + 98328 + 8 * ((q0 - 1) % 3));
      ++q0;
    }
    ac_team_wait<0>();
    if (lane == 0) ac_barrier_arrive(smem + 98328 + 8 * ((q0 - 1) % 3));
    ac_keep(acc);
    if (begin > 0) {
      unsigned char *const left = scratch + 640 + (long long)place * 65536 + (threadIdx.x - 128) * 16;
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        ac_leave(left + (q + 0) * 4096, &acc[q * 4]);
      }
      __threadfence();
      ac_barrier_sync(1, 256);
      if ((threadIdx.x - 128) == 0) ac_flag_set((unsigned *)scratch + place);
    }
    else if (turns < 6) {
      for (int other = place + 1; row * other / gridDim.x < (long long)(tile - waves * gridDim.x + 1) * (6); ++other) {
        if (row * other / gridDim.x == row * (other + 1) / gridDim.x) continue;
        if ((threadIdx.x - 128) == 0) ac_flag_take((unsigned *)scratch + other);
        ac_barrier_sync(1, 256);
        unsigned char *const left = scratch + 640 + (long long)other * 65536 + (threadIdx.x - 128) * 16;
        #pragma unroll
        for (int q = 0; q < 16; ++q) {
          ac_add_left(left + (q + 0) * 4096, &acc[q * 4]);
        }
      }
    }
    if (begin == 0) {
      #pragma unroll
      for (int q = 0; q < 16; ++q) {
        ac_load_where<2>(&in2_t[q * 2], i1_b2 + i1_t + (q * 2) % 2 + (q * 2) / 2 * 8 < 264, in2 + (i1_b2 + i1_t + (q * 2) % 2 + (q * 2) / 2 * 8), 0.0f);
      }
      ac_barrier_wait(smem + 164864 + 8 * (beside % 2), beside / 2 % 2);
      unsigned char *const boxes = smem + 99328 + beside % 2 * 32768 + wave / 4 * 16384;
      #pragma unroll
      for (int box = 0; box < 2; ++box) {
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          unsigned part[4];
          ac_ldmatrix4(part, boxes + box * 8192 + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16));
          ac_unpack<f16, 8>(&in3_t[box * 32 + q * 8], part);
        }
      }
      #pragma unroll
      for (int r = 0; r < 64; ++r) {
        add_t[r] = (ac_gelu_half((acc[r] + in2_t[(r % 2) + (r / 4) * 2])) + in3_t[r]);
      }
      unsigned char *const boxes2 = smem + 99328 + beside % 2 * 32768 + wave / 4 * 16384;
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int g = 0; g < 2; ++g) {
          #pragma unroll
          for (int q = 0; q < 4; ++q) {
            unsigned part[4];
            ac_pack<f16, 8>(part, &add_t[(m * 2 + g) * 32 + q * 8]);
            ac_stmatrix4(boxes2 + (m * 2 + g) * 8192 + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16), part);
          }
        }
      }
      ac_async_fence();
      ac_barrier_sync(2 + wave / 4, 128);
      if (threadIdx.x % 128 == 0) {
        for (int m = 0; m < 1; ++m) {
          #pragma unroll
          for (int g = 0; g < 2; ++g) {
            ac_bulk_store(&map3, boxes2 + (m * 2 + g) * 8192, (i1_b2 + g * 64), (i0_b2 + (wave / 4 * 1 + m) * 64));
          }
        }
        ac_bulk_wait<2>();
        if (beside >= 1) ac_barrier_arrive(smem + 164880 + 8 * ((beside - 1) % 2));
      }
      beside += 1;
    }
  }
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
}
