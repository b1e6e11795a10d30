"""`autocomp bisect`: the smallest set of rules that matters, and kernels whose code is at fault."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

import autocomp
from autocomp.options import Options
from autocomp.runtime.codec import encode
from autocomp.tune.bisect import Bisection, Request, Trial, check_kernel, smallest

NAMES = tuple(f"r{i}" for i in range(23))


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
    assert found["text"].startswith("without rule mine/mul-is-add the program is right; with it: output 'y'")


def bisection(outcome):
    """A bisection whose trials are made up: `outcome(rules that are off)`."""
    search = Bisection(Request("g.txt", "cpu", Options()))
    search._trial = lambda off: outcome(set(off))
    search._fired = lambda: NAMES
    return search


def test_what_makes_a_program_slow_is_found_with_its_slowest_kernel():
    kernels = (("matmul", 1, 2e-3, 1e-3), ("softmax", 4, 3e-3, 1e-3))
    found = bisection(lambda off: Trial("", 1.0 if "r7" in off else 1.5, kernels)).slow(1.2)
    assert found.culprits == ("r7",)
    assert found.text == "without rule r7 the program is 1.50 times faster (1 s instead of 1.5 s)"
    assert found.kernels == (("softmax", "takes 3.0 times its predicted time"),)
    assert bisection(lambda off: Trial("", 1.0)).slow(1.2).text == "no rule makes the program 1.2 times slower (1 s)"


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
