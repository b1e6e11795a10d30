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
from autocomp.egraph.arity import split_wide
from autocomp.egraph.engine import Engine
from autocomp.egraph.frozen import EClass, ENode, Frozen, Instance
from autocomp.egraph.matches import Forms
from autocomp.egraph.queries import Query, engine_for
from autocomp.errors import ModelError, RuleError
from autocomp.ir.away_from_zero import bounds
from autocomp.ir.builder import checked_attrs, constant, inferred
from autocomp.ir.decided import decided
from autocomp.ir.node import Attrs, Graph
from autocomp.ir.ops import OPS
from autocomp.ir.scalar import SCALAR, convert
from autocomp.ir.types import BOOL, DTYPES, TensorType, dim_hint, holds_symbol, same_number
from autocomp.options import Options
from autocomp.rewrite.expr import Lit, Ref, Word
from autocomp.rewrite.functions import Operand, tensor_functions
from autocomp.rewrite.pattern import Pattern
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.rewrite.where import Answer, Env, Unanswerable, evaluate, holds
from autocomp.trace import Trace

REPORTED_REJECTS = 60  # refused matches of a rule that the trace keeps
SHARE, TURN = 0.5, 0.1  # of a phase's new terms, for one rule: of all, and in one round
SMALL = 200  # new terms below which nothing is counted
TRIES = 10  # matches that a phase looks at for each term that it may have
EMPTY = ("iota", "cast")  # of which a tensor without elements is made
INJECTIVE = frozenset(name for name, op in OPS.items() if op.injective)


@dataclass
class Subject:
    """The graph inside the engine: type and known facts of every named term.

    uniform: the number that all elements are, if it is known. constant: computable from parameters and constants alone,
    before the program runs, so that no symbolic size is in it. fixed: none is in its own type and attributes.
    indexed: a map of indices alone, or one number in another shape: cheaper to compute than to load, so never folded.
    decides: a rounding or a comparison is computed from it. least: its elements are 0 or of at least that magnitude, as far as the graph
    says it. After `settle` all but `fixed` and `indexed` are facts of classes: what one
    form knows holds for all of them; of `uniform` and `constant` also for what is computed from them.
    united: classes met since then. fired: each time that a rule did, with the terms that it made: from the first to before the second.
    """

    engine: Engine
    foldable: int  # bytes of a constant at most
    types: list[TensorType] = field(default_factory=list)
    uniform: list[float | None] = field(default_factory=list)
    constant: list[bool] = field(default_factory=list)
    fixed: list[bool] = field(default_factory=list)
    indexed: list[bool] = field(default_factory=list)
    decides: list[bool] = field(default_factory=list)
    least: list[float | None] = field(default_factory=list)
    united: bool = False
    fired: list[tuple[Rule, Match, int, int]] = field(default_factory=list)

    def add(self, op: str, attrs: Attrs, args: tuple[int, ...], type: TensorType, why: str, decides: bool = False, least: float | None = 0.0
            ) -> int:  # fmt: skip
        n = self.engine.add(op, attrs, args, why)
        if n == len(self.types):
            self.decides.append(decides)
            self.least.append(least)
            self.types.append(type)
            self.fixed.append(not holds_symbol(type) and not holds_symbol(attrs))
            self.uniform.append(self._uniform(n))
            self.constant.append(self._constant(n))
            plain = [a for a in args if self.uniform[a] is None and self.engine.terms[a].op != "const"]
            maps = op in SCALAR or op in ("broadcast", "reshape", "transpose")
            spread = op in ("broadcast", "reshape", "transpose") and self.uniform[n] is not None
            self.indexed.append(op == "iota" or spread or (maps and bool(plain) and all(self.indexed[a] for a in plain)))
        return n

    def _constant(self, n: int) -> bool:
        t = self.engine.terms[n]
        if t.op in ("param", "const", "input"):
            return self.fixed[n] and t.op != "input"
        return self.fixed[n] and self.types[n].bytes <= self.foldable and all(self.constant[a] for a in t.args)

    def _uniform(self, n: int) -> float | None:
        t = self.engine.terms[n]
        if t.op == "const" and not isinstance(t.attrs["value"], bool):
            return float(t.attrs["value"])
        if t.op in ("broadcast", "reshape", "transpose"):
            return self.uniform[t.args[0]]
        if t.op == "cast" and self.uniform[t.args[0]] is not None and self.types[n].dtype != BOOL:
            return float(convert(self.uniform[t.args[0]], self.types[n].dtype))
        return None

    def settle(self) -> None:
        """Join the facts of every class's forms, and pass them on to the users, until nothing changes."""
        if not self.united:  # a term alone has its facts from the start
            return
        self.united = False
        members: dict[int, list[int]] = {}
        for n, c in enumerate(self.engine.classes):
            members.setdefault(c, []).append(n)
        for names in members.values():
            decides, all_ = any(self.decides[n] for n in names), [self.least[n] for n in names]
            least = None if None in all_ else max(x for x in all_ if x is not None)
            for n in names:
                self.decides[n], self.least[n] = decides, least
        changed = True
        while changed:
            changed = False
            for names in members.values():
                known = next((u for n in names if (u := self.uniform[n]) is not None or (u := self._uniform(n)) is not None), None)
                constant = any(self.constant[n] or self._constant(n) for n in names)
                for n in names:
                    if not same_number(self.uniform[n], known) or self.constant[n] != constant:
                        self.uniform[n], self.constant[n] = known, constant
                        changed = True

    def cancel(self) -> bool:
        """Unite what an injective op maps to one tensor; whether anything was united. Congruence alone never says it: T(a) = T(b)
        would leave a and b apart, and rules that go on from each of them make the same tensors again without end."""
        first: dict[tuple[str, Attrs, int], int] = {}
        joined = False
        for c, t in zip(self.engine.classes, self.engine.terms):
            if t.op in INJECTIVE:
                a = first.setdefault((t.op, t.attrs, c), t.args[0])
                if not self.engine.equal(a, t.args[0]):
                    self.engine.union(a, t.args[0])
                    joined = self.united = True
        return joined

    def operand(self, n: int) -> Operand:
        return Operand(self.types[n], self.constant[n], self.uniform[n], self.decides[n], self.least[n])


def saturate(graph: Graph, rules: RuleSet, options: Options, trace: Trace, features: Sequence[str] = (),
             target: str = "", drawn: bool = False) -> Frozen:  # fmt: skip
    """All forms of the graph's tensors under the rules of the graph phases, of those for a target its own; `features` are the chip's, for
    rules that ask. drawn: inputs stand for any tensors, also for those that are known to be away from zero.

    Raises RuleError where a rule's two sides differ in type; a phase that reaches its budget stops and says so in the trace.
    """
    phases = {p: rules.of(p, target) for p in GRAPH_PHASES}
    subject, names, source = _load(graph, engine_for(phases, {*EMPTY, *(n.op for n in graph.nodes())}), drawn)
    said = {names[n]: place for n, place in graph.locations.items() if n in names}
    functions, size = tensor_functions(options, features), len(subject.types)
    for phase, chosen in phases.items():
        if chosen and not current().passed("saturate", f"rules of phase {phase} and later ones"):
            Phase(phase, subject, options, trace, subject.engine.declared[phase], functions, size, places=said).run()
    subject.engine.rebuild()
    split = split_wide(subject, options, trace)
    subject.settle()
    subject.engine.close()
    numbers = [(names[n], i) for i, n in enumerate(graph.nodes())]
    return _freeze(subject, graph, [(name, names[n]) for name, n in graph.outputs], source, said, numbers, split)


def freeze_graph(graph: Graph) -> Frozen:
    """The graph as it is, without rules."""
    return saturate(graph, RuleSet(), Options(), Trace())


def _load(graph: Graph, engine: Engine, drawn: bool) -> tuple[Subject, dict[Any, int], dict[int, str]]:
    subject = Subject(engine, folded_bytes(sum(n.type.bytes for n in graph.nodes() if n.op == "param")))
    names: dict[Any, int] = {}
    source: dict[int, str] = {}
    deciding, bounded = decided(graph), bounds(graph)
    for n in graph.nodes():
        if 0 in n.type.shape:
            names[n] = _empty(subject, n.type)
            source.setdefault(names[n], n.op)
            continue
        args = tuple(names[i] for i in n.inputs)
        least = None if drawn and n.op == "input" else bounded[n].least
        names[n] = subject.add(n.op, _typed(n.op, n.attrs, n.type), args, n.type, "source", n in deciding, least)
        source.setdefault(names[n], n.op)
    return subject, names, source


def _empty(subject: Subject, t: TensorType) -> int:
    """A tensor without elements is a constant whatever computes it: nothing is left for a kernel to do."""
    attrs = checked_attrs("iota", {"shape": t.shape, "axis": 0, "dtype": "i64"})
    base = subject.add("iota", attrs, (), TensorType(DTYPES["i64"], t.shape), "source")
    return base if t.dtype == DTYPES["i64"] else subject.add("cast", checked_attrs("cast", {"to": t.dtype.name}), (base,), t, "source")


def _typed(op: str, attrs: Attrs, t: TensorType) -> Attrs:
    """Leaves carry their type, so that equal texts are equal tensors."""
    return Attrs({**attrs, "type": str(t)}) if op in ("input", "param", "const") else attrs


# ---- one phase
@dataclass
class Phase:
    """One phase at work: its rules as queries, what fired, and its budget.

    What is counted: rounds, terms, matches that are looked at, and matches of one left side. No rule makes more than SHARE of the phase's
    new terms, nor more than a TURN of them in a round, so that the others come to something beside one that grows.
    """

    name: str
    subject: Subject
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
        first = len(self.subject.types)
        self.most = most_terms(self.options, self.source, first)
        self.matches = most_matches(self.source)
        self.left = max(0, self.most - first)

    def run(self) -> None:
        """Rounds of matching and applying until nothing changes or the budget is reached, which the trace then says."""
        sorts = {q.relation: tuple(s for _, s in q.variables) for q in self.queries}
        seen: dict[str, set[tuple[object, ...]]] = {q.relation: set() for q in self.queries}
        rounds, changed = 0, True
        over: dict[str, Any] | None = None
        while changed and over is None:
            if rounds == self.options.phase_iterations:
                over = {"iterations": rounds, "limit": rounds}
                break
            rounds += 1
            self._rest()
            active = [q.relation for q in self.queries if q.rule.name not in self.resting]
            self.subject.engine.match(active)
            found, self.at_class = self.subject.engine.matches(active, sorts), None
            self.subject.settle()
            joined = self.subject.cancel()
            changed, over = self._round(found, seen, rounds == 1)
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
        self.trace.add("phase", self.name, time.perf_counter() - self.start, terms=len(self.subject.types), fired=sum(self.fired.values()))

    def _rest(self) -> None:
        """Rules that have had their share of terms, or would match too often, are asked no more."""
        for name, terms in self.made.items():
            if terms > max(SMALL, self.left * SHARE):
                self.resting.setdefault(name, f"{terms} terms")
        if not self._grown():
            return
        self.subject.engine.rebuild()
        forms = Forms(self.subject.engine.terms, self.subject.engine.classes)
        for q in self.queries:
            if q.rule.name not in self.resting and (often := forms.at_most(q.lhs, self.matches)) > self.matches:
                self.resting[q.rule.name] = f"{often} matches, at most {self.matches}"

    def _grown(self) -> bool:
        """Whether classes may have many forms: only then is it worth while to count."""
        return len(self.subject.types) > self.source + max(SMALL, self.source)

    def _round(self, found: Mapping[str, set[tuple[object, ...]]], seen: dict[str, set[tuple[object, ...]]], first: bool
               ) -> tuple[bool, dict[str, Any] | None]:  # fmt: skip
        """Apply the new matches; whether one fired or waits, and the limit that was reached, if any. A match is new again when the facts
        about its tensors have changed; new ones are taken in the order of their text, which never depends on hashing. Siblings are
        looked for among the phase's own tensors, not among those that it makes."""
        changed = False
        for q in self.queries:
            begun = time.perf_counter()
            fired, over = self._turn(q, found.get(q.relation, set()), seen[q.relation], first)
            self.spent[q.rule.name] = self.spent.get(q.rule.name, 0.0) + time.perf_counter() - begun
            changed |= fired
            if over is not None:
                return changed, over
        return changed, self._over()

    def _turn(self, q: Query, found: set[tuple[object, ...]], seen: set[tuple[object, ...]], first: bool
              ) -> tuple[bool, dict[str, Any] | None]:  # fmt: skip
        """The new matches of one rule."""
        known = {r: self._with_facts(r) for r in found}
        rows = sorted((r for r, facts in known.items() if facts not in seen), key=str)
        name, before, changed = q.rule.name, self.made.get(q.rule.name, 0), False
        if q.rule.siblings:
            seen.update(known[r] for r in rows)
            self.matched[name] = self.matched.get(name, 0) + len(rows)
            together = _apply_together(self.subject, q, rows, self.functions, self.taken) if first else []
            return any([self._said(q, row, reason) for row, reason in together]), None
        for row in rows:
            if (over := self._over()) is not None:
                return changed, over
            if self.made.get(name, 0) - before > max(SMALL, self.left * TURN):
                return True, None  # the others first
            seen.add(known[row])
            self.tried, terms = self.tried + 1, len(self.subject.types)
            self.matched[name] = self.matched.get(name, 0) + 1
            changed |= self._said(q, row, _apply(self.subject, q, row, self.functions))
            self.made[name] = self.made.get(name, 0) + len(self.subject.types) - terms
        return changed, None

    def _with_facts(self, row: tuple[object, ...]) -> tuple[object, ...]:
        return (*row, *((self.subject.constant[v], self.subject.uniform[v]) for v in row if isinstance(v, int)))

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
                at = str(self.subject.types[root])
                self.trace.add("reject", name, phase=self.name, reason=reason, at=at, place=self._place(root), count=1)
        return answer is None

    def _place(self, term: int) -> str:
        """What the model calls the tensor of a term, "" if it has none."""
        if term in self.places:
            return self.places[term]
        classes = self.subject.engine.classes
        if self.at_class is None:
            self.at_class = {}
            for n, place in self.places.items():
                if n < len(classes):
                    self.at_class.setdefault(classes[n], place)
        return self.at_class.get(classes[term], "") if term < len(classes) else ""

    def _over(self) -> dict[str, Any] | None:
        """The limit that is reached, with how much of it was used."""
        terms = len(self.subject.types)
        if terms > self.most:
            return {"nodes": terms, "limit": self.most}
        if self.tried > TRIES * self.most:
            return {"matches": self.tried, "limit": TRIES * self.most}
        left = f"rules of phase {self.name} and later ones"
        return {"deadline_s": current().seconds} if current().passed("saturate", left) else None


# ---- one match
@dataclass
class Match:
    """A row for which the rule's conditions hold: its variables, the names of its tensors, its root, and the tensors between
    (of a rule of siblings)."""

    env: Env
    names: dict[str, int]
    root: int
    inner: tuple[int, ...] = ()


def _apply(subject: Subject, q: Query, row: tuple[object, ...], functions: Mapping[str, Any]) -> str | Answer | None:
    """None if the rule fired; else why not ("" where it would only have added what is there)."""
    m = _match(subject, q, row, functions)
    return _fire(subject, q.rule, m, (m,)) if isinstance(m, Match) else m


def _apply_together(subject: Subject, q: Query, rows: Sequence[tuple[object, ...]], functions: Mapping[str, Any],
                    taken: set[int]) -> list[tuple[tuple[object, ...], str | Answer | None]]:  # fmt: skip
    """As `_apply` for a rule of siblings: matches that share the variables it names fire together, in order of their roots. What
    lies inside of siblings that an earlier rule merged is left to it."""
    groups: dict[tuple[int, ...], dict[int, tuple[tuple[object, ...], Match]]] = {}
    out: list[tuple[tuple[object, ...], str | Answer | None]] = []
    for row in rows:
        m = _match(subject, q, row, functions)
        if not isinstance(m, Match) or m.root in taken:
            out.append((row, "it is part of siblings that another rule merged" if isinstance(m, Match) else m))
        else:
            groups.setdefault(tuple(m.names[v] for v in q.rule.siblings), {}).setdefault(m.root, (row, m))
    for _, members in sorted(groups.items()):
        together = [members[root] for root in sorted(members)]
        for row, m in together:
            single = f"it is the only one of its {', '.join(q.rule.siblings)}"
            out.append((row, _fire(subject, q.rule, m, tuple(x for _, x in together)) if len(together) > 1 else single))
            taken.update(m.inner if len(together) > 1 else ())
    return out


def _match(subject: Subject, q: Query, row: tuple[object, ...], functions: Mapping[str, Any]) -> Match | Answer | str:
    """The match, or why the rule does not hold there."""
    values = dict(zip((v for v, _ in q.variables), row))
    root = int(values["root"])  # type: ignore[call-overload]
    variables: dict[str, Any] = {"root": subject.operand(root)}
    names: dict[str, int] = {}
    for v, sort in q.variables:
        if sort == "T" and v.startswith("v_"):
            names[v[2:]] = int(values[v])  # type: ignore[call-overload]
            variables[v[2:]] = subject.operand(names[v[2:]])
    env = Env(variables, functions)
    for v, lit in q.literals:
        if not same_number(subject.uniform[int(values[v])], float(lit.value)):  # type: ignore[call-overload]
            return ""
    reason = _bind(q, values, variables, env, subject)
    if reason is not None:
        return reason
    answer = holds(q.rule.where, env)
    inner = tuple(int(values[v]) for v, _ in q.variables if v.startswith("n_"))  # type: ignore[call-overload]
    return Match(env, names, root, inner) if answer else answer


def _fire(subject: Subject, rule: Rule, m: Match, together: tuple[Match, ...]) -> str | None:
    """Unite the root with the right side. `together`: the matches that `?v...` lists."""
    assert rule.rhs is not None
    before = together[: next(i for i, x in enumerate(together) if x is m)]

    def offset(operand: Operand, axis: int) -> int:
        """Elements along an axis of the siblings that stand before this one."""
        name = next(n for n, x in m.env.variables.items() if x is operand)
        return sum(dim_hint(subject.types[x.names[name]].shape[axis]) for x in before)

    env, first = Env(m.env.variables, {**m.env.functions, "offset": offset}) if rule.siblings else m.env, len(subject.types)
    listed = {v: tuple(x.names[v] for x in together) for v in m.names} if rule.siblings else {}
    try:
        made = _build(subject, rule, rule.rhs, m.names, env, subject.types[m.root], listed)
    except Unanswerable as e:
        return str(e)
    except ModelError as e:
        return f"the right side has no type: {e.what}"
    if subject.types[made] != subject.types[m.root]:
        raise RuleError(f"unites tensors of different types: {subject.types[m.root]} and {subject.types[made]}", where=rule.where_text,
                        hint="add a condition to `where` under which both sides have one type")  # fmt: skip
    if subject.engine.equal(made, m.root):
        return ""
    subject.engine.union(m.root, made)
    subject.united = True
    subject.fired.append((rule, m, first, len(subject.types)))
    return None


def _bind(q: Query, values: Mapping[str, object], variables: dict[str, Any], env: Env, subject: Subject) -> str | None:
    """Bind and compare attributes; the reason if they differ."""
    later = []
    for p, slot in q.slots:
        attrs = subject.engine.attrs_of(str(values[slot]))
        for name, e in p.attrs:
            if name not in attrs:  # a constant's dtype is its type's
                return f"this {p.op} has no attribute {name}"
            have = attrs[name]
            if isinstance(e, Ref):
                if e.name in variables and not _same(variables[e.name], have):
                    return ""
                variables[e.name] = have
            else:
                later.append((e, have))
    for e, have in later:
        try:
            want = e.name if isinstance(e, Word) else evaluate(e, env)
        except Unanswerable as x:
            return str(x)
        if not _same(want, have):
            return ""
    return None


def _same(a: Any, b: Any) -> bool:
    """Whether two attributes are one: of numbers the sign of zero counts."""
    return bool(a == b) and (not isinstance(b, float) or same_number(a, b))


def _build(subject: Subject, rule: Rule, p: Pattern, names: Mapping[str, int], env: Env, like: TensorType,
           listed: Mapping[str, tuple[int, ...]]) -> int:  # fmt: skip
    """The name of the term that a right side stands for. A bare number becomes a constant of the root's dtype; `?v...` stands for
    the tensors of `listed`."""
    if isinstance(p, Ref):
        return names[p.name]
    if isinstance(p, (Lit, Word)):
        value = p.value if isinstance(p, Lit) else p.name
        return _const(subject, value, TensorType(like.dtype, ()), rule.name)
    if p.op == "const":
        value, dtype = evaluate(dict(p.attrs)["value"], env), dict(p.attrs).get("dtype")
        name = evaluate(dtype, env) if dtype is not None else like.dtype.name
        if name not in DTYPES:
            raise ModelError(f"there is no dtype '{name}'", where="const")
        return _const(subject, value, TensorType(DTYPES[name], ()), rule.name)
    args: tuple[int, ...] = ()
    for a in p.args:
        args += listed[a.name] if isinstance(a, Ref) and a.rest else (_build(subject, rule, a, names, env, like, listed),)
    given = {k: (e.name if isinstance(e, Word) else evaluate(e, env)) for k, e in p.attrs}
    types = tuple(subject.types[a] for a in args)
    attrs = checked_attrs(p.op, given)
    return subject.add(p.op, attrs, args, inferred(p.op, types, attrs), rule.name)


def _const(subject: Subject, value: Any, t: TensorType, why: str) -> int:
    v = constant(value, t.dtype)
    return subject.add("const", _typed("const", Attrs({"value": v}), t), (), t, why)


# ---- out
def _freeze(subject: Subject, graph: Graph, roots: list[tuple[str, int]], source: dict[int, str], said: dict[int, str],
            numbers: list[tuple[int, int]], left_out: frozenset[int]) -> Frozen:  # fmt: skip
    classes = subject.engine.classes
    dense = {c: i for i, c in enumerate(sorted(set(classes)))}
    nodes: dict[int, dict[tuple[str, Attrs, tuple[int, ...]], ENode]] = {i: {} for i in dense.values()}
    constant, indexed = [False] * len(dense), [False] * len(dense)
    where: dict[int, str] = {}
    for n, t in enumerate(subject.engine.terms):
        c = dense[classes[n]]
        children = tuple(dense[classes[a]] for a in t.args)
        attrs = Attrs({k: v for k, v in t.attrs.items() if k != "type"}) if t.op in ("input", "param", "const") else t.attrs
        if c not in children and n not in left_out:
            nodes[c].setdefault((t.op, attrs, children), ENode(t.op, attrs, children, t.why))
        constant[c] = constant[c] or subject.constant[n]
        indexed[c] = indexed[c] or subject.indexed[n]
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
        out[c] = EClass(c, subject.types[first], tuple(mine), constant[c] and not indexed[c])
    instances: dict[tuple[str, int], Instance] = {}
    joined: dict[int, tuple[Instance, ...]] = {}
    for rule, m, first, end in subject.fired:
        root = dense[classes[m.root]]
        found = Instance(rule, root, tuple((v, dense[classes[n]]) for v, n in m.names.items()), m.env)
        for n in range(first, end):
            instances.setdefault((rule.name, dense[classes[n]]), found)
        if first == end and m.root in source:
            joined[root] = (*joined.get(root, ()), found)
    return Frozen(out, tuple((name, dense[classes[n]]) for name, n in roots), graph, where, places, held, instances, joined)
