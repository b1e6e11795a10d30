// Which accesses of global memory are ordered, byte by byte, of the arrays that a launch writes (and of no others: what is only read is never
// in conflict). Within a block (or cluster) by what threads know of each other, as in shared memory; blocks of a launch by flags alone, which
// one sets by a release and another takes by an acquire; launches by waiting for those before.
#pragma once
#include <map>

#include "happens_before.h"

namespace simt {
class Global {
 public:
  explicit Global(Order &order) : order(order) {}

  // An array that launches write from now on. `empty`: nobody has written it before, so that only what the launch writes may be read.
  void follow(unsigned char *at, size_t bytes, bool empty) {
    if (!bytes || bytes > MOST) return;
    arrays.push_back({at, bytes, empty, Order::GLOBAL + size, {}});
    size += (bytes + Order::PAGE - 1) / Order::PAGE * Order::PAGE;
  }
  void forget() { arrays.clear(), size = 0; }
  bool follows(const void *p) const { return array(p) != nullptr; }
  void keep() { for (Array &a : arrays) a.before.assign(a.at, a.at + a.bytes); }
  // Before a launch, or before it is run again
  void launch_begins(bool again) {
    if (again) for (Array &a : arrays) std::copy(a.before.begin(), a.before.end(), a.at);
    writes.clear(), writes.resize(size / Order::PAGE), reads.clear(), released.clear();
    order.reserve(size);
  }
  void block_begins(long number) { block = number, acquired.clear(), doubts.clear(); }
  // What the block wrote over what others had written is right where it is the same
  std::string block_ends() {
    for (const Doubt &d : doubts)
      if (*d.at != d.was) return d.what;
    order.each_touched([&](size_t at, uint16_t agent, Time time, bool wrote) {
      if (!wrote) return reads[at].push_back({block, agent, time, {}});
      auto &page = writes[(at - Order::GLOBAL) / Order::PAGE];
      if (!page) page.reset(new Past[Order::PAGE]);
      page[at % Order::PAGE] = {block, agent, time, order.bulk(agent)};
    });
    return {};
  }

  // The same as Order::access for what is followed, by addresses
  std::string access(const View &v, uint16_t a, Time t, const void *p, size_t bytes, bool write) {
    const Array *in = array(p);
    if (!in) return {};
    const auto *place = static_cast<const unsigned char *>(p);
    const size_t at = in->first + (place - in->at);
    for (size_t i = at; i < at + bytes && place + (i - at) < in->at + in->bytes; ++i) {
      const auto &page = writes[(i - Order::GLOBAL) / Order::PAGE];
      if (!page && (write ? reads.empty() : !in->empty)) {  // no other block did anything to this page
        i |= Order::PAGE - 1;
        continue;
      }
      if (order.writer(i) != NOBODY) continue;  // what was before is behind that write
      const Past *const w = page && page[i % Order::PAGE].block >= 0 ? &page[i % Order::PAGE] : nullptr;
      if (!w && !write && in->empty) return "global memory is read that nobody has written: " + byte(i);
      if (w && !behind(v, *w)) {
        if (!write) return said(i, "written", w->block, "read");
        doubts.push_back({place + (i - at), place[i - at], said(i, "written", w->block, "written")});
      } else if (w && !write && order.bulk(a) && !w->bulk) {
        return "what threads wrote into global memory is read in bulk without a fence between: " + byte(i);
      }
      const auto r = write ? reads.find(i) : reads.end();
      if (r == reads.end()) continue;
      for (const Past &x : r->second)
        if (!behind(v, x)) return said(i, "read", x.block, "written");
    }
    return order.access(v, a, t, at, bytes, write, place);
  }

  // A release has behind it what its thread knows, of other blocks too
  void set(const unsigned *flag, View &v) {
    Order::Gather known;
    order.leave(known, v);
    auto &out = released[flag] = {{block, known.of}};
    for (const Acquired &a : acquired)
      if (Order::knows(v, a.agent, 1)) out.push_back(a.what);
  }
  void take(const unsigned *flag, View &v) {
    const uint16_t agent = order.agent('r', 0);
    for (const Released &r : released[flag]) acquired.push_back({agent, r});
    order.learn(v, order.only(agent, order.next(agent)));
  }

 private:
  static constexpr size_t MOST = 64 << 20;  // of larger arrays nothing is followed
  struct Array { unsigned char *at; size_t bytes; bool empty; size_t first; std::vector<unsigned char> before; };
  struct Past { long block = -1; uint16_t agent = NOBODY; Time time = 0; bool bulk = false; };
  struct Released { long block; std::vector<Time> of; };
  struct Acquired { uint16_t agent; Released what; };  // each under an agent of its own, which barriers pass on like any other
  struct Doubt { const unsigned char *at; unsigned char was; std::string what; };

  const Array *array(const void *p) const {
    for (const Array &a : arrays)
      if (p >= a.at && p < a.at + a.bytes) return &a;
    return nullptr;
  }
  bool behind(const View &v, const Past &x) const {
    for (const Acquired &a : acquired)
      if (a.what.block == x.block && x.agent < a.what.of.size() && a.what.of[x.agent] >= x.time && Order::knows(v, a.agent, 1)) return true;
    return false;
  }
  static std::string byte(size_t at) { return "byte " + std::to_string(at - Order::GLOBAL); }
  std::string said(size_t at, const char *was, long by, const char *is) const {
    return "unordered accesses of global memory: " + byte(at) + " was " + was + " by block " + std::to_string(by) + " and is " + is + " by block " +
           std::to_string(block) + ", and no flag orders them";
  }

  Order &order;
  std::vector<Array> arrays;
  size_t size = 0;
  long block = 0;
  std::vector<std::unique_ptr<Past[]>> writes;  // of earlier blocks, by page
  std::unordered_map<size_t, std::vector<Past>> reads;
  std::map<const unsigned *, std::vector<Released>> released;
  std::vector<Acquired> acquired;
  std::vector<Doubt> doubts;
};
}  // namespace simt
