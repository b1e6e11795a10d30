"""Places: what placement decides and printers read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import TYPE_CHECKING

from autocomp.cost.lanes import HELD
from autocomp.errors import UnsupportedOp
from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Layout
from autocomp.tile.program import Buf, Stmt, Tensor, TileProgram

if TYPE_CHECKING:
    from autocomp.targets.simt.strips import Strip

WORD, WIDE = 4, 16  # bytes of a register, and of the widest access
FEW = 4  # rows that a thread reads at a time at least where it reads them by pieces
EASILY = 160  # registers of a thread up to which sums and factors are held whole

@dataclass(frozen=True)
class Shared:
    """An operand of a contraction in shared memory: `rows` rows of `row` elements, 16-byte chunks swizzled. A tile that is staged there
    has padded rows instead: an odd number of accesses apart, they fall into other banks, and each address is a constant away from another.

    outer, inner   the axes of a row's number and of an element's place in it, innermost first, as (axis, tile size)
    deep           whether the reduced axes are the inner ones (K-major)
    vector         elements that one copy moves
    apart          rows that lanes read at once are so far apart: they are laid side by side, so that the swizzle tells them apart
    swizzled       whether chunks are permuted by their row; not where lanes read along one row, or rows are padded
    padding        elements between the end of a row and the next one
    """

    buf: Buf
    outer: tuple[tuple[str, int], ...]
    inner: tuple[tuple[str, int], ...]
    rows: int
    row: int
    deep: bool
    vector: int
    offset: int
    view: Tensor | None
    apart: int = 1
    swizzled: bool = True
    padding: int = 0

    def placed(self, row: str) -> str:
        """Where row number `row` lies: rows that are `apart` follow each other."""
        return row if self.apart == 1 else f"({row}) % {self.apart} * {self.rows // self.apart} + ({row}) / {self.apart}"

    def byte(self, row: str, byte: str) -> str:
        """Where a byte of a row lies, from the operand's beginning."""
        return f"ac_swizzle<{self.row_bytes}>({row}, {byte})" if self.swizzled else f"({row}) * {self.row_bytes} + {byte}"

    def chunk(self, row: str, place: str) -> str:
        """The chunk that lies at a place of a row."""
        return f"ac_chunk<{self.row_bytes}>({row}, {place})" if self.swizzled else place

    def number(self, place: str) -> str:
        """The number of the row that lies at `place`."""
        every = self.rows // self.apart
        return place if self.apart == 1 else f"{place} % {every} * {self.apart} + {place} / {every}"

    @property
    def row_bytes(self) -> int:
        """From one row's beginning to the next one's."""
        return (self.row + self.padding) * self.buf.dtype.bytes

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Product:
    """A contraction placed: its instruction, its axes as (axis, size) innermost first, and how often it repeats in a wave;
    parts: waves that share its depth."""

    stmt: Stmt
    instruction: Instruction
    m: tuple[tuple[str, int], ...]
    n: tuple[tuple[str, int], ...]
    k: tuple[tuple[str, int], ...]
    repeat: tuple[int, int]
    waves: tuple[int, int]
    steps: int
    layout: Layout
    a: str
    b: str
    parts: int = 1

    def deep(self, x: Shared) -> bool:
        """Whether a factor lies along this product's reduced axes: one buffer may be a factor of two products."""
        return x.inner[0][0] in [a for a, _ in self.k] if x.inner else x.deep

    def part(self, first: bool) -> Layout:
        """How threads hold the left factor, or the right one."""
        return self.layout.project([a for a, _ in (self.m if first else self.n)])

    def run(self, shared: Mapping[str, Shared]) -> int:
        """Steps in depth that products by threads read at once of factors whose depth is contiguous: WIDE bytes, fewer where registers
        would not hold them beside the sums; 1 where the instruction folds several steps itself."""
        factors = [(shared[name], self.part(first)) for name, first in ((self.a, True), (self.b, False)) if name in shared]
        deep = [(x, part) for x, part in factors if self.deep(x)]
        if self.instruction.k > 1 or not deep:
            return 1
        size, total = max(x.buf.dtype.bytes for x, _ in deep), prod(n for _, n in self.k)
        whole = lambda run: not total % run and not any(x.row_bytes % (run * x.buf.dtype.bytes) for x, _ in deep)
        return next((n for n in (16, 8, 4, 2) if n * size <= WIDE and self._held(n, size, self._rows()) <= HELD and whole(n)), 1)

    def _rows(self) -> int:
        """Rows of the left factor that a thread may read at a time where its sums follow them: those of a piece of results, or a few."""
        part, sums = self.part(True), self.layout.reg
        if len(part.reg) > 1 and part.reg[0].stride == 1 and sums[-1].axis == part.reg[-1].axis:
            return part.reg[0].count
        n = part.registers
        return next(k for k in range(min(FEW, n), n + 1) if n % k == 0) if len(part.reg) == 1 and sums[-1:] == part.reg else n

    def _held(self, run: int, size: int, rows: int) -> int:
        return max(size // WORD, 1) * (self.layout.registers + run * (rows + self.part(False).registers))

    def pieces(self, shared: Mapping[str, Shared]) -> int:
        """Parts in which a thread reads the left factor, so that it holds few of its rows beside its sums."""
        run, rows, size = self.run(shared), self.part(True).registers, max(x.buf.dtype.bytes for x in (shared[self.a], shared[self.b]))
        return rows // self._rows() if run > 1 and self._held(run, size, rows) > EASILY else 1

    def beside(self, x: Shared, part: Layout) -> int:
        """Rows that one access reads of a factor that lies along them: WIDE bytes, fewer where a thread has fewer side by side."""
        if self.deep(x) or not part.reg or (part.reg[0].axis, part.reg[0].stride) != (x.inner[0][0], 1):
            return 1
        most = min(part.reg[0].count, max(1, WIDE // x.buf.dtype.bytes))
        fits = lambda n: not part.reg[0].count % n and not x.row % n and (len(x.inner) == 1 or not x.inner[0][1] % n)
        return next((n for n in (16, 8, 4, 2) if n <= most and fits(n)), 1)

    def rows(self, x: Shared) -> int:
        """Rows of a factor that shared memory holds (columns, where it lies along them)."""
        return x.rows if self.deep(x) else x.row


@dataclass
class Placement:
    """layouts: of fragments by name; shared: of operands by name; staged: of fragments that memory holds in another order than
    threads read them; cleared: computed operands whose tile is padded with zeros; once: copied outside loops; early: copied once
    a tile by blocks that stay; strips: of fragments whose windows overlap, what is loaded of them; peeled: axes along
    which whole tiles move whole vectors; ends: only registers that the end of a whole axis may cut are compared with it; stages: ring
    depth; counted: asynchronous copies are waited for by their number (else by groups), so all waves issue as many in each turn; bytes:
    shared memory in all, as it was reserved."""

    threads: int
    wave: int
    stages: int
    layouts: dict[str, Layout] = field(default_factory=dict)
    shared: dict[str, Shared] = field(default_factory=dict)
    staged: dict[str, Shared] = field(default_factory=dict)
    products: dict[Stmt, Product] = field(default_factory=dict)
    cleared: list[str] = field(default_factory=list)
    trees: dict[str, int] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    plain: set[str] = field(default_factory=set)
    strips: dict[str, Strip] = field(default_factory=dict)
    peeled: frozenset[str] = frozenset()
    ends: bool = False
    once: frozenset[str] = frozenset()
    early: frozenset[str] = frozenset()
    cluster: int = 1
    counted: bool = False
    bytes: int = 0
    reserved: list[tuple[int, int, str]] = field(default_factory=list)

    def depth(self, name: str) -> int:
        """Slots of a copied operand: a ring in a loop, one where it is copied once a tile, two where the next tile's may come early."""
        return 1 if name in self.once else min(2, self.stages) if name in self.early else self.stages

    def padded(self, rows: int, row: int, chunk: int, bytes_: int) -> int:
        """Rows of a tile of which `chunk` elements, `bytes_` bytes, come at once: with padding, which waves that are counted copy as a
        whole where they copy asynchronously."""
        step = self.wave * chunk
        return -(-rows // (n := step // gcd(step, row))) * n if self.counted and bytes_ == WIDE else rows

    def reserve(self, bytes_: int, align: int = 16, slots_of: str = "") -> int:
        """An offset in shared memory. `slots_of`: of a copied operand, so many bytes for each of its slots."""
        self.reserved.append((bytes_, align, slots_of))
        at = -(-self.bytes // align) * align
        self.bytes = at + bytes_ * (self.depth(slots_of) if slots_of else 1)
        return at

    def bytes_of(self, stages: int, parts: int | None = None) -> int:
        """Bytes of shared memory of the same places (the first `parts` that were reserved) with rings of so many stages."""
        other = replace(self, stages=stages, bytes=0, reserved=[])
        for bytes_, align, slots_of in self.reserved[:parts]:
            other.reserve(bytes_, align, slots_of)
        return other.bytes


def tile_of(p: TileProgram, axis: str) -> int:
    """Tile size of an axis; a whole axis lies in the tile with its extent. Raises UnsupportedOp for whole symbolic axes."""
    tile = dict(p.tile).get(axis)
    extent = p.extent(axis)
    if tile is not None:
        return tile
    if not isinstance(extent, int):
        raise UnsupportedOp(f"axis {axis} of unknown extent {extent} lies whole in a tile", where=f"kernel {p.name}",
                            hint="tile it, or give the dimension a value (--dim)")  # fmt: skip
    return extent
