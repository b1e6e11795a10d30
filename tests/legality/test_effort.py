"""Questions to isl have a limit in its operations; what is not answered within it is not proved."""

from __future__ import annotations

import sys

import pytest

import autocomp
from autocomp.ir.affine import aff
from autocomp.loops import access, effort
from autocomp.loops.effort import OverBudget, counted


@pytest.fixture(autouse=True)
def nothing_is_remembered():
    """What other tests asked before is asked again."""
    _forget()
    yield
    _forget()


def _forget():
    for m in [m for name, m in sys.modules.items() if name.startswith("autocomp.loops.")]:
        for f in vars(m).values():
            getattr(f, "cache_clear", lambda: None)()


def test_what_is_over_budget_is_not_proved_and_the_program_is_right(monkeypatch):
    monkeypatch.setattr(effort, "OPERATIONS", 1)
    program = autocomp.optimize("graph g\ninput a: f32[40, 48]\ninput b: f32[48, 56]\n%0 = matmul(a, b)\noutput y = %0\n", cache=False)
    program.verify()
    said = [e.data["reason"] for e in program.trace.of("reject")]
    assert any("not proved: over budget, more than 1 operations of isl" in x for x in said)


def test_an_index_is_left_as_it_is():
    index, axes = (aff("h") * 64 + aff("d")) // 64, (("h", 12), ("d", 64))
    assert str(access.simplest(index, (), axes)) == "h"


def test_an_index_over_budget(monkeypatch):
    monkeypatch.setattr(effort, "OPERATIONS", 1)
    index = ((aff("h") * 64 + aff("d")) // 48) % 7
    assert access.simplest(index, (), (("h", 12), ("d", 64))) == index


def test_the_limit_ends_with_the_question(monkeypatch):
    monkeypatch.setattr(effort, "OPERATIONS", 1)
    import islpy as isl

    with pytest.raises(OverBudget), counted():
        isl.Set("{ [x, y] : 0 <= x < y and y mod 7 = 3 and exists a : x = 5a }").lexmin()
    assert isl.DEFAULT_CONTEXT.get_max_operations() == 0
    assert not isl.Set("{ [x, y] : 0 <= x < y }").is_empty()
