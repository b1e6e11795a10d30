"""On-chip values of a tile program under construction: which open loop a node is emitted in, and the statement that makes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Const, Contract, Expr, Gather, Index, Inside, Load, Map, Reduce, bound_axes, free_axes, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.monoids import MONOIDS, neutral
from autocomp.ir.scans import Scan
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import BOOL, I32, I64, Dim, DType, Sym
from autocomp.tile.program import Buf, Loop, Stmt, Tensor, Value, dense

_CHEAP = {"ge", "gt", "le", "lt", "eq", "ne", "and", "or", "not", "add", "sub", "mul", "neg", "min", "max", "where", "cast", "as_stored"}


@dataclass
class Scope:
    """An open loop (or the tile itself): the looped axes it binds, its statements, and which values are made in it."""

    axes: frozenset[str]
    body: list[Loop | Stmt] = field(default_factory=list)
    memo: dict[tuple[int, str], str] = field(default_factory=dict)
    folds: dict[tuple[str, str, str], str] = field(default_factory=dict)  # of (operator, source, axis) that its statements fold


class Values(ABC):
    """Buffers, tensors and open loops (`scopes`, the tile first), and a name for every node that has been emitted."""

    def __init__(self, k: Kernel, s: Schedule, joined: bool = True, short: bool = False) -> None:
        self.k, self.s, self.short = k, s, short
        self.values = tuple(st.value for st in k.stores)
        self.free = free_axes(self.values)
        bound = {a.name: a for v in self.values for a in bound_axes(v)}
        self.extent: dict[str, Dim] = {a.name: a.extent for a in k.axes} | {n: a.extent for n, a in bound.items()}
        self.tile = {n: self._tile(n) for n in self.extent}
        self.looped = {n for n, t in self.tile.items() if t is not None}
        self.reduced = set(bound)
        self.scans = [e for e in postorder(*self.values) if isinstance(e, Scan)]
        self.scanned = {e.axis for e in self.scans}
        self.grid = [a.name for a in k.axes if a.name in self.looped and a.name not in self.reduced | self.scanned]
        self.types = {a.name: a for a in (*k.inputs, *k.outputs)}
        self.bufs: dict[str, Buf] = {}
        self.tensors: dict[tuple[object, ...], Tensor] = {}
        self.names: set[str] = {a.name for a in (*k.inputs, *k.outputs)} | set(self.extent)
        self.scopes = [Scope(frozenset(self.grid))]
        self.uses: dict[int, int] = {}
        self.made: list[Expr] = []  # kept alive: nodes are known by identity
        for x in (*self.values, *(a for e in postorder(*self.values) for a in e.args)):  # a store uses its value too
            self.uses[id(x)] = self.uses.get(id(x), 0) + 1
        self.heavy = [e for e in postorder(*self.values) if isinstance(e, (Reduce, Contract))]
        self.sums = {id(e): pair for e in postorder(*self.values) if joined and (pair := self._added(e)) is not None}
        self.onto = {id(b): a for a, b in self.sums.values()}  # products that go on in another one's accumulator
        self.accumulator: dict[int, str] = {}
        self.gathered = {e.tensor for e in postorder(*self.values) if isinstance(e, Gather)}  # their views have the plain names

    def _tile(self, axis: str) -> int | None:
        """The tile of a looped axis, None for a whole one."""
        e, t = self.extent[axis], dict(self.s.tile).get(axis)
        return None if t is None or (isinstance(e, int) and t >= e) else t

    def _added(self, e: Expr) -> tuple[Contract, Contract] | None:
        """The two products that a map of floats adds, if nothing else uses them: one accumulator takes both, without the rounding
        in between (excess precision on chip)."""
        if not (isinstance(e, Map) and e.fn == "add" and e.dtype.is_float):
            return None
        found = []
        for x in e.args:
            while isinstance(x, Map) and x.fn == "cast" and x.dtype.is_float and self.uses[id(x)] == 1:
                x = x.args[0]
            if not isinstance(x, Contract) or self.uses[id(x)] != 1 or self.free[id(x)] != self.free[id(e)]:
                return None
            found.append(x)
        a, b = found
        return (a, b) if a is not b and a.dtype == b.dtype else None

    @abstractmethod
    def reduction(self, e: Reduce | Contract) -> str:
        """The name of a reduction's or a contraction's result, made at the node's place."""

    # ---- places
    def scope_for(self, axes: frozenset[str] | set[str]) -> Scope:
        """The innermost open loop that binds one of the axes, else the tile."""
        for sc in reversed(self.scopes[1:]):
            if sc.axes & axes:
                return sc
        return self.scopes[0]

    def ordered(self, axes: frozenset[str] | set[str]) -> tuple[str, ...]:
        return tuple(a for a in self.extent if a in axes)

    def fresh(self, hint: str) -> str:
        name, n = hint, 1
        while name in self.names:
            n += 1
            name = f"{hint}{n}"
        self.names.add(name)
        return name

    def put(
        self,
        op: str,
        hint: str,
        dtype: DType,
        axes: Sequence[str],
        scope: str = "fragment",
        at: Scope | None = None,
        **kw: object,
    ) -> str:
        """A new value made by one statement."""
        name = self.fresh(hint)
        self.bufs[name] = Buf(name, dtype, tuple(axes), scope)
        (at or self.scope_for(set(axes))).body.append(Stmt(op, name, **kw))  # type: ignore[arg-type]
        return name

    # ---- values
    def emit(self, e: Expr, scope: str = "fragment") -> str:
        """The name of the on-chip value of a node."""
        axes = self.free[id(e)]
        sc = self.scope_for(axes)
        key = (id(e), scope if isinstance(e, Load) else "")
        for s in (sc, *self.scopes):
            if key in s.memo:
                return s.memo[key]
        if isinstance(e, Load):
            name = self.copy(e, scope, sc)
        elif isinstance(e, (Reduce, Contract)):
            name = self.reduction(e)
        elif isinstance(e, Scan):
            name = self.scan(e)
        else:
            expr = self.expression(e)
            name = self.put(
                "map", self.hint(e), e.dtype, self.ordered(axes), at=self.scope_for(axes), srcs=values_of(expr), expr=expr
            )
        self.scope_for(axes).memo[key] = name
        return name

    def scan(self, e: Scan) -> str:
        """The name of a scan's result. Where a tile has a part of its axis, the loop over it carries what the turns before came to."""
        axes = self.ordered(self.free[id(e)])
        carried: tuple[str, ...] = ()
        if e.axis in self.looped:
            outer = tuple(a for a in axes if a != e.axis)
            carried = (self.put("fill", "carried", e.dtype, outer, at=self.scopes[0], expr=neutral(e.fn, e.dtype)),)
        source = self.emit(e.operand)
        return self.put("scan", "s", e.dtype, axes, srcs=(source, *carried), expr=e.fn, axis="-" * e.reverse + e.axis)

    def backwards(self, axes: Sequence[str]) -> bool:
        """Whether the loop over a scanned axis begins at its end. Raises UnsupportedOp where two scans differ."""
        ways = {e.reverse for e in self.scans if e.axis in axes}
        if len(ways) > 1 or (ways and len(axes) > 1):
            raise UnsupportedOp(f"scans along {', '.join(axes)} that do not go one way", where=f"kernel {self.k.name}",
                                hint="leave the axis out of the tile")  # fmt: skip
        return True in ways

    def know(self, e: Expr) -> None:
        """An expression that is not part of the kernel's body as it came."""
        self.made.append(e)
        self.free |= free_axes((e,))
        for x in postorder(e):
            self.uses.setdefault(id(x), 1)

    def hint(self, e: Expr) -> str:
        return f"{e.fn}_t" if isinstance(e, Map) else "v"

    def expression(self, e: Expr) -> Expr:
        """The map of a node over on-chip values; constants, indices and masks are part of it."""

        def operand(x: Expr) -> Expr:
            if isinstance(x, (Const, Index, Inside)):
                return x
            if _of_indices(x):
                return x  # cheaper made again than held
            if isinstance(x, Map) and self.uses[id(x)] == 1 and self.free[id(x)] == self.free[id(e)]:
                return self.expression(x)  # used here only and at the same points: part of this map
            return Value(x.dtype, self.emit(x))

        if isinstance(e, (Const, Index, Inside)):
            return e
        if id(e) in self.sums:
            first, second = self.sums[id(e)]
            self.emit(first)
            acc = Value(first.dtype, self.emit(second))
            return acc if acc.dtype == e.dtype else Map(e.dtype, "cast", (acc,))
        if isinstance(e, Gather):
            self.table(str(e.tensor))
        return e.with_args(tuple(operand(a) for a in e.args))

    def table(self, name: str) -> None:
        """A tensor that is read by value: the view is the buffer itself."""
        t = self.types[name]
        axes = tuple(f"{name}_{d}" for d in range(t.type.rank))
        self.tensors.setdefault(
            (name,),
            Tensor(name, t.type.dtype, axes, t.type.shape, name, t.type.shape, tuple(aff(a) for a in axes), constant=t.constant),
        )
        for a, d in zip(axes, t.type.shape):
            self.extent.setdefault(a, d)
            self.tile.setdefault(a, None)

    def copy(self, e: Load, scope: str, sc: Scope) -> str:
        axes = self.ordered(self.free[id(e)])
        key = (e.tensor, e.index, e.guard, e.fill)
        if key not in self.tensors:
            t = self.types[e.tensor]
            plain = not any(v.buffer == e.tensor for v in self.tensors.values()) and e.tensor not in self.gathered
            name = e.tensor if plain else self.fresh(f"{e.tensor}_v")
            shape, index = dense(t.type.shape, e.index)
            self.tensors[key] = Tensor(
                name,
                t.type.dtype,
                axes,
                tuple(self.extent[a] for a in axes),
                e.tensor,
                shape,
                index,
                e.guard,
                e.fill,
                t.constant,
            )
        view = self.tensors[key]
        return self.put("copy", f"{view.name}_t", view.dtype, axes, scope, sc, srcs=(view.name,))

    def key_axes(self, e: Reduce) -> frozenset[str]:
        return self.free[id(e.operands[0])] - {a.name for a in e.axes}

    def state_dtype(self, e: Reduce) -> DType:
        return e.operands[0].dtype if MONOIDS[e.monoid].pick else e.dtype

    def pick_dtype(self, e: Reduce, lift: str) -> DType:
        """Type in which the place of a winner is carried: 32 bits where each one, those of a tile that sticks out included, is far from
        the largest number, which stands for no element."""
        x = e.operands[MONOIDS[e.monoid].operands.index(lift)]
        if not self.short or not isinstance(x, Index) or not all(isinstance(self.extent.get(n), int) for n in x.index.names()):
            return I64
        low, high = x.index.range({n: 2 * self.extent[n] for n in x.index.names()})  # type: ignore[misc, operator]
        return I32 if low >= 0 and high < 2**30 else I64

    def tails(self, axes: Sequence[Axis], mentioned: Container[str]) -> list[Axis]:
        """The looped axes of a value's past whose end a tile can stick out."""
        whole = lambda a: isinstance(a.extent, int) and a.extent % (self.tile[a.name] or 1) == 0
        return [a for a in axes if a.name in self.looped and a.name in mentioned and not whole(a)]

    def masked(self, value: str, dtype: DType, axes: Sequence[Axis], outside: object) -> str:
        """where(inside the extents of the looped axes, value, outside), where a tile can stick out."""
        tails = self.tails(axes, self.bufs[value].axes)
        if not tails:
            return value
        end = lambda d: aff(d.name if isinstance(d, Sym) else d)
        inside = Inside(BOOL, tuple(end(a.extent) - 1 - a.name for a in tails))
        expr = Map(dtype, "where", (inside, Value(dtype, value), Const(dtype, outside)))  # type: ignore[arg-type]
        axes_ = self.bufs[value].axes
        return self.put("map", f"{value}_in", dtype, axes_, at=self.scope_for(set(axes_)), srcs=(value,), expr=expr)


def _of_indices(e: Expr) -> bool:
    """A cheap expression of indices and constants alone."""
    return all(isinstance(x, (Const, Index, Inside)) or (isinstance(x, Map) and x.fn in _CHEAP) for x in postorder(e))


def values_of(e: Expr) -> tuple[str, ...]:
    return tuple(dict.fromkeys(x.name for x in postorder(e) if isinstance(x, Value)))


def with_values(e: Expr, by: Mapping[Expr, Expr]) -> Expr:
    """The expression with other ones in the place of these parts, the largest first."""
    return by[e] if e in by else e.with_args(tuple(with_values(a, by) for a in e.args)) if e.args else e
