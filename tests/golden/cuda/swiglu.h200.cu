#include "autocomp_cuda.cuh"
AC_DEVICE void ac_wgmma_n64_f16_s01(float *d, unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 1;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b));
}

/*
 * matmul_silu_mul: matmul matmul silu mul
 * schedule: tile i0 64, i1 64, r0 64, r1 64; 6 stages; cooperative roles, 1 worker
 * predicted: 5.25 us, bound by launch
 * rule: fusion/epilogue: matmul into operand 0 of silu
 * rule: fusion/epilogue: matmul into operand 0 of mul
 * rule: fusion/epilogue: silu into operand 1 of mul
 *
 * kernel matmul_silu_mul(in0: f16[i0:256, r0:512], in1: f16[i1:384, r0:512] of in1[512, 384] at [r0, i1], in2: f16[i1:384, r0:512] of in2[512, 384] at [r0, i1]) -> out0: f16[i0:256, i1:384]
 * axes i0=256 i1=384 r0=512
 * tile i0=64 i1=64 r0=64
 * grid i0, i1 order=grouped(8) persistent=yes
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   acc2: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=6
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *     in2_t: f16[i1, r0] block = copy in2
 *     acc2 += mma in0_t, in2_t
 *   mul_t: f16[i0, i1] fragment = map cast(f16, acc) * silu(cast(f16, acc2))
 *   store out0 = mul_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,8) lane (i1,2,4)(i0,1,8) wave (i0,16,4)
 * acc2: reg (i1,1,2)(i0,8,2)(i1,8,8) lane (i1,2,4)(i0,1,8) wave (i0,16,4)
 * mul_t: reg (i1,1,2)(i0,8,2)(i1,8,8) lane (i1,2,4)(i0,1,8) wave (i0,16,4)
 * in0_t: shared, 8192 bytes f16, ring of 6
 * in1_t: shared, 8192 bytes f16, ring of 6
 * in2_t: shared, 8192 bytes f16, ring of 6
 * acc: wgmma.m64n64k16.f16, 1 x 1 a wave, 4 steps
 * acc2: wgmma.m64n64k16.f16, 1 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(256) matmul_silu_mul(const f16 *__restrict__ in0, const f16 *__restrict__ in1, const f16 *__restrict__ in2, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2, const __grid_constant__ ac_tensor_map map3) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE - 4;
  (void)lane; (void)wave;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 6; ++i) {
      ac_barrier_init(smem + 147456 + 8 * (i), 1);
      ac_barrier_init(smem + 147504 + 8 * (i), 4);
    }
    ac_barrier_fence();
  }
  __syncthreads();
  if (team == 0) {
    ac_registers_release<56>();
    if (threadIdx.x != 0) return;
    int q0 = 0;
    for (int tile = blockIdx.x; tile < 4 * 6; tile += gridDim.x) {
      int block = tile;
      const int rows_i0 = 4, cols_i1 = 6, all_i0 = rows_i0 * cols_i1;
      const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
      const int high_i0 = ac_min(rows_i0 - first_i0, 8);
      const int i0_b = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 64;
      const int i1_b = tile_i0 % (8 * cols_i1) / high_i0 * 64;
      block /= all_i0;
      for (int it = 0; it < 8; ++it) {
        const int r0_b = it * 64;
        ac_barrier_wait(smem + 147504 + 8 * (q0 % 6), 1 ^ (q0 / 6 % 2));
        ac_barrier_expect(smem + 147456 + 8 * (q0 % 6), 24576);
        ac_bulk_load(smem + 0 + q0 % 6 * 8192, &map0, smem + 147456 + 8 * (q0 % 6), r0_b, i0_b);
        ac_bulk_load(smem + 49152 + q0 % 6 * 8192, &map1, smem + 147456 + 8 * (q0 % 6), i1_b, r0_b);
        ac_bulk_load(smem + 98304 + q0 % 6 * 8192, &map2, smem + 147456 + 8 * (q0 % 6), i1_b, r0_b);
        ++q0;
      }
    }
    return;
  }
  ac_registers_claim<240>();
  int q0 = 0;
  float acc[32];
  float acc2[32];
  float mul_t[32];
  for (int tile = blockIdx.x; tile < 4 * 6; tile += gridDim.x) {
    int block = tile;
    const int rows_i0 = 4, cols_i1 = 6, all_i0 = rows_i0 * cols_i1;
    const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
    const int high_i0 = ac_min(rows_i0 - first_i0, 8);
    const int i0_b2 = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 64;
    const int i1_b2 = tile_i0 % (8 * cols_i1) / high_i0 * 64;
    block /= all_i0;
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      acc[r] = 0.0f;
    }
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      acc2[r] = 0.0f;
    }
    for (int it2 = 0; it2 < 8; ++it2) {
      const int r0_b2 = it2 * 64;
      ac_barrier_wait(smem + 147456 + 8 * (q0 % 6), q0 / 6 % 2);
      ac_keep(acc);
      ac_team_fence();
      #pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        for (int m = 0; m < 1; ++m) {
          for (int n = 0; n < 1; ++n) {
            ac_wgmma_n64_f16_s01(&acc[(m * 1 + n) * 32], ac_descriptor(smem + 0 + q0 % 6 * 8192 + ((wave / 4 * 1 + m) * 64) * 128 + kk % 4 * 32, 1, 1024), ac_descriptor(smem + 49152 + q0 % 6 * 8192 + (0) / 64 * 8192 + kk * 2048, 8192, 1024));
          }
        }
      }
      ac_team_commit();
      ac_keep(acc2);
      ac_team_fence();
      #pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        for (int m = 0; m < 1; ++m) {
          for (int n = 0; n < 1; ++n) {
            ac_wgmma_n64_f16_s01(&acc2[(m * 1 + n) * 32], ac_descriptor(smem + 0 + q0 % 6 * 8192 + ((wave / 4 * 1 + m) * 64) * 128 + kk % 4 * 32, 1, 1024), ac_descriptor(smem + 98304 + q0 % 6 * 8192 + (0) / 64 * 8192 + kk * 2048, 8192, 1024));
          }
        }
      }
      ac_team_commit();
      ac_team_wait<2>();
      if (it2 > 0 && lane == 0) ac_barrier_arrive(smem + 147504 + 8 * ((q0 - 1) % 6));
      ++q0;
    }
    ac_team_wait<0>();
    ac_keep(acc);
    if (lane == 0) ac_barrier_arrive(smem + 147504 + 8 * ((q0 - 1) % 6));
    ac_keep(acc2);
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      mul_t[r] = (acc[r] * ac_silu_half(acc2[r]));
    }
    unsigned char *const box3 = smem + 148480 + (wave / 4) * 16384;
    for (int m = 0; m < 1; ++m) {
      for (int g = 0; g < 1; ++g) {
        unsigned char *to = box3 + (m * 1 + g) % 2 * 8192;
        if (threadIdx.x % 128 == 0) ac_bulk_wait<1>();
        ac_barrier_sync(2 + wave / 4, 128);
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          unsigned part[4];
          ac_pack<f16, 8>(part, &mul_t[(m * 1 + g) * 32 + q * 8]);
          ac_stmatrix4(to + ac_swizzle<128>(wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16), part);
        }
        ac_async_fence();
        ac_barrier_sync(2 + wave / 4, 128);
        if (threadIdx.x % 128 == 0) ac_bulk_store(&map3, to, (i1_b2 + g * 64), (i0_b2 + (wave / 4 * 1 + m) * 64));
      }
    }
  }
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
}
