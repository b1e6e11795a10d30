"""How well the cost model orders what was measured: by today's figures of the chip, over schedules that a database holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from autocomp.cost.estimate import demand_of, estimate
from autocomp.errors import AutocompError
from autocomp.runtime.codec import CodecError, decode
from autocomp.targets import load_target
from autocomp.tune.database import Database, Tuned
from autocomp.tune.key import schedule_of


@dataclass(frozen=True)
class Rank:
    """One kernel's schedules. `correlation`: Spearman's, None where it has no meaning. `near`: the fastest measured time over the
    measured time of the schedule that the model would choose among them."""

    kernel: str
    chip: str
    correlation: float | None
    near: float
    pairs: tuple[tuple[float, float], ...]


def ranks(database: Database, target: str = "") -> list[Rank]:
    """A rank for every stored kernel of a target ("cuda", "cuda:h200", "" for all) with at least one right schedule.

    Times are predicted anew, so a change of the chip's file or of the model shows at once, without the device.
    """
    out = []
    for t in database.tuned():
        spec = t.place.chip.partition(" ")[0]
        if target in ("", spec, spec.partition(":")[0]):
            pairs = tuple(_pairs(t, database, spec))
            if pairs:
                chosen = min(pairs)[1]
                out.append(Rank(t.name, spec, spearman(pairs), min(s for _, s in pairs) / chosen, pairs))
    return out


def _pairs(t: Tuned, database: Database, spec: str) -> Iterable[tuple[float, float]]:
    """(predicted, measured) seconds of every right schedule."""
    chip = load_target(spec).chip
    try:
        kernel = decode(t.body, {})
        demand = demand_of(kernel)
    except (CodecError, AttributeError) as e:
        raise AutocompError(f"the stored form of kernel {t.name} is not readable: {e}", where=str(database.path),
                            hint="tune it again, or `autocomp tune --clear`") from None  # fmt: skip
    for m in database.measurements(t.kernel, t.place):
        if m.seconds is not None:
            yield estimate(kernel, schedule_of(m.schedule), chip, demand).seconds, m.seconds


def pooled(found: Sequence[Rank]) -> float | None:
    """Rank correlation over the schedules of all kernels together."""
    return spearman([p for r in found for p in r.pairs])


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Rank correlation of predicted and measured times, ties at their mean rank; None for fewer than three or no spread."""
    if len(pairs) < 3:
        return None
    places = [_places(np.asarray(x)) for x in zip(*pairs)]
    if any(np.ptp(p) == 0 for p in places):
        return None
    return float(np.corrcoef(places[0], places[1])[0, 1])


def _places(x: np.ndarray) -> np.ndarray:
    _, inverse, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[inverse]
