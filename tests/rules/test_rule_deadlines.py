"""A check of rules that the deadline ends says so, is no pass, and is not remembered; an untested rule is not used."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.deadline import Deadline, running
from autocomp.errors import RuleError
from autocomp.report.mutation import mutate_rules
from autocomp.report.rulecheck import check_rules
from autocomp.rewrite import RuleSet, check_rule, load_rules
from autocomp.rewrite.load import parse_rules
from tests.helpers.clocks import FAR, clock
from tests.helpers.command_line import call

ONE = """
- name: user/twice
  phase: algebra
  lhs: add(?x, ?x)
  rhs: mul(?x, 2)
  where: [is_float(?x)]
  exact: false
  examples: [{x: 'f32[3, 4]'}]
  why: a test
"""
TWO = ONE + ONE.replace("user/twice", "user/twice-again")


def test_draws_end_and_the_next_check_begins_anew(monkeypatch):
    (rule,) = parse_rules(ONE, "a.yaml")
    clock(monkeypatch, 20)
    with running(Deadline(5.0)):
        found = check_rule(rule, 30, prove=False)
    assert found.cut
    assert found.status == "unchecked"
    assert 0 < found.instances < 30
    monkeypatch.undo()
    assert check_rule(rule, 30, prove=False).status.startswith("tested-")


def test_a_proof_ends(monkeypatch):
    pytest.importorskip("z3")
    (rule,) = parse_rules(ONE, "a.yaml")
    now = clock(monkeypatch)
    from autocomp.rewrite import prove

    def late(*a):
        now.now = FAR
        return prove.Proof(False, "z3 did not end")

    monkeypatch.setattr(prove, "prove_rule", late)
    with running(Deadline(5.0)):
        found = check_rule(rule, 7)
    assert (found.status, found.detail) == ("unchecked", "the deadline came during the proof")
    monkeypatch.undo()
    assert check_rule(rule, 7).status == "proved"


def test_a_report_counts_what_is_unchecked_and_does_not_pass(monkeypatch):
    rules = tuple(parse_rules(TWO, "a.yaml"))
    now = clock(monkeypatch)
    real = check_rule

    def first_alone(rule, samples):
        found = real(rule, samples)
        now.now = FAR
        return found

    monkeypatch.setattr("autocomp.report.rulecheck.check_rule", first_alone)
    with running(Deadline(5.0)):
        report = check_rules(rules, RuleSet(rules), 5)
        assert report.counts.endswith("0 refuted, 1 unchecked")
        with pytest.raises(RuleError, match="1 of 2 rules were not checked to the end: the deadline of 5 s"):
            report.require()
        assert len(mutate_rules(rules, 10, 0, 3).trials) == 0


def test_a_rule_that_was_not_tested_in_time_is_left_out(tmp_path):
    (tmp_path / "mine.yaml").write_text(TWO)
    mine = [str(tmp_path / "mine.yaml")]
    text = "graph g\ninput x: f32[3]\n%0 = add(x, x)\noutput y = %0\n"
    program = autocomp.optimize(text, rules=mine, cache=False, deadline=1e-9, without=["user/twice"])
    assert "ended rules, which left out rules that were not tested in time: user/twice, user/twice-again" in program.explain()
    assert not any("user/" in r for r in program.rule_names)
    np.testing.assert_array_equal(program(np.ones(3, np.float32)), np.full(3, 2, np.float32))
    assert {"user/twice", "user/twice-again"} <= set(load_rules(mine).names)


@pytest.mark.parametrize("command", [["check", "{}"], ["test", "user/*", "--rules", "{}"], ["mutate", "{}"]])
def test_the_command_line_has_a_deadline_for_rules(command, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(ONE.replace("twice", "-".join(command).replace("*", "").replace("/", "").replace("{}", "")))
    code, _, said = call("rules", *(c.format(path) for c in command), "--deadline", "1e-9")
    assert code == 1
    assert "the deadline of 1e-09 s came while files were read" in " ".join(said.split())
