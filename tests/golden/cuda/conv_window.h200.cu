#include "autocomp_cuda.cuh"
AC_DEVICE void ac_wgmma_n128_f16_s00(int keep, float *d, unsigned long long a, unsigned long long b) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;}"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]) : "l"(a), "l"(b), "r"(keep));
}

/*
 * conv_relu: conv relu
 * schedule: tile i0 1, i1 2, i2 56, i3 64, r0 3, r1 3, r2 64 | stages 3 | grouped 8 | warp_specialise 2 | persistent | ping_pong | tma_store | interleave_epilogue | mma_zero_init
 * predicted: 17.19 us, bound by matrix unit, 54% of the roofline
 * rule: fusion/convolution-epilogue: conv into operand 0 of relu
 * rule: scheduling/gpu-ping-pong: the schedule
 *
 * kernel conv_relu(in0: f16[i0:32, i1:56, i2:56, r0:3, r1:3, r2:64] of in0[32, 56, 56, 64] at [i0, i1 + r0 - 1, i2 + r1 - 1, r2] where i1 + r0 - 1 >= 0, -1*i1 - 1*r0 + 56 >= 0, i2 + r1 - 1 >= 0, -1*i2 - 1*r1 + 56 >= 0 else 0.0, in1: f16[i3:64, r0:3, r1:3, r2:64]) -> out0: f16[i0:32, i1:56, i2:56, i3:64]
 * axes i0=32 i1=56 i2=56 i3=64 r0=3 r1=3 r2=64
 * tile i0=1 i1=2
 * grid i0, i1 order=grouped(8) persistent=yes
 *   in0_t: f16[i0, i1, i2, r0, r1, r2] block = copy in0
 *   in1_t: f16[i3, r0, r1, r2] block = copy in1
 *   acc: f32[i0, i1, i2, i3] fragment = fill 0.0
 *   acc += mma in0_t, in1_t
 *   relu_t: f16[i0, i1, i2, i3] fragment = map relu(cast(f16, acc))
 *   store out0 = relu_t
 *
 * acc: reg (i2,1,2)(i3,8,2)(i2,8,8)(i1,1,2) lane (i2,2,4)(i3,1,8) wave (i3,16,4)
 * relu_t: reg (i2,1,2)(i3,8,2)(i2,8,8)(i1,1,2) lane (i2,2,4)(i3,1,8) wave (i3,16,4)
 * in1_t: shared, 73728 bytes f16, ring of 1
 * in0_t: shared, 32768 bytes f16, ring of 3
 * acc: wgmma.m64n128k16.f16, 1 x 1 a wave, 36 steps
 */
extern "C" __global__ void __launch_bounds__(384) k_conv_relu(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1, const __grid_constant__ ac_tensor_map map2) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE % 4;
  (void)lane; (void)wave;
  if (threadIdx.x == AC_WAVE) {
    ac_map_ask(&map0);
    ac_map_ask(&map1);
    ac_map_ask(&map2);
  }
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) {
      ac_barrier_init(smem + 172048 + 8 * (i), 1);
      ac_barrier_init(smem + 172072 + 8 * (i), 4);
    }
    for (int i = 0; i < 1; ++i) {
      ac_barrier_init(smem + 172096, 1);
      ac_barrier_init(smem + 172104, 4);
    }
    ac_barrier_init(smem + 172032, 4);
    ac_barrier_init(smem + 172040, 4);
    ac_barrier_fence();
  }
  __syncthreads();
  if (team == 0) {
    ac_registers_release<40>();
    if (threadIdx.x == 0) {
      unsigned q0 = 0;
      ac_barrier_expect(smem + 172096, 73728);
      ac_bulk_load(smem + 0, &map0, smem + 172096, 0, 0, 0, 0);
      ac_bulk_load(smem + 0 + 8192, &map0, smem + 172096, 0, 0 + 1, 0, 0);
      ac_bulk_load(smem + 0 + 16384, &map0, smem + 172096, 0, 0 + 2, 0, 0);
      ac_bulk_load(smem + 0 + 24576, &map0, smem + 172096, 0, 0, 0 + 1, 0);
      ac_bulk_load(smem + 0 + 32768, &map0, smem + 172096, 0, 0 + 1, 0 + 1, 0);
      ac_bulk_load(smem + 0 + 40960, &map0, smem + 172096, 0, 0 + 2, 0 + 1, 0);
      ac_bulk_load(smem + 0 + 49152, &map0, smem + 172096, 0, 0, 0 + 2, 0);
      ac_bulk_load(smem + 0 + 57344, &map0, smem + 172096, 0, 0 + 1, 0 + 2, 0);
      ac_bulk_load(smem + 0 + 65536, &map0, smem + 172096, 0, 0 + 2, 0 + 2, 0);
      for (int tile = blockIdx.x; tile < 32 * 28; tile += gridDim.x) {
        int block = tile;
        const int rows_i0 = 32, cols_i1 = 28, all_i0 = rows_i0 * cols_i1;
        const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
        const int high_i0 = 8;
        const int i0_b = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 1;
        const int i1_b = tile_i0 % (8 * cols_i1) / high_i0 * 2;
        block /= all_i0;
        ac_barrier_wait(smem + 172072 + 8 * (q0 % 3), 1 ^ (q0 / 3 % 2));
        ac_barrier_expect(smem + 172048 + 8 * (q0 % 3), 32768);
        ac_bulk_load(smem + 73728 + q0 % 3 * 32768, &map1, smem + 172048 + 8 * (q0 % 3), 0, 0 + 0 + -1, i1_b + 0 + -1, i0_b);
        ++q0;
      }
    }
    return;
  }
  ac_registers_claim<232>();
  const unsigned long long in1_t_at = ac_descriptor(smem + 0, 1, 1024);
  int q0 = (team - 1) * (1);
  int turn = 0;
  float acc[64];
  float relu_t[64];
  for (int tile = blockIdx.x + (team - 1) * gridDim.x; tile < 32 * 28; tile += 2 * gridDim.x) {
    int block = tile;
    const int rows_i0 = 32, cols_i1 = 28, all_i0 = rows_i0 * cols_i1;
    const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i1) * 8;
    const int high_i0 = 8;
    const int i0_b2 = (first_i0 + tile_i0 % (8 * cols_i1) % high_i0) * 1;
    const int i1_b2 = tile_i0 % (8 * cols_i1) / high_i0 * 2;
    block /= all_i0;
    ac_barrier_wait(smem + 172032 + 8 * (team - 1), (turn + (team == 1)) % 2);
    ac_barrier_wait(smem + 172096, 0);
    ac_barrier_wait(smem + 172048 + 8 * (q0 % 3), q0 / 3 % 2);
    ac_keep(acc);
    ac_team_fence();
    #pragma unroll
    for (int kk = 0; kk < 36; ++kk) {
      for (int m = 0; m < 1; ++m) {
        for (int n = 0; n < 1; ++n) {
          ac_wgmma_n128_f16_s00(kk > 0, &acc[(m * 1 + n) * 64], ac_descriptor_at(in1_t_at, kk % 4 * 2 + kk / 4 * 512), ac_descriptor(smem + 73728 + q0 % 3 * 32768 + (n * 2) * 8192 + kk % 4 * 32 + kk / 4 % 3 * 128 + kk / 12 % 3 * 8192, 1, 1024));
        }
      }
    }
    ac_team_commit();
    if (lane == 0) ac_barrier_arrive(smem + 172032 + 8 * (team % 2));
    ac_team_wait<0>();
    if (lane == 0) ac_barrier_arrive(smem + 172072 + 8 * (q0 % 3));
    ac_keep(acc);
    unsigned char *const box2 = smem + 173056 + ((team - 1)) * 16384;
    for (int m = 0; m < 1; ++m) {
      #pragma unroll
      for (int g = 0; g < 2; ++g) {
        #pragma unroll
        for (int r = (m * 2 + g) * 32; r < (m * 2 + g) * 32 + 32; ++r) {
          relu_t[r] = ac_relu(acc[r]);
        }
        unsigned char *to = box2 + (m * 2 + g) % 2 * 8192;
        if (threadIdx.x % 128 == 0) ac_bulk_wait<1>();
        ac_barrier_sync(2 + (team - 1), 128);
        #pragma unroll
        for (int q = 0; q < 4; ++q) {
          unsigned part[4];
          ac_pack<f16, 8>(part, &relu_t[(m * 2 + g) * 32 + q * 8]);
          ac_stmatrix4_t(to + ac_swizzle<128>(q * 16 + lane / 16 * 8 + lane % 8, wave % 4 * 32 + lane / 8 % 2 * 16), part);
        }
        ac_async_fence();
        ac_barrier_sync(2 + (team - 1), 128);
        if (threadIdx.x % 128 == 0) ac_bulk_store(&map2, to, ((wave / 4 * 1 + m) * 64), (g * 64 % 64), (i1_b2 + g * 64 / 64), (i0_b2));
      }
    }
    q0 += 2;
    ++turn;
  }
  if (threadIdx.x % 128 == 0) ac_bulk_drain();
}
