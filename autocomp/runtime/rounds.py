"""Two things timed in turns, and what their times allow to say.

    A B A B ..   each once a round, on a cache that was filled with something else, after some rounds that are not counted

What is compared is the ratio of the two times of one round, as both met the same machine then. Its median has an interval by order
statistics: of n ratios in order, the k-th and the k-th from the end hold the median with the chance that a fair coin, thrown n times,
shows heads at least k and at most n - k times. That asks nothing of how times are distributed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

import numpy as np

ROUNDS = 20  # that are counted, at least
WARM = 3  # rounds before them
CONFIDENCE = 0.95
COLD = 64 << 20  # bytes that are written before each timing: more than the last cache of most machines holds
SMALL = 0.1  # an interval around 1 that is narrower is a verdict: no larger difference
METHOD = "the median ratio of the rounds, its interval by order statistics (sign test)"


@dataclass(frozen=True)
class Interval:
    """A median with bounds between which it lies with `chance`."""

    low: float
    median: float
    high: float
    chance: float

    @property
    def text(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The narrowest symmetric interval of order statistics with at least this confidence; all values where there are too few for it."""
    xs, n = sorted(values), len(values)
    if not n:
        raise ValueError("no values")
    chance = lambda k: 1.0 - 2.0 * sum(comb(n, i) for i in range(k)) / 2.0**n  # of the k-th from either end, counted from 1
    k = max((k for k in range(1, n // 2 + 1) if chance(k) >= confidence), default=1)
    return Interval(xs[k - 1], median(xs), xs[n - k], max(0.0, chance(k)))


@dataclass(frozen=True)
class Rounds:
    """Seconds of A and of B, round by round."""

    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def ratio(self) -> Interval:
        """A over B: above 1 where B is faster."""
        return median_interval([x / y for x, y in zip(self.a, self.b, strict=True)])

    @property
    def verdict(self) -> str:
        """One sentence that the interval allows; what it does not allow, where it is too wide."""
        r = self.ratio
        if r.chance < CONFIDENCE:
            return f"no verdict: {len(self.a)} rounds are too few for {CONFIDENCE:.0%}"
        if r.low > 1:
            return f"B is {r.low:.2f} to {r.high:.2f} times faster"
        if r.high < 1:
            return f"B is {1 / r.high:.2f} to {1 / r.low:.2f} times slower"
        most = max(r.high - 1, 1 - r.low)
        if most <= SMALL:
            return f"no difference larger than {max(most, 1e-3) * 100:.2g} %"
        return f"no verdict: B is between {1 / r.low:.2f} times slower and {r.high:.2f} times faster"

    def data(self) -> dict[str, object]:
        """For machines."""
        r, a, b = self.ratio, median_interval(self.a), median_interval(self.b)
        of = lambda i: {"low": i.low, "median": i.median, "high": i.high}
        return {"rounds": len(self.a), "a": of(a), "b": of(b), "a_over_b": of(r), "confidence": r.chance, "verdict": self.verdict,
                "method": METHOD}  # fmt: skip


def in_turns(a: Callable[[], object], b: Callable[[], object], rounds: int = ROUNDS, cold: bool = True,
             clock: Callable[[], float] = time.perf_counter,
             timed: Callable[[Callable[[], object]], float] | None = None) -> Rounds:  # fmt: skip
    """Time two calls in turns. `cold`: caches are filled with something else before each. `timed`: what times a call, cold caches and all,
    where it is not the host's clock."""
    other = np.zeros(COLD // 8 if cold and timed is None else 1)
    times: tuple[list[float], list[float]] = ([], [])
    for n in range(WARM + rounds):
        for call, mine in zip((a, b), times, strict=True):
            if timed is None:
                other += 1.0
            begun = clock()
            seconds = timed(call) if timed else (call(), clock() - begun)[1]
            if n >= WARM:
                mine.append(seconds)
    return Rounds(tuple(times[0]), tuple(times[1]))
