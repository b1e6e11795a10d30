"""Where every tensor of a program lies: intermediates share one arena by liveness; and the printed plan that runs the calls."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from autocomp.ir.kernel import Call, KernelGraph
from autocomp.ir.types import Sym, TensorType

ALIGN = 64


@dataclass(frozen=True)
class Slots:
    """`index`: tensor -> position in the pointer table. `temporary`: tensors of the arena, in order of first write."""

    index: Mapping[str, int]
    temporary: tuple[str, ...]
    last_use: Mapping[str, int]
    first_use: Mapping[str, int]
    views: Mapping[str, str] = field(default_factory=dict)  # tensors that may lie where another does, which lives as long as they do


def slots(g: KernelGraph) -> Slots:
    """Positions and lifetimes (call numbers) of a graph's tensors."""
    index: dict[str, int] = {}
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for name in (*g.inputs, *g.params, *sorted(g.constants)):
        index.setdefault(name, len(index))
    for i, c in enumerate(g.calls):
        places = g.places(c)
        for actual in c.args.values():
            if actual not in places:
                index.setdefault(actual, len(index))
                first.setdefault(actual, i)
                last[actual] = i
    inner = {name: _made_within(g, *span) for name, span in g.spans.items()}
    for name, (a, b) in g.spans.items():  # what steps share with each other or with the rest lives as long as the loop
        read = {t for c in g.calls[a:b] for t in c.args.values()} - inner[name] - g.loops[name].places.keys()
        for t in sorted(read | g.loops[name].touched):
            index.setdefault(t, len(index))
            first[t] = min(a, first.get(t, a))
            last[t] = max(b - 1, last.get(t, b - 1))
    kept = {*g.inputs, *g.params, *g.constants, *(t for _, t in g.outputs)}
    same = views(g)
    for t, of in same.items():
        last[of] = max(last[of], last[t])
    return Slots(index, tuple(t for t in first if t not in kept), last, first, same)


def views(g: KernelGraph) -> dict[str, str]:
    """Results of `regroup`, the same memory under another shape -> the tensor whose memory that is. Not of programs with loops, nor where
    the result is the caller's, or a donated input is written meanwhile."""
    if g.loops:
        return {}
    out: dict[str, str] = {}
    own = {t for _, t in g.outputs}
    donated = {*g.donated, *g.donated.values()}
    for c in g.calls:
        if c.kernel.opaque == "regroup":
            of, made = c.args[c.kernel.inputs[0].name], c.args[c.kernel.outputs[0].name]
            of = out.get(of, of)
            if made not in own and of not in donated:
                out[made] = of
    return out


def on_host(g: KernelGraph, same: Container[str] = ()) -> str:
    """The first op that runs through its reference, "" where none does; nothing runs for the views `same`."""
    return next((c.kernel.opaque for c in g.calls if runs_on_host(c, same)), "")


def runs_on_host(c: Call, same: Container[str] = ()) -> bool:
    """Whether a call runs an op through its reference. It does not where its result is one of the views `same`: nothing runs then."""
    return c.kernel.by_reference and c.args[c.kernel.outputs[0].name] not in same


def _made_within(g: KernelGraph, a: int, b: int) -> set[str]:
    """Tensors that calls a .. b - 1 make and that only they read."""
    made = {c.args[o.name] for c in g.calls[a:b] for o in c.kernel.outputs}
    rest = {t for i, c in enumerate(g.calls) if not a <= i < b for t in c.args.values()} | {t for _, t in g.outputs}
    return made - rest


def size_of(t: TensorType, sizes: Mapping[str, int]) -> int:
    """Bytes of a tensor; `sizes` has the symbols' values."""
    return prod(sizes[d.name] if isinstance(d, Sym) else d for d in t.shape) * t.dtype.bytes


def arena(g: KernelGraph, s: Slots, sizes: Mapping[str, int], without: Container[str] = ()) -> tuple[dict[str, int], int]:
    """Offsets of the temporaries (but those `without` a place of their own) and the arena's size: first fit over lifetimes, the largest
    first (ties by name)."""
    placed: list[tuple[int, int, int, int]] = []
    offsets: dict[str, int] = {}
    total = 0
    for t in sorted((t for t in s.temporary if t not in without), key=lambda t: (-size_of(g.tensors[t], sizes), t)):
        need = -(-max(size_of(g.tensors[t], sizes), 1) // ALIGN) * ALIGN
        a, b = s.first_use[t], s.last_use[t]
        at = 0
        for lo, hi, _, _ in sorted(p for p in placed if not (p[3] < a or b < p[2])):
            if at + need <= lo:
                break
            at = max(at, hi)
        placed.append((at, at + need, a, b))
        offsets[t] = at
        total = max(total, at + need)
    return offsets, total


def segments(calls: Sequence[Call], same: Container[str] = ()) -> list[tuple[int, int, bool]]:
    """Runs [start, end) of calls that are all compiled, or make one of the views `same` (nothing is done for them), and single opaque calls
    (True)."""
    out: list[tuple[int, int, bool]] = []
    for i, c in enumerate(calls):
        opaque = runs_on_host(c, same)
        if out and not opaque and not out[-1][2]:
            out[-1] = (out[-1][0], i + 1, False)
        else:
            out.append((i, i + 1, opaque))
    return out
