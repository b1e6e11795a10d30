// The SDK's names that the target's header uses, on the CPU model: waves of 64 lanes, asynchronous copies counted one by one,
// products of 16 x 16 tiles. Layout of the products: a lane has four steps of a row of each factor, four rows of one result column.
#pragma once
#include "../simt_model.h"

typedef simt_f16 __half;
typedef simt_bf16 maca_bfloat16;
typedef uint16_t simt_half_bits;
#define _Float16 simt_half_bits
#define __NATIVE_VECTOR__(n, T) T __attribute__((vector_size(n * sizeof(T))))
inline float __half2float(__half x) { return simt_widen(x); }
inline __half __float2half(float x) { return simt_narrow_f16(x); }
inline float __bfloat162float(maca_bfloat16 x) { return simt_widen(x); }
inline maca_bfloat16 __float2bfloat16(float x) { return simt_narrow_bf16(x); }
template <class T> T __shfl_xor_sync(unsigned long long mask, T x, int lane) {
  if (mask != ~0ull) simt_fail("a wave's mask has 64 bits");
  return simt_shuffle_xor(x, lane);
}

// A wave writes 64 chunks that lie side by side, in lane order
struct simt_chunk { unsigned char *to; };
inline void model_ldg_b128_bsm_predicator(void *at, const void *from, int, bool, bool, bool, bool, int a, int b, int op) {
  unsigned char *to = static_cast<unsigned char *>(at);
  if (op != 32) simt_fail("a comparison that the model has not");
  simt_chunk mine{to};
  simt_wave(60, &mine, [](void **all, int lanes) {
    for (int i = 0; i < lanes; ++i)
      if (static_cast<simt_chunk *>(all[i])->to != static_cast<simt_chunk *>(all[0])->to + 16 * i) simt_fail("a wave's copies do not lie side by side");
  });
  simt_copy(to, from, 16, a == b);
  simt_commit();
}
inline void model_arrive_gvmcnt(int copies) { simt_wait(copies); }

typedef float simt_float4 __attribute__((vector_size(16)));
typedef uint16_t simt_half4 __attribute__((vector_size(8)));
struct simt_factors { simt_half4 x, y; simt_float4 c; };
template <class T> simt_float4 simt_mma(simt_half4 x, simt_half4 y, simt_float4 c, int tag) {
  simt_factors mine{x, y, c};
  simt_wave(tag, &mine, [](void **all, int lanes) SIMT_ARITHMETIC {
    float a[16][16], b[16][16];
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 4; ++i) {
        const simt_factors &f = *static_cast<simt_factors *>(all[lane]);
        a[lane % 16][lane / 16 * 4 + i] = simt_widen(T{f.x[i]});
        b[lane % 16][lane / 16 * 4 + i] = simt_widen(T{f.y[i]});
      }
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 4; ++i) {
        float sum = static_cast<simt_factors *>(all[lane])->c[i];
        for (int k = 0; k < 16; ++k) sum += a[lane / 16 * 4 + i][k] * b[lane % 16][k];
        static_cast<simt_factors *>(all[lane])->c[i] = sum;
      }
  });
  return mine.c;
}
inline simt_float4 model_mma_16x16x16f16(simt_half4 x, simt_half4 y, simt_float4 c) { return simt_mma<simt_f16>(x, y, c, 61); }
inline simt_float4 model_mma_16x16x16bf16(simt_half4 x, simt_half4 y, simt_float4 c) { return simt_mma<simt_bf16>(x, y, c, 62); }

// elements of T, KV a lane in depth, into 16 x 16 of C
template <class T, class C, int KV> void simt_mma_words(const void *x, const void *y, C *c, int tag) {
  struct Mine { const void *x, *y; C *c; } mine{x, y, c};
  simt_wave(tag, &mine, [](void **all, int lanes) SIMT_ARITHMETIC {
    C a[16][4 * KV], b[16][4 * KV];
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < KV; ++i) {
        const Mine &f = *static_cast<Mine *>(all[lane]);
        a[lane % 16][lane / 16 * KV + i] = C(static_cast<const T *>(f.x)[i]);
        b[lane % 16][lane / 16 * KV + i] = C(static_cast<const T *>(f.y)[i]);
      }
    for (int lane = 0; lane < lanes; ++lane)
      for (int i = 0; i < 4; ++i)
        for (int k = 0; k < 4 * KV; ++k) static_cast<Mine *>(all[lane])->c[i] += a[lane / 16 * 4 + i][k] * b[lane % 16][k];
  });
}
typedef int simt_int4 __attribute__((vector_size(16)));
typedef float simt_float2 __attribute__((vector_size(8)));
inline simt_int4 model_mma_16x16x16i8(int x, int y, simt_int4 c) {
  simt_mma_words<signed char, int, 4>(&x, &y, reinterpret_cast<int *>(&c), 63);
  return c;
}
inline simt_float4 model_mma_16x16x4f32(float x, float y, simt_float4 c) {
  simt_mma_words<float, float, 1>(&x, &y, reinterpret_cast<float *>(&c), 64);
  return c;
}
inline simt_float4 model_mma_16x16x8tf32(simt_float2 x, simt_float2 y, simt_float4 c) {
  simt_mma_words<float, float, 2>(&x, &y, reinterpret_cast<float *>(&c), 65);
  return c;
}

typedef simt_float4 standin_float4;
typedef simt_half4 standin_half4;
typedef simt_int4 standin_int4;
typedef simt_float2 standin_float2;
#include "maca_api.h"
