#include "autocomp_cuda.cuh"
AC_DEVICE void ac_wgmma_n64_f16_s00(float *d, unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b));
}

/*
 * conv_relu: transpose transpose conv relu
 * schedule: tile i0 1, i1 64, i2 2, i3 30, r0 64, r1 1, r2 1; 6 stages; cooperative roles, 1 worker
 * predicted: 4.35 us, bound by launch
 * rule: fusion/epilogue: conv into operand 0 of relu
 *
 * kernel conv_relu(in0: f16[i0:2, i2:30, i3:30, r0:64, r1:3, r2:3] of in0[2, 30, 30, 64] at [i0, i2 + r1 - 1, i3 + r2 - 1, r0] where i2 + r1 - 1 >= 0, -1*i2 - 1*r1 + 30 >= 0, i3 + r2 - 1 >= 0, -1*i3 - 1*r2 + 30 >= 0 else 0.0, in1: f16[i1:64, r0:64, r1:3, r2:3] of in1[64, 3, 3, 64] at [i1, r1, r2, r0]) -> out0: f16[i0:2, i1:64, i2:30, i3:30]
 * axes i0=2 i1=64 i2=30 i3=30 r0=64 r1=3 r2=3
 * tile i0=1 i2=2 r1=1 r2=1
 * grid i0, i2 order=grouped(8) persistent=yes
 *   acc: f32[i0, i1, i2, i3] fragment = fill 0.0
 *   pipelined r1, r2 stages=6
 *     in0_t: f16[i0, i2, i3, r0, r1, r2] block = copy in0
 *     in1_t: f16[i1, r0, r1, r2] block = copy in1
 *     acc += mma in0_t, in1_t
 *   relu_t: f16[i0, i1, i2, i3] fragment = map relu(cast(f16, acc))
 *   store out0 = relu_t
 *
 * acc: reg (i1,1,2)(i3,8,2)(i1,8,8) lane (i1,2,4)(i3,1,8) wave (i3,16,2)(i2,1,2)
 * relu_t: reg (i1,1,2)(i3,8,2)(i1,8,8) lane (i1,2,4)(i3,1,8) wave (i3,16,2)(i2,1,2)
 * in0_t: shared, 8192 bytes f16, ring of 6
 * in1_t: shared, 8192 bytes f16, ring of 6
 * acc: wgmma.m64n64k16.f16, 1 x 1 a wave, 4 steps
 */
extern "C" __global__ void __launch_bounds__(256) conv_relu(const f16 *__restrict__ in0, const f16 *__restrict__ in1, f16 *__restrict__ out0, const __grid_constant__ ac_tensor_map map0, const __grid_constant__ ac_tensor_map map1) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const int lane = threadIdx.x % AC_WAVE, team = threadIdx.x / 128, wave = threadIdx.x / AC_WAVE - 4;
  (void)lane; (void)wave;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 6; ++i) {
      ac_barrier_init(smem + 98304 + 8 * (i), 1);
      ac_barrier_init(smem + 98352 + 8 * (i), 4);
    }
    ac_barrier_fence();
  }
  __syncthreads();
  if (team == 0) {
    ac_registers_release<56>();
    if (threadIdx.x != 0) return;
    int q0 = 0;
    for (int tile = blockIdx.x; tile < 2 * 15; tile += gridDim.x) {
      int block = tile;
      const int rows_i0 = 2, cols_i2 = 15, all_i0 = rows_i0 * cols_i2;
      const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i2) * 8;
      const int high_i0 = ac_min(rows_i0 - first_i0, 8);
      const int i0_b = (first_i0 + tile_i0 % (8 * cols_i2) % high_i0) * 1;
      const int i2_b = tile_i0 % (8 * cols_i2) / high_i0 * 2;
      block /= all_i0;
      for (int it = 0; it < 3 * 3; ++it) {
        const int r2_b = it % 3;
        const int r1_b = it / 3;
        ac_barrier_wait(smem + 98352 + 8 * (q0 % 6), 1 ^ (q0 / 6 % 2));
        ac_barrier_expect(smem + 98304 + 8 * (q0 % 6), 16384);
        ac_bulk_load(smem + 0 + q0 % 6 * 8192, &map0, smem + 98304 + 8 * (q0 % 6), 0, 0 + r2_b + -1, i2_b + r1_b + -1, i0_b);
        ac_bulk_load(smem + 49152 + q0 % 6 * 8192, &map1, smem + 98304 + 8 * (q0 % 6), 0, r2_b, r1_b, 0);
        ++q0;
      }
    }
    return;
  }
  ac_registers_claim<240>();
  const int i2_t = wave / 2;
  const int i1_t = lane % 4 * 2;
  const int i3_t = lane / 4 + wave % 2 * 16;
  int q0 = 0;
  float acc[32];
  float relu_t[32];
  for (int tile = blockIdx.x; tile < 2 * 15; tile += gridDim.x) {
    int block = tile;
    const int rows_i0 = 2, cols_i2 = 15, all_i0 = rows_i0 * cols_i2;
    const int tile_i0 = block % all_i0, first_i0 = tile_i0 / (8 * cols_i2) * 8;
    const int high_i0 = ac_min(rows_i0 - first_i0, 8);
    const int i0_b2 = (first_i0 + tile_i0 % (8 * cols_i2) % high_i0) * 1;
    const int i2_b2 = tile_i0 % (8 * cols_i2) / high_i0 * 2;
    block /= all_i0;
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      acc[r] = 0.0f;
    }
    for (int it2 = 0; it2 < 3 * 3; ++it2) {
      const int r2_b2 = it2 % 3;
      const int r1_b2 = it2 / 3;
      ac_barrier_wait(smem + 98304 + 8 * (q0 % 6), q0 / 6 % 2);
      ac_keep(acc);
      ac_team_fence();
      #pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
        for (int m = 0; m < 1; ++m) {
          for (int n = 0; n < 1; ++n) {
            ac_wgmma_n64_f16_s00(&acc[(m * 1 + n) * 32], ac_descriptor(smem + 0 + q0 % 6 * 8192 + ((wave / 4 * 1 + m) * 64) * 128 + kk % 4 * 32, 1, 1024), ac_descriptor(smem + 49152 + q0 % 6 * 8192 + (0) * 128 + kk % 4 * 32, 1, 1024));
          }
        }
      }
      ac_team_commit();
      ac_team_wait<1>();
      if (it2 > 0 && lane == 0) ac_barrier_arrive(smem + 98352 + 8 * ((q0 - 1) % 6));
      ++q0;
    }
    ac_team_wait<0>();
    if (lane == 0) ac_barrier_arrive(smem + 98352 + 8 * ((q0 - 1) % 6));
    ac_keep(acc);
    #pragma unroll
    for (int r = 0; r < 32; ++r) {
      relu_t[r] = ac_relu(acc[r]);
    }
    #pragma unroll
    for (int q = 0; q < 32; ++q) {
      if (i3_t + q / 2 % 2 * 8 < 30) ac_store<1>(out0 + i0_b2*57600 + (i1_t + q % 2 + q / 4 * 8)*900 + (i2_b2 + i2_t)*30 + (i3_t + q / 2 % 2 * 8), &relu_t[q]);
    }
  }
}
