"""Where every value of a tile program lies: layouts of fragments, shared memory of blocks, the instruction of each contraction.

Strict layouts come first (accumulators, from the instruction), then common ones (a value takes the layout of a value with its
axes, or that one's projection), then free ones by access pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import prod

from autocomp.targets.simt.access import VECTOR_BYTES, access_width, contiguous_axis, nearest_axis, vector_width
from autocomp.targets.simt.direct import place_direct
from autocomp.targets.simt.peel_tail import peeled
from autocomp.targets.simt.placed import WIDE, WORD, Placement, Product, Shared, tile_of
from autocomp.targets.simt.strips import slid, strip_of

from autocomp.cost.derived import constant
from autocomp.errors import UnsupportedOp
from autocomp.ir.types import same_number, widens
from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Digit, Layout, free_layout, split
from autocomp.tile.program import Buf, Stmt, Tensor, TileProgram, walk

HELD = int(constant("held_results"))  # of a product, by a thread, before waves share the rows
ALIGN = int(constant("shared_align"))
SPARED = 0.8  # of the elements that threads hold with padding, for which accesses of half the width are taken


def place(p: TileProgram, instructions: Sequence[Instruction], plain: Instruction, threads: int, wave: int, stages: int,
          cluster: int = 1, asked: str = "", strips: bool = False, counted: bool = False, peel: bool = False) -> Placement:  # fmt: skip
    """Places for all values. `threads`: of all blocks of a cluster, which share a tile through reductions only. `asked`:
    the schedule's word for the instruction. `strips`: windows of a thread overlap, and what they share is loaded once. `counted`: as in
    `Placement`. `peel`: tails are peeled.

    Raises UnsupportedOp where a layout would have to be converted or an axis cannot be tiled so.
    """
    empty = lambda: Placement(threads, wave, stages, cluster=cluster, counted=counted, peeled=peeled(p, threads) if peel else frozenset(),
                              ends=peel)  # fmt: skip
    placer = Placer(p, instructions, plain, empty(), asked, strips)
    out = placer.run()
    if placer.lies_along and not out.strips:  # for strips that no thread reads
        out = Placer(p, instructions, plain, empty(), asked).run()
    if cluster > 1 and (out.shared or out.staged):
        raise UnsupportedOp(f"{', '.join((*out.shared, *out.staged))} in shared memory, which the blocks of a cluster have each their own",
                            where=f"kernel {p.name}", hint="use clusters for reductions of what registers hold")  # fmt: skip
    return out


class Placer:
    """The passes of `place`; a target with other operand stores or instructions overrides `instruction`, `waves`, `operand`."""

    def __init__(self, p: TileProgram, instructions: Sequence[Instruction], plain: Instruction, out: Placement,
                 asked: str = "", strips: bool = False) -> None:  # fmt: skip
        self.asked, self.strips = asked, strips
        self.lies_along = False  # whether a layout is another so that threads have neighbouring windows
        self.p, self.instructions, self.plain, self.out = p, instructions, plain, out
        self.bufs = {b.name: b for b in p.bufs}
        self.extended = {b.name: frozenset(x for x in b.axes if self.size(x) > 1) for b in p.bufs}
        self.stmts = [s for s, _ in walk(p.body)]
        out.once = frozenset(s.dst for s, loops in walk(p.body) if s.op == "copy" and all(x.kind == "grid" for x in loops))
        self.made = {s.dst: s for s in self.stmts if s.op in ("copy", "map", "reduce", "scan")}
        self.reduced = frozenset(a for s in self.stmts if s.op in ("reduce", "scan") for a in s.axis.lstrip("-").split(","))
        self.scanned = frozenset(s.axis.lstrip("-") for s in self.stmts if s.op == "scan")
        self.meeting = self.components()

    def components(self) -> dict[str, frozenset[str]]:
        """For each value those that threads must hold alike: they meet in maps and reductions. Products read their factors elsewhere, and
        a number that every thread reads lies with what it meets but brings nothing together."""
        found = {n: frozenset((n,)) for n in self.bufs}
        met = [[n for n in (s.dst, *s.srcs) if n in self.bufs] for s in self.stmts if s.op != "mma"]
        read = self.read_alike()
        for names in met:
            union = frozenset(x for n in names if n not in read for x in found[n])
            found |= dict.fromkeys(union, union)
        for names in met:
            for n in read.intersection(names):
                found[n] = found[n].union(*(found[x] for x in names))
        return found

    def read_alike(self) -> frozenset[str]:
        """Single numbers that come from memory, or from such ones. What a reduction makes is none: threads may each have a part of it, of
        the elements that are theirs."""
        makers: dict[str, list[Stmt]] = {}
        for s in self.stmts:
            makers.setdefault(s.dst, []).append(s)
        found = {n for n, made in makers.items() if n in self.bufs and not self.extended[n] and all(s.op in ("copy", "map") for s in made)}
        while out := {n for n in found for s in makers[n] if s.op == "map" and any(x in self.bufs and x not in found for x in s.srcs)}:
            found -= out
        return frozenset(found)

    def run(self) -> Placement:
        if (of_block := self.out.threads // self.out.cluster) % self.out.wave:
            raise self.refuse(f"{of_block} threads of a block are no whole number of waves of {self.out.wave}", "take a multiple of it")
        mmas = [s for s in self.stmts if s.op == "mma"]
        chained = any(self.depends(s.srcs[i], {m.dst for m in mmas if m is not s}) for s in mmas for i in (0, 1))
        self.wide = chained and any(map(self.too_wide, mmas))
        for s in mmas:
            self.product(s, chained)
        for b in self.p.bufs:
            computed = b.name in self.out.shared and self.out.shared[b.name].view is None
            if b.name not in self.out.layouts and (computed or b.name not in self.out.shared):
                self.fragment(b)
        if self.strips:
            self.read_as_strips()
        for name, layout in self.out.layouts.items():
            if (layout.lanes, layout.waves) != (self.out.wave, self.out.threads // self.out.wave):
                raise self.refuse(f"the layout of {name} ({layout}) is not over {self.out.threads} threads")
        return self.out

    def refuse(self, what: str, hint: str = "") -> UnsupportedOp:
        return UnsupportedOp(what, where=f"kernel {self.p.name}", hint=hint or "another schedule, or a rule, would have to keep them apart")

    def size(self, axis: str) -> int:
        return tile_of(self.p, axis)

    def depends(self, name: str, on: set[str]) -> bool:
        """Whether a value is computed from one of `on` through maps and copies (what a loop carries is computed from itself)."""
        seen, todo = {name}, [name]
        while todo:
            x = todo.pop()
            if x in on:
                return True
            new = [y for y in (self.made[x].srcs if x in self.made else ()) if y in self.bufs and y not in seen]
            seen.update(new)
            todo += new
        return False

    # ---- strict
    def product(self, s: Stmt, chained: bool) -> None:
        a, b, c = (self.bufs[n] for n in (*s.srcs, s.dst))
        m = self.group(x for x in c.axes if x in a.axes and x not in b.axes) or (("m of 1", 1),)
        n = self.group(x for x in c.axes if x in b.axes and x not in a.axes) or (("n of 1", 1),)
        k = tuple((x, self.size(x)) for x, _ in self.group(x for x in a.axes if x in b.axes and x not in c.axes))
        batch = [x for x in c.axes if x in a.axes and x in b.axes]
        if any(self.size(x) > 1 for x in batch):
            raise self.refuse(f"batch axis {batch[0]} of a contraction has a tile of {self.size(batch[0])}", "tile batch axes by 1")
        k = self.by_contiguity(k, a, b)
        size = lambda group: prod(x for _, x in group)
        i = self.instruction(a, b, c, size(n))
        if i.load == "direct":
            self.out.products[s] = place_direct(self, s, i, m, n, k)
            return
        waves, i, repeat, layout = self.share_out(a, b, c, m, n, i, chained)
        if not i.call or i.load == "thread":
            rows, columns = (tuple((x, self.size(x)) for x, _ in g) if size(g) > 1 else g for g in (m, n))
            try:
                waves, i, repeat, layout = self.share_out(a, b, c, rows, columns, i, chained)
                m, n = rows, columns
            except UnsupportedOp:  # a digit would be cut: sizes stay padded
                pass
        if c.name in self.out.layouts and self.out.layouts[c.name] != layout:
            raise self.refuse(f"{c.name} would need two layouts")
        self.out.layouts[c.name] = layout
        for buf, outer in ((a, m), (b, n)):
            if not (buf.scope == "fragment" and self.matches(buf, layout, i, outer, k, buf is a)):
                self.operand(buf, outer, k, i)
        steps = -(-size(k) // i.k)
        made = self.out.products[s] = Product(s, i, m, n, k, (repeat[0], repeat[1]), waves, steps, layout, a.name, b.name)
        if not i.call or i.load == "thread":
            self.tell_apart(made)

    def share_out(self, a: Buf, b: Buf, c: Buf, m: tuple[tuple[str, int], ...], n: tuple[tuple[str, int], ...], i: Instruction,
             chained: bool) -> tuple[tuple[int, int], Instruction, tuple[int, int], Layout]:  # fmt: skip
        """How waves share a product's results, by which instruction, its repeats in a wave and the layout."""
        size = lambda group: prod(x for _, x in group)
        waves = self.waves(size(m), size(n), i, chained)
        if waves[1] > 1:
            i = self.instruction(a, b, c, -(-size(n) // waves[1]))
        column = max(i.n, i.k) if chained else i.n  # scores that become a factor must fill its steps in depth
        rows, columns = (max(1, -(-size(g) // (t * w)) * (t // u)) for g, t, u, w in ((m, i.m, i.m, waves[0]), (n, column, i.n, waves[1])))
        digits = [*i.c[0], Digit("n", i.n, columns), Digit("m", i.m, rows)]
        wave = [*i.wave, Digit("m", i.m * rows, waves[0]), Digit("n", i.n * columns, waves[1])]
        return waves, i, (rows, columns), Layout(*(self.on(level, m, n) for level in (digits, i.c[1], wave)))

    def tell_apart(self, p: Product) -> None:
        """Rows of a factor that the lanes of one thread-wise product read at once lie side by side, where only that product reads it; one
        that lies along its rows lies as it comes."""
        for name, first in ((p.a, True), (p.b, False)):
            x, part = self.out.shared.get(name), p.part(first)
            readers = [s for s in self.stmts if name in s.srcs]
            if x is None or x.view is None or readers != [p.stmt]:
                continue
            if not p.deep(x):
                self.out.shared[name] = replace(x, swizzled=False)
            elif not part.reg or part.reg[0].axis != x.outer[0][0]:
                continue
            elif part.reg[0].stride == 1 and not x.rows % part.reg[0].count:
                self.out.shared[name] = replace(x, apart=part.reg[0].count)

    def too_wide(self, s: Stmt) -> bool:
        """Whether a wave whose rows are its own would hold more results of a product than half of its registers."""
        a, b, c = (self.bufs[n] for n in (*s.srcs, s.dst))
        m, n = (prod(self.size(x) for x in c.axes if x in y.axes and x not in z.axes) for y, z in ((a, b), (b, a)))
        i, total = self.instruction(a, b, c, n), self.out.threads // self.out.wave
        return -(-m // (i.m * total)) * i.m * n > HELD * self.out.wave

    def group(self, axes: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Axes of one side, innermost first, with tile sizes; those of size 1 only if there is no other."""
        found = [(x, self.size(x)) for x in axes][::-1]
        wide = [x for x in found if x[1] > 1]
        if len(wide) > 1:  # digits of a combined axis need powers of two: all but the outermost are padded
            wide = [(x, 1 << (n - 1).bit_length()) for x, n in wide[:-1]] + wide[-1:]
        return tuple(wide) or tuple(found[:1])

    def by_contiguity(self, k: tuple[tuple[str, int], ...], a: Buf, b: Buf) -> tuple[tuple[str, int], ...]:
        """The reduced axes with the one innermost that is contiguous in a factor's memory."""
        for buf in (a, b):
            view = self.view_of(buf.name)
            inner = contiguous_axis(view) if view else ""
            if inner in [x for x, _ in k]:
                return tuple(sorted(k, key=lambda x: x[0] != inner))
        return k

    def view_of(self, name: str) -> Tensor | None:
        s = self.made.get(name)
        return self.p.tensor(s.srcs[0]) if s is not None and s.op == "copy" else None

    def instruction(self, a: Buf, b: Buf, c: Buf, n: int) -> Instruction:
        for i in self.instructions:
            if i.types == (a.dtype.name, b.dtype.name, c.dtype.name) and i.asked == self.asked:
                return i
        if self.asked:
            raise self.refuse(f"no instruction '{self.asked}' for a contraction {a.dtype} x {b.dtype} -> {c.dtype}")
        if not (widens(a.dtype, c.dtype) and widens(b.dtype, c.dtype)):
            raise self.refuse(f"no instruction for a contraction {a.dtype} x {b.dtype} -> {c.dtype}", "cast the factors first")
        return self.plain

    def waves(self, m: int, n: int, i: Instruction, chained: bool) -> tuple[int, int]:
        """Waves along rows and columns: as square as the instruction allows; where a result feeds another product rows alone, or, if
        a wave's registers do not hold rows so wide, no more rows than there are: the result then goes through shared memory."""
        total = self.out.threads // self.out.wave
        pad = max(i.m, i.n)  # rows that a factor has in shared memory at least
        best = None
        if chained and self.wide:
            high = max(1, -(-m // i.m))
            rows = min(total, 1 << (high.bit_length() - 1))
            return rows, total // rows
        for wm in (2**x for x in range(total.bit_length())):
            wn = total // wm
            if wm * wn != total or (chained and wn > 1):
                continue
            waste = (-(-m // (i.m * wm)) * i.m * wm) * (-(-n // (i.n * wn)) * i.n * wn)
            loads = m / wm + n / wn
            beyond = i.m * wm > -(-m // pad) * pad or i.n * wn > -(-n // pad) * pad
            if best is None or (waste, beyond, loads) < best[0]:
                best = ((waste, beyond, loads), (wm, wn))
        if best is None:
            raise self.refuse(f"{total} waves cannot share a tile of {m} x {n}")
        return best[1]

    def on(self, level: Sequence[Digit], m: tuple[tuple[str, int], ...], n: tuple[tuple[str, int], ...]) -> tuple[Digit, ...]:
        """Digits over m and n as digits over the kernel's axes."""
        out: list[Digit] = []
        for d in level:
            if not d.axis:
                out.append(d)
                continue
            try:
                out += split(d, m if d.axis == "m" else n)
            except ValueError as e:
                raise self.refuse(f"a tile cannot be laid out: {e}", "use power-of-two tiles") from None
        return tuple(d for d in out if d.count > 1)

    def matches(self, buf: Buf, c: Layout, i: Instruction, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...],
                first: bool) -> bool:  # fmt: skip
        """Whether a fragment already lies as the instruction wants its first factor (registers of an earlier accumulator)."""
        have = self.out.layouts.get(buf.name) or self.common(buf)
        if not first or have is None or len(k) != 1 or len(outer) != 1 or not i.a[0] or buf.dtype.bytes != 2:
            return False
        want = self.on([Digit(d.axis.replace("k", "n"), d.stride, d.count) for d in i.a[1]], outer, k)
        lane = tuple(d if d.axis in buf.axes else Digit("", 0, d.count) for d in want)
        if have.lane != lane or have.wave != c.project(buf.axes).wave or have.extent(k[0][0]) < -(-k[0][1] // i.k) * i.k:
            return False
        self.out.layouts[buf.name] = have
        return True

    def operand(self, buf: Buf, outer: tuple[tuple[str, int], ...], k: tuple[tuple[str, int], ...], i: Instruction) -> None:
        """A factor in shared memory: its contiguous axis is the inner one, padded to the instruction's tile."""
        if buf.name in self.out.shared:
            return
        view = self.view_of(buf.name) if buf.scope == "block" else None
        wide = {x for x, n in (*outer, *k) if n > 1}
        inner = nearest_axis(view, wide) if view else self.made_along(buf) if i.load == "ldmatrix" and buf.dtype.bytes == 2 else ""
        deep = inner not in [x for x, _ in outer]
        o, d = (k, outer) if not deep else (outer, k)
        size = lambda group: prod(x for _, x in group)
        grain = VECTOR_BYTES // buf.dtype.bytes
        up = lambda x, to: -(-x // to) * to
        pad_outer, pad_k = max(i.m, i.n, grain), max(i.k, grain)
        if sum(buf.name in s.srcs for s in self.stmts if s.op == "mma") > 1:  # another product reads it along other axes
            pad_outer = pad_k = max(pad_outer, pad_k)
        rows, row = (up(size(o), pad_outer), up(size(d), pad_k)) if deep else (up(size(o), pad_k), up(size(d), pad_outer))
        vector = 1
        if view is not None and inner:
            place_ = dict(d)
            first = d[0][0] == inner
            vector = vector_width(view, inner, grain, self.p.extent(inner)) if first else 1
            while vector > 1 and place_[inner] % vector:
                vector //= 2
        if view is None and (rows, row) != (size(o), size(d)):
            self.out.cleared.append(buf.name)
        if view is not None:
            rows = self.out.padded(rows, row, vector, vector * buf.dtype.bytes)
        at = self.out.reserve(rows * row * buf.dtype.bytes, ALIGN, buf.name if view is not None else "")
        self.out.shared[buf.name] = Shared(buf, o, d, rows, row, deep, vector, at, view)

    def made_along(self, buf: Buf) -> str:
        """The axis along which a thread will make a computed factor: that of the vectors in which the largest tensor behind it comes."""
        views = [t for n in self.meeting[buf.name] if (t := self.view_of(n)) is not None and contiguous_axis(t)]
        moved = lambda t: prod(self.size(x) for x in t.axes) * t.dtype.bytes
        return contiguous_axis(max(views, key=moved)) if views else ""

    # ---- common and free
    def common(self, buf: Buf) -> Layout | None:
        """The layout of a value that covers this one's axes, projected. Raises UnsupportedOp where two disagree."""
        wide = self.extended[buf.name]
        found: Layout | None = None
        for name, layout in self.out.layouts.items():
            if name not in self.meeting[buf.name]:
                continue
            axes = self.extended[name]
            if wide <= axes and (wide or axes):
                mine = layout.project(buf.axes)
                if found is not None and mine != found and _without(mine) != _without(found):
                    if wide == axes:
                        return layout
                    raise self.refuse(f"{buf.name} would lie in two layouts ({found}; {mine})")
                found = found or mine
        return found

    def fragment(self, buf: Buf) -> None:
        layout = self.common(buf)
        if layout is None:
            near = [b for b in self.p.bufs if b.name in self.meeting[buf.name]]
            peers = [b for b in near if (b.name == buf.name or b.name not in self.out.shared) and set(buf.axes) <= set(b.axes)]
            widest = max(peers, key=lambda b: prod(self.size(x) for x in b.axes))
            layout = self.out.layouts.get(widest.name) or self.beside(widest, self.free(widest))
            self.out.layouts[widest.name] = layout
            layout = layout.project(buf.axes)
        self.out.layouts[buf.name] = layout
        self.stage(buf, layout)

    def beside(self, buf: Buf, free: Layout) -> Layout:
        """The free layout of a value, or where it disagrees with a placed value along the axes that both have, one that follows that
        value: a statistic of rows belongs to both."""
        wide = {x: self.size(x) for x in reversed(buf.axes) if self.size(x) > 1}
        for name, layout in self.out.layouts.items():
            both = [x for x in self.bufs[name].axes if x in wide]
            if name in self.meeting[buf.name] and both:
                mine = layout.project(both)
                if _without(free.project(both)) != _without(mine):
                    return mine.extend({x: n for x, n in wide.items() if x not in both})
        return free

    def stage(self, buf: Buf, layout: Layout) -> None:
        """A copy whose contiguous axis is not the one along which neighbouring threads lie goes through shared memory."""
        view = self.view_of(buf.name)
        near = contiguous_axis(view) if view is not None and buf.name not in self.out.plain else ""
        first = next((d.axis for d in (*(d for d in layout.reg[:1] if d.axis not in self.scanned), *layout.lane) if d.axis), "")
        lane = layout.lane[0] if layout.lane else Digit("", 0, 1)
        if view is not None and lane.stride == 1 and lane.axis == self.slid_along(view):
            return  # windows of neighbouring threads are neighbours
        if view is None or not near or near == first or near not in buf.axes or first not in buf.axes or not same_number(view.fill, 0):
            return
        grain = VECTOR_BYTES // buf.dtype.bytes
        across, outer = self.size(near), self.group(x for x in buf.axes if x != near)
        if across % grain or any(n & (n - 1) for _, n in outer[:-1]):
            return
        vector = vector_width(view, near, grain, self.p.extent(near))
        if vector == 1 and (lane.axis, lane.stride) == (near, 1):
            return  # neighbouring threads lie along it already, and no access is wider than an element
        rows = prod(n for _, n in outer)
        last, size = outer[-1] if outer else ("", 1)
        reached = rows // size * max(size, layout.extent(last)) + (layout.extent(near) > across)  # threads of padding read too
        rows = self.out.padded(rows, across, vector, vector * buf.dtype.bytes)
        apart = layout.reg[0].count if layout.reg and (layout.reg[0].axis, layout.reg[0].stride) == (outer[0][0], 1) else 1
        dense = self.out.counted and vector * buf.dtype.bytes == WIDE  # a wave's asynchronous copies are one piece of shared memory
        x = Shared(buf, outer, ((near, across),), rows, across, True, vector, 0, view, 1 if rows % apart else apart, dense,
                   0 if dense else vector)  # fmt: skip
        self.out.staged[buf.name] = replace(x, offset=self.out.reserve(max(reached, rows) * x.row_bytes, ALIGN))

    def slid_along(self, t: Tensor) -> str:
        """The axis of results along which the windows that a view reads slide in memory's innermost dimension, "" where none do."""
        last = [x for x in t.axes if t.index and t.index[-1].coef(x) and self.size(x) > 1]
        kept = [x for x in last if x not in self.reduced]
        return kept[0] if len(kept) == 1 and len(kept) < len(last) else ""

    def read_as_strips(self) -> None:
        """The fragments of which a thread loads strips: windows that reductions and maps read, where they lie in registers alone."""
        elsewhere = {*self.out.words, *self.out.shared, *self.out.staged, *self.out.late, *self.out.plain}
        for name, layout in self.out.layouts.items():
            view = self.view_of(name)
            read = all(s.op in ("map", "reduce") for s in self.stmts if name in s.srcs)
            if view is not None and name not in elsewhere and read:
                found = strip_of(self.p, layout, view, self.reduced, access_width(self.p, layout, view))
                self.out.strips |= {name: found} if found else {}

    def sliding(self, sizes: Collection[str], inner: str) -> tuple[str, ...]:
        """The axes along which windows of a tile overlap, outermost first: a thread takes neighbours. Not the one that lanes go along."""
        views = [t for t in self.p.inputs if t.axes]
        found = {out for t in views for out, tap, _ in slid(t, self.reduced) if self.size(tap) > 1 and self.size(out) > 1}
        return tuple(x for x in sizes if x in found and x != inner)

    def free(self, buf: Buf) -> Layout:
        sizes = {x: self.size(x) for x in buf.axes}
        if not sizes:
            return Layout((), (Digit("", 0, self.out.wave),), (Digit("", 0, self.out.threads // self.out.wave),))
        views = [t for t in (*self.p.outputs, *self.p.inputs) if set(t.axes) & set(sizes)]
        moved = lambda t: prod(sizes[x] for x in t.axes if x in sizes) * t.dtype.bytes
        votes: dict[str, int] = {}
        for t in views:
            if (a := self.slid_along(t) or contiguous_axis(t)) in sizes:
                votes[a] = votes.get(a, 0) + moved(t)
        inner = max(votes, key=lambda x: votes[x]) if votes else buf.axes[-1]
        near = [t for t in views if contiguous_axis(t) == inner]
        extent = 0 if inner in self.out.peeled else self.p.extent(inner)
        vector = max((vector_width(t, inner, VECTOR_BYTES // t.dtype.bytes, extent) for t in near), default=1)
        runs = self.scanned & sizes.keys() - {inner}
        if any(self.slid_along(t) == inner for t in views):  # each element of a window is a load of its own: neighbours in other threads
            vector = 1
        if runs and inner not in self.scanned:  # a thread goes down few columns, so that few sums are exchanged
            vector = min(vector, max(1, WORD // min((t.dtype.bytes for t in near), default=buf.dtype.bytes)))
        main = max(near, key=moved).axes if near else tuple(sizes)
        sizes = {x: sizes[x] for x in sorted(sizes, key=lambda x: x in main)}  # what the widest tensor lacks is repeated in registers
        front = [x for x in sizes if x not in main and any(contiguous_axis(t) == x and inner in t.axes for t in views)]
        whole = frozenset(x for x in sizes if x in self.reduced)
        last = {x for x in sizes if x not in main} if whole & set(main) else ()  # what is read once serves all of them
        along = self.sliding(sizes, inner) if self.strips else ()
        self.lies_along |= bool(along)
        lying = lambda v: free_layout(sizes, inner, v, self.out.wave, self.out.threads // self.out.wave, whole, front, (*runs, *along),
                                      last, along)  # fmt: skip
        vector = min(vector, 16)
        found, least = lying(vector), max(1, WORD // min((t.dtype.bytes for t in near), default=WORD))
        while inner in whole - self.scanned and vector > least and (half := lying(vector // 2)).registers <= SPARED * found.registers:
            found, vector = half, vector // 2  # a wave holds 1024 for 640 elements 16 at a time, 768 for 8 at a time
        return found


def _without(layout: Layout) -> tuple[object, ...]:
    """A layout up to how replication is written."""
    clean = lambda level: tuple((d, w) for d, w in _weighted(level) if d.axis)
    return layout.reg, clean(layout.lane), clean(layout.wave)


def _weighted(level: Sequence[Digit]) -> list[tuple[Digit, int]]:
    from autocomp.tile.layout import weights

    return weights(level)
