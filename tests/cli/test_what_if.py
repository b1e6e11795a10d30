"""`explain --what-if`, `--why-not` and what a difference between two programs says."""

from __future__ import annotations

import json
import re

import pytest

import autocomp
from autocomp.cost.changed import changed, figures
from autocomp.cost.chip import load_chip
from autocomp.errors import ChipError
from autocomp.report.difference import difference, ratio_text
from autocomp.report.matching import Beside, matched
from autocomp.report.tables import seconds_text
from autocomp.report.why_not import together
from autocomp.rewrite.plain import in_words
from autocomp.runtime.rounds import Rounds
from tests.cli.test_cli import run

PRODUCT = """graph g
input x: f16[2048, 2048]
input w: f16[2048, 2048]
%0 = matmul(x, w)
%1 = gelu(%0)
output y = %1
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("what_if") / "m.txt"
    path.write_text(PRODUCT)
    return str(path)


def test_a_changed_chip_is_chosen_for_again_and_the_kernels_that_change_are_shown(model):
    ask = ("explain", model, "--target", "cuda:h200", "--what-if")
    text, _ = run(*ask, "memories.shared.capacity=65536")
    head, predicted, *kernels = text.splitlines()
    assert head == "what if memories.shared.capacity is 65536 instead of 232448 (h200)?"
    assert re.fullmatch(r"predicted [\d.]+ us instead of [\d.]+ us: \d\.\d\d times slower", predicted)
    assert re.fullmatch(r"  matmul_gelu: tile .* instead of tile .*; [\d.]+ us -> [\d.]+ us, bound by [\w ]+", kernels[0])


def test_a_change_that_changes_nothing_is_said(model):
    data = json.loads(run("explain", model, "--target", "cuda:h200", "--what-if", "memories.dram.capacity=300e9", "--json")[0])
    assert data["predicted"][0] == data["predicted"][1] and not any(k["changed"] for k in data["kernels"])


@pytest.mark.parametrize(("asked", "told"), [
    ("memories.dram.bandwith=8e12", "chip h200 has no figure 'memories.dram.bandwith'\n  next: nearest: memories.dram.bandwidth"),
    ("bandwidth=8e12", "chip h200 has no figure 'bandwidth'\n  next: nearest: memories.l2.bandwidth, memories.dram.bandwidth"),
    ("zzz=1", "chip h200 has no figure 'zzz'\n  next: figures: clock, cores, "),
    ("cores=many", "cores cannot be 'many'\n  next: it is 132 now; give a number above 0"),
    ("cores=1.5", "cores cannot be '1.5'\n  next: it is 132 now, a whole number"),
    ("memories.dram.bandwidth=0", "memories.dram.bandwidth cannot be '0'"),
    ("memories.dram.bandwidth=nan", "memories.dram.bandwidth cannot be 'nan'"),
    ("memories.dram.bandwidth", "'memories.dram.bandwidth' changes no figure\n  next: write NAME=NUMBER"),
])  # fmt: skip
def test_what_is_no_figure_of_the_chip(model, asked, told):
    assert told in run("explain", model, "--target", "cuda:h200", "--what-if", asked, code=1)[1]


def test_one_question_at_a_time(model):
    assert "one question at a time" in run("explain", model, "--why", "matmul", "--what-if", "cores=2", code=2)[1]


@pytest.mark.parametrize("name", ["h200", "ascend910b", "c500", "cpu"])
def test_every_figure_of_a_chip_can_be_changed_and_nothing_else_changes_with_it(name):
    chip = load_chip(name)
    known = figures(chip)
    assert {"cores", "clock", "memories.dram.bandwidth", "matrix.f16", "registers.count"} <= known.keys() | {"matrix.f16"}
    for figure, value in known.items():
        new, (told,) = changed(chip, [f"{figure}={value * 2 + 2:g}" if isinstance(value, float) else f"{figure}={value * 2 + 2}"])
        after = figures(new)
        assert [k for k in known if after[k] != known[k]] == [figure], told
    with pytest.raises(ChipError, match="has no figure 'name'"):
        changed(chip, ["name=3"])


def test_kernels_stand_beside_what_they_replaced():
    assert matched([{1, 2, 3}], [{1}, {2}, {3}]) == [Beside((0,), (0, 1, 2))]
    assert matched([{1}, {2}], [{2}, {1}, {7}]) == [Beside((0,), (1,)), Beside((1,), (0,)), Beside((), (2,))]
    assert matched([{1, 2}, {2, 3}], [{3}]) == [Beside((0, 1), (0,))]


def test_what_a_rule_is_worth_is_said_where_it_is_left_out(model):
    lines = run("explain", model, "--target", "cuda:h200", "--without", "fusion/*")[0].splitlines()
    lines = lines[lines.index("without fusion/*") :]
    assert lines[0] == "without fusion/*" and lines[1].endswith("times slower")
    assert re.fullmatch(r"  matmul, gelu instead of matmul_gelu; .* us -> .* us, bound by .*", lines[2]), lines


def test_programs_that_are_the_same():
    program = autocomp.optimize(PRODUCT, target="cuda:h200")
    assert difference(program, program, ["nothing"], Rounds((2e-3,) * 20, (1e-3,) * 20))[0].splitlines()[1:] == [
        f"predicted {seconds_text(program.predicted)} instead of {seconds_text(program.predicted)}: no faster and no slower",
        "measured 1 ms instead of 2 ms in 20 rounds: it is 2.00 to 2.00 times faster",
        f"no kernel changes: what binds is {program.kernels[0].bound} (100% of the time)"]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "text"), [
    (2.0, 1.0, "2.00 times faster"), (1.0, 1.1, "1.10 times slower"), (1.0, 1.001, "no faster and no slower"),
    (0.0, 1.0, "no faster and no slower"),
])  # fmt: skip
def test_ratios(before, after, text):
    assert ratio_text(before, after) == text


@pytest.mark.parametrize(("condition", "phase", "words"), [
    ("rank(?x) <= 2", "algebra", "rank(?x) is at most 2"),
    ("?t == [1, 1]", "algebra", "?t is [1, 1]"),
    ("dtype(?x) in [f32, f64]", "algebra", "dtype(?x) is one of f32 or f64"),
    ("dtype(?x) not in [f32, f16, f64]", "algebra", "dtype(?x) is none of f32, f16 or f64"),
    ("is_constant(?w)", "algebra", "?w is constant (a parameter, or computed from parameters alone)"),
    ("not is_constant(?x)", "algebra", "not (?x is constant (a parameter, or computed from parameters alone))"),
    ("?bm >= 8 or ?t == 64", "tiling", "?bm is at least 8 or ?t is 64"),
    ("fits(shared, 4 * ?bm)", "tiling", "4 * ?bm bytes fit shared"),
    ("legal(tile)", "tiling", "isl allows tile"),
    ("chip cpu has no memory 'shared'", "tiling", "chip cpu has no memory 'shared'"),
])  # fmt: skip
def test_conditions_in_plain_words(condition, phase, words):
    assert in_words(condition, phase) == words


@pytest.mark.parametrize(("seen", "text"), [
    ({"?s is 8, ?t is 16": 3, "?s is 8, ?t is 32": 1}, "?s is 8, ?t is 16 or 32"),
    ({f"?s is {k}": 1 for k in (3, 12, 5, 7)}, "?s is 3 to 12"),
    ({f"?s is [1, {k}]": 1 for k in range(5)}, "?s is [1, 0], [1, 1], [1, 2] or 2 other values"),
    ({"": 4}, ""),
    ({f"results of a thread: needs {n}, has 16": 1 for n in (32, 64, 128)}, "results of a thread: needs 32, has 16; 2 other values"),
])  # fmt: skip
def test_values_that_are_alike_are_said_once(seen, text):
    assert together(seen) == text


@pytest.mark.parametrize("rule", ["tiling/gpu-contract", "fusion/epilogue", "algebra/add-exact-zero", "directives/tma-store", "tiling/*"])
def test_why_not_takes_three_lines_at_most(rule):
    program = autocomp.optimize(PRODUCT, target="cuda:h200")
    names = [n for n in program.rule_names if n == rule or (rule == "tiling/*" and n.startswith("tiling/"))]
    assert names
    for name in names:
        lines = program.explain(why_not=name).splitlines()
        assert 1 <= len(lines) <= 3 and all(len(line) < 420 for line in lines), lines


def test_without_a_rule_says_what_it_is_worth_by_the_model_and_by_the_clock(tmp_path):
    path = tmp_path / "m.txt"
    path.write_text(PRODUCT.replace("2048", "96").replace("f16", "f32"))
    said = run("explain", str(path), "--without", "fusion/*")[0].splitlines()
    at = next(i for i, line in enumerate(said) if line == "without fusion/*")
    assert re.fullmatch(r"predicted [\d.]+ us instead of [\d.]+ us: \d\.\d\d times slower", said[at + 1])
    verdict = r"(it is [\d.]+ to [\d.]+ times (faster|slower)|no .*)"
    assert re.fullmatch(rf"measured [\d.]+ \w+ instead of [\d.]+ \w+ in 20 rounds: {verdict}", said[at + 2])
