// A CPU model of one SIMT block at a time: every thread is a fiber, and fibers change only where threads meet or wait. A launch runs
//   late  asynchronous copies and products happen as late as their waits allow (finds reads before a wait), threads in order;
//   early they happen when they are started (finds buffers written again too soon), threads and blocks in reverse order.
// Neither order shows every access that comes too early, so accesses that nothing orders are errors: of shared memory (happens_before.h) and
// of what the launch writes in global memory (global_memory.h).
// Arrays lie between pages that may not be touched; that launches keep to those they are given, to the byte, is checked (extents.h).
// Misaligned access and indices out of arrays trap (the sanitizer's flags).
#define SIMT_MODEL
#include "simt_model.h"

#include "counted.h"
#include "extents.h"
#include "global_memory.h"

#include <csetjmp>
#include <csignal>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

const simt_index *simt_thread;
simt_index simt_block, simt_grid;
unsigned char *smem;

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
  std::list<std::vector<Copy>> groups;  // lists: an empty deque takes memory, and every thread of every block would make three
  std::list<simt::Time> ends;           // of the groups
  std::list<Bulk> stores;
  unsigned cluster = 0;  // generation of the cluster's barrier at which it has arrived, plus 1
  int statement = -1;    // the numbered one that it is at
  bool wrote = false;    // shared memory, since its last fence
};
struct Meeting {
  simt::Statements met, last_met;  // who come; who came last, where threads wait by another statement
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
  std::vector<size_t> commits;  // products of the block, from its first on, that are to be done before each of these arrivals
  simt::Order::Gather left;
  simt::Known last;  // of the phase that ended last
  simt::Statements arrivals, last_arrivals;  // those of the phase and of the one that ended last
  uint16_t engine = simt::NOBODY, sender = simt::NOBODY;  // bulk copies; what other blocks send
  int maker = 0;
  bool visible = false;
};
struct Team {
  std::vector<simt_product> open;
  std::list<std::vector<simt_product>> groups;
  std::list<simt::Time> ends;
  uint16_t engine = simt::NOBODY;
  int fenced = 0;  // its warps, by bits, whose registers are fenced since its last group of products
};

// Tensor memory of a block. Products are the work of one engine; a load is its warp's first thread's, at the time of the fence behind it.
struct Tensor {
  int first = 0, taken = 0;  // columns
  bool left_off = false;     // no more may be taken
  std::vector<simt_tensor_product> products;
  size_t done = 0;
  uint16_t engine = simt::NOBODY;
  std::vector<simt::Time> written;             // of each column
  std::vector<std::vector<simt::Time>> loads;  // of each warp, of each column; none is 0
  std::vector<simt::View> views;               // what threads knew at their last fence behind a wait
};
constexpr simt::Time UNFENCED = ~0u;

long block_number;
simt::Counted counted;
Tensor tensor;
uint32_t tensor_words[SIMT_LANES][SIMT_COLUMNS];

const simt_launch *launch;
std::vector<Lane> lanes;
std::vector<Meeting> waves, teams, named;
std::vector<Team> products;
std::map<unsigned char *, Barrier> barriers;
simt::Order order;
simt::Global global(order);
size_t shared_bytes;  // that are followed; 0 where no block runs
bool quiet;           // an instruction of many lanes is performed: what it touches is told lane by lane
std::vector<int> under_way;              // of every 16 bytes the warp whose matrix loads may still read them, plus 1
std::vector<std::vector<long>> asked;    // by each warp since its last fence or arrival
int current, alive;
long idle;  // changes of fibers since something last went on
std::string failure;
sigjmp_buf out;
simt::Extents extents;
uint16_t earlier;  // the launches before this one, as an agent: threads know it that have waited for them
bool waited, running;
// Of products that were performed already the bytes of shared memory that were written without waiting for them: by block, agent and time.
// The launch is run again, and then they read what was written: no error by itself, see Order::spoilt
std::map<std::tuple<long, uint16_t, simt::Time>, std::vector<bool>> spoilt_late;
size_t spoilt_bytes;
unsigned char *stacks;  // each with a page below it that may not be touched
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
void took_effect() { counted.orders(lanes[current].statement); }
void come_by(simt::Statements &to) {
  if (counted.on()) to.insert(lanes[current].statement);
}
bool news(const simt::View &v, const simt::Known &k) {
  if (!counted.on() || k->serial == v.base->serial) return false;
  for (size_t a = 0; a < k->of.size(); ++a)
    if (k->of[a] && !simt::Order::knows(v, uint16_t(a), k->of[a])) return true;
  return false;
}
// What a thread is told by a wait; `by`: the statements of those who tell it
void learn(const simt::Known &k, const simt::Statements &by = {}) {
  if (news(view(), k)) {
    took_effect();
    counted.orders(by);
  }
  order.learn(view(), k);
}
void complete(Meeting &m) {
  m.last = order.taken(m.left);
  bool told = false;
  for (int i : m.waiting) {
    told = told || news(order.views[i], m.last);
    order.views[i].base = m.last;  // they have brought what they knew
  }
  if (told) counted.orders(m.met);
  m.met.clear();
  m.waiting.clear();
  m.arrived = 0;
  ++m.generation;
}
// products that read what may be written in the meantime, where they have not been performed yet
void spoil() {
  const auto once = [](std::vector<bool> &bytes, size_t at) {
    bytes.resize(shared_bytes);
    const bool first = !bytes[at];
    bytes[at] = true;
    return first;
  };
  for (const auto &s : order.spoilt) {
    bool performed = true;
    const auto mark = [&](simt_product &p) {
      if (p.number == s.time) once(p.spoilt, s.at), performed = false;
    };
    for (Team &t : products) {
      if (t.engine != s.agent) continue;
      for (simt_product &p : t.open) mark(p);
      for (auto &g : t.groups)
        for (simt_product &p : g) mark(p);
    }
    if (performed) spoilt_bytes += once(spoilt_late[{block_number, s.agent, s.time}], s.at);
  }
  order.spoilt.clear();
}
// An access of global memory by work `t` of an agent, which the current thread begins
void global_touched(uint16_t agent, simt::Time t, const void *p, long bytes, bool write) {
  if (!extents.hold(p, bytes)) {
    const std::string what = extents.outside(p, bytes, write);
    if (!what.empty()) simt_fail(what.c_str());
  }
  if (launch->overlaps && !simt::Order::knows(view(), earlier, 1) && (extents.written(p) || global.follows(p)))
    simt_fail("global memory is touched before earlier launches are waited for");
  conflict(global.access(view(), agent, t, p, bytes, write));
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
    come_by(m.met);
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
// the same, by rows in global memory
void touch_box(const Bulk &b, uint16_t agent, bool write) {
  const ac_tensor_map &m = b.map;
  long first = 0, end = 0;
  const auto touch = [&] {
    if (end > first) global_touched(agent, order.count(agent), m.data + first, end - first, write);
  };
  each_element(m, b, [&](unsigned char *, long offset, bool inside) {
    if (!inside) return;
    if (offset != end) touch(), first = offset;
    end = offset + m.size;
  });
  touch();
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
  for (const uint16_t agent : {b.engine, b.sender})
    if (order.count(agent)) b.left.at_least(agent, order.count(agent));
  b.last = order.taken(b.left);
  b.last_arrivals = std::move(b.arrivals), b.arrivals.clear();
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
  const size_t at = static_cast<unsigned char *>(info->si_addr) - stacks;
  if (number == SIGILL || number == SIGTRAP || number == SIGFPE)
    snprintf(text, sizeof text, "undefined behaviour: a misaligned access or an index outside its array");
  else if (at < stack_count * STACK)
    snprintf(text, sizeof text, "thread %zu of the block has more local arrays than a stack of %zu bytes holds", at / STACK, STACK);
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
    for (size_t i = 0; i < stack_count; ++i) mprotect(stacks + i * STACK, sysconf(_SC_PAGESIZE), PROT_NONE);
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
  tensor = {};
  tensor.written.assign(SIMT_COLUMNS, 0), tensor.loads.assign(waves.size(), std::vector<simt::Time>(SIMT_COLUMNS));
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
  global.block_begins(block_number);
  shared_bytes = end;
  quiet = false;
  under_way.assign(end / 16, 0);
  asked.assign((threads + launch->wave - 1) / launch->wave, {});
  waited = !launch->overlaps;
  if (launch->overlaps) earlier = order.agent('l', 0), order.next(earlier);
  running = true;
  if (sigsetjmp(out, 1) == 0) start(launch->late ? 0 : threads - 1);
  shared_bytes = 0;
  running = false;
  for (int block = 0; failure.empty() && block < launch->cluster; ++block) failure = left_over(block);
  for (const Meeting &m : named)
    if (failure.empty() && m.arrived) failure = "a block ends while threads have come to a barrier and others not";
  if (failure.empty() && tensor.taken) failure = "a block ends that has not given its tensor memory back";
  if (failure.empty() && tensor.done < tensor.products.size()) failure = "a block ends while products into tensor memory are under way";
  if (failure.empty()) failure = global.block_ends();
  if (failure.empty() && !waited) failure = "a block ends without having waited for earlier launches";
  for (int i = shared; failure.empty() && i < end; ++i)
    if (smem[i] != UNTOUCHED) failure = "byte " + std::to_string(i) + " of shared memory is written, the launch gives " + std::to_string(launch->shared);
}
void run_grid(bool again) {
  const unsigned *grid = launch->grid;
  const long blocks = long(grid[0]) * grid[1] * grid[2], sample = long(launch->sample) * launch->cluster;
  global.launch_begins(again);
  for (long n = 0; n < blocks && failure.empty(); n += launch->cluster) {
    if (sample && !launch->ordered && n >= sample && n < blocks - sample) continue;
    const long b = launch->late || launch->ordered ? n : blocks - launch->cluster - n;  // the first block of a cluster; all see its number
    simt_block = {unsigned(b % grid[0]), unsigned(b / grid[0] % grid[1]), unsigned(b / grid[0] / grid[1])};
    block_number = b;
    run_block();
  }
}
}  // namespace

bool simt_keeps(int number) {
  lanes[current].statement = number;
  counted.comes(number);
  return number != counted.left_out;
}
void simt_passed() { lanes[current].statement = -1; }
void simt_launch_wait() {
  waited = true;
  if (launch->overlaps) learn(order.only(earlier, 1));
}
void simt_flag_set(unsigned *f) {
  took_effect();
  global.set(f, view());
  *f = 1;
}
void simt_flag_take(unsigned *f) {
  if (!*f) simt_fail("a block waits for one that is started later, or for a flag that nobody sets");
  took_effect();
  global.take(f, view());
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
  come_by(m.met);
  order.leave(m.left, view());
  idle = 0;
  if (++m.arrived < int(lanes.size())) return;
  m.last_met = m.met;
  complete(m);
}
void simt_cluster_wait() {
  Meeting &m = named.back();
  Lane &me = lanes[current];
  if (!me.cluster) simt_fail("a thread waits at the cluster's barrier without having arrived");
  while (m.generation + 1 == me.cluster) yield();
  me.cluster = 0;
  learn(m.last, m.last_met);
  idle = 0;
}
void simt_barrier_pass(int id, int threads) {
  Meeting &m = named[16 * simt_rank() + id];
  if (m.arrived && m.tag != threads) simt_fail("threads that must act together are at different instructions");
  m.tag = threads;
  m.arguments.resize(threads);
  idle = 0;
  come_by(m.met);
  order.leave(m.left, view());
  if (++m.arrived == threads) complete(m);
}

void simt_copy(unsigned char *to, const void *from, int bytes, bool inside) {
  if ((to - smem) % bytes || (inside && reinterpret_cast<uintptr_t>(from) % bytes)) simt_fail("a misaligned copy");
  if (view().copier == simt::NOBODY) view().copier = order.agent('c', current);
  engine_works(view().copier, to, bytes, true, inside ? static_cast<const unsigned char *>(from) - to : 1);
  if (inside) global_touched(view().copier, order.count(view().copier), from, bytes, false);
  if (launch->late) lanes[current].open.push_back({to, from, bytes, inside});
  else perform_copy({to, from, bytes, inside});
}
void simt_commit() {
  Lane &me = lanes[current];
  if (view().copier != simt::NOBODY && order.count(view().copier) > (me.ends.empty() ? view().copies : me.ends.back())) took_effect();
  me.groups.push_back(std::move(me.open));
  me.open.clear();
  me.ends.push_back(view().copier == simt::NOBODY ? 0 : order.count(view().copier));
}
void simt_wait(int groups) {
  Lane &me = lanes[current];
  for (; int(me.groups.size()) > groups; me.groups.pop_front(), me.ends.pop_front()) {
    for (const Copy &c : me.groups.front()) perform_copy(c);
    if (view().copies < me.ends.front()) took_effect();
    view().copies = me.ends.front();
  }
}

void simt_barrier_init(unsigned char *b, int count) {
  if ((b - smem) % 8) simt_fail("a misaligned barrier");
  conflict(order.access(view(), view().self, view().now, b - smem, 8, true));
  view().fenced = view().now++;  // barriers have a fence of their own: simt_barrier_init_fence
  Barrier &made = barriers[b] = {};
  made.count = made.pending = count;
  made.engine = order.agent('b', int(b - smem)), made.sender = order.agent('g', int(b - smem));
  made.maker = current;
}
void simt_barrier_init_fence() {
  took_effect();
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
static void one_arrival(Barrier &b) {
  if (--b.pending < 0) simt_fail("more threads arrive at a barrier than it was made for");
  advance(b);
}
static void tensor_done(size_t upto) {
  for (; tensor.done < upto; ++tensor.done) tensor.products[tensor.done].run(tensor.products[tensor.done], tensor_words);
}
static void arrive(Barrier &b) {
  arrived();
  come_by(b.arrivals);
  order.leave(b.left, view());
  one_arrival(b);
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
    const std::vector<size_t> due = std::exchange(b.commits, {});
    for (const size_t upto : due) tensor_done(upto), one_arrival(b);
    if (!b.loads.empty() || !b.sent.empty() || !b.runs.empty()) {
      b.loads.clear();
      b.sent.clear();
      b.runs.clear();
      advance(b);
    }
    if ((b.phase & 1) != parity) break;
    yield();
  }
  if (b.last) learn(b.last, b.last_arrivals);
  idle = 0;
}
void simt_send(unsigned char *to, const void *from, unsigned char *at) {
  Barrier &b = find_for_engine(at);
  Sent s{to, {}};
  if ((to - smem) % 16) simt_fail("a misaligned place of what is sent");
  engine_works(b.sender, to, sizeof s.data, true);
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
  touch_box(load, b.engine, false);
  if (launch->late) return b.loads.push_back(load);
  perform_load(load);
  b.bytes -= box_bytes(*m);
  advance(b);
}
void simt_bulk_run(unsigned char *to, const void *from, int bytes, unsigned char *at) {
  Barrier &b = find_for_engine(at);
  if ((to - smem) % 16 || reinterpret_cast<unsigned long>(from) % 16 || bytes % 16) simt_fail("a bulk copy of a misaligned run");
  engine_works(b.engine, to, bytes, true);
  global_touched(b.engine, order.count(b.engine), from, bytes, false);
  if (launch->late) return b.runs.push_back({to, from, bytes, true});
  memcpy(to, from, bytes);
  b.bytes -= bytes;
  advance(b);
}
void simt_fenced() {
  if (lanes[current].wrote || view().copies_fenced < view().copies) took_effect();
  lanes[current].wrote = false;
  view().fenced = view().now++;
  view().copies_fenced = view().copies;
  arrived();
}
void simt_asked(const unsigned char *piece) {
  const long at = (piece - smem) / 16;
  const int warp = current / launch->wave;
  under_way[at] = warp + 1;
  asked[warp].push_back(at);
}
// the model's own: where threads read their numbers
static inline bool of_model(const unsigned char *place) {
  return size_t(place - reinterpret_cast<unsigned char *>(lanes.data())) < lanes.size() * sizeof(Lane) ||
         size_t(place - reinterpret_cast<unsigned char *>(&simt_block)) < sizeof simt_block;
}
static __attribute__((noinline)) void touched_of_block(const unsigned char *place, long bytes, bool write) {
  if (quiet || !running || of_model(place)) return;
  if (order.doubtful()) conflict(order.settled());
  const size_t at = place - smem;
  if (at >= shared_bytes) return global_touched(view().self, view().now, place, bytes, write);
  lanes[current].wrote |= write;
  conflict(order.access(view(), view().self, view().now, at, bytes, write));
}
static inline void touched(const void *p, long bytes, bool write) {
  const auto *place = static_cast<const unsigned char *>(p);
  if (size_t(place - stacks) >= stack_count * STACK) touched_of_block(place, bytes, write);  // most are of a thread's own
}
void simt_touched(const void *p, long bytes, bool write) { touched(p, bytes, write); }
void simt_lane_touched(int lane, const void *p, int bytes, bool write) {
  const int thread = current / launch->wave * launch->wave + lane;
  const simt::View &v = order.views[thread];
  lanes[thread].wrote |= write;
  conflict(order.access(v, v.self, v.now, static_cast<const unsigned char *>(p) - smem, bytes, write));
}
#define SEEN(size) \
  extern "C" void __tsan_read##size(void *p) { touched(p, size, false); } \
  extern "C" void __tsan_write##size(void *p) { touched(p, size, true); } \
  extern "C" void __tsan_unaligned_read##size(void *p) { touched(p, size, false); } \
  extern "C" void __tsan_unaligned_write##size(void *p) { touched(p, size, true); }
SEEN(1) SEEN(2) SEEN(4) SEEN(8) SEEN(16)
extern "C" void __tsan_read_range(void *p, long bytes) { touched(p, bytes, false); }
extern "C" void __tsan_write_range(void *p, long bytes) { touched(p, bytes, true); }
extern "C" void __tsan_func_entry(void *) {}
extern "C" void __tsan_func_exit() {}
extern "C" void __tsan_init() {}
extern "C" void __tsan_vptr_update(void **, void *) {}
void simt_bulk_store(const ac_tensor_map *m, unsigned char *from, const int *coordinates) {
  if (view().storer == simt::NOBODY) view().storer = order.agent('s', current), view().writer = order.agent('w', current);
  engine_works(view().storer, from, box_bytes(*m), false);
  const Bulk store = bulk(m, from, coordinates);
  order.next(view().writer);
  touch_box(store, view().writer, true);
  if (launch->late) lanes[current].stores.push_back(store);
  else perform_store(store);
}
void simt_bulk_wait(int stores, bool written) {
  auto &mine = lanes[current].stores;
  for (; int(mine.size()) > stores; mine.pop_front()) perform_store(mine.front());
  if (view().storer == simt::NOBODY || order.count(view().storer) <= simt::Time(stores)) return;
  const simt::Time ended = order.count(view().storer) - stores;
  if (view().stores < ended || (written && view().drained < ended)) took_effect();
  view().stores = std::max(view().stores, ended);
  if (written) view().drained = view().stores;
}

void simt_team_fence() {
  if (products[current / 128].fenced != 15) took_effect();
  products[current / 128].fenced |= 1 << current % 128 / 32;
}
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
  const auto late = spoilt_late.find({block_number, team.engine, now});
  if (late != spoilt_late.end()) p.spoilt = late->second;
  for (const auto &s : order.spoilt)
    if (s.agent == team.engine && s.time == now) p.spoilt.resize(shared_bytes), p.spoilt[s.at] = true;
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
    took_effect();
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
    for (int i = 0; i < 128; ++i) {
      simt::View &v = order.views[current / 128 * 128 + i];
      if (news(v, k)) took_effect();
      order.learn(v, k);
    }
  });
}

// ---- tensor memory
static void tensor_at(unsigned at, int columns) {
  const int first = at & 0xffff;
  if (first < tensor.first || first + columns > tensor.first + tensor.taken) simt_fail("columns of tensor memory that the block has not taken");
}
void simt_tensor_alloc(unsigned char *place, int columns) {
  struct Ask { unsigned char *place; int columns; } ask{place, columns};
  simt_wave(70, &ask, [](void **a, int) {
    const Ask &ask = *static_cast<Ask *>(a[0]);
    if (ask.columns < 32 || ask.columns > SIMT_COLUMNS || ask.columns & (ask.columns - 1)) simt_fail("tensor memory comes in powers of two of columns");
    if (launch->cluster > 1 || tensor.taken || tensor.left_off) simt_fail("a block takes tensor memory again, or in a cluster");
    tensor.left_off = true, tensor.taken = ask.columns, tensor.first = SIMT_COLUMNS - ask.columns;
    memset(tensor_words, 0xff, sizeof tensor_words);
    simt_lane_touched(0, ask.place, 4, true);
    __builtin_memcpy(ask.place, &tensor.first, 4);
  });
}
void simt_tensor_free(unsigned at, int columns) {
  struct Ask { unsigned at; int columns; } ask{at, columns};
  simt_wave(71, &ask, [](void **a, int) {
    const Ask &ask = *static_cast<Ask *>(a[0]);
    if (int(ask.at) != tensor.first || ask.columns != tensor.taken) simt_fail("tensor memory is given back that was not taken so");
    const simt::View &v = tensor.views[current];
    for (int c = tensor.first; c < tensor.first + tensor.taken; ++c) {
      if (tensor.written[c] && !simt::Order::knows(v, tensor.engine, tensor.written[c])) simt_fail("tensor memory is given back while products write it");
      for (size_t w = 0; w < tensor.loads.size(); ++w)
        if (const simt::Time t = tensor.loads[w][c])
          if (t == UNFENCED || !simt::Order::knows(v, uint16_t(w * launch->wave), t)) simt_fail("tensor memory is given back while others may load from it");
    }
    tensor.taken = 0;
  });
}
void simt_tensor_load(unsigned at, int columns, uint32_t *row) {
  struct Ask { unsigned at; int columns; uint32_t *row; } ask{at, columns, row};
  simt_wave(72, &ask, [](void **a, int lanes) {
    const Ask &ask = *static_cast<Ask *>(a[0]);
    const int first = ask.at & 0xffff, warp = current / launch->wave;
    if (ask.at >> 16 != unsigned(warp % 4 * 32)) simt_fail("a warp loads lanes of tensor memory that are not its own");
    tensor_at(ask.at, ask.columns);
    for (int lane = 0; lane < lanes; ++lane) {
      const Ask &mine = *static_cast<Ask *>(a[lane]);
      if (mine.at != ask.at) simt_fail("lanes load from different places of tensor memory");
      const size_t thread = size_t(warp) * launch->wave + lane;
      for (int c = first; c < first + ask.columns; ++c)
        if (tensor.written[c] && (thread >= tensor.views.size() || !simt::Order::knows(tensor.views[thread], tensor.engine, tensor.written[c])))
          simt_fail("sums are loaded before their products are done, or without a fence behind the wait for them");
      __builtin_memcpy(mine.row, &tensor_words[warp % 4 * 32 + lane][first], 4 * ask.columns);
    }
    for (int c = first; c < first + ask.columns; ++c) tensor.loads[warp][c] = UNFENCED;
  });
}
void simt_tensor_fence(bool after) {
  took_effect();
  tensor.views.resize(lanes.size());
  if (after) tensor.views[current] = view();
  else if (current % launch->wave == 0)
    for (simt::Time &t : tensor.loads[current / launch->wave])
      if (t == UNFENCED) t = view().now;
}
void simt_tensor_product_of(const simt_tensor_product &p) {
  tensor_at(p.at, p.columns);
  if (tensor.engine == simt::NOBODY) tensor.engine = order.agent('m', current);
  if (tensor.views.size() <= size_t(current) || !tensor.views[current].base) simt_fail("a product into tensor memory begins without a fence");
  const simt::View &v = tensor.views[current];
  const int first = p.at & 0xffff;
  const simt::Time now = order.next(tensor.engine);
  for (int c = first; c < first + p.columns; ++c) {
    for (size_t w = 0; w < tensor.loads.size(); ++w)
      if (simt::Time &t = tensor.loads[w][c]) {
        if (t == UNFENCED || !simt::Order::knows(v, uint16_t(w * launch->wave), t)) simt_fail("a product overwrites sums that others may still load");
        t = 0;
      }
    tensor.written[c] = now;
  }
  static long at[SIMT_PLACES];
  const int places = p.places(p, at);
  for (int n = 0; n < places; ++n) conflict(order.access(v, tensor.engine, now, at[n], 16, false));
  tensor.products.push_back(p);
  if (!launch->late) tensor_done(tensor.products.size());
}
void simt_tensor_commit(unsigned char *at) {
  Barrier &b = find_for_engine(at);
  took_effect();
  if (tensor.engine != simt::NOBODY) {  // products began behind all that their thread had been told; what it did itself is not among that
    simt::View told = view();
    told.self = tensor.engine, told.now = order.count(tensor.engine);
    order.leave(b.left, told);
  }
  if (launch->late) b.commits.push_back(tensor.products.size()), idle = 0;
  else one_arrival(b);
}

const char *simt_run(const simt_launch *l, void **arguments, void (*k)(void **)) {
  launch = l, kernel = k, kernel_arguments = arguments;
  failure.clear();
  spoilt_late.clear(), spoilt_bytes = 0;
  global.keep();
  struct sigaction action {}, old[5];
  const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
  action.sa_sigaction = trapped;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;  // a stack that is full has no room for what a signal does
  static unsigned char room[64 * 1024];
  stack_t mine{}, before;
  mine.ss_sp = room, mine.ss_size = sizeof room;
  sigaltstack(&mine, &before);
  for (int i = 0; i < 5; ++i) sigaction(signals[i], &action, &old[i]);
  simt_grid = {l->grid[0], l->grid[1], l->grid[2]};
  run_grid(false);
  for (size_t known = 0; failure.empty() && spoilt_bytes > known;) {
    known = spoilt_bytes;
    run_grid(true);
  }
  for (int i = 0; i < 5; ++i) sigaction(signals[i], &old[i], nullptr);
  sigaltstack(&before, nullptr);
  order = {}, spoilt_late.clear();  // many libraries with a model of their own may be loaded
  munmap(stacks, stack_count * STACK), stacks = nullptr, stack_count = 0;
  return failure.empty() ? nullptr : failure.c_str();
}

// An array whose end (up to 16 bytes of alignment) lies at a page that may not be touched
// (constant: no launch writes it)
extern "C" void *simt_allocate(size_t bytes, int constant) {
  const size_t page = sysconf(_SC_PAGESIZE), used = (bytes + 15) / 16 * 16, whole = (used + page - 1) / page * page;
  auto *p = static_cast<unsigned char *>(mmap(nullptr, whole + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(p + page, whole, PROT_READ | PROT_WRITE);
  extents.allotted(p + page, whole, constant);
  return p + page + whole - used;
}
extern "C" void simt_release(void *p, size_t bytes) {
  const size_t page = sysconf(_SC_PAGESIZE), used = (bytes + 15) / 16 * 16, whole = (used + page - 1) / page * page;
  unsigned char *const first = static_cast<unsigned char *>(p) + used - whole;
  extents.released(first);
  munmap(first - page, whole + 2 * page);
}
// Which tensors launches are given from now on; which arrays they write, `empty`: and nobody before. None
extern "C" void simt_give(void *p, size_t bytes, const char *name) { extents.argument(static_cast<unsigned char *>(p), bytes, name); }
extern "C" void simt_follow(void *p, size_t bytes, int empty) { global.follow(static_cast<unsigned char *>(p), bytes, empty); }
extern "C" void simt_forget() { global.forget(), extents.forget(); }
// Of numbered statements the one to be left out; counting what so many do from now on; and what they did
extern "C" void simt_drop(int number) { counted.left_out = number; }
extern "C" void simt_count(int statements) { counted.begin(statements); }
extern "C" void simt_counted(int number, long *runs, long *orders) { *runs = counted.of(number).runs, *orders = counted.of(number).orders; }
