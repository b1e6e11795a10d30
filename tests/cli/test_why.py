"""`explain --why`: from the model's nodes to a kernel, each rule instance with values, evidence and what it saved."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

import autocomp
from autocomp.egraph.chains import MOST
from autocomp.egraph.saturate import saturate
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.report.chain import size_text
from autocomp.report.difference import bounds
from autocomp.report.explain import explain
from autocomp.report.why_not import near_misses, why_not
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.cli.test_cli import run

MODEL = """graph m
input x: f32[64, 128]
param w: f32[128, 96] = random(1)
param b: f32[96] = random(2)
%0 = matmul(x, w)
%1 = broadcast(b, shape=[64, 96])
%2 = add(%0, %1)
%3 = broadcast(const(1.0, f32), shape=[64, 96])
%4 = mul(%2, %3)
%5 = relu(%4)
output y = %5
"""
RULE = """- name: mine/twice
  phase: algebra
  lhs: add(?x, ?x)
  rhs: mul(?x, 2)
  where: [is_float(?x), rank(?x) <= 3]
  why: a test
  examples:
    - {x: "f32[3, 4]"}
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("why") / "m.txt"
    path.write_text(MODEL)
    return str(path)


def test_a_kernel_is_traced_to_rule_instances_with_values_evidence_and_savings(model):
    lines = run("explain", model, "--why", "matmul_add_relu")[0].splitlines()
    made = lines[lines.index("  made by") + 1 :]
    assert made[0].startswith("    algebra/mul-one (") and made[0].endswith("): needs nothing new for f32[64, 96]")
    assert made[1] == "      ?x = add f32[64, 96]"
    assert made[2] == "      shape(?root) == shape(?x): shape(?root) is [64, 96], shape(?x) is [64, 96]"
    assert made[3] == "    fusion/epilogue (checked-8): took matmul f32[64, 96] into operand 1 of add, saves 48 KB of memory traffic"
    assert made[4] == "      kind(?k) in [contraction, online]: kind(?k) is contraction"
    assert sum("fusion/epilogue (checked-8)" in line for line in made) == 2
    assert any("tiling/contract: the schedule (checked-" in line and "the cheapest of untiled is one tile" in line for line in made)


def test_the_chain_is_there_for_machines_and_after_the_cache(model):
    for _ in range(2):  # the second program comes from the cache
        chain = json.loads(run("explain", model, "--why", "matmul_add_relu", "--json")[0])["chain"]
        assert [s["rule"] for s in chain] == ["algebra/mul-one", "fusion/epilogue", "fusion/epilogue"]
        assert [s["bytes"] for s in chain] == [None, 49152, 49152] and chain[0]["evidence"].partition("-")[0] in ("proved", "tested")
        assert chain[0]["matched"] == {"x": "add f32[64, 96]"}


def test_what_a_rule_of_the_user_saved_by_the_model_is_said(tmp_path):
    rule, path = tmp_path / "mine.yaml", tmp_path / "m.txt"
    rule.write_text(RULE)
    path.write_text("graph g\ninput x: f32[512, 512]\n%0 = tanh(x)\n%1 = add(%0, %0)\noutput y = %1\n")
    program = autocomp.optimize(str(path), rules=[str(rule)], cache=False)
    (event,) = program.trace.of("chain")
    used = [s for s in event.data["steps"] if s["rule"] == "mine/twice"]
    if used:  # where the cover chose it
        assert used[0]["guards"] == [["is_float(?x)", ""], ["rank(?x) <= 3", "rank(?x) is 2"]]
        assert used[0]["matched"] == {"x": "tanh f32[512, 512]"}
        assert "mine/twice (" in program.explain(why=program.kernels[0].name)


def test_every_kernel_of_a_program_has_the_chain_of_its_own_cover():
    text = "graph g\ninput x: f32[32, 48]\n"
    for i in range(4):
        text += f"param w{i}: f32[48, 48] = random({i})\n%{2 * i} = matmul({'x' if not i else f'%{2 * i - 1}'}, w{i})\n"
        text += f"%{2 * i + 1} = softmax(%{2 * i}, axes=[1])\n"
    program = autocomp.optimize(text + "output y = %7\n", target="cuda:h200", cache=False)
    reasons = {tuple(e.data["reasons"]) for e in program.trace.of("chain")}
    assert {k.rules for k in program.kernels} <= reasons
    assert len(program.trace.of("chain")) < len(program.calls.calls) + 3  # layers that repeat have one
    assert all(len(e.data["steps"]) <= MOST for e in program.trace.of("chain"))


def test_instances_name_the_classes_that_they_made():
    rules = load_rules()
    frozen = saturate(parse(MODEL), rules, Options(), Trace())
    assert frozen.instances and all((rule, c) == (x.rule.name, c) for (rule, c), x in frozen.instances.items())
    for (rule, c), x in frozen.instances.items():
        assert any(n.why == rule for n in frozen.classes[c].nodes) or frozen.classes[c].nodes
        assert all(k in frozen.classes for _, k in x.tensors) and x.root in frozen.classes


def test_sizes_are_said_as_people_do():
    assert [size_text(n) for n in (7, 1024, 49152, 3 << 20, 5 << 30)] == ["7 bytes", "1 KB", "48 KB", "3 MB", "5 GB"]


def test_why_not_is_short_and_says_for_whom_a_rule_is():
    from autocomp.report.why_not import together

    long = "missing(dim(?x, rank(?x) - 1), 16 / bytes(dtype(?x)) / gcd(?t[rank(?x) - 3], 16 / bytes(dtype(?x))))"
    seen = {f"{long} is 0, dim(?x, rank(?x) - 1) is 128, rank(?x) is 4, bytes(dtype(?x)) is 4, dtype(?x) is f32, ?t is [2, 2]": 4}
    assert together(seen, f"{long} > 0") == "it is 0, rank(?x) is 4, dtype(?x) is f32, ?t is [2, 2]"
    program = autocomp.optimize(MODEL, verify=False)
    assert program.explain(why_not="tiling/npu-small").splitlines()[1].strip() == "it is for ascend alone, and this program is for cpu"


def test_a_kernel_of_the_program_is_named_before_one_of_another_cover():
    program = autocomp.optimize(MODEL, verify=False)
    mine = program.kernels[0].name
    condition = str(next(r for r in load_rules() if r.name == "tiling/contract").where[0])
    refusal = lambda kernel: {"kernel": kernel, "reason": f"{condition} is false", "count": 1}
    line, *_ = near_misses(program, "tiling/contract", [refusal("gone"), refusal(mine)])
    assert line.endswith(f"for example at kernel {mine}") or f"for example at kernel {mine} (" in line
    line, *_ = near_misses(program, "tiling/contract", [refusal("gone")])
    assert line.endswith("for example at kernel gone of a cover that was not chosen")


def test_a_rule_that_can_never_fire_is_said_where_it_did_not(tmp_path):
    (rules := tmp_path / "mine.yaml").write_text("""- name: mine/softmax
  phase: algebra
  lhs: neg(softmax(?x, axes=?a))
  rhs: mul(softmax(?x, axes=?a), -1)
  why: a test
""")
    program = autocomp.optimize(MODEL, rules=[str(rules)])
    told, _ = why_not(program, "mine/softmax", None)
    assert told.splitlines()[1].startswith("  it never fires: softmax is written out in other ops before rules run")


def test_a_kernel_whose_reduction_is_in_parts_has_its_name_too():
    text = "graph m\ninput x: f16[32, 16384]\ninput w: f16[16384, 64]\n%0 = matmul(x, w)\noutput y = %0\n"
    program = autocomp.optimize(text, target="cuda:h200")
    whole = next(c.of.name for c in program.calls.calls if c.of is not None)
    assert whole not in [k.name for k in program.kernels]
    told, _ = explain(program, why=whole)
    assert told.startswith(f"{whole}_part, called 1 time ({whole} in parts: {whole}_part, {whole}_join)")
    name = lambda bound: SimpleNamespace(name=bound, signature=bound, schedule="", bound=bound, predicted=1.0)
    assert bounds([name("launch"), name("matrix unit"), name("launch")]) == "launch and matrix unit"
