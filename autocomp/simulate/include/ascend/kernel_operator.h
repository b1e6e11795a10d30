// A stand-in for the Ascend C header: the names that printed kernels use, with a model that runs them on a host.
//
// Works run in program order, so the result alone would hide a missing flag. Every access of an on-chip byte range is therefore kept
// with its pipe and time; flags carry clocks; a conflict that no clock orders is reported, as are ranges outside a tensor, wrong
// alignment, waits that never end, flags set twice and flags left set. Memory on chip starts as NaN.
// Bank conflicts of unified buffer are counted, as they are slow and not wrong. What the first group of cores does is kept in order (`Event`).
// What does not depend on a kernel is in ascend_model.cpp, which is compiled once: a kernel's build has its own text and the templates it uses.
// This header is read for each kernel, and most of that time was the standard library's: what needs strings, locks or <cmath> stands there.
// What it cannot show: rounding of the hardware's functions, the compiler's own rules.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#define __global__
#define __aicore__
#define __gm__
typedef uint8_t *GM_ADDR;
typedef _Float16 half;
struct bfloat16_t {
  uint16_t bits;
  bfloat16_t() = default;
  bfloat16_t(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    bits = f != f ? 0x7fc0 : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const {
    const uint32_t u = uint32_t(bits) << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
  }
};

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_FIX, PIPE_ALL };
#define PIPES 7
enum { KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIC_1_2, KERNEL_TYPE_AICORE };
#define KERNEL_TASK_TYPE_DEFAULT(t) (void)(t)
enum { CFG_NZ, CFG_ROW_MAJOR };

namespace model {
struct Event {  // what a core of the first group does, in the order in which it says so
  int kind, pipe, key;  // a work; a flag set and waited for; the same between cores; a pipe's barrier. key: which flag
  const char *name;     // of the call
  long amount;          // products: multiply-adds; vector instructions: repeats
  long near, far, runs, split; // bytes on chip, and of memory; its contiguous pieces that begin at blocks, and blocks of others
  long conflicts;       // repeats' clocks that wait for a bank
  int place;            // TPosition that a copy on chip writes to
};
enum { WORK, SET, WAIT, CROSS_SET, CROSS_WAIT, BARRIER };
struct Core {  // which one runs
  bool cube = false;
  int block = 0, sub = 0, blocks = 1;
};
extern thread_local const Core *core;
inline thread_local const char *called = "";  // the function of the interface that runs
Event *at_work(int pipe);  // the work that a pipe has just begun, where it is kept
void tell(const char *what);
const char *said();  // what was told, a line each
bool told(const char *of);  // whether anything was: its lines go to stderr, each behind the kernel that it is told of
struct Stop {};  // what a core cannot do ends it: nothing is read or written behind the end of anything
[[noreturn]] void stop(const char *what);
// A number that the interface takes: one outside of its range is told, never cut.
void within(const char *of, const char *name, long v, long low, long high);
void whole(const char *of, const char *name, long v, long unit);
void aligned(const char *of, const char *name, const void *at, long align);
[[noreturn]] void outside(const char *name, long v, long low, long high);
template <typename T> struct Number {  // a field
  const char *name;
  T value;
  long low, high;
  template <typename V> Number &operator=(V v) {
    const long n = long(v);
    if (n < low || n > high) outside(name, n, low, high);
    value = T(n);
    return *this;
  }
  operator T() const { return value; }
};
template <typename T, typename... A> constexpr bool one_of = (std::is_same<T, A>::value || ...);
struct Step {  // of a call: a work on a pipe (`from` equals `to`), or a flag that the library itself passes
  pipe_t from, to;
};
inline long behind = 0;  // bytes behind each of them that may be read; more than 0: what fills its last block may be written
void gave(const void *at, long bytes);  // a tensor's address, and what lies behind it
long given(uint64_t address);           // that many
inline const uint8_t *scratch = nullptr, *scratch_end = nullptr;
void start(pipe_t p);
void touch(pipe_t p, const void *at, long bytes, bool write); // a use by the work that `start` began
void shared(pipe_t p, const void *at, long bytes, bool write);  // a use of memory; only what cores share is followed
}  // namespace model

#define ASCEND_IS_AIC (model::core->cube)
#define ASCEND_IS_AIV (!model::core->cube)

#include "api_types.h"

namespace model {
uint8_t *on_chip(AscendC::TPosition p, uint32_t bytes);  // its memory, full of NaN
bool lies_in(AscendC::TPosition p, const void *at);
}

namespace AscendC {
template <typename T> struct GlobalTensor {
  T *at = nullptr;
  void SetGlobalBuffer(T *p) { at = p; }
  void SetL2CacheHint(CacheMode) {}  // L2 is not modelled
  GlobalTensor operator[](uint64_t i) const { return {at + i}; }
  T GetValue(uint64_t i) const {
    model::shared(PIPE_S, at + i, sizeof(T), false);
    return at[i];
  }
};
template <typename T> struct LocalTensor {
  T *at = nullptr;
  long left = 0;  // elements from here to the end
  LocalTensor operator[](uint32_t i) const { return {at + i, left - long(i)}; }
  uint64_t GetPhyAddr() const {
    model::gave(at, left * long(sizeof(T)));
    return (uint64_t)at;
  }
  template <typename U> LocalTensor<U> ReinterpretCast() const { return {(U *)at, left * long(sizeof(T)) / long(sizeof(U))}; }
  void SetValue(uint32_t i, T v) const {
    if (long(i) >= left) model::stop("a write behind the end of a tensor");
    model::start(PIPE_S);
    model::touch(PIPE_S, at + i, sizeof(T), true);
    at[i] = v;
  }
  T GetValue(uint32_t i) const {
    if (long(i) >= left) model::stop("a read behind the end of a tensor");
    model::start(PIPE_S);
    model::touch(PIPE_S, at + i, sizeof(T), false);
    return at[i];
  }
};
template <TPosition P> struct TBuf {
  uint8_t *base = nullptr;
  long bytes = 0;
  template <typename T> LocalTensor<T> GetWithOffset(uint32_t count, uint32_t at) const {
    if (at + count * sizeof(T) > (unsigned long)bytes) model::stop("a tensor lies outside its memory");
    return {(T *)(base + at), count};
  }
};
struct TPipe {
  template <TPosition P> void InitBuffer(TBuf<P> &b, uint32_t bytes) {
    if (bytes > model::capacity(P)) model::stop("a memory on chip is too small");
    b.base = model::on_chip(P, bytes);
    b.bytes = bytes;
  }
  void Destroy() {}
};

}  // namespace AscendC

namespace model {
using namespace AscendC;
const pipe_t *ends(HardEvent e);
template <typename T, AscendC::CacheLine, AscendC::DcciDst> void DataCacheCleanAndInvalid(const AscendC::GlobalTensor<T> &) {}
template <typename T, AscendC::CacheLine> void DataCacheCleanAndInvalid(const AscendC::GlobalTensor<T> &) {}
inline int GetBlockIdx() { return model::core->block; }
inline int GetBlockNum() { return model::core->blocks; }
inline int GetSubBlockIdx() { return model::core->sub; }
void barrier(pipe_t p);
void set_flag(HardEvent e, int id);
void wait_flag(HardEvent e, int id);
void set_cross_flag(pipe_t p, int id);
template <pipe_t P> void PipeBarrier() { barrier(P); }
template <HardEvent E> void SetFlag(int id) { set_flag(E, id); }
template <HardEvent E> void WaitFlag(int id) { wait_flag(E, id); }
template <int MODE, pipe_t P> void CrossCoreSetFlag(int id) {
  static_assert(MODE == 2, "between a cube core and its vector cores");
  set_cross_flag(P, id);
}
void CrossCoreWaitFlag(int id);

// ---- checked ranges
void range(pipe_t p, const void *at, bool within, long bytes, int align, bool write);
template <typename T> void in(pipe_t p, const LocalTensor<T> &x, long n, int align = 32) {
  range(p, x.at, n <= x.left, n * sizeof(T), align, false);
}
template <typename T> void out(pipe_t p, const LocalTensor<T> &x, long n, int align = 32) {
  range(p, x.at, n <= x.left, n * sizeof(T), align, true);
}

// ---- copies
inline long up(long n, long to) { return (n + to - 1) / to * to; }
// Elements in front of a row and behind it, to whole blocks: the value that is given, else anything.
template <typename T>
void DataCopyPad(const LocalTensor<T> &d, const GlobalTensor<T> &s, const DataCopyExtParams &p, const DataCopyPadExtParams<T> &pad) {
  model::start(PIPE_MTE2);
  const long left = pad.leftPadding * long(sizeof(T)), right = pad.rightPadding * long(sizeof(T));
  if (left > 32 || right > 32) stop("DataCopyPad: more than 32 bytes of padding");
  const long size = up(left + p.blockLen + right, 32), pitch = size + 32l * p.dstStride;
  out(PIPE_MTE2, d, ((p.blockCount - 1) * pitch + size) / sizeof(T));
  for (long r = 0; r < p.blockCount; ++r) {
    const uint8_t *from = (uint8_t *)s.at + r * (long(p.blockLen) + p.srcStride);
    uint8_t *to = (uint8_t *)d.at + r * pitch;
    model::shared(PIPE_MTE2, from, p.blockLen, false);
    if (pad.isPad)
      for (long i = 0; i < size / long(sizeof(T)); ++i) memcpy(to + i * sizeof(T), &pad.paddingValue, sizeof(T));
    else if (left || right)
      memset(to, 0xff, size);
    memcpy(to + left, from, p.blockLen);
  }
}
template <typename T> void DataCopyPad(const GlobalTensor<T> &d, const LocalTensor<T> &s, const DataCopyExtParams &p) {
  model::start(PIPE_MTE3);
  const long pitch = up(p.blockLen, 32) + 32l * p.srcStride;
  in(PIPE_MTE3, s, ((p.blockCount - 1) * pitch + up(p.blockLen, 32)) / sizeof(T));
  for (long r = 0; r < p.blockCount; ++r) {
    uint8_t *to = (uint8_t *)d.at + r * (long(p.blockLen) + p.dstStride);
    model::shared(PIPE_MTE3, to, p.blockLen, true);
    memcpy(to, (uint8_t *)s.at + r * pitch, p.blockLen);
  }
}

// ---- banks of unified buffer: a group of banks serves one read a clock, a bank one read or write
struct Blocks {  // what a vector instruction reads or writes: eight blocks of 32 bytes a repeat
  const void *at;
  long blk = 1, rep = 8;  // blocks from one block, and one repeat, to the next
};
void banked(long repeats, std::initializer_list<Blocks> reads, Blocks write);
inline long repeats_of(long bytes) { return (bytes + repeat - 1) / repeat; }

// ---- vector instructions
// Integers are computed with 64 bits. No public page says whether the vector unit wraps or saturates: a result outside of its type is told.
template <typename T> using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, float>;
void leaves_its_type();
template <typename T> T narrowed(Wide<T> x) {
  if (std::is_integral_v<T> && x != Wide<T>(T(x))) leaves_its_type();
  return T(x);
}
// Special functions and reductions of blocks take another number of clocks a repeat of halves: the call says what it is of.
template <typename T> void of_halves(const char *name) {
  if (sizeof(T) == 2 && std::is_same_v<T, half>) called = name;
}
template <typename T, typename F> void unary(const LocalTensor<T> &d, const LocalTensor<T> &x, uint32_t n, F f) {
  model::start(PIPE_V);
  in(PIPE_V, x, n);
  out(PIPE_V, d, n);
  banked(repeats_of(n * sizeof(T)), {{x.at}}, {d.at});
  for (uint32_t i = 0; i < n; ++i) d.at[i] = narrowed<T>(f(Wide<T>(x.at[i])));
}
template <typename T, typename F> void binary(const LocalTensor<T> &d, const LocalTensor<T> &a, const LocalTensor<T> &b, uint32_t n, F f) {
  model::start(PIPE_V);
  in(PIPE_V, a, n);
  in(PIPE_V, b, n);
  out(PIPE_V, d, n);
  banked(repeats_of(n * sizeof(T)), {{a.at}, {b.at}}, {d.at});
  for (uint32_t i = 0; i < n; ++i) d.at[i] = narrowed<T>(f(Wide<T>(a.at[i]), Wide<T>(b.at[i])));
}
template <typename T, typename F>
void strided(const LocalTensor<T> &d, const LocalTensor<T> &a, const LocalTensor<T> &b, uint64_t mask, uint8_t repeat,
             const BinaryRepeatParams &p, F f, bool updates = false) {  // `updates`: d is read too, as the third argument of f
  model::start(PIPE_V);
  constexpr long each_block = block / sizeof(T);
  // What lies between two repeats' elements, or two blocks', is not touched: columns of a tile are taken by instructions of their own.
  auto each = [&](auto use, const LocalTensor<T> &x, long blk, long rep) {
    for (long r = 0; blk > 1 && r < repeat; ++r)
      for (long i = 0; i < long(mask); i += each_block)
        use(x[(r * rep + i / each_block * blk) * each_block], std::min(each_block, long(mask) - i));
    if (blk > 1) return;
    const long last = long((mask - 1) / each_block) * blk * each_block + (blk ? (mask - 1) % each_block + 1 : each_block);
    const bool apart = rep * each_block > last;
    for (long r = 0; r < (apart ? repeat : 1); ++r) use(x[r * rep * each_block], apart ? last : (repeat - 1) * rep * each_block + last);
  };
  each([](const LocalTensor<T> &x, long n) { in(PIPE_V, x, n); }, a, p.src0BlkStride, p.src0RepStride);
  each([](const LocalTensor<T> &x, long n) { in(PIPE_V, x, n); }, b, p.src1BlkStride, p.src1RepStride);
  if (updates) each([](const LocalTensor<T> &x, long n) { in(PIPE_V, x, n); }, d, p.dstBlkStride, p.dstRepStride);
  each([](const LocalTensor<T> &x, long n) { out(PIPE_V, x, n); }, d, p.dstBlkStride, p.dstRepStride);
  const Blocks first = {a.at, p.src0BlkStride, p.src0RepStride}, second = {b.at, p.src1BlkStride, p.src1RepStride};
  const Blocks result = {d.at, p.dstBlkStride, p.dstRepStride};
  updates ? banked(repeat, {first, second, result}, result) : banked(repeat, {first, second}, result);
  for (long r = 0; r < repeat; ++r)
    for (uint64_t i = 0; i < mask; ++i) {
      auto at = [&](int blk, int rep) { return r * rep * each_block + long(i / each_block) * blk * each_block + i % each_block; };
      T &to = d.at[at(p.dstBlkStride, p.dstRepStride)];
      to = narrowed<T>(f(Wide<T>(a.at[at(p.src0BlkStride, p.src0RepStride)]), Wide<T>(b.at[at(p.src1BlkStride, p.src1RepStride)]), Wide<T>(to)));
    }
}
#define UNARY(N, E)                                                                       \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, uint32_t n) { \
    of_halves<T>(#N " of halves");                                                        \
    unary(d, x, n, [](auto a) { return decltype(a)(E); });                                \
  }
#define SCALAR(N, E) \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, T by, uint32_t n) {                                  \
    unary(d, x, n, [b = Wide<T>(by)](auto a) { return decltype(a)(E); });                                                            \
  }                                                                                                                                  \
  template <typename T>                                                                                                              \
  void N(const LocalTensor<T> &d, const LocalTensor<T> &x, T by, uint64_t mask, uint8_t repeat, const UnaryRepeatParams &p) {        \
    const BinaryRepeatParams q(p.dstBlkStride, p.srcBlkStride, p.srcBlkStride, p.dstRepStride, p.srcRepStride, p.srcRepStride);      \
    strided(d, x, x, mask, repeat, q, [b = Wide<T>(by)](auto a, auto, auto) { return decltype(a)(E); });                             \
  }
#define BINARY(N, E)                                                                                                                 \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &y, uint32_t n) {              \
    binary(d, x, y, n, [](auto a, auto b) { return decltype(a)(E); });                                                                   \
  }                                                                                                                                  \
  template <typename T>                                                                                                              \
  void N(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &y, uint64_t mask, uint8_t repeat,                    \
         const BinaryRepeatParams &p) {                                                                                       \
    strided(d, x, y, mask, repeat, p, [](auto a, auto b, auto) { return decltype(a)(E); });                                              \
  }
UNARY(Exp, __builtin_expf(a))
UNARY(Ln, __builtin_logf(a))
UNARY(Sqrt, __builtin_sqrtf(a))
UNARY(Abs, __builtin_fabsf(a))
UNARY(Relu, a > 0 ? a : 0)
SCALAR(Adds, a + b)
SCALAR(Muls, a *b)
SCALAR(Maxs, a > b ? a : b)
SCALAR(Mins, a < b ? a : b)
BINARY(Add, a + b)
BINARY(Sub, a - b)
BINARY(Mul, a *b)
BINARY(Div, a / b)
BINARY(Max, a > b ? a : b)
BINARY(Min, a < b ? a : b)
template <typename T> void Axpy(const LocalTensor<T> &d, const LocalTensor<T> &x, T by, uint32_t n) {
  model::start(PIPE_V);
  in(PIPE_V, x, n);
  in(PIPE_V, d, n);
  out(PIPE_V, d, n);
  banked(repeats_of(n * sizeof(T)), {{x.at}, {d.at}}, {d.at});
  for (uint32_t i = 0; i < n; ++i) d.at[i] = T(float(x.at[i]) * float(by) + float(d.at[i]));
}
template <typename T>
void FusedMulAdd(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &y, uint64_t mask, uint8_t repeat, const BinaryRepeatParams &p) {
  strided(d, x, y, mask, repeat, p, [](auto a, auto b, auto c) { return a * c + b; }, true);
}
// Shifts: of signed words with copies of the sign. By how many bits to the left only of unsigned ones: the sign of others stays in its place.
template <typename T> void ShiftLeft(const LocalTensor<T> &d, const LocalTensor<T> &x, T by, uint32_t n) {
  if (std::is_signed_v<T>) tell("a shift to the left of signed words, whose sign stays");
  unary(d, x, n, [by](int64_t a) { return int64_t(T(a << by)); });
}
template <typename T> void ShiftRight(const LocalTensor<T> &d, const LocalTensor<T> &x, T by, uint32_t n) {
  unary(d, x, n, [by](int64_t a) { return a >> by; });
}
template <typename T> void Not(const LocalTensor<T> &d, const LocalTensor<T> &x, uint32_t n) {
  unary(d, x, n, [](int64_t a) { return int64_t(T(~a)); });
}
#define BITWISE(N, OP)                                                                                              \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &y, uint32_t n) { \
    model::start(PIPE_V);                                                                                           \
    in(PIPE_V, x, n);                                                                                               \
    in(PIPE_V, y, n);                                                                                               \
    out(PIPE_V, d, n);                                                                                              \
    banked(repeats_of(n * sizeof(T)), {{x.at}, {y.at}}, {d.at});                                                    \
    for (uint32_t i = 0; i < n; ++i) d.at[i] = T(x.at[i] OP y.at[i]);                                               \
  }
BITWISE(And, &)
BITWISE(Or, |)
template <typename T> void Duplicate(const LocalTensor<T> &d, T v, uint32_t n) {
  model::start(PIPE_V);
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = v;
}
// Of each repeat the elements whose bits of the mask are set.
template <typename T> void Duplicate(const LocalTensor<T> &d, T v, const uint64_t (&mask)[2], uint8_t times, uint16_t blk, uint8_t rep) {
  model::start(PIPE_V);
  constexpr long each = block / sizeof(T);
  banked(times, {}, {d.at, blk, rep});
  for (long r = 0; r < times; ++r)
    for (long i = 0; i < repeat / long(sizeof(T)); ++i) {
      if (!(mask[i / 64] >> i % 64 & 1)) continue;
      const long at = (r * rep + i / each * blk) * each;
      out(PIPE_V, d[at], i % each + 1);
      d.at[at + i % each] = v;
    }
}
inline float whole_number(float x, RoundMode m) {
  return m == RoundMode::CAST_FLOOR ? __builtin_floorf(x) : m == RoundMode::CAST_CEIL ? __builtin_ceilf(x) : m == RoundMode::CAST_TRUNC ? __builtin_truncf(x) : __builtin_nearbyintf(x);
}
template <typename D> D saturated(float x) {
  const double low = double(std::numeric_limits<D>::min()), high = double(std::numeric_limits<D>::max());
  return x != x ? D(0) : x <= low ? std::numeric_limits<D>::min() : x >= high ? std::numeric_limits<D>::max() : D(x);
}
template <typename D, typename S> void Cast(const LocalTensor<D> &d, const LocalTensor<S> &s, RoundMode mode, uint32_t n) {
  model::start(PIPE_V);
  in(PIPE_V, s, n);
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i)
    if constexpr (std::is_integral_v<D> && std::is_integral_v<S>)
      d.at[i] = narrowed<D>(s.at[i]);
    else if constexpr (std::is_integral_v<D>)  // what is out of range saturates
      d.at[i] = saturated<D>(whole_number(float(s.at[i]), mode));
    else
      d.at[i] = std::is_same_v<D, S> ? D(whole_number(float(s.at[i]), mode)) : D(float(s.at[i]));
}
// From single to half precision: `mask` elements a repeat, eight in a block of the source and sixteen in one of the result.
template <typename D>
void Cast(const LocalTensor<D> &d, const LocalTensor<float> &s, RoundMode, uint64_t mask, uint8_t repeat, const UnaryRepeatParams &p) {
  static_assert(sizeof(D) == 2, "a strided conversion is modelled to half precision");
  model::start(PIPE_V);
  const long from = (mask + 7) / 8, to = (mask + 15) / 16;
  for (long r = 0; r < repeat; ++r) {
    for (long b = 0; b < from; ++b) in(PIPE_V, s[r * p.srcRepStride * 8 + b * p.srcBlkStride * 8], std::min<long>(8, mask - b * 8));
    for (long b = 0; b < to; ++b) out(PIPE_V, d[r * p.dstRepStride * 16 + b * p.dstBlkStride * 16], std::min<long>(16, mask - b * 16));
  }
  banked(repeat, {}, {d.at, p.dstBlkStride, p.dstRepStride});  // as of other conversions, reads beside writes are not counted
  for (long r = 0; r < repeat; ++r)
    for (long i = 0; i < long(mask); ++i)
      d.at[r * p.dstRepStride * 16 + i / 16 * p.dstBlkStride * 16 + i % 16] = D(s.at[r * p.srcRepStride * 8 + i / 8 * p.srcBlkStride * 8 + i % 8]);
}
template <typename T> LocalTensor<T> tensor_at(uint64_t address) { return {(T *)address, given(address) / long(sizeof(T))}; }
// 16 blocks of 8 elements a repeat -> 8 rows of 16, two blocks each. The strides of a single repeat are added too.
template <typename T>
void TransDataTo5HD(const uint64_t (&d)[16], const uint64_t (&s)[16], const TransDataTo5HDParams &p) {
  static_assert(sizeof(T) == 4, "elements of 32 bits are modelled");
  model::start(PIPE_V);
  if (Event *e = at_work(PIPE_V)) e->amount = p.repeatTimes;
  for (long r = 0; r < p.repeatTimes; ++r) {
    const long at = p.repeatTimes == 1 ? 1 : r;
    T held[16][8];
    for (long i = 0; i < 16; ++i) {
      const LocalTensor<T> from = tensor_at<T>(s[i])[at * p.srcRepStride * 8];
      in(PIPE_V, from, 8);
      memcpy(held[i], from.at, 32);
    }
    for (long j = 0; j < 16; ++j) {
      const LocalTensor<T> to = tensor_at<T>(d[j])[at * p.dstRepStride * 8];
      out(PIPE_V, to, 8);
      for (long i = 0; i < 8; ++i) to.at[i] = held[j % 2 * 8 + i][j / 2];
    }
  }
}
// The first block by the scalar unit, the rest from it.
void CreateVecIndex(const LocalTensor<float> &d, float first, uint32_t n, const std::vector<Step> &steps);
void CreateVecIndex(const LocalTensor<int32_t> &d, int32_t first, uint32_t n, const std::vector<Step> &steps);
bool holds(CMPMODE m, float a, float b);
template <typename T, typename B> void compare(const LocalTensor<uint8_t> &d, const LocalTensor<T> &a, CMPMODE m, uint32_t n, B b) {
  in(PIPE_V, a, n);
  out(PIPE_V, d, n / 8);
  for (uint32_t i = 0; i < n; ++i) d.at[i / 8] = uint8_t((d.at[i / 8] & ~(1 << i % 8)) | (std::is_integral_v<T> ? a.at[i] == b(i) : holds(m, a.at[i], b(i))) << i % 8);
}
template <typename T>
void Compare(const LocalTensor<uint8_t> &d, const LocalTensor<T> &a, const LocalTensor<T> &b, CMPMODE m, uint32_t n) {
  model::start(PIPE_V);
  in(PIPE_V, b, n);
  compare(d, a, m, n, [&](uint32_t i) { return b.at[i]; });
}
void CompareScalar(const LocalTensor<uint8_t> &d, const LocalTensor<float> &a, float b, CMPMODE m, uint32_t n);
void Select(const LocalTensor<float> &d, const LocalTensor<uint8_t> &mask, const LocalTensor<float> &a, const LocalTensor<float> &b, SELMODE s, uint32_t n);
void Select(const LocalTensor<float> &d, const LocalTensor<uint8_t> &mask, const LocalTensor<float> &a, float b, SELMODE s, uint32_t n);
void ReduceSum(const LocalTensor<float> &d, const LocalTensor<float> &x, const LocalTensor<float> &w, int32_t n, const std::vector<Step> &steps);
void ReduceMax(const LocalTensor<float> &d, const LocalTensor<float> &x, const LocalTensor<float> &w, int32_t n, const std::vector<Step> &steps);
void ReduceMin(const LocalTensor<float> &d, const LocalTensor<float> &x, const LocalTensor<float> &w, int32_t n, const std::vector<Step> &steps);
void WholeReduceSum(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk, int32_t srcRep);
void WholeReduceMax(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk, int32_t srcRep,
                    ReduceOrder order);
void WholeReduceMin(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk, int32_t srcRep,
                    ReduceOrder order);
// One value of each block of a repeat: a value of a block that the mask leaves out is nobody's. dstRep: results of a repeat.
template <typename T, typename F>
void block_reduce(const LocalTensor<T> &d, const LocalTensor<T> &s, int32_t repeat, int32_t mask, int32_t dstRep, int32_t srcBlk, int32_t srcRep, F f) {
  constexpr int each_block = block / sizeof(T);
  if (srcBlk != 1) model::tell("blocks apart in a reduction of blocks, which the model has not");
  if (dstRep < 1) model::tell("repeats of a reduction of blocks that write the same block");
  model::start(PIPE_V);
  for (int32_t r = 0; r < repeat; ++r) {
    in(PIPE_V, s[r * srcRep * each_block], mask);
    out(PIPE_V, d[r * dstRep * 8], 8, 8 * sizeof(T));
  }
  banked(repeat, {{s.at, srcBlk, srcRep}}, {d.at, 0, sizeof(T) == 4 ? dstRep : 0});
  std::vector<T> found(repeat * 8, T(__builtin_nanf("")));  // of blocks without an element of the mask: nobody says
  for (int32_t r = 0; r < repeat; ++r)
    for (int32_t i = 0; i < mask; ++i) {
      const T v = s.at[r * srcRep * each_block + i];
      T &to = found[r * 8 + i / each_block];
      to = i % each_block ? T(f(float(to), float(v))) : v;
    }
  for (int32_t i = 0; i < repeat * 8; ++i) d.at[i / 8 * dstRep * 8 + i % 8] = found[i];
}
#define BLOCKS(N, E)                                                                                                                              \
  template <typename T>                                                                                                                           \
  void N(const LocalTensor<T> &d, const LocalTensor<T> &s, int32_t repeat, int32_t mask, int32_t dstRep, int32_t srcBlk, int32_t srcRep) {        \
    of_halves<T>(#N " of halves");                                                                                                                \
    block_reduce(d, s, repeat, mask, dstRep, srcBlk, srcRep, [](float a, float b) { return E; });                                                 \
  }
BLOCKS(BlockReduceSum, a + b)
BLOCKS(BlockReduceMax, a != a || a > b ? a : b)
BLOCKS(BlockReduceMin, a != a || a < b ? a : b)
template <typename T> void Brcb(const LocalTensor<T> &d, const LocalTensor<T> &s, uint8_t repeat, const BrcbRepeatParams &p) {
  model::start(PIPE_V);
  constexpr long of = block / sizeof(T);
  in(PIPE_V, s, repeat * 8, 8 * sizeof(T));
  out(PIPE_V, d, ((repeat - 1) * p.dstRepStride + 7 * p.dstBlkStride + 1) * of);
  if (Event *e = at_work(PIPE_V)) e->amount = repeat;
  for (long r = 0; r < repeat; ++r)
    for (long b = 0; b < 8; ++b)
      for (long i = 0; i < of; ++i) d.at[(r * p.dstRepStride + b * p.dstBlkStride) * of + i] = s.at[r * 8 + b];
}
template <typename T>
void Gather(const LocalTensor<T> &d, const LocalTensor<T> &s, const LocalTensor<uint32_t> &o, uint32_t base, uint32_t n) {
  model::start(PIPE_V);
  in(PIPE_V, o, n);
  for (uint32_t i = 0; i < n; ++i) {
    if ((base + o.at[i]) % sizeof(T)) model::tell("an offset within an element");
    touch(PIPE_V, s.at + (base + o.at[i]) / sizeof(T), sizeof(T), false);
  }
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = s.at[(base + o.at[i]) / sizeof(T)];
}

// ---- cube
template <typename T> void DataCopy(const LocalTensor<T> &d, const GlobalTensor<T> &s, const Nd2NzParams &p) {
  model::start(PIPE_MTE2);
  const long c0 = 32 / sizeof(T), blocks = up(p.dValue, c0) / c0;
  for (long m = 0; m < p.ndNum; ++m) {
    const LocalTensor<T> to = d[m * p.dstNzMatrixStride];
    const T *from = s.at + m * long(p.srcNdMatrixStride);
    for (long b = 0; b < blocks; ++b) out(PIPE_MTE2, to[b * p.dstNzC0Stride * c0], p.nValue * c0);
    for (long r = 0; r < p.nValue; ++r) model::shared(PIPE_MTE2, from + r * long(p.srcDValue), p.dValue * sizeof(T), false);
    for (long r = 0; r < p.nValue; ++r)
      for (long c = 0; c < blocks * c0; ++c)
        to.at[c / c0 * p.dstNzC0Stride * c0 + r * p.dstNzNStride * c0 + c % c0] = c < p.dValue ? from[r * long(p.srcDValue) + c] : T(0.0f);
  }
}
template <typename T> void DataCopy(const LocalTensor<T> &d, const GlobalTensor<T> &s, uint32_t n) {
  model::start(PIPE_MTE2);
  out(PIPE_MTE2, d, n);
  model::shared(PIPE_MTE2, s.at, n * sizeof(T), false);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = s.at[i];
}
// Whole blocks: between rows lie gaps, in blocks as well.
template <typename T> void DataCopy(const LocalTensor<T> &d, const GlobalTensor<T> &s, const DataCopyParams &p) {
  model::start(PIPE_MTE2);
  const long unit = 32 / sizeof(T);
  for (long r = 0; r < p.blockCount; ++r) {
    const LocalTensor<T> to = d[r * (p.blockLen + p.dstStride) * unit];
    const T *from = s.at + r * (p.blockLen + p.srcStride) * unit;
    out(PIPE_MTE2, to, p.blockLen * unit);
    model::shared(PIPE_MTE2, from, p.blockLen * 32l, false);
    memcpy(to.at, from, p.blockLen * 32l);
  }
}
template <typename T> void DataCopy(const GlobalTensor<T> &d, const LocalTensor<T> &s, const DataCopyParams &p) {
  model::start(PIPE_MTE3);
  const long unit = 32 / sizeof(T);
  for (long r = 0; r < p.blockCount; ++r) {
    const LocalTensor<T> from = s[r * (p.blockLen + p.srcStride) * unit];
    T *to = d.at + r * (p.blockLen + p.dstStride) * unit;
    in(PIPE_MTE3, from, p.blockLen * unit);
    model::shared(PIPE_MTE3, to, p.blockLen * 32l, true);
    memcpy(to, from.at, p.blockLen * 32l);
  }
}
template <typename T> void DataCopy(const GlobalTensor<T> &d, const LocalTensor<T> &s, uint32_t n) {
  model::start(PIPE_MTE3);
  in(PIPE_MTE3, s, n);
  model::shared(PIPE_MTE3, d.at, n * sizeof(T), true);
  memcpy(d.at, s.at, n * sizeof(T));
}
template <typename T> void DataCopy(const LocalTensor<T> &d, const LocalTensor<T> &s, const DataCopyParams &p) {  // within unified buffer
  model::start(PIPE_V);
  const long unit = 32 / sizeof(T);
  for (long r = 0; r < p.blockCount; ++r) {
    const LocalTensor<T> from = s[r * (p.blockLen + p.srcStride) * unit], to = d[r * (p.blockLen + p.dstStride) * unit];
    in(PIPE_V, from, p.blockLen * unit);
    out(PIPE_V, to, p.blockLen * unit);
    memmove(to.at, from.at, p.blockLen * 32l);
  }
}
template <typename T>  // from L0C to unified buffer
void DataCopy(const LocalTensor<T> &d, const LocalTensor<T> &s, const DataCopyParams &p, const DataCopyEnhancedParams &e) {
  if (e.blockMode != BlockMode::BLOCK_MODE_MATRIX || p.blockCount != 1) stop("DataCopy: a way out of L0C that the model has not");
  model::start(PIPE_V);
  const long n = p.blockLen * 256l;
  in(PIPE_V, s, n, 1024);
  out(PIPE_V, d, n);
  for (long i = 0; i < n; ++i) d.at[i] = e.isRelu && s.at[i] < 0 ? T(0) : s.at[i];
}
template <typename T> void InitConstValue(const LocalTensor<T> &d, const InitConstValueParams<T> &p) {  // of L1
  model::start(PIPE_MTE2);
  const long block = 32 / sizeof(T);
  for (long r = 0; r < p.repeatTimes; ++r) {
    const LocalTensor<T> at = d[r * (p.blockNum + p.dstGap) * block];
    out(PIPE_MTE2, at, p.blockNum * block);
    for (long i = 0; i < p.blockNum * block; ++i) at.at[i] = p.initValue;
  }
}
template <typename T> void LoadData(const LocalTensor<T> &d, const LocalTensor<T> &s, const LoadData2DParams &p) {
  const long size = 512 / sizeof(T);  // a fractal
  if (p.ifTranspose && sizeof(T) != 2) model::tell("a transposing load of fractals that are not of 16 bits");
  model::start(PIPE_MTE1);
  if (!p.dstGap) out(PIPE_MTE1, d, p.repeatTimes * size, 512);
  for (long i = 0; p.dstGap && i < p.repeatTimes; ++i) out(PIPE_MTE1, d[i * (p.dstGap + 1) * size], size, 512);
  in(PIPE_MTE1, s, (p.startIndex + (p.repeatTimes - 1) * long(p.srcStride)) * size + size);
  for (long i = 0; i < p.repeatTimes; ++i)
    for (long x = 0; x < size; ++x)
      d.at[i * (p.dstGap + 1) * size + x] = s.at[(p.startIndex + i * p.srcStride) * size + (p.ifTranspose ? x % 16 * 16 + x / 16 : x)];
}
inline thread_local long image_rows = 0;
inline void SetFmatrix(long l1H, long l1W, const uint8_t (&padList)[4], FmatrixMode mode) {
  if (l1H != 1 || padList[0] | padList[1] | padList[2] | padList[3] || mode != FmatrixMode::FMATRIX_LEFT)
    tell("SetFmatrix: an image of several lines, with a border or of the right side, which the model has not");
  image_rows = l1W;
}
// Places x channels of an image of one line seen through a window of one place: a matrix. L0A has it as it is or turned, L0B turned.
template <typename T> void LoadData(const LocalTensor<T> &d, const LocalTensor<T> &s, const LoadData3DParamsV2Pro &p) {
  const long c0 = 32 / sizeof(T), places = p.extConfig >> 16 & 0xffff, channels = p.extConfig & 0xffff;
  const bool right = lies_in(TPosition::B2, d.at), turn = p.enTranspose || right;
  if (p.extConfig >> 32 || p.filterConfig != 0x10101010101 || p.channelSize != channels || p.fMatrixCtrl || p.enSmallK || channels % c0 || places % 16)
    tell("LoadData: a window or a part of an image that the model has not");
  if (places > image_rows) tell("LoadData: more places than the image has");
  if (turn && (sizeof(T) != 2 || channels % 16)) tell("LoadData: a turned image whose elements are not of 16 bits or fill no fractals");
  model::start(PIPE_MTE1);
  out(PIPE_MTE1, d, places * channels, 512);
  for (long c = 0; c < channels; c += c0) in(PIPE_MTE1, s[c * image_rows], places * c0);
  for (long r = 0; r < places; ++r)
    for (long c = 0; c < channels; ++c) {
      const long to = right  ? r / 16 * channels * 16 + c * 16 + r % 16
                      : turn ? c / 16 * places * 16 + r / 16 * 256 + c % 16 * 16 + r % 16
                             : r / 16 * channels * 16 + c / c0 * 16 * c0 + r % 16 * c0 + c % c0;
      d.at[to] = s.at[c / c0 * image_rows * c0 + r * c0 + c % c0];
    }
}
// Two neighbouring fractals of 16 x 8 are a square; turned, it is two fractals again. Gaps of the destination count fractals.
void LoadDataWithTranspose(const LocalTensor<float> &d, const LocalTensor<float> &s, const LoadData2dTransposeParams &p);
template <typename T> void Mmad(const LocalTensor<float> &c, const LocalTensor<T> &a, const LocalTensor<T> &b, const MmadParams &p) {
  model::start(PIPE_M);
  const long c0 = 32 / sizeof(T), m = up(p.m, 16), n = up(p.n, 16), k = up(p.k, c0);
  const bool vector = p.m == gemv;  // the unit takes a single row for a vector: its elements lie side by side, not in fractals
  in(PIPE_M, a, vector ? k : m * k, 512);
  in(PIPE_M, b, n * k, 512);
  out(PIPE_M, c, m * n, 64);
  if (Event *e = at_work(PIPE_M)) e->amount = m * n * k;
  std::vector<float> left(m * k), right(n * k);  // whole fractals: what fills up the depth must be zero
  for (long i = 0; i < (vector ? 0 : m); ++i)
    for (long x = 0; x < k; ++x) left[i * k + x] = float(a.at[i / 16 * k * 16 + x / c0 * 16 * c0 + i % 16 * c0 + x % c0]);
  for (long x = 0; vector && x < k; ++x) left[x] = float(a.at[x]);
  for (long j = 0; j < n; ++j)
    for (long x = 0; x < k; ++x) right[x * n + j] = float(b.at[x / c0 * n * c0 + j / 16 * 16 * c0 + j % 16 * c0 + x % c0]);
  std::vector<float> sums(n);
  for (long i = 0; i < p.m; ++i) {
    auto at = [&](long j) -> float & { return c.at[j / 16 * m * 16 + i * 16 + j % 16]; };
    for (long j = 0; j < n; ++j) sums[j] = p.cmatrixInitVal ? 0 : at(j);
    for (long x = 0; x < k; ++x)
      for (long j = 0; j < n; ++j) sums[j] += left[i * k + x] * right[x * n + j];
    for (long j = 0; j < n; ++j) at(j) = sums[j];
  }
}
template <typename D, typename S, int CFG> void Fixpipe(const GlobalTensor<D> &d, const LocalTensor<S> &c, const FixpipeParamsV220 &p) {
  if ((p.quantPre == QuantMode_t::NoQuant) != std::is_same<D, S>::value) model::tell("a wrong conversion on the way out");
  model::start(PIPE_FIX);
  in(PIPE_FIX, c, up(p.nSize, 16) * p.srcStride, 64);
  if (CFG == CFG_NZ && (p.nSize % 16 || p.reluEn)) stop("Fixpipe: parts of a block of columns, or a clip, which the model has not");
  for (long j = 0; CFG == CFG_NZ && j < p.nSize / 16; ++j) {
    D *to = d.at + j * p.dstStride * block / long(sizeof(D));
    model::shared(PIPE_FIX, to, p.mSize * 16 * sizeof(D), true);
    for (long i = 0; i < p.mSize * 16; ++i) to[i] = D(c.at[j * p.srcStride * 16 + i]);
  }
  if (CFG == CFG_NZ) return;
  for (long i = 0; i < p.mSize; ++i) {
    model::shared(PIPE_FIX, d.at + i * p.dstStride, p.nSize * sizeof(D), true);
    for (long j = 0; j < p.nSize; ++j) {
      const S v = c.at[j / 16 * p.srcStride * 16 + i * 16 + j % 16];
      d.at[i * p.dstStride + j] = D(p.reluEn && v < 0 ? S(0) : v);
    }
  }
}
}  // namespace model
#include "api_functions.h"
#undef UNARY
#undef SCALAR
#undef BINARY
#undef BITWISE
#undef BLOCKS
#define INSTANCE extern template
#include "instances.h"
#undef INSTANCE

namespace model {
// blocks: cores of a kernel for one kind of cores, or groups of one cube core and two vector cores. kernel: called with `of`
void launch(int blocks, bool mixed, bool cube, const void *memory, long bytes, void (*kernel)(const void *of), const void *of);
template <typename F> void launch(int blocks, bool mixed, bool cube, const void *memory, long bytes, const F &kernel) {
  launch(blocks, mixed, cube, memory, bytes, [](const void *of) { (*(const F *)of)(); }, &kernel);
}
}  // namespace model
