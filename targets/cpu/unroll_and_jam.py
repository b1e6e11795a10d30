"""Rows of results are summed side by side: none waits for its own last term.

    for i:  for j (vector):  s = 0;  for r:  s += x[i + r, j] * w[r];  y[i, j] = s
    ->  for i in steps of 8:  for j (vector):  s0 = .. = s7 = 0;  for r:  s0 += x[i + r, j] * w[r];  ..;  s7 += x[i + 7 + r, j] * w[r]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from math import prod

from autocomp.targets.cpu.interior import interior
from autocomp.targets.cpu.lower import Nest, reads
from autocomp.targets.cpu.statements import Statements
from autocomp.targets.cpu.storage import Place, extent_in_tile
from autocomp.targets.cpu.tree import Node, Point, contractions, points, statements

from autocomp.tile.program import Stmt

SPAN = 256  # steps of a sum that go into one partial result
ROWS = range(4, 9)  # rows side by side: as many as additions are under way at least, and as find registers at most


def rows_at_once(nest: Nest, places: Mapping[str, Place], n: Point) -> int:
    """How many steps of a loop around vectors of short sums, or around scans, run side by side; 0 where they may not, or where edges are
    asked about for each element."""
    extent = extent_in_tile(nest, n.axis)
    if n.vector or n.axis in nest.tile or not isinstance(extent, int) or extent < 2:
        return 0
    if len(n.body) != 1 or not isinstance(m := n.body[0], Point) or any(contractions(m.body)):
        return 0
    most = [r for r in ROWS if r <= extent] or [extent]
    rows = max(most, key=lambda r: (-(extent % r), r))
    if not m.vector:
        return rows if _scans(m) and not any(p.is_array and p.home == id(m) for p in places.values()) else 0
    inner, below = list(points(m.body)), list(statements(m.body))
    sizes = [nest.extent[p.axis] for p in inner]
    if any(p.vector or p.axis in nest.tile for p in inner) or not all(isinstance(e, int) for e in sizes):
        return 0
    folds, both = [s for s in below if s.op == "reduce"], {n.axis, m.axis}
    if not folds or prod(e for e in sizes if isinstance(e, int)) > SPAN:
        return 0
    if any(s.acc or both & {*s.axis.split(",")} or not both <= {*nest.slots[s.dst].axes} for s in folds):
        return 0
    homes = {id(x) for x in (m, *inner)}
    if any(p.is_array for p in places.values() if p.home in homes):
        return 0
    edges = any(nest.views[x].guard for s in below for x in (s.dst, *reads(s)) if x in nest.views)
    if edges and not interior(nest, m, {}):
        return 0
    return rows


def _scans(m: Point) -> bool:
    """Is this the loop of a scan, element by element, and of nothing that it would hold up?"""
    body = [s for s in m.body if isinstance(s, Stmt)]
    return len(body) == len(m.body) and any(s.op == "scan" and s.axis == m.axis for s in body)


class Rows(Statements):
    """Prints statements for each of the rows that run side by side. `rows`: (axis, how many) of them, None outside."""

    def __init__(self, nest: Nest, tree: Sequence[Node]) -> None:
        super().__init__(nest, tree)
        self.rows: tuple[str, int] | None = None
        self.this_row = 0

    def so_far(self, s: Stmt) -> str:
        """The variable that a scan goes on from, one a row."""
        return _of(super().so_far(s), self.this_row) if self.rows else super().so_far(s)

    @contextmanager
    def side_by_side(self, axis: str, rows: int) -> Iterator[None]:
        """Inside, statements stand for so many rows, from the loop variable's on."""
        self.rows = axis, rows
        yield
        self.rows = None

    @contextmanager
    def row_by_row(self) -> Iterator[None]:
        """Inside, they stand for one row, and a loop runs over all of those."""
        if (outside := self.rows) is None:
            yield
            return
        (a, rows), self.rows = outside, None
        with self.block(f"for (long {a}_first = {a}, {a} = {a}_first; {a} < {a}_first + {rows}; {a}++)"):
            yield
        self.rows = outside

    def in_rows(self, name: str) -> str:
        """The names of a variable's, one a row."""
        return ", ".join(_of(name, c) for c in range(self.rows[1])) if self.rows else name

    def each_row(self, show: Callable[[], None], alike: bool = False) -> None:
        """A statement for each row, of variables of its own; `alike`: what it computes is the same in every row."""
        if self.rows is None:
            show()
            return
        a, rows = self.rows
        own = [x for x, p in self.places.items() if not p.is_array and a in self.nest.slots[x].axes]
        for c in range(rows):
            here, self.this_row = c > 0 and not alike, c
            with self.folding({x: _of(x, c) for x in own}), self.block("") if here else nullcontext():
                if here:
                    self.w(f"const long {a}_row = {a} + {c}, {a} = {a}_row;")
                show()


def _of(name: str, row: int) -> str:
    return f"{name}_row{row}"
