"""A reduction in parts: one kernel becomes two, by the law that every monoid has.

    out[i] = finish(fold_{r < E} x[i, r])
    state[p, i] = fold_{r < L} x[i, p * L + r]          out[i] = finish(fold_{p < P} state[p, i]),    P * L >= E

The states of the monoid lie in memory between the two kernels: partial sums and maxima as they are, a module's with its base, to
which the second kernel rebases it; those of one row lie side by side where results along it are made of them. What stands behind
the reduction (the epilogue) is the second kernel's. The order in which states are folded does not depend on the run. Known for
sums as split-K, for attention as flash decoding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isinf
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import (
    Axis,
    Const,
    Contract,
    Expr,
    Inside,
    Load,
    Map,
    Recurrence,
    Reduce,
    free_axes,
    postorder,
    rewrite,
    substitute,
)
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.monoid_terms import build
from autocomp.ir.monoids import MONOIDS, Monoid, identity
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import BOOL, I64, DType, TensorType

PLAIN = {"add": "sum", "mul": "prod", "max": "max", "min": "min", "or": "any", "and": "all"}  # a base's operation as a monoid
GRAIN = 16  # parts begin at multiples of this many elements where the tile does not say: whole vectors and sectors
NOWHERE = 2**63 - 1  # index of an element that did not win
COUNTED = {"welford": "welford_counted"}  # monoids that count their elements -> the same told by a second operand which elements there are

Fold = Reduce | Contract
Pieces = tuple[tuple[Kernel, Schedule], ...]


def pieces(kernel: Kernel, schedule: Schedule) -> Pieces:
    """The kernels that a schedule makes of one, each with its schedule: itself, or what computes states and what combines them.

    Raises UnsupportedOp where the reduction has no parts (`why_not_parts`).
    """
    return ((kernel, schedule),) if schedule.split is None else _parts_of(kernel).pieces(schedule)


class Parts:
    """A kernel's pieces under many schedules: those that split it alike share their two kernels."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._made: dict[tuple[str, int, int], tuple[_Cut, Kernel, Kernel, frozenset[str]]] = {}
        self._cuts: dict[tuple[Any, ...], tuple[tuple[tuple[str, int], ...], tuple[str, ...]]] = {}  # tiles and orders of first pieces

    def pieces(self, schedule: Schedule) -> Pieces:
        """As the function of this name."""
        if schedule.split is None:
            return ((self.kernel, schedule),)
        part, first, join = self.first(schedule)
        rest = dict(schedule.join)
        last = Schedule.make({a: t for a, t in rest.items() if a != "threads"}, threads=rest.get("threads", Schedule.threads),
                             directives=schedule.directives)  # fmt: skip
        return (part, first), (join, last)

    def first(self, schedule: Schedule) -> tuple[Kernel, Schedule, Kernel]:
        """The first piece of a schedule that splits the reduction, and the kernel of the second. Raises UnsupportedOp as `pieces` does."""
        assert schedule.split is not None
        axis, parts = schedule.split
        cut, part, join, bound = self._split(axis, parts, dict(schedule.tile).get(axis, 0))
        key = schedule.tile, schedule.order, schedule.split
        if key not in self._cuts:
            tile = {a: t for a, t in schedule.tile if a not in bound and not (a == axis and t >= cut.length)}
            order = (cut.name, *(a for a in schedule.order if any(a == x.name for x in part.axes))) if schedule.order else ()
            self._cuts[key] = tuple(sorted({**tile, cut.name: 1}.items())), order
        tiled, order = self._cuts[key]
        return part, schedule.apart(tiled, order), join

    def _split(self, axis: str, parts: int, tile: int) -> tuple[_Cut, Kernel, Kernel, frozenset[str]]:
        """The cut, both kernels, and the axes of the kernel that its first piece does not have."""
        key = axis, parts, tile
        if key not in self._made:
            kernel, whole = self.kernel, together(self.kernel, axis)
            cut = _cut(whole, axis, parts, tile)
            part, join = _kernels(whole, cut)
            bound = {a.name for a in kernel.axes} - {a.name for a in part.axes} | _reduced(kernel) - _reduced(whole)
            self._made[key] = cut, part, join, frozenset(bound)
        return self._made[key]


@lru_cache(maxsize=256)
def _parts_of(kernel: Kernel) -> Parts:
    """Kept, so that whoever asks for a split's kernels again gets those that are scheduled and printed already."""
    return Parts(kernel)


@lru_cache(maxsize=4096)
def together(kernel: Kernel, axis: str) -> Kernel:
    """The kernel with every reduction over as many elements as `axis` has, none of which needs another's result, over that axis:

        y[i] = max_r x[i, r] + sum_q f(x[i, q])   ->   y[i] = max_r x[i, r] + sum_r f(x[i, r])

    The kernel itself where one does, or where some other reduction would be left.
    """
    folds = [e for s in kernel.stores for e in postorder(s.value) if isinstance(e, (Reduce, Contract))]
    axes = {a.name: a.extent for e in folds for a in e.axes}
    if len(axes) < 2 or any(len(e.axes) != 1 or e.axes[0].extent != axes.get(axis) for e in folds):
        return kernel
    if any(isinstance(x, (Reduce, Contract)) for e in folds for x in postorder(*e.args)):
        return kernel
    by = {n: aff(axis) for n in axes}

    def one(e: Expr) -> Expr:
        return replace(e, axes=tuple(replace(a, name=axis) for a in e.axes)) if isinstance(e, (Reduce, Contract)) else e

    stores = tuple(replace(s, value=rewrite(substitute(s.value, by), one)) for s in kernel.stores)
    return replace(kernel, stores=stores, signature=f"{kernel.signature} | over {axis}")


def _reduced(kernel: Kernel) -> set[str]:
    """Names of the axes that a kernel reduces."""
    return {a.name for s in kernel.stores for e in postorder(s.value) if isinstance(e, (Reduce, Contract)) for a in e.axes}


def why_not_parts(kernel: Kernel, axis: str) -> str:
    """Why the reduction over an axis cannot be done in parts, "" if it can."""
    nodes = list(postorder(*(s.value for s in kernel.stores)))
    if kernel.opaque or any(isinstance(e, Recurrence) for e in nodes):
        return "it has no reduction of its own to do in parts"
    folds = [e for e in nodes if _over(e, axis)]
    if not folds:
        return f"nothing is reduced over {axis}"
    if any(_over(x, axis) for e in folds for a in e.args for x in postorder(a)):
        return f"a reduction over {axis} needs the result of another one over it"
    extent = next(a.extent for e in folds for a in e.axes if a.name == axis)  # type: ignore[attr-defined]
    return "" if isinstance(extent, int) else f"the extent of {axis} is known only when it runs"


@dataclass(frozen=True)
class _Cut:
    """`axis` of `extent` elements in `parts` of `length`; `name` numbers the parts."""

    axis: str
    extent: int
    parts: int
    length: int
    name: str

    @property
    def uneven(self) -> bool:
        return self.parts * self.length != self.extent

    @property
    def inside(self) -> Aff:
        """>= 0 at elements that there are."""
        return aff(self.extent - 1) - aff(self.name) * self.length - self.axis


@lru_cache(maxsize=4096)
def _cut(kernel: Kernel, axis: str, parts: int, tile: int) -> _Cut:
    """Parts of whole tiles where the extent allows it, equal ones for monoids that count their elements; else the last one is short."""
    if why := why_not_parts(kernel, axis):
        raise UnsupportedOp(why, where=f"kernel {kernel.name}")
    folds = [e for s in kernel.stores for e in postorder(s.value) if _over(e, axis)]
    extent = next(int(a.extent) for e in folds for a in e.axes if a.name == axis)  # type: ignore[attr-defined,arg-type]
    counting = any(_counts(MONOIDS[e.monoid]) for e in folds if isinstance(e, Reduce))
    name = f"{axis}_part"
    grain = tile if 0 < tile < extent else GRAIN
    length = -(-extent // parts)
    if extent % parts == 0 and (counting or length % grain == 0 or length < grain):
        return _Cut(axis, extent, parts, length, name)
    length = -(-length // grain) * grain
    return _Cut(axis, extent, -(-extent // length), length, name)


def _counts(m: Monoid) -> bool:
    """Whether a base state is lifted from a number, which no value outside of the extent can undo."""
    return any(lift not in m.operands for *_, lift in m.base)


def _over(e: Expr, axis: str) -> bool:
    return isinstance(e, (Reduce, Contract)) and any(a.name == axis for a in e.axes)


@lru_cache(maxsize=1024)
def _kernels(kernel: Kernel, cut: _Cut) -> tuple[Kernel, Kernel]:
    """What computes the states of the parts, and what combines them."""
    return _Splitter(kernel, cut).kernels()


@dataclass
class _Splitter:
    """The two kernels. `states`: for each fold (its nodes differ in the part that is asked for) its states as loads of the workspace."""

    kernel: Kernel
    cut: _Cut
    states: dict[tuple[object, ...], dict[str, Load]] = field(default_factory=dict)
    outputs: list[Arg] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    def kernels(self) -> tuple[Kernel, Kernel]:
        k, cut = self.kernel, self.cut
        values = tuple(s.value for s in k.stores)
        self.free = free_axes(values)
        folds = [e for e in postorder(*values) if isinstance(e, (Reduce, Contract)) and _over(e, cut.axis)]
        self.of_rows = bool(k.axes) and all(isinstance(e, Reduce) and k.axes[-1].name not in self.free[id(e)] for e in folds)
        asked: dict[tuple[object, ...], set[str]] = {}
        for e in folds:
            asked.setdefault(_fold(e), set()).update(_asked(e))
        for e in folds:
            if _fold(e) not in self.states:
                self._store(e, asked[_fold(e)])
        part_axis = Axis(cut.name, cut.parts)
        free = free_axes(tuple(s.value for s in self.stores))
        stored = frozenset().union(*(free[id(s.value)] for s in self.stores))
        text = f"{cut.axis} in {cut.parts} parts of {cut.length}"
        part = Kernel(f"{k.name}_part", k.kind, (part_axis, *(a for a in k.axes if a.name in stored)), _read(k.inputs, self.stores),
                      tuple(self.outputs), tuple(self.stores), f"{k.signature} | states: {text}")  # fmt: skip
        ends = tuple(replace(s, value=rewrite(s.value, self._joined)) for s in k.stores)
        join = Kernel(f"{k.name}_join", "S", k.axes, (*_read(k.inputs, ends), *self.outputs), k.outputs, ends,
                      f"{k.signature} | combined: {text}")  # fmt: skip
        return part, join

    # ---- the states of the parts
    def _store(self, e: Fold, asked: set[str]) -> None:
        """One output a state that is asked for."""
        cut, loads = self.cut, {}
        axes = tuple(replace(a, extent=cut.length) if a.name == cut.axis else a for a in e.axes)
        monoid, operands = self._folded(e)
        for name, dtype, free in _states(e, self.free):
            if name not in asked:
                continue
            value: Expr = (Contract(e.dtype, axes, *operands) if isinstance(e, Contract)
                           else Reduce(dtype, monoid, axes, operands, name))  # fmt: skip
            mine = tuple(a for a in self.kernel.axes if a.name in free)
            at = len(mine) if self.of_rows and mine != self.kernel.axes else 0
            shape, index = [a.extent for a in mine], [aff(a.name) for a in mine]
            out = Arg(f"part{len(self.outputs)}", TensorType(dtype, (*shape[:at], cut.parts, *shape[at:])))
            index.insert(at, aff(cut.name))
            self.outputs.append(out)
            self.stores.append(Store(out.name, tuple(index), value))
            loads[name] = Load(dtype, out.name, tuple(index))
        self.states[_fold(e)] = loads

    def _folded(self, e: Fold) -> tuple[str, tuple[Expr, ...]]:
        """A part's monoid ("" for a contraction) and what it folds: its elements, and what changes nothing past the last one."""
        monoid, operands = e.monoid if isinstance(e, Reduce) else "", self._operands(e)
        if not self.cut.uneven or monoid not in COUNTED:
            return monoid, operands
        one, none = Const(e.dtype, 1.0), Const(e.dtype, 0.0)
        return COUNTED[monoid], (*operands, Map(e.dtype, "where", (Inside(BOOL, (self.cut.inside,)), one, none)))

    def _operands(self, e: Fold) -> tuple[Expr, ...]:
        """What a part folds of each operand."""
        cut, at = self.cut, {self.cut.axis: aff(self.cut.name) * self.cut.length + self.cut.axis}
        moved = [substitute(a, at) for a in e.args]
        if not cut.uneven:
            return tuple(moved)
        mentions = lambda x: cut.axis in free_axes((x,))[id(x)]
        outside = [0.0 if a.dtype.is_float else 0 for a in e.args]
        if isinstance(e, Reduce):
            base = next(op for _, op, lift in MONOIDS[e.monoid].base if lift == MONOIDS[e.monoid].operands[0])
            outside[0] = identity(base, e.args[0].dtype)
        out = []
        for x, value in zip(moved, outside, strict=True):
            guarded = rewrite(x, self._guarded)
            zero = isinstance(guarded, Load) and guarded.guard and guarded.fill == value
            if zero or not mentions(x):
                out.append(guarded)
            else:
                out.append(Map(x.dtype, "where", (Inside(BOOL, (cut.inside,)), guarded, Const(x.dtype, value))))
        return tuple(out)

    def _guarded(self, e: Expr) -> Expr:
        """Loads that follow the axis touch no memory past its end."""
        if not isinstance(e, Load) or not any(self.cut.axis in i.names() for i in e.index):
            return e
        return replace(e, guard=(*e.guard, self.cut.inside))

    # ---- the combination
    def _joined(self, e: Expr) -> Expr:
        """A reduction over the axis as the combination of its parts' states."""
        if not isinstance(e, (Reduce, Contract)) or not _over(e, self.cut.axis):
            return e
        states = self.states[_fold(e)]  # nothing below is over the axis, so rewriting has left the operands as they were
        axes = (Axis(self.cut.name, self.cut.parts),)
        if isinstance(e, Contract):
            return Reduce(e.dtype, "sum", axes, (states["acc"],))
        m = MONOIDS[e.monoid]
        whole: dict[str, Expr] = {s: Reduce(states[s].dtype, PLAIN[op], axes, (states[s],)) for s, op, _ in m.base if s in states}
        for s, _, rebase in m.modules:
            if s in states:
                whole[s] = Reduce(e.dtype, "sum", axes, (_moved(m, s, rebase, states, whole, e.dtype),))
        for s, _ in m.pick:
            if s in states:
                whole[s] = Reduce(I64, "min", axes, (_won(m, s, states, whole),))
        value = _term(e.part or m.finish, whole, e.dtype)
        return value if value.dtype == e.dtype else Map(e.dtype, "cast", (value,))


def _fold(e: Fold) -> tuple[object, ...]:
    """Equal for nodes that differ only in the part that is asked for."""
    return ("", e) if isinstance(e, Contract) else (e.monoid, e.axes, e.operands)


def _asked(e: Fold) -> set[str]:
    """The states that the value is made of, with the bases that a module needs."""
    if isinstance(e, Contract):
        return {"acc"}
    m = MONOIDS[e.monoid]
    out = set(re.findall(r"\w+", e.part or m.finish))
    if out & {s for s, *_ in (*m.modules, *m.pick)}:
        out |= {s for s, *_ in m.base}
    return out & set(m.states)


def _states(e: Fold, free: Mapping[int, frozenset[str]]) -> list[tuple[str, DType, frozenset[str]]]:
    """Each state's name, type and axes. A module with an operand of its own has that operand's axes too."""
    if isinstance(e, Contract):
        return [("acc", e.dtype, free[id(e)])]
    m = MONOIDS[e.monoid]
    key = free[id(e.operands[0])] - {a.name for a in e.axes}
    dtype = e.operands[0].dtype if m.pick else e.dtype
    out = [(s, dtype, key) for s, *_ in m.base]
    out += [(s, dtype, free[id(e)] if lift in m.operands[1:] else key) for s, lift, _ in m.modules]
    return out + [(s, I64, key) for s, _ in m.pick]


def _moved(m: Monoid, s: str, rebase: str, states: Mapping[str, Load], whole: Mapping[str, Expr], dtype: DType) -> Expr:
    """A part's module relative to the whole's base. A part at an infinite identity has folded nothing: -inf - -inf is not formed."""
    env: dict[str, Expr] = {"x": states[s]} | {b: states[b] for b, *_ in m.base} | {f"{b}1": whole[b] for b, *_ in m.base}
    moved = _term(rebase, env, dtype)
    for b, op, _ in m.base:
        nothing = identity(op, dtype)
        if isinf(nothing):
            empty = Map(BOOL, "eq", (states[b], Const(states[b].dtype, nothing)))
            moved = Map(dtype, "where", (empty, Const(dtype, 0.0), moved))
    return moved


def _won(m: Monoid, s: str, states: Mapping[str, Load], whole: Mapping[str, Expr]) -> Expr:
    """A part's index where its base is the whole's; of a NaN, which wins everywhere, the first."""
    base = m.base[0][0]
    wins: Expr = Map(BOOL, "eq", (states[base], whole[base]))
    if states[base].dtype.is_float:
        wins = Map(BOOL, "or", (wins, Map(BOOL, "isnan", (states[base],))))
    return Map(I64, "where", (wins, states[s], Const(I64, NOWHERE)))


def _term(text: str, env: Mapping[str, Expr], dtype: DType) -> Expr:
    leaf: Callable[[str | float], Expr] = lambda x: env[x] if isinstance(x, str) else Const(dtype, float(x))
    return build(text, leaf, lambda name, args: Map(dtype, name, args))


def _read(inputs: Sequence[Arg], stores: Sequence[Store]) -> tuple[Arg, ...]:
    """The inputs that the stores load."""
    loaded = {getattr(e, "tensor", None) for s in stores for e in postorder(s.value)}
    return tuple(a for a in inputs if a.name in loaded)
