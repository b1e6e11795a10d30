"""Operands by TMA (PTX: cp.async.bulk.tensor): the tensor map of a view, its boxes in shared memory, and the shared memory descriptor by
which wgmma finds them there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autocomp.targets.source import TensorMap

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.types import Dim
from autocomp.tile.program import Buf, Tensor

CHUNK = 128  # bytes of a box row: one swizzle period
COORDINATE = 2**31 - 1  # the largest coordinate
CHUNKS = (CHUNK, 64, 32)  # those that there are; a step in depth of a product is 32
BOX = 256  # most elements that a box spans along any dimension
STEP = 8  # most elements from one of a box to the next; source: CUDA driver API, cuTensorMapEncodeTiled
RANK = 5


@dataclass(frozen=True)
class Bulk:
    """A factor of a product in shared memory: boxes of `rows` rows of `chunk` bytes, swizzled.

    deep    the rows' elements run along the reduced axis (K-major); else along m or n, and the rows are steps in depth
    boxes   boxes side by side along the contiguous axis, each `box_bytes`
    start   coordinates of the tile's first element, innermost dimension first, over the axes
    more    reduced axes beside the rows' own, with their sizes, innermost first: each of their steps has boxes of its own
    """

    buf: Buf
    view: Tensor
    deep: bool
    rows: int
    boxes: int
    offset: int
    map: TensorMap
    start: tuple[Aff, ...]
    more: tuple[tuple[str, int], ...] = ()
    chunk: int = CHUNK

    @property
    def box_bytes(self) -> int:
        return self.rows * self.chunk

    @property
    def bytes(self) -> int:
        """Bytes of one slot; the engine counts whole boxes, also what lies outside the tensor."""
        return self.boxes * self.box_bytes

    @property
    def copied(self) -> int:
        """Bytes that the engine announces for a slot."""
        return self.bytes

    @property
    def reach(self) -> int:
        """Bytes from a slot's start to the end of what instructions read."""
        return self.bytes

    @property
    def layout(self) -> tuple[int, int, int]:
        """Bytes to the next step in depth (1: they follow each other in the row) and to the next 8 rows, and those of the swizzle."""
        return 1, 8 * self.chunk, self.chunk

    @property
    def across(self) -> int:
        """Elements of a box row."""
        return self.chunk // self.buf.dtype.bytes

    def shift(self, box: int) -> tuple[int, ...]:
        """What a box's coordinates add to those of the tile's first element."""
        chunks = self.boxes // prod(n for _, n in self.more)
        out, rest = [box % chunks * self.across, *(0 for _ in self.start[1:])], box // chunks
        for a, n in self.more:
            out = [x + i.coef(a) * (rest % n) for x, i in zip(out, self.start)]
            rest //= n
        return tuple(out)

    def place(self, side: str, number: str, wide: int, step: int) -> str:
        """Where instruction `number` of `wide` rows, the first of them row `side`, finds its step kk of `step` bytes in depth."""
        steps = self.chunk // step
        return f"({side}) * {self.chunk} + kk % {steps} * {step}" + (f" + kk / {steps} * {self.box_bytes}" if self.boxes > 1 else "")


def side_by_side(index: Aff, axes: Sequence[str], tile: Mapping[str, int], extent: Mapping[str, Dim]) -> bool:
    """Whether a tile over several axes (inner first) is one run of a dimension: all but the outermost whole, each right behind the last."""
    return all(tile[a] == extent[a] and index.coef(b) == index.coef(a) * tile[a] for a, b in zip(axes, axes[1:]))


def along(index: Aff, axes: Sequence[str]) -> bool:
    """Whether an index steps evenly along each of the axes: none of them is in a floor or a remainder."""
    return not any(a in x.num.names() for x, _ in index.terms if not isinstance(x, str) for a in axes)


def tensor_map(t: Tensor, tile: Mapping[str, int], extent: Mapping[str, Dim], inner: str, exact: frozenset[str],
               where: str, chunk: int = CHUNK) -> tuple[TensorMap, tuple[Aff, ...], int]:  # fmt: skip
    """(descriptor, start coordinates, rows of a box) of a view's tile.

    tile     size of each axis (padded); exact: reduced axes, past whose end the tile must read zeros
    chunk    bytes of a box row
    Raises UnsupportedOp naming the condition that fails: addresses and pitches of whole 16 bytes, one axis a dimension, zero padding.
    """
    refuse = lambda why: UnsupportedOp(f"the bulk engine cannot copy {t.name}: {why}", where=where, hint="a schedule without it exists")
    size = t.dtype.bytes
    dims: list[Dim] = []
    strides: list[Dim] = []
    box: list[int] = []
    steps: list[int] = []
    start: list[Aff] = []
    stride = size
    rows = 1
    for d in range(len(t.index) - 1, -1, -1):
        index, n = t.index[d], t.shape[d]
        wide = sorted((a for a in index.names() if tile.get(a, 1) > 1), key=lambda a: (index.coef(a), a))
        step = index.coef(wide[0]) if wide else 1
        if not along(index, wide) or not side_by_side(index, wide, tile, extent) or not 1 <= step <= (STEP if d < len(t.index) - 1 else 1):
            raise refuse(f"dimension {d} is read at {index}")
        here = prod(tile[a] for a in wide)
        if len(wide) > 1 and exact & set(wide):
            raise refuse(f"dimension {d} is read at {index}")
        if wide and wide[0] in exact and not ends_together(index, wide[0], extent[wide[0]], n, here):
            raise refuse(f"the end of {wide[0]} is not the end of dimension {d}")
        if d == len(t.index) - 1:
            if wide[:1] != [inner]:
                raise refuse(f"its contiguous dimension is not along {inner}")
            here = chunk // size
        else:
            if stride % 16:
                raise refuse(f"rows of {stride} bytes are no multiple of 16")
            rows *= here
        if n != 1 or here != 1 or d == len(t.index) - 1:
            dims.append(n)
            box.append(here)
            steps.append(step)
            start.append(index)
            if d != len(t.index) - 1:
                strides.append(stride)
        if (n if isinstance(n, int) else n.hi) > COORDINATE:
            raise refuse(f"dimension {d} has {n} elements, a coordinate is an int")
        if not isinstance(n, int):
            if d:
                raise refuse(f"dimension {d} has no fixed extent")
        else:
            stride *= n
    if any(b * s > BOX for b, s in zip(box, steps)) or len(dims) > RANK:
        raise refuse(f"a box of {box} in steps of {steps}")
    check_guard(t, refuse)
    far = tuple(steps) if max(steps, default=1) > 1 else ()
    return TensorMap(t.buffer, t.dtype.name, tuple(dims), tuple(strides), tuple(box), chunk, far), tuple(start), rows


def ends_together(index: Aff, axis: str, extent: Dim, n: Dim, tile: int) -> bool:
    """Whether what a tile reads past the end of an axis lies past the end of the dimension too (an axis may be longer: zeros of a pad)."""
    if isinstance(extent, int) and extent % tile == 0:
        return True
    return index == Aff.of(axis) and (extent == n or (isinstance(extent, int) and isinstance(n, int) and extent > n))


def check_guard(t: Tensor, refuse: object) -> None:
    """Guards may only say that an index lies inside its dimension: that is what the engine fills with zeros."""
    for g in t.guard:
        inside = any(g == i or (isinstance(n, int) and g == (n - 1) - i) for i, n in zip(t.index, t.shape))
        if not inside or t.fill:
            raise refuse(f"guard {g} >= 0, else {t.fill}")  # type: ignore[operator]
