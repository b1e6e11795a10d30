"""Small valid ONNX models for the net of hostile ones: some made here, of several nodes and with graphs in their attributes, and the
single-node models of the onnx package's own suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LARGEST = 20_000  # bytes of a model of the suite


def _model(name: str, nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, list[int | str]]], outputs: list[str],
           fixed: dict[str, Any], ranks: dict[str, int] | None = None) -> onnx.ModelProto:  # fmt: skip
    """`ranks`: of outputs whose shapes are not inferred."""
    shown = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
    graph = helper.make_graph(nodes, name, shown, [helper.make_empty_tensor_value_info(o) for o in outputs],
                              [numpy_helper.from_array(v, k) for k, v in fixed.items()])  # fmt: skip
    bare = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    known = {v.name: v for v in onnx.shape_inference.infer_shapes(bare).graph.output}
    del bare.graph.output[:]
    bare.graph.output.extend(known[o] for o in outputs)
    for o in bare.graph.output:
        for _ in range((ranks or {}).get(o.name, 0)):
            o.type.tensor_type.shape.dim.add()
    return bare


def _values(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(np.float32)


def _numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


N, F, I = helper.make_node, TensorProto.FLOAT, TensorProto.INT64


def mlp() -> onnx.ModelProto:
    nodes = [N("MatMul", ["x", "w"], ["h"]), N("Add", ["h", "b"], ["s"]), N("Relu", ["s"], ["r"]),
             N("Gemm", ["r", "v", "c"], ["g"], transB=1), N("Softmax", ["g"], ["y"], axis=-1)]  # fmt: skip
    fixed = {"w": _values(6, 8), "b": _values(8), "v": _values(5, 8), "c": _values(5)}
    return _model("mlp", nodes, {"x": (F, ["batch", 6])}, ["y"], fixed)


def convolution() -> onnx.ModelProto:
    nodes = [N("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[1, 2]),
             N("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]), N("Relu", ["n"], ["r"]),
             N("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), N("GlobalAveragePool", ["p"], ["g"]),
             N("Flatten", ["g"], ["y"])]  # fmt: skip
    fixed = {"w": _values(4, 3, 3, 3), "b": _values(4), "s": _values(4), "m": _values(4), "v": abs(_values(4)) + 1}
    return _model("convolution", nodes, {"x": (F, [1, 3, 9, 10])}, ["y"], fixed)


def shapes() -> onnx.ModelProto:
    nodes = [N("Shape", ["x"], ["s"]), N("Gather", ["s", "zero"], ["n"], axis=0), N("Unsqueeze", ["n", "axes"], ["n1"]),
             N("Concat", ["n1", "rest"], ["to"], axis=0), N("Reshape", ["x", "to"], ["r"]), N("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
             N("Slice", ["t", "starts", "ends", "axes1", "steps"], ["sl"]), N("Expand", ["sl", "wide"], ["e"]),
             N("ReduceSum", ["e", "axes1"], ["y"], keepdims=0), N("Pad", ["sl", "pads", "value"], ["z"])]  # fmt: skip
    fixed = {"zero": np.array(0, np.int64), "axes": _numbers(0), "rest": _numbers(3, -1), "starts": _numbers(0), "ends": _numbers(4),
             "axes1": _numbers(1), "steps": _numbers(2), "wide": _numbers(1, 1, 3), "pads": _numbers(0, 1, 0, 0, 0, 2),
             "value": np.array(0.5, np.float32)}  # fmt: skip
    return _model("shapes", nodes, {"x": (F, [2, 12])}, ["y", "z"], fixed)


def attention() -> onnx.ModelProto:
    nodes = [N("MatMul", ["x", "wq"], ["q"]), N("MatMul", ["x", "wk"], ["k"]), N("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
             N("MatMul", ["q", "kt"], ["s"]), N("Div", ["s", "root"], ["d"]), N("Where", ["mask", "d", "low"], ["m"]),
             N("Softmax", ["m"], ["p"]), N("MatMul", ["p", "x"], ["o"]), N("LayerNormalization", ["o", "g", "b"], ["y"])]  # fmt: skip
    fixed = {"wq": _values(8, 4), "wk": _values(8, 4, seed=1), "root": np.array(2, np.float32), "low": np.array(-1e9, np.float32),
             "mask": np.tril(np.ones((5, 5), bool)), "g": _values(8), "b": _values(8)}  # fmt: skip
    return _model("attention", nodes, {"x": (F, [2, 5, 8])}, ["y"], fixed)


def recurrent() -> onnx.ModelProto:
    nodes = [N("LSTM", ["x", "w", "r", "b"], ["a", "h", "c"], hidden_size=4, direction="bidirectional"),
             N("GRU", ["x", "w3", "r3"], ["g", ""], hidden_size=4, linear_before_reset=1), N("Squeeze", ["h"], ["y"])]  # fmt: skip
    fixed = {"w": _values(2, 16, 3), "r": _values(2, 16, 4), "b": _values(2, 32), "w3": _values(1, 12, 3), "r3": _values(1, 12, 4)}
    return _model("recurrent", nodes, {"x": (F, [3, 2, 3])}, ["y", "a", "g"], fixed)


def control() -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    whole: list[int | str] = [3, 4]
    row, flag = [4], TensorProto.BOOL
    body = helper.make_graph([N("Add", ["carried", "x"], ["next"]), N("Identity", ["go"], ["more"]), N("Neg", ["next"], ["seen"])], "body",
                             [value("i", I, []), value("go", flag, []), value("carried", F, whole)],
                             [value("more", flag, []), value("next", F, whole), value("seen", F, whole)])  # fmt: skip
    then, other = (helper.make_graph([N(op, ["x"], [f"{op}_out"])], op, [], [value(f"{op}_out", F, whole)]) for op in ("Relu", "Abs"))
    step = helper.make_graph([N("Add", ["state", "row"], ["sum"]), N("Identity", ["sum"], ["scan"])], "step",
                             [value("state", F, row), value("row", F, row)], [value("sum", F, row), value("scan", F, row)])  # fmt: skip
    nodes = [N("Loop", ["times", "yes", "x"], ["last", "all"], body=body),
             N("If", ["yes"], ["picked"], then_branch=then, else_branch=other),
             N("Scan", ["start", "x"], ["state_out", "scanned"], body=step, num_scan_inputs=1)]  # fmt: skip
    fixed = {"times": np.array(3, np.int64), "yes": np.array(True), "start": _values(4)}
    return _model("control", nodes, {"x": (F, whole)}, ["last", "all", "picked", "state_out", "scanned"], fixed,
                  {"last": 2})  # fmt: skip


def quantised() -> onnx.ModelProto:
    nodes = [N("QuantizeLinear", ["x", "s", "z"], ["q"]), N("MatMulInteger", ["q", "w", "z", "zw"], ["m"]),
             N("Cast", ["m"], ["f"], to=F), N("DequantizeLinear", ["q", "s", "z"], ["d"]), N("Clip", ["d", "low", "high"], ["c"]),
             N("TopK", ["f", "k"], ["top", "at"])]  # fmt: skip
    fixed = {"s": np.array(0.05, np.float32), "z": np.array(128, np.uint8), "w": np.arange(24, dtype=np.int8).reshape(4, 6),
             "zw": np.array(2, np.int8), "low": np.array(-1, np.float32), "high": np.array(1, np.float32), "k": _numbers(2)}  # fmt: skip
    return _model("quantised", nodes, {"x": (F, [3, 4])}, ["f", "c", "top", "at"], fixed)


def pieces() -> onnx.ModelProto:
    nodes = [N("Split", ["x", "sizes"], ["a", "b", "c"], axis=1), N("Concat", ["c", "a", "b"], ["j"], axis=1),
             N("Gather", ["j", "at"], ["g"], axis=1), N("ScatterND", ["j", "where", "what"], ["u"]), N("CumSum", ["u", "axis"], ["s"]),
             N("ArgMax", ["s"], ["m"], axis=1), N("Einsum", ["a", "b"], ["e"], equation="ij,kj->ik"),
             N("Resize", ["x4", "", "scales"], ["r"], mode="linear"), N("ConvTranspose", ["x4", "w"], ["t"], strides=[2, 2]),
             N("AveragePool", ["x4"], ["p"], kernel_shape=[3, 3], ceil_mode=1)]  # fmt: skip
    fixed = {"sizes": _numbers(2, 2, 3), "at": _numbers(0, 6, -1), "where": np.array([[0, 1], [2, 3]], np.int64), "what": _values(2),
             "axis": np.array(1, np.int64), "x4": _values(1, 2, 5, 6), "w": _values(2, 3, 2, 2),
             "scales": np.array([1, 1, 2, 1.5], np.float32)}  # fmt: skip
    return _model("pieces", nodes, {"x": (F, [4, 7])}, ["g", "m", "e", "r", "t", "p"], fixed)


MADE: tuple[Callable[[], onnx.ModelProto], ...] = (mlp, convolution, shapes, attention, recurrent, control, quantised, pieces)


@cache
def suite() -> tuple[bytes, ...]:
    """The onnx package's single-node models, those that are small."""
    from onnx.backend.test.loader import load_model_tests

    found = [c.model.SerializeToString() for c in load_model_tests(kind="node") if c.model is not None]
    return tuple(b for b in found if len(b) <= LARGEST)
