"""Kernels whose schedules `benchmarks/cost_rank.py` puts in order: one graph each, as text."""

from __future__ import annotations

from collections.abc import Mapping


def graph(inputs: Mapping[str, str], body: str, output: str) -> str:
    """A graph's text from its inputs and statements."""
    return "\n".join(["graph g", *(f"input {n}: {t}" for n, t in inputs.items()), *body.split("; "), f"output out = {output}", ""])


def attention(dtype: str, shape: str) -> str:
    """softmax(q k^T / 8) v as one graph."""
    return graph({a: f"{dtype}[{shape}]" for a in "qkv"},
                 "%0 = transpose(k, perm=[0, 1, 3, 2]); %1 = matmul(q, %0); %2 = mul(%1, const(0.125, " + dtype + ")); "
                 "%3 = softmax(%2, axes=[3]); %4 = matmul(%3, v)", "%4")  # fmt: skip


def norm(dtype: str, rows: int, width: int) -> str:
    """Layer norm over the last axis, with scale and shift."""
    return graph({"x": f"{dtype}[{rows}, {width}]", "g": f"{dtype}[{width}]", "b": f"{dtype}[{width}]"},
                 "%0 = layer_norm(x, g, b, axes=[1], eps=1e-05)", "%0")  # fmt: skip


def conv(dtype: str, n: int, c: int, size: int, out: int) -> str:
    """3 x 3 convolution with relu."""
    return graph({"x": f"{dtype}[{n}, {c}, {size}, {size}]", "w": f"{dtype}[{out}, {c}, 3, 3]"},
                 "%0 = conv(x, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1]); %1 = relu(%0)", "%1")  # fmt: skip


def conv_last(dtype: str, n: int, c: int, size: int, out: int) -> str:
    """The same of an image whose channels are contiguous, as nets of convolutions are made inside."""
    return (f"graph g\ninput x: {dtype}[{n}, {size}, {size}, {c}]\ninput w: {dtype}[{out}, 3, 3, {c}]\n"
            "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
            "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])\n%3 = relu(%2)\n"
            "%4 = transpose(%3, perm=[0, 2, 3, 1])\noutput y = %4\n")  # fmt: skip


def linear(dtype: str, m: int, n: int, k: int, after: str = "%2 = gelu(%1)") -> str:
    """A matmul with bias and an activation."""
    return graph({"x": f"{dtype}[{m}, {k}]", "w": f"{dtype}[{k}, {n}]", "b": f"{dtype}[{n}]"},
                 f"%0 = matmul(x, w); %1 = add(%0, b); {after}", "%2")  # fmt: skip


def matmul(dtype: str, m: int, n: int, k: int) -> str:
    """a @ b"""
    return graph({"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)", "%0")


def batched(dtype: str, b: int, m: int, n: int, k: int) -> str:
    """b products of their own."""
    return graph({"a": f"{dtype}[{b}, {m}, {k}]", "b": f"{dtype}[{b}, {k}, {n}]"}, "%0 = matmul(a, b)", "%0")


def integers(m: int, n: int, k: int) -> str:
    """Sums of products of bytes, both factors contiguous along the depth."""
    return graph({"a": f"i8[{m}, {k}]", "b": f"i8[{n}, {k}]"},
                 '%0 = cast(a, to="i32"); %1 = cast(b, to="i32"); %2 = transpose(%1, perm=[1, 0]); %3 = matmul(%0, %2)', "%3")  # fmt: skip


def depthwise(dtype: str, n: int, c: int, size: int) -> str:
    """3 x 3 windows, each channel with weights of its own."""
    return (f"graph g\ninput x: {dtype}[{n}, {size}, {size}, {c}]\nparam w: {dtype}[{c}, 1, 3, 3] = random(3)\n"
            "%0 = transpose(x, perm=[0, 3, 1, 2])\n"
            f"%1 = conv(%0, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups={c})\n%2 = relu(%1)\n"
            "%3 = transpose(%2, perm=[0, 2, 3, 1])\noutput y = %3\n")  # fmt: skip


def softmax(dtype: str, rows: int, width: int) -> str:
    """Along the last axis."""
    return graph({"x": f"{dtype}[{rows}, {width}]"}, "%0 = softmax(x, axes=[1])", "%0")


def softmax_of_channels(dtype: str, n: int, channels: int, points: int) -> str:
    """Along a middle axis."""
    return graph({"x": f"{dtype}[{n}, {channels}, {points}]"}, "%0 = softmax(x, axes=[1])", "%0")


def sums(dtype: str, n: int, rows: int, width: int) -> str:
    """Of a middle axis."""
    return graph({"x": f"{dtype}[{n}, {rows}, {width}]"}, "%0 = reduce_sum(x, axes=[1], keepdims=False)", "%0")


def chain(dtype: str, rows: int, width: int) -> str:
    """Element-wise, with a row's bias."""
    return graph({"x": f"{dtype}[{rows}, {width}]", "y": f"{dtype}[{rows}, {width}]", "b": f"{dtype}[{width}]"},
                 "%0 = add(x, b); %1 = tanh(%0); %2 = mul(%1, y); %3 = relu(%2)", "%3")  # fmt: skip


def turned(dtype: str, rows: int, width: int) -> str:
    """A transposed read beside a straight one."""
    return graph({"x": f"{dtype}[{width}, {rows}]", "y": f"{dtype}[{rows}, {width}]"},
                 "%0 = transpose(x, perm=[1, 0]); %1 = add(%0, y)", "%1")  # fmt: skip


def columns(dtype: str, rows: int, width: int) -> str:
    """Sums down the columns."""
    return graph({"x": f"{dtype}[{rows}, {width}]"}, "%0 = reduce_sum(x, axes=[0], keepdims=False)", "%0")


CPU = {
    "matmul": matmul("f32", 512, 768, 512), "linear_gelu": linear("f32", 256, 1024, 512), "conv_relu": conv("f32", 1, 64, 40, 64),
    "softmax": softmax("f32", 1536, 768), "layer_norm": norm("f32", 1024, 768), "chain": chain("f32", 768, 1000),
    "attention": attention("f32", "1, 4, 256, 64"), "matvecs": matmul("f32", 8, 2048, 1024),
    "turned": turned("f32", 1000, 1536), "columns": columns("f32", 2048, 1024),
}  # fmt: skip
GPU = {
    "matmul": matmul("f16", 4096, 4096, 4096), "matmul_small": matmul("f16", 1024, 1024, 1024),
    "matmul_deep": matmul("f16", 256, 512, 16384),
    "linear_gelu": linear("f16", 8192, 3072, 768), "linear_odd": linear("f16", 1000, 1000, 1000), "matvecs": matmul("f16", 8, 8192, 4096),
    "conv_relu": conv_last("f16", 16, 64, 56, 64), "softmax": softmax("f16", 16384, 4096), "layer_norm": norm("f16", 16384, 1024),
    "chain": chain("f16", 16384, 4096), "attention": attention("f16", "4, 16, 2048, 64"),
    "turned": turned("f16", 8192, 8192), "columns": columns("f16", 16384, 4096),
    "product_deep": matmul("f16", 512, 512, 32768), "product_few": matmul("f16", 128, 4096, 4096), "product_i8": integers(512, 512, 16384),
    "product_odd": matmul("f16", 1000, 1496, 3000), "batched": batched("f16", 48, 512, 512, 64), "depthwise": depthwise("f16", 32, 192, 56),
    "softmax_few": softmax("f32", 16, 8192), "channels": softmax_of_channels("f16", 64, 256, 1024), "norm_narrow": norm("f16", 65536, 256),
    "sums": sums("f16", 64, 512, 1024),
}  # fmt: skip
