"""Kernel + Schedule -> TileProgram, mechanically; one construction for every kernel.

An axis is *grid* (tiled, in the output), *looped* (tiled, reduced or revisited) or *whole* (inside the tile). A node is
emitted in the innermost open loop that binds one of its axes, so hoisting is no pass. A reduction over a looped axis opens a
loop around `fill identity .. step`; over a whole axis it is the step alone. A reduction's step comes from its monoid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import (
    Const,
    Contract,
    Expr,
    Index,
    Inside,
    Load,
    Map,
    Reduce,
    postorder,
)
from autocomp.ir.dead_steps import endings
from autocomp.ir.kernel import Kernel
from autocomp.ir.masks import end_of
from autocomp.ir.monoid_terms import term
from autocomp.ir.monoids import MONOIDS, start
from autocomp.ir.scans import as_scans
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import I32, I64
from autocomp.ir.wide_sums import WIDE_SUMS, with_wide_sums
from autocomp.loops.one_load import one_load
from autocomp.tile.monoid_step import MonoidStep, base_key, no_element, same_fold
from autocomp.tile.program import Loop, Stmt, Tensor, TileProgram, Value, dense
from autocomp.tile.spread import spread_operands
from autocomp.tile.tails import vanishes
from autocomp.tile.text import parse
from autocomp.tile.unify import unify_axes
from autocomp.tile.values import Scope, Values, values_of

READ = ("one_load", "skip_dead_steps", "thread_partials")  # directives that decide what a tile program is


def derive(kernel: Kernel, schedule: Schedule, joined: bool = True, short: bool = False) -> TileProgram:
    """The tile program of a kernel: its own where one was written by hand, else what the schedule makes of its body.

    `joined`: two products that are added go into one accumulator. `short`: places of largest elements are compared as 32-bit numbers
    where an axis allows it (threads of a GPU add, compare and exchange 64 bits in two steps and more). Raises UnsupportedOp for opaque
    kernels and recurrences."""
    if kernel.program:
        return parse(kernel.program)
    if kernel.opaque or kernel.kind in "XR":
        raise UnsupportedOp(
            f"'{kernel.opaque or kernel.name}' has no tile program", where=kernel.name, hint="it runs through its reference"
        )
    if schedule.split is not None:
        why = f"the reduction over {schedule.split[0]} in parts is two kernels"
        raise UnsupportedOp(why, where=kernel.name, hint="derive each of ir.parts.pieces")
    return _derived(kernel, _read_of(schedule), joined, short)


def _read_of(s: Schedule) -> Schedule:
    """A schedule without what a tile program does not depend on: many that are counted differ in threads alone."""
    return Schedule(s.tile, order=s.order, grouped=s.grouped, stages=s.stages, roles=s.roles, cluster=s.cluster,
                    cluster_split_k=s.cluster_split_k, persistent=s.persistent, stream_k=s.stream_k, scan=s.scan,
                    softmax_overlap=s.softmax_overlap, rescale_threshold=s.rescale_threshold,
                    instruction=s.instruction if s.instruction == WIDE_SUMS else "",
                    directives=tuple(d for d in s.directives if d in READ))  # fmt: skip


@lru_cache(maxsize=128)
def _derived(kernel: Kernel, schedule: Schedule, joined: bool, short: bool) -> TileProgram:
    kernel = as_scans(kernel) if schedule.scan else kernel
    kernel = with_wide_sums(kernel) if schedule.instruction == WIDE_SUMS else kernel
    single = schedule.roles == "single"  # the bulk engine copies boxes, which have one place
    chosen = one_load(kernel) if single and "one_load" in schedule.directives else kernel
    applied = () if chosen == kernel else ("one_load",)
    return replace(Deriver(spread_operands(unify_axes(chosen)), schedule, joined, short).program(), applied=applied)


class Deriver(Values):
    """The construction: stores, loops around reductions, and the steps inside them."""

    # ---- the program
    def program(self) -> TileProgram:
        again = [a.name for a in self.k.axes if a.name in self.looped and a.name in self.reduced | self.scanned]
        if again:  # a row that does not fit: its statistics first, then one more loop over it; a scan goes on in it from tile to tile
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
            outputs.append(Tensor(st.tensor, t.dtype, axes, tuple(self.extent[a] for a in axes), st.tensor, shape, index, st.guard))
            if torn := next((a for a in self.grid if a not in axes), ""):
                raise UnsupportedOp(f"{st.tensor} has no axis {torn}, along which blocks would each store it",
                                    where=f"kernel {self.k.name}", hint="leave the axis whole in the tile")  # fmt: skip
            self.scope_for(set(axes)).body.append(Stmt("store", st.tensor, (value,)))  # of a row's statistic once, in front of its chunks
        if again:
            last = self.scopes.pop()
            self.scopes[-1].body.append(self.loop(again, last.body, back=self.backwards(again)))
        body = tuple(self.scopes[0].body)
        if self.grid:
            order = [a for a in self.s.order or self.by_steps() if a in self.grid]
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

    def by_steps(self) -> list[str]:
        """Axes of the grid that decide how many steps a tile's products have: the outermost, so that blocks that stay have as many long
        tiles each, whatever their number (directive `skip_dead_steps`)."""
        if "skip_dead_steps" not in self.s.directives or self.s.roles != "warp_specialise":
            return []
        sizes = {a: e for a, e in self.extent.items() if isinstance(e, int) and self.tile.get(a) == 1}
        ends = endings(postorder(*(st.value for st in self.k.stores)), self.reduced, sizes)
        return [a for a in self.grid if any(a in g.names() for g in ends.values())]

    def grid_options(self) -> tuple[tuple[str, str], ...]:
        opts = []
        if self.s.grouped:
            opts.append(("order", f"grouped({self.s.grouped})"))
        if self.s.cluster > 1:
            opts.append(("cluster", str(self.s.cluster)))
        if self.s.persistent:
            opts.append(("persistent", "yes"))
        if self.s.stream_k:
            opts.append(("stream", "yes"))
        return tuple(opts)

    def loop(self, axes: Sequence[str], body: Sequence[Loop | Stmt], until: str = "", back: bool = False) -> Loop:
        stages = (("stages", str(self.s.stages)),) if self.s.stages > 1 else ()
        ends = (("until", until),) if until else ()
        late = (("overlap", str(self.s.softmax_overlap)),) if self.s.softmax_overlap else ()
        parts = (("parts", str(self.s.cluster_split_k)),) if self.s.cluster_split_k > 1 else ()
        way = (("from", "end"),) if back else ()
        return Loop("pipelined" if stages else "serial", tuple(axes), tuple(body), stages + parts + late + ends + way)

    def until(self, e: Reduce | Contract, loops: Sequence[str]) -> str:
        """"i+c" where everything past index i + c of the loop's axis is the reduction's identity by a mask over indices."""
        end = end_of(e, loops[0], self.extent) if len(loops) == 1 else None
        return f"{end[0]}+{end[1]}" if end else ""

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
            outer = [x for x in postorder(*p.args) if isinstance(x, (Reduce, Contract)) and self.free[id(x)] <= self.free[id(p)]]
            for a in (*outer, *p.args):
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
        dtype = self.state_dtype(e)
        st = {s: self.put("fill", s, dtype, base_key(self, e, lift), expr=start(m, op, dtype)) for s, op, lift in m.base}
        for s, lift, _ in m.modules:
            st[s] = self.put(
                "fill", s, self.state_dtype(e), self.ordered(self.free[id(e)]) if lift in m.operands[1:] else key, expr=0.0
            )
        for s, lift in m.pick:
            dtype = self.pick_dtype(e, lift)
            st[s] = self.put("fill", s, dtype, key, expr=no_element(dtype))
        return st

    def step(self, e: Reduce | Contract, st: dict[str, str], carried: bool) -> dict[str, str]:
        if isinstance(e, Contract):
            a, b = self.factor(e.a, e), self.factor(e.b, e)
            if not carried:
                st = self.begin(e)
            self.scope_for(self.free[id(e.a)] | self.free[id(e.b)]).body.append(Stmt("mma", st["acc"], (a, b), acc=True))
            return st
        return MonoidStep(self, e, carried, st).run()

    def factor(self, e: Expr, c: Contract) -> str:
        """An operand of a contraction: a bare load goes to the block; a map of loads is masked at tails unless it is zero there anyway,
        as is one that is not zero outside its guard."""
        if isinstance(e, Load) and not (e.guard and e.fill):
            return self.emit(e, "block")
        if vanishes(e, frozenset(a.name for a in self.tails(c.axes, self.free[id(e)]))):
            return self.emit(e)
        return self.masked(self.emit(e), e.dtype, c.axes, 0.0 if e.dtype.is_float else 0)

    def finish(self, e: Reduce | Contract, st: Mapping[str, str]) -> str:
        if isinstance(e, Contract):
            return st["acc"]
        m = MONOIDS[e.monoid]
        part = e.part or m.finish
        if part in st:
            name = st[part]
            if (narrow := self.bufs[name].dtype) != I32 or not m.pick or part not in [s for s, _ in m.pick]:
                return name
            wide = Map(I64, "cast", (Value(narrow, name),))
            return self.put("map", part, I64, self.bufs[name].axes, srcs=(name,), expr=wide)
        expr = term(part, {s: Value(self.bufs[n].dtype, n) for s, n in st.items()}, e.dtype)
        return self.put("map", "r", e.dtype, self.ordered(self.free[id(e)]), srcs=values_of(expr), expr=expr)
