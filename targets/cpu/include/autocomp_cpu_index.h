/* Arithmetic of indices: part of autocomp_cpu.h; all that a printed recurrence needs. Divisors are positive. */
#ifndef AUTOCOMP_CPU_INDEX_H
#define AUTOCOMP_CPU_INDEX_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define AC_INLINE static inline __attribute__((always_inline, unused))

AC_INLINE long ac_floordiv(long a, long b) { long q = a / b; return q - (a % b < 0); }
AC_INLINE long ac_mod(long a, long b) { long r = a % b; return r < 0 ? r + b : r; }
AC_INLINE long ac_min(long a, long b) { return a < b ? a : b; }
AC_INLINE long ac_max(long a, long b) { return a > b ? a : b; }
AC_INLINE long ac_clamp(long a, long hi) { return a < 0 ? 0 : a < hi ? a : hi - 1; }

/* An index that was computed, inside its tensor. Its value is hidden from the compiler: GCC 12 and 13 read lanes of a[b <= 0] at the mask of
 * the comparison (-1) instead of at 1 where they make a gather of the loop. */
AC_INLINE long ac_place(long a, long hi) {
  long at = ac_clamp(a, hi);
  __asm__("" : "+r"(at));
  return at;
}
#endif
