/* Vectors and functions that printed kernels use. A kernel's source defines AC_LANES (float lanes of one vector) first.
 *
 * vf is AC_LANES floats, vi AC_LANES 32-bit integers, vm a mask (vi of 0 or -1). They are GCC/Clang vector extensions, so
 * every function has a plain form for any machine; AVX-512 and AVX2 have shorter ones. Names: vf_*, vi_*, vm_* on vectors, s_* on
 * scalars, ac_* and AC_* the rest; printed functions begin with k_, so that none is hidden or declared twice.
 */
#ifndef AUTOCOMP_CPU_H
#define AUTOCOMP_CPU_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>
#endif
#include "autocomp_cpu_index.h"
#include "autocomp_cpu_share.h"

#define AC_BYTES (4 * AC_LANES)

typedef float vf __attribute__((vector_size(AC_BYTES), may_alias));
typedef float vf_unaligned __attribute__((vector_size(AC_BYTES), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(AC_BYTES), may_alias));
typedef int32_t vi_unaligned __attribute__((vector_size(AC_BYTES), aligned(4), may_alias));
typedef vi vm;
typedef uint16_t f16;  /* IEEE half in memory; computed with as float */
typedef uint16_t bf16; /* upper half of a float */
typedef uint8_t f8e4m3; /* OCP 8-bit floats, computed with as float: the largest is 448, */
typedef uint8_t f8e5m2; /* and 57344 */

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && AC_LANES == 16
#define AC_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__) && AC_LANES == 8
#define AC_AVX2 1
#endif

/* aligned scratch; 0 where there is no memory */
AC_INLINE void *ac_alloc(size_t bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }

/* ---- integers */
AC_INLINE int64_t s_ipow(int64_t a, int64_t n) { /* modulo 2^64 */
  uint64_t r = 1, x = (uint64_t)a;
  if (n < 0) return a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0; /* the truncated real power */
  for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;
  return (int64_t)r;
}
AC_INLINE uint64_t s_upow(uint64_t x, uint64_t n) {
  uint64_t r = 1;
  for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;
  return r;
}
/* Floats cut off to integers. Beyond the range, and for NaN, C leaves the result open and compilers drop the way over the integer; here it
 * is the smallest number, as processors of x86 and NumPy on them say. Short types take its low bits, unsigned ones count on from the middle.
 * The magnitude is what is converted: -0.5 becomes an integer's 0, which has no sign. */
#define AC_CUT(s, F, fabs) \
  AC_INLINE int32_t s_to_i32##s(F x) { \
    F a = fabs(x); uint32_t i = a < (F)2147483648.0 ? (uint32_t)(int32_t)a : 0x80000000u; \
    return (int32_t)(x < 0 ? 0u - i : i); \
  } \
  AC_INLINE int64_t s_to_i64##s(F x) { \
    F a = fabs(x); uint64_t i = a < (F)9223372036854775808.0 ? (uint64_t)(int64_t)a : 0x8000000000000000u; \
    return (int64_t)(x < 0 ? 0u - i : i); \
  } \
  AC_INLINE int8_t s_to_i8##s(F x) { return (int8_t)s_to_i32##s(x); } \
  AC_INLINE int16_t s_to_i16##s(F x) { return (int16_t)s_to_i32##s(x); } \
  AC_INLINE uint8_t s_to_u8##s(F x) { return (uint8_t)s_to_i32##s(x); } \
  AC_INLINE uint16_t s_to_u16##s(F x) { return (uint16_t)s_to_i32##s(x); } \
  AC_INLINE uint32_t s_to_u32##s(F x) { return x >= (F)2147483648.0 \
    ? (uint32_t)s_to_i32##s(x - (F)2147483648.0) ^ 0x80000000u : (uint32_t)s_to_i32##s(x); } \
  AC_INLINE uint64_t s_to_u64##s(F x) { return x >= (F)9223372036854775808.0 \
    ? (uint64_t)s_to_i64##s(x - (F)9223372036854775808.0) ^ 0x8000000000000000u : (uint64_t)s_to_i64##s(x); }
AC_CUT(, float, fabsf)
AC_CUT(d, double, fabs)
/* Division of elements: by 0 it gives 0, and the smallest number by -1 gives itself, as NumPy says; the processor would stop at both.
 * quotient and remainder cut off, floordiv and modulo round down. */
#define AC_DIVISION(suffix, T, U) \
  AC_INLINE T s_quotient_##suffix(T a, T b) { return b == 0 ? 0 : (T)-1 < 0 && b == (T)-1 ? (T)((U)0 - (U)a) : a / b; } \
  AC_INLINE T s_remainder_##suffix(T a, T b) { return b == 0 || ((T)-1 < 0 && b == (T)-1) ? 0 : a % b; } \
  AC_INLINE T s_floordiv_##suffix(T a, T b) { \
    T r = s_remainder_##suffix(a, b); \
    return s_quotient_##suffix(a, b) - (r != 0 && (r < 0) != (b < 0)); \
  } \
  AC_INLINE T s_modulo_##suffix(T a, T b) { T r = s_remainder_##suffix(a, b); return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
AC_DIVISION(i32, int32_t, uint32_t)
AC_DIVISION(i64, int64_t, uint64_t)
AC_DIVISION(u32, uint32_t, uint32_t)
AC_DIVISION(u64, uint64_t, uint64_t)

/* ---- half types */
AC_INLINE float s_from_bf16(bf16 h) { uint32_t u = (uint32_t)h << 16; float f; memcpy(&f, &u, 4); return f; }
AC_INLINE bf16 s_to_bf16(float f) {
  uint32_t u; memcpy(&u, &f, 4);
  if (f != f) return (bf16)((u >> 16) | 0x40);
  return (bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
/* a double as a float on the way to a half: cut off, its last bit set where something was lost, so that only the half rounds */
AC_INLINE float s_odd(double x) {
  float f = (float)x; uint32_t u; memcpy(&u, &f, 4);
  if ((double)f != x && x == x) { u -= fabs((double)f) > fabs(x); u |= 1; }
  memcpy(&f, &u, 4); return f;
}
#if defined(__F16C__)
AC_INLINE float s_from_f16(f16 h) { return _cvtsh_ss(h); }
AC_INLINE f16 s_to_f16(float f) { return _cvtss_sh(f, 0); }
#else
AC_INLINE float s_from_f16(f16 h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff, u; float f;
  if (mag >= 0x7c00) u = sign | 0x7f800000 | (mag & 0x3ff) << 13;
  else if (mag >= 0x0400) u = sign | ((mag << 13) + 0x38000000);
  else { f = (float)mag * 5.9604644775390625e-8f; memcpy(&u, &f, 4); u |= sign; }
  memcpy(&f, &u, 4); return f;
}
AC_INLINE f16 s_to_f16(float f) {
  uint32_t u; memcpy(&u, &f, 4);
  uint32_t sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
  if (mag > 0x7f800000) return (f16)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
  if (mag >= 0x477ff000) return (f16)(sign | 0x7c00);
  if (mag < 0x38800000) { /* below the normal halves: round in units of 2^-24 */
    float a; memcpy(&a, &mag, 4); a = a * 16777216.f + 8388608.f; memcpy(&mag, &a, 4);
    return (f16)(sign | (mag & 0x7fff));
  }
  return (f16)(sign | ((mag + 0xfff + (mag >> 13 & 1) - 0x38000000) >> 13));
}
#endif
AC_INLINE float s_round_f16(float x) { return s_from_f16(s_to_f16(x)); }
AC_INLINE float s_round_bf16(float x) { return s_from_bf16(s_to_bf16(x)); }
/* 8 bits: m of mantissa; b the exponent's bias; top: the first that is not finite, which a float too large becomes. Numbers below the least
   normal one are whole multiples of 2^(1-b-m), which the addition of 2^(24-b-m) rounds. */
#define AC_SHORT_FLOAT(s, m, b, top) \
  AC_INLINE float s_from_##s(s h) { \
    uint32_t mag = h & 0x7f, u = (mag << (23 - m)) + ((127u - b) << 23); float f; \
    if (mag >= top) u = 0x7f800000u | (mag & ((1 << m) - 1)) << 20; \
    memcpy(&f, &u, 4); \
    if (mag >> m == 0) f = (float)mag * (1.f / (1 << (b + m - 1))); \
    return h & 0x80 ? -f : f; } \
  AC_INLINE s s_to_##s(float x) { \
    float a = fabsf(x), near = a + (float)(1 << (24 - b - m)); uint32_t u, n, sign; \
    memcpy(&sign, &x, 4); memcpy(&u, &a, 4); memcpy(&n, &near, 4); sign = sign >> 24 & 0x80; \
    if (x != x) return (s)(sign | top | 2); \
    if (u < (128u - b) << 23) return (s)(sign | (n & 0xff)); \
    u = ((u + ((1u << (22 - m)) - 1) + (u >> (23 - m) & 1)) >> (23 - m)) - ((127u - b) << m); \
    return (s)(sign | (u >= top ? top : u)); } \
  AC_INLINE float s_round_##s(float x) { return s_from_##s(s_to_##s(x)); }
AC_SHORT_FLOAT(f8e4m3, 3, 7, 0x7fu)
AC_SHORT_FLOAT(f8e5m2, 2, 15, 0x7cu)

/* ---- moving vectors. The _n forms touch only the first n elements; lanes beyond are 0 after a load. */
AC_INLINE vf vf_set(float x) { return x - (vf){0}; }
AC_INLINE vi vi_set(int32_t x) { return x - (vi){0}; }
AC_INLINE vf vf_load(const float *p) { return (vf)*(const vf_unaligned *)p; }
AC_INLINE void vf_store(float *p, vf x) { *(vf_unaligned *)p = x; }
AC_INLINE vi vi_load(const int32_t *p) { return (vi)*(const vi_unaligned *)p; }
AC_INLINE void vi_store(int32_t *p, vi x) { *(vi_unaligned *)p = x; }
static const int32_t ac_iota[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; /* AC_LANES <= 16 */
AC_INLINE vi vi_iota(void) { return vi_load(ac_iota); }
AC_INLINE vf vf_select(vm m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
AC_INLINE vi vi_select(vm m, vi a, vi b) { return (m & a) | (~m & b); }
#if AC_AVX512
#define AC_MASK(n) ((__mmask16)((1u << (n)) - 1))
AC_INLINE vf vf_load_n(const float *p, long n) { return (vf)_mm512_maskz_loadu_ps(AC_MASK(n), p); }
AC_INLINE void vf_store_n(float *p, vf x, long n) { _mm512_mask_storeu_ps(p, AC_MASK(n), (__m512)x); }
AC_INLINE vf vf_first_n(vf a, vf b, long n) { return (vf)_mm512_mask_mov_ps((__m512)b, AC_MASK(n), (__m512)a); }
AC_INLINE vf vf_strided(const float *p, long s) {
  if (__builtin_constant_p(s) && s == 2) /* the last element of the second vector may lie behind the end */
    return (vf)_mm512_permutex2var_ps(_mm512_loadu_ps(p), (__m512i)(vi_iota() * 2), _mm512_maskz_loadu_ps(0x7fff, p + 16));
  if (__builtin_constant_p(s) && s == -1) return (vf)_mm512_permutexvar_ps((__m512i)(15 - vi_iota()), _mm512_loadu_ps(p - 15));
  __m512i ix = _mm512_mullo_epi32((__m512i)vi_iota(), _mm512_set1_epi32((int)s));
  return (vf)_mm512_i32gather_ps(ix, p, 4);
}
AC_INLINE void vf_scatter(float *p, long s, vf x) {
  __m512i ix = _mm512_mullo_epi32((__m512i)vi_iota(), _mm512_set1_epi32((int)s));
  _mm512_i32scatter_ps(p, ix, (__m512)x, 4);
}
#else
#if AC_AVX2
AC_INLINE vf vf_load_n(const float *p, long n) { return (vf)_mm256_maskload_ps(p, (__m256i)(vi_iota() < vi_set((int32_t)n))); }
AC_INLINE void vf_store_n(float *p, vf x, long n) { /* a store under a mask is some 40 operations of microcode on Zen 1 to 3 */
  __m128 part = _mm256_castps256_ps128((__m256)x);
  if (n >= AC_LANES) {
    vf_store(p, x);
    return;
  }
  if (n <= 0) return;
  if (n & 4) _mm_storeu_ps(p, part), part = _mm256_extractf128_ps((__m256)x, 1), p += 4;
  if (n & 2) _mm_storel_pi((__m64 *)p, part), part = _mm_movehl_ps(part, part), p += 2;
  if (n & 1) _mm_store_ss(p, part);
}
#else
AC_INLINE vf vf_load_n(const float *p, long n) { vf r = {0}; for (long l = 0; l < n; l++) r[l] = p[l]; return r; }
AC_INLINE void vf_store_n(float *p, vf x, long n) { for (long l = 0; l < n; l++) p[l] = x[l]; }
#endif
AC_INLINE vf vf_first_n(vf a, vf b, long n) { return vf_select(vi_iota() < vi_set((int32_t)n), a, b); }
AC_INLINE vf vf_strided(const float *p, long s) {
#if AC_AVX2
  if (__builtin_constant_p(s) && s == -1) return (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(p - 7), (__m256i)(7 - vi_iota()));
  if (__builtin_constant_p(s) && s == 2) /* the second vector begins at an odd element, so that it ends with the last one wanted */
    return (vf)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 7), 0xd8), 0xd8);
  return (vf)_mm256_setr_ps(p[0], p[s], p[2 * s], p[3 * s], p[4 * s], p[5 * s], p[6 * s], p[7 * s]);
#endif
  vf r;
  for (long l = 0; l < AC_LANES; l++) r[l] = p[l * s];
  return r;
}
AC_INLINE void vf_scatter(float *p, long s, vf x) { for (long l = 0; l < AC_LANES; l++) p[l * s] = x[l]; }
#endif
/* only lanes of the mask are touched, the others are 0 */
#if AC_AVX512
AC_INLINE vf vf_load_where(vm m, const float *p) { return (vf)_mm512_maskz_loadu_ps(_mm512_movepi32_mask((__m512i)m), p); }
AC_INLINE vf vf_strided_where(vm m, const float *p, long s) {
#if defined(__BMI2__)
  if (__builtin_constant_p(s) && s == 2) { /* every other element of two vectors: a gather reads lane by lane */
    uint32_t on = _pdep_u32(_mm512_movepi32_mask((__m512i)m), 0x55555555u);
    __m512 a = _mm512_maskz_loadu_ps((__mmask16)on, p), b = _mm512_maskz_loadu_ps((__mmask16)(on >> 16), p + 16);
    return (vf)_mm512_permutex2var_ps(a, (__m512i)(vi_iota() * 2), b);
  }
#endif
  __m512i ix = _mm512_mullo_epi32((__m512i)vi_iota(), _mm512_set1_epi32((int)s));
  return (vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_movepi32_mask((__m512i)m), ix, p, 4);
}
AC_INLINE vf vf_strided_n(const float *p, long s, long n) { return vf_strided_where(vi_iota() < vi_set((int32_t)n), p, s); }
AC_INLINE vf vf_gather_where(vm m, const float *p, vi at) {
  return (vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_movepi32_mask((__m512i)m), (__m512i)at, p, 4);
}
#else
AC_INLINE vf vf_gather_where(vm m, const float *p, vi at) {
#if AC_AVX2 /* lanes that are put into an array one by one and read at once wait until memory has them all */
  return (vf)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, (__m256i)at, (__m256)m, 4);
#else
  vf r = {0};
  for (long l = 0; l < AC_LANES; l++) if (m[l]) r[l] = p[at[l]];
  return r;
#endif
}
#if AC_AVX2
AC_INLINE vf vf_load_where(vm m, const float *p) { return (vf)_mm256_maskload_ps(p, (__m256i)m); }
#else
AC_INLINE vf vf_load_where(vm m, const float *p) { vf r = {0}; for (long l = 0; l < AC_LANES; l++) if (m[l]) r[l] = p[l]; return r; }
#endif
AC_INLINE vf vf_strided_where(vm m, const float *p, long s) {
#if AC_AVX2
  if (__builtin_constant_p(s) && s == 2) { /* every other element of two vectors, put in order */
    vi a = vi_load((const int32_t[8]){0, 0, 1, 0, 2, 0, 3, 0}), b = a + 4, even = vi_load((const int32_t[8]){-1, 0, -1, 0, -1, 0, -1, 0});
    __m256 x = _mm256_maskload_ps(p, _mm256_and_si256(_mm256_permutevar8x32_epi32((__m256i)m, (__m256i)a), (__m256i)even));
    __m256 y = _mm256_maskload_ps(p + 8, _mm256_and_si256(_mm256_permutevar8x32_epi32((__m256i)m, (__m256i)b), (__m256i)even));
    return (vf)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps(x, y, 0x88), 0xd8);
  }
#endif
#if AC_AVX2
  if (s < 1 << 28 && s > -(1 << 28)) return vf_gather_where(m, p, vi_iota() * (int32_t)s);
#endif
  vf r = {0};
  for (long l = 0; l < AC_LANES; l++) if (m[l]) r[l] = p[l * s];
  return r;
}
#if AC_AVX2
AC_INLINE vf vf_strided_n(const float *p, long s, long n) {
  if (__builtin_constant_p(s) && s == 2) { /* masks of a known n are constants */
    const vi at = {0, AC_LANES, 1, AC_LANES, 2, AC_LANES, 3, AC_LANES}, end = vi_set((int32_t)(n < AC_LANES ? n : AC_LANES));
    __m256 x = _mm256_maskload_ps(p, (__m256i)(at < end)), y = _mm256_maskload_ps(p + 8, (__m256i)(at + 4 < end));
    return (vf)_mm256_permute4x64_pd((__m256d)_mm256_shuffle_ps(x, y, 0x88), 0xd8);
  }
  return vf_strided_where(vi_iota() < vi_set((int32_t)n), p, s);
}
#else
AC_INLINE vf vf_strided_n(const float *p, long s, long n) { vf r = {0}; for (long l = 0; l < n; l++) r[l] = p[l * s]; return r; }
#endif
#endif
AC_INLINE void vf_scatter_n(float *p, long s, vf x, long n) { for (long l = 0; l < n; l++) p[l * s] = x[l]; }
/* p[l*s + i] = x[i][l] for rows i and lanes l: rows lie side by side, four or two are turned in registers and stored as one */
#if AC_AVX512 || AC_AVX2
#if AC_AVX512
#define AC_WIDE(f) _mm512_##f
#define AC_PART(x, k) ((k) ? _mm512_extractf32x4_ps(x, k) : _mm512_castps512_ps128(x))
typedef __m512 ac_lines; typedef __m512d ac_lines_d;
#else
#define AC_WIDE(f) _mm256_##f
#define AC_PART(x, k) ((k) ? _mm256_extractf128_ps(x, 1) : _mm256_castps256_ps128(x))
typedef __m256 ac_lines; typedef __m256d ac_lines_d;
#endif
#define AC_TWO(k, x) (_mm_storel_pi((__m64 *)(q + (4 * (k)) * s), AC_PART(x[0], k)), _mm_storeh_pi((__m64 *)(q + (4 * (k) + 1) * s), AC_PART(x[0], k)), \
  _mm_storel_pi((__m64 *)(q + (4 * (k) + 2) * s), AC_PART(x[1], k)), _mm_storeh_pi((__m64 *)(q + (4 * (k) + 3) * s), AC_PART(x[1], k)))
#define AC_FOUR(k, x) (_mm_storeu_ps(q + (4 * (k)) * s, AC_PART(x[0], k)), _mm_storeu_ps(q + (4 * (k) + 1) * s, AC_PART(x[1], k)), \
  _mm_storeu_ps(q + (4 * (k) + 2) * s, AC_PART(x[2], k)), _mm_storeu_ps(q + (4 * (k) + 3) * s, AC_PART(x[3], k)))
AC_INLINE void vf_scatter_rows(float *p, long s, const vf *x, long rows) {
  long i = 0;
#pragma GCC unroll 8
  for (; i + 4 <= rows; i += 4) {
    float *q = p + i;
    ac_lines a = AC_WIDE(unpacklo_ps)((ac_lines)x[i], (ac_lines)x[i + 1]), b = AC_WIDE(unpackhi_ps)((ac_lines)x[i], (ac_lines)x[i + 1]);
    ac_lines c = AC_WIDE(unpacklo_ps)((ac_lines)x[i + 2], (ac_lines)x[i + 3]), d = AC_WIDE(unpackhi_ps)((ac_lines)x[i + 2], (ac_lines)x[i + 3]);
    ac_lines y[4] = {(ac_lines)AC_WIDE(unpacklo_pd)((ac_lines_d)a, (ac_lines_d)c), (ac_lines)AC_WIDE(unpackhi_pd)((ac_lines_d)a, (ac_lines_d)c),
                    (ac_lines)AC_WIDE(unpacklo_pd)((ac_lines_d)b, (ac_lines_d)d), (ac_lines)AC_WIDE(unpackhi_pd)((ac_lines_d)b, (ac_lines_d)d)};
    AC_FOUR(0, y); AC_FOUR(1, y);
#if AC_AVX512
    AC_FOUR(2, y); AC_FOUR(3, y);
#endif
  }
  if (i + 2 <= rows) {
    float *q = p + i;
    ac_lines y[2] = {AC_WIDE(unpacklo_ps)((ac_lines)x[i], (ac_lines)x[i + 1]), AC_WIDE(unpackhi_ps)((ac_lines)x[i], (ac_lines)x[i + 1])};
    AC_TWO(0, y); AC_TWO(1, y);
#if AC_AVX512
    AC_TWO(2, y); AC_TWO(3, y);
#endif
    i += 2;
  }
  if (i < rows) vf_scatter(p + i, s, x[i]);
}
#else
AC_INLINE void vf_scatter_rows(float *p, long s, const vf *x, long rows) { for (long i = 0; i < rows; i++) vf_scatter(p + i, s, x[i]); }
#endif
AC_INLINE void vf_scatter_rows_n(float *p, long s, const vf *x, long rows, long n) {
  for (long l = 0; l < n; l++) for (long i = 0; i < rows; i++) p[l * s + i] = x[i][l];
}
AC_INLINE vi vi_first_n(vi a, vi b, long n) { return (vi)vf_first_n((vf)a, (vf)b, n); }
AC_INLINE vi vi_load_n(const int32_t *p, long n) { return (vi)vf_load_n((const float *)p, n); }
AC_INLINE void vi_store_n(int32_t *p, vi x, long n) { vf_store_n((float *)p, (vf)x, n); }
AC_INLINE vf vf_from_vi(vi x) { return __builtin_convertvector(x, vf); }
AC_INLINE vi vi_from_vf(vf x) { return __builtin_convertvector(x, vi); }

/* ---- arithmetic. max and min give a NaN if either side is one, as NumPy does; the _c forms have a number on the left. */
AC_INLINE vf vf_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }
AC_INLINE vf vf_copysign(vf x, vf s) { return (vf)(((vi)x & 0x7fffffff) | ((vi)s & (int32_t)0x80000000)); }
#if AC_AVX512
AC_INLINE vf vf_max_c(vf c, vf x) { return (vf)_mm512_max_ps((__m512)c, (__m512)x); }
AC_INLINE vf vf_min_c(vf c, vf x) { return (vf)_mm512_min_ps((__m512)c, (__m512)x); }
AC_INLINE vf vf_max(vf a, vf b) { /* the instruction gives b where either is a NaN */
  return (vf)_mm512_mask_max_ps((__m512)a, _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q), (__m512)a, (__m512)b);
}
AC_INLINE vf vf_min(vf a, vf b) { /* the instruction gives b where either is a NaN */
  return (vf)_mm512_mask_min_ps((__m512)a, _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q), (__m512)a, (__m512)b);
}
AC_INLINE vf vf_sqrt(vf x) { return (vf)_mm512_sqrt_ps((__m512)x); }
AC_INLINE vf vf_floor(vf x) { return (vf)_mm512_roundscale_ps((__m512)x, 9); }
AC_INLINE vf vf_ceil(vf x) { return (vf)_mm512_roundscale_ps((__m512)x, 10); }
AC_INLINE vf vf_rint(vf x) { return (vf)_mm512_roundscale_ps((__m512)x, 8); }
AC_INLINE vf vf_scale2(vf x, vf n) { return (vf)_mm512_scalef_ps((__m512)x, (__m512)n); } /* x * 2^n, n whole */
#else
#if AC_AVX2
AC_INLINE vf vf_max_c(vf c, vf x) { return (vf)_mm256_max_ps((__m256)c, (__m256)x); }
AC_INLINE vf vf_min_c(vf c, vf x) { return (vf)_mm256_min_ps((__m256)c, (__m256)x); }
AC_INLINE vf vf_max(vf a, vf b) { /* the instruction gives b where either is a NaN */
  return (vf)_mm256_blendv_ps(_mm256_max_ps((__m256)a, (__m256)b), (__m256)a, _mm256_cmp_ps((__m256)a, (__m256)a, _CMP_UNORD_Q));
}
AC_INLINE vf vf_min(vf a, vf b) { /* the instruction gives b where either is a NaN */
  return (vf)_mm256_blendv_ps(_mm256_min_ps((__m256)a, (__m256)b), (__m256)a, _mm256_cmp_ps((__m256)a, (__m256)a, _CMP_UNORD_Q));
}
AC_INLINE vf vf_sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
AC_INLINE vf vf_floor(vf x) { return (vf)_mm256_floor_ps((__m256)x); }
AC_INLINE vf vf_ceil(vf x) { return (vf)_mm256_ceil_ps((__m256)x); }
AC_INLINE vf vf_rint(vf x) { return (vf)_mm256_round_ps((__m256)x, 8); }
#else
AC_INLINE vf vf_max_c(vf c, vf x) { return vf_select(c > x, c, x); }
AC_INLINE vf vf_min_c(vf c, vf x) { return vf_select(c < x, c, x); }
AC_INLINE vf vf_max(vf a, vf b) { return vf_select((a > b) | (a != a), a, b); }
AC_INLINE vf vf_min(vf a, vf b) { return vf_select((a < b) | (a != a), a, b); }
AC_INLINE vf vf_sqrt(vf x) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = sqrtf(x[l]); return r; }
AC_INLINE vf vf_floor(vf x) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = floorf(x[l]); return r; }
AC_INLINE vf vf_ceil(vf x) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = ceilf(x[l]); return r; }
AC_INLINE vf vf_rint(vf x) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = rintf(x[l]); return r; }
#endif
AC_INLINE vf vf_scale2(vf x, vf n) { /* in two steps, so that results below the normal numbers come out too */
  vi e = vi_from_vf(vf_max_c(vf_set(-252.f), vf_min_c(vf_set(254.f), n))), h = e >> 1;
  return x * (vf)((h + 127) << 23) * (vf)((e - h + 127) << 23);
}
#endif
AC_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; } /* one instruction: sources are built with -ffp-contract=fast */
AC_INLINE vf vf_trunc(vf x) { return vf_copysign(vf_floor(vf_abs(x)), x); }
AC_INLINE vf vf_sign(vf x) { return vf_select(x != x, x, (vf)(((x > 0) & (vi)vf_set(1.f)) | ((x < 0) & (vi)vf_set(-1.f)))); }

#include "autocomp_cpu_types.h"
#include "autocomp_cpu_math.h"

/* ---- transposes: out[k*step + l] = from[l*stride + k] for k < n; lanes from `rows` on become 0 */
#if defined(__GNUC__) && !defined(__clang__)
AC_INLINE void vf_transpose(const float *from, long stride, long rows, long n, float *out, long step) {
  vf r[AC_LANES];
  if (n == AC_LANES && rows == AC_LANES) for (int l = 0; l < AC_LANES; l++) r[l] = vf_load(from + l * stride);
  else for (int l = 0; l < AC_LANES; l++) r[l] = l < rows ? vf_load_n(from + l * stride, n) : (vf){0};
#pragma GCC unroll 5
  for (int h = AC_LANES / 2; h > 0; h /= 2) { /* exchange blocks of h x h that lie across the diagonal */
    vi low = vi_iota() + (((vi_iota() & h) != 0) & (AC_LANES - h)), high = low + h;
#pragma GCC unroll 16
    for (int l = 0; l < AC_LANES; l++)
      if (!(l & h)) {
        vf a = __builtin_shuffle(r[l], r[l + h], low), b = __builtin_shuffle(r[l], r[l + h], high);
        r[l] = a, r[l + h] = b;
      }
  }
  if (n == AC_LANES) for (int k = 0; k < AC_LANES; k++) vf_store(out + k * step, r[k]);
  else for (int k = 0; k < AC_LANES; k++) if (k < n) vf_store(out + k * step, r[k]);
}
#else
AC_INLINE void vf_transpose(const float *from, long stride, long rows, long n, float *out, long step) {
  for (long k = 0; k < n; k++) for (long l = 0; l < AC_LANES; l++) out[k * step + l] = l < rows ? from[l * stride + k] : 0.f;
}
#endif

/* ---- across lanes */
#if AC_AVX512
AC_INLINE float vf_hadd(vf a) { return _mm512_reduce_add_ps((__m512)a); }
#elif AC_AVX2
AC_INLINE vf vf_swapped(vf a, int far) { /* lanes 4, 2 or 1 apart change places */
  return far == 4 ? (vf)_mm256_permute2f128_ps((__m256)a, (__m256)a, 1)
                  : far == 2 ? (vf)_mm256_permute_ps((__m256)a, 0x4e) : (vf)_mm256_permute_ps((__m256)a, 0xb1);
}
AC_INLINE float vf_hadd(vf a) {
  for (int far = 4; far; far /= 2) a += vf_swapped(a, far);
  return a[0];
}
#else
AC_INLINE float vf_hadd(vf a) { float r = a[0]; for (int l = 1; l < AC_LANES; l++) r += a[l]; return r; }
#endif
AC_INLINE float vf_hmul(vf a) { float r = a[0]; for (int l = 1; l < AC_LANES; l++) r *= a[l]; return r; }
AC_INLINE float s_max(float a, float b) { return a > b || a != a ? a : b; }
AC_INLINE float s_min(float a, float b) { return a < b || a != a ? a : b; }
#if AC_AVX512
AC_INLINE float vf_hmax(vf a) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q) ? NAN : _mm512_reduce_max_ps((__m512)a);
}
AC_INLINE float vf_hmin(vf a) {
  return _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q) ? NAN : _mm512_reduce_min_ps((__m512)a);
}
#elif AC_AVX2
AC_INLINE float vf_hmax(vf a) {
  for (int far = 4; far; far /= 2) a = vf_max(a, vf_swapped(a, far));
  return a[0];
}
AC_INLINE float vf_hmin(vf a) {
  for (int far = 4; far; far /= 2) a = vf_min(a, vf_swapped(a, far));
  return a[0];
}
#else
AC_INLINE float vf_hmax(vf a) { float r = a[0]; for (int l = 1; l < AC_LANES; l++) r = s_max(r, a[l]); return r; }
AC_INLINE float vf_hmin(vf a) { float r = a[0]; for (int l = 1; l < AC_LANES; l++) r = s_min(r, a[l]); return r; }
#endif

/* ---- scalars */
AC_INLINE double s_maxd(double a, double b) { return a > b || a != a ? a : b; }
AC_INLINE double s_mind(double a, double b) { return a < b || a != a ? a : b; }
AC_INLINE int32_t s_ordinal(float x) {
  int32_t bits, size;
  memcpy(&bits, &x, 4);
  size = bits & 0x7fffffff;
  return size > 0x7f800000 ? 0x7fffffff : bits < 0 ? -size : size;
}
AC_INLINE float s_sign(float x) { return x != x ? x : (float)((x > 0) - (x < 0)); }
AC_INLINE double s_signd(double x) { return x != x ? x : (double)((x > 0) - (x < 0)); }
/* The remainder has the divisor's sign, a zero too; the quotient is that of a - remainder, which is whole but for its rounding
 * (1 / 0.1 is rounded to 10, its floor is 9). */
#define AC_FLOORED(T, s, fmod) \
  AC_INLINE T s_fmodulo##s(T a, T b) { T r = fmod(a, b); return r == 0 ? (b < 0 ? -(T)0 : (T)0) : (r < 0) != (b < 0) ? r + b : r; } \
  AC_INLINE T s_fquotient##s(T a, T b) { \
    T r = fmod(a, b), q = (a - r) / b - (r != 0 && (r < 0) != (b < 0)), low = (T)floor(q); \
    return b == 0 ? a / b : q == 0 ? a / b * 0 : q - low > (T)0.5 ? low + 1 : low; \
  }
AC_FLOORED(float, , fmodf)
AC_FLOORED(double, d, fmod)
#endif
