// What the stand-in does, apart from its headers: it is the same for all kernels and is compiled once.
#include "kernel_operator.h"

#include <cmath>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>

#define INSTANCE template
#include "instances.h"

namespace model {
typedef std::map<int, long> Clock;  // pipe of a core (core * PIPES + pipe) -> works known to be finished
struct Use {
  const uint8_t *from, *to;
  int pipe;
  long time;
  bool write;
};
// A use is kept in parts, one of each kilobyte that it touches: a new one meets those of its neighbourhood alone.
constexpr int PART = 10;
typedef std::unordered_map<uintptr_t, std::vector<Use>> Uses;
// `unordered`: called with each earlier use of the same bytes, of which one writes. Those that the new one covers are not kept.
template <typename F> void meet(Uses &uses, const Use &now, F unordered) {
  for (uintptr_t k = uintptr_t(now.from) >> PART; k << PART < uintptr_t(now.to); ++k) {
    Use part = now;
    part.from = std::max(now.from, (const uint8_t *)(k << PART));
    part.to = std::min(now.to, (const uint8_t *)((k + 1) << PART));
    std::vector<Use> &here = uses[k];
    size_t kept = 0;
    for (const Use &u : here) {
      if (u.from < part.to && part.from < u.to && (u.write || now.write)) unordered(u);
      const bool covered = part.from <= u.from && u.to <= part.to && (now.write || (!u.write && u.pipe == now.pipe));
      if (!covered) here[kept++] = u;
    }
    here.resize(kept);
    here.push_back(part);
  }
}
constexpr size_t MOST_EVENTS = 400000;  // of a core; what comes later is not kept
struct State : Core {  // what a core knows and holds
  std::vector<Event> *events = nullptr;
  const uint8_t *ub = nullptr;  // where unified buffer begins
  int index = 0;
  Clock known[PIPES];
  long time[PIPES] = {};
  std::map<int, Clock> flags;
  Uses uses;
  std::map<int, std::vector<uint8_t>> memory;
  std::unordered_map<uint64_t, long> addresses;  // those that tensors gave -> bytes to the tensor's end
};
struct Group {
  std::mutex lock;
  std::condition_variable changed;
  Uses uses;  // of the memory through which cores hand tiles to each other; `pipe` is core * PIPES + pipe
  bool ended = false;  // a core was stopped: nobody waits for it
  int cores = 0;                // that have not come to their end
  std::map<int, int> waits;     // core -> what it waits for, of `crossing`
  std::map<int, std::vector<Clock>> crossing;  // core * 16 + flag
};
thread_local const Core *core = nullptr;
thread_local State *state = nullptr;  // the same
thread_local Group *group = nullptr;
std::vector<Event> events[3];  // of the first group's cores
std::mutex telling;
std::set<std::string> found;
std::vector<std::pair<const uint8_t *, const uint8_t *>> allowed;  // the tensors in memory; none: not known
// All that are left wait for what nobody sets any more.
bool stuck(Group &g) {
  if (!g.cores || long(g.waits.size()) < g.cores) return false;
  for (auto &w : g.waits)
    if (!g.crossing[w.second].empty()) return false;
  return true;
}
void note(int kind, int pipe, int key = 0) {
  if (state->events && state->events->size() < MOST_EVENTS) state->events->push_back({kind, pipe, key, called, 0, 0, 0, 0, 0, 0, -1});
}
Event *at_work(int pipe) {
  if (!state->events || state->events->empty() || state->events->size() >= MOST_EVENTS) return nullptr;
  Event &e = state->events->back();
  return e.kind == WORK && e.pipe == pipe ? &e : nullptr;
}
void tell(const std::string &what) {
  std::lock_guard<std::mutex> hold(telling);
  if (found.size() < 20) found.insert(what);
}
void tell(const char *what) { tell(std::string(what)); }
void leaves_its_type() { tell(std::string(called) + ": an integer leaves its type"); }
[[noreturn]] void stop(const std::string &what) {
  tell(what);
  throw Stop();
}
void stop(const char *what) { stop(std::string(what)); }
void within(const char *of, const char *name, long v, long low, long high) {
  if (v < low || v > high) stop(std::string(of) + ": " + name + " is " + std::to_string(v) + ", which is not in " + std::to_string(low) + ".." + std::to_string(high));
}
void outside(const char *name, long v, long low, long high) {
  stop(std::string(name) + " is " + std::to_string(v) + ", which is not in " + std::to_string(low) + ".." + std::to_string(high));
}
void whole(const char *of, const char *name, long v, long unit) {
  if (v % unit) stop(std::string(of) + ": " + name + " is " + std::to_string(v) + ", no multiple of " + std::to_string(unit));
}
void aligned(const char *of, const char *name, const void *at, long align) {
  if ((uintptr_t)at % align) tell(std::string(of) + ": the address of " + name + " is not a multiple of " + std::to_string(align));
}
const char *name(int pipe) {
  static const char *const names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"};
  return names[pipe];
}
void start(pipe_t p) {
  ++state->time[p];
  note(WORK, p);
}
std::string clash(int was, bool wrote, pipe_t p, bool write) {
  return std::string(name(was % PIPES)) + (wrote ? " writes, " : " reads, ") + name(p) + (write ? " writes" : " reads");
}
void touch(pipe_t p, const void *at, long bytes, bool write) {
  const uint8_t *from = (const uint8_t *)at, *to = from + bytes;
  if (Event *e = at_work(p)) {
    e->near = p != PIPE_MTE1 ? std::max(e->near, bytes) : e->near + (write ? bytes : 0);
    for (auto &m : state->memory)
      if (write && from >= m.second.data() && from < m.second.data() + m.second.size()) e->place = m.first;
  }
  State &own = *state;
  meet(own.uses, {from, to, p, own.time[p], write}, [&](const Use &u) {
    // the scalar unit's uses are in order by themselves: asc-devkit, page of PipeBarrier, constraints
    const bool same = u.pipe == p && (u.time == own.time[p] || p == PIPE_S);
    if (!same && own.known[p][own.index * PIPES + u.pipe] < u.time) tell(clash(u.pipe, u.write, p, write) + " the same bytes unordered");
  });
}
void shared(pipe_t p, const void *at, long bytes, bool write) {
  const uint8_t *from = (const uint8_t *)at, *to = from + bytes;
  Event *e = at_work(p);
  if (e) e->far += bytes;
  const auto begins = [&](const uint8_t *tensor) {
    if (e) (from - tensor) % 32 ? e->split += (bytes + 31) / 32 : ++e->runs;
  };
  if (from < scratch || from >= scratch_end) {
    for (auto &t : allowed)
      if (t.first <= from && to <= t.second + (!behind ? 0 : write ? -(t.second - t.first) % 32 & 31 : behind))
        return begins(t.first);
    begins(from);
    if (!allowed.empty()) stop("a use of memory outside of its tensor");
    return;
  }
  begins(scratch);
  if (to > scratch_end) stop("a use behind the end of the scratch memory");
  std::lock_guard<std::mutex> hold(group->lock);
  const int key = state->index * PIPES + p;
  State &own = *state;
  meet(group->uses, {from, to, key, own.time[p], write}, [&](const Use &u) {
    const bool same = u.pipe == key && u.time == own.time[p];
    if (!same && own.known[p][u.pipe] < u.time) tell(clash(u.pipe, u.write, p, write) + " the same memory unordered");
  });
}
Clock now(pipe_t p) {
  Clock c = state->known[p];
  c[state->index * PIPES + p] = state->time[p];
  return c;
}
void learn(pipe_t p, const Clock &c) {
  for (auto &e : c) state->known[p][e.first] = std::max(state->known[p][e.first], e.second);
}
uint8_t *on_chip(TPosition p, uint32_t bytes) {
  auto &m = state->memory[int(p)];
  m.assign(bytes + 1024, 0xff);
  uint8_t *base = m.data() + (1024 - (uintptr_t)m.data() % 1024) % 1024;
  if (p == TPosition::VECCALC) state->ub = base;
  return base;
}
bool lies_in(TPosition p, const void *at) {
  const std::vector<uint8_t> &m = state->memory[int(p)];
  return (const uint8_t *)at >= m.data() && (const uint8_t *)at < m.data() + m.size();
}
void gave(const void *at, long bytes) { state->addresses[uint64_t(at)] = bytes; }
long given(uint64_t address) {
  const auto found = state->addresses.find(address);
  if (found == state->addresses.end()) stop("an address that no tensor gave");
  return found->second;
}
const pipe_t *ends(HardEvent e) {
  using E = HardEvent;
  static const std::map<E, std::vector<pipe_t>> known = {
      {E::V_MTE2, {PIPE_V, PIPE_MTE2}},       {E::MTE2_V, {PIPE_MTE2, PIPE_V}},       {E::V_MTE3, {PIPE_V, PIPE_MTE3}},
      {E::MTE3_V, {PIPE_MTE3, PIPE_V}},       {E::MTE2_MTE1, {PIPE_MTE2, PIPE_MTE1}}, {E::MTE1_MTE2, {PIPE_MTE1, PIPE_MTE2}},
      {E::MTE1_M, {PIPE_MTE1, PIPE_M}},       {E::M_MTE1, {PIPE_M, PIPE_MTE1}},       {E::M_FIX, {PIPE_M, PIPE_FIX}},
      {E::FIX_M, {PIPE_FIX, PIPE_M}},         {E::MTE2_MTE3, {PIPE_MTE2, PIPE_MTE3}}, {E::MTE3_MTE2, {PIPE_MTE3, PIPE_MTE2}},
      {E::V_S, {PIPE_V, PIPE_S}},             {E::S_V, {PIPE_S, PIPE_V}},             {E::S_MTE3, {PIPE_S, PIPE_MTE3}},
      {E::M_V, {PIPE_M, PIPE_V}},             {E::V_M, {PIPE_V, PIPE_M}},
      {E::MTE3_S, {PIPE_MTE3, PIPE_S}},       {E::S_MTE2, {PIPE_S, PIPE_MTE2}},       {E::MTE2_S, {PIPE_MTE2, PIPE_S}},
  };
  return known.at(e).data();
}
void barrier(pipe_t p) {
  note(BARRIER, p);
  learn(p, now(p));
}
void set_flag(HardEvent e, int id) {
  const int key = int(e) * 8 + id;
  note(SET, ends(e)[0], key);
  if (state->flags.count(key)) tell("a flag is set twice");
  state->flags[key] = now(ends(e)[0]);
}
void wait_flag(HardEvent e, int id) {
  const int key = int(e) * 8 + id;
  note(WAIT, ends(e)[1], key);
  if (!state->flags.count(key)) return tell("a wait without a set");
  learn(ends(e)[1], state->flags[key]);
  state->flags.erase(key);
}
void set_cross_flag(pipe_t p, int id) {
  std::lock_guard<std::mutex> hold(group->lock);
  for (int to = 0; to < 3; ++to)  // core 0 is the cube core: it reaches both vector cores, each of these reaches it
    if ((to == 0) != state->cube) {
      const int key = (state->cube ? to : 2 + state->index) * 16 + id;
      if (to == (state->cube ? to : 0)) note(CROSS_SET, p, key);
      auto &sets = group->crossing[key];
      sets.push_back(now(p));
      if (sets.size() > 15) tell("a cross-core flag counts beyond 15");
    }
  group->changed.notify_all();
}
void CrossCoreWaitFlag(int id) {
  std::unique_lock<std::mutex> hold(model::group->lock);
  const std::vector<int> from = model::state->cube ? std::vector<int>{3, 4} : std::vector<int>{model::state->index};
  for (int f : from) {
    note(CROSS_WAIT, PIPE_ALL, f * 16 + id);
    auto &sets = model::group->crossing[f * 16 + id];
    model::Group &g = *model::group;
    while (sets.empty() && !g.ended) {
      g.waits[model::state->index] = f * 16 + id;
      if (model::stuck(g)) {
        g.ended = true;
        g.changed.notify_all();
        model::stop("a core waits for ever");
      }
      g.changed.wait(hold);
      g.waits.erase(model::state->index);
    }
    if (sets.empty()) throw model::Stop();
    for (int p = 0; p < PIPES; ++p) model::learn(pipe_t(p), sets.front());
    sets.erase(sets.begin());
  }
}
void range(pipe_t p, const void *at, bool within, long bytes, int align, bool write) {
  if (!within) stop(write ? "a write behind the end of a tensor" : "a read behind the end of a tensor");
  if ((uintptr_t)at % align) tell("an address is not a multiple of " + std::to_string(align));
  touch(p, at, bytes, write);
}
void banked(long repeats, std::initializer_list<Blocks> reads, Blocks write) {
  Event *e = at_work(PIPE_V);
  if (!e) return;
  e->amount = repeats;
  if (!state->ub) return;
  const uint8_t *ub = state->ub;
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
template <typename T> static void indices_of(const LocalTensor<T> &d, T first, uint32_t n, const std::vector<Step> &steps) {
  const uint32_t head = n < 8 ? n : 8;
  follow(steps, [&](pipe_t p) {
    if (p == PIPE_S) return out(p, d, head);
    if (n <= 8) return;
    in(p, d, head);
    out(p, d[8], n - 8);
    PipeBarrier<PIPE_V>();
  });
  for (uint32_t i = 0; i < n; ++i) d.at[i] = T(first + T(i));
}
void CreateVecIndex(const LocalTensor<float> &d, float first, uint32_t n, const std::vector<Step> &steps) { indices_of(d, first, n, steps); }
void CreateVecIndex(const LocalTensor<int32_t> &d, int32_t first, uint32_t n, const std::vector<Step> &steps) { indices_of(d, first, n, steps); }
bool holds(CMPMODE m, float a, float b) {
  return m == CMPMODE::LT ? a < b : m == CMPMODE::GT ? a > b : m == CMPMODE::EQ ? a == b : m == CMPMODE::LE ? a <= b : m == CMPMODE::GE ? a >= b : a != b;
}
void CompareScalar(const LocalTensor<uint8_t> &d, const LocalTensor<float> &a, float b, CMPMODE m, uint32_t n) {
  model::start(PIPE_V);
  compare(d, a, m, n, [&](uint32_t) { return b; });
}
void Select(const LocalTensor<float> &d, const LocalTensor<uint8_t> &mask, const LocalTensor<float> &a, const LocalTensor<float> &b, SELMODE s, uint32_t n) {
  if (s != SELMODE::VSEL_TENSOR_TENSOR_MODE) model::tell("a wrong mode of Select");
  model::start(PIPE_V);
  in(PIPE_V, mask, n / 8);
  in(PIPE_V, a, n);
  in(PIPE_V, b, n);
  out(PIPE_V, d, n);
  for (uint32_t i = 0; i < n; ++i) d.at[i] = mask.at[i / 8] >> i % 8 & 1 ? a.at[i] : b.at[i];
}
void Select(const LocalTensor<float> &d, const LocalTensor<uint8_t> &mask, const LocalTensor<float> &a, float b, SELMODE s, uint32_t n) {
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
  void N(const LocalTensor<float> &d, const LocalTensor<float> &x, const LocalTensor<float> &w, int32_t n, const std::vector<Step> &steps) { \
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
void WholeReduceSum(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk, int32_t srcRep) {
  whole_reduce(d, s, mask, repeat, dstRep, srcBlk, srcRep, [](float a, float b) { return a + b; });
}
#define WHOLE(N, E)                                                                                                                               \
  void N(const LocalTensor<float> &d, const LocalTensor<float> &s, int32_t mask, int32_t repeat, int32_t dstRep, int32_t srcBlk,         \
                int32_t srcRep, ReduceOrder order) {                                                                                            \
    if (order != ReduceOrder::ORDER_ONLY_VALUE) model::tell("indices of a reduction of repeats, which the model has not");                      \
    whole_reduce(d, s, mask, repeat, dstRep, srcBlk, srcRep, [](float a, float b) { return E; });                                               \
  }
WHOLE(WholeReduceMax, std::isnan(a) || a > b ? a : b)
WHOLE(WholeReduceMin, std::isnan(a) || a < b ? a : b)
void LoadDataWithTranspose(const LocalTensor<float> &d, const LocalTensor<float> &s, const LoadData2dTransposeParams &p) {
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
void run(State c, Group *g, void (*kernel)(const void *of), const void *of) {
  core = state = &c;
  group = g;
  try {
    kernel(of);
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
void launch(int blocks, bool mixed, bool cube, const void *memory, long bytes, void (*kernel)(const void *of), const void *of) {
  found.clear();
  for (auto &e : events) e.clear();
  scratch = (const uint8_t *)memory;
  scratch_end = scratch + bytes;
  for (int b = 0; b < blocks; ++b) {
    Group g;
    std::vector<std::thread> cores;
    g.cores = mixed ? 3 : 1;
    for (int i = 0; i < (mixed ? 3 : 1); ++i) {
      State c;
      c.blocks = blocks;
      c.cube = mixed ? i == 0 : cube;
      c.index = i;
      c.events = b ? nullptr : &events[i];
      c.sub = mixed && i ? i - 1 : 0;
      c.block = mixed && i ? b * 2 + c.sub : b;
      cores.emplace_back(run, c, &g, kernel, of);
    }
    for (auto &t : cores) t.join();
    for (auto &f : g.crossing)
      if (!g.ended && !f.second.empty()) tell("a cross-core flag is left set");
  }
  allowed.clear();  // of this launch: another library's kernel may come next
}
const char *said() {
  static std::string all;
  all.clear();
  for (auto &f : found) all += f + "\n";
  return all.c_str();
}
bool told(const char *of) {
  for (auto &f : found) fprintf(stderr, "%s: %s\n", of, f.c_str());
  return !found.empty();
}
}  // namespace model

extern "C" void model_allow(const uint8_t **from, const long *bytes, int n) {  // the tensors in memory: nothing else may be used
  model::allowed.clear();
  for (int i = 0; i < n; ++i) model::allowed.push_back({from[i], from[i] + bytes[i]});
}
// Bytes that a kernel may ask for, and read behind a tensor.
extern "C" void model_chip(long unified_buffer, long l1, long l0c, long behind) {
  model::most_VECCALC = unified_buffer;
  model::most_A1 = l1;
  model::most_CO1 = l0c;
  model::behind = behind;
}
extern "C" long model_events(int core, const model::Event **first) {  // what a core of the first group did in the last kernel
  *first = model::events[core].data();
  return long(model::events[core].size());
}
