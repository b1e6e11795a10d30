"""Contractions in register tiles: rows x vectors of accumulators, the depth inside, the epilogue on the registers.

    for panels of columns: copy b into a panel [depth][columns]          one long stream of aligned vectors
      for tiles of rows:   acc[r][c] += broadcast(a[r][k]) * panel[k][c]  for every k;  then the maps and the store

The second factor is the one whose own axis is contiguous in the result. A factor read through guards (the halo of a
convolution) becomes zeros in the panel, so no test stands in the inner loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.cpu.expressions import CTYPE, Vector, working
from autocomp.targets.cpu.flat import View, index_text, times
from autocomp.targets.cpu.lower import Nest, reads
from autocomp.targets.cpu.tree import Contraction

from autocomp.ir.body import Expr, Gather, Index, Inside, postorder
from autocomp.ir.types import DType
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.cpu.printer import Printer

MAX_ROWS = 14
WAYS = 8  # lines of one set of the first cache on current cores (8 or 12)


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
    best: tuple[tuple[int, int, int], Shape] | None = None
    for a, b in ((m.srcs[0], m.srcs[1]), (m.srcs[1], m.srcs[0])):
        in_a, in_b = nest.axes_of(a), nest.axes_of(b)
        if a in nest.views and nest.views[a].guard:
            continue
        cols = [x for x in acc if x in in_b and x not in in_a and size(nest, x) != 1]
        rows = [x for x in acc if x in in_a and x not in in_b]
        if not cols:
            continue
        contiguous = lambda x: int(out.flat.stride(x) == 1 if out is not None else acc[-1] == x)
        col = max(cols, key=lambda x: (contiguous(x), _number(nest, x), x))
        row = max(rows, key=lambda x: (_number(nest, x), x), default="")
        depth = sorted((x for x in dict.fromkeys((*in_a, *in_b)) if x not in acc), key=lambda x: _stride(nest, a, x) == 1)
        outer = tuple(x for x in acc if x != col and (x in in_b or x not in in_a))
        inner = tuple(x for x in acc if x in in_a and x not in in_b and x != row)
        shape = Shape(a, b, row, col, outer, inner, tuple(depth))
        key = (contiguous(col), min(_number(nest, col), 64), _number(nest, row) if row else 0)
        if _plain(nest, a, (*depth, *([row] if row else []))) and (best is None or key > best[0]):
            best = key, shape
    return best[1] if best else None


def _number(nest: Nest, axis: str) -> int:
    e = size(nest, axis)
    return e if isinstance(e, int) else 256


def size(nest: Nest, axis: str) -> object:
    """Elements of an axis inside one tile."""
    return nest.tile.get(axis, nest.extent[axis])


def _stride(nest: Nest, name: str, axis: str) -> object:
    if name in nest.views:
        return nest.views[name].flat.stride(axis)
    axes = nest.slots[name].axes
    return 1 if axes and axes[-1] == axis else 0 if axis not in axes else 2


def _plain(nest: Nest, name: str, axes: tuple[str, ...]) -> bool:
    """Strides along these axes are numbers (no floor or mod)."""
    return name not in nest.views or all(isinstance(nest.views[name].flat.stride(x), int) for x in axes)


def most_rows(nest: Nest, s: Shape) -> int:
    """Rows that stay apart in the first cache: rows a multiple of 4096 bytes apart fall into one set of it."""
    step = nest.views[s.a].flat.stride(s.row) if s.a in nest.views and s.row else 0
    return WAYS if isinstance(step, int) and step and step * 4 % 4096 == 0 else MAX_ROWS


def register_tile(rows: int, cols: int, lanes: int, registers: int, accs: int, limit: int = MAX_ROWS) -> tuple[int, int]:
    """(rows, vectors): the tile that keeps most lanes busy and loads least per multiply-add."""
    best, choice = -1.0, (1, 1)
    for nv in (1, 2, 3, 4):
        for mr in range(1, limit + 1):
            if accs * mr * nv + nv + 1 > registers:
                continue
            fill = rows / (-(-rows // mr) * mr) * cols / (-(-cols // (nv * lanes)) * nv * lanes)
            loads = mr * nv / (mr + nv)
            score = fill * min(1.0, loads / 1.6) * (1.0 if mr * nv >= 10 else mr * nv / 10)
            if score > best + 1e-9:
                best, choice = score, (mr, nv)
    return choice


def _packs_in_vectors(v: View, col: str) -> bool:
    """Can a row of a panel be read from this view in masked vectors along `col`?"""
    plain = all(isinstance(x, str) or col not in x.num.names() for g in v.guard for x, _ in g.terms)
    return v.dtype.name == "f32" and v.flat.stride(col) is not None and plain and (v.fill == 0 or not v.guard)


def wide_axis(nest: Nest, c: Contraction, s: Shape) -> str:
    """The axis whose elements join those of the columns in one panel (rows of an image under its lines), or "".

    Results must walk both axes as one; only the packed factor, which is read element by element anyway, need not.
    """
    if len(c.mmas) != 1 or not s.outer or s.col in nest.tile or not {m.dst for m in c.mmas} <= c.starts:
        return ""
    wide, col, extent, m = s.outer[-1], s.col, nest.extent[s.col], c.mmas[0]
    b = nest.views.get(s.b)
    if b is None or not isinstance(extent, int) or not isinstance(nest.extent[wide], int) or nest.tile.get(wide) == 1:
        return ""
    if wide not in b.axes or wide in nest.axes_of(s.a) or not _packs_in_vectors(b, col) or not _packs_in_vectors(b, wide):
        return ""
    if not any(e.op == "store" for e in c.epilogue) or not isinstance(b.flat.stride(wide), int):
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


class ContractionPrinter:
    """Prints one Contraction node through the kernel's printer."""

    def __init__(self, p: Printer, c: Contraction, s: Shape) -> None:
        self.p, self.c, self.s, self.nest, self.lanes = p, c, s, p.nest, p.lanes
        rows = _number(self.nest, s.row) if s.row else 1
        self.wide = wide_axis(self.nest, c, s)
        cols = _number(self.nest, s.col) * (_number(self.nest, self.wide) if self.wide else 1)
        self.mr, self.nv = register_tile(rows, cols, p.lanes, p.registers, len(c.mmas), most_rows(self.nest, s))
        self.nr = self.nv * p.lanes

        self.left = tuple(x for x in s.outer if x != self.wide)

    # ---- loops
    def print(self) -> None:
        p = self.p
        with p.block(""):
            for k, m in enumerate(self.c.mmas):
                p.w(f"float *const panel{k} = {self.panel(m)};")
            self.nested(self.left, self.columns)

    def panel(self, m: Stmt) -> str:
        return f"panels + {self.c.mmas.index(m)}*(size_t)({self.depth_text()})*{self.nr}"

    def depth_text(self) -> str:
        return "*".join(f"(size_t)({self.length(x)})" for x in self.s.depth) or "1"

    def length(self, axis: str) -> str:
        return str(self.nest.extent[axis] if self.whole(axis) else size(self.nest, axis))

    def whole(self, axis: str) -> bool:
        """Is the reduced axis run over its full extent here (its tile loop was pulled inside)?"""
        return axis not in self.nest.tile or (self.c.loop is not None and axis in self.c.loop.axes)

    def span(self, axis: str) -> tuple[str, str]:
        if self.whole(axis):
            return "0", str(self.nest.extent[axis])
        return self.p.bounds(axis)

    def nested(self, axes: tuple[str, ...], inner) -> None:  # type: ignore[no-untyped-def]
        if not axes:
            inner()
            return
        if self.nest.tile.get(axes[0]) == 1:
            self.nested(axes[1:], inner)
            return
        lo, hi = self.p.bounds(axes[0])
        with self.p.block(f"for (long {axes[0]} = {lo}; {axes[0]} < {hi}; {axes[0]}++)"):
            self.nested(axes[1:], inner)

    def columns(self) -> None:
        lo, hi = self.p.bounds(self.s.col)
        col = self.s.col
        if self.wide:
            lo, hi = (f"({t})*{self.nest.extent[col]}" for t in self.p.bounds(self.wide))
        with self.p.block(f"for (long {col}_p = {lo}; {col}_p < {hi}; {col}_p += {self.nr})"):
            self.p.w(f"const long {col}_n = min_long({self.nr}, {hi} - {col}_p);")
            for m in self.c.mmas:
                self.pack(m)
            self.nested(self.s.inner, self.rows)

    def rows(self) -> None:
        if not self.s.row or self.nest.tile.get(self.s.row) == 1:
            self.micro(1)
            return
        r = self.s.row
        lo, hi = self.p.bounds(r)
        self.p.w(f"long {r}_p = {lo};")
        for mr in dict.fromkeys((self.mr, max(1, self.mr // 2), 1)):
            with self.p.block(f"for (; {r}_p + {mr} <= {hi}; {r}_p += {mr})"):
                self.micro(mr)

    # ---- packing
    def pack(self, m: Stmt) -> None:
        p, col = self.p, self.s.col
        b = m.srcs[0] if m.srcs[0] != self.s.a and self.s.col in self.nest.axes_of(m.srcs[0]) else m.srcs[1]
        with p.block(""):
            p.w(f"float *restrict out = panel{self.c.mmas.index(m)};")
            if self.wide:
                extent = self.nest.extent[col]
                for j in range(self.nv):
                    p.w(f"const vi at{j} = vi_iota() + vi_set((int32_t){col}_p + {j * self.lanes});")
                    p.w(f"const vi {self.wide}_v{j} = at{j} / {extent}, {col}_v{j} = at{j} - {self.wide}_v{j} * {extent};")
            self._depth_loops(self.s.depth, lambda: self._pack_row(b, col))

    def _depth_loops(self, axes: tuple[str, ...], inner) -> None:  # type: ignore[no-untyped-def]
        if not axes:
            inner()
            return
        lo, hi = self.span(axes[0])
        with self.p.block(f"for (long {axes[0]} = {lo}; {axes[0]} < {hi}; {axes[0]}++)"):
            self._depth_loops(axes[1:], inner)

    def _pack_row(self, b: str, col: str) -> None:
        p, v = self.p, self.nest.views.get(b)
        if v is not None and self.wide:
            with p.block(""):
                self._pack_wide(v, col)
        elif v is not None and _packs_in_vectors(v, col):
            if v.flat.stride(col) == 1 and not v.guard:
                with p.block(f"if ({col}_n == {self.nr})"):
                    p.w(f"const float *from = &{v.pointer}[{v.flat.text({col: f'{col}_p'})}];")
                    for j in range(self.nv):
                        p.w(f"vf_store(out + {j * self.lanes}, vf_load(from + {j * self.lanes}));")
                with p.block("else"):
                    self._pack_masked(v, col)
            else:
                with p.block(""):
                    self._pack_masked(v, col)
        elif v is None and p.places[b].shape and p.places[b].shape[-1][0] == col:
            p.w(f"const float *from = &{b}[{p.offset(p.places[b], {col: f'{col}_p'})}];")
            for j in range(self.nv):
                n = f"clamp_long({col}_n - {j * self.lanes}, {self.lanes + 1})"
                p.w(f"vf_store(out + {j * self.lanes}, vf_load_n(from + {j * self.lanes}, {n}));")
        else:
            with p.block(f"for (long x = 0; x < {self.nr}; x++)"):
                p.w(f"const long {col} = {col}_p + x;")
                p.w(f"out[x] = x < {col}_n ? {p.read(b)} : 0.f;")
        p.w(f"out += {self.nr};")

    def _pack_masked(self, v: View, col: str) -> None:
        """One row of a panel, with zeros where the columns end and where a guard fails; no test a lane."""
        p, stride = self.p, v.flat.stride(col)
        at = lambda g: index_text(g, lambda n: f"{col}_p" if n == col else n)
        same = [g for g in v.guard if col not in g.names()]
        p.w(f"const float *from = {v.pointer} + ({v.flat.text({col: f'{col}_p'})});")
        if same:
            p.w(f"const long here = {' && '.join(f'{at(g)} >= 0' for g in same)} ? {col}_n : 0;")
        for j in range(self.nv):
            tests = [f"lane < vi_set((int32_t){'here' if same else f'{col}_n'})"]
            tests += [f"lane * {dict(g.terms)[col]} + vi_set((int32_t)({at(g)})) >= 0" for g in v.guard if g not in same]
            ok = " & ".join(f"({t})" for t in tests)
            lane = f"const vi lane = vi_iota(){f' + {j * self.lanes}' if j else ''};"
            first = f"from + {j * self.lanes}" + ("" if stride == 1 else f"*(long)({stride})") if j else "from"
            read = f"vf_load_where({ok}, {first})" if stride == 1 else f"vf_strided_where({ok}, {first}, {stride})"
            p.w(f"{{ {lane} vf_store(out + {j * self.lanes}, {read}); }}")

    def _pack_wide(self, v: View, col: str) -> None:
        """A row of a panel whose columns are the elements of two axes."""
        p, wide, so, sc = self.p, self.wide, v.flat.stride(self.wide), v.flat.stride(col)
        zero = {wide: "0", col: "0"}
        p.w(f"const float *from = {v.pointer} + ({v.flat.text(zero)});")
        same = [g for g in v.guard if not {wide, col} & g.names()]
        rest = lambda g: index_text(g, lambda n: zero.get(n, n))
        if same:
            p.w(f"const long here = {' && '.join(f'{rest(g)} >= 0' for g in same)} ? {col}_n : 0;")
        for j in range(self.nv):
            tests = [f"vi_iota() + {j * self.lanes} < vi_set((int32_t){'here' if same else f'{col}_n'})"]
            for g in v.guard:
                parts = [f"{x}_v{j} * {dict(g.terms)[x]}" for x in (wide, col) if x in g.names()]
                if parts:
                    tests.append(f"{' + '.join(parts)} + vi_set((int32_t)({rest(g)})) >= 0")
            ok, at = " & ".join(f"({t})" for t in tests), f"({col}_p + {j * self.lanes})"
            if so == times(sc, self.nest.extent[col]):  # type: ignore[arg-type]
                read = f"vf_load_where({ok}, from + {at})" if sc == 1 else f"vf_strided_where({ok}, from + {at}*{sc}, {sc})"
            else:
                read = f"vf_gather_where({ok}, from, {wide}_v{j} * {so} + {col}_v{j} * {sc})"
            p.w(f"vf_store(out + {j * self.lanes}, {read});")

    # ---- the register tile
    def micro(self, mr: int) -> None:
        p, L = self.p, self.lanes
        with p.block(""):
            for k, m in enumerate(self.c.mmas):
                regs = [[f"{m.dst}_{i}_{j}" for j in range(self.nv)] for i in range(mr)]
                self._start(m, regs)
                self._multiply(k, m, regs)
            for i in range(mr):
                for j in range(self.nv):
                    with p.block(""):
                        col, row = self.s.col, self.s.row
                        p.w(f"const long {col} = {col}_p{f' + {j * L}' if j else ''};")
                        if self.wide:
                            p.w(f"const long {self.wide} = 0; /* {col} runs over both */")
                        if row and self.nest.tile.get(row) != 1:
                            p.w(f"const long {row} = {row}_p{f' + {i}' if i else ''}; (void){row};")
                        self._finish(i, j)

    def _start(self, m: Stmt, regs: list[list[str]]) -> None:
        p = self.p
        for i, line in enumerate(regs):
            if m.dst in self.c.starts:
                p.w("vf " + ", ".join(f"{r} = {{0}}" for r in line) + ";")
                continue
            for j, r in enumerate(line):
                p.w(f"vf {r} = {{0}};")
                with p.block(""):
                    p.w(f"const long {self.s.col} = {self.s.col}_p + {j * self.lanes};")
                    if self.s.row and self.nest.tile.get(self.s.row) != 1:
                        p.w(f"const long {self.s.row} = {self.s.row}_p + {i};")
                    self._vector(j, lambda r=r: p.w(f"{r} = {p.vector_read(m.dst)};"))

    def _multiply(self, k: int, m: Stmt, regs: list[list[str]]) -> None:
        p, s = self.p, self.s
        a = next(x for x in m.srcs if self.s.col not in self.nest.axes_of(x))
        mr = len(regs)
        p.w(f"const float *restrict b{k} = panel{k};")
        fused = self._fused(a)
        last = fused[0] if fused else ""
        more = prod(int(self.nest.extent[x]) for x in fused[1:])

        def inner() -> None:
            base = {s.row: f"{s.row}_p"} if s.row and self.nest.tile.get(s.row) != 1 else {}
            step_row, step_k = self._steps(a)
            lo, hi = self.span(last)
            start = self._address(a, {**base, **dict.fromkeys(fused[1:], "0"), last: lo})
            p.w(f"const {self._ctype(a)} *restrict a{k} = &{start};")
            length = hi if lo == "0" else f"({hi} - {lo})" if more > 1 else f"{hi} - {lo}"
            with p.block(f"for (long kk = 0; kk < {length}{f'*{more}' if more > 1 else ''}; kk++)"):
                p.w("const vf " + ", ".join(f"v{j} = vf_load(b{k} + {j * self.lanes})" for j in range(self.nv)) + ";")
                p.w(f"b{k} += {self.nr};")
                for i in range(mr):
                    at = " + ".join(
                        x
                        for x in (
                            f"{i}*{step_row}" if i and step_row != "0" else "",
                            f"kk*{step_k}" if step_k not in ("0", "1") else "kk" if step_k == "1" else "",
                        )
                        if x
                    )
                    x = self._scalar(a, f"a{k}[{at or '0'}]")
                    p.w(f"{{ const vf x = vf_set({x}); " + " ".join(f"{r} += x * v{j};" for j, r in enumerate(regs[i])) + " }")

        with p.block(""):
            self._depth_loops(s.depth[: len(s.depth) - len(fused)], lambda: self._in_block(inner))

    def _fused(self, a: str) -> tuple[str, ...]:
        """The last reduced axes that `a` walks as one: each step of an outer one is a whole run of the next."""
        depth, n = self.s.depth, min(1, len(self.s.depth))
        while n < len(depth):
            outer, inner = depth[-n - 1], depth[-n]
            step, extent = _stride(self.nest, a, inner), self.nest.extent[inner]
            if a not in self.nest.views or not self.whole(inner) or not isinstance(step, int) or not isinstance(extent, int):
                break
            if _stride(self.nest, a, outer) != step * extent:
                break
            n += 1
        return depth[len(depth) - n :]

    def _in_block(self, f) -> None:  # type: ignore[no-untyped-def]
        with self.p.block(""):
            f()

    def _steps(self, a: str) -> tuple[str, str]:
        """Elements between neighbours of `a` along the row and along the last reduced axis."""
        axes = (self.s.row, self.s.depth[-1] if self.s.depth else "")
        if a in self.nest.views:
            f = self.nest.views[a].flat
            return tuple(str(f.stride(x)) if x else "0" for x in axes)  # type: ignore[return-value]
        place = self.p.places[a]
        names = [n for n, _ in place.shape]
        return tuple(self.p._stride(place, x) if x in names else "0" for x in axes)  # type: ignore[return-value]

    def _address(self, a: str, at: dict[str, str]) -> str:
        if a in self.nest.views:
            v = self.nest.views[a]
            return f"{v.pointer}[{v.flat.text({x: t for x, t in at.items() if x})}]"
        place = self.p.places[a]
        text = self.p.offset(place, at)
        return f"{a}[{text or '0'}]"

    def _ctype(self, a: str) -> str:
        d = self.nest.dtype_of(a)
        assert isinstance(d, DType)
        return CTYPE[d.name] if a in self.nest.views else CTYPE[working(d).name]

    def _scalar(self, a: str, text: str) -> str:
        d = self.nest.dtype_of(a)
        assert isinstance(d, DType)
        return f"s_from_{d.name}({text})" if d.name in ("f16", "bf16") and a in self.nest.views else text

    # ---- results
    def _vector(self, j: int, body) -> None:  # type: ignore[no-untyped-def]
        """Print `body` for a full vector of columns and, where there can be one, for a part of one."""
        p, col = self.p, self.s.col
        p.vector = col
        e = size(self.nest, col)
        if self.wide:
            whole = times(self.nest.extent[self.wide], self.nest.extent[col])
            full = self.wide not in self.nest.tile and isinstance(whole, int) and whole % self.nr == 0
        else:
            full = isinstance(e, int) and e % self.nr == 0 and (col not in self.nest.tile or p._exact(col))
        if full:
            body()
        else:
            done = j * self.lanes
            with p.block(f"if ({col}_n >= {done + self.lanes})"):
                body()
            with p.block(f"else if ({col}_n > {done})"):
                p.w(f"const long left = {col}_n - {done};")
                p.part = "left"
                body()
                p.part = ""
        p.vector = None

    def _finish(self, i: int, j: int) -> None:
        p = self.p
        accs = {m.dst: f"{m.dst}_{i}_{j}" for m in self.c.mmas}

        def body() -> None:
            local: dict[str, str] = {}
            for acc, reg in accs.items():
                if p.places[acc].is_array:
                    p.assign(acc, reg)
            read = lambda n: accs.get(n) or local.get(n) or p.vector_read(n)
            for s in self.c.epilogue:
                if s.op == "store":
                    p.store(s, read)
                else:
                    text = Vector(read, p.vector or "").text(s.expr)  # type: ignore[arg-type]
                    if p.places[s.dst].is_array:
                        p.assign(s.dst, text)
                    else:
                        local[s.dst] = f"e_{s.dst}"
                        p.w(f"const vf e_{s.dst} = {text};")

        self._vector(j, body)


def print_contraction(p: Printer, c: Contraction) -> None:
    """Print the node (its shape was found when the tree was built)."""
    s = shape_of(p.nest, c)
    assert s is not None
    ContractionPrinter(p, c, s).print()


def panel_elements(nest: Nest, c: Contraction, lanes: int, registers: int) -> str:
    """Elements of the panels of one contraction, C text."""
    s = shape_of(nest, c)
    assert s is not None
    rows = _number(nest, s.row) if s.row else 1
    wide = wide_axis(nest, c, s)
    cols = _number(nest, s.col) * (_number(nest, wide) if wide else 1)
    _, nv = register_tile(rows, cols, lanes, registers, len(c.mmas), most_rows(nest, s))
    lengths = [
        str(nest.extent[x] if x not in nest.tile or (c.loop is not None and x in c.loop.axes) else nest.tile[x]) for x in s.depth
    ]
    return "*".join([f"(size_t){len(c.mmas)}", *(f"(size_t)({x})" for x in lengths), str(nv * lanes)])


def runs_in_tiles(nest: Nest, c: Contraction) -> bool:
    """Can this contraction be printed as register tiles? (every epilogue statement must be vectors of f32 too)"""
    from autocomp.targets.cpu.expressions import vectorizes

    s = shape_of(nest, c)
    if s is None:
        return False
    for m in c.mmas:
        if s.col not in nest.slots[m.dst].axes or sum(s.col in nest.axes_of(x) for x in m.srcs) != 1:
            return False
        b = next(x for x in m.srcs if s.col in nest.axes_of(x))
        a = next(x for x in m.srcs if x != b)
        if (a in nest.views and nest.views[a].guard) or not _plain(nest, a, (*s.depth, *([s.row] if s.row else []))):
            return False
    return all(vectorizes(nest, e, s.col) for e in c.epilogue)
