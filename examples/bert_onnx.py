"""BERT as an ONNX file of an exporter's form: layer norm, gelu and attention decomposed, weights inside the file or beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

OPSET = 14  # the newest without LayerNormalization


class _Writer:
    """Nodes and weights of one graph; every call adds a node and gives its output's name."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, op: str, *inputs: str, **attrs: Any) -> str:
        out = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [out], name=f"n_{out}", **attrs))
        return out

    def array(self, name: str, value: np.ndarray) -> str:
        dtype = TensorProto.INT64 if value.dtype.kind == "i" else TensorProto.FLOAT
        self.weights.append(helper.make_tensor(name, dtype, value.shape, value.tobytes(), raw=True))
        return name

    def weight(self, name: str, *shape: int, scale: float = 0.0, around: float = 0.0) -> str:
        value = self.rng.standard_normal(shape, np.float32)
        value *= scale or shape[0] ** -0.5
        value += around
        return self.array(name, value)

    def scalar(self, value: float) -> str:
        return self.array(f"c_{len(self.weights)}", np.array(value, np.float32))

    def linear(self, name: str, x: str, rows: int, cols: int) -> str:
        return self("Add", self("MatMul", x, self.weight(f"{name}.w", rows, cols)), self.weight(f"{name}.b", cols, scale=0.02))

    def norm(self, name: str, x: str, width: int) -> str:
        centred = self("Sub", x, self("ReduceMean", x, axes=[-1]))
        var = self("ReduceMean", self("Pow", centred, self.scalar(2)), axes=[-1])
        y = self("Div", centred, self("Sqrt", self("Add", var, self.scalar(1e-12))))
        scaled = self("Mul", y, self.weight(f"{name}.g", width, scale=0.05, around=1.0))
        return self("Add", scaled, self.weight(f"{name}.b", width, scale=0.05))

    def gelu(self, x: str) -> str:
        half = self("Mul", x, self("Add", self("Erf", self("Div", x, self.scalar(2**0.5))), self.scalar(1)))
        return self("Mul", half, self.scalar(0.5))


def write_bert(path: Path, layers: int = 12, seq: int = 128, hidden: int = 768, heads: int = 12, inner: int = 3072,
               vocab: int = 30522, seed: int = 0) -> Path:  # fmt: skip
    """BERT's encoder with its word and position embeddings: ids i64[1, seq] and mask f32[1, seq] in, hidden [1, seq, hidden] out."""
    n = _Writer(seed)
    d = hidden // heads
    shape = n.array("to_heads", np.array([1, seq, heads, d]))
    flat = n.array("from_heads", np.array([1, seq, hidden]))
    x = n("Gather", n.weight("embed.word", vocab, hidden, scale=0.5), "ids", axis=0)
    x = n.norm("embed.norm", n("Add", x, n.weight("embed.position", seq, hidden, scale=0.1)), hidden)
    wide = n("Reshape", "mask", n.array("mask_shape", np.array([1, 1, 1, seq])))
    keep = n("Mul", n("Sub", n.scalar(1), wide), n.scalar(-10000))
    for i in range(layers):
        q, k, v = (n("Reshape", n.linear(f"l{i}.{w}", x, hidden, hidden), shape) for w in "qkv")
        scores = n("MatMul", n("Transpose", q, perm=[0, 2, 1, 3]), n("Transpose", k, perm=[0, 2, 3, 1]))
        weights = n("Softmax", n("Add", n("Div", scores, n.scalar(d**0.5)), keep), axis=-1)
        mixed = n("Transpose", n("MatMul", weights, n("Transpose", v, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
        x = n.norm(f"l{i}.norm1", n("Add", n.linear(f"l{i}.out", n("Reshape", mixed, flat), hidden, hidden), x), hidden)
        f = n.linear(f"l{i}.down", n.gelu(n.linear(f"l{i}.up", x, hidden, inner)), inner, hidden)
        x = n.norm(f"l{i}.norm2", n("Add", f, x), hidden)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, seq])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, seq])
    out = helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, seq, hidden])
    graph = helper.make_graph(n.nodes, f"bert_{layers}", [ids, mask], [out], n.weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8).SerializeToString())
    return path
