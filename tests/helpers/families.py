"""Families of kernels as text graphs, their shapes drawn by a seed: none is a benchmark's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.helpers.device_graphs import graph

HEADS = (40, 64, 72, 80, 96, 112, 128, 160, 192, 256)
WIDTHS = (768, 1000, 1536, 3000, 5120, 8192, 12288, 32000, 50304, 100352, 151936)


def product(r: Random) -> str:
    m, n, k = (r.choice((96, 256, 1000, 1536, 3072, 5000, 8192)) for _ in range(3))
    dtype = r.choice(("f16", "bf16", "f32"))
    return graph({"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)")


def few_rows(r: Random) -> str:
    m, n, k = r.randrange(1, 65), r.choice((1024, 4096, 11008)), r.choice((2048, 4096, 8192))
    return graph({"a": f"f16[{m}, {k}]", "b": f"f16[{k}, {n}]"}, "%0 = matmul(a, b)")


def batched(r: Random) -> str:
    b, m, n, k = r.choice((8, 48, 96)), r.choice((128, 384, 1000)), r.choice((64, 77, 512)), r.choice((64, 96, 256))
    return graph({"a": f"f16[{b}, {m}, {k}]", "b": f"f16[{b}, {k}, {n}]"}, "%0 = matmul(a, b)")


def attention(r: Random) -> str:
    b, s, d = r.choice((8, 24, 96)), r.choice((384, 512, 1024, 2048)), r.choice(HEADS)
    return graph({"q": f"f16[{b}, {s}, {d}]", "k": f"f16[{b}, {s}, {d}]", "v": f"f16[{b}, {s}, {d}]"},
                 "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.125, f16))\n%3 = softmax(%2, axes=[2])\n"
                 "%4 = matmul(%3, v)")  # fmt: skip


def row_reduction(r: Random) -> str:
    m, n = r.choice((512, 4096, 16384)), r.choice(WIDTHS)
    dtype = r.choice(("f16", "f32"))
    return graph({"a": f"{dtype}[{m}, {n}]"}, r.choice(("%0 = softmax(a, axes=[1])", "%0 = reduce_sum(a, axes=[1], keepdims=False)")))


def column_reduction(r: Random) -> str:
    m, n = r.choice((1000, 4096, 20000)), r.choice((768, 1000, 4096, 8192))
    return graph({"a": f"f32[{m}, {n}]"}, "%0 = reduce_max(a, axes=[0], keepdims=False)")


def pointwise(r: Random) -> str:
    m, n = r.choice((4096, 10000)), r.choice((1000, 4096, 8192))
    return graph({"a": f"f16[{m}, {n}]", "b": f"f16[{n}]"}, "%0 = add(a, b)\n%1 = exp(%0)\n%2 = mul(%1, a)")


def transposed(r: Random) -> str:
    m, n = r.choice((1000, 4096, 8192)), r.choice((768, 3000, 8192))
    return graph({"a": f"f16[{m}, {n}]", "b": f"f16[{n}, {m}]"}, "%0 = transpose(a, perm=[1, 0])\n%1 = add(%0, b)")


def _conv(n: int, c: int, k: int, side: int, window: int, stride: int = 1, groups: int = 1) -> str:
    pad = window // 2
    how = f"lo=[{pad}, {pad}], hi=[{pad}, {pad}], strides=[{stride}, {stride}], dilations=[1, 1], groups={groups}"
    return graph({"x": f"f16[{n}, {c}, {side}, {side}]", "w": f"f16[{k}, {c // groups}, {window}, {window}]"}, f"%0 = conv(x, w, {how})")


def convolution(r: Random) -> str:
    c, k = r.choice((3, 32, 128)), r.choice((32, 64, 192))
    return _conv(r.choice((1, 16, 32)), c, k, r.choice((14, 28, 56)), r.choice((1, 3)), r.choice((1, 2)))


def depthwise(r: Random) -> str:
    c = r.choice((96, 192, 384))
    return _conv(r.choice((1, 16, 32)), c, c, r.choice((14, 28, 56)), r.choice((3, 5, 7)), groups=c)


def scan(r: Random) -> str:
    m, n = r.choice((64, 1000)), r.choice((512, 1000, 4096))
    return graph({"a": f"f32[{m}, {n}]"}, "%0 = cumsum(a, axis=1, exclusive=False, reverse=False)")


def lookup(r: Random) -> str:
    rows, wide, n = r.choice((1000, 50304)), r.choice((768, 1000, 4096)), r.choice((512, 10000))
    return graph({"t": f"f16[{rows}, {wide}]", "i": f"i64[{n}]"}, "%0 = gather(t, i, axis=0)")


FAMILIES: dict[str, Callable[[Random], str]] = {
    f.__name__: f
    for f in (product, few_rows, batched, attention, row_reduction, column_reduction, pointwise, transposed, convolution, depthwise, scan,
              lookup)
}
