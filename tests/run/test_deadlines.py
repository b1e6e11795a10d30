"""Wherever the deadline falls, a compilation ends in a right program that says what was left undone, and nothing of it is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp import deadline
from autocomp.budget import LATE
from autocomp.deadline import Deadline, by_counts, current, running, sized, started
from autocomp.egraph.choose import choose_schedule
from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.options import Options
from autocomp.pipeline import extract, import_model
from autocomp.rewrite import load_rules
from autocomp.runtime import cache
from autocomp.runtime.build import build_objects
from autocomp.trace import Trace
from benchmarks.fuzz import explosions
from tests.helpers.clocks import FAR, calls, clock, over_in
from tests.helpers.command_line import call
from tests.helpers.repeats import repeating

LAYERS = "\n".join(["graph g", "input x: f32[8, 32]", "param w: f32[32, 32] = random(1)", *(
    f"%m{k} = matmul({f'%a{k - 1}' if k else 'x'}, w)\n%r{k} = relu(%m{k})\n%a{k} = add(%r{k}, x)" for k in range(6)),
    "%s = softmax(%a5, axes=[1])", "%t = reduce_sum(%r2, axes=[0])", "%u = pow(%s, const(2.0, f32))",
    "output y = %u", "output z = %t"]) + "\n"  # fmt: skip
TARGETS = ["cpu", "cuda:h200", "maca:c500", "ascend:910b"]
NOTED = {"rules": "saturate", "import": "saturate", "saturate": "saturate", "cover": "cover", "schedule": "schedule"}


@pytest.fixture(scope="module")
def whole():
    return {t: autocomp.optimize(LAYERS, target=t, cache=False) for t in TARGETS}


@pytest.mark.parametrize(("stage", "target"), repeating(product(NOTED, TARGETS), {
    (s, "maca:c500"): "cuda:h200" for s in NOTED if s != "schedule"}))  # fmt: skip
def test_a_stage_in_which_the_time_is_over_leaves_a_program(monkeypatch, whole, stage, target):
    """The trace and the explanation say what was left undone; the program is right."""
    program = autocomp.optimize(LAYERS, target=target, cache=False, deadline=60, trace=over_in(monkeypatch, stage))
    (note,) = [e for e in program.trace.of("budget") if e.name == NOTED[stage] and "undone" in e.data]
    assert f"the deadline of {note.data['deadline_s']:g} s ended {NOTED[stage]}, which left out {note.data['undone']}" in program.explain()
    assert len(program.calls.calls) >= len(whole[target].calls.calls)
    if target == "cpu":
        program.verify()


@pytest.mark.parametrize("jump", [1, 2, 4, 8, 16, 32, 64, 128, 256])
def test_the_time_may_be_over_at_any_question(monkeypatch, jump):
    clock(monkeypatch, jump)
    program = autocomp.optimize(LAYERS, cache=False, deadline=5)
    monkeypatch.undo()
    program.verify()


@pytest.mark.parametrize(("stage", "target"), [("cover", "cuda:h200"), ("schedule", "cuda:h200"), ("schedule", "cpu")])
def test_after_the_deadline_schedules_are_few(monkeypatch, stage, target):
    """Where there are a thousand to price and to print otherwise."""
    text = "graph m\ninput a: f16[512, 512]\ninput b: f16[512, 512]\n%0 = matmul(a, b)\n%1 = relu(%0)\noutput y = %1\n"
    many = max(e.data["candidates"] for e in autocomp.optimize(text, target=target, cache=False).trace.of("schedule"))
    few = autocomp.optimize(text, target=target, cache=False, trace=over_in(monkeypatch, stage)).trace
    assert many > 5 * LATE
    assert "compile" not in {e.name for e in few.of("budget")}
    assert max(e.data["candidates"] for e in few.of("schedule")) <= LATE


def test_after_the_deadline_few_schedules_are_priced_and_printed(monkeypatch):
    """Though thousands were made before it, and the target prints none of the first."""
    text = "graph m\ninput a: f16[512, 512]\ninput b: f16[512, 512]\n%0 = matmul(a, b)\noutput y = %0\n"
    now, priced = clock(monkeypatch), calls(monkeypatch, "autocomp.egraph.choose._priced")
    refused = []

    def admit(kernel, schedule):
        refused.append(schedule)
        if len(refused) == 3:
            now.now = FAR
        raise UnsupportedOp("none is printed")

    target = load_target("cuda:h200", Options())
    graph = import_model(text, Trace())
    (call,) = extract(graph, target, load_rules(), Options(cache=False), Trace())[0].calls
    with running(Deadline(5.0)) as mine, pytest.raises(UnsupportedOp, match="none is printed"):
        choose_schedule(call.kernel, load_rules(), target.chip, Options(), Trace(), admit)
    assert "schedule" in mine.cut
    assert len(refused) <= LATE + 1
    assert priced() <= LATE


def test_what_a_deadline_cut_is_not_kept_and_what_it_did_not_cut_is_found_under_any(monkeypatch):
    kept: list[str] = []
    monkeypatch.setattr("autocomp.pipeline.store_program", lambda key, program: kept.append(key))
    monkeypatch.setattr("autocomp.egraph.kernel_memo.ScheduleMemo.put", lambda *a: kept.append("schedule"))
    autocomp.optimize(LAYERS, deadline=1e-9)
    assert kept == []
    autocomp.optimize(LAYERS, deadline=1e6)
    assert "schedule" in kept
    (with_end,) = set(kept) - {"schedule"}
    autocomp.optimize(LAYERS, deadline=0)
    assert set(kept) == {"schedule", with_end}, "the same program has the same key under any deadline"


def test_a_whole_program_from_the_cache_serves_a_deadline_that_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr("autocomp.pipeline.load_program", cache.load_program)  # which tests do without
    monkeypatch.setattr("autocomp.pipeline.store_program", cache.store_program)
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path))
    first = autocomp.optimize(LAYERS)
    again = autocomp.optimize(LAYERS, deadline=1e-9)
    assert [k.name for k in again.kernels] == [k.name for k in first.kernels]
    assert "deadline" not in again.explain()


def test_where_the_cheap_form_cannot_be_printed_counts_alone_end_it():
    """Rules bring this into a form that Ascend's vector and cube units read; its scalar unit would read it as it is."""
    text = explosions.draw(65).graph()
    scalar = [f"tiling/npu-scalar-{f}" for f in ("map", "reduce", "contract", "chain", "online")]
    vector = dict(target="ascend:910b", cache=False, without=scalar)
    program = autocomp.optimize(text, deadline=1e-9, **vector)
    (said,) = [e.data["undone"] for e in program.trace.of("budget") if e.name == "compile"]
    assert "a kernel of a single number), so all was done again, ended by counts" in said
    assert len(program.kernels) == len(autocomp.optimize(text, **vector).kernels)


@pytest.mark.parametrize("seed", (0, 1, 4, 8, 10, 11))
def test_what_may_explode_is_right_under_a_deadline_that_is_over(seed, monkeypatch):
    """Some families of such graphs, with rules of their own where they have some."""
    monkeypatch.setattr("autocomp.deadline.SECONDS", 1e-9)
    verdict = explosions.check(replace(explosions.draw(seed), target="cpu"))
    assert verdict.kind == "right", verdict.detail


def test_one_clock_for_all_that_runs_in_a_block():
    with started(Options(deadline=5.0)) as outer:
        trace = Trace()
        with started(Options(deadline=7.0), trace) as inner:
            assert inner is outer
            assert outer.trace is trace
        with by_counts():
            assert current().left == float("inf")
        assert current() is outer
    assert current().left == float("inf")


def test_seconds_that_are_given_are_meant_and_grow_with_the_graph_where_none_are(monkeypatch):
    now = clock(monkeypatch)
    with started(Options(deadline=10.0)) as mine:
        sized(mine, Options(deadline=10.0), 3000)
        assert mine.seconds == 10.0
    with started(Options()) as mine:
        now.now = 100.0
        assert mine.over
        sized(mine, Options(), 3000)
        assert (mine.seconds, mine.left) == (240.0, 240.0), "reading a model is not counted"
    with started(Options(deadline=0)) as mine:
        assert not mine.passed("cover", "all of it")
    with pytest.raises(AutocompError, match=r"deadline is -1.0, no less than 0"):
        Options(deadline=-1.0)
    with pytest.raises(AutocompError, match="deadline wants float, got 'soon'"):
        Options(deadline="soon")


def test_what_a_command_of_others_may_take(monkeypatch):
    now = clock(monkeypatch)
    mine = Deadline(60.0)
    assert mine.within(900.0) == 60.0
    assert mine.within(30.0) == 30.0
    now.now = 55.0
    assert mine.within(900.0) == deadline.COMPILER
    now.now = FAR
    assert mine.within(900.0) == deadline.COMPILER
    assert Deadline().within(900.0) == 900.0


def test_commands_whose_work_can_be_done_later_end_together(monkeypatch):
    now = clock(monkeypatch)
    mine = Deadline(60.0)
    with mine.postponing():
        assert mine.within(900.0) == 60.0 + deadline.GRACE
        assert mine.within(30.0) == 30.0
        now.now = 60.75
        assert mine.within(900.0) == deadline.GRACE - 0.75
        now.now = FAR
        assert mine.within(900.0) == 0.0
    with mine.postponing():
        assert mine.within(900.0) == deadline.GRACE, "it was over before"
    assert mine.within(900.0) == deadline.COMPILER
    with Deadline().postponing():
        assert current().within(900.0) == 900.0


def test_verification_stops_at_one_size(monkeypatch):
    text = "graph g\ndim b in 1..64\ninput x: f32[b, 8]\n%0 = exp(x)\noutput y = %0\n"
    program = autocomp.optimize(text, cache=False)
    runs = calls(monkeypatch, "autocomp.runtime.verify._verify_on")
    clock(monkeypatch)
    with running(Deadline(5.0, program.trace)):
        program.verify()
        sizes = runs()
        deadline.clock.now = FAR
        program.verify()
    assert sizes > 1
    assert runs() == sizes + 1
    assert f"ended verify, which left out {sizes - 1} of {sizes} sizes" in program.explain()


@pytest.mark.parametrize("command", ["optimize", "run", "explain"])
def test_the_command_line_has_a_deadline(command, tmp_path):
    (tmp_path / "m.txt").write_text(LAYERS)
    code, text, said = call(command, str(tmp_path / "m.txt"), "--deadline", "1e-9", "--set", "cache=false")
    assert code == 0, said
    assert "the deadline of 1e-09 s ended cover, which left out bodies of several operations" in " ".join(text.split())
    if command != "explain":
        code, text, said = call(command, str(tmp_path / "m.txt"), "--deadline", "1e-9", "--set", "cache=false", "--json")
        assert json.loads(text)["deadline"]["cover"] == "bodies of several operations"
    code, text, said = call(command, str(tmp_path / "m.txt"), "--set", "deadline=5")
    assert code == 2
    assert "deadline has a flag of its own: --deadline 5" in " ".join(said.split())


def test_the_report_says_it(tmp_path):
    page = autocomp.optimize(LAYERS, cache=False, deadline=1e-9).report(tmp_path / "r.html").read_text()
    assert "the deadline of 1e-09 s ended cover, which left out bodies of several operations" in page


def test_compilers_that_run_side_by_side_have_the_clock(monkeypatch):
    seen = []

    class Slow:
        def key(self):
            return "slow"

        def compile_object(self, name, text):
            seen.append(current().within(900.0))
            return b"x"

    monkeypatch.setattr("autocomp.runtime.build.read_entry", lambda *a: None)
    monkeypatch.setattr("autocomp.runtime.build.write_entry", lambda *a: True)
    clock(monkeypatch)
    with running(Deadline(60.0)):
        build_objects({"a": "1", "b": "2", "c": "3"}, Slow(), Trace())
    assert seen == [60.0] * 3
