"""A schedule's time: what its tiles move and compute, through the roofline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf, prod

from autocomp.cost.blocks import BlockModel
from autocomp.cost.chip import Chip
from autocomp.cost.cores import CoreModel
from autocomp.cost.demand import Demand, Operand, demand_of
from autocomp.cost.derived import constant
from autocomp.cost.engines import Rows, engine_time, vector_time
from autocomp.cost.floors import Floor
from autocomp.cost.instructions import NONE, Instructions, Joined, asked_again, instructions_of, joined_rows, lines_with_steps, with_pads
from autocomp.cost.pipes import places_time, row_ends, spilled
from autocomp.cost.roofline import time_of
from autocomp.cost.scalar import SCALAR, scalar_time
from autocomp.cost.tiles import copied, turns, whole_lines
from autocomp.cost.work import Cost
from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis
from autocomp.ir.kernel import Kernel
from autocomp.ir.masks import masked_sums, tiles_inside
from autocomp.ir.parts import Parts
from autocomp.ir.scans import as_statistic
from autocomp.ir.schedule import Schedule
from autocomp.loops.chosen_turns import chosen_turns
from autocomp.loops.one_load import one_load

CLIPPED = int(constant("npu_clipped"))  # vector instructions up to which a sum is a conversion and a bound, which its way out of L0C does


def estimate(k: Kernel, s: Schedule, chip: Chip, demand: Demand | None = None) -> Cost:
    """Seconds of kernel `k` under schedule `s`."""
    return pricer(demand or demand_of(k), chip, k)(s)


@dataclass(frozen=True)
class Pricer:
    """Schedule -> its time. `least`: the seconds that it has at least, at a fraction of its cost, where something is known of them."""

    time: Callable[[Schedule], Cost]
    least: Callable[[Schedule], float] | None = None

    def __call__(self, s: Schedule) -> Cost:
        return self.time(s)


def pricer(d: Demand, chip: Chip, kernel: Kernel | None = None) -> Pricer:
    """Schedule -> its time, for many schedules of one kernel. `kernel`: where schedules may split its reduction."""
    own = _pricer(d, chip)
    if kernel is None:
        return own
    whole, least = own.time, own.least
    if d.roles.scan is not None:
        fold, scan = whole, _scan_pricer(demand_of(as_statistic(kernel)), chip)
        whole = lambda s: scan(s) if s.scan else fold(s)
    if (chosen := one_load(kernel)) != kernel:
        apart, once = whole, _pricer(demand_of(chosen), chip)
        whole = lambda s: once(s) if "one_load" in s.directives else apart(s)
    short, turns = chosen_turns(kernel)
    if turns:
        less = demand_of(short)
        every, few = whole, _pricer(replace(less, work=less.work._replace(read=d.work.read)), chip)
        whole = lambda s: few(s) if "skip_neutral" in s.directives and dict(s.tile).get(turns) == 1 else every(s)
    if guards := masked_sums(kernel):
        all_tiles, some = whole, _masked_pricer(d, chip, guards)
        whole = lambda s: some(s) if "skip_masked_sums" in s.directives else all_tiles(s)
    split = _Split(kernel, chip)
    time = lambda s: split.time(s) if s.split else whole(s)
    if least is None or whole is not own.time:  # schedules with some directives are priced as another kernel's
        return Pricer(time)
    return Pricer(time, lambda s: split.least(s) if s.split else least(s))


def _masked_pricer(d: Demand, chip: Chip, guards: tuple[Aff, ...]) -> Callable[[Schedule], Cost]:
    """Where sums are made in some tiles alone: as many rows of tiles as they would fill, for the same bytes."""
    rows = next((a for a in (*d.roles.rows, *d.roles.cols) if any(a.name in g.names() for g in guards)), None)
    if rows is None:
        return _pricer(d, chip)
    known: dict[int, Callable[[Schedule], Cost]] = {}

    def time(s: Schedule) -> Cost:
        tile, whole = dict(s.tile), d.extent[rows.name]
        step = min(tile.get(rows.name, whole), whole)
        few = min(whole, max(1, round(tiles_inside(guards, d.extent, tile) * -(-whole // step))) * step)
        if few not in known:
            less = lambda axes: tuple(Axis(a.name, few) if a.name == rows.name else a for a in axes)
            roles = replace(d.roles, rows=less(d.roles.rows), cols=less(d.roles.cols))
            share = few / whole
            work = d.work._replace(matrix=d.work.matrix * share, vector=d.work.vector * share, m=round(d.work.m * share))
            known[few] = _pricer(replace(d, roles=roles, work=work, extent={**d.extent, rows.name: few},
                                         products=tuple((n * share, axes) for n, axes in d.products)), chip)  # fmt: skip
        return known[few](s)

    return time


def _scan_pricer(d: Demand, chip: Chip) -> Callable[[Schedule], Cost]:
    """Of a kernel's statistic (`ir.scans.as_statistic`), which is cut as its results are: the loop over them is the only one."""
    price = _pricer(replace(d, carries=True), chip)
    if len(d.roles.depth) != 1 or len(d.roles.cols) != 1:  # as long as another axis of the results, or as none that is read
        return price
    ((folded,), (axis,)) = d.roles.depth, d.roles.cols

    def time(s: Schedule) -> Cost:
        cut = dict(s.tile).get(axis.name)
        return price(s if cut is None else s.tiled((*s.tile, (folded.name, cut))))

    return time


class _Split:
    """Seconds of a kernel in two pieces: the states of the parts, then their combination (without a schedule: its roofline and
    the start of a block)."""

    def __init__(self, kernel: Kernel, chip: Chip) -> None:
        self.chip, self._parts = chip, Parts(kernel)
        self._first: dict[str, Pricer] = {}
        self._join: dict[str, Demand] = {}
        self._last: dict[tuple[str, Schedule], Cost] = {}
        self._alone: dict[str, Cost] = {}  # of combinations without a schedule

    def time(self, s: Schedule) -> Cost:
        """The sum; endless where the reduction has no such parts."""
        try:
            part, mine, join = self._parts.first(s)
        except UnsupportedOp:
            return Cost(inf, "parts", ())
        name = part.signature
        first = self._of(part).time(mine)
        if name not in self._join:
            self._join[name] = demand_of(join)
        if not s.join:
            if name not in self._alone:
                self._alone[name] = time_of(self._join[name].work, self.chip)
            join_cost = self._alone[name]
        else:
            _, (_, last) = self._parts.pieces(s)
            if (name, last) not in self._last:
                self._last[name, last] = _pricer(self._join[name], self.chip)(last)
            join_cost = self._last[name, last]
        then = join_cost.seconds + (0.0 if s.join else self.chip.numbers["block"])
        return Cost(first.seconds + then, first.bound, (*first.parts, ("combination", then)))

    def least(self, s: Schedule) -> float:
        """Of the states alone."""
        try:
            part, mine, _ = self._parts.first(s)
        except UnsupportedOp:
            return inf
        of = self._of(part)
        return of.least(mine) if of.least else 0.0

    def _of(self, part: Kernel) -> Pricer:
        """The first piece's."""
        if part.signature not in self._first:
            self._first[part.signature] = _pricer(demand_of(part), self.chip)
        return self._first[part.signature]


def _pricer(d: Demand, chip: Chip) -> Pricer:
    inside = {x: n for x, n in d.extent.items() if x not in d.grid}
    if not all(inside.values()):  # a sum of nothing: its result is still stored, so it is priced as one of one element
        some = lambda axes: tuple(a if d.extent.get(a.name, 1) else Axis(a.name, 1) for a in axes)
        roles = replace(d.roles, depth=some(d.roles.depth), depths=tuple(map(some, d.roles.depths)))
        d = replace(d, roles=roles, extent={**d.extent, **{x: max(n, 1) for x, n in inside.items()}})
    if any(m.name == "shared" for m in chip.memories):
        models = {"": BlockModel(d, chip)}
        for word in chip.matrix:  # instructions that a schedule asks for by a type of factors that memory does not know
            models[word] = BlockModel(replace(d, work=d.work._replace(matrix_dtype=word)), chip, units=True)
        time = lambda s: models.get(s.instruction, models[""]).time(s)
        if d.roles.form != "contract":
            return Pricer(time)
        floors = {word: Floor(model) for word, model in models.items()}
        return Pricer(time, lambda s: floors.get(s.instruction, floors[""]).least(s))
    if "shared_units" in chip.features:
        return Pricer(CoreModel(d, chip).time)
    return Pricer(lambda s: _tiles_time(d, s, chip))


def _tiles_time(d: Demand, s: Schedule, chip: Chip) -> Cost:
    """Operands that do not stay in the cache nearest to a core are fetched again by every tile that needs them; a tile has a
    fixed price (loop control, scheduling); too few tiles leave cores idle."""
    if s.instruction == SCALAR:
        return scalar_time(d, chip)
    tile = dict(s.tile)
    tiles = d.blocks(tile)
    work = d.work._replace(tiles=tiles)
    if d.roles.form in ("contract", "online") and any(m.name == "l0c" for m in chip.memories):
        cost = engine_time(s, chip, d.roles, work, max((a.element for a in d.operands), default=2), *_rows(d, tile),
                           d.busiest(tile, chip.cores), _behind_sums(d))  # fmt: skip
        return _with_ends(cost, d, tile, chip)
    if any(m.name == "l0c" for m in chip.memories):  # copies of short rows move whole lines
        line = chip.memories[0].line
        taken = [copied(a, tile, d.extent) for a in d.operands]
        lines = [lines_with_steps(a, step, d, tile, line) if step > 1 else whole_lines(a, tile, line, d.extent)
                 for a, (_, step) in zip(d.operands, taken)]  # fmt: skip
        work = work._replace(read=work.read + sum(a.bytes * (wide - 1) for a, wide in zip(d.operands, lines)))
        reads = tuple(n * step * a.element * wide * asked_again(d, a, tile) for a, wide, (n, step) in zip(d.operands, lines, taken))
        joined = joined_rows(d, tile) if "joined_rows" in s.directives else None
        more, bypass, lanes = instructions_of(d, tile, chip, joined), "evict_first" in s.directives, with_pads(d, tile)
        work = work._replace(vector=work.vector * lanes, special=work.special * lanes, words=work.words * lanes)
        cost = vector_time(work, reads, chip, d.roles.form == "reduce", bypass, more, *turns(d, tile))
        return _with_ends(cost, d, tile, chip, joined)
    if d.roles.form in ("contract", "online"):
        work = work._replace(read=d.work.read + _refetched(d, tile, chip), matrix_eff=_edges(d, tile, chip), m=0, n=0)
    cost = time_of(work, chip)
    overhead = chip.limits["tile"] * -(-tiles // chip.cores)
    return Cost(cost.seconds + overhead, cost.bound, (*cost.parts, ("tiles", overhead)))


def _behind_sums(d: Demand) -> Instructions:
    """What vector cores do behind a product; a sum that is only converted or clipped leaves without them."""
    own = d.work.special or d.calls > CLIPPED or any(not a.factor for a in d.operands)
    return Instructions(d.beside, d.calls) if d.roles.form == "contract" and d.calls and own else NONE


def _with_ends(cost: Cost, d: Demand, tile: Mapping[str, int], chip: Chip, joined: Joined | None = None) -> Cost:
    """With the ends of results' rows, or of runs of them, that are cut within a block (`pipes.row_ends`), of the core that has most of
    them; and with what it takes to make the places of a run's elements once."""
    out = d.pieces[-1] if d.pieces else None
    axis = out.side_by_side[-1] if out and out.side_by_side else ""
    if not out or axis not in d.extent:
        return cost
    axis, each = (joined.axis, joined.each) if joined else (axis, 1)
    extent = max(1, d.extent[axis])
    run, extent = max(1, min(tile.get(axis, extent), extent)) * each, extent * each
    tiles, cores = max(1, d.blocks(tile)), int(chip.cores * chip.limits["vector_cores"])
    last, across = extent % run or run, max(1, tiles // -(-extent // run))  # the end of a row, and tiles that have one
    rows = out.bytes / out.element / extent / across  # of a tile
    full = row_ends(rows * -(-tiles // cores), out.element, run, chip)
    ends = max(full, row_ends(rows * -(-across // cores), out.element, last, chip)) + (places_time(joined.run, chip) if joined else 0.0)
    bound = "ends of rows" if ends > cost.seconds / 2 else cost.bound
    return Cost(cost.seconds + ends, bound, (*cost.parts, ("ends of rows", ends))) if ends else cost


def _rows(d: Demand, tile: Mapping[str, int]) -> tuple[Rows, tuple[Rows, ...]]:
    """How the factor with the rows and those with the columns lie in memory. Online, weights begin at blocks, and each other factor along
    the depth, as keys and values, is copied by itself; the one that has no depth is copied once a tile."""
    depth = {x.name for x in d.roles.depth}
    run = lambda axis: min(tile.get(axis, d.extent[axis]), d.extent[axis]) if axis in d.extent else 0

    def of(factors: list[Operand]) -> Rows:
        last = next((r[-1] for a in factors for r in a.runs if r), "")
        return Rows(run(last), max((a.cut for a in factors if a.factor), default=0.0))

    mine, beside = ([a for a in d.operands if {x.name for x in side} & a.axes and depth & a.axes] for side in (d.roles.rows, d.roles.cols))
    keyed = [a for a in d.operands if a.factor and depth & a.axes]
    if d.roles.form == "online" and len(keyed) > 1:
        return Rows(of(mine).run), tuple(of([a]) for a in keyed)
    return of(mine), (of(beside),)


def share_of_roofline(k: Kernel, cost: Cost, chip: Chip) -> float:
    """Time that the busiest unit needs at its full rate, over the predicted time."""
    if not cost.seconds:  # a kernel without a price
        return 0.0
    d = demand_of(k)
    w, left = d.work, d.left({})[0]
    work = w._replace(matrix=w.matrix * left, vector=w.vector * left, special=w.special * left)
    if any(m.name == "l0c" for m in chip.memories):  # results that fit stay in L2, inputs may pass it by
        work = work._replace(read=w.read / chip.numbers["past_l2"], written=w.written * spilled(w.written, chip))
    parts = [s for name, s in time_of(work, chip).parts if name != "launch"]
    return max(parts, default=0.0) / cost.seconds


def _refetched(d: Demand, tile: Mapping[str, int], chip: Chip) -> float:
    """Bytes that tiles fetch beyond the first time: an operand without an axis of the grid is read once a step of it."""
    near = chip.on_chip / 2
    total = 0.0
    for a in d.operands:
        if a.bytes > near:
            again = prod(-(-d.extent[x] // tile.get(x, d.extent[x])) for x in d.grid if x not in a.axes)
            total += a.bytes * (again - 1)
    return total


def _edges(d: Demand, tile: Mapping[str, int], chip: Chip) -> float:
    """Share of the micro-tiles' lanes that tails leave full."""
    eff = 1.0
    for role, grain in (("cols", chip.granule[1]), ("rows", int(chip.numbers["micro_rows"]))):
        size = d.size(role, tile)
        if size:
            eff *= size / (-(-size // grain) * grain)
    return max(eff, chip.numbers["full_at_least"])
