"""Rule files for people and editors: one form (`rules fmt`), a JSON schema, `--watch`, and rules that can never fire."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from autocomp.deadline import Deadline, running
from autocomp.errors import RuleError
from autocomp.report.rulecheck import check_rules
from autocomp.report.watch import changes
from autocomp.rewrite.check import CheckResult
from autocomp.rewrite.format import formatted
from autocomp.rewrite.load import load_rules, parse_rules
from autocomp.rewrite.new import new_rule
from autocomp.rewrite.schema import rule_schema
from autocomp.rewrite.vocabulary import PHASES
from autocomp.rewrite.yaml_source import Located, read_yaml
from tests.cli.test_cli import run
from tests.helpers.json_schema import broken

IN_FORCE = load_rules()
RULES = sorted(Path("rules").glob("*.yaml"))
RIGHT = """- name: mine/a
  phase: algebra
  lhs: add(?x, ?x)
  rhs: mul(?x, 2)
  why: a test
"""
# (what stands in the place of a line, or behind the last) -> refused by the schema and by the loader
WRONG = [
    ("- name: mine/a", "- name: 7"), ("- name: mine/a", "- name: mine a"), ("- name: mine/a", "- name: mine//a"),
    ("- name: mine/a", "- nam: mine/a"), ("- name: mine/a\n  phase", "- phase"), ("- name: mine/a", "- name: [mine]"),
    ("phase: algebra", "phase: algebr"), ("phase: algebra", "phase: 3"), ("  phase: algebra\n", ""), ("phase: algebra", "phase: fussion"),
    ("  lhs: add(?x, ?x)\n", ""), ("  rhs: mul(?x, 2)\n", ""), ("lhs:", "left:"), ("rhs:", "rsh:"),
    ("why: a test", "why: 3"), ("why: a test", "why: [a, b]"), ("why:", "wy:"),
    ("+", "exact: yes please"), ("+", "exact: 1"), ("+", "commutes: 'true'"), ("+", "finite: no way"), ("+", "assumed: [true]"),
    ("+", "targets: [cdua]"), ("+", "targets: cpuu"), ("+", "targets: 3"), ("+", "requires: [fuse]"), ("+", "requires: {a: 1}"),
    ("+", "examples: {x: 'f32[3]'}"), ("+", "examples: [3]"), ("+", "examples:\n    - {x: 'f32[3]', fires: 1}"), ("+", "examples: [{}]"),
    ("+", "choose: [1, 2]"), ("+", "choose: {bm: []}"), ("+", "each: {f: relu}"), ("+", "each: {}"), ("+", "let: 3"), ("+", "let: {}"),
    ("+", "siblings: [1]"), ("+", "unless: rank(?x) == 1"),
]  # fmt: skip


def plain(x: Located):
    if isinstance(x.value, tuple):
        return [plain(i) for i in x.value]
    return {k: plain(v) for k, v in x.value.items()} if isinstance(x.value, dict) else x.value


def line_of(x: Located, path) -> int:
    """The line of the value at a path of a schema's complaint."""
    for step in path:
        x = x.value[step]
    return x.location.line


@pytest.mark.parametrize("path", RULES, ids=lambda p: p.stem)
def test_shipped_files_are_in_the_one_form_and_keep_to_the_schema(path):
    text = path.read_text()
    assert formatted(text, path.name) == text, f"autocomp rules fmt {path}"
    standard = yaml.load(text.replace("?", "_"), Loader=yaml.SafeLoader)  # every editor's reader of YAML understands it
    assert not broken(rule_schema(), standard) and not broken(rule_schema(), plain(read_yaml(text, path.name)))


@pytest.mark.parametrize(("old", "new"), WRONG)
def test_what_the_schema_refuses_the_loader_refuses_at_the_same_line(old, new):
    text = RIGHT + f"  {new}\n" if old == "+" else RIGHT.replace(old, new, 1)
    assert text != RIGHT
    doc = read_yaml(text, "w.yaml")
    said = broken(rule_schema(), plain(doc))
    assert said, text
    with pytest.raises(RuleError) as e:
        parse_rules(text, "w.yaml")
    line = int(str(e.value.where).split(":")[1].split()[0])
    assert line in {line_of(doc, path) for path, _ in said}, (said, str(e.value))


def test_the_shipped_schema_is_the_one_of_the_code_and_new_rules_keep_to_it(tmp_path):
    assert len(WRONG) >= 30 and not broken(rule_schema(), plain(read_yaml(RIGHT, "r.yaml")))
    assert json.loads(Path("rules/schema.json").read_text()) == rule_schema(), "autocomp rules schema -o rules/schema.json"
    assert json.loads(run("rules", "schema")[0]) == rule_schema()
    for phase in PHASES:
        text = formatted(new_rule("mine/idea", phase, "an idea: it's \"good\""), "n.yaml")
        assert not broken(rule_schema(), plain(read_yaml(text, "n.yaml")))


FAMILIES = [
    ("  phase: algebra", "  each: {p: [algebra, layout]}\n  phase: $p"),
    ("  why: a test", "  each: {t: [cuda, maca]}\n  targets: [$t]\n  why: a test"),
]


@pytest.mark.parametrize(("old", "new"), FAMILIES)
def test_a_word_of_a_family_may_stand_where_only_some_words_may(old, new):
    """`phase: $p` is no phase until `each` has put one in; the loader says so of a wrong one."""
    text = RIGHT.replace("mine/a", "mine/a-$" + new.split("each: {")[1][0]).replace(old, new, 1)
    assert len(parse_rules(text, "f.yaml")) == 2
    assert not broken(rule_schema(), plain(read_yaml(text, "f.yaml")))
    with pytest.raises(RuleError, match=r"unknown|no target"):
        parse_rules(text.replace("layout]", "layuot]").replace("maca]", "mcaa]"), "f.yaml")


def test_jsonschema_agrees():
    validator = pytest.importorskip("jsonschema").Draft202012Validator(rule_schema())
    for old, new in WRONG:
        text = RIGHT + f"  {new}\n" if old == "+" else RIGHT.replace(old, new, 1)
        assert not validator.is_valid(plain(read_yaml(text, "w.yaml"))), text


UGLY = """# a file


-   name:   mine/tall     # its name
    phase: tiling

    match:  contract(m: ?M, n: ?N, k: ?K)
    choose: {bm: [20,
      40]}
    # before where
    where: [legal(tile), ?M in [20, 40], feature("x") or 'a' == 'b']   # why
    rhs: tile(m: ?bm)
    why: |
      two lines,
        the second indented
- name: mine/b
  phase: algebra
  lhs: add(?x, ?x)
  rhs: mul(?x, 2)   \n  examples:
      - {x: "f32[3]"}
      # last
      - {x: "f32[4]"}
  why: x\r
"""


def test_fmt_keeps_values_and_comments_and_is_idempotent(tmp_path):
    once = formatted(UGLY, "u.yaml")
    assert formatted(once, "u.yaml") == once and plain(read_yaml(once, "u")) == plain(read_yaml(UGLY, "u"))
    lines = once.split("\n")
    assert lines[0:4] == ["# a file", "", "- name: mine/tall     # its name", "  phase: tiling"]
    assert '  match: "contract(m: ?M, n: ?N, k: ?K)"' in lines and '  rhs: "tile(m: ?bm)"' in lines and "  # before where" in lines
    assert "    - {x: \"f32[3]\"}" in lines and "    # last" in lines
    path = tmp_path / "u.yaml"
    path.write_text(UGLY)
    assert "is not formatted" in run("rules", "fmt", str(path), "--check", code=1)[1]
    assert run("rules", "fmt", str(path))[0] == "1 of 1 files changed\n" and path.read_text() == once
    assert run("rules", "fmt", str(path), "--check")[0] == "0 of 1 files changed\n"


@pytest.mark.parametrize("text", ["- a: [1\n", "- name: &x mine/a\n", "- a: 1\n- a\tb: {\n"])
def test_fmt_refuses_what_is_no_rule_file(text):
    with pytest.raises(RuleError, match=r"bad\.yaml"):
        formatted(text, "bad.yaml")


def test_places_of_mistakes_stay_right_in_quoted_text():
    text = RIGHT.replace("why", "where: \"[rank(?x) in [1, 2], rnk(?x) == 1]\"\n  why")
    with pytest.raises(RuleError, match="rnk") as e:
        parse_rules(text, "w.yaml")
    assert text.split("\n")[4][int(str(e.value.where).split(":")[2].split()[0]) - 1 :].startswith("rnk")


@pytest.mark.parametrize(("lhs", "rhs", "where", "said"), [
    ("add(?x, ?x)", "mul(?x, 2)", "[is_float(?x), rank(?x) <= 3, rank(?x) > 4]", "'rank(?x) <= 3' and 'rank(?x) > 4' never hold together"),
    ("add(?x, ?y)", "add(?y, ?x)", "[is_int(?x), is_float(?y)]", "'is_int(?x)' and 'is_float(?y)' never hold together"),
    ("relu(?x)", "max(?x, 0)", "[rank(?x) < 0]", "'rank(?x) < 0' never holds"),
    ("transpose(?x, perm=?p)", "?x", "[len(?p) != rank(?x)]", "'len(?p) != rank(?x)' never holds"),
])  # fmt: skip
def test_a_rule_that_can_never_fire_is_named_with_its_condition(lhs, rhs, where, said, tmp_path):
    path = tmp_path / "n.yaml"
    path.write_text(f"- name: mine/never\n  phase: algebra\n  lhs: {lhs}\n  rhs: {rhs}\n  where: {where}\n  why: a test\n")
    with pytest.raises(RuleError) as e:
        load_rules((path,))
    assert f"it seems never to fire: {said}" in e.value.what and e.value.hint == "change its conditions"


def test_watching_checks_at_once_and_after_each_change(tmp_path):
    path = tmp_path / "w.yaml"
    path.write_text("a")
    steps = iter([lambda: None, lambda: path.write_text("bb"), path.unlink, lambda: path.write_text("ccc"), lambda: None])

    def sleep(_):
        try:
            next(steps)()
        except StopIteration:
            raise KeyboardInterrupt from None

    assert len(list(changes([path], sleep))) == 3


def test_a_long_check_says_how_far_it_is(monkeypatch):
    monkeypatch.setattr("autocomp.report.rulecheck.EVERY", -1.0)
    rules = parse_rules(RIGHT, "r.yaml")
    said: list[str] = []
    check_rules(rules, load_rules(), 1, said.append)
    assert said == ["0 of 1 rules checked; next mine/a"]


def test_processes_find_what_one_finds(monkeypatch):
    monkeypatch.setattr("autocomp.report.rulecheck.EVERY", -1.0)
    wrong = RIGHT.replace("mine/a", "mine/wrong").replace("mul(?x, 2)", "mul(?x, 3)")
    rules = parse_rules(RIGHT + wrong + RIGHT.replace("mine/a", "mine/last"), "r.yaml")
    said: list[str] = []
    alone, together = check_rules(rules, IN_FORCE, 1), check_rules(rules, IN_FORCE, 1, said.append, jobs=2)
    assert together == alone
    assert [c.status.partition("-")[0] for _, c in together.rows] == ["proved", "refuted", "proved"]
    assert len(said) == 3 and said[-1].startswith("3 of 3 rules checked; last ")


def test_an_error_of_a_check_comes_whole_from_a_process():
    asks = next(r for r in IN_FORCE if any(str(c) == "fits(tile)" for c in r.where))
    changes = next(r for r in IN_FORCE if r.phase == "scheduling" and "cuda" in r.targets)
    rules = (replace(changes, name="mine/asks", where=asks.where), *parse_rules(RIGHT, "r.yaml"))
    with pytest.raises(RuleError, match="a scheduling rule does not say the whole tile") as alone:
        check_rules(rules, IN_FORCE, 1)
    with pytest.raises(RuleError) as together:
        check_rules(rules, IN_FORCE, 1, jobs=2)
    assert str(together.value) == str(alone.value) and together.value.hint == alone.value.hint


def test_processes_keep_to_the_deadline():
    rules = parse_rules(RIGHT + RIGHT.replace("mine/a", "mine/b"), "r.yaml")
    with running(Deadline(1e-6)):
        report = check_rules(rules, IN_FORCE, 1, jobs=2)
    assert report.counts.endswith("2 unchecked")


def test_each_process_takes_the_rules_of_some_targets(monkeypatch):
    """What is drawn for a target serves all rules for it; those about graphs, which need none, come last."""
    some = {"algebra/add-exact-zero", "tiling/npu-small", "tiling/gpu-rows", "directives/tma-store", "directives/pdl"}
    rules = [r for r in IN_FORCE if r.name in some]
    asked: list[tuple[str, object]] = []

    def each(self, task, items, limit, kinds):
        asked.extend((rule.name, kind) for (_, rule, _, _), kind in zip(items, kinds, strict=True))
        return ((n, CheckResult("assumed")) for n in range(len(items)))

    monkeypatch.setattr("autocomp.workers.Pool.each", each)
    report = check_rules(rules, IN_FORCE, 1, jobs=2)
    assert [r.name for r, _ in report.rows] == [r.name for r in rules]
    kinds = dict(asked)
    assert kinds["directives/pdl"] == kinds["directives/tma-store"] == ("cuda",) and kinds["tiling/npu-small"] == ("ascend",)
    assert {name for name, _ in asked[:2]} == {"directives/pdl", "directives/tma-store"} and asked[-1][0] == "algebra/add-exact-zero"
