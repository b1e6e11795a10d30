// Copies between memory and unified buffer on chips that have no DataCopyPad (310P): an address in memory is any element's, lengths are whole
// blocks of 32 bytes. `spare`: two blocks of unified buffer that nobody else uses.
#pragma once
#include "autocomp_ascend.h"

__aicore__ inline bool ac_in_blocks(const DataCopyExtParams &p, uint32_t gap) {  // bytes between rows in memory
  return p.blockLen % 32 == 0 && gap % 32 == 0 && p.blockLen < 32 * 65536 && gap < 32 * 65536;
}

// Rows come with up to 31 bytes of what lies behind them.
template <typename T>
AC_FN ac_blocks(const LocalTensor<uint8_t> &spare, const LocalTensor<T> &d, const GlobalTensor<T> &s, const DataCopyExtParams &p,
                const DataCopyPadExtParams<T> &) {
  const uint32_t blocks = (p.blockLen + 31) / 32;
  if (ac_in_blocks(p, p.srcStride)) {
    DataCopy(d, s, DataCopyParams(p.blockCount, blocks, p.srcStride / 32, p.dstStride));
    return;
  }
  for (uint32_t r = 0; r < p.blockCount; ++r)
    DataCopy(d[r * (blocks + p.dstStride) * 32 / sizeof(T)], s[uint64_t(r) * (p.blockLen + p.srcStride) / sizeof(T)], blocks * 32 / sizeof(T));
}

// Rows that begin at element `left` of a block, from element `at` of `s` on: they come with what lies in front of them in memory. Where a
// tensor has nothing there, the scalar unit puts the first block of a row together.
template <typename T>
AC_FN ac_border(const LocalTensor<uint8_t> &spare, const LocalTensor<T> &d, const GlobalTensor<T> &s, uint64_t at, const DataCopyExtParams &p,
                uint32_t left) {
  const uint32_t unit = 32 / sizeof(T), blocks = (left * sizeof(T) + p.blockLen + 31) / 32;
  const LocalTensor<T> held = spare[32].ReinterpretCast<T>();
  for (uint32_t r = 0; r < p.blockCount; ++r) {
    const uint64_t from = at + uint64_t(r) * (p.blockLen + p.srcStride) / sizeof(T);
    const LocalTensor<T> to = d[r * (blocks + p.dstStride) * unit];
    if (from >= left) {
      DataCopy(to, s[from - left], blocks * unit);
    } else {
      DataCopy(held, s[from], unit);
      SetFlag<HardEvent::MTE2_S>(0);
      WaitFlag<HardEvent::MTE2_S>(0);
      for (uint32_t i = left; i < unit; ++i) to.SetValue(i, held.GetValue(i - left));
      SetFlag<HardEvent::S_MTE2>(0);
      WaitFlag<HardEvent::S_MTE2>(0);
      if (blocks > 1) DataCopy(to[unit], s[from + unit - left], (blocks - 1) * unit);
    }
  }
}

// Elements of a dense run that begin anywhere in their rows, `first` and those behind it, leave as a block: the scalar unit puts it together,
// behind what it has copied from there before.
template <typename T>
AC_FN ac_block(const LocalTensor<T> &spare, const GlobalTensor<T> &d, const LocalTensor<T> &s, uint32_t first, uint32_t end, uint32_t n,
               uint32_t pitch) {
  const uint32_t unit = 32 / sizeof(T);
  SetFlag<HardEvent::MTE3_S>(0);
  WaitFlag<HardEvent::MTE3_S>(0);
  for (uint32_t i = first; i < ac_least(end, first + unit); ++i) spare.SetValue(i - first, s[i / n * pitch].GetValue(i % n));
  SetFlag<HardEvent::S_MTE3>(0);
  WaitFlag<HardEvent::S_MTE3>(0);
  DataCopy(d[first], spare, unit);
}

// Of a row that ends within a block its last 32 bytes leave by themselves. Rows of less than a block lie side by side and leave as one run; one
// that is less than a block is all of its tensor, which has whole blocks in memory.
template <typename T>
AC_FN ac_blocks(const LocalTensor<uint8_t> &spare, const GlobalTensor<T> &d, const LocalTensor<T> &s, const DataCopyExtParams &p) {
  const uint32_t unit = 32 / sizeof(T), blocks = (p.blockLen + 31) / 32, whole = p.blockLen / 32, n = p.blockLen / sizeof(T);
  const LocalTensor<T> held = spare.ReinterpretCast<T>();
  const uint32_t pitch = (blocks + p.srcStride) * unit;
  if (ac_in_blocks(p, p.dstStride)) {
    DataCopy(d, s, DataCopyParams(p.blockCount, blocks, p.srcStride, p.dstStride / 32));
  } else if (!whole) {
    const uint32_t end = p.blockCount * n;
    for (uint32_t i = 0; i < end; i += unit) ac_block(held, d, s, end < unit ? 0 : ac_least(i, end - unit), end, n, pitch);
  } else {
    for (uint32_t r = 0; r < p.blockCount; ++r) {
      const GlobalTensor<T> to = d[uint64_t(r) * (p.blockLen + p.dstStride) / sizeof(T)];
      DataCopy(to, s[r * pitch], whole * unit);
      if (whole < blocks) ac_block(held, to, s[r * pitch], n - unit, n, n, 0);
    }
  }
}

// Byte offsets of n elements that lie in rows of `row`, of `size` bytes each, one behind the other, in rows of which each is `pitch`
// elements from the next; t: as many floats. They are exact below 2^21 elements. CreateVecIndex: see ac_steps.
AC_FN ac_places_of_rows(const LocalTensor<uint32_t> &o, const ac_f32 &t, uint32_t row, uint32_t pitch, uint32_t size, uint32_t n) {
  const LocalTensor<int32_t> d = o.ReinterpretCast<int32_t>(), u = t.ReinterpretCast<int32_t>();
  ac_steps(t, 0.5f / row, 1.0f / row, n);
  AC_V;
  Cast(d, t, RoundMode::CAST_FLOOR, n);  // the row of each
  AC_V;
  SetFlag<HardEvent::V_S>(0);
  WaitFlag<HardEvent::V_S>(0);
  CreateVecIndex(u, int32_t(0), n);
  Muls(d, d, int32_t(pitch - row), n);
  AC_V;
  Add(d, d, u, n);
  AC_V;
  Muls(d, d, int32_t(size), n);
}
