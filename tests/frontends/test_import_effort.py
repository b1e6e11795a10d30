"""What is computed of constants while a model is read is counted, and the deadline leaves to later stages what it may."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.frontends.onnx import constants
from autocomp.frontends.onnx.constants import _operations
from autocomp.ir.builder import Builder
from autocomp.ir.types import DTYPES, TensorType
from tests.helpers.clocks import over_in

CHAIN = 12


def model(needed: bool) -> bytes:
    """x + (w w .. w), a matrix times itself over and over; `needed`: a shape is made of it."""
    w = numpy_helper.from_array(np.eye(60, dtype=np.float32), "w0")
    nodes = [helper.make_node("MatMul", [f"w{k}", "w0"], [f"w{k + 1}"]) for k in range(CHAIN)]
    out = [60, 60]
    if needed:
        nodes += [
            helper.make_node("ReduceMax", [f"w{CHAIN}"], ["m"], axes=[0, 1], keepdims=0),
            helper.make_node("Cast", ["m"], ["one"], to=TensorProto.INT64),
            helper.make_node("Unsqueeze", ["one", "first"], ["shape1"]),
            helper.make_node("Concat", ["shape1", "rest"], ["shape"], axis=0),
            helper.make_node("Reshape", ["x", "shape"], ["y"]),
        ]
        more = [numpy_helper.from_array(np.array([v], np.int64), name) for name, v in (("first", 0), ("rest", 3600))]
        out = [1, 3600]
    else:
        nodes.append(helper.make_node("Add", ["x", f"w{CHAIN}"], ["y"]))
        more = []
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [60, 60])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, out)], [w, *more])  # fmt: skip
    return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString())


def test_operations_are_counted_by_what_an_op_runs_over():
    b = Builder("g")
    x = b.input("x", TensorType(DTYPES["f32"], (64, 32)))
    y = b.input("y", TensorType(DTYPES["f32"], (32, 16)))
    assert _operations(b.op("matmul", x, y)) == 64 * 32 * 16
    assert _operations(b.op("exp", x)) == 64 * 32
    assert _operations(b.op("reduce_sum", x, axes=(0, 1), keepdims=False)) == 64 * 32


@pytest.mark.parametrize("needed", [False, True])
def test_constants_of_many_operations(monkeypatch, needed):
    """What nobody needs while compiling is left to later stages; what must be known is refused with the figures."""
    x = np.random.default_rng(0).standard_normal((60, 60)).astype(np.float32)
    want = autocomp.optimize(model(needed), cache=False)(x)
    monkeypatch.setattr(constants, "FOLD_OPERATIONS", 5 * 60**3)
    if needed:
        with pytest.raises(UnsupportedOp, match=f"must be known while compiling, but computing .* more than {5 * 60**3} operations"):
            autocomp.optimize(model(needed), cache=False)
        return
    program = autocomp.optimize(model(needed), cache=False)
    assert sum(n.op == "matmul" for n in program.graph.nodes()) == CHAIN - 3
    np.testing.assert_allclose(program(x), want)


def test_the_deadline_ends_folding_and_the_program_is_right(monkeypatch):
    trace = over_in(monkeypatch, "import")
    program = autocomp.optimize(model(False), cache=False, trace=trace)
    assert sum(n.op == "matmul" for n in program.graph.nodes()) == CHAIN
    assert "ended import, which left out constants of constants, left to later stages" in program.explain()
    monkeypatch.undo()
    program.verify()
    assert autocomp.optimize(model(True), cache=False, deadline=1e-9).verify().ratio <= 1


def test_a_traced_function_that_does_not_end(monkeypatch):
    monkeypatch.setattr("autocomp.frontends.tracing.array.NODES", 500)

    def forever(x):
        while True:
            x = x * 1.5

    with pytest.raises(UnsupportedOp, match=r"test_import_effort.py:\d+ in forever .*: makes more than 500 operations"):
        autocomp.optimize(forever, example_inputs=np.ones(3, np.float32))
