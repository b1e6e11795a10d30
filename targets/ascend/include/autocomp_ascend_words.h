// Integers of 32 bits on the vector unit. No public page says whether its sums and products of integers wrap or saturate, so none of them
// here leaves its type: they are of halves of 16 bits, put together by shifts of unsigned words, which drop what leaves them. A 310P's unit
// has no shifts: there masks take halves apart, and single precision, which holds multiples of 2^16, moves the upper ones; sums and products
// have two words more beside, `m` and `u`. d may be an operand; temporaries are neither.
#pragma once
#include "autocomp_ascend.h"

using ac_i32 = LocalTensor<int32_t>;
using ac_u32 = LocalTensor<uint32_t>;
__aicore__ inline ac_u32 ac_bits(const ac_i32 &x) { return x.ReinterpretCast<uint32_t>(); }
#define AC_FLOAT(x) x.ReinterpretCast<float>()
#define AC_SHORT(x) x.ReinterpretCast<uint16_t>()
#if __NPU_ARCH__ == 2002
#define AC_MORE const ac_i32 &m, const ac_i32 &u,
#define AC_THESE m, u,
#define AC_TO_FLOAT RoundMode::CAST_NONE
AC_FN ac_masked(const ac_i32 &d, const ac_i32 &x, const ac_i32 &m, uint32_t n) {
  And(d.ReinterpretCast<uint16_t>(), x.ReinterpretCast<uint16_t>(), m.ReinterpretCast<uint16_t>(), 2 * n);
}
AC_FN ac_filled(const ac_i32 &m, int32_t bits, uint32_t n) {
  Duplicate(m, bits, n);
  AC_V;
}
// x / 2^16 of multiples of that, in place; t: as many elements.
AC_FN ac_upper(const ac_i32 &x, const ac_i32 &t, uint32_t n) {
  Cast(AC_FLOAT(t), x, RoundMode::CAST_NONE, n);
  AC_V;
  Muls(AC_FLOAT(t), AC_FLOAT(t), 1.52587890625e-5f, n);
  AC_V;
  Cast(x, AC_FLOAT(t), RoundMode::CAST_RINT, n);
  AC_V;
}
// Lower halves s and t, added; what carries is a multiple of 2^16, and so are the upper halves, whose sum is brought back into 32 bits.
#define AC_WRAPPING(Op)                                                                                                     \
  AC_FN ac_##Op##_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &s, const ac_i32 &t, AC_MORE uint32_t n) { \
    ac_filled(m, 65535, n);                                                                                                 \
    ac_masked(s, a, m, n);                                                                                                  \
    ac_masked(t, b, m, n);                                                                                                  \
    AC_V;                                                                                                                   \
    Sub(u, a, s, n);                                                                                                        \
    Sub(m, b, t, n);                                                                                                        \
    AC_V;                                                                                                                   \
    Op(s, s, t, n);                                                                                                         \
    AC_V;                                                                                                                   \
    Cast(AC_FLOAT(t), u, RoundMode::CAST_NONE, n);                                                                          \
    AC_V;                                                                                                                   \
    Cast(AC_FLOAT(u), m, RoundMode::CAST_NONE, n);                                                                          \
    AC_V;                                                                                                                   \
    Op(AC_FLOAT(t), AC_FLOAT(t), AC_FLOAT(u), n);                                                                           \
    ac_filled(m, 65535, n);                                                                                                 \
    ac_masked(u, s, m, n);                                                                                                  \
    AC_V;                                                                                                                   \
    Sub(s, s, u, n);                                                                                                        \
    AC_V;                                                                                                                   \
    Cast(AC_FLOAT(m), s, RoundMode::CAST_NONE, n);                                                                          \
    AC_V;                                                                                                                   \
    Add(AC_FLOAT(t), AC_FLOAT(t), AC_FLOAT(m), n);                                                                          \
    AC_V;                                                                                                                   \
    Muls(AC_FLOAT(s), AC_FLOAT(t), 2.3283064365386963e-10f, n);                                                             \
    AC_V;                                                                                                                   \
    Adds(AC_FLOAT(s), AC_FLOAT(s), 0.5f, n);                                                                                \
    AC_V;                                                                                                                   \
    Cast(m, AC_FLOAT(s), RoundMode::CAST_FLOOR, n);                                                                         \
    AC_V;                                                                                                                   \
    Cast(AC_FLOAT(s), m, RoundMode::CAST_NONE, n);                                                                          \
    AC_V;                                                                                                                   \
    Muls(AC_FLOAT(s), AC_FLOAT(s), -4294967296.0f, n);                                                                      \
    AC_V;                                                                                                                   \
    Add(AC_FLOAT(t), AC_FLOAT(t), AC_FLOAT(s), n);                                                                          \
    AC_V;                                                                                                                   \
    Cast(s, AC_FLOAT(t), RoundMode::CAST_RINT, n);                                                                          \
    AC_V;                                                                                                                   \
    Add(d, s, u, n);                                                                                                        \
  }
AC_WRAPPING(Add)
AC_WRAPPING(Sub)

// x's lower half p (0 .. 2^16 - 1) as a signed number; r, the upper half, is 1 more where that is negative. m: 2^15; u: as many words.
AC_FN ac_signed_half(const ac_i32 &p, const ac_i32 &r, const ac_i32 &m, const ac_i32 &u, uint32_t n) {
  ac_masked(u, p, m, n);
  AC_V;
  Muls(u, u, -2, n);
  AC_V;
  Add(p, p, u, n);
  AC_V;
  Maxs(u, u, -1, n);
  AC_V;
  Sub(r, r, u, n);
  AC_V;
}
// a = r 2^16 + p, b = s 2^16 + q with p, q in -2^15 .. 2^15 - 1: (r q + p s) 2^16 + p q. No product exceeds 2^30.
AC_FN ac_Mul_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &p, const ac_i32 &q, const ac_i32 &r, const ac_i32 &s,
                 AC_MORE uint32_t n) {
  ac_filled(m, 65535, n);
  ac_masked(p, a, m, n);
  ac_masked(q, b, m, n);
  AC_V;
  Sub(r, a, p, n);
  Sub(s, b, q, n);
  AC_V;
  ac_upper(r, u, n);
  ac_upper(s, u, n);
  ac_filled(m, 32768, n);
  ac_signed_half(p, r, m, u, n);
  ac_signed_half(q, s, m, u, n);
  Mul(r, r, q, n);
  Mul(s, s, p, n);
  AC_V;
  Add(r, r, s, n);
  Mul(p, p, q, n);
  ac_filled(m, 65535, n);
  ac_masked(r, r, m, n);
  ac_masked(q, p, m, n);
  AC_V;
  Sub(p, p, q, n);
  AC_V;
  ac_upper(p, u, n);
  Add(r, r, p, n);
  AC_V;
  ac_masked(r, r, m, n);
  AC_V;
  ac_filled(m, 32768, n);
  ac_masked(u, r, m, n);
  AC_V;
  Muls(u, u, -2, n);
  AC_V;
  Add(r, r, u, n);
  AC_V;
  Muls(r, r, 65536, n);
  AC_V;
  Add(d, r, q, n);
}
// Words as integers of 64 bits, of which each has a low half and then copies of the sign. d, w, p: twice as many words as x.
AC_FN ac_longs(const LocalTensor<int64_t> &d, const ac_i32 &x, const ac_i32 &w, const ac_i32 &p, uint32_t n) {
  const ac_i32 to = d.ReinterpretCast<int32_t>();
  Adds(w, x, 0, n);
  Mins(w[n], x, 0, n);
  ac_filled(to, 1, 2 * n);
  Maxs(w[n], w[n], -1, n);
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  CreateVecIndex(p, int32_t(0), 2 * n);
  AC_V;
  ac_masked(to, p, to, 2 * n);
  Muls(p, p, 2, 2 * n);
  AC_V;
  Muls(to, to, int32_t(4 * n - 2), 2 * n);
  AC_V;
  Add(p, p, to, 2 * n);
  AC_V;
  Gather(to, w, ac_bits(p), 0, 2 * n);
}
#else
#define AC_MORE
#define AC_THESE
#define AC_TO_FLOAT RoundMode::CAST_RINT
AC_FN ac_up(const ac_i32 &d, const ac_i32 &x, uint32_t n) { ShiftLeft(ac_bits(d), ac_bits(x), 16u, n); }
AC_FN ac_down(const ac_i32 &d, const ac_i32 &x, uint32_t n) { ShiftRight(d, x, 16, n); }
AC_FN ac_down_unsigned(const ac_i32 &d, const ac_i32 &x, uint32_t n) { ShiftRight(ac_bits(d), ac_bits(x), 16u, n); }

// Halves: s = low a +- low b, d = high a +- high b; then the carry, and both together.
#define AC_WRAPPING(Op)                                                                                            \
  AC_FN ac_##Op##_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &s, const ac_i32 &t, uint32_t n) { \
    ac_up(s, a, n);                                                                                                \
    ac_up(t, b, n);                                                                                                \
    AC_V;                                                                                                          \
    ac_down_unsigned(s, s, n);                                                                                     \
    ac_down_unsigned(t, t, n);                                                                                     \
    AC_V;                                                                                                          \
    Op(s, s, t, n);                                                                                                \
    AC_V;                                                                                                          \
    ac_down(t, a, n);                                                                                              \
    AC_V;                                                                                                          \
    ac_down(d, b, n);                                                                                              \
    AC_V;                                                                                                          \
    Op(d, t, d, n);                                                                                                \
    AC_V;                                                                                                          \
    ac_down(t, s, n);                                                                                              \
    ac_up(s, s, n);                                                                                                \
    AC_V;                                                                                                          \
    Add(d, d, t, n);                                                                                               \
    ac_down_unsigned(s, s, n);                                                                                     \
    AC_V;                                                                                                          \
    ac_up(d, d, n);                                                                                                \
    AC_V;                                                                                                          \
    Add(d, d, s, n);                                                                                               \
  }
AC_WRAPPING(Add)
AC_WRAPPING(Sub)

// a = r 2^16 + p, b = s 2^16 + q with p, q in -2^15 .. 2^15 - 1: (r q + p s) 2^16 + p q. No product exceeds 2^30.
AC_FN ac_Mul_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &p, const ac_i32 &q, const ac_i32 &r, const ac_i32 &s, uint32_t n) {
  ac_up(p, a, n);
  ac_up(q, b, n);
  AC_V;
  ac_down(p, p, n);
  ac_down(q, q, n);
  ac_down(r, a, n);
  ac_down(s, b, n);
  AC_V;
  ShiftRight(d, p, 31, n);
  AC_V;
  Sub(r, r, d, n);
  AC_V;
  ShiftRight(d, q, 31, n);
  Mul(r, r, q, n);
  AC_V;
  Sub(s, s, d, n);
  AC_V;
  Mul(s, s, p, n);
  AC_V;
  Add(r, r, s, n);
  Mul(p, p, q, n);
  AC_V;
  ac_up(r, r, n);
  ac_down(q, p, n);
  ac_up(p, p, n);
  AC_V;
  ac_down(r, r, n);
  ac_down_unsigned(p, p, n);
  AC_V;
  Add(r, r, q, n);
  AC_V;
  ac_up(r, r, n);
  AC_V;
  Add(d, r, p, n);
}
#endif
// 0 - x, and the larger of that and x.
AC_FN ac_neg_i32(const ac_i32 &d, const ac_i32 &x, const ac_i32 &o, const ac_i32 &s, const ac_i32 &t,
                  AC_MORE uint32_t n) {
  Duplicate(o, 0, n);
  AC_V;
  ac_Sub_i32(d, o, x, s, t, AC_THESE n);
}
AC_FN ac_abs_i32(const ac_i32 &d, const ac_i32 &x, const ac_i32 &o, const ac_i32 &s, const ac_i32 &t,
                  AC_MORE uint32_t n) {
  ac_neg_i32(o, x, o, s, t, AC_THESE n);
  AC_V;
  Max(d, x, o, n);
}

// Quotients rounded down, and their remainders, 0 for b = 0. The quotient of the rounded operands in single precision is off by a 2^21st of
// itself, so that a - q b, taken modulo 2^32, is no longer than b / 2 and 1024; that of this remainder is the whole number next to it, and
// what is then left is no longer than b / 2. It is 0 or has the sign of b, or is b more with a quotient of 1 less. None of the words are
// operands; e and f, b and y: remainder and divisor as words and in single precision.
AC_FN ac_quotient(const ac_i32 &q, const ac_i32 &e, const ac_i32 &b, const ac_f32 &y, const ac_f32 &f, const ac_i32 &d, const ac_i32 &s,
                  const ac_i32 &t, const ac_i32 &v, const ac_i32 &w, AC_MORE uint32_t n) {  // q += round(e / b), e less that many b
  Cast(f, e, AC_TO_FLOAT, n);
  AC_V;
  Div(f, f, y, n);
  AC_V;
  Mins(f, f, 2147483520.0f, n);  // the largest below 2^31
  AC_V;
  Maxs(f, f, -2147483648.0f, n);
  AC_V;
  Cast(d, f, RoundMode::CAST_RINT, n);
  AC_V;
  ac_Add_i32(q, q, d, s, t, AC_THESE n);
  AC_V;
  ac_Mul_i32(d, d, b, s, t, v, w, AC_THESE n);
  AC_V;
  ac_Sub_i32(e, e, d, s, t, AC_THESE n);
  AC_V;
}
AC_FN ac_divided(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &q, const ac_i32 &e, const ac_f32 &y, const ac_f32 &f,
                 const ac_i32 &s, const ac_i32 &t, const ac_i32 &v, const ac_i32 &w, AC_MORE uint32_t n) {  // q, e; d = 1 where q is 1 too much, else 0
  Cast(y, b, AC_TO_FLOAT, n);
  Duplicate(q, 0, n);
  AC_V;
  Abs(f, y, n);
  AC_V;
  Mins(f, f, 1.0f, n);  // 0 for b = 0, else 1
  AC_V;
  Cast(e, f, RoundMode::CAST_RINT, n);
  Muls(f, f, -1.0f, n);
  AC_V;
  Mul(e, a, e, n);
  Adds(f, f, 1.0f, n);
  AC_V;
  Add(y, y, f, n);
  AC_V;
  ac_quotient(q, e, b, y, f, d, s, t, v, w, AC_THESE n);
  ac_quotient(q, e, b, y, f, d, s, t, v, w, AC_THESE n);
  Cast(f, e, AC_TO_FLOAT, n);
  AC_V;
  Mul(f, f, y, n);
  AC_V;
  Muls(f, f, -1.0f, n);
  AC_V;
  Maxs(f, f, 0.0f, n);
  AC_V;
  Mins(f, f, 1.0f, n);
  AC_V;
  Cast(d, f, RoundMode::CAST_RINT, n);
  AC_V;
}
#define AC_DIVISION(name, ...)                                                                                                          \
  AC_FN name(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &q, const ac_i32 &e, const ac_i32 &y, const ac_i32 &f,    \
             const ac_i32 &s, const ac_i32 &t, const ac_i32 &v, const ac_i32 &w, AC_MORE uint32_t n) {                                 \
    ac_divided(d, a, b, q, e, AC_FLOAT(y), AC_FLOAT(f), s, t, v, w, AC_THESE n);                                                       \
    __VA_ARGS__;                                                                                                                       \
  }
#define AC_QUOTIENT Sub(d, q, d, n)
#define AC_REMAINDER Mul(d, b, d, n); AC_V; Add(d, e, d, n)
AC_DIVISION(ac_floordiv_i32, AC_QUOTIENT)
AC_DIVISION(ac_mod_i32, AC_REMAINDER)

// Bits of words. d may be an operand.
AC_FN ac_bitand_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, uint32_t n) { And(AC_SHORT(d), AC_SHORT(a), AC_SHORT(b), 2 * n); }
AC_FN ac_bitor_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, uint32_t n) { Or(AC_SHORT(d), AC_SHORT(a), AC_SHORT(b), 2 * n); }
AC_FN ac_bitnot_i32(const ac_i32 &d, const ac_i32 &x, uint32_t n) { Not(AC_SHORT(d), AC_SHORT(x), 2 * n); }
AC_FN ac_bitxor_i32(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &t, uint32_t n) {
  ac_bitor_i32(t, a, b, n);
  AC_V;
  ac_bitand_i32(d, a, b, n);
  AC_V;
  ac_bitnot_i32(d, d, n);
  AC_V;
  ac_bitand_i32(d, d, t, n);
}
// Words shifted by k < 32 bits. A 310P moves the bits that stay by single precision, which holds those of either half; on the way up the one
// that becomes the sign goes by itself. d is not x; t, u: as many words.
#if __NPU_ARCH__ == 2002
AC_FN ac_moved(const ac_i32 &d, const ac_i32 &x, const ac_i32 &t, uint32_t bits, float by, uint32_t n) {
  ac_filled(d, int32_t(bits), n);
  ac_masked(d, x, d, n);
  AC_V;
  Cast(AC_FLOAT(t), d, RoundMode::CAST_NONE, n);
  AC_V;
  Muls(AC_FLOAT(t), AC_FLOAT(t), by, n);
  AC_V;
  Cast(d, AC_FLOAT(t), RoundMode::CAST_RINT, n);
  AC_V;
}
AC_FN ac_moved_halves(const ac_i32 &d, const ac_i32 &x, const ac_i32 &t, const ac_i32 &u, uint32_t bits, float by, uint32_t n) {
  ac_moved(d, x, t, bits & 0xffff0000u, by, n);
  ac_moved(u, x, t, bits & 0xffffu, by, n);
  Add(d, d, u, n);
}
AC_FN ac_shr_i32(const ac_i32 &d, const ac_i32 &x, const ac_i32 &t, const ac_i32 &u, uint32_t k, uint32_t n) {
  ac_moved_halves(d, x, t, u, 0xffffffffu << k, 1.0f / float(1u << k), n);
}
AC_FN ac_shl_i32(const ac_i32 &d, const ac_i32 &x, const ac_i32 &t, const ac_i32 &u, uint32_t k, uint32_t n) {
  ac_moved_halves(d, x, t, u, 0x7fffffffu >> k, float(1u << k), n);
  AC_V;
  ac_moved(u, x, t, 0x80000000u >> k, k ? -float(1u << k) : 1.0f, n);
  Add(d, d, u, n);
}
#else
AC_FN ac_shr_i32(const ac_i32 &d, const ac_i32 &x, int32_t k, uint32_t n) { ShiftRight(d, x, k, n); }
AC_FN ac_shl_i32(const ac_i32 &d, const ac_i32 &x, uint32_t k, uint32_t n) { ShiftLeft(ac_bits(d), ac_bits(x), k, n); }
#endif

// A bit an element, of integers that are equal alone: m = (a == b), a >= b where a is the larger of both. t: as many integers. A 310P compares
// none: there bits that differ, no 0 in single precision either, make it; u: as many integers.
AC_FN ac_not(const LocalTensor<uint8_t> &m, uint32_t n) { Not(m.ReinterpretCast<uint16_t>(), m.ReinterpretCast<uint16_t>(), n / 16); }
#if __NPU_ARCH__ == 2002
#define AC_BESIDE const ac_i32 &u,
#define AC_WITH u,
AC_FN ac_same(const LocalTensor<uint8_t> &m, const ac_i32 &a, const ac_i32 &b, const ac_i32 &t, const ac_i32 &u, uint32_t n) {
  ac_bitxor_i32(t, a, b, u, n);
  AC_V;
  Cast(AC_FLOAT(u), t, RoundMode::CAST_NONE, n);
  AC_V;
  CompareScalar(m, AC_FLOAT(u), 0.0f, CMPMODE::EQ, n);
}
#else
#define AC_BESIDE
#define AC_WITH
AC_FN ac_same(const LocalTensor<uint8_t> &m, const ac_i32 &a, const ac_i32 &b, const ac_i32 &, uint32_t n) { Compare(m, a, b, CMPMODE::EQ, n); }
#endif
AC_FN ac_EQ(const LocalTensor<uint8_t> &m, const ac_i32 &a, const ac_i32 &b, const ac_i32 &t, AC_BESIDE uint32_t n) { ac_same(m, a, b, t, AC_WITH n); }
AC_FN ac_GE(const LocalTensor<uint8_t> &m, const ac_i32 &a, const ac_i32 &b, const ac_i32 &t, AC_BESIDE uint32_t n) {
  Max(t, a, b, n);
  AC_V;
  ac_same(m, t, a, t, AC_WITH n);
}
AC_FN ac_LE(const LocalTensor<uint8_t> &m, const ac_i32 &a, const ac_i32 &b, const ac_i32 &t, AC_BESIDE uint32_t n) {
  ac_GE(m, b, a, t, AC_WITH n);
}
#define AC_OPPOSITE(name, of)                                                                                                             \
  AC_FN name(const LocalTensor<uint8_t> &m, const ac_i32 &a, const ac_i32 &b, const ac_i32 &t, AC_BESIDE uint32_t n) {                    \
    of(m, a, b, t, AC_WITH n);                                                                                                            \
    AC_V;                                                                                                                                 \
    ac_not(m, n);                                                                                                                         \
  }
AC_OPPOSITE(ac_NE, ac_EQ)
AC_OPPOSITE(ac_LT, ac_GE)
AC_OPPOSITE(ac_GT, ac_LE)

// d = i ? a : b for i in {0, 1}: a i + b (1 - i), of which one is 0. d is neither a nor b.
AC_FN ac_chosen(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, const ac_i32 &i, uint32_t n) {
  Mul(d, a, i, n);
  AC_V;
  Muls(i, i, -1, n);
  AC_V;
  Adds(i, i, 1, n);
  AC_V;
  Mul(i, b, i, n);
  AC_V;
  Add(d, d, i, n);
}
// The lowest 8 bits, as a signed or an unsigned number, in single precision. d, x, t: as many elements.
#if __NPU_ARCH__ == 2002
AC_FN ac_byte(const ac_f32 &d, const ac_i32 &x, const ac_i32 &t, uint32_t n) {
  const ac_i32 low = d.ReinterpretCast<int32_t>();
  Duplicate(low, 255, n);
  ac_filled(t, 128, n);
  ac_masked(low, x, low, n);
  ac_masked(t, x, t, n);
  AC_V;
  Muls(t, t, -2, n);
  AC_V;
  Add(t, t, low, n);
  AC_V;
  Cast(d, t, RoundMode::CAST_NONE, n);
}
AC_FN ac_unsigned_byte(const ac_f32 &d, const ac_i32 &x, const ac_i32 &t, uint32_t n) {
  ac_filled(t, 255, n);
  ac_masked(t, x, t, n);
  AC_V;
  Cast(d, t, RoundMode::CAST_NONE, n);
}
#else
AC_FN ac_byte(const ac_f32 &d, const ac_i32 &x, const ac_i32 &t, uint32_t n) {
  ShiftLeft(ac_bits(t), ac_bits(x), 24u, n);
  AC_V;
  ShiftRight(t, t, 24, n);
  AC_V;
  Cast(d, t, RoundMode::CAST_RINT, n);
}
AC_FN ac_unsigned_byte(const ac_f32 &d, const ac_i32 &x, const ac_i32 &t, uint32_t n) {
  ShiftLeft(ac_bits(t), ac_bits(x), 24u, n);
  AC_V;
  ShiftRight(ac_bits(t), ac_bits(t), 24u, n);
  AC_V;
  Cast(d, t, RoundMode::CAST_RINT, n);
}
#endif

// Folds rows of a tile into the first one of w, each time the second half into the first. s, t: as many integers as half of them.
#define AC_HALVES(name, more, ...)                                                                                                     \
  AC_FN name(const ac_i32 &w, const ac_i32 &s, const ac_i32 &t, more uint32_t rows, uint32_t pitch) {                                  \
    for (uint32_t half = (rows + 1) / 2; rows > 1; rows = half, half = (rows + 1) / 2) {                                               \
      const ac_i32 from = w[half * pitch];                                                                                             \
      const uint32_t n = (rows - half) * pitch;                                                                                        \
      __VA_ARGS__;                                                                                                                     \
      AC_V;                                                                                                                            \
    }                                                                                                                                  \
  }
AC_FN ac_larger(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, uint32_t n) { Max(d, a, b, n); }
AC_FN ac_smaller(const ac_i32 &d, const ac_i32 &a, const ac_i32 &b, uint32_t n) { Min(d, a, b, n); }
AC_HALVES(ac_halves_add, AC_MORE, ac_Add_i32(w, w, from, s, t, AC_THESE n))
AC_HALVES(ac_halves_max, , ac_larger(w, w, from, n))
AC_HALVES(ac_halves_min, , ac_smaller(w, w, from, n))

AC_FN ac_halves_mul(const ac_i32 &w, const ac_i32 &p, const ac_i32 &q, const ac_i32 &r, const ac_i32 &s,
                    AC_MORE uint32_t rows, uint32_t pitch) {
  for (uint32_t half = (rows + 1) / 2; rows > 1; rows = half, half = (rows + 1) / 2) {
    ac_Mul_i32(w, w, w[half * pitch], p, q, r, s, AC_THESE(rows - half) * pitch);
    AC_V;
  }
}

// Byte offsets of words' elements in a row that ends with element `last`. Indices outside are the ends.
AC_FN ac_places(const ac_i32 &d, const ac_i32 &at, int32_t last, uint32_t n) {
  Maxs(d, at, 0, n);
  AC_V;
  Mins(d, d, last, n);
  AC_V;
  Muls(d, d, 4, n);
}
// Of each of x's rows, `from` elements apart, the elements at some offsets, which are `apart` behind those of the row before.
AC_T ac_looked_up(const LocalTensor<T> &d, const LocalTensor<T> &x, const ac_i32 &at, uint32_t rows, uint32_t n, uint32_t from, uint32_t to,
                  uint32_t apart) {
  for (uint32_t r = 0; r < rows; ++r) Gather(d[r * to], x[r * from], ac_bits(at[r * apart]), 0, n);
}

// Where floats stand among all: 0 for zeros of either sign, NaN last. t is 1 for NaN, u -1 for what is less than 0; no product or sum
// leaves its type.
AC_FN ac_ordinal_f32(const ac_i32 &d, const ac_f32 &x, const ac_i32 &t, const ac_i32 &u, uint32_t n) {
  const ac_i32 bits = x.ReinterpretCast<int32_t>();
  Duplicate(t, 0x7fffffff, n);
  Mins(u, bits, 0, n);
  AC_V;
  ac_bitand_i32(d, bits, t, n);
  Maxs(u, u, -1, n);
  AC_V;
  Adds(t, d, -0x7f800000, n);
  AC_V;
  Mins(d, d, 0x7f800000, n);
  Maxs(t, t, 0, n);
  AC_V;
  Mins(t, t, 1, n);
  AC_V;
  Adds(t, t, -1, n);
  AC_V;
  Max(u, u, t, n);
  AC_V;
  Adds(t, t, 1, n);
  Muls(u, u, 2, n);
  AC_V;
  Muls(t, t, 0x7fffff, n);
  AC_V;
  Adds(u, u, 1, n);
  AC_V;
  Mul(d, d, u, n);
  AC_V;
  Add(d, d, t, n);
}

// ---- integers of 64 bits as two words
// Words of x at offsets o, `base` bytes further: one half of each integer. Rows of x lie `from` words apart, those of d `to`.
AC_FN ac_half(const ac_i32 &d, const ac_i32 &x, const ac_u32 &o, uint32_t base, uint32_t rows, uint32_t n, uint32_t from, uint32_t to) {
  for (uint32_t r = 0; r < rows; ++r) Gather(d[r * to], x[r * from], o, base, n);
}
// Low and high words beside each other. d, w, p, t: twice as many words as either. Word j is at 2 j bytes of w, or where j is odd at 2 j - 2 and n words behind.
AC_FN ac_joined(const LocalTensor<int64_t> &d, const ac_i32 &low, const ac_i32 &high, const ac_i32 &w, const ac_i32 &p, const ac_f32 &t, uint32_t n) {
  const ac_i32 to = d.ReinterpretCast<int32_t>();
  Adds(w, low, 0, n);
  Adds(w[n], high, 0, n);
  Duplicate(to, 2, 2 * n);
#if __NPU_ARCH__ == 2002  // no conversion to integers
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  CreateVecIndex(p, int32_t(0), 2 * n);
  AC_V;
  Muls(p, p, 2, 2 * n);
#else
  ac_steps(t, 0.0f, 2.0f, 2 * n);
  AC_V;
  Cast(p, t, RoundMode::CAST_RINT, 2 * n);
#endif
  AC_V;
  ac_bitand_i32(to, p, to, 2 * n);
  AC_V;
  Muls(to, to, int32_t(2 * n - 1), 2 * n);
  AC_V;
  Add(p, p, to, 2 * n);
  AC_V;
  Gather(to, w, ac_bits(p), 0, 2 * n);
}
