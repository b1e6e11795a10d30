"""Families of GPU functions: each draws one function of torch and its operands from a random number generator, no shape is fixed.

A family is a list of what varies: types, sizes (odd ones included), layouts, what stands behind. Sizes are such that a call moves some 10
to 500 MB or takes some 5 to 500 GFLOP, as layers of models do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from random import Random
from typing import Any

Make = Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]


@dataclass(frozen=True)
class Case:
    """`make(torch)` gives (function, operands on torch's default device). flops: that no program can avoid."""

    family: str
    name: str
    make: Make
    flops: float = 0.0
    tf32: bool = False


HALVES = ("float16", "bfloat16")
SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "int8": "i8"}


def rand(t: Any, *shape: int, dtype: str = "float16", scale: float = 0.5) -> Any:
    """Normal numbers of this deviation."""
    return t.randn(*shape, dtype=t.float32).mul_(scale).to(getattr(t, dtype))


def _some(r: Random, low: float, high: float, step: int = 1) -> int:
    """A multiple of `step` between two numbers, evenly on a logarithmic scale."""
    return max(step, int(low * (high / low) ** r.random()) // step * step)


def _side(r: Random, low: float = 256, high: float = 8192) -> int:
    """A side of a product: mostly a multiple of 64 or 8, at times odd."""
    return _some(r, low, high, r.choice((64, 64, 64, 8, 1)))


def _act(r: Random) -> tuple[str, Callable[[Any, Any], Any]]:
    """What stands behind a product or a convolution."""
    return r.choice((
        ("", lambda t, x: x), ("relu", lambda t, x: t.relu(x)), ("gelu", lambda t, x: t.nn.functional.gelu(x)),
        ("silu", lambda t, x: t.nn.functional.silu(x)), ("tanh", lambda t, x: t.tanh(x)),
    ))  # fmt: skip


def _product(r: Random, family: str, dtype: str, m: int, n: int, k: int, batch: int = 0, tf32: bool = False, plain: bool = False) -> Case:
    ta, tb = r.choice(((0, 0), (0, 1), (0, 1), (1, 0)))
    act, after = ("", lambda t, x: x) if plain else _act(r)
    bias = not plain and r.random() < 0.5
    lead = (batch,) if batch else ()

    def make(t: Any) -> Any:
        a = rand(t, *lead, *((k, m) if ta else (m, k)), dtype=dtype)
        b = rand(t, *lead, *((n, k) if tb else (k, n)), dtype=dtype, scale=k**-0.5)
        more = (rand(t, n, dtype=dtype),) if bias else ()

        def f(a: Any, b: Any, *more: Any) -> Any:
            y = (a.transpose(-1, -2) if ta else a) @ (b.transpose(-1, -2) if tb else b)
            return after(t, y + more[0] if more else y)

        return f, (a, b, *more)

    how = "".join("nt"[x] for x in (ta, tb)) + ("+b" if bias else "") + (f"+{act}" if act else "")
    return Case(family, f"{SHORT[dtype]} {f'{batch}x' if batch else ''}{m}x{n}x{k} {how}", make, 2.0 * max(batch, 1) * m * n * k, tf32)


def products(r: Random) -> Case:
    return _product(r, "products", r.choice(HALVES), _side(r), _side(r), _side(r))


def products_f32(r: Random) -> Case:
    return _product(r, "products_f32", "float32", _side(r, 256, 4096), _side(r, 256, 4096), _side(r, 256, 4096))


def products_tf32(r: Random) -> Case:
    return _product(r, "products_tf32", "float32", _side(r), _side(r), _side(r), tf32=True)


def few_rows(r: Random) -> Case:
    return _product(r, "few_rows", r.choice(HALVES), _some(r, 1, 128), _some(r, 2048, 16384, 64), _some(r, 2048, 16384, 64))


def batched(r: Random) -> Case:
    m, n, k = (_some(r, 32, 1024, r.choice((8, 32, 1))) for _ in range(3))
    return _product(r, "batched", r.choice((*HALVES, "float32")), m, n, k, max(2, min(512, int(2e10 / (m * n * k)))), plain=True)


def products_i8(r: Random) -> Case:
    m, n, k = (_some(r, 512, 8192, 64) for _ in range(3))

    def make(t: Any) -> Any:
        a = t.randint(-100, 100, (m, k), dtype=t.int8)
        b = t.randint(-100, 100, (n, k), dtype=t.int8)
        return lambda a, b: t._int_mm(a, b.t()), (a, b)

    return Case("products_i8", f"{m}x{n}x{k}", make, 2.0 * m * n * k)


def _conv(r: Random, family: str, dims: int, n: int, c: int, o: int, size: int, kernel: int, stride: int = 1, groups: int = 1,
          dilation: int = 1, transposed: bool = False, last: bool | None = None, dtype: str = "") -> Case:  # fmt: skip
    dtype = dtype or r.choice((*HALVES, "float32"))
    last = (r.random() < 0.5) if last is None else last
    act, after = _act(r)
    pad = (kernel - 1) * dilation // 2 if kernel % 2 else 0  # even ones cut an image into patches

    def make(t: Any) -> Any:
        form = {2: t.channels_last, 3: t.channels_last_3d}.get(dims) if last else None
        x = rand(t, n, c, *[size] * dims, dtype=dtype)
        w = rand(t, *((c, o // groups) if transposed else (o, c // groups)), *[kernel] * dims, dtype=dtype,
                 scale=(c // groups * kernel**dims) ** -0.5)  # fmt: skip
        if form is not None:
            x, w = x.to(memory_format=form), w.to(memory_format=form)
        name = f"conv{'_transpose' if transposed else ''}{dims}d"

        def f(x: Any, w: Any, b: Any) -> Any:
            return after(t, getattr(t.nn.functional, name)(x, w, b, stride=stride, padding=pad, groups=groups, dilation=dilation))

        return f, (x, w, rand(t, o, dtype=dtype))

    out = (size + 2 * pad - (kernel - 1) * dilation - 1) // stride + 1
    steps = (size if transposed else out) ** dims
    how = "".join(f" {k}{v}" for k, v, d in (("s", stride, 1), ("g", groups, 1), ("d", dilation, 1)) if v != d)
    how += (" last" if last else "") + (f" +{act}" if act else "")
    return Case(family, f"{SHORT[dtype]} {n}x{c}x{size}^{dims} -> {o}, {kernel}{how}", make,
                2.0 * n * steps * c * o // groups * kernel**dims)  # fmt: skip


def convolutions(r: Random) -> Case:
    c, o = (_some(r, 32, 512, 8) for _ in range(2))
    size = r.choice((7, 14, 28, 56, 57, 112))
    n = max(1, min(64, int(4e10 / (size * size * c * o * 9))))
    return _conv(r, "convolutions", 2, n, c, o, size, r.choice((3, 3, 3, 5)), r.choice((1, 1, 2)), dilation=r.choice((1, 1, 1, 2)))


def convolutions_1x1(r: Random) -> Case:
    c, o, size = _some(r, 64, 2048, 8), _some(r, 64, 2048, 8), r.choice((7, 14, 28, 56))
    return _conv(r, "convolutions_1x1", 2, max(1, min(64, int(2e10 / (size * size * c * o)))), c, o, size, 1, r.choice((1, 1, 1, 2)))


def stems(r: Random) -> Case:
    size = r.choice((224, 256, 384))
    kernel, stride = r.choice(((7, 2), (3, 2), (3, 1), (4, 4), (16, 16)))
    if kernel % 2 == 0:
        size = size // 16 * 16
    return _conv(r, "stems", 2, r.choice((8, 16, 32)), r.choice((1, 3, 4)), r.choice((32, 48, 64, 96)), size, kernel, stride)


def depthwise(r: Random) -> Case:
    c, size = _some(r, 32, 1024, r.choice((8, 8, 1))), r.choice((7, 14, 28, 56, 112))
    n = max(1, min(128, int(6e7 / (c * size * size))))
    return _conv(r, "depthwise", 2, n, c, c, size, r.choice((3, 3, 5, 7)), r.choice((1, 1, 2)), groups=c)


def grouped(r: Random) -> Case:
    g, each = r.choice((4, 8, 16, 32)), r.choice((4, 8, 16, 32, 64))
    size = r.choice((14, 28, 56))
    n = max(1, min(64, int(4e7 / (g * each * size * size))))
    return _conv(r, "grouped", 2, n, g * each, g * each, size, 3, r.choice((1, 1, 2)), groups=g)


def convolutions_1d3d(r: Random) -> Case:
    if r.random() < 0.5:
        c, o, size = _some(r, 32, 512, 8), _some(r, 32, 512, 8), _some(r, 1024, 16384)
        return _conv(r, "convolutions_1d3d", 1, r.choice((4, 8, 16)), c, o, size, r.choice((3, 5, 7, 9)), r.choice((1, 1, 2)), last=False)
    c, o, size = _some(r, 16, 128, 8), _some(r, 16, 128, 8), r.choice((16, 24, 32))
    return _conv(r, "convolutions_1d3d", 3, r.choice((2, 4, 8)), c, o, size, 3, r.choice((1, 1, 2)))


def convolutions_transposed(r: Random) -> Case:
    c, o, size = _some(r, 32, 256, 8), _some(r, 32, 256, 8), r.choice((16, 28, 32, 56))
    return _conv(r, "convolutions_transposed", 2, r.choice((4, 8, 16)), c, o, size, r.choice((3, 5)), r.choice((1, 2, 2)), transposed=True)


def _matrix(r: Random, family: str, what: str, f: Callable[[Any], Callable[..., Any]], dtypes: tuple[str, ...] = (*HALVES, "float32"),
            widths: tuple[float, float] = (64, 150_000), elements: float = 4e7) -> Case:  # fmt: skip
    """A function of one matrix."""
    n = _some(r, *widths, r.choice((256, 64, 8, 1)) if widths[1] > 256 else 1)
    m, dtype = max(1, int(elements * r.choice((0.25, 1.0)) / n)), r.choice(dtypes)
    return Case(family, f"{what} {SHORT[dtype]} {m}x{n}", lambda t: (f(t), (rand(t, m, n, dtype=dtype),)))


def scans(r: Random) -> Case:
    axis = r.choice((1, 1, 0))
    what, f = r.choice((("cumsum", lambda t: lambda x: t.cumsum(x, axis)), ("cumsum", lambda t: lambda x: t.cumsum(x, axis)),
                        ("cumprod", lambda t: lambda x: t.cumprod(x * 0.01 + 1, axis)),
                        ("reversed", lambda t: lambda x: t.flip(t.cumsum(t.flip(x, [axis]), axis), [axis]))))  # fmt: skip
    return _matrix(r, "scans", f"{what} axis {axis}", f, ("float32", "float32", "float16"), (128, 40_000), 1.6e7)


def rows(r: Random) -> Case:
    what, f = r.choice((
        ("softmax", lambda t: lambda x: t.softmax(x, 1)), ("log_softmax", lambda t: lambda x: t.log_softmax(x, 1)),
        ("logsumexp", lambda t: lambda x: t.logsumexp(x, 1)), ("var", lambda t: lambda x: x.var(1)),
        ("layer_norm", lambda t: lambda x: t.nn.functional.layer_norm(x, x.shape[1:])),
        ("rms_norm", lambda t: lambda x: x * t.rsqrt(x.float().pow(2).mean(1, keepdim=True) + 1e-6).to(x.dtype)),
        ("sum", lambda t: lambda x: x.sum(1)), ("norm", lambda t: lambda x: t.nn.functional.normalize(x, dim=1)),
        ("amax", lambda t: lambda x: x.amax(1)),
    ))  # fmt: skip
    return _matrix(r, "rows", what, f)


def columns(r: Random) -> Case:
    what, f = r.choice((
        ("sum", lambda t: lambda x: x.sum(0)), ("var", lambda t: lambda x: x.var(0)), ("amax", lambda t: lambda x: x.amax(0)),
        ("softmax", lambda t: lambda x: t.softmax(x, 0)), ("norm", lambda t: lambda x: (x - x.mean(0)) * t.rsqrt(x.var(0) + 1e-5)),
    ))  # fmt: skip
    return _matrix(r, "columns", what, f, widths=(32, 16_384))


def middle(r: Random) -> Case:
    """Reductions over an axis between others, group norm, instance norm, batch statistics."""
    n, c, p = _some(r, 4, 64), _some(r, 32, 512, 32), _some(r, 256, 8192, r.choice((16, 1)))
    dtype = r.choice((*HALVES, "float32"))
    what, f = r.choice((
        ("mean(1)", lambda t: lambda x: x.mean(1)), ("var(1)", lambda t: lambda x: x.var(1)),
        ("softmax(1)", lambda t: lambda x: t.softmax(x, 1)),
        ("var(0, 2)", lambda t: lambda x: x.var((0, 2))), ("group_norm", lambda t: lambda x: t.nn.functional.group_norm(x, 32)),
        ("instance_norm", lambda t: lambda x: t.nn.functional.instance_norm(x)),
    ))  # fmt: skip
    return Case("middle", f"{what} {SHORT[dtype]} {n}x{c}x{p}", lambda t: (f(t), (rand(t, n, c, p, dtype=dtype),)))


def losses(r: Random) -> Case:
    n = _some(r, 1000, 130_000, r.choice((64, 1)))
    m, dtype = max(64, int(4e7 / n)), r.choice((*HALVES, "float32"))

    def make(t: Any) -> Any:
        y = t.randint(0, n, (m,))
        return (lambda x, y: t.nn.functional.cross_entropy(x.float(), y)), (rand(t, m, n, dtype=dtype), y)

    return Case("losses", f"cross_entropy {SHORT[dtype]} {m}x{n}", make)


def quantise(r: Random) -> Case:
    def f(t: Any) -> Any:
        def g(x: Any) -> Any:
            s = x.float().abs().amax(1, keepdim=True) / 127
            return t.round(x.float() / s).clamp(-128, 127).to(t.int8), s

        return g

    return _matrix(r, "quantise", "int8 rows", f, HALVES, (512, 16_384))


def indices(r: Random) -> Case:
    k = r.choice((1, 2, 8, 32))
    what, f = r.choice((("argmax", lambda t: lambda x: t.argmax(x, 1)), (f"topk {k}", lambda t: lambda x: t.topk(x, k, 1)),
                        ("max", lambda t: lambda x: t.max(x, 1))))  # fmt: skip
    return _matrix(r, "indices", what, f, ("float32", "float16"), (64, 32_000), 2e7)


def pointwise(r: Random) -> Case:
    n, dtype = _some(r, 2e6, 6e7, r.choice((1024, 1))), r.choice((*HALVES, "float32"))
    what, f = r.choice((
        ("gelu(x * y) + y", lambda t: lambda x, y: t.nn.functional.gelu(x * y) + y),
        ("expm1(x) / (1 + y^2)", lambda t: lambda x, y: t.expm1(x) / (1 + y * y)),
        ("where(x > y, sin x, cos y)", lambda t: lambda x, y: t.where(x > y, t.sin(x), t.cos(y))),
        ("silu(x) * y", lambda t: lambda x, y: t.nn.functional.silu(x) * y),
        ("round(x * 8) / 8 + softplus(y)", lambda t: lambda x, y: t.round(x * 8) / 8 + t.nn.functional.softplus(y)),
        ("erf(x) * log1p(abs(y))", lambda t: lambda x, y: t.erf(x) * t.log1p(y.abs())),
    ))  # fmt: skip
    return Case("pointwise", f"{what} {SHORT[dtype]} {n}", lambda t: (f(t), (rand(t, n, dtype=dtype), rand(t, n, dtype=dtype))))


def attention(r: Random) -> Case:
    """torch's fused function over heads of any width: causal, with a bias, few heads of keys, other lengths of keys, softcap, window."""
    d = r.choice((40, 64, 72, 80, 96, 112, 128, 160, 192, 256))
    s = r.choice((512, 1000, 1024, 2048, 4096))
    kind = r.choice(("plain", "plain", "causal", "causal", "bias", "gqa", "cross", "softcap", "window", "rope"))
    h = max(2, min(64, int(1.5e11 / (4 * s * s * d)))) // 2 * 2
    dtype, own, keys = r.choice(HALVES), h // 2 if kind == "gqa" else h, r.choice((77, 256, 1500)) if kind == "cross" else s

    def make(t: Any) -> Any:
        q, k, v = (rand(t, 1, a, b, d, dtype=dtype) for a, b in ((h, s), (own, keys), (own, keys)))
        sdpa = t.nn.functional.scaled_dot_product_attention
        if kind == "bias":
            return (lambda q, k, v, b: sdpa(q, k, v, attn_mask=b)), (q, k, v, rand(t, 1, h, s, s, dtype=dtype))
        if kind == "gqa":
            return (lambda q, k, v: sdpa(q, k, v, enable_gqa=True)), (q, k, v)
        if kind == "softcap":
            return (lambda q, k, v: t.softmax(30 * t.tanh(q @ k.transpose(-1, -2) * (d**-0.5 / 30)), -1) @ v), (q, k, v)
        if kind == "window":
            at = t.arange(s)
            near = ((at[:, None] >= at[None, :]) & (at[:, None] < at[None, :] + 256))
            return (lambda q, k, v, m: sdpa(q, k, v, attn_mask=m)), (q, k, v, near)
        if kind == "rope":
            angle = t.outer(t.arange(s).float(), 10000 ** (-t.arange(0, d, 2).float() / d))
            cos, sin = (t.cat([x, x], -1).to(q.dtype) for x in (angle.cos(), angle.sin()))
            turn = lambda x, c, s: x * c + t.cat([-x[..., d // 2 :], x[..., : d // 2]], -1) * s
            return (lambda q, k, v, c, s: sdpa(turn(q, c, s), turn(k, c, s), v, is_causal=True)), (q, k, v, cos, sin)
        return (lambda q, k, v: sdpa(q, k, v, is_causal=kind == "causal")), (q, k, v)

    return Case("attention", f"{kind} {SHORT[dtype]} {h}h {s}x{keys} d{d}", make,
                4.0 * h * s * keys * d * (0.5 if kind in ("causal", "rope") else 1.0))  # fmt: skip


def decode(r: Random) -> Case:
    b, h, d, s = r.choice((1, 4, 16, 64)), r.choice((16, 32)), r.choice((64, 80, 128)), r.choice((1000, 4096, 8192, 16384))
    own = r.choice((h, h // 4, h // 8))
    s = min(s, int(2.5e8 / (b * own * d)))

    def make(t: Any) -> Any:
        q, k, v = (rand(t, b, x, n, d, dtype="bfloat16") for x, n in ((h, 1), (own, s), (own, s)))
        return (lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=own != h)), (q, k, v)

    return Case("decode", f"bf16 {b}b {h}/{own}h {s} d{d}", make, 4.0 * b * h * s * d)


def linear_attention(r: Random) -> Case:
    b, d, s = r.choice((16, 32, 64)), r.choice((64, 128)), r.choice((1024, 2048, 4096))

    def make(t: Any) -> Any:
        def f(q: Any, k: Any, v: Any) -> Any:
            q, k = t.nn.functional.elu(q) + 1, (t.nn.functional.elu(k) + 1) / s  # sums over s of halves would overflow to zeros
            kv = k.transpose(-1, -2) @ v
            return (q @ kv) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2))

        return f, tuple(rand(t, b, s, d) for _ in "qkv")

    return Case("linear_attention", f"f16 {b}x{s}x{d}", make, 4.0 * b * s * d * d)


def moves(r: Random) -> Case:
    """Transposes, concats, slices, gathers, scatters."""
    dtype = r.choice((*HALVES, "float32"))
    kind = r.choice(("transpose", "permute", "concat", "embedding", "gather", "scatter_add", "roll", "pad"))
    n, w = _some(r, 2048, 8192, r.choice((64, 1))), _some(r, 256, 4096, r.choice((64, 1)))

    def make(t: Any) -> Any:
        x = rand(t, n, w, dtype=dtype)
        if kind == "transpose":
            return (lambda x: x.t().contiguous() * 2), (x,)
        if kind == "permute":
            return (lambda x: x.permute(0, 2, 1, 3).contiguous()), (rand(t, 8, n // 8, 16, ceil(w / 16), dtype=dtype),)
        if kind == "concat":
            return (lambda x, y: t.cat([x, t.relu(y)], 1)), (x, rand(t, n, 96, dtype=dtype))
        if kind == "roll":
            return (lambda x: t.roll(x, (3, 5), (0, 1)) + x), (x,)
        if kind == "pad":
            return (lambda x: t.nn.functional.pad(x, (3, 5, 2, 1))), (x,)
        at = t.randint(0, n, (n,))
        if kind == "embedding":
            return (lambda x, i: t.nn.functional.embedding(i, x)), (x, at)
        if kind == "gather":
            return (lambda x, i: t.gather(x, 0, i[:, None].expand(-1, x.shape[1]))), (x, at)
        return (lambda x, i: t.zeros_like(x.float()).index_add(0, i, x.float())), (x, at)

    return Case("moves", f"{kind} {SHORT[dtype]} {n}x{w}", make)


def pooling(r: Random) -> Case:
    c, size = _some(r, 16, 512, 8), r.choice((14, 28, 56, 112))
    n, dtype = max(1, min(64, int(3e7 / (c * size * size)))), r.choice((*HALVES, "float32"))
    k, s = r.choice(((2, 2), (3, 2), (3, 1), (5, 1)))
    what, last = r.choice(("max", "avg", "global")), r.random() < 0.5

    def make(t: Any) -> Any:
        x = rand(t, n, c, size, size, dtype=dtype)
        x = x.to(memory_format=t.channels_last) if last else x
        fn = t.nn.functional
        f = {"max": lambda x: fn.max_pool2d(x, k, s, k // 2), "avg": lambda x: fn.avg_pool2d(x, k, s), "global": lambda x: x.mean((2, 3))}
        return f[what], (x,)

    return Case("pooling", f"{what} {SHORT[dtype]} {n}x{c}x{size}^2 {k}/{s}{' last' if last else ''}", make)


FAMILIES: dict[str, Callable[[Random], Case]] = {
    f.__name__: f for f in (
        products, products_f32, products_tf32, few_rows, batched, products_i8, convolutions, convolutions_1x1, stems, depthwise, grouped,
        convolutions_1d3d, convolutions_transposed, scans, rows, columns, middle, losses, quantise, indices, pointwise, attention, decode,
        linear_attention, moves, pooling,
    )
}  # fmt: skip


def moved(operands: tuple[Any, ...], results: tuple[Any, ...]) -> float:
    """Bytes that no program can avoid: each operand read once, each result written once."""
    return float(sum(x.element_size() * prod(x.shape) for x in (*operands, *results)))
