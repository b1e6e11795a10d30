// What the numbered statements of a kernel do (benchmarks/fuzz/dropped_barriers.py numbers waits, barriers, arrivals and fences): how often
// threads come to each, and how often it orders what was not in order already. One of them may be left out.
#pragma once
#include <set>
#include <vector>

namespace simt {
typedef std::set<int> Statements;

class Counted {
 public:
  struct Effect { long runs, orders; };
  int left_out = -1;

  void begin(int statements) { effects.assign(statements, {}); }
  bool on() const { return !effects.empty(); }
  const Effect &of(int statement) const { return effects[statement]; }
  void comes(int statement) { if (counts(statement)) ++effects[statement].runs; }
  void orders(int statement) { if (counts(statement)) ++effects[statement].orders; }
  void orders(const Statements &all) { for (int s : all) orders(s); }

 private:
  bool counts(int statement) const { return statement >= 0 && statement < int(effects.size()); }
  std::vector<Effect> effects;
};
}  // namespace simt
