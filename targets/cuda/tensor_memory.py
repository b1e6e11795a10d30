"""Products into tensor memory (feature `tensor_memory`; PTX: tcgen05), the pass: one thread issues them, their sums lie in columns of that
memory and not in registers, and the consumers load these when all are there, some columns at a time.

    before   consumers                         after   issuer
               grid i0, i1                               grid i0, i1
                 acc = fill 0                              serial r0
                 serial r0                                   acc += mma a, b  | by one thread, the first turn overwrites
                   acc += mma a, b                     consumers
                 y = map acc                             grid i0, i1
                 store out = y                             32 columns of acc at a time, 4 in all
                                                             y = map acc
                                                             store out = y

With directive `tma_store` results of two bytes leave by bulk stores where shared memory has room: 128 rows by 64 columns at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.tma_store import clipped
from autocomp.targets.cuda.warp_specialise import Role, tile_of_role
from autocomp.targets.simt.access import contiguous_axis
from autocomp.targets.source import TensorMap

from autocomp.ir.affine import Aff
from autocomp.tile.program import Stmt
from autocomp.tile.steps import Do, Over, Scheme, Step, Steps, inside, stmt_of, told

PIECE = 32  # columns that a load brings to a thread; source: PTX ISA, tcgen05.ld with .32x32b.x32
ROWS, COLUMNS = 128, 64  # of a box of results: rows of a warpgroup, one swizzle period of two bytes each
BOX_BYTES = ROWS * COLUMNS * 2


@dataclass(frozen=True)
class Issue(Scheme):
    """A product that one thread issues; its first instruction overwrites what a fill with `zero` would."""

    zero: Stmt

    says = "by one thread, the first turn overwrites"

    @property
    def does(self) -> tuple[Stmt, ...]:
        return (self.zero,)


@dataclass(frozen=True)
class Boxes:
    """How results leave: the tensor's map, coordinates of the tile's first element over the axes, and the axes of its rows and columns;
    `slots`: boxes of each warpgroup in shared memory."""

    map: TensorMap
    start: tuple[Aff, ...]
    row: str
    column: str
    slots: int


@dataclass(frozen=True)
class Pieces(Scheme):
    """Steps that are done for `columns` of a product's sums at a time, `count` times; the last of them a store of `boxes`, where it is."""

    sums: str
    columns: int
    count: int
    boxes: Boxes | None = None

    @property
    def said(self) -> str:
        return f"{self.columns} columns of {self.sums} at a time, {self.count} in all{', stored by TMA' if self.boxes else ''}"


def tensor_memory(steps: Steps, facts: Facts) -> Steps:
    """Takes the products out of the consumers' tile. Raises UnsupportedOp where a tile is more than one product, maps of its results
    element by element, and stores of these."""
    producer, consumers = steps
    assert isinstance(consumers, Over)
    before, body = tile_of_role(consumers)
    at = next((k for k, n in enumerate(body) if any(s.op == "mma" for s in inside((n,)))), None)
    if at is None or any(s.op != "mma" for s in inside((body[at],))):
        raise facts.placer.refuse("what stands beside a product in its loop is done by no thread that issues it")
    sums = next(s.dst for s in inside((body[at],)))
    zero = next((s for n in body[:at] if (s := stmt_of(n)) and s.op == "fill" and s.dst == sums and s.expr == 0), None)
    if zero is None:
        raise facts.placer.refuse(f"{sums} does not begin with zeros")
    tile = consumers.body[-1]
    assert isinstance(tile, Over)
    issued = replace(tile, body=(_issued(body[at], zero),))
    left = (*before, replace(tile, body=_in_pieces([n for n in (*body[:at], *body[at + 1 :]) if stmt_of(n) is not zero], sums, facts)))
    return (producer, Over((issued,), None, (Role("issuer"),)), Over(left, None, (Role("consumers"),)))


def _issued(n: Step, zero: Stmt) -> Step:
    """The step of a product, or the loop around it."""
    return replace(n, body=tuple(_issued(x, zero) for x in n.body)) if isinstance(n, Over) else told(n, Issue(zero))


def _in_pieces(rest: list[Step], sums: str, facts: Facts) -> Steps:
    """What becomes of the sums, grouped; what has no columns, and is copied, stands in front."""
    layouts = facts.place.layouts
    columns = layouts[sums].registers
    held = lambda s: layouts[s.srcs[0] if s.op == "store" else s.dst]
    for n in rest:
        s = stmt_of(n)
        wide = s is not None and held(s).reg == layouts[sums].reg
        if s is None or s.op not in ("copy", "map", "store") or not (wide or (s.op == "copy" and held(s).registers == 1)):
            raise facts.placer.refuse(f"{s.dst if s else 'a loop'} behind a product into tensor memory is not made element by element")
    front = [n for n in rest if isinstance(n, Do) and held(n.stmt).registers == 1 and n.stmt.op == "copy"]
    behind = tuple(n for n in rest if n not in front)
    boxes = _boxes(behind, sums, facts)
    piece = COLUMNS if boxes else PIECE if columns % PIECE == 0 else PIECE // 2
    return (*front, Over(behind, None, (Pieces(sums, piece, columns // piece, boxes),)))


def _boxes(behind: Steps, sums: str, facts: Facts) -> Boxes | None:
    """How the one store behind a product leaves by the bulk engine; None where its tensor or shared memory does not allow it."""
    stores = [s for s in inside(behind) if s.op == "store"]
    (pr,) = facts.place.products.values()
    columns, layout = facts.place.layouts[sums].registers, facts.place.layouts[sums]
    t = facts.p.tensor(stores[0].dst) if len(stores) == 1 else None
    slots = min(2, columns // COLUMNS, int(facts.free) // (BOX_BYTES * facts.workers))
    if "tma_store" not in facts.asked or t is None or t.guard or t.dtype.bytes != 2 or not slots:
        return None
    if len(pr.m) + len(pr.n) > 2 or columns % COLUMNS:
        return None
    ((row, _),), ((column, _),) = pr.m, pr.n
    if contiguous_axis(t) != column or stmt_of(behind[-1]) is not stores[0]:
        return None
    found = clipped(facts, t, layout, {column: COLUMNS, row: ROWS})
    return Boxes(found[0], found[1], row, column, slots) if found else None
