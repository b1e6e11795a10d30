"""Bodies as cuts: for each tensor, the best few choices of nodes down to the tensors that are loaded.

A body is (leaves, nodes). Two operands' bodies join if no tensor is both loaded and computed inside and each interior class
has one node. Cuts are ranked by area flow (own time plus each leaf's flow shared among its users), some kept per kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from operator import itemgetter

from autocomp.budget import Effort, cover_effort
from autocomp.cost.chip import Chip
from autocomp.cost.reference import own_seconds, reference_seconds
from autocomp.deadline import current
from autocomp.egraph.cut import NONE_IN_PART, TICKS, Cut, Known, lacks, points, whole
from autocomp.egraph.cut_prices import Prices
from autocomp.egraph.grammar import LOADED, Operand, fold, load_grammar
from autocomp.egraph.held import Group
from autocomp.egraph.joined import NONE, Joined, More, Part, joined
from autocomp.egraph.rows import Body, Rows
from autocomp.egraph.subject import Subject, SubjectNode
from autocomp.ir.coded import coded
from autocomp.ir.types import Dim
from autocomp.options import Options
from autocomp.rewrite.vocabulary import arity_rule

RANKED = 8  # classes of a strongly connected group up to which the cheapest goes first
KEEP = 4  # cuts per kind; measured: 4 a kind give the same covers as 8 and 16 on BERT, ResNet-50 and Llama
FEW = 3  # operands up to which those that products and reductions spare are kept beside: joins of many would take three times as long
SCALING = ("cast", "sub", "mul")  # of what bytes stand for: the zero point is taken off, the scale applied
WIDENING = 4  # such operations in a row at most: bytes are widened, centred, cast and scaled
KINDS = 16  # bits that count the operands of one kind
_NO_NODES: frozenset[int] = frozenset()


def watched(w: frozenset[int]) -> list[int]:
    """Two nodes of what no body may have together: one of them is in what lacks one node."""
    return sorted(w)[:2]


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
    without: frozenset[frozenset[int]] = frozenset()  # nodes that no body has together, but those of which `known` has the price
    known: Known = field(default_factory=Known)
    effort: Effort | None = None  # once it is spent, tensors are computed as the model says (after the deadline, each by
    # a kernel of its own too); by default this cover's own
    prices: Prices | None = None  # of this subject, where covers of it before this one have asked

    def __post_init__(self) -> None:
        nodes = self.subject.nodes
        self._effort = self.effort or cover_effort(len(self.subject.frozen.graph.nodes()))
        self._prices = self.prices or Prices(self.subject, self.chip, self.options.allow_tf32)
        self._on_gpu = any(m.name == "shared" for m in self.chip.memories)
        self._computing = frozenset(n.id for n in nodes if not n.form.view)
        self._heavy = frozenset(n.id for n in nodes if n.form.kind in ("reduce", "contract", "online"))
        self._watched: dict[int, list[frozenset[int]]] = {}
        for w in self.without:
            for n in watched(w):
                self._watched.setdefault(n, []).append(w)
        # One name for a tensor in several orders of its axes; bytes in memory keep their own, since matrix units read one order only.
        s = self.subject
        self._tensor = {c: c if c in s.memory and t.dtype.bytes == 1 else s.twins[c] for c, t in s.types.items()}
        self._shared: dict[int, float] = {}  # what of a class's flow falls to a reader
        self._settled: dict[int, list[frozenset[int]]] | None = self.known.bodies() if self.known.settled else None

    def run(self) -> None:
        """Fill `cuts` for every class that is not in memory."""
        s = self.subject
        self._prices.held.asked((self.rows.rows, self.options))
        for number, group in enumerate(s.order):
            if self._as_before(number):
                continue
            done, refused = self._effort.done, dict(self.refused)
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
            self._hold(number, done, refused)
        for c in s.narrow:  # no kernel of its own ever makes what is in memory
            self.cuts.pop(c, None)

    def _as_before(self, number: int) -> bool:
        """Take a group's cuts from a cover before this one, where that found the same (`held`). Work counts as if it were done."""
        if self.known.seconds or self._hurried:
            return False
        found = self._prices.held.same(number, self.without, watched, self.cuts)
        if found is None or self._effort.done + found.done >= self._effort.limit:
            return False
        self._effort.done += found.done
        self.cuts |= found.cuts
        self.flow |= found.flow
        self._shared |= found.shared
        for reason, n in found.refused.items():
            self.refused[reason] = self.refused.get(reason, 0) + n
        return True

    def _hold(self, number: int, done: int, refused: Mapping[str, int]) -> None:
        """Keep a group's cuts for covers behind this one; equal ones stay the very list, so that what reads them stays too."""
        if self.known.seconds or self._hurried:
            return
        held, group = self._prices.held, self.subject.order[number]
        old = held.groups.get(number)
        for c in group:
            if old is not None and c in self.cuts and self.cuts[c] == old.cuts.get(c):
                self.cuts[c] = old.cuts[c]
        of = lambda known: {c: known[c] for c in group if c in known}
        mine = [*takewhile(lambda c: c in group, reversed(self.cuts))][::-1]  # in the order in which they were found
        more = {reason: n - refused.get(reason, 0) for reason, n in self.refused.items() if n != refused.get(reason, 0)}
        reads = tuple((x, self.cuts.get(x)) for x in held.reads(number))
        held.groups[number] = Group(self.without, reads, {c: self.cuts[c] for c in mine}, of(self.flow), of(self._shared), more,
                                    self._effort.done - done)  # fmt: skip

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
        quick: dict[str, Cut] = {}  # of each kind the product or reduction that itself takes least: its readers may take no longer for it
        for cut in found:
            kind = self._kind(cut, cut.record.kind, apart=True)
            if cut.heavy and (kind not in quick or cut.time < quick[kind].time):
                quick[kind] = cut
            if count.get(kind, 0) < KEEP:
                count[kind] = count.get(kind, 0) + 1
                kept.append(cut)
        kept += [cut for cut in quick.values() if not any(cut is x for x in kept)]
        self.cuts[c] = kept
        self._settle((c,), kept[0].flow)

    def _kind(self, cut: Cut | None, kind: str, apart: bool) -> str:
        """What a cut competes as: those that lack one node of what no body may have together are kinds of their own, since a reader that
        has that node needs the others; `apart`: so is one operation on what is stored."""
        kind = f"{kind} unfused" if apart and cut is not None and cut.ops <= 1 and not cut.steps else kind
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
        partial: list[Joined] = [NONE]
        unfused: tuple[Part, ...] = ()
        share: dict[int, int] = {}
        kinds: dict[str, int] = {}
        factor = node.form.kind == "contract"  # matrix units read casts of bytes as the bytes, if both factors are
        for j, child in enumerate(node.enode.children):
            choices = self._operand(node, j, child)[: 1 if alone else None]
            unfused = (*unfused, choices[0])
            for o in choices:
                share.update((x, self._ticks(x, node.cls)) for x in o.operand.leaves - share.keys())
            digit = [kinds.setdefault(self._kind(o.cut, o.operand.record.kind, factor), 1 << KINDS * len(kinds)) for o in choices]
            made = joined(partial, [*zip(choices, digit)], share)
            if len(made) > 4 * KEEP:
                made.sort(key=itemgetter(2, 4))
                first = self._spread(made)
                made = first + (self._quick(made, first, node.id in self._heavy) if len(node.enode.children) <= FEW else [])
            partial = [p.and_(o, took, key) for p, o, took, key, _ in made]
        chosen = [p.parts for p in partial]
        if all(any(x.cut is not None for x in parts) for parts in chosen):
            chosen.append(unfused)  # all others may be too large for one body
        return [cut for parts in chosen if (cut := self._finish(node, parts)) is not None]

    def _ticks(self, leaf: int, reader: int) -> int:
        """`_share` as a whole number."""
        return round(min(self._share(leaf, reader), 1e9) * TICKS)

    @staticmethod
    def _spread(made: Iterable[More]) -> list[More]:
        """The best few of each combination of kinds."""
        count: dict[int, int] = {}
        out = []
        for m in made:
            n = count.get(m[3], 0)
            if n < KEEP:
                count[m[3]] = n + 1
                out.append(m)
        return out

    def _quick(self, made: list[More], first: list[More], heavy: bool) -> list[More]:
        """The few beside the first that take least where what products and reductions among the operands (or all operands of `heavy` ones)
        take counts too, or alone: one that reads stored factors may do with less than those whose leaves took less, which compute the
        factors again."""
        took = [sum([x.cut.time for x in (*m[0].parts, m[1]) if x.cut is not None and (heavy or x.cut.heavy)]) for m in made]
        if not any(took):
            return []
        known = {id(m) for m in first}
        more: dict[int, More] = {}
        for share in (1 / TICKS, 0.0):
            order = sorted(range(len(made)), key=lambda i: (share * made[i][2] + took[i], made[i][2]))
            more |= {id(m): m for m in self._spread([made[i] for i in order])}
        return [m for i, m in more.items() if i not in known]

    def _loaded(self, node: SubjectNode, j: int, child: int) -> Part:
        """An operand that a node loads, or a number that stands in it."""
        access = node.form.accesses[j] if j < len(node.form.accesses) else None
        if child in self.subject.literal:
            return Part(Operand(LOADED, access, frozenset(), 0, True), child, None, frozenset(), 0.0)
        return Part(Operand(LOADED, access, frozenset({child}), 0, True), child, None, frozenset(), self._share(child, node.cls))

    def _operand(self, node: SubjectNode, j: int, child: int) -> list[Part]:
        s = self.subject
        load = self._loaded(node, j, child)
        if child in s.literal:
            return [load]
        out = [load] if child not in s.inner or child not in self.cuts else []
        if (child in s.memory and child not in s.narrow) or node.form.kind in ("opaque", "alone") or load.operand.access is None:
            return out
        for cut in self.cuts.get(child, ()):  # none yet of what is in memory and in the same group
            if self._settled is not None and not any(cut.nodes <= w for w in self._settled.get(node.id, ())):
                continue  # no part of a body that has a schedule
            if (part := self._inlined(node, j, cut)) is not None:
                out.append(part)
        return out

    def _inlined(self, node: SubjectNode, j: int, cut: Cut, once: bool = False) -> Part | None:
        """An operand that a node computes by a body of its own, None where no rule admits it. `once`: no one else computes it again."""
        s, child, row = self.subject, cut.cls, ""
        loaded = cut.ops == 0
        if not loaded:
            reads = sum([self._prices.bytes[leaf] for leaf in cut.leaves])
            consumer = "view" if node.form.view else node.form.kind
            name, reason = self.rows.admit(consumer, j, Body(cut.record, cut.ops, s.types[child], 1 if once else s.users[child], reads))
            if name is None:
                self.refused[reason] = self.refused.get(reason, 0) + 1
                return None
            row = name
        steps = cut.steps | {(node.id, j, row)} if row else cut.steps
        access = node.form.accesses[j] if j < len(node.form.accesses) else None
        operand = Operand(cut.record, access, cut.leaves, cut.ops, loaded)
        return Part(operand, child, cut, steps, cut.flow - cut.time)

    def with_inside(self, cut: Cut, bodies: Mapping[int, Cut]) -> Cut | None:
        """A cut whose leaves among `bodies` are computed inside, by these, and stored for whoever reads them; None where a rule or a limit
        is against it."""
        of = {self.subject.nodes[n].cls: self.subject.nodes[n] for n in cut.nodes}
        return self._remade(cut.cls, of, bodies, dict(bodies))

    def _remade(self, c: int, of: Mapping[int, SubjectNode], once: Mapping[int, Cut], done: dict[int, Cut | None]) -> Cut | None:
        """A class computed by the nodes `of` a body, down to the bodies that are `done`."""
        if c not in done:
            parts = [self._loaded(of[c], j, child) if child not in of and child not in once else
                     self._inlined(of[c], j, inner, child in once) if (inner := self._remade(child, of, once, done)) is not None else None
                     for j, child in enumerate(of[c].enode.children)]  # fmt: skip
            found = [p for p in parts if p is not None and (p.cut is None or p.operand.access is not None)]
            done[c] = self._finish(of[c], tuple(found)) if len(found) == len(parts) else None
        return done[c]

    def _finish(self, node: SubjectNode, parts: tuple[Part, ...]) -> Cut | None:
        """The cut of a node over its operands' choices, None where there is none. What covers of one subject agree on is made once."""
        self._effort.done += 1
        built = self._prices.held.built
        key = (node.id, *[-1 if p.cut is None else p.cut.number for p in parts])
        refused, cut = built.bodies.get(key) or built.add(key, *self._body(node, parts))
        if cut is not None and any(w <= cut.nodes for w in self._against(cut.nodes)) and cut.key() not in self.known.seconds:
            refused = "target: no schedule could be printed"
        if refused is None and cut is not None:
            return self.priced(cut, ())
        if refused:
            self.refused[refused] = self.refused.get(refused, 0) + 1
        return None

    def _body(self, node: SubjectNode, parts: tuple[Part, ...]) -> tuple[str | None, Cut | None]:
        """The reason against a body ("" where nobody asks for it), and the body without a price, as far as it was made."""
        record = fold(node.form, node.id, [p.operand for p in parts])
        if isinstance(record, str):
            return f"grammar: {record}", None
        width = node.form.out.shape[-1] if node.form.kind == "online" and node.form.out.shape else 1
        if isinstance(width, int) and width > self.chip.limits.get("online_width", 256):
            return f"grammar: a row of {width} elements, at most {int(self.chip.limits.get('online_width', 256))} stay on chip", None
        cuts = [p.cut for p in parts if p.cut is not None]
        leaves = _NO_NODES.union(*[p.operand.leaves for p in parts])
        inside = frozenset((node.cls,)).union(*[c.inside for c in cuts])
        nodes = frozenset((node.id,)).union(*[c.nodes for c in cuts])
        ops, heavy = len(nodes & self._computing), nodes & self._heavy
        cut = Cut(node.cls, leaves, nodes, inside, record, ops, {}, frozenset(), _NO_NODES, heavy)
        if len(leaves) > load_grammar().limits["leaves"] or ops > self.options.max_body_ops or len(nodes) != len(inside) or leaves & inside:
            return "", cut
        if len(heavy) > self.options.max_fusion_depth + 1:
            return "option max_fusion_depth", cut
        steps = frozenset[tuple[int, int, str]]().union(*[p.steps for p in parts])
        again, top = self._evaluations(parts), self._top(node, parts)
        return None, Cut(node.cls, leaves, nodes, inside, record, ops, again, steps, top, heavy, self._part(node, parts))

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
    def _evaluations(parts: tuple[Part, ...]) -> dict[int, float]:
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
    def _part(node: SubjectNode, parts: tuple[Part, ...]) -> Mapping[int, float]:
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

    def _top(self, node: SubjectNode, parts: tuple[Part, ...]) -> frozenset[int]:
        """Interior classes at the points of `node`, those of operands that an element-wise node reads one by one; on chips whose blocks
        hold rows, also the row's statistics, at one point of each of its axes."""
        top = frozenset((node.cls,))
        shape, on_gpu = self._shape(node.cls), self._on_gpu
        if on_gpu and (node.form.kind == "reduce" or node.form.view):  # statistics of the row, with or without axes of extent 1
            inner = (
                x for p in parts if p.cut is not None and p.operand.access is not None and p.cut.record.kind in "SN" for x in p.cut.top
            )
            return top.union(x for x in inner if points(self._shape(x)) == points(shape))
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

    def _widened(self, c: int, steps: int = WIDENING) -> bool:
        """Whether a class is a tensor of narrower elements, cast, centred and scaled by numbers: in at most so many operations."""
        s, bits = self.subject, self.subject.types[c].dtype.bits
        for n in s.by_class[c]:
            read = [x for x in n.enode.children if x not in s.literal and not (x in s.memory and s.types[x].elements == 1)]
            if len(read) != 1 or n.enode.op not in SCALING or s.types[read[0]].shape != s.types[c].shape:
                continue
            if s.types[read[0]].dtype.bits < bits or (steps > 1 and self._widened(read[0], steps - 1)):
                return True
        return False

    def _opaque_seconds(self, cut: Cut) -> float:
        """What an op without a body takes beside its bytes: as a function of the target's, or through its reference."""
        (node,) = (self.subject.nodes[n].enode for n in cut.nodes)
        operands = [self.subject.types[k] for k in node.children]
        if coded(node.op, operands, self.chip.features, node.attrs):
            return own_seconds(node.op, node.attrs, operands, self.subject.types[cut.cls], self.chip)
        return reference_seconds(operands, self.chip)

    def priced(self, cut: Cut, extra: tuple[int, ...]) -> Cut:
        """The cut with its time; `extra`: by-products that it stores too."""
        built = self._prices.held.built
        seconds = built.said.get(cut.number) if not extra else None
        if seconds is None:
            seconds = self._said(cut, extra)
            if not extra:
                built.said[cut.number] = seconds
        if self.known.seconds:
            seconds = self.known.of(cut, extra, seconds)
        seconds = whole(seconds)
        return cut.taking(seconds, seconds + sum([self._share(x, cut.cls) for x in cut.leaves]))

    def _said(self, cut: Cut, extra: tuple[int, ...]) -> float:
        """Seconds of a cut, whatever schedules of earlier covers take."""
        prices = self._prices
        work = prices.work(cut, extra)
        seconds = prices.time(work)
        if few := prices.few(cut):
            alone, parts = prices.alone(work, few), seconds + self.chip.launch
            if alone > parts or not self.chip.runs_blocks:
                seconds = alone if cut.record.levels > 1 else min(alone, parts)
        return seconds + self._opaque_seconds(cut) if cut.record.kind == "X" else seconds
