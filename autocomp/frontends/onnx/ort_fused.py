"""Fused operators of onnxruntime's own domain, which its optimiser and exporters of transformers write.

Each is lowered to what it was made of; rules fuse again what pays. Semantics: onnxruntime's docs/ContribOperators.md.
"""

from __future__ import annotations

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.contractions import conv, gemm
from autocomp.frontends.onnx.pointwise import cast, gelu
from autocomp.frontends.onnx.registry import ORT, lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.frontends.onnx.windows import rms_norm
from autocomp.ir.node import Node
from autocomp.ir.types import F32, I32, U8

# ---- activations
lower("Gelu", domain=ORT)(gelu)


@lower("BiasGelu", domain=ORT)
def bias_gelu(c: Call) -> Node:
    return c.op("gelu", c.op("add", c.x(0), c.x(1)))


@lower("FastGelu", domain=ORT)
def fast_gelu(c: Call) -> Node:
    """By tanh, of x plus a bias where there is one."""
    return c.op("gelu_tanh", c.op("add", c.x(0), c.x(1)) if c.has(1) else c.x(0))


@lower("QuickGelu", domain=ORT)
def quick_gelu(c: Call) -> Node:
    return c.op("mul", c.x(), c.op("sigmoid", c.op("mul", c.x(), c.float_attr("alpha", 1.702))))


def _activated(c: Call, y: Node) -> Node:
    """y after the function that attribute `activation` names, with `activation_params` (or `activation_alpha` and so on)."""
    name = c.str_attr("activation", "")
    given = c.floats_attr("activation_params", ()) or ()
    more = [c.float_attr(f"activation_{n}", d) for n, d in (("alpha", 0.01), ("beta", 0.0))] if not given else []
    params = [*given, *more][:2]
    if name in ("", "Relu", "Tanh", "Sigmoid"):
        return c.op(name.lower(), y) if name else y
    if name == "LeakyRelu":
        return c.op("where", c.op("lt", y, 0.0), c.op("mul", y, params[0]), y)
    if name == "Clip" and len(given) == 2:
        return c.op("min", c.op("max", y, given[0]), given[1])
    if name == "HardSigmoid" and len(given) == 2:
        return c.op("min", c.op("max", c.op("add", c.op("mul", y, given[0]), given[1]), 0.0), 1.0)
    c.refuse(f"has the activation '{name}' with parameters {list(given)}",
             hint="save the model with another level of graph optimisation")  # fmt: skip


# ---- products
@lower("FusedMatMul", "TransposeMatMul", domain=ORT)
def fused_matmul(c: Call) -> Node:
    a, b = c.x(0), c.x(1)
    if c.flag("transBatchA", 0) or c.flag("transBatchB", 0):
        c.refuse("moves the batches of a factor (transBatchA, transBatchB)", hint="save the model with another level of graph optimisation")
    turned = lambda x: c.op("transpose", x, perm=(*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2))
    a = turned(a) if c.flag("transA", 0) and a.type.rank > 1 else a
    b = turned(b) if c.flag("transB", 0) and b.type.rank > 1 else b
    y, alpha = c.op("matmul", a, b), c.float_attr("alpha", 1.0)
    return y if alpha == 1.0 else c.op("mul", y, alpha)


@lower("FusedGemm", domain=ORT)
def fused_gemm(c: Call) -> Node:
    return _activated(c, gemm(c))


@lower("FusedConv", domain=ORT)
def fused_conv(c: Call) -> Node:
    """Operands: x, w, a bias or absent, what is added before the activation or absent."""
    y = conv(c)
    return _activated(c, c.op("add", y, c.x(3)) if c.has(3) else y)


@lower("MatMulNBits", domain=ORT)
def matmul_n_bits(c: Call) -> Node:
    """Operands: A [.., K]; B u8 [N, K / block, block * bits / 8], the first element of a byte in its low bits; scales [N, K / block]; zero
    points, packed alike along a row's blocks, or of the scales' type, or absent (2^(bits-1)); group indices; a bias [N]."""
    a, b, scales = c.x(0), c.x(1), c.x(2)
    k, n, bits, block = c.int_attr("K"), c.int_attr("N"), c.int_attr("bits", 4), c.int_attr("block_size")
    if bits not in (2, 4, 8) or block < 8 // bits or block % (8 // bits):
        c.refuse(f"has elements of {bits} bits in blocks of {block}; 2, 4 and 8 bits in whole bytes are done")
    if c.has(4):
        c.refuse("has an order of groups (g_idx)", hint="quantise without act-order")
    blocks, each = -(-k // block), 8 // bits
    if b.type.dtype != U8 or b.type.shape != (n, blocks, block // each) or scales.type.elements != n * blocks:
        c.broken(f"weights {b.type} and scales {scales.type} do not hold {n} x {k} elements of {bits} bits in blocks of {block}")
    q = _unpacked(c, b, each, bits)
    zero = c.maybe(3)
    if zero is None:
        zero = c.const(float(1 << bits - 1), F32)
    elif zero.type.dtype == U8:
        row = -(-blocks // each)
        zero = cut(c, _unpacked(c, reshape(c, zero, (n, row)), each, bits), {1: (0, blocks, 1)})
        zero = reshape(c, cast(c, zero, F32), (n, blocks, 1))
    else:
        zero = reshape(c, cast(c, zero, F32), (n, blocks, 1))
    w = c.op("mul", c.op("sub", cast(c, q, F32), zero), reshape(c, cast(c, scales, F32), (n, blocks, 1)))
    w = reshape(c, w, (n, blocks * block))
    w = cut(c, w, {1: (0, k, 1)}) if blocks * block != k else w
    y = c.op("matmul", a, c.op("transpose", cast(c, w, a.type.dtype), perm=(1, 0)))
    return c.op("add", y, c.x(5)) if c.has(5) else y


def _unpacked(c: Call, packed: Node, each: int, bits: int) -> Node:
    """u8 [.., m] -> u8 [.., m * each]: the elements of `bits` bits of each byte, lowest first."""
    if each == 1:
        return packed
    shape = (*packed.type.shape, 1)
    wide = reshape(c, packed, shape)
    parts = [c.op("bitand", c.op("shr", wide, i * bits) if i else wide, (1 << bits) - 1) for i in range(each)]
    out = c.op("concat", *parts, axis=len(shape) - 1)
    return reshape(c, out, (*packed.type.shape[:-1], int(packed.type.shape[-1]) * each))  # type: ignore[arg-type]


# ---- norms
@lower("SimplifiedLayerNormalization")
@lower("SimplifiedLayerNormalization", domain=ORT)
def simplified_layer_norm(c: Call) -> Node:
    return rms_norm(c)


def _summed(c: Call, bias: int) -> Node:
    """Input plus skip (which may lack the batch) plus a bias."""
    total = c.op("add", c.x(0), c.x(1))
    return c.op("add", total, c.x(bias)) if c.has(bias) else total


def _mean_of(c: Call, x: Node) -> Node:
    return c.op("reduce_mean", x, axes=(x.type.rank - 1,), keepdims=True)


def _with_statistics(c: Call, x: Node, y: Node, simplified: bool) -> tuple[Node, ...]:
    """The four results: y, mean, 1 / standard deviation, the sum that was normalised. The statistics are made where they are named."""
    if not any(c.proto.output[1:3]):
        return y, y, y, x
    mean = _mean_of(c, x)
    centred = x if simplified else c.op("sub", x, mean)
    var = c.op("add", _mean_of(c, c.op("mul", centred, centred)), c.float_attr("epsilon", 1e-12))
    return y, mean, c.op("div", c.const(1.0, x.type.dtype), c.op("sqrt", var)), x


def _layer_norm(c: Call, x: Node, scale: Node, bias: Node | None) -> Node:
    zero = c.op("broadcast", c.const(0.0, x.type.dtype), shape=scale.type.shape) if bias is None else bias
    y = c.op("layer_norm", cast(c, x, F32), cast(c, scale, F32), cast(c, zero, F32), axes=(x.type.rank - 1,),
             eps=c.float_attr("epsilon", 1e-12))  # fmt: skip
    return cast(c, y, x.type.dtype)


@lower("SkipLayerNormalization", domain=ORT)
def skip_layer_norm(c: Call) -> tuple[Node, ...]:
    """Operands: input, skip, gamma, beta or absent, bias or absent."""
    x = _summed(c, 4)
    return _with_statistics(c, x, _layer_norm(c, x, c.x(2), c.maybe(3)), simplified=False)


@lower("SkipSimplifiedLayerNormalization", domain=ORT)
def skip_simplified_layer_norm(c: Call) -> tuple[Node, ...]:
    """Operands: input, skip, gamma, bias or absent."""
    x = _summed(c, 3)
    y = c.op("rms_norm", cast(c, x, F32), cast(c, c.x(2), F32), axes=(x.type.rank - 1,), eps=c.float_attr("epsilon", 1e-12))
    return _with_statistics(c, x, cast(c, y, x.type.dtype), simplified=True)


@lower("EmbedLayerNormalization", domain=ORT)
def embed_layer_norm(c: Call) -> tuple[Node, ...]:
    """Operands: ids [B, S], segments or absent, tables of words, positions, segments or absent, gamma, beta, a mask or absent, positions or
    absent. Results: the norm, the mask's sums a row, the sum of embeddings."""
    ids, word, position = c.x(0), c.x(2), c.x(3)
    batch, steps = ids.type.shape
    places = c.x(8) if c.has(8) else c.importer.node("iota", [], {"shape": (1, steps), "axis": 1})
    total = c.op("add", c.op("gather", word, ids, axis=0), c.op("gather", position, places, axis=0))
    if c.has(1) and c.has(4):
        total = c.op("add", total, c.op("gather", c.x(4), c.x(1), axis=0))
    y = _layer_norm(c, total, c.x(5), c.x(6))
    count = c.op("reduce_sum", cast(c, c.x(7), I32), axes=(1,)) if c.has(7) else c.op("broadcast", c.const(0, I32), shape=(batch,))
    return y, count, total
