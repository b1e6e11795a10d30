// A CPU model of one SIMT block at a time: every thread is a fiber, and fibers change only where threads meet or wait. A launch runs
//   late  asynchronous copies and products happen as late as their waits allow (finds reads before a wait), threads in order;
//   early they happen when they are started (finds buffers written again too soon), threads and blocks in reverse order.
// Neither order shows every access that comes too early, so accesses of shared memory that nothing orders are errors: happens_before.h.
// Arrays lie between pages that may not be touched. Misaligned access and indices out of arrays trap (the sanitizer's flags).
#define SIMT_MODEL
#include "simt_model.h"

#include "happens_before.h"

#include <csetjmp>
#include <csignal>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

const simt_index *simt_thread;
simt_index simt_block, simt_grid;
unsigned char *smem;
int simt_dropped = -1;
extern "C" void simt_drop(int number) { simt_dropped = number; }

namespace {
constexpr size_t STACK = 128 * 1024;
constexpr unsigned char UNTOUCHED = 0xa5;

struct Copy { unsigned char *to; const void *from; int bytes; bool inside; };
struct Bulk { ac_tensor_map map; unsigned char *near; int at[5]; };  // the map by value: a thread may end before its copies
struct Lane {
  void *stack_pointer = nullptr;
#if !defined(__x86_64__)
  ucontext_t context;
#endif
  simt_index index{};
  bool done = false;
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> groups;
  std::deque<simt::Time> ends;  // of the groups
  std::deque<Bulk> stores;
  unsigned cluster = 0;  // generation of the cluster's barrier at which it has arrived, plus 1
};
struct Meeting {
  int arrived = 0, tag = 0;
  unsigned generation = 0;
  std::vector<void *> arguments;
  simt::Order::Gather left;  // what those know who have come, where meeting orders their accesses
  std::vector<int> waiting;
  simt::Known last;
};
struct Sent { unsigned char *to, data[16]; };
struct Barrier {
  int count = 0, pending = 0;
  long bytes = 0;
  unsigned phase = 0;
  std::vector<Bulk> loads;
  std::vector<Sent> sent;
  std::vector<Copy> runs;
  simt::Order::Gather left;
  simt::Known last;  // of the phase that ended last
  uint16_t engine = simt::NOBODY;
  int maker = 0;
  bool visible = false;
};
struct Team {
  std::vector<simt_product> open;
  std::deque<std::vector<simt_product>> groups;
  std::deque<simt::Time> ends;
  uint16_t engine = simt::NOBODY;
  int fenced = 0;  // its warps, by bits, whose registers are fenced since its last group of products
};

// What blocks leave in global memory: who wrote it when, by the block's own times; what a flag's release has behind it; which of these
// the running block has acquired, each under an agent of its own, which barriers pass on like any other
struct Left { long block; uint16_t thread; simt::Time time; };
struct Released { long block; std::vector<simt::Time> of; };
struct Acquired { uint16_t agent; Released what; };
std::map<const void *, Left> left_there;
std::map<const unsigned *, Released> released;
std::vector<Acquired> acquired;
long block_number;

const simt_launch *launch;
std::vector<Lane> lanes;
std::vector<Meeting> waves, teams, named;
std::vector<Team> products;
std::map<unsigned char *, Barrier> barriers;
simt::Order order;
size_t shared_bytes;  // that are followed; 0 where no block runs
bool quiet;           // an instruction of many lanes is performed: what it touches is told lane by lane
std::vector<int> under_way;              // of every 16 bytes the warp whose matrix loads may still read them, plus 1
std::vector<std::vector<long>> asked;    // by each warp since its last fence or arrival
int current, alive;
long idle;  // changes of fibers since something last went on
std::string failure;
sigjmp_buf out;
std::map<unsigned char *, size_t> pages;  // of arrays in global memory
bool waited;  // whether a thread of the block has waited for earlier launches
unsigned char *stacks;
size_t stack_count;
void **kernel_arguments;
void (*kernel)(void **);

#if defined(__x86_64__)
extern "C" void simt_switch(void **from, void *to);
asm(".text\n.globl simt_switch\nsimt_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n");
void change(int from, int to) { simt_switch(&lanes[from].stack_pointer, lanes[to].stack_pointer); }
#else
void change(int from, int to) { swapcontext(&lanes[from].context, &lanes[to].context); }
#endif

void spoil();
void conflict(const std::string &what) {
  if (!order.spoilt.empty()) spoil();
  if (what.empty()) return;
  failure = what;
  siglongjmp(out, 3);
}
int following(int from) {
  const int n = int(lanes.size()), step = launch->late ? 1 : n - 1;
  for (int i = (from + step) % n; i != from; i = (i + step) % n)
    if (!lanes[i].done) return i;
  return from;
}
void go_to(int to) {
  const int from = current;
  if (to == from) return;
  current = to;
  simt_thread = &lanes[to].index;
  change(from, to);
}
void yield() {
  if (++idle > 4 * long(lanes.size()) + 4) simt_fail("the block hangs: threads wait for others that have ended or wait elsewhere");
  go_to(following(current));
}
void thread_main() {
  kernel(kernel_arguments);
  Lane &me = lanes[current];
  if (!me.open.empty() || !me.groups.empty()) {
    for (auto &g : me.groups) if (!g.empty()) simt_fail("a thread ends while its copies are under way");
  }
  conflict(order.settled());
  if (me.cluster) simt_fail("a thread ends that has arrived at the cluster's barrier and not waited");
  me.done = true;
  idle = 0;
  if (--alive) go_to(following(current));
  siglongjmp(out, 1);
}
simt::View &view() { return order.views[current]; }
void complete(Meeting &m) {
  m.last = order.taken(m.left);
  for (int i : m.waiting) order.views[i].base = m.last;  // they have brought what they knew
  m.waiting.clear();
  m.arrived = 0;
  ++m.generation;
}
// products that read what may be written in the meantime, where they have not been performed yet
void spoil() {
  for (const auto &s : order.spoilt)
    for (Team &t : products) {
      if (t.engine != s.agent) continue;
      for (simt_product &p : t.open)
        if (p.number == s.time) p.spoilt.push_back(long(s.at));
      for (auto &g : t.groups)
        for (simt_product &p : g)
          if (p.number == s.time) p.spoilt.push_back(long(s.at));
    }
  order.spoilt.clear();
}
// one more work of an engine that the current thread starts
void engine_works(uint16_t engine, const void *p, long bytes, bool write, intptr_t source = 0) {
  const size_t at = static_cast<const unsigned char *>(p) - smem;
  conflict(order.access(view(), engine, order.next(engine, source), at, bytes, write));
}
void meet(Meeting &m, int tag, int slot, int members, void *arguments, simt_perform perform, bool orders) {
  if (m.arrived && m.tag != tag) simt_fail("threads that must act together are at different instructions");
  m.tag = tag;
  m.arguments.resize(members);
  m.arguments[slot] = arguments;
  idle = 0;
  conflict(order.settled());
  if (orders) {
    order.leave(m.left, view());
    m.waiting.push_back(current);
  }
  if (++m.arrived == members) {
    quiet = true;
    if (perform) perform(m.arguments.data(), members);
    quiet = false;
    if (orders) return complete(m);
    m.arrived = 0;
    ++m.generation;
    return;
  }
  for (const unsigned mine = m.generation; m.generation == mine;) yield();
  idle = 0;
}
void perform_copy(const Copy &c) {
  if (c.inside) memcpy(c.to, c.from, c.bytes);
  else memset(c.to, 0, c.bytes);
}
template <class F> void each_element(const ac_tensor_map &m, const Bulk &b, F visit) {
  int total = 1;
  for (int d = 0; d < m.rank; ++d) total *= m.box[d];
  const long base = b.near - smem;
  for (int e = 0; e < total; ++e) {
    long offset = 0, rest = e;
    bool inside = true;
    for (int d = 0; d < m.rank; ++d) {
      const long x = b.at[d] + rest % m.box[d] * m.steps[d];
      rest /= m.box[d];
      inside = inside && x >= 0 && x < m.dims[d];
      offset += x * m.strides[d];
    }
    long place = base + long(e) * m.size;
    if (m.swizzle) place ^= (place >> 7 & (m.swizzle / 16 - 1)) << 4;
    visit(smem + place, offset, inside);
  }
}
void perform_load(const Bulk &b) {
  const ac_tensor_map &m = b.map;
  each_element(m, b, [&](unsigned char *near, long offset, bool inside) {
    if (inside) memcpy(near, m.data + offset, m.size);
    else memset(near, 0, m.size);
  });
}
void perform_store(const Bulk &b) {
  const ac_tensor_map &m = b.map;
  each_element(m, b, [&](unsigned char *near, long offset, bool inside) { if (inside) memcpy(m.data + offset, near, m.size); });
}
long box_bytes(const ac_tensor_map &m) {
  long n = m.size;
  for (int d = 0; d < m.rank; ++d) n *= m.box[d];
  return n;
}
void advance(Barrier &b) {
  if (b.pending || b.bytes) return;
  if (order.count(b.engine)) b.left.at_least(b.engine, order.count(b.engine));
  b.last = order.taken(b.left);
  b.pending = b.count;
  ++b.phase;
  idle = 0;
}
Barrier &find(unsigned char *at) {
  const auto found = barriers.find(at);
  if (found == barriers.end()) simt_fail("a barrier is used that nobody initialised");
  if (!order.seen(view(), at - smem)) simt_fail("a barrier is used that others may not have initialised yet");
  return found->second;
}
Barrier &find_for_engine(unsigned char *at) {
  Barrier &b = find(at);
  if (!b.visible) simt_fail("a barrier is named to an engine or to another block before a fence behind its initialisation");
  return b;
}
void perform_send(Barrier &b, const Sent &s) {
  memcpy(s.to, s.data, sizeof s.data);
  b.bytes -= sizeof s.data;
}
Bulk bulk(const ac_tensor_map *m, unsigned char *near, const int *at) {
  if ((near - smem) % 128) simt_fail("the bulk engine's place in shared memory is no multiple of 128");
  if (m->swizzle && m->box[0] * m->size != m->swizzle) simt_fail("a box row is not one swizzle period");
  Bulk b{*m, near, {}};
  for (int d = 0; d < m->rank; ++d) b.at[d] = at[d];
  return b;
}
void trapped(int number, siginfo_t *info, void *) {
  char text[160];
  if (number == SIGILL || number == SIGTRAP || number == SIGFPE)
    snprintf(text, sizeof text, "undefined behaviour: a misaligned access or an index outside its array");
  else if (!waited)
    snprintf(text, sizeof text, "global memory is touched before earlier launches are waited for");
  else
    snprintf(text, sizeof text, "an access outside of every buffer, at %p", info->si_addr);
  failure = text;
  siglongjmp(out, 2);
}
void prepare(int threads) {
  lanes.clear();
  lanes.resize(threads);
  if (stack_count < size_t(threads)) {
    if (stacks) munmap(stacks, stack_count * STACK);
    stack_count = threads;
    stacks = static_cast<unsigned char *>(mmap(nullptr, stack_count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  for (int i = 0; i < threads; ++i) {
    lanes[i].index = {unsigned(i % launch->block), 0, 0};
#if defined(__x86_64__)
    void **top = reinterpret_cast<void **>(stacks + (i + 1) * STACK);
    *--top = nullptr;  // where a call's return address would lie: the stack is aligned as after a call
    *--top = reinterpret_cast<void *>(&thread_main);
    for (int r = 0; r < 6; ++r) *--top = nullptr;
    lanes[i].stack_pointer = top;
#else
    getcontext(&lanes[i].context);
    lanes[i].context.uc_stack.ss_sp = stacks + i * STACK;
    lanes[i].context.uc_stack.ss_size = STACK;
    makecontext(&lanes[i].context, thread_main, 0);
#endif
  }
  waves.assign((threads + launch->wave - 1) / launch->wave, {});
  teams.assign((threads + 127) / 128, {});
  named.assign(16 * launch->cluster + 1, {});
  products.assign(teams.size(), {});
  barriers.clear();
  alive = threads;
  idle = 0;
}
void start(int first) {
  static void *main_pointer;
  current = first;
  simt_thread = &lanes[first].index;
#if defined(__x86_64__)
  simt_switch(&main_pointer, lanes[first].stack_pointer);
#else
  static ucontext_t main_context;
  (void)main_pointer;
  swapcontext(&main_context, &lanes[first].context);
#endif
}
void allow(int access) {
  for (const auto &[at, bytes] : pages) mprotect(at, bytes, access);
}
// Nothing may still be done in the shared memory of a block when its last thread ends
std::string left_over(int block) {
  simt::Order::Gather all;
  for (int i = 0; i < launch->block; ++i) order.leave(all, order.views[block * launch->block + i]);
  simt::View last = order.views[block * launch->block];
  last.base = order.taken(all);
  const size_t bytes = launch->cluster > 1 ? simt_shared_bytes() : launch->shared;
  const std::string said = order.access(last, last.self, last.now, block * bytes, bytes, true);
  return said.empty() ? said : "a block ends while its shared memory is in use: " + said;
}
void run_block() {
  const int shared = launch->cluster > 1 ? simt_shared_bytes() * launch->cluster : launch->shared, threads = launch->block * launch->cluster;
  static unsigned char *const region = [] {
    const size_t page = sysconf(_SC_PAGESIZE);
    auto *p = mmap(nullptr, SIMT_SHARED + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(static_cast<unsigned char *>(p) + SIMT_SHARED, page, PROT_NONE);
    return static_cast<unsigned char *>(p);
  }();
  const int end = (shared + 1023) / 1024 * 1024;
  if (end > SIMT_SHARED) {
    failure = "the blocks of a cluster have more shared memory than the model";
    return;
  }
  smem = region + SIMT_SHARED - end;
  memset(smem, 0xff, shared);
  memset(smem + shared, UNTOUCHED, end - shared);
  prepare(threads);
  order.start(threads, end, smem);
  acquired.clear();
  shared_bytes = end;
  quiet = false;
  under_way.assign(end / 16, 0);
  asked.assign((threads + launch->wave - 1) / launch->wave, {});
  waited = !launch->overlaps;
  if (!waited) allow(PROT_NONE);
  if (sigsetjmp(out, 1) == 0) start(launch->late ? 0 : threads - 1);
  shared_bytes = 0;
  for (int block = 0; failure.empty() && block < launch->cluster; ++block) failure = left_over(block);
  if (!waited) {
    allow(PROT_READ | PROT_WRITE);
    if (failure.empty()) failure = "a block ends without having waited for earlier launches";
  }
  for (int i = shared; failure.empty() && i < end; ++i)
    if (smem[i] != UNTOUCHED) failure = "byte " + std::to_string(i) + " of shared memory is written, the launch gives " + std::to_string(launch->shared);
}
}  // namespace

void simt_launch_wait() {
  if (!waited) allow(PROT_READ | PROT_WRITE);
  waited = true;
}
void simt_left(const void *to) { left_there[to] = {block_number, uint16_t(current), view().now}; }
void simt_left_read(const void *from) {
  const auto found = left_there.find(from);
  if (found == left_there.end()) simt_fail("what no block of the launch has left is read");
  const Left &l = found->second;
  bool ordered = l.block == block_number && simt::Order::knows(view(), l.thread, l.time);
  for (const Acquired &a : acquired)
    ordered = ordered || (a.what.block == l.block && l.thread < a.what.of.size() && a.what.of[l.thread] >= l.time &&
                          simt::Order::knows(view(), a.agent, 1));
  if (!ordered) simt_fail("unordered accesses of global memory: what another block left is read, and no flag orders it");
}
void simt_flag_set(unsigned *f) {
  simt::Order::Gather known;  // a release is cumulative: it has behind it what barriers put before it
  order.leave(known, view());
  released[f] = {block_number, known.of};
  *f = 1;
}
void simt_flag_take(unsigned *f) {
  if (!*f) simt_fail("a block waits for one that is started later, or for a flag that nobody sets");
  const uint16_t agent = order.agent('r', 0);
  acquired.push_back({agent, released[f]});
  order.learn(view(), order.only(agent, order.next(agent)));
  *f = 0;
}
int simt_rank() { return current / launch->block; }
int simt_shared_bytes() { return (launch->shared + 1023) / 1024 * 1024; }
void simt_fail(const char *what) {
  failure = std::string(what) + " (thread " + std::to_string(current) + ")";
  siglongjmp(out, 3);
}
void simt_wave(int tag, void *arguments, simt_perform perform) {
  const int w = launch->wave;
  meet(waves[current / w], tag, current % w, w, arguments, perform, false);
}
void simt_wave_sync() {
  const int w = launch->wave;
  meet(waves[current / w], 60, current % w, w, nullptr, nullptr, true);
}
void simt_team(int tag, void *arguments, simt_perform perform) { meet(teams[current / 128], tag, current % 128, 128, arguments, perform, false); }
void simt_barrier(int id, int threads) {
  const int members = threads ? threads : launch->block;
  Meeting &m = named[16 * simt_rank() + id];
  meet(m, members, m.arrived, members, nullptr, nullptr, true);
}
void simt_cluster_arrive() {
  Meeting &m = named.back();
  Lane &me = lanes[current];
  if (me.cluster) simt_fail("a thread arrives twice at the cluster's barrier");
  me.cluster = m.generation + 1;
  order.leave(m.left, view());
  idle = 0;
  if (++m.arrived == int(lanes.size())) complete(m);
}
void simt_cluster_wait() {
  Meeting &m = named.back();
  Lane &me = lanes[current];
  if (!me.cluster) simt_fail("a thread waits at the cluster's barrier without having arrived");
  while (m.generation + 1 == me.cluster) yield();
  me.cluster = 0;
  order.learn(view(), m.last);
  idle = 0;
}
void simt_barrier_pass(int id, int threads) {
  Meeting &m = named[16 * simt_rank() + id];
  if (m.arrived && m.tag != threads) simt_fail("threads that must act together are at different instructions");
  m.tag = threads;
  m.arguments.resize(threads);
  idle = 0;
  order.leave(m.left, view());
  if (++m.arrived == threads) complete(m);
}

void simt_copy(unsigned char *to, const void *from, int bytes, bool inside) {
  if ((to - smem) % bytes || (inside && reinterpret_cast<uintptr_t>(from) % bytes)) simt_fail("a misaligned copy");
  if (view().copier == simt::NOBODY) view().copier = order.agent('c', current);
  engine_works(view().copier, to, bytes, true, inside ? static_cast<const unsigned char *>(from) - to : 1);
  if (launch->late) lanes[current].open.push_back({to, from, bytes, inside});
  else perform_copy({to, from, bytes, inside});
}
void simt_commit() {
  Lane &me = lanes[current];
  me.groups.push_back(std::move(me.open));
  me.open.clear();
  me.ends.push_back(view().copier == simt::NOBODY ? 0 : order.count(view().copier));
}
void simt_wait(int groups) {
  Lane &me = lanes[current];
  for (; int(me.groups.size()) > groups; me.groups.pop_front(), me.ends.pop_front()) {
    for (const Copy &c : me.groups.front()) perform_copy(c);
    view().copies = me.ends.front();
  }
}

void simt_barrier_init(unsigned char *b, int count) {
  if ((b - smem) % 8) simt_fail("a misaligned barrier");
  conflict(order.access(view(), view().self, view().now, b - smem, 8, true));
  view().fenced = view().now++;  // barriers have a fence of their own: simt_barrier_init_fence
  Barrier &made = barriers[b] = {};
  made.count = made.pending = count;
  made.engine = order.agent('b', int(b - smem));
  made.maker = current;
}
void simt_barrier_init_fence() {
  for (auto &[at, b] : barriers)
    if (b.maker == current) b.visible = true;
}
// an arrival goes the way of a warp's loads, behind them
static void arrived() {
  const int warp = current / launch->wave;
  for (long at : asked[warp])
    if (under_way[at] == warp + 1) under_way[at] = 0;
  asked[warp].clear();
}
static void arrive(Barrier &b) {
  arrived();
  order.leave(b.left, view());
  if (--b.pending < 0) simt_fail("more threads arrive at a barrier than it was made for");
  advance(b);
}
void simt_barrier_arrive(unsigned char *at) { arrive(find(at)); }
void simt_barrier_arrive_far(unsigned char *at) { arrive(find_for_engine(at)); }
void simt_barrier_expect(unsigned char *at, int bytes) {
  find(at).bytes += bytes;
  simt_barrier_arrive(at);
}
void simt_barrier_wait(unsigned char *at, unsigned parity) {
  Barrier &b = find(at);
  for (;;) {
    for (const Bulk &l : b.loads) {
      perform_load(l);
      b.bytes -= box_bytes(l.map);
    }
    for (const Sent &s : b.sent) perform_send(b, s);
    for (const Copy &c : b.runs) {
      memcpy(c.to, c.from, c.bytes);
      b.bytes -= c.bytes;
    }
    if (!b.loads.empty() || !b.sent.empty() || !b.runs.empty()) {
      b.loads.clear();
      b.sent.clear();
      b.runs.clear();
      advance(b);
    }
    if ((b.phase & 1) != parity) break;
    yield();
  }
  if (b.last) order.learn(view(), b.last);
  idle = 0;
}
void simt_send(unsigned char *to, const void *from, unsigned char *at) {
  Barrier &b = find_for_engine(at);
  Sent s{to, {}};
  if ((to - smem) % 16) simt_fail("a misaligned place of what is sent");
  engine_works(b.engine, to, sizeof s.data, true);
  memcpy(s.data, from, sizeof s.data);
  idle = 0;
  if (launch->late) return b.sent.push_back(s);
  perform_send(b, s);
  advance(b);
}
void simt_bulk_load(unsigned char *to, const ac_tensor_map *m, unsigned char *at, const int *coordinates) {
  Barrier &b = find_for_engine(at);
  for (long i = (to - smem) / 16; i <= (to + box_bytes(*m) - 1 - smem) / 16; ++i)
    if (under_way[i]) simt_fail("what matrix loads may still read is overwritten in bulk: a barrier of threads does not wait for them");
  const Bulk load = bulk(m, to, coordinates);
  engine_works(b.engine, to, box_bytes(*m), true);
  if (launch->late) return b.loads.push_back(load);
  perform_load(load);
  b.bytes -= box_bytes(*m);
  advance(b);
}
void simt_bulk_run(unsigned char *to, const void *from, int bytes, unsigned char *at) {
  Barrier &b = find_for_engine(at);
  if ((to - smem) % 16 || reinterpret_cast<unsigned long>(from) % 16 || bytes % 16) simt_fail("a bulk copy of a misaligned run");
  engine_works(b.engine, to, bytes, true);
  if (launch->late) return b.runs.push_back({to, from, bytes, true});
  memcpy(to, from, bytes);
  b.bytes -= bytes;
  advance(b);
}
void simt_fenced() {
  view().fenced = view().now++;
  arrived();
}
void simt_asked(const unsigned char *piece) {
  const long at = (piece - smem) / 16;
  const int warp = current / launch->wave;
  under_way[at] = warp + 1;
  asked[warp].push_back(at);
}
void simt_touched(const void *p, long bytes, bool write) {
  const size_t at = static_cast<const unsigned char *>(p) - smem;
  if (quiet) return;
  conflict(order.settled());
  if (at >= shared_bytes) return;
  conflict(order.access(view(), view().self, view().now, at, bytes, write));
}
void simt_lane_touched(int lane, const void *p, int bytes, bool write) {
  const simt::View &v = order.views[current / launch->wave * launch->wave + lane];
  conflict(order.access(v, v.self, v.now, static_cast<const unsigned char *>(p) - smem, bytes, write));
}
#define SEEN(size) \
  extern "C" void __tsan_read##size(void *p) { simt_touched(p, size, false); } \
  extern "C" void __tsan_write##size(void *p) { simt_touched(p, size, true); } \
  extern "C" void __tsan_unaligned_read##size(void *p) { simt_touched(p, size, false); } \
  extern "C" void __tsan_unaligned_write##size(void *p) { simt_touched(p, size, true); }
SEEN(1) SEEN(2) SEEN(4) SEEN(8) SEEN(16)
extern "C" void __tsan_read_range(void *p, long bytes) { simt_touched(p, bytes, false); }
extern "C" void __tsan_write_range(void *p, long bytes) { simt_touched(p, bytes, true); }
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
extern "C" void __tsan_vptr_update(void **, void *) {}
void simt_bulk_store(const ac_tensor_map *m, unsigned char *from, const int *coordinates) {
  if (view().storer == simt::NOBODY) view().storer = order.agent('s', current);
  engine_works(view().storer, from, box_bytes(*m), false);
  if (launch->late) lanes[current].stores.push_back(bulk(m, from, coordinates));
  else perform_store(bulk(m, from, coordinates));
}
void simt_bulk_wait(int stores) {
  auto &mine = lanes[current].stores;
  for (; int(mine.size()) > stores; mine.pop_front()) perform_store(mine.front());
  if (view().storer != simt::NOBODY && order.count(view().storer) > simt::Time(stores))
    view().stores = std::max(view().stores, order.count(view().storer) - stores);
}

void simt_team_fence() { products[current / 128].fenced |= 1 << current % 128 / 32; }
void simt_team_product(const simt_product &started) {
  simt_product p = started;
  Team &team = products[current / 128];
  if (team.fenced != 15) simt_fail("a product of a warpgroup begins without a fence of its registers");
  if (team.engine == simt::NOBODY) team.engine = order.agent('p', current / 128);
  static long at[SIMT_PLACES];
  const int places = p.places(p, at), first = current / 128 * 128;
  const simt::Time now = p.number = order.next(team.engine);
  std::vector<uint32_t> seen;  // every warp reads by itself: all must know
  for (int i = first; i < first + 128; ++i) {
    const simt::View &v = order.views[i];
    if (std::find(seen.begin(), seen.end(), v.base->serial) != seen.end()) continue;
    seen.push_back(v.base->serial);
    for (int n = 0; n < places; ++n) {
      const std::string said = order.access(v, team.engine, now, at[n], 16, false);
      if (!said.empty()) conflict(said);
    }
  }
  for (const auto &s : order.spoilt)
    if (s.agent == team.engine && s.time == now) p.spoilt.push_back(long(s.at));
  order.spoilt.clear();
  if (launch->late) team.open.push_back(p);
  else p.run(p);
}
void simt_team_commit() {
  simt_team(101, nullptr, [](void **, int) {
    Team &t = products[current / 128];
    t.groups.push_back(std::move(t.open));
    t.open.clear();
    t.fenced = 0;
    t.ends.push_back(t.engine == simt::NOBODY ? 0 : order.count(t.engine));
  });
}
void simt_team_wait(int groups) {
  simt_team(200 + groups, &groups, [](void **a, int) {
    Team &t = products[current / 128];
    simt::Time over = 0;
    for (; int(t.groups.size()) > *static_cast<int *>(a[0]); t.groups.pop_front(), t.ends.pop_front()) {
      for (const simt_product &p : t.groups.front()) p.run(p);
      over = t.ends.front();
    }
    if (!over) return;
    const simt::Known k = order.only(t.engine, over);
    for (int i = 0; i < 128; ++i) order.learn(order.views[current / 128 * 128 + i], k);
  });
}

const char *simt_run(const simt_launch *l, void **arguments, void (*k)(void **)) {
  launch = l, kernel = k, kernel_arguments = arguments;
  failure.clear();
  left_there.clear(), released.clear();
  struct sigaction action {}, old[5];
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
  action.sa_sigaction = trapped;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  for (int i = 0; i < 5; ++i) sigaction(signals[i], &action, &old[i]);
  simt_grid = {l->grid[0], l->grid[1], l->grid[2]};
  const long blocks = long(l->grid[0]) * l->grid[1] * l->grid[2];
  for (long n = 0; n < blocks && failure.empty(); n += l->cluster) {
    const long b = l->late || l->ordered ? n : blocks - l->cluster - n;  // the first block of a cluster; all see its number
    simt_block = {unsigned(b % l->grid[0]), unsigned(b / l->grid[0] % l->grid[1]), unsigned(b / l->grid[0] / l->grid[1])};
    block_number = b;
    run_block();
  }
  for (int i = 0; i < 5; ++i) sigaction(signals[i], &old[i], nullptr);
  return failure.empty() ? nullptr : failure.c_str();
}

// An array whose end (up to 16 bytes of alignment) lies at a page that may not be touched
// (constant: no launch writes it)
extern "C" void *simt_allocate(size_t bytes, int constant) {
  const size_t page = sysconf(_SC_PAGESIZE), used = (bytes + 15) / 16 * 16, whole = (used + page - 1) / page * page;
  auto *p = static_cast<unsigned char *>(mmap(nullptr, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(p + page, whole, PROT_READ | PROT_WRITE);
  if (!constant) pages[p + page] = whole;
  return p + page + whole - used;
}
extern "C" void simt_release(void *p, size_t bytes) {
  const size_t page = sysconf(_SC_PAGESIZE), used = (bytes + 15) / 16 * 16, whole = (used + page - 1) / page * page;
  unsigned char *const first = static_cast<unsigned char *>(p) + used - whole;
  pages.erase(first);
  munmap(first - page, whole + 2 * page);
}
