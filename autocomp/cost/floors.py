"""Seconds that a schedule takes at least, for a search that prices few of many: at most `BlockModel.time`, for a part of its cost."""

from __future__ import annotations

from operator import attrgetter

from autocomp.cost import lanes, schemes
from autocomp.cost.blocks import BlockModel, matrix_share, side_by_side
from autocomp.cost.chip import Chip
from autocomp.cost.demand import demand_of
from autocomp.cost.roofline import time_of
from autocomp.cost.tiles import Tile, outline
from autocomp.cost.work import Work
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule

# what the units' seconds depend on, beside the slots of a ring
_UNITS = attrgetter("tile", "threads", "instruction", "roles", "workers", "cluster", "persistent", "ping_pong", "directives")
BELOW = 1 - 1e-9  # sums of floating-point numbers in another order


def least_of(kernel: Kernel, chip: Chip) -> float:
    """Seconds that a kernel takes at least on a chip that runs blocks, whatever its schedule: a launch, and its bytes, each of which moves
    once."""
    work = demand_of(kernel).work
    return BELOW * time_of(Work(read=work.read, written=work.written), chip).seconds


class Floor:
    """Of products: launch, the first block's start, and matrix operations at the rate of their instruction on the cores that tiles fill,
    or the ring's latency beside them. What else a price has is added to these or stands beside them, and no term is below 0."""

    def __init__(self, model: BlockModel) -> None:
        of, chip = model.chip.numbers, model.chip
        self.model, self.start, self.loaded = model, chip.launch + of["block"], of["warp_loaded"]
        # memory's part of a roof where L2 holds what moves, at most
        self.from_l2 = max((limit * rate for limit, name, rate, _ in chip.levels if name == "l2"), default=0.0)
        self._outlines: dict[tuple[object, ...], Tile] = {}
        self._units: dict[tuple[object, ...], tuple[float, float]] = {}

    def least(self, s: Schedule) -> float:
        """Seconds; 0 where nothing is known: of schedules whose blocks or operations depend on what cores hold."""
        if s.stream_k or s.cluster_split_k > 1:
            return 0.0
        key = _UNITS(s)
        found = self._units.get(key)
        if found is None:
            found = self._units[key] = self._of(s)
        units, steps = found
        if not units:
            return 0.0
        ring = steps * self.loaded / max(1, s.stages - 1)
        return BELOW * (self.start + max(units, ring) + self.model.overlap * min(units, ring))

    def _of(self, s: Schedule) -> tuple[float, float]:
        """Seconds of the units, 0 where nothing is known, and the steps of a ring that warps fill."""
        m, chip, w = self.model, self.model.chip, self.model.d.work
        roles, direct, even = s.roles == "warp_specialise", s.instruction == "direct", m.even(s) or (0, 0)
        t = self._outlines.get((s.tile, roles, even))
        if t is None:
            t = self._outlines[s.tile, roles, even] = outline(m.d, dict(s.tile), roles, even)
        blocks = side_by_side(t, s.cluster)
        matrix = m.matrix(s, t) * (m.power(blocks) if roles else 1.0)
        most = -(-blocks // chip.cores)  # that a core may hold beside each other
        if m.by_lanes(s):
            piece, _, share = m.shared(s, t)
            share *= lanes.hidden_at_most(s, chip, piece, most) * lanes.of_units(chip, w.matrix_dtype)
        else:
            share = matrix_share(s, chip, w.matrix_dtype, m.narrow(s, t), most)
        cost = time_of(Work(matrix=matrix, matrix_dtype=w.matrix_dtype, matrix_eff=share, tiles=blocks), chip)
        if cost.seconds - chip.launch <= self.from_l2:  # memory's part may be the largest, for which a price has another
            cost = m.roof(m.known(s), blocks, direct, s.cluster == 2 and s.cluster_split_k == 1)(matrix, share)
            if cost.bound == "l2":
                return 0.0, 0.0
        return cost.seconds - chip.launch, 0.0 if direct or roles else t.steps * schemes.steps_left(s, m.d)
