// What printed kernels call on every GPU target: plain C++ over the target's own header, which includes this file and gives
//   AC_DEVICE, AC_WAVE, f16, bf16 with ac_widen, ac_narrow_f16 and ac_narrow_bf16, ac_ex2, ac_reciprocal, ac_rsqrt_half, ac_max and ac_min of float,
//   ac_alone (an int as it is, which the compiler joins with nothing before it), ac_here (a long long, computed where it stands), ac_select (one of
//   two floats, both computed).
#pragma once

// ---- numbers
template <class T> AC_DEVICE T ac_inf();
template <> __device__ __forceinline__ float ac_inf<float>() { return __int_as_float(0x7f800000); }
template <> __device__ __forceinline__ double ac_inf<double>() { return __longlong_as_double(0x7ff0000000000000ll); }
template <class T> AC_DEVICE T ac_nan();
template <> __device__ __forceinline__ float ac_nan<float>() { return __int_as_float(0x7fc00000); }
template <> __device__ __forceinline__ double ac_nan<double>() { return __longlong_as_double(0x7ff8000000000000ll); }
AC_DEVICE int ac_min(int a, int b) { return a < b ? a : b; }
// of integers: 0 where the divisor is 0; the least number over -1 wraps to itself
template <class T> AC_DEVICE bool ac_turns(T b) { return T(-1) < T(0) && b == T(-1); }
template <class T> AC_DEVICE T ac_idiv(T a, T b) { return b == 0 ? T(0) : ac_turns(b) ? T(0ull - (unsigned long long)a) : T(a / b); }
template <class T> AC_DEVICE T ac_fmod(T a, T b) { return b == 0 || ac_turns(b) ? T(0) : T(a % b); }
template <class T> AC_DEVICE T ac_floordiv(T a, T b) { return T(ac_idiv(a, b) - (ac_fmod(a, b) != 0 && ((a < 0) != (b < 0)))); }
template <class T> AC_DEVICE T ac_mod(T a, T b) { const T r = ac_fmod(a, b); return T(r + (r != 0 && ((r < 0) != (b < 0)) ? b : T(0))); }
AC_DEVICE long long ac_floordiv(long long a, int b) { return ac_floordiv<long long>(a, b); }
AC_DEVICE long long ac_floordiv(long long a, long b) { return ac_floordiv<long long>(a, b); }
AC_DEVICE long long ac_mod(long long a, int b) { return ac_mod<long long>(a, b); }
AC_DEVICE long long ac_mod(long long a, long b) { return ac_mod<long long>(a, b); }
// x mod n where 0 <= x < 2 n
AC_DEVICE int ac_wrapped(int x, int n) { return (unsigned)x < (unsigned)(x - n) ? x : x - n; }
AC_DEVICE long long ac_wrapped(long long x, long long n) { return x < n ? x : x - n; }
AC_DEVICE long long ac_clamp(long long i, long long n) { return i < 0 ? 0 : i < n ? i : n - 1; }

// ---- values in memory <-> values on chip (half types are held as float)
AC_DEVICE float ac_held(f16 x) { return ac_widen(x); }
AC_DEVICE float ac_held(bf16 x) { return ac_widen(x); }
// 8-bit floats: e4m3 (no infinities, 0x7f is NaN, 448 the largest) and e5m2 (the upper half of an f16)
struct f8e4m3 { unsigned char bits; };
struct f8e5m2 { unsigned char bits; };
AC_DEVICE float ac_held(f8e4m3 x) {
  const unsigned rest = x.bits & 0x7f, sign = (x.bits & 0x80u) << 24;
  const float v = __int_as_float(int(rest << 20)) * 1.329227995784916e36f;  // the exponents' biases differ by 120
  return rest == 0x7f ? ac_nan<float>() : __int_as_float(int(sign | unsigned(__float_as_int(v))));
}
AC_DEVICE float ac_held(f8e5m2 x) {
  const unsigned rest = x.bits & 0x7f, sign = (x.bits & 0x80u) << 24;
  const float v = __int_as_float(int(rest << 21)) * 5.192296858534828e33f;  // by 112
  return rest >= 0x7c ? (rest == 0x7c ? __int_as_float(int(sign | 0x7f800000u)) : ac_nan<float>()) : __int_as_float(int(sign | unsigned(__float_as_int(v))));
}
// rounded to MANTISSA bits, to even at a tie; `low` is the exponent of the smallest normal number, what lies below it is subnormal
template <int MANTISSA, int LOW> AC_DEVICE unsigned ac_eight_bits(float magnitude) {
  if (magnitude < __int_as_float((127 + LOW) << 23)) {
    const float least = __int_as_float((127 + LOW - MANTISSA) << 23);
    return unsigned(int(rintf(magnitude / least)));
  }
  const unsigned b = unsigned(__float_as_int(magnitude)), cut = 23 - MANTISSA;
  return ((b + ((1u << (cut - 1)) - 1) + (b >> cut & 1)) >> cut) - (unsigned(126 + LOW) << MANTISSA);
}
AC_DEVICE f8e4m3 ac_narrow_e4m3(float x) {
  const unsigned sign = unsigned(__float_as_int(x)) >> 24 & 0x80;
  const float a = fabsf(x);
  return {(unsigned char)(sign | (a < 464.0f || a == 464.0f ? ac_eight_bits<3, -6>(a) : 0x7f))};
}
AC_DEVICE f8e5m2 ac_narrow_e5m2(float x) {
  const unsigned sign = unsigned(__float_as_int(x)) >> 24 & 0x80;
  const float a = fabsf(x);
  return {(unsigned char)(sign | (a < 61440.0f ? ac_eight_bits<2, -14>(a) : a != a ? 0x7e : 0x7c))};
}
template <class T> AC_DEVICE T ac_held(T x) { return x; }
template <class T> AC_DEVICE T ac_stored(float x) { return T(x); }
template <> __device__ __forceinline__ f16 ac_stored<f16>(float x) { return ac_narrow_f16(x); }
template <> __device__ __forceinline__ bf16 ac_stored<bf16>(float x) { return ac_narrow_bf16(x); }
template <> __device__ __forceinline__ f8e4m3 ac_stored<f8e4m3>(float x) { return ac_narrow_e4m3(x); }
template <> __device__ __forceinline__ f8e5m2 ac_stored<f8e5m2>(float x) { return ac_narrow_e5m2(x); }
template <class T> AC_DEVICE T ac_stored(double x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(int x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(unsigned x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(long long x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(unsigned long long x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(short x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(unsigned short x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(signed char x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(unsigned char x) { return T(x); }
template <class T> AC_DEVICE T ac_stored(bool x) { return T(x); }
// a double as a float on the way to a half: cut off, its last bit set where something was lost, so that only the half rounds
AC_DEVICE float ac_odd(double x) {
  const float f = float(x);
  const unsigned u = unsigned(__float_as_int(f));
  return double(f) == x || x != x ? f : __int_as_float(int((u - (fabs(double(f)) > fabs(x))) | 1u));
}
template <class T> AC_DEVICE float ac_round(float x) { return ac_held(ac_stored<T>(x)); }
// a small integer less a whole number: as the low bits of a float of known exponent, cheaper than a conversion and as exact
AC_DEVICE float ac_small(unsigned v, float minus) { return __int_as_float(int(0x4b000000u | v)) - (8388608.0f + minus); }
AC_DEVICE float ac_small_signed(int v, float minus) { return __int_as_float(0x4b400000 + v) - (12582912.0f + minus); }
// four bytes of a thread in one word, and one of them as a float less a whole number
template <class T> AC_DEVICE unsigned ac_word(const T *bytes, int i) {
  unsigned w;
  memcpy(&w, bytes + i / 4 * 4, 4);
  return w;
}
#ifndef AC_BYTE_AS_FLOAT
#define AC_BYTE_AS_FLOAT(word, i) __int_as_float(int(0x4b000000u | ((word) >> 8 * (i) & 255u)))
#endif
AC_DEVICE float ac_small_byte(unsigned word, int i, float minus) { return AC_BYTE_AS_FLOAT(word, i) - (8388608.0f + minus); }

template <int N, class T> struct alignas(N * sizeof(T) > 16 ? 16 : N * sizeof(T)) ac_pack_of { T v[N]; };

// N contiguous elements, at an address that is a multiple of their size (16 bytes at most)
template <int N, class R, class S> AC_DEVICE void ac_load(R *r, const S *p) {
  if constexpr (sizeof(S) == 1 && sizeof(R) == 1 && N >= 4) {
    const ac_pack_of<N / 4, unsigned> t = *reinterpret_cast<const ac_pack_of<N / 4, unsigned> *>(p);
    memcpy(r, t.v, N);
  } else {
    const ac_pack_of<N, S> t = *reinterpret_cast<const ac_pack_of<N, S> *>(p);
#pragma unroll
    for (int i = 0; i < N; ++i) r[i] = ac_held(t.v[i]);
  }
}
// N stored values as they lie in memory, and as they are held
template <int N, class S> AC_DEVICE void ac_load_packed(unsigned *r, const S *p) {
  const ac_pack_of<N, S> t = *reinterpret_cast<const ac_pack_of<N, S> *>(p);
  memcpy(r, t.v, N * sizeof(S));
}
template <class S, int N, class R> AC_DEVICE void ac_unpack(R *r, const unsigned *packed) {
  ac_pack_of<N, S> t;
  memcpy(t.v, packed, N * sizeof(S));
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = ac_held(t.v[i]);
}
// the same for what is read once: it should not take the place of what is read again (AC_ONCE: the target has its own). Words of
// `ac_streamed` come in lines that are the first to leave the core's cache
struct ac_usual {};
struct ac_streamed {};
template <int B> AC_DEVICE ac_pack_of<B / 4, unsigned> ac_words(ac_usual, const void *p) { return *reinterpret_cast<const ac_pack_of<B / 4, unsigned> *>(p); }
#ifndef AC_ONCE
template <int B> AC_DEVICE ac_pack_of<B / 4, unsigned> ac_words(ac_streamed, const void *p) { return ac_words<B>(ac_usual(), p); }
template <int N, class R, class S> AC_DEVICE void ac_load_once(R *r, const S *p) { ac_load<N>(r, p); }
#else
template <int B> AC_DEVICE ac_pack_of<B / 4, unsigned> ac_words(ac_streamed, const void *p);
#endif
template <int N, class R, class S> AC_DEVICE void ac_load_streamed(R *r, const S *p) {
  const ac_pack_of<N * sizeof(S) / 4, unsigned> words = ac_words<N * sizeof(S)>(ac_streamed(), p);
  if constexpr (sizeof(S) == 1 && sizeof(R) == 1) memcpy(r, words.v, N);
  else {
    ac_pack_of<N, S> t;
    memcpy(t.v, words.v, sizeof t);
#pragma unroll
    for (int i = 0; i < N; ++i) r[i] = ac_held(t.v[i]);
  }
}
// the same for what is used behind a barrier: its latency passes in front of it (AC_SOON: the target has its own)
#ifndef AC_SOON
template <int N, class R, class S> AC_DEVICE void ac_load_soon(R *r, const S *p) { ac_load<N>(r, p); }
template <int N, class S> AC_DEVICE void ac_ask(unsigned *r, const S *p) { ac_load_packed<N>(r, p); }
#endif
template <int N, class R, class V> AC_DEVICE void ac_fill(R *r, V x) {
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = R(x);
}
// N contiguous elements on their way to shared memory where `inside`, else zeros; and their way on
template <int N, class S> AC_DEVICE ac_pack_of<N, S> ac_fetched(const S *p, bool inside) {
  ac_pack_of<N, S> t;
#pragma unroll
  for (int i = 0; i < N; ++i) t.v[i] = ac_stored<S>(0.0f);
  if (inside) t = *reinterpret_cast<const ac_pack_of<N, S> *>(p);
  return t;
}
template <int N, class S> AC_DEVICE void ac_keep(unsigned char *to, ac_pack_of<N, S> t) { *reinterpret_cast<ac_pack_of<N, S> *>(to) = t; }
// N contiguous values where `ok`, else `other`, which is there in any case: no branch. Short ones are converted behind the load in any case:
// a conversion under the guard would hold its predicate until the load is there, and a thread has seven: loads would come one by one.
template <int N, class By = ac_usual, class R, class S, class V> AC_DEVICE void ac_load_where(R *r, bool ok, const S *p, V other) {
  const S x = ac_stored<S>(other);
  ac_pack_of<N, S> t;
#pragma unroll
  for (int i = 0; i < N; ++i) t.v[i] = x;
  if constexpr (N * sizeof(S) >= 4) {  // by words: one instruction fills several
    ac_pack_of<N * sizeof(S) / 4, unsigned> words;
    memcpy(words.v, t.v, sizeof t);
    if (ok) words = ac_words<N * sizeof(S)>(By(), p);
    memcpy(t.v, words.v, sizeof t);
  } else {
    if (ok) t = *reinterpret_cast<const ac_pack_of<N, S> *>(p);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) r[i] = ac_held(t.v[i]);
}
template <int N, class R, class S, class V> AC_DEVICE void ac_load_streamed_where(R *r, bool ok, const S *p, V other) {
  ac_load_where<N, ac_streamed>(r, ok, p, other);
}
template <int N, class S, class R> AC_DEVICE void ac_store(S *p, const R *r) {
  ac_pack_of<N, S> t;
#pragma unroll
  for (int i = 0; i < N; ++i) t.v[i] = ac_stored<S>(r[i]);
  *reinterpret_cast<ac_pack_of<N, S> *>(p) = t;
}
// N sums that are stored by way of other registers: the zero is one of the launch's, which compilers do not know
template <int N> AC_DEVICE void ac_store_untied(float *p, const float *r) {
  float t[N];
#pragma unroll
  for (int i = 0; i < N; ++i) t[i] = __int_as_float(__float_as_int(r[i]) ^ int(gridDim.z - 1));
  ac_store<N>(p, t);
}
// N contiguous elements from one memory to another
template <int N, class S> AC_DEVICE void ac_move(S *to, const S *from) {
  *reinterpret_cast<ac_pack_of<N, S> *>(to) = *reinterpret_cast<const ac_pack_of<N, S> *>(from);
}

// ---- shared memory: rows of ROW bytes whose 16-byte chunks are permuted by the row, so that eight rows of one chunk column, and
// eight chunks of one row, lie in different banks
template <int ROW> AC_DEVICE int ac_swizzle(int row, int byte) {
  constexpr int chunks = ROW / 16;
  constexpr int phases = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : chunks % 2 == 0 ? 2 : 1;
  return row * ROW + (((byte >> 4) ^ (row / (8 / phases) % phases)) << 4) + (byte & 15);
}
// the chunk of a row that the swizzle puts at place `chunk`, and back
template <int ROW> AC_DEVICE int ac_chunk(int row, int chunk) { return (ac_swizzle<ROW>(row, chunk * 16) - row * ROW) >> 4; }
// element `at` of the factor that a lane holds in registers, and the N - 1 behind it, from shared memory: stored as S, held as F
struct ac_tf32 { float value; };
template <class A, class B> struct ac_same { static constexpr bool value = false; };
template <class A> struct ac_same<A, A> { static constexpr bool value = true; };
template <class S, class F, int N> AC_DEVICE void ac_take(unsigned *r, int at, const unsigned char *p) {
  const ac_pack_of<N, S> from = *reinterpret_cast<const ac_pack_of<N, S> *>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    constexpr int per = 4 / int(sizeof(F));
    F t;
    if constexpr (ac_same<S, F>::value) t = from.v[i];
    else if constexpr (ac_same<F, ac_tf32>::value) t.value = ac_to_tf32(from.v[i]);
    else t = ac_narrow_f16(ac_held(from.v[i]));
    unsigned bits = 0;
    memcpy(&bits, &t, sizeof t);
    const int shift = (at + i) % per * 8 * int(sizeof(F));
    r[(at + i) / per] = shift ? r[(at + i) / per] | bits << shift : bits;
  }
}
template <class S, class F, int N> AC_DEVICE void ac_take(double *r, int at, const unsigned char *p) {
  const ac_pack_of<N, S> from = *reinterpret_cast<const ac_pack_of<N, S> *>(p);
#pragma unroll
  for (int i = 0; i < N; ++i) r[at + i] = double(from.v[i]);
}
// N values on chip as N/2 registers of a half type, in order
template <class S, int N> AC_DEVICE void ac_pack(unsigned (&r)[N / 2], const float *x) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) {
    ac_pack_of<2, S> t;
    t.v[0] = ac_stored<S>(x[2 * i]);
    t.v[1] = ac_stored<S>(x[2 * i + 1]);
    r[i] = *reinterpret_cast<unsigned *>(&t);
  }
}

template <class S> AC_DEVICE unsigned ac_pair(float low, float high) {
  ac_pack_of<2, S> t;
  t.v[0] = ac_stored<S>(low), t.v[1] = ac_stored<S>(high);
  return *reinterpret_cast<unsigned *>(&t);
}
// N elements as they are stored, several a register
template <int N, class S> AC_DEVICE void ac_load_words(unsigned *r, const S *p) {
  constexpr int words = N * int(sizeof(S)) / 4;
  const ac_pack_of<words, unsigned> t = *reinterpret_cast<const ac_pack_of<words, unsigned> *>(p);
  memcpy(r, t.v, sizeof t);
}
#ifndef AC_ONCE
template <int N, class S> AC_DEVICE void ac_load_words_once(unsigned *r, const S *p) { ac_load_words<N>(r, p); }
#endif
// ---- pairs of f16, the first in the low half
#ifndef AC_PAIRS
AC_DEVICE unsigned ac_kept(unsigned x) { return x; }
template <class T = f16> AC_DEVICE float ac_half_of(unsigned pair, int i) {
  const unsigned short bits = (unsigned short)(pair >> 16 * i);
  T x;
  memcpy(&x, &bits, 2);
  return ac_widen(x);
}
AC_DEVICE unsigned ac_pair_add(unsigned a, unsigned b) { return ac_pair<f16>(ac_half_of(a, 0) + ac_half_of(b, 0), ac_half_of(a, 1) + ac_half_of(b, 1)); }
AC_DEVICE unsigned ac_pair_sub(unsigned a, unsigned b) { return ac_pair<f16>(ac_half_of(a, 0) - ac_half_of(b, 0), ac_half_of(a, 1) - ac_half_of(b, 1)); }
AC_DEVICE unsigned ac_pair_mul(unsigned a, unsigned b) { return ac_pair<f16>(ac_half_of(a, 0) * ac_half_of(b, 0), ac_half_of(a, 1) * ac_half_of(b, 1)); }
// fields of byte i of `low` and byte j of `high`, as the mantissas of 1024 + field, times `scale` plus `shift`
AC_DEVICE unsigned ac_pair_fields(unsigned low, unsigned high, int i, int j, unsigned mask, unsigned scale, unsigned shift) {
  const float a = float(low >> 8 * i & mask & 255u), b = float(high >> 8 * j & mask >> 16 & 255u);
  return ac_pair<f16>((1024.0f + a) * ac_half_of(scale, 0) + ac_half_of(shift, 0), (1024.0f + b) * ac_half_of(scale, 1) + ac_half_of(shift, 1));
}
AC_DEVICE unsigned ac_pair_add_bf16(unsigned a, unsigned b) { return ac_pair<bf16>(ac_half_of<bf16>(a, 0) + ac_half_of<bf16>(b, 0), ac_half_of<bf16>(a, 1) + ac_half_of<bf16>(b, 1)); }
AC_DEVICE unsigned ac_pair_sub_bf16(unsigned a, unsigned b) { return ac_pair<bf16>(ac_half_of<bf16>(a, 0) - ac_half_of<bf16>(b, 0), ac_half_of<bf16>(a, 1) - ac_half_of<bf16>(b, 1)); }
AC_DEVICE unsigned ac_pair_mul_bf16(unsigned a, unsigned b) { return ac_pair<bf16>(ac_half_of<bf16>(a, 0) * ac_half_of<bf16>(b, 0), ac_half_of<bf16>(a, 1) * ac_half_of<bf16>(b, 1)); }
// fields of bytes i and i + 2 of a word, as `ac_pair_fields`
AC_DEVICE unsigned ac_pair_apart(unsigned word, int i, unsigned mask, unsigned scale, unsigned shift) { return ac_pair_fields(word, word, i, i + 2, mask, scale, shift); }
// number i of each of two pairs
AC_DEVICE unsigned ac_pair_at(unsigned a, unsigned b, int i) { return (a >> 16 * i & 0xffffu) | (b >> 16 * i) << 16; }
// fields at bits si of byte i of `low` and sj of byte j of `high`, as the mantissas of 128 + field, plus `zero`
AC_DEVICE unsigned ac_pair_fields_bf16(unsigned low, unsigned high, int i, int j, int si, int sj, unsigned mask, unsigned zero) {
  const unsigned a = low >> 8 * i & 255u, b = high >> 8 * j & 255u, x = (a >> si | b << (16 - sj)) & mask;
  return ac_pair<bf16>(128.0f + float(x & 255u) + ac_half_of<bf16>(zero, 0), 128.0f + float(x >> 16) + ac_half_of<bf16>(zero, 1));
}
// fields at bits s of bytes i and i + 2 of a word, as the mantissas of 128 + field, plus `zero`
AC_DEVICE unsigned ac_pair_apart_bf16(unsigned word, int i, int s, unsigned mask, unsigned zero) { return ac_pair_fields_bf16(word, word, i, i + 2, s, s, mask, zero); }
#endif
// zeros in shared memory, by THREADS threads
template <int BYTES, int THREADS> AC_DEVICE void ac_clear(unsigned char *p) {
  for (int i = threadIdx.x * 4; i < BYTES; i += THREADS * 4) *reinterpret_cast<unsigned *>(p + i) = 0;
}

// ---- scalar functions (names as in autocomp.ir.scalar). NaN: max, min and relu pass it on.
AC_DEVICE bool ac_and(bool a, bool b) { return a && b; }
AC_DEVICE bool ac_or(bool a, bool b) { return a || b; }
AC_DEVICE double ac_max(double a, double b) { return a > b || a != a ? a : b; }
AC_DEVICE double ac_min(double a, double b) { return a < b || a != a ? a : b; }
template <class T> AC_DEVICE T ac_max(T a, T b) { return a > b ? a : b; }
template <class T> AC_DEVICE T ac_min(T a, T b) { return a < b ? a : b; }
template <> __device__ __forceinline__ int ac_max<int>(int a, int b) { return ac_alone(a > b ? a : b); }
template <> __device__ __forceinline__ int ac_min<int>(int a, int b) { return ac_alone(a < b ? a : b); }
template <class T> AC_DEVICE T ac_abs(T x) { return x < 0 ? T(0ull - (unsigned long long)x) : x; }
template <> __device__ __forceinline__ float ac_abs<float>(float x) { return fabsf(x); }
template <> __device__ __forceinline__ double ac_abs<double>(double x) { return fabs(x); }
template <class T> AC_DEVICE T ac_relu(T x) { return x > 0 ? x : T(0); }
template <> __device__ __forceinline__ float ac_relu<float>(float x) { return ac_max(x, 0.0f); }
template <> __device__ __forceinline__ double ac_relu<double>(double x) { return ac_max(x, 0.0); }
template <class T> AC_DEVICE T ac_sign(T x) { return x != x ? x : T((x > 0) - (x < 0)); }
template <class T> AC_DEVICE T ac_pow(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  T r = 1;
  const auto times = [](T x, T y) { return T((unsigned long long)x * (unsigned long long)y); };  // modulo 2^bits
  for (; b; b /= 2, a = times(a, a)) if (b % 2) r = times(r, a);
  return r;
}
template <class T> AC_DEVICE T ac_shl(T x, T n) { return (unsigned long long)n < 8 * sizeof(T) ? T(x << n) : T(0); }
template <class T> AC_DEVICE T ac_shr(T x, T n) { return (unsigned long long)n < 8 * sizeof(T) ? T(x >> n) : x < 0 ? T(-1) : T(0); }

// e^x = 2^t e^(x - t ln 2), t = x log2 e as rounded; the second exponent is so small that 1 + it is its exponential
AC_DEVICE float ac_exp(float x) {
  const float t = x * 1.44269504f, e = fmaf(t, 1.9046542e-9f, fmaf(t, -0.69314718f, x)), r = ac_ex2(t);
  return fabsf(t) < 128.0f ? fmaf(r, e, r) : r;
}
AC_DEVICE float ac_exp2(float x) { return exp2f(x); }
// rounding and division are exact; the others are the toolkit's, a few units in the last place
#define AC_BOTH(name, single, twice) \
  AC_DEVICE float ac_##name(float x) { return single(x); } \
  AC_DEVICE double ac_##name(double x) { return twice(x); }
AC_BOTH(expm1, expm1f, expm1) AC_BOTH(log, logf, log) AC_BOTH(log2, log2f, log2) AC_BOTH(log1p, log1pf, log1p) AC_BOTH(sqrt, sqrtf, sqrt)
AC_BOTH(rsqrt, rsqrtf, rsqrt) AC_BOTH(tan, tanf, tan) AC_BOTH(asin, asinf, asin)
AC_BOTH(acos, acosf, acos) AC_BOTH(atan, atanf, atan) AC_BOTH(sinh, sinhf, sinh) AC_BOTH(cosh, coshf, cosh) AC_BOTH(tanh, tanhf, tanh)
AC_BOTH(asinh, asinhf, asinh) AC_BOTH(acosh, acoshf, acosh) AC_BOTH(atanh, atanhf, atanh) AC_BOTH(floor, floorf, floor)
AC_BOTH(ceil, ceilf, ceil) AC_BOTH(round, rintf, rint) AC_BOTH(trunc, truncf, trunc) AC_BOTH(erf, erff, erf)
// sin and cos: x less its nearest multiple j of pi / 2 in three steps (Cody and Waite), right to an ulp up to AC_NEAR; j's last bits choose the
// function and the sign. Coefficients: Cephes, sinf.c. What is larger takes the toolkit's long way (Payne and Hanek), one copy of it a kernel
#define AC_NEAR 105615.0f
AC_DEVICE float ac_turned(float x, int more) {
  const float t = fmaf(x, 0.636619772f, 12582912.0f), j = t - 12582912.0f;
  const float r = fmaf(j, -5.39030253e-15f, fmaf(j, -7.54978942e-08f, fmaf(j, -1.57079625f, x))), s = r * r;
  const int quarter = __float_as_int(t) + more;
  const bool odd = quarter & 1;
  const float p = fmaf(odd ? fmaf(2.44331571e-5f, s, -1.38873162e-3f) : -1.95152959e-4f, s, odd ? 4.16666457e-2f : 8.33216087e-3f);
  const float first = odd ? 1.0f : r, v = fmaf(fmaf(p, s, odd ? -0.5f : -1.66666546e-1f), fmaf(first, s, 0.0f), first);
  return __int_as_float(__float_as_int(v) ^ ((quarter & 2) << 30));
}
AC_APART float ac_turned_far(float x, int more) { return more ? cosf(x) : sinf(x); }
AC_DEVICE float ac_sin(float x) { return fabsf(x) <= AC_NEAR ? ac_turned(x, 0) : ac_turned_far(x, 0); }
AC_DEVICE float ac_cos(float x) { return fabsf(x) <= AC_NEAR ? ac_turned(x, 1) : ac_turned_far(x, 1); }
AC_DEVICE double ac_sin(double x) { return sin(x); }
AC_DEVICE double ac_cos(double x) { return cos(x); }
AC_DEVICE double ac_exp(double x) { return exp(x); }
AC_DEVICE double ac_exp2(double x) { return exp2(x); }
AC_DEVICE float ac_fmod(float a, float b) { return fmodf(a, b); }
AC_DEVICE double ac_fmod(double a, double b) { return fmod(a, b); }
// the remainder has the divisor's sign, a zero too; the quotient is that of a - remainder, which is whole but for its rounding (1 / 0.1 is
// rounded to 10, its floor is 9)
template <class T> AC_DEVICE T ac_remainder(T a, T b) {
  const T r = ac_fmod(a, b), zero = b < 0 ? T(-0.0) : T(0);
  return r == 0 ? zero : (r < 0) != (b < 0) ? r + b : r;
}
template <class T> AC_DEVICE T ac_floor_quotient(T a, T b) {
  const T r = ac_fmod(a, b), q = (a - r) / b - T(r != 0 && (r < 0) != (b < 0)), low = ac_floor(q);
  return b == 0 ? a / b : q == 0 ? a / b * 0 : q - low > T(0.5) ? low + 1 : low;
}
AC_DEVICE float ac_mod(float a, float b) { return ac_remainder(a, b); }
AC_DEVICE double ac_mod(double a, double b) { return ac_remainder(a, b); }
AC_DEVICE float ac_floordiv(float a, float b) { return ac_floor_quotient(a, b); }
AC_DEVICE double ac_floordiv(double a, double b) { return ac_floor_quotient(a, b); }
AC_DEVICE float ac_pow(float a, float b) { return powf(a, b); }
AC_DEVICE double ac_pow(double a, double b) { return pow(a, b); }
template <class T> AC_DEVICE bool ac_isnan(T x) { return x != x; }
AC_DEVICE int ac_ordinal(float x) {
  const int bits = __float_as_int(x), size = bits & 0x7fffffff;
  return size > 0x7f800000 ? 0x7fffffff : bits < 0 ? -size : size;
}
template <class T> AC_DEVICE bool ac_isinf(T x) { return x == ac_inf<T>() || x == -ac_inf<T>(); }
AC_DEVICE double ac_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
// a quarter of the divisor has no reciprocal below the normal numbers, which the unit would make 0: at most 6 units in the last place
AC_DEVICE float ac_sigmoid(float x) { return ac_reciprocal(fmaf(ac_exp(-x), 0.25f, 0.25f)) * 0.25f; }
AC_DEVICE double ac_silu(double x) { return x / (1.0 + exp(-x)); }
AC_DEVICE float ac_silu(float x) { return x * ac_sigmoid(x); }
AC_DEVICE double ac_softplus(double x) { return ac_max(x, 0.0) + log1p(exp(-fabs(x))); }
// max(x, 0) + e P(e), e = exp(-|x|), P fitted to log(1 + e) / e over 0 .. 1 with P(0) = 1: relative error 3.3e-8, rounded 2 units of the last place
AC_DEVICE float ac_softplus(float x) {
  const float e = ac_exp(-fabsf(x));
  float p = fmaf(e, 5.36482269e-3f, -3.00657861e-2f);
  p = fmaf(e, p, 7.92045221e-2f);
  p = fmaf(e, p, -1.37538016e-1f);
  p = fmaf(e, p, 1.91536546e-1f);
  p = fmaf(e, p, -2.48571634e-1f);
  p = fmaf(e, p, 3.33213240e-1f);
  p = fmaf(e, p, -4.99996483e-1f);
  p = fmaf(e, p, 1.0f);
  return fmaf(e, p, ac_max(x, 0.0f));
}
template <class T> AC_DEVICE T ac_gelu(T x) { return T(0.5) * x * (T(1) + ac_erf(x * T(0.7071067811865476))); }
// x tanh(log(1 + e)) for e = exp(x) is x n / (n + 2), n = e (e + 2); from x = 20 on it is x. The quotient is corrected
// once, so that it is at most 1; at most 6 units in the last place
AC_DEVICE float ac_mish(float x) {
  const float e = ac_exp(ac_min(x, 20.0f)), n = e * (e + 2.0f), d = n + 2.0f, r = ac_reciprocal(d), q = n * r;
  return x * fmaf(fmaf(-q, d, n), r, q);
}
AC_DEVICE double ac_mish(double x) {
  const double e = exp(ac_min(x, 20.0)), n = e * (e + 2.0);
  return x * (n / (n + 2.0));
}
// (1 + tanh u) / 2 is the sigmoid of 2 u
template <class T> AC_DEVICE T ac_gelu_tanh(T x) { return x * ac_sigmoid(x * (T(1.5957691216057308) + T(0.07135481627260025) * x * x)); }

// ---- cheaper forms where operands and results are half types (errors far below 2^-11, stated in docs/targets.md)
AC_DEVICE float ac_sin_f16(float x) { return fabsf(x) <= AC_NEAR ? ac_turned(x, 0) : __int_as_float(0x7fffffff); }
AC_DEVICE float ac_cos_f16(float x) { return fabsf(x) <= AC_NEAR ? ac_turned(x, 1) : __int_as_float(0x7fffffff); }
AC_DEVICE float ac_exp_half(float x) { return ac_ex2(x * 1.44269504f); }
AC_DEVICE float ac_exp2_half(float x) { return ac_ex2(x); }
AC_DEVICE float ac_expm1_half(float x) {
  const float near = x * fmaf(fmaf(x, 0.166666672f, 0.5f), x, 1.0f);  // where e^x - 1 has lost its digits; -0 of -0
  return fabsf(x) < 0.03125f ? near : ac_ex2(x * 1.44269504f) - 1.0f;
}
// finite for a maximum that is the least number yet: of -inf it leaves 0, not inf - inf
AC_DEVICE float ac_exp_scaled_difference_half(float x, float scale, float m) { return ac_ex2(fmaf(x, scale, -ac_max(m * 1.44269504f, -3.40282347e+38f))); }
AC_DEVICE float ac_exp_difference_half(float x, float m) { return ac_exp_scaled_difference_half(x, 1.44269504f, m); }
// the two above are off by a factor that the rounding of m * log2 e makes, up to 1.003 where m is 60000; where it does not cancel, or x may be
// a type's least number, whose product with log2 e is no float:
AC_DEVICE float ac_exp_far_difference_half(float x, float m) { return ac_ex2((x - ac_max(m, -3.40282347e+38f)) * 1.44269504f); }
// corrected once, so that a quotient that is a number of the type is that number (its floor may be asked for); as it is where it is no number
AC_DEVICE float ac_div_half(float a, float b) {
  const float r = ac_reciprocal(b), q = a * r, e = fmaf(-q, b, a);
  return e != 0.0f && fabsf(e) <= 3.40282347e+38f ? fmaf(e, r, q) : q;  // where nothing is left, q keeps its zero's sign
}
// x / y where several x have one y (directive shared_divisors): what y alone decides is computed once, as nothing jumps. Corrected twice, as a
// division is: what rounds or compares it decides the same. Where x (of y above 2^64 x / 2^64) is below 2^-100 what is left to correct is not
// whole: within a unit in the last place, below the normal numbers within two of their steps
AC_DEVICE float ac_divide(float x, float y) {
  const float k = fabsf(y) < 5.42101086e-20f ? 1.84467441e+19f : fabsf(y) > 1.84467441e+19f ? 5.42101086e-20f : 1.0f;
  const float d = y * k, a = x * k, s = ac_reciprocal(d), nearer = fmaf(fmaf(-d, s, 1.0f), s, s);
  const float r = fabsf(nearer) <= 3.40282347e+38f ? nearer : s;  // of 0 and infinity as they are
  const float q = a * r, e = fmaf(-q, d, a), near = fmaf(e, r, q), last = fmaf(fmaf(-near, d, a), r, near);
  return e != 0.0f && fabsf(e) <= 3.40282347e+38f ? last : q;  // where nothing is left, q keeps its zero's sign
}
AC_DEVICE float ac_tanh_half(float x) {
  const float e = ac_ex2(fabsf(x) * -2.88539008f);
  const float near = x * fmaf(x * x, -0.333333343f, 1.0f);  // where 1 - e has lost its digits
  return fabsf(x) < 0.0625f ? near : copysignf((1.0f - e) * ac_reciprocal(1.0f + e), x);
}
AC_DEVICE float ac_sigmoid_half(float x) { return ac_reciprocal(1.0f + ac_ex2(x * -1.44269504f)); }
AC_DEVICE float ac_silu_half(float x) { return x * ac_sigmoid_half(x); }
AC_DEVICE float ac_mish_half(float x) {
  const float e = ac_ex2(ac_min(x, 20.0f) * 1.44269504f), n = e * (e + 2.0f);
  return x * (n * ac_reciprocal(n + 2.0f));
}
// x Phi(x) = max(x, 0) - |x| 2^P(|x|), P fitted to log2(erfc(|x| / sqrt 2) / 2) by least squares: absolute error below 5e-7
AC_DEVICE float ac_gelu_half(float x) {
  const float a = ac_min(fabsf(x), 3.40282347e+38f);  // of infinity: inf * 0
  float p = fmaf(a, -4.73309687e-4f, 7.08456011e-3f);
  p = fmaf(a, p, -5.18273897e-2f);
  p = fmaf(a, p, -4.59992439e-1f);
  p = fmaf(a, p, -1.15078783f);
  p = fmaf(a, p, -1.00003767f);
  return fmaf(-a, ac_ex2(p), ac_max(x, 0.0f));
}

// ---- sums in parts
struct alignas(16) ac_four { float x[4]; };
// four values of this block, and of the others in the order of their numbers, each `step` bytes behind the last: added in the order of all
template <int PARTS> AC_DEVICE void ac_add_parts(float *x, const unsigned char *others, int step, int mine) {
  ac_four sum;
#pragma unroll
  for (int p = 0; p < PARTS; ++p) {
    ac_four v{{x[0], x[1], x[2], x[3]}};
    if (p != mine) v = *reinterpret_cast<const ac_four *>(others + (p - (p > mine)) * step);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.x[i] = p ? sum.x[i] + v.x[i] : v.x[i];
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = sum.x[i];
}
