#include "autocomp_cuda.cuh"

/*
 * add_gelu: slice add gelu
 * schedule: tile i0 4, i1 128 | threads 128 | pdl
 * predicted: 3.21 us, bound by launch, 0% of the roofline
 * rule: layout/pad-factors: made slice f16[200, 177]
 * rule: fusion/map-into-map: add into operand 0 of gelu
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel add_gelu(in0: f16[i0:200, i1:177] of in0[200, 184] at [i0, i1], in1: f16[i1:177]) -> out0: f16[i0:200, i1:177]
 * axes i0=200 i1=177
 * tile i0=4 i1=128
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   in1_t: f16[i1] fragment = copy in1
 *   gelu_t: f16[i0, i1] fragment = map gelu(in0_t + in1_t)
 *   store out0 = gelu_t
 *
 * in0_t: reg (i0,1,4) lane (i1,1,32) wave (i1,32,4)
 * in1_t: reg () lane (i1,1,32) wave (i1,32,4)
 * gelu_t: reg (i0,1,4) lane (i1,1,32) wave (i1,32,4)
 */
extern "C" __global__ void __launch_bounds__(128) k_add_gelu(const f16 *in0, const f16 *in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i1_t = lane + wave * 32;
  int block = blockIdx.x;
  const int i1_b = block % 2 * 128;
  block /= 2;
  const int i0_b = block * 4;
  float in0_t[4];
  float in1_t[1];
  float gelu_t[4];
  ac_launch_wait();
  ac_launch_next();
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_load_where<1>(&in0_t[q], i1_b + i1_t < 177, in0 + (i0_b + q)*184 + (i1_b + i1_t), 0.0f);
  }
  for (int q = 0; q < 1; ++q) {
    ac_load_where<1>(&in1_t[q], i1_b + i1_t < 177, in1 + (i1_b + i1_t), 0.0f);
  }
  #pragma unroll
  for (int r = 0; r < 4; ++r) {
    gelu_t[r] = ac_gelu_half((in0_t[r] + in1_t[0]));
  }
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    if (i1_b + i1_t < 177) ac_store<1>(out0 + (i0_b + q)*177 + (i1_b + i1_t), &gelu_t[q]);
  }
}

#include "autocomp_cuda.cuh"

/*
 * matmul: matmul
 * schedule: tile i0 16, i1 32, r0 128 | stages 8 | threads 64 | pdl | turned_store
 * predicted: 3.91 us, bound by l2, 1% of the roofline
 * rule: layout/pad-factors: made matmul f16[200, 184]
 * rule: tiling/gpu-contract: the schedule
 *
 * kernel matmul(in0: f16[i0:200, r0:336], in1: f16[i1:184, r0:336] of in1[336, 184] at [r0, i1]) -> out0: f16[i0:200, i1:184]
 * axes i0=200 i1=184 r0=336
 * tile i0=16 i1=32 r0=128
 * grid i0, i1
 *   acc: f32[i0, i1] fragment = fill 0.0
 *   pipelined r0 stages=8
 *     in0_t: f16[i0, r0] block = copy in0
 *     in1_t: f16[i1, r0] block = copy in1
 *     acc += mma in0_t, in1_t
 *   cast_t: f16[i0, i1] fragment = map cast(f16, acc)
 *   store out0 = cast_t
 *
 * acc: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * cast_t: reg (i1,1,2)(i0,8,2)(i1,8,2) lane (i1,2,4)(i0,1,8) wave (i1,16,2)
 * in0_t: shared, 4096 bytes f16, ring of 8
 * in1_t: shared, 8192 bytes f16, ring of 8
 * acc: mma.m16n8k16.f16, 1 x 2 a wave, 8 steps
 */
extern "C" __global__ void __launch_bounds__(64) k_matmul(const f16 *in0, const f16 *in1, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  extern __shared__ __align__(1024) unsigned char smem[];
  const int i1_t = lane % 4 * 2 + wave * 16;
  const int i0_t = lane / 4;
  int block = blockIdx.x;
  const int i1_b = block % 6 * 32;
  block /= 6;
  const int i0_b = block * 16;
  float acc[8];
  float cast_t[8];
  ac_launch_wait();
  ac_launch_next();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    acc[r] = 0.0f;
  }
  for (int it = 0; it < 7; ++it) {
    if (it < 3) {
      const int r0_b = it * 128;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 0 + it * 4096 + c * 16, in0 + ((i0_b + (row))*336 + (r0_b + (col))), (i0_b + (row) < 200) & (r0_b + (col) < 336));
      }
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 32768 + it * 8192 + c * 16, in1 + ((i1_b + (col)) + (r0_b + (row))*184), (i1_b + (col) < 184) & (r0_b + (row) < 336));
      }
    }
    ac_commit();
  }
  for (int it = 0; it < 3; ++it) {
    const int r0_b2 = it * 128;
    ac_wait<6>();
    ac_sync();
    const int ahead = it + 7;
    if (ahead < 3) {
      const int r0_b3 = ahead * 128;
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 16), col = ac_chunk<256>(c / 16, c % 16) * 8;
        ac_copy<16>(smem + 0 + ahead % 8 * 4096 + c * 16, in0 + ((i0_b + (row))*336 + (r0_b3 + (col))), (i0_b + (row) < 200) & (r0_b3 + (col) < 336));
      }
      #pragma unroll
      for (int q = 0; q < 8; ++q) {
        const int c = threadIdx.x + q * 64;
        const int row = (c / 4), col = ac_chunk<64>(c / 4, c % 4) * 8;
        ac_copy<16>(smem + 32768 + ahead % 8 * 8192 + c * 16, in1 + ((i1_b + (col)) + (r0_b3 + (row))*184), (i1_b + (col) < 184) & (r0_b3 + (row) < 336));
      }
    }
    ac_commit();
    const int slot = it % 8;
    #pragma unroll
    for (int kk = 0; kk < 8; ++kk) {
      unsigned fa[1][4], fb[2][2];
      for (int m = 0; m < 1; ++m) {
        ac_ldmatrix4(fa[m], smem + 0 + slot * 4096 + ac_swizzle<256>(0 + m * 16 + lane % 16, (kk * 16 + lane / 16 * 8) * 2));
      }
      for (int n = 0; n < 1; ++n) {
        ac_ldmatrix4_t(fb[2 * n], fb[2 * n + 1], smem + 32768 + slot * 8192 + ac_swizzle<64>(kk * 16 + lane / 8 % 2 * 8 + lane % 8, (wave / 1 * 16 + n * 16 + lane / 16 * 8) * 2));
      }
      for (int m = 0; m < 1; ++m) {
        #pragma unroll
        for (int n = 0; n < 2; ++n) {
          ac_mma_f16(&acc[(m * 2 + n) * 4], fa[m], fb[n]);
        }
      }
    }
  }
  ac_wait<0>();
  #pragma unroll
  for (int r = 0; r < 8; ++r) {
    cast_t[r] = acc[r];
  }
  ac_sync();
  f16 *box = (f16 *)(smem + 0);
  #pragma unroll
  for (int q = 0; q < 4; ++q) {
    ac_store<2>(box + (i0_t + (q * 2) / 2 % 2 * 8) * 40 + (i1_t + (q * 2) % 2 + (q * 2) / 4 * 8), &cast_t[(q * 2)]);
  }
  ac_sync();
  const int column = threadIdx.x % 4 * 8;
  if (i1_b + column < 184) {
    for (int row2 = threadIdx.x / 4; row2 < 16; row2 += 16) {
      ac_pack_of<8, f16> held[1];
      for (int u = 0; u < 1; ++u) {
        ac_move<8>(held[u].v, box + ((row2 + u * 16)) * 40 + (column));
      }
      for (int u = 0; u < 1; ++u) {
        if (i0_b + (row2 + u * 16) < 200) ac_move<8>(out0 + (i0_b + (row2 + u * 16))*184 + (i1_b + column), held[u].v);
      }
    }
  }
}

#include "autocomp_cuda.cuh"

/*
 * pad: pad
 * schedule: tile i0 16, i1 128 | pdl
 * predicted: 2.92 us, bound by latency, 1% of the roofline
 * rule: layout/pad-factors: made pad f16[200, 336]
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel pad(in0: f16[i0:200, i1:336] of in0[200, 333] at [i0, i1] where -1*i1 + 332 >= 0 else 0.0) -> out0: f16[i0:200, i1:336]
 * axes i0=200 i1=336
 * tile i0=16 i1=128
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   store out0 = in0_t
 *
 * in0_t: reg (i1,1,8) lane (i1,8,16)(i0,1,2) wave (i0,2,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_pad(const f16 *in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i1_t = lane % 16 * 8;
  const int i0_t = lane / 16 + wave * 2;
  int block = blockIdx.x;
  const int i1_b = block % 3 * 128;
  block /= 3;
  const int i0_b = block * 16;
  float in0_t[8];
  ac_launch_wait();
  ac_launch_next();
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in0_t[q], (i0_b + i0_t < 200) & (i1_b + i1_t + q < 336) & (-1*(i1_b + i1_t + q) + 332 >= 0), in0 + (i0_b + i0_t)*333 + (i1_b + i1_t + q), 0.0f);
  }
  for (int q = 0; q < 1; ++q) {
    if ((i0_b + i0_t < 200) & (i1_b + i1_t + (q * 8) < 336)) ac_store<8>(out0 + ((i0_b + i0_t)*336 + (i1_b + i1_t + (q * 8))), &in0_t[(q * 8)]);
  }
}

#include "autocomp_cuda.cuh"

/*
 * pad_2: pad
 * schedule: tile i0 16, i1 128 | pdl
 * predicted: 2.92 us, bound by latency, 1% of the roofline
 * rule: layout/pad-factors: made pad f16[336, 184]
 * rule: tiling/gpu-elements: the schedule
 *
 * kernel pad_2(in0: f16[i0:336, i1:184] of in0[333, 177] at [i0, i1] where -1*i0 + 332 >= 0, -1*i1 + 176 >= 0 else 0.0) -> out0: f16[i0:336, i1:184]
 * axes i0=336 i1=184
 * tile i0=16 i1=128
 * grid i0, i1
 *   in0_t: f16[i0, i1] fragment = copy in0
 *   store out0 = in0_t
 *
 * in0_t: reg (i1,1,8) lane (i1,8,16)(i0,1,2) wave (i0,2,8)
 */
extern "C" __global__ void __launch_bounds__(256) k_pad_2(const f16 *in0, f16 *__restrict__ out0) {
  const int lane = threadIdx.x % AC_WAVE, wave = threadIdx.x / AC_WAVE;
  (void)lane; (void)wave;
  const int i0_t = lane / 16 + wave * 2;
  const int i1_t = lane % 16 * 8;
  int block = blockIdx.x;
  const int i1_b = block % 2 * 128;
  block /= 2;
  const int i0_b = block * 16;
  float in0_t[8];
  ac_launch_wait();
  ac_launch_next();
  #pragma unroll
  for (int q = 0; q < 8; ++q) {
    ac_load_where<1>(&in0_t[q], (i1_b + i1_t + q < 184) & (-1*(i0_b + i0_t) + 332 >= 0) & (-1*(i1_b + i1_t + q) + 176 >= 0), in0 + (i0_b + i0_t)*177 + (i1_b + i1_t + q), 0.0f);
  }
  for (int q = 0; q < 1; ++q) {
    if (i1_b + i1_t + (q * 8) < 184) ac_store<8>(out0 + ((i0_b + i0_t)*184 + (i1_b + i1_t + (q * 8))), &in0_t[(q * 8)]);
  }
}
