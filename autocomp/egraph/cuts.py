"""Bodies as cuts: for each tensor, the best few choices of nodes down to the tensors that are loaded.

A body is (leaves, nodes). Two operands' bodies join if no tensor is both loaded and computed inside and each interior class
has one node. Cuts are ranked by area flow (own time plus each leaf's flow shared among its users), some kept per kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from typing import NamedTuple

from autocomp.budget import Effort, cover_effort
from autocomp.cost.blocks import WARP_ROWS
from autocomp.cost.chip import Chip
from autocomp.cost.reference import reference_seconds
from autocomp.cost.roofline import time_of
from autocomp.cost.work import Work
from autocomp.deadline import current
from autocomp.egraph.factors import Factors, factors_of, prologue, repeats
from autocomp.egraph.forms import Form
from autocomp.egraph.grammar import LOADED, Operand, Record, fold, load_grammar
from autocomp.egraph.rows import Body, Rows
from autocomp.egraph.subject import Subject, SubjectNode, shape_of
from autocomp.ir.types import Dim, dim_hint
from autocomp.options import Options
from autocomp.rewrite.vocabulary import arity_rule

SCAN = 2**15  # elements of a row that one block scans: 32 of each of 1024 threads, as tiling/gpu-scan has it
SCANNED = 4  # operations of a scan an element: what it adds in its thread and to what stands in front, exchanges between lanes
RANKED = 8  # classes of a strongly connected group up to which the cheapest goes first
KEEP = 4  # cuts per kind; measured: 4 a kind give the same covers as 8 and 16 on BERT, ResNet-50 and Llama
TICKS = 2.0**50  # a second: times are whole numbers of these, so that sums are the same in any order and in every layer
KINDS = 16  # bits that count the operands of one kind
NONE_IN_PART: Mapping[int, float] = {}
HELD = 8  # bytes of registers for each element of a row and of operands of its size: what maps hold of it at once


class Cut(NamedTuple):
    """One body for class `cls`. `again`: how often an interior node is evaluated, where more than once an element.
    `steps`: (consumer node, operand, row) of every inlining. `top`: interior classes at the root's points (by-products). `part`: the share
    of a leaf that it reads, where that is not all of it."""

    cls: int
    leaves: frozenset[int]
    nodes: frozenset[int]
    inside: frozenset[int]
    record: Record
    ops: int
    again: Mapping[int, float]
    steps: frozenset[tuple[int, int, str]]
    top: frozenset[int]
    heavy: frozenset[int]
    part: Mapping[int, float] = NONE_IN_PART
    time: float = 0.0
    flow: float = 0.0

    def order(self) -> tuple[object, ...]:
        """Total order for ties."""
        return (len(self.nodes), sorted(self.leaves), sorted(self.nodes))

    def before(self, other: Cut) -> bool:
        """Is this one's flow less, or equal and its order less?"""
        return self.flow < other.flow or (self.flow == other.flow and self.order() < other.order())


def lacks(shape: Sequence[Dim], of: Sequence[Dim]) -> bool:
    """Whether a shape is another with one point of some axes in place of all."""
    return len(shape) == len(of) and shape != of and all(d in (1, e) for d, e in zip(shape, of))


def _points(shape: Sequence[Dim]) -> list[Dim]:
    """A shape without its extents of 1."""
    return [d for d in shape if d != 1]


def whole(seconds: float) -> float:
    """The nearest whole number of ticks, in seconds."""
    return round(seconds * TICKS) / TICKS if seconds < 1e6 else seconds


@dataclass
class Enumerator:
    """`cuts[c]`: kept cuts of class c, the best flow first. `refused`: (rule, reason) counts for why-not."""

    subject: Subject
    rows: Rows
    chip: Chip
    options: Options
    cuts: dict[int, list[Cut]] = field(default_factory=dict)
    flow: dict[int, float] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    factors: dict[tuple[int, frozenset[int]], Factors] = field(default_factory=dict)
    without: frozenset[frozenset[int]] = frozenset()  # nodes that no body has together
    effort: Effort | None = None  # once it is spent, tensors are computed as the model says (after the deadline, each by
    # a kernel of its own too); by default this cover's own

    def __post_init__(self) -> None:
        nodes = self.subject.nodes
        self._effort = self.effort or cover_effort(len(self.subject.frozen.graph.nodes()))
        self._computing = frozenset(n.id for n in nodes if not n.form.view)
        self._heavy = frozenset(n.id for n in nodes if n.form.kind in ("reduce", "contract", "online"))
        self._vector, self._special = [self._operations(n.form) for n in nodes], [n.form.special for n in nodes]
        self._watched: dict[int, list[frozenset[int]]] = {}  # two nodes of each of `without`: one of them is in what lacks one node
        for w in self.without:
            for n in sorted(w)[:2]:
                self._watched.setdefault(n, []).append(w)
        self._matrix = frozenset(n.id for n in nodes if n.form.matrix)
        self._turning = frozenset(n.id for n in nodes if n.form.view and not n.form.reshape)
        # One name for a tensor in several orders of its axes; bytes in memory keep their own, since matrix units read one order only.
        s = self.subject
        self._tensor = {c: c if c in s.memory and t.dtype.bytes == 1 else s.twins[c] for c, t in s.types.items()}
        self._bytes = {c: t.bytes for c, t in self.subject.types.items()}
        self._near = self.chip.on_chip
        clusters = [int(n.removeprefix("clusters_of_")) for n in self.chip.limits if n.startswith("clusters_of_")]
        self._cluster = max(clusters, default=1) if any(m.name == "shared" for m in self.chip.memories) else 0
        self._alike: dict[tuple[object, ...], tuple[Factors, tuple[int, ...], tuple[int, ...]]] = {}
        self._seconds: dict[Work, float] = {}  # layers that repeat ask for the same
        self._shared: dict[int, float] = {}  # what of a class's flow falls to a reader

    def run(self) -> None:
        """Fill `cuts` for every class that is not in memory."""
        s = self.subject
        for group in s.order:
            waiting = [c for c in group if (c not in s.memory or c in s.narrow) and c not in s.literal]
            self._settle((c for c in group if c not in waiting or c in s.narrow), 0.0)
            made: dict[int, list[Cut]] = {}
            while len(waiting) > 1 and len(group) <= RANKED and not self._hurried:
                made |= {c: self._possible(c, self._ready(c)) for c in waiting if c not in made}
                cheapest = {c: min((x.flow for x in made[c]), default=float("inf")) for c in waiting}
                best = min(waiting, key=lambda c: cheapest[c])  # the others may then be views of it
                self._enumerate(best, made.pop(best))
                waiting.remove(best)
                for c in [c for c in waiting if any(best in n.enode.children for n in s.by_class[c])]:
                    del made[c]
            while waiting and not self._hurried:
                c = waiting.pop(0)
                self._enumerate(c, made[c] if c in made else self._possible(c, self._ready(c)))
            self._as_modelled(waiting)
            self._settle(s.narrow.intersection(group), 0.0)
        for c in s.narrow:  # no kernel of its own ever makes what is in memory
            self.cuts.pop(c, None)

    @property
    def _hurried(self) -> bool:
        """Whether no more forms are looked at than the model has."""
        return current().passed("cover", "bodies of several operations") or self._effort.spent

    def _as_modelled(self, waiting: list[int]) -> None:
        """Each of these classes by the forms that the model has of it; those that it has none of are not needed then. By all forms where
        none of the model's can be computed (it reads too many tensors, or `without` has it). In rounds, since classes of a group have an
        order among all of their forms."""
        model = {c: [n for n in self.subject.by_class[c] if n.enode.why == "source"] for c in waiting}
        for every in (False, True):
            left = [c for c in waiting if c not in self.cuts and (every or model[c])]
            while ready := {c: mine for c in left if (mine := [n for n in self._ready(c) if every or n in model[c]])}:
                for c, nodes in ready.items():
                    self._enumerate(c, self._possible(c, nodes))
                left = [c for c in left if c not in ready]

    def _possible(self, c: int, forms: Iterable[SubjectNode]) -> list[Cut]:
        """The cuts of a class by some of its forms."""
        alone = current().passed("cover", "bodies of several operations")
        return [cut for node in forms for cut in self._of_node(node, alone)]

    def _ready(self, c: int) -> list[SubjectNode]:
        """The forms of a class whose operands have cuts."""
        s = self.subject
        return [n for n in s.by_class[c] if all(x in s.memory or x in s.literal or x in self.cuts for x in n.enode.children)]

    def _enumerate(self, c: int, made: Iterable[Cut]) -> None:
        """Keep the best of a class's cuts."""
        found: dict[tuple[object, ...], Cut] = {}
        for cut in made:
            key = (cut.record.kind, frozenset([self._tensor[x] for x in cut.leaves]), cut.heavy)
            old = found.get(key)
            if old is None or cut.before(old):
                found[key] = cut
        self._keep(c, list(found.values()))

    def _keep(self, c: int, found: list[Cut]) -> None:
        if not found:
            return
        found.sort(key=lambda x: x.flow)
        ties = any(a.flow == b.flow for a, b in pairwise(found))
        found = sorted(found, key=lambda x: (x.flow, x.order())) if ties else found
        kept: list[Cut] = []
        count: dict[str, int] = {}
        for cut in found:
            unfused = cut.ops <= 1 and not cut.steps
            kind = self._kind(cut, f"{cut.record.kind} unfused" if unfused else cut.record.kind)
            if count.get(kind, 0) < KEEP:
                count[kind] = count.get(kind, 0) + 1
                kept.append(cut)
        self.cuts[c] = kept
        self._settle((c,), kept[0].flow)

    def _kind(self, cut: Cut | None, kind: str) -> str:
        """What a cut competes as: those that lack one node of what no body may have together are kinds of their own, since a reader that
        has that node needs the others."""
        return f"{kind} short" if cut is not None and any(len(w - cut.nodes) == 1 for w in self._against(cut.nodes)) else kind

    def _against(self, nodes: frozenset[int]) -> list[frozenset[int]]:
        """Of `without`, those of which these nodes may hold all, or all but one."""
        return [w for n in nodes & self._watched.keys() for w in self._watched[n]] if self._watched else []

    def _settle(self, classes: Iterable[int], flow: float) -> None:
        """What classes take, and what of it falls to one reader."""
        for c in classes:
            self.flow[c] = flow
            self._shared[c] = whole(flow / (1 if self._widened(c) else max(1, self.subject.users[c])))

    # ---- one node
    def _of_node(self, node: SubjectNode, alone: bool = False) -> list[Cut]:
        """Its cuts; `alone`: only the one that loads all operands."""
        partial: list[_Joined] = [_NONE]
        unfused: tuple[_Part, ...] = ()
        share: dict[int, int] = {}
        kinds: dict[str, int] = {}
        for j, child in enumerate(node.enode.children):
            choices = self._operand(node, j, child)[: 1 if alone else None]
            unfused = (*unfused, choices[0])
            for o in choices:
                share.update((x, self._ticks(x, node.cls)) for x in o.operand.leaves - share.keys())
            digit = [kinds.setdefault(self._kind(o.cut, o.operand.record.kind), 1 << KINDS * len(kinds)) for o in choices]
            made = [(p, o, p.took + sum([share[x] for x in o.operand.leaves - p.leaves]), p.kinds + n)
                    for p in partial for o, n in zip(choices, digit) if p.joins(o)]  # fmt: skip
            if len(made) > 4 * KEEP:
                made.sort(key=lambda m: (m[2], m[0].ops + m[1].ops))
                made = self._spread(made)
            partial = [p.and_(o, took, key) for p, o, took, key in made]
        chosen = [p.parts for p in partial]
        if all(any(x.cut is not None for x in parts) for parts in chosen):
            chosen.append(unfused)  # all others may be too large for one body
        return [cut for parts in chosen if (cut := self._finish(node, parts)) is not None]

    def _ticks(self, leaf: int, reader: int) -> int:
        """`_share` as a whole number."""
        return round(min(self._share(leaf, reader), 1e9) * TICKS)

    @staticmethod
    def _spread(made: list[tuple[_Joined, _Part, int, int]]) -> list[tuple[_Joined, _Part, int, int]]:
        """The best few of each combination of kinds."""
        count: dict[int, int] = {}
        out = []
        for m in made:
            n = count.get(m[3], 0)
            if n < KEEP:
                count[m[3]] = n + 1
                out.append(m)
        return out

    def _operand(self, node: SubjectNode, j: int, child: int) -> list[_Part]:
        s = self.subject
        access = node.form.accesses[j] if j < len(node.form.accesses) else None
        if child in s.literal:
            return [_Part(Operand(LOADED, access, frozenset(), 0, True), child, None, frozenset(), 0.0)]
        load = _Part(Operand(LOADED, access, frozenset({child}), 0, True), child, None, frozenset(), self._share(child, node.cls))
        out = [load]
        if (child in s.memory and child not in s.narrow) or node.form.kind in ("opaque", "alone") or access is None:
            return out
        consumer = "view" if node.form.view else node.form.kind
        for cut in self.cuts.get(child, ()):  # none yet of what is in memory and in the same group
            loaded = cut.ops == 0
            row = ""
            if not loaded:
                reads = sum([self._bytes[leaf] for leaf in cut.leaves])
                name, reason = self.rows.admit(consumer, j, Body(cut.record, cut.ops, s.types[child], s.users[child], reads))
                if name is None:
                    self.refused[reason] = self.refused.get(reason, 0) + 1
                    continue
                row = name
            steps = cut.steps | {(node.id, j, row)} if row else cut.steps
            out.append(_Part(Operand(cut.record, access, cut.leaves, cut.ops, loaded), child, cut, steps, cut.flow - cut.time))
        return out

    def _finish(self, node: SubjectNode, parts: tuple[_Part, ...]) -> Cut | None:
        self._effort.done += 1
        record = fold(node.form, node.id, [p.operand for p in parts])
        if isinstance(record, str):
            self.refused[f"grammar: {record}"] = self.refused.get(f"grammar: {record}", 0) + 1
            return None
        width = node.form.out.shape[-1] if node.form.kind == "online" and node.form.out.shape else 1
        if isinstance(width, int) and width > self.chip.limits.get("online_width", 256):
            reason = f"a row of {width} elements, at most {int(self.chip.limits.get('online_width', 256))} stay on chip"
            self.refused[f"grammar: {reason}"] = self.refused.get(f"grammar: {reason}", 0) + 1
            return None
        cuts = [p.cut for p in parts if p.cut is not None]
        leaves = frozenset[int]().union(*(p.operand.leaves for p in parts))
        inside = frozenset((node.cls,)).union(*(c.inside for c in cuts))
        nodes = frozenset((node.id,)).union(*(c.nodes for c in cuts))
        ops, heavy = len(nodes & self._computing), nodes & self._heavy
        if any(w <= nodes for w in self._against(nodes)):
            self.refused["target: no schedule could be printed"] = self.refused.get("target: no schedule could be printed", 0) + 1
            return None
        most = load_grammar().limits["leaves"]
        if len(leaves) > most or ops > self.options.max_body_ops or len(nodes) != len(inside) or leaves & inside:
            return None
        if len(heavy) > self.options.max_fusion_depth + 1:
            self.refused["option max_fusion_depth"] = self.refused.get("option max_fusion_depth", 0) + 1
            return None
        steps = frozenset[tuple[int, int, str]]().union(*(p.steps for p in parts))
        again, top = self._evaluations(parts), self._top(node, parts)
        return self.priced(Cut(node.cls, leaves, nodes, inside, record, ops, again, steps, top, heavy, self._part(node, parts)), ())

    def why_none(self, c: int) -> tuple[int, str, str]:
        """(class, reason, next step) of what keeps a class, or the first one that it needs, from being computed at all."""
        s = self.subject
        seen = {c}
        while True:
            missing = [x for n in s.by_class[c] for x in n.enode.children if not (x in s.memory or x in s.literal or x in self.cuts)]
            below = next((x for x in missing if x not in seen), None)
            if below is None or self._ready(c):
                break
            seen.add(below)
            c = below
        for node in self._ready(c):
            parts = tuple(self._operand(node, j, x)[0] for j, x in enumerate(node.enode.children))
            most, reads = load_grammar().limits["leaves"], len(frozenset().union(*(p.operand.leaves for p in parts)))
            if reads > most:
                rule = arity_rule(node.enode.op)
                return c, f"reads {reads} tensors, one kernel at most {most}", (f"leave '{rule}' in, which splits it" if rule
                       else "write it as several of fewer operands")  # fmt: skip
            if any(w <= {node.id} for w in self.without):
                return c, "no schedule of it could be printed for the target", "see the refusals of `explain`, or take another target"
            if (record := fold(node.form, node.id, [p.operand for p in parts])) and isinstance(record, str):
                return c, f"no kernel takes it ({record})", "report it with the model's text"
        return c, "each of its forms needs itself", "run with --without to see which rule removed the others"

    @staticmethod
    def _evaluations(parts: tuple[_Part, ...]) -> dict[int, float]:
        """How often the operands' nodes are evaluated, where more than once."""
        again: dict[int, float] = {}
        for p in parts:
            if p.cut is None:
                continue
            if p.operand.access is None:
                again.update(p.cut.again)
            elif p.operand.access.again == 1.0:
                again |= {n: max(again.get(n, 1.0), mine) for n, mine in p.cut.again.items()}
            else:
                for n in p.cut.nodes:
                    again[n] = max(again.get(n, 1.0), p.cut.again.get(n, 1.0) * p.operand.access.again)
        return again

    @staticmethod
    def _part(node: SubjectNode, parts: tuple[_Part, ...]) -> Mapping[int, float]:
        """The share of each leaf that is read, where that is not all of it: several reads of one leaf may be of different places."""
        shares = node.form.shares
        if not shares and not any(p.cut is not None and p.cut.part for p in parts):
            return NONE_IN_PART
        out: dict[int, float] = {}
        for j, p in enumerate(parts):
            mine = p.cut.part if p.cut is not None else NONE_IN_PART
            for x in p.operand.leaves:
                out[x] = out.get(x, 0.0) + mine.get(x, 1.0) * (shares[j] if shares else 1.0)
        return {x: s for x, s in out.items() if s < 1}

    def _top(self, node: SubjectNode, parts: tuple[_Part, ...]) -> frozenset[int]:
        """Interior classes at the points of `node`, those of operands that an element-wise node reads one by one; on chips whose blocks
        hold rows, also the row's statistics, at one point of each of its axes."""
        top = frozenset((node.cls,))
        shape, on_gpu = self._shape(node.cls), any(m.name == "shared" for m in self.chip.memories)
        if on_gpu and (node.form.kind == "reduce" or node.form.view):  # statistics of the row, with or without axes of extent 1
            inner = (
                x for p in parts if p.cut is not None and p.operand.access is not None and p.cut.record.kind in "SN" for x in p.cut.top
            )
            return top.union(x for x in inner if _points(self._shape(x)) == _points(shape))
        if node.form.kind != "map" or node.form.view:
            return top
        read = [p.cut for p in parts if p.cut is not None and p.operand.access is not None and p.operand.access.bijective]
        found = top.union(*(c.top for c in read if self.subject.types[c.cls].shape == shape))
        if on_gpu:
            every = [(p.cut, p.operand.access) for p in parts if p.cut is not None and p.operand.access is not None]
            found = found.union(*(c.top for c, a in every if not a.bijective and c.record.kind == "S" and lacks(self._shape(c.cls), shape)))
        return found

    def _shape(self, c: int) -> tuple[Dim, ...]:
        return self.subject.types[c].shape

    # ---- price
    def _share(self, leaf: int, reader: int) -> float:
        """A reader's share of what a leaf took. One that is the leaf in another order of axes stands for all its readers; and readers of
        a tensor that is merely widened had better widen it themselves, so that none counts on the others to have stored it."""
        s = self.subject
        return self.flow[leaf] if s.twins[leaf] == s.twins[reader] else self._shared[leaf]

    def _widened(self, c: int) -> bool:
        """Whether a class is the cast of a tensor of narrower elements."""
        types = self.subject.types
        return any(n.enode.op == "cast" and types[n.enode.children[0]].dtype.bits < types[c].dtype.bits for n in self.subject.by_class[c])

    def priced(self, cut: Cut, extra: tuple[int, ...]) -> Cut:
        """The cut with its time; `extra`: by-products that it stores too."""
        work = self.work(cut, extra)
        seconds = self._time(work)
        if few := self._few(cut):
            alone, parts = self._time(work._replace(tiles=few)), seconds + self.chip.launch
            if alone > parts:
                seconds = alone if cut.record.levels > 1 else parts
        if cut.record.kind == "X":
            seconds += reference_seconds((self.subject.types[x] for x in cut.leaves), self.chip)
        seconds = whole(seconds)
        return cut._replace(time=seconds, flow=seconds + sum([self._share(x, cut.cls) for x in cut.leaves]))

    def _time(self, work: Work) -> float:
        seconds = self._seconds.get(work)
        if seconds is None:
            seconds = self._seconds[work] = time_of(work, self.chip).seconds
        return seconds

    def _few(self, cut: Cut) -> int:
        """Blocks that share a body's rows where most cores would have none: 0 elsewhere. Reductions of which none needs another's result
        can be done in parts, by a launch more (`ir.parts`); those that do stay with these blocks."""
        r = cut.record
        if r.kind not in "SN" or not r.extents or not self._cluster:
            return 0
        row, out = prod(dim_hint(e) for e in r.extents), self.subject.types[cut.cls]
        rows = out.elements // (row if r.kind == "N" else 1)
        registers = self._cluster * self.chip.registers.count * self.chip.registers.bytes
        blocks = rows * (self._cluster if HELD * row * max(1, self._full(cut)) <= registers else 1)
        return blocks if 0 < blocks < self.chip.cores else 0

    def _operations(self, f: Form) -> float:
        """Vector operations of an op; of a reduction that runs along a row which one block's registers hold, those of a scan, on the
        cores that have rows."""
        chip = self.chip
        if not f.running or "scans" not in chip.features or f.running > SCAN:
            return f.vector
        return min(f.vector, SCANNED * f.out.elements * max(1.0, chip.cores * f.running / max(1, f.out.elements)))

    def work(self, cut: Cut, extra: tuple[int, ...] = ()) -> Work:
        s, limits = self.subject, self.chip.limits
        order, again = sorted(cut.nodes), cut.again
        vector, special = (sum([of[i] * again.get(i, 1.0) for i in order] if again else [of[i] for i in order])
                           for of in (self._vector, self._special))  # fmt: skip
        matrix = most = copies = 0.0
        m = k = 0
        lane, stride, dtype, whole = 1, 1, "f32", True
        online = any(s.nodes[i].form.kind == "online" for i in cut.heavy)  # its rows stay in registers
        picks = {s.nodes[x].cls: s.nodes[x] for x in cut.nodes}
        for i in sorted(cut.nodes & self._matrix):
            f = s.nodes[i].form
            matrix += f.matrix * again.get(i, 1.0)  # overlapping windows ask for the link before once each
            if f.matrix >= most:  # of a chain, the largest
                most, (m, _, k) = f.matrix, f.mnk
                m *= repeats(s, s.nodes[i], picks)
                lane, stride = f.lane_extent, f.lane_stride
            known = self._factors(s.nodes[i], picks)
            dtype, whole = known.dtype, whole and known.whole
            copies += known.copies if self.chip.runs_blocks else 0.0
            vector -= sum(self._vector[x] * again.get(x, 1.0) for x in known.vanish)
            if not known.whole and not online and f.mnk[0] <= limits.get("direct_rows", 0):  # factors made in registers, pairs at once
                vector -= sum(self._spared(x) for x in known.inside - known.vanish)
                matrix += f.matrix * (padded(f.mnk[0], limits["direct_columns"]) / f.mnk[0] - 1)
                m = 0
        eff = 1.0
        if matrix:
            lanes = max(1, self.chip.granule[1])
            eff = (lane / padded(lane, lanes) if lane < 4 * lanes else 1.0) / (1.0 if stride == 1 else 2.0)
            if online and m:
                eff, m = eff * self._filled(m), 0
            elif not whole:
                eff *= limits.get("warp_matrix", 1.0)
        return Work(
            read=float(self._read(cut)),
            written=float(self._bytes[cut.cls] + sum(self._bytes[x] for x in extra)),
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
            stays=float(max(self._sizes(cut).values())) if online else 0.0,
        )

    def _filled(self, rows: int) -> float:
        """Share of the matrix rate that so many rows leave: single waves compute fewer of them at once, at a rate of their own."""
        whole = rows / padded(rows, self.chip.granule[0])
        return max(whole, self.chip.limits.get("warp_matrix", 0.0) * rows / padded(rows, WARP_ROWS))

    def _read(self, cut: Cut) -> float:
        """Bytes of the leaves, those that are as large as the result once a pass."""
        passes, size = self._passes(cut), self._sizes(cut)
        if passes == 1:
            return sum(size.values())
        types, full = self.subject.types, self.subject.types[cut.cls].elements
        return sum(n * (passes if types[x].elements * 2 >= full else 1) for x, n in size.items())

    def _sizes(self, cut: Cut) -> dict[int, float]:
        """Bytes that a body reads of each leaf."""
        if not cut.part:
            return {x: self._bytes[x] for x in cut.leaves}
        return {x: self._bytes[x] * cut.part.get(x, 1.0) for x in cut.leaves}

    def _read_share(self, cut: Cut, share: float) -> float:
        """Share of the bandwidth at which a body reads: `share` for what it reads in another order (all, where that is computed)."""
        turned = {x for i in cut.nodes & self._turning for x in self.subject.nodes[i].enode.children}
        if not turned:
            return 1.0
        size = self._sizes(cut)
        slow = sum(n for x, n in size.items() if x in turned) if turned <= cut.leaves else sum(size.values())
        total = sum(size.values())
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
                new = factors_of(self.subject, node, picks, self.chip.runs_blocks)
                places = {picks[c].id: n for n, c in enumerate(classes) if c in picks}
                self._alike[shape] = new, tuple(places[x] for x in new.vanish), tuple(places[x] for x in new.inside)
            one, *found = self._alike[shape]
            vanish, inside = (frozenset(picks[classes[n]].id for n in places) for places in found)
            self.factors[key] = replace(one, vanish=vanish, inside=inside)
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


class _Part(NamedTuple):
    """An operand's choice: a load (no cut) or an inlined body."""

    operand: Operand
    cls: int
    cut: Cut | None
    steps: frozenset[tuple[int, int, str]]
    flow: float

    @property
    def ops(self) -> int:
        return self.operand.ops


class _Joined(NamedTuple):
    """Choices for the first operands of a node, and what they have together. `took`: what their leaves took, in ticks, one that several
    operands load once; `kinds`: how many there are of each kind, a digit a kind."""

    parts: tuple[_Part, ...]
    leaves: frozenset[int]
    inside: frozenset[int]
    nodes: frozenset[int]
    took: int
    ops: int
    kinds: int

    def joins(self, new: _Part) -> bool:
        """No tensor both loaded and computed inside, one node an interior class."""
        if not new.operand.leaves.isdisjoint(self.inside):
            return False
        if new.cut is None:
            return True
        if not new.cut.inside.isdisjoint(self.leaves):
            return False
        shared = new.cut.inside & self.inside
        return not shared or len(new.cut.nodes & self.nodes) == len(shared)

    def and_(self, new: _Part, took: int, kinds: int) -> _Joined:
        """(parts), new -> (parts, new)."""
        inside, nodes = (self.inside | new.cut.inside, self.nodes | new.cut.nodes) if new.cut else (self.inside, self.nodes)
        return _Joined((*self.parts, new), self.leaves | new.operand.leaves, inside, nodes, took, self.ops + new.ops, kinds)


_NONE = _Joined((), frozenset(), frozenset(), frozenset(), 0, 0, 0)
