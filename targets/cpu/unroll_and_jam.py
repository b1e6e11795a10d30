"""Rows of results are summed side by side: none waits for its own last term (directive `unroll_and_jam`).

    for i:  for j (vector):  s = 0;  for r:  s += x[i + r, j] * w[r];  y[i, j] = s
    ->  for i in steps of 8:  for j (vector):  s0 = .. = s7 = 0;  for r:  s0 += x[i + r, j] * w[r];  ..;  s7 += x[i + 7 + r, j] * w[r]

Vectors of columns are folded side by side: a row is read on, and a line that two vectors share once (directive `jam_columns`).

    for j (vector of 16):  s = 0;  for r:  s += x[r, j];  y[j] = s
    ->  for j in steps of 4 vectors:  s0 = .. = s3 = 0;  for r:  s0 += x[r, j];  ..;  s3 += x[r, j + 48]
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

FIRST_CACHE = 1 << 15  # bytes that stay in the first cache whatever the core
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


def columns_at_once(nest: Nest, places: Mapping[str, Place], n: Point, most: int) -> int:
    """How many vectors of a loop over columns run side by side, each folding its column's rows: as many as find registers for `most` sums;
    0 where they may not, where what is read is not in rows along the vectors, or where lines of one walk stay in the first cache for the
    next."""
    if not n.vector or not isinstance(nest.extent[n.axis], int):
        return 0
    walks, below = [p for p in n.body if isinstance(p, Point)], list(statements(n.body))
    if not walks or any(not isinstance(x, (Point, Stmt)) for x in n.body) or any(not isinstance(s, Stmt) for p in walks for s in p.body):
        return 0
    folds = [s for s in below if s.op == "reduce"]
    made = {s.dst for s in below} - nest.views.keys()
    if not folds or any(s.op == "scan" or s.acc or n.axis in s.axis.split(",") for s in below):
        return 0
    if any(places[x].is_array or n.axis not in nest.slots[x].axes for x in made):
        return 0
    views = [nest.views[x] for s in below for x in {s.dst, *reads(s)} if x in nest.views]
    if any(v.guard or v.flat.stride(n.axis) not in (0, 1) for v in views) or any(p.vector or p.axis in nest.tile for p in walks):
        return 0
    steps = [(v.flat.stride(p.axis), nest.extent[p.axis], v.dtype.bytes) for p in walks for v in views]
    if not any(isinstance(by, int) and isinstance(rows, int) and abs(by) * rows * size > FIRST_CACHE for by, rows, size in steps):
        return 0
    columns = most // max(len([s for s in p.body if isinstance(s, Stmt) and s.op == "reduce"]) for p in walks)
    return columns if columns > 1 else 0


def _scans(m: Point) -> bool:
    """Is this the loop of a scan, element by element, and of nothing that it would hold up?"""
    body = [s for s in m.body if isinstance(s, Stmt)]
    return len(body) == len(m.body) and any(s.op == "scan" and s.axis == m.axis for s in body)


class Rows(Statements):
    """Prints statements for each of the rows, or vectors of columns, that run side by side. `rows`: (axis, how many) of them, None outside;
    `step`: indices from one to the next; `last_part`: how many lanes of the last one count, "" for all."""

    def __init__(self, nest: Nest, tree: Sequence[Node]) -> None:
        super().__init__(nest, tree)
        self.part = ""
        self.rows: tuple[str, int] | None = None
        self.this_row, self.step, self.last_part = 0, 1, ""

    def so_far(self, s: Stmt) -> str:
        """The variable that a scan goes on from, one a row."""
        return _of(super().so_far(s), self.this_row) if self.rows else super().so_far(s)

    @contextmanager
    def side_by_side(self, axis: str, rows: int, step: int = 1, last_part: str = "") -> Iterator[None]:
        """Inside, statements stand for so many rows, from the loop variable's on."""
        self.rows, self.step, self.last_part = (axis, rows), step, last_part
        yield
        self.rows, self.step, self.last_part = None, 1, ""

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
            self.part = self.last_part if c == rows - 1 and self.last_part else self.part
            with self.folding({x: _of(self.folded.get(x, x), c) for x in own}), self.block("") if here else nullcontext():
                if here:
                    self.w(f"const long {a}_row = {a} + {c * self.step}, {a} = {a}_row;")
                show()
        self.this_row, self.part = 0, "" if self.last_part else self.part


def _of(name: str, row: int) -> str:
    return f"{name}_row{row}"
