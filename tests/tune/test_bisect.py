"""`autocomp bisect`: the smallest set of rules that matters, and kernels whose code is at fault."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace

import pytest

import autocomp
from autocomp.options import Options
from autocomp.runtime.codec import encode
from autocomp.tune.bisect import Bisection, Request, Trial, check_kernel
from autocomp.tune.minimal import all_smallest, smallest
from autocomp.tune.race import SAME, race_of
from benchmarks.onnx_coverage import quick_compiler

NAMES = tuple(f"r{i}" for i in range(23))


@pytest.fixture(autouse=True)
def quick_builds_in_children(monkeypatch):
    """Programs of trials are built with few optimisations: what they compute is asked for, and no time of theirs decides."""
    monkeypatch.setenv("CC", quick_compiler())


@pytest.mark.parametrize("culprits", [{"r0"}, {"r11"}, {"r22"}, {"r3", "r4"}, {"r1", "r12", "r21"}])
def test_halves_find_the_culprits(culprits):
    tried = []

    def good(off):
        tried.append(off)
        return culprits <= set(off)

    assert set(smallest(NAMES, good)) == culprits
    if len(culprits) == 1:
        assert len(tried) <= 12  # about two a halving


def test_a_part_is_found_where_everything_off_is_no_help():
    """Without r5 the program is fast, but only as long as r20 is on."""
    assert smallest(NAMES, lambda off: "r5" in off and "r20" not in off) == ("r5",)


def test_nothing_is_found_where_no_rule_matters():
    assert smallest(NAMES, lambda off: False) == ()


def test_a_wrong_rule_is_found(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "- name: mine/mul-is-add\n  phase: algebra\n  lhs: mul(?a, ?b)\n  rhs: add(?a, ?b)\n  assumed: true\n  why: it is not\n"
    )
    (tmp_path / "g.txt").write_text("graph g\ninput a: f32[9]\ninput b: f32[9]\n%0 = mul(a, b)\n%1 = exp(%0)\noutput y = %1\n")
    command = [sys.executable, "-m", "autocomp.cli", "bisect", str(tmp_path / "g.txt"), "--rules", str(tmp_path / "mine.yaml"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["culprits"] == ["mine/mul-is-add"]
    assert found["kernels"] == []
    assert found["text"].startswith("without rule mine/mul-is-add (assumed) the program is right; with it: output 'y'")


def bisection(outcome):
    """A bisection whose trials are made up: `outcome(rules that are off)`."""
    search = Bisection(Request("g.txt", "cpu", Options()))
    search._trial = lambda off: outcome(set(off))
    search._fired = lambda off: NAMES
    search._kernels = lambda: ()
    search._standing = lambda rules: {"r0": "proved", "r1": "assumed", "r2": "tested", "r3": "assumed"}
    search._unsteady = lambda off: False
    return search


def timed(seconds, noise=0.0, seed=0):
    """A bisection of programs that take `seconds(rules that are off)`, give or take some noise."""
    search, rng = bisection(lambda off: Trial("", seconds(off))), random.Random(seed)
    shaken = lambda t: t * (1 + noise * rng.random())

    def race(off, pairs):
        if seconds(set(off)) == seconds(set()) and not noise:
            return SAME
        return race_of([(shaken(seconds(set())), shaken(seconds(set(off)))) for _ in range(pairs)])

    search._race = lambda off, pairs: search.raced.setdefault((frozenset(off), pairs), race(off, pairs))
    return search


def test_what_makes_a_program_slow_is_found_with_its_slowest_kernel():
    kernels = (("matmul", 1, 2e-3, 1e-3), ("softmax", 4, 3e-3, 1e-3))
    search = timed(lambda off: 1.0 if "r7" in off else 1.5)
    search._trial = lambda off: Trial("", 1.5, kernels)
    found = search.slow(1.2)
    assert found.culprits == ("r7",)
    assert found.text == "without rule r7 the program is 1.50 (1.50 to 1.50) times faster (1 s instead of 1.5 s)"
    assert found.kernels == (("softmax", "takes 3.0 times its predicted time"),)
    assert timed(lambda off: 1.0).slow(1.2).text == "no rule makes the program 1.2 times slower (1 s)"


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_blamed_on_no_rule(seed):
    """Timings that vary by two thirds, and no rule that matters."""
    found = timed(lambda off: 1.0, noise=0.67, seed=seed).slow(1.2)
    assert found.culprits == ()
    assert found.text.startswith(("no rule makes the program 1.2 times slower", "cannot tell: without"))


def test_what_noise_may_be_is_not_told():
    """A gain of a fifth behind noise of the double."""
    texts = [timed(lambda off: 1.0 if "r7" in off else 1.2, noise=2.0, seed=s).slow(1.2).text for s in range(4)]
    assert all(t.startswith(("cannot tell: without", "no rule", "without rule r7")) for t in texts)
    assert any(t.startswith("cannot tell") and t.endswith("which noise may be") for t in texts)


def test_a_slow_rule_is_found_behind_noise():
    found = [timed(lambda off: 1.0 if "r7" in off else 2.0, noise=0.3, seed=s).slow(1.2).culprits for s in range(4)]
    assert set(found) == {("r7",)}


def test_the_interval_of_a_race_needs_enough_pairs():
    assert race_of([(2.0, 1.0)] * 4).faster(1.2) is None
    assert race_of([(2.0, 1.0)] * 11).faster(1.2) is True
    assert race_of([(1.0, 1.0)] * 11).faster(1.2) is False
    one_bad = race_of([(2.0, 1.0)] * 10 + [(1.0, 9.0)])
    assert (one_bad.low, one_bad.faster(1.2)) == (2.0, True)


@pytest.mark.parametrize(("right", "sets"), [
    (lambda off: "r1" in off or "r0" in off, (("r1",), ("r0",))),                       # a proved one enables an assumed one
    (lambda off: {"r1", "r3"} <= off, (("r1", "r3"),)),                                 # two at once
    (lambda off: "r1" in off or "r3" in off, (("r1",), ("r3",))),                       # either of two
    (lambda off: "r0" in off or {"r1", "r9"} <= off, (("r1", "r9"), ("r0",))),          # the proved one stands last
    (lambda off: "r2" in off or "r9" in off or "r0" in off, (("r2",), ("r9",), ("r0",))),
])  # fmt: skip
def test_every_minimal_set_is_listed_and_the_least_checked_first(right, sets):
    found = bisection(lambda off: Trial("" if right(off) else "wrong")).wrong()
    assert found.sets == sets
    assert found.culprits == sets[0]
    assert not found.more
    assert found.text.startswith(f"without rule{'s' if len(sets[0]) > 1 else ''} {', '.join(sets[0])} ")
    assert all(name in found.text for s in sets for name in s)


def test_the_search_for_sets_has_a_bound_and_says_so():
    found = bisection(lambda off: Trial("" if off else "wrong")).wrong()
    assert len(found.sets) == 6
    assert found.more
    assert found.text.endswith("there may be more sets: the search ended at its bound")
    assert all_smallest(NAMES, lambda off: bool(off), 2).more


@pytest.mark.parametrize("hidden", [("r9",), ("r9", "r4")])
def test_a_wrong_rule_that_fires_only_without_another_is_found(hidden):
    """r1 is wrong and takes the place of others that are wrong too, each of the next."""
    order = ("r1", *hidden)
    search = bisection(lambda off: Trial("" if set(order) <= off else "wrong"))
    fires = lambda off: next((n for n in order if n not in off), None)
    search._fired = lambda off: tuple(n for n in NAMES if n not in off and (n not in order or n == fires(off)))
    found = search.wrong()
    assert set(found.culprits) == set(order)
    assert found.sets == (found.culprits,)


def test_rules_that_fire_without_others_are_looked_for_as_long_as_there_are_new_ones():
    search = bisection(lambda off: Trial("wrong"))
    search._fired = lambda off: tuple(n for n in NAMES if n not in off)[:2]
    found = search.wrong()
    assert found.text == "the program is wrong whichever of its 23 rules are off: wrong"
    assert found.trials <= 80


def test_a_program_that_is_right_by_turns_blames_no_rule():
    search = bisection(lambda off: Trial("" if "r5" in off else "wrong"))
    search._unsteady = lambda off: True
    found = search.wrong()
    assert found.text == "cannot tell: the same program is right in one run and wrong in another"
    assert found.culprits == found.sets == ()


PLANTED = """
- name: mine/twice
  phase: algebra
  lhs: add(exp(?x), exp(?x))
  rhs: mul(exp(?x), 2)
  why: right, and it makes what the next one matches
  examples: [{x: "f32[9]"}]
- name: mine/no-exponential
  phase: algebra
  assumed: true
  lhs: mul(exp(?x), 2)
  rhs: relu(?x)
  why: wrong
"""


def test_a_right_rule_that_enables_a_wrong_one_is_not_blamed_first(tmp_path):
    (tmp_path / "mine.yaml").write_text(PLANTED)
    (tmp_path / "g.txt").write_text("graph g\ninput a: f32[9]\n%0 = exp(a)\n%1 = add(%0, %0)\noutput y = %1\n")
    found = Bisection(Request(str(tmp_path / "g.txt"), "cpu", Options(rules=(str(tmp_path / "mine.yaml"),)))).wrong()
    assert found.culprits == ("mine/no-exponential",)
    assert ("mine/twice",) in found.sets
    assert found.standing["mine/no-exponential"] == "assumed"
    assert "mine/no-exponential (assumed) the program is right" in found.text


WRONG = "- name: mine/{}\n  phase: algebra\n  assumed: true\n  lhs: {}\n  rhs: {}\n  why: wrong\n"


@pytest.mark.parametrize(("wrong", "sets"), [
    ((("tanh-is-abs", "tanh(?a)", "abs(?a)"),), (("mine/no-exponential", "mine/tanh-is-abs"), ("mine/tanh-is-abs", "mine/twice"))),
    ((("exp-is-abs", "exp(?a)", "abs(?a)"), ("exp-is-square", "exp(?a)", "mul(?a, ?a)")), None),
])  # fmt: skip
def test_two_wrong_rules_at_once(tmp_path, wrong, sets):
    """Beside a wrong one that a proved one enables: at another place of the graph, and two at the very same place."""
    (tmp_path / "mine.yaml").write_text(PLANTED + "".join(WRONG.format(*w) for w in wrong))
    (tmp_path / "g.txt").write_text("graph g\ninput a: f32[9]\n%0 = exp(a)\n%1 = add(%0, %0)\n%2 = tanh(%1)\noutput y = %2\n")
    found = Bisection(Request(str(tmp_path / "g.txt"), "cpu", Options(rules=(str(tmp_path / "mine.yaml"),)))).wrong()
    assert found.standing["mine/twice"] == "proved"
    if sets:
        assert found.sets == sets
    else:
        assert {frozenset(s) for s in found.sets} == {
            frozenset({"mine/exp-is-abs", "mine/exp-is-square", "mine/no-exponential"}),
            frozenset({"mine/exp-is-abs", "mine/exp-is-square", "mine/twice"}),
        }
        assert "mine/twice" not in found.culprits
    assert not found.more
    assert found.kernels == ()


def test_a_right_program_needs_one_trial():
    found = bisection(lambda off: Trial("")).wrong()
    assert (found.text, found.trials) == ("the program is right: there is nothing to find", 1)


def test_rules_are_left_out_beside_those_of_the_user():
    request = Request("g.txt", "cpu", Options(without=("fusion/*",))).without(("algebra/x", "measured schedules"))
    assert request.options.without == ("fusion/*", "algebra/x")
    assert request.options.tuned is False


def test_a_kernel_whose_code_is_not_its_body_is_found():
    program = autocomp.optimize("graph g\ninput a: f32[9, 40]\n%0 = softmax(a, axes=[1])\noutput y = %0\n", cache=False)
    kernel = program.calls.calls[0].kernel
    source = program.printed[kernel.name]
    assert check_kernel(program.target, encode(kernel), source) == ""
    spoiled = replace(source, text=source.text.rstrip().removesuffix("}") + "  out0[7] += 1;\n}\n")
    assert check_kernel(program.target, encode(kernel), spoiled).startswith("wrong: out0 has 1.")
