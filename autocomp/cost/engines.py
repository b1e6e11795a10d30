"""What a product costs on chips whose cores pass tiles from engine to engine: copies to L1, to the matrix unit's buffers, products, the
way out, and vector cores beside them. Engines work at the same time where their buffers have two slots, else one after the other."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.derived import constant
from autocomp.cost.pipes import Side, Stream, copy_to_l1, launch_time, memory_seconds, pass_by, stream_time, together
from autocomp.cost.roles import Roles
from autocomp.cost.roofline import memory_time
from autocomp.cost.work import Cost, Work
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint

KEPT_ROWS, KEPT_CALLS = int(constant("kept_rows")), int(constant("kept_calls"))
SUM = F32  # bytes of an element of a sum


def engine_time(s: Schedule, chip: Chip, roles: Roles, work: Work, bytes_: int, runs: tuple[int, int] = (0, 0),
                odd: bool = False, left: float = 1.0) -> Cost:  # fmt: skip
    """Seconds of a contraction or an online contraction in tiles; `bytes_`: of a factor's element; `runs`: elements side by side in a
    tile's copy of each factor (0: along the depth); `odd`: rows of a factor do not begin at blocks of 32 bytes; `left`: share of
    its blocks that a mask leaves the slowest core. Equations of each pipe: `cost.pipes`.

    The slowest core has ceil(tiles / cores) tiles. In an online contraction the cube core waits for what vector cores make of its
    scores, so their times add up; where the second product runs some rounds late (`softmax_overlap`, `stages` - 1 of them) they run side by
    side, for so many rounds more: of a tile, or of all tiles of a core where rounds run on from tile to tile (`persistent`). A block's
    weights pass the cube core's engines one after another, and vector cores want their product that many rounds later.
    """
    tile, grain = dict(s.tile), dict(zip(("rows", "cols", "depth"), chip.granule))

    def size(role: str) -> int:
        whole = prod(min(tile.get(a.name, dim_hint(a.extent)), dim_hint(a.extent)) for a in getattr(roles, role))
        return -(-whole // grain[role]) * grain[role]

    m, n, depth = size("rows"), size("cols"), size("depth")
    steps = -(-roles.extent("depth") // max(1, depth)) * left  # of a tile, in the mean
    rounds = -(-work.tiles // chip.cores)
    rate = lambda memory: chip.memory(memory).bandwidth / chip.cores
    per_core = rounds * chip.cores / work.tiles * left
    online = roles.form == "online"
    in_turn = online and not s.softmax_overlap
    ends = 1 if s.persistent and not in_turn else rounds  # times that engines fall idle one after another
    products = max(1, len(roles.depths))
    flops = 2.0 * m * n * depth * steps * products
    moved = depth * steps * (m + n * products) * bytes_
    scores = m * depth * steps * SUM if online else 0  # through memory to the vector cores, and back in half precision
    out = m * n * SUM * (steps if online else 1)
    part = fed_at_once(m, n, depth, bytes_, chip)
    handed = rounds * steps * chip.numbers["handed_over"] * chip.limits["handover"]
    lim, flags = chip.limits, rounds * steps * products * -(-depth // part)
    sides = (m, products * n)
    copied = [copy_to_l1(Side(depth * x * bytes_, (run or depth) * bytes_, odd=odd), chip) for x, run in zip(sides, runs)]
    halves = online and not in_turn and "half_scores" in s.directives
    own_sums = chip.granule[1] if online and "mma_row_sums" in s.directives else 0  # columns that a sum of weights adds to those of values
    piece = columns_at_once(m, n + own_sums, depth, chip) if halves else depth  # of scores that leave at once
    if m * (n + own_sums + (2 * piece if halves else piece)) * SUM > chip.memory("l0c").capacity:
        own_sums = 0
    flops += 2.0 * m * own_sums * depth * steps
    if halves or (online and "handed_fractals" in s.directives):  # weights lie in memory as in L1
        copied[0] = copy_to_l1(Side(depth * m * bytes_, depth * m * bytes_), chip)
    in_order = {"tile", "line", "kept", "kept line"}.intersection(roles.steps)
    if halves and not in_order and runs[1] == n and roles.extent("depth") % depth == 0:  # neighbouring rows are copied as longer ones
        copied[1] = copy_to_l1(Side(depth * products * n * bytes_, depth // piece * n * bytes_), chip)
    used = work.vector or work.special or online
    vector = per_core * (work.vector / chip.vector["f32"] + work.special / chip.special)
    arriving = rounds * (out + scores / (2 if halves else 1)) * chip.cores / lim["ub_in"] if used else 0.0
    if halves:  # of each weight all but its exponential is for two at once
        more, beside, added = half_steps(roles.steps, m, depth, steps, chip.granule[1])
        arriving += rounds * steps * added * chip.cores / lim["ub_in"]
        calls = chip.numbers["half_calls"] - (chip.numbers["half_sum_calls"] if own_sums else 0)
        operations = chip.numbers["half_operations"] - (chip.numbers["half_sums"] if own_sums else 0)
        own = chip.numbers["state_operations"] * m * n + m * (operations * depth + chip.numbers["half_row"]) + beside
        each = (calls + more) * lim["vector_start"] + own * chip.cores / chip.vector["f32"]
        vector = per_core * work.special / chip.special + rounds * steps * each
    elif online:  # beside what is counted of each weight
        banks = chip.numbers["fused_bank_waits"] if "fused_scale" in s.directives else chip.numbers["bank_waits"]
        own = chip.numbers["state_operations"] * m * n + banks * m * depth
        calls = chip.numbers["round_calls"] - chip.numbers["partial_calls"] * ("thread_partials" in s.directives)
        if own_sums:
            calls, own = chip.numbers["round_calls"] - chip.numbers["row_sum_calls"], own - m * depth
        edges = tuple(x for x in roles.steps if x in ("endless", "mask"))
        more, beside, _ = half_steps(edges, m, depth, steps, chip.granule[1] // 2)
        vector += rounds * steps * ((calls + more) * lim["vector_start"] + (own + 2 * beside) * chip.cores / chip.vector["f32"])
    drain = lambda columns: lim["drain"] + m * columns * SUM / rate("l0c")
    leaving = rounds * (steps * (depth // piece * drain(piece) + drain(n + own_sums)) if online else drain(n))
    t = {
        "copies to L1": rounds * steps * sum(copied),
        "copies to L0": flags * lim["feed"] + rounds * depth * steps * products * bytes_ * (m / rate("l0a") + n / rate("l0b")),
        "matrix unit": flags * lim["product"] + rounds * flops / (chip.matrix_rate(work.matrix_dtype) / chip.cores),
        "copies from L0C": leaving,
        "vector cores": vector,
        "copies to vector cores": arriving,
    }
    chain = ["matrix unit"]
    if 2 * part * max(m, n) * bytes_ > chip.memory("l0a").capacity:
        chain.append("copies to L0")
    if 2 * depth * (m + n) * bytes_ > chip.memory("l1").capacity:
        chain.append("copies to L1")
    if 2 * m * n * SUM > chip.memory("l0c").capacity or in_turn:
        chain.append("copies from L0C")
    chain += ["vector cores", "copies to vector cores"] if in_turn else []
    alternating = 0.0
    if online and not in_turn:
        late = max(1, s.stages - 1)
        t = {x: v * (1 + late * ends / (steps * rounds)) for x, v in t.items()}
        slots = late + 1 + 2  # of factors: of the round behind, of those under way, and one that they are copied to meanwhile
        room = 2 * slots * depth * n * bytes_ + m * (depth + n) * 2 <= chip.memory("l1").capacity
        if not room or slots + 2 > lim["events"]:  # without the last one copies wait for what is fed late, and it for them
            alternating = t["copies to L1"] + t["copies to L0"] / products
        weights = rounds * steps * copied[0]  # other factors are there before they are wanted
        product = (t["copies to L0"] + t["matrix unit"]) / products + (t["copies from L0C"] + t["copies to vector cores"]) / 2
        if halves and 2 * m * (n + own_sums + piece) * SUM > chip.memory("l0c").capacity:  # all but two parts of the scores wait
            alone = t["matrix unit"] * (1 + piece / depth) / 2
            t["sums' way"] = alone + rounds * steps * (drain(n + own_sums) + max(0, depth // piece - 2) * drain(piece))
        t["weights' way"] = (weights + product + handed * 2 / chip.numbers["handed_over"]) / late
    core = together((sum(t[x] for x in chain), *(v for x, v in t.items() if x not in chain)), chip.numbers["pipes_power"])
    core = max(core, alternating)
    memory, seconds = memory_time(work.read + work.written, chip, chip.cores)
    t[memory] = max(seconds, work.tiles * moved / chip.memory("l2").bandwidth if memory == "l2" else 0.0)
    shared = "memory_power" if memory == chip.memories[0].name else "pipes_power"
    waits = ends * (lim["tile"] + (lim["handover"] if online and not in_turn else 0.0)) + (handed if in_turn else 0.0)
    launch = launch_time(chip, chip.cores)
    bound = max(t, key=lambda x: t[x]) if max(t.values()) >= sum(t[x] for x in chain) / 2 else "matrix unit"
    seconds = together((core, t[memory]), chip.numbers[shared]) + waits + launch
    return Cost(seconds, bound if seconds - launch >= launch else "launch", (*t.items(), ("waits", waits), ("launch", launch)))


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


def vector_time(work: Work, reads: tuple[float, ...], chip: Chip, carried: bool, bypass: bool = False, elements: float = 0.0) -> Cost:
    """Seconds of a kernel that vector cores alone compute, in `work.tiles` tiles; `reads`: bytes of each operand. carried: the tiles of a
    core end in statistics that the next instruction waits for. bypass: inputs that are read once may pass L2 by. elements: results of a
    map, each of whose functions of words has many instructions a tile."""
    lim, tiles = chip.limits, max(1, work.tiles)
    cores = chip.cores * lim["vector_cores"]
    rounds = -(-tiles // cores)
    vector = work.vector + work.words * (chip.numbers["word_steps"] - 1)
    units = {"vector unit": vector / chip.vector["f32"], "special functions": work.special / chip.special}
    clocks = sum(units.values()) * cores * chip.clock / tiles
    calls = len(reads) + 1 + (work.words / elements * chip.numbers["word_steps"] if elements else 0.0)
    s = Stream(rounds, tuple(b / tiles for b in reads), (work.written / tiles,), clocks, calls)
    memory, seconds = memory_time(work.read + work.written, chip, chip.cores)
    if memory == chip.memories[0].name:
        seconds = memory_seconds(work.read, work.written, chip, bypass and pass_by(work.read, work.written, chip))
    waits = rounds * lim["tile"] if carried else 0.0
    busy = stream_time(s, chip, seconds)
    t = {memory: seconds, **{x: v for x, v in units.items() if v}, "copies": stream_time(replace(s, repeats=0.0), chip)}
    top = max(t, key=lambda x: t[x])
    parts = (*t.items(), ("waits", waits), ("launch", chip.launch))
    return Cost(busy + waits + chip.launch, top if busy >= chip.launch else "launch", parts)
