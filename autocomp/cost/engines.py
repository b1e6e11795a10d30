"""What a product costs on chips whose cores pass tiles from engine to engine: copies to L1, to the matrix unit's buffers, products, the
way out, and vector cores beside them. Engines work at the same time where their buffers have two slots, else one after the other."""

from __future__ import annotations

from math import prod

from autocomp.cost.chip import F32, Chip
from autocomp.cost.roles import Roles
from autocomp.cost.roofline import memory_time
from autocomp.cost.work import Cost, Work
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint

SUM = F32  # bytes of an element of a sum


def engine_time(s: Schedule, chip: Chip, roles: Roles, work: Work, bytes_: int) -> Cost:
    """Seconds of a contraction or an online contraction in tiles; `bytes_`: of a factor's element.

    The slowest core has ceil(tiles / cores) tiles. In an online contraction the cube core waits for what vector cores make of its
    scores, so their times add up.
    """
    tile, grain = dict(s.tile), dict(zip(("rows", "cols", "depth"), chip.granule))

    def size(role: str) -> int:
        whole = prod(min(tile.get(a.name, dim_hint(a.extent)), dim_hint(a.extent)) for a in getattr(roles, role))
        return -(-whole // grain[role]) * grain[role]

    m, n, depth = size("rows"), size("cols"), size("depth")
    steps = -(-roles.extent("depth") // max(1, depth))
    rounds = -(-work.tiles // chip.cores)
    rate = lambda memory: chip.memory(memory).bandwidth / chip.cores
    per_core = rounds * chip.cores / work.tiles
    online = roles.form == "online"
    products = max(1, len(roles.depths))
    flops = 2.0 * m * n * depth * steps * products
    moved = depth * steps * (m + n * products) * bytes_
    scores = m * depth * steps * SUM if online else 0  # through memory to the vector cores, and back in half precision
    out = m * n * SUM * (steps if online else 1)
    t = {
        "copies to L1": rounds * (moved * _short(depth * min(m, n) * bytes_, chip) + scores / 2) / rate("l1"),
        "copies to L0": rounds * depth * steps * products * bytes_ * (m / rate("l0a") + n / rate("l0b")),
        "matrix unit": rounds * flops / (chip.matrix_rate(work.matrix_dtype) / chip.cores),
        "copies from L0C": rounds * (out + scores) / rate("l0c"),
        "vector cores": per_core * (work.vector / chip.vector["f32"] + work.special / chip.special)
        + rounds * (out + scores * chip.numbers["scores_out"]) * chip.cores / chip.limits["ub_in"],
    }
    memory, seconds = memory_time(work.read + work.written, chip, chip.cores)
    t[memory] = max(seconds, work.tiles * moved / chip.memory("l2").bandwidth if memory == "l2" else 0.0)
    chain = ["matrix unit"]
    if 2 * depth * max(m, n) * bytes_ > chip.memory("l0a").capacity:
        chain.append("copies to L0")
    if 2 * m * n * SUM > chip.memory("l0c").capacity or online:
        chain.append("copies from L0C")
    chain += ["vector cores"] if online else []
    serial = sum(t[x] for x in chain)
    top = max(*t.values(), serial)
    waits = rounds * (chip.limits["tile"] + (steps * chip.limits["handover"] if online else 0.0))
    bound = max(t, key=lambda x: t[x]) if max(t.values()) >= serial / 2 else "matrix unit"
    seconds = top + chip.numbers["overlap"] * (sum(t.values()) - max(t.values())) + waits + chip.launch
    return Cost(seconds, bound if seconds - chip.launch >= chip.launch else "launch",
                (*t.items(), ("waits", waits), ("launch", chip.launch)))


def _short(bytes_: int, chip: Chip) -> float:
    """How much longer a copy of so many bytes takes than its share of a long one."""
    return max(1.0, chip.limits["burst"] / bytes_)
