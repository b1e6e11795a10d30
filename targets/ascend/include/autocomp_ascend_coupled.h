// Products on cores with a cube and a vector unit each (310P): copies to L1 of whole blocks, and sums from L0C to unified buffer.
#pragma once
#include "autocomp_ascend_cube.h"

// A 310P has no copy that makes fractals: blocks of 32 bytes go to their places one column of fractals a copy, or one row where rows do not
// lie apart by whole blocks or are few. Depth is whole fractals there; what lies behind a row's end is no part of a result that is kept.
template <typename T>
AC_FN ac_to_l1(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t rows, uint32_t cols, uint32_t apart, uint32_t tile_rows) {
  const uint32_t c0 = ac_c0<T>(), columns = (cols + c0 - 1) / c0;
  if (apart % c0 == 0 && apart / c0 <= 65535 && columns <= rows)
    for (uint32_t c = 0; c < columns; ++c) DataCopy(d[c * c0 * tile_rows], s[c * c0], DataCopyParams(rows, 1, apart / c0 - 1, 0));
  else
    for (uint32_t r = 0; r < rows; ++r) DataCopy(d[r * c0], s[uint64_t(r) * apart], DataCopyParams(columns, 1, 0, tile_rows - 1));
}
template <typename T>
AC_FN ac_to_l1_summed(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t rows, uint32_t cols, uint32_t apart, uint32_t tile_rows) {
  ac_to_l1(d, s, rows, cols, apart, tile_rows);
}
// A sum of m x n elements from L0C to rows `pitch` elements apart; t: room for four columns of fractals.
AC_FN ac_from_l0c(const ac_f32 &d, const ac_f32 &c, const ac_f32 &t, uint32_t m, uint32_t n, uint32_t pitch) {
  const uint32_t rows = ac_whole(m), columns = (n + 15) / 16;
  DataCopyEnhancedParams p;
  p.blockMode = BlockMode::BLOCK_MODE_MATRIX;
  for (uint32_t j = 0; j < columns; j += 4) {
    const uint32_t some = ac_least(4, columns - j);
    DataCopy(t, c[j * 16 * rows], DataCopyParams(1, some * rows / 16, 0, 0), p);
    AC_V;
    for (uint32_t i = 0; i < some; ++i) DataCopy(d[(j + i) * 16], t[i * 16 * rows], DataCopyParams(m, 2, 0, pitch / 8 - 2));
    AC_V;
  }
}
