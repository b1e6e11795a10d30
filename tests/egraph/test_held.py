"""A cover of an e-graph takes over what covers before it found, and finds exactly what it would have found alone."""

from __future__ import annotations

import gc
import random
from itertools import count
from weakref import ref

import pytest
from autocomp.targets import load_target

from autocomp import rewrite
from autocomp.budget import cover_effort
from autocomp.egraph import cover as covers
from autocomp.egraph import saturate
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.chosen import Cover
from autocomp.egraph.cut import Cut
from autocomp.egraph.cuts import Enumerator
from autocomp.egraph.held import Held
from autocomp.egraph.rows import compile_rows
from autocomp.egraph.subject import Subject
from autocomp.errors import UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.decompose import decompose
from autocomp.options import Options
from autocomp.pipeline import extract, import_model
from autocomp.trace import Trace
from examples import models

BLOCKS = "graph blocks\ninput x: f32[24, 64]\ninput g: f32[64]\n" + "".join(f"input w{k}: f32[64, 64]\n" for k in range(4))
BLOCKS += """%0 = matmul(x, w0)
%1 = mish(%0)
%2 = softmax(%1, axes=[1])
%3 = matmul(%2, w1)
%4 = add(%3, x)
%5 = rms_norm(%4, g, axes=[1])
%6 = matmul(%5, w2)
%7 = gelu(%6)
%8 = matmul(%7, w3)
%9 = add(%8, %4)
%10 = reduce_sum(%9, axes=[1], keepdims=True)
%11 = div(%9, %10)
output y = %11
output z = %7
"""
PRODUCT = "graph m\ninput a: f16[512, 512]\ninput b: f16[512, 512]\n%0 = matmul(a, b)\noutput y = %0\n"
OPTIONS = Options(cache=False, deadline=0)


def prices(target, graph=None):
    machine = load_target(target, OPTIONS)
    rules = rewrite.load_rules(options=OPTIONS)
    frozen = saturate.saturate(graph or parse(BLOCKS), rules, OPTIONS, Trace(), machine.chip.features, machine.chip.target)
    return covers.prices_of(frozen, machine.chip, OPTIONS), lambda: compile_rows(rules.of("fusion", machine.chip.target), OPTIONS)


def looked_at(enum):
    """The classes whose forms are looked at while it runs."""
    seen, own = [], enum._possible
    enum._possible = lambda c, forms: seen.append(c) or own(c, forms)
    enum.run()
    return seen


def unnumbered(cuts):
    """Cuts by class without the numbers that their bodies have among those of one subject."""
    return {c: [x._replace(number=-1) for x in mine] for c, mine in cuts.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("target", ["cpu", "cuda", "ascend"])
def test_covers_that_follow_each_other_are_those_that_stand_alone(target, seed):
    own, rows = prices(target)
    rng, without, saved = random.Random(seed), frozenset(), 0
    efforts = [cover_effort(len(own.subject.frozen.graph.nodes())) for _ in range(2)]
    held = own.held
    for _ in range(5):
        enums = []
        for effort, known in zip(efforts, (held, Held(own.subject))):
            own.held = known
            enum = Enumerator(own.subject, rows(), own.chip, OPTIONS, without=without, effort=effort, prices=own)
            enums.append((looked_at(enum), enum))
        (few, a), (every, b) = enums
        assert unnumbered(a.cuts) == unnumbered(b.cuts) and list(a.cuts) == list(b.cuts)
        assert a.flow == b.flow and a._shared == b._shared
        assert a.refused == b.refused and efforts[0].done == efforts[1].done
        saved += len(every) - len(few)
        bodies = [c for cuts in a.cuts.values() for c in cuts if len(c.nodes) > 1]
        drawn = [sorted(c.nodes) for c in rng.sample(bodies, rng.randint(0, 2))]
        without |= {frozenset(rng.sample(nodes, min(len(nodes), rng.randint(1, 3)))) for nodes in drawn}
    assert saved > 0


def test_other_options_find_anew():
    own, rows = prices("cuda")
    enum = lambda options: Enumerator(own.subject, rows(), own.chip, options, prices=own)
    first, again = (looked_at(enum(OPTIONS)) for _ in range(2))
    assert first and not again
    assert looked_at(enum(Options(cache=False, deadline=0, max_body_ops=3))) == first


def test_a_body_is_made_once_for_all_covers(monkeypatch):
    own, rows = prices("cuda")
    made, body = [], Enumerator._body
    monkeypatch.setattr(Enumerator, "_body", lambda self, node, parts: made.append(node.id) or body(self, node, parts))
    heavy = next(n.id for n in own.subject.nodes if n.enode.op == "softmax")
    efforts = []
    for without in (frozenset(), frozenset({frozenset({heavy})})):
        effort = cover_effort(len(own.subject.frozen.graph.nodes()))
        Enumerator(own.subject, rows(), own.chip, OPTIONS, without=without, effort=effort, prices=own).run()
        efforts.append(effort.done)
    assert len(made) == len(own.held.built.bodies) < sum(efforts)


def test_a_cover_that_is_done_waits_for_no_collector():
    """Frames of refusals, and functions that hold themselves, kept covers until Python looked for cycles."""
    machine = load_target("cuda", OPTIONS)
    rules = rewrite.load_rules(options=OPTIONS)
    graph = import_model(BLOCKS, Trace())
    gc.collect()
    gc.disable()
    try:
        calls, _ = extract.__wrapped__(graph, machine, rules, OPTIONS, Trace())
        assert calls.calls and not any(isinstance(x, (Cut, Subject)) for x in gc.get_objects())
    finally:
        gc.enable()


def test_a_refused_schedule_keeps_no_frame():
    machine = load_target("cuda", OPTIONS)
    rules = rewrite.load_rules(options=OPTIONS)
    (call,) = extract(import_model(PRODUCT, Trace()), machine, rules, OPTIONS, Trace())[0].calls
    frames = []

    def admit(kernel, schedule):
        here = Trace()
        frames.append(ref(here))
        if len(frames) < 3:
            raise UnsupportedOp("not this one")

    gc.disable()
    try:
        choose_schedule(call.kernel, rules, machine.chip, OPTIONS, Trace(), admit)
        assert len(frames) >= 3 and not any(frame() for frame in frames)
    finally:
        gc.enable()


class Counting(Cover):
    swaps = 0

    def swap(self, c, cut):
        self.swaps += 1
        return super().swap(c, cut)


class Restless(Counting):
    """One that says to have changed whenever it is asked: every move is tried in every pass."""

    numbers = count()
    kept = property(lambda self: next(self.numbers), lambda self, value: None)


@pytest.mark.parametrize("target", ["cpu", "cuda", "ascend"])
def test_moves_that_changed_nothing_are_not_tried_again(target):
    own, rows = prices(target, decompose(models.bert(layers=2, seq=32, hidden=64, heads=4, inner=128)))
    enum = Enumerator(own.subject, rows(), own.chip, OPTIONS, prices=own)
    enum.run()
    found = []
    for kind in (Counting, Restless):
        c = kind(enum)
        for _, root in own.subject.roots:
            c.ref(root)
        covers._improve(c, own.subject)
        found.append(c)
    few, every = found
    assert few.total == every.total and {x: few.pick[x] for x in few.used()} == {x: every.pick[x] for x in every.used()}
    assert few.swaps < every.swaps
