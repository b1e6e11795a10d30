"""The printed plan and the loaded library: one C entry that runs a range of calls over a table of pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread

from autocomp.cost.host import usable_cores
from autocomp.errors import AutocompError, ModelError
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.types import DTYPES
from autocomp.runtime import steps
from autocomp.runtime.frames import Frame
from autocomp.runtime.plan import Slots
from autocomp.targets.source import KernelSource

CTYPE = {name: f"{'' if d.kind == 'i' else 'u'}int{8 * d.bytes}_t" for name, d in DTYPES.items()} | {"f64": "double", "f32": "float"}
THREADS = "autocomp_cpu_threads.h"
STEPS = """
/* Calls *first .. stop-1 of a range that ends at last; *first is then the one behind the last that ran. */
static long ac_steps(int *first, int stop, int last, void *const *t, const long *z, void *scratch) {
  (void)last; (void)z; (void)scratch;
  long lacks = 0;
  int i = *first;
  for (; i < stop && !lacks; i++) """
RUN = """  default: break;
  }
  *first = i;
  return lacks;
}
/* Run calls first .. last-1; t: pointers of tensors, z: values of size parameters, scratch: for recurrences, threads: of a team, 0 for
 * as many as OpenMP has for the caller. Safe from any thread where no two calls share t, scratch or the memory of what is written.
 * said: threads that were asked for, that ran, bytes of the smallest stack and those that kernels may need.
 * AC_FEWER: all ran, on fewer threads than asked for; AC_NO_STACK: nothing ran; AC_NO_MEMORY: call said[1] had not the said[0] bytes of
 * each of its said[2] threads, AC_OUTSIDE: an index of call said[1] lies outside of what it writes to; the results are none. */
int ac_run(void *const *t, const long *z, void *scratch, int first, int last, int threads, long *said) {
  const int before = omp_get_max_threads();
  const long room = ac_stack_left();
  if (room < AC_STACK) {
    said[2] = room;
    said[3] = AC_STACK;
    return AC_NO_STACK;
  }
  if (threads < 1) threads = before;
  const int team = ac_team_of(threads);
  omp_set_num_threads(team);
  long lacks = 0;
  int i = first;
  while (i < last && !lacks) {
    const int until = ac_until[i] < last ? ac_until[i] : last;
    if (team < 2 || until <= i) {
      lacks = ac_steps(&i, team < 2 ? last : i + 1, last, t, z, scratch);
      continue;
    }
    ac_team helpers;
    ac_begin(&helpers, team);
#pragma omp parallel num_threads(team)
    if (omp_get_thread_num()) ac_help(&helpers, omp_get_thread_num());
    else {
      ac_mine = &helpers;
      lacks = ac_steps(&i, until, last, t, z, scratch);
      ac_mine = 0;
      ac_end(&helpers);
    }
  }
  omp_set_num_threads(before);
  if (lacks) {
    said[0] = lacks;
    said[1] = i - 1;
    said[2] = team;
    return lacks < 0 ? AC_OUTSIDE : AC_NO_MEMORY;
  }
  if (team == threads) return AC_DONE;
  said[0] = threads;
  said[1] = team;
  said[2] = ac_smallest;
  said[3] = AC_STACK;
  return AC_FEWER;
}
/* The same of what lies in memory: t, z, scratch, said, first, last, threads. */
int ac_frame(const intptr_t *f) {
  return ac_run((void *)f[0], (void *)f[1], (void *)f[2], (int)f[4], (int)f[5], (int)f[6], (void *)f[3]);
}
"""
FEWER, NO_STACK, NO_MEMORY, OUTSIDE = 1, 2, 3, 4  # of `ac_run`
MOST = 64  # AC_MOST


def source_files(g: KernelGraph, s: Slots, sources: Mapping[str, KernelSource], preamble, cores: int = 2) -> dict[str, str]:  # type: ignore[no-untyped-def]
    """File name -> text: kernels in about as many files as cores, and plan.c with `ac_run`.

    sources: kernel name -> its source; `preamble(sources)` gives what stands in front of a file of kernels.
    """
    names = sorted(sources)
    parts = max(1, min(cores, len(names)))
    files = {}
    for i in range(parts):
        mine = [sources[n] for n in names[i::parts]]
        files[f"kernels_{i}.c"] = preamble(mine) + "\n" + "\n".join(k.text for k in mine)
    files["plan.c"] = _plan(g, s, sources)
    return files


def _plan(g: KernelGraph, s: Slots, sources: Mapping[str, KernelSource]) -> str:
    lines = ["/* The plan: calls in order over a table of tensors. */", "#define _GNU_SOURCE", f'#include "{THREADS}"', ""]
    for name in sorted(sources):
        k = sources[name]
        kernel = next(c.kernel for c in g.calls if c.kernel.name == name)
        types = {a.name: a.type for a in (*kernel.inputs, *kernel.outputs)}
        args = [f"const {CTYPE[types[a].dtype.name]} *" for a in k.inputs] + [
            f"{CTYPE[types[a].dtype.name]} *" for a in k.outputs
        ]
        args += ["long"] * len(k.sizes) + (["void *"] if k.scratch else [])
        lines.append(f"{'long' if k.heap else 'void'} {k.entry}({', '.join(args)});")
        lines += [f"void {x.entry}(const void *, void *);" for x in k.packings]
    packed = packings(g, s, sources)
    slot = {(x.tensor, x.entry): x.slot for x in packed}
    cases = []
    symbols = symbols_of(sources, g)
    for i, c in enumerate(g.calls):
        if c.kernel.name not in sources:
            continue
        k = sources[c.kernel.name]
        reorder = {x.argument: slot[c.args[x.argument], x.entry] for x in k.packings}
        at = lambda a, c=c, reorder=reorder: f"t[{reorder[a]}]" if a in reorder else steps.address(g, s, symbols, c, c.args[a])
        args = [at(a) for a in (*k.inputs, *k.outputs)] + [f"z[{symbols.index(x)}]" for x in k.sizes]
        args += ["scratch"] if k.scratch else []
        cases.append(f"  case {i}: {'lacks = ' if k.heap else ''}{k.entry}({', '.join(args)}); break;")
    run = STEPS.splitlines()
    lines += ["", "/* Of each call where those end that run while a team's helpers wait for their loops; no later than it: none do. */",
              f"static const int ac_until[] = {{{', '.join(map(str, _until(g, sources)))}}};"]  # fmt: skip
    if g.loops:
        lines += steps.functions(g, s, symbols, cases)
        run[-1] = f"  long n;\n{run[-1]}switch (i) {{"
        rest = "  default: lacks = ac_call(i, 0, t, z, scratch); break;"
        lines += ["", *run, *steps.cases(g, s, symbols), rest, *RUN.splitlines()[1:]]
    else:
        run[-1] += "switch (i) {"
        lines += ["", *run, *cases, *RUN.splitlines()]
    if packed:
        lines += ["/* fill slot number i of the packed constants, once */", "void ac_pack(int i, void *const *t) {", "  switch (i) {"]
        lines += [f"  case {i}: {x.entry}(t[{s.index[x.tensor]}], t[{x.slot}]); break;" for i, x in enumerate(packed)]
        lines += ["  default: break;", "  }", "}", ""]
    return "\n".join(lines)


def _until(g: KernelGraph, sources: Mapping[str, KernelSource]) -> list[int]:
    """Of each call the end of the run of calls in front of which one team is made: from a kernel whose loops threads share to the last such
    one before a kernel that makes a team of its own. 0 where none is."""
    kinds = [sources[c.kernel.name].threads if c.kernel.name in sources else "" for c in g.calls]
    units = [(i, i + 1) for i in range(len(kinds))]
    for a, b in g.spans.values():  # a loop's calls run within one
        units = sorted({*(u for u in units if not a <= u[0] < b), (a, b)})
    until = [i + 1 if kind == "shared" else 0 for i, kind in enumerate(kinds)]
    end = 0
    for a, b in reversed(units):
        inside = set(kinds[a:b])
        if "own" in inside:
            end = until[a] = 0
        elif "shared" in inside:
            end = until[a] = max(end, b)
        else:
            until[a] = 0
    return until or [0]


@dataclass(frozen=True)
class Packed:
    """A constant `tensor` in the order of a kernel: `entry` writes it to the memory of `slot`, `bytes` of it."""

    tensor: str
    entry: str
    slot: int
    bytes: int


def packings(g: KernelGraph, s: Slots, sources: Mapping[str, KernelSource]) -> tuple[Packed, ...]:
    """The packed constants of a program, each once; their slots follow those of the tensors."""
    found: dict[tuple[str, str], int] = {}
    for c in g.calls:
        for x in sources[c.kernel.name].packings if c.kernel.name in sources else ():
            found.setdefault((c.args[x.argument], x.entry), x.bytes)
    return tuple(Packed(t, entry, len(s.index) + i, size) for i, ((t, entry), size) in enumerate(found.items()))


def symbols_of(sources: Mapping[str, KernelSource], g: KernelGraph | None = None) -> tuple[str, ...]:
    """Size parameters in the order of `z`: of the kernels, and of the program's loops."""
    return tuple(sorted({x for k in sources.values() for x in k.sizes} | (steps.symbols(g) if g is not None else set())))


class Outside(ModelError):
    """An index of call number `call` lies outside of the tensor that it writes to."""

    def __init__(self, kernel: str, call: int) -> None:
        super().__init__("an index is outside of the tensor that it writes to", where=f"kernel {kernel}", hint="look at the indices given")
        self.call = call


class Library:
    """The loaded shared library. For any thread. `kernels`: the name of each call's."""

    def __init__(self, path: Path, kernels: Sequence[str]) -> None:
        self.path, self._kernels = path, tuple(kernels)
        self._lib = ctypes.CDLL(str(path))
        self.start = self._lib.ac_frame  # of a frame's `entry`
        self.part = self._lib.ac_run
        self.part.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int] * 3, ctypes.c_void_p]

    def pack(self, number: int, table: ctypes.Array) -> None:
        """Fill the slot of a packed constant (see `packings`)."""
        self._lib.ac_pack(ctypes.c_int(number), table)

    def run(self, frame: Frame, first: int, last: int, threads: int) -> str:
        """Calls first .. last-1, as `ac_run` says. Why fewer threads ran than were asked for, "" where all did.

        Raises AutocompError where the caller's stack is too small: nothing ran; MemoryError where a kernel's threads had no memory;
        Outside.
        """
        status = self.part(frame.table, frame.z, frame.at, first, last, threads, frame.said)
        return self.ended(status, frame) if status else ""

    def ended(self, status: int, frame: Frame) -> str:
        """Of a call whose `start` said something else than 0: as `run`."""
        asked, ran, stack, need = frame.said
        if status == NO_MEMORY:
            team = "1 thread wants" if stack == 1 else f"{stack} threads want"
            raise MemoryError(f"kernel {self._kernels[ran]}: {team} {asked:,} bytes each")
        if status == OUTSIDE:
            raise Outside(self._kernels[ran], ran)
        if status == NO_STACK:
            raise AutocompError(f"the stack has {stack:,} bytes left, kernels may need {need:,}", where=f"thread '{current_thread().name}'",
                                hint="raise `ulimit -s`, or call threading.stack_size(..) before the thread is made")  # fmt: skip
        why = "the system gives no more"
        if stack < need:
            why = f"their stacks have {stack:,} bytes, kernels may need {need:,}"
        elif ran == max(MOST, 4 * usable_cores()):
            why = f"that is enough for {usable_cores()} cores"
        return f"{asked} threads were asked for (threads=, $OMP_NUM_THREADS), {ran} run: {why}"
