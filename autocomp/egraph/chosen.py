"""The current choice of kernels: one cut for every tensor that has to be stored, its exact area, and the order in which kernels run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autocomp.egraph.cut import Cut
from autocomp.egraph.cuts import Enumerator
from autocomp.egraph.subject import Subject


@dataclass
class Cover:
    """The current choice. `pick`: cut of every stored class; `refs`: how many kernels (and outputs) load a class;
    `extra`: by-products, class -> the class whose kernel stores it."""

    enum: Enumerator
    pick: dict[int, Cut] = field(default_factory=dict)
    refs: dict[int, int] = field(default_factory=dict)
    extra: dict[int, int] = field(default_factory=dict)
    total: float = 0.0
    kept: int = 0  # attempts that made the total fall
    _readers: dict[int, set[int]] = field(default_factory=dict)  # class -> classes of which some cut chosen so far loads it
    _holders: dict[int, set[int]] = field(default_factory=dict)  # class -> classes of which some cut chosen so far has it inside

    def stored(self, c: int) -> bool:
        return c in self.enum.cuts

    def best(self, c: int) -> Cut:
        """The cut in use, or the one that area flow ranks first."""
        return self.pick.get(c) or self.enum.cuts[c][0]

    def ref(self, c: int) -> None:
        """One more reader of c; its kernel enters the cover with the first one."""
        stack = [c]
        while stack:
            x = stack.pop()
            self.refs[x] = self.refs.get(x, 0) + 1
            if self.refs[x] == 1 and self.stored(x):
                self._choose(x, self.best(x))
                self.total += self.pick[x].time
                stack.extend(sorted(self.pick[x].leaves))

    def deref(self, c: int) -> None:
        """One reader less; a kernel that nobody reads leaves the cover (its cut stays remembered as the best)."""
        stack = [c]
        while stack:
            x = stack.pop()
            self.refs[x] -= 1
            if self.refs[x] == 0 and self.stored(x):
                self.total -= self.pick[x].time
                stack.extend(sorted(self.pick[x].leaves))

    def swap(self, c: int, cut: Cut) -> Cut:
        """Use another cut for c. New leaves are referenced before old ones are released: the other order walks the whole
        graph above a residual stream."""
        old = self.pick[c]
        for x in sorted(cut.leaves):
            self.ref(x)
        self.total += cut.time - old.time
        self._choose(c, cut)
        for x in sorted(old.leaves):
            self.deref(x)
        return old

    def used(self) -> list[int]:
        return sorted(c for c, n in self.refs.items() if n > 0 and c in self.pick)

    def recount(self) -> None:
        """The total anew: of forms whose prices are far apart the sums of differences leave rounding behind."""
        self.total = sum(self.pick[x].time for x in self.used())

    def _choose(self, c: int, cut: Cut) -> None:
        """pick[c] = cut; the indices keep what earlier cuts had, so that `users` and `holders` look at few classes."""
        if self.pick.get(c) is cut:
            return
        self.pick[c] = cut
        for index, classes in ((self._readers, cut.leaves), (self._holders, cut.inside)):
            for x in classes:
                index.setdefault(x, set()).add(c)

    def users(self, x: int) -> list[int]:
        """Classes in use whose kernel loads x."""
        return sorted(c for c in self._readers.get(x, ()) if self.refs.get(c, 0) > 0 and x in self.pick[c].leaves)

    def holders(self, x: int) -> list[int]:
        """Classes in use, but x, whose kernel has x inside."""
        return sorted(c for c in self._holders.get(x, ()) if c != x and self.refs.get(c, 0) > 0 and x in self.pick[c].inside)

    def attempt(self, moves: Callable[[], Iterator[tuple[int, Cut]]]) -> bool:
        """Apply moves; keep them if the total falls, else undo them in reverse order."""
        before, done = self.total, []
        for c, cut in moves():
            if self.refs.get(c, 0) > 0 and self.pick[c] is not cut:
                done.append((c, self.swap(c, cut)))
        if self.total < before * (1 - 1e-9):
            self.kept += bool(done)
            return bool(done)
        for c, old in reversed(done):
            self.swap(c, old)
        return False


def check_cover(c: Cover, s: Subject) -> None:
    """The cover is acyclic, complete, and its total recounted from scratch is the one kept. Raises AssertionError (a bug of ours)."""
    order = kernel_order(c, s)
    total = sum(c.pick[x].time for x in order)
    if abs(total - c.total) > 1e-6 * max(total, 1e-12):
        raise AssertionError(f"cover total {c.total} but its kernels sum to {total}")


def kernel_order(c: Cover, s: Subject) -> list[int]:
    """Stored classes, those of by-products left out, in an order in which leaves come first; ties by class."""
    order: list[int] = []
    state: dict[int, int] = {}
    for _, root in s.roots:
        stack = [(root, False)]
        while stack:
            x, done = stack.pop()
            if done:
                state[x] = 2
                if x not in c.extra:
                    order.append(x)
                continue
            if state.get(x) == 2:
                continue
            if state.get(x) == 1:
                raise AssertionError(f"the cover has a cycle through class {x}")
            state[x] = 1
            stack.append((x, True))
            stack += [(leaf, False) for leaf in sorted(c.pick[x].leaves, reverse=True) if leaf in c.pick and state.get(leaf) != 2]
    return order
