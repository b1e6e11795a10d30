"""Waits for slots and products, and slots that go back: placed by what statements touch (`tile.signals`), enough for the checker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocomp.tile.check_plan import problems
from autocomp.tile.plan import (
    Agents,
    Began,
    Block,
    Box,
    Count,
    Done,
    Fence,
    Group,
    Line,
    Node,
    Reach,
    Reads,
    Signal,
    TensorMemory,
    Touch,
    walk,
)
from autocomp.tile.plan import Barrier as Meet
from autocomp.tile.signals import place_signals
from autocomp.tile.synchronise import synchronise

Body = tuple[Node, ...]
BEGIN = (Block("if (threadIdx.x == 0)", (Box("mbarriers", "write", far=True), Fence("", "mbarriers")), alone=True), Meet("block"))
KEEP = Touch(("acc",), "keep")


def begin(ring: str) -> Count:
    return Count(ring, "", begin=True, times=0)


def product(*rings: str, sums: str = "acc") -> Body:
    began = Began((sums,), rings, fresh=(Line("fresh"),), over=(replace(KEEP, names=(sums,)),))
    return Reads(rings), began, Group("")


def loop(*body: Node, ring: str = "q", **how: object) -> Block:
    return Block("for", (*body, Count(ring, "")), again=how.pop("again", "it"), **how)  # type: ignore[arg-type]


def tiles(*body: Node) -> Block:
    return Block("tiles", body, again="tile")


def kernel(produced: Body, consumed: Body, *rings: str) -> Body:
    counts = tuple(map(begin, rings or ("q",)))
    return (*BEGIN, Block("if (team == 0)", (*counts, *produced), role="producer"), *counts, *consumed)


def said(body: Body) -> list[str]:
    """What is not text."""
    show = lambda n: f"{n.do} {n.what} {n.queue}{f' -{n.back}' if n.back else ''}{f' {n.when}' if n.when else ''}"
    names = {Began: "product", Count: "count", Touch: "touch"}
    out = []
    for n in walk(body):
        if isinstance(n, Signal):
            out.append(show(n))
        elif type(n).__name__ == "Done":
            out.append(f"done {n.behind}{' whole' if n.whole else ''}")
        elif isinstance(n, TensorMemory) or (isinstance(n, Meet) and n.agents == "consumers"):
            out.append(n.do if isinstance(n, TensorMemory) else "meet")
        elif type(n) in names and not (isinstance(n, Count) and n.begin):
            out.append(names[type(n)])
        elif isinstance(n, Line):
            out.append(n.text)
    return out


FILL = Signal("fill", "full", "q", 3)
MAINLOOP = kernel((tiles(loop(FILL)),), (tiles(loop(*product("q")), Touch(("acc",))),))


def consumer(body: Body) -> list[str]:
    return said(tuple(n for n in place_signals(body) if n not in BEGIN and not getattr(n, "role", "")))


def test_one_product_is_under_way_across_turns_and_its_slot_goes_back_a_turn_later():
    assert consumer(MAINLOOP) == ["wait full q", "fresh", "product", "done 1", "arrive empty q -1 again", "count",
                                  "done 0", "arrive empty q -1", "touch", "touch"]  # fmt: skip
    assert problems(synchronise(MAINLOOP)) == []


def test_a_producer_waits_for_the_slots_that_it_fills_again():
    (role,) = (n for n in place_signals(MAINLOOP) if getattr(n, "role", ""))
    assert said((role,)) == ["wait empty q", "fill full q", "count"]
    once = kernel((FILL,), (*product("q"), Touch(("acc",))))
    assert said(place_signals(once)) == ["fill full q", "wait full q", "fresh", "product", "done 0", "touch", "touch"]
    assert problems(synchronise(once)) == []


def test_in_one_tile_slots_that_no_copy_fills_again_stay():
    one = kernel((loop(FILL),), (loop(*product("q")), Touch(("acc",))))
    assert consumer(one)[-3:] == ["done 0", "touch", "touch"]
    assert problems(synchronise(one)) == []


def test_values_that_a_turn_touches_are_awaited_in_it_and_no_later():
    body = kernel((loop(FILL),), (loop(*product("q"), Touch(("acc",))),))
    assert consumer(body) == ["wait full q", "fresh", "product", "done 0", "arrive empty q", "touch", "touch", "count"]
    assert problems(synchronise(body)) == []


def test_a_slot_goes_back_behind_the_last_product_that_reads_it():
    two = kernel((loop(FILL),), (loop(*product("q"), *product("q", sums="s"), Touch(("acc",)), Touch(("s",))),))
    assert consumer(two) == ["wait full q", "fresh", "product", "fresh", "product", "done 1", "touch", "touch",
                             "done 0", "arrive empty q", "touch", "touch", "count"]  # fmt: skip
    assert problems(synchronise(two)) == []


def test_a_ring_of_tiles_that_each_turn_reads_goes_back_when_the_tile_ends():
    fill = Signal("fill", "full", "a", 2)
    produced = (tiles(fill, loop(FILL), Count("a", "")),)
    body = kernel(produced, (tiles(loop(*product("a", "q")), Touch(("acc",)), Count("a", "")),), "a", "q")
    assert consumer(body)[:2] == ["wait full a", "wait full q"] and consumer(body)[-2:] == ["arrive empty a", "count"]
    assert problems(synchronise(body)) == []


def test_parts_of_a_loop_hand_their_products_on_and_a_lone_turn_waits_for_all():
    parts = loop(*product("q"), part=(0, 2)), loop(*product("q"), part=(1, 2), lone=True)
    body = kernel((tiles(loop(FILL)),), (tiles(*parts, Touch(("acc",))),))
    assert consumer(body) == ["wait full q", "fresh", "product", "done 1", "arrive empty q -1 again", "count",
                              "wait full q", "fresh", "product", "done 1 whole", "arrive empty q -1", "count",
                              "done 0", "arrive empty q -1", "touch", "touch"]  # fmt: skip
    assert problems(synchronise(body)) == []


def test_products_of_one_sum_follow_each_other_without_a_new_begin():
    body = kernel((loop(FILL),), (loop(*product("q"), *product("q"), Touch(("acc",))),))
    assert consumer(body)[:4] == ["wait full q", "fresh", "product", "product"]


@pytest.mark.parametrize("lent, when", [("q", "never"), ("", "")])
def test_a_slot_that_is_used_on_is_left_to_another_statement(lent, when):
    body = kernel((tiles(loop(FILL)),), (tiles(loop(*product("q")), Touch(("acc",), lent=lent)),))
    (back,) = (n for n in walk(place_signals(body)) if isinstance(n, Signal) and n.do == "arrive" and n.when != "again")
    assert back.when == when


def test_sums_in_tensor_memory_are_a_ring_and_fences_stand_where_roles_tell_and_are_told():
    ring, sums = {"ring": "sums", "depth": 2}, Count("sums", "")
    issue = loop(TensorMemory("multiply", reads=("q",), **ring), Line("products"), TensorMemory("issued", reads=("q",)))
    role = lambda name, *body: Block(name, (begin("q"), begin("sums"), *body), role=name)
    load = Block("for g", (TensorMemory("load", **ring), Meet("warpgroup")), again="g", turns=2)
    body = (BEGIN[0], TensorMemory("alloc"), Meet("block"), TensorMemory("name"),
            Block("two", (role("producer", tiles(loop(FILL))), role("issuer", tiles(issue, sums))), role="producer issuer"),
            begin("sums"), tiles(load, sums), Meet("consumers"), TensorMemory("free"))  # fmt: skip
    after = place_signals(body)
    assert consumer(body) == ["alloc", "before", "after", "name", "wait full sums", "after", "load", "before", "arrive empty sums",
                              "count", "meet", "after", "free"]  # fmt: skip
    (issuer,) = (n for n in walk(after) if getattr(n, "role", "") == "issuer")
    assert said((issuer,)) == ["wait empty sums", "wait full q", "after", "multiply", "products", "fill empty q", "count",
                               "fill full sums", "count"]  # fmt: skip
    assert problems(synchronise(body)) == []


def test_a_row_that_two_loops_read_is_awaited_in_the_first_and_given_back_in_the_last():
    """Its own threads read, and one of them fills: first each slot, then the one that all warps have given back."""
    depth, turns = 3, 3
    start = lambda back, *more: Block("if", (Signal("fill", "full", "q", depth, back=back), Line("copy"), *more), within=("q", back))
    read = Reads(("q",)), Line("read"), Box("row", "read", ring="q", depth=depth)
    turn = lambda *more: Block("for", (Count("q", ""), read[0], *more, *read[1:]), again="it")
    first = Block("for i", (start(0), Count("q", "")), again="i", turns=depth)
    follow = lambda back, since: Block("one", (start(back),), alone=True, since=since)
    body = (replace(BEGIN[0], body=(*BEGIN[0].body, first, begin("q"))), BEGIN[1], Count("q", "", times=-1),
            tiles(turn(), Count("q", "", times=-1, turns=True), turn(follow(1 - depth, ((("it", 1),), 1))), follow(-depth, ((), 0))),
            Agents(producer=False, turns=turns))  # fmt: skip
    assert consumer(body) == ["fill full q", "copy", "count", "count", "count",
                              "wait full q", "read", "count", "count", "wait empty q --2", "fill full q --2", "copy",
                              "read", "arrive empty q", "wait empty q --3", "fill full q --3", "copy"]  # fmt: skip
    assert problems(synchronise(body)) == []


def test_teams_that_take_tiles_by_turns_pass_their_turn_on_behind_a_tile_s_last_product():
    reach, others = Reach("products", True, "teams", 2), Count("q", "", turns=True)
    first = Count("q", "", begin=True, turns=True)
    role = Block("if (team == 0)", (begin("q"), tiles(loop(FILL))), role="producer")
    body = (*BEGIN, role, first, tiles(reach, loop(*product("q")), KEEP, others))
    assert consumer(body) == ["wait order order", "wait full q", "fresh", "product", "done 1", "arrive empty q -1 again", "count",
                              "arrive order order", "done 0", "arrive empty q -1", "touch", "touch", "count"]  # fmt: skip
    assert problems(synchronise(body), 2) == []
    alone = consumer((*BEGIN, role, first, tiles(reach, *product("q"), KEEP, others)))
    assert alone[alone.index("product") + 1] == "arrive order order"


@pytest.mark.parametrize("depth, back", [(1, ["done 0", "arrive empty c"]), (2, ["done 4", "arrive empty c -1 again"])])
def test_a_slot_that_bulk_stores_read_goes_back_when_they_have_and_of_the_tile_before_where_there_are_two(depth, back):
    box = Box("box", "read", (("b", 1),), 4, "c", depth)
    boxes = lambda do: Block("for b", (replace(box, do=do),), again="b", turns=4)
    stores = Block("if (thread == 0)", (boxes("store"), replace(box, do="over", place=())))
    met = Fence("", ""), Meet("warpgroup")
    count = Count("c", "")
    consumed = tiles(Reads(("c",)), boxes("read"), boxes("write"), *met, stores, count), Done(0, of="stores")
    body = kernel((tiles(Signal("fill", "full", "c", depth), count),), consumed, "c")
    assert consumer(body) == ["wait full c", *back, "count", "done 0"]
    assert problems(synchronise(body)) == []
    once = kernel((Signal("fill", "full", "c", 1),), (*consumed[0].body[:-1], consumed[1]), "c")
    assert consumer(once) == ["wait full c", "done 0"]


def test_a_slot_that_was_lent_for_boxes_goes_back_in_the_next_tile_s_first_turn():
    over = Block("if (first)", (Box("box", "over", ring="q", depth=3, back=1, lent=2),))
    (done, back) = (n for n in walk(place_signals(kernel((tiles(loop(FILL)),), (tiles(loop(*product("q"), over)),)))) if n in over.body or
                    (isinstance(n, Done) and n.of == "stores") or (isinstance(n, Signal) and n.when == "first"))  # fmt: skip
    assert (done, back) == (Done(0, of="stores"), Signal("arrive", "empty", "q", 3, back=1, when="first", loop="it"))
