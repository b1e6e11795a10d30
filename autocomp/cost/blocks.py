"""What a schedule costs on chips that run blocks of threads: traffic between L2 and the cores, latency, partial lines and waves."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from autocomp.cost.chip import Chip
from autocomp.cost.roles import Roles
from autocomp.cost.roofline import OVERLAP, time_of
from autocomp.cost.work import Cost, Work
from autocomp.ir.affine import Aff
from autocomp.ir.body import Load, postorder
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint

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
        m, n, depth = size(roles.rows), size(roles.cols), size(roles.depth)
        bytes_ = max((a.type.dtype.bytes for a in k.inputs), default=4) if not work.matrix_dtype else _bytes(work.matrix_dtype)
        steps = -(-roles.extent("depth") // max(1, depth))
        near = work.tiles * steps * depth * (m + n) * bytes_ * max(1, len(roles.depths)) / chip.memory("l2").bandwidth
        near *= max(1.0, chip.cores / work.tiles)  # a core draws its own share at most
        work = replace(work, matrix_eff=_matrix_share(s, chip, m, n, depth, work), m=0, n=0, k=0)
        work = replace(work, matrix=work.matrix * _padding(roles, tile))
    line = 2 * chip.memories[0].line  # neighbouring sectors travel together
    extra = sum(a.type.bytes * (_lines(k, a.name, tile, a.type.dtype.bytes, line) - 1) for a in k.inputs)
    cost = time_of(replace(work, read=work.read + extra), chip)
    waves = -(-work.tiles // chip.cores)
    start = chip.limits.get("block", 0.0) * (1 + OVERLAP * min(waves - 1, 8))
    rest = max(cost.seconds - chip.launch, _serial(s, chip, roles, work, tile))
    seconds = max(rest, near) + OVERLAP * min(rest, near) + chip.launch + start
    bound = "l2" if near + chip.launch > cost.seconds else cost.bound
    return Cost(seconds, bound, (*cost.parts, ("l2", near), ("start", start)))


def _serial(s: Schedule, chip: Chip, roles: Roles, work: Work, tile: dict[str, int]) -> float:
    """Seconds of chunks one after another: a loop over a reduction without a ring waits for memory once a chunk."""
    if roles.form != "reduce":
        return 0.0
    steps = max((prod(-(-dim_hint(a.extent) // tile.get(a.name, dim_hint(a.extent))) for a in axes) for axes in roles.depths), default=1)
    resident = max(1, int(chip.limits["threads"] * 2 // s.threads))
    rounds = -(-work.tiles // (chip.cores * resident))
    return rounds * steps * len(roles.depths) * chip.latency


def _bytes(dtype: str) -> int:
    return {"f64": 8, "f32": 4, "i32": 4, "i8": 1}.get(dtype, 2)


def _matrix_share(s: Schedule, chip: Chip, m: int, n: int, depth: int, work: Work) -> float:
    """Share of the matrix rate: what the instruction allows, and what the ring's depth hides of the memory latency."""
    share = 1.0 if s.roles == "cooperative" else chip.limits.get("warp_matrix", 1.0)
    step = 2.0 * m * n * depth / (chip.matrix_rate(work.matrix_dtype) / chip.cores)
    ahead = max(1, s.stages - 1)
    hidden = step * ahead / chip.latency
    return max(0.02, min(share, hidden)) * hidden / (hidden + SLACK)


def _padding(roles: Roles, tile: dict[str, int]) -> float:
    """Work of whole tiles over the work asked for."""
    out = 1.0
    for a in (*roles.rows, *roles.cols, *roles.depth):
        e = dim_hint(a.extent)
        t = tile.get(a.name, e)
        out *= -(-e // t) * t / e
    return out


def _lines(k: Kernel, name: str, tile: dict[str, int], bytes_: int, line: int) -> float:
    """Bytes moved over bytes used where a block reads an operand: whole lines for runs shorter than one."""
    worst = 1.0
    for e in postorder(*(st.value for st in k.stores)):
        if isinstance(e, Load) and e.tensor == name and e.index:
            run = _run(e.index[-1], tile) * bytes_
            worst = max(worst, min(line / run, line / bytes_)) if run < line else worst
    return worst


def _run(last: Aff, tile: dict[str, int]) -> int:
    """Elements side by side in memory that one tile reads along the last dimension (whole axes count as long)."""
    runs = [tile.get(n, 1 << 20) for n in last.names() if last.coef(n) == 1]
    return max(runs, default=1 << 20 if not last.names() else 1)
