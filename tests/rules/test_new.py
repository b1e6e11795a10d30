"""`rules new` writes a rule that loads and passes its check, whatever its phase and its idea."""

from __future__ import annotations

import pytest

from autocomp.check.rules import check_kernel_rule
from autocomp.rewrite import check_rule, load_rules
from autocomp.rewrite.format import formatted
from autocomp.rewrite.load import parse_rules
from autocomp.rewrite.new import new_rule
from autocomp.rewrite.vocabulary import KERNEL_PHASES, PHASES
from tests.cli.test_cli import run


@pytest.mark.parametrize("phase", PHASES)
def test_the_beginning_of_a_rule_passes_its_check(phase):
    (rule,) = parse_rules(new_rule("mine/a", phase, "it's: an # idea\n of two lines"), "mine.yaml")
    text = new_rule("mine/a", phase, "an idea")
    assert formatted(text, "mine.yaml") == text
    assert rule.phase == phase and rule.why == "it's: an # idea of two lines"
    found = check_kernel_rule(rule, load_rules(), 12 if phase == "tiling" else 1) if phase in KERNEL_PHASES else check_rule(rule, 4)
    assert found.status != "refuted", found


def test_a_file_is_written_once_and_checked_as_it_stands(tmp_path):
    path = tmp_path / "mine.yaml"
    text, _ = run("rules", "new", str(path), "--idea", "one product instead of a sum")
    assert text.split() == f"wrote {path} next: autocomp rules check {path}".split()
    assert path.read_text().startswith("- name: mine/one-product-instead-of\n  phase: algebra\n")
    assert "1 proved" in run("rules", "check", str(path), "--samples", "4")[0]
    assert "is there already\n  next: choose another name" in run("rules", "new", str(path), code=1)[1]
    assert "no phase 'algbra'; phases are" in run("rules", "new", str(tmp_path / "b.yaml"), "--phase", "algbra", code=2)[1]


def test_an_error_shows_the_line_and_a_caret_below_its_place(tmp_path):
    path = tmp_path / "mine.yaml"
    run("rules", "new", str(path), "--idea", "x - x y is x (1 - y)")
    assert path.read_text().startswith("- name: mine/is\n")
    path.write_text(path.read_text().replace("mul(?x, 2)", "mul(?x, ?z)"))
    lines = run("rules", "check", str(path), code=1)[1].splitlines()
    at = next(i for i, x in enumerate(lines) if x.strip() == "^")
    assert lines[at - 1][lines[at].index("^") :].startswith("?z)") and lines[at - 1].strip().startswith("rhs: mul(?x, ?z)")
    assert lines[at + 1].startswith("  next: bound are") and ":4:" in lines[at - 2]


def test_a_rule_that_is_right_but_for_rounding_is_told_so(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("- name: mine/out\n  phase: algebra\n  lhs: sub(?x, mul(?x, ?y))\n  rhs: mul(?x, sub(1, ?y))\n  where: [is_float(?x)]\n"
                    '  exact: true\n  why: a test\n  examples:\n    - {x: "f32[3, 4]", y: "f32[3, 4]"}\n')
    assert "`exact: false` says that" in run("rules", "check", str(path), code=1)[1]
    path.write_text(path.read_text().replace("sub(1, ?y)", "sub(2, ?y)"))
    assert "under which condition it holds" in run("rules", "check", str(path), code=1)[1]


@pytest.mark.parametrize(("lhs", "rhs", "where", "said", "step"), [
    ("log(add(?x, 1))", "log1p(?x)", "is_float(x)", "unknown word 'x'", "a variable has a question mark: ?x"),
    ("log(add(?x, 1))", "log1p(?x)", "is_float(?x)", "unites ", "`shape(?root) == shape(?x)` in `where`"),
    ("div(?x, ?y)", "mul(?x, div(1, ?y))", "is_float(?x), rank(?x) == rank(?y)", "inf", "`invertible(dtype(?y), ?y)`"),
])  # fmt: skip
def test_usual_first_mistakes_are_told_what_to_write(tmp_path, lhs, rhs, where, said, step):
    (path := tmp_path / "mine.yaml").write_text(f"- name: mine/first\n  phase: algebra\n  lhs: {lhs}\n  rhs: {rhs}\n  where: [{where}]\n"
                                                '  exact: false\n  examples:\n    - {x: "f32[3, 4]", y: "f32[3, 4]"}\n')  # fmt: skip
    text = " ".join(run("rules", "check", str(path), "--samples", "6", code=1)[1].split())
    assert said in text and step in text.partition("next: ")[2], text


def test_a_rule_of_schedules_that_is_refused_is_told_what_to_ask(tmp_path):
    (path := tmp_path / "mine.yaml").write_text(new_rule("mine/a", "tiling", "an idea"))
    whole = path.read_text()
    path.write_text(whole.replace("legal(tile), ", ""))
    said = run("rules", "check", str(path), "--samples", "2", code=1)[1]
    assert "must run before" in said and "next: ask isl: `legal(tile)` as a condition of its own in `where`" in said
    path.write_text(whole.replace(", fits(L2, 4 * ?K * (?bm + ?bn))", "").replace("[16, 32]", "[16384]").replace("?bm <= ?M", "?M > 1"))
    said = run("rules", "check", str(path), "--samples", "2", code=1)[1]
    assert "capacity: a step holds at least" in said and "next: say in `where` what a tile may take: `fits(L2, bytes)`" in said
