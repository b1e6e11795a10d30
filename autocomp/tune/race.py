"""Two programs timed in turn: how many times faster is the second, and is that more than noise?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

SURE = 0.98  # that the true median of the ratios lies within the interval


@dataclass(frozen=True)
class Race:
    """Ratios first / second of paired timings: their median, and the interval that holds the true one with `SURE`.

    same: both have the same code, so nothing was timed.
    """

    low: float
    middle: float
    high: float
    first: float = 0.0
    second: float = 0.0
    same: bool = False

    def faster(self, factor: float) -> bool | None:
        """Is the second `factor` times faster? None: it cannot be told from noise."""
        if self.same:
            return False
        if self.low > 1 and self.middle >= factor:
            return True
        return False if self.high < factor else None

    @property
    def text(self) -> str:
        """`1.31 (1.22 to 1.40) times faster`."""
        return f"{self.middle:.2f} ({self.low:.2f} to {self.high:.2f}) times faster"


SAME = Race(1.0, 1.0, 1.0, same=True)


def race_of(pairs: Sequence[tuple[float, float]]) -> Race:
    """The statistic of (first, second) seconds. The interval of a median is that between two ranks, by the binomial distribution
    (Conover, Practical Nonparametric Statistics, 3rd ed., 3.2): no shape of the noise is supposed.

    Raises ValueError for no pair."""
    ratios = sorted(a / b for a, b in pairs)
    n, outside = len(ratios), 0
    while outside + 1 <= n // 2 and 1 - 2 * sum(comb(n, k) for k in range(outside + 2)) / 2**n >= SURE:
        outside += 1
    sure = n > 0 and 1 - 2 * comb(n, 0) / 2**n >= SURE
    low, high = (ratios[outside], ratios[n - 1 - outside]) if sure else (0.0, float("inf"))
    return Race(low, median(ratios), high, median(a for a, _ in pairs), median(b for _, b in pairs))
