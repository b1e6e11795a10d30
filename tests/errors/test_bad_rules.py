"""Hostile and broken rule files: a clear error at file:line:column, nothing executed."""

from __future__ import annotations

from pathlib import Path

import pytest

import autocomp
from autocomp.errors import RuleError
from autocomp.rewrite import load_rules
from tests.helpers.time_limits import within

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b, *b, *b, *b, *b]\n"


def rule(**fields: str) -> str:
    """A rule that is right but for what `fields` change."""
    good = {"phase": "algebra", "lhs": "neg(neg(?x))", "rhs": "?x"}
    body = "".join(f"  {k}: {v}\n" for k, v in {**good, **fields}.items() if v)
    return f"- name: mine/a\n{body}"


def tiling(**fields: str) -> str:
    """A tiling rule that is right but for what `fields` change."""
    good = {"phase": "tiling", "match": "contract(m: ?M, n: ?N)", "choose": "{bm: [16]}", "rhs": "'tile(m: ?bm)'"}
    return "- name: mine/a\n" + "".join(f"  {k}: {v}\n" for k, v in {**good, **fields}.items() if v)


def fusion(**fields: str) -> str:
    """A fusion rule that is right but for what `fields` change."""
    good = {"phase": "fusion", "lhs": "map(?f, load(store(?k)), ?rest...)", "rhs": "map(?f, ?k, ?rest...)"}
    return "- name: mine/a\n" + "".join(f"  {k}: {v}\n" for k, v in {**good, **fields}.items() if v)


def move(rhs: str, choose: str = "") -> str:
    """A rule that gives recurrences a move."""
    return "- name: mine/a\n  phase: scheduling\n  match: 'recurrence(time: ?T, space: ?N)'\n" + (
        f"  choose: {choose}\n" if choose else "") + f"  rhs: '{rhs}'\n"  # fmt: skip


def rescheduled(match: str, rhs: str) -> str:
    return f"- name: mine/a\n  phase: scheduling\n  match: \"{match}\"\n  rhs: \"{rhs}\"\n"


CASES = {
    "time skewed by itself": (move("skew(time: ?T, space: ?T)"),
        ":4:31 rule 'mine/a': the space of skew is ?T, and the pattern's space is ?N"),
    "time and space exchanged": (move("skew(time: ?N, space: ?T)"), "the time of skew is ?N, and the pattern's time is ?T"),
    "space that is time": (move("reverse(space: ?T)"), "the space of reverse is ?T, and the pattern's space is ?N"),
    "half a skew": (move("skew(time: ?T, space: ?N, factor: 0.5)"), "a skew's factor is a whole number other than 0, up to 32768"),
    "a skew by nothing": (move("skew(time: ?T, space: ?N, factor: ?f)", "{f: [1, 0]}"), "a skew's factor is a whole number other than 0"),
    "a skew out of sight": (move("skew(time: ?T, space: ?N, factor: ?f)", "{f: [1000000000000]}"), "a whole number other than 0, up to"),
    "a skew by time": (move("skew(time: ?T, space: ?N, factor: ?T)"), "a skew's factor is a whole number other than 0"),
    "an instruction of no target": (rescheduled("tile(threads: ?t)", "tile(instruction: 'bogus')"),
        ":4:27 rule 'mine/a': no target has the instruction 'bogus'"),
    "an instruction of no target, matched": (rescheduled("tile(threads: ?t, instruction: 'bogus')", "tile(threads: 128)"),
        "no target has the instruction 'bogus'"),
    "roles of no target": (rescheduled("tile(threads: ?t, roles: 'singel')", "tile(threads: 128)"), "no target has the roles 'singel'"),
    "an instruction of no target, chosen": (tiling(choose="{bm: [16], w: [direct, bogus]}", rhs="'tile(m: ?bm, instruction: ?w)'"),
        "no target has the instruction 'bogus'"),
    "a word for a tensor": (rule(lhs="silu(x)", rhs="x"), ":3:13 rule 'mine/a': 'x' is a word, and a tensor is wanted"),
    "an attribute for a tensor": (rule(lhs="transpose(?x, perm=?p)", rhs="add(?x, ?p)"), ":4:16 rule 'mine/a': ?p stands for an attribute"),
    "the whole for a tensor": (rule(rhs="neg(?root)"), ":4:12 rule 'mine/a': ?root is the whole left side, and a tensor"),
    "a tensor for an attribute": (rule(lhs="transpose(?x, perm=?p)", rhs="transpose(?x, perm=?x)"),
        ":4:27 rule 'mine/a': ?x is a tensor, and perm is none"),
    "one name twice": (rule(lhs="transpose(?x, perm=?x)"), ":3:8 rule 'mine/a': ?x stands for a tensor and for an attribute"),
    "siblings of an attribute": (rule(lhs="transpose(?x, perm=?p)", siblings="[p]"), ":5:13: ?p is not bound by the pattern"),
    "a list on the left": (rule(lhs="concat(?x..., axis=0)"), ":3:15 rule 'mine/a': ?x... stands on the right side"),
    "a number beyond all types": (rule(lhs="add(?x, " + "9" * 400 + ")"), " is no number that a tensor holds"),
    "a chain without end": (rule(where="[1" + " + 1" * 300 + " == 1]"), "more than 100 operators one within the other"),
    "signs without end": (rule(where="[" + "not " * 900 + "true]"), "more than 100 operators one within the other"),
    "places without end": (rule(where="[rank(?x)" + "[0]" * 900 + "]"), "more than 100 operators one within the other"),
    "a list without end": (rule(where="[repeat(1, 1000000000) == []]", examples="[{x: 'f64[3]'}]"),
        "a list of 1000000000 elements, at most 4096 are made"),
    "a tensor without end": (rule(examples="[{x: 'f64[99999999999]'}]"),
        "?x is a tensor f64[99999999999], and up to 1048576 elements are tried"),
    "a list that is a number": (rule(lhs="neg(?x)", rhs="reduce_sum(?x, axes=0)", examples="[{x: 'f64[3]'}]"),
                                "reduce_sum: does not take f64[3] with axes=0, keepdims=False"),
    "no dtype of a constant": (rule(rhs="broadcast(const(value=0, dtype='f99'), shape=shape(?x))", examples="[{x: 'f64[3]'}]"),
        "there is no dtype 'f99'"),
    "a constant of letters": (rule(rhs="broadcast(const(value='a'), shape=shape(?x))", examples="[{x: 'f64[3]'}]"),
        "const: a constant is a number, got 'a'"),
    "a huge tensor beside": (rule(examples="[{x: 'f64[3]', y: 'i64[99999999999]'}]"), "?y is a tensor i64[99999999999], and up to 1048576"),
    "a type that is a mapping": (rule(examples="[{x: {a: b}}]"), "no variable has a type such as 'f64[3, 4]'"),
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
    "no example, unsound": (rule(lhs="relu(?x)", rhs="abs(?x)"), ":1:3 rule 'mine/a': is refuted: for ?x: "),
    "no example, other shape": (rule(lhs="neg(?x)", rhs="reduce_sum(?x, axes=[0])"),
                                "rule 'mine/a': is refuted: unites "),
    "no example, for some numbers": (rule(lhs="sqrt(mul(?x, ?x))", rhs="?x", exact="false"),
                                     "rule 'mine/a': is refuted: for ?x: "),
    "no example to be guessed": (rule(lhs="stencil(?x, offsets=?o, weights=?w, steps=?s)", rhs="?x"),
                                 "rule 'mine/a': cannot be tested: no positive example"),
    "not to the last bit on any numbers": (rule(lhs="mul(mul(?x, ?y), ?z)", rhs="mul(?x, mul(?y, ?z))"),
                                           "rule 'mine/a': is refuted: for ?x: "),
    "unknown form": (tiling(match="contrakt(m: ?M)"), ":3:10 rule 'mine/a': unknown op 'contrakt'"),
    "unknown role": (tiling(match="contract(rows: ?M)"), ":3:19 rule 'mine/a': contract has no attribute 'rows'"),
    "another form's role": (tiling(rhs="'tile(i: ?bm)'"), ":5:17 rule 'mine/a': a schedule of contract has no 'i'"),
    "unknown field of a schedule": (tiling(rhs="'tile(m: ?bm, stagess: 2)'"), ":5:22 rule 'mine/a': tile has no attribute 'stagess'"),
    "no schedule": (tiling(rhs="'skew(time: ?M)'"), ":5:9 rule 'mine/a': what matches contract does not become 'skew'"),
    "a tile without elements": (tiling(choose="{bm: [16, 0]}"), ":4:21 rule 'mine/a': ?bm may be 0, and m is a whole number, 1 or more"),
    "no threads": (tiling(rhs="'tile(m: ?bm, threads: 0)'"), ":5:31 rule 'mine/a': threads is 0, and a schedule's threads is a whole"),
    "threads to choose": (tiling(choose="{bm: [16, 0]}", rhs="'tile(threads: ?bm)'"), ":4:21 rule 'mine/a': ?bm may be 0, and threads"),
    "fewer than no stages": (tiling(rhs="'tile(m: ?bm, stages: -1)'"), "stages is -1, and a schedule's stages is a whole number"),
    "a tile of a word": (tiling(choose="{bm: [wide]}"), ":4:17 rule 'mine/a': ?bm may be 'wide', and m wants whole numbers"),
    "a role that is a number": (tiling(rhs="'tile(m: 16, roles: ?bm)'"), ":4:17 rule 'mine/a': ?bm may be '16', and roles wants a word"),
    "a number to choose from": (tiling(choose="{bm: '16'}"), ":4:17: ?bm is to be chosen from the text '16', which is no list"),
    "nothing to choose from": (tiling(choose="{bm: []}"), ":4:16: ?bm has no candidate"),
    "a word of another phase": (rule(where="[dtype(?x) == quaternion]"), ":5:24 rule 'mine/a': unknown word 'quaternion'"),
    "no memory": (tiling(where="[fits(L9, ?bm)]"), ":6:16 rule 'mine/a': unknown word 'L9'"),
    "a tab": ("- name: mine/a\n\tphase: algebra\n", ":2:1: not YAML: found a tab character"),
    "fires maybe": (rule(examples="[{x: 'f64[3]', fires: maybe}]"), ":5:35: an example's 'fires' is true or false"),
    "no dtype": (rule(examples="[{x: 'f99[3]'}]"), "rule 'mine/a': is refuted: the example at {path}:5:14 has no instance: "
                 "no variable has a type such as 'f64[3, 4]', given are x: 'f99[3]'"),
    "a question that nobody answers": (tiling(where="[capacity(L2) > ?bm]"), ":6:11 rule 'mine/a': unknown function 'capacity'"),
    "a scheduling rule for kernels": (tiling(phase="scheduling"), ":3:10 rule 'mine/a': a scheduling rule does not match 'contract'"),
    "unknown target": (tiling(targets="[cpuu]"), ":6:12: there is no target 'cpuu'"),
    "not the law": (fusion(rhs="map(?f, ?k)"), ":4:8 rule 'mine/a': the right side is map(?f, ?k), the law says map(?f, ?k, ?rest...)"),
    "nothing stored": (fusion(lhs="map(?f, ?k, ?rest...)"), ":3:8 rule 'mine/a': a fusion rule has exactly one operand load(store(?k))"),
    "no consumer": (fusion(lhs="store(load(store(?k)))", rhs="store(?k)"), ":3:8 rule 'mine/a': 'store' takes nothing in"),
    "a question about no body": (fusion(where="[ops(?f) < 3]"), ":3:8 rule 'mine/a': the condition 'ops(?f) < 3' asks of ?f"),
    "other shape": (rule(lhs="neg(?x)", rhs="reduce_sum(?x, axes=[0])", examples="[{x: 'f64[3]'}]"),
                    "rule 'mine/a': is refuted: unites f64[3] with f64[] for ?x: f64[3]"),
}  # fmt: skip


NEXT = {
    "no memory": "known are L1, L2, L3, l0a, l0b, l0c, l1, l2, l3, registers, shared, tile, ub",
    "a word of another phase": "`autocomp rules words algebra` lists them",
    "a tab": "indent with spaces",
    "unknown phase": "did you mean 'algebra'? phases are shapes, algebra, layout",
    "unbound variable": "bound are ?root, ?x",
    "unknown op": "did you mean 'neg'?",
    "unknown function": "did you mean 'rank'?",
    "a tile without elements": "such as `choose: {bm: [16, 32]}`",
    "unknown target": "did you mean 'cpu'?",
    "taken name": "it is defined at {path}:1:3",
}


@pytest.mark.parametrize("name", NEXT)
def test_a_slip_is_answered_with_the_next_step(name, tmp_path):
    (tmp_path / "mine.yaml").write_text(CASES[name][0])
    with pytest.raises(RuleError) as e:
        load_rules((tmp_path / "mine.yaml",))
    assert str(e.value).splitlines()[1].startswith("  next: " + NEXT[name].replace("{path}", str(tmp_path / "mine.yaml")))


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


@pytest.mark.parametrize("rhs", ["reshape(?x, shape=3)", "const(value='a')", "cast(?x, to=3)", "slice(?x, starts=1, limits=[1], steps=[0])",
                                 "einsum(?x, ?x, spec=3)", "concat(?x, ?x, axis='a')", "cumsum(?x, axis=9)",
                                 "topk(?x, k=1, axis=7)"])  # fmt: skip
def test_an_assumed_rule_with_attributes_of_another_form_does_not_fire(rhs, tmp_path):
    """Its right side has no type: the reason is in the explanation, and the program is what it is without."""
    path = tmp_path / "mine.yaml"
    path.write_text(rule(lhs="exp(?x)", rhs=rhs, assumed="true"))
    program = autocomp.optimize("graph g\ninput x: f32[4, 3]\n%0 = exp(x)\noutput y = %0\n", rules=[str(path)])
    assert program.verify().ratio <= 1
    assert "mine/a" not in program.rule_names or not [e for e in program.trace.of("rule") if e.name == "mine/a"]


def test_a_folder_and_bytes_are_no_rule_files(tmp_path):
    with pytest.raises(RuleError, match="cannot be read"):
        load_rules((tmp_path,))
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="not UTF-8 text"):
        load_rules((tmp_path / "mine.yaml",))
    (tmp_path / "mine.yaml").write_bytes(b"")
    assert len(load_rules((tmp_path / "mine.yaml",))) == len(load_rules())


def test_an_assumed_rule_that_unites_shapes_stops_the_run(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(rule(lhs="neg(?x)", rhs="reduce_sum(?x, axes=[0])", assumed="true"))
    graph = "graph g\ninput x: f32[4]\n%0 = neg(x)\noutput y = %0\n"
    with pytest.raises(RuleError, match=r"rule 'mine/a': unites tensors of different types: f32\[4\] and f32\[\]"):
        autocomp.optimize(graph, rules=[str(path)])


GEMM = "graph g\ninput x: f32[64, 48]\ninput w: f32[48, 40]\n%0 = matmul(x, w)\noutput y = %0\n"


def test_a_memory_that_the_chip_lacks_is_a_condition_that_fails(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(tiling(where="[fits(shared, 4 * ?bm)]"))
    program = autocomp.optimize(GEMM, rules=[str(path)])
    assert "chip cpu has no memory 'shared', but dram, l3, l2, l1" in program.explain(why_not="mine/a")


@pytest.mark.parametrize(("rhs", "limit"), [("tile(m: ?m + 1)", None), ("tile(threads: ?m + 1)", "40 rounds")])
def test_scheduling_rules_without_end_are_stopped(rhs, limit, tmp_path):
    """Tiles end at their axes; other fields at the budget, which the trace names."""
    key = rhs[5 : rhs.index(":")]
    path = tmp_path / "mine.yaml"
    path.write_text(f"- name: mine/more\n  phase: scheduling\n  match: 'tile({key}: ?m)'\n  rhs: '{rhs}'\n")
    program = autocomp.optimize(GEMM, rules=[str(path)])
    assert [e.data["limit"] for e in program.trace.of("budget") if e.name == "tiling"] == ([limit] if limit else [])
    program.verify()


def test_computed_tiles_without_elements_are_left_out(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("- name: mine/less\n  phase: scheduling\n  match: 'tile(m: ?m)'\n  rhs: 'tile(m: ?m - 64, n: 8)'\n")
    program = autocomp.optimize(GEMM, rules=[str(path)], tile_heuristic="first")
    program.verify()
    assert "-" not in program.kernels[0].schedule


@pytest.mark.parametrize(("head", "often", "tail"), [("lhs: a", " ", "b"), ("where: ", " a", ""), ("rhs: 'x", " #", "")])
def test_a_long_line_is_read_in_one_pass(head, often, tail, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(f"- name: a/b\n  {head}{often * 150_000}{tail}\n")
    with within(10), pytest.raises(RuleError):
        load_rules([str(path)])


def test_a_left_side_with_thousands_of_orders_is_refused(tmp_path):
    """Each op that commutes is matched in both orders, which doubles the left sides that egglog knows."""
    left = "?a0" + "".join(f", ?a{k})" for k in range(1, 14))
    path = tmp_path / "r.yaml"
    path.write_text(f"- name: a/b\n  phase: algebra\n  lhs: {'add(' * 13}{left}\n  rhs: ?a0\n  commutes: true\n  assumed: true\n")
    with within(10), pytest.raises(RuleError, match="commutes in 13 places, which is 8192 orders of operands; the limit is 256"):
        load_rules([str(path)])


def test_no_such_file_and_no_text(tmp_path):
    with pytest.raises(RuleError, match="cannot be read: No such file or directory"):
        load_rules((tmp_path / "none.yaml",))
    with pytest.raises(RuleError, match="a function is neither a file of rules nor a rule"):
        load_rules((lambda x: x,))  # type: ignore[arg-type]
    path = Path(tmp_path / "bytes.yaml")
    path.write_bytes(b"- name: \xff\xfe\n")
    with pytest.raises(RuleError, match="not UTF-8 text"):
        load_rules((path,))


@pytest.mark.parametrize(("given", "said", "hint"), [
    ({"lhs": "relu(relux(?x))"}, "unknown op 'relux', in `relu(relux(?x))`", "did you mean 'relu'?"),
    ({"where": ["is_floot(?x)"]}, "unknown function 'is_floot', in `is_floot(?x)`", "did you mean 'is_float'?"),
    ({"where": ["rank(?x) == 2", "rank(?y) == 2"]}, "?y is not bound by the pattern, in `rank(?y) == 2`", "bound are ?root, ?x"),
    ({"rhs": "relu(?y)"}, "?y is not bound by the pattern, in `relu(?y)`", "bound are ?root, ?x"),
])  # fmt: skip
def test_a_rule_from_python_is_refused_at_its_function(given, said, hint):
    def decorated():
        @autocomp.rule(**{"phase": "algebra", "name": "mine/a", "lhs": "relu(relu(?x))", "rhs": "relu(?x)", **given})
        def once():
            "the second does nothing"

    with pytest.raises(RuleError) as e:
        decorated()
    first = decorated.__code__.co_firstlineno + 1
    assert str(e.value) == f"test_bad_rules.py:{first}:1 rule 'mine/a': {said}\n  next: {hint}"


def test_a_rule_from_python_names_its_phase():
    with pytest.raises(RuleError, match=r'a rule names its phase\n  next: write @autocomp.rule\(phase="algebra"\)'):
        autocomp.rule(lambda x: (x, x))
