"""Models that the demo, the benchmarks and the tests share, with seeded random weights; none is downloaded.

`resnet50` is the ONNX model of the onnx package's backend tests; the transformers are built op by op in the form that
exporters write (layer norm, softmax and gelu decomposed; reshapes and transposes around attention).
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import DTYPES, F32, I64, TensorType


def light_model(name: str) -> Path:
    """Path of one of the onnx package's light models, e.g. light_resnet50. Raises ModelError with what to install."""
    try:
        import onnx
    except ImportError:
        raise ModelError(
            "the onnx package has this model and is not installed", where=name, hint="pip install 'autocomp[demo]'"
        ) from None
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    if not path.is_file():
        raise ModelError("not in the installed onnx package", where=str(path), hint="pip install 'onnx==1.23.2'")
    return path


def with_random_weights(path: Path, seed: int = 0) -> bytes:
    """The model with its constant-filled weights replaced by seeded random ones that keep activations near 1.

    Weights of rank 2 and more get He initialisation (std sqrt(2 / fan-in)), scales and variances values around 1, the rest
    small values.
    """
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    rng = np.random.default_rng(seed)
    graph = model.graph
    shapes = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    users: dict[str, tuple[str, int]] = {}
    for node in graph.node:
        for k, name in enumerate(node.input):
            users.setdefault(name, (node.op_type, k))
    keep, made = [], []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            keep.append(node)
            continue
        name, shape = node.output[0], tuple(int(d) for d in shapes[node.input[0]])
        op, slot = users.get(name, ("", 0))
        made.append(numpy_helper.from_array(_weights(rng, shape, op, slot), name))
    del graph.node[:]
    graph.node.extend(keep)
    graph.initializer.extend(made)
    read = {name for node in graph.node for name in node.input}
    initial = [i for i in graph.initializer if i.name in read]
    names = {i.name for i in initial}
    inputs = [i for i in graph.input if i.name in read and i.name not in names]
    del graph.initializer[:], graph.input[:]
    graph.initializer.extend(initial)
    graph.input.extend(inputs)
    return model.SerializeToString()


def _weights(rng: np.random.Generator, shape: tuple[int, ...], op: str, slot: int) -> np.ndarray:
    if len(shape) > 1:
        fan_in = int(np.prod(shape[1:]))
        return (rng.standard_normal(shape) * sqrt(2 / fan_in)).astype(np.float32)
    if op == "BatchNormalization" and slot == 1:
        return rng.uniform(0.2, 0.5, shape).astype(np.float32)
    if op == "BatchNormalization" and slot == 4:
        return rng.uniform(0.6, 1.4, shape).astype(np.float32)
    return (rng.standard_normal(shape) * 0.1).astype(np.float32)


def resnet50(seed: int = 0) -> bytes:
    """ResNet-50, batch 1, 224 x 224, as ONNX bytes."""
    return with_random_weights(light_model("light_resnet50"), seed)


class _Net:
    """A builder with the layers that the transformers share."""

    def __init__(self, name: str, seed: int, dtype: str = "f32") -> None:
        self.b, self.rng, self.dtype = Builder(name), np.random.default_rng(seed), DTYPES[dtype]

    def weight(self, name: str, *shape: int, scale: float | None = None, around: float = 0.0) -> Node:
        std = scale if scale is not None else 1 / sqrt(shape[0])
        return self.b.param(name, (self.rng.standard_normal(shape) * std + around).astype(self.dtype.numpy))

    def const(self, v: float) -> Node:
        return self.b.const(v, self.dtype)

    def __call__(self, op: str, *nodes: Node, **attrs: Any) -> Node:
        return self.b.op(op, *nodes, **attrs)

    def linear(self, name: str, x: Node, n: int) -> Node:
        return self(
            "add", self("matmul", x, self.weight(f"{name}.w", int(x.type.shape[-1]), n)), self.weight(f"{name}.b", n, scale=0.02)  # type: ignore[arg-type]
        )  # type: ignore[arg-type]

    def layer_norm(self, name: str, x: Node, eps: float = 1e-12) -> Node:
        axis = (x.type.rank - 1,)
        d = self("sub", x, self("reduce_mean", x, axes=axis, keepdims=True))
        var = self("reduce_mean", self("mul", d, d), axes=axis, keepdims=True)
        y = self("div", d, self("sqrt", self("add", var, self.const(eps))))
        n = int(x.type.shape[-1])  # type: ignore[arg-type]
        return self(
            "add", self("mul", y, self.weight(f"{name}.g", n, scale=0.05, around=1.0)), self.weight(f"{name}.b", n, scale=0.02)
        )

    def gelu(self, x: Node) -> Node:
        half = self("mul", x, self.const(0.5))
        return self("mul", half, self("add", self("erf", self("div", x, self.const(sqrt(2)))), self.const(1.0)))

    def softmax(self, x: Node) -> Node:
        axis = (x.type.rank - 1,)
        e = self("exp", self("sub", x, self("reduce_max", x, axes=axis, keepdims=True)))
        return self("div", e, self("reduce_sum", e, axes=axis, keepdims=True))

    def heads(self, x: Node, count: int) -> Node:
        """[B, S, H*D] -> [B, H, S, D]"""
        b, s, n = x.type.shape
        return self("transpose", self("reshape", x, shape=(b, s, count, int(n) // count)), perm=(0, 2, 1, 3))  # type: ignore[arg-type]

    def merge(self, x: Node) -> Node:
        """[B, H, S, D] -> [B, S, H*D]"""
        b, h, s, d = x.type.shape
        return self("reshape", self("transpose", x, perm=(0, 2, 1, 3)), shape=(b, s, int(h) * int(d)))  # type: ignore[arg-type]

    def attention(self, q: Node, k: Node, v: Node, mask: Node | None) -> Node:
        """softmax(q k^T / sqrt(d) + mask) v over [B, H, S, D]"""
        scores = self("matmul", q, self("transpose", k, perm=(0, 1, 3, 2)))
        scores = self("div", scores, self.const(sqrt(float(q.type.shape[-1]))))  # type: ignore[arg-type]
        if mask is not None:
            scores = self("add", scores, mask)
        return self("matmul", self.softmax(scores), v)


def bert(layers: int = 12, seq: int = 128, batch: int = 1, hidden: int = 768, heads: int = 12, inner: int = 3072, vocab: int = 1000,
         seed: int = 0, dtype: str = "f32") -> Graph:  # fmt: skip
    """BERT encoder: ids and mask in, last hidden state [batch, seq, hidden] out. `vocab` is small to keep weights small."""
    n = _Net(f"bert_{layers}", seed, dtype)
    ids = n.b.input("ids", TensorType(I64, (batch, seq)))
    mask = n.b.input("mask", TensorType(n.dtype, (batch, seq)))
    x = n("gather", n.weight("embed.word", vocab, hidden, scale=0.5), ids, axis=0)
    x = n.layer_norm("embed.norm", n("add", x, n.weight("embed.position", seq, hidden, scale=0.1)))
    keep = n("mul", n("sub", n.const(1.0), n("reshape", mask, shape=(batch, 1, 1, seq))), n.const(-10000.0))
    for i in range(layers):
        q, k, v = (n.heads(n.linear(f"l{i}.{w}", x, hidden), heads) for w in "qkv")
        a = n.linear(f"l{i}.out", n.merge(n.attention(q, k, v, keep)), hidden)
        x = n.layer_norm(f"l{i}.norm1", n("add", a, x))
        f = n.linear(f"l{i}.down", n.gelu(n.linear(f"l{i}.up", x, inner)), hidden)
        x = n.layer_norm(f"l{i}.norm2", n("add", f, x))
    n.b.output("hidden", x)
    return n.b.graph()


def llama_block(blocks: int = 1, seq: int = 128, hidden: int = 1024, heads: int = 16, kv_heads: int = 4, inner: int = 2816,
                seed: int = 0) -> Graph:  # fmt: skip
    """Pre-norm decoder blocks: RMSNorm, rotary positions, grouped-query attention, SwiGLU; x [1, seq, hidden] in and out."""
    n = _Net(f"llama_{blocks}", seed)
    d = hidden // heads
    x = n.b.input("x", TensorType(F32, (1, seq, hidden)))
    angle = np.outer(np.arange(seq), 10000.0 ** (-np.arange(0, d, 2) / d))
    cos, sin = (n.b.param(name, np.tile(f(angle), 2).astype(np.float32)) for name, f in (("cos", np.cos), ("sin", np.sin)))
    causal = n.b.param("causal", np.triu(np.full((seq, seq), -1e9, np.float32), 1))

    def norm(name: str, v: Node) -> Node:
        mean = n("reduce_mean", n("mul", v, v), axes=(2,), keepdims=True)
        return n("mul", n("mul", v, n("rsqrt", n("add", mean, n.const(1e-5)))), n.weight(name, hidden, scale=0.05, around=1.0))

    def rotate(v: Node) -> Node:
        _, h, s, _ = v.type.shape
        zero, one = (0, 0, 0), (1, 1, 1)
        low = n("slice", v, starts=(*zero, 0), limits=(1, h, s, d // 2), steps=(*one, 1))
        high = n("slice", v, starts=(*zero, d // 2), limits=(1, h, s, d), steps=(*one, 1))
        turned = n("concat", n("neg", high), low, axis=3)
        return n("add", n("mul", v, cos), n("mul", turned, sin))

    def project(name: str, v: Node, width: int) -> Node:
        return n("matmul", v, n.weight(name, int(v.type.shape[-1]), width))  # type: ignore[arg-type]

    def repeat(v: Node) -> Node:
        g = heads // kv_heads
        wide = n("broadcast", n("reshape", v, shape=(1, kv_heads, 1, seq, d)), shape=(1, kv_heads, g, seq, d))
        return n("reshape", wide, shape=(1, heads, seq, d))

    for i in range(blocks):
        y = norm(f"b{i}.norm1", x)
        q = rotate(n.heads(project(f"b{i}.q", y, heads * d), heads))
        k = repeat(rotate(n.heads(project(f"b{i}.k", y, kv_heads * d), kv_heads)))
        v = repeat(n.heads(project(f"b{i}.v", y, kv_heads * d), kv_heads))
        x = n("add", x, project(f"b{i}.o", n.merge(n.attention(q, k, v, causal)), hidden))
        y = norm(f"b{i}.norm2", x)
        gate, up = project(f"b{i}.gate", y, inner), project(f"b{i}.up", y, inner)
        x = n("add", x, project(f"b{i}.down", n("mul", n("mul", gate, n("sigmoid", gate)), up), hidden))
    n.b.output("y", x)
    return n.b.graph()
