"""Implicit GEMM: the operand of a convolution is not copied once a tap. The patch of the image that a tile's window slides over is kept in
shared memory once (one TMA box a slot), and the matrix instruction of each tap reads it at an offset.

A view whose dimensions are read at i + d * r (a tile's position plus a tap) has one element of memory for many elements of the tile.
The patch holds each once, as rows of 128 bytes (pixels of 64 channels) in the order of the tensor's dimensions:

    place(i, r) = sum over dimensions of (i + d * r) * pitch

An instruction reads 64 (or n) rows that follow each other in the patch, so axes that vary among them must step through it as they
step through the tile: pitch = stride in the tile. A tap moves the start by whole rows. The swizzle is a function of the address (its
bits 7 to 9 select among bits 4 to 6), so that a start at any row reads what the bulk engine wrote. Where rows of an image are too
short for their halo (7 places and 2 more in 8), the zeros behind a row are those in front of the next one, or it is no window.

A window that slides along the contiguous dimension itself, in steps of 16 bytes (a line of pixels of few channels, whose taps and
channels are one reduced axis), has a patch of lines: rows of 16 bytes without a swizzle. An instruction takes its factors in pieces of
8 rows of 16 bytes, and neighbours along a line are such rows: 8 windows of a line at one of their steps of 16 bytes are 128 bytes that
follow each other, the next step of the same windows begins 16 bytes further on, and nothing is copied apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from autocomp.targets.cuda.tma import BOX, CHUNK, CHUNKS, RANK, Bulk, along, check_guard, ends_together
from autocomp.targets.source import TensorMap

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.types import Dim
from autocomp.tile.program import Buf, Tensor

Refuse = Callable[[str], UnsupportedOp]
SWIZZLE = 1024  # bytes after which the swizzle repeats
CELL = 16  # bytes of a row of an instruction's piece; source: PTX ISA, wgmma, matrix descriptor without swizzle


@dataclass(frozen=True)
class Window(Bulk):
    """A patch of `rows` rows of `row` bytes in each of its boxes; depth lies side by side in `chunk` bytes (of a patch of lines: rows).

    tile   (size in the tile, padded; rows of the patch from one index to the next) of each axis along the instruction's rows,
           innermost first
    taps   (size, rows of the patch from one tap to the next) of each reduced axis but the inner one, innermost first
    """

    tile: tuple[tuple[int, int], ...] = ()
    taps: tuple[tuple[int, int], ...] = ()
    row: int = CHUNK

    @property
    def box_bytes(self) -> int:
        return -(-self.rows * self.row // SWIZZLE) * SWIZZLE

    @property
    def copied(self) -> int:
        return self.boxes * self.rows * self.row

    @property
    def layout(self) -> tuple[int, int, int]:
        return (1, 8 * CHUNK, CHUNK) if self.row == CHUNK else (CELL, 8 * CELL, 0)

    @property
    def reach(self) -> int:
        """Bytes from a slot's start to the end of what instructions read: rows of the tile that lie in no output read beyond."""
        last = sum((n - 1) * pitch for n, pitch in (*self.tile, *self.taps))
        return (self.boxes - 1) * self.box_bytes + last * self.row + self.chunk

    def place(self, side: str, number: str, wide: int, step: int) -> str:
        """Rows of instruction `number` (`wide` rows each) at the tap and step of kk."""
        parts, below = [], 1
        for i, (n, pitch) in enumerate(self.tile):
            if below * n > wide or i == len(self.tile) - 1:  # else the axis lies whole in one instruction
                digit = f"{number} / {below // wide}" if below > wide else f"{number} * {wide // below}" if below < wide else number
                digit = digit if i == len(self.tile) - 1 else f"({digit}) % {n}"
                parts.append(f"({digit}) * {pitch * self.row}")
            below *= n
        per = self.chunk // step
        parts.append(f"kk % {per} * {step}")
        if self.boxes > 1:
            parts.append(f"kk / {per} % {self.boxes} * {self.box_bytes}")
        below = per * self.boxes
        for n, pitch in self.taps:
            parts.append(f"kk / {below} % {n} * {pitch * self.row}")
            below *= n
        return " + ".join(parts)


def slides(view: Tensor, wide: Sequence[str]) -> bool:
    """Whether elements of a tile, several along each of the axes `wide`, share memory: a dimension is read at the sum of two."""
    return any(len(i.names() & set(wide)) > 1 for i in view.index)


def window(buf: Buf, view: Tensor, outer: Sequence[tuple[str, int]], k: Sequence[tuple[str, int]], true: dict[str, int],
           extent: dict[str, Dim], wide: int, where: str) -> Window:  # fmt: skip
    """The patch of a view, its offset in shared memory still 0.

    outer    the axes along the instruction's rows with their padded sizes, innermost first; `true`: sizes of all axes in the tile
    k        the reduced axes with their sizes, innermost first; the first is contiguous in memory
    wide     rows of an instruction
    Raises UnsupportedOp naming the condition that fails.
    """
    inner, deep = k[0]
    refuse = lambda why: UnsupportedOp(f"{view.name} is no window that slides over one patch: {why}", where=where,
                                       hint="a schedule that copies every tap exists")  # fmt: skip
    for a, n in k[1:]:
        if _fixed(extent[a], refuse) % n:
            raise refuse(f"{extent[a]} taps of {a} in parts of {n}")
    patch = _Patch(view, outer, true, extent, wide, refuse)
    near = _lines(buf, patch, inner, deep) if len(view.index[-1].names()) > 1 else _pixels(buf, patch, inner, deep)
    strides: list[Dim] = [CELL] if near.row == CELL else []
    step = buf.dtype.bytes
    for d in range(len(view.index) - 1, 0, -1):
        step *= _fixed(view.shape[d], refuse)
        strides.append(step)
        patch.add(d - 1)
    if patch.spills:
        raise refuse("the zeros behind its end have no next row")
    dims, box = (*near.dims, *reversed(view.shape[:-1])), (near.across, *patch.box)
    if len(box) > RANK or max(box) > BOX or any(isinstance(x, int) and x % 16 for x in strides):
        raise refuse(f"a box of {list(box)}, rows of {strides} bytes")
    check_guard(view, refuse)
    made = TensorMap(view.buffer, view.dtype.name, dims, tuple(strides), box, near.swizzle)
    pitch = patch.pitch_of
    return Window(buf, view, True, prod(patch.box), near.boxes, 0, made, (*near.start, *reversed(view.index[:-1])), (), near.chunk,
                  tuple((n, pitch.get(a, 0)) for a, n in outer), tuple((n, pitch.get(a, 0)) for a, n in k[1:]), near.row)  # fmt: skip


@dataclass(frozen=True)
class _Near:
    """The contiguous dimension of a patch: its dimensions in the descriptor and where a tile starts in them, elements across a box,
    boxes; bytes of depth side by side, of a row, of the swizzle."""

    dims: tuple[Dim, ...]
    start: tuple[Aff, ...]
    across: int
    boxes: int
    chunk: int
    row: int
    swizzle: int


def _pixels(buf: Buf, patch: _Patch, inner: str, deep: int) -> _Near:
    """Rows that are pixels: boxes of 128 bytes of the reduced axis."""
    last, n, across = patch.view.index[-1], patch.view.shape[-1], CHUNK // buf.dtype.bytes
    if last != Aff.of(inner) or deep % across or not ends_together(last, inner, patch.extent[inner], n, deep):
        raise patch.refuse(f"its last dimension is read at {last}, {deep} elements, not in whole rows of {across}")
    return _Near((n,), (last,), across, deep // across, CHUNK, CHUNK, CHUNK)


def _lines(buf: Buf, patch: _Patch, inner: str, deep: int) -> _Near:
    """Lines: cells of 16 bytes, one for each step of the axis that slides, and those of a run."""
    last, n, cell = patch.view.index[-1], _fixed(patch.view.shape[-1], patch.refuse), CELL // buf.dtype.bytes
    step, run = last - Aff.of(inner), deep * buf.dtype.bytes
    sizes = [*(c for _, c in step.terms), step.const, n]
    if last.coef(inner) != 1 or any(x % cell for x in sizes) or run % CHUNKS[-1] or deep != patch.extent[inner]:
        raise patch.refuse(f"its last dimension of {n} is read at {last}, {deep} elements, not in steps of {cell}")
    cells = Aff(tuple((a, c // cell) for a, c in step.terms), step.const // cell)
    patch.place(cells, sum((patch.true.get(a, 1) - 1) * cells.coef(a) for a in cells.names()) + deep // cell)
    return _Near((cell, n // cell), (Aff(), cells), cell, 1, run, CELL, 0)


class _Patch:
    """Places of each dimension in a patch, from the last but one outwards. `pitch_of`: rows of the patch from one index of an axis to the
    next; `spills`: the zeros behind the end of what was added last must be those in front of the next row."""

    def __init__(self, view: Tensor, outer: Sequence[tuple[str, int]], true: dict[str, int], extent: dict[str, Dim], wide: int,
                 refuse: Refuse) -> None:  # fmt: skip
        self.view, self.outer, self.true, self.extent, self.wide, self.refuse = view, outer, true, extent, wide, refuse
        self.stride = {a: prod(n for _, n in outer[:i]) for i, (a, _) in enumerate(outer)}
        self.box: list[int] = []
        self.pitch_of: dict[str, int] = {}
        self.spills = False

    def add(self, d: int) -> None:
        """Dimension d of the view."""
        index = self.view.index[d]
        self.place(index, 1 + sum((self.true.get(a, 1) - 1) * index.coef(a) for a in index.names()), d)

    def place(self, index: Aff, need: int, d: int | None = None) -> None:
        """What a tile reads at an index has `need` places; of dimension d, where its zeros may be those of the next row."""
        what = f"dimension {len(self.view.index) - 1 if d is None else d}"
        pitch, here = prod(self.box), [a for a in sorted(index.names()) if self.true.get(a, 1) > 1]
        rows = [a for a in here if a in self.stride]
        if len(rows) > 1 or len(here) - len(rows) > 1 or not along(index, here) or any(index.coef(a) < 1 for a in here):
            raise self.refuse(f"{what} is read at {index}")
        for a in rows:
            if self.stride[a] < self.wide and self.stride[a] != pitch * index.coef(a):
                raise self.refuse(f"{a} steps {self.stride[a]} rows in the tile and {pitch * index.coef(a)} in the patch")
        places = self.asked([a for a in rows if index.coef(a) == 1], pitch)
        if places is None:
            places, self.spills = need + self.spills, False  # one more, for what spills into it
        elif places < need:
            if d is None or not (self.zeros_meet(d, places, need) and self.stands(index, here)):
                raise self.refuse(f"{places} places of {what} in the tile, {need} in the patch")
            self.spills = True
        elif places > need:
            self.spills = False
        self.box.append(places)
        self.pitch_of |= {a: pitch * index.coef(a) for a in here}

    def asked(self, rows: Sequence[str], pitch: int) -> int | None:
        """How many places a dimension must have for the next axis of the tile to step alike; None where instructions end before."""
        return next((self.stride[a] * n // pitch for a, n in self.outer[:-1] if a in rows and self.stride[a] * n < self.wide), None)

    def zeros_meet(self, d: int, places: int, need: int) -> bool:
        """Whether places from `places` on lie behind the end of the dimension and, as places of the next row, in front of it."""
        index, size = self.view.index[d], self.view.shape[d]
        return isinstance(size, int) and size <= places + index.const and need + index.const <= places

    def stands(self, index: Aff, here: Sequence[str]) -> bool:
        """Whether every tile reads the same places."""
        return index.names() == set(here) and all(self.true[a] == self.extent[a] for a in here)


def _fixed(size: Dim, refuse: Refuse) -> int:
    if not isinstance(size, int):
        raise refuse(f"an extent of {size} is not known")
    return size
