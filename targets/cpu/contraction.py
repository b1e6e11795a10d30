"""Contractions in register tiles: rows x vectors of accumulators, the depth inside, the epilogue on the registers.

    for panels of columns: copy b into a panel [depth][columns]          one long stream of aligned vectors
      for tiles of rows:   acc[r][c] += broadcast(a[r][k]) * panel[k][c]  for every k;  then the maps and the store

The second factor is the one whose own axis is contiguous in the result. A factor read through guards (the halo of a
convolution) becomes zeros in the panel, so no test stands in the inner loop.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.cpu.arithmetic import Arithmetic
from autocomp.targets.cpu.expressions import CTYPE, working
from autocomp.targets.cpu.flat import factor, times
from autocomp.targets.cpu.lower import Nest, reads
from autocomp.targets.cpu.packing import Panels
from autocomp.targets.cpu.shape import LINE, LONG, arithmetic, copied_row, shape_of, size, staged, stride_of, tile_sums, tiling_of, whole
from autocomp.targets.cpu.tree import Contraction
from autocomp.targets.cpu.vectors import Vector, kind_of
from autocomp.targets.cpu.words import turns

from autocomp.cost.chip import F32
from autocomp.cost.cores import PART, lone_column
from autocomp.ir.types import SHORT_FLOATS, DType
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.cpu.printer import Printer


PAGES = 2048  # floats on in a panel that is read once: two pages of 4 KB
BUSY = 4  # rows whose multiply-adds take as long as the loads and prefetches of a row of the panel
AHEAD = 32  # steps of depth by which a stream of weights is asked for: about 400 cycles, the latency of memory


class ContractionPrinter(Panels):
    """Prints one Contraction node through the kernel's printer."""

    def print(self) -> None:
        p = self.p
        fresh = [m for m in self.c.mmas if self.packed(m) not in self.ready | self.direct]
        with p.block(""):
            for i, m in enumerate(fresh):
                k = self.c.mmas.index(m)
                cast = "" if self.kind.is_float else f"({self.kind.element} *)"
                p.w(f"{self.kind.element} *const panel{k} = {cast}panels + {i}*(size_t)({self.depth_text()})*{self.nr};")
            if self.words:
                self.words.fill()
            if self.kind.copied:
                self._copy_rows()
            if not self.part:
                self._over_depth(bool(fresh))
                return
            k = self.s.depth[0]
            with p.block(f"for (long {k}_p = 0; {k}_p < {self.nest.extent[k]}; {k}_p += {self.part})"):
                self._over_depth(bool(fresh))

    def _copy_rows(self) -> None:
        """The rows of the tile as pairs of 16 bits, all of their depth, zeros behind it."""
        row, (near,) = self.s.row, self.s.depth
        self.p.applied |= {"pack_constants", "short_pairs"}
        lo, hi = self.p.bounds(row)
        kind, steps = "i8" if self.kind.left else "u8", self.nest.extent[near]
        with self.p.block(f"for (long {row} = {lo}; {row} < {hi}; {row}++)"):
            far, start = copied_row(int(steps)), self._address(self.s.a, {near: "0"})  # type: ignore[call-overload]
            self.p.w(f"ac_pairs_{kind}(copied + ({row} - {lo})*{far}, &{start}, {steps});")

    def _over_depth(self, packs: bool) -> None:
        """All panels of the tile, over the whole depth or the current part of it. `packs`: some are packed here."""
        if self._strewn() and packs and not self.wide:
            self.column_panels(lambda: self.nested(self.left, self._panel))
        else:
            self.nested(self.left, lambda: self.column_panels(self._panel))

    def _strewn(self) -> bool:
        """Do columns lie in lines of their own in what is packed or stored, or other axes between them? Then panels go outermost: the
        next step along another axis finds their lines in the first cache. Every other element of an image does not."""
        used = [self.packed(m) for m in self.c.mmas] + [e.dst for e in self.c.epilogue if e.op == "store"]
        between = lambda y, x: isinstance(y, int) and 0 < abs(y) < abs(x)
        apart = lambda flat, x: not isinstance(x, int) or abs(x) >= LINE or any(between(flat.stride(y), x) for y in self.left)
        flats = [self.nest.views[x].flat for x in used if x in self.nest.views]
        return any(apart(f, x) for f in flats if (x := f.stride(self.s.col)) not in (0, 1))

    def span(self, axis: str) -> tuple[str, str]:
        if self.part and axis == self.s.depth[0]:
            return f"{axis}_p", f"ac_min({axis}_p + {self.part}, {self.nest.extent[axis]})"
        return super().span(axis)

    def packed(self, m: Stmt) -> str:
        """The factor that lies in panels."""
        return next(x for x in m.srcs if self.s.col in self.nest.axes_of(x))

    def step(self, factor: str) -> object:
        """Elements from one step of depth to the next in a panel."""
        if factor in self.direct and factor not in self.nest.views:
            return self.p._stride(self.p.places[factor], self.s.depth[0])
        return stride_of(self.nest, factor, self.s.depth[0]) if factor in self.direct else self.nr

    def depth_text(self) -> str:
        return "*".join(f"(size_t)({x})" for x in in_groups([self.length(x) for x in self.s.depth], self.kind)) or "1"

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

    def _panel(self) -> None:
        for k, m in enumerate(self.c.mmas):
            if self.packed(m) in self.ready:
                self.p.applied.add("pack_constants")
                part = f" + {self.s.depth[0]}_p*{self.nr}" if self.part else ""
                self.p.w(f"const {self.kind.element} *const panel{k} = {self.where(self.packed(m))}{part};")
                if self._ahead():
                    self.p.w(f"const {self.kind.element} *next{k} = panel{k} + {self.depth() * self.nr};")
            elif self.packed(m) in self.direct:
                self.p.applied.add("read_in_place")
                at = {self.s.col: f"{self.s.col}_p", self.s.depth[0]: self.span(self.s.depth[0])[0]}
                self.p.w(f"const {self.kind.element} *const panel{k} = &{self._address(self.packed(m), at)};")
            else:
                self.pack(m)
        around = tuple(x for x in self.s.inner if x != self.tall)
        rows = lambda: self.nested(around, lambda: self._in_block(lambda: self.row_tiles(self.micro)))
        widths = self.widths()
        for i, (width, less) in enumerate(zip(widths, (*widths[1:], 0), strict=True)):
            self.width = width
            if len(widths) == 1:
                rows()
                continue
            with self.p.block("else" if not less else f"{'else ' if i else ''}if ({self.s.col}_n > {less * self.lanes})"):
                rows()
        self.width = self.nv

    def widths(self) -> list[int]:
        """Vectors of panels, most first: `nv`, and what the last panel of a tile and that of the last tile need where that is less."""
        whole, cols = self.nest.extent[self.s.col], size(self.nest, self.s.col)
        if self.wide:
            lines = size(self.nest, self.wide)
            cols = times(lines, self.nest.extent[self.s.col]) if isinstance(lines, int) else 0
            whole = times(self.nest.extent[self.wide], self.nest.extent[self.s.col])
        ends = [cols % self.cols, whole % cols % self.cols if isinstance(whole, int) and cols else 0] if isinstance(cols, int) else []
        return sorted({self.nv, *(-(-n // self.lanes) for n in ends if n)}, reverse=True)

    # ---- the register tile
    def micro(self, mr: int) -> None:
        p = self.p
        with p.block(""):
            if not self.part:
                self._ask_for_results(mr)
            for k, m in enumerate(self.c.mmas):
                regs = [[f"{m.dst}_{i}_{j}" for j in range(self.width)] for i in range(mr)]
                self._start(m, regs)
                self._multiply(k, m, regs)
            if not self.part:
                self._results(mr)
                return
            if self.depth() >= LONG:
                self._add_aside(regs)
            with p.block(f"if ({self.s.depth[0]}_p + {self.part} < {self.depth()})"):
                for i, line in enumerate(regs):
                    p.w(" ".join(f"vf_store(aside + {i * self.nr + j * self.lanes}, {r});" for j, r in enumerate(line)))
            with p.block("else"):
                self._results(mr)

    def _ask_for_results(self, mr: int) -> None:
        """Where the epilogue reads a tensor of the result's shape (a residual), or the depth is short, ask for its lines and for those
        that are written: they come while the products run. Pieces of many rows side by side are more streams than a processor foresees."""
        col, row = self.s.col, self.s.row
        if not row or self.nest.tile.get(row) == 1:
            return
        names = dict.fromkeys(x for e in self.c.epilogue for x in (*e.srcs, *reads(e), e.dst) if x in self.nest.views)
        views = [(v, x) for x in names if not (v := self.nest.views[x]).guard and v.flat.stride(col) == 1 and v.flat.stride(row)]
        stored = {e.dst for e in self.c.epilogue if e.op == "store"}
        steps = [self.nest.extent[x] for x in self.s.depth]
        short = all(isinstance(n, int) for n in steps) and prod(steps) // self.kind.group < AHEAD  # type: ignore[arg-type]
        if (all(x in stored for _, x in views) and not short) or "prefetch" not in self.nest.schemes:
            return
        for v, x in views:
            for i in range(mr):
                for j in range(0, self.width, max(1, LINE * F32 // (self.lanes * v.dtype.bytes))):  # once a line
                    at = {col: f"({col}_p + {j * self.lanes})", row: f"({row}_p + {i})", **({self.wide: "0"} if self.wide else {})}
                    self.p.ask_for(f"&{v.pointer}[{v.flat.text(at)}], {int(x in stored)}, 3")

    def _results(self, mr: int) -> None:
        """The epilogue on every register of a tile."""
        p = self.p
        beside = frozenset(e.dst for e in self.c.epilogue if mr > 1 and self._lies_beside(e))
        self.beside = beside if p.wants("turned_store", bool(beside)) else frozenset()
        if self.beside:
            self._results_beside(mr)
            return
        for i in range(mr):
            for j in range(self.width):
                with p.block(""):
                    col, row = self.s.col, self.s.row
                    p.w(f"const long {col} = {col}_p{f' + {j * self.lanes}' if j else ''};")
                    if self.wide:
                        p.w(f"const long {self.wide} = 0; /* {col} runs over both */")
                    if row and self.nest.tile.get(row) != 1:
                        p.w(f"const long {row} = {row}_p{f' + {i}' if i else ''}; (void){row};")
                    self._finish(i, j)

    def _lies_beside(self, e: Stmt) -> bool:
        """Are the columns of a result apart in memory, and its rows side by side?"""
        v, row, col = self.nest.views.get(e.dst), self.s.row, self.s.col
        if e.op != "store" or v is None or v.dtype.name != "f32" or not row or self.nest.tile.get(row) == 1 or self.wide or self.tall:
            return False
        return v.flat.stride(row) == 1 and v.flat.stride(col) not in (None, 0, 1)

    def _results_beside(self, mr: int) -> None:
        """The epilogue where rows of a result lie side by side, and columns, which the lanes are, apart: rows of one vector are turned
        in registers and stored together (directive `turned_store`)."""
        p, col, row = self.p, self.s.col, self.s.row
        stores = [e for e in self.c.epilogue if e.dst in self.beside]
        for j in range(self.width):
            with p.block(""):
                p.w("vf " + ", ".join(f"rows_{e.dst}[{mr}]" for e in stores) + ";")
                p.w(f"const long {col} = {col}_p{f' + {j * self.lanes}' if j else ''};")
                for i in range(mr):
                    with p.block(""):
                        p.w(f"const long {row} = {row}_p{f' + {i}' if i else ''}; (void){row};")
                        self._finish(i, j)
                p.w(f"const long {row} = {row}_p;")
                for e in stores:
                    v = self.nest.views[e.dst]
                    at = f"&{v.pointer}[{v.flat.text()}], {factor(v.flat.stride(col))}, rows_{e.dst}, {mr}"  # type: ignore[arg-type]
                    self._vector(j, lambda at=at: p.w(f"vf_scatter_rows{'_n' if p.part else ''}({at}{', left' if p.part else ''});"))  # type: ignore[misc]

    def _start(self, m: Stmt, regs: list[list[str]]) -> None:
        p = self.p
        if self.part:
            row, col = self.s.row, self.s.col
            at = f"({col}_p - {p.bounds(col)[0]})*{size(self.nest, row)} + ({row}_p - {p.bounds(row)[0]})*{self.nr}"
            p.w(f"float *const aside = sums + {at};")
            for line in regs:
                p.w("vf " + ", ".join(f"{r} = {{0}}" for r in line) + ";")
            if self.depth() < LONG:
                self._add_aside(regs)
            return
        for i, line in enumerate(regs):
            if m.dst in self.c.starts:
                p.w(f"{self.kind.vector} " + ", ".join(f"{r} = {{0}}" for r in line) + ";")
                continue
            for j, r in enumerate(line):
                p.w(f"{self.kind.vector} {r} = {{0}};")
                with p.block(""):
                    p.w(f"const long {self.s.col} = {self.s.col}_p + {j * self.lanes};")
                    if self.s.row and self.nest.tile.get(self.s.row) != 1:
                        p.w(f"const long {self.s.row} = {self.s.row}_p + {i};")
                    self._vector(j, lambda r=r: p.w(f"{r} = {p.vector_read(m.dst)};"))

    def _add_aside(self, regs: list[list[str]]) -> None:
        """What the parts of the depth before this one gave."""
        with self.p.block(f"if ({self.s.depth[0]}_p)"):
            for i, line in enumerate(regs):
                self.p.w(" ".join(f"{r} += vf_load(aside + {i * self.nr + j * self.lanes});" for j, r in enumerate(line)))

    def _multiply(self, k: int, m: Stmt, regs: list[list[str]]) -> None:
        p = self.p
        a = next(x for x in m.srcs if self.s.col not in self.nest.axes_of(x))
        p.w(f"const {self.kind.element} *restrict b{k} = panel{k};")
        if self.kind.turned:
            p.w("vi " + ", ".join(f"under{j} = {{0}}" for j in range(self.width)) + "; /* 128 times the sums of the panel */")
        self._multiply_by(k, m, a, regs)
        if self.kind.turned:
            for line in regs:
                p.w(" ".join(f"{r} = vi_sub({r}, under{j});" for j, r in enumerate(line)))

    def _multiply_by(self, k: int, m: Stmt, a: str, regs: list[list[str]]) -> None:
        p, s, mr = self.p, self.s, len(regs)
        if a in self.ready:
            p.applied |= {"pack_constants", *(("short_pairs",) if self.kind.pairs else ())}
            p.w(f"const {self.kind.element} *restrict a{k} = {self.where(a)};")
            cells = [f"a{k}[kk*{mr}{f' + {i}' if i else ''}]" for i in range(mr)]
            if self._alone(mr):
                p.applied.add("lone_column")
                p.w(f"vi lone{k} = {{0}}; /* of the last column: lanes are rows */")
            ahead = [f"a{k} + (kk + {AHEAD * self.kind.rows})*{mr}"] if "prefetch" in self.nest.schemes else []
            self._steps_of_depth(k, m, regs, str(self.depth()), cells, *ahead)
            if self._alone(mr):
                p.w(f"int32_t each{k}[{self.lanes}];")
                p.w(f"vi_store(each{k}, lone{k});")
                p.w(" ".join(f"{line[-1]} = vi_set(each{k}[{i}]);" for i, line in enumerate(regs)))
            return
        if self.kind.copied:
            far, first = copied_row(int(self.nest.extent[s.depth[0]])), self.p.bounds(s.row)[0]  # type: ignore[call-overload]
            p.w(f"const int32_t *restrict a{k} = copied + ({s.row}_p - {first})*{far};")
            self._steps_of_depth(k, m, regs, str(self.depth()), [f"a{k}[kk{f' + {i * far}' if i else ''}]" for i in range(mr)])
            return
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
            if self.kind.group > 1:
                count = str(int(length) * more) if length.isdigit() else f"({length})" + (f"*{more}" if more > 1 else "")
                self._quads_of_depth(k, m, regs, count, step_row)
                return
            times_k = f"kk*{step_k}" if step_k not in ("0", "1") else "kk" if step_k == "1" else ""
            at = [" + ".join(x for x in (f"{i}*{step_row}" if i and step_row != "0" else "", times_k) if x) for i in range(mr)]
            cells = [self._scalar(a, f"a{k}[{x or '0'}]") for x in at]
            far = self._ahead()
            ready, chain = self.packed(m) in self.ready, far > 0 and len(fused) == len(s.depth)
            ahead = [f"next{k} + kk*{far}{f' + {i}' if i else ''}" for i in range(0, far, LINE)] if chain else self._streamed(k, mr)
            self._steps_of_depth(k, m, regs, f"{length}{f'*{more}' if more > 1 else ''}", cells, *(ahead if ready else ()))
            if ready and chain:
                step = far * (self.part or self.depth())
                p.w(f"next{k} += next{k} + {2 * step} <= panel{k} + {(self.depth() + (self.part or self.depth())) * self.nr} ? {step} : 0;")

        with p.block(""):
            self.depth_loops(s.depth[: len(s.depth) - len(fused)], lambda: self._in_block(inner))

    def _alone(self, mr: int) -> bool:
        """Is the last column of the current panel alone in its vector, and the rows of the other factor packed side by side?"""
        if self.kind.group == 1 or self.s.a not in self.ready or self.line or mr > self.lanes or self.s.col in self.nest.tile:
            return False
        if "lone_column" not in self.nest.schemes:
            return False
        n = self.nest.extent[self.s.col]
        if self.wide:
            n = times(self.nest.extent[self.wide], n) if self.wide not in self.nest.tile else None
        if not isinstance(n, int) or not lone_column(n, self.nr, self.lanes):
            return False
        return self.width == -(-(n - (n - 1) // self.nr * self.nr) // self.lanes)

    def _streamed(self, k: int, mr: int) -> list[str]:
        """What to ask for of a panel that one tile of rows reads in passing, PAGES on: processors foresee addresses within a page.
        Products of fewer rows than BUSY leave no time for it beside their loads."""
        once = "prefetch" in self.nest.schemes and not self._ahead() and mr >= BUSY
        return [f"b{k} + {PAGES + i}" for i in range(0, self.nr, LINE)] if once else []

    def _ahead(self) -> int:
        """Floats of the next panel to ask for at a step of depth, so that all of it is near when its turn comes, and no more come
        at a time than the tiles of rows leave time for: a burst would take the few lines that may be under way from the product. 0
        where one tile of rows reads the panel in passing."""
        if "prefetch" not in self.nest.schemes:
            return 0
        rows = self.rows() if self.s.row and self.nest.tile.get(self.s.row) != 1 else 1
        around = [size(self.nest, x) for x in self.s.inner if self.nest.tile.get(x) != 1 and x != self.tall]
        tiles = -(-rows // self.mr) * prod(n if isinstance(n, int) else 1 for n in around) if isinstance(rows, int) else self.nv
        part = -(-self.nr // tiles)
        return 0 if tiles == 1 else part if part < LINE else -(-part // LINE) * LINE

    def _steps_of_depth(self, k: int, m: Stmt, regs: list[list[str]], count: str, cells: list[str], *ahead: str) -> None:
        """The innermost loop: one row of the panel against one element of each row; `cells`: their C text; `ahead`: what to
        ask for in advance. One that is LONG, or may be, is folded after every PART steps."""
        p, steps = self.p, prod(n if isinstance(n, int) else LONG for n in (self.nest.extent[x] for x in self.s.depth))
        if steps < LONG or self.part or not self.kind.is_float or (count.isdigit() and int(count) < LONG):
            self._some_steps(k, m, regs, ("0", count), cells, *ahead)
            return
        every = [r for line in regs for r in line]
        p.w(f"vf kept{k}[{len(every)}] = {{0}};")
        with p.block(f"for (long kk_p = 0; kk_p < {count}; kk_p += {PART})"):
            self._some_steps(k, m, regs, ("kk_p", f"ac_min(kk_p + {PART}, {count})"), cells, *ahead)
            p.w(" ".join(f"kept{k}[{i}] += {r}, {r} = (vf){{0}};" for i, r in enumerate(every)))
        p.w(" ".join(f"{r} = kept{k}[{i}];" for i, r in enumerate(every)))

    def _some_steps(self, k: int, m: Stmt, regs: list[list[str]], span: tuple[str, str], cells: list[str], *ahead: str) -> None:
        p = self.p
        with p.block(f"for (long kk = {span[0]}; kk < {span[1]}; kk++)"):
            self._step_of_depth(k, m, regs, cells, *ahead)

    def _step_of_depth(self, k: int, m: Stmt, regs: list[list[str]], cells: list[str], *ahead: str) -> None:
        p, kind = self.p, self.kind
        v = kind.vector
        alone, last = self._alone(len(regs)), self.width - 1
        col, ends = self.s.col, self._ends_in_part(m)

        def load(j: int) -> str:
            if alone and j == last:
                return f"vi_set(b{k}[{j * self.lanes}])"
            at = f"b{k} + {j * self.lanes}"
            return f"vf_load_n({at}, ac_min({self.lanes}, {col}_n - {j * self.lanes}))" if ends and j == last else f"{v}_load({at})"

        p.w(f"const {v} " + ", ".join(f"v{j} = {load(j)}" for j in range(self.width)) + ";")
        p.w(f"b{k} += {self.step(self.packed(m))};")
        for at in ahead:
            p.ask_for(f"{at}, 0, {2 if at.startswith('next') else 3}")
        if kind.turned:
            text = " ".join(kind.step(f"under{j}", "x", f"v{j}") for j in range(self.width))
            p.w(f"{{ const vi x = vi_set((int32_t)0x80808080u); {text} }}")
        if alone:
            p.w(f"{{ const vi x = vi_load_n(a{k} + kk*{len(regs)}, {len(regs)}); {kind.step(f'lone{k}', 'x', f'v{last}')} }}")
        for line, cell in zip(regs, cells, strict=True):
            steps = [kind.step(r, "x", f"v{j}") for j, r in enumerate(line) if not (alone and j == last)]
            p.w(f"{{ const {v} x = {v}_set({cell}); " + " ".join(steps) + " }")

    def _ends_in_part(self, m: Stmt) -> bool:
        """Is a factor read where it lies, whose last vector of columns has not all lanes?"""
        n = self.nest.extent[self.s.col]
        return self.packed(m) in self.direct and isinstance(n, int) and n % self.lanes > 0

    def _quads_of_depth(self, k: int, m: Stmt, regs: list[list[str]], length: str, step_row: str) -> None:
        """Four steps of depth at a time, where the broadcast factor lies; then those that are left."""
        p, top = self.p, " ^ (int32_t)0x80808080u" if self.kind.turned else ""
        at = [f"a{k} + 4*kk" + (f" + {i}*{step_row}" if i and step_row != "0" else "") for i in range(len(regs))]
        if length.isdigit() and int(length) % 4 == 0:
            self._some_steps(k, m, regs, ("0", str(int(length) // 4)), [f"ac_quad({x}){top}" for x in at])
            return
        p.w(f"const long steps{k} = {length};")
        self._some_steps(k, m, regs, ("0", f"steps{k}/4"), [f"ac_quad({x}){top}" for x in at])
        with p.block(f"if (steps{k} % 4)"):
            p.w(f"const long kk = steps{k}/4;")
            self._step_of_depth(k, m, regs, [f"ac_quad_n({x}, steps{k} % 4){top}" for x in at])

    def _fused(self, a: str) -> tuple[str, ...]:
        """The last reduced axes that `a` walks as one: each step of an outer one is a whole run of the next."""
        depth, n = self.s.depth, min(1, len(self.s.depth))
        while n < len(depth):
            outer, inner = depth[-n - 1], depth[-n]
            step, extent = stride_of(self.nest, a, inner), self.nest.extent[inner]
            if a not in self.nest.views or not self.whole(inner) or not isinstance(step, int) or not isinstance(extent, int):
                break
            if stride_of(self.nest, a, outer) != step * extent or extent % self.kind.group:
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
            return tuple(factor(f.stride(x)) if x else "0" for x in axes)  # type: ignore[return-value, arg-type]
        place = self.p.places[a]
        names = [n for n, _ in place.shape]
        return tuple(self.p._stride(place, x) if x in names else "0" for x in axes)  # type: ignore[return-value]

    def _address(self, a: str, at: dict[str, str]) -> str:
        if a in self.nest.views:
            v = self.nest.views[a]
            return f"{v.pointer}[{v.flat.text({x: t for x, t in at.items() if x})}]"
        place = self.p.places[a]
        return f"{a}[{self.p.offset(place, at) or '0'}]" if place.is_array else a

    def _ctype(self, a: str) -> str:
        d = self.nest.dtype_of(a)
        assert isinstance(d, DType)
        return CTYPE[d.name] if a in self.nest.views else CTYPE[working(d).name]

    def _scalar(self, a: str, text: str) -> str:
        d = self.nest.dtype_of(a)
        assert isinstance(d, DType)
        return f"s_from_{d.name}({text})" if d in SHORT_FLOATS and a in self.nest.views else text

    # ---- results
    def _vector(self, j: int, body) -> None:  # type: ignore[no-untyped-def]
        """Print `body` for a full vector of columns and, where there can be one, for a part of one."""
        p, col = self.p, self.s.col
        p.vector = col
        e = size(self.nest, col)
        if self.wide:
            whole = times(self.nest.extent[self.wide], self.nest.extent[col])
            full = self.wide not in self.nest.tile and isinstance(whole, int) and whole % self.nr == 0 and self.cols == self.nr
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
                if s.dst in self.beside:
                    p.w(f"rows_{s.dst}[{i}] = {read(s.srcs[0])};")
                elif s.op == "store":
                    p.store(s, read)
                else:
                    text = Vector(read, p.vector or "").text(s.expr)  # type: ignore[arg-type]
                    if p.places[s.dst].is_array:
                        p.assign(s.dst, text)
                    else:
                        local[s.dst] = f"e_{s.dst}"
                        p.w(f"const {kind_of(p.dtype(s.dst))} e_{s.dst} = {text};")

        self._vector(j, body)


def print_contraction(p: Printer, c: Contraction) -> None:
    """Print the node (its shape was found when the tree was built)."""
    s = shape_of(p.nest, c)
    assert s is not None
    printer = ContractionPrinter(p, c, s)
    fitting = printer.fitting()
    if fitting is None:
        printer.print()
        return
    p.applied.add("byte_pairs")
    (constant,) = printer.ready
    with p.block(f"if (((const int32_t *){p.nest.views[constant].pointer})[{printer.elements(constant)}])"):
        fitting.print()
    with p.block("else"):
        printer.print()


def in_groups(lengths: list[str], kind: Arithmetic) -> list[str]:
    """C texts of the lengths of reduced axes, the last one in rows of a panel."""
    if kind.group == 1 or not lengths:
        return lengths
    return [*lengths[:-1], f"({lengths[-1]} + {kind.group - 1})/{kind.group}{f'*{kind.rows}' if kind.rows > 1 else ''}"]


def panel_elements(nest: Nest, c: Contraction, lanes: int, registers: int) -> str:
    """Elements of the panels that one contraction packs as it runs, C text; "" for none."""
    s = shape_of(nest, c)
    assert s is not None
    t = tiling_of(nest, c, s, lanes, registers)
    fresh = sum(not set(m.srcs) & (t.ready | t.direct) - {s.a} for m in c.mmas)
    lengths = in_groups([str(nest.extent[x] if whole(nest, c, x) else nest.tile[x]) for x in s.depth], arithmetic(nest, c, s))
    slack = f" + {lanes}" if staged(nest, c, s) else ""  # of a row's last vector
    return "*".join([f"(size_t){fresh}", *(f"(size_t)({x})" for x in lengths), str(t.vectors * lanes)]) + slack if fresh else ""


def word_elements(nest: Nest, c: Contraction, lanes: int, registers: int) -> int:
    """Words of the buffer that one contraction reads windows of bytes from, 0 for none."""
    s = shape_of(nest, c)
    assert s is not None
    if (w := staged(nest, c, s)) is None:
        return 0
    t = tiling_of(nest, c, s, lanes, registers)
    behind = (t.vectors + 1) * lanes * max(x.step for x in w.lines)  # vectors of the last panel that hold no columns are read too
    if t.wide:
        line = int(nest.extent[s.col])  # type: ignore[call-overload]
        behind += (t.vectors * lanes // line + 2 + turns(line, lanes)) * w.apart(t.wide)
    return w.elements + behind


def aside_elements(nest: Nest, c: Contraction, lanes: int, registers: int) -> int:
    """Elements of the sums that one contraction puts aside, 0 for none."""
    s = shape_of(nest, c)
    assert s is not None
    t = tiling_of(nest, c, s, lanes, registers)
    return tile_sums(nest, s, t.vectors * lanes) if t.part else 0


def copied_elements(nest: Nest, c: Contraction) -> int:
    """Words of the rows that one contraction copies as pairs, 0 for none."""
    s = shape_of(nest, c)
    assert s is not None
    if not arithmetic(nest, c, s).copied:
        return 0
    return int(size(nest, s.row)) * copied_row(int(nest.extent[s.depth[0]]))  # type: ignore[call-overload]
