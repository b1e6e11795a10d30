// Device building blocks of printed MACA C kernels (xcore1000: waves of 64 lanes, 64-bit masks). Nothing here was run on a device by
// this project; names and layouts are those of public MetaX code.
#pragma once
#include <common/maca_bfloat16.h>
#include <common/maca_fp16.h>
#include <mc_runtime.h>

#define AC_WAVE 64
typedef __half f16;
typedef maca_bfloat16 bf16;
#define AC_DEVICE static __device__ __forceinline__
#define AC_APART static __device__
typedef __NATIVE_VECTOR__(4, float) ac_float4;
typedef __NATIVE_VECTOR__(4, _Float16) ac_half4;
typedef __NATIVE_VECTOR__(4, int) ac_int4;
typedef __NATIVE_VECTOR__(2, float) ac_float2;

AC_DEVICE float ac_max(float a, float b) { return a > b || a != a ? a : b; }
AC_DEVICE float ac_min(float a, float b) { return a < b || a != a ? a : b; }
AC_DEVICE float ac_select(bool c, float a, float b) { return c ? a : b; }
AC_DEVICE int ac_alone(int x) { return x; }
AC_DEVICE long long ac_here(long long x) { return x; }
AC_DEVICE float ac_ex2(float x) { return exp2f(x); }
AC_DEVICE float ac_reciprocal(float x) { return 1.0f / x; }
AC_DEVICE float ac_rsqrt_half(float x) { return rsqrtf(x); }
AC_DEVICE float ac_widen(f16 x) { return __half2float(x); }
AC_DEVICE float ac_widen(bf16 x) { return __bfloat162float(x); }
AC_DEVICE f16 ac_narrow_f16(float x) { return __float2half(x); }
AC_DEVICE bf16 ac_narrow_bf16(float x) { return __float2bfloat16(x); }
AC_DEVICE float ac_to_tf32(float x) { return __int_as_float((__float_as_int(x) + 0x1000) & ~0x1fff); }
#include "autocomp_simt.h"

// ---- threads of a block
AC_DEVICE void ac_sync() { __syncthreads(); }
template <class T> AC_DEVICE T ac_shuffle_xor(T x, int mask) { return __shfl_xor_sync(0xffffffffffffffffull, x, mask); }
// lanes of the wave in which something holds; the first of them
typedef unsigned long long ac_lanes;
AC_DEVICE ac_lanes ac_holds(bool x) {
  const unsigned lane = threadIdx.x % AC_WAVE, bit = x ? 1u << lane % 32 : 0;
  unsigned low = lane < 32 ? bit : 0, high = lane < 32 ? 0 : bit;
#pragma unroll
  for (int mask = 1; mask < AC_WAVE; mask *= 2) {
    low |= ac_shuffle_xor(low, mask);
    high |= ac_shuffle_xor(high, mask);
  }
  return ac_lanes(high) << 32 | low;
}
AC_DEVICE int ac_lowest(ac_lanes x) { return __builtin_ctzll(x); }

// ---- copies into shared memory. 16-byte chunks go asynchronously; within a wave their destinations are dense, and a false
// predicate writes zeros. They are counted by gvmcnt, in issue order.
template <int BYTES, class S> AC_DEVICE void ac_copy(unsigned char *to, const S *from, bool inside) {
  if constexpr (BYTES == 16) {
    __builtin_mxc_ldg_b128_bsm_predicator(to, const_cast<S *>(from), 0, true, true, false, true, int(inside), 1, MACA_ICMP_EQ);
  } else {
#pragma unroll
    for (int i = 0; i < BYTES / int(sizeof(S)); ++i) reinterpret_cast<S *>(to)[i] = inside ? from[i] : ac_stored<S>(0.0f);
  }
}
AC_DEVICE void ac_commit() {}
template <int N> AC_DEVICE void ac_wait_copies() { __builtin_mxc_arrive_gvmcnt(N); }
template <int N> AC_DEVICE void ac_wait() { __builtin_mxc_arrive_gvmcnt(0); }

// ---- matrix units: c += a b, factors passed second first
template <class T, int N> AC_DEVICE T ac_bits(const unsigned (&r)[N]) {
  T t;
  __builtin_memcpy(&t, r, sizeof t);
  return t;
}
AC_DEVICE void ac_mma_f16(float *c, const unsigned (&a)[2], const unsigned (&b)[2]) {
  const ac_float4 d = __builtin_mxc_mma_16x16x16f16(ac_bits<ac_half4>(b), ac_bits<ac_half4>(a), ac_float4{c[0], c[1], c[2], c[3]});
  c[0] = d[0], c[1] = d[1], c[2] = d[2], c[3] = d[3];
}
AC_DEVICE void ac_mma_bf16(float *c, const unsigned (&a)[2], const unsigned (&b)[2]) {
  const ac_float4 d = __builtin_mxc_mma_16x16x16bf16(ac_bits<ac_half4>(b), ac_bits<ac_half4>(a), ac_float4{c[0], c[1], c[2], c[3]});
  c[0] = d[0], c[1] = d[1], c[2] = d[2], c[3] = d[3];
}
AC_DEVICE void ac_mma_s8(int *c, const unsigned (&a)[1], const unsigned (&b)[1]) {
  const ac_int4 d = __builtin_mxc_mma_16x16x16i8(int(b[0]), int(a[0]), ac_int4{c[0], c[1], c[2], c[3]});
  c[0] = d[0], c[1] = d[1], c[2] = d[2], c[3] = d[3];
}
AC_DEVICE void ac_mma_f32(float *c, const unsigned (&a)[1], const unsigned (&b)[1]) {
  const ac_float4 d = __builtin_mxc_mma_16x16x4f32(ac_bits<float>(b), ac_bits<float>(a), ac_float4{c[0], c[1], c[2], c[3]});
  c[0] = d[0], c[1] = d[1], c[2] = d[2], c[3] = d[3];
}
AC_DEVICE void ac_mma_tf32(float *c, const unsigned (&a)[2], const unsigned (&b)[2]) {
  const ac_float4 d = __builtin_mxc_mma_16x16x8tf32(ac_bits<ac_float2>(b), ac_bits<ac_float2>(a), ac_float4{c[0], c[1], c[2], c[3]});
  c[0] = d[0], c[1] = d[1], c[2] = d[2], c[3] = d[3];
}
