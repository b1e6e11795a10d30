"""What `optimize` makes of measurements: used where they pay, said in every view, never trusted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp import rewrite
from autocomp.egraph.choose import choose_schedule
from autocomp.errors import AutocompError
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse
from autocomp.options import Options
from autocomp.trace import KINDS, Trace
from autocomp.tune.database import Database, Kept, Tuned
from autocomp.tune.key import kernel_key, place_of, schedule_text
from tests.helpers.command_line import call

pytestmark = pytest.mark.usefixtures("quick_builds")  # how fast what is built runs is made up, or both were built alike
SOFTMAX = "graph g\ninput x: f32[96, 48]\n%0 = softmax(x, axes=[1])\noutput y = %0\n"
FAST = Schedule.make({"i0": 16})


@pytest.fixture
def stored(tmp_path):
    """A function that puts one search into a database: the seconds of the untuned and of the kept schedule."""
    plain = autocomp.optimize(SOFTMAX, cache=False)
    target = load_target("cpu")
    place = place_of(target, rewrite.load_rules(), Options())

    def store(before, after, kept=FAST, at=place, untuned=None, kernel=plain.calls.calls[0].kernel):
        with Database(tmp_path / "t.sqlite") as db:
            text = kept if isinstance(kept, str) else schedule_text(kept)
            key = kernel_key(kernel, Options())
            db.record(Tuned(key, at, kernel.name, "[]", schedule_text(untuned) if untuned else "another", before, 8, 7, True,
                            (Kept(text, after),)))  # fmt: skip
        return str(tmp_path / "t.sqlite")

    store.place = place
    return store


def shown(program):
    return program.kernels[0].schedule


def said(program):
    return [e.data["text"] for e in program.trace.of("tuned")]


def test_a_measured_schedule_is_used_and_every_view_says_so(stored, tmp_path):
    path = stored(3e-5, 1e-5)
    program = autocomp.optimize(SOFTMAX, tuning_database=path)
    assert shown(program) == "tile i0 16"
    text = "measured 10.00 us, the fastest of 7 schedules; the untuned choice took 30.00 us"
    assert said(program) == ["the measured schedules make the program 3.00 times faster", text]
    assert f" * tuned: {text}" in program.source()
    assert f"  tuned      {text}" in program.explain(why=program.kernels[0].name)
    assert "the measured schedules make the program 3.00 times faster" in program.explain()
    assert "the measured schedules make the program 3.00 times faster" in program.report(tmp_path / "r.html").read_text()
    (tmp_path / "g.txt").write_text(SOFTMAX)
    printed = call("optimize", str(tmp_path / "g.txt"), "--set", f"tuning_database={path}")[1]
    assert "the measured schedules make the program 3.00 times faster" in printed
    assert program.verify().ratio <= 1


def test_where_the_model_chose_the_fastest_it_is_said_too(stored):
    plain = autocomp.optimize(SOFTMAX)
    path = stored(1e-5, 1e-5, kept=choose_schedule(plain.calls.calls[0].kernel, rewrite.load_rules(), plain.target.chip, Options(), Trace(),
                                                   plain.target.admit)[0])  # fmt: skip
    program = autocomp.optimize(SOFTMAX, tuning_database=path)
    assert said(program) == ["measured: the untuned schedules of 1 of 1 kernels are the fastest that are known"]
    assert shown(program) == shown(plain)


def test_without_measurements_or_when_told_so_the_model_chooses(stored):
    path = stored(3e-5, 1e-5)
    plain = autocomp.optimize(SOFTMAX)
    assert shown(plain) != "tile i0 16"
    assert said(plain) == []
    off = autocomp.optimize(SOFTMAX, tuning_database=path, tuned=False)
    assert shown(off) == shown(plain)
    assert off.source() == plain.source()


def test_below_min_speedup_the_program_is_rolled_back_and_says_so(stored):
    path = stored(1.1e-5, 1e-5)
    program = autocomp.optimize(SOFTMAX, tuning_database=path)
    assert shown(program) != "tile i0 16"
    assert said(program) == [
        "the measured schedules make the program 1.10 times faster, below min_speedup 1.2: rolled back to the untuned ones"
    ]
    assert "rolled back to the untuned ones" in program.explain()
    assert "tuned:" not in program.source()
    assert shown(autocomp.optimize(SOFTMAX, tuning_database=path, min_speedup=1.05)) == "tile i0 16"
    assert shown(autocomp.optimize(SOFTMAX, tuning_database=stored(3.0, 1.5), min_speedup=2.0)) == "tile i0 16"


def test_a_stored_schedule_that_regroups_a_sum_is_not_used_where_that_is_not_allowed(stored):
    exact = Options(exact=True)
    place = place_of(load_target("cpu"), rewrite.load_rules(options=exact), exact)
    split = Schedule.make({"i0": 16}, split=("r0", 2))
    kernel = autocomp.optimize(SOFTMAX, exact=True).calls.calls[0].kernel
    program = autocomp.optimize(SOFTMAX, tuning_database=stored(3e-5, 1e-5, split, at=place, kernel=kernel), exact=True)
    (text,) = said(program)
    assert text.startswith("the stored schedule is not used: illegal: ")
    assert "must run before" in text
    assert shown(program) == shown(autocomp.optimize(SOFTMAX, exact=True))


def test_an_untuned_choice_that_gave_no_right_result_is_never_used(stored):
    plain = autocomp.optimize(SOFTMAX)
    untuned = parse(shown(plain))
    program = autocomp.optimize(SOFTMAX, tuning_database=stored(0.0, 1e-5, untuned=untuned))
    assert shown(program) == "tile i0 16"
    assert "the untuned choice gave no right result" in program.source()


def test_an_untuned_choice_of_another_day_is_not_held_against_this_one(stored):
    """What failed was another schedule than the model chooses now, of which nothing is known: nothing is gained for certain."""
    program = autocomp.optimize(SOFTMAX, tuning_database=stored(0.0, 1e-5))
    assert shown(program) == shown(autocomp.optimize(SOFTMAX))
    assert "rolled back" in said(program)[0]


def test_every_call_of_a_kernel_counts_in_the_programs_gain(stored):
    twice = ("graph g\ninput x: f32[96, 48]\ninput u: f32[96, 48]\ninput a: f32[64, 64]\n"
             "%0 = softmax(x, axes=[1])\n%1 = softmax(u, axes=[1])\n%2 = matmul(a, a)\n"
             "output y = %0\noutput v = %1\noutput z = %2\n")  # fmt: skip
    path = stored(3e-5, 1e-5)
    program = autocomp.optimize(twice, tuning_database=path, min_speedup=0.01)
    rest = sum(k.predicted for k in program.kernels if k.calls == 1)
    assert sorted(k.calls for k in program.kernels) == [1, 2]
    assert f"{(2 * 3e-5 + rest) / (2 * 1e-5 + rest):.2f} times faster" in said(program)[0]


def test_a_cached_program_does_not_outlive_new_measurements(stored):
    path = stored(3e-5, 1e-5)
    first = autocomp.optimize(SOFTMAX, tuning_database=path)
    stored(3e-5, 0.5e-5, Schedule.make({"i0": 8}))
    second = autocomp.optimize(SOFTMAX, tuning_database=path)
    assert (shown(first), shown(second)) == ("tile i0 16", "tile i0 8")


@pytest.mark.parametrize("kept, why", [
    (Schedule.make({"i7": 4}), "i7 is no axis of"),
    ('{"tile": "all"}', "is no schedule"),
    ('{"tile": [["i0", -4]]}', "is no schedule"),
])  # fmt: skip
def test_a_stored_schedule_that_cannot_be_used_is_said(stored, kept, why):
    program = autocomp.optimize(SOFTMAX, tuning_database=stored(3e-5, 1e-5, kept))
    assert shown(program) == shown(autocomp.optimize(SOFTMAX))
    assert [t for t in said(program) if "the stored schedule is not used" in t and why in t]
    assert program.verify().ratio <= 1


@pytest.mark.parametrize("field", ["chip", "rules", "version"])
def test_measurements_of_another_chip_rules_or_version_do_not_count(stored, field):
    path = stored(3e-5, 1e-5, at=replace(stored.place, **{field: "another"}))
    program = autocomp.optimize(SOFTMAX, tuning_database=path)
    assert said(program) == []
    told = "tuning database: not used: it has 1 kernels of this chip, all for other scheduling rules or another version"
    assert (told in program.explain()) == (field != "chip")


def test_other_scheduling_rules_are_another_place(tmp_path):
    cpu = load_target("cpu")
    here = place_of(cpu, rewrite.load_rules(), Options())
    fewer = place_of(cpu, rewrite.load_rules(without=["tiling/rows"]), Options())
    same = place_of(cpu, rewrite.load_rules(without=["algebra/*", "tiling/gpu-rows"]), Options())
    assert here.rules == same.rules != fewer.rules
    assert place_of(cpu, rewrite.load_rules(), Options(threads=1)).chip != here.chip
    assert place_of(load_target("cuda"), rewrite.load_rules(), Options()).chip != here.chip


def test_a_database_that_cannot_be_read_costs_a_note(tmp_path):
    path = tmp_path / "t.sqlite"
    path.write_bytes(b"no database" * 100)
    program = autocomp.optimize(SOFTMAX, tuning_database=str(path))
    (note,) = [e.data["text"] for e in program.trace.of("note") if e.name == "tuning database"]
    assert note == f"not used: the tuning database cannot be read: file is not a database ({path})"
    assert path.read_bytes() == b"no database" * 100


def test_the_best_by_price_are_raced_first(tmp_path, monkeypatch):
    """The race is kept: the next compilation measures nothing, and other commands use what it found."""
    monkeypatch.setattr("autocomp.tune.first.BEGUN", 120.0)  # a machine with other work still races both
    path = str(tmp_path / "t.sqlite")
    program = autocomp.optimize(SOFTMAX, measure=2, tuning_database=path)
    (raced,) = (e.data for e in program.trace.of("measured"))
    assert raced["fresh"] == raced["tried"] == 2 and 0 < raced["best_s"] <= raced["untuned_s"], raced
    assert said(program) and program.verify().ratio <= 1
    assert {e.kind for e in program.trace.events} <= set(KINDS)
    again = autocomp.optimize(SOFTMAX, measure=2, tuning_database=path, cache=False)
    assert [e.data["fresh"] for e in again.trace.of("measured")] == [0]
    assert shown(again) == shown(program)


def test_without_a_device_nothing_is_measured_and_nothing_changes(tmp_path):
    options = {"target": "ascend", "tuning_database": str(tmp_path / "t.sqlite")}
    program = autocomp.optimize(SOFTMAX, measure=8, **options)
    assert any("nothing is measured: target ascend cannot run here" in e.data["text"] for e in program.trace.of("note"))
    assert shown(program) == shown(autocomp.optimize(SOFTMAX, **options))
    with pytest.raises(AutocompError, match="measure is -1"):
        Options(measure=-1)
