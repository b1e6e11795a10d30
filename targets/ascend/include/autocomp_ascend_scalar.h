// What kernels call that go element by element on the scalar unit: plain C++ over 32-bit floats and integers of up to 64 bits, as that
// unit has them. Functions have the names and meanings of autocomp.ir.scalar; the unit has none of its own, so all are polynomials here.
#pragma once
#include "autocomp_ascend.h"
#define AC_S __aicore__ inline
#define AC_ST template <typename T> AC_S

// ---- bits
AC_S uint32_t ac_bits(float x) {
  union {
    float f;
    uint32_t u;
  } v;
  v.f = x;
  return v.u;
}
AC_S float ac_float(uint32_t u) {
  union {
    uint32_t u;
    float f;
  } v;
  v.u = u;
  return v.f;
}
AC_ST T ac_inf() { return ac_float(0x7f800000u); }
AC_ST T ac_nan() { return ac_float(0x7fc00000u); }
AC_S bool ac_isnan(float x) { return (ac_bits(x) & 0x7fffffffu) > 0x7f800000u; }
AC_S bool ac_isinf(float x) { return (ac_bits(x) & 0x7fffffffu) == 0x7f800000u; }
AC_S int32_t ac_ordinal(float x) {
  const int32_t size = int32_t(ac_bits(x) & 0x7fffffffu);
  return size > 0x7f800000 ? 0x7fffffff : ac_bits(x) >> 31 ? -size : size;
}
AC_S float ac_abs(float x) { return ac_float(ac_bits(x) & 0x7fffffffu); }
AC_S float ac_signed(float x, float of) { return ac_float((ac_bits(x) & 0x7fffffffu) | (ac_bits(of) & 0x80000000u)); }

// ---- elements in memory <-> values: short floats lie there as their bits
struct ac_f16 {
  uint16_t bits;
};
struct ac_bf16 {
  uint16_t bits;
};
struct ac_f8e4m3 {
  uint8_t bits;
};
struct ac_f8e5m2 {
  uint8_t bits;
};
AC_S float ac_held(ac_f16 x) {
  const uint32_t rest = x.bits & 0x7fffu, sign = (x.bits & 0x8000u) << 16;
  if (rest >= 0x7c00u) return ac_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  const float least = 5.9604644775390625e-8f;  // 2^-24: fields below the first exponent count such pieces
  if (rest < 0x400u) return ac_float(sign | ac_bits(float(rest) * least));
  return ac_float(sign | ((rest << 13) + 0x38000000u));
}
AC_S float ac_held(ac_bf16 x) { return ac_float(uint32_t(x.bits) << 16); }
AC_S float ac_held(ac_f8e4m3 x) {
  const uint32_t rest = x.bits & 0x7fu, sign = (x.bits & 0x80u) << 24;
  if (rest == 0x7fu) return ac_float(0x7fc00000u);
  return ac_float(sign | (rest < 8 ? ac_bits(float(rest) * 0.001953125f) : (rest << 20) + (120u << 23)));
}
AC_S float ac_held(ac_f8e5m2 x) { return ac_held(ac_f16{uint16_t(x.bits << 8)}); }
AC_ST T ac_held(T x) { return x; }
// The upper `kept` bits of a magnitude whose lower bits are rounded off, to even at a tie.
AC_S uint32_t ac_upper(uint32_t u, uint32_t cut) { return (u + ((1u << (cut - 1)) - 1) + (u >> cut & 1u)) >> cut; }
// A magnitude with MANTISSA bits and the exponents from `low` on (2^low is the least normal number), as a field of such a float.
AC_S uint32_t ac_field(float magnitude, int32_t mantissa, int32_t low) {
  const uint32_t u = ac_bits(magnitude);
  const int32_t exponent = int32_t(u >> 23) - 127;
  if (exponent >= low) return ac_upper(u, 23 - mantissa) - (uint32_t(126 + low) << mantissa);
  const int32_t cut = 23 - mantissa + low - exponent;
  return cut > 25 || u < 0x800000u ? 0u : ac_upper((u & 0x7fffffu) | 0x800000u, uint32_t(cut));
}
AC_ST T ac_stored(float x);
template <> AC_S ac_f16 ac_stored<ac_f16>(float x) {
  const uint32_t sign = ac_bits(x) >> 16 & 0x8000u;
  const float a = ac_abs(x);
  return {uint16_t(sign | (ac_isnan(a) ? 0x7e00u : a >= 65520.0f ? 0x7c00u : ac_field(a, 10, -14)))};
}
template <> AC_S ac_bf16 ac_stored<ac_bf16>(float x) {
  return {uint16_t(ac_isnan(x) ? 0x7fc0u : ac_upper(ac_bits(x), 16))};
}
template <> AC_S ac_f8e4m3 ac_stored<ac_f8e4m3>(float x) {
  const float a = ac_abs(x);
  return {uint8_t((ac_bits(x) >> 24 & 0x80u) | (a <= 464.0f ? ac_field(a, 3, -6) : 0x7fu))};
}
template <> AC_S ac_f8e5m2 ac_stored<ac_f8e5m2>(float x) {
  const float a = ac_abs(x);
  return {uint8_t((ac_bits(x) >> 24 & 0x80u) | (ac_isnan(a) ? 0x7eu : a >= 61440.0f ? 0x7cu : ac_field(a, 2, -14)))};
}
AC_ST float ac_round(float x) { return ac_held(ac_stored<T>(x)); }

// of an element's bits, and back
AC_ST float ac_read(uint16_t bits) { return ac_held(T{bits}); }
AC_ST float ac_read(uint8_t bits) { return ac_held(T{bits}); }

// Neighbouring results collect in unified buffer and leave in one copy: what lies beside them is not touched. A 310P copies whole blocks, so
// there a run has whole blocks from `first` on, with what lay in memory before and behind it: no other core may write to these.
template <typename T> struct ac_run {
  LocalTensor<T> held;
  LocalTensor<uint8_t> bytes;
  GlobalTensor<uint8_t> to;
  uint32_t room;
  uint64_t first;
  uint32_t count;
};
#if __NPU_ARCH__ == 2002
// A block of memory, `at` elements behind the run's first, into unified buffer: into the run, or behind all of it (`to` elements on).
AC_ST void ac_fetch(ac_run<T> &r, uint32_t at, uint32_t to) {
  SetFlag<HardEvent::S_MTE2>(0);
  WaitFlag<HardEvent::S_MTE2>(0);
  DataCopy(r.bytes[to * sizeof(T)], r.to[(r.first + at) * sizeof(T)], 32);
  SetFlag<HardEvent::MTE2_S>(0);
  WaitFlag<HardEvent::MTE2_S>(0);
}
AC_ST void ac_start(ac_run<T> &r, uint64_t at) {
  r.count = at % (32 / sizeof(T));
  r.first = at - r.count;
  if (r.count) ac_fetch(r, 0, 0);
}
AC_ST uint32_t ac_size(ac_run<T> &r) {
  const uint32_t unit = 32 / sizeof(T), last = r.count / unit * unit;
  if (last < r.count) ac_fetch(r, last, r.room);
  for (uint32_t i = r.count; last < r.count && i < last + unit; ++i) r.held.SetValue(i, r.held.GetValue(r.room + i - last));
  return (r.count + unit - 1) / unit * 32;
}
AC_ST void ac_out(ac_run<T> &r, uint32_t size) { DataCopy(r.to[r.first * sizeof(T)], r.bytes, size); }
constexpr uint32_t ac_spare_bytes = 32;
#else
AC_ST void ac_start(ac_run<T> &r, uint64_t at) { r.first = at; }
AC_ST uint32_t ac_size(ac_run<T> &r) { return r.count * sizeof(T); }
AC_ST void ac_out(ac_run<T> &r, uint32_t size) { DataCopyPad(r.to[r.first * sizeof(T)], r.bytes, ac_copy(1, size, 0, 0)); }
constexpr uint32_t ac_spare_bytes = 0;
#endif
AC_ST void ac_leave(ac_run<T> &r) {
  if (!r.count) return;
  const uint32_t size = ac_size(r);
  SetFlag<HardEvent::S_MTE3>(0);
  WaitFlag<HardEvent::S_MTE3>(0);
  ac_out(r, size);
  SetFlag<HardEvent::MTE3_S>(0);
  WaitFlag<HardEvent::MTE3_S>(0);
  r.count = 0;
}
template <typename T, typename U> AC_S void ac_put(ac_run<T> &r, uint64_t at, U x) {
  if (r.count == r.room || (r.count && at != r.first + r.count)) ac_leave(r);
  if (!r.count) ac_start(r, at);
  r.held.SetValue(r.count, T(x));
  ++r.count;
}
template <typename S, typename T> AC_S void ac_put_short(ac_run<T> &r, uint64_t at, float x) { ac_put(r, at, ac_stored<S>(x).bits); }
template <typename T>
AC_S void ac_begin(ac_run<T> &r, TBuf<TPosition::VECCALC> &memory, uint32_t at, uint32_t bytes, const GlobalTensor<uint8_t> &to) {
  r.held = ac_at<T>(memory, bytes, at);
  r.bytes = ac_at<uint8_t>(memory, bytes, at);
  r.to = to;
  r.room = (bytes - ac_spare_bytes) / sizeof(T);
  r.count = 0;
}
// What other kernels wrote since this core's cache was filled must not be read from there.
AC_S void ac_read_anew(const GlobalTensor<uint8_t> &any) {
#if __NPU_ARCH__ == 2002
  DataCacheCleanAndInvalid<uint8_t, CacheLine::ENTIRE_DATA_CACHE>(any);
#else
  DataCacheCleanAndInvalid<uint8_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(any);
#endif
}

// ---- integers: 0 where the divisor is 0; the least number over -1 wraps to itself; division of an index rounds down
AC_ST bool ac_turns(T b) { return T(-1) < T(0) && b == T(-1); }
AC_ST T ac_idiv(T a, T b) { return b == T(0) ? T(0) : ac_turns(b) ? T(0ull - uint64_t(a)) : T(a / b); }
AC_ST T ac_fmod(T a, T b) { return b == T(0) || ac_turns(b) ? T(0) : T(a % b); }
AC_ST T ac_floordiv(T a, T b) { return T(ac_idiv(a, b) - ((ac_fmod(a, b) != T(0) && (a < T(0)) != (b < T(0))) ? T(1) : T(0))); }
AC_ST T ac_mod(T a, T b) {
  const T r = ac_fmod(a, b);
  return T(r + (r != T(0) && (r < T(0)) != (b < T(0)) ? b : T(0)));
}
AC_S int64_t ac_floordiv(int64_t a, int32_t b) { return ac_floordiv<int64_t>(a, b); }
AC_S int64_t ac_mod(int64_t a, int32_t b) { return ac_mod<int64_t>(a, b); }
AC_S int64_t ac_inside(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }
AC_ST T ac_max(T a, T b) { return a > b ? a : b; }
AC_ST T ac_min(T a, T b) { return a < b ? a : b; }
AC_ST T ac_abs(T x) { return x < T(0) ? T(0ull - uint64_t(x)) : x; }
AC_ST T ac_relu(T x) { return x > T(0) ? x : T(0); }
AC_ST T ac_sign(T x) { return T((x > T(0)) - (x < T(0))); }
AC_ST T ac_pow(T a, T b) {
  if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % 2 == 0 ? T(1) : T(-1)) : T(0);
  T r = 1;
  for (; b; b /= 2, a = T(uint64_t(a) * uint64_t(a)))
    if (b % 2) r = T(uint64_t(r) * uint64_t(a));
  return r;
}
AC_ST T ac_shl(T x, T n) { return uint64_t(n) < 8 * sizeof(T) ? T(uint64_t(x) << n) : T(0); }
AC_ST T ac_shr(T x, T n) { return uint64_t(n) < 8 * sizeof(T) ? T(x >> n) : x < T(0) ? T(-1) : T(0); }
AC_S bool ac_and(bool a, bool b) { return a && b; }
AC_S bool ac_or(bool a, bool b) { return a || b; }

// ---- floats
AC_S float ac_max(float a, float b) { return a > b || ac_isnan(a) ? a : b; }
AC_S float ac_min(float a, float b) { return a < b || ac_isnan(a) ? a : b; }
AC_S float ac_relu(float x) { return x > 0.0f || ac_isnan(x) ? x : 0.0f; }
AC_S float ac_sign(float x) { return ac_isnan(x) ? x : float(int32_t(x > 0.0f) - int32_t(x < 0.0f)); }
AC_S float ac_trunc(float x) { return ac_abs(x) < 8388608.0f ? ac_signed(float(int32_t(x)), x) : x; }
AC_S float ac_floor(float x) {
  const float t = ac_trunc(x);
  return t > x ? t - 1.0f : t;
}
AC_S float ac_ceil(float x) {
  const float t = ac_trunc(x);
  return t < x ? ac_signed(t + 1.0f, x) : t;
}
AC_S float ac_round(float x) {  // to even at a tie
  const float t = ac_trunc(x), rest = ac_abs(x - t);
  const bool up = rest > 0.5f || (rest == 0.5f && (int32_t(ac_abs(x) < 8388608.0f ? t : 0.0f) & 1));
  return up ? ac_signed(ac_abs(t) + 1.0f, x) : t;
}
AC_S float ac_scaled(float x, int32_t n) {  // x * 2^n
  if (n < -126) x *= 8.67361738e-19f, n += 60;  // 2^-60
  if (n < -126) x *= 8.67361738e-19f, n += 60;
  if (n > 127) x *= 1.70141183e38f, n -= 127;
  if (n > 127) x *= 1.70141183e38f, n = n > 254 ? 127 : n - 127;
  return n < -126 ? x * 0.0f : x * ac_float(uint32_t(n + 127) << 23);
}
AC_S float ac_sqrt(float x) {  // Newton's steps from a first guess by the exponent, the last one with the exact rest
  if (x == 0.0f || !(x > 0.0f) || ac_isinf(x)) return x < 0.0f ? ac_nan<float>() : x;
  const bool small = x < 1.0e-30f;
  const float y = small ? x * 1.8446744073709552e19f : x;  // 2^64
  float r = ac_float((ac_bits(y) >> 1) + 0x1fbd1df5u);
  for (int32_t i = 0; i < 4; ++i) r = 0.5f * (r + y / r);
  return small ? r * 2.3283064365386963e-10f : r;
}
AC_S float ac_rsqrt(float x) { return 1.0f / ac_sqrt(x); }
// e^r - 1 - r on [-0.35, 0.35]
AC_S float ac_exp_rest(float r) {
  float p = 1.9841270e-4f;
  p = p * r + 1.3888889e-3f;
  p = p * r + 8.3333333e-3f;
  p = p * r + 4.16666667e-2f;
  p = p * r + 1.66666667e-1f;
  return (p * r + 0.5f) * r * r;
}
AC_S float ac_exp(float x) {
  if (ac_isnan(x)) return x;
  if (x > 88.8f) return ac_inf<float>();
  if (x < -104.0f) return 0.0f;
  const float n = ac_round(x * 1.44269504f);
  const float r = (x - n * 0.693145751953125f) - n * 1.42860677e-6f;
  return ac_scaled(1.0f + (r + ac_exp_rest(r)), int32_t(n));
}
AC_S float ac_exp2(float x) {
  if (ac_isnan(x)) return x;
  if (x > 128.5f) return ac_inf<float>();
  if (x < -151.0f) return 0.0f;
  const float n = ac_round(x), f = x - n, r = f * 0.693147182f, low = f * -1.90465421e-9f;
  return ac_scaled(1.0f + (r + (low + ac_exp_rest(r))), int32_t(n));
}
AC_S float ac_expm1(float x) {
  if (ac_abs(x) < 0.35f) return x + ac_exp_rest(x);
  return ac_exp(x) - 1.0f;
}
// log x = n log 2 + log m, m in [0.7, 1.42); gives n and log m
AC_S float ac_log_part(float x, float &n) {
  int32_t e = 0;
  if (x < 1.17549435e-38f) x *= 16777216.0f, e = -24;
  uint32_t u = ac_bits(x) - 0x3f330000u;
  e += int32_t(u) >> 23;
  const float m = ac_float((u & 0x7fffffu) + 0x3f330000u), f = m - 1.0f, s = f / (2.0f + f), z = s * s;
  float p = 0.24279078841f;
  p = p * z + 0.28498786688f;
  p = p * z + 0.40000972152f;
  p = p * z + 0.66666662693f;
  const float half = 0.5f * f * f;
  n = float(e);
  return f - (half - s * (half + p * z));
}
AC_S float ac_log(float x) {
  if (ac_isnan(x) || x < 0.0f) return ac_nan<float>();
  if (x == 0.0f) return -ac_inf<float>();
  if (ac_isinf(x)) return x;
  float n;
  const float l = ac_log_part(x, n);
  return n * 0.693145751953125f + (l + n * 1.42860677e-6f);
}
AC_S float ac_log2(float x) {
  if (!(x > 0.0f) || ac_isinf(x)) return ac_log(x);
  float n;
  const float l = ac_log_part(x, n);
  return n + l * 1.44269504f;
}
AC_S float ac_log1p(float x) {
  const float u = 1.0f + x;
  if (u == 1.0f) return x;
  if (!(u > 0.0f) || ac_isinf(u)) return ac_log(u);
  return ac_log(u) * (x / (u - 1.0f));
}
// x = q * pi/2 + the result, which is within pi/4: products of the whole number in x with the bits of 2/pi that count
AC_S float ac_quarter(float x, int32_t &q) {
  const float a = ac_abs(x);
  if (a < 2.35f) {
    const float n = ac_round(x * 0.636619772f);
    q = int32_t(n);
    return ((x - n * 1.5703125f) - n * 4.83751297e-4f) - n * 7.54978995e-8f;
  }
  const uint32_t pi[24] = {0xa2u, 0xa2f9u, 0xa2f983u, 0xa2f9836eu, 0xf9836e4eu, 0x836e4e44u, 0x6e4e4415u, 0x4e441529u,
                           0x441529fcu, 0x1529fc27u, 0x29fc2757u, 0xfc2757d1u, 0x2757d1f5u, 0x57d1f534u, 0xd1f534ddu, 0xf534ddc0u,
                           0x34ddc0dbu, 0xddc0db62u, 0xc0db6295u, 0xdb629599u, 0x6295993cu, 0x95993c43u, 0x993c4390u, 0x3c439041u};
  const uint32_t u = ac_bits(a), from = u >> 26 & 15u, mantissa = ((u & 0xffffffu) | 0x800000u) << (u >> 23 & 7u);
  uint64_t high = uint32_t(mantissa * pi[from]);
  high = uint64_t(mantissa) * pi[from + 8] >> 32 | high << 32;
  high += uint64_t(mantissa) * pi[from + 4];
  const uint64_t n = (high + (1ull << 61)) >> 62;
  high -= n << 62;
  const float r = float(int64_t(high)) * 3.4061215800304756e-19f;  // pi/2 / 2^62
  q = x < 0.0f ? -int32_t(n) : int32_t(n);
  return x < 0.0f ? -r : r;
}
AC_S float ac_sin_part(float r) {
  const float z = r * r;
  return r + r * z * (-1.66666667e-1f + z * (8.33333310e-3f + z * (-1.98408743e-4f + z * 2.72509923e-6f)));
}
AC_S float ac_cos_part(float r) {
  const float z = r * r;
  return 1.0f - (0.5f * z - z * z * (4.16666642e-2f + z * (-1.38887301e-3f + z * 2.44331571e-5f)));
}
AC_S float ac_turn(float x, int32_t more) {  // sin(x + more * pi/2)
  if (ac_isnan(x) || ac_isinf(x)) return ac_nan<float>();
  int32_t q;
  const float r = ac_quarter(x, q);
  const int32_t k = (q + more) & 3;
  const float v = (k & 1) ? ac_cos_part(r) : ac_sin_part(r);
  return (k & 2) ? -v : v;
}
AC_S float ac_sin(float x) { return ac_turn(x, 0); }
AC_S float ac_cos(float x) { return ac_turn(x, 1); }
AC_S float ac_sin_f16(float x) { return ac_sin(x); }
AC_S float ac_cos_f16(float x) { return ac_cos(x); }
AC_S float ac_tan(float x) {
  if (ac_isnan(x) || ac_isinf(x)) return ac_nan<float>();
  int32_t q;
  const float r = ac_quarter(x, q), s = ac_sin_part(r), c = ac_cos_part(r);
  return (q & 1) ? -c / s : s / c;
}
AC_S float ac_atan(float x) {
  const float a = ac_abs(x);
  float y = 0.0f, t = a;
  if (a > 2.41421356f) y = 1.57079633f, t = -1.0f / a;
  else if (a > 0.41421356f) y = 0.785398163f, t = (a - 1.0f) / (a + 1.0f);
  const float z = t * t;
  const float p = (((8.05374449538e-2f * z - 1.38776856032e-1f) * z + 1.99777106478e-1f) * z - 3.33329491539e-1f) * z * t + t;
  return ac_isnan(x) ? x : ac_signed(y + p, x);
}
AC_S float ac_asin_part(float x) {  // |x| <= 0.5
  const float z = x * x;
  return ((((4.2163199048e-2f * z + 2.4181311049e-2f) * z + 4.5470025998e-2f) * z + 7.4953002686e-2f) * z + 1.6666752422e-1f) * z * x + x;
}
AC_S float ac_asin(float x) {
  const float a = ac_abs(x);
  if (!(a <= 1.0f)) return ac_nan<float>();
  return ac_signed(a > 0.5f ? 1.57079633f - 2.0f * ac_asin_part(ac_sqrt(0.5f * (1.0f - a))) : ac_asin_part(a), x);
}
AC_S float ac_acos(float x) {
  const float a = ac_abs(x);
  if (!(a <= 1.0f)) return ac_nan<float>();
  if (a <= 0.5f) return 1.57079633f - ac_asin_part(x);
  const float v = 2.0f * ac_asin_part(ac_sqrt(0.5f * (1.0f - a)));
  return x < 0.0f ? 3.14159265f - v : v;
}
AC_S float ac_sinh(float x) {
  const float a = ac_abs(x);
  if (a < 1.0f) {
    const float z = x * x;
    return x + x * z * (1.66666667e-1f + z * (8.33333333e-3f + z * (1.98412698e-4f + z * 2.75573192e-6f)));
  }
  const float e = ac_exp(0.5f * a);
  return ac_signed(a > 20.0f ? 0.5f * e * e : 0.5f * (e * e - 1.0f / (e * e)), x);
}
AC_S float ac_cosh(float x) {
  const float e = ac_exp(0.5f * ac_abs(x));
  return ac_abs(x) > 20.0f ? 0.5f * e * e : 0.5f * (e * e + 1.0f / (e * e));
}
AC_S float ac_tanh(float x) {
  const float a = ac_abs(x);
  if (a > 10.0f) return ac_signed(1.0f, x);
  const float e = ac_expm1(2.0f * a);
  return ac_isnan(x) ? x : ac_signed(e / (e + 2.0f), x);
}
AC_S float ac_asinh(float x) {
  const float a = ac_abs(x);
  if (ac_isnan(x) || ac_isinf(x)) return x;
  const float v = a > 1.0e9f ? ac_log(a) + 0.693147181f : ac_log1p(a + a * a / (1.0f + ac_sqrt(a * a + 1.0f)));
  return ac_signed(v, x);
}
AC_S float ac_acosh(float x) {
  if (!(x >= 1.0f)) return ac_nan<float>();
  const float t = x - 1.0f;
  return x > 1.0e9f ? ac_log(x) + 0.693147181f : ac_log1p(t + ac_sqrt(2.0f * t + t * t));
}
AC_S float ac_atanh(float x) {
  const float a = ac_abs(x);
  return ac_signed(0.5f * ac_log1p(2.0f * a / (1.0f - a)), x);
}
// erf: a series near 0, else 1 - t exp(-x^2 + P(t)), t = 1 / (1 + x/2): the fit of 1.2e-7 in Numerical Recipes
AC_S float ac_erf(float x) {
  const float a = ac_abs(x), z = x * x;
  if (a < 0.9f) {
    float term = x, sum = x;
    for (int32_t n = 1; n < 14; ++n) {
      term *= -z / float(n);
      sum += term / float(2 * n + 1);
    }
    return 1.12837917f * sum;
  }
  if (ac_isnan(x)) return x;
  const float t = 1.0f / (1.0f + 0.5f * a);
  float p = 0.17087277f;
  const float c[9] = {-0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f, 0.09678418f, 0.37409196f, 1.00002368f, -1.26551223f};
  for (int32_t i = 0; i < 9; ++i) p = p * t + c[i];
  return ac_signed(1.0f - t * ac_exp(p - a * a), x);
}
AC_S float ac_sigmoid(float x) { return 1.0f / (1.0f + ac_exp(-x)); }
AC_S float ac_silu(float x) { return x / (1.0f + ac_exp(-x)); }
AC_S float ac_gelu(float x) { return 0.5f * x * (1.0f + ac_erf(x * 0.707106781f)); }
AC_S float ac_gelu_tanh(float x) { return 0.5f * x * (1.0f + ac_tanh(0.797884561f * (x + 0.044715f * x * x * x))); }
AC_S float ac_softplus(float x) { return (x > 0.0f ? x : 0.0f) + ac_log1p(ac_exp(-ac_abs(x))); }
AC_S float ac_mish(float x) {  // x tanh(log(1 + e)), e = exp(x); from 20 on it is x
  const float e = ac_exp(ac_min(x, 20.0f)), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}
// the rest of a / b, with the sign of a: whole multiples of b are taken off bit by bit
AC_S float ac_fmod(float a, float b) {
  if (ac_isnan(a) || ac_isnan(b) || ac_isinf(a) || b == 0.0f) return ac_nan<float>();
  const float y = ac_abs(b);
  float x = ac_abs(a);
  if (ac_isinf(y)) return a;
  const int32_t apart = int32_t(ac_bits(x) >> 23) - int32_t(ac_bits(y) >> 23);
  for (int32_t k = apart; k >= 0; --k) {
    const float piece = ac_scaled(y, k);
    if (piece <= x) x -= piece;
  }
  while (x >= y) x -= y;
  return ac_signed(x, a);
}
AC_S float ac_mod(float a, float b) {
  const float r = ac_fmod(a, b);
  return r == 0.0f ? ac_signed(0.0f, b) : (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
AC_S float ac_floordiv(float a, float b) {
  if (b == 0.0f) return a / b;
  const float r = ac_fmod(a, b);
  if (ac_isnan(r)) return r;
  float q = (a - r) / b;
  if (r != 0.0f && (r < 0.0f) != (b < 0.0f)) q -= 1.0f;
  return q == 0.0f ? ac_signed(0.0f, a / b) : ac_round(q);
}
// a^b = 2^(b log2 a), the logarithm in two pieces so that large exponents lose nothing
AC_S float ac_pow(float a, float b) {
  if (b == 0.0f || a == 1.0f) return 1.0f;
  if (ac_isnan(a) || ac_isnan(b)) return ac_nan<float>();
  const bool whole = ac_trunc(b) == b, odd = whole && ac_abs(b) < 16777216.0f && (int32_t(b) & 1);
  const float x = ac_abs(a);
  if (ac_isinf(b)) return x == 1.0f ? 1.0f : (x > 1.0f) == (b > 0.0f) ? ac_inf<float>() : 0.0f;
  const bool minus = odd && (ac_bits(a) >> 31);
  if (x == 0.0f || ac_isinf(x)) {
    const float v = (x == 0.0f) == (b > 0.0f) ? 0.0f : ac_inf<float>();
    return minus ? -v : v;
  }
  if (a < 0.0f && !whole) return ac_nan<float>();
  float r;
  if (whole && ac_abs(b) <= 64.0f) {
    float base = b < 0.0f ? 1.0f / x : x;
    r = 1.0f;
    for (int32_t n = int32_t(ac_abs(b)); n; n /= 2, base *= base)
      if (n & 1) r *= base;
    return minus ? -r : r;
  }
  float n;
  const float l = ac_log_part(x, n) * 1.44269504f, high = ac_float(ac_bits(b) & 0xfffff000u), low = b - high;
  const float top = high * n, whole_top = ac_round(top);
  const float e = (top - whole_top) + (low * n + b * l), all = ac_round(e);
  const float t = whole_top + all;
  if (t > 200.0f) r = ac_inf<float>();
  else if (t < -200.0f) r = 0.0f;
  else r = ac_scaled(ac_exp2(e - all), int32_t(t));
  return minus ? -r : r;
}
// ---- forms that other chips have for short floats, and for small integers less a whole number
#define AC_SAME(name) \
  AC_S float ac_##name##_half(float x) { return ac_##name(x); }
AC_SAME(gelu)
AC_SAME(tanh)
AC_SAME(sigmoid)
AC_SAME(silu)
AC_SAME(mish)
AC_SAME(exp)
AC_SAME(exp2)
AC_SAME(expm1)
AC_SAME(rsqrt)
AC_S float ac_div_half(float a, float b) { return a / b; }
AC_S float ac_small(uint32_t v, float minus) { return float(v) - minus; }
AC_S float ac_small_signed(int32_t v, float minus) { return float(v) - minus; }
AC_S int32_t ac_alone(int32_t x) { return x; }

// Place i of n behind a place p of those in front: negative ones count from the end, -1 for one outside.
AC_S int64_t ac_place(int64_t p, int64_t i, int64_t n) {
  const int64_t at = i < 0 ? i + n : i;
  return p < 0 || at < 0 || at >= n ? -1 : p * n + at;
}
// What an update makes of an element (targets/ascend/scatters.py): integers wrap.
AC_S float ac_folded_add(float a, float b) { return a + b; }
AC_S float ac_folded_mul(float a, float b) { return a * b; }
AC_S float ac_folded_max(float a, float b) { return ac_max(a, b); }
AC_S float ac_folded_min(float a, float b) { return ac_min(a, b); }
AC_S int32_t ac_folded_add(int32_t a, int32_t b) { return int32_t(uint32_t(a) + uint32_t(b)); }
AC_S int32_t ac_folded_mul(int32_t a, int32_t b) { return int32_t(uint32_t(a) * uint32_t(b)); }
AC_S int32_t ac_folded_max(int32_t a, int32_t b) { return a > b ? a : b; }
AC_S int32_t ac_folded_min(int32_t a, int32_t b) { return a < b ? a : b; }
