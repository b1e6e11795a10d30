"""Windows that overlap are read from a buffer of the core: each element of the image is read, converted and mapped once, borders filled.

    for i, r:  s += f(guarded load x[i*2 + r - 1]) * w[r]
    ->  for u:  window[u] = f(guarded load x[u - 1])
        for i, r:  s += window[i*2 + r] * w[r]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autocomp.targets.cpu.expressions import working
from autocomp.targets.cpu.flat import Flat, View
from autocomp.targets.cpu.lower import Nest, Slot, reads
from autocomp.targets.cpu.storage import places
from autocomp.targets.cpu.tree import Node

from autocomp.cost.derived import constant
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, postorder, rewrite
from autocomp.ir.scalar import SCALAR
from autocomp.tile.program import Loop, Stmt, Value
from autocomp.tile.values import with_values

NEAR = 1 << 19  # bytes that stay in the second cache of a current core


@dataclass(frozen=True)
class Slide:
    """A dimension that windows slide along: they read its places `at`, 0 to `last`, `taps` of them for one result, `step` places from
    one result to the next. The buffer has `axes` for it, which hold `place` and where what is `at` a place is found."""

    at: Aff
    last: int
    taps: int
    step: int
    axes: tuple[tuple[str, int], ...]
    place: Aff
    found: tuple[Aff, ...]


def stage_windows(nest: Nest) -> Nest:
    """The nest with a buffer for each value that windows read; itself where none is read more than once, or nothing is gained: plain
    elements of 32 bits without borders are read where they lie."""
    stage = _Stage(nest)
    body = stage.block(nest.body)
    if not stage.buffers:
        return nest
    return replace(nest, body=body, slots={**nest.slots, **stage.slots}, views={**nest.views, **stage.views},
                   extent={**nest.extent, **stage.extent}, buffers=stage.buffers)  # fmt: skip


def stay_near(nest: Nest, tree: Sequence[Node]) -> bool:
    """Do the buffers stay in a core's second cache until they are read? One for each turn of the loops that fill and read it."""
    where, held = places(nest, tree), 0
    for x in nest.buffers:
        sizes = [e for _, e in where[x].shape if isinstance(e, int)]
        if len(sizes) < len(where[x].shape):  # as many images as a call has
            return False
        held += prod(sizes) * working(nest.slots[x].dtype).bytes  # type: ignore[arg-type]
    return held <= NEAR


class _Stage:
    """Adds to `slots`, `views`, `extent` and `buffers` what the blocks that it rewrites need; `maps`: what fills this block's buffers."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.slots: dict[str, Slot] = {}
        self.views: dict[str, View] = {}
        self.extent: dict[str, int] = {}
        self.buffers: dict[str, Mapping[str, Aff]] = {}
        self.maps: list[Stmt] = []

    def block(self, body: tuple[Loop | Stmt, ...]) -> tuple[Loop | Stmt, ...]:
        """The statements of a block, those of its loops too, with maps into buffers in front of what first reads them."""
        out: list[Loop | Stmt] = [replace(n, body=self.block(n.body)) if isinstance(n, Loop) else n for n in body]
        for n in body:
            if isinstance(n, Stmt) and n.op == "reduce":
                out = self._staged(out, n)
        return tuple(out)

    def _staged(self, body: list[Loop | Stmt], fold: Stmt) -> list[Loop | Stmt]:
        taps = frozenset(fold.axis.split(","))
        stmts = [n for n in body if isinstance(n, Stmt)]
        made = {n.dst: n for n in stmts if n.op == "map" and not n.acc and sum(x.dst == n.dst for x in stmts) == 1}
        terms = [n for x, n in made.items() if x not in self.buffers and taps <= {*self.nest.axes_of(n.dst)}]
        inlined: dict[str, Expr] = {}
        buffers: dict[Expr, str] = {}
        new: dict[int, Stmt] = {}
        for n in [*terms, fold]:
            read = n.expr if isinstance(n.expr, Expr) else None
            if read is not None and (whole := self._inline(read, inlined)) is not None and self._slides(whole, taps):
                inlined[n.dst] = whole
                continue
            found: dict[Expr, Expr] = {}
            for e in (_largest(read, lambda e: self._stageable(e, inlined, taps)) if read is not None else self._values(n)):
                whole = self._inline(e, inlined)
                slides = self._slides(whole, taps) if whole is not None else None
                if whole is not None and slides and self._worth(whole, slides):
                    name = buffers.get(whole) or self._buffer(whole, slides)
                    buffers[whole] = name
                    found[e] = Value(whole.dtype, name)
            if found:
                names = {e.name: v.name for e, v in found.items() if isinstance(e, Value) and isinstance(v, Value)}
                srcs = tuple(dict.fromkeys(names.get(x, x) for x in n.srcs)) if read is not None else tuple(names.get(x, x) for x in n.srcs)
                new[id(n)] = replace(n, srcs=srcs, expr=with_values(read, found) if read is not None else n.expr)
        if not buffers:
            return body
        first = next(i for i, n in enumerate(body) if id(n) in new or (isinstance(n, Stmt) and n.dst in inlined))
        out = [new.get(id(n), n) for n in body]  # type: ignore[arg-type]
        out[first:first] = self.maps
        self.maps = []
        return _live(out, inlined)

    def _values(self, fold: Stmt) -> list[Expr]:
        return [Value(self.nest.dtype_of(x), x) for x in fold.srcs]  # type: ignore[arg-type]

    def _stageable(self, e: Expr, inlined: Mapping[str, Expr], taps: frozenset[str]) -> bool:
        whole = self._inline(e, inlined)
        return whole is not None and self._slides(whole, taps) is not None

    def _inline(self, e: Expr, inlined: Mapping[str, Expr]) -> Expr | None:
        """The expression over tensors alone; None where it reads another value of the block."""
        whole = with_values(e, {v: inlined[v.name] for v in postorder(e) if isinstance(v, Value) and v.name in inlined})
        return whole if all(x.name in self.nest.views for x in postorder(whole) if isinstance(x, Value)) else None

    def _slides(self, e: Expr, taps: frozenset[str]) -> tuple[Slide, ...] | None:
        """The dimensions along which windows of this expression slide, where it varies with the taps and with what they slide along as
        their sums alone; None where it does not."""
        found: dict[Aff, bool] = {}
        guards: list[Aff] = []
        others: set[str] = set()
        for x in postorder(e):
            if isinstance(x, (Gather, Index)):
                return None
            if isinstance(x, Inside):
                guards += x.guard
            if isinstance(x, Value):
                v = self.nest.views[x.name]
                guards += v.guard
                for n, i in enumerate(v.index, 1):
                    if i.names() & taps:
                        found[i - i.const] = n == len(v.index)
                    else:
                        others |= i.names()
            elif not isinstance(x, (Map, Const, Inside)):
                return None
        slides = [self._slide(n, at, taps, near) for n, (at, near) in enumerate(found.items())]
        if not slides or any(s is None for s in slides):
            return None
        inner = {a for s in slides if s for a in s.at.names()}
        if inner & others or len(inner) != sum(len(s.at.terms) for s in slides if s):
            return None
        out = tuple(s for s in slides if s)
        return out if all(_in_places(g, out) is not None for g in guards) else None

    def _slide(self, n: int, at: Aff, taps: frozenset[str], near: bool) -> Slide | None:
        """A dimension at the sum of one axis of results, whole in its tile, and of axes of taps. Where its places are neighbours in memory
        (`near`) and results lie several apart, places that neighbouring results read for one tap lie side by side in the buffer."""
        sizes = {a: self.nest.extent.get(a) for a in at.names()}
        rows = [a for a in sizes if a not in taps]
        if not at.is_affine or len(rows) > 1 or any(not isinstance(e, int) or e < 1 or a in self.nest.tile for a, e in sizes.items()):
            return None
        if any(at.coef(a) < 1 for a in sizes):
            return None
        known = {a: e for a, e in sizes.items() if isinstance(e, int)}
        step, last, name = at.coef(rows[0]) if rows else 1, at.range(known)[1], self._fresh(f"u{n}_{len(self.buffers)}")
        count = prod(e for a, e in known.items() if a in taps)
        if not near or step == 1:
            return Slide(at, last, count, step, ((name, last + 1),), Aff.of(name), (at,))
        phase = f"{name}_phase"
        axes = (phase, step), (name, last // step + 1)
        found = (at % step).simplify(known), (at // step).simplify(known)
        return Slide(at, last, count, step, axes, Aff.of(name) * step + Aff.of(phase), found)

    def _worth(self, e: Expr, slides: tuple[Slide, ...]) -> bool:
        """Is an element read by several windows, and is there more to it than a load?"""
        read = [self.nest.views[x.name] for x in postorder(e) if isinstance(x, Value)]
        again = prod(s.taps for s in slides) / prod(min(s.step, s.taps) for s in slides)
        costly = any(isinstance(x, Map) and SCALAR[x.fn].unit == "special" for x in postorder(e))
        plain = isinstance(e, Value) and not any(v.guard for v in read) and e.dtype.bits == 32
        return again > 1 if costly else again >= constant("staged_windows") and not plain

    def _buffer(self, e: Expr, slides: tuple[Slide, ...]) -> str:
        """A new buffer for an expression, and the map that fills it; its axes lie as those of the largest tensor that it reads."""
        name = self._fresh(f"window{len(self.buffers)}" if self.buffers else "window")
        read = [self.nest.views[x.name] for x in postorder(e) if isinstance(x, Value)]
        main = max(read, key=lambda v: len(v.axes))
        axes: list[str] = []
        for i in main.index:
            here = next((s for s in slides if s.at == i - i.const), None)
            axes += [a for a in ([x for x, _ in here.axes] if here else sorted(i.names())) if a not in axes]
        inner = {a for s in slides for a in s.at.names()}
        axes += [a for v in read for a in v.axes if a not in (*axes, *inner)]
        axes += [a for s in slides for a, _ in s.axes if a not in axes]
        self.extent |= {a: size for s in slides for a, size in s.axes}
        self.buffers[name] = {a: found for s in slides for (a, _), found in zip(s.axes, s.found, strict=True)}
        self.slots[name] = Slot(name, e.dtype, tuple(axes))
        placed = self._placed(e, slides)
        self.maps.append(Stmt("map", name, tuple(v.name for v in postorder(placed) if isinstance(v, Value)), placed))
        return name

    def _fresh(self, name: str) -> str:
        """The name, or a longer one that nothing has."""
        nest = self.nest
        taken = {*nest.extent, *nest.slots, *nest.views, *nest.sizes, *(v.pointer for v in nest.views.values()), *self.slots, *self.views}
        while name in taken:
            name += "_"
        return name

    def _placed(self, e: Expr, slides: tuple[Slide, ...]) -> Expr:
        """The expression over the buffer's own axes."""
        inner = {a for s in slides for a in s.at.names()}

        def leaf(x: Expr) -> Expr:
            if isinstance(x, Inside):
                return replace(x, guard=tuple(g for g in (_in_places(g, slides) for g in x.guard) if g is not None))
            if not isinstance(x, Value):
                return x
            v = self.nest.views[x.name]
            if not any(i.names() & inner for i in (*v.index, *v.guard)):
                return x
            name = self._fresh(f"{x.name}_{slides[0].axes[-1][0]}")
            index = tuple(next((s.place + i.const for s in slides if i - i.const == s.at), i) for i in v.index)
            known = {a: size for s in slides for a, size in s.axes}
            ends = [Aff.of(s.last) - s.place for s in slides]  # a buffer may have places past the last one that is read
            guard = tuple(g for g in (*(_in_places(g, slides) for g in v.guard), *ends) if g is not None and not _holds(g, known))
            axes = tuple(a for a in v.axes if a not in inner) + tuple(known)
            self.views[name] = replace(v, axes=axes, flat=Flat.of(index, v.shape), guard=guard, index=index)
            return Value(x.dtype, name)

        return rewrite(e, leaf)


def _in_places(g: Aff, slides: tuple[Slide, ...]) -> Aff | None:
    """A guard over the places of a buffer; None where it is not one of their sums."""
    for s in slides:
        names = s.at.names() & g.names()
        if not names:
            continue
        if names != s.at.names() or not g.is_affine:
            return None
        a = next(iter(names))
        k, rest = divmod(g.coef(a), s.at.coef(a))
        if rest or any(g.coef(x) != k * s.at.coef(x) for x in names):
            return None
        g = g - s.at * k + s.place * k
    return g


def _holds(g: Aff, sizes: Mapping[str, int]) -> bool:
    return g.names() <= sizes.keys() and g.range(sizes)[0] >= 0


def _largest(e: Expr, ok: Callable[[Expr], bool]) -> list[Expr]:
    """The largest parts of an expression that satisfy `ok`."""
    if ok(e):
        return [e]
    return [x for a in (e.args if isinstance(e, Map) else ()) for x in _largest(a, ok)]


def _live(body: list[Loop | Stmt], inlined: Mapping[str, Expr]) -> list[Loop | Stmt]:
    """The block without maps that went into buffers and that nothing reads any more."""
    while True:
        read = {x for n in body if isinstance(n, Stmt) for x in (*reads(n), *n.srcs)}
        left = [n for n in body if not (isinstance(n, Stmt) and n.dst in inlined and n.dst not in read)]
        if len(left) == len(body):
            return left
        body = left
