"""Printed C under ThreadSanitizer: calls from several threads at a time write nothing that they share.

The program is built with a main of its own, which Python could not load. Each call has one thread, since OpenMP's own library is not built
for the sanitizer, which would report its barriers as races. Constants, packed constants and inputs are shared by all callers, intermediates
and outputs are a caller's own, as `runtime/frames.py` gives them; with one arena for all, races are reported.
"""

from __future__ import annotations

import subprocess
from dataclasses import replace
from importlib.resources import files

import pytest

from autocomp.errors import BuildError
from autocomp.frontends.text import parse
from autocomp.runtime.library import packings, symbols_of
from autocomp.runtime.plan import size_of, slots
from examples.models import bert
from tests.helpers.c_driver import PLAIN, for_machine
from tests.run.test_shared_loops import MAIN as MAIN_OF_LOOPS

OPEN = """graph g
dim n in 1..64
input x: f32[n, 24]
param w: f32[24, 24] = random(0)
%0 = matmul(x, w)
%1 = softmax(%0, axes=[1])
%2 = cumsum(%1, axis=0)
%3 = matmul(%2, w)
%4 = reduce_max(%3, axes=[0], keepdims=True)
%5 = sub(%3, %4)
output y = %5
"""
RECURRENCE = """graph g
input x: f32[40, 32]
%0 = cumsum(x, axis=0)
%1 = exp(%0)
%2 = cumprod(%1, axis=1)
%3 = reduce_sum(%2, axes=[0])
output y = %3
output z = %1
"""
MAIN = """
#include <pthread.h>
#include <stdlib.h>
int ac_run(void *const *t, const long *z, void *scratch, int first, int last, int threads, long *said);
{declared}
enum {{ SLOTS = {slots}, CALLERS = 3, TIMES = 10 }};
static const size_t bytes[] = {{{sizes}, 0}};
static const int own[] = {{{own}, 0}};
static const long z[] = {{{z}, 0}};
static void *all[SLOTS + 1];
static void *memory(size_t n) {{ return calloc(1, n + 1); }}
static void *caller(void *unused) {{
  void *t[SLOTS + 1], *scratch = memory({scratch});
  long said[4];
  for (int i = 0; i < SLOTS; i++) t[i] = own[i] ? memory(bytes[i]) : all[i];
  for (int i = 0; i < TIMES; i++) if (ac_run(t, z, scratch, 0, {calls}, 1, said)) exit(9);
  return unused;
}}
int main(void) {{
  pthread_t callers[CALLERS];
  for (int i = 0; i < SLOTS; i++) all[i] = memory(bytes[i]);
  for (int i = 0; i < {packs}; i++) {{ {pack} }}
  for (int i = 0; i < CALLERS; i++) if (pthread_create(&callers[i], 0, caller, 0)) return 8;
  for (int i = 0; i < CALLERS; i++) pthread_join(callers[i], 0);
  return 0;
}}
"""


def toolchain():
    return replace(PLAIN.toolchain, more=("-O1", "-g", "-fsanitize=thread", "-fno-omit-frame-pointer"))


@pytest.fixture(scope="module")
def races(tmp_path_factory):
    """What the sanitizer says of a program's main. Skips where the compiler or the system has no ThreadSanitizer."""
    if PLAIN.missing():
        pytest.skip(PLAIN.missing())

    def run(files: dict[str, str]) -> str:
        folder = tmp_path_factory.mktemp("tsan")
        for name, text in files.items():
            (folder / name).write_text(text)
        toolchain().compile(folder, sorted(n for n in files if n.endswith(".c")), folder / "program", program=True)
        done = subprocess.run([folder / "program"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode in (0, 66), f"exit status {done.returncode}: {done.stderr[-2000:]}"  # 66: it has reported something
        return done.stderr

    racy = ("#include <pthread.h>\nint n;\nvoid *more(void *x) { n++; return x; }\n"
            "int main(void) { pthread_t a; pthread_create(&a, 0, more, 0); more(0); pthread_join(a, 0); return 0; }\n")  # fmt: skip
    try:
        works = "data race" in run({"main.c": racy})
    except BuildError:
        pytest.skip("the C compiler has no ThreadSanitizer: `apt-get install libtsan2` (gcc 12)")
    except AssertionError as e:
        pytest.skip(f"ThreadSanitizer does not run on this system: {str(e)[:200]}")
    assert works
    return run


def main_of(program, n: int, one_arena: bool) -> str:
    places = slots(program.calls)
    packed = packings(program.calls, places, program.printed)
    values = {s: n for s in symbols_of(program.printed, program.calls)}
    sizes = {i: size_of(program.calls.tensors[t], values) for t, i in places.index.items()} | {x.slot: x.bytes for x in packed}
    written = {places.index[c.args[o.name]] for c in program.calls.calls for o in c.kernel.outputs}
    if one_arena:
        written -= {places.index[t] for t in places.temporary}
    scratch = max((s.scratch for s in program.printed.values()), default=0)
    listed = lambda of: ", ".join(str(of(i)) for i in range(len(sizes)))
    return MAIN.format(
        slots=len(sizes), sizes=listed(sizes.__getitem__), own=listed(lambda i: int(i in written)),
        z=", ".join(str(values[s]) for s in symbols_of(program.printed, program.calls)) or "0", calls=len(program.calls.calls),
        packs=len(packed),
        pack="ac_pack(i, all);" if packed else "", declared="void ac_pack(int i, void *const *t);" if packed else "", scratch=scratch,
    )  # fmt: skip


@pytest.mark.parametrize("one_arena", [False, True], ids=["an arena a call", "one arena"])
@pytest.mark.parametrize("graph", [lambda: parse(OPEN), lambda: parse(RECURRENCE), lambda: bert(1, seq=8, hidden=32, heads=2, inner=40)],
                         ids=["open size", "recurrences", "bert"])  # fmt: skip
def test_calls_of_several_threads_share_nothing_that_is_written(races, graph, one_arena):
    program = for_machine(graph(), PLAIN, threads=1)
    assert not any(c.kernel.opaque for c in program.calls.calls)
    assert program.slots.temporary
    said = races({**program.sources, "main.c": main_of(program, 13, one_arena)})
    assert ("data race" in said) == one_arena, said[:3000]


def test_helpers_of_a_shared_loop_race_with_nobody(races):
    """Threads of ours in place of OpenMP's. They race where who calls does not wait for tiles that have been begun."""
    header = files("autocomp.targets.cpu").joinpath("include", "autocomp_cpu_share.h").read_text()
    waits = "for (long waited = 0; __atomic_load_n(&t->inside, __ATOMIC_SEQ_CST);) ac_pause(&waited);"
    main = MAIN_OF_LOOPS.replace("atoi(argv[1])", "4").replace("atoi(argv[2])", "3")
    main = main.replace("LOOPS = 3000, SLOW = 0", "LOOPS = 10, SLOW = 1")
    written = lambda text: main.replace('#include "autocomp_cpu_share.h"', text)
    assert waits in header
    assert "data race" not in races({"main.c": written(header)})
    assert "data race" in races({"main.c": written(header.replace(waits, ""))})
