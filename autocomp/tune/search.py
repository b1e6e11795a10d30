"""Evolutionary search over a kernel's space: what to measure next, from what is known so far.

The first generation is the rules' candidates in predicted order. After it, most children are mutations of good schedules (one
parameter moved to a neighbouring legal value) and crossings of two good ones; the rest go on in predicted order. What is asked
for depends on the known outcomes alone, so a search that was killed goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from autocomp.tune.space import Space

FIRST = 24  # schedules in predicted order before the first mutation
PARENTS = 12  # the fastest ones, from which children come
MUTATED, CROSSED = 0.6, 0.25  # shares of children; the rest continue in predicted order
GAIN = 0.005  # an improvement below this share is none


class Search:
    """`limit`: schedules measured at most; `patience`: without an improvement for that many the search is over."""

    def __init__(self, space: Space, seed: str, limit: int, patience: int) -> None:
        self.space, self.seed, self.limit, self.patience = space, seed, limit, patience
        self.seconds: dict[int, float] = {}
        self.known: set[int] = set()
        self.refused = 0
        self.best = float("inf")
        self._stale = 0

    def tell(self, i: int, seconds: float | None, refused: bool = False) -> None:
        """The outcome of a point: its seconds, or None where it failed. Refused ones do not count as tried."""
        if i in self.known:
            return
        self.known.add(i)
        self.refused += refused
        self._stale += not refused
        if seconds is not None:
            self.seconds[i] = seconds
            if seconds < self.best * (1 - GAIN):
                self.best, self._stale = seconds, 0

    @property
    def tried(self) -> int:
        return len(self.known) - self.refused

    @property
    def over(self) -> bool:
        return self.tried >= self.limit or len(self.known) == len(self.space) or self._stale >= self.patience

    def ranked(self) -> list[int]:
        """Measured points, the fastest first."""
        return sorted(self.seconds, key=lambda i: (self.seconds[i], i))

    def ask(self, n: int, pending: Sequence[int] = ()) -> list[int]:
        """At most `n` points that are neither known nor `pending` (asked for, not yet told); none when the search is over."""
        if self.over:
            return []
        n = min(n, self.limit - self.tried - len(pending))
        taken = self.known | {*pending}
        random = Random(f"{self.seed} {len(taken)}")
        fresh = (i for i in range(len(self.space)) if i not in taken)
        chosen: dict[int, None] = {}
        parents = self.ranked()[:PARENTS] if self.tried >= FIRST else []
        near: Mapping[int, list[int]] = {p: self.space.neighbours(p) for p in parents}
        for _ in range(4 * n if parents else 0):
            child = self._child(parents, near, taken, random)
            if child is not None and child not in taken:
                chosen.setdefault(child)
            if len(chosen) >= n * (MUTATED + CROSSED):
                break
        for i in fresh:
            if len(chosen) >= n:
                break
            chosen.setdefault(i)
        return list(chosen)[: max(0, n)]

    def _child(self, parents: list[int], near: Mapping[int, list[int]], taken: set[int], random: Random) -> int | None:
        """One child; the faster a parent, the likelier it is drawn."""
        a = parents[min(random.randrange(len(parents)), random.randrange(len(parents)))]
        if random.random() < MUTATED / (MUTATED + CROSSED):
            unknown = [i for i in near[a] if i not in taken]
            return random.choice(unknown) if unknown else None
        return self.space.cross(a, random.choice(parents), random)
