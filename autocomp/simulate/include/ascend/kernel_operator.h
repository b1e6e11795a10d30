// A stand-in for the Ascend C header: the names that printed kernels use, with a model that runs them on a host.
//
// Works run in program order, so the result alone would hide a missing flag. Every access of an on-chip byte range is therefore kept
// with its pipe and time; flags carry clocks; a conflict that no clock orders is reported, as are ranges outside a tensor, wrong
// alignment, waits that never end, flags set twice and flags left set. Memory on chip starts as NaN.
// Bank conflicts of unified buffer are counted, as they are slow and not wrong. What the first group of cores does is kept in order (`Event`).
// What it cannot show: rounding of the hardware's functions, the compiler's own rules.
#pragma once
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
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
    bits = std::isnan(f) ? 0x7fc0 : uint16_t((u + 0x7fff + ((u >> 16) & 1)) >> 16);
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
enum { KERNEL_TYPE_AIV_ONLY, KERNEL_TYPE_AIC_ONLY, KERNEL_TYPE_MIX_AIC_1_2 };
#define KERNEL_TASK_TYPE_DEFAULT(t) (void)(t)
enum { CFG_ROW_MAJOR };

namespace model {
typedef std::map<int, long> Clock;  // pipe of a core (core * PIPES + pipe) -> works known to be finished

struct Use {
  const uint8_t *from, *to;
  int pipe;
  long time;
  bool write;
};
struct Event {  // what a core of the first group does, in the order in which it says so
  int kind, pipe, key;  // a work; a flag set and waited for; the same between cores; a pipe's barrier. key: which flag
  const char *name;     // of the call
  long amount;          // products: multiply-adds; vector instructions: repeats
  long near, far, runs; // bytes on chip, bytes of memory and the contiguous pieces that they lie in
  long conflicts;       // repeats' clocks that wait for a bank
  int place;            // TPosition that a copy on chip writes to
};
enum { WORK, SET, WAIT, CROSS_SET, CROSS_WAIT, BARRIER };
constexpr size_t MOST_EVENTS = 400000;  // of a core; what comes later is not kept
struct Core {
  std::vector<Event> *events = nullptr;
  const uint8_t *ub = nullptr;  // where unified buffer begins
  bool cube = false;
  int block = 0, sub = 0, blocks = 1, index = 0;
  Clock known[PIPES];
  long time[PIPES] = {};
  std::map<int, Clock> flags;
  std::vector<Use> uses;
  std::map<int, std::vector<uint8_t>> memory;
};
struct Group {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<Use> uses;  // of the memory through which cores hand tiles to each other; `pipe` is core * PIPES + pipe
  bool ended = false;  // a core was stopped: nobody waits for it
  int cores = 0;                // that have not come to their end
  std::map<int, int> waits;     // core -> what it waits for, of `crossing`
  std::map<int, std::vector<Clock>> crossing;  // core * 16 + flag
};
inline bool stuck(Group &g) {  // all that are left wait for what nobody sets any more
  if (!g.cores || long(g.waits.size()) < g.cores) return false;
  for (auto &w : g.waits)
    if (!g.crossing[w.second].empty()) return false;
  return true;
}
inline thread_local Core *core = nullptr;
inline thread_local const char *called = "";  // the function of the interface that runs
inline std::vector<Event> events[3];          // of the first group's cores
inline void note(int kind, int pipe, int key = 0) {
  if (core->events && core->events->size() < MOST_EVENTS) core->events->push_back({kind, pipe, key, called, 0, 0, 0, 0, 0, -1});
}
inline Event *at_work(int pipe) {  // the work that a pipe has just begun, where it is kept
  if (!core->events || core->events->empty() || core->events->size() >= MOST_EVENTS) return nullptr;
  Event &e = core->events->back();
  return e.kind == WORK && e.pipe == pipe ? &e : nullptr;
}
inline thread_local Group *group = nullptr;
inline std::mutex telling;
inline std::set<std::string> found;
inline void tell(const std::string &what) {
  std::lock_guard<std::mutex> hold(telling);
  if (found.size() < 20) found.insert(what);
}
struct Stop {};  // what a core cannot do ends it: nothing is read or written behind the end of anything
[[noreturn]] inline void stop(const std::string &what) {
  tell(what);
  throw Stop();
}
// A number that the interface takes: one outside of its range is told, never cut.
inline void within(const char *of, const char *name, long v, long low, long high) {
  if (v < low || v > high) stop(std::string(of) + ": " + name + " is " + std::to_string(v) + ", which is not in " + std::to_string(low) + ".." + std::to_string(high));
}
inline void whole(const char *of, const char *name, long v, long unit) {
  if (v % unit) stop(std::string(of) + ": " + name + " is " + std::to_string(v) + ", no multiple of " + std::to_string(unit));
}
inline void aligned(const char *of, const char *name, const void *at, long align) {
  if ((uintptr_t)at % align) tell(std::string(of) + ": the address of " + name + " is not a multiple of " + std::to_string(align));
}
template <typename T> struct Number {  // a field
  const char *name;
  T value;
  long low, high;
  template <typename V> Number &operator=(V v) {
    const long n = long(v);
    if (n < low || n > high) stop(std::string(name) + " is " + std::to_string(n) + ", which is not in " + std::to_string(low) + ".." + std::to_string(high));
    value = T(n);
    return *this;
  }
  operator T() const { return value; }
};
template <typename T, typename... A> constexpr bool one_of = (std::is_same<T, A>::value || ...);
struct Step {  // of a call: a work on a pipe (`from` equals `to`), or a flag that the library itself passes
  pipe_t from, to;
};
inline const char *name(int pipe) {
  static const char *const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
  return names[pipe];
}
inline std::vector<std::pair<const uint8_t *, const uint8_t *>> allowed;  // the tensors in memory; none: not known
inline const uint8_t *scratch = nullptr, *scratch_end = nullptr;
inline void start(pipe_t p) {
  ++core->time[p];
  note(WORK, p);
}
inline std::string clash(int was, bool wrote, pipe_t p, bool write) {
  return std::string(name(was % PIPES)) + (wrote ? " writes, " : " reads, ") + name(p) + (write ? " writes" : " reads");
}
inline void touch(pipe_t p, const void *at, long bytes, bool write) {  // a use by the work that `start` began
  const uint8_t *from = (const uint8_t *)at, *to = from + bytes;
  if (Event *e = at_work(p)) {
    e->near = p != PIPE_MTE1 ? std::max(e->near, bytes) : e->near + (write ? bytes : 0);
    for (auto &m : core->memory)
      if (write && from >= m.second.data() && from < m.second.data() + m.second.size()) e->place = m.first;
  }
  std::vector<Use> kept;
  for (const Use &u : core->uses) {
    if (u.from < to && from < u.to && (u.write || write)) {
      const bool same = u.pipe == p && u.time == core->time[p];
      if (!same && core->known[p][core->index * PIPES + u.pipe] < u.time)
        tell(clash(u.pipe, u.write, p, write) + " the same bytes unordered");
    }
    const bool covered = from <= u.from && u.to <= to && (write || (!u.write && u.pipe == p));
    if (!covered) kept.push_back(u);
  }
  kept.push_back({from, to, p, core->time[p], write});
  core->uses.swap(kept);
}
inline void shared(pipe_t p, const void *at, long bytes, bool write) {  // a use of memory; only what cores share is followed
  const uint8_t *from = (const uint8_t *)at, *to = from + bytes;
  if (Event *e = at_work(p)) e->far += bytes, ++e->runs;
  if (from < scratch || from >= scratch_end) {
    for (auto &t : allowed)
      if (t.first <= from && to <= t.second) return;
    if (!allowed.empty()) stop("a use of memory outside of its tensor");
    return;
  }
  if (to > scratch_end) stop("a use behind the end of the scratch memory");
  std::lock_guard<std::mutex> hold(group->lock);
  const int key = core->index * PIPES + p;
  std::vector<Use> kept;
  for (const Use &u : group->uses) {
    const bool same = u.pipe == key && u.time == core->time[p];
    if (u.from < to && from < u.to && (u.write || write) && !same && core->known[p][u.pipe] < u.time)
      tell(clash(u.pipe, u.write, p, write) + " the same memory unordered");
    if (!(from <= u.from && u.to <= to && (write || (!u.write && u.pipe == key)))) kept.push_back(u);
  }
  kept.push_back({from, to, key, core->time[p], write});
  group->uses.swap(kept);
}
inline Clock now(pipe_t p) {
  Clock c = core->known[p];
  c[core->index * PIPES + p] = core->time[p];
  return c;
}
inline void learn(pipe_t p, const Clock &c) {
  for (auto &e : c) core->known[p][e.first] = std::max(core->known[p][e.first], e.second);
}
}  // namespace model

#define ASCEND_IS_AIC (model::core->cube)
#define ASCEND_IS_AIV (!model::core->cube)

#include "api_types.h"

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
  template <typename U> LocalTensor<U> ReinterpretCast() const { return {(U *)at, left * long(sizeof(T)) / long(sizeof(U))}; }
  void SetValue(uint32_t i, T v) const {
    if (long(i) >= left) model::stop("a write behind the end of a tensor");
    model::start(PIPE_S);
    model::touch(PIPE_S, at + i, sizeof(T), true);
    at[i] = v;
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
    auto &m = model::core->memory[int(P)];
    m.assign(bytes + 1024, 0xff);
    b.base = m.data() + (1024 - (uintptr_t)m.data() % 1024) % 1024;
    b.bytes = bytes;
    if (P == TPosition::VECCALC) model::core->ub = b.base;
  }
  void Destroy() {}
};

}  // namespace AscendC

namespace model {
using namespace AscendC;
inline const pipe_t *ends(HardEvent e) {
  using E = HardEvent;
  static const std::map<E, std::vector<pipe_t>> known = {
      {E::V_MTE2, {PIPE_V, PIPE_MTE2}},       {E::MTE2_V, {PIPE_MTE2, PIPE_V}},       {E::V_MTE3, {PIPE_V, PIPE_MTE3}},
      {E::MTE3_V, {PIPE_MTE3, PIPE_V}},       {E::MTE2_MTE1, {PIPE_MTE2, PIPE_MTE1}}, {E::MTE1_MTE2, {PIPE_MTE1, PIPE_MTE2}},
      {E::MTE1_M, {PIPE_MTE1, PIPE_M}},       {E::M_MTE1, {PIPE_M, PIPE_MTE1}},       {E::M_FIX, {PIPE_M, PIPE_FIX}},
      {E::FIX_M, {PIPE_FIX, PIPE_M}},         {E::MTE2_MTE3, {PIPE_MTE2, PIPE_MTE3}}, {E::MTE3_MTE2, {PIPE_MTE3, PIPE_MTE2}},
      {E::V_S, {PIPE_V, PIPE_S}},             {E::S_V, {PIPE_S, PIPE_V}},             {E::S_MTE3, {PIPE_S, PIPE_MTE3}},
      {E::MTE3_S, {PIPE_MTE3, PIPE_S}},       {E::S_MTE2, {PIPE_S, PIPE_MTE2}},       {E::MTE2_S, {PIPE_MTE2, PIPE_S}},
  };
  return known.at(e).data();
}
template <typename T, AscendC::CacheLine, AscendC::DcciDst> void DataCacheCleanAndInvalid(const AscendC::GlobalTensor<T> &) {}
inline int GetBlockIdx() { return model::core->block; }
inline int GetBlockNum() { return model::core->blocks; }
inline int GetSubBlockIdx() { return model::core->sub; }
template <pipe_t P> void PipeBarrier() {
  note(BARRIER, P);
  model::learn(P, model::now(P));
}
template <HardEvent E> void SetFlag(int id) {
  const int key = int(E) * 8 + id;
  note(SET, ends(E)[0], key);
  if (model::core->flags.count(key)) model::tell("a flag is set twice");
  model::core->flags[key] = model::now(ends(E)[0]);
}
template <HardEvent E> void WaitFlag(int id) {
  const int key = int(E) * 8 + id;
  note(WAIT, ends(E)[1], key);
  if (!model::core->flags.count(key)) return model::tell("a wait without a set");
  model::learn(ends(E)[1], model::core->flags[key]);
  model::core->flags.erase(key);
}
template <int MODE, pipe_t P> void CrossCoreSetFlag(int id) {
  static_assert(MODE == 2, "between a cube core and its vector cores");
  std::lock_guard<std::mutex> hold(model::group->lock);
  for (int to = 0; to < 3; ++to)  // core 0 is the cube core: it reaches both vector cores, each of these reaches it
    if ((to == 0) != model::core->cube) {
      const int key = (model::core->cube ? to : 2 + model::core->index) * 16 + id;
      if (to == (model::core->cube ? to : 0)) note(CROSS_SET, P, key);
      auto &sets = model::group->crossing[key];
      sets.push_back(model::now(P));
      if (sets.size() > 15) model::tell("a cross-core flag counts beyond 15");
    }
  model::group->changed.notify_all();
}
inline void CrossCoreWaitFlag(int id) {
  std::unique_lock<std::mutex> hold(model::group->lock);
  const std::vector<int> from = model::core->cube ? std::vector<int>{3, 4} : std::vector<int>{model::core->index};
  for (int f : from) {
    note(CROSS_WAIT, PIPE_ALL, f * 16 + id);
    auto &sets = model::group->crossing[f * 16 + id];
    model::Group &g = *model::group;
    while (sets.empty() && !g.ended) {
      g.waits[model::core->index] = f * 16 + id;
      if (model::stuck(g)) {
        g.ended = true;
        g.changed.notify_all();
        model::stop("a core waits for ever");
      }
      g.changed.wait(hold);
      g.waits.erase(model::core->index);
    }
    if (sets.empty()) throw model::Stop();
    for (int p = 0; p < PIPES; ++p) model::learn(pipe_t(p), sets.front());
    sets.erase(sets.begin());
  }
}

// ---- checked ranges
template <typename T> void in(pipe_t p, const LocalTensor<T> &x, long n, int align = 32) {
  if (n > x.left) model::stop("a read behind the end of a tensor");
  if ((uintptr_t)x.at % align) model::tell("an address is not a multiple of " + std::to_string(align));
  model::touch(p, x.at, n * sizeof(T), false);
}
template <typename T> void out(pipe_t p, const LocalTensor<T> &x, long n, int align = 32) {
  if (n > x.left) model::stop("a write behind the end of a tensor");
  if ((uintptr_t)x.at % align) model::tell("an address is not a multiple of " + std::to_string(align));
  model::touch(p, x.at, n * sizeof(T), true);
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
inline void banked(long repeats, std::initializer_list<Blocks> reads, Blocks write) {
  Event *e = at_work(PIPE_V);
  if (!e) return;
  e->amount = repeats;
  if (!core->ub) return;
  const uint8_t *ub = core->ub;
  auto block = [ub](const Blocks &b, long r, long i) { return ((const uint8_t *)b.at - ub) / block_bytes + r * b.rep + i * b.blk; };
  auto bank = [](long b) { return b % groups + b / (groups * bank_rows) * groups; };
  for (long r = 0; r < repeats; ++r) {
    long group[groups] = {}, used[banks] = {}, most = 1;
    std::set<long> seen;
    for (const Blocks &b : reads)
      for (long i = 0; i < 8; ++i)
        if (const long x = block(b, r, i); seen.insert(x).second) most = std::max(most, ++group[x % groups]), ++used[bank(x)];
    seen.clear();
    for (long i = 0; r && i < 8; ++i)  // a repeat's results are written a repeat later
      if (const long x = block(write, r - 1, i); seen.insert(x).second) most = std::max(most, ++used[bank(x)]);
    e->conflicts += most - 1;
  }
}
inline long repeats_of(long bytes) { return (bytes + repeat - 1) / repeat; }

// ---- vector instructions
// Integers are computed with 64 bits. No public page says whether the vector unit wraps or saturates: a result outside of its type is told.
template <typename T> using Wide = std::conditional_t<std::is_integral_v<T>, int64_t, float>;
template <typename T> T narrowed(Wide<T> x) {
  if (std::is_integral_v<T> && x != Wide<T>(T(x))) tell(std::string(called) + ": an integer leaves its type");
  return T(x);
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
             const BinaryRepeatParams &p, F f) {
  model::start(PIPE_V);
  // What lies between two repeats' elements is not touched: columns of a tile are taken by instructions of their own.
  auto each = [&](auto use, const LocalTensor<T> &x, long blk, long rep) {
    const long last = long((mask - 1) / 8) * blk * 8 + (blk ? (mask - 1) % 8 + 1 : 8);
    const bool apart = rep * 8 > last;
    for (long r = 0; r < (apart ? repeat : 1); ++r) use(x[r * rep * 8], apart ? last : (repeat - 1) * rep * 8 + last);
  };
  each([](const LocalTensor<T> &x, long n) { in(PIPE_V, x, n); }, a, p.src0BlkStride, p.src0RepStride);
  each([](const LocalTensor<T> &x, long n) { in(PIPE_V, x, n); }, b, p.src1BlkStride, p.src1RepStride);
  each([](const LocalTensor<T> &x, long n) { out(PIPE_V, x, n); }, d, p.dstBlkStride, p.dstRepStride);
  banked(repeat, {{a.at, p.src0BlkStride, p.src0RepStride}, {b.at, p.src1BlkStride, p.src1RepStride}}, {d.at, p.dstBlkStride, p.dstRepStride});
  for (long r = 0; r < repeat; ++r)
    for (uint64_t i = 0; i < mask; ++i) {
      auto at = [&](int blk, int rep) { return r * rep * 8 + long(i / 8) * blk * 8 + i % 8; };
      d.at[at(p.dstBlkStride, p.dstRepStride)] =
          narrowed<T>(f(Wide<T>(a.at[at(p.src0BlkStride, p.src0RepStride)]), Wide<T>(b.at[at(p.src1BlkStride, p.src1RepStride)])));
    }
}
#define UNARY(N, E) \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, uint32_t n) { unary(d, x, n, [](auto a) { return decltype(a)(E); }); }
#define SCALAR(N, E) \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, T by, uint32_t n) {                                  \
    unary(d, x, n, [b = Wide<T>(by)](auto a) { return decltype(a)(E); });                                                            \
  }
#define BINARY(N, E)                                                                                                                 \
  template <typename T> void N(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &y, uint32_t n) {              \
    binary(d, x, y, n, [](auto a, auto b) { return decltype(a)(E); });                                                                   \
  }                                                                                                                                  \
  template <typename T>                                                                                                              \
  void N(const LocalTensor<T> &d, const LocalTensor<T> &x, const LocalTensor<T> &y, uint64_t mask, uint8_t repeat,                    \
         const BinaryRepeatParams &p) {                                                                                       \
    strided(d, x, y, mask, repeat, p, [](auto a, auto b) { return decltype(a)(E); });                                                    \
  }
UNARY(Exp, std::exp(a))
UNARY(Ln, std::log(a))
UNARY(Sqrt, std::sqrt(a))
UNARY(Abs, std::fabs(a))
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
template <typename T> void Duplicate(const LocalTensor<T> &d, T v, uint32_t n) {
  model::start(PIPE_V);
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = v;
}
inline float whole_number(float x, RoundMode m) {
  return m == RoundMode::CAST_FLOOR ? std::floor(x) : m == RoundMode::CAST_CEIL ? std::ceil(x) : m == RoundMode::CAST_TRUNC ? std::trunc(x) : std::nearbyint(x);
}
template <typename D> D saturated(float x) {
  const double low = double(std::numeric_limits<D>::min()), high = double(std::numeric_limits<D>::max());
  return std::isnan(x) ? D(0) : x <= low ? std::numeric_limits<D>::min() : x >= high ? std::numeric_limits<D>::max() : D(x);
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
// 16 blocks of 8 elements a repeat -> 8 rows of 16, two blocks each. The strides of a single repeat are added too.
template <typename T>
void TransDataTo5HD(const LocalTensor<T> (&d)[16], const LocalTensor<T> (&s)[16], const TransDataTo5HDParams &p) {
  static_assert(sizeof(T) == 4, "elements of 32 bits are modelled");
  model::start(PIPE_V);
  if (Event *e = at_work(PIPE_V)) e->amount = p.repeatTimes;
  for (long r = 0; r < p.repeatTimes; ++r) {
    const long at = p.repeatTimes == 1 ? 1 : r;
    T held[16][8];
    for (long i = 0; i < 16; ++i) {
      const LocalTensor<T> from = s[i][at * p.srcRepStride * 8];
      in(PIPE_V, from, 8);
      memcpy(held[i], from.at, 32);
    }
    for (long j = 0; j < 16; ++j) {
      const LocalTensor<T> to = d[j][at * p.dstRepStride * 8];
      out(PIPE_V, to, 8);
      for (long i = 0; i < 8; ++i) to.at[i] = held[j % 2 * 8 + i][j / 2];
    }
  }
}
// What a call of the library does: its works on pipes in order and the flags between them, as the table of the interface has them.
template <typename F> void follow(const std::vector<Step> &steps, F work) {
  for (const Step &s : steps) {
    if (s.from != s.to) {
      note(SET, s.from, -1);
      note(WAIT, s.to, -1);
      learn(s.to, now(s.from));
    } else {
      start(s.from);
      work(s.from);
    }
  }
}
// The first block by the scalar unit, the rest from it.
inline void CreateVecIndex(const LocalTensor<float> &d, float first, uint32_t n, const std::vector<Step> &steps) {
  const uint32_t head = n < 8 ? n : 8;
  follow(steps, [&](pipe_t p) {
    if (p == PIPE_S) return out(p, d, head);
    if (n <= 8) return;
    in(p, d, head);
    out(p, d[8], n - 8);
    PipeBarrier<PIPE_V>();
  });
  for (uint32_t i = 0; i < n; ++i) d.at[i] = first + i;
}
inline bool holds(CMPMODE m, float a, float b) {
  return m == CMPMODE::LT ? a < b : m == CMPMODE::GT ? a > b : m == CMPMODE::EQ ? a == b : m == CMPMODE::LE ? a <= b : m == CMPMODE::GE ? a >= b : a != b;
}
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
inline void CompareScalar(const LocalTensor<uint8_t> &d, const LocalTensor<float> &a, float b, CMPMODE m, uint32_t n) {
  model::start(PIPE_V);
  compare(d, a, m, n, [&](uint32_t) { return b; });
}
inline void Select(const LocalTensor<float> &d, const LocalTensor<uint8_t> &mask, const LocalTensor<float> &a, const LocalTensor<float> &b, SELMODE s, uint32_t n) {
  if (s != SELMODE::VSEL_TENSOR_TENSOR_MODE) model::tell("a wrong mode of Select");
  model::start(PIPE_V);
  in(PIPE_V, mask, n / 8);
  in(PIPE_V, a, n);
  in(PIPE_V, b, n);
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = mask.at[i / 8] >> i % 8 & 1 ? a.at[i] : b.at[i];
}
inline void Select(const LocalTensor<float> &d, const LocalTensor<uint8_t> &mask, const LocalTensor<float> &a, float b, SELMODE s, uint32_t n) {
  if (s != SELMODE::VSEL_TENSOR_SCALAR_MODE) model::tell("a wrong mode of Select");
  model::start(PIPE_V);
  in(PIPE_V, mask, n / 8);
  in(PIPE_V, a, n);
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = mask.at[i / 8] >> i % 8 & 1 ? a.at[i] : b;
}
// The result is put in its place by the scalar unit. `each`: values a repeat in the work space.
template <typename F>
void fold(const LocalTensor<float> &d, const LocalTensor<float> &x, const LocalTensor<float> &w, int32_t n, int each, const std::vector<Step> &steps, F f) {
  const long room = up(up(n, 64) / 64 * each, 8);
  follow(steps, [&](pipe_t p) {
    if (p == PIPE_S) {
      in(p, w, room);
      out(p, d, 1);
    } else {
      in(p, x, n);
      out(p, w, room);
    }
  });
  float v = x.at[0];
  for (int32_t i = 1; i < n; ++i) v = f(v, x.at[i]);
  memset((void *)w.at, 0xff, room * sizeof(float));  // what the library leaves there is nobody's value
  d.at[0] = v;
}
#define FOLD(N, each, E)                                                                                                                             \
  inline void N(const LocalTensor<float> &d, const LocalTensor<float> &x, const LocalTensor<float> &w, int32_t n, const std::vector<Step> &steps) { \
    fold(d, x, w, n, each, steps, [](float a, float b) { return E; });                                                                               \
  }
FOLD(ReduceSum, 1, a + b)
FOLD(ReduceMax, 2, std::isnan(a) || a > b ? a : b)
FOLD(ReduceMin, 2, std::isnan(a) || a < b ? a : b)
// One value of each repeat. dstRep: elements.
template <typename F>
void whole_reduce(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk, int32_t srcRep, F f) {
  if (srcBlk != 1) model::tell("blocks apart in a reduction of repeats, which the model has not");
  model::start(PIPE_V);
  in(PIPE_V, s, (repeat - 1) * srcRep * 8 + mask);
  out(PIPE_V, d, (repeat - 1) * dstRep + 1, 4);
  if (Event *e = at_work(PIPE_V)) e->amount = repeat;
  for (int32_t r = 0; r < repeat; ++r) {
    float v = s.at[r * srcRep * 8];
    for (int32_t i = 1; i < mask; ++i) v = f(v, s.at[r * srcRep * 8 + i]);
    d.at[r * dstRep] = v;
  }
}
inline void WholeReduceSum(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk, int32_t srcRep) {
  whole_reduce(d, s, mask, repeat, dstRep, srcBlk, srcRep, [](float a, float b) { return a + b; });
}
#define WHOLE(N, E)                                                                                                                               \
  inline void N(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk,         \
                int32_t srcRep, ReduceOrder order) {                                                                                            \
    if (order != ReduceOrder::ORDER_ONLY_VALUE) model::tell("indices of a reduction of repeats, which the model has not");                      \
    whole_reduce(d, s, mask, repeat, dstRep, srcBlk, srcRep, [](float a, float b) { return E; });                                               \
  }
WHOLE(WholeReduceMax, std::isnan(a) || a > b ? a : b)
WHOLE(WholeReduceMin, std::isnan(a) || a < b ? a : b)
template <typename T> void Brcb(const LocalTensor<T> &d, const LocalTensor<T> &s, uint8_t repeat, const BrcbRepeatParams &p) {
  model::start(PIPE_V);
  in(PIPE_V, s, repeat * 8);
  out(PIPE_V, d, (repeat - 1) * p.dstRepStride * 8 + 7 * p.dstBlkStride * 8 + 8);
  if (Event *e = at_work(PIPE_V)) e->amount = repeat;
  for (long r = 0; r < repeat; ++r)
    for (long b = 0; b < 8; ++b)
      for (long i = 0; i < 8; ++i) d.at[r * p.dstRepStride * 8 + b * p.dstBlkStride * 8 + i] = s.at[r * 8 + b];
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
  for (long b = 0; b < blocks; ++b) out(PIPE_MTE2, d[b * p.dstNzC0Stride * c0], p.nValue * c0);
  for (long r = 0; r < p.nValue; ++r) model::shared(PIPE_MTE2, s.at + r * long(p.srcDValue), p.dValue * sizeof(T), false);
  for (long r = 0; r < p.nValue; ++r)
    for (long c = 0; c < blocks * c0; ++c)
      d.at[c / c0 * p.dstNzC0Stride * c0 + r * p.dstNzNStride * c0 + c % c0] = c < p.dValue ? s.at[r * long(p.srcDValue) + c] : T(0.0f);
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
  out(PIPE_MTE1, d, (p.repeatTimes - 1) * (p.dstGap + 1) * size + size, 512);
  in(PIPE_MTE1, s, (p.startIndex + (p.repeatTimes - 1) * long(p.srcStride)) * size + size);
  for (long i = 0; i < p.repeatTimes; ++i)
    for (long x = 0; x < size; ++x)
      d.at[i * (p.dstGap + 1) * size + x] = s.at[(p.startIndex + i * p.srcStride) * size + (p.ifTranspose ? x % 16 * 16 + x / 16 : x)];
}
// Two neighbouring fractals of 16 x 8 are a square; turned, it is two fractals again. Gaps of the destination count fractals.
inline void LoadDataWithTranspose(const LocalTensor<float> &d, const LocalTensor<float> &s, const LoadData2dTransposeParams &p) {
  model::start(PIPE_MTE1);
  in(PIPE_MTE1, s, (p.startIndex + (p.repeatTimes - 1) * long(p.srcStride)) * 256 + 256);
  for (long i = 0; i < p.repeatTimes; ++i)
    for (long h = 0; h < 2; ++h) {
      const long to = (i * (p.dstGap + 1) + h * (p.dstFracGap + 1)) * 128;
      out(PIPE_MTE1, d[to], 128, 512);
      for (long r = 0; r < 16; ++r)
        for (long c = 0; c < 8; ++c) {
          const long from_row = h * 8 + c, from_column = r;
          d.at[to + r * 8 + c] = s.at[(p.startIndex + i * p.srcStride) * 256 + from_column / 8 * 128 + from_row * 8 + from_column % 8];
        }
    }
}
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

namespace model {
inline void run(Core c, Group *g, const std::function<void()> &kernel) {
  core = &c;
  group = g;
  try {
    kernel();
    if (!c.flags.empty()) tell("a flag is left set");
    std::lock_guard<std::mutex> hold(g->lock);
    --g->cores;
    if (stuck(*g)) {
      tell("a core waits for ever");
      g->ended = true;
    }
    g->changed.notify_all();
  } catch (const Stop &) {
    std::lock_guard<std::mutex> hold(g->lock);
    g->ended = true;
    g->changed.notify_all();
  }
}
// blocks: cores of a kernel for one kind of cores, or groups of one cube core and two vector cores
inline void launch(int blocks, bool mixed, bool cube, const void *memory, long bytes, const std::function<void()> &kernel) {
  found.clear();
  for (auto &e : events) e.clear();
  scratch = (const uint8_t *)memory;
  scratch_end = scratch + bytes;
  for (int b = 0; b < blocks; ++b) {
    Group g;
    std::vector<std::thread> cores;
    g.cores = mixed ? 3 : 1;
    for (int i = 0; i < (mixed ? 3 : 1); ++i) {
      Core c;
      c.blocks = blocks;
      c.cube = mixed ? i == 0 : cube;
      c.index = i;
      c.events = b ? nullptr : &events[i];
      c.sub = mixed && i ? i - 1 : 0;
      c.block = mixed && i ? b * 2 + c.sub : b;
      cores.emplace_back(run, c, &g, kernel);
    }
    for (auto &t : cores) t.join();
    for (auto &f : g.crossing)
      if (!g.ended && !f.second.empty()) tell("a cross-core flag is left set");
  }
  allowed.clear();  // of this launch: another library's kernel may come next
}
}  // namespace model
