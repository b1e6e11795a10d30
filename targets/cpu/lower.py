"""Tile program -> Nest: C-safe axis names, flat addresses, guards that can fail only, copies as aliases.

x_t: f32[i, j] = copy X        ->   no statement; `x_t` is the view of X
where(idx(j) < J, x, -inf)     ->   x              point loops are clipped to the extent, so the mask always holds
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autocomp.targets.cpu.flat import Coef, Flat, View, dim_text
from autocomp.targets.cpu.names import Names

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, rewrite
from autocomp.ir.sizes import LARGEST
from autocomp.ir.types import BOOL, Sym
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, Value, walk, without_when


@dataclass(frozen=True)
class Slot:
    """An on-chip value: its element type and axes."""

    name: str
    dtype: object
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Nest:
    """What the printer works on. extent: number or size-parameter text; tile: only axes that a loop steps through.

    `views` has tensors and the values that are copies of them; `sizes` the size parameters in order; `vectors`: statements may run
    in vectors; `rows` of a register tile at most; f32 `lanes` of a vector; `limits`: what a size parameter is at most, where that is known;
    `backwards`: axes along which scans run from the end; `schemes`: the schedule's directives;
    `buffers`: of a value that windows read (`stage_windows`), the place of what is read on each axis of its that they slide along;
    `tables`: 256 bytes by name (`byte_tables`); `inside`: conditions (each >= 0) that hold where windows lie inside of their image.
    """

    name: str
    extent: Mapping[str, Coef]
    tile: Mapping[str, int]
    slots: Mapping[str, Slot]
    views: Mapping[str, View]
    body: tuple[Loop | Stmt, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    vectors: bool = True
    rows: int = 16
    lanes: int = 16
    limits: Mapping[Coef, int] = field(default_factory=dict)
    backwards: frozenset[str] = frozenset()
    buffers: Mapping[str, Mapping[str, Aff]] = field(default_factory=dict)
    schemes: frozenset[str] = frozenset()
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    inside: frozenset[Aff] = frozenset()

    def axes_of(self, value: str) -> tuple[str, ...]:
        """Axes of an on-chip value or of a view."""
        return self.views[value].axes if value in self.views else self.slots[value].axes

    def dtype_of(self, value: str) -> object:
        """Element type of an on-chip value or of a view."""
        return self.views[value].dtype if value in self.views else self.slots[value].dtype


def always(g: Aff, extent: Mapping[str, Coef]) -> bool:
    """g >= 0 for all points of the domain (False where a size is symbolic and we cannot tell)."""
    known = {n: e for n, e in extent.items() if isinstance(e, int)}
    if not g.names() <= known.keys():
        return False
    return g.range(known)[0] >= 0


@dataclass(frozen=True)
class _Renamed:
    """Axes under their names in C, and their extents by these."""

    axis: Mapping[str, str]
    extent: Mapping[str, Coef]
    names: Mapping[str, Aff]  # `axis`, as expressions

    def index(self, a: Aff) -> Aff:
        return a.substitute(self.names)

    def view(self, t: Tensor, pointer: str) -> View:
        """How a tensor is read, without guards that hold for all points."""
        static = {a: e for a, e in self.extent.items() if isinstance(e, int)}
        tidy = lambda a: a.simplify(static) if a.names() <= static.keys() else a
        guard = tuple(g for g in (tidy(self.index(g)) for g in t.guard) if not always(g, self.extent))
        index = tuple(tidy(self.index(i)) for i in t.index)
        axes = tuple(self.axis[a] for a in t.axes)
        return View(pointer, t.dtype, axes, Flat.of(index, t.shape), guard, t.fill, t.name, t.constant, index, t.shape)

    def fold(self, e: Expr) -> Expr:
        """A part of an expression, its operands done, less what the extents decide."""
        if isinstance(e, Index):
            return replace(e, index=self.index(e.index))
        if isinstance(e, Inside):
            left = tuple(g for g in map(self.index, e.guard) if not always(g, self.extent))
            return Inside(e.dtype, left) if left else Const(BOOL, True)
        if isinstance(e, Map) and e.fn == "where" and isinstance(e.operands[0], Const):
            return e.operands[1] if e.operands[0].value else e.operands[2]
        return e


# What loops over an axis declare beside its own variable.
DERIVED = ("_tile", "_part", "_stop", "_end", "_first", "_here", "_row", "_p", "_table")


def lower(p: TileProgram) -> Nest:
    """The nest of a program. Axis names become C identifiers, distinct from size parameters and pointers."""
    names, tensors = Names(), p.inputs + p.outputs
    dims = [d for t in tensors for d in t.shape + t.extents] + [d for _, d in p.axes]
    open_ = [d.name for d in dims if isinstance(d, Sym)]
    sizes = tuple(dict.fromkeys(names.of(n) for n in (*open_, *p.read_sizes(dims))))
    taken = {*sizes, *(a + behind for a, _ in p.axes for behind in DERIVED)}
    axis = {a: (names.of(a) if names.of(a) not in taken else names.fresh(a + "_")) for a, _ in p.axes}
    extent = {axis[a]: dim_text(d) for a, d in p.axes}
    renamed = _Renamed(axis, extent, {a: Aff.of(n) for a, n in axis.items()})
    pointer = {t.buffer: names.fresh(t.buffer) for t in tensors}
    views = {t.name: renamed.view(t, pointer[t.buffer]) for t in tensors}
    written = Counter(s.dst for s, _ in walk(p.body))
    copies = {s.dst: s.srcs for s, _ in walk(p.body) if s.op == "copy"}
    redefined = {s.dst for s, _ in walk(p.body) if s.op != "store" and (s.op != "copy" or s.acc or s.srcs != copies[s.dst])}
    dtype = {b.name: b.dtype for b in p.bufs}
    made = {b.name: frozenset(axis[a] for a in b.axes) for b in p.bufs}

    def block(body: tuple[Loop | Stmt, ...]) -> tuple[Loop | Stmt, ...]:
        out: list[Loop | Stmt] = []
        for n in body:
            if isinstance(n, Loop):
                out.append(replace(n, axes=tuple(axis[a] for a in n.axes), body=block(n.body)))
            elif n.op == "copy":
                src = n.srcs[0]
                of = views[src].dtype
                if of is dtype[n.dst] and n.dst not in redefined:
                    views[n.dst] = views[src]
                    continue
                value = Value(of, src)
                out.append(Stmt("map", n.dst, n.srcs, value if of is dtype[n.dst] else Map(dtype[n.dst], "cast", (value,)), acc=n.acc))
            else:
                expr = rewrite(n.expr, renamed.fold) if isinstance(n.expr, Expr) else n.expr
                if n.op == "map" and not n.acc and isinstance(expr, Value) and expr.name in views and written[n.dst] == 1:
                    if made[n.dst] <= {*views[expr.name].axes}:  # what repeats it has more: a product's depth is what its factors have
                        views[n.dst] = views[expr.name]  # the mask of a tail that loops do not run past
                        continue
                out.append(replace(n, expr=expr, axis=",".join(axis[a.strip().lstrip("-")] for a in n.axis.split(",")) if n.axis else ""))
        return tuple(out)

    if masked := next((t.name for t in p.outputs if views[t.name].guard), ""):
        raise UnsupportedOp(f"{masked} is stored under a guard", where=f"kernel {p.name}", hint="cut its axis where the guard does")
    body = block(without_when(p.body))
    looped = {a for _, loops in walk(body) for l in loops for a in l.axes}
    tile = {axis[a]: t for a, t in p.tile if axis[a] in looped}
    slots = {b.name: Slot(b.name, b.dtype, tuple(axis[a] for a in b.axes)) for b in p.bufs}
    slots |= {n: replace(slots[n], axes=axes) for n, axes in as_read(slots, views, body).items()}
    slots |= {n: replace(slots[n], axes=axes) for n, axes in as_linked(slots, views, body, extent).items()}
    limits = {dim_text(d): d.hi for _, d in p.axes if isinstance(d, Sym) and not (d.is_computed and d.hi == LARGEST)}
    return Nest(p.name, extent, {a: tile.get(a, 1) for a in looped}, slots, views, body, p.inputs, p.outputs, sizes, limits=limits,
                backwards=_backwards(p, axis))  # fmt: skip


def _backwards(p: TileProgram, axis: Mapping[str, str]) -> frozenset[str]:
    """The axes along which scans run from the end. Raises UnsupportedOp where others along them do not, or where a tile has a part of one:
    loops run one way."""
    ways = {(axis[s.axis.lstrip("-")], s.axis.startswith("-")) for s, _ in walk(p.body) if s.op == "scan"}
    ends = frozenset(a for a, back in ways if back)
    both = sorted(a for a, back in ways if not back and a in ends)
    cut = sorted(s.dst for s, _ in walk(p.body) if s.op == "scan" and s.srcs[1:])
    if both or cut:
        what = f"scans along {both[0]} go both ways" if both else f"the scan {cut[0]} has a part of its axis in a tile"
        raise UnsupportedOp(what, where=f"kernel {p.name}", hint="leave `scan` out of the schedule, or the axis out of the tile")
    return ends


def as_read(slots: Mapping[str, Slot], views: Mapping[str, View], body: tuple[Loop | Stmt, ...]) -> dict[str, tuple[str, ...]]:
    """Axes of computed values that would rather lie as the tensor that they are computed from: its contiguous axis last.

    mul_t: [r0, r1] = map in2[r1*64 + r0] * s   ->   [r1, r0]: whole vectors are read and written; who wants columns transposes.
    """
    written = [s.dst for s, _ in walk(body)]
    out = {}
    for s, _ in walk(body):
        if s.op != "map" or s.acc or written.count(s.dst) != 1 or s.dst not in slots:
            continue
        axes = slots[s.dst].axes
        whole = [views[n] for n in reads(s) if n in views and set(views[n].axes) == set(axes)]
        near = next((a for v in whole for a in axes if v.flat.stride(a) == 1), "")
        if near and axes[-1] != near:
            out[s.dst] = (*(a for a in axes if a != near), near)
    return out


def as_linked(slots: Mapping[str, Slot], views: Mapping[str, View], body: tuple[Loop | Stmt, ...],
              extent: Mapping[str, Coef]) -> dict[str, tuple[str, ...]]:  # fmt: skip
    """Axes of what one contraction makes for another: those outermost that no result has, one after the other, and the longest
    last, so that vectors run along it and neighbouring rows lie a line apart.

    acc: [i0, i1, i3, r3] -> acc: [r3, i1, i3, i0]
    """
    made = {s.dst for s, _ in walk(body) if s.op == "mma"}
    stored = {a for s, _ in walk(body) if s.op == "store" for a in views[s.dst].axes}
    out = {}
    for name in sorted({x for s, _ in walk(body) if s.op == "mma" for x in s.srcs} & made):
        axes = slots[name].axes
        if all(isinstance(extent[a], int) for a in axes):
            longest = max(axes, key=lambda a: (extent[a], axes.index(a)))
            out[name] = tuple(sorted(axes, key=lambda a: (a == longest, a in stored)))
    return out


def reads(s: Stmt) -> tuple[str, ...]:
    """Names (values, or tensors of gathers) that a statement reads, without its own previous state."""
    if isinstance(s.expr, Expr):
        out: dict[str, None] = {}
        for e in _post(s.expr):
            if isinstance(e, Value):
                out.setdefault(e.name)
        return tuple(out)
    return s.srcs


def gathers(s: Stmt) -> tuple[Gather, ...]:
    """Data-dependent reads of a statement."""
    return tuple(e for e in _post(s.expr) if isinstance(e, Gather)) if isinstance(s.expr, Expr) else ()


def _post(e: Expr):  # type: ignore[no-untyped-def]
    from autocomp.ir.body import postorder

    return postorder(e)


def domain(s: Stmt, nest: Nest) -> tuple[str, ...]:
    """Axes that a statement iterates over: those of its result, then the reduced ones."""
    if s.op == "store":
        return nest.views[s.dst].axes
    out = list(nest.slots[s.dst].axes)
    if s.op == "reduce":
        out += [a for a in s.axis.split(",") if a not in out]
    if s.op == "mma":
        out += [a for v in s.srcs for a in nest.axes_of(v) if a not in out]
        out = list(dict.fromkeys(out))
    return tuple(out)
