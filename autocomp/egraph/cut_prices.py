"""What a body asks of a chip, before it has a schedule: operations, bytes that it reads and writes, and the seconds of its roofline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from autocomp.cost.blocks import WARP_ROWS
from autocomp.cost.chip import Chip
from autocomp.cost.derived import constant
from autocomp.cost.lanes import by_lanes
from autocomp.cost.roofline import time_of
from autocomp.cost.scalar import product_seconds
from autocomp.cost.work import Work
from autocomp.egraph.cut import Cut
from autocomp.egraph.factors import Factors, Moves, factors_of, prologue, repeats
from autocomp.egraph.forms import Access, Form, extent_product
from autocomp.egraph.held import Held
from autocomp.egraph.subject import Subject, SubjectNode, shape_of
from autocomp.ir.types import I32, Dim, dim_hint
from autocomp.quick import changed

SCAN = 2**15  # elements of a row that one block scans: 32 of each of 1024 threads, as tiling/gpu-scan has it
TURN, TURN_THREADS = 4096, 512  # elements of a longer row that a block scans in a turn, and its threads (tiling/gpu-scan-in-turns)
SCANNED = 4  # operations of a scan an element: what it adds in its thread and to what stands in front, exchanges between lanes
HELD = 8  # bytes of registers for each element of a row and of operands of its size: what maps hold of it at once


@dataclass
class Prices:
    """Of the bodies of one subject on one chip, whichever covers of it ask."""

    subject: Subject
    chip: Chip
    tf32: bool = False  # products of f32 may round their factors
    factors: dict[tuple[int, frozenset[int]], Factors] = field(default_factory=dict)
    held: Held = field(init=False)  # cuts of covers before

    def __post_init__(self) -> None:
        nodes = self.subject.nodes
        self.held = Held(self.subject)
        self._vectors = int(self.chip.limits.get("vector_cores", 0)) * self.chip.cores
        self._vector, self._special = [self._operations(n.form) for n in nodes], [n.form.special for n in nodes]
        self._matrix = frozenset(n.id for n in nodes if n.form.matrix)
        # Blocks read what is repeated along an axis in memory's order.
        repeats = {"broadcast"} if self.chip.runs_blocks else set[str]()
        self._turning = frozenset(n.id for n in nodes if n.form.view and not n.form.reshape and n.enode.op not in repeats)
        ops = lambda name: {n.id: n.enode.attrs for n in nodes if n.enode.op == name} if self._vectors else {}
        self._borders, self._reshapes = frozenset(ops("pad")), frozenset(ops("reshape"))
        self._patches = frozenset(ops("patches"))
        self._first = frozenset(i for i, a in ops("conv").items() if a["layout"] == "nchw")
        self._between = self._borders | self._patches | frozenset(ops("broadcast"))
        self._turned = frozenset(i for i, a in ops("transpose").items() if a["perm"][-1] != len(a["perm"]) - 1)
        self._uneven = 1.0 if self.chip.runs_blocks else self.chip.numbers["uneven_products"]  # blocks store what is even and skip the rest
        lane = self.chip.vector["f32"] / self.chip.cores / self.chip.clock * constant("lane_clocks")
        self._apart = 0.0 if self.chip.runs_blocks else lane  # operations in whose time a result of a vector is stored by itself
        self.bytes = {c: t.bytes for c, t in self.subject.types.items()}
        self._near = next((m.capacity for m in self.chip.memories if m.name == "ub"), self.chip.on_chip)  # of who computes rows
        block = self.chip.limits.get("l1_block", 0.0) * self.chip.numbers["copies"] / self.chip.cores
        self._blocks = not self.chip.runs_blocks and block > 0.0
        self._copy = block if self._blocks else float(self.chip.runs_blocks)  # in whose time one, or a block off its place, is copied
        clusters = [int(n.removeprefix("clusters_of_")) for n in self.chip.limits if n.startswith("clusters_of_")]
        self._cluster = max(clusters, default=1) if any(m.name == "shared" for m in self.chip.memories) else 0
        self._alike: dict[tuple[object, ...], tuple[Factors, tuple[int, ...], tuple[int, ...]]] = {}
        self._moves: Moves = {}
        self._works: dict[tuple[object, ...], Work] = {}  # at most as many as covers may look at
        self._seconds: dict[Work, float] = {}  # layers that repeat ask for the same

    def time(self, work: Work) -> float:
        seconds = self._seconds.get(work)
        if seconds is None:
            seconds = self._seconds[work] = time_of(work, self.chip).seconds + product_seconds(work, self.chip)
        return seconds

    def few(self, cut: Cut) -> int:
        """Blocks (on NPUs vector cores) that share a body's rows where most cores would have none: 0 elsewhere. Reductions of which none
        needs another's result can be done in parts, by a launch more (`ir.parts`); those that do stay with these blocks."""
        r = cut.record
        if r.kind not in "SN" or not r.extents or not (self._cluster or self._vectors):
            return 0
        row, out = prod(dim_hint(e) for e in r.extents), self.subject.types[cut.cls]
        rows = out.elements // (row if r.kind == "N" else 1)
        if self._vectors:
            return rows if 0 < rows < self._vectors else 0
        registers = self._cluster * self.chip.registers.count * self.chip.registers.bytes
        blocks = rows * (self._cluster if HELD * row * max(1, self._full(cut)) <= registers else 1)
        return blocks if 0 < blocks < self.chip.cores else 0

    def alone(self, work: Work, few: int) -> float:
        """Seconds where so many blocks have all rows; a vector core of an NPU copies at a rate of its own."""
        if not self._vectors:
            return self.time(work._replace(tiles=few))
        copies = (work.read / work.read_eff) * self._vectors / few / self.chip.limits["ub_in"]
        tiles = -(-few * self.chip.cores // self._vectors)
        return max(self.time(work._replace(tiles=tiles)), copies + self.chip.launch)

    def _operations(self, f: Form) -> float:
        """Vector operations of an op, those on numbers of 64 bits one by one on a CPU's cores; of a reduction that runs along a row which
        one block's registers hold or the block goes down, or along which a core goes, those of a scan, on the cores that have rows, and as
        many as there is time for while a block waits for the turns of its row. Long columns are taken in parts: a turn has few of each."""
        chip = self.chip
        if f.running and f.inner and self._vectors:  # along lanes no instruction folds what is in front of each
            steps = f.running / 2 * (chip.numbers["scalar_read"] + chip.numbers["scalar_step"])
            return f.out.elements * min(steps, chip.limits["tile"] * chip.clock) / self._vectors / chip.clock * chip.vector["f32"]
        if self._vectors and f.kind == "reduce" and f.out.dtype == I32:  # sums of words are of halves
            return f.vector * chip.numbers["word_steps"]
        scans = "serial_scans" in chip.features or ("scans" in chip.features and (f.running <= SCAN or f.inner))
        if not f.running or not scans:
            return f.vector if chip.runs_blocks or not f.wide else f.vector + f.wide * (chip.lanes() - 1)
        rows = max(1.0, f.out.elements / f.running)
        waits = 0.0
        if f.running > SCAN and "serial_scans" not in chip.features:
            rounds = ceil(rows / (chip.cores * max(1, chip.limits["threads"] * 2 // TURN_THREADS)))
            waits = rounds * ceil(f.running / TURN) * chip.latency * chip.vector["f32"]
        return min(f.vector, SCANNED * f.out.elements * max(1.0, chip.cores / rows) + waits)

    def work(self, cut: Cut, extra: tuple[int, ...] = ()) -> Work:
        """What a body asks for; the next cover of the subject makes most bodies of the last one again."""
        key = (cut.cls, cut.leaves, cut.nodes, cut.record, extra, *cut.again.items(), None, *cut.part.items())
        found = self._works.get(key)
        if found is None:
            found = self._works[key] = self._work(cut, extra)
        return found

    def _work(self, cut: Cut, extra: tuple[int, ...]) -> Work:
        s, limits = self.subject, self.chip.limits
        order, again = sorted(cut.nodes), cut.again
        vector, special = (sum([of[i] * again.get(i, 1.0) for i in order] if again else [of[i] for i in order])
                           for of in (self._vector, self._special))  # fmt: skip
        matrix = most = copies = 0.0
        apart = False
        m = k = 0
        lane, stride, dtype, whole = 1, 1, "f32", True
        online = any(s.nodes[i].form.kind == "online" for i in cut.heavy)  # its rows stay in registers
        picks = {s.nodes[x].cls: s.nodes[x] for x in cut.nodes}
        for i in sorted(cut.nodes & self._matrix):
            f = s.nodes[i].form
            matrix += f.matrix * again.get(i, 1.0) * (self._uneven if f.uneven else 1.0)  # windows that overlap ask for a link once each
            vector += self._apart * f.out.elements if f.apart else 0.0
            if f.matrix >= most:  # of a chain, the largest
                most, (m, _, k) = f.matrix, f.mnk
                m *= repeats(s, s.nodes[i], picks)
                lane, stride = f.lane_extent, f.lane_stride
            known = self._factors(s.nodes[i], picks)
            apart = apart or self._not_as_it_lies(s.nodes[i], picks, known.inside - known.vanish)
            dtype, whole = known.dtype, whole and known.whole
            if f.mnk[1] == 1 and self.chip.runs_blocks:  # no element of the other factor is used twice
                vector += f.matrix
            copies += (known.copies - (known.left if online and self._blocks else 0.0)) * self._copy
            vector -= sum(self._vector[x] * again.get(x, 1.0) for x in known.vanish)
            if not known.whole and not online and f.mnk[0] <= limits.get("direct_rows", 0):  # factors made in registers, pairs at once
                vector -= sum(self._spared(x) for x in known.inside - known.vanish)
                matrix += f.matrix * (padded(f.mnk[0], limits["direct_columns"]) / f.mnk[0] - 1)
                m = 0
        # Rows with a border are copied side by side, else one by one; so is what a view reads of elements with others put between them.
        if (cut.nodes & self._borders and cut.nodes & self._turned) or self._reads_between(cut, picks):
            clocks = s.types[cut.cls].elements * (self.chip.numbers["scalar_read"] + self.chip.numbers["scalar_write"])
            vector += clocks / self._vectors / self.chip.clock * self.chip.vector["f32"]
        large = [i for i in cut.nodes & self._turned if s.types[s.nodes[i].cls].elements * 2 >= s.types[cut.cls].elements]
        if large:  # windows are folded with their channels along lanes, and no fold turns them
            folds = [f for f in (s.nodes[i].form for i in cut.heavy) if f.kind == "reduce" and f.windowed]
            clocks = sum(f.out.elements * extent_product(f.extents) for f in folds) * self.chip.numbers["scalar_read"]
            vector += clocks / self._vectors / self.chip.clock * self.chip.vector["f32"]
        vector += self._window_copies(cut) * self.chip.limits.get("ub_start", 0.0) / max(1, self._vectors) * self.chip.vector["f32"]
        if dtype in ("i8", "u8") and len(cut.nodes & self._matrix) > 1 and "shared_units" in self.chip.features:
            dtype = "i32"  # cores sum bytes four at a time in one product a kernel
        eff = 1.0
        if matrix:
            lanes = max(1, self.chip.granule[1])
            eff = (lane / padded(lane, lanes) if lane < 4 * lanes else 1.0) / (1.0 if stride == 1 else 2.0)
            if online and not any(s.nodes[i].form.kind == "contract" for i in cut.heavy):
                eff *= limits.get("warp_matrix", 1.0)  # scores from memory: no warpgroup multiplies what waves load and exponentiate
            elif online and m:
                eff, m = eff * self._filled(m) * (1.0 if whole else limits.get("warp_matrix", 1.0)), 0
            elif not whole and not (self.chip.runs_blocks and m >= WARP_ROWS and by_lanes(self.chip, dtype)):  # warpgroups' loss
                eff *= limits.get("warp_matrix", 1.0)
        return Work(
            read=float(self._read(cut)),
            written=float(self.bytes[cut.cls] + sum(self.bytes[x] for x in extra)),
            vector=vector,
            special=special,
            matrix=matrix,
            matrix_dtype=dtype,
            m=m,
            n=0,  # the tail of the columns is in `eff`
            k=k,
            matrix_eff=eff if online else max(eff, 0.05),
            copies=copies,
            read_eff=self._read_share(cut, 0.9 if matrix else 0.6),
            # keys and values are as near to one body that reads both as to two that read one each: else two look cheaper in between
            apart=apart,
            stays=float(max(self.sizes(cut).values())) if online else 0.0,
        )

    def _not_as_it_lies(self, node: SubjectNode, picks: Mapping[int, SubjectNode], inside: Iterable[int]) -> bool:
        """Whether a factor is computed, has a border, or an innermost axis that is a part of the depth and no whole fractals (a tap)."""
        types = self.subject.types

        def apart(x: int, a: Access | None) -> bool:
            if a is None or a.side not in ("a", "b"):
                return False
            inner = _innermost(types[x].shape)
            while x in picks and picks[x].id in self._reshapes:
                x = picks[x].enode.children[0]
            return bool(a.guard) or (inner in a.reduced and dim_hint(types[x].shape[_innermost(types[x].shape)]) % self.chip.granule[2] > 0)

        made = [(i, self.subject.nodes[i].form) for i in inside]
        return (any(i in self._borders or not f.view or any(a and a.guard for a in f.accesses) for i, f in made)
                or any(map(apart, node.enode.children, node.form.accesses)))  # fmt: skip

    def _window_copies(self, cut: Cut) -> float:
        """Copies of a fold on vector cores that reads windows where they lie: a part of an image, and a weight, for each tap, channel and
        result of it; of windows that are stored many taps are one copy."""
        s = self.subject
        if not (inside := cut.nodes & self._patches):
            folds = [n.form for i in cut.heavy & self._first for n in [s.nodes[i]] if n.form.kind == "reduce"]
            return sum(2.0 * f.out.elements * extent_product(f.extents) / max(1, extent_product(f.out.shape[2:])) for f in folds)
        plane = min(extent_product(shape[len(shape) // 2 + 1 :]) for i in inside for shape in [s.types[s.nodes[i].cls].shape])
        folded = sum(s.types[s.nodes[i].enode.children[0]].elements for i in cut.heavy if s.nodes[i].form.kind == "reduce")
        return 2.0 * folded / max(1, plane)

    def _reads_between(self, cut: Cut, picks: Mapping[int, SubjectNode]) -> bool:
        """Whether a view reads a line into which others were put between its elements (zeros; along rows also repeated ones), or the taps
        of windows as one axis: at quotients of an index, which vector cores have no copies for."""
        s = self.subject

        def joined(of: int, into: int) -> bool:
            a, b = ([d for d in s.types[c].shape if d != 1] for c in (of, into))
            return len(b) < len(a) and (picks[of].id in self._borders | self._patches or a[-1:] != b[-1:])

        grown = {n.cls for i in cut.nodes & self._reshapes for n in [s.nodes[i]] for c in n.enode.children
                 if c in picks and picks[c].id in self._between and joined(c, n.cls)}  # fmt: skip
        views = [n for i in cut.nodes for n in [s.nodes[i]]
                 if grown and ((n.form.view and not n.form.reshape) or n.enode.op == "concat")]  # fmt: skip
        return any(c in grown or (c in picks and picks[c].id in self._reshapes and set(picks[c].enode.children) & grown)
                   for n in views for c in n.enode.children)  # fmt: skip

    def _filled(self, rows: int) -> float:
        """Share of the matrix rate that so many rows leave: single waves compute fewer of them at once, at a rate of their own."""
        whole = rows / padded(rows, self.chip.granule[0])
        return max(whole, self.chip.limits.get("warp_matrix", 0.0) * rows / padded(rows, WARP_ROWS))

    def _read(self, cut: Cut) -> float:
        """Bytes of the leaves, those that are as large as the result once a pass."""
        passes, size = self._passes(cut), self.sizes(cut)
        if passes == 1:
            return sum(size.values())
        types, full = self.subject.types, self.subject.types[cut.cls].elements
        return sum(n * (passes if types[x].elements * 2 >= full else 1) for x, n in size.items())

    def sizes(self, cut: Cut) -> dict[int, float]:
        """Bytes that a body reads of each leaf."""
        if not cut.part:
            return {x: self.bytes[x] for x in cut.leaves}
        return {x: self.bytes[x] * cut.part.get(x, 1.0) for x in cut.leaves}

    def _read_share(self, cut: Cut, share: float) -> float:
        """Share of the bandwidth at which a body reads: `share` for what it reads in another order (as many bytes as there are, where that
        is computed)."""
        turned = {x for i in cut.nodes & self._turning for x in self.subject.nodes[i].enode.children}
        if not turned:
            return 1.0
        size = self.sizes(cut)
        total = sum(size.values())
        slow = min(total, sum(size.get(x, self.bytes[x]) for x in turned))
        return total / (total + slow * (1 / share - 1)) if total else 1.0

    def _spared(self, node: int) -> float:
        """Operations of a node that arithmetic on whole registers of narrow types spares."""
        n = self.subject.nodes[node]
        return n.form.vector * (1 - min(4, self.subject.types[n.cls].dtype.bytes) / 4)

    def _factors(self, node: SubjectNode, picks: Mapping[int, SubjectNode]) -> Factors:
        """`factors_of`, asked once for each contraction and prologue, and once for those of equal shapes."""
        key = (node.id, prologue(node, picks))
        if key not in self.factors:
            shape, classes = shape_of(self.subject, (node.cls,), picks)
            if shape not in self._alike:
                new = factors_of(self.subject, node, picks, self._copy > 0, self.tf32 and "tf32" in self.chip.matrix,
                                 self.chip.numbers["word_copies"], self._blocks, self._moves,
                                 node.form.mnk[0] < WARP_ROWS or "f64_products" not in self.chip.features)
                places = {picks[c].id: n for n, c in enumerate(classes) if c in picks}
                self._alike[shape] = new, tuple(places[x] for x in new.vanish), tuple(places[x] for x in new.inside)
            one, *found = self._alike[shape]
            vanish, inside = (frozenset(picks[classes[n]].id for n in places) for places in found)
            self.factors[key] = changed(one, vanish=vanish, inside=inside)
        return self.factors[key]

    def _passes(self, cut: Cut) -> int:
        """1 if a row of every full-size operand stays on chip, else one pass a dependent reduction (and one for the output)."""
        r = cut.record
        if r.kind not in "SN" or not r.extents:
            return 1
        row = prod(dim_hint(e) for e in r.extents) * self._side_by_side(cut)
        if row * self.subject.types[cut.cls].dtype.bytes * max(self._full(cut), 1) <= self._near:
            return 1
        return r.levels + (r.kind == "N")

    def _side_by_side(self, cut: Cut) -> int:
        """Rows that a block takes together: of those that run across a tensor's innermost dimension, a line's."""
        s = self.subject
        for i in sorted(cut.heavy) if self.chip.runs_blocks else ():
            node = s.nodes[i]
            shape = s.types[node.enode.children[0]].shape if node.form.kind == "reduce" and node.enode.children else ()
            last = max((k for k, d in enumerate(shape) if d != 1), default=0)
            if shape and last not in node.enode.attrs.get("axes", (last,)):
                return min(self.chip.memories[0].line // s.types[node.enode.children[0]].dtype.bytes, dim_hint(shape[last]))
        return 1

    def _full(self, cut: Cut) -> int:
        """Leaves about as large as the result."""
        types, out = self.subject.types, self.subject.types[cut.cls].elements
        return sum(1 for x in cut.leaves if types[x].elements * 2 >= out)


def padded(n: int, to: float) -> float:
    """n up to the next multiple."""
    return -(-n // to) * to


def _innermost(shape: Sequence[Dim]) -> int:
    """The last dimension of more than one element, else the last."""
    return max((d for d, n in enumerate(shape) if n != 1), default=len(shape) - 1)
