"""A schedule's time: what its tiles move and compute, through the roofline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from autocomp.cost.blocks import block_time, whole_lines
from autocomp.cost.chip import Chip
from autocomp.cost.engines import engine_time
from autocomp.cost.roles import Roles, roles_of
from autocomp.cost.roofline import time_of
from autocomp.cost.work import Cost, Work
from autocomp.ir.body import Contract, Load, Map, Reduce, bound_axes, free_axes, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.monoid_terms import element_work
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.scalar import SCALAR
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint


@dataclass(frozen=True)
class Demand:
    """What does not depend on the schedule. `operands`: bytes of each input."""

    roles: Roles
    work: Work
    operands: tuple[tuple[str, float], ...]


def demand_of(k: Kernel) -> Demand:
    """Operations and compulsory bytes of a kernel."""
    roles = roles_of(k)
    domain = prod(dim_hint(a.extent) for a in k.axes)
    extent = {a.name: dim_hint(a.extent) for a in (*k.axes, *(a for st in k.stores for a in bound_axes(st.value)))}
    vector = special = matrix = 0.0
    dtype = "f32"
    nodes = list(postorder(*(s.value for s in k.stores)))
    free = free_axes(tuple(s.value for s in k.stores))
    for e in nodes:
        if isinstance(e, Map):  # once a point of the axes that it mentions: a row's statistic once a row
            points = prod(extent[n] for n in free[id(e)] if n in extent)
            unit = SCALAR[e.fn].unit
            vector, special = vector + points * (unit == "vector"), special + points * (unit == "special")
        elif isinstance(e, Contract):
            matrix += 2.0 * prod(extent[n] for n in free[id(e)] if n in extent) * prod(dim_hint(a.extent) for a in e.axes)
            dtype = e.a.dtype.name
        elif isinstance(e, Reduce):
            folds = prod(dim_hint(a.extent) for a in e.axes)
            if len(e.operands) > 1 and roles.form == "online":
                matrix += 2.0 * domain * folds
                weights = prod(extent[n] for n in free[id(e.operands[0])] if n in extent)
                monoid = MONOIDS[e.monoid]
                special += weights * any("exp(" in rebase for *_, rebase in monoid.modules)
                vector += weights * (len(monoid.base) + len(monoid.modules) + 1)  # folds, the exponent's difference, sums, rounding
            else:
                points = folds * prod(extent[n] for n in free[id(e)] if n in extent)
                units = [SCALAR[fn].unit for fn in element_work(MONOIDS[e.monoid], e.part)]
                vector, special = vector + points * units.count("vector"), special + points * units.count("special")
    read = sum(float(a.type.bytes) for a in k.inputs)
    written = sum(float(a.type.bytes) for a in k.outputs)
    w = Work(
        read=read,
        written=written,
        vector=vector,
        special=special,
        matrix=matrix,
        matrix_dtype=dtype,
        m=roles.extent("rows") if matrix else 0,
        n=roles.extent("cols") if matrix else 0,
        k=roles.extent("depth") if matrix else 0,
    )
    return Demand(roles, w, tuple((a.name, float(a.type.bytes)) for a in k.inputs))


def estimate(k: Kernel, s: Schedule, chip: Chip, demand: Demand | None = None) -> Cost:
    """Seconds of kernel `k` under schedule `s`.

    Operands that do not stay in the cache nearest to a core are fetched again by every tile that needs them; a tile has a
    fixed price (loop control, scheduling); too few tiles leave cores idle.
    """
    d = demand or demand_of(k)
    tile = dict(s.tile)
    grid = [a for a in k.axes if tile.get(a.name, dim_hint(a.extent)) < dim_hint(a.extent)]
    tiles = prod(-(-dim_hint(a.extent) // tile[a.name]) for a in grid)
    work = replace(d.work, tiles=max(1, tiles))
    if any(m.name == "shared" for m in chip.memories):
        return block_time(k, s, chip, d.roles, work)
    if d.roles.form in ("contract", "online") and any(m.name == "l0c" for m in chip.memories):
        return engine_time(s, chip, d.roles, work, max((a.type.dtype.bytes for a in k.inputs), default=2))
    if d.roles.form in ("contract", "online"):
        work = replace(work, read=d.work.read + _refetched(k, d, tile, chip), matrix_eff=_edges(d.roles, tile, chip))
    if any(m.name == "l0c" for m in chip.memories):  # copies of short rows move whole lines
        line = chip.memories[0].line
        work = replace(work, read=work.read + sum(
            a.type.bytes * (whole_lines(k, a.name, tile, a.type.dtype.bytes, line) - 1) for a in k.inputs))  # fmt: skip
    cost = time_of(work, chip)
    overhead = chip.limits.get("tile", 0.0) * -(-max(1, tiles) // chip.cores) + _prepared(k, d.roles, tile, chip)
    return Cost(cost.seconds + overhead, cost.bound, (*cost.parts, ("tiles", overhead)))


def _prepared(k: Kernel, r: Roles, tile: dict[str, int], chip: Chip) -> float:
    """Seconds in which tiles lay factors out for the vector unit (`limits.pack` an element; a constant is laid out at load) and
    carry the statistics of rows from step to step of an online reduction (`limits.row` a row and step)."""
    if r.form not in ("contract", "online"):
        return 0.0
    steps = lambda axes: prod(-(-dim_hint(a.extent) // tile.get(a.name, dim_hint(a.extent))) for a in axes)
    whole = lambda axes: prod(dim_hint(a.extent) for a in axes)
    if r.form == "online":
        keys = whole(r.depth)
        inner = prod(dim_hint(a.extent) for axes in r.depths for a in axes if a not in r.depth)
        packed = whole(r.batch) * keys * (inner + whole(r.cols)) * steps(r.rows)
        carried = whole(r.batch) * whole(r.rows) * steps(r.depth)
        return (packed * chip.limits.get("pack", 0.0) + carried * chip.limits.get("row", 0.0)) / chip.cores
    near = [a.name for a in k.axes][-1]
    side, other = (r.cols, r.rows) if near in {a.name for a in r.cols} else (r.rows, r.cols)
    e = next((e for e in postorder(*(s.value for s in k.stores)) if isinstance(e, Contract)), None)
    if e is None:
        return 0.0
    factor = e.b if side is r.cols else e.a
    constant = {a.name for a in k.inputs if a.constant}
    if all(x.tensor in constant for x in postorder(factor) if isinstance(x, Load)):
        return 0.0
    return whole(r.batch) * whole(r.depth) * whole(side) * steps(other) * chip.limits.get("pack", 0.0) / chip.cores


def _refetched(k: Kernel, d: Demand, tile: dict[str, int], chip: Chip) -> float:
    """Bytes that tiles fetch beyond the first time: an operand without an axis of the grid is read once a step of it."""
    near = chip.on_chip / 2
    total = 0.0
    free = {a.name for a in k.axes}
    for a in k.inputs:
        mentioned = {
            n
            for e in postorder(*(s.value for s in k.stores))
            if isinstance(e, Load) and e.tensor == a.name
            for i in e.index
            for n in i.names()
        }
        again = prod(-(-dim_hint(x.extent) // tile.get(x.name, dim_hint(x.extent))) for x in k.axes if x.name in free - mentioned)
        if again > 1 and a.type.bytes > near:
            total += a.type.bytes * (again - 1)
    return total


def _edges(r: Roles, tile: dict[str, int], chip: Chip) -> float:
    """Share of the micro-tiles' lanes that tails leave full."""
    lanes = chip.granule[1]
    eff = 1.0
    for axes, grain in ((r.cols, lanes), (r.rows, 4)):
        size = prod(min(tile.get(a.name, dim_hint(a.extent)), dim_hint(a.extent)) for a in axes)
        if size:
            eff *= size / (-(-size // grain) * grain)
    return max(eff, 0.05)
