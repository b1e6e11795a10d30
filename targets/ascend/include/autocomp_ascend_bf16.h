// bf16 where no unit knows it (310P): its bits are the upper half of a number of single precision. Temporaries are as many words as x, and
// neither x nor d.
#pragma once
#include "autocomp_ascend_words.h"

using ac_u16 = LocalTensor<uint16_t>;

// d: one byte of x, those bits alone, as half precision holds it. w, h: as many words of 16 bits.
AC_FN ac_byte_of_bf16(const ac_f32 &d, const ac_u16 &x, const ac_u16 &w, const LocalTensor<half> &h, uint16_t bits, uint32_t n) {
  Duplicate(w, bits, n);
  AC_V;
  And(w, w, x, n);
  AC_V;
  Cast(h, w.ReinterpretCast<int16_t>(), RoundMode::CAST_NONE, n);
  AC_V;
  Cast(d, h, RoundMode::CAST_NONE, n);
}

// d = x: as whole numbers of 16 bits, of which half precision holds either byte, and 2^16 times as much as words.
AC_FN ac_of_bf16(const ac_f32 &d, const ac_u16 &x, const ac_f32 &t, const ac_f32 &u, uint32_t n) {
  const ac_u16 w = u.ReinterpretCast<uint16_t>();
  const LocalTensor<half> h = u.ReinterpretCast<half>()[(n + 15) / 16 * 16];
  ac_byte_of_bf16(t, x, w, h, 255, n);
  ac_byte_of_bf16(d, x, w, h, 65280, n);
  AC_V;
  Add(t, t, d, n);
  AC_V;
  Muls(t, t, 65536.0f, n);
  AC_V;
  Cast(d.ReinterpretCast<int32_t>(), t, RoundMode::CAST_RINT, n);
}

// d = x rounded to even as bf16 has it, a word whose lower half is 0: half of a unit less one, and the last bit that stays, are added to the
// magnitude's bits. Infinity is the largest of these, and what lies behind it, no number, becomes 0x7fc00000 first.
AC_FN ac_rounded_bf16(const ac_i32 &d, const ac_i32 &x, const ac_i32 &t, const ac_i32 &u, uint32_t n) {
  const int32_t infinity = 0x7f800000;
  ac_filled(d, 0x7fffffff, n);
  ac_masked(d, x, d, n);
  AC_V;
  Adds(t, d, -infinity, n);
  Mins(d, d, infinity, n);
  AC_V;
  Maxs(t, t, 0, n);
  AC_V;
  Mins(t, t, 1, n);
  AC_V;
  Muls(t, t, 0x400000, n);
  AC_V;
  Add(d, d, t, n);
  AC_V;
  ac_filled(t, 65536, n);
  ac_masked(t, d, t, n);
  AC_V;
  ac_upper(t, u, n);
  Add(d, d, t, n);
  AC_V;
  Adds(d, d, 32767, n);
  AC_V;
  ac_filled(t, 0x7fff0000, n);
  ac_masked(d, d, t, n);
  AC_V;
  ac_filled(t, int32_t(0x80000000), n);
  ac_masked(t, x, t, n);
  AC_V;
  Or(AC_SHORT(d), AC_SHORT(d), AC_SHORT(t), 2 * n);
}

// d = x in 16 bits.
AC_FN ac_to_bf16(const ac_u16 &d, const ac_f32 &x, const ac_i32 &s, const ac_i32 &t, const ac_i32 &u, uint32_t n) {
  ac_rounded_bf16(s, x.ReinterpretCast<int32_t>(), t, u, n);
  AC_V;
  ac_upper(s, t, n);
  Cast(d.ReinterpretCast<int16_t>(), s, RoundMode::CAST_NONE, n);
}
