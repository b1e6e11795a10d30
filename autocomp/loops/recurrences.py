"""The loop nest of a kernel whose body is a recurrence, with its states kept for all times or in a ring of a few.

    init:  state[0, s]             = init(s)
    step:  state[(t + 1) mod b, s] = step(t, s)       b None: a plane a time, nothing is ever overwritten;
    store: out[..]                 = state[at, index]  b planes: overwriting too early is a dependence like any other

A step that begins with `where(inside, a, b)` is split into its interior and its edges (index-set splitting), so the
interior runs without a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Expr, Inside, Load, Map, Prev, Recurrence, postorder, rewrite
from autocomp.ir.kernel import Kernel
from autocomp.loops.access import implied, minimal_guard
from autocomp.loops.nest import Access, LoopDim, LoopNest, Rows, Statement

STATE = "state"


@dataclass(frozen=True)
class Piece:
    """A part of the step's domain (all guards >= 0) on which its value is `value`, free of the outermost test."""

    name: str
    guard: tuple[Aff, ...]
    value: Expr


def recurrence_of(kernel: Kernel) -> Recurrence | None:
    """The recurrence of a kernel's body, None where it has none. Raises UnsupportedOp where it has several."""
    found = [e for e in postorder(*(s.value for s in kernel.stores)) if isinstance(e, Recurrence)]
    if len(found) > 1:
        raise UnsupportedOp(f"{len(found)} recurrences in one kernel", where=kernel.name, hint="store the first one's result")
    return found[0] if found else None


def require_recurrence(kernel: Kernel) -> Recurrence:
    rec = recurrence_of(kernel)
    if rec is None:
        raise UnsupportedOp("no recurrence in this kernel", where=kernel.name)
    return rec


@lru_cache(maxsize=1024)
def pieces(rec: Recurrence) -> tuple[Piece, ...]:
    """The step as disjoint pieces: inside, then edge k where guard k is the first to fail.

    Guards of reads that a piece implies are gone.
    """
    step, axes = rec.step, tuple((x.name, x.extent) for x in (rec.time, *rec.axes))
    if not (isinstance(step, Map) and step.fn == "where" and isinstance(step.operands[0], Inside)):
        return (Piece("step", (), step),)

    def within(value: Expr, where: tuple[Aff, ...]) -> Expr:
        return rewrite(value, lambda e: replace(e, guard=tuple(g for g in e.guard if not implied(g, where, axes)))
                       if isinstance(e, (Load, Prev)) else e)
    inside, a, b = step.operands
    assert isinstance(inside, Inside)
    guard = minimal_guard(inside.guard, axes)
    failing = [(*guard[:k], -g - 1) for k, g in enumerate(guard)]
    edges = tuple(Piece(f"edge{k}", where, within(b, where)) for k, where in enumerate(failing))
    return (Piece("step", guard, within(a, guard)), *edges)


def band_of(rec: Recurrence) -> tuple[str, ...]:
    """The step's loops from outermost: time, then space."""
    return (rec.time.name, *(a.name for a in rec.axes))


def lag_of(rec: Recurrence) -> int:
    """How many states back the step looks."""
    return max((e.lag for e in postorder(rec.step) if isinstance(e, Prev)), default=1)


def last_only(rec: Recurrence) -> bool:
    """Is only the last state asked for (so that earlier ones may be overwritten)?"""
    return rec.at is None or (rec.at.is_const and rec.at.const == rec.time.extent)


def recurrence_nest(kernel: Kernel, buffers: int | None = None) -> LoopNest:
    """Statements `init`, `step` (and edges) and one store each."""
    rec = require_recurrence(kernel)
    t = rec.time.name

    def plane(x: Aff) -> Aff:
        return x if buffers is None else x % buffers

    here = tuple(aff(a.name) for a in rec.axes)
    out = [Statement("init", "init", rec.axes, _loads(rec.init), (Access(STATE, (aff(0), *here)),))]
    rows = [Rows((0, *(0,) * len(rec.axes)), _loops(a.name for a in rec.axes))]
    for n, piece in enumerate(pieces(rec)):
        reads = tuple(Access(STATE, (plane(aff(t) + (1 - p.lag)), *p.index), p.guard) for p in _prevs(piece.value))
        out.append(Statement(piece.name, "step", (rec.time, *rec.axes), (*reads, *_loads(piece.value)),
                             (Access(STATE, (plane(aff(t) + 1), *here)),), guard=piece.guard))
        rows.append(Rows((1, *(0,) * len(rec.axes), n), _loops(band_of(rec))))
    extent = rec.time.extent
    at = rec.at if rec.at is not None else aff(extent if isinstance(extent, int) else extent.name)
    for n, s in enumerate(kernel.stores):
        out.append(Statement(f"store{n}", "store", kernel.axes, (Access(STATE, (plane(at), *rec.index)), *_loads(s.value)),
                             (Access(s.tensor, s.index),)))
        rows.append(Rows((2 + n, *(0,) * len(kernel.axes)), _loops(a.name for a in kernel.axes)))
    return LoopNest.make(tuple(out), tuple(rows))


def step_names(nest: LoopNest) -> tuple[str, ...]:
    """Names of the statements that advance the state."""
    return tuple(s.name for s in nest.statements if s.role == "step")


def _loops(names: Iterator[str] | tuple[str, ...]) -> tuple[LoopDim, ...]:
    return tuple(LoopDim(n, aff(n)) for n in names)


def _outside(e: Expr) -> Iterator[Expr]:
    """Nodes of a value, not those inside a recurrence."""
    seen: set[int] = set()
    stack = [e]
    while stack:
        x = stack.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        yield x
        if not isinstance(x, Recurrence):
            stack.extend(reversed(x.args))


def _prevs(e: Expr) -> tuple[Prev, ...]:
    return tuple(x for x in _outside(e) if isinstance(x, Prev))


def _loads(e: Expr) -> tuple[Access, ...]:
    return tuple(dict.fromkeys(Access(x.tensor, x.index, x.guard) for x in _outside(e) if isinstance(x, Load)))
