// Vector functions that Ascend C does not have as one instruction. Every temporary is as large as the values. A tile has rows of
// `pitch` elements; a statistic has one 32-byte block a row, its value in all 8 lanes.
#pragma once
#include "kernel_operator.h"
using namespace AscendC;

using ac_f32 = LocalTensor<float>;
#define AC_FN __aicore__ inline void
#define AC_V PipeBarrier<PIPE_V>()

template <typename T> __aicore__ inline LocalTensor<T> ac_at(TBuf<TPosition::VECCALC> &memory, uint32_t bytes, uint32_t at) {
  return memory.GetWithOffset<T>(bytes / sizeof(T), at);
}

__aicore__ inline DataCopyExtParams ac_copy(uint32_t rows, uint32_t bytes, uint32_t from_gap, uint32_t to_gap) {
  DataCopyExtParams p;
  p.blockCount = rows;
  p.blockLen = bytes;
  p.srcStride = from_gap;
  p.dstStride = to_gap;
  return p;
}

__aicore__ inline uint32_t ac_least(uint32_t a, uint32_t b) { return a < b ? a : b; }
__aicore__ inline int32_t ac_most(int32_t a, int32_t b) { return a > b ? a : b; }
__aicore__ inline int32_t ac_fewest(int32_t a, int32_t b) { return a < b ? a : b; }
__aicore__ inline int32_t ac_ceil(int32_t a, int32_t b) { return a > 0 ? (a + b - 1) / b : -(-a / b); }
__aicore__ inline uint64_t ac_clamped(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

AC_FN ac_neg(const ac_f32 &d, const ac_f32 &x, uint32_t n) { Muls(d, x, -1.0f, n); }

// Whole numbers in single precision: the conversion from a type to itself rounds. A 310P's does not; sums do: from 2^23 on neighbours are whole
// numbers, so (p + 2^23) - 2^23 is p rounded to even. Positive and negative numbers have a pass each, by which the others stay what they are.
#if __NPU_ARCH__ == 2002
// d = x rounded where it has c's sign, |c| = 2^23; `past` is 1: down, -1: up, 0: to even. t, u: as many elements as x, which d may be.
AC_FN ac_rounded(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, const ac_f32 &u, float c, int past, uint32_t n) {
  Maxs(t, x, c < 0 ? c : 0.0f, n);
  AC_V;
  Mins(t, t, c < 0 ? 0.0f : c, n);
  AC_V;
  Adds(u, t, c, n);
  AC_V;
  Adds(u, u, -c, n);
  AC_V;
  Sub(u, u, t, n);  // by how much that is more than x, exact; 0 for what has no fraction or the other sign
  AC_V;
  Add(d, x, u, n);
  if (past > 0) Maxs(u, u, 0.0f, n);
  if (past < 0) Mins(u, u, 0.0f, n);
  AC_V;
  if (past == 0) return;
  Muls(u, u, 3e38f, n);
  AC_V;
  Muls(u, u, 3e38f, n);
  AC_V;
  if (past > 0) Mins(u, u, 1.0f, n);
  if (past < 0) Maxs(u, u, -1.0f, n);
  AC_V;
  Sub(d, d, u, n);
  AC_V;
}
#define AC_ROUNDED(name, positive, negative)                                                           \
  AC_FN name(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, const ac_f32 &u, uint32_t n) {          \
    ac_rounded(d, x, t, u, 8388608.0f, positive, n);                                                    \
    ac_rounded(d, d, t, u, -8388608.0f, negative, n);                                                   \
  }
#else
AC_FN ac_floor(const ac_f32 &d, const ac_f32 &x, uint32_t n) { Cast(d, x, RoundMode::CAST_FLOOR, n); }
AC_FN ac_ceil(const ac_f32 &d, const ac_f32 &x, uint32_t n) { Cast(d, x, RoundMode::CAST_CEIL, n); }
AC_FN ac_round(const ac_f32 &d, const ac_f32 &x, uint32_t n) { Cast(d, x, RoundMode::CAST_RINT, n); }
AC_FN ac_trunc(const ac_f32 &d, const ac_f32 &x, uint32_t n) { Cast(d, x, RoundMode::CAST_TRUNC, n); }
#define AC_ROUNDED(name, positive, negative) \
  AC_FN name(const ac_f32 &d, const ac_f32 &x, const ac_f32 &, const ac_f32 &, uint32_t n) { name(d, x, n); }
#endif
AC_ROUNDED(ac_floor, 1, 1)
AC_ROUNDED(ac_ceil, -1, -1)
AC_ROUNDED(ac_round, 0, 0)
AC_ROUNDED(ac_trunc, 1, -1)

// Whole numbers as a type of 8 bits has them, which begins at -low: x - 256 floor((x + low) / 256). u, v: for the rounding.
AC_FN ac_wrapped(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, const ac_f32 &u, const ac_f32 &v, float low, uint32_t n) {
  Adds(t, x, low, n);
  AC_V;
  Muls(t, t, 0.00390625f, n);
  AC_V;
  ac_floor(t, t, u, v, n);
  AC_V;
  Muls(t, t, -256.0f, n);
  AC_V;
  Add(d, x, t, n);
}
#if __NPU_ARCH__ != 2002
AC_FN ac_wrapped(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, float low, uint32_t n) { ac_wrapped(d, x, t, t, t, low, n); }
#endif

AC_FN ac_exp2(const ac_f32 &d, const ac_f32 &x, uint32_t n) {
  Muls(d, x, 0.693147180559945f, n);
  AC_V;
  Exp(d, d, n);
}

AC_FN ac_rsqrt(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t n) {  // Rsqrt is an approximation; this is not
  Sqrt(t, x, n);
  Duplicate(d, 1.0f, n);
  AC_V;
  Div(d, d, t, n);
}

AC_FN ac_sigmoid(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t n) {
  Muls(t, x, -1.0f, n);
  AC_V;
  Exp(t, t, n);
  AC_V;
  Adds(t, t, 1.0f, n);
  Duplicate(d, 1.0f, n);
  AC_V;
  Div(d, d, t, n);
}

AC_FN ac_silu(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t n) {
  Muls(t, x, -1.0f, n);
  AC_V;
  Exp(t, t, n);
  AC_V;
  Adds(t, t, 1.0f, n);
  AC_V;
  Div(d, x, t, n);
}

AC_FN ac_tanh(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t n) {  // (e - 1) / (e + 1), e = exp(2 x), |x| <= 10
  Mins(t, x, 10.0f, n);
  AC_V;
  Maxs(t, t, -10.0f, n);
  AC_V;
  Muls(t, t, 2.0f, n);
  AC_V;
  Exp(t, t, n);
  AC_V;
  Adds(d, t, -1.0f, n);
  Adds(t, t, 1.0f, n);
  AC_V;
  Div(d, d, t, n);
}

// max(x, 0) + log(1 + u), u = exp(-|x|): log(1 + u) = 2 artanh(s), s = u / (2 + u) <= 1 / 3, by the series in s^2 up to s^17, which is
// right to single precision where u is so small that 1 + u is 1.
AC_FN ac_softplus(const ac_f32 &d, const ac_f32 &x, const ac_f32 &s, const ac_f32 &q, uint32_t n) {
  Abs(s, x, n);
  AC_V;
  Muls(s, s, -1.0f, n);
  AC_V;
  Exp(s, s, n);
  AC_V;
  Adds(q, s, 2.0f, n);
  AC_V;
  Div(s, s, q, n);
  AC_V;
  Mul(q, s, s, n);
  AC_V;
  Muls(d, q, 2.0f / 17.0f, n);
  AC_V;
  for (int k = 15; k > 0; k -= 2) {
    Adds(d, d, 2.0f / k, n);
    AC_V;
    if (k > 1) Mul(d, d, q, n);
    AC_V;
  }
  Mul(d, d, s, n);
  Maxs(q, x, 0.0f, n);
  AC_V;
  Add(d, d, q, n);
}

// erf(x) = x P(x^2) / Q(x^2) on [-3.92, 3.92]; the fit that the vendor's operator library uses.
AC_FN ac_erf(const ac_f32 &d, const ac_f32 &x, const ac_f32 &s, const ac_f32 &p, const ac_f32 &c, uint32_t n) {
  const float up[6] = {0.53443748819e-1f, 0.75517016694e1f, 0.10162808918e3f, 0.13938061484e4f, 0.50637915060e4f, 0.29639384698e5f};
  const float low[5] = {0.31212858877e2f, 0.39856963806e3f, 0.30231248150e4f, 0.13243365831e5f, 0.26267224157e5f};
  Mins(c, x, 3.92f, n);
  AC_V;
  Maxs(c, c, -3.92f, n);
  AC_V;
  Mul(s, c, c, n);
  AC_V;
  Muls(p, s, up[0], n);
  AC_V;
  for (int i = 1; i < 6; ++i) {
    Adds(p, p, up[i], n);
    AC_V;
    if (i < 5) Mul(p, p, s, n);
    AC_V;
  }
  Mul(p, p, c, n);
  Adds(d, s, low[0], n);
  AC_V;
  for (int i = 1; i < 5; ++i) {
    Mul(d, d, s, n);
    AC_V;
    Adds(d, d, low[i], n);
    AC_V;
  }
  Div(d, p, d, n);
}

AC_FN ac_gelu(const ac_f32 &d, const ac_f32 &x, const ac_f32 &s, const ac_f32 &p, const ac_f32 &c, const ac_f32 &e, uint32_t n) {
  Muls(e, x, 0.707106781186548f, n);
  AC_V;
  ac_erf(d, e, s, p, c, n);
  AC_V;
  Adds(d, d, 1.0f, n);
  Muls(e, x, 0.5f, n);
  AC_V;
  Mul(d, d, e, n);
}

AC_FN ac_gelu_tanh(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, const ac_f32 &u, uint32_t n) {
  Mul(u, x, x, n);
  AC_V;
  Muls(u, u, 0.044715f, n);
  AC_V;
  Adds(u, u, 1.0f, n);
  AC_V;
  Mul(u, u, x, n);
  AC_V;
  Muls(u, u, -1.59576912160573f, n);  // x sigmoid(1.5957 (x + 0.0447 x^3))
  AC_V;
  Exp(t, u, n);
  AC_V;
  Adds(t, t, 1.0f, n);
  AC_V;
  Div(d, x, t, n);
}

// sin(x + half pi), half 0 or 1/2: (-1)^(k + half) sin(r), r = x - k pi, k = round(x / pi + half) - half. Pi is three parts of 11 bits and what is
// left, k (22 bits, 23 with the half) is two of which the lower has 13 at most: all products but the last are exact. sin(r) by its series
// up to r^13, which is right to single precision up to pi / 2. Beyond 2^23, where neighbours are whole numbers, the result is no number.
AC_FN ac_wave(const ac_f32 &d, const ac_f32 &x, const ac_f32 &k, const ac_f32 &h, const ac_f32 &l, const ac_f32 &t, float half, uint32_t n) {
  const float pi[3] = {3.140625f, 0.000967502593994140625f, 1.50990672409534454e-7f};
  const float by[6] = {1.0f / 6227020800.0f, -1.0f / 39916800.0f, 1.0f / 362880.0f, -1.0f / 5040.0f, 1.0f / 120.0f, -1.0f / 6.0f};
  Muls(k, x, 0.318309886183790672f, n);
  AC_V;
  Adds(k, k, half, n);
  AC_V;
  ac_round(k, k, l, t, n);
  AC_V;
  Adds(k, k, -half, n);
  AC_V;
  Muls(h, k, 0.000244140625f, n);
  AC_V;
  ac_trunc(h, h, l, t, n);
  AC_V;
  Muls(h, h, 4096.0f, n);
  AC_V;
  Sub(l, k, h, n);
  Adds(d, x, 0.0f, n);
  for (int i = 0; i < 3; ++i) {
    Muls(t, h, pi[i], n);
    AC_V;
    Sub(d, d, t, n);
    AC_V;
    Muls(t, l, pi[i], n);
    AC_V;
    Sub(d, d, t, n);
    AC_V;
  }
  Muls(t, k, 5.12668830318903758e-12f, n);
  AC_V;
  Adds(k, k, half, n);
  AC_V;
  Sub(d, d, t, n);
  Muls(h, k, 0.5f, n);
  AC_V;
  ac_floor(h, h, l, t, n);
  Mul(l, d, d, n);
  AC_V;
  Muls(h, h, -2.0f, n);
  Muls(t, l, by[0], n);
  AC_V;
  Add(h, h, k, n);  // 1 where k is odd
  for (int i = 1; i < 6; ++i) {
    Adds(t, t, by[i], n);
    AC_V;
    Mul(t, t, l, n);
    AC_V;
  }
  Muls(h, h, -2.0f, n);
  Mul(t, t, d, n);
  AC_V;
  Adds(h, h, 1.0f, n);
  Add(d, d, t, n);
  AC_V;
  Abs(t, x, n);
  Mul(d, d, h, n);
  AC_V;
  Adds(t, t, -8388608.0f, n);
  AC_V;
  Maxs(t, t, 0.0f, n);
  AC_V;
  Muls(t, t, 3e38f, n);
  AC_V;
  Muls(t, t, 3e38f, n);
  AC_V;
  Sub(t, t, t, n);
  AC_V;
  Add(d, d, t, n);
}
AC_FN ac_sin(const ac_f32 &d, const ac_f32 &x, const ac_f32 &k, const ac_f32 &h, const ac_f32 &l, const ac_f32 &t, uint32_t n) {
  ac_wave(d, x, k, h, l, t, 0.0f, n);
}
AC_FN ac_cos(const ac_f32 &d, const ac_f32 &x, const ac_f32 &k, const ac_f32 &h, const ac_f32 &l, const ac_f32 &t, uint32_t n) {
  ac_wave(d, x, k, h, l, t, 0.5f, n);
}
AC_FN ac_tan(const ac_f32 &d, const ac_f32 &x, const ac_f32 &k, const ac_f32 &h, const ac_f32 &l, const ac_f32 &t, const ac_f32 &c, uint32_t n) {
  ac_cos(c, x, k, h, l, t, n);
  AC_V;
  ac_sin(d, x, k, h, l, t, n);
  AC_V;
  Div(d, d, c, n);
}

// Rows with a value a row (in either place) and rows with a vector along them. An instruction takes 64 columns of up to 240 rows, a repeat a
// row, or 15360 columns of one row, whichever are fewer; a repeat's operands begin at most 255 blocks behind those of the one before.
__aicore__ inline uint32_t ac_piece(uint32_t left) {  // elements that one instruction takes: at most 240 repeats of 64
  return left < 64 ? left : left < 15360 ? left / 64 * 64 : 15360;
}
__aicore__ inline uint32_t ac_240(uint32_t rows) { return rows < 240 ? rows : 240; }
__aicore__ inline bool ac_by_columns(uint32_t rows, uint32_t pitch) { return pitch <= 2040 && (pitch + 63) / 64 < rows; }
#define AC_COLUMNS(Op, a, b, ...)                                                                                        \
  if (ac_by_columns(rows, pitch)) {                                                                                      \
    for (uint32_t r = 0; r < rows; r += 240)                                                                             \
      for (uint32_t c = 0; c < pitch; c += 64)                                                                           \
        Op(d[r * pitch + c], a, b, pitch - c < 64 ? pitch - c : 64, ac_240(rows - r), {__VA_ARGS__});                    \
    return;                                                                                                              \
  }
#define AC_EACH(Op, a, b, ...)                                                                     \
  for (uint32_t r = 0; r < rows; ++r)                                                              \
    for (uint32_t c = 0, n = 0; c < pitch; c += n) {                                               \
      n = ac_piece(pitch - c);                                                                     \
      Op(d[r * pitch + c], a, b, n < 64 ? n : 64, n < 64 ? 1 : n / 64, {__VA_ARGS__});             \
    }
#define AC_T template <typename T> AC_FN
#define AC_BROADCAST(Op)                                                                           \
  AC_T ac_##Op##_stat(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &v, uint32_t rows, uint32_t pitch) { \
    AC_COLUMNS(Op, x[r * pitch + c], v[r * 8], 1, 1, 0, pitch / 8, pitch / 8, 1)                   \
    AC_EACH(Op, x[r * pitch + c], v[r * 8], 1, 1, 0, 8, 8, 0)                                      \
  }                                                                                                \
  AC_T ac_stat_##Op(const LocalTensor<T> &d, const LocalTensor<T> &v, const LocalTensor<T> &x, uint32_t rows, uint32_t pitch) { \
    AC_COLUMNS(Op, v[r * 8], x[r * pitch + c], 1, 0, 1, pitch / 8, 1, pitch / 8)                   \
    AC_EACH(Op, v[r * 8], x[r * pitch + c], 1, 0, 1, 8, 0, 8)                                      \
  }                                                                                                \
  AC_T ac_##Op##_line(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &g, uint32_t rows, uint32_t pitch) { \
    AC_COLUMNS(Op, x[r * pitch + c], g[c], 1, 1, 1, pitch / 8, pitch / 8, 0)                       \
    for (uint32_t r = 0; r < rows; ++r) Op(d[r * pitch], x[r * pitch], g, pitch);                  \
  }                                                                                                \
  AC_T ac_line_##Op(const LocalTensor<T> &d, const LocalTensor<T> &g, const LocalTensor<T> &x, uint32_t rows, uint32_t pitch) { \
    AC_COLUMNS(Op, g[c], x[r * pitch + c], 1, 1, 1, pitch / 8, 0, pitch / 8)                       \
    for (uint32_t r = 0; r < rows; ++r) Op(d[r * pitch], g, x[r * pitch], pitch);                  \
  }
AC_BROADCAST(Add)
AC_BROADCAST(Sub)
AC_BROADCAST(Mul)
AC_BROADCAST(Div)
AC_BROADCAST(Max)
AC_BROADCAST(Min)
// d = d v + x with a value a row: two clocks a repeat, as d and x are read at once beside v, and no result on the way.
AC_FN ac_scaled_sum(const ac_f32 &d, const ac_f32 &v, const ac_f32 &x, uint32_t rows, uint32_t pitch) {
  AC_COLUMNS(FusedMulAdd, v[r * 8], x[r * pitch + c], 1, 0, 1, pitch / 8, 1, pitch / 8)
  AC_EACH(FusedMulAdd, v[r * 8], x[r * pitch + c], 1, 0, 1, 8, 0, 8)
}
// d = x by - v with a value a row: v is spread over the rows and x by added to it, which waits for no banks as a difference of x and v would.
AC_FN ac_scaled_less(const ac_f32 &d, const ac_f32 &x, const ac_f32 &v, float by, uint32_t rows, uint32_t pitch, uint32_t n) {
  if (ac_by_columns(rows, pitch)) {
    for (uint32_t r = 0; r < rows; r += 240)
      for (uint32_t c = 0; c < pitch; c += 64)
        Muls(d[r * pitch + c], v[r * 8], -1.0f, pitch - c < 64 ? pitch - c : 64, ac_240(rows - r), {1, 0, uint8_t(pitch / 8), 1});
  } else {
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t c = 0, m = 0; c < pitch; c += m) {
        m = ac_piece(pitch - c);
        Muls(d[r * pitch + c], v[r * 8], -1.0f, m < 64 ? m : 64, m < 64 ? 1 : m / 64, {1, 0, 8, 0});
      }
  }
  AC_V;
  Axpy(d, x, by, n);
}

__aicore__ inline uint32_t ac_248(uint32_t rows) { return rows < 248 ? rows : 248; }  // repeats that one instruction takes, in whole blocks
// One value a row, from the first lane of every block: dense first, then spread over the block. rows: a multiple of 8.
AC_FN ac_compact(const ac_f32 &d, const ac_f32 &v, uint32_t rows) {
  for (uint32_t r = 0; r < rows; r += 248) WholeReduceSum(d[r], v[r * 8], 1, rows - r < 248 ? rows - r : 248, 1, 1, 1);
}
AC_T ac_widen(const LocalTensor<T> &d, const LocalTensor<T> &t, uint32_t rows) {
  for (uint32_t r = 0; r < rows; r += 1920) Brcb(d[r * 8], t[r], (rows - r < 1920 ? rows - r : 1920) / 8, {1, 8});
}
AC_FN ac_spread(const ac_f32 &d, const ac_f32 &t, uint32_t rows) {
  ac_compact(t, d, rows);
  AC_V;
  ac_widen(d, t, rows);
}

// d = d v + x, all of them a block a row.
AC_FN ac_scaled_add(const ac_f32 &d, const ac_f32 &v, const ac_f32 &x, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 15360) FusedMulAdd(d[i], v[i], x[i], 64, ac_240((n - i) / 64), {1, 1, 1, 8, 8, 8});
}
// d = d v, and then the sums of the blocks of eight elements of each row: of 64 columns at a time, each block's into a lane of d. t: as d.
AC_FN ac_lane_sums(const ac_f32 &d, const ac_f32 &v, const ac_f32 &x, const ac_f32 &t, uint32_t rows, uint32_t slots, uint32_t lanes,
                   uint32_t pitch, bool scaled) {
  if (rows < slots) Duplicate(t, 0.0f, slots * 8);
  if (scaled && lanes < 64) Mul(d, d, v, slots * 8);
  for (uint32_t c = 0; c < lanes; c += 64) {
    const uint32_t n = ac_least(64, lanes - c);
    AC_V;
    for (uint32_t r = 0; r < rows; r += 248) BlockReduceSum(t[r * 8], x[r * pitch + c], ac_248(rows - r), n, 1, 1, pitch / 8);
    AC_V;
    if (n < 64)  // blocks behind the last element give nothing
      for (uint32_t r = 0; r < rows; r += 248) Add(d[r * 8], d[r * 8], t[r * 8], (n + 7) / 8, ac_248(rows - r), {1, 1, 1, 1, 1, 1});
    else if (c == 0 && scaled)
      ac_scaled_add(d, v, t, slots * 8);
    else
      Add(d, d, t, slots * 8);
  }
}
// d = x in half precision as columns of fractals: the 16 elements of a block of each row, a block behind another, and one block between columns.
template <typename T> AC_FN ac_to_fractals(const LocalTensor<T> &d, const ac_f32 &x, uint32_t rows, uint32_t pitch) {
  for (uint32_t c = 0; c < pitch; c += 64)
    Cast(d[c * (rows + 1)], x[c], RoundMode::CAST_RINT, ac_least(64, pitch - c), rows, {uint16_t(rows + 1), 1, 1, uint8_t(pitch / 8)});
}
// The eight lanes of each row become their sum; t: one element a row.
AC_FN ac_lane_sum(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 15360) BlockReduceSum(t[i / 8], x[i], ac_240((n - i) / 64), 64, 1, 1, 8);
  AC_V;
  ac_widen(d, t, n / 8);
}

// ---- masks by the indices of a row and of a lane: rows lie `pitch` elements apart, eight lanes are a column.
// Of row i infinity in lanes up to i and `none` past them, or (not below) `none` in front of i.
AC_FN ac_lanes_edge(const ac_f32 &t, float none, bool below) {
  const float all = 1.0f / 0.0f;
  Duplicate(t, below ? none : all, 64);
  AC_V;
  for (uint32_t i = 0; i < 8; ++i)
    if (i || below) Duplicate(t[i * 8], below ? all : none, below ? i + 1 : i);
}
// A column of `rows` rows becomes v.
AC_FN ac_lanes_fill(const ac_f32 &x, uint32_t rows, uint32_t pitch, float v) {
  uint64_t mask[2] = {~0ull, 0};
  const uint32_t whole = rows / 8 * 8;
  if (pitch < 256 && whole) Duplicate(x, v, mask, whole / 8, pitch / 8, pitch);
  for (uint32_t r = 0; pitch >= 256 && r < whole; r += 8) Duplicate(x[r * pitch], v, mask, 1, pitch / 8, 0);
  if (whole == rows) return;
  mask[0] = (1ull << (rows - whole) * 8) - 1;
  Duplicate(x[whole * pitch], v, mask, 1, pitch / 8, 0);
}
// Lanes past row + first are none. t: ac_lanes_edge, below.
AC_FN ac_lanes_until(const ac_f32 &x, const ac_f32 &t, int32_t first, uint32_t rows, uint32_t pitch, float none) {
  if (first + 1 >= int32_t(pitch)) return;
  const uint8_t apart = pitch / 8;
  for (uint32_t c = 0; c < pitch; c += 8) {
    const int32_t d = int32_t(c) - first;  // the first row that has a lane of this column
    const uint32_t from = d < 0 ? 0 : ac_least(d, rows), to = d < -8 ? 0 : ac_least(d + 8, rows);
    if (from) ac_lanes_fill(x[c], from, pitch, none);
    if (from < to) Min(x[from * pitch + c], x[from * pitch + c], t[(int32_t(from) - d) * 8], (to - from) * 8, 1, {apart, apart, 1, 0, 0, 0});
  }
}
// Lanes in front of row + first are none. t: ac_lanes_edge, not below.
AC_FN ac_lanes_from(const ac_f32 &x, const ac_f32 &t, int32_t first, uint32_t rows, uint32_t pitch, float none) {
  if (first + int32_t(rows) <= 1) return;
  const uint8_t apart = pitch / 8;
  for (uint32_t c = 0; c < pitch; c += 8) {
    const int32_t d = int32_t(c) - first;  // the last row that has all lanes of this column
    const uint32_t from = d < 0 ? 0 : ac_least(d, rows), to = d < -8 ? 0 : ac_least(d + 8, rows);
    if (to < rows) ac_lanes_fill(x[to * pitch + c], rows - to, pitch, none);
    if (from < to) Min(x[from * pitch + c], x[from * pitch + c], t[(int32_t(from) - d) * 8], (to - from) * 8, 1, {apart, apart, 1, 0, 0, 0});
  }
}

// ---- scores in half precision: blocks of 16 columns of all rows lie one behind the other, `column` elements from one to the next.
// t = all blocks of x folded into one; t has room for four.
#define AC_BLOCKS(name, Op)                                                                                                          \
  AC_FN name(const LocalTensor<half> &t, const LocalTensor<half> &x, uint32_t blocks, uint32_t column) {                             \
    uint32_t have = ac_least(4, blocks);                                                                                             \
    const uint32_t twice = ac_least(have, blocks - have);                                                                            \
    if (twice) Op(t, x, x[have * column], twice * column);                                                                           \
    if (twice < have) Adds(t[twice * column], x[twice * column], half(0.0f), (have - twice) * column);                               \
    for (uint32_t c = have + twice; c < blocks; c += have) {                                                                         \
      AC_V;                                                                                                                          \
      Op(t, t, x[c * column], ac_least(have, blocks - c) * column);                                                                  \
    }                                                                                                                                \
    for (; have > 1; have -= have / 2) {                                                                                             \
      AC_V;                                                                                                                          \
      Op(t, t, t[(have - have / 2) * column], have / 2 * column);                                                                    \
    }                                                                                                                                \
  }
AC_BLOCKS(ac_blocks_max, Max)
AC_BLOCKS(ac_blocks_sum, Add)
// m = each row's maximum times `by`, rounded to halves; d and f: an element a row.
AC_FN ac_scores_max(const ac_f32 &m, const LocalTensor<half> &x, const LocalTensor<half> &t, const LocalTensor<half> &d, const ac_f32 &f,
                    float by, uint32_t blocks, uint32_t slots, uint32_t column) {
  ac_blocks_max(t, x, blocks, column);
  AC_V;
  BlockReduceMax(d, t, slots / 8, 128, 1, 1, 8);
  AC_V;
  if (by != 1.0f) {
    Muls(d, d, half(by), slots);
    AC_V;
  }
  Cast(f, d, RoundMode::CAST_NONE, slots);
  AC_V;
  ac_widen(m, f, slots);
}
// x plus t, which has its columns side by side in rows `pitch` elements apart (0: one row for all).
AC_FN ac_scores_add(const LocalTensor<half> &x, const LocalTensor<half> &t, uint32_t blocks, uint32_t slots, uint32_t column, uint32_t pitch) {
  const uint8_t next = column / 16;
  for (uint32_t r = 0; r < slots; r += 8) Add(x[r * 16], x[r * 16], t[r * pitch], 128, blocks, {1, 1, uint8_t(pitch / 16), next, next, 1});
}
// Scores are none where the byte of z is 0 (drop: where it is not). z has its columns side by side in rows `pitch` elements apart (0: one
// row for all), of which t has room for `most` as halves: infinity, and none for those that are.
AC_FN ac_scores_keep(const LocalTensor<half> &x, const LocalTensor<uint8_t> &z, const LocalTensor<half> &t, half none, bool drop,
                     uint32_t blocks, uint32_t slots, uint32_t column, uint32_t pitch, uint32_t most) {
  const uint8_t next = column / 16;
  const uint32_t step = pitch ? most : slots;
  for (uint32_t r = 0; r < slots; r += step) {
    const uint32_t n = pitch ? ac_least(step, slots - r) * pitch : blocks * 16;
    if (r) AC_V;
    Cast(t, z[r * pitch], RoundMode::CAST_NONE, n);
    AC_V;
    Adds(t, t, half(-0.5f), n);
    AC_V;
    Muls(t, t, half(drop ? -1.0f / 0.0f : 1.0f / 0.0f), n);
    AC_V;
    if (float(none) >= -65504.0f) {
      Maxs(t, t, none, n);
      AC_V;
    }
    for (uint32_t q = r; q < ac_least(r + step, slots); q += 8)
      Min(x[q * 16], x[q * 16], t[(q - r) * pitch], 128, blocks, {1, 1, uint8_t(pitch / 16), next, next, 1});
  }
}
// A key of a column is `fold` keys behind the one before it, and keys of one remainder are one column of so many. Rows for the edges of masks:
// of row i infinity up to its key, and `none` past it, or (not below) `none` in front of it.
AC_FN ac_scores_edge(const LocalTensor<half> &t, half none, uint32_t fold, bool below) {
  const half all = half(1.0f / 0.0f);
  Duplicate(t, below ? none : all, 256 * fold);
  AC_V;
  for (uint32_t i = 0; i < 16 * fold; ++i)
    if (i || below) Duplicate(t[i * 16], below ? all : none, ac_least(16, below ? i / fold + 1 : (i + fold - 1) / fold));
}
// Keys past row + first are none. t: ac_scores_edge, below.
AC_FN ac_scores_until(const LocalTensor<half> &x, const LocalTensor<half> &t, int32_t first, uint32_t blocks, uint32_t slots,
                      uint32_t column, half none, uint32_t fold) {
  if (first + 1 >= int32_t(blocks * 16)) return;
  for (uint32_t c = 0; c < blocks; ++c) {
    const int32_t d = int32_t(c / fold * fold * 16 + c % fold) - first;  // the first row that has a key of this column
    const uint32_t from = d < 0 ? 0 : ac_least(d, slots), to = d < -int32_t(16 * fold) ? 0 : ac_least(d + 16 * fold, slots);
    if (from) Duplicate(x[c * column], none, from * 16);
    if (from < to) Min(x[c * column + from * 16], x[c * column + from * 16], t[(int32_t(from) - d) * 16], (to - from) * 16);
  }
}
// Keys in front of row + first are none. t: ac_scores_edge, not below.
AC_FN ac_scores_from(const LocalTensor<half> &x, const LocalTensor<half> &t, int32_t first, uint32_t blocks, uint32_t slots,
                     uint32_t column, half none, uint32_t fold) {
  if (first + int32_t(slots) <= 1) return;
  for (uint32_t c = 0; c < blocks; ++c) {
    const int32_t d = int32_t(c / fold * fold * 16 + c % fold) - first;  // the last row that has all keys of this column
    const uint32_t from = d < 0 ? 0 : ac_least(d, slots), to = d < -int32_t(16 * fold) ? 0 : ac_least(d + 16 * fold, slots);
    if (to < slots) Duplicate(x[c * column + to * 16], none, (slots - to) * 16);
    if (from < to) Min(x[c * column + from * 16], x[c * column + from * 16], t[(int32_t(from) - d) * 16], (to - from) * 16);
  }
}
// Behind the first n keys there is none: what came for them is anything.
AC_FN ac_scores_tail(const LocalTensor<half> &x, uint32_t n, uint32_t slots, uint32_t column, half none) {
  if (n % 16 == 0) return;
  const uint64_t past = (0xFFFFull << n % 16 & 0xFFFFull) * 0x0001000100010001ull;
  uint64_t mask[2] = {past, past};
  Duplicate(x[n / 16 * column], none, mask, slots / 8, 1, 8);
}
// x = exp(x by - m), m as ac_scores_max has it; none: rows may have no key yet, where that is infinitely low. h: a block a row.
AC_FN ac_scores_exp(const LocalTensor<half> &x, const ac_f32 &m, const LocalTensor<half> &h,
                    const LocalTensor<half> &d, const ac_f32 &f, float by, uint32_t blocks, uint32_t slots, uint32_t column,
                    bool none = false) {
  BlockReduceMax(f, m, slots / 8, 64, 1, 1, 8);
  AC_V;
  Cast(d, f, RoundMode::CAST_RINT, slots);
  AC_V;
  if (none) {
    Maxs(d, d, half(-65504.0f), slots);
    AC_V;
  }
  Brcb(h, d, slots / 8, {1, 8});
  if (by != 1.0f) Muls(x, x, half(by), blocks * column);
  AC_V;
  for (uint32_t c = 0; c < blocks; c += 8)
    Sub(x[c * column], x[c * column], h, 16 * ac_least(8, blocks - c), slots, {uint8_t(column / 16), uint8_t(column / 16), 0, 1, 1, 1});
  AC_V;
  Exp(x, x, blocks * column);
}
// l = l by + the sums of p's rows, in eight lanes a row. f: two blocks a row, g: one.
AC_FN ac_scores_sum(const ac_f32 &l, const ac_f32 &by, const LocalTensor<half> &p, const LocalTensor<half> &t, const ac_f32 &f,
                    const ac_f32 &g, uint32_t blocks, uint32_t slots, uint32_t column, bool scaled) {
  ac_blocks_sum(t, p, blocks, column);
  AC_V;
  Cast(f, t, RoundMode::CAST_NONE, slots * 16);
  AC_V;
  Add(g, f, f[8], 64, slots / 8, {1, 2, 2, 8, 16, 16});
  AC_V;
  if (scaled)
    ac_scaled_add(l, by, g, slots * 8);
  else
    Add(l, l, g, slots * 8);
}

// d = x turned: x has `rows` rows of `cols` elements, `from` apart, and d a row for each column of x, `to` apart. A repeat takes 16 rows and 8
// columns; what fills up the last ones is anything.
AC_T ac_turn(const LocalTensor<T> &d, const LocalTensor<T> &x, uint32_t rows, uint32_t cols, uint32_t from, uint32_t to) {
  for (uint32_t r = 0; r < rows; r += 16)
    for (uint32_t c = 0; c < cols; c += 1920) {
      uint64_t in[16];
      uint64_t out[16];
      for (uint32_t i = 0; i < 16; ++i) {
        in[i] = (uint64_t)x[(r + i) * from + c].GetPhyAddr();
        out[i] = (uint64_t)d[(c + i / 2) * to + r + i % 2 * 8].GetPhyAddr();
      }
      TransDataTo5HDParams p;
      p.repeatTimes = (cols - c < 1920 ? cols - c + 7 : 1920) / 8;
      const bool one = cols - c <= 8;  // strides are added to the first repeat where it is the only one
      p.dstRepStride = one ? 0 : to;
      p.srcRepStride = one ? 0 : 1;
      TransDataTo5HD<T>(out, in, p);
    }
}

// first, first + step, ... CreateVecIndex writes its first block with the scalar unit at once: what the vector unit has under way in
// this place must be over. It sets and waits for the flag of the way back itself.
AC_FN ac_steps(const ac_f32 &d, float first, float step, uint32_t n) {
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  CreateVecIndex(d, 0.0f, n);
  AC_V;
  Muls(d, d, step, n);
  AC_V;
  Adds(d, d, first, n);
}

// c floor(row / below) for each of n rows, exact below 2^21; t: as many words.
AC_FN ac_steps_of_rows(const ac_f32 &d, const LocalTensor<int32_t> &t, float below, float c, uint32_t n) {
  ac_steps(d, 0.5f / below, 1.0f / below, n);
  AC_V;
#if __NPU_ARCH__ == 2002  // it rounds to whole numbers on the way to integers alone
  Cast(t, d, RoundMode::CAST_FLOOR, n);
  AC_V;
  Cast(d, t, RoundMode::CAST_NONE, n);
#else
  Cast(d, d, RoundMode::CAST_FLOOR, n);
#endif
  AC_V;
  Muls(d, d, c, n);
}

// Byte offsets of every `step`th element, in `o` as the integers of `i`; t: as many floats.
AC_FN ac_offsets(const LocalTensor<int32_t> &i, const ac_f32 &t, uint32_t step, uint32_t n) {
#if __NPU_ARCH__ == 2002  // no conversion to integers
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  CreateVecIndex(i, int32_t(0), n);
  AC_V;
  Muls(i, i, int32_t(4 * step), n);
#else
  ac_steps(t, 0.0f, 4.0f * step, n);
  AC_V;
  Cast(i, t, RoundMode::CAST_RINT, n);
#endif
}
// d = the elements of each row of x that `o` names: rows of x lie `from` apart, rows of d `to`.
AC_T ac_picked(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<uint32_t> &o, uint32_t rows, uint32_t n, uint32_t from, uint32_t to) {
  for (uint32_t r = 0; r < rows; ++r) Gather(d[r * to], x[r * from], o, 0, n);
}

// Folds the first `mask` lanes of one repeat a row, `pitch` elements apart, to elements of d that are `apart`.
AC_FN ac_whole_sum(const ac_f32 &d, const ac_f32 &x, uint32_t mask, uint32_t rows, uint32_t apart, uint32_t pitch) {
  for (uint32_t r = 0; r < rows; r += 248) WholeReduceSum(d[r * apart], x[r * pitch], mask, ac_248(rows - r), apart, 1, pitch / 8);
}
#define AC_WHOLE(name, Op)                                                                                               \
  AC_FN name(const ac_f32 &d, const ac_f32 &x, uint32_t mask, uint32_t rows, uint32_t apart, uint32_t pitch) {          \
    for (uint32_t r = 0; r < rows; r += 248)                                                                             \
      Op(d[r * apart], x[r * pitch], mask, ac_248(rows - r), apart, 1, pitch / 8, ReduceOrder::ORDER_ONLY_VALUE);        \
  }
AC_WHOLE(ac_whole_max, WholeReduceMax)
AC_WHOLE(ac_whole_min, WholeReduceMin)

// Folds the first `lanes` elements of each row; t: one element a row; w: the instruction's work space. slots: rows rounded up to 8. Rows of
// up to eight repeats are folded by instructions for all of them. One that folds a repeat into one value takes seven clocks for it, one that
// folds blocks of eight elements one: where there are rows enough to hide that it takes more of them, blocks come first, 64 columns at a
// time, and then the eight values of each row. Longer rows go one after another, by an instruction that ends on the scalar unit.
// A 310P gives an index beside each value of a repeat (WholeReduceMax has no ORDER_ONLY_VALUE there), so blocks come first for any.
#if __NPU_ARCH__ == 2002
constexpr uint32_t ac_few_rows = 0;
#else
constexpr uint32_t ac_few_rows = 4;
#endif
#define AC_ROWS(name, Op, Whole, Blocks, Two, none)                                                                                   \
  AC_FN name##_blocks(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t rows, uint32_t slots, uint32_t lanes,              \
                      uint32_t pitch) {                                                                                                \
    if (lanes < 64 || rows < slots) {                                                                                                  \
      Duplicate(d, none, slots * 8);                                                                                                   \
      AC_V;                                                                                                                            \
    }                                                                                                                                  \
    for (uint32_t c = 0; c < lanes; c += 64) {                                                                                         \
      const uint32_t n = ac_least(64, lanes - c);                                                                                      \
      for (uint32_t r = 0; r < rows; r += 248)                                                                                         \
        Blocks(c || n < 64 ? t[r * 8] : d[r * 8], x[r * pitch + c], ac_248(rows - r), n, 1, 1, pitch / 8);                             \
      AC_V;                                                                                                                            \
      if (n < 64)                                                                                                                      \
        for (uint32_t r = 0; r < rows; r += 248) Two(d[r * 8], d[r * 8], t[r * 8], (n + 7) / 8, ac_248(rows - r), {1, 1, 1, 1, 1, 1}); \
      else if (c)                                                                                                                      \
        Two(d, d, t, rows * 8);                                                                                                        \
      AC_V;                                                                                                                            \
    }                                                                                                                                  \
    for (uint32_t r = 0; r < slots; r += 1984) Blocks(t[r], d[r * 8], ac_248((slots - r) / 8), 64, 1, 1, 8);                           \
  }                                                                                                                                    \
  AC_FN name(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, const ac_f32 &w, uint32_t rows, uint32_t slots, uint32_t lanes,       \
             uint32_t pitch) {                                                                                                         \
    if (lanes <= 512) {                                                                                                                \
      if (rows > ac_few_rows) {                                                                                                        \
        name##_blocks(d, x, t, rows, slots, lanes, pitch);                                                                             \
      } else {                                                                                                                         \
        Duplicate(t, 0.0f, slots);                                                                                                     \
        AC_V;                                                                                                                          \
        for (uint32_t c = 0; lanes > 64 && c < lanes; c += 64) {                                                                       \
          Whole(d[c / 64], x[c], lanes - c < 64 ? lanes - c : 64, rows, 8, pitch);                                                     \
          AC_V;                                                                                                                        \
        }                                                                                                                              \
        Whole(t, lanes > 64 ? d : x, lanes > 64 ? (lanes + 63) / 64 : lanes, rows, 1, lanes > 64 ? 8 : pitch);                         \
      }                                                                                                                                \
      AC_V;                                                                                                                            \
      ac_widen(d, t, slots);                                                                                                           \
      return;                                                                                                                          \
    }                                                                                                                                  \
    Duplicate(d, 0.0f, slots * 8);                                                                                                     \
    AC_V;                                                                                                                              \
    for (uint32_t r = 0; r < rows; ++r) {                                                                                              \
      Op(d[r * 8], x[r * pitch], w, lanes);                                                                                            \
      AC_V;                                                                                                                            \
    }                                                                                                                                  \
    ac_spread(d, t, slots);                                                                                                            \
  }
AC_ROWS(ac_row_sum, ReduceSum, ac_whole_sum, BlockReduceSum, Add, 0.0f)
AC_ROWS(ac_row_max, ReduceMax, ac_whole_max, BlockReduceMax, Max, (-1.0f / 0.0f))
AC_ROWS(ac_row_min, ReduceMin, ac_whole_min, BlockReduceMin, Min, (1.0f / 0.0f))

// Folds the rows of a tile into one, half of them onto the other half: an instruction for all rows of a half, where one a row would wait
// for its start. t: room for half of the rows, rounded up; it may be x, which is lost then.
#define AC_FOLD(Op)                                                                                                     \
  AC_FN ac_fold_##Op(const ac_f32 &d, const ac_f32 &x, const ac_f32 &t, uint32_t rows, uint32_t pitch, bool inside) {  \
    const uint32_t first = (rows + 1) / 2;                                                                             \
    if (rows == 1) Adds(d, x, 0.0f, pitch);                                                                            \
    if (rows == 2) Op(d, x, x[pitch], pitch);                                                                          \
    if (rows < 3) return;                                                                                              \
    Op(t, x, x[first * pitch], (rows - first) * pitch);                                                                \
    if (rows % 2 && !inside) Adds(t[(first - 1) * pitch], x[(first - 1) * pitch], 0.0f, pitch);                        \
    AC_V;                                                                                                              \
    for (uint32_t n = first; n > 2; n = (n + 1) / 2) {                                                                 \
      Op(t, t, t[(n + 1) / 2 * pitch], n / 2 * pitch);                                                                 \
      AC_V;                                                                                                            \
    }                                                                                                                  \
    Op(d, t, t[pitch], pitch);                                                                                         \
  }
AC_FOLD(Add)
AC_FOLD(Max)
AC_FOLD(Min)
