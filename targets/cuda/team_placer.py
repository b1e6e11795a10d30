"""Placement for warp-specialised kernels: operands in swizzled TMA boxes, accumulators in registers as wgmma leaves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from autocomp.targets.cuda.implicit_gemm import Window, slides, window
from autocomp.targets.cuda.tma import CHUNK, CHUNKS, Bulk, side_by_side, tensor_map
from autocomp.targets.simt.access import contiguous_axis
from autocomp.targets.simt.placed import Placement, Product
from autocomp.targets.simt.placement import ALIGN, Placer
from autocomp.targets.source import TensorMap

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Digit
from autocomp.tile.program import Buf, Loop, Stmt, Tensor, TileProgram, walk

TEAM = 128  # threads of a warpgroup
ROWS = 64  # of its instruction's first factor; source: PTX ISA, wgmma.mma_async
GROUP = 8  # columns that it has a multiple of; rows of shared memory that a swizzle moves together


def register_budget(workers: int, resident: int) -> tuple[int, int]:
    """Registers of a thread of the producing and of a consuming warpgroup, where `resident` blocks share a core's 65536.

    A block starts with a multiple of 8 for each thread; warpgroups then trade these among themselves (PTX ISA, setmaxnreg: multiples
    of 8 from 24 to 256), so that together they never ask for more than the block has.
    """
    mine = min(248, 65536 // (TEAM * (workers + 1) * resident) // 8 * 8) * (workers + 1)
    producer = 24 if resident > 1 + (workers == 1) else 40 if workers < 3 else 32
    return producer, min(240, (mine - producer) // workers // 8 * 8)


@dataclass(frozen=True)
class Laid:
    """A first factor that the consumers compute and leave in shared memory: boxes of `rows` rows of 128 bytes along `column`."""

    buf: Buf
    row: str
    column: str
    rows: int
    boxes: int
    offset: int
    view: None = None
    more: tuple[tuple[str, int], ...] = ()
    deep: bool = True
    across: int = 64
    chunk: int = 128
    layout: tuple[int, int, int] = (1, 1024, 128)

    @property
    def box_bytes(self) -> int:
        return self.rows * 128

    @property
    def bytes(self) -> int:
        """Of the whole factor."""
        return self.boxes * self.box_bytes


class TeamPlacer(Placer):
    """Places factors in boxes of the bulk engine and accumulators as warpgroup instructions leave them."""

    def __init__(self, p: TileProgram, table: tuple[Instruction, ...], plain: Instruction, out: Placement, workers: int,
                 resident: int = 1, asked: str = "") -> None:  # fmt: skip
        super().__init__(p, table, plain, out, asked)
        self.workers, self.resident = workers, resident
        self.bulk: dict[str, Bulk] = {}
        self.laid: dict[str, Laid] = {}
        self.maps: list[TensorMap] = []
        self.reach = 0  # the end of what instructions read, also for rows that lie in no output
        self.first, self.sliding = "", False  # first factor of the product being placed, and whether its elements share memory
        self.parts = max((int(x.opt("parts", "1")) for s, loops in walk(p.body) for x in loops), default=1)  # blocks of a tile
        first = p.body[0] if p.body else None
        if isinstance(first, Loop) and first.opt("persistent") == "yes":  # tiles take turns; what all of them read stays
            stays = frozenset(n for n in out.once if not any(a in first.axes for a in self.bufs[n].axes))
            late = any(isinstance(n, Loop) and n.opt("overlap") for n in first.body)
            out.once, out.early = stays, out.once - stays if late else frozenset()

    def product(self, s: Stmt, chained: bool) -> None:
        """Where the first factor has fewer rows than the instruction, the second factor's columns are the rows; also where these are so
        few that an instruction with them as columns would read shared memory for longer than it computes."""
        a, b = (self.bufs[n] for n in s.srcs)
        few, many = (prod(n for _, n in self.group(x for x in self.bufs[s.dst].axes if x in y.axes and x not in z.axes))
                     for y, z in ((a, b), (b, a)))  # fmt: skip
        narrow = many == ROWS * self.workers == ROWS < few and few % ROWS == 0 and self.may_turn(self.bufs[s.dst], a, b)
        turned = (narrow or (few < ROWS and self.may_pad(a, self.bufs[s.dst], few) and many % ROWS == 0)) and a.scope == b.scope == "block"
        other = replace(s, srcs=s.srcs[::-1]) if turned else s
        self.first = other.srcs[0]
        view = self.view_of(self.first)
        self.sliding = view is not None and slides(view, [x for x in view.axes if self.size(x) > 1])
        super().product(other, chained)
        self.whole_boxes(self.out.products[other])
        if turned:
            self.out.products[s] = replace(self.out.products.pop(other), stmt=s)

    def whole_boxes(self, pr: Product) -> None:
        """Raises UnsupportedOp where an instruction's columns, or a warpgroup's, would begin inside a box that lies along them."""
        x = self.bulk.get(pr.b)
        if x is None or type(x) is not Bulk or contiguous_axis(x.view) in [a for a, _ in pr.k]:
            return
        n, several = pr.instruction.n, pr.repeat[1] > 1
        if (several and n % x.across) or (pr.waves[1] > 1 and n * pr.repeat[1] % x.across):
            raise self.refuse(f"{x.buf.name}: {n} columns of an instruction are no multiple of a box of {x.across}")

    def too_wide(self, s: Stmt) -> bool:
        """Whether warpgroups have to share the columns of their rows: a tile of fewer rows than they have together asks for it."""
        a, b, c = (self.bufs[n] for n in (*s.srcs, s.dst))
        return prod(self.size(x) for x in c.axes if x in a.axes and x not in b.axes) < ROWS * self.workers

    def may_turn(self, acc: Buf, a: Buf, b: Buf) -> bool:
        """Whether what becomes of an accumulator is stored in boxes along the second factor's axes and meets no more than vectors along
        them, and the first factor's rows follow each other over a whole instruction of columns."""
        across = {x for x in acc.axes if x in b.axes}
        met = [s.dst for s in self.stmts if s.op == "copy" and self.bufs[s.dst].scope == "fragment"]
        out = [t for t in self.p.outputs if t.dtype.bytes == 2 and contiguous_axis(t) in across and not t.guard]
        if len(out) < len(self.p.outputs) or not all(set(self.bufs[x].axes) <= across for x in met):
            return False
        outer = self.group(x for x in acc.axes if x in a.axes and x not in b.axes)
        k = self.by_contiguity(tuple((x, self.size(x)) for x in a.axes if x in b.axes and x not in acc.axes and self.size(x) > 1), a, b)
        view = self.view_of(a.name)
        if view is None or not slides(view, [x for x, _ in (*outer, *k)]):
            return view is not None
        try:
            self.window(a, view, outer, k, min(256, prod(n for _, n in outer)))
        except UnsupportedOp:
            return False
        return True

    def may_pad(self, few: Buf, acc: Buf, n: int) -> bool:
        """Whether a factor's n rows are whole columns of an instruction, or its boxes bring zeros for those that are missing: rows along
        the depth, of one axis, none of which shares memory with the next."""
        if not n % GROUP:
            return True
        view, wide = self.view_of(few.name), [x for x in few.axes if self.size(x) > 1]
        deep = view is not None and contiguous_axis(view) not in acc.axes
        return deep and sum(x in acc.axes for x in wide) == 1 and not slides(view, wide)  # type: ignore[arg-type]

    def instruction(self, a: Buf, b: Buf, c: Buf, n: int) -> Instruction:
        """The row of these types, as wide as the tile's columns allow."""
        types = (a.dtype.name, b.dtype.name, c.dtype.name)
        row = next((i for i in self.instructions if i.types == types and i.asked == self.asked), None)
        if row is None:
            asked = f" '{self.asked}'" if self.asked else ""
            raise self.refuse(f"no warpgroup instruction{asked} multiplies {a.dtype} by {b.dtype} into {c.dtype}")
        step = GROUP * self.parts if n % GROUP else GROUP  # columns of zeros are as many as blocks that share the sums can share out
        wide = max((x for x in row.widths() if -(-n // step) * step % x == 0), default=GROUP)
        reg = (*row.c[0][:-1], Digit("n", GROUP, wide // GROUP))
        return replace(row, name=row.name.replace("nN", f"n{wide}"), n=wide, c=(reg, row.c[1]))

    def packed(self) -> int:
        """Registers of factors that are packed beside the values that they come from."""
        names = {p.a for p in self.out.products.values() if p.a not in self.bulk and p.a not in self.laid}
        return sum(self.out.layouts[n].registers // 2 for n in names)

    def waves(self, m: int, n: int, i: Instruction, chained: bool) -> tuple[int, int]:
        if chained and self.wide and m % i.m == 0 and self.workers % (m // i.m) == 0:
            return m // i.m, self.workers // (m // i.m)
        if m % (i.m * self.workers) and not self.sliding:  # rows that lie in no output are read from behind a patch
            raise self.refuse(f"{m} rows are not shared evenly by {self.workers} warpgroups of {i.m}")
        return self.workers, 1

    def operand(self, buf: Buf, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...], i: Instruction) -> None:
        view = self.view_of(buf.name) if buf.scope == "block" else None
        if buf.name in self.bulk:
            self.again(self.bulk[buf.name], outer, k, i)
            return
        if view is None:
            self.lay(buf, outer, k, i)
            return
        inner = contiguous_axis(view)
        deep = inner in [x for x, _ in k]
        if deep and slides(view, [x for x, n in (*outer, *k) if n > 1]):
            self.patch(buf, view, outer, k, i)
            return
        own, other = (k[:1], outer) if deep else (outer, k)
        more = k[1:] if deep else ()
        size = prod(x for _, x in own)
        true, extent = {x: self.size(x) for x in view.axes}, {x: self.p.extent(x) for x in view.axes}
        # the last box of a whole axis may reach further than instructions read, unless other steps in depth have boxes behind it
        part = len(own) == 1 and own[0][1] == extent[own[0][0]] and not more
        least = CHUNK if not deep else CHUNKS[1] if part else CHUNKS[-1]
        chunk = next((c for c in CHUNKS if c >= least and own and own[0][1] * buf.dtype.bytes % c == 0), CHUNK)
        across = chunk // buf.dtype.bytes
        if i.deep and not deep:
            raise self.refuse(f"{buf.name} lies along {inner or 'no axis'}, {i.name} reads {buf.dtype} along the reduced axis only",
                              "store it so, or take a schedule without roles")  # fmt: skip
        run = bool(own) and own[0][0] == inner and (part or own[0][1] % across == 0) and all(n == true[x] for x, n in own[1:])
        if not run or not side_by_side(view.index[-1], [x for x, _ in own], dict(own), extent):
            raise self.refuse(f"{buf.name}: a tile of {size} elements along {inner or 'no axis'} has no boxes of {across}")
        for x, n in more:
            if not isinstance(all_ := self.p.extent(x), int) or all_ % n:
                raise self.refuse(f"{buf.name}: {all_} steps of {x} in parts of {n}")
        tile = true | dict(outer) | {x: 1 for x, _ in more}
        if buf.name != self.first and deep and len(other) == 1:  # columns of zeros beyond the factor's last
            other = ((other[0][0], -(-other[0][1] // i.n) * i.n),)
            tile |= dict(other)
        if (len(k) > 1 and not deep) or prod(x for _, x in other) % GROUP:
            raise self.refuse(f"{buf.name}: {other} rows do not fill the instruction")
        steps = prod(x for _, x in k)
        ends = part and deep and not self.sliding and view.index[-1] == Aff.of(inner) and view.shape[-1] == extent[inner]
        if steps % i.k and not ends:  # zeros are read where the dimension ends with the axis; a patch has something else there
            raise self.refuse(f"depth {steps} is no multiple of {i.k}")
        exact = frozenset(x for x, _ in k) | self.reduced_with(buf.name)
        made, start, rows = tensor_map(view, tile, extent, inner, exact, f"kernel {self.p.name}", chunk)
        if rows != prod(x for _, x in other):
            raise self.refuse(f"{buf.name}: a box has {rows} rows, the tile {other}")
        self.put(Bulk(buf, view, deep, rows, -(-size // across) * prod(x for _, x in more), 0, made, start, more, chunk))

    def reduced_with(self, name: str) -> frozenset[str]:
        """Axes along which products sum what a buffer holds."""
        mine = [s for s in self.stmts if s.op == "mma" and name in s.srcs]
        return frozenset(x for s in mine for x in self.bufs[name].axes if self.size(x) > 1 and x not in self.bufs[s.dst].axes)

    def again(self, x: Bulk, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...], i: Instruction) -> None:
        """Another product reads a factor that has its place, perhaps along its other axis. Raises UnsupportedOp where it cannot."""
        if contiguous_axis(x.view) in [a for a, _ in k]:
            return
        if i.deep or x.more or len(k) != 1 or k[0][1] % i.k or prod(n for _, n in outer) % x.across:
            raise self.refuse(f"{x.buf.name} lies along {contiguous_axis(x.view)}, {i.name} cannot read it in steps of {k}")

    def lay(self, buf: Buf, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...], i: Instruction) -> None:
        """A first factor that warpgroups compute together: rows of 128 bytes in shared memory."""
        size, across = prod(n for _, n in k), 128 // buf.dtype.bytes
        rows = prod(n for _, n in outer)
        if not self.wide or len(k) != 1 or len(outer) != 1 or buf.dtype.bytes != 2 or size % across or rows % i.m:
            raise self.refuse(f"{buf.name} is computed; only the first factor may come from registers")
        at = self.out.reserve(rows * size * buf.dtype.bytes, ALIGN)
        self.laid[buf.name] = Laid(buf, outer[0][0], k[0][0], rows, size // across, at)
        self.out.shared[buf.name] = self.laid[buf.name]  # type: ignore[assignment]

    def patch(self, buf: Buf, view: Tensor, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...], i: Instruction) -> None:
        """A factor whose taps overlap: one patch a slot."""
        if buf.name == self.first:
            size = prod(n for _, n in outer)
            whole = -(-size // (i.m * self.workers)) * i.m * self.workers
            outer = (*outer[:-1], (outer[-1][0], whole // prod(n for _, n in outer[:-1])))
        self.put(self.window(buf, view, outer, k, i.m if buf.name == self.first else i.n))

    def window(self, buf: Buf, view: Tensor, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...], wide: int) -> Window:
        true, extent = {x: self.size(x) for x in view.axes}, {x: self.p.extent(x) for x in view.axes}
        return window(buf, view, outer, k, true, extent, wide, f"kernel {self.p.name}")

    def put(self, x: Bulk) -> None:
        """A place in shared memory for the slots of a factor."""
        self.maps.append(x.map)
        name, slots = x.buf.name, self.out.depth(x.buf.name)
        self.bulk[name] = x = replace(x, offset=self.out.reserve(x.bytes * slots, ALIGN))
        self.reach = max(self.reach, x.offset + x.bytes * (slots - 1) + x.reach)
        self.out.shared[name] = self.bulk[name]  # type: ignore[assignment]
