"""What saturation leaves out, as nothing has changed, is what looking at everything again would not have found."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from autocomp.egraph.looked import Looked
from autocomp.egraph.saturate import saturate
from autocomp.egraph.terms import Terms
from autocomp.frontends.text import parse
from autocomp.ir.decompose import decompose
from autocomp.ir.node import Graph
from autocomp.ir.types import same_number
from autocomp.options import Options
from autocomp.rewrite import load_rules, parse_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace
from benchmarks.drawn_graphs import random_graph
from examples.models import bert


def graphs() -> list[Graph]:
    """Some that saturate in several rounds of unions, and some with little to find."""
    layer = bert(layers=1, seq=8, hidden=16, heads=2, inner=24, vocab=10)
    drawn = [random_graph(Random(s), largest=500) for s in range(6)]
    return [decompose(g) for g in (layer, *drawn, *(parse(ZERO + body) for body in LATE.values()))]


FACTS = RuleSet(parse_rules("""
- {name: l/first, phase: algebra, lhs: neg(neg(?x)), rhs: "?x", why: a test}
- {name: l/zero, phase: algebra, lhs: "sub(?x, ?x)", rhs: "broadcast(0, shape=shape(?x))", why: a test}
- {name: l/none, phase: algebra, lhs: "add(?x, 0)", rhs: "?x", why: a test}
- {name: l/older, phase: algebra, lhs: tanh(?x), rhs: "reshape(sub(neg(neg(?x)), ?x), shape=shape(?x))", why: a test}
""", "t.yaml"))  # fmt: skip
ZERO = "graph g\ninput x: f32[3]\n%m = neg(x)\n%n = neg(%m)\n%0 = sub(%n, x)\n"
LATE = {
    "itself": "%y = add(x, %0)\noutput y = %y\n",
    "what is computed from it": "%1 = reshape(%0, shape=[1, 3])\n%2 = reshape(%1, shape=[3])\n%y = add(x, %2)\noutput y = %y\n",
    "what the graph has already": "%y = add(x, %0)\noutput y = %y\n%z = broadcast(const(0.0, f32), shape=[3])\noutput z = %z\n",
    "an older tensor": "%1 = tanh(x)\n%y = add(x, %1)\noutput y = %y\noutput z = %0\n",
}


@pytest.mark.parametrize("body", LATE.values(), ids=LATE)
def test_a_match_is_tried_again_when_more_is_known_of_its_tensors(body: str) -> None:
    """That %0 is zero is known only after `add` was looked at, and after facts were settled once."""
    found = saturate(parse(ZERO + body), FACTS, Options(), Trace())
    assert "input" in {n.op for n in found.classes[dict(found.roots)["y"]].nodes}


def test_new_matches_are_those_that_a_look_at_all_of_them_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    new, note, count = Looked.new, Looked.note, Counter[str]()
    seen: dict[tuple[int, str], set[Any]] = {}

    def checked(self: Looked, q: Any, found: Any) -> Any:
        out, terms, mine = new(self, q, found), self._terms, seen.setdefault((id(self), q.relation), set())
        every = []
        for m in found:
            row = [terms.engine.names[v] if s == "T" else terms.engine.text_of(v) for v, (_, s) in zip(m, q.variables)]
            every.append((*row, *((terms.constant[v], terms.uniform[v]) for v in row if isinstance(v, int))))
        left = [x for x in every if x not in mine]
        assert sorted((x for _, x, _ in out), key=str) == sorted(left, key=str)
        assert [row for row, *_ in out] == sorted((row for row, *_ in out), key=str)
        count.update(all=len(every), new=len(out))
        return out

    def noted(self: Looked, q: Any, facts: Any, m: Any) -> None:
        seen[id(self), q.relation].add(facts)
        note(self, q, facts, m)

    monkeypatch.setattr(Looked, "new", checked)
    monkeypatch.setattr(Looked, "note", noted)
    kept, rules = [], load_rules()  # an id stands for one object as long as that is kept
    monkeypatch.setattr(Looked, "__init__", lambda self, terms, init=Looked.__init__: (kept.append(self), init(self, terms))[1])
    for g in graphs():
        saturate(g, rules, Options(), Trace())
    assert 0 < count["new"] < count["all"]


def test_settled_facts_are_a_fixpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    settle, settled = Terms.settle, 0

    def checked(self: Terms) -> None:
        nonlocal settled
        united = self.united
        settle(self)
        if united:
            settled += 1
            for n, c in enumerate(self.engine.classes):
                assert (self.constant[n], self.decides[n], self.least[n]) == (self.constant[c], self.decides[c], self.least[c])
                assert same_number(self.uniform[n], self.uniform[c])
                assert self.constant[n] or not self._constant(n)
                assert self.uniform[n] is not None or self._uniform(n) is None

    monkeypatch.setattr(Terms, "settle", checked)
    rules = load_rules()
    for g in graphs():
        saturate(g, rules, Options(), Trace())
    assert settled > 5
