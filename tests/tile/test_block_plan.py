"""Barriers and waits of a block's plan: where they are placed, and that leaving any of them out is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from autocomp.targets.simt import printer

from autocomp.errors import AutocompError
from autocomp.tile.check_block import problems, require
from autocomp.tile.plan import Access, Barrier, Block, Claim, Commit, Exit, Landed, Line, Node, Order, Slots, Turn, spell
from autocomp.tile.synchronise import synchronise
from tests.helpers import goldens

Body = tuple[Node, ...]


def shown(body: Body) -> list[str]:
    """A plan in words, one statement a line."""

    def one(n: Node, depth: int) -> Iterator[str]:
        if isinstance(n, Block):
            yield "  " * depth + (n.again or n.head)
            for x in n.body:
                yield from one(x, depth + 1)
        elif isinstance(n, Access):
            yield "  " * depth + f"{'write' if n.write else 'read'} {n.buffer}"
        else:
            yield "  " * depth + {Barrier: lambda: n.agents, Landed: lambda: f"landed {n.behind}", Commit: lambda: "commit",
                                  Line: lambda: n.text}.get(type(n), lambda: type(n).__name__)()  # fmt: skip

    return [x for n in body for x in one(n, 0)]


def placed(*body: Node, agents: str = "block") -> list[str]:
    plan = synchronise(body, agents)
    assert not problems(plan)
    return shown(plan)


def write(name: str, **more: object) -> Access:
    return Access(name, True, **more)


def read(name: str, **more: object) -> Access:
    return Access(name, False, **more)


def test_between_a_write_and_a_read():
    assert placed(write("a"), Line("x"), read("a")) == ["write a", "x", "block", "read a"]
    assert placed(write("a"), write("b"), read("a"), read("b")) == ["write a", "write b", "block", "read a", "read b"]


def test_between_a_read_and_a_write_and_between_two_writes():
    assert placed(write("a"), read("a"), write("a")) == ["write a", "block", "read a", "block", "write a"]
    assert placed(write("a"), write("a")) == ["write a", "block", "write a"]
    assert placed(write("a"), read("a"), write("a", own=True), read("a")) == ["write a", "block", "read a", "write a", "block", "read a"]


def test_a_turn_follows_any_other():
    loop = Block("for", (write("a"), Line("x"), read("a")), again="it")
    assert placed(loop) == ["it", "  block", "  write a", "  x", "  block", "  read a"]
    two = Block("for", (write("a"), read("a"), write("b"), read("b")), again="it")  # behind b's barrier nobody reads a any more
    assert placed(two) == ["it", "  write a", "  block", "  read a", "  write b", "  block", "  read b"]


def test_what_may_not_run_orders_nothing():
    branch = Block("if (x)", (write("b"), read("b")), perhaps=True)
    assert placed(read("a"), branch, write("a")) == ["read a", "if (x)", "  write b", "  block", "  read b", "block", "write a"]


def test_copies_land_before_threads_meet():
    copy = write("a", lands=True), Commit()
    assert placed(*copy, read("a")) == ["write a", "commit", "landed 0", "block", "read a"]
    assert placed(*copy, write("b"), read("b"), read("a")) == ["write a", "commit", "write b", "landed 0", "block", "read b", "read a"]
    late = placed(*copy, write("b"), read("b"), Line("x"), read("a"))  # the first barrier says nothing of a copy under way
    assert late == ["write a", "commit", "write b", "block", "read b", "x", "landed 0", "block", "read a"]


def ring(depth: int) -> Body:
    slot = lambda ahead: Slots("it", ahead, depth)
    first = Block("for", (write("a", lands=True, slots=slot(0)), Commit()), again="it", turns=depth - 1)
    turn = Turn(("a",), depth - 2), write("a", lands=True, slots=slot(depth - 1)), Commit(), read("a", slots=slot(0))
    return Claim(("a",)), first, Block("for", turn, again="it"), Landed(0)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_ring(depth):
    assert placed(*ring(depth)) == ["it", "  write a", "  commit", "it", f"  landed {depth - 2}", "  block", "  write a", "  commit",
                                    "  read a", "landed 0"]  # fmt: skip
    assert placed(Block("for", ring(depth), again="tile"))[1] == "  block", "the tile before reads the ring"


def test_blocks_of_a_cluster():
    plan = write("a", far=True), read("a", far=True), write("b"), read("b"), Exit()
    assert placed(*plan) == ["write a", "cluster", "read a", "write b", "block", "read b", "cluster"]
    halves = write("a", far=True, halves=True), read("a", far=True, halves=True)
    assert placed(Block("for", halves, again="tile"), Exit()) == ["tile", "  write a", "  cluster", "  read a", "cluster"]


def test_words():
    plan = synchronise((write("a"), Block("if (x)", (Line("y"),)), read("a")), "consumers")
    assert spell(plan, lambda n: f"{n.agents}!") == ["  if (x) {", "    y", "  }", "  consumers!"]


def test_a_wrong_plan_is_refused():
    with pytest.raises(AutocompError) as e:
        require((write("a"), read("a")), "matmul")
    assert e.value.what == "the plan of a block is wrong: it reads a which others write, and nothing orders the two"
    assert problems((write("a", lands=True), Commit(), Barrier("block"), read("a"))) == [
        "reads a while copies into it are under way", "ends while copies into a are under way"]  # fmt: skip
    assert problems((read("a", far=True),)) == ["ends while other blocks read a"]


# ---- every barrier and wait of every golden
def orders(body: Body, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    for i, n in enumerate(body):
        if isinstance(n, Order):
            yield (*path, i)
        elif isinstance(n, Block):
            yield from orders(n.body, (*path, i))


def without(body: Body, path: tuple[int, ...]) -> Body:
    i, *rest = path
    inside = (replace(body[i], body=without(body[i].body, tuple(rest))),) if rest else ()
    return body[:i] + inside + body[i + 1 :]


def at(body: Body, path: tuple[int, ...]) -> Node:
    for i in path[:-1]:
        body = body[i].body
    return body[path[-1]]


def test_each_barrier_and_wait_of_a_golden_is_needed(monkeypatch):
    """A commit may be left out where the group joins the next one, which is waited for no later."""
    plans: dict[str, Body] = {}
    monkeypatch.setattr(printer, "require", lambda plan, name: plans.update({f"{file} {name}": plan}))
    for file, make in goldens.SMALL.items():
        if ".a100." in file or file.endswith(".maca"):
            make()
    left = [(name, at(p, path)) for name, p in plans.items() for path in orders(p) if not problems(without(p, path))]
    assert len(plans) > 40 and sum(1 for p in plans.values() for _ in orders(p)) > 150
    assert not [x for x in left if not isinstance(x[1], Commit)]
    assert len(left) < 20
