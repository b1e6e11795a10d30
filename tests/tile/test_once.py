"""Tile programs visit every element once; each way to break one is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocomp.ir.schedule import Schedule
from autocomp.tile.check_once import problems
from autocomp.tile.derive import derive
from autocomp.tile.program import Loop, Stmt, TileProgram
from autocomp.tile.text import parse, show
from tests.helpers.nests import matmul, softmax


@pytest.mark.parametrize("tile", [{}, {"m": 16, "n": 16, "k": 5}, {"m": 7, "k": 32}, {"n": 48, "k": 3}])
def test_a_product_is_right_under_any_tile(tile):
    assert problems(derive(matmul(), Schedule.make(tile))) == []


@pytest.mark.parametrize("tile", [{"m": 4}, {"m": 4, "n": 13}, {"n": 32}])
def test_rows_with_statistics_are_right_under_any_tile(tile):
    assert problems(derive(softmax(16, 40), Schedule.make(tile))) == []


def broken(text: str, old: str, new: str) -> list[str]:
    assert old in text
    return problems(parse(text.replace(old, new)))


def test_what_is_broken_is_seen():
    text = show(derive(matmul(), Schedule.make({"m": 16, "n": 16, "k": 5})))
    assert problems(parse(text)) == []
    assert "output out0: the element [dimension 0 16, dimension 1 0] is never written" in broken(text, "grid m, n", "grid n")


def test_a_loop_that_is_missing_is_seen():
    p = derive(matmul(), Schedule.make({"m": 16, "n": 16, "k": 5}))
    grid = p.body[0]
    assert isinstance(grid, Loop)
    body = [n for x in grid.body for n in (x.body if isinstance(x, Loop) else (x,))]
    assert "k 5] is never folded" in problems(replace(p, body=(replace(grid, body=tuple(body)),)))[0]


def test_an_accumulator_that_begins_in_the_loop_is_seen():
    p = derive(matmul(), Schedule.make({"m": 16, "n": 16, "k": 5}))
    grid = p.body[0]
    assert isinstance(grid, Loop)
    fill = next(s for s in grid.body if isinstance(s, Stmt) and s.op == "fill")
    body = tuple(replace(n, body=(fill, *n.body)) if isinstance(n, Loop) else n for n in grid.body if n is not fill)
    found = problems(replace(p, body=(replace(grid, body=body),)))
    assert "is never folded" in found[0]


def test_a_store_in_a_loop_over_another_axis_is_seen():
    p = derive(matmul(), Schedule.make({"m": 16, "n": 16, "k": 5}))
    grid = p.body[0]
    assert isinstance(grid, Loop)
    store = grid.body[-1]
    loop = next(n for n in grid.body if isinstance(n, Loop))
    found = problems(replace(p, body=(replace(grid, body=(*grid.body[:-1], replace(loop, body=(store,)))),)))  # type: ignore[arg-type]
    assert "is written more than once" in found[0]


def test_a_tail_that_is_not_masked_is_seen():
    p = derive(softmax(16, 40), Schedule.make({"m": 4, "n": 16}))
    assert problems(p) == []
    found = problems(_unmasked(p))
    assert "past the end of n it folds what is not masked" in found[0]


def _unmasked(p: TileProgram) -> TileProgram:
    """Masks that are one element too long."""
    return parse(show(p).replace("idx(n) < 40", "idx(n) < 41"))
