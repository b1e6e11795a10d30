/*
 *
 * kernel matmul(in0: f16[i0:512, r0:200], in1: f16[i1:264, r0:200] of in1[200, 264] at [r0, i1]) -> out0: f16[i0:512, i1:264]
 * axes i0=512 i1=264 r0=200
 * tile i0=128 i1=128 r0=64
 * grid i0, i1 order=grouped(8) persistent=yes
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=3
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,8)(i1,8,16) lane (i0,1,32) wave (i0,32,4)
 * cast_t: reg (i1,1,8)(i1,8,16) lane (i0,1,32) wave (i0,32,4)
 * in0_t: shared, 16384 bytes f16, ring of 3
 * in1_t: shared, 16384 bytes f16, ring of 3
 * acc: tcgen05.m128n128k16.f16, 1 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(256) k_matmul(const f16 *in0, const f16 *in1, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE - 4;
  (void)lane; (void)wave;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) {
      ac_barrier_init(smem + 98304 + 8 * (i), 1);
      ac_barrier_init(smem + 98328 + 8 * (i), 1);
    }
    for (int i = 0; i < 2; ++i) {
      ac_barrier_init(smem + 98352 + 8 * (i), 1);
      ac_barrier_init(smem + 98368 + 8 * (i), 4);
    }
    ac_barrier_fence();
  }
  if (wave == 0) ac_tensor_alloc<256>(smem + 98384);
  ac_tensor_before();
  __syncthreads();
  ac_tensor_after();
  const unsigned tensor = *(const unsigned *)(smem + 98384);
  if (team == 0) {
    if (threadIdx.x == 0) {
      unsigned q0 = 0;
      ac_launch_wait();
      ac_launch_next();
      for (int tile = blockIdx.x; tile < 4 * 3; tile += gridDim.x) {
        int block = tile;
        const int rows_i0 = 4, cols_i1 = 3, all_i0 = rows_i0 * cols_i1;
        const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
        const int high_i0 = 4;
        const int i0_b = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 128;
        const int i1_b = tile_i0 % (8 * cols_i1) / high_i0 * 128;
        block /= all_i0;
        for (int it = 0; it < 4; ++it) {
          const int r0_b = it * 64;
          ac_barrier_wait(smem + 98328 + 8 * (q0 % 3), 1 ^ (q0 / 3 % 2));
          ac_barrier_expect(smem + 98304 + 8 * (q0 % 3), 32768);
          ac_bulk_load(smem + 0 + q0 % 3 * 16384, &map0, smem + 98304 + 8 * (q0 % 3), r0_b, i0_b);
          ac_bulk_load(smem + 49152 + q0 % 3 * 16384, &map1, smem + 98304 + 8 * (q0 % 3), i1_b, r0_b);
          ac_bulk_load(smem + 49152 + q0 % 3 * 16384 + 8192, &map1, smem + 98304 + 8 * (q0 % 3), i1_b + 64, r0_b);
          ++q0;
        }
      }
    }
    if (threadIdx.x == AC_WAVE) {
      const unsigned long long in0_t_at = ac_tensor_descriptor(smem + 0, 1, 1024);
      const unsigned long long in1_t_at = ac_tensor_descriptor(smem + 49152, 8192, 1024);
      unsigned q0 = 0;
      unsigned sums = 0;
      for (int tile = blockIdx.x; tile < 4 * 3; tile += gridDim.x) {
        int block = tile;
        const int rows_i0 = 4, cols_i1 = 3, all_i0 = rows_i0 * cols_i1;
        const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
        const int high_i0 = 4;
        const int i0_b2 = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 128;
        const int i1_b2 = tile_i0 % (8 * cols_i1) / high_i0 * 128;
        block /= all_i0;
        ac_barrier_wait(smem + 98368 + 8 * (sums % 2), 1 ^ (sums / 2 % 2));
        for (int it2 = 0; it2 < 4; ++it2) {
          ac_barrier_wait(smem + 98304 + 8 * (q0 % 3), q0 / 3 % 2);
          ac_tensor_after();
          #pragma unroll
          for (int kk = 0; kk < 4; ++kk) {
            for (int m = 0; m < 1; ++m) {
              ac_tensor_mma_f16(tensor + sums % 2 * 128, ac_tensor_descriptor_at(in0_t_at, q0 % 3 * 1024 + kk % 4 * 2), ac_tensor_descriptor_at(in1_t_at, q0 % 3 * 1024 + kk * 128), 0x8210010u, it2 > 0 || kk > 0);
            }
          }
          ac_tensor_commit(smem + 98328 + 8 * (q0 % 3));
          ++q0;
        }
        ac_tensor_commit(smem + 98352 + 8 * (sums % 2));
        ++sums;
      }
    }
    return;
  }
  ac_launch_wait();
  ac_launch_next();
  unsigned sums = 0;
  float acc[128];
  float cast_t[128];
  unsigned char *const boxes = smem + 99328;
  for (int tile = blockIdx.x; tile < 4 * 3; tile += gridDim.x) {
    int block = tile;
    const int rows_i0 = 4, cols_i1 = 3, all_i0 = rows_i0 * cols_i1;
    const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
    const int high_i0 = 4;
    const int i0_b3 = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 128;
    const int i1_b3 = tile_i0 % (8 * cols_i1) / high_i0 * 128;
    block /= all_i0;
    ac_barrier_wait(smem + 98352 + 8 * (sums % 2), sums / 2 % 2);
    ac_tensor_after();
    #pragma unroll
    for (int g = 0; g < 2; ++g) {
      ac_tensor_load<64>(&acc[g * 64], (tensor + (wave % 4 << 21) + sums % 2 * 128) + g * 64);
      #pragma unroll
      for (int r = g * 64; r < g * 64 + 64; ++r) {
        cast_t[r] = acc[r];
      }
      if (threadIdx.x % 128 == 0) ac_bulk_wait<1>();
      ac_barrier_sync(2 + wave / 4, 128);
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        ac_store<8>((f16 *)(boxes + g % 2 * 16384 + ac_swizzle<128>(wave % 4 * 32 + lane, q * 16)), &cast_t[g * 64 + q * 8]);
      }
      ac_async_fence();
      ac_barrier_sync(2 + wave / 4, 128);
      if (threadIdx.x % 128 == 0) ac_bulk_store(&map2, boxes + g % 2 * 16384, (i1_b3 + g * 64), (i0_b3));
    }
    ac_tensor_before();
    if (lane == 0) ac_barrier_arrive(smem + 98368 + 8 * (sums % 2));
    ++sums;
  }
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
  ac_barrier_sync(1, 128);
  ac_tensor_after();
  if (wave == 0) ac_tensor_free<256>(tensor);
}
