"""Loops of a program in the printed plan: the addresses of what steps hand on, and the C that runs a body once a step.

    case 3:  for (n = 0; n < 512; n++) for (i = 3; i < 5; i++) ac_call(i, n, ..);  copies

A range of calls that holds only a part of a loop runs that part's calls once, as step 0: so kernels are timed one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from autocomp.ir.kernel import Call, KernelGraph, Loop, Place
from autocomp.ir.types import BOOL, Dim, Sym, TensorType
from autocomp.runtime.plan import Slots

TRUTH = TensorType(BOOL, ())


def symbols(g: KernelGraph) -> set[str]:
    """Sizes that the loops ask for."""
    dims: list[Dim] = [x.trips for x in g.loops.values()]
    for x in g.loops.values():
        dims += [d for t in (*x.places, *(e.to for e in x.ends)) for d in g.tensors[t].shape]
    return {d.name for d in dims if isinstance(d, Sym)}


def address(g: KernelGraph, s: Slots, names: Sequence[str], c: Call, tensor: str, step: str = "s") -> str:
    """Where a call's tensor lies at a step, in C over the table `t` and the sizes `z`."""
    place = g.places(c).get(tensor)
    return f"t[{s.index[tensor]}]" if place is None else _of(g, s, names, place, g.tensors[tensor], step)


def _of(g: KernelGraph, s: Slots, names: Sequence[str], place: Place, t: TensorType, step: str) -> str:
    at = [s.index[m] for m in place.memory]
    now = f"({step} - 1)" if place.before else step
    here = f"(void *)((char *)t[{at[0]}] + {now} * {_bytes(t, names)})" if len(at) == 1 else f"t[{now} & 1 ? {at[1]} : {at[0]}]"
    return f"({step} ? {here} : t[{s.index[place.before]}])" if place.before else here


def _bytes(t: TensorType, names: Sequence[str]) -> str:
    number, factors = t.dtype.bytes, []
    for d in t.shape:
        if isinstance(d, int):
            number *= d
        else:
            factors.append(f"z[{names.index(d.name)}]")
    return " * ".join([f"{number}L", *factors])


def functions(g: KernelGraph, s: Slots, names: Sequence[str], calls: Sequence[str]) -> list[str]:
    """`ac_call`, one call at a step, and of each loop what its end copies."""
    lines = ["",
             "/* Call i at step s of its loop; bytes that its threads lack. */",
             "static long ac_call(int i, long s, void *const *t, const long *z, void *scratch) {",
             "  long lacks = 0;",
             "  (void)s; (void)z; (void)scratch;", "  switch (i) {", *calls, "  default: break;", "  }",
             "  return lacks;", "}"]  # fmt: skip
    for name, (_, last) in g.spans.items():
        x = g.loops[name]
        if x.ends:
            lines += [f"static void ac_end_{last}(long n, void *const *t, const long *z) {{", "  (void)n; (void)z;",
                      *_ends(g, s, names, x), "}"]  # fmt: skip
    return lines


def _ends(g: KernelGraph, s: Slots, names: Sequence[str], x: Loop) -> list[str]:
    lines = []
    for e in x.ends:
        size = _bytes(g.tensors[e.to], names)
        if not e.first:
            source = f"t[{s.index[e.of]}]"
        else:
            source = f"(n ? {_of(g, s, names, x.places[e.of], g.tensors[e.of], '(n - 1)')} : t[{s.index[e.first]}])"
        lines.append(f"  memcpy(t[{s.index[e.to]}], {source}, {size});")
    return lines


def cases(g: KernelGraph, s: Slots, names: Sequence[str]) -> list[str]:
    """Of `ac_run`: loops that lie in its range as a whole. A condition is read where the step before left it."""
    lines = []
    for name, (first, last) in g.spans.items():
        x = g.loops[name]
        trips = f"z[{names.index(x.trips.name)}]" if isinstance(x.trips, Sym) else f"{x.trips}L"
        goes_on = f" && *(const unsigned char *){_of(g, s, names, x.condition, TRUTH, 'n')}" if x.condition else ""
        lines += [f"  case {first}:", f"    if (last < {last}) {{ lacks = ac_call(i, 0, t, z, scratch); break; }}",
                  f"    for (n = 0; n < {trips} && !lacks{goes_on}; n++)",
                  f"      for (i = {first}; i < {last} && !lacks; i++) lacks = ac_call(i, n, t, z, scratch);"]  # fmt: skip
        lines += [f"    if (!lacks) ac_end_{last}(n, t, z);"] if x.ends else []
        lines += [f"    i = lacks ? i - 1 : {last - 1};", "    break;"]
    return lines
