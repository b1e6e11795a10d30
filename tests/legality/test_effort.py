"""Questions to isl have a limit in its operations; what is not answered within it is not proved."""

from __future__ import annotations

import contextlib
import sys

import pytest

import autocomp
from autocomp.ir.affine import aff
from autocomp.loops import access, effort, sets
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


def test_what_isl_does_not_write_any_more_is_over_budget():
    """islpy makes a number of it, and raises what is no error of isl."""
    with pytest.raises(OverBudget), counted():
        isl = access.isl
        with contextlib.suppress(isl.Error):
            isl.DEFAULT_CONTEXT.set_max_operations(1)
            isl.Set("{ [x, y] : 0 <= x < y and y mod 7 = 3 and exists a : x = 5a }").lexmin()
        int(None)
    with pytest.raises(TypeError), counted():
        int(None)


def test_an_index_of_many_roundings_is_not_asked_about(monkeypatch):
    """A tower of reshapes that share no factor: each question took seconds."""
    monkeypatch.setattr(access, "_by_isl", lambda a, *rest: pytest.fail(str(a)) if sets.complexity(a)[0] > effort.ROUNDINGS else [])
    index = aff("i") * 3 + aff("j")
    for n in range(2, 2 + 2 * effort.ROUNDINGS):
        index = (index * 5 + aff("i")) // (n + 1) + (index + aff("j") * n) % (2 * n + 1)
        if len(str(index)) > 5000:
            break
    assert sets.complexity(index)[0] > effort.ROUNDINGS
    simpler = access.simplest(index, (), (("i", 47), ("j", 5)))
    assert [simpler.eval({"i": i, "j": j}) for i in range(47) for j in range(5)] == [
        index.eval({"i": i, "j": j}) for i in range(47) for j in range(5)]  # fmt: skip


def test_a_text_that_isl_did_not_write_to_its_end_is_over_budget():
    """What reads it finds an error of its syntax, which says nothing of the limit."""
    isl = access.isl
    with pytest.raises(OverBudget), counted():
        with contextlib.suppress(isl.Error):
            isl.DEFAULT_CONTEXT.set_max_operations(1)
            isl.Set("{ [x, y] : 0 <= x < y and y mod 7 = 3 and exists a : x = 5a }").lexmin()
        raise isl.Error("call to isl_map_read_from_str failed: syntax error")
    with pytest.raises(isl.Error, match="syntax error"), counted():
        raise isl.Error("call to isl_map_read_from_str failed: syntax error")
