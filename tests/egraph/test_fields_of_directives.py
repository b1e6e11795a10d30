"""Fields of a schedule as the rules that give directives read them."""

from __future__ import annotations

import pytest

from autocomp.egraph.directives import Directives
from autocomp.ir.schedule import Schedule
from autocomp.rewrite import parse_rules

RULES = """
- name: t/parts
  phase: directives
  match: tile(split: ?n)
  where: [?n == 4]
  rhs: pdl()
  targets: [cuda]
  why: test
- name: t/flag
  phase: directives
  match: tile(persistent: 1, stages: 3)
  rhs: load_c()
  targets: [cuda]
  why: test
"""


@pytest.mark.parametrize(("fields", "given"), [
    ({}, {}), ({"split": ("r0", 4)}, {"pdl": "t/parts"}), ({"split": ("r0", 2)}, {}),
    ({"persistent": True}, {}), ({"persistent": True, "stages": 3}, {"load_c": "t/flag"}), ({"stages": 3}, {}),
])  # fmt: skip
def test_a_split_is_its_parts_and_a_flag_a_number(fields, given):
    assert Directives(parse_rules(RULES, "t.yaml"), {}).by(Schedule(**fields)) == given


def test_rules_are_asked_once_for_schedules_alike_in_what_they_read(monkeypatch):
    given, asked = Directives(parse_rules(RULES, "t.yaml"), {}), []
    real = Directives._matched
    monkeypatch.setattr(Directives, "_matched", lambda d, rule, *of: (asked.append(rule.name), real(d, rule, *of))[1])
    for threads in (64, 128, 256):
        s = Schedule(persistent=True, stages=3, threads=threads)
        assert given.by(s) == {"load_c": "t/flag"} and given.of(Schedule(split=("r0", 4), threads=threads)) == ("pdl",)
    assert sorted(asked) == ["t/flag", "t/flag", "t/parts", "t/parts"]
