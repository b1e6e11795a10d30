"""What a product costs on chips whose cores pass tiles from engine to engine: copies to L1, to the matrix unit's buffers, products, the
way out, and vector cores beside them. Engines work at the same time where their buffers have two slots, else one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.derived import constant
from autocomp.cost.instructions import NONE, Instructions
from autocomp.cost.pipes import (
    BLOCK,
    Side,
    Stream,
    copy_to_l1,
    first_and_last,
    launch_time,
    memory_seconds,
    pass_by,
    step_time,
    stream_time,
    together,
)
from autocomp.cost.roles import Roles
from autocomp.cost.roofline import memory_time
from autocomp.cost.work import Cost, Work
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint

KEPT_ROWS, KEPT_CALLS = int(constant("kept_rows")), int(constant("kept_calls"))
SUM = F32  # bytes of an element of a sum


@dataclass(frozen=True)
class Tiles:
    """Tiles of a product under a schedule, in whole fractals, and what the slowest core has of them.

    m, n, depth: of a tile and a step. steps: of a tile, in the mean, by the share that a mask leaves; rounds: tiles of the slowest core;
    per_core: its share of all cores' work, times the cores. products: of a step (attention has two). halves: scores stay in half
    precision; sums: columns that a sum of weights adds to those of values; piece: columns of scores that leave L0C at once.
    """

    s: Schedule
    chip: Chip
    roles: Roles
    work: Work
    bytes: int  # of a factor's element
    m: int
    n: int
    depth: int
    steps: float
    rounds: int
    per_core: float
    products: int
    halves: bool = False
    sums: int = 0
    piece: int = 0

    @property
    def online(self) -> bool:
        return self.roles.form == "online"

    @property
    def in_turn(self) -> bool:
        """Do cube and vector cores wait for each other in every step?"""
        return self.online and not self.s.softmax_overlap

    @property
    def ends(self) -> int:
        """Times that engines fall idle one after another."""
        return 1 if self.s.persistent and not self.in_turn else self.rounds

    def rate(self, memory: str) -> float:
        return self.chip.memory(memory).bandwidth / self.chip.cores

    def drain(self, columns: int) -> float:
        """Seconds in which sums of so many columns leave L0C."""
        return self.chip.limits["drain"] + self.m * columns * SUM / self.rate("l0c")


def tiles_of(s: Schedule, chip: Chip, roles: Roles, work: Work, bytes_: int, left: float) -> Tiles:
    """Sizes of a schedule's tiles, and how their scores leave L0C."""
    tile, grain = dict(s.tile), dict(zip(("rows", "cols", "depth"), chip.granule))

    def size(role: str) -> int:
        whole = prod(min(tile.get(a.name, dim_hint(a.extent)), dim_hint(a.extent)) for a in getattr(roles, role))
        return -(-whole // grain[role]) * grain[role]

    m, n, depth = size("rows"), size("cols"), size("depth")
    steps = -(-roles.extent("depth") // max(1, depth)) * left
    rounds = -(-work.tiles // chip.cores)
    x = Tiles(s, chip, roles, work, bytes_, m, n, depth, steps, rounds, rounds * chip.cores / work.tiles * left, max(1, len(roles.depths)))
    halves = x.online and not x.in_turn and "half_scores" in s.directives
    sums = chip.granule[1] if x.online and "mma_row_sums" in s.directives else 0
    piece = columns_at_once(m, n + sums, depth, chip) if halves else depth
    if m * (n + sums + (2 * piece if halves else piece)) * SUM > chip.memory("l0c").capacity:
        sums = 0
    return replace(x, halves=halves, sums=sums, piece=piece)


@dataclass(frozen=True)
class Rows:
    """How a factor lies in memory. run: elements side by side in a tile's copy (0: along the depth); odd: share of its rows that do not
    begin at blocks of 32 bytes."""

    run: int = 0
    odd: float = 0.0


def engine_time(s: Schedule, chip: Chip, roles: Roles, work: Work, bytes_: int, own: Rows = Rows(), others: tuple[Rows, ...] = (Rows(),),
                left: float = 1.0, after: Instructions = NONE) -> Cost:  # fmt: skip
    """Seconds of a contraction or an online contraction in tiles; `bytes_`: of a factor's element; `own`: rows of the
    factor with the rows, `others`: of those with the columns; `left`: share of its blocks that a mask leaves the slowest core; `after`:
    what vector cores do with the sums of a product, the last tile's beside nothing else. Equations of each pipe: `cost.pipes`.

    The slowest core has ceil(tiles / cores) tiles. In an online contraction the cube core waits for what vector cores make of its
    scores, so their times add up; where the second product runs some rounds late (`softmax_overlap`, `stages` - 1 of them) they run side by
    side, for so many rounds more: of a tile, or of all tiles of a core where rounds run on from tile to tile (`persistent`).
    """
    x = tiles_of(s, chip, roles, work, bytes_, left)
    lim = chip.limits
    part = fed_at_once(x.m, x.n, x.depth, bytes_, chip)
    copied = copies_to_l1(x, own, others)
    vector, arriving = vector_seconds(x)
    vector += x.rounds * after.calls * lim["vector_start"] + x.per_core * after.elements / chip.vector["f32"]
    last = lim["handover"] + (vector + arriving) / x.rounds if after.calls else 0.0
    flags = x.rounds * x.steps * x.products * -(-x.depth // part)
    flops = 2.0 * x.m * (x.n * x.products + x.sums) * x.depth * x.steps
    fed = x.rounds * x.depth * x.steps * x.products * bytes_ * (x.m / x.rate("l0a") + x.n / x.rate("l0b"))
    left_l0c = x.steps * (x.depth // x.piece * x.drain(x.piece) + x.drain(x.n + x.sums)) if x.online else x.drain(x.n)
    t = {
        "copies to L1": x.rounds * x.steps * sum(copied),
        "copies to L0": flags * lim["feed"] + fed,
        "matrix unit": flags * lim["product"] + x.rounds * flops / (chip.matrix_rate(work.matrix_dtype) / chip.cores),
        "copies from L0C": x.rounds * left_l0c,
        "vector cores": vector,
        "copies to vector cores": arriving,
    }
    handed = x.rounds * x.steps * chip.numbers["handed_over"] * lim["handover"]
    alternating = 0.0
    if x.online and not x.in_turn:
        t, alternating = side_by_side(x, t, copied[0], handed)
    chain = one_after_another(x, part)
    core = max(together((sum(t[c] for c in chain), *(v for c, v in t.items() if c not in chain)), chip.numbers["pipes_power"]), alternating)
    memory, seconds = memory_time(work.read + work.written, chip, chip.cores)
    moved = x.depth * x.steps * (x.m + x.n * x.products) * bytes_
    t[memory] = max(seconds, work.tiles * moved / chip.memory("l2").bandwidth if memory == "l2" else 0.0)
    shared = "memory_power" if memory == chip.memories[0].name else "pipes_power"
    waits = x.ends * (lim["tile"] + (lim["handover"] if x.online and not x.in_turn else 0.0)) + (handed if x.in_turn else 0.0) + last
    launch = launch_time(chip, chip.cores)
    bound = max(t, key=lambda c: t[c]) if max(t.values()) >= sum(t[c] for c in chain) / 2 else "matrix unit"
    seconds = together((core, t[memory]), chip.numbers[shared]) + waits + launch
    return Cost(seconds, bound if seconds - launch >= launch else "launch", (*t.items(), ("waits", waits), ("launch", launch)))


def copies_to_l1(x: Tiles, own: Rows, others: tuple[Rows, ...]) -> tuple[float, float]:
    """Seconds a step of the copies of the factor with the rows and of the others. Where copies are of whole blocks each block goes to its
    fractal by itself, as those of rows that begin within one do elsewhere. Weights that lie in memory as in L1 are one run; rows of keys
    and of values that all lie one behind the other are copied some at once."""

    def side(columns: float, r: Rows, run: int = 0) -> float:
        size, along = x.depth * columns * x.bytes, (run or r.run or x.depth) * x.bytes
        if "whole_blocks" not in x.chip.features:
            return copy_to_l1(Side(size, along, odd=r.odd), x.chip)
        rows = size / along  # a copy each, or a column of fractals each
        return copy_to_l1(Side(size, along, odd=1.0, copies=rows if r.odd else min(rows, along / BLOCK)), x.chip)

    in_order = {"tile", "line", "kept", "kept line"}.intersection(x.roles.steps)
    whole = all(r.run == x.n and not r.odd for r in others) and x.roles.extent("depth") % x.depth == 0
    joined = x.depth // x.piece * x.n if x.halves and whole and not in_order else 0
    fractals = x.depth * x.m if x.halves or (x.online and "handed_fractals" in x.s.directives) else 0
    mine = side(x.m, Rows() if fractals else own, fractals)
    return mine, sum(side(x.products * x.n / len(others), r, joined) for r in others)


def vector_seconds(x: Tiles) -> tuple[float, float]:
    """Seconds of vector instructions, and of what arrives from the cube core for them. In an online contraction scores pass memory to the
    vector cores, and weights come back in half precision."""
    chip, work, lim, of = x.chip, x.work, x.chip.limits, x.chip.numbers
    m, n, depth = x.m, x.n, x.depth
    scores = m * depth * x.steps * SUM if x.online else 0
    out = m * n * SUM * (x.steps if x.online else 1)
    used = work.vector or work.special or x.online
    vector = x.per_core * (work.vector / chip.vector["f32"] + work.special / chip.special)
    arriving = x.rounds * (out + scores / (2 if x.halves else 1)) * chip.cores / lim["ub_in"] if used else 0.0
    if x.halves:  # of each weight all but its exponential is for two at once
        more, beside, added = half_steps(x.roles.steps, m, depth, x.steps, chip.granule[1])
        arriving += x.rounds * x.steps * added * chip.cores / lim["ub_in"]
        calls = of["half_calls"] - (of["half_sum_calls"] if x.sums else 0)
        operations = of["half_operations"] - (of["half_sums"] if x.sums else 0)
        own = of["state_operations"] * m * n + m * (operations * depth + of["half_row"]) + beside
        each = (calls + more) * lim["vector_start"] + own * chip.cores / chip.vector["f32"]
        vector = x.per_core * work.special / chip.special + x.rounds * x.steps * each
    elif x.online:  # beside what is counted of each weight
        banks = of["fused_bank_waits"] if "fused_scale" in x.s.directives else of["bank_waits"]
        own = of["state_operations"] * m * n + banks * m * depth
        calls = of["round_calls"] - of["partial_calls"] * ("thread_partials" in x.s.directives)
        if x.sums:
            calls, own = of["round_calls"] - of["row_sum_calls"], own - m * depth
        edges = tuple(e for e in x.roles.steps if e in ("endless", "mask"))
        more, beside, _ = half_steps(edges, m, depth, x.steps, chip.granule[1] // 2)
        vector += x.rounds * x.steps * ((calls + more) * lim["vector_start"] + (own + 2 * beside) * chip.cores / chip.vector["f32"])
    return vector, arriving


def one_after_another(x: Tiles, part: int) -> list[str]:
    """Engines that wait for each other, since a memory between them has no room for two slots; `part`: depth that is fed at once."""
    size = lambda memory: x.chip.memory(memory).capacity
    chain = ["matrix unit"]
    if 2 * part * max(x.m, x.n) * x.bytes > size("l0a"):
        chain.append("copies to L0")
    if 2 * x.depth * (x.m + x.n) * x.bytes > size("l1"):
        chain.append("copies to L1")
    if 2 * x.m * x.n * SUM > size("l0c") or x.in_turn:
        chain.append("copies from L0C")
    return chain + (["vector cores", "copies to vector cores"] if x.in_turn else [])


def side_by_side(x: Tiles, t: dict[str, float], weights: float, handed: float) -> tuple[dict[str, float], float]:
    """Times of engines where the second product runs some rounds late, with what passes several of them in order, and the time of copies
    and feeds that take turns for want of a slot. A block's weights pass the cube core's engines one after another, and vector cores want
    their product that many rounds later. `weights`: seconds of a step's copies of them to L1; `handed`: of all hand-overs."""
    chip, steps = x.chip, x.rounds * x.steps
    late = max(1, x.s.stages - 1)
    t = {c: v * (1 + late * x.ends / steps) for c, v in t.items()}
    slots = late + 1 + 2  # of factors: of the round behind, of those under way, and one that they are copied to meanwhile
    room = 2 * slots * x.depth * x.n * x.bytes + x.m * (x.depth + x.n) * 2 <= chip.memory("l1").capacity
    short = not room or slots + 2 > chip.limits["events"]  # copies of factors then wait for what is fed late, and it for them
    alternating = t["copies to L1"] - steps * weights + t["copies to L0"] / x.products if short else 0.0
    product = (t["copies to L0"] + t["matrix unit"]) / x.products + (t["copies from L0C"] + t["copies to vector cores"]) / 2
    if x.halves and 2 * x.m * (x.n + x.sums + x.piece) * SUM > chip.memory("l0c").capacity:  # all but two parts of the scores wait
        alone = t["matrix unit"] * (1 + x.piece / x.depth) / 2
        t["sums' way"] = alone + steps * (x.drain(x.n + x.sums) + max(0, x.depth // x.piece - 2) * x.drain(x.piece))
    # other factors are there before they are wanted
    t["weights' way"] = (steps * weights + product + handed * 2 / chip.numbers["handed_over"]) / late
    return t, alternating


def half_steps(steps: tuple[str, ...], m: int, depth: int, blocks: float, column: int) -> tuple[float, float, float]:
    """(instructions of a vector core, operations, bytes that arrive) a block of m x depth scores in half precision for what is done to them
    first (`Roles.steps`), two a lane: an addition is an instruction for eight of a core's m / 2 rows, as is the choice by truth values,
    which become halves first. A mask touches columns, of `column`
    keys, past a core's first row in the blocks, of `blocks` a tile, up to that of the tile's last one, by two instructions; one that
    ends no loop half of the others as well."""
    adds, lines, edges = steps.count("tile"), steps.count("line"), steps.count("mask") + steps.count("endless")
    past = min((m + m / 2 + depth) / 2 / blocks, depth)  # keys a block, in the mean of both cores
    filled = depth / 2 * steps.count("mask")
    kept, marks, more = steps.count("kept"), steps.count("kept line"), KEPT_CALLS + steps.count("limit")
    calls = (adds + lines + kept + marks) * m / column + (kept * -(-m // (2 * KEPT_ROWS)) + marks) * more
    calls += steps.count("by") + (past * 2 + filled) / column * edges + edges
    operations = m / 2 * (depth * (adds + lines + kept * (1 + more) + marks + steps.count("by")) + (past + filled) * edges)
    return calls, operations, 2.0 * depth * (m * adds + 2 * lines) + depth * (m * kept + 2 * marks)


def fed_at_once(m: int, n: int, depth: int, bytes_: int, chip: Chip, lefts: int = 1, rights: int = 1, more: int = 0) -> int:
    """Elements of a step's depth that go to the matrix unit's buffers at once, in whole fractals: even parts, as few as leave room for two
    slots of every factor. A step that is copied to L1 in long rows may be deeper than these buffers. `lefts`, `rights`: factors a step;
    `more`: columns beside those of all right ones.
    """
    grain = chip.granule[2]
    room = min(chip.memory("l0a").capacity // (2 * lefts * m * bytes_), chip.memory("l0b").capacity // (2 * (rights * n + more) * bytes_))
    most = max(grain, int(room) // grain * grain)
    parts = -(-depth // most)
    return int(-(-depth // (parts * grain)) * grain)


def columns_at_once(m: int, n: int, depth: int, chip: Chip) -> int:
    """Columns of m x depth scores in half precision that leave L0C at once: an even part of two or more, as large as leaves room for
    another one and for a sum of n columns, but `score_columns` at least. As many rows of keys as there are parts may be copied as one."""
    grain, least = chip.granule[1], min(depth, int(chip.numbers["score_columns"]))
    most = (int(chip.memory("l0c").capacity) // (m * SUM) - n) // 2
    return next((p for p in range(min(depth // 2, most) // grain * grain, least, -grain) if depth % p == 0), least)


def vector_time(work: Work, reads: tuple[float, ...], chip: Chip, carried: bool, bypass: bool = False, more: Instructions = NONE,
                chunks: int = 1, passes: int = 1, steps: int = 1, folded: int = 1) -> Cost:  # fmt: skip
    """Seconds of a kernel that vector cores alone compute, in `work.tiles` tiles; `reads`: bytes of each operand. carried: the tiles of a
    core end in statistics that the next instruction waits for. bypass: inputs that are read once may pass L2 by. more: instructions beside
    those of copies; rows are copied one by one, from where the scalar unit reads that they lie. chunks: of a tile, which pass by so often
    (`passes`); in the first pass each ends in statistics. steps: of a tile, in which `folded` rows each are folded lane by lane, half of
    them onto the other half; of two that are under way each has to arrive, pass through its instructions and free its slot."""
    lim, tiles = chip.limits, max(1, work.tiles)
    cores = chip.cores * lim["vector_cores"]
    rounds = -(-tiles // cores)
    vector = work.vector + more.elements + work.words * (chip.numbers["word_steps"] - 1)
    units = {"vector unit": vector / chip.vector["f32"], "special functions": work.special / chip.special}
    clocks = sum(units.values()) * cores * chip.clock / tiles
    calls = len(reads) + 1 + more.calls / passes
    turns = chunks * passes * steps
    calls += (folded - 1).bit_length()
    s = Stream(rounds * turns, tuple(b / tiles / chunks / steps for b in reads), (work.written / tiles / turns,), clocks / turns, calls,
               copies=(more.into, more.out))  # fmt: skip
    memory, seconds = memory_time(work.read + work.written, chip, chip.cores)
    if memory == chip.memories[0].name:
        seconds = memory_seconds(work.read, work.written, chip, bypass and pass_by(work.read, work.written, chip), (passes - 1) * work.read)
    waits = rounds * chunks * lim["tile"] if carried else 0.0
    own = max(stream_time(s, chip), s.rounds * step_time(s, chip) / s.slots if steps > 1 else 0.0)
    named = more.rows / min(cores, tiles) * max(lim["ub_issue"], chip.numbers["scalar_read"] / chip.clock)
    busy = max(stream_time(s, chip, seconds), own + named + first_and_last(s, chip))  # cores that wait for memory begin and end apart
    t = {memory: seconds, **{x: v for x, v in units.items() if v}, "copies": stream_time(replace(s, repeats=0.0), chip)}
    top = max(t, key=lambda x: t[x])
    parts = (*t.items(), ("waits", waits), ("launch", chip.launch))
    return Cost(busy + waits + chip.launch, top if busy >= chip.launch else "launch", parts)
