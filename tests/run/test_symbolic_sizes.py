"""What depends on a symbolic size alone is computed when a program runs: at every size, from every front end."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autocomp
from autocomp.errors import ModelError, VerificationError
from autocomp.frontends.text import parse
from autocomp.frontends.tracing import trace
from autocomp.ir.reference import evaluate, evaluate_nodes
from autocomp.ir.types import F32, Sym, TensorType
from autocomp.runtime.inputs import random_inputs, sizes_to_try
from autocomp.runtime.verify import verify
from tests.helpers.repeats import repeats

SIZES = (1, 2, 3, 7, 64)
X = "graph g\ndim n in 1..64\ninput x: f32[n, 4]\n"
TEXTS = {
    "ones": "%0 = broadcast(const(2.0, f32), shape=[n, 4])\n%1 = exp(%0)",
    "ones times x": "%0 = broadcast(const(2.0, f32), shape=[n, 4])\n%1 = exp(%0)\n%2 = mul(x, %1)",
    "a parameter spread": "%0 = broadcast(w, shape=[n, 4])\n%1 = exp(%0)\n%2 = transpose(%1, perm=[1, 0])",
    "iota": "%0 = iota(shape=[n, 4], axis=0, dtype='f32')\n%1 = mul(%0, %0)",
    "a sum over it": "%0 = broadcast(w, shape=[n, 4])\n%1 = exp(%0)\n%2 = reduce_sum(%1, axes=[0])",
    "a sum that is spread": "%0 = iota(shape=[n], axis=0, dtype='f32')\n%1 = reduce_sum(%0, axes=[0])\n%2 = add(x, %1)",
    "a product with it": "%0 = broadcast(w, shape=[n, 4])\n%1 = transpose(%0, perm=[1, 0])\n%2 = matmul(%1, x)",
    "a mask": "%0 = iota(shape=[n, n], axis=0)\n%1 = iota(shape=[n, n], axis=1)\n%2 = ge(%0, %1)\n"
              "%3 = broadcast(const(0.0, f32), shape=[n, n])\n"
              "%4 = broadcast(const(-inf, f32), shape=[n, n])\n%5 = where(%2, %3, %4)\n%6 = softmax(%5, axes=[1])\n%7 = matmul(%6, x)",
    "a running sum": "%0 = broadcast(const(1.5, f32), shape=[n, 4])\n%1 = cumsum(%0, axis=0)",
    "extent": "%0 = extent(x, axis=0, dtype='f32')\n%1 = div(x, %0)",
    "the largest": "%0 = iota(shape=[n, 3], axis=0, dtype='f32')\n%1 = reduce_max(%0, axes=[0, 1])",
}  # fmt: skip


def text_of(body):
    param = "param w: f32[4] = values(0.5, -1, 2, 3)\n" if "w" in body.replace("where", "") else ""
    return f"{X}{param}{body}\noutput y = {body.splitlines()[-1].split(' ')[0]}\n"


@pytest.mark.parametrize("name", TEXTS)
def test_text(name):
    graph = parse(text_of(TEXTS[name]))
    program = autocomp.optimize(graph, target="cpu", cache=False)
    for n in SIZES:
        x = np.random.default_rng(n).standard_normal((n, 4)).astype("f4")
        want = evaluate(graph, {"x": x})["y"]
        got = program(x)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def onnx_model(nodes, constants, output, rank=2, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info(output, kind, [None] * rank)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


N = helper.make_node
BATCH = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "zero"], ["b"]), N("Reshape", ["b", "one"], ["b1"])]
NUMBERS = {"zero": np.int64(0), "one": np.array([1]), "unit": np.int64(1), "row": np.array([[0.5, -1, 2, 3]], "f4")}
ONNX = {
    "ConstantOfShape": ([N("Shape", ["x"], ["s"]), N("ConstantOfShape", ["s"], ["c"], value=helper.make_tensor("v", 1, [1], [2.5])),
                         N("Exp", ["c"], ["y"])], 2, lambda x: np.full(x.shape, np.exp(2.5))),
    "Expand": ([N("Shape", ["x"], ["s"]), N("Expand", ["row", "s"], ["c"]), N("Exp", ["c"], ["y"])], 2,
               lambda x: np.exp(np.broadcast_to(NUMBERS["row"], x.shape))),
    "sum of Expand": ([N("Shape", ["x"], ["s"]), N("Expand", ["row", "s"], ["c"]), N("ReduceSum", ["c", "zero_"], ["y"], keepdims=0)], 1,
                      lambda x: np.broadcast_to(NUMBERS["row"], x.shape).sum(0)),
    "Range": ([*BATCH, N("Range", ["zero", "b", "unit"], ["r"]), N("Cast", ["r"], ["f"], to=1), N("Reshape", ["f", "column"], ["c"]),
               N("Mul", ["c", "x"], ["y"])], 2, lambda x: np.arange(len(x))[:, None] * x),
    "Range alone": ([*BATCH, N("Range", ["zero", "b", "unit"], ["r"]), N("Cast", ["r"], ["f"], to=1), N("Sqrt", ["f"], ["y"])], 1,
                    lambda x: np.sqrt(np.arange(len(x)))),
    "Size": ([*BATCH, N("Cast", ["b"], ["f"], to=1), N("Div", ["x", "f"], ["y"])], 2, lambda x: x / len(x)),
    "a mask": ([*BATCH, N("Range", ["zero", "b", "unit"], ["r"]), N("Unsqueeze", ["r", "one"], ["c"]), N("Less", ["r", "c"], ["m"]),
                N("Cast", ["m"], ["f"], to=1), N("MatMul", ["f", "x"], ["y"])], 2,
               lambda x: np.tril(np.ones((len(x), len(x))), -1) @ x),
}  # fmt: skip


@pytest.mark.parametrize("name", ONNX)
def test_onnx(name):
    nodes, rank, want = ONNX[name]
    model = onnx_model(nodes, {**NUMBERS, "zero_": np.array([0]), "column": np.array([-1, 1])}, "y", rank)
    program = autocomp.optimize(model, target="cpu", cache=False, dims={"batch": (1, 64)})
    for n in SIZES:
        x = np.random.default_rng(n).standard_normal((n, 4)).astype("f4")
        got = program(x)
        assert got.shape == want(x).shape
        np.testing.assert_allclose(got, want(x), rtol=1e-4, atol=1e-5)


def test_traced():
    w = np.array([[0.5, -1, 2, 3]], "f4")

    def f(x):
        spread = np.exp(np.zeros_like(x) + w)
        return spread, spread.sum(axis=0), np.ones_like(x) * np.float32(3), x + np.zeros_like(x)

    graph = trace(f, TensorType(F32, (Sym("n", 1, 64), 4)))
    program = autocomp.optimize(graph, target="cpu", cache=False)
    for n in SIZES:
        x = np.random.default_rng(n).standard_normal((n, 4)).astype("f4")
        for got, want in zip(program(x), f(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_size_that_is_not_known_is_no_silent_one():
    n = parse(text_of(TEXTS["ones"])).outputs[0][1]
    with pytest.raises(ModelError, match=r"the size of f32\[n, 4\] is not known"):
        evaluate_nodes((n,), {}, {}, float64=True)


# ---- verification
def test_sizes_that_are_tried():
    graph = parse("graph g\ndim n in 2..64 multiple 2\ndim m in 1..2147483647\ndim k in 5..9\n"
                  "input x: f32[n, m, 3]\ninput y: f32[k]\n%0 = exp(x)\noutput a = %0\noutput b = y\n")
    tried = sizes_to_try(graph)
    assert tried[0] == {"n": 2, "m": 1, "k": 5}
    assert tried[-1] == {"n": 64, "m": 1021, "k": 9}
    assert len(tried) == 4
    assert all(s["n"] % 2 == 0 and 2 <= s["n"] <= 64 and 5 <= s["k"] <= 9 for s in tried)
    assert sizes_to_try(graph) == tried
    assert sizes_to_try(parse("graph g\ninput x: f32[3]\noutput y = x\n")) == [{}]
    large = parse("graph g\ndim n in 1..5000\ndim m in 1..5000\ndim k in 1..5000\ninput x: f32[n, m, k]\n%0 = exp(x)\noutput y = %0\n")
    assert all(np.prod(list(s.values())) <= 2**22 for s in sizes_to_try(large))


@pytest.mark.parametrize("wrong", ["least", "odd", "most"])
def test_verification_looks_at_every_size(wrong):
    graph = parse("graph g\ndim n in 1..64\ninput x: f32[n, 4]\n%0 = exp(x)\noutput y = %0\n")
    sizes = [s["n"] for s in sizes_to_try(graph)]
    bad = {"least": sizes[0], "odd": sizes[1], "most": sizes[-1]}[wrong]

    def run(feed):
        return {"y": np.exp(feed["x"]) * (2 if len(feed["x"]) == bad else 1)}

    program = SimpleNamespace(graph=graph, name="g", kernels=(), run=run)
    with pytest.raises(VerificationError, match=f"times the allowed error.*, n = {bad}"):
        verify(program)
    assert verify(program, random_inputs(graph, 0, {"n": 9})).sizes == {"n": 9}


@pytest.mark.parametrize(("shape", "new"), [
    (["a", "b", "c", 8], [0, 0, 0, 2, 4]), (["n"], [1, -1]), (["n", 2, 1], [1, -1, 2, 1]), (["x" * 300, 12], [0, 3, 4]),
])  # fmt: skip
def test_a_reshape_alone(shape, new):
    """Products of limits go beyond 64 bits; dimensions of 1 stand beside symbols."""
    graph = helper.make_graph([N("Reshape", ["x", "s"], ["y"])], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * len(new))],
                              [onnx.numpy_helper.from_array(np.array(new), "s")])  # fmt: skip
    program = autocomp.optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), cache=False)
    for n in (1, 3):
        x = np.random.default_rng(n).standard_normal([d if isinstance(d, int) else n for d in shape]).astype("f4")
        np.testing.assert_array_equal(program(x), x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(new)]))


APART = {  # rows of a factor lie a product of sizes apart
    "both": ("x: {0}[70, n, 24]", "%0 = transpose({x}, perm=[1, 0, 2])\n%1 = transpose({x}, perm=[1, 2, 0])\n%2 = matmul(%0, %1)"),
    "the left": ("x: {0}[37, n, 3, 21] y: {0}[n, 3, 21, 50]", "%0 = transpose({x}, perm=[1, 2, 0, 3])\n%2 = matmul(%0, {y})"),
    "the right": ("x: {0}[n, 37, 24] y: {0}[50, n, 24]", "%1 = transpose({y}, perm=[1, 2, 0])\n%2 = matmul({x}, %1)"),
    "depth": ("x: {0}[21, n, 40] y: {0}[n, 21, 33]", "%0 = transpose({x}, perm=[1, 2, 0])\n%2 = matmul(%0, {y})"),
}


@pytest.mark.parametrize("dtype", ["f32", repeats("f16", of="f32"), "i8"])
@pytest.mark.parametrize("name", APART)
def test_factors_whose_rows_lie_a_symbolic_step_apart_are_multiplied_in_tiles(name, dtype):
    given, body = APART[name]
    given = given.format(dtype).replace("] ", "]\n")
    x, y = ("x", "y") if dtype != "i8" else ("%x", "%y")
    casts = "".join(f'%{v} = cast({v}, to="i32")\n' for v in "xy"[: given.count(":")]) if dtype == "i8" else ""
    inputs = "".join(f"input {line}\n" for line in given.splitlines())
    graph = parse(f"graph g\ndim n in 1..64\n{inputs}{casts}{body.format(x=x, y=y)}\noutput out = %2\n")
    program = autocomp.optimize(graph, target="cpu", cache=False)
    assert "panel0" in program.source(), "no register tiles"
    for n in (1, 2, 5):
        program.verify(random_inputs(graph, n, {"n": n}))


TABLES = {
    "one": "%4 = mul(x, %3)",
    "two": "%5 = cos(%2)\n%6 = exp(x)\n%7 = mul(%6, %5)\n%8 = mul(x, %3)\n%4 = add(%7, %8)",
}


@pytest.mark.parametrize("length", ["1..40", "1..2147483647"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_positions_are_made_in_vectors(name, length):
    """Sines of positions times frequencies, one table for all heads: a position fits in a lane, and the table is no single value a row."""
    graph = parse(f"graph g\ndim n in {length}\ninput x: f32[3, n, 40]\ninput w: f32[40]\n%0 = iota(shape=[n, 1], axis=0, dtype=\"i64\")\n"
                  f'%1 = cast(%0, to="f32")\n%2 = mul(%1, w)\n%3 = sin(%2)\n{TABLES[name]}\noutput out = %4\n')  # fmt: skip
    program = autocomp.optimize(graph, target="cpu", cache=False)
    source = program.source()
    assert "vf_sin(" in source and not any(f" s_{f}(" in source for f in ("sin", "cos")), "lane by lane"
    for n in (1, 7, 40):
        program.verify(random_inputs(graph, n, {"n": n}))
