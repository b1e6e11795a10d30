"""Kernels whose schedules `benchmarks/cost_rank.py` puts in order, as text: for a CPU by name, for a GPU families drawn by a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import exp, log
from random import Random

HALVES = ("f16", "bf16")
HEADS = (40, 64, 72, 80, 96, 112, 128, 160, 192, 256)


@dataclass(frozen=True)
class Case:
    """A program as text; the kernel of it that takes longest is the one that is ranked."""

    family: str
    name: str
    text: str


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


def linear(dtype: str, m: int, n: int, k: int, after: str = "%2 = gelu(%1)") -> str:
    """A matmul with bias and an activation."""
    return graph({"x": f"{dtype}[{m}, {k}]", "w": f"{dtype}[{k}, {n}]", "b": f"{dtype}[{n}]"},
                 f"%0 = matmul(x, w); %1 = add(%0, b); {after}", "%2")  # fmt: skip


def matmul(dtype: str, m: int, n: int, k: int) -> str:
    """a @ b"""
    return graph({"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)", "%0")


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


def _some(r: Random, low: float, high: float, *steps: int) -> int:
    """A multiple of one of `steps` between two numbers, evenly on a logarithmic scale."""
    step = r.choice(steps or (1,))
    return max(step, int(exp(r.uniform(log(low), log(high)))) // step * step)


def _matrix(r: Random, elements: float = 2e7, low: float = 64, high: float = 100_000) -> tuple[int, int]:
    """Rows and a width, odd ones included, of about so many elements or a quarter."""
    width = _some(r, low, high, 256, 64, 8, 1)
    return max(1, int(elements * r.choice((0.25, 1.0)) / width)), width


def _product(r: Random, dtype: str, m: int, n: int, k: int, batch: int = 0) -> tuple[str, str]:
    """a @ b, either factor at times transposed, with what stands behind."""
    lead, ta, tb = (f"{batch}, " if batch else ""), *r.choice(((0, 0), (0, 1), (0, 1), (1, 0)))
    after = r.choice(("", "", "relu", "gelu", "bias"))
    inputs = {"a": f"{dtype}[{lead}{f'{k}, {m}' if ta else f'{m}, {k}'}]", "b": f"{dtype}[{lead}{f'{n}, {k}' if tb else f'{k}, {n}'}]"}
    perm = "[0, 2, 1]" if batch else "[1, 0]"
    body = [f"%{x} = transpose({x}, perm={perm})" for x, t in (("a", ta), ("b", tb)) if t]
    body.append(f"%p = matmul({'%a' if ta else 'a'}, {'%b' if tb else 'b'})")
    if after == "bias":
        inputs["c"] = f"{dtype}[{n}]"
    if after:
        body.append("%q = add(%p, c)" if after == "bias" else f"%q = {after}(%p)")
    name = f"{dtype} {f'{batch} x ' if batch else ''}{m}x{n}x{k} {'nt'[ta]}{'nt'[tb]} {after}".rstrip()
    return name, graph(inputs, "; ".join(body), "%q" if after else "%p")


def products(r: Random) -> tuple[str, str]:
    return _product(r, r.choice(HALVES), *(_some(r, 256, 6144, 64, 64, 8) for _ in range(3)))


def products_f32(r: Random) -> tuple[str, str]:
    return _product(r, "f32", *(_some(r, 128, 3072, 64, 8, 1) for _ in range(3)))


def few_rows(r: Random) -> tuple[str, str]:
    return _product(r, r.choice(HALVES), r.randrange(1, 65), _some(r, 1024, 14336, 64), _some(r, 1024, 8192, 64))


def batched(r: Random) -> tuple[str, str]:
    m, n, k = (_some(r, 48, 1024, 64, 8) for _ in range(3))
    return _product(r, r.choice(HALVES), m, n, k, max(2, min(256, int(2e7 / max(m * n, m * k, n * k)))))


def attentions(r: Random) -> tuple[str, str]:
    d, s, dtype, causal = r.choice(HEADS), r.choice((384, 512, 1000, 1024, 2048, 4096)), r.choice(HALVES), r.random() < 0.4
    b = max(2, min(96, int(6e10 / (4 * s * s * d))))
    body = (f"%t = transpose(k, perm=[0, 2, 1]); %s = matmul(q, %t); %c = mul(%s, const({d**-0.5:.6f}, {dtype})); "
            + (f"%r = iota(shape=[{s}, {s}], axis=0); %o = iota(shape=[{s}, {s}], axis=1); %g = ge(%r, %o); "
               f"%m = where(%g, %c, const(-inf, {dtype})); " if causal else "")
            + f"%p = softmax({'%m' if causal else '%c'}, axes=[2]); %y = matmul(%p, v)")  # fmt: skip
    return f"{dtype} {b}h {s} d{d}{' causal' if causal else ''}", graph(dict.fromkeys("qkv", f"{dtype}[{b}, {s}, {d}]"), body, "%y")


def _windows(dtype: str, n: int, c: int, size: int, out: int, window: int, stride: int, groups: int, last: bool) -> tuple[str, str]:
    pad = window // 2
    how = f"lo=[{pad}, {pad}], hi=[{pad}, {pad}], strides=[{stride}, {stride}], dilations=[1, 1], groups={groups}"
    body = (f"%x = transpose(x, perm=[0, 3, 1, 2]); %c = conv(%x, w, {how}); %r = relu(%c); %y = transpose(%r, perm=[0, 2, 3, 1])"
            if last else f"%c = conv(x, w, {how}); %y = relu(%c)")  # fmt: skip
    x = f"{n}, {size}, {size}, {c}" if last else f"{n}, {c}, {size}, {size}"
    name = f"{dtype} {n}x{c}x{size} -> {out}, {window} s{stride} g{groups}{' last' if last else ''}"
    return name, graph({"x": f"{dtype}[{x}]", "w": f"{dtype}[{out}, {c // groups}, {window}, {window}]"}, body, "%y")


def convolutions(r: Random) -> tuple[str, str]:
    c, o, size = _some(r, 32, 512, 32, 8), _some(r, 32, 512, 32, 8), r.choice((14, 28, 56, 57))
    n = max(1, min(64, int(1e7 / (size * size * max(c, o)))))
    return _windows(r.choice(HALVES), n, c, size, o, r.choice((1, 3, 3, 5)), r.choice((1, 1, 2)), 1, r.random() < 0.6)


def depthwise_convolutions(r: Random) -> tuple[str, str]:
    c, size = _some(r, 32, 768, 8, 1), r.choice((14, 28, 56, 112))
    n = max(1, min(64, int(1e7 / (size * size * c))))
    return _windows(r.choice((*HALVES, "f32")), n, c, size, c, r.choice((3, 3, 5, 7)), r.choice((1, 1, 2)), c, r.random() < 0.5)


def rows(r: Random) -> tuple[str, str]:
    (m, n), dtype = _matrix(r), r.choice((*HALVES, "f32"))
    what, body = r.choice((
        ("softmax", "%y = softmax(x, axes=[1])"), ("layer_norm", "%y = layer_norm(x, g, b, axes=[1], eps=1e-05)"),
        ("rms_norm", "%y = rms_norm(x, g, axes=[1], eps=1e-05)"), ("sum", "%y = reduce_sum(x, axes=[1], keepdims=False)"),
        ("max", "%y = reduce_max(x, axes=[1], keepdims=False)"), ("argmax", "%y = reduce_argmax(x, axes=[1], keepdims=False)"),
    ))  # fmt: skip
    more = {a: f"{dtype}[{n}]" for a in ("g" if what == "rms_norm" else "gb" if what == "layer_norm" else "")}
    return f"{what} {dtype} {m}x{n}", graph({"x": f"{dtype}[{m}, {n}]", **more}, body, "%y")


def columns_of(r: Random) -> tuple[str, str]:
    (m, n), dtype = _matrix(r, low=32, high=16_384), r.choice((*HALVES, "f32"))
    what = r.choice(("sum", "max", "mean"))
    return f"{what} {dtype} {m}x{n}", graph({"x": f"{dtype}[{m}, {n}]"}, f"%y = reduce_{what}(x, axes=[0], keepdims=False)", "%y")


def middle(r: Random) -> tuple[str, str]:
    b, p, dtype = _some(r, 4, 64), _some(r, 64, 4096, 16, 1), r.choice((*HALVES, "f32"))
    n = max(2, int(1e7 / (b * p)))
    what, body = r.choice((("softmax", "%y = softmax(x, axes=[1])"), ("sum", "%y = reduce_sum(x, axes=[1], keepdims=False)"),
                           ("variance", "%0 = reduce_mean(x, axes=[1], keepdims=True); %1 = sub(x, %0); %2 = mul(%1, %1); "
                                        "%y = reduce_mean(%2, axes=[1], keepdims=False)")))  # fmt: skip
    return f"{what} {dtype} {b}x{n}x{p}", graph({"x": f"{dtype}[{b}, {n}, {p}]"}, body, "%y")


def pointwise(r: Random) -> tuple[str, str]:
    (m, n), dtype = _matrix(r), r.choice((*HALVES, "f32"))
    what = r.choice(("gelu", "exp", "tanh", "sigmoid", "erf", "relu"))
    inputs = {"x": f"{dtype}[{m}, {n}]", "y": f"{dtype}[{m}, {n}]", "b": f"{dtype}[{n}]"}
    return f"{what} {dtype} {m}x{n}", graph(inputs, f"%0 = add(x, b); %1 = {what}(%0); %2 = mul(%1, y)", "%2")


def transposes(r: Random) -> tuple[str, str]:
    (m, n), dtype = _matrix(r, low=128, high=16_384), r.choice((*HALVES, "f32"))
    if r.random() < 0.5:
        return f"{dtype} {m}x{n}", graph({"x": f"{dtype}[{m}, {n}]"}, "%y = transpose(x, perm=[1, 0])", "%y")
    return f"{dtype} {m}x{n} +", turned(dtype, m, n)


def scans(r: Random) -> tuple[str, str]:
    (m, n), axis, dtype = _matrix(r, 1.6e7, 128, 40_000), r.choice((1, 1, 0)), r.choice(("f32", "f32", "f16"))
    op = f"%y = cumsum(x, axis={axis}, exclusive=False, reverse=False)"
    return f"axis {axis} {dtype} {m}x{n}", graph({"x": f"{dtype}[{m}, {n}]"}, op, "%y")


def gathers(r: Random) -> tuple[str, str]:
    table, wide, dtype = _some(r, 1000, 60_000), _some(r, 32, 4096, 64, 8, 1), r.choice((*HALVES, "f32"))
    n = max(1, int(1e7 / wide))
    table = min(table, int(2e7 / wide))
    body = "%0 = gather(t, i, axis=0); %y = mul(%0, const(2, " + dtype + "))"
    return f"{dtype} {n} of {table}x{wide}", graph({"t": f"{dtype}[{table}, {wide}]", "i": f"i64[{n}]"}, body, "%y")


FAMILIES: dict[str, Callable[[Random], tuple[str, str]]] = {
    "products": products, "products_f32": products_f32, "few_rows": few_rows, "batched": batched, "attention": attentions,
    "convolutions": convolutions, "depthwise": depthwise_convolutions, "rows": rows, "columns": columns_of, "middle": middle,
    "pointwise": pointwise, "transposes": transposes, "scans": scans, "gathers": gathers,
}  # fmt: skip


def drawn(seed: int, count: int) -> list[Case]:
    """`count` kernels of every family, one of each after another: a run that is cut has all families. Equal seeds draw equal ones."""
    each = ((f, make, Random(f"{f}/{seed}/{i}")) for i in range(count) for f, make in FAMILIES.items())
    return [Case(f, *make(r)) for f, make, r in each]
