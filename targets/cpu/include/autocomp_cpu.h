/* Vectors and functions that printed kernels use. A kernel's source defines AC_LANES (float lanes of one vector) first.
 *
 * vf is AC_LANES floats, vi AC_LANES 32-bit integers, vm a mask (vi of 0 or -1). They are GCC/Clang vector extensions, so
 * every function has a plain form for any machine; AVX-512 and AVX2 have shorter ones. Names: vf_* on vectors, s_* on scalars.
 * Largest errors in units in the last place (ulp), measured on AVX-512 over 16 million points of each range (AVX2 and plain forms
 * share the polynomials, but for exp, tanh and gelu): exp 1.7 (others 1.0), exp2 1.0, log 0.9, tanh 1.6 (others 2.6), erf 2.3,
 * sigmoid 3.8 (others 2.5), log1p 2.4.
 * tests/run/test_cpu_functions.py holds every form to the bounds below.
 */
#ifndef AUTOCOMP_CPU_H
#define AUTOCOMP_CPU_H
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define AC_INLINE static inline __attribute__((always_inline, unused))
#define AC_BYTES (4 * AC_LANES)

typedef float vf __attribute__((vector_size(AC_BYTES), may_alias));
typedef float vf_unaligned __attribute__((vector_size(AC_BYTES), aligned(4), may_alias));
typedef int32_t vi __attribute__((vector_size(AC_BYTES), may_alias));
typedef int32_t vi_unaligned __attribute__((vector_size(AC_BYTES), aligned(4), may_alias));
typedef vi vm;
typedef uint16_t f16;  /* IEEE half in memory; computed with as float */
typedef uint16_t bf16; /* upper half of a float */

#if defined(__AVX512F__) && defined(__AVX512BW__) && AC_LANES == 16
#define AC_AVX512 1
#include "autocomp_cpu_tables.h"
#elif defined(__AVX2__) && defined(__FMA__) && AC_LANES == 8
#define AC_AVX2 1
#endif

/* aligned scratch; a program that is out of memory stops here */
AC_INLINE void *ac_alloc(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!p) abort();
  return p;
}

/* ---- integers */
AC_INLINE long floor_div(long a, long b) { long q = a / b; return q - (a % b < 0); }
AC_INLINE long floor_mod(long a, long b) { long r = a % b; return r < 0 ? r + b : r; }
AC_INLINE long min_long(long a, long b) { return a < b ? a : b; }
AC_INLINE long max_long(long a, long b) { return a > b ? a : b; }
AC_INLINE long clamp_long(long a, long hi) { return a < 0 ? 0 : a < hi ? a : hi - 1; }
AC_INLINE int64_t s_ipow(int64_t a, int64_t n) { /* modulo 2^64 */
  uint64_t r = 1, x = (uint64_t)a;
  if (n < 0) return a == 1 ? 1 : a == -1 ? (n & 1 ? -1 : 1) : 0; /* the truncated real power */
  for (; n > 0; n >>= 1, x *= x) if (n & 1) r *= x;
  return (int64_t)r;
}
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
  __m512i ix = _mm512_mullo_epi32((__m512i)vi_iota(), _mm512_set1_epi32((int)s));
  return (vf)_mm512_i32gather_ps(ix, p, 4);
}
AC_INLINE void vf_scatter(float *p, long s, vf x) {
  __m512i ix = _mm512_mullo_epi32((__m512i)vi_iota(), _mm512_set1_epi32((int)s));
  _mm512_i32scatter_ps(p, ix, (__m512)x, 4);
}
#else
AC_INLINE vf vf_load_n(const float *p, long n) { vf r = {0}; for (long l = 0; l < n; l++) r[l] = p[l]; return r; }
AC_INLINE void vf_store_n(float *p, vf x, long n) { for (long l = 0; l < n; l++) p[l] = x[l]; }
AC_INLINE vf vf_first_n(vf a, vf b, long n) { return vf_select(vi_iota() < vi_set((int32_t)n), a, b); }
AC_INLINE vf vf_strided(const float *p, long s) { vf r; for (long l = 0; l < AC_LANES; l++) r[l] = p[l * s]; return r; }
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
AC_INLINE vf vf_gather_where(vm m, const float *p, vi at) {
  return (vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_movepi32_mask((__m512i)m), (__m512i)at, p, 4);
}
#else
AC_INLINE vf vf_gather_where(vm m, const float *p, vi at) {
  vf r = {0};
  for (long l = 0; l < AC_LANES; l++) if (m[l]) r[l] = p[at[l]];
  return r;
}
AC_INLINE vf vf_load_where(vm m, const float *p) { vf r = {0}; for (long l = 0; l < AC_LANES; l++) if (m[l]) r[l] = p[l]; return r; }
AC_INLINE vf vf_strided_where(vm m, const float *p, long s) {
  vf r = {0};
  for (long l = 0; l < AC_LANES; l++) if (m[l]) r[l] = p[l * s];
  return r;
}
#endif
AC_INLINE vf vf_strided_n(const float *p, long s, long n) { vf r = {0}; for (long l = 0; l < n; l++) r[l] = p[l * s]; return r; }
AC_INLINE void vf_scatter_n(float *p, long s, vf x, long n) { for (long l = 0; l < n; l++) p[l * s] = x[l]; }
AC_INLINE vi vi_load_n(const int32_t *p, long n) { return (vi)vf_load_n((const float *)p, n); }
AC_INLINE void vi_store_n(int32_t *p, vi x, long n) { vf_store_n((float *)p, (vf)x, n); }
AC_INLINE vf vf_from_vi(vi x) { return __builtin_convertvector(x, vf); }
AC_INLINE vi vi_from_vf(vf x) { return __builtin_convertvector(x, vi); }

#if AC_AVX512
AC_INLINE vf vf_load_f16(const f16 *p) { return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
AC_INLINE void vf_store_f16(f16 *p, vf x) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph((__m512)x, 0)); }
AC_INLINE vf vf_load_bf16(const bf16 *p) {
  return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}
AC_INLINE void vf_store_bf16(bf16 *p, vf x) {
  vi u = (vi)x, r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  r = vi_select(x != x, (u >> 16) | 0x40, r);
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)r));
}
#else
AC_INLINE vf vf_load_f16(const f16 *p) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = s_from_f16(p[l]); return r; }
AC_INLINE void vf_store_f16(f16 *p, vf x) { for (int l = 0; l < AC_LANES; l++) p[l] = s_to_f16(x[l]); }
AC_INLINE vf vf_load_bf16(const bf16 *p) { vf r; for (int l = 0; l < AC_LANES; l++) r[l] = s_from_bf16(p[l]); return r; }
AC_INLINE void vf_store_bf16(bf16 *p, vf x) { for (int l = 0; l < AC_LANES; l++) p[l] = s_to_bf16(x[l]); }
#endif
AC_INLINE vf vf_load_f16_n(const f16 *p, long n) { vf r = {0}; for (long l = 0; l < n; l++) r[l] = s_from_f16(p[l]); return r; }
AC_INLINE void vf_store_f16_n(f16 *p, vf x, long n) { for (long l = 0; l < n; l++) p[l] = s_to_f16(x[l]); }
AC_INLINE vf vf_load_bf16_n(const bf16 *p, long n) { vf r = {0}; for (long l = 0; l < n; l++) r[l] = s_from_bf16(p[l]); return r; }
AC_INLINE void vf_store_bf16_n(bf16 *p, vf x, long n) { for (long l = 0; l < n; l++) p[l] = s_to_bf16(x[l]); }
AC_INLINE vm vm_load_bool(const uint8_t *p) { vm r; for (int l = 0; l < AC_LANES; l++) r[l] = -(p[l] != 0); return r; }
AC_INLINE void vm_store_bool(uint8_t *p, vm x) { for (int l = 0; l < AC_LANES; l++) p[l] = (uint8_t)(x[l] & 1); }
AC_INLINE vm vm_load_bool_n(const uint8_t *p, long n) { vm r = {0}; for (long l = 0; l < n; l++) r[l] = -(p[l] != 0); return r; }
AC_INLINE void vm_store_bool_n(uint8_t *p, vm x, long n) { for (long l = 0; l < n; l++) p[l] = (uint8_t)(x[l] & 1); }
AC_INLINE vf vf_round_f16(vf x) { f16 t[AC_LANES]; vf_store_f16(t, x); return vf_load_f16(t); }
AC_INLINE vf vf_round_bf16(vf x) { bf16 t[AC_LANES]; vf_store_bf16(t, x); return vf_load_bf16(t); }

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
AC_INLINE vf vf_max_c(vf c, vf x) { return vf_select(c > x, c, x); }
AC_INLINE vf vf_min_c(vf c, vf x) { return vf_select(c < x, c, x); }
AC_INLINE vf vf_max(vf a, vf b) { return vf_select((a > b) | (a != a), a, b); }
AC_INLINE vf vf_min(vf a, vf b) { return vf_select((a < b) | (a != a), a, b); }
#if AC_AVX2
AC_INLINE vf vf_sqrt(vf x) { return (vf)_mm256_sqrt_ps((__m256)x); }
AC_INLINE vf vf_floor(vf x) { return (vf)_mm256_floor_ps((__m256)x); }
AC_INLINE vf vf_ceil(vf x) { return (vf)_mm256_ceil_ps((__m256)x); }
AC_INLINE vf vf_rint(vf x) { return (vf)_mm256_round_ps((__m256)x, 8); }
#else
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
/* x / s by a product with 1 / s (one more rounding) where neither s nor 1 / s leaves the normal numbers, else by division */
AC_INLINE vf vf_over(vf x, float s) {
  float size = fabsf(s);
  return size > 1.2e-38f && size < 8e37f ? x * vf_set(1.f / s) : x / vf_set(s);
}
AC_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; } /* one instruction: sources are built with -ffp-contract=fast */
AC_INLINE vf vf_trunc(vf x) { return vf_copysign(vf_floor(vf_abs(x)), x); }
AC_INLINE vf vf_sign(vf x) { return vf_select(x != x, x, (vf)(((x > 0) & (vi)vf_set(1.f)) | ((x < 0) & (vi)vf_set(-1.f)))); }

/* exp2: 2 ulp. x = n + f, |f| <= 1/2, then a polynomial of degree 6. Overflow gives inf, underflow 0, NaN stays. */
AC_INLINE vf vf_exp2(vf x) {
  vf y = vf_min_c(vf_set(130.f), vf_max_c(vf_set(-152.f), x)), n = vf_rint(y), f = y - n;
  vf p = vf_set(0.00015353360504377633f);
  p = vf_fma(p, f, vf_set(0.0013398875016719103f));
  p = vf_fma(p, f, vf_set(0.00961843691766262f));
  p = vf_fma(p, f, vf_set(0.055503323674201965f));
  p = vf_fma(p, f, vf_set(0.24022647738456726f));
  p = vf_fma(p, f, vf_set(0.6931471824645996f));
  return vf_scale2(vf_fma(p, f, vf_set(1.f)), n);
}
#if AC_AVX512
/* exp: 2 ulp. x = n ln 2 + r, n a multiple of 1/32, |r| < 0.011: 2^(the fraction of n) from a table, e^r = 1 + b r + c r^2. Where the
 * result is 0, no lane underflows: that would cost an assist. */
AC_INLINE vf vf_exp(vf x) {
  __mmask16 some = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-104.f), _CMP_NLT_UQ);
  vf y = vf_min_c(vf_set(89.5f), x);
  vf z = vf_fma(y, vf_set(1.4426950408889634f), vf_set(393216.f)), n = z - 393216.f; /* 2^18 + 2^17: 32nds in the low bits of z */
  vf r = vf_fma(n, vf_set(-0.693145751953125f), y);
  r = vf_fma(n, vf_set(-1.42860677e-6f), r);
  vf t = (vf)_mm512_permutex2var_ps(_mm512_load_ps(ac_exp_table), (__m512i)z, _mm512_load_ps(ac_exp_table + 16));
  t = vf_fma(t, vf_fma(r, vf_set(0.5000049f), vf_set(1.0000147f)) * r, t);
  return (vf)_mm512_maskz_scalef_ps(some, (__m512)t, (__m512)n);
}
/* exp where x is at most a rounding above 0: ln 2 in one piece, no test for overflow. 2 ulp and 3e-8 |x| of the result, so 1.2e-7 of 1. */
AC_INLINE vf vf_exp_nonpositive(vf x) {
  __mmask16 some = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-104.f), _CMP_NLT_UQ);
  vf z = vf_fma(x, vf_set(1.4426950408889634f), vf_set(393216.f)), n = z - 393216.f, r = vf_fma(n, vf_set(-0.6931471805599453f), x);
  vf t = (vf)_mm512_permutex2var_ps(_mm512_load_ps(ac_exp_table), (__m512i)z, _mm512_load_ps(ac_exp_table + 16));
  t = vf_fma(t, vf_fma(r, vf_set(0.5000049f), vf_set(1.0000147f)) * r, t);
  return (vf)_mm512_maskz_scalef_ps(some, (__m512)t, (__m512)n);
}
#else
/* exp: 2 ulp. x = n ln 2 + r in two pieces of ln 2. */
AC_INLINE vf vf_exp(vf x) {
  vf y = vf_min_c(vf_set(89.5f), vf_max_c(vf_set(-105.f), x));
  vf n = vf_rint(y * 1.4426950408889634f);
  vf r = vf_fma(n, vf_set(-0.693145751953125f), y);
  r = vf_fma(n, vf_set(-1.42860677e-6f), r);
  vf p = vf_set(0.0013814220437780023f);
  p = vf_fma(p, r, vf_set(0.00836889911442995f));
  p = vf_fma(p, r, vf_set(0.04166840389370918f));
  p = vf_fma(p, r, vf_set(0.1666651964187622f));
  p = vf_fma(p, r, vf_set(0.4999999403953552f));
  p = vf_fma(p, r * r, r);
  return vf_scale2(p + 1.f, n);
}
AC_INLINE vf vf_exp_nonpositive(vf x) { return vf_exp(x); }
#endif
/* log: 2 ulp. x = m * 2^e with m in [sqrt(1/2), sqrt(2)). log(0) = -inf, of a negative number NaN. */
AC_INLINE vf vf_log(vf x) {
  vm tiny = x < 1.17549435e-38f;
  vf z = vf_select(tiny, x * 8388608.f, x);
  vi u = (vi)z - 0x3f3504f3, e = (u >> 23) - (tiny & 23);
  vf m = (vf)((u & 0x7fffff) + 0x3f3504f3), f = m - 1.f, k = vf_from_vi(e);
  vf p = vf_set(-0.07634460180997849f);
  p = vf_fma(p, f, vf_set(0.12761563062667847f));
  p = vf_fma(p, f, vf_set(-0.13160189986228943f));
  p = vf_fma(p, f, vf_set(0.14201760292053223f));
  p = vf_fma(p, f, vf_set(-0.16623356938362122f));
  p = vf_fma(p, f, vf_set(0.20001226663589478f));
  p = vf_fma(p, f, vf_set(-0.2500081956386566f));
  p = vf_fma(p, f, vf_set(0.3333333134651184f));
  vf r = vf_fma(p * f, f * f, vf_fma(k, vf_set(-2.12194440e-4f), f * f * -0.5f));
  r = vf_fma(k, vf_set(0.693359375f), f + r);
  r = vf_select(x == 0.f, vf_set(-INFINITY), r);
  r = vf_select(x < 0.f, vf_set(NAN), r);
  return vf_select((x != x) | (x == INFINITY), x, r);
}
#if AC_AVX512
/* tanh: 2 ulp. A polynomial of degree 4 in one of 32 cells, which a permutation looks up by the leading bits of 1.66 |x| + 1. */
AC_INLINE vf vf_tanh(vf x) {
  vf t = vf_min_c(vf_set(9.02f), vf_abs(x));
  __m512i cell = (__m512i)((vi)vf_fma(t, vf_set(1.66f), vf_set(1.f)) >> 20);
#define AC_TANH(k) (vf)_mm512_permutex2var_ps(_mm512_load_ps(ac_tanh_table[k]), cell, _mm512_load_ps(ac_tanh_table[k] + 16))
  vf u = t - AC_TANH(5), p = AC_TANH(4);
  p = vf_fma(p, u, AC_TANH(3));
  p = vf_fma(p, u, AC_TANH(2));
  p = vf_fma(p, u, AC_TANH(1));
  p = vf_fma(p, u, AC_TANH(0));
#undef AC_TANH
  return vf_copysign(p, x);
}
#else
/* tanh: 3 ulp. t / (t + 2) with t = e^2|x| - 1 = 2^n (e^r - 1) + 2^n - 1, exact for small x without a second formula. */
AC_INLINE vf vf_tanh(vf x) {
  vf a = vf_min_c(vf_set(9.1f), vf_abs(x));
  vf z = vf_fma(a, vf_set(2.8853900817779268f), vf_set(12582912.f)), n = z - 12582912.f; /* 2^23 + 2^22: n in the low bits of z */
  vf r = vf_fma(n, vf_set(-0.6931471805599453f), a + a), s = (vf)(((vi)z << 23) + 0x3f800000);
  vf p = vf_set(0.0013814220437780023f);
  p = vf_fma(p, r, vf_set(0.00836889911442995f));
  p = vf_fma(p, r, vf_set(0.04166840389370918f));
  p = vf_fma(p, r, vf_set(0.1666651964187622f));
  p = vf_fma(p, r, vf_set(0.4999999403953552f));
  p = vf_fma(p, r * r, r);
  vf t = vf_fma(s, p, s - 1.f), y = t / (t + 2.f);
  return (vf)((vi)y | ((vi)x & (int32_t)0x80000000));
}
#endif
/* erf: 3 ulp. Below 1 an odd polynomial, above 1 - 2^q(x). */
AC_INLINE vf vf_erf(vf x) {
  vf a = vf_min_c(vf_set(4.f), vf_abs(x)), s = x * x;
  vf p = vf_set(-0.0005631524254567921f);
  p = vf_fma(p, s, vf_set(0.00491757970303297f));
  p = vf_fma(p, s, vf_set(-0.026711339130997658f));
  p = vf_fma(p, s, vf_set(0.11280181258916855f));
  p = vf_fma(p, s, vf_set(-0.37612324953079224f));
  p = vf_fma(p, s, vf_set(1.1283791065216064f));
  vf q = vf_set(0.00027761151431459606f);
  q = vf_fma(q, a, vf_set(-0.004340396262705326f));
  q = vf_fma(q, a, vf_set(0.03186570852994919f));
  q = vf_fma(q, a, vf_set(-0.1495213359594345f));
  q = vf_fma(q, a, vf_set(-0.9197427034378052f));
  q = vf_fma(q, a, vf_set(-1.6266025304794312f));
  q = vf_fma(q, a, vf_set(-0.000353053241269663f));
  return vf_select(a < 1.f, p * x, vf_copysign(1.f - vf_exp2(q), x));
}
#if AC_AVX512
/* gelu(x) = max(x, 0) - r(t), t = min(|x|, 5.53), r a polynomial of degree 4 in one of 16 cells: absolute error 4e-7, and the
 * rounding of the result. A NaN comes out of the maximum. */
AC_INLINE vf vf_gelu(vf x) {
  vf t = (vf)_mm512_range_ps((__m512)x, _mm512_set1_ps(5.535f), 10); /* the smaller magnitude, without its sign */
  __m512i cell = (__m512i)vf_fma(t, vf_set(2.8f), vf_set(12582912.f)); /* 2^23 + 2^22: the nearest whole number in the low bits */
#define AC_GELU(k) (vf)_mm512_permutexvar_ps(cell, _mm512_load_ps(ac_gelu_table[k]))
  vf r = AC_GELU(4);
  r = vf_fma(r, t, AC_GELU(3));
  r = vf_fma(r, t, AC_GELU(2));
  r = vf_fma(r, t, AC_GELU(1));
  r = vf_fma(r, t, AC_GELU(0));
#undef AC_GELU
  return vf_max_c((vf){0}, x) - r;
}
#else
/* gelu(x) = max(x, 0) - t * 2^q(t), t = min(|x|, 6): absolute error 3e-7. */
AC_INLINE vf vf_gelu(vf x) {
  vf t = vf_min_c(vf_set(6.f), vf_abs(x)), q = vf_set(4.671210717788199e-06f);
  q = vf_fma(q, t, vf_set(-1.7128439139924012e-05f));
  q = vf_fma(q, t, vf_set(-0.0005572530790232122f));
  q = vf_fma(q, t, vf_set(0.007631877437233925f));
  q = vf_fma(q, t, vf_set(-0.052907172590494156f));
  q = vf_fma(q, t, vf_set(-0.4590640962123871f));
  q = vf_fma(q, t, vf_set(-1.1511242389678955f));
  q = vf_fma(q, t, vf_set(-0.9999995827674866f));
  vf z = q + 12582912.f, f = q - (z - 12582912.f), p = vf_set(0.00015353360504377633f); /* 2^q without range checks: -31 < q <= 0 */
  p = vf_fma(p, f, vf_set(0.0013398875016719103f));
  p = vf_fma(p, f, vf_set(0.00961843691766262f));
  p = vf_fma(p, f, vf_set(0.055503323674201965f));
  p = vf_fma(p, f, vf_set(0.24022647738456726f));
  p = vf_fma(p, f, vf_set(0.6931471824645996f));
  return vf_max_c((vf){0}, x) - t * (vf)((vi)vf_fma(p, f, vf_set(1.f)) + ((vi)z << 23));
}
#endif
AC_INLINE vf vf_sigmoid(vf x) { return 1.f / (1.f + vf_exp(-x)); }
AC_INLINE vf vf_log1p(vf x) { /* Kahan: exact correction for the rounding of 1 + x */
  vf u = 1.f + x, d = u - 1.f;
  vf r = vf_log(u) * (x / vf_select(d == 0.f, vf_set(1.f), d));
  return vf_select((d == 0.f) | (x == INFINITY), x, r);
}
AC_INLINE vf vf_softplus(vf x) { return vf_max_c((vf){0}, x) + vf_log1p(vf_exp(-vf_abs(x))); }

/* exp of one number by the vectors' polynomial, so that a tail element has the bytes that a full vector gives */
AC_INLINE float s_exp(float x) { return vf_exp(vf_set(x))[0]; }
AC_INLINE float s_exp_nonpositive(float x) { return vf_exp_nonpositive(vf_set(x))[0]; }

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
#else
AC_INLINE float vf_hmax(vf a) { float r = a[0]; for (int l = 1; l < AC_LANES; l++) r = s_max(r, a[l]); return r; }
AC_INLINE float vf_hmin(vf a) { float r = a[0]; for (int l = 1; l < AC_LANES; l++) r = s_min(r, a[l]); return r; }
#endif

/* ---- scalars */
AC_INLINE double s_maxd(double a, double b) { return a > b || a != a ? a : b; }
AC_INLINE double s_mind(double a, double b) { return a < b || a != a ? a : b; }
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
