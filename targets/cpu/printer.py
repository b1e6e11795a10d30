"""Loop trees -> C: one printer a node. Vectors run over the axis that the tree chose; what is left over runs element by element."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from autocomp.targets.cpu.contraction import aside_elements, copied_elements, panel_elements, print_contraction, word_elements
from autocomp.targets.cpu.element_loops import takes_long
from autocomp.targets.cpu.expressions import CTYPE, literal, scalar_function, working
from autocomp.targets.cpu.flat import Coef
from autocomp.targets.cpu.index_set_split import ranges
from autocomp.targets.cpu.interior import interior
from autocomp.targets.cpu.lower import Nest, reads
from autocomp.targets.cpu.storage import STACK, Place, extent_in_tile
from autocomp.targets.cpu.tree import Contraction, Node, Point, Tiles, contractions, points, statements
from autocomp.targets.cpu.unroll_and_jam import FIRST_CACHE, SPAN, Rows, columns_at_once, rows_at_once
from autocomp.targets.cpu.vectors import FOLDS, kind_of, vector_of

from autocomp.cost.cores import FEW
from autocomp.ir.affine import Aff
from autocomp.ir.monoids import identity
from autocomp.options import Options
from autocomp.tile.program import Stmt

CHAINS = 4  # independent partial results of a vector reduction: hides the latency of one add (4 cycles on current cores)


class Printer(Rows):
    """Prints the body of one kernel."""

    def __init__(self, nest: Nest, tree: Sequence[Node], lanes: int, registers: int = 16,
                 options: Options = Options()) -> None:  # noqa: B008  # fmt: skip
        super().__init__(nest, tree)
        self.nest: Nest = nest
        self.tree, self.lanes, self.registers, self.parallel = tree, lanes, registers, options.parallel_outer
        self.most_chains = min(CHAINS, options.unroll_factor)
        self.chains = self.most_chains if "expand_accumulators" in nest.schemes else 1  # of a long reduction's partial results
        self.row: str | None = None  # axis of the loop around passes over rows
        self.ahead: dict[int, list[str]] = {}  # vector loop -> addresses to ask for
        self.started: set[int] = set()
        self.heap: list[tuple[str, str, str]] = []
        self.applied: set[str] = set()  # directives that changed a line

    def wants(self, directive: str, possible: bool = True) -> bool:
        """Whether the schedule asks for a scheme that is `possible` here; it has taken effect then."""
        found = possible and directive in self.nest.schemes
        if found:
            self.applied.add(directive)
        return found

    # ---- the kernel
    def body(self) -> list[str]:
        self.heap = self._heap()
        if self.tiled is not None:
            self._take_heap()
            if self.heap:
                self.w(f"if ({self._lacking()}) __atomic_store_n(&ac_k->lacks, {self._heap_bytes()}, __ATOMIC_RELAXED);")
            self.shared_tiles(self.tiled)
            self._give_heap()
            return self.lines
        if self.heap:
            self.w("long ac_lacks = 0;")
            self._take_heap()
            self.w(f"if ({self._lacking()}) ac_lacks = {self._heap_bytes()};")
            with self.block("else"):
                self.nodes(self.tree, 0)
            self._give_heap()
        else:
            self.nodes(self.tree, 0)
        if self.heap:
            self.w("return ac_lacks;")
        return self.lines

    def _heap(self) -> list[tuple[str, str, str]]:
        """(name, C type, elements) of arrays that are too large, or of unknown size, for the stack."""
        out = []
        for name, p in sorted(self.places.items()):
            if (p.is_array and not isinstance(self._bytes(name, p), int)) or (p.is_array and self._bytes(name, p) > STACK):  # type: ignore[operator]
                out.append((name, CTYPE[working(self.dtype(name)).name], self._elements(name, p)))
        sizes = sorted({panel_elements(self.nest, c, self.lanes, self.registers) for c in contractions(self.tree)} - {""})
        if sizes:
            most = sizes[0]
            for s in sizes[1:]:
                most = f"({most} > {s} ? {most} : {s})"
            out.append(("panels", "float", most))
        if sums := max((aside_elements(self.nest, c, self.lanes, self.registers) for c in contractions(self.tree)), default=0):
            out.append(("sums", "float", str(sums)))
        if words := max((word_elements(self.nest, c, self.lanes, self.registers) for c in contractions(self.tree)), default=0):
            out.append(("words", "int32_t", str(words)))
        if copied := max((copied_elements(self.nest, c) for c in contractions(self.tree)), default=0):
            out.append(("copied", "int32_t", str(copied)))
        return out

    def _bytes(self, name: str, p: Place) -> int | str:
        n = 1
        for _, e in p.shape:
            if not isinstance(e, int):
                return "?"
            n *= e
        return n * working(self.dtype(name)).bytes

    def _elements(self, name: str, p: Place) -> str:
        slack = self.slack(name)
        return "*".join(f"(size_t)({e})" for _, e in p.shape) + (f" + {slack}" if slack else "")

    def _take_heap(self) -> None:
        for name, ctype, n in self.heap:
            self.w(f"{ctype} *restrict {name} = ac_alloc(({n})*sizeof({ctype}));")
            if name in self.nest.buffers:
                self._end(name, self.places[name], f"if ({name}) ")

    def _end(self, name: str, p: Place, where: str = "") -> None:
        """What lanes behind a buffer's last element read is a number."""
        if slack := self.slack(name):
            size = "*".join(f"({e})" for _, e in p.shape)
            self.w(f"{where}memset(&{name}[{size}], 0, {slack}*sizeof(*{name}));")

    def _give_heap(self) -> None:
        for name, _, _ in self.heap:
            self.w(f"free({name});")

    def _lacking(self) -> str:
        """C text of whether a thread has not all of its arrays."""
        return " || ".join(f"!{name}" for name, _, _ in self.heap)

    def _heap_bytes(self) -> str:
        return " + ".join(f"({n})*sizeof({ctype})" for _, ctype, n in self.heap)

    # ---- nodes
    def nodes(self, nodes: Sequence[Node], home: int) -> None:
        self._declare(home)
        self._foresee(nodes)
        for n in nodes:
            if isinstance(n, Stmt):
                self.each_row(lambda n=n: self.statement(n))  # type: ignore[misc]
            elif isinstance(n, Tiles):
                self.tiles(n)
            elif isinstance(n, Point):
                self.point(n)
            else:
                self.contraction(n)

    def _foresee(self, nodes: Sequence[Node]) -> None:
        """Passes over a row after the first one ask for the row that comes next, and the pass before the one that stores asks for the
        lines it writes: memory is busy while they compute."""
        if self.row is None or "prefetch" not in self.nest.schemes:
            return
        seen: set[str] = set()
        before: Point | None = None
        for n in nodes:
            if not isinstance(n, Point):
                continue
            read = {x for s in statements(n.body) for x in reads(s) if x in self.nest.views or x in self.places}
            stored = {s.dst for s in statements(n.body) if s.op == "store"}
            for x in sorted(read & seen) if n.vector else ():
                if at := self._row_of(x, n, 1):
                    self.ahead.setdefault(id(n), []).append(f"{at}, 0, 3")
            for x in sorted(stored) if before is not None and n.vector and before.axis == n.axis else ():
                if at := self._row_of(x, n, 0):
                    self.ahead.setdefault(id(before), []).append(f"{at}, 1, 3")
            before, seen = n if n.vector else None, seen | read

    def ask_for(self, at: str) -> None:
        """A line of memory, before it is used (directive `prefetch`)."""
        self.applied.add("prefetch")
        self.w(f"__builtin_prefetch({at});")

    def _row_of(self, x: str, n: Point, on: int) -> str:
        """C text of the address `on` rows on in a tensor or in an array that the first cache does not hold, where the loop `n` begins a
        step; "" where rows are not alike, or where loops inside of `n` choose among several addresses."""
        assert self.row is not None
        after = {self.row: f"({self.row} + {on})"} if on else {}
        inside = {p.axis for p in points(n.body)}
        if x in self.nest.views:
            v = self.nest.views[x]
            if v.guard or v.flat.names() & inside or v.flat.stride(n.axis) != 1:
                return ""
            along = v.flat.stride(self.row)
            return f"&{v.pointer}[{v.flat.text(after)}]" if isinstance(along, int) and along else ""
        p, size = self.places[x], self._bytes(x, self.places[x])
        axes = [a for a, _ in p.shape]
        far = (not isinstance(size, int) or size > FIRST_CACHE) and not inside & set(axes)
        return f"&{x}[{self.offset(p, after)}]" if p.is_array and far and self.row in axes and axes[-1] == n.axis else ""

    def contraction(self, c: Contraction) -> None:
        print_contraction(self, c)

    def _declare(self, home: int) -> None:
        on_heap = {h[0] for h in self.heap}
        for name, p in sorted(self.places.items()):
            if p.home != home or name in on_heap:
                continue
            ctype = CTYPE[working(self.dtype(name)).name]
            if p.is_array:
                self.w(f"{ctype} {name}[{self._elements(name, p).replace('(size_t)', '')}] __attribute__((aligned(64)));")
                self._end(name, p)
            elif self.vector is not None and self.vector in self.nest.slots[name].axes:
                self.w(f"{kind_of(self.dtype(name))} {self.in_rows(name)};")
            else:
                self.w(f"{ctype} {self.in_rows(name)};")

    @property
    def tiled(self) -> Tiles | None:
        """The loop over tiles that threads share; None where one goes through the kernel alone."""
        only = self.tree[0] if len(self.tree) == 1 else None
        if not isinstance(only, Tiles) or only.loop.kind != "grid" or not self.parallel:
            return None
        return only if self.number_of_tiles(only) != "1" else None

    def number_of_tiles(self, n: Tiles) -> str:
        """C text of the number of a loop's tiles."""
        counts = [self._tiles_along(a) for a in n.loop.axes]
        whole = prod(c for c in counts if isinstance(c, int))
        return "*".join([*(c for c in counts if isinstance(c, str)), *([str(whole)] if whole != 1 else [])]) or "1"

    def _tiles_along(self, axis: str) -> int | str:
        t, e = self.nest.tile[axis], self.nest.extent[axis]
        return -(-e // t) if isinstance(e, int) else f"(({e} + {t - 1})/{t})" if t > 1 else f"({e})"

    def shared_tiles(self, n: Tiles) -> None:
        """The tiles that a thread takes, each by its number."""
        with self.block("for (long ac_i; (ac_i = ac_take(ac_from)) >= 0;)"):
            if self.heap:  # without them a thread goes through its share of the loop all the same: nobody else takes it
                self.w(f"if ({self._lacking()}) continue;")
            axes = n.loop.axes
            for i, a in reversed(list(enumerate(axes))):
                t, count = self.nest.tile[a], self._tiles_along(a)
                number = "ac_i" if i == 0 else f"ac_i % {count}"
                self.w(f"const long {self.base(a) if t != 1 else a} = {number}{f' * {t}' if t != 1 else ''};")
                if i:
                    self.w(f"ac_i /= {count};")
            self.nodes(n.body, id(n))

    def tiles(self, n: Tiles) -> None:
        axes = n.loop.axes
        for a in axes:
            t, e = self.nest.tile[a], self.nest.extent[a]
            self.w(
                f"for (long {self.base(a)} = 0; {self.base(a)} < {e}; {self.base(a)} += {t}) {{"
                if t != 1
                else f"for (long {a} = 0; {a} < {e}; {a}++) {{"
            )
            self.depth += 1
        self.nodes(n.body, id(n))
        for _ in axes:
            self.depth -= 1
            self.w("}")

    def bounds(self, axis: str) -> tuple[str, str]:
        """First and one-past-last index of an axis inside the current tile. A tile of one step has the axis's own variable."""
        t = self.nest.tile.get(axis)
        if t is None:
            return "0", str(self.nest.extent[axis])
        if t == 1:
            return axis, f"{axis} + 1"
        e = self.nest.extent[axis]
        end = f"{self.base(axis)} + {t}"
        exact = isinstance(e, int) and e % t == 0
        return self.base(axis), end if exact else f"ac_min({end}, {e})"

    def point(self, n: Point) -> None:
        lo, hi = self.bounds(n.axis)
        rows = 0 if self.rows else rows_at_once(self.nest, self.places, n)
        if self.wants("unroll_and_jam", rows > 0):
            self._jam(n, lo, hi, rows)
            return
        mine = [s for s in statements(n.body) if s.op == "reduce" and n.axis in s.axis.split(",") and id(s) not in self.started]
        extent, folds = extent_in_tile(self.nest, n.axis), self._folds(n)
        # windows, whose rows may run side by side elsewhere, are added up in order everywhere
        least = SPAN + 1 if "unroll_and_jam" in self.nest.schemes else 4 * self.most_chains
        long = folds and (not isinstance(extent, int) or extent >= least)
        held = [s for s in folds if s in mine and not s.acc and self.lanewise(s.dst) and self.places[s.dst].is_array]
        held = [] if n.vector or long or self.rows else held
        for s in mine:
            if s in held:
                zero = self.constant(identity(str(s.expr), self.dtype(s.dst)), self.dtype(s.dst))
                self.w(f"{kind_of(self.dtype(s.dst))} {s.dst}_{n.axis} = {zero};")
            elif not s.acc:
                zero = self.constant(identity(str(s.expr), self.dtype(s.dst)), self.dtype(s.dst))
                kept = s.dst in self.places and self.places[s.dst].is_array  # of elements, each row has its own
                self.each_row(lambda s=s, zero=zero: self.assign(s.dst, zero), alike=not kept)  # type: ignore[misc]
        self.started |= {id(s) for s in mine}
        scans = [s for s in statements(n.body) if s.op == "scan" and s.axis == n.axis]
        for s in scans:
            d = self.dtype(s.dst)
            kind = kind_of(d) if self.vector is not None else CTYPE[self.carried_as(s).name]
            begin = lambda s=s, kind=kind, d=d: self.w(f"{kind} {self.so_far(s)} = {self.constant(identity(str(s.expr), d), d)};")
            self.each_row(begin, alike=True)
        if n.vector and self.vector is None:
            self._vector_point(n, lo, hi, [s for s in statements(n.body) if s.op == "reduce" and n.axis in s.axis.split(",")])
        else:
            outside, self.row = self.row, None if n.vector else n.axis
            if long:
                self._in_parts(n, lo, hi, folds)
            else:
                back = scans and n.axis in self.nest.backwards
                head = f"{n.axis} = {hi} - 1; {n.axis} >= {lo}; {n.axis}--" if back else f"{n.axis} = {lo}; {n.axis} < {hi}; {n.axis}++"
                with self.folding({s.dst: f"{s.dst}_{n.axis}" for s in held}), self.block(f"for (long {head})"):
                    self.nodes(n.body, id(n))
                for s in held:
                    self.assign(s.dst, f"{s.dst}_{n.axis}")
            self.row = outside
        self.started -= {id(s) for s in mine}

    def _jam(self, n: Point, lo: str, hi: str, rows: int) -> None:
        """A loop in steps of so many rows, and one over those that are left."""
        a = n.axis
        with self.block(""):
            self.w(f"long {a} = {lo};")
            with self.block(f"for (; {a} + {rows} <= {hi}; {a} += {rows})"), self.side_by_side(a, rows):
                self.nodes(n.body, id(n))
            if int(extent_in_tile(self.nest, a)) % rows:  # type: ignore[arg-type]
                with self.block(f"for (; {a} < {hi}; {a}++)"):
                    self.nodes(n.body, id(n))

    def _folds(self, n: Point) -> list[Stmt]:
        """The reductions over the axis of a loop, if each folds floats into one place that nothing else in the loop reads; else none."""
        below = list(statements(n.body))
        folds = [s for s in below if s.op == "reduce" and n.axis in s.axis.split(",")]
        for s in folds:
            moves = {x.axis for x in points(n.body)} & set(self.nest.slots[s.dst].axes)
            used = any(s.dst in (t.dst, *reads(t)) for t in below if t is not s)
            if moves or used or str(s.expr) not in FOLDS or not self.dtype(s.dst).is_float:
                return []
        return folds if all(isinstance(x, (Stmt, Point)) for x in (*n.body, *(y for x in points(n.body) for y in x.body))) else []

    def _in_parts(self, n: Point, lo: str, hi: str, folds: list[Stmt]) -> None:
        """A long loop of folds, SPAN steps at a time into places of their own: the error of a sum grows with the parts and with the
        steps of one, not with all steps. Where steps are short, several places take turns and none waits for the one before."""
        a = n.axis
        chains = self.chains if all(isinstance(x, Stmt) and not takes_long(x) for x in n.body) else 1
        names = {s.dst: [f"{s.dst}_{a}{c}" for c in range(chains)] for s in folds}
        with self.block(f"for (long {a}_part = {lo}; {a}_part < {hi}; {a}_part += {SPAN})"):
            self.w(f"const long {a}_stop = ac_min({a}_part + {SPAN}, {hi});")
            self.w(f"long {a} = {a}_part;")
            for s in folds:
                d, lanes = self.dtype(s.dst), self.lanewise(s.dst)
                text = literal(identity(str(s.expr), d), d)
                zero = vector_of(text, working(d)) if lanes else text
                each = [y for x in names[s.dst] for y in self.in_rows(x).split(", ")]
                self.w(f"{kind_of(d) if lanes else CTYPE[working(d).name]} {', '.join(f'{x} = {zero}' for x in each)};")
            if chains > 1:
                self.applied.add("expand_accumulators")
                with self.block(f"for (; {a} + {chains} <= {a}_stop; {a} += {chains})"):
                    for c in range(chains):
                        with self.folding({x: parts[c] for x, parts in names.items()}), self.block(""):
                            self.w(f"const long {a}_here = {a} + {c};")
                            with self.block(f"for (long {a} = {a}_here, once = 1; once; once = 0)"):
                                self.nodes(n.body, id(n))
            with self.folding({x: parts[0] for x, parts in names.items()}), self.block(f"for (; {a} < {a}_stop; {a}++)"):
                self.nodes(n.body, id(n))
            for s in folds:
                self.each_row(lambda s=s: self._meet(s, names[s.dst]))  # type: ignore[misc]

    def _meet(self, s: Stmt, parts: Sequence[str]) -> None:
        """Partial results go into the place that is folded into."""
        so_far = self.vector_read(s.dst) if self.lanewise(s.dst) else self.element(s.dst)
        total, *others = [self.in_rows(x).split(", ")[self.this_row] for x in parts]
        for x in others:
            total = self.fold(s, total, x)
        self.assign(s.dst, self.fold(s, so_far, total))

    def _vector_point(self, n: Point, lo: str, hi: str, folds: list[Stmt]) -> None:
        parts = ranges(self.nest, n)
        parts = parts if self.wants("index_set_split", bool(parts)) else []
        for first, end in parts:
            self.within = {n.axis: (first, end - 1)}
            self._vector_loop(n, str(first), str(end), folds, end - first)
            self.within = {}
        if not parts:
            self._vector_loop(n, lo, hi, folds, extent_in_tile(self.nest, n.axis))

    def _vector_loop(self, n: Point, lo: str, hi: str, folds: list[Stmt], extent: Coef) -> None:
        a, step = n.axis, self.lanes
        self.w("{")
        self.depth += 1
        self.w(f"long {a} = {lo};")
        full = not isinstance(extent, int) or extent >= step
        rest = not isinstance(extent, int) or extent % step or (a in self.nest.tile and not self._exact(a))
        part = rest and (not isinstance(extent, int) or extent >= FEW)
        chains = self.chains if folds and (not isinstance(extent, int) or extent >= 2 * self.chains * step) else 1
        if full or part:
            self.w(f"const long {a}_end = {hi};")
            hi = f"{a}_end"
            for s in folds:
                d = self.dtype(s.dst)
                for c in range(chains):
                    self.w(f"{kind_of(d)} {s.dst}_v{c} = {vector_of(literal(identity(str(s.expr), d), d), d)};")
        if full:
            self.vector = a
            if not self.rows and id(n) not in self.ahead and isinstance(extent, int) and self._columns(n, extent):
                self.vector = None
                self.depth -= 1
                self.w("}")
                return
            if folds and (not isinstance(extent, int) or extent > SPAN * chains * step):
                self._vectors_in_parts(n, folds, chains)
            elif chains > 1:
                self._in_chains(n, hi, chains)
            with self.block(f"for (; {a} + {step} <= {hi}; {a} += {step})"):
                self._vectors(n)
            self.vector = None
        if part:
            self._part_of_vector(n, hi)
        if full or part:
            for s in folds:
                total, d = f"{s.dst}_v0", self.dtype(s.dst)
                for c in range(1, chains):
                    total = self.combine(str(s.expr), total, f"{s.dst}_v{c}", kind_of(d))
                fold = f"{kind_of(d)}_h{s.expr}({total})"
                self.assign(s.dst, scalar_function(str(s.expr), [self.element(s.dst), fold], working(d)))
        if rest and not part:
            with self.block(f"for (; {a} < {hi}; {a}++)"):
                self.nodes(n.body, id(n))
        self.depth -= 1
        self.w("}")

    def _columns(self, n: Point, extent: int) -> bool:
        """All of a loop over columns, several vectors at a time; False, and nothing is printed, where there is one, or they may not."""
        a, step = n.axis, self.lanes
        most = columns_at_once(self.nest, self.places, n, self.registers // (2 * self.most_chains))
        vectors = -(-extent // step)
        if not self.wants("jam_columns", most > 0 and vectors > 1):
            return False
        full = extent // (most * step)
        if full:
            with self.block(f"for (; {a} + {most * step} <= {a}_end; {a} += {most * step})"), self.side_by_side(a, most, step):
                self.nodes(n.body, id(n))
        last = int(self.nest.extent[a]) % extent if a in self.nest.tile else 0  # type: ignore[call-overload]
        for columns in (extent, last) if last else (extent,):  # of a tile, and of the last one
            rest = -(-columns // step) - columns // (most * step) * most
            here = f"if ({a}_end - {self.bounds(a)[0]} == {columns})" if last else ""
            part = str(columns % step) if columns % step else ""
            if rest:
                with self.block(here), self.side_by_side(a, rest, step, part):
                    self.nodes(n.body, id(n))
        return True

    def _in_chains(self, n: Point, end: str, chains: int) -> None:
        """The vectors of a reduction up to `end`, folded in turn into several partial results (directive `expand_accumulators`)."""
        if chains > 1:
            self.applied.add("expand_accumulators")
        a, step = n.axis, self.lanes
        with self.block(f"for (; {a} + {chains * step} <= {end}; {a} += {chains * step})"):
            for c in range(chains):
                self.chain = c
                with self.block(""):
                    if c:
                        self.w(f"const long {a}_first = {a};")
                    self.w(f"const long {a}_here = {a} + {c * step};")
                    self._shifted(n, a, f"{a}_here")
        self.chain = 0

    def _vectors_in_parts(self, n: Point, folds: list[Stmt], chains: int) -> None:
        """The same for a long axis: after SPAN vectors each, the partial results go into the first of another set."""
        a, size = n.axis, chains * self.lanes
        for s in folds:
            self.w(f"{kind_of(self.dtype(s.dst))} {s.dst}_all = {s.dst}_v0;")
        with self.block(f"while ({a} + {size} <= {a}_end)"):
            self.w(f"const long {a}_stop = ac_min({a}_end, {a} + {SPAN * size});")
            self._in_chains(n, f"{a}_stop", chains)
            for s in folds:
                fn, parts, total = str(s.expr), [f"{s.dst}_v{c}" for c in range(chains)], f"{s.dst}_all"
                for x in parts:
                    total = self.combine(fn, total, x, kind_of(self.dtype(s.dst)))
                self.w(f"{s.dst}_all = {total};")
                d = self.dtype(s.dst)
                self.w(" ".join(f"{x} = {vector_of(literal(identity(fn, d), d), d)};" for x in parts))
        for s in folds:
            self.w(f"{s.dst}_v0 = {s.dst}_all;")

    def _part_of_vector(self, n: Point, hi: str) -> None:
        """What is left of an axis, as the first lanes of one vector."""
        with self.block(f"if ({n.axis} < {hi})"):
            self.w(f"const long left = {hi} - {n.axis};")
            self.vector, self.part = n.axis, "left"
            self._vectors(n)
            self.vector, self.part = None, ""

    def _exact(self, a: str) -> bool:
        e, t = self.nest.extent[a], self.nest.tile[a]
        return isinstance(e, int) and e % t == 0 and t % self.lanes == 0

    def _shifted(self, n: Point, axis: str, name: str) -> None:
        """The body with the axis's variable shadowed by its shifted value."""
        with self.block(f"for (long {axis} = {name}, once = 1; once; once = 0)"):
            self._vectors(n)

    def _vectors(self, n: Point) -> None:
        for at in self.ahead.get(id(n), ()):
            self.ask_for(at)
        whole, rows, last = self.nest, self.rows, {n.axis: Aff.of(n.axis) + (Aff.of(self.part) if self.part else self.lanes) - 1}
        if rows:
            last[rows[0]] = Aff.of(rows[0]) + rows[1] - 1
        if not (inside := interior(whole, n, last)):
            self.nodes(n.body, id(n))
            return
        condition, plain = inside
        self.applied.add("unmask_interior")
        with self.block(f"if ({condition})"):
            self.nest = plain
            self.nodes(n.body, id(n))
            self.nest = whole
        with self.block("else"), self.row_by_row():
            self.nodes(n.body, id(n))
