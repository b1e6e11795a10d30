"""Kernel + Schedule -> TileProgram, mechanically; one construction for every kernel.

An axis is *grid* (tiled, in the output), *looped* (tiled, reduced or revisited) or *whole* (inside the tile). A node is
emitted in the innermost open loop that binds one of its axes, so hoisting is no pass. A reduction over a looped axis opens a
loop around `fill identity .. step`; over a whole axis it is the step alone. A reduction's step comes from its monoid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import (
    Axis,
    Const,
    Contract,
    Expr,
    Gather,
    Index,
    Inside,
    Load,
    Map,
    Reduce,
    bound_axes,
    free_axes,
    postorder,
)
from autocomp.ir.kernel import Kernel
from autocomp.ir.masks import end_of
from autocomp.ir.monoids import MONOIDS, start
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import BOOL, I64, Dim, DType, Sym
from autocomp.tile.monoid_step import BIG, MonoidStep, same_fold, term, values_of
from autocomp.tile.program import Buf, Loop, Stmt, Tensor, TileProgram, Value, dense
from autocomp.tile.spread import spread_operands
from autocomp.tile.unify import unify_axes


@dataclass
class Scope:
    """An open loop (or the tile itself): the looped axes it binds, its statements, and which values are made in it."""

    axes: frozenset[str]
    body: list[Loop | Stmt] = field(default_factory=list)
    memo: dict[tuple[int, str], str] = field(default_factory=dict)
    folds: dict[tuple[str, str, str], str] = field(default_factory=dict)  # of (operator, source, axis) that its statements fold


def derive(kernel: Kernel, schedule: Schedule) -> TileProgram:
    """The tile program of a kernel. Raises UnsupportedOp for opaque kernels and recurrences."""
    if kernel.opaque or kernel.kind in "XR":
        raise UnsupportedOp(
            f"'{kernel.opaque or kernel.name}' has no tile program", where=kernel.name, hint="it runs through its reference"
        )
    if schedule.split is not None:
        why = f"the reduction over {schedule.split[0]} in parts is two kernels"
        raise UnsupportedOp(why, where=kernel.name, hint="derive each of ir.parts.pieces")
    return Deriver(spread_operands(unify_axes(kernel)), schedule).program()


_CHEAP = {"ge", "gt", "le", "lt", "eq", "ne", "and", "or", "not", "add", "sub", "mul", "neg", "min", "max", "where", "cast"}


class Deriver:
    def __init__(self, k: Kernel, s: Schedule) -> None:
        self.k, self.s = k, s
        self.values = tuple(st.value for st in k.stores)
        self.free = free_axes(self.values)
        bound = {a.name: a for v in self.values for a in bound_axes(v)}
        self.extent: dict[str, Dim] = {a.name: a.extent for a in k.axes} | {n: a.extent for n, a in bound.items()}
        self.tile = {n: self._tile(n) for n in self.extent}
        self.looped = {n for n, t in self.tile.items() if t is not None}
        self.reduced = set(bound)
        self.grid = [a.name for a in k.axes if a.name in self.looped and a.name not in self.reduced]
        self.types = {a.name: a for a in (*k.inputs, *k.outputs)}
        self.bufs: dict[str, Buf] = {}
        self.tensors: dict[tuple[object, ...], Tensor] = {}
        self.names: set[str] = {a.name for a in (*k.inputs, *k.outputs)} | set(self.extent)
        self.scopes = [Scope(frozenset(self.grid))]
        self.uses: dict[int, int] = {}
        self.made: list[Expr] = []  # kept alive: nodes are known by identity
        for e in postorder(*self.values):
            for a in e.args:
                self.uses[id(a)] = self.uses.get(id(a), 0) + 1
        self.heavy = [e for e in postorder(*self.values) if isinstance(e, (Reduce, Contract))]
        self.sums = {id(e): pair for e in postorder(*self.values) if (pair := self._added(e)) is not None}
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

    # ---- the program
    def program(self) -> TileProgram:
        again = [a.name for a in self.k.axes if a.name in self.looped and a.name in self.reduced]
        if again:  # a row that does not fit: its statistics first, then one more loop over it
            for e in self.heavy:
                if self.loops_of(e):
                    self.emit(e)
            self.scopes.append(Scope(frozenset(again)))
        outputs = []
        for st in self.k.stores:
            value = self.emit(st.value)
            t = self.types[st.tensor].type
            axes = tuple(a.name for a in self.k.axes if any(a.name in i.names() for i in st.index))
            if self.bufs[value].dtype != t.dtype or set(self.bufs[value].axes) != set(axes):  # other axes: broadcast along the rest
                value = self.put(
                    "map", "y", t.dtype, axes, srcs=(value,), expr=Map(t.dtype, "cast", (Value(self.bufs[value].dtype, value),))
                )
            shape, index = dense(t.shape, st.index)
            outputs.append(Tensor(st.tensor, t.dtype, axes, tuple(self.extent[a] for a in axes), st.tensor, shape, index))
            self.scopes[-1].body.append(Stmt("store", st.tensor, (value,)))
        if again:
            last = self.scopes.pop()
            self.scopes[-1].body.append(self.loop(again, last.body))
        body = tuple(self.scopes[0].body)
        if self.grid:
            order = [a for a in self.s.order if a in self.grid]
            axes = tuple(order + [a for a in self.grid if a not in order])
            body = (Loop("grid", axes, body, self.grid_options()),)
        tile = tuple((a, t) for a, t in self.tile.items() if t is not None)
        return TileProgram(
            self.k.name,
            tuple(self.tensors.values()),
            tuple(outputs),
            tuple(self.extent.items()),
            tile,
            tuple(self.bufs.values()),
            body,
        )

    def grid_options(self) -> tuple[tuple[str, str], ...]:
        opts = []
        if self.s.grouped:
            opts.append(("order", f"grouped({self.s.grouped})"))
        if self.s.cluster > 1:
            opts.append(("cluster", str(self.s.cluster)))
        if self.s.persistent:
            opts.append(("persistent", "yes"))
        if self.s.stream:
            opts.append(("stream", "yes"))
        return tuple(opts)

    def loop(self, axes: Sequence[str], body: Sequence[Loop | Stmt], until: str = "") -> Loop:
        stages = (("stages", str(self.s.stages)),) if self.s.stages > 1 else ()
        ends = (("until", until),) if until else ()
        late = (("overlap", str(self.s.overlap)),) if self.s.overlap else ()
        parts = (("parts", str(self.s.deep)),) if self.s.deep > 1 else ()
        return Loop("pipelined" if stages else "serial", tuple(axes), tuple(body), stages + parts + late + ends)

    def until(self, e: Reduce | Contract, loops: Sequence[str]) -> str:
        """"i+c" where everything past index i + c of the loop's axis is the reduction's identity by a mask over indices."""
        end = end_of(e, loops[0], self.extent) if len(loops) == 1 else None
        return f"{end[0]}+{end[1]}" if end else ""

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
        else:
            expr = self.expression(e)
            name = self.put(
                "map", self.hint(e), e.dtype, self.ordered(axes), at=self.scope_for(axes), srcs=values_of(expr), expr=expr
            )
        self.scope_for(axes).memo[key] = name
        return name

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
            if (
                isinstance(x, Map)
                and self.uses[id(x)] == 1
                and self.free[id(x)] == self.free[id(e)]
                and not any(x is v for v in self.values)
            ):
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

    # ---- reductions
    def loops_of(self, e: Reduce | Contract) -> list[str]:
        return [a.name for a in e.axes if a.name in self.looped]

    def level(self, e: Expr, axes: frozenset[str]) -> int:
        """How many reductions over one of `axes` stand below a node, on its deepest path."""
        own = isinstance(e, (Reduce, Contract)) and bool({a.name for a in e.axes} & axes)
        return int(own) + max((self.level(a, axes) for a in e.args), default=0)

    def reduction(self, e: Reduce | Contract) -> str:
        loops = self.loops_of(e)
        home = self.scope_for(self.free[id(e)])
        if not loops:
            st = self.step(e, {}, False)
            for x in self.heavy:  # parts of one state are made by one step
                if x is not e and same_fold(x, e):
                    home.memo[(id(x), "")] = self.finish(x, st)
            return self.finish(e, st)
        axes = frozenset(loops)
        peers: list[Reduce | Contract] = []
        for x in self.heavy:  # parts of one state share their loop, as do independent reductions of one depth
            if (
                frozenset(self.loops_of(x)) == axes
                and self.level(x, axes) == self.level(e, axes)
                and self.scope_for(self.free[id(x)]) is home
            ):
                if not any(same_fold(x, p) for p in peers):
                    peers.append(x)
        if not any(same_fold(e, p) for p in peers):
            peers.append(e)
        states = [self.begin(p) for p in peers]
        for p in peers:  # what does not vary with the loop is made before it
            for a in p.args:
                if not self.free[id(a)] & axes and not isinstance(a, (Const, Index, Inside)):
                    self.emit(a)
        self.scopes.append(Scope(axes))
        for p, st in zip(peers, states):
            self.step(p, st, True)
        inner = self.scopes.pop()
        until = self.until(e, loops) if len(peers) == 1 else ""
        home.body.append(self.loop([a for a in self.extent if a in axes], inner.body, until))
        result = ""
        for p, st in zip(peers, states):
            for x in self.heavy:
                if same_fold(x, p):
                    name = self.finish(x, st)
                    home.memo[(id(x), "")] = name
                    result = name if x is e else result
        return result

    def begin(self, e: Reduce | Contract) -> dict[str, str]:
        """States at the identity, in the enclosing scope."""
        if isinstance(e, Contract):
            before = self.onto.get(id(e))
            if before is None or id(before) not in self.accumulator:
                axes = self.ordered(self.free[id(e)])
                self.accumulator[id(e)] = self.put("fill", "acc", e.dtype, axes, expr=0.0 if e.dtype.is_float else 0)
                return {"acc": self.accumulator[id(e)]}
            return {"acc": self.accumulator[id(before)]}
        m = MONOIDS[e.monoid]
        key = self.ordered(self.key_axes(e))
        st = {s: self.put("fill", s, self.state_dtype(e), key, expr=start(m, op, self.state_dtype(e))) for s, op, _ in m.base}
        for s, lift, _ in m.modules:
            st[s] = self.put(
                "fill", s, self.state_dtype(e), self.ordered(self.free[id(e)]) if lift in m.operands[1:] else key, expr=0.0
            )
        for s, _ in m.pick:
            st[s] = self.put("fill", s, I64, key, expr=BIG)
        return st

    def key_axes(self, e: Reduce) -> frozenset[str]:
        return self.free[id(e.operands[0])] - {a.name for a in e.axes}

    def state_dtype(self, e: Reduce) -> DType:
        return e.operands[0].dtype if MONOIDS[e.monoid].pick else e.dtype

    def step(self, e: Reduce | Contract, st: dict[str, str], carried: bool) -> dict[str, str]:
        if isinstance(e, Contract):
            a, b = self.factor(e.a, e), self.factor(e.b, e)
            if not carried:
                st = self.begin(e)
            self.scope_for(self.free[id(e.a)] | self.free[id(e.b)]).body.append(Stmt("mma", st["acc"], (a, b), acc=True))
            return st
        return MonoidStep(self, e, carried, st).run()

    def factor(self, e: Expr, c: Contract) -> str:
        """An operand of a contraction: a bare load goes to the block; a map of loads is masked at tails (f(0) need not be 0), as is
        one that is not zero outside its guard."""
        if isinstance(e, Load) and not (e.guard and e.fill):
            return self.emit(e, "block")
        return self.masked(self.emit(e), e.dtype, c.axes, 0.0 if e.dtype.is_float else 0)

    def masked(self, value: str, dtype: DType, axes: Sequence[Axis], outside: object) -> str:
        """where(inside the extents of the looped axes, value, outside), where a tile can stick out."""
        tails = [
            a
            for a in axes
            if a.name in self.looped
            and a.name in self.bufs[value].axes
            and not (isinstance(a.extent, int) and a.extent % (self.tile[a.name] or 1) == 0)
        ]
        if not tails:
            return value
        end = lambda d: aff(d.name if isinstance(d, Sym) else d)
        inside = Inside(BOOL, tuple(end(a.extent) - 1 - a.name for a in tails))
        expr = Map(dtype, "where", (inside, Value(dtype, value), Const(dtype, outside)))  # type: ignore[arg-type]
        axes_ = self.bufs[value].axes
        return self.put("map", f"{value}_in", dtype, axes_, at=self.scope_for(set(axes_)), srcs=(value,), expr=expr)

    def finish(self, e: Reduce | Contract, st: Mapping[str, str]) -> str:
        if isinstance(e, Contract):
            return st["acc"]
        m = MONOIDS[e.monoid]
        part = e.part or m.finish
        if part in st:
            return st[part]
        expr = term(part, {s: Value(self.bufs[n].dtype, n) for s, n in st.items()}, e.dtype)
        return self.put("map", "r", e.dtype, self.ordered(self.free[id(e)]), srcs=values_of(expr), expr=expr)


def _of_indices(e: Expr) -> bool:
    """A cheap expression of indices and constants alone."""
    return all(isinstance(x, (Const, Index, Inside)) or (isinstance(x, Map) and x.fn in _CHEAP) for x in postorder(e))
