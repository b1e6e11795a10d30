"""How a contraction lies on register tiles: the roles of its axes, the tile's size, which factors are packed before the first run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, prod

from autocomp.targets.cpu.arithmetic import FLOATS, INTEGERS, QUAD, Arithmetic, bytes_of
from autocomp.targets.cpu.flat import View, times
from autocomp.targets.cpu.lower import Nest, gathers, reads
from autocomp.targets.cpu.tree import Contraction
from autocomp.targets.cpu.vectors import vector_value, vectorizes
from autocomp.targets.cpu.words import Words, words_of

from autocomp.cost.cores import (
    FEW,
    LATENCY,
    LOADS,
    MAX_ROWS,
    PART,
    THIN,
    VECTORS,
    copies_rows,
    ends_with_vectors,
    lone_column,
    read_where_it_lies,
    store_apart,
    tile_registers,
)
from autocomp.ir.body import Expr, Gather, Index, Inside, postorder
from autocomp.tile.program import walk

LINE = 16  # floats of a cache line
FETCH = 0.3  # cycles of one vector from the second cache that other work does not hide; fitted to 80 tiles of a 1024 x 1024 x 1024 product
COLD = 1.3  # cycles for one element from memory: 4 bytes at about 8 GB/s of one core among busy ones
NEAR = 1 << 20  # bytes of a factor that stays in the second cache between panels
WAYS = 8  # lines of one set of the first cache on current cores (8 or 12)
GATHERED = 16  # products of one lane that take as long as gathering an element for it rather than reading a vector
BESIDE = 3.6  # products of pairs that a step takes time for beside its own: tiles of 4 x 2 129 GOP/s, 3 x 3 141, 6 x 2 160 (Zen 3)
LONG = 8 * PART  # elements of depth from which sums are folded part by part: the error grows with the parts and with one part's terms
NEAR_ROWS = 1 << 19  # bytes of a tile's rows that stay in the second cache beside two panels


@dataclass(frozen=True)
class Shape:
    """Axes by role. a: the broadcast factor, b: the packed one; `row`, `col`: the axes of the register tile; `outer`: loops
    that b varies with, `inner`: loops around the rows only; `depth`: reduced axes, the fastest in `a` last."""

    a: str
    b: str
    row: str
    col: str
    outer: tuple[str, ...]
    inner: tuple[str, ...]
    depth: tuple[str, ...]


def shape_of(nest: Nest, c: Contraction) -> Shape | None:
    """How the contraction maps to register tiles, None where it does not (no private column axis, a guarded `a`)."""
    m = c.mmas[0]
    acc = nest.slots[m.dst].axes
    out = next((nest.views[s.dst] for s in c.epilogue if s.op == "store"), None)
    made = nest.slots[c.epilogue[-1].dst].axes if c.epilogue and out is None else acc
    found: list[tuple[tuple[int, int, int], Shape]] = []
    for a, b in ((m.srcs[0], m.srcs[1]), (m.srcs[1], m.srcs[0])):
        in_a, in_b = nest.axes_of(a), nest.axes_of(b)
        if a in nest.views and nest.views[a].guard:
            continue
        cols = [x for x in acc if x in in_b and x not in in_a and size(nest, x) != 1]
        rows = [x for x in acc if x in in_a and x not in in_b]
        if not cols:
            continue
        contiguous = lambda x: int((out.flat.stride(x) == 1 if out is not None else made[-1] == x) and number(nest, x) >= FEW)
        col = max(cols, key=lambda x: (contiguous(x), number(nest, x), x))
        row = max(rows, key=lambda x: (number(nest, x), x), default="")
        depth = sorted((x for x in dict.fromkeys((*in_a, *in_b)) if x not in acc), key=lambda x: stride_of(nest, a, x) == 1)
        outer = tuple(x for x in acc if x != col and (x in in_b or x not in in_a))
        inner = tuple(x for x in acc if x in in_a and x not in in_b and x != row)
        shape = Shape(a, b, row, col, outer, inner, tuple(depth))
        if len(depth) > 1 and arithmetic(nest, c, shape).group > 1 and a in packed_once(nest, c, shape, ""):
            fills = lambda x: number(nest, x) / (-(-number(nest, x) // QUAD) * QUAD)  # of a group of steps
            shape = replace(shape, depth=tuple(sorted(depth, key=lambda x: (fills(x), number(nest, x)))))
        key = (contiguous(col), min(number(nest, col), 64), number(nest, row) if row else 0)
        if plain(nest, a, (*depth, *([row] if row else []))):
            found.append((key, shape))
    most = max((arithmetic(nest, c, f[1]).group for f in found), default=1)
    found = sorted((f for f in found if arithmetic(nest, c, f[1]).group == most), key=lambda f: f[0], reverse=True)
    if len(found) == 2 and found[0][0][0] and _better_apart(nest, c, found[0][1], found[1][1]):
        return found[1][1]
    return found[0][1] if found else None


def _better_apart(nest: Nest, c: Contraction, near: Shape, far: Shape) -> bool:
    """Do lanes along columns that are stored apart pay, since those that lie side by side fill too few? The packed factor is then a
    constant, so that nothing is packed."""
    b, depth = nest.views.get(far.b), [nest.extent[x] for x in far.depth]
    if b is None or far.b not in packed_once(nest, c, far, "") or not all(isinstance(k, int) for k in depth):
        return False
    used = {x for e in c.epilogue for x in (e.dst, *e.srcs, *reads(e)) if x in nest.views}
    steps = [nest.views[x].flat.stride(far.col) for x in used]
    wide = wide_axis(nest, c, near)
    columns = number(nest, near.col) * (number(nest, wide) if wide else 1)
    times_apart = sum(x not in (0, 1) for x in steps)
    return all(isinstance(x, int) for x in steps) and store_apart(columns, number(nest, far.col), prod(depth), nest.lanes, times_apart)  # type: ignore[arg-type]


def number(nest: Nest, axis: str) -> int:
    e = size(nest, axis)
    return e if isinstance(e, int) else 256


def size(nest: Nest, axis: str) -> object:
    """Elements of an axis inside one tile."""
    return nest.tile.get(axis, nest.extent[axis])


def stride_of(nest: Nest, name: str, axis: str) -> object:
    if name in nest.views:
        return nest.views[name].flat.stride(axis)
    axes = nest.slots[name].axes
    return 1 if axes and axes[-1] == axis else 0 if axis not in axes else 2


def plain(nest: Nest, name: str, axes: tuple[str, ...]) -> bool:
    """Strides along these axes are the same everywhere (no floor or mod), numbers or products of sizes."""
    return name not in nest.views or all(nest.views[name].flat.stride(x) is not None for x in axes)


def most_rows(nest: Nest, s: Shape) -> int:
    """Rows that stay apart in the first cache: rows a multiple of 4096 bytes apart fall into one set of it."""
    step = nest.views[s.a].flat.stride(s.row) if s.a in nest.views and s.row else 0
    return WAYS if isinstance(step, int) and step and step * 4 % 4096 == 0 else MAX_ROWS


def depth_part(nest: Nest, c: Contraction, s: Shape) -> int:
    """Elements of depth after which a tile's sums are put aside until all its panels have come that far; 0 where the whole depth runs
    in one go. For tiles of rows too long to stay near from panel to panel, where the other factor lies packed."""
    m = c.mmas[0]
    b = next((x for x in m.srcs if s.col in nest.axes_of(x)), "")
    if not is_float(nest, c):
        return 0
    if len(c.mmas) > 1 or m.dst not in c.starts or b not in packed_once(nest, c, s, wide_axis(nest, c, s)) or len(s.depth) != 1:
        return 0
    rows, cols, k = size(nest, s.row) if s.row else 1, size(nest, s.col), nest.extent[s.depth[0]]
    if not isinstance(rows, int) or not isinstance(cols, int) or not isinstance(k, int) or s.a not in nest.views:
        return 0
    if rows <= MAX_ROWS or k < 2 * PART or 4 * rows * k <= NEAR_ROWS or any(nest.tile.get(x) != 1 for x in (*s.outer, *s.inner)):
        return 0
    parts = -(-k // PART)
    return PART if k >= LONG else -(-k // (parts * LINE)) * LINE


def tile_sums(nest: Nest, s: Shape, width: int) -> int:
    """Elements of the sums of one tile, in panels of `width` columns."""
    rows, cols = size(nest, s.row), size(nest, s.col)
    return int(rows) * -(-int(cols) // width) * width  # type: ignore[call-overload]


def whole_lines(width: int, line: int) -> int:
    """Columns of a panel of `width` lanes that holds lines of `line` columns which are not cut; `width` where there are none (0)."""
    return width // line * line if line else width


def register_tile(rows: int, cols: int, lanes: int, registers: int, accs: int, limit: int = MAX_ROWS,
                  cold: bool = False, line: int = 0, lone: bool = False, beside: float = 0.0) -> tuple[int, int]:  # fmt: skip
    """(rows, vectors): the tile with the shortest time a multiply-add: lanes that columns leave empty, sums too few to hide the
    latency of one, and vectors of the panel fetched from the second cache. Rows are shared evenly, so tiles may be less tall.
    `cold`: the broadcast factor comes from memory again for every panel. `line`: columns that no panel cuts (see `whole_lines`).
    `lone`: a column that is alone in its vector takes one operation for all rows of a tile (see `lone_column`). `beside`: multiply-adds
    that a step of depth takes time for beside its own.
    """
    best, choice = float("inf"), (1, 1)
    for nv in range(1, VECTORS + 1):
        panels = -(-cols // whole_lines(nv * lanes, line))
        last = cols - (panels - 1) * whole_lines(nv * lanes, line)
        vectors = (panels - 1) * nv + -(-last // lanes)  # the last panel runs with the vectors that it needs
        if vectors < nv:
            break
        thin = THIN / 2 * nv / vectors if vectors % nv else 0.0
        alone = lone and lone_column(cols, nv * lanes, lanes)
        for mr in range(1, limit + 1):
            if tile_registers(mr, nv, alone and panels == 1 and mr <= lanes, accs) > registers:
                continue
            tall = rows / -(-rows // mr)
            full = cols / ((vectors - (1 - 1 / tall if alone and mr <= lanes else 0)) * lanes)
            issue = max(1.0 + beside / (tall * nv), LOADS * (tall + nv) / (tall * nv), LATENCY / (tall * nv)) / 2  # two units
            issue = max(issue, COLD * panels / vectors) if cold else issue
            time = (issue + FETCH / tall) / full + thin
            if time < best - 1e-9:
                best, choice = time, (mr, nv)
    return choice


def packs_in_vectors(v: View, col: str) -> bool:
    """Can a row of a panel be read from this view in masked vectors along `col`?"""
    plain = all(isinstance(x, str) or col not in x.num.names() for g in v.guard for x, _ in g.terms)
    return v.dtype.name == "f32" and v.flat.stride(col) is not None and plain and (v.fill == 0 or not v.guard)


def wide_axis(nest: Nest, c: Contraction, s: Shape) -> str:
    """The axis whose elements join those of the columns in one panel (rows of an image under its lines), or "".

    Results must walk both axes as one; only the packed factor, which is read element by element anyway, need not. Bytes that are packed
    line by line have panels of whole lines of at most a vector (`whole_lines`); words of them are copied from where they lie (`words`).
    """
    if len(c.mmas) != 1 or not s.outer or s.col in nest.tile or not {m.dst for m in c.mmas} <= c.starts:
        return ""
    wide, col, extent, m = s.outer[-1], s.col, nest.extent[s.col], c.mmas[0]
    b = nest.views.get(s.b)
    if b is None or not isinstance(extent, int) or not isinstance(nest.extent[wide], int) or nest.tile.get(wide) == 1:
        return ""
    if wide not in b.axes or wide in nest.axes_of(s.a):
        return ""
    if is_float(nest, c):
        if not packs_in_vectors(b, col) or not packs_in_vectors(b, wide):
            return ""
    elif staged(nest, c, s) is None and (b.constant or extent > nest.lanes or not vector_value(nest, s.b, col)):
        return ""
    if not any(e.op == "store" for e in c.epilogue) or not isinstance(b.flat.stride(wide), int):
        return ""
    lost = -(-extent // nest.lanes) * nest.lanes / extent - 1
    rows = prod(number(nest, x) for x in (s.row, *s.inner) if x)
    gathered = is_float(nest, c) and b.flat.stride(wide) != times(b.flat.stride(col), extent)  # type: ignore[arg-type]
    if gathered and rows * lost < GATHERED:
        return ""
    made = {m.dst, *(e.dst for e in c.epilogue)}
    for e in c.epilogue:
        if any(isinstance(x, (Index, Inside, Gather)) for x in (postorder(e.expr) if isinstance(e.expr, Expr) else ())):
            return ""
        for v in (nest.views.get(n) for n in {e.dst, *e.srcs, *reads(e)} - (made - nest.views.keys())):
            if v is None or {wide, col} & v.guard_names():
                return ""
            if v.flat.stride(wide) != times(v.flat.stride(col), extent) or not isinstance(v.flat.stride(col), int):  # type: ignore[arg-type]
                return ""
    return wide


@dataclass(frozen=True)
class Tiling:
    """The register tile of a contraction: `rows` x `vectors`; `wide`: the axis that joins the columns in a panel, or "".
    `ready`: factors that lie packed in memory before the first run (see `packed_once`); `direct`: factors that are read where they
    lie (see `read_in_place`); `part`: see `depth_part`; `tall`: the axis that joins the rows, or ""."""

    rows: int
    vectors: int
    wide: str
    ready: frozenset[str]
    part: int = 0
    tall: str = ""
    direct: frozenset[str] = frozenset()


def tall_axis(nest: Nest, c: Contraction, s: Shape) -> str:
    """The axis whose elements join those of the rows (lines of an image above its rows), or "": in the first factor and in the sums,
    which lie in an array, both are walked as one."""
    m = c.mmas[0]
    v = nest.views.get(s.a)
    if not s.row or s.row in nest.tile or len(c.mmas) != 1 or c.epilogue or m.dst not in c.starts or (v is not None and v.constant):
        return ""

    def joined(name: str, outer: str) -> bool:
        if name in nest.views:
            step, line = stride_of(nest, name, s.row), stride_of(nest, name, outer)
            return isinstance(step, int) and line == times(step, nest.extent[s.row])
        axes = nest.slots[name].axes
        return s.row in axes and outer in axes and axes.index(s.row) == axes.index(outer) + 1

    lines = (x for x in s.inner if nest.tile.get(x) != 1 and isinstance(nest.extent[x], int) and isinstance(nest.extent[s.row], int))
    return next((x for x in lines if joined(s.a, x) and joined(m.dst, x)), "")


def tiling_of(nest: Nest, c: Contraction, s: Shape, lanes: int, registers: int) -> Tiling:
    """The register tile that fills most lanes; see `register_tile`."""
    wide = wide_axis(nest, c, s)
    tall = tall_axis(nest, c, s)
    rows = (number(nest, s.row) if s.row else 1) * (number(nest, tall) if tall else 1)
    cols = number(nest, s.col) * (number(nest, wide) if wide else 1)
    ready = packed_once(nest, c, s, wide)
    kind = arithmetic(nest, c, s)
    limit = min(nest.rows, MAX_ROWS if s.a in ready or kind.copied else most_rows(nest, s))
    a = nest.views.get(s.a)
    cold = a is not None and a.constant and prod(number(nest, x) for x in (s.row, *s.depth) if x) * 4 * kind.rows // kind.group > NEAR
    if kind.turned:
        registers -= VECTORS  # the panel's sums
    elif kind.pairs:
        registers -= 1  # a product is not a sum yet
    line = int(nest.extent[s.col]) if wide and not is_float(nest, c) and staged(nest, c, s) is None else 0  # type: ignore[call-overload]
    lone = kind.group > 1 and s.a in ready and not line and s.col not in nest.tile and "lone_column" in nest.schemes
    best = register_tile(rows, cols, lanes, registers, len(c.mmas), limit, cold, line, lone, BESIDE if kind.pairs else 0.0)
    direct = frozenset() if wide else read_in_place(nest, c, s, best[0], rows) - ready
    return Tiling(*best, wide, ready, 0 if tall else depth_part(nest, c, s), tall, direct)


def read_in_place(nest: Nest, c: Contraction, s: Shape, height: int, rows: int) -> frozenset[str]:
    """Factors whose rows already lie as those of a panel do, whole vectors side by side, and need no copy: where their steps of depth
    are near each other for so many register tiles of a `height` as read them; of values that the kernel made, sums read once, by so
    many `rows` (directive `read_in_place`)."""
    out, once = set(), rows <= height
    every = nest.extent[s.row] if s.row and rows == size(nest, s.row) else rows
    walks = -(-every // height) if isinstance(every, int) else rows
    for m in c.mmas if "read_in_place" in nest.schemes else ():
        x = next(x for x in m.srcs if s.col in nest.axes_of(x))
        v, sizes = nest.views.get(x), (nest.extent[s.col], size(nest, s.col))
        if v is None and once and len(s.depth) == 1 and _is_product(nest, x) and nest.slots[x].axes[-1] == s.col:
            if is_float(nest, c) and s.depth[0] not in nest.tile and all(isinstance(n, int) and n % nest.lanes == 0 for n in sizes):
                out.add(x)
            continue
        if v is None or v.guard or v.dtype.name != "f32" or len(s.depth) != 1 or v.flat.stride(s.col) != 1:
            continue
        step = v.flat.stride(s.depth[0])
        columns, own = sizes
        if not (isinstance(columns, int) and isinstance(own, int) and isinstance(step, int)):
            continue
        if not ends_with_vectors(columns, own, nest.lanes):
            continue
        deep = nest.extent[s.depth[0]]
        if once or read_where_it_lies(step * 4, step * 4 * deep if isinstance(deep, int) else inf, walks, columns % nest.lanes == 0):
            out.add(x)
    return frozenset(out)


def _is_product(nest: Nest, name: str) -> bool:
    """Is a value the sums of another contraction, which lie as their axes say?"""
    return {st.op for st, _ in walk(nest.body) if st.dst == name} <= {"mma", "fill"}


def whole(nest: Nest, c: Contraction, axis: str) -> bool:
    """Is the reduced axis run over its full extent inside the contraction? (not tiled, or its tile loop was pulled inside)"""
    return axis not in nest.tile or (c.loop is not None and axis in c.loop.axes)


def packed_once(nest: Nest, c: Contraction, s: Shape, wide: str) -> frozenset[str]:
    """Factors whose data never change and that only this contraction reads: they are packed when the program is loaded (directive
    `pack_constants`).

    Their sizes must be numbers, and the whole depth must run in one go, so that a panel is one stream.
    """
    if "pack_constants" not in nest.schemes or not all(whole(nest, c, d) for d in s.depth):
        return frozenset()
    out = set()
    kinds = ("f32",) if is_float(nest, c) else ("i8", "u8", "i16", "u16", "i32")
    for m in c.mmas:
        for x in m.srcs:
            v = nest.views.get(x)
            if v is None or not v.constant or v.dtype.name not in kinds or _reads_of(nest, v.pointer) != 1:
                continue
            if not all(isinstance(nest.extent[d], int) for d in (*v.axes, *s.depth)):
                continue
            is_a = s.col not in v.axes
            if (is_a and not v.guard and len(c.mmas) == 1 and s.row and nest.tile.get(s.row) != 1) or (not is_a and not wide):
                out.add(x)
    return frozenset(out)


def _reads_of(nest: Nest, pointer: str) -> int:
    """How many statement operands read the memory behind a pointer."""
    mine = {n for n, v in nest.views.items() if v.pointer == pointer}
    tensors = {nest.views[n].tensor for n in mine}
    buffers = {t.buffer for t in nest.inputs if t.name in tensors}
    return sum(
        sum(x in mine for x in ({*reads(st)} if isinstance(st.expr, Expr) else st.srcs)) + sum(g.tensor in buffers for g in gathers(st))
        for st, _ in walk(nest.body)
    )


def is_float(nest: Nest, c: Contraction) -> bool:
    """Are its sums floats, not integers?"""
    return nest.dtype_of(c.mmas[0].dst).is_float  # type: ignore[attr-defined, no-any-return]


def arithmetic(nest: Nest, c: Contraction, s: Shape) -> Arithmetic:
    """What the contraction computes in. Bytes go four at a time where four steps of depth of the broadcast factor are one read, or lie
    packed; else each integer is widened."""
    if is_float(nest, c):
        return FLOATS
    kinds = {x: nest.dtype_of(x) for x in c.mmas[0].srcs}
    if len(c.mmas) > 1 or not s.depth or any(d.name not in ("i8", "u8") for d in kinds.values()):  # type: ignore[attr-defined]
        return INTEGERS
    last = s.depth[-1]
    stands = nest.tile.get(last) == 1 and not whole(nest, c, last)
    read = s.a in nest.views and stride_of(nest, s.a, last) == 1
    ready = s.a in packed_once(nest, c, s, "")
    if stands or s.a == s.b or not (read or ready):
        return INTEGERS
    copied = not ready and _copies_rows(nest, c, s)
    return bytes_of(kinds[s.a], kinds[s.b], (ready or copied) and "short_pairs" in nest.schemes, copied)  # type: ignore[arg-type]


def _copies_rows(nest: Nest, c: Contraction, s: Shape) -> bool:
    """Are the rows of a tile copied as pairs of 16 bits, which the panels of a constant are then multiplied by?"""
    rows, steps = size(nest, s.row) if s.row else 1, [nest.extent[x] for x in s.depth]
    if "short_pairs" not in nest.schemes or s.b not in packed_once(nest, c, s, ""):
        return False
    if any(nest.tile.get(x) != 1 for x in (*s.outer, *s.inner)):
        return False
    return len(steps) == 1 and isinstance(rows, int) and isinstance(steps[0], int) and copies_rows(rows, steps[0])


def copied_row(depth: int) -> int:
    """Words from one copied row to the next: not a multiple of 4096 bytes, which would put all rows of a tile into one set of a cache."""
    return -(-depth // QUAD) * 2 + LINE


def staged(nest: Nest, c: Contraction, s: Shape) -> Words | None:
    """The buffer of words that the contraction reads its windows from, None where it has none (see `words_of`)."""
    return words_of(nest, c, s) if arithmetic(nest, c, s).group > 1 else None


def runs_in_tiles(nest: Nest, c: Contraction) -> bool:
    """Can this contraction be printed as register tiles? (every epilogue statement must be vectors of f32 too)"""
    s = shape_of(nest, c)
    if s is None:
        return False
    if not is_float(nest, c) and (not s.row or size(nest, s.row) == 1) and s.b not in packed_once(nest, c, s, ""):
        return False  # a panel of integers is packed for several rows, or once
    for m in c.mmas:
        if s.col not in nest.slots[m.dst].axes or sum(s.col in nest.axes_of(x) for x in m.srcs) != 1:
            return False
        b = next(x for x in m.srcs if s.col in nest.axes_of(x))
        a = next(x for x in m.srcs if x != b)
        if (a in nest.views and nest.views[a].guard) or not plain(nest, a, (*s.depth, *([s.row] if s.row else []))):
            return False
    return all(vectorizes(nest, e, s.col) for e in c.epilogue)
