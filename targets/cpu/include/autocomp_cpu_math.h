/* Elementary functions of vectors: part of autocomp_cpu.h, which includes this file.
 *
 * Largest errors in units in the last place (ulp), measured on AVX-512 over 16 million points of each range (AVX2 and plain forms
 * share the polynomials, but for exp, tanh and gelu): exp 1.7 (others 1.0), exp2 1.0, log 0.9, tanh 1.6 (others 2.6), erf 2.3,
 * sigmoid 3.8 (others 3.2), log1p 2.4.
 * tests/run/test_cpu_functions.py holds every form to the bounds below.
 */
#ifndef AUTOCOMP_CPU_MATH_H
#define AUTOCOMP_CPU_MATH_H
#if AC_AVX512
#include "autocomp_cpu_tables.h"
#endif

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
/* e^r - 1 for |r| <= ln 2 / 2. */
AC_INLINE vf vf_exp_rest(vf r) {
  vf p = vf_set(0.0013814220437780023f);
  p = vf_fma(p, r, vf_set(0.00836889911442995f));
  p = vf_fma(p, r, vf_set(0.04166840389370918f));
  p = vf_fma(p, r, vf_set(0.1666651964187622f));
  p = vf_fma(p, r, vf_set(0.4999999403953552f));
  return vf_fma(p, r * r, r);
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
/* exp: 2 ulp. x = n ln 2 + r in two pieces of ln 2; n is in the low bits of a sum with 2^23 + 2^22, and 2^n two factors, so that results
 * below the normal numbers come out too. */
AC_INLINE vf vf_exp(vf x) {
  vf y = vf_min_c(vf_set(89.5f), vf_max_c(vf_set(-105.f), x));
  vf z = vf_fma(y, vf_set(1.4426950408889634f), vf_set(12582912.f)), n = z - 12582912.f;
  vf r = vf_fma(n, vf_set(-0.693145751953125f), y);
  r = vf_fma(n, vf_set(-1.42860677e-6f), r);
  vi half = (((vi)z << 22) & (int32_t)0xff800000) + 0x3f800000;
  return vf_fma(vf_exp_rest(r), (vf)half, (vf)half) * (vf)(((vi)z << 23) - half + 0x7f000000);
}
/* exp where x is at most a rounding above 0: ln 2 in one piece, and one factor for 2^(n + 24). 2 ulp and 3e-8 |x| of the result. */
AC_INLINE vf vf_exp_nonpositive(vf x) {
  vf y = vf_max_c(vf_set(-105.f), x);
  vf z = vf_fma(y, vf_set(1.4426950408889634f), vf_set(12583063.f)), n = z - 12583063.f; /* 2^23 + 2^22 + 127 + 24 */
  vf r = vf_fma(n, vf_set(-0.6931471805599453f), y), s = (vf)((vi)z << 23);
  return vf_fma(vf_exp_rest(r), s, s) * 0x1p-24f;
}
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
  vf t = vf_fma(s, vf_exp_rest(r), s - 1.f), y = t / (t + 2.f);
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
 * rounding of the result. A NaN comes out of the maximum, that of -inf (-inf * 0 in the formula) out of the fix-up. */
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
  return (vf)_mm512_fixupimm_ps((__m512)(vf_max_c((vf){0}, x) - r), (__m512)x, _mm512_set1_epi32(3 << 16), 0);
}
#else
/* gelu(x) = max(x, 0) - t * 2^q(t), t = min(|x|, 6): absolute error 3e-7. -inf gives NaN, as -inf * 0 in the formula. */
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
  vf y = vf_max_c((vf){0}, x) - t * (vf)((vi)vf_fma(p, f, vf_set(1.f)) + ((vi)z << 23));
  return (vf)((vi)y | (vi)(x == -INFINITY));
}
#endif
#if AC_AVX512
AC_INLINE vf vf_sigmoid(vf x) { return 1.f / (1.f + vf_exp(-x)); }
#else
/* sigmoid: 4 ulp. 2^-24 / (2^-24 + e^-x 2^-24), where 2^(n - 24) is one factor for all x that matter; r is that of x, its sign the other. */
AC_INLINE vf vf_sigmoid(vf x) {
  vf y = vf_min_c(vf_set(18.f), vf_max_c(vf_set(-104.5f), x));
  vf z = vf_fma(y, vf_set(-1.4426950408889634f), vf_set(12583015.f)), n = z - 12583015.f; /* 2^23 + 2^22 + 127 - 24 */
  vf r = vf_fma(n, vf_set(-0.693145751953125f), -y);
  r = vf_fma(n, vf_set(-1.42860677e-6f), r);
  return 0x1p-24f / vf_fma(vf_exp_rest(r) + 1.f, (vf)((vi)z << 23), vf_set(0x1p-24f));
}
#endif
AC_INLINE vf vf_log1p(vf x) { /* Kahan: exact correction for the rounding of 1 + x */
  vf u = 1.f + x, d = u - 1.f;
  vf r = vf_log(u) * (x / vf_select(d == 0.f, vf_set(1.f), d));
  return vf_select((d == 0.f) | (x == INFINITY), x, r);
}
AC_INLINE vf vf_softplus(vf x) { return vf_max_c((vf){0}, x) + vf_log1p(vf_exp(-vf_abs(x))); }

#include "autocomp_cpu_more_math.h"

/* Functions of one number by the vectors' formulas: an element has the same bytes wherever a program computes it, in a full vector, in a tail
 * or by itself, so that what a program computes twice and compares is equal. */
#define AC_ONE(fn) AC_INLINE float s_##fn(float x) { return vf_##fn(vf_set(x))[0]; }
AC_ONE(exp) AC_ONE(exp_nonpositive) AC_ONE(exp2) AC_ONE(expm1) AC_ONE(log) AC_ONE(log2) AC_ONE(log1p) AC_ONE(tanh)
AC_ONE(erf) AC_ONE(gelu) AC_ONE(gelu_tanh) AC_ONE(sigmoid) AC_ONE(softplus) AC_ONE(mish) AC_ONE(sin) AC_ONE(cos) AC_ONE(tan)
AC_ONE(asin) AC_ONE(acos) AC_ONE(atan) AC_ONE(sinh) AC_ONE(cosh) AC_ONE(asinh) AC_ONE(acosh) AC_ONE(atanh)
AC_ONE(power1) AC_ONE(power2) AC_ONE(power3) AC_ONE(power4)
#undef AC_ONE
AC_INLINE float s_pow(float x, float y) { return vf_pow(vf_set(x), vf_set(y))[0]; }

#endif
