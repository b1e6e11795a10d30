"""The evolutionary search and the space it moves in."""

from __future__ import annotations

from itertools import product

import pytest
from autocomp.targets import load_target

from autocomp import rewrite
from autocomp.egraph.choose import choose_schedule
from autocomp.errors import AutocompError
from autocomp.frontends.text import parse
from autocomp.ir.schedule import Schedule
from autocomp.loops.schedules import legal
from autocomp.options import Options
from autocomp.trace import Trace
from autocomp.tune.key import schedule_of, schedule_text
from autocomp.tune.search import FIRST, Search
from autocomp.tune.space import Point, Space, legal_points, parameters
from tests.helpers.covers import cover_of

SIZES = (8, 16, 32, 64, 128, 256)


def bowl(s: Schedule) -> float:
    """Fastest at m 32, n 128, 3 stages; the parameters matter together."""
    at = dict(s.tile)
    m, n = SIZES.index(at["m"]) - 2, SIZES.index(at["n"]) - 4
    return 1 + m * m + n * n + m * n / 2 + (s.stages - 3) ** 2


def space(worst_first: bool = True) -> Space:
    every = [Schedule.make({"m": m, "n": n}, stages=s) for m, n, s in product(SIZES, SIZES, (1, 2, 3, 4, 6, 8))]
    return Space(sorted((Point(s, 1 / bowl(s) if worst_first else bowl(s), "rule") for s in every), key=lambda p: p.predicted))


def run(search: Search, until: int = 10**9) -> list[int]:
    asked = []
    while not search.over and len(asked) < until:
        for i in search.ask(4):
            search.tell(i, bowl(search.space.points[i].schedule))
            asked.append(i)
    return asked


def test_it_finds_the_best_where_the_model_is_wrong():
    search = Search(space(), "seed", limit=110, patience=110)
    run(search)
    assert search.space.points[search.ranked()[0]].schedule == Schedule.make({"m": 32, "n": 128}, stages=3)
    assert search.tried <= 110 < len(search.space)


def test_it_starts_in_predicted_order():
    search = Search(space(False), "seed", limit=100, patience=100)
    assert run(search, FIRST)[:FIRST] == list(range(FIRST))


def test_a_search_that_was_killed_goes_on_where_it_was():
    whole = Search(space(), "seed", limit=80, patience=80)
    asked = run(whole)
    first = Search(space(), "seed", limit=80, patience=80)
    head = run(first, 40)
    second = Search(space(), "seed", limit=80, patience=80)
    for i in sorted(head):  # a database gives them back in another order
        second.tell(i, bowl(second.space.points[i].schedule))
    assert head + run(second) == asked


def test_no_schedule_is_asked_for_twice_and_all_are_in_the_end():
    search = Search(space(), "seed", limit=10**6, patience=10**6)
    asked = run(search)
    assert sorted(asked) == list(range(len(search.space)))


def test_what_is_pending_is_not_asked_for_again():
    search = Search(space(), "seed", limit=40, patience=40)
    run(search, 30)
    pending = search.ask(6)
    following = search.ask(6, pending)
    assert len(pending) == 6
    assert len(following) == 40 - search.tried - 6
    assert not set(pending) & set(following)
    assert search.ask(6, pending + following) == []


def test_failures_are_tried_and_refusals_are_not():
    search = Search(space(), "seed", limit=10, patience=10)
    search.tell(0, None)
    search.tell(1, None, refused=True)
    assert search.tried == 1
    assert not {0, 1} & set(search.ask(8))
    assert search.ranked() == []


def test_patience_ends_a_search_that_finds_nothing_better():
    search = Search(space(False), "seed", limit=1000, patience=30)
    run(search)
    assert 30 <= search.tried < 40


def test_neighbours_move_one_parameter_by_the_nearest_value():
    s = space()
    i = s.number[Schedule.make({"m": 32, "n": 64}, stages=4)]
    moved = [s.points[p].schedule for p in s.neighbours(i)]
    single = [x for x in moved if sum(parameters(x).get(k) != v for k, v in parameters(s.points[i].schedule).items()) == 1]
    assert {(dict(x.tile)["m"], dict(x.tile)["n"], x.stages) for x in single} == {
        (16, 64, 4), (64, 64, 4), (32, 32, 4), (32, 128, 4), (32, 64, 3), (32, 64, 6)}  # fmt: skip
    assert moved[: len(single)] == single


def test_parameters_that_are_tied_together_move_together():
    s = Space(Point(Schedule.make({"m": 64 * w}, workers=w), 1.0, "rule") for w in (1, 2, 3))
    assert s.neighbours(1) == [0, 2]


def test_crossings_take_every_parameter_from_a_parent():
    from random import Random

    s = space()
    a, b = s.number[Schedule.make({"m": 8, "n": 8}, stages=1)], s.number[Schedule.make({"m": 256, "n": 256}, stages=8)]
    for seed in range(20):
        child = s.cross(a, b, Random(seed))
        assert child not in (a, b, None)
        at = s.points[child].schedule
        assert {*dict(at.tile).values()} <= {8, 256}
        assert at.stages in (1, 8)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_every_point_of_a_real_space_is_legal_and_has_a_text(target):
    chip = load_target(target).chip
    rules = rewrite.load_rules()
    text = "graph g\ninput a: f16[96, 200]\ninput b: f16[200, 72]\n%0 = matmul(a, b)\n%1 = gelu(%0)\noutput o = %1\n"
    kernel = cover_of(parse(text)).calls[0].kernel
    untuned = choose_schedule(kernel, rules, chip, Options(), Trace())[0]
    points = legal_points(kernel, rules, chip, Options(), untuned)
    assert untuned in {p.schedule for p in points}
    assert [p.predicted for p in points] == sorted(p.predicted for p in points)
    for p in points:
        assert legal(kernel, p.schedule).ok
        assert schedule_of(schedule_text(p.schedule)) == p.schedule
    assert len({schedule_text(p.schedule) for p in points}) == len(points) > 20


@pytest.mark.parametrize("text", ["[]", "nothing", '{"tiles": 1}', '{"tile": [["m", 0]]}', '{"tile": [["m"]]}', '{"tile": {"m": 8}}',
                                  '{"stages": "2"}', '{"persistent": 1}'])  # fmt: skip
def test_a_text_that_is_no_schedule_is_refused(text):
    with pytest.raises(AutocompError, match="is no schedule"):
        schedule_of(text)
