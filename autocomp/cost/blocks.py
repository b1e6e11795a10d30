"""What a schedule costs on chips that run blocks of threads: traffic between L2 and the cores, latency, partial lines and waves."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autocomp.cost.chip import Chip
from autocomp.cost.copies import narrow_copies
from autocomp.cost.roles import Roles, power_of_two
from autocomp.cost.roofline import OVERLAP, time_of
from autocomp.cost.work import Cost, Work
from autocomp.ir.affine import Aff
from autocomp.ir.body import Load, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint

UNROLLED = 16  # elements of a loop's body up to which compilers are seen to overlap several iterations
SHORT = 0.1  # of the time of pieces below four sectors is lost: 64 bytes against 128 in a transpose, benchmarks/gpu.py, H200, 2026-11-21
# Attention with heads of 64 and 128, 13 schedules, benchmarks/gpu.py, H200, 2026-11-21:
APART, TOGETHER = 0.55, 0.65  # what is not hidden of the other units' work, in blocks of one team and of several
NARROW = 1.15  # a product of 64 columns reads shared memory as fast as it computes
SLACK = 0.02  # a deeper ring still helps a little where the mean latency is hidden


def block_time(k: Kernel, s: Schedule, chip: Chip, roles: Roles, work: Work) -> Cost:
    """Seconds of a kernel whose tiles are blocks of threads.

    Beyond the roofline: operands of a contraction reach a core once a tile, through L2; partial lines move whole; a ring of copies
    that is too short leaves the matrix unit waiting; the last wave of blocks leaves cores idle.
    """
    tile = dict(s.tile)
    size = lambda axes: prod(min(tile.get(a.name, dim_hint(a.extent)), dim_hint(a.extent)) for a in axes)
    near = 0.0
    if roles.form in ("contract", "online"):
        near = work.tiles * _block_bytes(k, roles, tile) / chip.memory("l2").bandwidth
        near *= max(1.0, chip.cores / work.tiles)  # a core draws its own share at most
        share = _matrix_share(s, chip, size(roles.rows), size(roles.cols), size(roles.depth), work)
        if roles.form == "online":
            share = 1.0 if s.roles == "cooperative" else chip.limits.get("warp_matrix", 1.0)
        work = replace(work, matrix_eff=share, m=0, n=0, k=0, matrix=work.matrix * _padding(roles, tile))
        if "copies" in chip.limits:
            narrow = narrow_copies(k, size(roles.rows), size(roles.cols))
            work = replace(work, copies=work.tiles * roles.extent("depth") * narrow)
    line = 2 * chip.memories[0].line  # neighbouring sectors travel together
    extra = sum(a.type.bytes * (whole_lines(k, a.name, tile, a.type.dtype.bytes, line) - 1) for a in k.inputs)
    extra += SHORT * sum(b for b, run in _pieces(k, tile) if run < 4 * chip.memories[0].line)
    cost = time_of(replace(work, read=work.read + extra), chip)
    waves = -(-work.tiles // (chip.cores * s.resident))
    first = chip.limits.get("block", 0.0)
    start = first * (1 + OVERLAP * min(waves - 1, 8))
    terms = {cost.bound: cost.seconds - chip.launch, "l2": near, "latency": _waiting(k, s, chip, roles, work, tile)}
    if roles.form == "online":
        terms["latency"], start = _turns(s, chip, roles, work, tile, dict(cost.parts)), first * waves / s.resident
    bound = max(terms, key=lambda x: terms[x])
    seconds = terms[bound] + OVERLAP * (sum(terms.values()) - terms[bound]) + chip.launch + start
    return Cost(seconds, bound, (*cost.parts, *((n, x) for n, x in terms.items() if n != cost.bound), ("start", start)))


def _turns(s: Schedule, chip: Chip, roles: Roles, work: Work, tile: dict[str, int], parts: dict[str, float]) -> float:
    """Seconds of an online contraction's turns: a team's products, then its maps, then the next turn; teams of a core overlap.

    All teams together take no less than the busiest unit for the work of all, and a share of what the other units do: more where the
    teams of a block wait for the same copies. One team takes no less than its products, maps and waits one after another.
    """
    teams = s.workers if s.roles == "cooperative" else max(1, s.threads // 128)
    depth = prod(min(tile.get(a.name, dim_hint(a.extent)), dim_hint(a.extent)) for a in roles.depth)
    turns = -(-roles.extent("depth") // max(1, depth))
    share = chip.cores / (work.tiles * turns * teams)
    matrix, vector, special = (parts.get(n, 0.0) * share for n in ("matrix unit", "vector unit", "special functions"))
    matrix *= NARROW if depth <= 64 else 1.0
    each = (matrix, vector, special)
    beside = APART if teams == 1 else TOGETHER
    one = max(teams * s.resident * (max(each) + beside * (sum(each) - max(each))), sum(each) + chip.limits.get("turn", 0.0))
    return -(-work.tiles // (chip.cores * s.resident)) * turns * one


def _block_bytes(k: Kernel, roles: Roles, tile: dict[str, int]) -> float:
    """Bytes that one block reads: of each operand the tile's part along the axes of the output, all of it along reduced ones."""
    reduced = {a.name for axes in roles.depths for a in axes}
    extent = {a.name: dim_hint(a.extent) for a in (*k.axes, *(a for axes in roles.depths for a in axes))}
    part = lambda n: extent[n] if n in reduced else min(tile.get(n, extent[n]), extent[n])
    total = 0.0
    for a in k.inputs:
        views = {e.index for st in k.stores for e in postorder(st.value) if isinstance(e, Load) and e.tensor == a.name}
        total += sum(prod(part(n) for n in {n for i in v for n in i.names()} if n in extent) for v in views) * a.type.dtype.bytes
    return total


def _waiting(k: Kernel, s: Schedule, chip: Chip, roles: Roles, work: Work, tile: dict[str, int]) -> float:
    """Seconds that memory's latency allows a reduction in chunks: a core gets what its threads have under way, once a latency.

    A thread has a chunk's loads under way (several chunks' where they are small: compilers unroll), up to a limit of the chip.
    """
    if roles.form != "reduce":
        return 0.0
    size = lambda a: tile.get(a.name, dim_hint(a.extent))
    steps = max((prod(-(-dim_hint(a.extent) // size(a)) for a in axes) for axes in roles.depths), default=1)
    if steps == 1:
        return 0.0
    extent = {a.name: a for a in (*k.axes, *(a for axes in roles.depths for a in axes))}
    loads = {e.tensor: e for st in k.stores for e in postorder(st.value) if isinstance(e, Load)}
    chunk = {t: prod(min(size(extent[n]), dim_hint(extent[n].extent)) for i in e.index for n in i.names() if n in extent)
             for t, e in loads.items()}  # fmt: skip
    most = max((a.type.dtype.bytes * chunk[a.name] for a in k.inputs if a.name in chunk), default=1) / s.threads
    elements = max(1.0, max(chunk.values(), default=1) / s.threads)
    unrolled = min(4.0, max(1.0, UNROLLED / elements), steps)
    blocks = min(-(-work.tiles // chip.cores), max(1, int(chip.limits["threads"] * 2 // s.threads)))
    under_way = blocks * s.threads * min(chip.limits.get("under_way", 64.0), most * unrolled) * min(chip.cores, work.tiles)
    return work.read * chip.latency / under_way


def _matrix_share(s: Schedule, chip: Chip, m: int, n: int, depth: int, work: Work) -> float:
    """Share of the matrix rate: what the instruction allows, and what the ring's depth hides of the memory latency."""
    share = (1 / NARROW if n <= 64 else 1.0) if s.roles == "cooperative" else chip.limits.get("warp_matrix", 1.0)
    step = 2.0 * m * n * depth / (chip.matrix_rate(work.matrix_dtype) / chip.cores)
    ahead = max(1, s.stages - 1)
    hidden = step * ahead * s.resident / chip.latency
    return max(0.02, min(share, hidden)) * hidden / (hidden + SLACK)


def _padding(roles: Roles, tile: dict[str, int]) -> float:
    """Work of whole tiles over the work asked for. In a tile all axes of a side but the outermost take powers of two."""
    out = 1.0
    for axes in (roles.rows, roles.cols, roles.depth):
        wide = [a for a in axes if tile.get(a.name, dim_hint(a.extent)) > 1]
        for a in axes:
            e = dim_hint(a.extent)
            t = tile.get(a.name, e)
            out *= -(-e // t) * (power_of_two(t) if a in wide[1:] else t) / e
    return out


def whole_lines(k: Kernel, name: str, tile: dict[str, int], bytes_: int, line: int) -> float:
    """Bytes moved over bytes used where a block reads an operand: whole lines for runs shorter than one."""
    worst = 1.0
    for e in postorder(*(st.value for st in k.stores)):
        if isinstance(e, Load) and e.tensor == name and e.index:
            run = _run(e.index[-1], tile) * bytes_
            worst = max(worst, min(line / run, line / bytes_)) if run < line else worst
    return worst


def _pieces(k: Kernel, tile: dict[str, int]) -> list[tuple[float, float]]:
    """(bytes in all, bytes side by side in a tile) of every tensor that a kernel reads or writes."""
    index = {e.tensor: e.index for st in k.stores for e in postorder(st.value) if isinstance(e, Load) and e.index}
    index |= {st.tensor: st.index for st in k.stores if st.index}
    return [(a.type.bytes, _run(index[a.name][-1], tile) * a.type.dtype.bytes) for a in (*k.inputs, *k.outputs) if a.name in index]


def _run(last: Aff, tile: dict[str, int]) -> int:
    """Elements side by side in memory that one tile reads along the last dimension (whole axes count as long)."""
    runs = [tile.get(n, 1 << 20) for n in last.names() if last.coef(n) == 1]
    return max(runs, default=1 << 20 if not last.names() else 1)
