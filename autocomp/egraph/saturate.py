"""Graph + rules -> Frozen: every form of every tensor that the rules know.

egglog matches left sides modulo equality; conditions and attribute arithmetic of a match are evaluated here, and what the
right side makes goes back in as terms. Phases run in order, each to a budget that is checked between matches.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autocomp.budget import folded_bytes, most_matches, most_terms
from autocomp.deadline import current
from autocomp.egraph.apply import apply, apply_together
from autocomp.egraph.arity import split_wide
from autocomp.egraph.engine import Engine
from autocomp.egraph.frozen import EClass, ENode, Frozen, Instance
from autocomp.egraph.looked import Looked, Raw
from autocomp.egraph.matches import Forms
from autocomp.egraph.queries import Query, engine_for
from autocomp.egraph.terms import Terms, typed
from autocomp.ir.away_from_zero import bounds
from autocomp.ir.builder import checked_attrs
from autocomp.ir.decided import decided
from autocomp.ir.node import Attrs, Graph
from autocomp.ir.types import DTYPES, TensorType
from autocomp.options import Options
from autocomp.rewrite.functions import tensor_functions
from autocomp.rewrite.rule import RuleSet
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.rewrite.where import Answer
from autocomp.trace import Trace

REPORTED_REJECTS = 60  # refused matches of a rule that the trace keeps
SHARE, TURN = 0.5, 0.1  # of a phase's new terms, for one rule: of all, and in one round
SMALL = 200  # new terms below which nothing is counted
TRIES = 10  # matches that a phase looks at for each term that it may have
FEW = 100  # nodes of a graph whose rules take longer to declare than to match
EMPTY = ("iota", "cast")  # of which a tensor without elements is made


def saturate(graph: Graph, rules: RuleSet, options: Options, trace: Trace, features: Sequence[str] = (),
             target: str = "", drawn: bool = False) -> Frozen:  # fmt: skip
    """All forms of the graph's tensors under the rules of the graph phases, of those for a target its own; `features` are the chip's, for
    rules that ask. drawn: inputs stand for any tensors, also for those that are known to be away from zero.

    Raises RuleError where a rule's two sides differ in type; a phase that reaches its budget stops and says so in the trace.
    """
    phases = {p: rules.of(p, target) for p in GRAPH_PHASES}
    nodes = graph.nodes()
    terms, names, source = _load(graph, engine_for(phases, {*EMPTY, *(n.op for n in nodes)}, len(nodes) <= FEW), drawn)
    said = {names[n]: place for n, place in graph.locations.items() if n in names}
    functions, size = tensor_functions(options, features), len(terms.types)
    for phase, chosen in phases.items():
        if chosen and not current().passed("saturate", f"rules of phase {phase} and later ones"):
            Phase(phase, terms, options, trace, terms.engine.declared[phase], functions, size, places=said).run()
    terms.engine.rebuild()
    split = split_wide(terms, options, trace)
    terms.settle()
    terms.engine.close()
    numbers = [(names[n], i) for i, n in enumerate(graph.nodes())]
    return _freeze(terms, graph, [(name, names[n]) for name, n in graph.outputs], source, said, numbers, split)


def freeze_graph(graph: Graph) -> Frozen:
    """The graph as it is, without rules."""
    return saturate(graph, RuleSet(), Options(), Trace())


def _load(graph: Graph, engine: Engine, drawn: bool) -> tuple[Terms, dict[Any, int], dict[int, str]]:
    terms = Terms(engine, folded_bytes(sum(n.type.bytes for n in graph.nodes() if n.op == "param")))
    names: dict[Any, int] = {}
    source: dict[int, str] = {}
    deciding, bounded = decided(graph), bounds(graph)
    for n in graph.nodes():
        if 0 in n.type.shape:
            names[n] = _empty(terms, n.type)
            source.setdefault(names[n], n.op)
            continue
        args = tuple(names[i] for i in n.inputs)
        least = None if drawn and n.op == "input" else bounded[n].least
        names[n] = terms.add(n.op, typed(n.op, n.attrs, n.type), args, n.type, "source", n in deciding, least)
        source.setdefault(names[n], n.op)
    return terms, names, source


def _empty(terms: Terms, t: TensorType) -> int:
    """A tensor without elements is a constant whatever computes it: nothing is left for a kernel to do."""
    attrs = checked_attrs("iota", {"shape": t.shape, "axis": 0, "dtype": "i64"})
    base = terms.add("iota", attrs, (), TensorType(DTYPES["i64"], t.shape), "source")
    return base if t.dtype == DTYPES["i64"] else terms.add("cast", checked_attrs("cast", {"to": t.dtype.name}), (base,), t, "source")


# ---- one phase
@dataclass
class Phase:
    """One phase at work: its rules as queries, what fired, and its budget.

    What is counted: rounds, terms, matches that are looked at, and matches of one left side. No rule makes more than SHARE of the phase's
    new terms, nor more than a TURN of them in a round, so that the others come to something beside one that grows.
    """

    name: str
    terms: Terms
    options: Options
    trace: Trace
    queries: list[Query]
    functions: Mapping[str, Any]
    source: int  # terms of the graph
    start: float = field(default_factory=time.perf_counter)
    fired: dict[str, int] = field(default_factory=dict)
    places: Mapping[int, str] = field(default_factory=dict)  # term of the graph -> what the model calls it
    at_class: dict[int, str] | None = None  # the same by class, as of the last matches
    rejected: dict[str, int] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)  # terms, by rule
    matched: dict[str, int] = field(default_factory=dict)  # matches looked at, by rule
    spent: dict[str, float] = field(default_factory=dict)  # seconds of looking at and applying them, by rule
    taken: set[int] = field(default_factory=set)  # tensors inside of what siblings became
    resting: dict[str, str] = field(default_factory=dict)  # rules that match no more, and why
    tried: int = 0

    def __post_init__(self) -> None:
        first = len(self.terms.types)
        self.most = most_terms(self.options, self.source, first)
        self.matches = most_matches(self.source)
        self.left = max(0, self.most - first)

    def run(self) -> None:
        """Rounds of matching and applying until nothing changes or the budget is reached, which the trace then says."""
        looked, rounds, changed = Looked(self.terms), 0, True
        over: dict[str, Any] | None = None
        while changed and over is None:
            if rounds == self.options.phase_iterations:
                over = {"iterations": rounds, "limit": rounds}
                break
            rounds += 1
            self._rest()
            active = [q.relation for q in self.queries if q.rule.name not in self.resting]
            self.terms.engine.match(active)
            found, self.at_class = self.terms.engine.matches(active), None
            self.terms.settle()
            looked.take_up()
            joined = self.terms.cancel()
            changed, over = self._round(found, looked, rounds == 1)
            changed |= joined
        if over is not None:
            worst = max(self.fired, key=lambda r: (self.fired[r], r), default="none")
            self.trace.add("budget", self.name, **over, most_matches=f"{worst} x{self.fired.get(worst, 0)}")
        for name, why in sorted(self.resting.items()):
            self.trace.add("budget", self.name, rule=name, limit=why)
        for name, count in sorted(self.rejected.items()):
            if count > REPORTED_REJECTS:  # how many more
                self.trace.add("reject", name, phase=self.name, reason="", at="", place="", count=count - REPORTED_REJECTS)
        for name, count in sorted(self.fired.items()):
            self.trace.add("rule", name, self.spent.get(name, 0.0), phase=self.name, count=count, matches=self.matched.get(name, 0),
                           terms=self.made.get(name, 0))  # fmt: skip
        self.trace.add("phase", self.name, time.perf_counter() - self.start, terms=len(self.terms.types), fired=sum(self.fired.values()))

    def _rest(self) -> None:
        """Rules that have had their share of terms, or would match too often, are asked no more."""
        for name, terms in self.made.items():
            if terms > max(SMALL, self.left * SHARE):
                self.resting.setdefault(name, f"{terms} terms")
        if not self._grown():
            return
        self.terms.engine.rebuild()
        forms = Forms(self.terms.engine.terms, self.terms.engine.classes)
        for q in self.queries:
            if q.rule.name not in self.resting and (often := forms.at_most(q.lhs, self.matches)) > self.matches:
                self.resting[q.rule.name] = f"{often} matches, at most {self.matches}"

    def _grown(self) -> bool:
        """Whether classes may have many forms: only then is it worth while to count."""
        return len(self.terms.types) > self.source + max(SMALL, self.source)

    def _round(self, found: Mapping[str, Sequence[Raw]], looked: Looked, first: bool) -> tuple[bool, dict[str, Any] | None]:
        """Apply the new matches; whether one fired or waits, and the limit that was reached, if any. Siblings are looked for among the
        phase's own tensors, not among those that it makes."""
        changed = False
        for q in self.queries:
            begun = time.perf_counter()
            fired, over = self._turn(q, found.get(q.relation, ()), looked, first)
            self.spent[q.rule.name] = self.spent.get(q.rule.name, 0.0) + time.perf_counter() - begun
            changed |= fired
            if over is not None:
                return changed, over
        return changed, self._over()

    def _turn(self, q: Query, found: Sequence[Raw], looked: Looked, first: bool) -> tuple[bool, dict[str, Any] | None]:
        """The new matches of one rule."""
        new = looked.new(q, found)
        name, before, changed = q.rule.name, self.made.get(q.rule.name, 0), False
        if q.rule.siblings:
            for _, facts, m in new:
                looked.note(q, facts, m)
            self.matched[name] = self.matched.get(name, 0) + len(new)
            together = apply_together(self.terms, q, [row for row, *_ in new], self.functions, self.taken) if first else []
            return any([self._said(q, row, reason) for row, reason in together]), None
        for row, facts, m in new:
            if (over := self._over()) is not None:
                return changed, over
            if self.made.get(name, 0) - before > max(SMALL, self.left * TURN):
                return True, None  # the others first
            looked.note(q, facts, m)
            self.tried, terms = self.tried + 1, len(self.terms.types)
            self.matched[name] = self.matched.get(name, 0) + 1
            changed |= self._said(q, row, apply(self.terms, q, row, self.functions))
            self.made[name] = self.made.get(name, 0) + len(self.terms.types) - terms
        return changed, None

    def _said(self, q: Query, row: tuple[object, ...], answer: str | Answer | None) -> bool:
        """Count what a match gave; whether the rule fired."""
        name = q.rule.name
        if answer is None:
            self.fired[name] = self.fired.get(name, 0) + 1
        elif answer != "":
            self.rejected[name] = self.rejected.get(name, 0) + 1
            if self.rejected[name] <= REPORTED_REJECTS:
                reason = answer.reason if isinstance(answer, Answer) else answer
                root = int(row[0])  # type: ignore[call-overload]
                at = str(self.terms.types[root])
                self.trace.add("reject", name, phase=self.name, reason=reason, at=at, place=self._place(root), count=1)
        return answer is None

    def _place(self, term: int) -> str:
        """What the model calls the tensor of a term, "" if it has none."""
        if term in self.places:
            return self.places[term]
        classes = self.terms.engine.classes
        if self.at_class is None:
            self.at_class = {}
            for n, place in self.places.items():
                if n < len(classes):
                    self.at_class.setdefault(classes[n], place)
        return self.at_class.get(classes[term], "") if term < len(classes) else ""

    def _over(self) -> dict[str, Any] | None:
        """The limit that is reached, with how much of it was used."""
        terms = len(self.terms.types)
        if terms > self.most:
            return {"nodes": terms, "limit": self.most}
        if self.tried > TRIES * self.most:
            return {"matches": self.tried, "limit": TRIES * self.most}
        left = f"rules of phase {self.name} and later ones"
        return {"deadline_s": current().seconds} if current().passed("saturate", left) else None


# ---- out
def _freeze(terms: Terms, graph: Graph, roots: list[tuple[str, int]], source: dict[int, str], said: dict[int, str],
            numbers: list[tuple[int, int]], left_out: frozenset[int]) -> Frozen:  # fmt: skip
    classes = terms.engine.classes
    dense = {c: i for i, c in enumerate(sorted(set(classes)))}
    nodes: dict[int, dict[tuple[str, Attrs, tuple[int, ...]], ENode]] = {i: {} for i in dense.values()}
    constant, indexed = [False] * len(dense), [False] * len(dense)
    where: dict[int, str] = {}
    for n, t in enumerate(terms.engine.terms):
        c = dense[classes[n]]
        children = tuple(dense[classes[a]] for a in t.args)
        attrs = Attrs({k: v for k, v in t.attrs.items() if k != "type"}) if t.op in ("input", "param", "const") else t.attrs
        if c not in children and n not in left_out:
            nodes[c].setdefault((t.op, attrs, children), ENode(t.op, attrs, children, t.why))
        constant[c] = constant[c] or terms.constant[n]
        indexed[c] = indexed[c] or terms.indexed[n]
        if n in source:
            where.setdefault(c, source[n])
    places: dict[int, str] = {}
    for n, place in said.items():
        places.setdefault(dense[classes[n]], place)
    held: dict[int, tuple[int, ...]] = {}
    for n, number in numbers:
        held[dense[classes[n]]] = (*held.get(dense[classes[n]], ()), number)
    out = {}
    for first, c in dense.items():
        mine = sorted(nodes[c].values(), key=lambda e: (e.op, repr(e.attrs), e.children))
        out[c] = EClass(c, terms.types[first], tuple(mine), constant[c] and not indexed[c])
    instances: dict[tuple[str, int], Instance] = {}
    joined: dict[int, tuple[Instance, ...]] = {}
    for rule, m, first, end in terms.fired:
        root = dense[classes[m.root]]
        found = Instance(rule, root, tuple((v, dense[classes[n]]) for v, n in m.names.items()), m.env)
        for n in range(first, end):
            instances.setdefault((rule.name, dense[classes[n]]), found)
        if first == end and m.root in source:
            joined[root] = (*joined.get(root, ()), found)
    return Frozen(out, tuple((name, dense[classes[n]]) for name, n in roots), graph, where, places, held, instances, joined)
