"""What the machine model of GPUs says of small kernels that lack an order, and that it says nothing where they have it: engines and the
fences in front of them, global memory within a block, between blocks and between launches."""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest

from autocomp.simulate.compiler import compile_all
from autocomp.simulate.simt_model import COMPILER, MODEL, OWN, launch, load

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")

# Copies of threads into shared memory that a product of the warpgroup reads, rows of 128 bytes
PRODUCT = """
AC_TEAM_SHARED(ac_product, 8, f16, f16, float, 0, 0)
extern "C" __global__ void k(const f16 *in0, float *out0) {
  float d[4];
  for (int i = threadIdx.x; i < 576; i += 128) ac_copy<16>(smem + 16 * i, in0 + 8 * i, true);
  ac_commit();
  %s
  ac_sync();
  ac_team_fence();
  ac_product(0, d, ac_descriptor(smem, 1, 1024), ac_descriptor(smem + 8192, 1, 1024));
  ac_team_commit();
  ac_team_wait<0>();
  out0[threadIdx.x] = d[0];
}
"""
# Threads and the bulk engine write the same place one after the other
REWRITTEN = """
extern "C" __global__ void k(const f16 *in0, float *out0) {
  unsigned char *const b = smem + 2048;
  if (threadIdx.x == 0) {
    ac_barrier_init(b, 1);
    ac_barrier_fence();
  }
  reinterpret_cast<float *>(smem)[threadIdx.x] = 1.0f;
  %s
  ac_sync();
  if (threadIdx.x == 0) {
    ac_barrier_expect(b, 512);
    ac_bulk_run(smem, in0, 512, b);
  }
  ac_barrier_wait(b, 0);
  out0[threadIdx.x] = reinterpret_cast<float *>(smem)[threadIdx.x];
}
"""
# A place that threads wrote is sent to, which is no work of the bulk engine
SENT = """
extern "C" __global__ void k(const f16 *in0, float *out0) {
  unsigned char *const b = smem + 2048;
  if (threadIdx.x == 0) {
    ac_barrier_init(b, 1);
    ac_barrier_fence();
  }
  reinterpret_cast<float *>(smem)[threadIdx.x] = 1.0f;
  %s
  if (threadIdx.x == 0) {
    const float x[4] = {};
    ac_barrier_expect(b, 16);
    ac_send(smem, 0, x, b);
  }
  ac_barrier_wait(b, 0);
  out0[threadIdx.x] = *reinterpret_cast<float *>(smem);
}
"""
# Threads read what others of the block left in global memory
WITHIN = """
extern "C" __global__ void k(const f16 *in0, float *out0) {
  float *const own = out0 + 128 * blockIdx.x;
  own[threadIdx.x] = threadIdx.x;
  %s
  const float x = own[threadIdx.x ^ %s];
  ac_sync();
  own[threadIdx.x] = x;
}
"""
# A block reads what the ones before it left; the last one waits for a flag of the second, which has waited for one of the first
BETWEEN = """
extern "C" __global__ void k(const f16 *in0, float *out0) {
  unsigned *const flag = reinterpret_cast<unsigned *>(out0 + 1024);
  if (blockIdx.x == 0) {
    out0[threadIdx.x] = 1.0f;
    ac_sync();
    if (threadIdx.x == 0) ac_flag_set(flag);
  }
  if (blockIdx.x == 1) {
    %s
    ac_sync();
    out0[128 + threadIdx.x] = 2.0f;
    ac_sync();
    if (threadIdx.x == 0) ac_flag_set(flag + 1);
  }
  if (blockIdx.x == 2) {
    %s
    %s
    out0[256 + threadIdx.x] = out0[127 - threadIdx.x] + out0[255 - threadIdx.x];
  }
}
"""
TAKE = "if (threadIdx.x == 0) ac_flag_take(flag%s);"
# All blocks write the same place
TWICE = """
extern "C" __global__ void k(const f16 *in0, float *out0) { out0[threadIdx.x] = %s; }
"""
UNWRITTEN = """
extern "C" __global__ void k(const f16 *in0, float *out0) { out0[threadIdx.x] = out0[threadIdx.x + 128]; }
"""
# One thread waits for the launches before
OVERLAPPING = """
extern "C" __global__ void k(const f16 *in0, float *out0) {
  if (threadIdx.x == 0) ac_launch_wait();
  %s
  out0[threadIdx.x] = 1.0f;
}
"""
# A thread's copy into a place that a bulk store reads; then what the store wrote is read
STORED = """
extern "C" __global__ void k(const f16 *in0, float *out0) {
  ac_tensor_map m{};
  m.data = reinterpret_cast<unsigned char *>(out0), m.rank = 2, m.size = 4;
  m.dims[0] = m.box[0] = 32, m.dims[1] = m.box[1] = 4, m.strides[0] = 4, m.strides[1] = 128, m.steps[0] = m.steps[1] = 1;
  if (threadIdx.x < 32) ac_copy<16>(smem + 16 * threadIdx.x, in0 + 8 * threadIdx.x, true);
  ac_commit();
  %s
  ac_sync();
  if (threadIdx.x == 0) {
    ac_bulk_store(&m, smem, 0, 0);
    %s
    out0[200] = out0[3];
  }
  ac_sync();
}
"""
ALONE, OVERLAPS = {"grid": (1, 1, 1)}, {"overlaps": True}
UNFENCED = "what threads wrote into shared memory is read in bulk without a fence between: byte 0, by a copy of thread 0"
CASES = {
    "a copy that is fenced when it has ended": (PRODUCT % "ac_wait<0>();\n  ac_async_fence();", {}, ""),
    "a copy that is not fenced": (PRODUCT % "ac_wait<0>();", {}, UNFENCED),
    "a copy that is fenced while it is under way": (PRODUCT % "ac_async_fence();\n  ac_wait<0>();", {}, UNFENCED),
    "a bulk store of copies that are fenced": (STORED % ("ac_wait<0>();\n  ac_async_fence();", "ac_bulk_drain();"), ALONE, ""),
    "a bulk store of copies that are not fenced": (STORED % ("ac_wait<0>();", "ac_bulk_drain();"), {}, UNFENCED),
    "a bulk store that has only read": (STORED % ("ac_wait<0>();\n  ac_async_fence();", "ac_bulk_wait<0>();"), {},
                                        "global memory: byte 12 was written by a bulk store of thread 0 and is read by thread 0"),
    "a bulk copy over what is fenced": (REWRITTEN % "ac_async_fence();", {}, ""),
    "a bulk copy over what is not fenced": (REWRITTEN % "", {}, "shared memory is overwritten in bulk without a fence between: byte 0"),
    "what is sent over what is not fenced": (SENT % "ac_sync();", {}, ""),
    "threads behind a barrier": (WITHIN % ("ac_sync();", 64), {}, ""),
    "a thread that reads its own": (WITHIN % ("", 0), {}, ""),
    "threads that read before the others write": (WITHIN % ("", 64), {}, "global memory is read that nobody has written"),
    "threads that read what others write later": (WITHIN % ("", 64), {"empty": False}, r"was read by thread \d+ and is written by thread"),
    "blocks behind flags": (BETWEEN % (TAKE % "", TAKE % " + 1", "ac_sync();"), {}, ""),
    "blocks without a flag": (BETWEEN % ("", "", "ac_sync();"), {}, "written by block 0 and is read by block 2, and no flag orders them"),
    "blocks behind one of two flags": (BETWEEN % ("", TAKE % " + 1", "ac_sync();"), {}, "written by block 0 and is read by block 2"),
    "threads that do not wait for the one that took the flag": (BETWEEN % (TAKE % "", TAKE % " + 1", ""), {}, "no flag orders them"),
    "blocks that write the same twice": (TWICE % "1.0f", {}, ""),
    "blocks that write not the same": (TWICE % "blockIdx.x", {}, "written by block . and is written by block ., and no flag orders them"),
    "what nobody has written": (UNWRITTEN, {}, "global memory is read that nobody has written: byte"),
    "threads behind the one that waits for earlier launches": (OVERLAPPING % "ac_sync();", OVERLAPS, ""),
    "threads beside the one that waits for earlier launches": (OVERLAPPING % "", OVERLAPS, "before earlier launches are waited for"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_lacks_an_order_is_named(name, model, tmp_path):
    text, how, said = CASES[name]
    how = {"grid": (3, 1, 1), "ordered": "flag" in text, **how}
    empty = how.pop("empty", True)
    library = load({"k": f"{text}\nSIMT_KERNEL(k)\n"}, "cuda", tmp_path, model)
    image, result = np.zeros(8192, "f2"), np.zeros(2048, "f4")
    arguments = [ctypes.c_void_p(x.ctypes.data) for x in (image, result)]
    found = []
    for late in (True, False):
        result[...] = 0
        found.append(launch(library, "k", arguments, [(result.ctypes.data, result.nbytes, empty)], block=128, wave=32,
                            shared=16384, late=late, **how))  # fmt: skip
    assert not any(found) if not said else all(re.search(said, x) for x in found), found


# Drawn accesses of 1 to 48 bytes by four threads and an engine, who meet now and then: as a whole, and the same byte by byte
RUNS = """
#include <cstdio>
#include <random>
#include <set>
#include <tuple>
#include "happens_before.h"
using namespace simt;
typedef std::set<std::tuple<size_t, int, unsigned, bool>> Past;
Past past(const Order &o) {
  Past all;
  o.each_touched([&](size_t at, uint16_t agent, Time time, bool wrote) { all.insert({at, agent, time, wrote}); });
  return all;
}
int main() {
  static unsigned char memory[128];
  int errors = 0, doubts = 0, goes = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 draw(seed);
    const size_t base = seed % 2 ? Order::GLOBAL : 0;
    Order runs, bytes;
    uint16_t engine = 0;
    for (Order *o : {&runs, &bytes}) {
      o->start(4, sizeof memory, memory), o->reserve(sizeof memory);
      engine = o->agent(seed % 3 ? 'c' : 'p', 0);
    }
    for (int step = 0; step < 60; ++step) {
      const int thread = draw() % 4;
      if (draw() % 2) {
        const bool all = draw() % 4;
        for (Order *o : {&runs, &bytes}) {
          Order::Gather met;
          for (int t = 0; t < 4; ++t) if (all || t == thread) o->leave(met, o->views[t]);
          met.at_least(engine, o->count(engine));
          const Known k = o->taken(met);
          for (int t = 0; t < 4; ++t) if (all || t == thread) o->learn(o->views[t], k), o->views[t].fenced = o->views[t].now++;
        }
        continue;
      }
      const size_t lengths[] = {1, 2, 4, 8, 16, 32, 48}, n = lengths[draw() % 7], at = draw() % ((sizeof memory - n) / n + 1) * n;
      const bool write = draw() % 3 == 0, by_engine = draw() % 5 == 0;
      std::string said[2];
      for (Order *o : {&runs, &bytes}) {
        const View &v = o->views[thread];
        const uint16_t agent = by_engine ? engine : v.self;
        const Time now = by_engine ? o->next(engine) : v.now;
        std::string &out = said[o == &bytes];
        const size_t length = o == &runs ? n : 1;
        for (size_t i = at; i < at + n && out.empty(); i += length)
          out = o->access(v, agent, now, base + i, length, write, base ? memory + i : nullptr);
      }
      const auto same = [](const auto &x, const auto &y) { return x.agent == y.agent && x.time == y.time && x.at == y.at; };
      if (said[0] != said[1] || runs.doubtful() != bytes.doubtful() ||
          !std::equal(runs.spoilt.begin(), runs.spoilt.end(), bytes.spoilt.begin(), bytes.spoilt.end(), same))
        return printf("seed %u step %d: '%s' and '%s'\\n", seed, step, said[0].c_str(), said[1].c_str()), 1;
      for (size_t i = 0; i < sizeof memory; ++i)
        for (int t = 0; t < 4; ++t)
          if (runs.seen(runs.views[t], i) != bytes.seen(bytes.views[t], i)) return printf("seed %u step %d: seen %zu\\n", seed, step, i), 1;
      doubts += runs.doubtful(), runs.settled(), bytes.settled(), runs.spoilt.clear(), bytes.spoilt.clear();
      if (!said[0].empty()) { ++errors; break; }
      ++goes;
    }
    if (past(runs) != past(bytes)) return printf("seed %u: other pasts\\n", seed), 1;
  }
  printf("%d %d %d\\n", goes, errors, doubts);
}
"""


def test_runs_of_bytes_are_judged_as_each_byte_would_be(tmp_path):
    """The model keeps one past for bytes that have the same; accesses one byte long never let it."""
    (tmp_path / "runs.cpp").write_text(RUNS)
    compile_all([[*OWN, "-O0", f"-I{MODEL}", str(tmp_path / "runs.cpp"), "-o", str(tmp_path / "runs")]], [tmp_path / "runs"], tmp_path)
    done = subprocess.run([tmp_path / "runs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    goes, errors, doubts = map(int, done.stdout.split())
    assert goes > 1500 and errors > 100 and doubts > 20, done.stdout
