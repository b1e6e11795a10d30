"""Each rule of algebra and layout changes what is computed, and taking it out changes it back."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.errors import RuleError
from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import DTYPES, F32, TensorType
from autocomp.options import Options
from autocomp.rewrite import parse_rules
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace
from tests.helpers.covers import run_cover


def compiled(graph: Graph, without: tuple[str, ...] = ()) -> KernelGraph:
    opts = Options()
    rules = load_rules(without=without, options=opts)
    return cover(saturate(decompose(graph), rules, opts, Trace()), rules, load_chip("h200"), opts, Trace())


def ops(k: KernelGraph) -> list[str]:
    return sorted(o for c in k.calls for o in c.ops)


def unary(*chain: tuple[str, float | None]) -> Graph:
    """exp(x), then the ops of the chain with their constants."""
    b = Builder("chain")
    x: Node = b.op("exp", b.input("x", TensorType(F32, (5, 37))))
    for op, c in chain:
        x = b.op(op, x) if c is None else b.op(op, x, b.const(c, F32))
    b.output("y", x)
    return b.graph()


def check(graph: Graph, k: KernelGraph) -> None:
    rng = np.random.default_rng(3)
    x = {n.attrs["name"]: rng.standard_normal(n.type.shape).astype("f4") for n in graph.inputs}
    np.testing.assert_allclose(run_cover(k, x)["y"], reference.evaluate(graph, x)["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rule", "chain", "gone"), [
    ("algebra/mul-one", [("mul", 1.0)], "mul"),
    ("algebra/add-zero", [("add", 0.0)], "add"),
    ("algebra/sub-zero", [("sub", 0.0)], "sub"),
    ("algebra/div-one", [("div", 1.0)], "div"),
    ("algebra/neg-neg", [("neg", None), ("neg", None)], "neg"),
    ("algebra/square", [("pow", 2.0)], "pow"),
    ("algebra/div-constant", [("div", 3.0)], "div"),
])  # fmt: skip
def test_an_op_goes_with_its_rule_only(rule: str, chain: list[tuple[str, float | None]], gone: str) -> None:
    graph = unary(*chain)
    k = compiled(graph)
    assert gone not in ops(k)
    check(graph, k)
    others = ("algebra/div-*",) if rule == "algebra/div-one" else ()
    assert gone in ops(compiled(graph, (rule, *others)))


def test_a_power_of_two_divides_exactly_by_a_product() -> None:
    graph = unary(("div", 8.0))
    assert "div" not in ops(compiled(graph, ("algebra/div-constant",)))
    assert "div" in ops(compiled(graph, ("algebra/div-*",)))


def scaled(product: str) -> Graph:
    """A product with parameters, its bias and its scale."""
    b, rng = Builder("scaled"), np.random.default_rng(0)
    lead = (1, 4, 1, 1) if product == "conv" else (4,)
    w, v, s = (b.param(n, rng.standard_normal(d).astype("f4")) for n, d in
               (("w", (4, 3, 3, 3) if product == "conv" else (6, 4)), ("v", lead), ("s", lead)))  # fmt: skip
    x = b.input("x", TensorType(F32, (2, 3, 7, 9) if product == "conv" else (25, 6)))
    y = b.op("conv", x, w, strides=(1, 1), dilations=(1, 1), groups=1, lo=(1, 1), hi=(1, 1)) if product == "conv" else b.op("matmul", x, w)
    b.output("y", b.op("mul", b.op("add", y, v), s))
    return b.graph()


@pytest.mark.parametrize(("product", "rule"), [("matmul", "algebra/scale-into-weight"), ("conv", "algebra/scale-into-filters")])
def test_a_scale_behind_a_bias_is_folded_into_the_parameters(product: str, rule: str) -> None:
    graph = scaled(product)
    k = compiled(graph)
    assert "mul" not in ops(k)
    check(graph, k)
    assert "mul" in ops(compiled(graph, (rule,)))
    assert "mul" in ops(compiled(graph, ("algebra/scale-over-shift",)))


@pytest.mark.parametrize(("rule", "op", "attr", "there", "back"), [
    ("layout/*transpose*", "transpose", "perm", (1, 2, 0), (2, 0, 1)),
    ("*/*reshape*", "reshape", "shape", (35, 3), (5, 7, 3)),
])  # fmt: skip
def test_views_there_and_back_are_gone(rule: str, op: str, attr: str, there: tuple[int, ...], back: tuple[int, ...]) -> None:
    b = Builder("views")
    x = b.op(op, b.op("exp", b.input("x", TensorType(F32, (5, 7, 3)))), **{attr: there})
    b.output("y", b.op(op, x, **{attr: back}))
    graph = b.graph()
    k = compiled(graph)
    assert ops(k) == ["exp"]
    check(graph, k)
    assert op in ops(compiled(graph, (rule,)))


def test_a_quoted_condition_is_refused() -> None:
    text = "- {name: a/b, phase: algebra, lhs: exp(?x), rhs: '?x', where: ['\"rank(?x) == 1\"']}\n"
    with pytest.raises(RuleError, match="a quoted condition is a word, which always holds"):
        parse_rules(text, "bad.yaml")


@pytest.mark.parametrize(("text", "signs"), [
    ("add(x, const(0.0, f32))", [False, False]),     # -0.0 + 0.0 is 0.0
    ("sub(x, const(0.0, f32))", [True, False]),
    ("add(x, const(-0.0, f32))", [True, False]),
    ("sub(x, const(-0.0, f32))", [False, False]),
    ("sub(x, const(1.0, f32))\n%1 = max(%0, const(0.0, f32))", [False, False]),  # the larger of -1 and 0.0
    ("sub(x, const(1.0, f32))\n%1 = max(%0, const(-0.0, f32))", [True, True]),
    ("pad(x, lo=[1], hi=[1], value=0.0)", [False, True, False, False]),
    ("pad(x, lo=[1], hi=[1], value=-0.0)", [True, True, False, True]),
])  # fmt: skip
def test_exact_programs_keep_the_sign_of_zero(text, signs):
    program = autocomp.optimize(f"graph g\ninput x: f32[2]\n%0 = {text}\noutput y = %{int('%1' in text)}\n", exact=True)
    assert np.signbit(program(np.array([-0.0, 0.0], "f4"))).tolist() == signs


@pytest.mark.parametrize("dtype", ["f8e4m3", "bf16"])
def test_scales_are_folded_where_the_type_holds_what_they_make(dtype: str) -> None:
    """30 times 20 is more than 448, and NaN in f8e4m3; with inputs of 1/64 the products are 37.5."""
    b = Builder("scaled")
    t = lambda *shape: TensorType(DTYPES[dtype], shape)
    x, w = b.input("x", t(3, 4)), b.param("w", np.full((4, 5), 30.0).astype(DTYPES[dtype].numpy))
    b.output("y", b.op("mul", b.op("matmul", x, w), b.param("s", np.full(5, 20.0).astype(DTYPES[dtype].numpy))))
    program = autocomp.optimize(b.graph())
    assert ("algebra/scale-into-weight" in program.explain()) == (dtype == "bf16")
    y = np.asarray(program(np.full((3, 4), 2.0**-6).astype(DTYPES[dtype].numpy)), np.float64)
    assert np.allclose(y, 37.5, rtol=0.07)
