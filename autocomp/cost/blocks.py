"""What a schedule costs on chips that run blocks of threads: traffic between L2 and the cores, latency, partial lines and waves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil, hypot, log2, prod
from operator import attrgetter
from typing import Any

from autocomp.cost import lanes, reductions, schemes
from autocomp.cost.chip import F32, Chip
from autocomp.cost.copies import WIDEST
from autocomp.cost.demand import Demand
from autocomp.cost.derived import constant
from autocomp.cost.roofline import timer
from autocomp.cost.tiles import WHOLE, Tile, padded, tile_of, torn, turned
from autocomp.cost.work import Cost, Work
from autocomp.forks import kept_property
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F64
from autocomp.ir.wide_sums import WIDE_SUMS
from autocomp.quick import quick

UNITS = ("matrix unit", "vector unit", "special functions")
TEAM, TEAM_ROWS = int(constant("team_threads")), int(constant("team_rows"))  # of a warpgroup
WARP_ROWS, WIDEST_ROW = int(constant("warp_rows")), int(constant("team_columns"))  # of an instruction of a warp; of a warpgroup


@quick
@dataclass(frozen=True)
class _Run:
    """How the blocks of a schedule run, and what that takes whatever is in flight: waves of blocks; those at once on the chip, and of a
    core; seconds of the units, of operands through L2, and of what nothing hides."""

    waves: int
    at_once: int
    beside: int
    cost: Cost
    near: float
    start: float


# threads, instruction: a thread's results, its registers for them, the share of the rate that these allow; by blocks of a core, and those
# at once, what they hide
_Pieces = dict[tuple[int, str], tuple[tuple[int, int], int, float, dict[tuple[int, int], float]]]
# what a schedule's run depends on beside its tile and its blocks of a core
_RUN = attrgetter("threads", "instruction", "roles", "workers", "resident", "cluster", "cluster_split_k", "persistent", "ping_pong",
                  "stream_k", "directives")  # fmt: skip


@dataclass
class _Tiled:
    """A tile and what the schedules that have it share: roofs by blocks, pieces, blocks of a core, runs."""

    tile: Tile
    roofs: dict[tuple[int, bool], Callable[[float, float], Cost]] = field(default_factory=dict)
    pieces: _Pieces = field(default_factory=dict)
    beside: dict[tuple[Any, ...], int] = field(default_factory=dict)
    runs: dict[Any, _Run] = field(default_factory=dict)


class BlockModel:
    """Seconds of a kernel whose tiles are blocks of threads.

    Beyond the roofline: operands of a contraction reach a core once a tile, through L2; partial lines move whole; a ring of copies
    that is too short leaves the matrix unit waiting; the last wave of blocks leaves cores idle. What depends on the tile alone is
    computed once for the many schedules that share it, and of those that differ in the slots of their rings how their blocks run.
    """

    def __init__(self, d: Demand, chip: Chip, units: bool = False) -> None:
        """`units`: matrix units multiply, also what lanes would multiply as fast."""
        self.d, self.chip, self.form, self.overlap = d, chip, d.roles.form, chip.numbers["overlap"]
        self.lanes = lanes.by_lanes(chip, d.work.matrix_dtype) and not units
        self._tiles: dict[tuple[Any, ...], _Tiled] = {}
        self._uneven: dict[tuple[Any, ...], Tile] = {}
        self._pieces: dict[tuple[Any, ...], tuple[tuple[int, int], int, float]] = {}  # by rows and columns, as tiles of any depth have them

    def time(self, s: Schedule) -> Cost:
        """Seconds under a schedule."""
        chip, d, form, known = self.chip, self.d, self.form, self.known(s)
        t, run = known.tile, self._run(s, known)
        cost, start, roles = run.cost, run.start, s.roles == "warp_specialise"
        waiting = reductions.waiting(s, chip, d, t) if form == "reduce" else 0.0
        terms = {cost.bound: cost.seconds - chip.launch, "l2": run.near, "latency": waiting}
        if s.instruction == "direct":
            terms["latency"], behind = _direct_waiting(s, chip, d, t)
            start += behind
        elif form == "contract":
            self._ring(s, run, t, terms)
        if form == "map":
            terms["narrow accesses"] = _narrow_accesses(s, chip, d)
            start += _one_by_one(s, chip, d) + _in_bursts(s, chip, d)
        elif form == "online":
            start = self._online(s, run, t, terms)
        elif form == "reduce":
            start += reductions.meetings(s, chip, d, t)
            start += reductions.alone(s, chip, d, t, dict(cost.parts)) + reductions.carried(s, chip, d, t)
        elif t.shape and (roles or s.ping_pong):
            start += self._gaps(s, run, t, terms)
        leaves = _behind(s, chip, t, run.waves) if form == "contract" else 0.0  # a tile's results
        leaves += schemes.lost(s, chip, d, t, run.waves) if roles else 0.0
        # they leave beside the next tile's products where there is room for the sums of two
        start += max(0.0, leaves - dict(cost.parts)["matrix unit"]) if roles and schemes.two_sums(s, chip, t) else leaves
        bound = max(terms, key=terms.__getitem__)
        most = terms[bound]
        seconds = most + self.overlap * (sum(terms.values()) - most) + chip.launch + start
        terms.pop(cost.bound, None)  # it is among the parts of the cost
        return Cost(seconds, bound, (*cost.parts, *terms.items(), ("start", start)))

    def power(self, blocks: int) -> float:
        """Part of the matrix units' time that power allows which idle cores leave."""
        return max(1 / self.chip.numbers["top_clock"], min(1.0, blocks / self.chip.cores))

    def known(self, s: Schedule) -> _Tiled:
        """What is known of a schedule's tile."""
        key = s.tile, s.roles, s.persistent, s.instruction, s.threads if self.form == "reduce" else 0
        known = self._tiles.get(key)
        if known is None:
            known = self._tiles[key] = _Tiled(self._tile(s))
        return known

    def by_lanes(self, s: Schedule) -> bool:
        """Whether a schedule's products are multiplied by lanes."""
        return self.lanes and self.form == "contract" and s.roles == "single" and s.instruction != "direct"

    def _run(self, s: Schedule, known: _Tiled) -> _Run:
        """How a schedule's blocks run: computed once for those that differ in the slots of their rings, where that leaves a core as many
        blocks."""
        beside = self._beside(s, known)
        slots = s.stages if s.instruction == "direct" or s.cluster_split_k > 1 else 0
        key = beside, slots, _RUN(s)
        run = known.runs.get(key)
        if run is None:
            run = known.runs[key] = self._as_run(s, known, beside)
        return run

    def _beside(self, s: Schedule, known: _Tiled) -> int:
        """Blocks that share a core."""
        if self.form != "contract":
            return s.resident
        mine = s.threads, s.stages, s.instruction, s.resident  # `_known` has the roles
        found = known.beside.get(mine)
        if found is None:
            t = known.tile
            if s.instruction == "direct":
                found = _direct_beside(s, self.chip, self.d, t)
            else:
                held = self._piece(s, known)[1] if self.by_lanes(s) else self._sum_words * prod(t.shape[:2]) / s.threads
                found = _beside(s, self.chip, t, held)
            known.beside[mine] = found
        return found

    @kept_property
    def _sum_words(self) -> int:
        """Registers of one of a product's sums."""
        return F64.bytes // F32 if self.d.work.matrix_dtype == WIDE_SUMS else 1

    def _as_run(self, s: Schedule, known: _Tiled, beside: int) -> _Run:
        t, chip, d, form = known.tile, self.chip, self.d, self.form
        of, direct = chip.numbers, s.instruction == "direct"
        at_once = chip.cores * (_direct_beside(s, chip, d, t) if direct else s.resident)
        pair = s.cluster if s.cluster_split_k == 1 and form != "reduce" else 1
        each = s.cluster if form == "reduce" else s.cluster_split_k
        blocks = -(-t.tiles // at_once) * at_once if s.stream_k else side_by_side(t, pair) * each
        waves = -(-blocks // (_clusters(s, chip, d, t) * s.cluster_split_k if s.cluster_split_k > 1 else at_once))
        more = over = waves / -(-blocks // at_once)  # where clusters leave cores over
        if s.roles == "warp_specialise" and form == "contract":  # power that idle cores leave
            more *= self.power(blocks)
        cost = self.roof(known, blocks, direct, pair == 2)(self.matrix(s, t) * more, self._efficiency(s, known, blocks, beside))
        start = of["block"] * (1 + of["overlap"] * min(waves - 1, 8)) + (of["cluster"] if pair > 1 and t.shape else 0.0)
        start += of["stay"] * s.persistent
        start += _adding_up(s, chip, t) if s.cluster_split_k > 1 or s.stream_k else 0.0
        near, behind = self._through_l2(s, t, blocks, at_once, pair, over, beside, cost)
        return _Run(waves, at_once, beside, cost, near, start + behind)

    def roof(self, known: _Tiled, blocks: int, direct: bool, pairs: bool) -> Callable[[float, float], Cost]:
        """The units' time of a tile's work by matrix operations and the share of their rate, in clusters of two blocks or alone."""
        roof = known.roofs.get((blocks, pairs))
        if roof is None:
            t, w = known.tile, self.d.work
            grain = (0, 0, 0) if t.shape else (w.m, w.n, w.k)
            vector, copies = (self.d.packed, 0.0) if direct else (w.vector, t.copies)
            if t.shape and self.lanes:  # part of what lanes issue
                copies = 0.0
            written = w.written + torn(self.d, t, self.chip)
            work = Work(t.read - t.met * pairs, written, w.read_eff, t.matrix, w.matrix_dtype, vector * t.left, w.special * t.left, *grain,
                        1.0, blocks, copies)  # fmt: skip
            roof = known.roofs[blocks, pairs] = timer(work, self.chip)
        return roof

    def matrix(self, s: Schedule, t: Tile) -> float:
        """Matrix operations that a schedule's instructions make of a tile's, those of padded rows among them."""
        team = TEAM_ROWS * (1 if self.form == "online" and _shares_rows(s, t) else 1 if s.ping_pong else s.workers)
        matrix = t.matrix * (-(-t.rows // team) * team / t.rows if t.rows >= TEAM_ROWS and s.roles == "warp_specialise" else 1.0)
        return matrix * schemes.depth_left(s, self.chip, self.d)

    def _efficiency(self, s: Schedule, known: _Tiled, blocks: int, beside: int) -> float:
        """Share of the matrix rate that a schedule's blocks reach."""
        t, chip = known.tile, self.chip
        if self.form == "online":
            return 1.0 if s.roles == "warp_specialise" else chip.numbers["warp_matrix"]
        if not t.shape:
            return self.d.work.matrix_eff
        if not self.by_lanes(s):
            return matrix_share(s, chip, self.d.work.matrix_dtype, self.narrow(s, t), beside)
        piece, registers, share, hidden = self._piece(s, known)
        at = -(-blocks // chip.cores), beside
        if at not in hidden:
            hidden[at] = lanes.hidden(s, chip, self.d, piece, registers, *at)
        return share * hidden[at] * lanes.of_units(chip, self.d.work.matrix_dtype)

    def _piece(self, s: Schedule, known: _Tiled) -> tuple[tuple[int, int], int, float, dict[tuple[int, int], float]]:
        """A thread's part of a tile's results where lanes multiply."""
        t, mine = known.tile, (s.threads, s.instruction)
        found = known.pieces.get(mine)
        if found is None:
            found = known.pieces[mine] = (*self.shared(s, t), {})
        return found

    def shared(self, s: Schedule, t: Tile) -> tuple[tuple[int, int], int, float]:
        """A thread's part of a tile's results where lanes multiply, its registers, and the share of the rate that these allow."""
        key = t.rows, t.columns, s.threads, s.instruction
        found = self._pieces.get(key)
        if found is None:
            piece = lanes.piece(s, self.chip, t.rows, t.columns)
            share = lanes.share(s, self.chip, self.d, t.rows, t.columns, piece)
            found = self._pieces[key] = piece, lanes.registers(self.d, piece), share
        return found

    def _ring(self, s: Schedule, run: _Run, t: Tile, terms: dict[str, float]) -> None:
        """Adds what a product's ring of copies allows, a slot of which is filled once a latency, and what making factors takes."""
        steps = t.tiles * t.steps / run.at_once if s.stream_k else -(-run.waves // run.beside) * t.steps / s.cluster_split_k
        steps *= schemes.steps_left(s, self.d)
        terms["latency"] = steps * _slot(s, self.chip, t, run.cost)
        if any(self.d.making) and s.roles == "single" and not self.by_lanes(s):
            terms["making factors"] = _making(s, self.chip, self.d, run.beside)

    def _online(self, s: Schedule, run: _Run, t: Tile, terms: dict[str, float]) -> float:
        """Puts the turns of an online contraction among the terms, in which its arithmetic and its copies are; returns its start."""
        of, cost = self.chip.numbers, run.cost
        if cost.bound in UNITS:  # they are part of the turns
            del terms[cost.bound]
        turns = _turns(s, self.chip, self.d, t, dict(cost.parts))
        rounds = 1 if s.persistent else max(1.0, run.waves / _room(s, self.chip, t)) if _few(s, t) else run.waves / s.resident
        terms["latency"] = (turns**of["near_norm"] + run.near ** of["near_norm"]) ** (1 / of["near_norm"])
        terms["l2"] = 0.0
        return of["block"] * rounds

    def _gaps(self, s: Schedule, run: _Run, t: Tile, terms: dict[str, float]) -> float:
        """Adds a product's stores that pass beside the next tile's products; returns the seconds in which its rings run dry."""
        of = self.chip.numbers
        if s.roles == "warp_specialise" and (stores := schemes.passed_on(s, self.chip, self.d, t)):
            terms["stores"] = stores
        gap = of["ping_pong_gap"] * max(0.0, run.near - of["ping_pong_pace"] * max(terms.values())) if s.ping_pong else 0.0
        return gap + (of["two_slots"] * terms["latency"] if s.roles == "warp_specialise" and s.stages == 2 and not s.ping_pong else 0.0)

    def _tile(self, s: Schedule) -> Tile:
        """A schedule's tile; of those that differ in what their sides are multiples of, the rest is computed once."""
        patches, tile = s.roles == "warp_specialise", dict(s.tile)
        whole = s.tile, patches, s.persistent, s.threads if self.form == "reduce" else 0
        t = self._uneven.get(whole)
        if t is None:
            t = self._uneven[whole] = tile_of(self.d, tile, self.chip, patches, s.persistent, s.threads)
        even = self.even(s)
        return padded(t, self.d, tile, self.chip, patches, even) if even else t

    def even(self, s: Schedule) -> tuple[int, int] | None:
        """What sides of a schedule's tile are multiples of, where they are not padded to powers of two."""
        return lanes.even(s, self.chip) if self.by_lanes(s) else lanes.UNIT if s.instruction == WIDE_SUMS else None

    def _through_l2(self, s: Schedule, t: Tile, blocks: int, at_once: int, pair: int, over: float, beside: int,
                    cost: Cost) -> tuple[float, float]:  # fmt: skip
        """Seconds in which L2 brings the operands of all blocks; of these what products that bind otherwise do not hide: the part of last
        tiles that are shared out."""
        chip, w, form, l2 = self.chip, self.d.work, self.d.roles.form, self.chip.memory("l2").bandwidth
        of = chip.numbers
        near = (t.near - t.common * (1 - 1 / pair)) * schemes.steps_left(s, self.d)
        fresh = min(near, w.read / l2)  # what L2 holds reaches few cores faster
        few = max(1.0, l2 / of["core_near"] / blocks)
        near = (fresh * max(1.0, chip.cores / blocks) + (near - fresh) * few) * over
        if s.roles == "warp_specialise":
            near *= of["cut_rows"] if self.d.cut else 1.0
            near += _far(chip, w, min(blocks, at_once))
        elif form == "contract" and s.instruction != "direct":
            near *= l2 / _warps_copy(s, chip, beside)
        if not s.stream_k:
            return near, 0.0
        last = (t.tiles % at_once) / t.tiles
        product, apart = dict(cost.parts).get("matrix unit", 0.0), near * last * of["out_of_step"]
        behind = max(0.0, apart - product * last) if product > near else 0.0
        return max(near, near * (1 - last) + apart), behind

    @kept_property
    def _beside_rows(self) -> bool:
        """Whether what is read beside the factors varies along the rows."""
        return any(not o.factor and {a.name for a in self.d.roles.rows} & o.axes for o in self.d.operands)

    def narrow(self, s: Schedule, t: Tile) -> float:
        """How many times as long products take where instructions have few columns; one warpgroup's rows take their place."""
        alone = s.workers == 1 or s.ping_pong
        turned = alone and t.columns == TEAM_ROWS < t.rows and t.rows % TEAM_ROWS == 0 and not self._beside_rows
        n = self.chip.numbers
        return n["turned_product"] if turned else n["narrow_product"] if t.columns <= TEAM_ROWS else 1.0


def side_by_side(t: Tile, pair: int) -> int:
    """Blocks of a grid of clusters: those without a tile take cores, too."""
    return t.tiles // t.beside * -(-t.beside // pair) * pair if pair > 1 else t.tiles


def _making(s: Schedule, chip: Chip, d: Demand, beside: int) -> float:
    """Seconds in which warps make the factors that they multiply, one instruction after another: too few of them leave the pipes idle.
    Tiles of 64 x 128 by two warps, four blocks a core, took 34 us, by four warps 26: 64 x 1024 x 128 of linear attention, H100, 2026-11-27.
    """
    vector, special = d.making
    waiting = max(1.0, chip.numbers["hiding_warps"] * chip.lanes() / (beside * s.threads))
    return (vector / chip.vector["f32"] + special / chip.special) * waiting


def _slot(s: Schedule, chip: Chip, t: Tile, work: Cost) -> float:
    """Seconds a step that a ring's length allows: a slot is copied into once its product is done, with roles, and the next product has
    begun; without, while the one before it is multiplied."""
    if s.roles != "warp_specialise":
        return chip.numbers["warp_loaded"] / max(1, s.stages - 1)
    loaded = chip.numbers["loaded"]
    product = dict(work.parts).get("matrix unit", 0.0) * min(t.tiles * s.cluster_split_k, chip.cores) / (t.tiles * t.steps)
    return max((loaded + product) / s.stages, (loaded + t.turn) / max(1, s.stages - 1))


def _warps_copy(s: Schedule, chip: Chip, beside: int) -> float:
    """Bytes/s that the warps of all cores copy into shared memory, `beside` blocks a core."""
    of = chip.numbers
    rate, warps = of["warp_copies"], beside * s.threads / chip.lanes() * chip.cores
    return min(of["l2_rate"], of["most_blocks"] * rate, rate * beside**of["more_blocks"], warps * of["warp_draws"])


def _far(chip: Chip, w: Work, blocks: int) -> float:
    """Seconds beyond the memory's own rate that few blocks need for what nobody has read before: a core draws so much and no more, and a
    little less where others do."""
    of, whole, cores = chip.numbers, chip.memories[0].bandwidth, min(blocks, chip.cores)
    rate = max(cores * of["core_draws"], min(cores, of["drawing_cores"]) * of["core_draws_alone"])
    return w.read * max(0.0, 1 / rate - 1 / whole)


def _clusters(s: Schedule, chip: Chip, d: Demand, t: Tile) -> int:
    """Clusters that share a depth and run at once. A core takes as many blocks as have room for their rings and for the parts of sums that
    they receive, and for the box from which results leave in bulk (f16 124 x 4352 x 14848 with four slots of 24 KB: 100 us with one block a
    core, 68 with two; H100, 2026-11-28): cuOccupancyMaxActiveClusters gives 15 of 8 and 30 of 4 blocks with 8 slots of 16 KB, 30 and 60
    with 6, an H200."""
    m, n, _ = t.shape or (1, 1, 1)
    sums = -(-m // TEAM_ROWS) * TEAM_ROWS * n
    box = m * n * d.result if "tma_store" in s.directives else 0
    held = s.stages * t.slot + F32 * sums * (1 - 1 / s.cluster_split_k) + box + chip.numbers["shared_reserved"]
    threads = TEAM * (s.workers + 1)
    registers = threads * (sums / (TEAM * s.workers) + chip.numbers["beside_sums"])
    beside = max(1, min(int(chip.memory("shared").capacity // held), int(chip.registers.count // registers)))
    return beside * chip.clusters(s.cluster_split_k)


def _adding_up(s: Schedule, chip: Chip, t: Tile) -> float:
    """Seconds that sums in parts take to reach the block that adds them: through a neighbour's shared memory, or through L2. Blocks of a
    larger cluster begin and meet further apart: by 4 instead of 2 five drawn products of 33 to 49 rows took 0.5 to 1.5 us longer than
    their parts account for (H100, 2026-11-28)."""
    of = chip.numbers
    if not t.shape:
        return 0.0
    sums = F32 * t.shape[0] * t.shape[1]
    if s.cluster_split_k > 1:
        return s.cluster_split_k.bit_length() * chip.latency + sums * (1 - 1 / s.cluster_split_k) * chip.cores / of["neighbours"]
    rest = t.tiles % (chip.cores * s.resident)
    if not rest:
        return 0.0
    parts = chip.cores * s.resident / rest  # of a last tile; who finishes it waits for one after another and adds it up
    drawn = sums / (chip.memory("l2").bandwidth / chip.cores)
    return of["leave_sum_clocks"] / chip.clock + of["leave_sum_bytes"] * drawn + parts * (of["take_sum_clocks"] / chip.clock + drawn)


def _turns(s: Schedule, chip: Chip, d: Demand, t: Tile, parts: Mapping[str, float]) -> float:
    """Seconds of an online contraction's turns: a team's products, then its maps, then the next turn; teams of a core overlap.

    All teams together take the root of the squares of what the units take alone for the work of all, which lies between their maximum
    and their sum. One team takes no less than its products, maps and waits one after another.
    """
    of = chip.numbers
    teams = s.workers if s.roles == "warp_specialise" else max(1, s.threads // TEAM)
    whole = -(-d.roles.extent("depth") // max(1, t.shape[2])) if t.shape else 1
    turns = whole * t.left
    share = chip.cores / (t.tiles * turns * teams)
    busy = min(1.0, t.tiles / chip.cores)  # the parts are times of the cores that have tiles
    matrix, vector, special = (parts.get(n, 0.0) * share * busy for n in UNITS)
    if _few(s, t):
        moved = sum(parts.get(m.name, 0.0) for m in chip.memories) * share
        return turns * _few_rows(s, chip, t, (matrix, vector, special), moved)
    each = (matrix, vector * (of["lazy_base"] if s.rescale_threshold else 1.0), special)
    if _shares_rows(s, t):  # one thing after another, and the teams wait for each other
        each = (matrix * of["narrow_product"], *each[1:])
        meeting = of["shared_rows_vote"] if s.rescale_threshold else of["shared_rows_meet"]
        return -(-t.tiles // (chip.cores * s.resident)) * turns * (teams * sum(each) + meeting * of["turn"])
    depth = t.shape[2] if t.shape else 0
    matrix, vector, special = (of["paused_products"] * x for x in each)
    coupled = of["in_step"] if teams > 1 else 1.0
    ordered = 1.0 if "warpgroup_order" in s.directives or s.softmax_overlap != 2 else coupled  # else they want the matrix units at once
    beside = hypot(ordered * matrix, coupled * vector, coupled * special) * (1 + of["ring_slack"] / max(1, s.stages - 1))
    beside *= of["shallow_ring"] if teams > 1 and (s.stages - 1) * depth < TEAM else 1.0
    beside *= (of["persistent_turn"] if s.persistent else 1.0) * (of["joint_wait"] if s.softmax_overlap == 2 else 1.0)
    if s.roles == "warp_specialise" and teams >= of["schedulers"] and s.persistent:
        beside *= of["four_teams"] / (1.0 if "mma_row_sums" in s.directives else of["sums_by_matrix"])
        beside /= 1.0 if "exp2_scores" in s.directives else of["scores_base_two"]
    beside *= of["two_teams"] if s.roles == "warp_specialise" and teams == 2 and s.resident == 1 else 1.0
    together = _beside(s, chip, t, t.shape[0] * depth / s.threads + prod(t.shape[:2]) / s.threads) if t.shape else s.resident
    last = max(-(-t.tiles // (chip.cores * together)) * turns, whole * t.longest)
    alone = last * (of["lone_clock"] * (matrix + vector + special) + of["turn"])
    ends = of["tile_ends_clocks"] / chip.clock * (of["persistent_ends"] if s.persistent else 1.0)
    gaps = turns * (of["turn_gap_clocks"] / chip.clock + (schemes.of_a_turn(s, chip) if s.softmax_overlap == 2 else 0.0))
    return max(-(-t.tiles // chip.cores) * (turns * teams * beside + (gaps + ends) / s.resident), alone)


def _shares_rows(s: Schedule, t: Tile) -> bool:
    """Whether warpgroups have columns of the same rows."""
    rows = t.shape[0] if t.shape else 0
    return s.roles == "warp_specialise" and TEAM_ROWS <= rows < TEAM_ROWS * s.workers


def _few(s: Schedule, t: Tile) -> bool:
    """Whether single warps have all the rows of a block, or rows too wide for a warpgroup."""
    if s.roles == "warp_specialise" or not t.shape:
        return False
    rows, cols, _ = t.shape
    return rows < TEAM_ROWS or cols > WIDEST_ROW


def _room(s: Schedule, chip: Chip, t: Tile) -> int:
    """Blocks of few rows whose rings a core holds beside each other."""
    rows, cols, depth = t.shape  # type: ignore[misc]
    held = 2.0 * (rows * cols + s.stages * 2 * depth * cols) + chip.numbers["shared_reserved"]
    return max(1, min(int(chip.memory("shared").capacity // held), int(chip.numbers["resident_blocks"])))


def _few_rows(s: Schedule, chip: Chip, t: Tile, each: tuple[float, float, float], moved: float) -> float:
    """Seconds of a turn of all blocks of a core, which come in rounds of as many as find room: single warps fill the instruction's rows,
    have their part of a core's units alone, and run one thing after another; blocks beside each other share the units and the memory,
    from which a turn of one takes `moved` seconds.
    """
    of = chip.numbers
    rows, cols, _ = t.shape  # type: ignore[misc]
    side, parts = of["lone_norm"], of["schedulers"]
    total = sum(each) * max(1.0, WARP_ROWS / rows)
    warps = min(parts, s.threads / chip.lanes(), float(-(-rows // WARP_ROWS)) if cols <= WIDEST_ROW else parts)  # others have no rows
    turn = of["lone_turn_clocks"] + (of["wide_turn_clocks"] if cols > WIDEST_ROW else 0.0)
    alone = of["lone_warp"] * total * parts / warps + turn / chip.clock
    beside = lambda blocks: ((blocks * max(total, moved)) **side + alone**side) ** (1 / side) if blocks else 0.0
    room = _room(s, chip, t)
    whole, rest = divmod(-(-t.tiles // chip.cores), room)
    return whole * beside(room) + beside(rest)


def _behind(s: Schedule, chip: Chip, t: Tile, waves: int) -> float:
    """Seconds in which a core's matrix units wait for what follows a tile's products, its maps and stores, before the next tile's begin:
    none where warpgroups take turns or the schedule has several blocks a core. Blocks without roles do so beside each other, but for one
    that has a core alone and fills its ring anew."""
    if s.ping_pong or s.resident > 1 or waves == 1:
        return 0.0
    of = chip.numbers
    one, each = of["settle"], of["epilogue"] * t.rows * t.columns
    if s.roles == "warp_specialise":
        one += each / (TEAM * s.workers)
    elif min(chip.memory("shared").capacity // max(1.0, s.stages * t.slot), of["resident_threads"] // s.threads) < 2:
        one += each / s.threads + of["block"]
    return one * (waves - 1)


def _beside(s: Schedule, chip: Chip, t: Tile, held: float) -> int:
    """Blocks of a product that share a core: as many as a schedule with roles says; else as find room for their threads, registers (of a
    thread what is beside its sums, and `held`: these, scores of an online contraction, factors of those `by_lanes`) and rings."""
    return s.resident if s.roles == "warp_specialise" else blocks_beside(chip, s.threads, held, s.stages * t.slot, t.tiles)


def blocks_beside(chip: Chip, threads: int, held: float, ring: float, blocks: int) -> int:
    """Blocks of a product that a core holds at once, of so many in all: by their threads, the registers that each holds beside
    `beside_sums`, and the bytes of their rings."""
    of = chip.numbers
    sums = min(chip.limits["registers"], held + of["beside_sums"])
    room = min(of["resident_threads"] // threads, chip.registers.count // (threads * sums),
               chip.memory("shared").capacity // max(1.0, ring + of["shared_reserved"]), of["resident_blocks"])  # fmt: skip
    return max(1, min(int(room), -(-blocks // chip.cores)))


def direct_resident(s: Schedule, chip: Chip, sums: float, blocks: float, shared: float, held: float, made: bool) -> int:
    """Blocks that share a core where factors come straight to registers; compilers are told, for one register more leaves one out.
    `sums`: registers of a thread's results, none of which may wait in memory: 64 of them in 64 registers took 294 us, 43 by the bytes.
    `held`: those that a turn's loads fill, where they are all asked for first: of factors that are multiplied as they are stored (one row
    by 10944 x 15168 halves in tiles of 32 x 1024 by 256 threads took 143 us with 64 registers a thread, 100 with 128), and of a factor that
    two products read, which stays for the second one (two by 5120 x 13824 weights of 4 bits: 70 us with 300 bytes of a thread's in memory,
    42 without; H200, 2026-11-30). `made`: a factor is made of what is loaded, which takes some beside.
    `blocks` of the grid: no core has more than its part of them. `shared`: bytes of a block's rings and of the sums that waves add up."""
    of = chip.numbers
    beside = of["beside_sums"] if made else of["beside_turn"]
    registers = s.threads * max(int(of["direct_registers"]), int(sums + max(of["beside_sums"], held + beside)))
    room = chip.memory("shared").capacity // max(1.0, shared + of["shared_reserved"])
    return max(1, min(int(chip.limits["threads"] * 2 // s.threads), chip.registers.count // registers, -(-int(blocks) // chip.cores),
                      int(room)))  # fmt: skip


def _direct_beside(s: Schedule, chip: Chip, d: Demand, t: Tile) -> int:
    """As `direct_resident`, of a tile."""
    own, other, sums = _turn_bytes(s, d, t), _other_bytes(s, chip, t), _direct_sums(chip, d, t)
    ring = s.stages * own * s.threads if _own_ring(s, d) else 0.0
    held = (own / len(d.products) + other) / chip.registers.bytes if _held_turn(s, d) else 0.0
    return direct_resident(s, chip, sums, t.tiles, ring + F32 * sums * s.threads, held, any(d.making))


def _turn_bytes(s: Schedule, d: Demand, t: Tile) -> float:
    """Bytes that a thread reads in a turn where factors come straight to registers."""
    turns = -(-d.roles.extent("depth") // (t.shape or (1, 1, 1))[2])
    return d.work.read / (t.tiles * turns * s.threads)


def _own_ring(s: Schedule, d: Demand) -> bool:
    """Whether a thread's part of a factor that comes straight to registers passes through a ring of its own: of one product."""
    return s.stages > 1 and len(d.products) == 1


def _held_turn(s: Schedule, d: Demand) -> bool:
    """Whether a thread has registers for all that a turn loads: what is multiplied as it is stored is asked for in front of the turn's
    products; where a factor is made first, more blocks hide more."""
    return not _own_ring(s, d) and (len(d.products) > 1 or not any(d.making))


def _other_bytes(s: Schedule, chip: Chip, t: Tile) -> float:
    """Bytes that a thread has in a turn of the factor with few rows, which is of a half type."""
    rows, cols, depth = t.shape or (1, 1, 1)
    columns = chip.numbers["direct_columns"]
    return -(-min(rows, cols) // columns) * columns * depth * 2.0 / s.threads


def _direct_sums(chip: Chip, d: Demand, t: Tile) -> float:
    """Registers of a thread's results where factors come straight to registers: each wave has all of a tile's, of every product."""
    few, many = sorted((t.shape or (1, 1, 1))[:2])
    least = chip.numbers["direct_columns"] * (1 if any(d.making) else 2)  # a factor that is made is the one of 16 rows, else the first is
    return len(d.products) * max(few, least) * many / chip.lanes()


def _narrow_accesses(s: Schedule, chip: Chip, d: Demand) -> float:
    """Seconds that tensors take longer of which a thread has less than a whole access."""
    each = _elements(s, d)
    return chip.numbers["narrow_access"] * sum(p.bytes for p in d.pieces if each * p.element < WIDEST) / chip.memories[0].bandwidth


def _in_bursts(s: Schedule, chip: Chip, d: Demand) -> float:
    """Seconds that memory loses where a thread has several accesses of a tensor under way: reads and writes come in longer bursts, from
    more places at once, the more the first access is among."""
    each = _elements(s, d)
    lost = sum(p.bytes * (1 - WIDEST / max(WIDEST, each * p.element)) for p in d.pieces)
    return chip.numbers["bursts"] * lost / chip.memories[0].bandwidth


def _one_by_one(s: Schedule, chip: Chip, d: Demand) -> float:
    """Seconds that a map with turned tiles takes longer, whose elements a thread takes from shared memory one by one."""
    of = chip.numbers
    if not any(turned(p, d, dict(s.tile)) for p in d.pieces):
        return 0.0
    doublings = max(0.0, log2(_elements(s, d) / of["transposed_elements"]))
    return of["transposed_step"] * doublings * sum(p.bytes for p in d.pieces) / chip.memories[0].bandwidth


def _elements(s: Schedule, d: Demand) -> float:
    """Elements of a map's tile for each thread."""
    tile = dict(s.tile)
    return prod(min(tile.get(n, WHOLE), d.extent[n]) for n in d.grid) / s.threads


def _direct_waiting(s: Schedule, chip: Chip, d: Demand, t: Tile) -> tuple[float, float]:
    """Seconds that latencies take where factors come straight to registers: of memory, once a turn, or of instructions, where a core has
    too few waves to hide them; and what nothing hides: instructions of what finds no register in a turn, waves that add up what they have.

    A thread asks for registers for its part of a turn's loads and of the other factor, and for its sums. One row by 8192 x 8192 weights
    of 4 bits: 92 registers asked for took 17.3 to 19.3 us, 113 and 141 19.0 to 20.3, 238 19.5 to 22.6; H200, 2026-11-21.
    """
    of = chip.numbers
    sums = _direct_sums(chip, d, t)
    resident = _direct_beside(s, chip, d, t)
    rows, cols, depth = t.shape or (1, 1, 1)
    few = min(rows, cols)
    turns = -(-d.roles.extent("depth") // depth)
    rounds = -(-t.tiles // (chip.cores * resident))
    ring = _own_ring(s, d)
    memory = rounds * -(-turns // (s.stages - 1 if ring else 1)) * chip.latency
    busy = min(float(resident), t.tiles / chip.cores)
    drawn = s.threads * busy * chip.cores * _under_way(s, chip, d, t) / chip.latency  # Little's law, bytes/s
    memory = max(memory, d.work.read / drawn)
    own, other = _turn_bytes(s, d, t), _other_bytes(s, chip, t)
    if ring:  # it brings the one factor; the other one's loads are waited for in each turn, as many at a time as run ahead
        memory += rounds * turns * ceil(other / of["beside_ring"]) * of["operand_clocks"] / chip.clock
    else:  # both factors' loads wait in each turn, as many at a time as find registers
        memory = max(memory, rounds * turns * ceil((own + other) / _run_ahead(s, chip, d)) * chip.latency)
    waves = s.threads / chip.lanes() * busy
    turn_issues = of["direct_turn"] + of["operand_issues"] * other / WIDEST
    ring_issues = of["ring_turn"] + of["piece_issues"] * own / WIDEST if ring else 0.0
    issues = d.packed + t.tiles * turns * s.threads * (turn_issues + ring_issues)
    instructions = issues / chip.vector["f32"] * of["hiding_warps"] / waves
    loads = own + max(few, of["direct_columns"]) * depth * 2.0 / s.threads
    asked = loads / chip.registers.bytes + sums + of["beside_sums"]
    behind = of["unheld"] * max(0.0, asked / max(of["direct_registers"], sums + of["beside_sums"]) - 1) * instructions
    behind += of["partial_sum_clocks"] / chip.clock * s.threads / chip.lanes()
    return max(memory, instructions), behind


def _under_way(s: Schedule, chip: Chip, d: Demand, t: Tile) -> float:
    """Bytes that a thread has under way where factors come straight to registers. A ring of its own has all turns but one under way, half
    a turn less in the mean while one lands. Loads into registers are as many as compilers let run ahead of what uses them, however many a
    turn has: of 48 in front of a turn's instructions ptxas 13.0 left about five (64 and 68 registers, with a limit and without). One row
    by 2112 x 9600 in 132 blocks of 128 threads took 32 us, by 3200 x 5888 in 200 blocks 22; benchmarks/families.py --seed 77, H200,
    2026-11-26.
    """
    turn = _turn_bytes(s, d, t)
    return (s.stages - 1 - chip.numbers["landed"]) * turn if _own_ring(s, d) else min(turn, _run_ahead(s, chip, d))


def _run_ahead(s: Schedule, chip: Chip, d: Demand) -> float:
    """Bytes of loads into registers that a thread has under way at most: what compilers let run ahead, more where a turn has registers."""
    of = chip.numbers
    return of["held_bytes"] if _held_turn(s, d) and len(d.products) == 1 else of["under_way"]


def matrix_share(s: Schedule, chip: Chip, dtype: str, narrow: float, beside: int) -> float:
    """Share of the matrix rate that the instruction allows; single warps reach it where enough of them share a core."""
    of = chip.numbers
    if s.instruction == "direct":
        return of["warp_matrix"]
    if s.roles == "warp_specialise":
        return (of["paired_product"] if s.cluster > s.cluster_split_k else 1.0) / narrow
    filling = of["filling_f64"] if dtype == WIDE_SUMS else of["filling_warps"]
    few = min(1.0, beside * s.threads / chip.lanes() / filling)
    return of["warp_matrix"] * chip.limits.get(f"warp_{dtype}", 1.0) * few
