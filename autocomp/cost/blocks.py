"""What a schedule costs on chips that run blocks of threads: traffic between L2 and the cores, latency, partial lines and waves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import hypot, prod

from autocomp.cost.chip import Chip
from autocomp.cost.demand import Demand, Operand
from autocomp.cost.roles import power_of_two
from autocomp.cost.roofline import OVERLAP, timer
from autocomp.cost.work import Cost, Work
from autocomp.ir.body import Axis
from autocomp.ir.schedule import Schedule

UNROLLED = 16  # elements of a loop's body up to which compilers are seen to overlap several iterations
# Part of the time of pieces below four sectors that is lost: 64 bytes against 128 in a transpose, benchmarks/gpu.py, H200, 2026-11-21
SHORT = 0.1
LONG = 1 << 20  # elements of an axis that is whole
# Attention with heads of 64 and 128, 45 schedules, benchmarks/gpu.py, H200, 2026-11-21:
COUPLED = {2: 1.07, 3: 1.03}  # teams that wait for the same copies stand still together; more of them, or blocks of their own, less
STAY = 1.02  # a turn of blocks that stay: their counters and positions are further from constants
SHALLOW = 1.12  # teams that share a ring with less than 128 steps in depth ahead: 1.18 with heads of 64, 1.08 with 128
LAGS = 0.75  # of a weight's vector work where the base need not be folded
GAP = 6.6e-8  # seconds between a block's turns in which no unit works: 512 more turns a core cost 34 us
ENDS = 0.5  # of a turn, at a tile's start and end, that nothing else of its block hides
UNITS = ("matrix unit", "vector unit", "special functions")
# One query over 32768 keys in 12 schedules, benchmarks/gpu.py --only attn_decode,attn_decode_16h, H200, 2026-11-21: single warps took
# 4.6 us for 128 keys, 2.6 us for 64: about the time of their units one after another
LONE, LONE_TURN, WARP_ROWS = 0.9, 6e-7, 16
# mla_decode, benchmarks/gpu.py, H200, 2026-11-21: warpgroups that share 64 rows of 512 take 2.3 us for 64 keys, warps 2.5 us for 16
SHARING, SHARED_TURN, WIDEST_ROW, TEAM_ROWS = 0.7, 1.3e-6, 256, 64
NARROW = 1.15  # a product of 64 columns reads shared memory as fast as it computes
# Bulk copies of rows that are no multiple of a sector move sectors that the next row needs again: rows of 4016 and 6000 bytes took
# 1.2 times those of 4096 and 6016, and as long as these where blocks shared them; products, H200, 2026-11-20
CUT = 2.0
PAIRED = 0.98  # blocks that share a factor wait for each other: up to 2 % on aligned squares in the same run
DIRECT = 64  # registers of a thread that makes factors where it multiplies them: 48 to 64 by ptxas
# Waves of a core that hide the latency of such a thread's instructions: 4, 8, 16 and 31 waves a core took 36, 27, 22 and 20 us for one row
# by 8192 x 8192 weights of 4 bits; benchmarks/gpu.py, H200, 2026-11-21
HIDING = 24
MEETING = 1e-7  # seconds for each wave whose part of the depth is added up: 16 waves took 0.6 us longer than 8, the same run
# In turns products never pause for copies to catch up: gelu(x@w+b) by 128 x 128 tiles in turns took 143 us where products and copies
# through L2 take 100 us each, by 128 x 256 tiles together 133 us; convolutions with copies of three quarters of that lost nothing;
# H200, 2026-11-21
IN_TURNS, PACE = 0.5, 0.75
TURNED = 1.01  # rows in the place of few columns leave through transposed stores
SLACK = 0.02  # a deeper ring still helps a little where the mean latency is hidden

# Products of 4096 and 8192 cubed whose last tiles are shared out, with and without adding up, H200, 2026-11-21:
LEFT = 3  # times that sums which blocks leave for others would go through L2 in what that takes: 5 us for 128 KB a block
SCATTERED = 0.18  # part of the last tiles' time that is lost: blocks are at different steps of neighbouring tiles, and share less in L2

_Key = tuple[tuple[tuple[str, int], ...], bool, bool, bool]  # a tile, whether its blocks have roles, are persistent, multiply directly


class BlockModel:
    """Seconds of a kernel whose tiles are blocks of threads.

    Beyond the roofline: operands of a contraction reach a core once a tile, through L2; partial lines move whole; a ring of copies
    that is too short leaves the matrix unit waiting; the last wave of blocks leaves cores idle. What depends on the tile alone is
    computed once for the many schedules that share it.
    """

    def __init__(self, d: Demand, chip: Chip) -> None:
        self.d, self.chip = d, chip
        self._tiles: dict[_Key, _Tile] = {}
        self._roofs: dict[tuple[_Key, int], Callable[[float, float], Cost]] = {}

    def time(self, s: Schedule) -> Cost:
        """Seconds under a schedule."""
        chip, w, form = self.chip, self.d.work, self.d.roles.form
        direct = s.instruction == "direct"
        key = (s.tile, s.roles == "cooperative", s.persistent, direct)
        t = self._tiles.get(key)
        if t is None:
            t = self._tiles[key] = _tile_of(self.d, dict(s.tile), chip, *key[1:3])
        at_once = chip.cores * (direct_resident(s, chip) if direct else s.resident)
        blocks = -(-t.tiles // at_once) * at_once if s.stream else t.tiles * s.deep
        roof = self._roofs.get((key, blocks))
        if roof is None:
            grain = (0, 0, 0) if t.shape else (w.m, w.n, w.k)
            vector, copies = (self.d.packed, 0.0) if direct else (w.vector, t.copies)
            work = Work(t.read, w.written, w.read_eff, t.matrix, w.matrix_dtype, vector * t.left, w.special * t.left, *grain, 1.0, blocks,
                        copies)  # fmt: skip
            roof = self._roofs[key, blocks] = timer(work, chip)
        eff = _matrix_share(s, chip, *t.shape, w, t.turn, self._narrow(s, t)) if t.shape else w.matrix_eff
        if form == "online":
            eff = 1.0 if s.roles == "cooperative" else chip.limits.get("warp_matrix", 1.0)
        team = TEAM_ROWS * (1 if form == "online" and _shares_rows(s, t) else 1 if s.apart else s.workers)
        matrix = t.matrix * (-(-t.rows // team) * team / t.rows if t.rows >= 64 and s.roles == "cooperative" else 1.0)
        if s.stream:
            matrix *= 1 + SCATTERED * (t.tiles % at_once) / t.tiles
        waves = -(-blocks // int(chip.limits.get(f"clusters_of_{s.deep}", at_once / s.deep) * s.deep))
        more = waves / -(-blocks // at_once)  # where clusters leave cores over
        cost = roof(matrix * more, eff)
        first = chip.limits.get("block", 0.0)
        pair = s.cluster if s.deep == 1 else 1
        start = first * (1 + OVERLAP * min(waves - 1, 8)) + (chip.limits.get("cluster", 0.0) if pair > 1 and t.shape else 0.0)
        start += chip.limits.get("stay", 0.0) * s.persistent
        start += _adding_up(s, chip, t) if s.deep > 1 or s.stream else 0.0
        near = (t.near - t.common * (1 - 1 / pair)) * max(1.0, chip.cores / blocks) * more
        if s.roles == "cooperative":
            near *= CUT if self.d.cut else 1.0
        elif form == "contract" and not direct:
            near *= chip.memory("l2").bandwidth / chip.limits.get("warp_copies", chip.memory("l2").bandwidth)
        terms = {cost.bound: cost.seconds - chip.launch, "l2": near, "latency": _waiting(s, chip, self.d, t)}
        if direct:
            terms["latency"] = _direct_waiting(s, chip, self.d, t)
        elif form == "contract" and "loaded" in chip.limits:  # a slot of the ring is filled once a latency
            terms["latency"] = waves * (t.steps / s.deep) * _loaded(chip, self.d, t) / max(1, s.stages - 1)
        if form == "online":
            if cost.bound in UNITS:  # they are part of the turns
                del terms[cost.bound]
            terms["latency"], start = _turns(s, chip, self.d, t, dict(cost.parts)), first * (1 if s.persistent else waves / s.resident)
        elif t.shape:
            start += _behind(s, chip, t, waves)
            start += IN_TURNS * max(0.0, near - PACE * max(terms.values())) if s.apart else 0.0
        bound = max(terms, key=lambda x: terms[x])
        seconds = terms[bound] + OVERLAP * (sum(terms.values()) - terms[bound]) + chip.launch + start
        return Cost(seconds, bound, (*cost.parts, *((n, x) for n, x in terms.items() if n != cost.bound), ("start", start)))


    def _narrow(self, s: Schedule, t: _Tile) -> float:
        """How many times as long products take where instructions have few columns; one warpgroup's rows take their place."""
        alone = s.workers == 1 or s.apart
        beside = any(not o.factor and {a.name for a in self.d.roles.rows} & o.axes for o in self.d.operands)
        turned = alone and t.columns == 64 < t.rows and t.rows % 64 == 0 and not beside
        return TURNED if turned else NARROW if t.columns <= 64 else 1.0


@dataclass(frozen=True)
class _Tile:
    """What a tile alone decides: how many there are, its rows, columns and depth (() without a contraction), seconds of its operands
    through L2 where all cores draw from it, and the part of them that tiles of other rows need too, operations with padding, copies of
    less than 16 bytes, bytes with partial lines; of the longest reduction the chunks, and of one chunk the most bytes and the most
    elements of an operand; rows with padding; columns; steps in depth; seconds in which a core draws what one turn of a ring brings to a
    product; bytes of a slot; the share of turns that a mask leaves in the mean (`matrix` and `near` are of these) and in
    the longest tile."""

    tiles: int
    shape: tuple[int, int, int] | tuple[()]
    near: float
    common: float
    matrix: float
    copies: float
    read: float
    chunks: int
    bytes: float
    elements: int
    rows: int = 0
    columns: int = 0
    steps: int = 1
    turn: float = 0.0
    slot: float = 0.0
    left: float = 1.0
    longest: float = 1.0


def _tile_of(d: Demand, tile: Mapping[str, int], chip: Chip, patches: bool = False, stays: bool = False) -> _Tile:
    roles, tiles, near, common, matrix, copies, extent = d.roles, d.tiles(tile), 0.0, 0.0, d.work.matrix, 0.0, d.extent
    shape: tuple[int, int, int] | tuple[()] = ()
    rows, steps, turn, slot, (left, longest) = 0, 1, 0.0, 0.0, d.left(tile)
    if roles.form in ("contract", "online"):
        once = min(1.0, chip.cores / tiles) if patches and stays else 1.0
        near, common = (tiles * x * left / chip.memory("l2").bandwidth for x in _block_bytes(d, tile, patches, once))
        m, n, depth = shape = (d.size("rows", tile), d.size("cols", tile), d.size("depth", tile))
        if "copies" in chip.limits:
            copies = tiles * roles.extent("depth") * (d.narrow[0] * m + d.narrow[1] * n)
        matrix *= _padding(d, tile, patches) * left
        rows = prod(_padded(d, roles.rows, tile))
        steps = prod(-(-extent[a.name] // tile.get(a.name, extent[a.name])) for a in roles.depth)
        products = max(1.0, d.work.matrix / (2.0 * prod(roles.extent(x) for x in ("batch", "rows", "cols", "depth"))))
        turn = near / (tiles / chip.cores) / steps / products if patches else 0.0
        slot = float(depth * (rows + n) * max((a.element for a in d.operands if a.factor), default=2))
    line = 2 * chip.memories[0].line  # neighbouring sectors travel together
    extra = sum(a.bytes * (whole_lines(a, tile, line) - 1) for a in d.operands)
    extra += SHORT * sum(p.bytes for p in d.pieces if _run(p.side_by_side, tile) * p.element < 4 * chip.memories[0].line)
    size = lambda x: min(tile.get(x, extent[x]), extent[x])
    chunks, chunk = 1, {}
    if roles.form == "reduce":
        chunks = max((prod(-(-extent[a.name] // tile.get(a.name, extent[a.name])) for a in axes) for axes in roles.depths), default=1)
        chunk = {a: prod(size(x) for x in a.views[-1] if x in extent) for a in d.operands if a.views}
    most = max((a.element * n for a, n in chunk.items()), default=1)
    return _Tile(tiles, shape, near, common, matrix, copies, d.work.read + extra, chunks, most, max(chunk.values(), default=1), rows,
                 shape[1] if shape else 0, steps, turn, slot, left, longest)  # fmt: skip


def _loaded(chip: Chip, d: Demand, t: _Tile) -> float:
    """Seconds from a copy's start to its end while rings are full: longer for the part that no block has read before."""
    near, far = chip.limits["loaded"], chip.limits["loaded_far"]
    return near + (far - near) * min(1.0, d.work.read / (t.near * chip.memory("l2").bandwidth)) if t.near else near


def _adding_up(s: Schedule, chip: Chip, t: _Tile) -> float:
    """Seconds that sums in parts take to reach the block that adds them: through a neighbour's shared memory, or through L2."""
    if not t.shape:
        return 0.0
    sums = 4.0 * t.shape[0] * t.shape[1]
    if s.deep > 1:
        return 2 * chip.latency + sums * (1 - 1 / s.deep) * chip.cores / chip.limits["neighbours"]
    uneven = t.tiles % (chip.cores * s.resident) != 0
    return uneven * (2 * chip.latency + LEFT * sums * chip.cores / chip.memory("l2").bandwidth)


def _turns(s: Schedule, chip: Chip, d: Demand, t: _Tile, parts: Mapping[str, float]) -> float:
    """Seconds of an online contraction's turns: a team's products, then its maps, then the next turn; teams of a core overlap.

    All teams together take the root of the squares of what the units take alone for the work of all, which lies between their maximum
    and their sum. One team takes no less than its products, maps and waits one after another.
    """
    teams = s.workers if s.roles == "cooperative" else max(1, s.threads // 128)
    whole = -(-d.roles.extent("depth") // max(1, t.shape[2])) if t.shape else 1
    turns = whole * t.left
    share = chip.cores / (t.tiles * turns * teams)
    matrix, vector, special = (parts.get(n, 0.0) * share for n in UNITS)
    if s.roles != "cooperative" and t.shape and (t.shape[0] <= WARP_ROWS or t.shape[1] > WIDEST_ROW):
        busy = min(1.0, t.tiles / chip.cores)  # the parts are times of the cores that have tiles
        return -(-t.tiles // chip.cores) * turns * _few_rows(s, chip, t, (matrix * busy, vector * busy, special * busy))
    each = (matrix, vector * (LAGS if s.lazy else 1.0), special)
    if _shares_rows(s, t):  # one thing after another, and the teams wait for each other
        each = (matrix * NARROW, *each[1:])
        return -(-t.tiles // (chip.cores * s.resident)) * turns * (teams * sum(each) + SHARING * chip.limits.get("turn", 0.0))
    depth = t.shape[2] if t.shape else 0
    shallow = teams > 1 and (s.stages - 1) * depth < 128
    beside = hypot(*each) * COUPLED.get(teams, 1.0) * (SHALLOW if shallow else 1.0)
    beside *= (STAY if s.persistent else 1.0) * (1 + SLACK / max(1, s.stages - 1))
    tiles = -(-t.tiles // chip.cores)
    last = max(-(-t.tiles // (chip.cores * s.resident)) * turns, whole * t.longest)
    alone = last * (sum(each) + chip.limits.get("turn", 0.0))
    return max(tiles * (turns * teams * beside + (turns * GAP + ENDS * sum(each)) / s.resident), alone)


def _shares_rows(s: Schedule, t: _Tile) -> bool:
    """Whether warpgroups have columns of the same rows."""
    rows = t.shape[0] if t.shape else 0
    return s.roles == "cooperative" and TEAM_ROWS <= rows < TEAM_ROWS * s.workers


def _few_rows(s: Schedule, chip: Chip, t: _Tile, each: tuple[float, float, float]) -> float:
    """Seconds of a turn of every block in a wave of them, over the blocks that share a core: single warps fill the instruction's rows,
    have their part of a core's units alone, and run one thing after another; more of them run side by side where memory holds their rings.
    """
    rows, cols, depth = t.shape  # type: ignore[misc]
    total = sum(each) * max(1.0, WARP_ROWS / rows)
    held = 2.0 * (rows * cols + s.stages * 2 * depth * cols)
    beside = max(1, min(-(-t.tiles // chip.cores), int(chip.memory("shared").capacity // held)))
    alone = LONE * total / min(1.0, s.threads / 128) + LONE_TURN + (SHARED_TURN if cols > WIDEST_ROW else 0.0)
    return max(total, alone / beside)


def _block_bytes(d: Demand, tile: Mapping[str, int], patches: bool = False, once: float = 1.0) -> tuple[float, float]:
    """Bytes that one block reads, of each operand the tile's part along the axes of the output and all of it along reduced ones; and of
    these the bytes that do not depend on its rows.

    patches: a window's elements are read once for all taps that lie whole in the tile; once: the part of blocks' tiles that read
    an operand which all tiles share and which a tile holds whole.
    """
    reduced, rows = {a.name for axes in d.roles.depths for a in axes}, {a.name for a in d.roles.rows}
    size = lambda n: min(tile.get(n, d.extent[n]), d.extent[n])
    part = lambda n: d.extent[n] if n in reduced else size(n)
    taps = {a.name for a in d.roles.taps if size(a.name) == d.extent[a.name]} if patches else set()

    def elements(axes: Sequence[str], view: Sequence[Sequence[tuple[str, int]]]) -> int:
        """Distinct elements of a view that a tile reads."""
        slid = [x for x in view if taps & {n for n, _ in x}]
        sums = [1 + sum(abs(c) * (size(n) - 1) for n, c in x if n in d.extent) for x in slid]
        return prod(sums) * prod(part(n) for n in set(axes) - {n for x in slid for n, _ in x} if n in d.extent)

    every = []
    for a in d.operands:
        for axes, view in zip(a.views, a.places):
            whole = all(size(n) == d.extent[n] for n in axes if n in d.extent)
            every.append((axes, elements(axes, view) * a.element * (once if whole else 1.0)))
    return float(sum(b for _, b in every)), float(sum(b for v, b in every if not rows & set(v)))


def _behind(s: Schedule, chip: Chip, t: _Tile, waves: int) -> float:
    """Seconds in which a core's matrix units wait for what follows a tile's products, its maps and stores, before the next tile's begin:
    none where warpgroups take turns or the schedule has several blocks a core. Blocks without roles do so beside each other, but for one
    that has a core alone and fills its ring anew."""
    one, each = chip.limits.get("settle", 0.0), chip.limits.get("epilogue", 0.0) * t.rows * t.columns
    if s.roles == "cooperative":
        one += each / (128 * s.workers)
    elif min(chip.memory("shared").capacity // max(1.0, s.stages * t.slot), _resident(s, chip)) < 2:
        one += each / s.threads + chip.limits.get("block", 0.0)
    return 0.0 if s.apart or s.resident > 1 else one * (waves - 1)


def _resident(s: Schedule, chip: Chip) -> int:
    """Blocks that a core holds at once, as far as their threads decide it."""
    return int(chip.limits.get("resident_threads", 2 * chip.limits["threads"]) // s.threads)


def _waiting(s: Schedule, chip: Chip, d: Demand, t: _Tile) -> float:
    """Seconds that latency takes from a reduction.

    In chunks: a core gets what its threads have under way, once a latency. A thread has a chunk's loads under way (several chunks'
    where they are small: compilers unroll), up to a limit of the chip. In one piece: a block lives for its loads and, where threads
    share a result, as long again for the exchange; a core has so many blocks at a time (max pooling of 100352 blocks of one pixel
    took 105 us on an H200, 13 times its bytes; measured 2026-11-21).
    """
    if d.roles.form != "reduce":
        return 0.0
    room = max(1, int(chip.limits["threads"] * 2 // s.threads))
    if t.chunks == 1:
        kept = d.size("rows", dict(s.tile)) * min((a.element for a in d.operands), default=4)
        shared = kept < 16 * s.threads
        lives = t.tiles / (chip.cores * room) * chip.latency * (1 + shared * len(d.roles.depths))
        return lives if lives > t.read / chip.memories[0].bandwidth else 0.0  # while some blocks wait the others copy
    most, elements = t.bytes / s.threads, max(1.0, t.elements / s.threads)
    unrolled = min(4.0, max(1.0, UNROLLED / elements), t.chunks)
    blocks = min(-(-t.tiles // chip.cores), room)
    under_way = blocks * s.threads * min(chip.limits.get("under_way", 64.0), most * unrolled) * min(chip.cores, t.tiles)
    return d.work.read * chip.latency / under_way


def direct_resident(s: Schedule, chip: Chip) -> int:
    """Blocks that share a core where factors come straight to registers; compilers are told, for one register more leaves one out."""
    return max(1, min(int(chip.limits["threads"] * 2 // s.threads), chip.registers.count // (s.threads * DIRECT)))


def _direct_waiting(s: Schedule, chip: Chip, d: Demand, t: _Tile) -> float:
    """Seconds that latencies take where factors come straight to registers: of memory, once a turn; of instructions, where a core has
    too few waves to hide them; and of waves that add up what they have."""
    resident = direct_resident(s, chip)
    turns = -(-d.roles.extent("depth") // max(1, t.shape[2])) if t.shape else 1
    memory = -(-t.tiles // (chip.cores * resident)) * -(-turns // max(1, s.stages - 1)) * chip.latency
    waves = s.threads / chip.lanes(4) * min(resident, t.tiles / chip.cores)
    return max(memory, d.packed / chip.vector["f32"] * HIDING / waves) + MEETING * s.threads / chip.lanes(4)


def _matrix_share(s: Schedule, chip: Chip, m: int, n: int, depth: int, work: Work, turn: float, narrow: float) -> float:
    """Share of the matrix rate: what the instruction allows, and what the ring's depth hides of the memory latency and of the time that
    a turn's bytes take (a slot is filled anew only when all of it has been read)."""
    if s.instruction == "direct":
        return chip.limits.get("warp_matrix", 1.0)
    share = 1 / narrow if s.roles == "cooperative" else chip.limits.get("warp_matrix", 1.0)
    share *= chip.limits.get(f"warp_{work.matrix_dtype}", 1.0) if s.roles != "cooperative" else 1.0
    share *= PAIRED if s.cluster > s.deep else 1.0
    step = 2.0 * m * n * depth / (chip.matrix_rate(work.matrix_dtype) / chip.cores)
    ahead = max(1, s.stages - 1)
    hidden = step * ahead * s.resident / (chip.latency + turn)
    return max(0.02, min(share, hidden)) * hidden / (hidden + SLACK)


def _padding(d: Demand, tile: Mapping[str, int], patches: bool = False) -> float:
    """Work of whole tiles over the work asked for. In a tile all axes of a side but the outermost take powers of two; in depth not where
    taps are boxes of their own."""
    out = 1.0
    for axes in (d.roles.rows, d.roles.cols, d.roles.depth):
        exact = patches and axes is d.roles.depth
        for a, places in zip(axes, [min(tile.get(a.name, LONG), d.extent[a.name]) for a in axes] if exact else _padded(d, axes, tile)):
            e = d.extent[a.name]
            out *= -(-e // tile.get(a.name, e)) * places / e
    return out


def _padded(d: Demand, axes: Sequence[Axis], tile: Mapping[str, int]) -> list[int]:
    """Places of each axis of a side in a tile."""
    wide = [a for a in axes if tile.get(a.name, d.extent[a.name]) > 1]
    size = lambda a: tile.get(a.name, d.extent[a.name])
    return [power_of_two(size(a)) if a in wide[1:] else size(a) for a in axes]


def whole_lines(a: Operand, tile: Mapping[str, int], line: int) -> float:
    """Bytes moved over bytes used where a block reads an operand: whole lines for runs shorter than one."""
    worst = 1.0
    for side_by_side in a.runs:
        run = _run(side_by_side, tile) * a.element
        if run < line:
            worst = max(worst, min(line / run, line / a.element))
    return worst


def _run(side_by_side: tuple[str, ...] | None, tile: Mapping[str, int]) -> int:
    """Elements side by side in memory that one tile reads along the last dimension (whole axes count as long)."""
    if side_by_side is None:
        return LONG
    return max((tile.get(n, LONG) for n in side_by_side), default=1)
