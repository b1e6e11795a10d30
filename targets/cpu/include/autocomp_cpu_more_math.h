/* Further elementary functions of vectors: powers, circular and hyperbolic functions, their inverses, remainders. Part of autocomp_cpu_math.h.
 *
 * Largest errors in units in the last place (ulp): expm1 3, log2 2, sin and cos 2, tan 4, atan 3, asin 3, acos 3, sinh 5, cosh 5,
 * asinh 5, acosh 4, atanh 5, pow 2, mish 6, gelu(tanh) 1e-6 of its operand. Lanes with rare operands (angles beyond a million, powers of what
 * is not finite) are done one by one by the C library. tests/run/test_cpu_functions.py holds every form to these bounds.
 */
#ifndef AUTOCOMP_CPU_MORE_MATH_H
#define AUTOCOMP_CPU_MORE_MATH_H

/* ---- halves of a vector as doubles */
#define AC_HALF (AC_LANES / 2)
typedef double ac_wide __attribute__((vector_size(8 * AC_HALF), may_alias));
typedef int64_t ac_wide_int __attribute__((vector_size(8 * AC_HALF), may_alias));
AC_INLINE ac_wide ac_set(double x) { return x - (ac_wide){0}; }
AC_INLINE ac_wide ac_fma(ac_wide a, ac_wide b, ac_wide c) { return a * b + c; }
#if AC_AVX512
AC_INLINE ac_wide ac_low(vf x) { return (ac_wide)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
AC_INLINE ac_wide ac_high(vf x) { return (ac_wide)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
AC_INLINE vf ac_joined(ac_wide low, ac_wide high) {
  return (vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low)), _mm512_cvtpd_ps((__m512d)high), 1);
}
#elif AC_AVX2
AC_INLINE ac_wide ac_low(vf x) { return (ac_wide)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
AC_INLINE ac_wide ac_high(vf x) { return (ac_wide)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
AC_INLINE vf ac_joined(ac_wide low, ac_wide high) {
  return (vf)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)low)), _mm256_cvtpd_ps((__m256d)high), 1);
}
#else
typedef float ac_half __attribute__((vector_size(4 * AC_HALF), may_alias));
AC_INLINE ac_wide ac_low(vf x) { ac_half h[2]; memcpy(h, &x, sizeof h); return __builtin_convertvector(h[0], ac_wide); }
AC_INLINE ac_wide ac_high(vf x) { ac_half h[2]; memcpy(h, &x, sizeof h); return __builtin_convertvector(h[1], ac_wide); }
AC_INLINE vf ac_joined(ac_wide low, ac_wide high) {
  ac_half h[2] = {__builtin_convertvector(low, ac_half), __builtin_convertvector(high, ac_half)};
  vf x; memcpy(&x, h, sizeof x); return x;
}
#endif
#if AC_AVX512
AC_INLINE int vm_any(vm m) { return _mm512_movepi32_mask((__m512i)m) != 0; }
#elif AC_AVX2
AC_INLINE int vm_any(vm m) { return _mm256_movemask_ps((__m256)m) != 0; }
#else
AC_INLINE int vm_any(vm m) { int32_t any = 0; for (int l = 0; l < AC_LANES; l++) any |= m[l]; return any != 0; }
#endif
/* lanes of the mask by a function of the C library */
#define AC_LANE_BY_LANE(m, r, call) if (__builtin_expect(vm_any(m), 0)) for (int l = 0; l < AC_LANES; l++) if ((m)[l]) (r)[l] = call

/* ---- exponentials and logarithms */
/* s (e^r - 1) + s - 1 with s = 2^n: exact for small x without a second formula. Halves, since 2^128 is none. */
AC_INLINE vf vf_expm1(vf x) {
  vf y = vf_min_c(vf_set(89.f), vf_max_c(vf_set(-40.f), x));
  vf n = vf_rint(y * 1.4426950408889634f), r = vf_fma(n, vf_set(-0.693145751953125f), y);
  r = vf_fma(n, vf_set(-1.42860677e-6f), r);
  vf h = (vf)((vi_from_vf(n) + 126) << 23);
  vf t = vf_fma(h, vf_exp_rest(r), h - 0.5f);
  return vf_select((x == 0.f) | (x != x), x, t + t);
}
AC_INLINE vf vf_log2(vf x) {
  vm tiny = x < 1.17549435e-38f;
  vf z = vf_select(tiny, x * 8388608.f, x);
  vi u = (vi)z - 0x3f3504f3, e = (u >> 23) - (tiny & 23);
  vf m = (vf)((u & 0x7fffff) + 0x3f3504f3), f = m - 1.f, p = vf_set(-0.07634460180997849f);
  p = vf_fma(p, f, vf_set(0.12761563062667847f));
  p = vf_fma(p, f, vf_set(-0.13160189986228943f));
  p = vf_fma(p, f, vf_set(0.14201760292053223f));
  p = vf_fma(p, f, vf_set(-0.16623356938362122f));
  p = vf_fma(p, f, vf_set(0.20001226663589478f));
  p = vf_fma(p, f, vf_set(-0.2500081956386566f));
  p = vf_fma(p, f, vf_set(0.3333333134651184f));
  vf low = vf_fma(p * f, f * f, f * f * -0.5f); /* log m = f + low; the logarithm of e in base 2 in two pieces, the first of 11 bits */
  vf head = (vf)((vi)f & (int32_t)0xfffff000), r = (f - head + low) * 1.4426950408889634f;
  r = vf_fma(head, vf_set(3.122283889634e-4f), r);
  r = vf_fma(head, vf_set(1.4423828125f), r) + vf_from_vi(e);
  r = vf_select(x == 0.f, vf_set(-INFINITY), r);
  r = vf_select(x < 0.f, vf_set(NAN), r);
  return vf_select((x != x) | (x == INFINITY), x, r);
}
/* the logarithm in base 2 of a finite positive number in doubles: 2^-35 of it */
AC_INLINE ac_wide ac_log2(ac_wide a) {
  ac_wide_int u = (ac_wide_int)a - 0x3fe6a09e667f3bcdll, e = u >> 52;
  ac_wide f = (ac_wide)((u & 0xfffffffffffffll) + 0x3fe6a09e667f3bcdll) - 1.0, p = ac_set(0.07737005812162176), s = f * f;
  p = ac_fma(p, s, ac_fma(f, ac_set(-0.1428390816815793), ac_set(0.14474847675036193)));
  p = ac_fma(p, s, ac_fma(f, ac_set(-0.14315651488692946), ac_set(0.15876980383518258)));
  p = ac_fma(p, s, ac_fma(f, ac_set(-0.1803005968708923), ac_set(0.20617535917223692)));
  p = ac_fma(p, s, ac_fma(f, ac_set(-0.24045316575689263), ac_set(0.2885372934796958)));
  p = ac_fma(p, s, ac_fma(f, ac_set(-0.36067367482535934), ac_set(0.48089836139541625)));
  p = ac_fma(p, s, ac_fma(f, ac_set(-0.721347520868768), ac_set(1.4426950408687054)));
  ac_wide n = (ac_wide)(e + 0x4338000000000000ll) - 6755399441055744.0; /* 2^52 + 2^51: a whole number in the low bits */
  return ac_fma(p, f, n);
}
AC_INLINE ac_wide ac_clip(ac_wide x) { /* to what is certainly beyond the powers of two that a float has */
  ac_wide_int high = x > ac_set(200.0), low = x < ac_set(-200.0);
  return (ac_wide)((high & (ac_wide_int)ac_set(200.0)) | (low & (ac_wide_int)ac_set(-200.0)) | (~(high | low) & (ac_wide_int)x));
}
AC_INLINE vf vf_pow(vf x, vf y) {
  vf a = vf_abs(x), whole = vf_rint(y), half = y * 0.5f;
  vm odd = (whole == y) & (vf_rint(half) != half), zero = (x == 0.f) & (y > 0.f) & (vf_abs(y) < INFINITY);
  vm rare = ~zero & ~((a > 0.f) & (a < INFINITY) & (vf_abs(y) < INFINITY)), none = (x < 0.f) & (whole != y);
  vf b = vf_select(rare | zero, vf_set(1.f), a);
  ac_wide low = ac_clip(ac_log2(ac_low(b)) * ac_low(y)), high = ac_clip(ac_log2(ac_high(b)) * ac_high(y));
  ac_wide n0 = low + 6755399441055744.0 - 6755399441055744.0, n1 = high + 6755399441055744.0 - 6755399441055744.0;
  vf f = ac_joined(low - n0, high - n1), p = vf_set(0.00015353360504377633f);
  p = vf_fma(p, f, vf_set(0.0013398875016719103f));
  p = vf_fma(p, f, vf_set(0.00961843691766262f));
  p = vf_fma(p, f, vf_set(0.055503323674201965f));
  p = vf_fma(p, f, vf_set(0.24022647738456726f));
  p = vf_fma(p, f, vf_set(0.6931471824645996f));
  vf r = vf_select(zero, (vf){0}, vf_scale2(vf_fma(p, f, vf_set(1.f)), ac_joined(n0, n1)));
  r = (vf)((vi)r | (odd & (vi)x & (int32_t)0x80000000) | (none & (vi)vf_set(NAN)));
  AC_LANE_BY_LANE(rare, r, powf(x[l], y[l]));
  return r;
}

AC_INLINE vf vf_power1(vf x) { return x; }
AC_INLINE vf vf_power2(vf x) { return x * x; }
AC_INLINE vf vf_power3(vf x) { return x * x * x; }
AC_INLINE vf vf_power4(vf x) { vf y = x * x; return y * y; }

/* ---- circular functions: the angle less the nearest multiple of pi / 2, then two polynomials. A fused multiply-add takes off pi / 2 in three
 * floats: the first difference is exact (a multiple of 2^-24 below 1), the others each round once. Elsewhere in doubles, 33 bits of pi / 2
 * first, so that its multiples are exact. */
AC_INLINE vf ac_quarter(vf x, vf n) { /* x - n pi / 2 */
#if defined(__FMA__) || defined(__aarch64__)
  vf r = vf_fma(n, vf_set(-0x1.921fb6p+0f), x);
  r = vf_fma(n, vf_set(0x1.777a5cp-25f), r);
  return vf_fma(n, vf_set(0x1.ee59dap-50f), r);
#else
  ac_wide a = ac_fma(ac_low(n), ac_set(-1.5707963267341256), ac_low(x)), b = ac_fma(ac_high(n), ac_set(-1.5707963267341256), ac_high(x));
  return ac_joined(ac_fma(ac_low(n), ac_set(-6.077100506506192e-11), a), ac_fma(ac_high(n), ac_set(-6.077100506506192e-11), b));
#endif
}
AC_INLINE vf ac_sin_part(vf r, vf s) {
  vf p = vf_fma(vf_fma(vf_set(-1.9515295891e-4f), s, vf_set(8.3321608736e-3f)), s, vf_set(-1.6666654611e-1f));
  return vf_fma(p * s, r, r);
}
AC_INLINE vf ac_cos_part(vf s) {
  vf p = vf_fma(vf_fma(vf_set(2.443315711809948e-5f), s, vf_set(-1.388731625493765e-3f)), s, vf_set(4.166664568298827e-2f));
  return vf_fma(p * s, s, vf_fma(s, vf_set(-0.5f), vf_set(1.f)));
}
#define AC_FAR(x) (~(vf_abs(x) < 1e6f)) /* and NaN */
AC_INLINE vf ac_circular(vf x, int quarters) { /* sin(x + quarters pi / 2) of a near angle */
  vf n = vf_rint(x * 0.6366197723675814f), r = ac_quarter(x, n), s = r * r;
  vi q = vi_from_vf(n) + quarters;
  vf y = vf_select((q & 1) != 0, ac_cos_part(s), ac_sin_part(r, s));
  return (vf)((vi)y ^ ((q & 2) << 30));
}
AC_INLINE vf vf_sin(vf x) {
  vm far = AC_FAR(x);
  vf r = ac_circular(vf_select(far, (vf){0}, x), 0);
  AC_LANE_BY_LANE(far, r, sinf(x[l]));
  return vf_select(x == 0.f, x, r);
}
AC_INLINE vf vf_cos(vf x) {
  vm far = AC_FAR(x);
  vf r = ac_circular(vf_select(far, (vf){0}, x), 1);
  AC_LANE_BY_LANE(far, r, cosf(x[l]));
  return r;
}
AC_INLINE vf vf_tan(vf x) {
  vm far = AC_FAR(x);
  vf a = vf_select(far, (vf){0}, x), n = vf_rint(a * 0.6366197723675814f), r = ac_quarter(a, n), s = r * r;
  vm odd = (vi_from_vf(n) & 1) != 0;
  vf sine = ac_sin_part(r, s), cosine = ac_cos_part(s);
  vf y = vf_select(odd, cosine, sine) / vf_select(odd, -sine, cosine);
  AC_LANE_BY_LANE(far, y, tanf(x[l]));
  return vf_select(x == 0.f, x, y);
}
AC_INLINE vf vf_atan(vf x) { /* beyond 1 the quarter less the reciprocal's */
  vf a = vf_abs(x);
  vm big = a > 1.f;
  vf z = vf_select(big, 1.f / a, a), s = z * z, p = vf_set(-0.0017539215041324496f);
  p = vf_fma(p, s, vf_set(0.010726905427873135f));
  p = vf_fma(p, s, vf_set(-0.030804526060819626f));
  p = vf_fma(p, s, vf_set(0.0575520284473896f));
  p = vf_fma(p, s, vf_set(-0.08377311378717422f));
  p = vf_fma(p, s, vf_set(0.1094202920794487f));
  p = vf_fma(p, s, vf_set(-0.142619326710701f));
  p = vf_fma(p, s, vf_set(0.1999826580286026f));
  p = vf_fma(p, s, vf_set(-0.3333328366279602f));
  p = vf_fma(p * s, z, z);
  return vf_copysign(vf_select(big, 1.5707963267948966f - p, p), x);
}
AC_INLINE vf ac_asin_part(vf z, vf s) { /* asin z, z at most 1/2, s its square */
  vf p = vf_set(0.03751646727323532f);
  p = vf_fma(p, s, vf_set(0.014438592828810215f));
  p = vf_fma(p, s, vf_set(0.03180772066116333f));
  p = vf_fma(p, s, vf_set(0.04451695457100868f));
  p = vf_fma(p, s, vf_set(0.07500503957271576f));
  p = vf_fma(p, s, vf_set(0.16666659712791443f));
  return vf_fma(p * s, z, z);
}
AC_INLINE vf vf_asin(vf x) { /* beyond 1/2 by the root of (1 - x) / 2 */
  vf a = vf_abs(x), t = (1.f - a) * 0.5f;
  vm big = a > 0.5f;
  vf s = vf_select(big, t, a * a), z = vf_select(big, vf_sqrt(t), a), p = ac_asin_part(z, s);
  return vf_copysign(vf_select(big, vf_fma(p, vf_set(-2.f), vf_set(1.5707963267948966f)), p), x);
}
AC_INLINE vf vf_acos(vf x) {
  vf a = vf_abs(x), t = (1.f - a) * 0.5f;
  vm big = a > 0.5f;
  vf s = vf_select(big, t, a * a), z = vf_select(big, vf_sqrt(t), x), p = ac_asin_part(z, s);
  vf far = vf_select(x < 0.f, vf_fma(p, vf_set(-2.f), vf_set(-8.742278e-8f)) + 3.14159274f, p + p);
  return vf_select(big, far, 1.57079637f - (p + 4.371139e-8f));
}

/* ---- hyperbolic functions */
AC_INLINE vf vf_sinh(vf x) {
  vf a = vf_abs(x), t = vf_expm1(a), e = vf_exp(a * 0.5f);
  vf y = vf_select(a > 60.f, e * 0.5f * e, (t + t / (t + 1.f)) * 0.5f);
  return vf_copysign(y, x);
}
AC_INLINE vf vf_cosh(vf x) {
  vf a = vf_abs(x), h = vf_exp(a * 0.5f), e = vf_exp(a);
  return vf_select(a > 60.f, h * 0.5f * h, vf_fma(e, vf_set(0.5f), 0.5f / e));
}
AC_INLINE vf vf_asinh(vf x) {
  vf a = vf_abs(x), b = vf_min_c(vf_set(1e9f), a), s = b * b;
  vf y = vf_log1p(b + s / (1.f + vf_sqrt(s + 1.f)));
  return vf_copysign(vf_select(a > 1e9f, vf_log(a) + 0.6931471805599453f, y), x);
}
AC_INLINE vf vf_acosh(vf x) {
  vf t = vf_min_c(vf_set(1e9f), x) - 1.f, y = vf_log1p(t + vf_sqrt(vf_fma(t, t, t + t)));
  return vf_select(x < 1.f, vf_set(NAN), vf_select(x > 1e9f, vf_log(x) + 0.6931471805599453f, y));
}
AC_INLINE vf vf_atanh(vf x) {
  vf a = vf_abs(x);
  return vf_copysign(vf_log1p((a + a) / (1.f - a)) * 0.5f, x);
}
/* mish: x tanh(log(1 + e)) for e = exp(x) is x n / (n + 2), n = e (e + 2); from x = 20 on it is x */
AC_INLINE vf vf_mish(vf x) {
  vf e = vf_exp(vf_min_c(vf_set(20.f), x)), n = e * (e + 2.f);
  return x * (n / (n + 2.f));
}
/* gelu(tanh): 0.5 (1 + tanh u) is the sigmoid of 2 u */
AC_INLINE vf vf_gelu_tanh(vf x) {
  return x * vf_sigmoid(x * vf_fma(x * x, vf_set(0.07135481627260025f), vf_set(1.5957691216057308f)));
}

/* ---- remainders: x - q y with the quotient as cut off, which one multiply-add gives without rounding; it may be one off */
#if defined(__FMA__) || defined(__aarch64__)
#define AC_FUSED 1
#endif
AC_INLINE vf vf_fmod(vf x, vf y) {
#if AC_FUSED
  vf a = vf_abs(x), b = vf_abs(y), q = vf_floor(a / b);
  vm rare = ~((q < 4194304.f) & (b > 1e-30f) & (b < INFINITY));
  vf r = vf_fma(-q, b, a);
  r = vf_select(r < 0.f, r + b, r);
  r = vf_copysign(vf_select(r >= b, r - b, r), x);
#else
  vm rare = vi_set(-1);
  vf r = x;
#endif
  AC_LANE_BY_LANE(rare, r, fmodf(x[l], y[l]));
  return r;
}
AC_INLINE vf vf_mod(vf a, vf b) { /* the divisor's sign, a zero too */
  vf r = vf_fmod(a, b);
  vm turn = (r != 0.f) & ((r < 0.f) ^ (b < 0.f));
  return vf_select(r == 0.f, vf_copysign(r, b), vf_select(turn, r + b, r));
}
AC_INLINE vf vf_floordiv(vf a, vf b) {
  vf r = vf_fmod(a, b), q = (a - r) / b - (vf)(((r != 0.f) & ((r < 0.f) ^ (b < 0.f))) & (vi)vf_set(1.f)), low = vf_floor(q);
  vf y = vf_select(q == 0.f, a / b * 0.f, vf_select(q - low > 0.5f, low + 1.f, low));
  return vf_select(b == 0.f, a / b, y);
}
#endif
