"""Packing of factors into the order in which a register tile reads them.

    b: [outer axes][panel of columns][depth][columns of a panel]     zeros where columns end or a guard fails
    a: [other axes][tile of rows][depth][rows of a tile]

What changes from run to run is packed into the thread's panel inside the kernel; what never changes is packed once, by a
function of its own that walks the same loops, when the program is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Self

from autocomp.targets.cpu.arithmetic import Arithmetic
from autocomp.targets.cpu.flat import View, factor, index_text, times
from autocomp.targets.cpu.shape import Shape, arithmetic, packs_in_vectors, size, staged, tiling_of, whole, whole_lines
from autocomp.targets.cpu.tree import Contraction
from autocomp.targets.cpu.vectors import plain_in, vector_value
from autocomp.targets.cpu.words import WordsPrinter

from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.cpu.printer import Printer


class Panels:
    """Loops over panels and tiles of one contraction, and their packing."""

    def __init__(self, p: Printer, c: Contraction, s: Shape, kind: Arithmetic | None = None) -> None:
        self.p, self.c, self.s, self.nest, self.lanes = p, c, s, p.nest, p.lanes
        t = tiling_of(p.nest, c, s, p.lanes, p.registers)
        self.mr, self.nv, self.wide, self.ready, self.part = t.rows, t.vectors, t.wide, t.ready, t.part
        self.tall, self.direct = t.tall, t.direct
        self.kind = kind or arithmetic(p.nest, c, s)
        self.nr = self.nv * p.lanes
        words = staged(p.nest, c, s)
        self.words = WordsPrinter(self, words) if words else None
        self.line = int(p.nest.extent[s.col]) if self.wide and not self.kind.is_float and not words else 0  # type: ignore[call-overload]
        self.cols = whole_lines(self.nr, self.line)  # of a panel
        self.width = self.nv  # vectors of the panel that hold columns
        self.left = tuple(x for x in s.outer if x != self.wide)

    # ---- loops
    def length(self, axis: str) -> str:
        return str(self.nest.extent[axis] if self.whole(axis) else size(self.nest, axis))

    def whole(self, axis: str) -> bool:
        return whole(self.nest, self.c, axis)

    def stands(self, axis: str) -> bool:
        """Is the axis's variable that of a loop around the contraction, one step at a time?"""
        return self.nest.tile.get(axis) == 1 and not self.whole(axis)

    def span(self, axis: str) -> tuple[str, str]:
        return ("0", str(self.nest.extent[axis])) if self.whole(axis) else self.p.bounds(axis)

    def row_tiles(self, micro: Callable[[int], None]) -> None:
        """Loops over tiles of rows: of one size and one less where the rows are a number, so that no small tile is left."""
        if not self.s.row or self.nest.tile.get(self.s.row) == 1:
            micro(1)
            return
        r, (lo, hi) = self.s.row, self.p.bounds(self.s.row)
        rows = self.rows()
        if self.tall:
            first, end = self.p.bounds(self.tall)
            self.p.w(f"const long {self.tall} = {first}; /* {r} runs over both */")
            hi = f"({end} - {first})*{self.nest.extent[r]}"
        self.p.w(f"long {r}_p = {lo};")
        if isinstance(rows, int) and all(self._even(x) for x in (r, self.tall) if x):
            (big, full), *rest = self._shared(rows).items()
            ends = [(big, f"{lo} + {full * big}" if lo != "0" else str(full * big)), *((mr, hi) for mr, _ in rest)]
            for mr, end in ends:
                with self.p.block(f"for (; {r}_p < {end}; {r}_p += {mr})"):
                    micro(mr)
            return
        extent = self.nest.extent[r]
        if isinstance(rows, int) and isinstance(extent, int) and not self.tall and extent % rows:  # a last tile of fewer rows
            whole, last = self._shared(rows), self._shared(extent % rows)
            for mr in sorted({*whole, *last}, reverse=True):
                here = f"{mr}*({hi} - {self.p.base(r)} == {rows} ? {whole.get(mr, 0)} : {last.get(mr, 0)})"
                with self.p.block(f"for (const long end = {r}_p + {here}; {r}_p < end; {r}_p += {mr})"):
                    micro(mr)
            return
        for mr in dict.fromkeys((self.mr, max(1, self.mr // 2), 1)):
            with self.p.block(f"for (; {r}_p + {mr} <= {hi}; {r}_p += {mr})"):
                micro(mr)

    def _shared(self, rows: int) -> dict[int, int]:
        """Register tiles of so many rows: rows of one -> how many of them, sizes of one number and one less."""
        count = -(-rows // self.mr)
        big = -(-rows // count)
        full = rows - count * (big - 1)
        return {big: full, **({big - 1: count - full} if full < count else {})}

    def rows(self) -> object:
        """Rows of a tile, a number where it is known."""
        rows, lines = (size(self.nest, x) if x else 1 for x in (self.s.row, self.tall))
        return rows * lines if isinstance(rows, int) and isinstance(lines, int) else rows if lines == 1 else None

    def _even(self, axis: str) -> bool:
        """Is every tile of the axis of one size?"""
        extent, tile = self.nest.extent[axis], self.nest.tile.get(axis)
        return isinstance(extent, int) and (tile is None or extent % tile == 0)

    def depth_loops(self, axes: tuple[str, ...], inner: Callable[[], None]) -> None:
        if not axes:
            inner()
            return
        if self.stands(axes[0]):
            self.depth_loops(axes[1:], inner)
            return
        lo, hi = self.span(axes[0])
        with self.p.block(f"for (long {axes[0]} = {lo}; {axes[0]} < {hi}; {axes[0]}++)"):
            self.depth_loops(axes[1:], inner)

    # ---- packed once
    def depth(self) -> int:
        """Rows of a panel (numbers where a factor is packed once)."""
        *outer, last = (int(self.nest.extent[x]) for x in self.s.depth) if self.s.depth else (1,)
        return prod(outer) * -(-last // self.kind.group) * self.kind.rows

    def others(self, name: str) -> tuple[str, ...]:
        """Axes of a factor that are neither the tile's nor reduced."""
        return tuple(x for x in (*self.s.outer, *self.s.inner) if x in self.nest.views[name].axes and x != self.s.row)

    def _count(self) -> tuple[int, int]:
        """(panels of columns in all, in one tile)"""
        e, t = int(self.nest.extent[self.s.col]), int(size(self.nest, self.s.col))  # type: ignore[call-overload]
        per = -(-t // self.nr)
        return e // t * per + -(-(e % t) // self.nr), per  # the last tile may have fewer

    def where(self, name: str) -> str:
        """C text of the address of the packed factor's panel for the current columns or tile of rows."""
        at = "0"
        for x in self.others(name):
            at = f"({at})*{self.nest.extent[x]} + {x}" if at != "0" else x
        view, k = self.nest.views[name], self.depth()
        pointer = view.pointer if self.kind.is_float else f"(const {self.kind.element} *){view.pointer}"
        if self.s.col not in view.axes:
            return f"{pointer} + (size_t)({f'({at})*{self.nest.extent[self.s.row]} + ' if at != '0' else ''}{self.s.row}_p)*{k}"
        col, t = self.s.col, self.nest.tile.get(self.s.col)
        every, per = self._count()
        here = f"{col}_p/{self.nr}"
        if t is not None and t % self.nr:
            here = f"{self.p.base(col)}/{t}*{per} + ({col}_p - {self.p.base(col)})/{self.nr}"
        return f"{pointer} + (size_t)({f'({at})*{every} + ' if at != '0' else ''}{here})*{k * self.nr}"

    def elements(self, name: str) -> int:
        """Size of the packed factor."""
        n = prod(int(self.nest.extent[x]) for x in self.others(name)) * self.depth()
        return n * (self._count()[0] * self.nr if self.s.col in self.nest.views[name].axes else int(self.nest.extent[self.s.row]))

    def fitting(self) -> Self | None:
        """The same in the arithmetic of a constant whose pairs fit 16 bits (directive `byte_pairs`); None where there is none."""
        if "byte_pairs" not in self.nest.schemes or len(self.ready) != 1:
            return None
        kind = self.kind.fitting("left" if self.s.a in self.ready else "right")
        return type(self)(self.p, self.c, self.s, kind) if kind else None

    def pack_once(self, name: str) -> None:
        """Print the body of the function that packs a whole factor into `out`, panel after panel. Behind the panels of one whose pairs may
        fit 16 bits stands whether they do: then they are packed as bytes."""
        fitting = self.fitting()
        if fitting is None:
            self._pack_all(name)
            return
        self.p.w("int32_t *const all = out;")
        fitting._pack_all(name)
        self.p.w(f"const int32_t fits = ac_sums_fit(all, {fitting.elements(name)});")
        with self.p.block("if (!fits)"):
            self.p.w("out = all;")
            self._pack_all(name)
        self.p.w(f"all[{self.elements(name)}] = fits;")

    def _pack_all(self, name: str) -> None:
        p, view = self.p, self.nest.views[name]
        axes = [(x, "0", str(self.nest.extent[x]), 1) for x in self.others(name)]
        side = self.s.col if self.s.col in view.axes else self.s.row
        if side in self.nest.tile:
            axes.append((p.base(side), "0", str(self.nest.extent[side]), self.nest.tile[side]))
        for x, lo, hi, step in axes:
            p.w(f"for (long {x} = {lo}; {x} < {hi}; {x} += {step}) {{")
            p.depth += 1
        if side == self.s.col:
            if not self.kind.is_float:
                self.column_panels(lambda: self._pack_integers(name))
            elif self._transposes(name):
                self.column_panels(lambda: self.depth_loops(self.s.depth[:-1], lambda: self._pack_transposed(name)))
            else:
                self.column_panels(lambda: self.depth_loops(self.s.depth, lambda: self._pack_row(name, side)))
        else:
            pack = self._pack_rows if self.kind.is_float else self._pack_integer_rows
            depth = self.s.depth if self.kind.is_float else self.s.depth[:-1]
            self.row_tiles(lambda mr: self.depth_loops(depth, lambda: pack(name, mr)))
        for _ in axes:
            p.depth -= 1
            p.w("}")

    def _pack_rows(self, name: str, mr: int) -> None:
        v, r = self.nest.views[name], self.s.row
        self.p.w(f"for (long i = 0; i < {mr}; i++) out[i] = {v.pointer}[{v.flat.text({r: f'({r}_p + i)'})}];")
        self.p.w(f"out += {mr};")

    # ---- packing of panels
    def column_panels(self, inner: Callable[[], None]) -> None:
        """The loop over panels of columns of the current tile."""
        lo, hi = self.p.bounds(self.s.col)
        col = self.s.col
        if self.wide:
            lo, hi = (f"({t})*{self.nest.extent[col]}" for t in self.p.bounds(self.wide))
        with self.p.block(f"for (long {col}_p = {lo}; {col}_p < {hi}; {col}_p += {self.cols})"):
            self.p.w(f"const long {col}_n = ac_min({self.cols}, {hi} - {col}_p); (void){col}_n;")
            inner()

    def pack(self, m: Stmt) -> None:
        p, col = self.p, self.s.col
        b = m.srcs[0] if m.srcs[0] != self.s.a and self.s.col in self.nest.axes_of(m.srcs[0]) else m.srcs[1]
        with p.block(""):
            p.w(f"{self.kind.element} *restrict out = panel{self.c.mmas.index(m)};")
            if self.words:
                self.words.start()
            elif self.wide and not self.line:
                extent = self.nest.extent[col]
                for j in range(self.nv):
                    p.w(f"const vi at{j} = vi_iota() + vi_set((int32_t){col}_p + {j * self.lanes});")
                    p.w(f"const vi {self.wide}_v{j} = at{j} / {extent}, {col}_v{j} = at{j} - {self.wide}_v{j} * {extent};")
            if not self.kind.is_float:
                self._pack_integers(b)
            elif self._transposes(b):
                self.depth_loops(self.s.depth[:-1], lambda: self._pack_transposed(b))
            else:
                self.depth_loops(self.s.depth, lambda: self._pack_row(b, col))

    def _pack_row(self, b: str, col: str) -> None:
        p, v = self.p, self.nest.views.get(b)
        if v is not None and self.wide:
            with p.block(""):
                self._pack_wide(v, col)
        elif v is not None and packs_in_vectors(v, col):
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
                n = f"ac_clamp({col}_n - {j * self.lanes}, {self.lanes + 1})"
                p.w(f"vf_store(out + {j * self.lanes}, vf_load_n(from + {j * self.lanes}, {n}));")
        else:
            with p.block(f"for (long x = 0; x < {self.nr}; x++)"):
                p.w(f"const long {col} = {col}_p + x;")
                p.w(f"out[x] = x < {col}_n ? {p.read(b)} : 0.f;")
        p.w(f"out += {self.nr};")

    # ---- integers: each element of a panel holds `group` steps of the last reduced axis, the first in its low byte, zeros behind the last
    def _groups(self, inner: Callable[[str, str], None]) -> None:
        """The loop over the last reduced axis in groups: inner(first step's text, end's text)."""
        if not self.s.depth:
            inner("0", "1")
            return
        near = self.s.depth[-1]
        lo, hi = self.span(near)
        if self.stands(near):
            inner(lo, hi)
            return
        with self.p.block(f"for (long {near}_q = {lo}; {near}_q < {hi}; {near}_q += {self.kind.group})"):
            inner(f"{near}_q", hi)

    def _pack_integers(self, b: str) -> None:
        """Panels of a factor of integers, row after row."""
        self.depth_loops(self.s.depth[:-1], lambda: self._groups(lambda at, end: self._pack_integer_row(b, at, end)))

    def _in_step(self, at: str, end: str, i: int, body: Callable[[], None]) -> None:
        """`body` where step i of a group is one of the axis, whose variable is set."""
        if not self.s.depth or self.stands(self.s.depth[-1]):
            body()
            return
        near, group = self.s.depth[-1], self.kind.group
        length = self.nest.extent[near] if self.whole(near) else size(self.nest, near)
        exact = i == 0 or (isinstance(length, int) and length % group == 0 and self._even(near))
        with self.p.block("" if exact else f"if ({at} + {i} < {end})"):
            self.p.w(f"const long {near} = {at}{f' + {i}' if i else ''};")
            body()

    def _pack_integer_row(self, b: str, at: str, end: str) -> None:
        p, col, kind, v = self.p, self.s.col, self.kind, self.nest.views.get(b)
        near = self.s.depth[-1] if self.s.depth else ""
        if self.words:
            with p.block(""):
                self.words.row(at)
            return
        if self.line:
            self._pack_lines(b, at, end)
        elif v is not None and kind.group > 1 and not v.guard and v.flat.stride(near) == 1 and v.flat.stride(col) != 1:
            start = f"&{v.pointer}[{v.flat.text({col: f'({col}_p + x)', near: at})}]"
            p.w(f"const long n = ac_min({kind.group}, {end} - {at});")
            with p.block(f"for (long x = 0; x < {self.nr}; x++)"):
                p.w(f"out[x] = x >= {col}_n ? 0 : n == {kind.group} ? ac_quad({start}) : ac_quad_n({start}, n);")
        elif vector_value(self.nest, b, col):
            whole = size(self.nest, col)
            if isinstance(whole, int) and whole % self.nr == 0 and self._even(col):
                self._pack_integer_vectors(b, at, end, False)
            else:
                with p.block(f"if ({col}_n == {self.nr})"):
                    self._pack_integer_vectors(b, at, end, False)
                with p.block("else"):
                    self._pack_integer_vectors(b, at, end, True)
        else:
            with p.block(f"for (long x = 0; x < {self.nr}; x++)"):
                p.w("uint32_t q = 0;")
                with p.block(f"if (x < {col}_n)"):
                    p.w(f"const long {col} = {col}_p + x;")
                    self._element(b, at, end)
                p.w("out[x] = (int32_t)q;")
        if kind.pairs:  # both rows of these words
            halves = [kind.half(f"vi_load(out + {j * self.lanes})", odd) for odd in (1, 0) for j in range(self.nv)]
            places = [f"out + {at + j * self.lanes}" for at in (self.nr, 0) for j in range(self.nv)]
            p.w(" ".join(f"vi_store({x}, {q});" for x, q in zip(places, halves, strict=True)))
        p.w(f"out += {self.nr * kind.rows};")

    def _element(self, name: str, at: str, end: str) -> None:
        """Add the steps of a group to q, one by one."""
        byte = "(uint8_t)" if self.kind.group > 1 else ""
        for i in range(self.kind.group):
            shift = f" << {8 * i}" if i else ""
            self._in_step(at, end, i, lambda shift=shift: self.p.w(f"q |= (uint32_t){byte}{self.p.read(name)}{shift};"))  # type: ignore[misc]

    def _pack_lines(self, b: str, at: str, end: str) -> None:
        """A row of a panel whose columns are whole lines: what a short line's vector holds beyond it, the next line overwrites."""
        p, col, wide, line = self.p, self.s.col, self.wide, self.line
        first = f"{col}_p/{line}"
        with p.block(f"for (long {wide} = {first}; {wide} < {first} + {col}_n/{line}; {wide}++)"):
            p.w(f"const long {col} = 0; (void){col};")
            if line < self.lanes:
                p.w(f"const long left = {line};")
            self._integer_vector(b, at, end, line < self.lanes)
            p.w(f"vi_store_n(out + ({wide} - {first})*{line}, q, {line});")

    def _pack_integer_vectors(self, b: str, at: str, end: str, part: bool) -> None:
        p, col = self.p, self.s.col
        for j in range(self.nv):
            with p.block(""):
                first = f" + {j * self.lanes}" if j else ""
                p.w(f"const long {col} = {col}_p{first}; (void){col};")
                if part:
                    p.w(f"const long left = ac_clamp({col}_n - {j * self.lanes}, {self.lanes + 1});")
                self._integer_vector(b, at, end, part)
                p.w(f"vi_store(out{first}, q);")

    def _integer_vector(self, b: str, at: str, end: str, part: bool) -> None:
        """q, the steps of a group for the columns from the current one on. `part`: there are `left` of them."""
        p, col, v = self.p, self.s.col, self.nest.views.get(b)
        near = self.s.depth[-1] if self.s.depth else ""
        p.w("vi q = vi_set(0);")
        p.vector, p.part = col, "left" if part else ""
        if v is not None and v.guard and all(plain_in(g, near) for g in v.guard):  # none of the lanes and steps outside: no masks
            words = self._are_words(v, part)
            steps = (near,) if self.stands(near) else (at, f"({at} + 3)" if words else f"ac_min({at} + {self.kind.group - 1}, {end} - 1)")
            ends = [(x, y) for x in (f"{col}", f"({col} + {'left - 1' if part else self.lanes - 1})") for y in steps]
            every = dict.fromkeys(index_text(g, lambda n, e=e: {col: e[0], near: e[1]}.get(n, n)) for g in v.guard for e in ends)  # type: ignore[misc]
            with p.block(f"if ({' && '.join(f'{g} >= 0' for g in every)})"):
                if words:  # what stands behind the last step is multiplied by 0
                    p.w(f"q = vi_windows(&{v.pointer}[{v.flat.text({near: at})}], {v.flat.stride(col)});")
                else:
                    self._gather_steps(at, end, lambda: p._get(f"&{v.pointer}[{v.flat.text()}]", str(v.flat.stride(col)), v.dtype))
            with p.block("else"):
                self._gather_steps(at, end, lambda: p.vector_read(b))
        else:
            self._gather_steps(at, end, lambda: p.vector_read(b))
        p.vector, p.part = None, ""

    def _are_words(self, v: View, part: bool) -> bool:
        """Are four steps of depth side by side in memory, and columns one or two bytes apart, so that one read and one instruction give all
        words of a vector (directive `strided_taps`)?"""
        col, near = self.s.col, self.s.depth[-1] if self.s.depth else ""
        beside = self.kind.group > 1 and near in v.axes and v.flat.stride(near) == 1 and not self.stands(near)
        return self.p.wants("strided_taps", beside and not part and v.flat.stride(col) in (1, 2) and v.dtype.bytes == 1)

    def _gather_steps(self, at: str, end: str, read: Callable[[], str]) -> None:
        """The steps of a group as bytes of q's lanes."""
        for i in range(self.kind.group):
            add = lambda i=i: self.p.w(f"q |= vi_byte({read()}, {i});" if self.kind.group > 1 else f"q = {read()};")
            self._in_step(at, end, i, add)

    def _pack_integer_rows(self, name: str, mr: int) -> None:
        def rows(at: str, end: str) -> None:
            with self.p.block(f"for (long i = 0; i < {mr}; i++)"):
                self.p.w(f"const long {self.s.row} = {self.s.row}_p + i;")
                self.p.w("uint32_t q = 0;")
                self._element(name, at, end)
                if self.kind.pairs:
                    pair = f"ac_pair_{'i8' if self.kind.left else 'u8'}"
                    self.p.w(f"out[i] = {pair}(q), out[i + {mr}] = {pair}(q >> 8);")
                else:
                    self.p.w(f"out[i] = (int32_t)(q{' ^ 0x80808080u' if self.kind.turned else ''});")
            self.p.w(f"out += {mr * self.kind.rows};")

        self._groups(rows)

    def _transposes(self, b: str) -> bool:
        """Does the factor lie along the innermost depth, so that vectors of it are columns of the panel?"""
        if not self.s.depth or self.wide or self.stands(self.s.depth[-1]):
            return False
        v, near = self.nest.views.get(b), self.s.depth[-1]
        if v is not None:
            plain, depth = not v.guard and v.dtype.name == "f32", self.nest.extent[near]
            turned = plain and v.flat.stride(near) == 1 and v.flat.stride(self.s.col) not in (None, 1)
            few = v.flat.stride(self.s.col) == 2 and isinstance(depth, int) and depth < self.lanes
            if self.p.wants("strided_taps", turned and few):
                return False  # every other element of two vectors, for each of a few steps
            return turned
        axes = [a for a, _ in self.p.places[b].shape]
        return self.p.dtype(b).name == "f32" and bool(axes) and axes[-1] == near and self.s.col in axes

    def _pack_transposed(self, b: str) -> None:
        """All rows of a panel along the innermost depth, in square blocks of a vector's lanes."""
        p, near, col, v, L = self.p, self.s.depth[-1], self.s.col, self.nest.views.get(b), self.lanes
        lo, hi = self.span(near)
        at = {near: near, col: f"{col}_p"}
        if v is not None:
            start, stride = f"{v.pointer} + {v.flat.text(at)}", factor(v.flat.stride(col))  # type: ignore[arg-type]
        else:
            start, stride = f"{b} + {p.offset(p.places[b], at)}", p._stride(p.places[b], col)
        with p.block(f"for (long {near} = {lo}; {near} < {hi}; {near} += {L})"):
            p.w(f"const long n = ac_min({L}, {hi} - {near});")
            for j in range(self.nv):
                rows = f"ac_clamp({col}_n{f' - {j * L}' if j else ''}, {L + 1})"
                here, there = (f" + {j * L}*{stride}", f" + {j * L}") if j else ("", "")
                p.w(f"vf_transpose({start}{here}, {stride}, {rows}, n, out{there}, {self.nr});")
            p.w(f"out += n*{self.nr};")

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
