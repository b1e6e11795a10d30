"""Steps behind a pass: a statement lost, done twice, moved out of its loop or in front of what it reads is refused; the pass is named."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autocomp.errors import AutocompError
from autocomp.tile.check_steps import problems, require
from autocomp.tile.program import Loop, Stmt
from autocomp.tile.steps import Do, Over, Steps, steps_of

FILL, A, MMA = Stmt("fill", "acc", (), 0.0), Stmt("copy", "a", ("x",)), Stmt("mma", "acc", ("a", "a"), acc=True)
STORE = Stmt("store", "out", ("acc",))
PROGRAM = steps_of((Loop("grid", ("i",), (FILL, Loop("serial", ("r",), (A, MMA)), STORE)),))


def dropped(steps: Steps) -> Iterator[Steps]:
    """The steps without each of them."""
    for k, n in enumerate(steps):
        yield steps[:k] + steps[k + 1 :]
        if isinstance(n, Over):
            yield from ((*steps[:k], replace(n, body=b), *steps[k + 1 :]) for b in dropped(n.body))


def grid(*body: Do | Over) -> Steps:
    (n,) = PROGRAM
    assert isinstance(n, Over)
    return (replace(n, body=body),)


def test_what_passes_may_not_do():
    fill, loop, store = PROGRAM[0].body  # type: ignore[union-attr]
    a, mma = loop.body  # type: ignore[union-attr]
    assert problems(PROGRAM, PROGRAM) == []
    lost = [problems(PROGRAM, x) for x in dropped(PROGRAM)]
    assert len(lost) == 6 and all(x and all("is lost" in p for p in x) for x in lost)
    assert problems(PROGRAM, grid(fill, loop, store, store)) == ["store out is done twice"]
    assert problems(PROGRAM, grid(fill, a, replace(loop, body=(mma,)), store))[0] == "copy a stands in other loops"
    assert problems(PROGRAM, grid(fill, replace(loop, body=(mma, a)), store)) == ["mma acc comes before copy a"]
    assert problems(PROGRAM, grid(fill, store, loop)) == ["store out comes before mma acc"]
    assert problems(PROGRAM, grid(loop, fill, store))[0] == "mma acc comes before fill acc"
    assert problems(PROGRAM, grid(fill, Do(replace(STORE)), loop, store)) == ["store out is no statement of the program"]


def test_the_pass_that_did_it_is_named():
    bad = grid(*PROGRAM[0].body[1:])  # type: ignore[union-attr]
    with pytest.raises(AutocompError, match="the pass second is wrong: fill acc is lost"):
        require((("program", PROGRAM), ("first", PROGRAM), ("second", bad), ("third", bad)), "k")
