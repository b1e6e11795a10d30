// What cube cores call: copies to L1, L0A and L0B by fractals, products, and ways out of L0C.
#pragma once
#include "autocomp_ascend.h"

// Cube cores. A fractal is 16 rows of 32 bytes (C0). L1 holds a factor whose rows are not summed over as stored, in columns of
// fractals (NZ); L0A wants bands of 16 rows, L0B bands of 32 bytes of depth. Depth is padded with zeros to multiples of 16.
__aicore__ inline uint32_t ac_whole(uint32_t n) { return (n + 15) / 16 * 16; }
template <typename T> __aicore__ inline uint32_t ac_c0() { return 32 / sizeof(T); }

#if __NPU_ARCH__ != 2002  // autocomp_ascend_coupled.h has copies for those cores
// Rows that lie farther apart than the copy's field of 16 bits can say are copied one by one.
template <typename T>
AC_FN ac_nd2nz(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t rows, uint32_t cols, uint32_t apart, uint32_t tile_rows) {
  if (apart > 65535) {
    for (uint32_t r = 0; r < rows; ++r) ac_nd2nz(d[r * ac_c0<T>()], s[uint64_t(r) * apart], 1, cols, cols, tile_rows);
    return;
  }
  Nd2NzParams p;
  p.ndNum = 1;
  p.nValue = rows;
  p.dValue = cols;
  p.srcNdMatrixStride = 0;
  p.srcDValue = apart;
  p.dstNzC0Stride = tile_rows;
  p.dstNzNStride = 1;
  p.dstNzMatrixStride = 1;  // of one matrix, where it says nothing: 0 is not in its range
  DataCopy(d, s, p);
}
// A small whole number into `blocks` neighbouring blocks of 32 bytes, `times` times, `gap` blocks between.
template <int value, typename T> AC_FN ac_constant(const LocalTensor<T> &d, uint32_t times, uint32_t blocks, uint32_t gap) {
  InitConstValueParams<T> p;
  p.repeatTimes = times;
  p.blockNum = blocks;
  p.dstGap = gap;
  p.initValue = value;
  InitConstValue(d, p);
}
template <typename T> AC_FN ac_zeros(const LocalTensor<T> &d, uint32_t times, uint32_t blocks, uint32_t gap) {
  ac_constant<0>(d, times, blocks, gap);
}
// A factor in half precision of one column of ones, whose fractals have that column sixteen times.
template <typename T> AC_FN ac_ones(const LocalTensor<T> &d, uint32_t rows) { ac_constant<1>(d, 1, rows, 0); }
// Columns are summed over: the copy fills up the last fractal, a second one in single precision is filled here.
template <typename T>
AC_FN ac_to_l1(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t rows, uint32_t cols, uint32_t apart, uint32_t tile_rows) {
  const uint32_t filled = (cols + ac_c0<T>() - 1) / ac_c0<T>() * ac_c0<T>();
  if (filled < ac_whole(cols)) ac_zeros(d[filled * tile_rows], 1, tile_rows, 0);
  ac_nd2nz(d, s, rows, cols, apart, tile_rows);
}
// Rows outside of [first, last) are zero: a tensor's border. `at`: index of the first element of row 0, which may lie outside.
constexpr int32_t ac_all = 0x7fffffff;
template <typename T>
AC_FN ac_to_l1_bordered(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint64_t at, int32_t first, int32_t last, uint32_t rows,
                        uint32_t cols, uint32_t apart, uint32_t tile_rows) {
  const uint32_t from = ac_fewest(first, rows), to = ac_most(ac_fewest(last, rows), from), c0 = ac_c0<T>(), columns = (cols + c0 - 1) / c0;
  if (from) ac_zeros(d, columns, from, tile_rows - from);
  if (to < rows) ac_zeros(d[to * c0], columns, rows - to, tile_rows - (rows - to));
  if (columns * c0 < ac_whole(cols)) ac_zeros(d[columns * c0 * tile_rows], 1, tile_rows, 0);
  if (from < to) ac_nd2nz(d[from * c0], s[at + uint64_t(from) * apart], to - from, cols, apart, tile_rows);
}
// Rows are summed over: those that only fill up the last fractals are zero.
template <typename T>
AC_FN ac_to_l1_summed(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t rows, uint32_t cols, uint32_t apart, uint32_t tile_rows) {
  const uint32_t more = ac_whole(rows) - rows;
  if (more) ac_zeros(d[rows * 16], ac_whole(cols) / 16, more, tile_rows - more);
  ac_nd2nz(d, s, rows, cols, apart, tile_rows);
}
// In single precision fractals are turned in pairs along the columns, so every band of 16 rows lies by itself.
AC_FN ac_to_l1_summed(const ac_f32 &d, const GlobalTensor<float> &s, uint32_t rows, uint32_t cols, uint32_t apart, uint32_t) {
  const uint32_t band = ac_whole(cols) * 16;
  for (uint32_t r = 0; r < rows; r += 16) {
    const uint32_t n = ac_least(16, rows - r);
    if (n < 16) ac_zeros(d[r / 16 * band + n * 8], ac_whole(cols) / 8, 16 - n, n);
    ac_nd2nz(d[r / 16 * band], s[uint64_t(r) * apart], n, cols, apart, 16);
  }
}
// Bands of 16 rows, each by itself in columns of fractals.
template <typename T> AC_FN ac_to_l1_bands(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t rows, uint32_t cols, uint32_t apart) {
  Nd2NzParams p;
  p.ndNum = rows / 16;
  p.nValue = 16;
  p.dValue = cols;
  p.srcNdMatrixStride = 16 * apart;
  p.srcDValue = apart;
  p.dstNzC0Stride = 16;
  p.dstNzNStride = 1;
  p.dstNzMatrixStride = 16 * cols;
  DataCopy(d, s, p);
}
#endif
// Fractals first, first + step, ... of L1, `n` of them, to every `apart`th place of L0.
template <typename T>
AC_FN ac_fractals(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t first, uint32_t n, uint32_t step, bool turn, uint32_t apart = 1) {
  LoadData2DParams p;
  p.startIndex = first;
  p.repeatTimes = n;
  p.srcStride = step;
  p.dstGap = apart - 1;
  p.ifTranspose = turn;
  LoadData(d, s, p);
}
#if __NPU_ARCH__ != 2002
// `places` x `channels` elements of a matrix whose columns of fractals have `rows` rows, in one instruction: it is an image of one line in L1,
// which a window of one place passes over. L0A gets bands of 16 places, turned bands of 16 channels; L0B bands along the places.
template <typename T> AC_FN ac_image(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t places, uint32_t channels, uint32_t rows, bool turn) {
  uint8_t none[4] = {0, 0, 0, 0};
  SetFmatrix(1, rows, none, FmatrixMode::FMATRIX_LEFT);
  LoadData3DParamsV2Pro p;
  p.channelSize = channels;
  p.enTranspose = turn;
  p.extConfig = uint64_t(places) << 16 | channels;
  LoadData(d, s, p);
}
#endif
// A grid of `bands` x `along` fractals, which lie `band` and `step` fractals apart in L1 and band behind band in L0, in as few instructions
// as its sides let: each takes up to 255 fractals at even distances.
template <typename T>
AC_FN ac_grid(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t bands, uint32_t along, uint32_t band, uint32_t step, bool turn) {
  const uint32_t size = 512 / sizeof(T);
  if (band == step * along && bands * along < 256)
    ac_fractals(d, s, 0, bands * along, step, turn);
  else if (along < bands)
    for (uint32_t c = 0; c < along; ++c) ac_fractals(d[c * size], s, c * step, bands, band, turn, along);
  else
    for (uint32_t r = 0; r < bands; ++r) ac_fractals(d[r * along * size], s, r * band, along, step, turn);
}
#if __NPU_ARCH__ != 2002
// `n` neighbouring squares of 16 x 16 in single precision, turned: each gives two fractals, `half` fractals from one to the other;
// squares begin `step` fractals from each other.
AC_FN ac_squares(const ac_f32 &d, const ac_f32 &s, uint32_t n, uint32_t step, uint32_t half) {
  LoadData2dTransposeParams p;
  p.startIndex = 0;
  p.repeatTimes = n;
  p.srcStride = 1;
  p.dstGap = step - 1;
  p.dstFracGap = half - 1;
  p.addrMode = 0;
  LoadDataWithTranspose(d, s, p);
}
#endif
// First factor stored as [m, k], or as [k, m]; `rows`: of the tile in L1, in whole fractals as m and k are.
#if __NPU_ARCH__ == 2002
template <typename T> AC_FN ac_to_l0a(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t m, uint32_t k, uint32_t rows) {
  ac_grid(d, s, m / 16, k / 16, 1, rows / 16, false);
}
template <typename T> AC_FN ac_to_l0a_turned(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t m, uint32_t k, uint32_t rows) {
  ac_grid(d, s, m / 16, k / 16, rows / 16, 1, true);
}
#else
template <typename T> AC_FN ac_to_l0a(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t m, uint32_t k, uint32_t rows) {
  ac_image(d, s, m, k, rows, false);
}
template <typename T> AC_FN ac_to_l0a_turned(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t m, uint32_t k, uint32_t rows) {
  ac_image(d, s, k, m, rows, true);
}
AC_FN ac_to_l0a_turned(const ac_f32 &d, const ac_f32 &s, uint32_t m, uint32_t k, uint32_t) {
  for (uint32_t r = 0; r < k / 16; ++r) ac_squares(d[r * 256], s[r * m * 16], m / 16, k / 8, 1);
}
#endif
// Second factor stored as [n, k], or as [k, n].
template <typename T> AC_FN ac_to_l0b(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t n, uint32_t k, uint32_t rows) {
  ac_grid(d, s, k / ac_c0<T>(), n / 16, rows / 16, 1, false);
}
template <typename T> AC_FN ac_to_l0b_turned(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t n, uint32_t k, uint32_t rows) {
#if __NPU_ARCH__ == 2002
  ac_grid(d, s, k / 16, n / 16, 1, rows / 16, true);
#else
  ac_image(d, s, k, n, rows, false);
#endif
}
// The same of bands of 16 rows: fractals lie in their order.
template <typename T> AC_FN ac_to_l0b_bands(const LocalTensor<T> &d, const LocalTensor<T> &s, uint32_t n, uint32_t k) {
  ac_fractals(d, s, 0, n / 16 * (k / 16), 1, true);
}
#if __NPU_ARCH__ != 2002
AC_FN ac_to_l0b_turned(const ac_f32 &d, const ac_f32 &s, uint32_t n, uint32_t k, uint32_t) {
  for (uint32_t r = 0; r < k / 16; ++r) ac_squares(d[r * n * 16], s[r * n * 16], n / 16, 1, n / 16);
}
#endif
// One row would be taken for a vector, whose elements lie side by side and not in fractals: it goes as a fractal of 16 rows. All of them
// lie in L0A and L0C; rows do not mix, and Fixpipe lets the first one out.
template <typename T>
AC_FN ac_mmad(const ac_f32 &c, const LocalTensor<T> &a, const LocalTensor<T> &b, uint32_t m, uint32_t n, uint32_t k, bool first) {
  MmadParams p;
  p.m = m == 1 ? 16 : m;
  p.n = n;
  p.k = sizeof(T) == 4 ? ac_whole(k) : k;  // bands of 8 elements: the padding is part of the sum
  p.cmatrixInitVal = first;
  Mmad(c, a, b, p);
}
#if __NPU_ARCH__ != 2002
__aicore__ inline FixpipeParamsV220 ac_leaving(uint32_t m, uint32_t n, uint32_t apart, bool relu) {
  FixpipeParamsV220 p;
  p.nSize = n;
  p.mSize = m;
  p.srcStride = ac_whole(m);
  p.dstStride = apart;
  p.ndNum = 1;
  p.reluEn = relu;
  return p;
}
AC_FN ac_fixpipe(const GlobalTensor<float> &d, const ac_f32 &c, uint32_t m, uint32_t n, uint32_t apart, bool relu = false) {
  Fixpipe<float, float, CFG_ROW_MAJOR>(d, c, ac_leaving(m, n, apart, relu));
}
AC_FN ac_fixpipe(const GlobalTensor<half> &d, const ac_f32 &c, uint32_t m, uint32_t n, uint32_t apart, bool relu = false) {
  FixpipeParamsV220 p = ac_leaving(m, n, apart, relu);
  p.quantPre = QuantMode_t::F322F16;
  Fixpipe<half, float, CFG_ROW_MAJOR>(d, c, p);
}
AC_FN ac_fixpipe(const GlobalTensor<bfloat16_t> &d, const ac_f32 &c, uint32_t m, uint32_t n, uint32_t apart, bool relu = false) {
  FixpipeParamsV220 p = ac_leaving(m, n, apart, relu);
  p.quantPre = QuantMode_t::F322BF16;
  Fixpipe<bfloat16_t, float, CFG_ROW_MAJOR>(d, c, p);
}
// To halves in blocks of 16 columns of `rows` rows.
AC_FN ac_fixpipe_blocks(const GlobalTensor<half> &d, const ac_f32 &c, uint32_t m, uint32_t n, uint32_t rows) {
  FixpipeParamsV220 p = ac_leaving(m, n, rows, false);
  p.quantPre = QuantMode_t::F322F16;
  Fixpipe<half, float, CFG_NZ>(d, c, p);
}
template <typename T> AC_FN ac_fixpipe_relu(const GlobalTensor<T> &d, const ac_f32 &c, uint32_t m, uint32_t n, uint32_t apart) {
  ac_fixpipe(d, c, m, n, apart, true);
}
#endif
