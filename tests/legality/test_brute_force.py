"""Random schedules against enumeration on small domains: the answers must be the same, both ways."""

from __future__ import annotations

from random import Random

import pytest

from autocomp.loops import legality
from autocomp.loops.nest import LoopNest
from tests.helpers.nests import brute_force, carries, random_nest, random_steps, timed, touches

CASES = 700


def cases() -> list[tuple[int, LoopNest, list[object]]]:
    out = []
    for seed in range(CASES):
        rng = Random(seed)
        nest, steps = random_steps(rng, random_nest(rng))
        if steps:
            out.append((seed, nest, steps))
    return out


@pytest.fixture(scope="module")
def judged() -> list[tuple[int, LoopNest, list[object], legality.Verdict, bool]]:
    return [(seed, nest, steps, legality.verdict(nest, False), brute_force(nest)) for seed, nest, steps in cases()]


def test_strict_answers_agree_with_enumeration(judged) -> None:
    wrong = [(seed, steps, str(v), truth) for seed, _, steps, v, truth in judged if v.ok != truth]
    assert not wrong, f"{len(wrong)} differ, first: {wrong[0]}"


def test_there_are_enough_cases_of_both_kinds(judged) -> None:
    legal = sum(v.ok for *_, v, _ in judged)
    assert len(judged) >= 500
    assert legal >= 200
    assert len(judged) - legal >= 150


def test_relaxed_answers_agree_with_enumeration(judged) -> None:
    checked = 0
    for seed, nest, steps, _, truth in judged:
        if truth or not any(s.reassociable for s in nest.statements):
            continue
        answer = legality.verdict(nest, True)
        plain_parallel = any(kind == "parallel" and loop not in nest.split for loop, kind in nest.marks)
        if not plain_parallel:
            checked += 1
            assert answer.ok == brute_force(nest, relaxed=True), (seed, steps, str(answer))
            assert not answer.ok or answer.reassociates
        elif answer.ok:
            assert brute_force(nest, relaxed=True), (seed, steps)
    assert checked >= 40


def test_a_class_answer_holds_for_its_members(judged) -> None:
    """What is proved with symbolic sizes is true at these sizes."""
    for seed, nest, steps, _, truth in judged[:250]:
        if legality.verdict(nest.nest_class(), False).ok:
            assert truth, (seed, steps)


def test_every_witness_is_real(judged) -> None:
    """Both iterations exist, touch the named cell in that order, and the new order breaks it."""
    shown = 0
    for seed, nest, steps, v, _ in judged:
        if v.ok:
            continue
        assert v.witness is not None
        found = {(s.name, tuple(p.items())): (s, p, old, new) for s, p, old, new in timed(nest)}
        a, b = (found[i.statement, i.point] for i in (v.witness.first, v.witness.second))
        assert a[2] < b[2], (seed, steps, str(v))
        assert any(x == y and (w or u) for x, w, _ in touches(a[0], a[1]) for y, u, _ in touches(b[0], b[1])), (seed, str(v))
        assert a[3] >= b[3] or any(carries(nest, a[0], b[0], a[3], b[3], loop) for loop, _ in nest.marks), (seed, str(v))
        shown += 1
    assert shown >= 150
