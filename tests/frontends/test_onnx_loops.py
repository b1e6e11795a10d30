"""ONNX recurrences over open sizes are the loops of static ones."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import autocomp
from autocomp.frontends.onnx import load_onnx
from autocomp.ir.loop_bodies import loops_of
from autocomp.ir.reference import evaluate

RNG = np.random.default_rng(3)


def model(op, gates, sizes, direction, lengths=False):
    """One recurrence of 4 inputs and 5 hidden, both sizes of its sequences given as numbers or names."""
    ways = 2 if direction == "bidirectional" else 1
    rng = np.random.default_rng(7)
    given = {"w": (ways, gates * 5, 4), "r": (ways, gates * 5, 5), "b": (ways, 2 * gates * 5)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype("f4"), n) for n, s in given.items()]
    names = ["x", "w", "r", "b", *(["n"] if lengths else [])]
    outs = ["y", "h", *(["c"] if op == "LSTM" else [])]
    node = helper.make_node(op, names, outs, hidden_size=5, direction=direction)
    ins = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [*sizes, 4])]
    ins += [helper.make_tensor_value_info("n", TensorProto.INT32, sizes[1:])] if lengths else []
    values = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outs]
    graph = helper.make_graph([node], "g", ins, values, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(("op", "gates", "direction", "lengths"),
                         [("LSTM", 4, "bidirectional", False), ("GRU", 3, "forward", True), ("RNN", 1, "reverse", False)])  # fmt: skip
def test_open_sizes(op, gates, direction, lengths):
    program = autocomp.optimize(model(op, gates, ["steps", "batch"], direction, lengths), target="cpu")
    assert len(program.calls.loops) == (2 if direction == "bidirectional" else 1)
    for steps, batch in ((1, 2), (9, 3), (40, 1)):
        feed = {"x": RNG.standard_normal((steps, batch, 4)).astype("f4")}
        if lengths:
            feed["n"] = RNG.integers(0, steps + 1, batch).astype("i4")
        want = evaluate(load_onnx(model(op, gates, [steps, batch], direction, lengths)), feed)
        for name, got in program.run(feed).items():
            np.testing.assert_allclose(got, want[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_many_steps_are_one_loop():
    short, long = (load_onnx(model("LSTM", 4, [n, 2], "forward")) for n in (8, 5000))
    assert len(short.nodes()) == len(long.nodes())
    assert {n.attrs["trips"] for n in loops_of(long)} == {5000}
