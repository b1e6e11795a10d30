"""Hostile and broken rule files: a clear error at file:line:column, nothing executed."""

from __future__ import annotations

from pathlib import Path

import pytest

import autocomp
from autocomp.errors import RuleError
from autocomp.rewrite import load_rules

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b, *b, *b, *b]\n"


def rule(**fields: str) -> str:
    """A rule that is right but for what `fields` change."""
    good = {"phase": "algebra", "lhs": "neg(neg(?x))", "rhs": "?x"}
    body = "".join(f"  {k}: {v}\n" for k, v in {**good, **fields}.items() if v)
    return f"- name: mine/a\n{body}"


CASES = {
    "anchor bomb": (BOMB, ":1:4: anchor &a: anchors and aliases are not read"),
    "tag": ("- !!python/object/apply:os.system ['touch {tmp}/ran']\n",
            ":1:3: tag tag:yaml.org,2002:python/object/apply:os.system: tags are not read"),
    "duplicate key": ("- name: mine/a\n  name: mine/b\n", ":2:3: 'name' is given twice (first on line 1)"),
    "unknown field": (rule(colour="red"), ":5:11: unknown field 'colour'"),
    "unbound variable": (rule(rhs="add(?x, ?y)"), ":4:16 rule 'mine/a': ?y is not bound by the pattern"),
    "unknown op": (rule(lhs="negg(neg(?x))"), ":3:8 rule 'mine/a': unknown op 'negg'"),
    "open bracket": (rule(lhs="neg(neg(?x)"), ":3:19 rule 'mine/a': expected ',', found 'end of text'"),
    "no YAML": ("- name: [mine/a\n  phase: algebra\n", ":2:8: not YAML: did not find expected ',' or ']'"),
    "unknown phase": (rule(phase="algebre"), ":2:10: unknown phase 'algebre'"),
    "unknown function": (rule(where="[rnk(?x) == 2]"), ":5:11 rule 'mine/a': unknown function 'rnk'"),
    "unknown switch": (rule(requires="[fuse_everything]"), ":5:13: no option 'fuse_everything' to require"),
    "no switch": (rule(requires="[max_body_ops]"), ":5:13: no option 'max_body_ops' to require"),
    "example of two kinds": (rule(examples="[{x: 'f64[3]', graph: 'input x: f32[3]'}]"),
                             ":5:14: an example has either a 'graph' or types for the rule's variables"),
    "empty example": (rule(examples="[{fires: false}]"), ":5:14: an example has either a 'graph' or types for the rule's variables"),
    "example that never fires": (rule(where="[rank(?x) == 7]", examples="[{x: 'f64[3]'}]"),
                                 "rule 'mine/a': is refuted: the positive example at {path}:6:14 is refused: "
                                 "rank(?x) == 7 is false: rank(?x) is 1"),
    "example without a type": (rule(examples="[{x: 'f64 of 3'}]"), "rule 'mine/a': is refuted: the example at {path}:5:14 has no instance: "
                               "no variable has a type such as 'f64[3, 4]'"),
    "not to the last bit": (rule(lhs="div(?x, 3)", rhs="mul(?x, 0.3333333333333333)", examples="[{x: 'f64[9]'}]"),
                            "rule 'mine/a': is refuted: for ?x: "),
    "code in a condition": (rule(where="[__import__('os').system('touch {tmp}/ran')]"), ":5:27 rule 'mine/a': unexpected character '.'"),
    "no list": ("name: mine/a\n", ":1:1: a rule file is a list of rules"),
    "missing side": (rule(rhs=""), ":1:3: rule 'mine/a' has no 'rhs'"),
    "too large": ("- name: " + "a" * 2_000_000 + "\n", ": the file has more than 1000000 bytes"),
    "taken name": (rule() + rule(), ":5:3: the name 'mine/a' is taken"),
    "wrong": (rule(lhs="neg(?x)", examples="[{x: 'f64[3]'}]"), "rule 'mine/a': is refuted: for ?x: f64[3] (seed 0) element [0]: left "),
    "other shape": (rule(lhs="neg(?x)", rhs="reduce_sum(?x, axes=[0])", examples="[{x: 'f64[3]'}]"),
                    "rule 'mine/a': is refuted: unites f64[3] with f64[] for ?x: f64[3]"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused_at_its_place(name, tmp_path):
    text, message = CASES[name]
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("{tmp}", str(tmp_path)))
    with pytest.raises(RuleError) as e:
        load_rules((path,))
    assert message.replace("{path}", str(path)) in str(e.value).splitlines()[0]
    assert str(e.value).startswith(str(path))
    assert not (tmp_path / "ran").exists()


def test_a_rule_without_examples_that_unites_shapes_stops_the_run(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(rule(lhs="neg(?x)", rhs="reduce_sum(?x, axes=[0])"))
    graph = "graph g\ninput x: f32[4]\n%0 = neg(x)\noutput y = %0\n"
    with pytest.raises(RuleError, match=r"rule 'mine/a': unites tensors of different types: f32\[4\] and f32\[\]"):
        autocomp.optimize(graph, rules=[str(path)])


def test_no_such_file_and_no_text(tmp_path):
    with pytest.raises(RuleError, match="cannot be read: No such file or directory"):
        load_rules((tmp_path / "none.yaml",))
    path = Path(tmp_path / "bytes.yaml")
    path.write_bytes(b"- name: \xff\xfe\n")
    with pytest.raises(RuleError, match="not UTF-8 text"):
        load_rules((path,))
