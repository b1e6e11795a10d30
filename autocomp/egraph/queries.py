"""Left sides of rules as egglog queries, one for each order of commuting operands."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from autocomp.egraph.engine import Engine
from autocomp.ir.ops import OPS
from autocomp.rewrite.expr import Lit, Ref
from autocomp.rewrite.pattern import Apply, Pattern
from autocomp.rewrite.rule import Rule

MORE = 4  # times as many rules as may match, that an e-graph may have: each takes a quarter as long to be asked as to be declared


@dataclass(frozen=True)
class Query:
    """One left side (`lhs`, in one operand order) as an egglog rule. `slots`: (op application, its attribute variable).

    variables: (name, sort); `root`, then n_.. for the applications inside (of rules of siblings), v_.. for the pattern's variables,
    l_.. for its numbers, a_.. for attributes.
    """

    rule: Rule
    lhs: Pattern
    relation: str
    variables: tuple[tuple[str, str], ...]
    slots: tuple[tuple[Apply, str], ...]
    literals: tuple[tuple[str, Lit], ...]


def matchable(rules: Sequence[Rule], ops: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of which every op on the left is among `ops` or on the right of another such rule. No other ever matches, and declaring
    those to egglog would be much of its work on a model."""
    known, found = {*ops, "const"}, set[str]()  # numbers on a right side are constants
    while new := [r for r in rules if r.name not in found and r.left_ops <= known]:
        found.update(r.name for r in new)
        known.update(*(r.right_ops for r in new))
    return tuple(r for r in rules if r.name in found)


def engine_for(phases: Mapping[str, Sequence[Rule]], ops: Iterable[str], small: bool = False) -> Engine:
    """An engine in which the left sides are declared that may match in a graph of these ops, phase after phase. Its `declared`: the
    queries of each phase. `small`: the graph is, so that it takes less to ask for some that match nothing in it, which an earlier graph
    had declared, than to declare its own."""
    known, able = set(ops), dict[str, tuple[Rule, ...]]()
    for phase, rules in phases.items():
        able[phase] = matchable(rules, known)
        known.update(*(r.right_ops for r in able[phase]))

    def declare(engine: Engine) -> dict[str, list[Query]]:
        out = {phase: [q for i, r in enumerate(mine) for q in queries_of(engine, phase, i, r)] for phase, mine in able.items()}
        for phase, queries in out.items():
            engine.together(f"phase_{phase}", [q.relation for q in queries])
        return out

    same = _Same(r for mine in able.values() for r in mine)
    in_force = {id(r) for rules in phases.values() for r in rules}
    return Engine(same, declare, (lambda other: same.served_by(other, in_force)) if small else None)


class _Same(tuple[Rule, ...]):
    """Rules, equal to others where each one is the same object: comparing what they say takes longer than declaring them."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and len(self) == len(other) and all(a is b for a, b in zip(self, other))

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def served_by(self, other: object, in_force: Container[int]) -> bool:
        """Whether these are among others, in the same order, and make up a good part of them; all of which are in force (`id`): then those
        that are not among these match nothing."""
        if not isinstance(other, _Same) or not len(self) <= len(other) <= MORE * len(self):
            return False
        left = iter(other)
        return all(any(a is b for b in left) for a in self) and all(id(r) in in_force for r in other)


def queries_of(engine: Engine, phase: str, index: int, rule: Rule) -> Iterator[Query]:
    """The queries of a phase's rule number `index`, declared to the engine."""
    assert rule.lhs is not None
    for order, lhs in enumerate(_orders(rule.lhs, rule.commutes)):
        w = _Writer(engine, bool(rule.siblings))
        root = w.text(lhs, True)
        body = " ".join([*(f"(= {n} {made})" for n, made in w.inner), f"(= root {root})"])
        pairs = (
            ("root", "T"),
            *((n, "T") for n, _ in w.inner),
            *((v, "T") for v in w.variables),
            *((v, "T") for v, _ in w.literals),
            *((v, "String") for _, v in w.slots),
        )
        relation = f"m_{phase}_{index}_{order}"
        engine.rule(relation, pairs, body, rule.where_text)
        yield Query(rule, lhs, relation, pairs, tuple(w.slots), tuple(w.literals))


@dataclass
class _Writer:
    """Writes a pattern as an egglog expression and collects its variables. `naming`: applications inside get names too."""

    engine: Engine
    naming: bool
    slots: list[tuple[Apply, str]] = field(default_factory=list)
    literals: list[tuple[str, Lit]] = field(default_factory=list)
    variables: dict[str, None] = field(default_factory=dict)
    inner: list[tuple[str, str]] = field(default_factory=list)

    def text(self, p: Pattern, top: bool = False) -> str:
        if isinstance(p, Ref):
            self.variables.setdefault(f"v_{p.name}")
            return f"v_{p.name}"
        if isinstance(p, Lit):
            self.literals.append((f"l_{len(self.literals)}", p))
            return self.literals[-1][0]
        assert isinstance(p, Apply)
        args = " ".join(self.text(a) for a in p.args)
        self.slots.append((p, f"a_{len(self.slots)}"))
        made = f"({self.engine.constructor(p.op, len(p.args))} {args} {self.slots[-1][1]})"
        if top or not self.naming:
            return made
        self.inner.append((f"n_{len(self.inner)}", made))
        return self.inner[-1][0]


def _orders(p: Pattern, commutes: bool) -> list[Pattern]:
    """The pattern with the operands of commuting ops in every order (as written only, unless the rule says `commutes`)."""
    if not isinstance(p, Apply):
        return [p]
    options = [_orders(a, commutes) for a in p.args]
    out: list[Pattern] = [Apply(p.op, args, p.attrs, p.at) for args in product(*options)]
    if commutes and OPS[p.op].commutes and len(p.args) == 2:
        out += [Apply(p.op, (args[1], args[0]), p.attrs, p.at) for args in product(*options)]
    unique: dict[str, Pattern] = {}
    for x in out:
        unique.setdefault(str(x), x)
    return list(unique.values())
