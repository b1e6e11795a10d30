"""Results by TMA (directive `tma_store`; PTX: cp.async.bulk.tensor to global memory): registers to boxes of up to 64 x 64 results in
shared memory by stmatrix, then one bulk store a box, clipped at the tensor's edges by the engine.

    before   store out = y               after   store out = y  | by TMA in boxes of 64 x 64, 2 a warpgroup
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.tma import tensor_map
from autocomp.targets.simt.access import contiguous_axis
from autocomp.targets.simt.digits import along
from autocomp.targets.simt.expressions import STORED, index
from autocomp.targets.simt.placed import tile_of
from autocomp.targets.simt.placement import ALIGN
from autocomp.targets.source import TensorMap

from autocomp.cost.derived import constant
from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.tile.layout import Layout
from autocomp.tile.plan import Barrier, Box, Done, Fence
from autocomp.tile.program import Stmt, Tensor
from autocomp.tile.steps import Scheme, Step, Steps, each, stmt_of, told

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

STAGE = int(constant("staged_bytes"))  # of a warpgroup: two boxes of 64 x 64, or one where that is all
BOX_BYTES = 8192
PLACES = 3  # of a warpgroup's boxes, with a spare one


@dataclass(frozen=True)
class Boxes:
    """A warpgroup's part of a tile in boxes of 64 columns and `run` rows: neighbours along the innermost of the tile's row axes, `rows`
    (axis, padded size), innermost first, as `columns` are. `start`: coordinates of the tile's first element; `groups` of 64 elements along
    the instruction's columns, which are the tile's rows where it is `turned`; `repeats` of its 64 rows."""

    map: TensorMap
    start: tuple[Aff, ...]
    columns: tuple[tuple[str, int], ...]
    rows: tuple[tuple[str, int], ...]
    run: int
    groups: int
    repeats: int
    turned: bool

    @property
    def parts(self) -> int:
        """Copies of the bulk engine that a box takes."""
        return 64 // self.run

    @property
    def count(self) -> int:
        """Boxes of a warpgroup."""
        return self.groups * self.repeats

    @property
    def suffix(self) -> str:
        """Of the instruction that moves four matrices of 8 x 8 between registers and a box."""
        return "_t" if self.turned else ""

    @property
    def place(self) -> str:
        """Row and byte of a lane's 16 bytes in a box, for 8 registers of it from register 8 q on."""
        if self.turned:
            return "q * 16 + lane / 16 * 8 + lane % 8, wave % 4 * 32 + lane / 8 % 2 * 16"
        return "wave % 4 * 16 + lane % 16, q * 32 + lane / 16 * 16"


@dataclass(frozen=True)
class TmaStore(Scheme):
    """Results leave in boxes."""

    boxes: Boxes

    says = "by TMA in boxes of {0.boxes.run} x 64, {0.boxes.count} a warpgroup"


def tma_store(steps: Steps, facts: Facts) -> Steps:
    """Says of each store whose rows allow it how its boxes leave."""

    def change(n: Step) -> Step:
        s = stmt_of(n)
        x = find_boxes(facts, s.dst, facts.place.layouts[s.srcs[0]]) if s and s.op == "store" else None
        return told(n, TmaStore(x)) if x else n

    return each(steps, change)


@dataclass(frozen=True)
class ThirdStage(Scheme):
    """A place for a box that a ring's slot leaves between two tiles (`third_epilogue_stage`): the ring and its slots, where the first
    factor lies in the first of them, bytes of one, and of a warpgroup's rows."""

    ring: str
    depth: int
    offset: int
    bytes: int
    own: int

    says = "the slot of {0.ring} that its last turn read is a third place for boxes"

    def place(self, memory: str, number: str, near: str) -> str:
        """Where box `number` of a warpgroup lies; `near`: its first two places."""
        slot = f"{memory} + {self.offset} + ({self.ring} - 1) % {self.depth} * {self.bytes} + wave / 4 * {self.own}"
        return f"{number} % {PLACES} == {PLACES - 1} ? {slot} : {near} + {number} % {PLACES} * {BOX_BYTES}"


def store_boxes(at: WarpSpecialisedPrinter, s: Stmt, x: Boxes, maps: Sequence[Stmt] = ()) -> None:
    """Prints a store through shared memory and the bulk engine: whole lines, clipped at the edges by the engine; `maps`: what makes each
    box's values just before."""
    layout, number = at.place.layouts[s.srcs[0]], descriptor_of(at, x)
    stage = STAGE // 2 if x.count == 1 else STAGE
    offset = at.place.reserve(stage * at.teams, ALIGN)
    at.put(f"unsigned char *const box{number} = {at.memory} + {offset} + ({at.side}) * {stage};")
    if at.persistent and x.count % 2 and not at.third_stage:  # the last tile ended in the half that this one begins with
        at.plan(read_by_engine(0))
    mine = x.count // at.parts.count if at.parts and at.in_shares(layout) else x.count
    again = at.persistent or mine > 2  # a place is written more than once
    with each_box(at, layout, x):
        make_box(at, x, maps)
        box, of = at.names.fresh("to"), f"(m * {x.groups} + g)"
        third = at.third_stage
        if third:
            at.put(f"unsigned char *{box} = {third.place(at.memory, of, f'box{number}')};")
            empty: AbstractContextManager[None] = at.block(f"if ({of} >= {PLACES})", since=(number_of(at, x), PLACES), least=third.depth)
        else:
            at.put(f"unsigned char *{box} = box{number} + {of} % 2 * {BOX_BYTES};")
            empty = nullcontext()
        with empty:
            if again and not (at.persistent and x.count == 1):  # else it has been waited for just now
                at.plan(read_by_engine((PLACES - 1 if third else 1) * x.parts))
            if again:
                at.plan(team_meets(at))
        place = Box(f"box{number}", "write", number_of(at, x), PLACES if third else 2)
        if third:
            place = replace(place, ring=third.ring, depth=third.depth, back=1, lent=PLACES - 1)
        at.plan(place)
        store_box(at, x, s.srcs[0], box)
        send_box(at, x, number, box, place)


def descriptor_of(at: WarpSpecialisedPrinter, x: Boxes) -> int:
    """The number of the descriptor through which boxes leave."""
    at.placer.maps.append(x.map)
    at.stored = True
    return len(at.placer.maps) - 1


def make_box(at: WarpSpecialisedPrinter, x: Boxes, maps: Sequence[Stmt]) -> None:
    """The values of box m, g: the bulk engine is at the boxes before it meanwhile."""
    at.box = f"(m * {x.groups} + g)"
    for m in maps:
        at.map(m)
    at.box = ""


def read_by_engine(behind: int) -> Done:
    """The thread that starts a warpgroup's stores waits until at most the last `behind` of them still read shared memory."""
    return Done(behind, f"if (threadIdx.x % 128 == 0) ac_bulk_wait<{behind}>();", "stores")


def team_meets(at: WarpSpecialisedPrinter) -> Barrier:
    """The threads of a warpgroup, at a barrier of their own."""
    return Barrier("warpgroup", f"ac_barrier_sync(2 + {at.side}, 128);")


def number_of(at: WarpSpecialisedPrinter, x: Boxes) -> tuple[tuple[str, int], ...]:
    """The number of the box of `each_box`, as `plan.Box` says it."""
    return (("b", 1),) if at.parts and at.added else (("m", x.groups), ("g", 1))


def send_box(at: WarpSpecialisedPrinter, x: Boxes, number: int, box: str, place: Box) -> None:
    """Box m, g, which all warps have laid down, to global memory."""
    at.plan(Fence("ac_async_fence();"), team_meets(at))
    if x.parts == 1:
        at.plan(replace(place, do="store", text=f"if (threadIdx.x % 128 == 0) {_bulk_store(at, x, number, box)}"))
    else:
        with at.block("if (threadIdx.x % 128 == 0)"):
            part_store(at, x, number, box, place)


def store_box(at: WarpSpecialisedPrinter, x: Boxes, value: str, box: str) -> None:
    """Registers of box m, g into shared memory."""
    y, kind = at.names.of(value), STORED[at.bufs[value].dtype.name]
    with at.over(4, "q"):
        at.put("unsigned part[4];", f"ac_pack<{kind}, 8>(part, &{y}[(m * {x.groups} + g) * 32 + q * 8]);")
        at.put(f"ac_stmatrix4{x.suffix}({box} + ac_swizzle<128>({x.place}), part);")


def part_store(at: WarpSpecialisedPrinter, x: Boxes, number: int, box: str, place: Box) -> None:
    """Box m, g to global memory."""
    with at.each(x.parts, "part") if x.parts > 1 else nullcontext():
        at.plan(replace(place, do="store", text=_bulk_store(at, x, number, box)))


def _bulk_store(at: WarpSpecialisedPrinter, x: Boxes, number: int, box: str) -> str:
    box += f" + part * {x.run * 128}" if x.parts > 1 else ""
    return f"ac_bulk_store(&map{number}, {box}, {placed(at, x, f'(wave / 4 * {x.repeats} + m) * 64')});"


def placed(at: WarpSpecialisedPrinter, x: Boxes, row: str) -> str:
    """Coordinates of (a part of) the box of group g that begins at a row of the instruction's."""
    row, col = ("g * 64", row) if x.turned else (row, "g * 64")
    here = _here(x, f"({row} + part * {x.run})" if x.parts > 1 else row, col)
    return ", ".join(_position(at, a, here) for a in x.start)


@contextmanager
def each_box(at: WarpSpecialisedPrinter, layout: Layout, x: Boxes) -> Iterator[None]:
    """A loop over boxes: m counts 64 rows of the instruction, g 64 columns."""
    if at.in_shares(layout):
        with at.registers(layout, "b", 32):
            at.put(f"const int m = b / {x.groups}, g = b % {x.groups};")
            yield
    else:
        with at.each(x.repeats, "m"), at.each(x.groups, "g"):
            yield


def _here(x: Boxes, row: str, col: str) -> dict[str, str]:
    """Each axis' index in the tile at a row and a column; of columns over several axes at group g of 64."""
    (first, wide), *more = x.columns
    across = {first: col}
    if more:
        across = along(((first, wide // 64), *more), "g")
        across[first] += " * 64"
    return across | along(x.rows, row)


def _position(at: WarpSpecialisedPrinter, a: Aff, local: dict[str, str]) -> str:
    """An index at the tile's first element plus local offsets."""
    return index(a, lambda n: f"({' + '.join(x for x in (at.base.get(n), local.get(n)) if x) or '0'})")


def find_boxes(at: Facts, tensor: str, layout: Layout) -> Boxes | None:
    """How a value that lies as an accumulator is copied from or to a tensor; None where its rows, its type or the tensor do not allow
    boxes."""
    t = at.p.tensor(tensor)
    product = next((p for p in at.place.products.values() if p.layout == layout), None)
    if t is None or t.dtype.bytes != 2 or t.guard or product is None:
        return None
    if product.waves[1] > 1:  # warpgroups that share rows have columns of their own
        return None
    turned = contiguous_axis(t) in [a for a, _ in product.m]
    cols, rows = (product.m, product.n) if turned else (product.n, product.m)
    col = cols[0][0]
    run = 64 if len(rows) == 1 else min(64, rows[0][1])
    wide, high = cols[0][1], layout.extent(rows[0][0])
    groups = prod(layout.extent(a) for a, _ in (rows if turned else cols)) // 64
    if (turned and len(cols) != 1) or layout.registers % (32 * max(1, groups)):
        return None
    if at.in_shares(layout) and layout.registers // 32 % at.parts.count:
        return None
    if wide % 64 or high % run or run % 8 or contiguous_axis(t) != col or layout.axes() != {a for a, _ in (*cols, *rows)}:
        return None
    found = clipped(at, t, layout, {col: 64, rows[0][0]: run})
    return Boxes(*found, cols, rows, run, groups, layout.registers // (groups * 32), turned) if found else None


def clipped(at: Facts, t: Tensor, layout: Layout, box: dict[str, int]) -> tuple[TensorMap, tuple[Aff, ...]] | None:
    """The descriptor of boxes of a tile, columns first, and its start, where the bulk engine clips them at the tensor's edges."""
    (col, _), (_, run) = box.items()
    try:
        made, start, count = tensor_map(t, box, {a: at.p.extent(a) for a in t.axes}, col, frozenset(), "")
    except UnsupportedOp:
        return None
    whole = all(tile_of(at.p, a) == layout.extent(a) for a in layout.axes() if a in at.gridded)
    ends = all(at.p.extent(a) == _dim_of(t, a) for a in layout.axes())
    return (made, start) if count == run and whole and ends else None


def _dim_of(t: Tensor, axis: str) -> object:
    """The extent of the dimension that an axis alone indexes, so that the engine clips where the axis ends."""
    return next((n for i, n in zip(t.index, t.shape) if i == Aff.of(axis)), None)
