"""Barriers and waits of a block's plan: where they are placed, and that leaving any of them out is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from autocomp.errors import AutocompError
from autocomp.tile import check_plan
from autocomp.tile.check_plan import problems, require
from autocomp.tile.plan import (
    Access,
    Barrier,
    Began,
    Block,
    Box,
    Claim,
    Commit,
    Count,
    Done,
    Exit,
    Fence,
    Group,
    Landed,
    Line,
    Node,
    Signal,
    Slots,
    Touch,
    Turn,
    spell,
)  # fmt: skip
from autocomp.tile.synchronise import synchronise
from benchmarks import plan_mutants

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


def test_a_statement_begins_behind_all_that_it_waits_for():
    """The lines behind both marks read both: a turn's copy into a must wait for them too."""
    loop = Block("for", (write("a", lands=True), Commit(), Line("x"), write("b"), Line("y"), read("a"), read("b")), again="it")
    assert placed(loop) == ["it", "  block", "  write a", "  commit", "  x", "  write b", "  y", "  landed 0", "  block", "  read a",
                            "  read b"]  # fmt: skip
    own = Block("for", (write("a"), Line("x"), read("a"), Line("y"), write("b"), Line("z"), read("a"), read("b")), again="it")
    assert placed(own)[1] == "  block"


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
        "reads a which others write, and it is under way", "ends while copies into a are under way"]  # fmt: skip
    assert problems((read("a", far=True),)) == ["ends while other blocks read a"]


def test_the_first_fault_of_a_plan_takes_one_run(monkeypatch):
    wrong = (write("a", lands=True), Commit(), Barrier("block"), read("a", far=True))
    runs = []
    one = check_plan.Run.all
    monkeypatch.setattr(check_plan.Run, "all", lambda self, body: runs.append(self) or one(self, body))
    every = problems(wrong)
    assert len(every) > 1 and len(runs) > 1
    runs.clear()
    assert check_plan.problem(wrong) == every[0] and len(runs) == 1
    assert check_plan.problem((write("a"), Barrier("block"), read("a"))) == ""


def test_each_barrier_and_wait_of_a_golden_is_needed():
    """A group may be left out where it joins the next one, which is waited for no later, and the last arrival at a slot."""
    plans = plan_mutants.plans()
    made = [m for p in plans for m in plan_mutants.mutants(p)]
    left = [m for m in made if not m.caught]
    assert len(plans) > 90 and len(made) > 530
    assert {"arrive empty", "cluster barrier", "fence", "inbox wait", "named sync", "tensormemory", "wave barrier"} < {m.kind for m in made}
    assert not [m for m in left if not m.harmless]
    assert len(left) < 0.05 * len(made)


def test_each_flag_and_barrier_of_an_npus_pipes_is_needed():
    """All goldens and attention under more directives: `python -m benchmarks.plan_mutants`."""
    (plan,) = plan_mutants.pipes(["gemm_bias_gelu"], ())
    made = list(plan.mutants())
    kinds = {m.kind for m in made}
    assert {"set full of pipes", "wait empty of cores", "vector.V barrier"} < kinds and len(made) > 50
    assert not [m for m in made if not m.caught]


# ---- roles
def signal(do: str, what: str, back: int = 0) -> Signal:
    return Signal(do, what, "q", 2, back=back)


def roles(*consumer: Node, producer: Body = ()) -> Body:
    turn = signal("wait", "empty"), signal("fill", "full"), Count("q", "++q;")
    zero = Count("q", "", begin=True, times=0)
    return (Block("if (team == 0)", (zero, Block("for", producer or turn, again="it")), role="producer"), zero,
            Block("for", consumer, again="it"), Done(0, ""))  # fmt: skip


UNORDERED = "which bulk copies write, and nothing orders the two"
PRODUCT = Began(("acc",), ("q",)), Group("")
TURN = signal("wait", "full"), *PRODUCT, Done(0, ""), signal("arrive", "empty"), Count("q", "++q;")


@pytest.mark.parametrize(("body", "said"), [
    (roles(*TURN), ""),
    (roles(*TURN[1:]), "team 0 reads a slot of q " + UNORDERED),
    (roles(*TURN[:3], *TURN[4:]), "team 0 gives back a slot of q that products read"),
    (roles(*TURN[:4], *TURN[5:]), "stuck: the producer waits at empty of q"),
    (roles(*TURN[:5]), "stuck: the producer waits at empty of q"),
    (roles(*TURN, producer=(signal("fill", "full"), Count("q", ""))), "the producer writes a slot of q " + UNORDERED),
    (roles(*TURN[:2], *TURN[3:]), "team 0 gives back a slot of q that products read"),
    (roles(*TURN[:3], Touch(("acc",), ""), *TURN[3:]), "team 0 touches acc while a product is under way"),
], ids=["right", "full", "done", "empty", "count", "wait", "group", "touch"])  # fmt: skip
def test_roles(body, said):
    found = problems(body)
    assert not found if not said else said in found, found


def test_copies_land_in_any_order():
    """That a later copy has landed says nothing of an earlier one, and a block does not end while one is under way."""
    rings = lambda do, what, *names: tuple(Signal(do, what, x, 1) for x in names)
    producer = Block("if (team == 0)", rings("fill", "full", "q", "r"), role="producer")
    read = Began(("acc",), ("q", "r")), Group(""), Done(0, "")
    assert not problems((producer, *rings("wait", "full", "q", "r"), *read))
    assert problems((producer, *rings("wait", "full", "r"), *read))[0] == "team 0 reads a slot of q " + UNORDERED
    assert problems((producer, *rings("wait", "full", "q"))) == ["block 0 may end while bulk copies write a slot of r"]


def test_a_wait_by_parity_takes_no_other_phase_for_its_own():
    """Two takers of one ring in turn: without their order the second one's first wait passes before the ring came round."""
    ring = lambda do, what: Signal(do, what, "q", 1)
    order = lambda do: (Signal(do, "order", "order", 2),)
    producer = ring("wait", "empty"), ring("fill", "full"), Count("q", "")
    made = Block("if (team == 0)", (Count("q", "", begin=True, times=0), Block("for", producer, again="tile")), role="producer")
    take = ring("wait", "full"), *PRODUCT, Done(0, ""), ring("arrive", "empty"), Count("q", "", times=2)
    tile = lambda wait, tell: Block("for", (*wait, *take[:4], *tell, *take[4:]), again="tile")
    plan = lambda wait, tell: (made, Count("q", "", begin=True), tile(wait, tell))
    assert not problems(plan(order("wait"), order("arrive")), 2)
    assert any("by a phase that is not its own" in x for x in problems(plan((), ()), 2))


# ---- a role's shared memory and the bulk engine
FENCE, TEAM = Fence("fence"), Barrier("warpgroup", "sync")


def alone(*body: Node) -> list[str]:
    """What is wrong with a consumer beside a producer that does nothing."""
    return problems((Block("if (team == 0)", (), role="producer"), *body))


def box(do: str, places: int = 1, loop: str = "") -> Box:
    return Box("box", do, ((loop, 1),) if loop else (), places)


def read_out(behind: int) -> Done:
    return Done(behind, "", "stores")


def tile_of(*body: Node, turns: int = 3) -> Body:
    """Tiles of so many boxes, and the end of a role."""
    return Block("for", (Block("for", body, again="g", turns=turns),), again="tile"), read_out(0)


STORE = read_out(1), TEAM, box("write", 2, "g"), FENCE, TEAM, box("store", 2, "g")
EARLY = "team 0 writes box which bulk copies read, and it is under way"
UNKNOWN = "team 0 writes box which bulk copies read, and nothing orders the two"


@pytest.mark.parametrize(("left_out", "said"), [
    (None, ""), (0, EARLY), (1, UNKNOWN), (3, "team 0 reads box which threads write, and no fence stands between"),
    (4, "team 0 reads box which threads write, and nothing orders the two"),
], ids=["right", "wait", "known", "fence", "met"])  # fmt: skip
def test_boxes_that_leave(left_out, said):
    body = [n for i, n in enumerate(STORE) if i != left_out]
    found = alone(*tile_of(*body, turns=4))
    assert not found if not said else said in found, found


def test_stores_are_over_before_a_block_ends():
    assert alone(*tile_of(*STORE, turns=2)[:1]) == ["team 0 ends while a bulk store is under way"]


def test_a_tile_of_odd_boxes_ends_where_the_next_one_begins():
    odd = tile_of(*STORE)
    assert alone(*odd)[0] == EARLY
    loop = odd[0]
    assert isinstance(loop, Block)
    assert not alone(replace(loop, body=(read_out(0), *loop.body)), odd[1])


def operand(do: str) -> Box:
    return Box("half", do, ring="h", depth=1)


ASK = operand("load"), Signal("fill", "full", "h", 1)
COME = Signal("wait", "full", "h", 1)
NEXT = Count("h", "")
HALVES = read_out(0), *ASK, COME, operand("read"), FENCE, TEAM, NEXT, *ASK, COME, operand("write"), FENCE, TEAM, operand("store"), NEXT


@pytest.mark.parametrize(("left_out", "said"), [
    (None, ""), (0, "writes a slot of h which bulk copies read, and it is under way"), (3, "reads a slot of h " + UNORDERED),
    (5, "writes a slot of h which threads read, and no fence stands between"),
    (6, "writes a slot of h which threads read, and nothing orders the two"), (10, "writes a slot of h " + UNORDERED),
    (13, "reads a slot of h which threads write, and nothing orders the two"),
    (12, "reads a slot of h which threads write, and no fence stands between"),
], ids=["right", "stored", "come", "fence", "met", "come again", "met again", "fence again"])  # fmt: skip
def test_an_operand_in_halves(left_out, said):
    """A barrier of threads waits for no matrix load under way: without the fence the engine overwrote what they read."""
    body = tuple(n for i, n in enumerate(HALVES) if i != left_out)
    found = alone(Block("for", body, again="tile"), read_out(0))
    assert not found if not said else f"team 0 {said}" in found, found


def test_products_of_what_threads_wrote():
    lay = Box("laid", "write"), FENCE, Barrier("consumers"), Began(("acc",), (), ("laid",)), Group(""), Done(0, "")
    turn = lambda *drop: (Block("for", tuple(n for i, n in enumerate(lay) if i not in drop), again="it"),)
    assert not alone(*turn())
    assert alone(*turn(1)) == ["team 0 reads laid which threads write, and no fence stands between"]
    assert alone(*turn(2)) == ["team 0 reads laid which threads write, and nothing orders the two"]
    assert "team 0 writes laid which products read, and it is under way" in alone(*turn(5))
    both = write("laid"), *lay[:3], read("laid"), *lay[3:]  # what threads write each in its part, and then one of them reads for all
    assert not alone(Block("for", (Barrier("consumers"), *both), again="it"))


def test_mbarriers_are_made_before_roles_use_them():
    made = Box("mbarriers", "write", far=True), Fence("", "mbarriers"), Barrier("block")
    use = roles(*TURN)
    assert not problems((*made, *use))
    for left in range(1, 3):
        said = problems((*made[:left], *made[left + 1 :], *use))
        assert said[0].startswith("team 0 reads mbarriers which the producer writes")
    assert problems((made[0], FENCE, made[2], *use)), "a fence for data shows no mbarrier"
