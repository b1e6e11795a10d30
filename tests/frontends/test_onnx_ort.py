"""Operators of onnxruntime's own domain, against onnxruntime, through the references (no C compiler)."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

from autocomp.errors import UnsupportedOp  # noqa: E402
from autocomp.frontends.onnx import load_onnx  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402

RNG = np.random.default_rng(26)
MS = "com.microsoft"


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape, signed=False):
    """Signed ones of seven bits: with eight, onnxruntime's product saturates on CPUs whose instruction sums pairs in 16 bits (AVX2)."""
    return RNG.integers(-64, 64, shape).astype(np.int8) if signed else RNG.integers(0, 256, shape).astype(np.uint8)


F = lambda v: np.array(v, np.float32)
U = lambda v: np.array(v, np.uint8)
S = lambda v: np.array(v, np.int8)


def model(op, arrays, attrs, static=(), outputs=1, domain=MS):
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(arrays)]
    node = helper.make_node(op, names, [f"y{k}" if k in (outputs if isinstance(outputs, tuple) else range(outputs)) else ""
                                        for k in range(max(outputs) + 1 if isinstance(outputs, tuple) else outputs)],
                            domain=domain, name="n", **attrs)  # fmt: skip
    kind = lambda a: helper.np_dtype_to_tensor_dtype(a.dtype)
    given = [helper.make_tensor_value_info(n, kind(a), a.shape) for k, (n, a) in enumerate(zip(names, arrays)) if n and k not in static]
    kept = [numpy_helper.from_array(a, n) for k, (n, a) in enumerate(zip(names, arrays)) if n and k in static]
    out = [onnx.ValueInfoProto(name=o) for o in node.output if o]
    graph = helper.make_graph([node], "g", given, out, kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)], ir_version=10)


def compared(op, arrays, attrs=None, static=(), outputs=1, domain=MS):
    """Ours and onnxruntime's results of one node."""
    m = model(op, arrays, attrs or {}, static, outputs, domain)
    feed = {f"x{k}": a for k, a in enumerate(arrays) if a is not None and k not in static}
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)
    graph = load_onnx(m)
    ours = evaluate(graph, feed, float64=False)
    pairs = [(ours[name], want) for (name, _), want in zip(graph.outputs, theirs, strict=True)]
    for got, want in pairs:
        assert got.dtype == want.dtype
        assert got.shape == want.shape
    return pairs


QUANTISED = {
    "add": ("QLinearAdd", [bytes_(13, 5), F(0.0203), U(120), bytes_(5), F(0.0311), U(7), F(0.0417), U(130)], {}),
    "add i8": ("QLinearAdd", [bytes_(40, signed=True), F(0.1013), S(3), bytes_(40, signed=True), F(0.3127), S(-4), F(0.3), S(5)], {}),
    "mul": ("QLinearMul", [bytes_(3, 5), F(0.02), U(120), bytes_(3, 1), F(0.03), U(7), F(0.04), U(130)], {}),
    "sigmoid": ("QLinearSigmoid", [bytes_(40), F(0.05), U(128), F(1 / 256), U(0)], {}),
    "leaky relu": ("QLinearLeakyRelu", [bytes_(40), F(0.05), U(128), F(0.04), U(60)], {"alpha": 0.2}),
    "softmax": ("QLinearSoftmax", [bytes_(4, 9), F(0.05), U(128), F(1 / 256), U(0)], {"opset": 13, "axis": -1}),
    "concat": ("QLinearConcat", [F(0.05), U(100), bytes_(2, 3), F(0.02), U(128), bytes_(2, 4), F(0.07), U(9)], {"axis": 1}),
    "average": ("QLinearAveragePool", [bytes_(1, 3, 7, 7), F(0.05), U(128), F(0.0413), U(128)],
                {"kernel_shape": [3, 2], "strides": [2, 2]}),
    "average of channels last": ("QLinearAveragePool", [bytes_(1, 7, 7, 3), F(0.05), U(128), F(0.0413), U(128)],
                                 {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "channels_last": 1}),
    "global average": ("QLinearGlobalAveragePool", [bytes_(4, 13, 7, 5), F(0.05), U(128), F(0.0213), U(128)], {"channels_last": 0}),
    "gemm": ("QGemm", [bytes_(4, 6), F(0.02), U(120), bytes_(6, 5, signed=True), F(0.01), S(0), RNG.integers(-900, 900, 5).astype(np.int32),
                       F(0.03), U(128)], {}),
    "gemm turned, a scale a column": ("QGemm", [bytes_(4, 6), F(0.02), U(120), bytes_(5, 6, signed=True), floats(5) ** 2 + F(0.001),
                                                np.zeros(5, np.int8), RNG.integers(-900, 900, 5).astype(np.int32), F(0.3), U(128)],
                                      {"transB": 1, "alpha": 0.5}),
}  # fmt: skip


@pytest.mark.parametrize("name", QUANTISED)
def test_quantised_results_differ_by_one_step_at_most(name):
    op, arrays, attrs = QUANTISED[name]
    static = tuple(k for k, a in enumerate(arrays) if a is not None and (a.ndim == 0 or (op == "QGemm" and k >= 3)))
    ((got, want),) = compared(op, arrays, attrs, static)
    apart = np.abs(got.astype(int) - want.astype(int))
    assert apart.max() <= 1
    assert (apart > 0).mean() <= 0.1
    assert len(np.unique(want)) > 3


HEADS = {"num_heads": 2}
LENGTHS = np.array([3, 5], np.int32)
KEYS = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
QKV = [floats(2, 5, 8), floats(8, 24), floats(24)]
FUSED = {
    "gelu": ("Gelu", [floats(3, 5)], {}),
    "bias gelu": ("BiasGelu", [floats(3, 5), floats(5)], {}),
    "fast gelu": ("FastGelu", [floats(3, 5), floats(5)], {}),
    "quick gelu": ("QuickGelu", [floats(3, 5)], {"alpha": 1.5}),
    "matmul": ("FusedMatMul", [floats(2, 5, 3), floats(2, 4, 5)], {"transA": 1, "transB": 1, "alpha": 0.3}),
    "gemm": ("FusedGemm", [floats(3, 5), floats(5, 4), floats(4)], {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    "conv": ("FusedConv", [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4)], {"activation": "Relu"}),
    "conv and a sum": ("FusedConv", [floats(1, 3, 6, 6), floats(4, 3, 3, 3), floats(4), floats(1, 4, 4, 4)],
                       {"activation": "Clip", "activation_params": [-0.5, 0.7]}),
    "product with 4 bits": ("MatMulNBits", [floats(3, 50), bytes_(7, 2, 16), floats(14)], {"K": 50, "N": 7, "bits": 4, "block_size": 32}),
    "product with 4 bits and zero points": ("MatMulNBits", [floats(2, 3, 96), bytes_(7, 3, 16), floats(21), bytes_(14)],
                                            {"K": 96, "N": 7, "bits": 4, "block_size": 32}),
    "product with 8 bits": ("MatMulNBits", [floats(3, 64), bytes_(7, 2, 32), floats(14)], {"K": 64, "N": 7, "bits": 8, "block_size": 32}),
    "skip norm": ("SkipLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)], {"epsilon": 1e-5}),
    "skip norm without a shift": ("SkipLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8), floats(8)], {"epsilon": 1e-5}),
    "skip rms norm": ("SkipSimplifiedLayerNormalization", [floats(2, 3, 8), floats(2, 3, 8), floats(8)], {"epsilon": 1e-5}),
    "embeddings": ("EmbedLayerNormalization", [RNG.integers(0, 9, (2, 5)).astype(np.int32), RNG.integers(0, 2, (2, 5)).astype(np.int32),
                                               floats(9, 8), floats(6, 8), floats(2, 8), floats(8), floats(8), KEYS], {"epsilon": 1e-5}),
    "attention": ("Attention", QKV, HEADS),
    "causal attention": ("Attention", QKV, HEADS | {"unidirectional": 1}),
    "attention with keys left out": ("Attention", [*QKV, KEYS], HEADS | {"mask_filter_value": -1e5}),
    "attention of lengths": ("Attention", [*QKV, LENGTHS], HEADS),
    "heads": ("MultiHeadAttention", [floats(2, 4, 8), floats(2, 5, 8), floats(2, 5, 6), floats(22), None, floats(1, 2, 4, 5)], HEADS),
    "heads with keys left out": ("MultiHeadAttention", [floats(2, 4, 8), floats(2, 5, 8), floats(2, 5, 8), None, KEYS], HEADS),
    "rotary": ("RotaryEmbedding", [floats(2, 5, 12), np.array([2], np.int64), floats(9, 3), floats(9, 3)], {}),
    "rotary of pairs": ("RotaryEmbedding", [floats(2, 3, 5, 8), np.array([[3, 1, 8, 0, 4]] * 2), floats(9, 4), floats(9, 4)],
                        {"interleaved": 1}),
    "rotary of a part": ("RotaryEmbedding", [floats(2, 3, 5, 8), RNG.integers(0, 9, (2, 5)), floats(9, 2), floats(9, 2)],
                         {"num_heads": 3, "rotary_embedding_dim": 4}),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_fused_operators_give_what_onnxruntime_gives(name):
    op, arrays, attrs = FUSED[name]
    for got, want in compared(op, arrays, attrs, outputs=2 if op == "EmbedLayerNormalization" else 1):
        np.testing.assert_allclose(got, want, rtol=3e-5 if op != "FastGelu" else 1e-4, atol=3e-5)


def test_sums_that_were_normalised_are_results_too():
    arrays = [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8)]
    for got, want in compared("SkipLayerNormalization", arrays, {"epsilon": 1e-5}, outputs=(0, 3)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_a_norm_that_the_optimiser_leaves_in_the_standard_domain():
    ((got, want),) = compared("SimplifiedLayerNormalization", [floats(2, 3, 8), floats(8)], {"epsilon": 1e-5}, domain="")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def rows(*lengths):
    return np.array(lengths, np.int32)


CACHE = [floats(2, 2, 3, 4), floats(2, 2, 3, 4)]
NEW = [floats(2, 2, 8) for _ in range(3)]
CACHED = {
    "attention": ("Attention", [floats(2, 2, 8), floats(8, 24), floats(24), None, np.stack(CACHE)], HEADS | {"unidirectional": 1}, 2),
    "heads": ("MultiHeadAttention", [*NEW, floats(24), None, floats(1, 2, 2, 5), *CACHE], HEADS, 3),
    "causal heads of keys left out": ("MultiHeadAttention", [*NEW, None, KEYS, None, *CACHE], HEADS | {"unidirectional": 1}, 3),
    "heads of an empty cache": ("MultiHeadAttention", [*NEW, None, None, None, *[np.zeros((2, 2, 0, 4), "f4")] * 2], HEADS, 3),
    "heads of a cache to come": ("MultiHeadAttention", NEW, HEADS, 3),
    "one step": ("MultiHeadAttention", [*[floats(1, 1, 8) for _ in NEW], *[None] * 3, *[floats(1, 2, 7, 4) for _ in CACHE]], HEADS, 3),
    "keys of another sequence": ("MultiHeadAttention", [NEW[0], *CACHE], HEADS, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", CACHED)
def test_caches_of_keys_grow(name):
    op, arrays, attrs, outputs = CACHED[name]
    for got, want in compared(op, arrays, attrs, outputs=outputs):
        np.testing.assert_allclose(got, want, rtol=3e-5, atol=3e-5)


def test_packed_queries_keys_and_values():
    q, k, v = (floats(2, 5, 2, 4) for _ in range(3))
    flat = [x.reshape(2, 5, 8) for x in (q, k, v)]
    forms = (flat, [np.stack([q, k, v], 3)], [flat[0], np.stack([k, v], 3)])
    one, *others = (evaluate(load_onnx(model("MultiHeadAttention", xs, HEADS)), {f"x{i}": x for i, x in enumerate(xs)}) for xs in forms)
    for other in others:
        for got, want in zip(other.values(), one.values(), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("op", "arrays", "attrs", "said"), [
    ("Attention", QKV, HEADS | {"do_rotary": 1}, "rotary embeddings inside"),
    ("MultiHeadAttention", [floats(2, 4, 8), floats(2, 5, 8), floats(2, 5, 8), *[None] * 3, *CACHE, rows(3)], HEADS, "shares the memory"),
    ("MultiHeadAttention", [floats(2, 4, 8), floats(2, 5, 8)], HEADS, "has operands"),
    ("MatMulNBits", [floats(3, 50), bytes_(7, 2, 16), floats(14)], {"K": 50, "N": 7, "bits": 3, "block_size": 32}, "elements of 3 bits"),
    ("FusedConv", [floats(1, 3, 6, 6), floats(4, 3, 3, 3)], {"activation": "Clip"}, "activation 'Clip'"),
])  # fmt: skip
def test_what_is_not_done_is_refused(op, arrays, attrs, said):
    with pytest.raises(UnsupportedOp, match=said):
        load_onnx(model(op, arrays, attrs))


def grouped(steps, past, lengths, total, packed=False, rotary=True, heads=4, kept=2, width=16):
    """Operands of GroupQueryAttention: rows of `lengths` keys with the new `steps`, in a cache of `past`."""
    batch = len(lengths)
    q = floats(batch, steps, (heads + 2 * kept if packed else heads) * width)
    kv = [None, None] if packed else [floats(batch, steps, kept * width) for _ in range(2)]
    cache = [floats(batch, kept, past, width) for _ in range(2)] if past else [None, None]
    tables = [floats(32, width // 2) for _ in range(2)] if rotary else []
    return [q, *kv, *cache, rows(*lengths) - 1, np.array(total, np.int32), *tables]


@pytest.mark.parametrize(("case", "attrs"), [
    ((5, 0, (5, 5), 5), {"do_rotary": 1}),  # a prompt
    ((1, 6, (7, 7), 7), {"do_rotary": 1}),  # the next step, a cache that grows
    ((1, 6, (7, 4), 7), {"do_rotary": 1, "rotary_interleaved": 1}),  # rows of different lengths
    ((1, 12, (7, 4), 12), {"do_rotary": 1}),  # a cache of one size, which is written where each row ends
    ((1, 12, (7, 4), 12, True), {"do_rotary": 1}),
    ((1, 9, (10, 10), 10, False, False), {"local_window_size": 4, "softcap": 3.0, "scale": 0.2}),
    ((3, 6, (9,), 9), {"do_rotary": 1}),  # several steps behind a cache
])  # fmt: skip
def test_attention_with_a_cache_of_keys(case, attrs):
    arrays = grouped(*case)
    pairs = compared("GroupQueryAttention", arrays, {"num_heads": 4, "kv_num_heads": 2, **attrs}, static=(6,), outputs=3)
    (got, want), *caches = pairs
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    for mine, theirs in caches:
        for b, length in enumerate(case[2]):  # behind a row's end nobody reads
            np.testing.assert_allclose(mine[b, :, :length], theirs[b, :, :length], rtol=1e-5, atol=1e-5)


def test_how_long_the_new_cache_is_must_be_known():
    m = model("GroupQueryAttention", grouped(1, 6, (7, 7), 7), {"num_heads": 4, "kv_num_heads": 2}, outputs=3)
    with pytest.raises(UnsupportedOp, match="operand 6"):
        load_onnx(m)
    load_onnx(m, inputs={"x6": np.array(7, np.int32)})
