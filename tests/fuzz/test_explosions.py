"""The net of inputs on which a compiler's work may explode: some of its cases, and that it can fail."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fuzz import explosions
from tests.helpers.repeats import repeating
from tests.helpers.time_limits import within

SEEDS = (3, 4, 5, 7, 8, 10, 12, 13, 17, 18, 21, 24, 28, 31, 34, 633, 2251)  # of each family of graphs small ones


@pytest.mark.parametrize("seed", repeating(SEEDS, {17: "diamonds of 4", 18: "a tower of 5", 21: "divergences of 8", 31: "a tower of 5",
                                                   2251: "siblings of 28"}))  # fmt: skip
def test_what_may_explode_ends_and_is_right(seed):
    case = explosions.draw(seed)
    with within(120):
        verdict = explosions.check(case)
    assert verdict.kind == "right", f"seed {seed}: {verdict.detail}\n{case.text()}"


def test_the_same_seed_gives_the_same_case():
    assert [explosions.draw(s) for s in range(30)] == [explosions.draw(s) for s in range(30)]


def test_a_slow_compilation_and_a_wrong_result_are_caught(monkeypatch):
    case = replace(explosions.draw(0), rules=(), target="cpu")
    monkeypatch.setattr(explosions, "LIMIT", 0.0)
    assert "of a processor, at most 0" in explosions.check(case).detail
    monkeypatch.undo()
    run = explosions.on_this_cpu
    monkeypatch.setattr(explosions, "on_this_cpu", lambda p, feed: [{k: v + np.float32(0.5) for k, v in run(p, feed)[0].items()}])
    assert explosions.check(case).kind == "wrong"


def test_smaller_cases_are_smaller():
    case = explosions.draw(9)
    found = list(explosions.smaller(case))
    assert found[0].rules == ()
    assert all(len(x.lines) < len(case.lines) or len(x.rules) < len(case.rules) for x in found)
    began = time.monotonic()
    explosions.check(found[-1])
    assert time.monotonic() - began < 60
