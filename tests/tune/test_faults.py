"""Candidates that crash, hang, are wrong or cannot be built: each is recorded with its reason and costs itself alone."""

from __future__ import annotations

import time

import pytest
from autocomp.targets import load_target

from autocomp import rewrite
from autocomp.egraph.choose import choose_schedule
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.trace import Trace
from autocomp.tune.database import Database
from autocomp.tune.kernel import Limits
from autocomp.tune.key import schedule_of
from autocomp.tune.tuner import tune_program
from tests.helpers.clocks import clock
from tests.helpers.covers import cover_of
from tests.helpers.tune_targets import FaultyCpu

SOFTMAX = "graph g\ninput x: f32[96, 48]\n%0 = softmax(x, axes=[1])\noutput y = %0\n"
# FaultyCpu admits all: no second schedule of a tile
ONE_A_TILE = ("exp-below-maximum", "expand-accumulators", "jam-columns", "prefetch", "unmask-interior")
RULES = rewrite.load_rules(without=tuple(f"directives/{x}" for x in ONE_A_TILE))
FAULTS = {
    1: ("crash", "failed", "run: killed by SIGSEGV"),
    2: ("hang", "failed", "run: no result after 4 s"),
    4: ("nothing written", "failed", "run: wrong: out0 has nan where "),
    8: ("build crashes", "failed", "build: killed by SIGSEGV"),
    16: ("build hangs", "failed", "build: no result after 8 s"),
    32: ("does not fit", "refused", "build: the tile is too large: needs 100, has 10"),
    64: ("", "ok", ""),
    0: ("last element", "failed", "run: wrong: out0 has 1."),
}


def tuned(tmp_path, faults, most=10, overlap=None, seconds=0.0, build=8):
    """(results, outcomes by the tile of the first axis) of a search with a faulty target."""
    target = FaultyCpu(load_target("cpu").chip, faults=faults)
    with Database(tmp_path / "t.sqlite") as db:
        results = tune_program(cover_of(parse(SOFTMAX), "cpu"), target, RULES, Options(search_configurations=most), db,
                               Limits(seconds=seconds, build=build, run=4, overlap=overlap))  # fmt: skip
        (search,) = db.tuned()
        outcomes = {tile_of(m.schedule): m for m in db.measurements(search.kernel, search.place)}
    return results[0], search, outcomes


def tile_of(text: str) -> int:
    return dict(schedule_of(text).tile).get("i0", 0)


def test_each_fault_costs_its_own_candidate_alone(tmp_path):
    result, search, outcomes = tuned(tmp_path, tuple((tile, fault) for tile, (fault, _, _) in FAULTS.items()))
    assert set(outcomes) == set(FAULTS)
    for tile, (_, status, reason) in FAULTS.items():
        assert outcomes[tile].status == status, outcomes[tile]
        assert outcomes[tile].reason.startswith(reason)
        assert (outcomes[tile].seconds is not None) == (status == "ok")
    assert search.done
    assert [tile_of(k.schedule) for k in search.kept] == [64]
    assert result.tuned_seconds > 0
    assert sum(result.failures.values()) == 6
    assert result.tried == result.fresh == 7  # what is refused was not measured


@pytest.mark.parametrize("fault", ["last element", "build fails"])
def test_where_the_untuned_choice_is_at_fault_another_is_kept(tmp_path, fault):
    calls, cpu = cover_of(parse(SOFTMAX), "cpu"), load_target("cpu")
    untuned = dict(choose_schedule(calls.calls[0].kernel, RULES, cpu.chip, Options(), Trace())[0].tile).get("i0", 0)
    result, search, outcomes = tuned(tmp_path, ((untuned, fault),), most=2)
    assert outcomes[untuned].status == "failed"
    assert tile_of(search.untuned) == untuned
    assert [tile_of(k.schedule) for k in search.kept] == [t for t in outcomes if t != untuned]
    assert result.untuned_seconds == search.untuned_seconds == 0 < result.tuned_seconds


@pytest.mark.parametrize("overlap", [False, True])
def test_refusals_do_not_end_a_search(tmp_path, overlap):
    """All that was begun at once is refused: the configurations that are left are asked for then."""
    calls, cpu = cover_of(parse(SOFTMAX), "cpu"), load_target("cpu")
    untuned = dict(choose_schedule(calls.calls[0].kernel, RULES, cpu.chip, Options(), Trace())[0].tile).get("i0", 0)
    other = next(t for t in (1, 2) if t != untuned)  # prices ask for rows one by one late
    faults = tuple((t, "does not fit") for t in FAULTS if t not in (untuned, other))
    _, search, outcomes = tuned(tmp_path, faults, most=2, overlap=overlap)
    assert {t for t, m in outcomes.items() if m.status == "ok"} == {untuned, other}
    assert any(m.status == "refused" for m in outcomes.values())
    assert search.done


def test_building_the_next_while_measuring_finds_the_same(tmp_path):
    result, search, outcomes = tuned(tmp_path, ((8, "crash"), (4, "build crashes")), overlap=True)
    assert set(outcomes) == set(FAULTS)
    assert {t for t, m in outcomes.items() if m.status == "failed"} == {4, 8}
    assert result.tried == 8
    assert len(search.kept) == 3


def test_where_everything_fails_nothing_is_kept_and_the_reason_is_told(tmp_path):
    result, search, _ = tuned(tmp_path, tuple((tile, "build fails") for tile in FAULTS), most=3)
    assert result.note == "no schedule gave a right result"
    assert search.kept == ()
    assert result.failures == {"build: cc failed with exit code 1: no such register": 3}


@pytest.mark.parametrize("over", [False, True])
def test_a_search_over_schedules_that_the_clock_cut_is_not_recorded_as_done(tmp_path, monkeypatch, over):
    """Though it measured as many as it was to: the schedules that were not made are looked at by the next search."""
    clock(monkeypatch, 2 if over else None)  # the second question: before the space is made
    monkeypatch.setattr("autocomp.egraph.kernel_egraph.LATE", 4)
    result, search, outcomes = tuned(tmp_path, (), most=1, seconds=600.0)
    assert search.done is not over
    assert len(outcomes) == 1
    assert result.tuned_seconds > 0


@pytest.mark.parametrize("overlap", [False, True])
def test_builds_that_have_not_come_back_end_with_the_time(tmp_path, overlap):
    """What was built is raced, and those that were under way are no failures: the next search builds them again."""
    calls, cpu = cover_of(parse(SOFTMAX), "cpu"), load_target("cpu")
    untuned = dict(choose_schedule(calls.calls[0].kernel, RULES, cpu.chip, Options(), Trace())[0].tile).get("i0", 0)
    faults, began = tuple((t, "build hangs") for t in FAULTS if t != untuned), time.monotonic()
    result, search, outcomes = tuned(tmp_path, faults, overlap=overlap, seconds=3.0, build=60)
    assert time.monotonic() - began < 40
    assert [*outcomes] == [untuned] and not search.done and result.tuned_seconds > 0
    assert "the time is over" in result.note and not result.failures
