// Which accesses of memory are ordered within a block (or a cluster): of shared memory, and of what global_memory.h follows. Every thread,
// and every engine that works beside the threads (the copies that a thread has under way, its bulk stores, the products of a warpgroup, what
// arrives at a barrier in shared memory), is an agent with a time of its own.
// A thread knows of each agent the time up to which all of its accesses lie behind it: barriers, waits and arrivals pass that on. An
// access is an error where it conflicts with an earlier one whose time its thread does not know (FastTrack: Flanagan and Freund, 2009).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace simt {
typedef uint32_t Time;
constexpr uint16_t NOBODY = 0xffff;

// Times by agent, shared by all threads that met; agents behind the end have done nothing that is known
struct Times {
  uint32_t serial;
  std::vector<Time> of;
};
typedef std::shared_ptr<const Times> Known;

// What a thread knows. Its own copies and stores end in order, so numbers say which of them it has waited for: copies; stores that have read
// shared memory; stores that others see.
struct View {
  Known base;
  Time now = 1, copies = 0, stores = 0, drained = 0;
  Time fenced = 0, copies_fenced = 0;  // what the thread wrote before, and its copies until then, is seen by engines
  uint16_t self = 0, copier = NOBODY, storer = NOBODY, writer = NOBODY;
};

class Order {
 public:
  std::vector<View> views;  // of threads
  // What products of warpgroups read while it may be written, byte by byte: no error by itself, windows of a picture read a little more than
  // they use. Its value is spoilt for the product, and an error where a result has it.
  struct Spoilt { uint16_t agent; Time time; size_t at; };
  std::vector<Spoilt> spoilt;

  void start(int threads, size_t bytes, const unsigned char *at) {
    memory = at;
    doubts.clear();
    serials = 0, agents = threads, counts.assign(threads, 0);
    nodes.assign(1, {0, NOBODY, 0, false});
    kinds.assign(threads, 't'), owners.assign(threads, 0);
    sets.assign(size_t(1) << SETS, {}), merged.clear(), sources.clear();
    last_set = {}, last_free = {};
    far.assign(far.size(), 0), pages_used = 0, touched.clear();
    views.assign(threads, {});
    const Known nothing = make(std::vector<Time>(threads));
    for (int t = 0; t < threads; ++t) views[t].base = nothing, views[t].self = uint16_t(t);
    shared = bytes, cells.resize((bytes + GROUP - 1) / GROUP * GROUP), groups.assign(cells.size() / GROUP, {});
  }
  uint16_t agent(char kind, int of) {
    counts.push_back(0), kinds.push_back(kind), owners.push_back(of);
    return uint16_t(agents++);
  }
  // one more work of an engine. `source`: of a copy, what a byte's address and that of its place differ by
  Time next(uint16_t a, intptr_t source = 0) {
    if (source) sources[a].resize(counts[a] + 2), sources[a][counts[a] + 1] = source;
    return ++counts[a];
  }
  Time count(uint16_t a) const { return counts[a]; }

  static bool knows(const View &v, uint16_t a, Time t) {
    if (a == v.self) return true;
    if (a == v.copier && t <= v.copies) return true;
    if (a == v.storer && t <= v.stores) return true;
    if (a == v.writer && t <= v.drained) return true;
    return a < v.base->of.size() && v.base->of[a] >= t;
  }
  // What threads bring to a place where they meet, or leave there for others
  struct Gather {
    std::vector<Time> of;
    std::vector<uint32_t> seen;
    void at_least(uint16_t a, Time t) {
      if (of.size() <= a) of.resize(a + 1);
      of[a] = std::max(of[a], t);
    }
  };
  void leave(Gather &g, View &v) {
    if (std::find(g.seen.begin(), g.seen.end(), v.base->serial) == g.seen.end()) {
      g.seen.push_back(v.base->serial);
      if (g.of.size() < v.base->of.size()) g.of.resize(v.base->of.size());
      for (size_t i = 0; i < v.base->of.size(); ++i) g.of[i] = std::max(g.of[i], v.base->of[i]);
    }
    g.at_least(v.self, v.now++);
    if (v.copies) g.at_least(v.copier, v.copies);
    if (v.stores) g.at_least(v.storer, v.stores);
    if (v.drained) g.at_least(v.writer, v.drained);
  }
  Known taken(Gather &g) {
    Known k = make(g.of);
    g.seen.assign(1, k->serial);  // what is left here once stays known here
    return k;
  }
  void learn(View &v, const Known &k) {
    if (k->serial == v.base->serial) return;
    Known &both = merged[uint64_t(k->serial) << 32 | v.base->serial];
    if (!both) {
      std::vector<Time> of = k->of;
      if (of.size() < v.base->of.size()) of.resize(v.base->of.size());
      for (size_t i = 0; i < v.base->of.size(); ++i) of[i] = std::max(of[i], v.base->of[i]);
      both = make(std::move(of));
    }
    v.base = both;
  }
  Known only(uint16_t a, Time t) {
    std::vector<Time> of(a + 1);
    of[a] = t;
    return make(std::move(of));
  }

  // An access of `bytes` bytes from `at` on by work `t` of agent `a`, begun by the thread of `v`: what it conflicts with, "" if with nothing.
  // `place`: where the first byte lies, of global memory
  std::string access(const View &v, uint16_t a, Time t, size_t at, size_t bytes, bool write, const unsigned char *place = nullptr) {
    Cell was{}, to{};
    Findings found;
    const Node *met = nullptr;
    bool begun = false;
    // what `c` says of bytes from `i` on, `n` of them; false where the access must not meet them
    const auto step = [&](Cell &c, size_t i, size_t n) {
      if (!begun || !c.same(was)) {  // neighbours have mostly the same past
        begun = true, was = c;
        found.twice = nullptr, found.spoilt.clear();
        if ((met = write ? overwrites(c, v, a, t, found) : reads(c, v, a, t, found))) return false;
        to = c;
      }
      c = to;
      for (size_t k = i; found.twice && k < i + n; ++k) {
        const unsigned char *const p = place ? place + (k - at) : memory + k;
        doubts.push_back({p, *p, said(k, *found.twice, a, write)});
      }
      for (const Node &p : found.spoilt)
        for (size_t k = i; k < i + n; ++k) spoilt.push_back({p.agent, p.time, k});
      return true;
    };
    in_global = at >= GLOBAL;
    const size_t end = in_global ? at + bytes : std::min(at + bytes, shared);
    for (size_t i = at; i < end;) {
      const size_t group = i / GROUP * GROUP, behind = std::min(end, group + GROUP);
      const bool whole = behind - i == GROUP;
      Span s = span(i);
      if (whole && !s.group->split) {
        if (!step(*s.group, i, GROUP)) return said(i, *met, a, write);
        i = behind;
        continue;
      }
      if (!s.group->split) std::fill_n(s.bytes, GROUP, *s.group), s.group->split = true;
      for (Cell *c = s.bytes + (i - group); i < behind; ++i, ++c)
        if (!step(*c, i, 1)) return said(i, *met, a, write);
      if (whole && std::all_of(s.bytes + 1, s.bytes + GROUP, [&](const Cell &c) { return c.same(*s.bytes); })) *s.group = *s.bytes;
    }
    return {};
  }
  bool doubtful() const { return !doubts.empty(); }
  // Threads may write the same value twice (waves that hold the same elements do). To be called when the writes have been done.
  std::string settled() {
    for (const Doubt &d : doubts)
      if (*d.at != d.was) return d.what;
    doubts.clear();
    return {};
  }
  // Bytes of global memory have numbers from GLOBAL on, below the number that was reserved last
  static constexpr size_t GLOBAL = size_t(1) << 40, PAGE = 512;
  void reserve(size_t bytes) { far.assign((bytes + PAGE - 1) / PAGE, 0), pages_used = 0, touched.clear(); }
  bool bulk(uint16_t a) const { return past_fences(a); }
  // who wrote a byte of global memory in this block, NOBODY if nobody has
  uint16_t writer(size_t at) const {
    const uint32_t page = far[(at - GLOBAL) / PAGE];
    return page ? pages[page - 1].of(at % PAGE).writer : NOBODY;
  }
  // What this block did to global memory: byte, agent, time, whether it wrote; the last write and the reads since
  template <class F> void each_touched(F visit) const {
    for (const size_t n : touched)
      for (size_t i = 0; i < PAGE; ++i) {
        const Cell &c = pages[far[n] - 1].of(i);
        const size_t at = GLOBAL + n * PAGE + i;
        if (c.writer != NOBODY) visit(at, c.writer, c.written, true);
        for (uint32_t r = c.readers; r; r = nodes[r].rest) visit(at, nodes[r].agent, nodes[r].time, nodes[r].wrote);
      }
  }
  // whether the thread of `v` knows the last write of a byte
  bool seen(const View &v, size_t at) const {
    if (at >= shared) return true;
    const Cell &c = groups[at / GROUP].split ? cells[at] : groups[at / GROUP];
    return c.writer == NOBODY || knows(v, c.writer, c.written);
  }

 private:
  // The past of a byte; or of GROUP of them while it is the same, as it mostly is: copies, boxes and products touch runs of bytes
  static constexpr size_t GROUP = 16;
  struct Cell {
    Time written = 0;
    uint32_t readers = 0;  // a set of accesses, all since the last write
    uint16_t writer = NOBODY;
    bool split = false;  // of a group: each byte has a past of its own
    bool same(const Cell &o) const { return written == o.written && readers == o.readers && writer == o.writer; }
  };
  struct Page {
    std::array<Cell, PAGE> cells;
    std::array<Cell, PAGE / GROUP> groups;
    const Cell &of(size_t i) const { return groups[i / GROUP].split ? cells[i] : groups[i / GROUP]; }
  };
  struct Span { Cell *group, *bytes; };
  struct Node { uint32_t rest; uint16_t agent; Time time; bool wrote; };  // wrote: what another has written since, unordered
  static constexpr int SETS = 12;  // bits of a hash
  struct Adding {
    uint32_t set, serial, time, out;
    uint16_t agent;
    bool wrote;
    bool same(const Adding &o) const {
      return set == o.set && serial == o.serial && time == o.time && agent == o.agent && wrote == o.wrote;
    }
  };
  bool same_source(uint16_t a, Time t, uint16_t b, Time u) const {
    const auto x = sources.find(a), y = sources.find(b);
    return x != sources.end() && y != sources.end() && t < x->second.size() && u < y->second.size() && x->second[t] == y->second[u];
  }
  struct Doubt { const unsigned char *at; unsigned char was; std::string what; };
  struct Free {
    uint32_t set, serial;
    uint16_t self;
    bool same(const Free &o) const { return set == o.set && serial == o.serial && self == o.self; }
  };

  struct Findings {
    const Node *twice = nullptr;  // another thread's write, unordered: right if it is of the same value
    std::vector<Node> spoilt;
  };

  // Both give the access that this one must not meet, or none
  const Node *reads(Cell &c, const View &v, uint16_t a, Time t, Findings &found) {
    const bool product = kinds[a] == 'p';
    if (c.writer != NOBODY) {
      last = {0, c.writer, c.written, true};
      const bool unknown = !knows(v, c.writer, c.written);
      const bool unfenced = past_fences(a) && unseen(c.writer, c.written);
      if (product && unknown) found.spoilt.push_back({0, a, t, false});
      else if (unknown) return &last;
      else if (unfenced) return last.rest = 1, &last;
    }
    c.readers = with(c.readers, v, {0, a, t, false});
    return nullptr;
  }
  const Node *overwrites(Cell &c, const View &v, uint16_t a, Time t, Findings &found) {
    uint32_t twice = 0;
    const auto meets = [&](const Node &o) {
      if ((o.agent == a && o.time == t) || knows(v, o.agent, o.time)) return false;
      last = o;
      if (kinds[o.agent] == 'p') return found.spoilt.push_back(o), false;
      if (!o.wrote) return true;
      if (!engine(o.agent) && !engine(a)) found.twice = &last;
      else if (!same_source(o.agent, o.time, a, t)) return true;
      twice = with(twice, v, o);  // the same bytes again: in either order, but both before the next
      return false;
    };
    if (c.writer != NOBODY && meets({0, c.writer, c.written, true})) return &last;
    if (c.writer != NOBODY && kinds[a] == 'b' && unseen(c.writer, c.written)) return last = {1, c.writer, c.written, true}, &last;
    const Free now{c.readers, v.base->serial, v.self};
    if (c.readers && !now.same(last_free)) {
      for (uint32_t n = c.readers; n; n = nodes[n].rest)
        if (meets(nodes[n])) return &last;
      if (!twice && found.spoilt.empty()) last_free = now;
    }
    c = {t, twice, a};
    return nullptr;
  }
  bool engine(uint16_t a) const { return a >= views.size(); }
  // Copies of threads, and what they send to other blocks, go the way of the threads' own accesses. The bulk engine and the products of a
  // warpgroup go another one (PTX ISA: the async proxy), and do not see what went the first one before its thread fenced it, copies after it
  // has waited for them; no fence that we have does so for what is sent, and for global memory.
  bool past_fences(uint16_t a) const { return engine(a) && kinds[a] != 'c' && kinds[a] != 'g'; }
  bool unseen(uint16_t writer, Time written) const {
    if (past_fences(writer)) return false;
    return in_global || kinds[writer] == 'g' || (engine(writer) ? views[owners[writer]].copies_fenced < written : views[writer].fenced < written);
  }
  // the group of a byte
  Span span(size_t i) {
    if (i < GLOBAL) return {&groups[i / GROUP], &cells[i / GROUP * GROUP]};
    uint32_t &number = far[(i - GLOBAL) / PAGE];
    if (!number) {
      if (pages.size() == pages_used) pages.emplace_back();
      pages[pages_used].groups.fill({});
      number = uint32_t(++pages_used), touched.push_back((i - GLOBAL) / PAGE);
    }
    Page &page = pages[number - 1];
    return {&page.groups[i % PAGE / GROUP], &page.cells[i % PAGE / GROUP * GROUP]};
  }
  Known make(std::vector<Time> of) {
    auto k = std::make_shared<Times>();
    k->serial = ++serials, k->of = std::move(of);
    return k;
  }
  std::string name(uint16_t a) const {
    static const std::unordered_map<char, std::string> engines{
        {'t', "thread "}, {'c', "a copy of thread "}, {'s', "a bulk store of thread "}, {'w', "a bulk store of thread "},
        {'g', "what is sent to the barrier at "}, {'p', "a product of warpgroup "}, {'m', "a product of thread "}, {'b', "a bulk copy for the barrier at "}};
    return engines.at(kinds[a]) + std::to_string(a < views.size() ? a : owners[a]);
  }
  std::string said(size_t at, const Node &was, uint16_t a, bool write) const {
    const std::string byte = "byte " + std::to_string(in_global ? at - GLOBAL : at), where = in_global ? "global" : "shared";
    if (was.rest)
      return "what threads wrote into " + where + " memory is " + (write ? "overwritten" : "read") + " in bulk without a fence between: " + byte + ", by " + name(was.agent);
    return "unordered accesses of " + where + " memory: " + byte + " was " + (was.wrote ? "written" : "read") + " by " + name(was.agent) + " and is " +
           (write ? "written" : "read") + " by " + name(a);
  }
  // the set and one access more, less those that it lies behind
  uint32_t with(uint32_t set, const View &v, const Node &one) {
    const Adding asked{set, v.base->serial, one.time, 0, one.agent, one.wrote};
    if (last_set.same(asked)) return last_set.out;
    const uint64_t key = (uint64_t(set) << 32 | v.base->serial) * 0x9e3779b97f4a7c15ull ^ (uint64_t(one.agent) << 32 | one.time);
    Adding &known = sets[key * 0xbf58476d1ce4e5b9ull >> (64 - SETS)];
    if (!known.same(asked)) known = asked, known.out = extended(set, v, one);
    return last_set = known, known.out;
  }
  uint32_t extended(uint32_t set, const View &v, const Node &one) {
    std::vector<uint32_t> kept;
    for (uint32_t n = set; n; n = nodes[n].rest) {
      const Node &o = nodes[n];
      if (o.agent == one.agent && o.time == one.time && o.wrote == one.wrote) return set;
      const bool behind = o.agent != one.agent ? knows(v, o.agent, o.time) : !engine(o.agent) && o.wrote == one.wrote;
      if (!behind) kept.push_back(n);
    }
    uint32_t out = 0;  // the end of a list that is kept whole is shared
    while (!kept.empty() && nodes[kept.back()].rest == out) out = kept.back(), kept.pop_back();
    for (; !kept.empty(); kept.pop_back()) {
      const Node copy{out, nodes[kept.back()].agent, nodes[kept.back()].time, nodes[kept.back()].wrote};
      nodes.push_back(copy), out = uint32_t(nodes.size() - 1);
    }
    nodes.push_back({out, one.agent, one.time, one.wrote});
    return uint32_t(nodes.size() - 1);
  }

  uint32_t serials = 0;
  int agents = 0;
  std::vector<Time> counts;
  std::string kinds;
  std::vector<int> owners;
  std::vector<Doubt> doubts;
  const unsigned char *memory = nullptr;
  std::unordered_map<uint16_t, std::vector<intptr_t>> sources;
  size_t shared = 0;  // bytes
  std::vector<Cell> cells, groups;
  std::vector<uint32_t> far;  // of every PAGE bytes of global memory the number of its page, 0 where the block has not touched it
  std::deque<Page> pages;
  std::vector<size_t> touched;
  size_t pages_used = 0;
  bool in_global = false;  // what is being accessed
  std::vector<Node> nodes;
  std::vector<Adding> sets;  // what was asked for last of each hash; no serial is 0
  std::unordered_map<uint64_t, Known> merged;
  Node last{};
  Adding last_set{};
  Free last_free{};
};
}  // namespace simt
