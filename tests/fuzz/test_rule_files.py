"""The net of rule files: fixed seeds bring no traceback, and it notices one that is planted."""

from __future__ import annotations

import pytest

from benchmarks.fuzz import rule_files
from benchmarks.fuzz.rule_files import Case, check, draw, smaller

SEEDS = range(12)


def test_broken_files_are_refused_with_a_reason():
    for seed in SEEDS:
        verdict = check(draw(seed))
        assert verdict.kind in ("right", "refused"), f"seed {seed}"
        assert verdict.kind == "right" or verdict.detail, f"seed {seed}"


def test_cases_are_of_every_kind_and_the_same_for_a_seed():
    cases = [draw(s) for s in range(300)]
    assert cases == [draw(s) for s in range(300)]
    assert any(c.folder for c in (draw(s) for s in range(3000)))
    assert sum(c.optimize for c in cases) > 30
    assert sum(b"examples:" in c.source for c in cases) > 100


def test_a_planted_error_flies(monkeypatch: pytest.MonkeyPatch):
    def broken(*args: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr("autocomp.rewrite.load.check_operands", broken)
    with pytest.raises(KeyError, match="planted"):
        for seed in SEEDS:
            check(draw(seed))


def test_shipped_rules_pass_as_they_are():
    text = next(t for t in rule_files.shipped() if "algebra/neg-neg" in t)
    assert check(Case(text.replace("algebra/neg-neg", "my/neg-neg").encode(), optimize=True)).kind == "right"


def test_smaller_cases_are_smaller():
    case = next(c for c in map(draw, SEEDS) if c.source.count(b"\n") > 4)
    assert all(len(c.source) < len(case.source) or not c.optimize for c in smaller(case))
