"""Queues and their signals: found in programs of agents, written into them, and checked by unrolling them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocomp.errors import AutocompError
from autocomp.tile.agents import Again, Once, Queue, Signal, Skewed, Span, Work, find_queues, merged, with_signals
from autocomp.tile.check_pipes import problems, waits_before_sets
from autocomp.tile.plan import Barrier
from autocomp.tile.synchronise import synchronise


def work(agent, reads=(), writes=()):
    return Work(agent, tuple(reads), tuple(writes), ())


COPY_COMPUTE = {
    "core": (Again("tile", (), (work("copy", (), "a"), work("copy", (), "b"), work("unit", "ab", "c"), work("out", "c"))),),
}
DEPTH = {"a": 2, "b": 2, "c": 2}


def signalled(parts, depth, queues=None):
    return with_signals(parts, find_queues(parts, depth) if queues is None else queues)


def without(parts, what, buffer):
    """The programs without the signals `what` of the queue of a buffer."""
    def strip(body):
        return tuple(replace(n, body=strip(n.body)) if isinstance(n, (Again, Skewed)) else n for n in body
                     if not (isinstance(n, Signal) and n.what == what and buffer in n.queue.buffers))  # fmt: skip
    return {p: strip(b) for p, b in parts.items()}


def test_a_buffer_between_two_agents_is_a_queue():
    assert find_queues(COPY_COMPUTE, DEPTH) == [
        Queue("copy", "unit", "tile", ("a",), 2), Queue("copy", "unit", "tile", ("b",), 2), Queue("unit", "out", "tile", ("c",), 2),
    ]  # fmt: skip


def test_slots_rotate_in_the_deepest_loop_around_all_uses():
    parts = {"core": (Again("tile", (), (work("copy", (), "a"), Again("depth", (), (work("copy", (), "b"), work("unit", "ab", "c"))))),)}
    assert {q.buffers: q.loop for q in find_queues(parts, {})} == {("a",): "tile", ("b",): "depth"}


def test_two_writers_of_a_buffer_are_refused():
    with pytest.raises(AutocompError, match="buffer a is written by copy and unit"):
        find_queues({"core": (work("copy", (), "a"), work("unit", (), "a"), work("out", "a"))}, {})


def test_a_whole_plan_has_no_fault_and_missing_signals_are():
    plan = signalled(COPY_COMPUTE, DEPTH)
    assert problems(plan, DEPTH) == [] and waits_before_sets(plan) == []
    for what, q in (("full", "b"), ("full", "c"), ("empty", "a"), ("empty", "c")):
        assert any("nothing orders" in x for x in problems(without(plan, what, q), DEPTH)), (what, q)
    assert problems(without(plan, "full", "a"), DEPTH) == []  # copies end in order: what says that b is there says it of a


def test_buffers_on_the_same_bytes_are_one():
    """Slots of `a` are bytes 0 .. 127 of a memory; `c` is written by another agent where a's second slot lies."""
    plan = signalled(COPY_COMPUTE, DEPTH)
    apart = {"a": Span("ub", 0, 64), "b": Span("ub", 128, 64), "c": Span("ub", 256, 64)}
    assert problems(plan, DEPTH, lies=apart) == []
    assert problems(plan, DEPTH, lies={**apart, "c": Span("l1", 64, 64)}) == []  # of another memory
    found = problems(plan, DEPTH, lies={**apart, "c": Span("ub", 96, 32)})
    assert "unit writes c on the bytes of a which copy writes, and nothing orders the two" in found
    ordered = {"core": (work("unit", (), "x"), Barrier("unit"), work("unit", (), "y"), Barrier("unit"), work("unit", "x"))}
    assert problems(ordered, {}) == []
    assert problems(ordered, {}, lies={"x": Span("ub", 0, 64), "y": Span("ub", 32, 8)}) == [
        "overwritten: unit reads x behind another value on its bytes"]  # fmt: skip


def test_a_value_that_another_replaced_is_not_read():
    first, second = (Work("unit", (), ("ub+0",), (), (v,)) for v in ("t1", "t2"))
    read = lambda v: Work("unit", ("ub+0",), (), (), (v,))
    assert problems({"core": (first, Barrier("unit"), second, Barrier("unit"), read("t2"))}, {}) == []
    assert problems({"core": (first, Barrier("unit"), second, Barrier("unit"), read("t1"))}, {}) == [
        "overwritten: unit reads t1 behind another value on its bytes"]  # fmt: skip


def test_what_many_rounds_of_an_inner_loop_order_one_round_may_not():
    """`line` comes once a tile; the hand-shake of `x` in the inner loop stands in for its empty signal only where that runs often."""
    inner = Again("rows", (), (work("copy", (), "x"), work("unit", ("x", "line"), "y")))
    parts = {"core": (Again("tile", (), (work("copy", (), ("line",)), inner)),)}
    depth = {"line": 2, "x": 2}
    plan = without(signalled(parts, depth), "empty", "line")
    assert any("line" in x for x in problems(plan, depth))


def test_queues_merge_only_where_all_agree():
    queues = find_queues(COPY_COMPUTE, DEPTH)
    assert [q.buffers for q in merged(queues, lambda tried: True)] == [("a", "b"), ("c",)]
    assert merged(queues, lambda tried: False) == queues
    assert merged(queues, lambda tried: True, lambda one: one.buffers != ("a", "b")) == queues
    late = {"core": (Again("tile", (), (work("copy", (), "a"), work("unit", "a", "c"), work("copy", (), "b"), work("unit", "b", "d"))),)}
    plan = signalled(late, DEPTH, [Queue("copy", "unit", "tile", ("a", "b"), 2)])
    assert waits_before_sets(plan) == ["waits before it is set: full of copy -> unit [a, b]"]


def test_a_cycle_between_parts_is_a_deadlock():
    queue = lambda w, r, b: Queue(w, r, "", (b,), 1)
    a, b = queue("one", "two", "a"), queue("two", "one", "b")
    parts = {"first": (Signal("wait", "full", b), work("one", "b", "a"), Signal("set", "full", a)),
             "second": (Signal("wait", "full", a), work("two", "a", "b"), Signal("set", "full", b))}  # fmt: skip
    assert problems(parts, {}) == ["stuck: one waits for full of two -> one [b]; two waits for full of one -> two [a]"]


def test_a_flag_left_set_and_one_set_twice_are_faults():
    q = Queue("one", "two", "", ("a",), 1)
    assert problems({"core": (work("one", (), "a"), Signal("set", "full", q))}, {}) == ["left set: full of one -> two [a]"]
    twice = (work("one", (), "a"), Signal("set", "full", q), Signal("set", "full", q), Signal("wait", "full", q), Signal("wait", "full", q))
    assert "one sets full of one -> two [a] that is set" in problems({"core": twice}, {})


def test_dependent_neighbours_of_one_agent_get_a_barrier():
    body = synchronise((work("v", (), "x"), work("v", "x", "y"), work("v", "z", "w"), work("m", "y", "q")), "v")
    assert [type(n) for n in body] == [Work, Barrier, Work, Work, Work]
    loop = synchronise((Again("tile", (), (work("v", "y", "x"), work("v", "z", "y"))),), "v")
    assert [type(n) for n in loop[0].body] == [Barrier, Work, Barrier, Work]  # a round may follow another


def test_a_barrier_of_a_round_serves_the_next_one_too():
    body = synchronise((Again("tile", (), (work("v", "", "p"), work("v", "p", "q"), work("v", "q", "r"))),), "v")
    assert [type(n) for n in body[0].body] == [Work, Barrier, Work, Barrier, Work]  # p was read in front of the second
    assert problems({"core": body}, {}) == []
    for i, n in enumerate(body[0].body):
        if isinstance(n, Barrier):
            left = replace(body[0], body=(*body[0].body[:i], *body[0].body[i + 1 :]))
            assert "nothing orders the two" in problems({"core": (left,)}, {})[0]


def late_product(slots):
    """A unit makes x of a copy, another core's unit y of x; the first adds y, scaled by k of its round, a round later."""
    cube = (Again("tile", (), (work("cube", "x", "y"),)),)
    vector = (work("unit", (), "z"), Again("tile", (), (Skewed(0, (), (work("copy", (), "a"), work("unit", "a", "xk"))),
                                                      Skewed(1, (), (work("unit", "kyz", "z"),)))))  # fmt: skip
    depth = dict.fromkeys("axy", 2) | {"k": slots}
    return {"cube": cube, "vector": vector}, depth


def test_a_part_may_work_on_the_round_before():
    parts, depth = late_product(2)
    plan = {n: synchronise(b, "unit") for n, b in signalled(parts, depth).items()}
    assert problems(plan, depth) == [] and waits_before_sets(plan) == []
    broken = {"cube": plan["cube"]} | without({"vector": plan["vector"]}, "full", "y")
    assert any("nothing orders" in x for x in problems(broken, depth))


def test_a_value_that_the_next_round_overwrites_is_stale():
    parts, depth = late_product(1)
    plan = {n: synchronise(b, "unit") for n, b in signalled(parts, depth).items()}
    assert "stale: unit reads k of another round" in problems(plan, depth)


def test_a_barrier_of_a_part_that_is_left_out_orders_nothing():
    """The last round has the late part alone: its barrier is its own."""
    body = (Again("tile", (), (Skewed(0, (), (work("v", (), "x"), work("v", "x", "w"))), Skewed(1, (), (work("v", "z", "z"),)))),)
    out = synchronise(body, "v")[0].body
    assert Barrier("v") in out[1].body


def test_a_loop_of_skewed_parts_has_no_others():
    body = (Again("tile", (), (work("v", (), "x"), Skewed(1, (), (work("v", "x", "z"),)))),)
    with pytest.raises(AutocompError, match="skewed parts and others"):
        problems({"core": body}, {})


def joined(slots):
    """One loop over tiles and blocks: a tile's factor q comes in its first block, and what its blocks add up to, z, leaves in its last."""
    core = Again("block", (), (Skewed(0, (), (Once(True, (work("copy", (), "q"),)), work("copy", (), "a"))),
                               Skewed(1, (), (Once(True, (work("unit", (), "z"),)), work("unit", "qaz", "z"),
                                              Once(False, (work("unit", "z", "o"), work("out", "o")))))), over="tile")  # fmt: skip
    return {"core": (core,)}, {"q": slots, "a": 3, "o": 1}


def test_a_loop_over_tiles_and_blocks_has_queues_of_both():
    parts, depth = joined(2)
    queues = find_queues(parts, depth)
    assert {q.buffers[0]: q.loop for q in queues} == {"q": "tile", "a": "block", "o": "tile"}
    plan = {n: synchronise(b, "unit") for n, b in signalled(parts, depth).items()}
    assert problems(plan, depth) == [] and waits_before_sets(plan) == []
    early, late = (n.body for n in plan["core"][len([x for x in plan["core"] if isinstance(x, Signal) and x.do == "set"])].body)
    of_q = lambda n: [s for s in n.body if isinstance(s, Signal) and s.queue.buffers == ("q",)] if isinstance(n, Once) else []
    assert [(n.first, s.do, s.what) for n in early for s in of_q(n)] == [(True, "wait", "empty"), (True, "set", "full")]
    assert [(n.first, s.do, s.what) for n in late for s in of_q(n)] == [(True, "wait", "full"), (False, "set", "empty")]
    for what, q in (("full", "o"), ("empty", "q"), ("full", "a")):
        broken = {p: tuple(_without_signal(b, what, q)) for p, b in plan.items()}
        assert any("nothing orders" in x for x in problems(broken, depth)), (what, q)


def _without_signal(body, what, buffer):
    for n in body:
        if isinstance(n, (Again, Skewed, Once)):
            yield replace(n, body=tuple(_without_signal(n.body, what, buffer)))
        elif not (isinstance(n, Signal) and n.what == what and buffer in n.queue.buffers):
            yield n


def test_a_tile_whose_slot_is_still_read_would_wait_for_itself():
    parts, depth = joined(1)
    assert any("waits before it is set" in x for x in waits_before_sets(signalled(parts, depth)))
