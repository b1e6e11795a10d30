"""Rules with one thing changed: the changes are made, the judge knows wrong ones from right ones, the checker refuses the wrong ones."""

from __future__ import annotations

import re
from functools import cache

import pytest
from typer.testing import CliRunner

from autocomp.cli import app
from autocomp.report.mutation import MutationReport, mutate_rules
from autocomp.rewrite import check_rule, load_rules
from autocomp.rewrite.draw import Drawer
from autocomp.rewrite.forms import Forms
from autocomp.rewrite.judge import really_wrong
from autocomp.rewrite.mutate import mutants

RULES = load_rules()
SMALL = [r for r in RULES if r.name.startswith(("algebra/", "idioms/")) and "filters" not in r.name and "gelu" not in r.name]


def changes(name: str) -> dict[str, object]:
    return {m.what: m.rule for m in mutants(RULES[name])}


@pytest.mark.parametrize(("rule", "what"), [
    ("algebra/scale-into-weight", "without the condition rank(?s) >= 1"),
    ("algebra/scale-into-weight", "operands of matmul swapped"),
    ("algebra/div-constant", "it says that it is exact"),
    ("algebra/div-constant", "without the condition is_uniform(?c)"),
    ("algebra/sub-zero", "the condition not negative_zero(value(?c)) negated"),
    ("algebra/row-times-matrix", "axes: 1 for 2"),
    ("layout/transposes", "perm: compose(?q, ?p) with its arguments swapped"),
    ("layout/transposes", "the inverse permutation"),
    ("layout/conv-channels-last", "strides=?d for ?t"),
    ("layout/pool-of-channels-last/maxpool", "sumpool for maxpool"),
    ("quantised/products-of-integers", "without the cast"),
    ("algebra/scale-over-shift", "?b for ?y"),
])  # fmt: skip
def test_one_thing_is_changed(rule: str, what: str):
    assert what in changes(rule)


def test_the_judge_knows_wrong_from_right():
    transposes = {m.what: m.rule for m in mutants(RULES["layout/transposes"])}
    assert really_wrong(transposes["the inverse permutation"], RULES["layout/transposes"])
    rows = {m.what: m.rule for m in mutants(RULES["algebra/row-times-matrix"])}
    assert really_wrong(rows["axes: 1 for 2"], RULES["algebra/row-times-matrix"])
    assert not really_wrong(RULES["algebra/row-times-matrix"], RULES["algebra/square"])
    harmless = {m.what: m.rule for m in mutants(RULES["algebra/scale-into-weight"])}["without the condition not is_constant(?x)"]
    assert not really_wrong(harmless, RULES["algebra/scale-into-weight"])
    assert check_rule(harmless, 10, prove=False).status != "refuted"


def test_rules_ask_of_memories_for_what_no_kernel_does_without():
    """Steps go to L0A and L0B in parts where they are too deep: no schedule of these rules overflows them, so none asks for room there."""
    asked = [m.what for r in RULES if r.name.startswith("tiling/npu-") for m in mutants(r) if "without the condition fits" in m.what]
    assert len(asked) == 11 and not any("l0" in what for what in asked)


@cache
def sample() -> MutationReport:
    return mutate_rules(SMALL, 12, 5, 8)


def test_what_is_really_wrong_is_refused():
    """A sample; `autocomp rules mutate --count 0` tries every change."""
    report = sample()
    assert len(report.wrong) >= 5
    assert len(report.missed) <= 0.1 * len(report.wrong), report.missed
    assert "really wrong" in report.text


def test_a_checker_that_draws_nothing_misses_many(monkeypatch: pytest.MonkeyPatch):
    """Of the same changes; what the judge says of one does not hang on the checker."""
    judged = iter([t.wrong for t in sample().trials])
    monkeypatch.setattr("autocomp.report.mutation.really_wrong", lambda *a: next(judged))
    original = Drawer.draws
    monkeypatch.setattr(Drawer, "draws", lambda self, count, tries: iter(()) if self.seed == 0 else original(self, count, tries))
    for made in ("_of_kinds", "_resized", "_far"):  # on the author's examples, too
        monkeypatch.setattr(f"autocomp.rewrite.check.{made}", lambda *a: iter(()))
    monkeypatch.setattr("autocomp.rewrite.check.all_forms", lambda rule: Forms())
    monkeypatch.setattr("autocomp.rewrite.check._KNOWN", {})
    blind = mutate_rules(SMALL, 12, 5, 8)
    assert [(t.rule, t.what, t.wrong) for t in blind.trials] == [(t.rule, t.what, t.wrong) for t in sample().trials]
    refuted = lambda report: sum(t.status == "refuted" for t in report.wrong)
    assert refuted(blind) < refuted(sample()) <= len(sample().wrong)


def test_the_command_prints_how_many_are_refused(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (file := tmp_path / "mine.yaml").write_text("""
- name: mine/turned-there-and-back
  phase: algebra
  lhs: transpose(transpose(?x, perm=?p), perm=?q)
  rhs: ?x
  where: [?q == inverse(?p)]
  why: a test
""")
    run = lambda *words: CliRunner().invoke(app, ["rules", "mutate", "--samples", "4", *words])
    done = run(str(file), "--count", "2", "--seed", "9")
    assert done.exit_code == 0, done.output
    assert "2 of 5 changes to 1 rules (seed 9): 2 really wrong, 2 of them refused (100.0 %), 0 proved" in done.output
    assert "0 of 0 changes to 1 rules" in run(str(file), "--only", "no change says this").output
    monkeypatch.setattr("autocomp.report.mutation.mutants", lambda rule: ())  # of all rules they take seconds
    none = run()
    assert int(re.search(r"0 of 0 changes to (\d+) rules", none.output)[1]) > 200, none.output  # without files: the shipped rules
