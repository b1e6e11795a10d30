"""Sizes that a model computes from open dimensions (Shape, arithmetic, Slice, Pad, Reshape): one program, right at every size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import autocomp
from autocomp.errors import UnsupportedOp

CONSTANTS = {
    "zero": np.array(0), "one": np.array(1), "two": np.array(2), "three": np.array(3), "four": np.array(4), "at0": np.array([0]),
    "at1": np.array([1]), "heads": np.array([4]), "end": np.array([2**31 - 1]), "back": np.array([-3]), "rows": np.array([-1, 16]),
    "fours": np.array([-1, 4, 3]),
}  # fmt: skip


def size(of: str, axis: str, name: str) -> list[tuple]:
    return [("Shape", [of], f"shape_{name}"), ("Gather", [f"shape_{name}", axis], name)]


def as_list(*names: str) -> list[tuple]:
    return [("Unsqueeze", [n, "at0"], f"{n}_") for n in names]


CASES = {  # nodes, shapes of the inputs, values of their symbols
    "the common rows": (
        [*size("a", "zero", "m"), *size("b", "zero", "n"), ("Min", ["m", "n"], "k"), *as_list("k"),
         ("Slice", ["a", "at0", "k_", "at0"], "c"), ("Slice", ["b", "at0", "k_", "at0"], "d"), ("Mul", ["c", "d"], "y")],
        {"a": ("A", 3), "b": ("B", 3)}, ((1, 1), (3, 9), (9, 3)),
    ),
    "two halves": (
        [*size("a", "zero", "n"), ("Div", ["n", "two"], "h"), *as_list("n", "h"), ("Slice", ["a", "at0", "h_", "at0"], "f"),
         ("Slice", ["a", "h_", "n_", "at0"], "g"), ("ReduceSum", ["g", "at0"], "s"), ("Add", ["f", "s"], "y")],
        {"a": ("A", 3)}, ((2,), (3,), (9,)),
    ),
    "heads": (
        [*size("a", "zero", "b"), *size("a", "one", "t"), *size("a", "two", "c"), ("Div", ["c", "four"], "h"), *as_list("b", "t", "h"),
         ("Concat", ["b_", "t_", "heads", "h_"], "by_head"), ("Reshape", ["a", "by_head"], "p"), ("Softmax", ["p"], "q"),
         ("Reshape", ["q", "rows"], "y")],
        {"a": ("B", "T", 16)}, ((1, 1), (3, 2), (2, 17)),
    ),
    "up to a multiple of four": (
        [*size("a", "zero", "n"), ("Add", ["n", "three"], "m"), ("Div", ["m", "four"], "q"), ("Mul", ["q", "four"], "r"),
         ("Sub", ["r", "n"], "d"), *as_list("d"), ("Concat", ["at0", "at0", "d_", "at0"], "pads"), ("Pad", ["a", "pads"], "p"),
         ("Reshape", ["p", "fours"], "w"),
         ("ReduceSum", ["w", "at1"], "y")],
        {"a": ("A", 3)}, ((1,), (4,), (9,)),
    ),
    "the last three": ([("Slice", ["a", "back", "end", "at0"], "s"), ("Neg", ["s"], "y")], {"a": ("A", 3)}, ((1,), (3,), (9,))),
    "the remainder left out": (
        [*size("a", "zero", "n"), ("Mod", ["n", "two"], "r"), *as_list("r"), ("Slice", ["a", "r_", "end", "at0"], "s"),
         ("Neg", ["s"], "y")],
        {"a": ("A", 3)}, ((2,), (3,), (9,)),
    ),
    "by the root of a length": ([*size("a", "one", "n"), ("Cast", ["n"], "f"), ("Sqrt", ["f"], "r"),
         ("Div", ["a", "r"], "y")], {"a": (2, "A")},
                                ((1,), (4,), (9,))),
}  # fmt: skip
ATTRIBUTES = {"Gather": {"axis": 0}, "Concat": {"axis": 0}, "ReduceSum": {"keepdims": 1}, "Cast": {"to": T.FLOAT}}


def model_of(nodes: list[tuple], shapes: dict[str, tuple]) -> onnx.ModelProto:
    made = [helper.make_node(op, x, [y], name=f"n{k}", **ATTRIBUTES.get(op, {})) for k, (op, x, y) in enumerate(nodes)]
    used = {x for _, names, _ in nodes for x in names}
    held = [numpy_helper.from_array(v, k) for k, v in CONSTANTS.items() if k in used]
    inputs = [helper.make_tensor_value_info(n, T.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(made, "open", inputs, [helper.make_tensor_value_info("y", T.FLOAT, None)], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("name", CASES)
def test_one_program_for_every_size(name: str):
    nodes, shapes, values = CASES[name]
    model = model_of(nodes, shapes)
    program, oracle = autocomp.optimize(model, target="cpu", cache=False), ReferenceEvaluator(model)
    symbols = [d for s in shapes.values() for d in s if isinstance(d, str)]
    rng = np.random.default_rng(0)
    for chosen in values:
        by = dict(zip(symbols, chosen, strict=True))
        feed = {n: rng.standard_normal([by.get(d, d) for d in s]).astype("f4") for n, s in shapes.items()}
        (want,) = oracle.run(None, feed)
        got = np.asarray(program(**feed))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("nodes", "said"), [
    ([*size("a", "zero", "n"), ("Sub", ["n", "four"], "m"), *as_list("m"), ("Slice", ["a", "m_", "end", "at0"], "y")],
     "the size A - 4 may be -3"),
    ([("Reshape", ["a", "fours"], "y")], r"reshapes f32\[A, 3\] into 4, 3 and a rest that is no size"),
])  # fmt: skip
def test_what_is_no_size_is_refused(nodes: list[tuple], said: str):
    with pytest.raises(UnsupportedOp, match=said):
        autocomp.optimize(model_of(nodes, {"a": ("A", 3)}), target="cpu", cache=False)
