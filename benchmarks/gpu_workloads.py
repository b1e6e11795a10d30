"""The GPU workloads: each once as a graph of ours and once as the torch function that a user would write.

A workload's arrays are made on the device by torch; the graph's inputs take the same arrays in the same order (a channels-last
image as the [N, H, W, C] array that lies in memory).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Workload:
    """`graph`: text form of our graph ("": ours is what torch exports). `make(torch)` gives (function or module, arguments);
    `ours(arguments)` the arrays for our graph.

    flops and bytes are those that no program can avoid (each input read once, each output written once). `exact`: the function on
    float64 operands, where the torch function itself takes its own types only.
    """

    graph: str
    make: Callable[[Any], tuple[Callable[..., Any], tuple[Any, ...]]]
    flops: float
    bytes: float
    ours: Callable[[tuple[Any, ...]], tuple[Any, ...]] = lambda args: args
    exact: Callable[..., Any] | None = None


def _random(torch: Any, *shape: int, dtype: str = "float16", scale: float = 0.5) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float32).mul_(scale).to(getattr(torch, dtype))


def _graph(inputs: dict[str, str], body: str, output: str) -> str:
    lines = ["graph g", *(f"input {n}: {t}" for n, t in inputs.items()), *(s.strip() for s in body.strip().splitlines())]
    return "\n".join([*lines, f"output out = {output}", ""])


def _gemm(m: int, n: int, k: int, dtype: str = "f16") -> Workload:
    name = {"f16": "float16", "bf16": "bfloat16"}[dtype]
    return Workload(
        _graph({"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)", "%0"),
        lambda t: (lambda a, b: a @ b, (_random(t, m, k, dtype=name), _random(t, k, n, dtype=name))),
        2 * m * n * k,
        2 * (m * k + k * n + m * n),
    )


def _gemm_bias_gelu(m: int = 16384, n: int = 3072, k: int = 768) -> Workload:
    return Workload(
        _graph({"x": f"f16[{m}, {k}]", "w": f"f16[{k}, {n}]", "b": f"f16[{n}]"},
               "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)", "%2"),
        lambda t: (lambda x, w, b: t.nn.functional.gelu(x @ w + b),
                   (_random(t, m, k), _random(t, k, n, scale=0.5 / 16), _random(t, n))),
        2 * m * n * k, 2 * (m * k + k * n + m * n))  # fmt: skip


def _gemm_exp(n: int = 4096) -> Workload:
    return Workload(
        _graph({"a": f"f16[{n}, {n}]", "b": f"f16[{n}, {n}]"}, "%0 = matmul(a, b)\n%1 = exp(%0)", "%1"),
        lambda t: (lambda a, b: t.exp(a @ b), (_random(t, n, n, scale=0.5 / 64), _random(t, n, n, scale=0.125))),
        2 * n**3, 2 * 3 * n**2)  # fmt: skip


def _swiglu(m: int = 4096, h: int = 4096, i: int = 11008) -> Workload:
    def make(t: Any) -> Any:
        f = lambda x, wg, wu, wd: (t.nn.functional.silu(x @ wg) * (x @ wu)) @ wd
        w = lambda *s: _random(t, *s, scale=0.5 / 64)
        return f, (_random(t, m, h, scale=0.125), w(h, i), w(h, i), w(i, h))

    return Workload(
        _graph({"x": f"f16[{m}, {h}]", "wg": f"f16[{h}, {i}]", "wu": f"f16[{h}, {i}]", "wd": f"f16[{i}, {h}]"},
               "%0 = matmul(x, wg)\n%1 = silu(%0)\n%2 = matmul(x, wu)\n%3 = mul(%1, %2)\n%4 = matmul(%3, wd)", "%4"),
        make, 6 * m * h * i, 2 * (2 * m * h + 3 * h * i))  # fmt: skip


def _softmax(m: int, n: int) -> Workload:
    return Workload(
        _graph({"x": f"f16[{m}, {n}]"}, "%0 = softmax(x, axes=[1])", "%0"),
        lambda t: (lambda x: t.softmax(x, -1), (_random(t, m, n),)), 0, 4 * m * n)  # fmt: skip


def _layernorm(m: int = 16384, n: int = 4096) -> Workload:
    return Workload(
        _graph({"x": f"f16[{m}, {n}]", "g": f"f16[{n}]", "b": f"f16[{n}]"}, "%0 = layer_norm(x, g, b, axes=[1])", "%0"),
        lambda t: (lambda x, g, b: t.nn.functional.layer_norm(x, (n,), g, b), (_random(t, m, n), _random(t, n), _random(t, n))),
        0, 4 * m * n)  # fmt: skip


def _add_rmsnorm(m: int = 16384, n: int = 4096) -> Workload:
    def make(t: Any) -> Any:
        def f(x: Any, r: Any, g: Any) -> Any:
            h = x + r
            v = h.float()
            return (v * t.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).half() * g, h

        return f, (_random(t, m, n), _random(t, m, n), _random(t, n))

    graph = _graph({"x": f"f16[{m}, {n}]", "r": f"f16[{m}, {n}]", "g": f"f16[{n}]"},
                   "%0 = add(x, r)\n%1 = rms_norm(%0, g, axes=[1], eps=1e-06)", "%1") + "output sum = %0\n"  # fmt: skip
    return Workload(graph, make, 0, 8 * m * n)


def _pointwise(n: int = 1 << 26) -> Workload:
    def make(t: Any) -> Any:
        f = lambda x, y, z: t.nn.functional.gelu(x * y + z) * 0.5 + t.tanh(z)
        return f, (_random(t, n), _random(t, n), _random(t, n))

    return Workload(
        _graph({a: f"f16[{n}]" for a in "xyz"},
               "%0 = mul(x, y)\n%1 = add(%0, z)\n%2 = gelu(%1)\n%3 = mul(%2, const(0.5, f16))\n%4 = tanh(z)\n%5 = add(%3, %4)", "%5"),
        make, 0, 8 * n)  # fmt: skip


def _reduce_axis0(m: int = 16384, n: int = 8192) -> Workload:
    return Workload(_graph({"x": f"f32[{m}, {n}]"}, "%0 = reduce_sum(x, axes=[0])", "%0"),
                    lambda t: (lambda x: x.sum(0), (_random(t, m, n, dtype="float32"),)), 0, 4 * m * n)  # fmt: skip


def _transpose_add(n: int = 8192) -> Workload:
    return Workload(
        _graph({"x": f"f16[{n}, {n}]", "y": f"f16[{n}, {n}]"}, "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)", "%1"),
        lambda t: (lambda x, y: x.t() + y, (_random(t, n, n), _random(t, n, n))), 0, 6 * n * n)  # fmt: skip


def _attention(b: int, h: int, s: int, d: int, causal: bool = False, plain: bool = False) -> Workload:
    """torch gets its fused function (`plain`: the same separate ops as our graph)."""

    def make(t: Any) -> Any:
        sdpa = t.nn.functional.scaled_dot_product_attention
        naive = lambda q, k, v: t.softmax((q @ k.transpose(-1, -2)) * d**-0.5, -1) @ v
        qkv = tuple(_random(t, b, h, s, d) for _ in range(3))
        return naive if plain else (lambda q, k, v: sdpa(q, k, v, is_causal=causal)), qkv

    mask = ""
    if causal:
        mask = f"""%r = iota(shape=[{s}, {s}], axis=0)
            %c = iota(shape=[{s}, {s}], axis=1)
            %m = ge(%r, %c)
            %2 = where(%m, %2, const(-inf, f16))"""
    body = f"""%0 = transpose(k, perm=[0, 1, 3, 2])
        %1 = matmul(q, %0)
        %2 = mul(%1, const({d**-0.5}, f16))
        {mask}
        %3 = softmax(%2, axes=[3])
        %4 = matmul(%3, v)"""
    body = body.replace("%2 = where(%m, %2", "%5 = where(%m, %2").replace("softmax(%2", "softmax(%5" if causal else "softmax(%2")
    flops = 4 * b * h * s * s * d * (0.5 if causal else 1)
    return Workload(_graph({a: f"f16[{b}, {h}, {s}, {d}]" for a in "qkv"}, "\n".join(x for x in body.splitlines() if x.strip()), "%4"),
                    make, flops, 8 * b * h * s * d)  # fmt: skip


def _conv_bn_relu(n: int = 64, c: int = 64, hw: int = 56, o: int = 64) -> Workload:
    def make(t: Any) -> Any:
        x = _random(t, n, c, hw, hw).to(memory_format=t.channels_last)
        w = _random(t, o, c, 3, 3, scale=0.5 / 16).to(memory_format=t.channels_last)
        s, b, m, v = _random(t, o).abs(), _random(t, o), _random(t, o), _random(t, o).abs() + 0.1
        nf = t.nn.functional
        return lambda x, w, s, b, m, v: nf.relu(nf.batch_norm(nf.conv2d(x, w, padding=1), m, v, s, b)), (x, w, s, b, m, v)

    graph = _graph({"x": f"f16[{n}, {hw}, {hw}, {c}]", "w": f"f16[{o}, 3, 3, {c}]", **{a: f"f16[{o}]" for a in "sbmv"}},
                   """%0 = transpose(x, perm=[0, 3, 1, 2])
                      %1 = transpose(w, perm=[0, 3, 1, 2])
                      %2 = conv(%0, %1, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1])
                      %3 = batch_norm(%2, s, b, m, v)
                      %4 = relu(%3)
                      %5 = transpose(%4, perm=[0, 2, 3, 1])""", "%5")  # fmt: skip
    return Workload(graph, make, 2 * n * hw * hw * o * c * 9, 2 * (n * hw * hw * (c + o) + o * c * 9),
                    lambda a: (a[0].permute(0, 2, 3, 1), a[1].permute(0, 2, 3, 1), *a[2:]))  # fmt: skip


def _decode(b: int, h: int, own: int, s: int, d: int) -> Workload:
    """One query a sequence over s keys; h heads read `own` heads of keys and values."""

    def make(t: Any) -> Any:
        sdpa = t.nn.functional.scaled_dot_product_attention
        f = lambda q, k, v: sdpa(q.reshape(b, h, 1, d), k, v, enable_gqa=h > own).reshape(b, own, h // own, d)
        return f, (_random(t, b, own, h // own, d), _random(t, b, own, s, d), _random(t, b, own, s, d))

    body = f"""%0 = transpose(k, perm=[0, 1, 3, 2])
        %1 = matmul(q, %0)
        %2 = mul(%1, const({d**-0.5}, f16))
        %3 = softmax(%2, axes=[3])
        %4 = matmul(%3, v)"""
    keys = f"f16[{b}, {own}, {s}, {d}]"
    return Workload(_graph({"q": f"f16[{b}, {own}, {h // own}, {d}]", "k": keys, "v": keys}, body, "%4"), make,
                    4 * b * h * s * d, 4 * b * own * s * d)  # fmt: skip


def _decode_masked(b: int = 8, h: int = 32, own: int = 8, s: int = 8192, d: int = 128) -> Workload:
    """One query a sequence over a cache of which it sees a part of its own length: heads of keys are repeated and scores masked, as models
    write it; torch gets its fused function."""

    def make(t: Any) -> Any:
        sdpa = t.nn.functional.scaled_dot_product_attention
        sees = t.arange(s, device="cuda")[None] < t.randint(s // 2, s, (b, 1), device="cuda")
        f = lambda q, k, v, m: sdpa(q, k, v, attn_mask=m, enable_gqa=True)
        return f, (_random(t, b, h, 1, d), _random(t, b, own, s, d), _random(t, b, own, s, d), sees[:, None, None])

    repeated = [f"""%{x}1 = reshape({x}, shape=[{b}, {own}, 1, {s}, {d}])
        %{x}2 = broadcast(%{x}1, shape=[{b}, {own}, {h // own}, {s}, {d}])
        %{x}3 = reshape(%{x}2, shape=[{b}, {h}, {s}, {d}])""" for x in "kv"]  # fmt: skip
    body = "\n".join(repeated) + f"""
        %0 = transpose(%k3, perm=[0, 1, 3, 2])
        %1 = matmul(q, %0)
        %2 = mul(%1, const({d**-0.5}, f16))
        %3 = where(mask, %2, const(-inf, f16))
        %4 = softmax(%3, axes=[3])
        %5 = matmul(%4, %v3)"""
    keys = f"f16[{b}, {own}, {s}, {d}]"
    return Workload(_graph({"q": f"f16[{b}, {h}, 1, {d}]", "k": keys, "v": keys, "mask": f"bool[{b}, 1, 1, {s}]"}, body, "%5"), make,
                    4 * b * h * s * d, 4 * b * own * s * d)  # fmt: skip


def _sum_all(n: int = 1 << 26) -> Workload:
    return Workload(_graph({"x": f"f32[{n}]"}, "%0 = reduce_sum(x, axes=[0])", "%0"),
                    lambda t: (lambda x: x.sum(), (_random(t, n, dtype="float32"),)), 0, 4 * n)  # fmt: skip


def _mla_decode(b: int = 64, h: int = 128, s: int = 4096, d: int = 512, p: int = 64) -> Workload:
    def make(t: Any) -> Any:
        def f(q: Any, qp: Any, kv: Any, kp: Any) -> Any:
            scores = (q @ kv.transpose(1, 2) + qp @ kp.transpose(1, 2)) * ((d + p) ** -0.5)
            return t.softmax(scores.float(), -1).half() @ kv

        return f, (_random(t, b, h, d, scale=1 / 16), _random(t, b, h, p, scale=1 / 16), _random(t, b, s, d), _random(t, b, s, p))

    return Workload("", make, 2 * b * h * s * (2 * d + p), 2 * b * s * (d + p))


def _gemm_fp8(n: int = 8192) -> Workload:
    def make(t: Any) -> Any:
        f = lambda a, b, sa, sb: t._scaled_mm(a, b.t(), scale_a=sa, scale_b=sb, out_dtype=t.bfloat16, use_fast_accum=True)
        a, b = (_random(t, n, n, dtype="float8_e4m3fn") for _ in "ab")
        return f, (a, b, t.tensor(0.5, device="cuda"), t.tensor(0.25, device="cuda"))

    return Workload(
        _graph({"a": f"f8e4m3[{n}, {n}]", "b": f"f8e4m3[{n}, {n}]", "sa": "f32[]", "sb": "f32[]"},
               """%0 = cast(a, to="f32")
               %1 = mul(%0, sa)
               %2 = cast(b, to="f32")
               %3 = mul(%2, sb)
               %4 = transpose(%3, perm=[1, 0])
               %5 = matmul(%1, %4)
               %6 = cast(%5, to="bf16")""", "%6"),
        make, n**3, 2 * n * n + 2 * n * n, exact=lambda a, b, sa, sb: (a @ b.t()) * (sa * sb))  # fmt: skip


def _gemm_int8(n: int = 8192) -> Workload:
    def make(t: Any) -> Any:
        a, b = (t.randint(-128, 128, (n, n), device="cuda", dtype=t.int8) for _ in "ab")
        return lambda a, b: t._int_mm(a, b.t()), (a, b)

    return Workload(
        _graph({"a": f"i8[{n}, {n}]", "b": f"i8[{n}, {n}]"},
               """%0 = cast(a, to="i32")
               %1 = cast(b, to="i32")
               %2 = transpose(%1, perm=[1, 0])
               %3 = matmul(%0, %2)""", "%3"),
        make, n**3, 2 * n * n + 4 * n * n, exact=lambda a, b: a.double() @ b.double().t())  # fmt: skip


def _w4a16(m: int = 1, n: int = 8192, k: int = 8192) -> Workload:
    def make(t: Any) -> Any:
        def f(x: Any, q: Any, s: Any) -> Any:
            lo, hi = (q & 15).to(t.float16) - 8, (q >> 4).to(t.float16) - 8
            w = t.stack((lo, hi), -1).reshape(n, k) * s.repeat_interleave(128, 1)
            return x @ w.t()

        q = t.randint(0, 255, (n, k // 2), device="cuda", dtype=t.uint8)
        return f, (_random(t, m, k), q, _random(t, n, k // 128, scale=0.5 / 64))

    return Workload("", make, 2 * m * n * k, n * k // 2 + 2 * n * k // 128 + 2 * m * (n + k))


def _resnet50(batch: int = 32) -> Workload:
    def make(t: Any) -> Any:
        from benchmarks.gpu_models import resnet50

        model = resnet50(t).eval().half().cuda().to(memory_format=t.channels_last)
        return model, (_random(t, batch, 3, 224, 224).to(memory_format=t.channels_last),)

    return Workload("", make, batch * 8.2e9, 0, lambda a: (a[0].contiguous(),))


def _bert(batch: int = 16, seq: int = 512) -> Workload:
    def make(t: Any) -> Any:
        from benchmarks.gpu_models import bert

        return bert(t).eval().half().cuda(), (t.randint(0, 30000, (batch, seq), device="cuda"),)

    return Workload("", make, batch * seq * 2 * 85e6 + 12 * 4 * batch * seq * seq * 768, 0)


def _llama_block(m: int = 4096, h: int = 4096, i: int = 11008, heads: int = 32) -> Workload:
    def make(t: Any) -> Any:
        nf = t.nn.functional

        def rms(x: Any, g: Any) -> Any:
            v = x.float()
            return (v * t.rsqrt(v.pow(2).mean(-1, keepdim=True) + 1e-6)).half() * g

        def f(x: Any, g1: Any, g2: Any, wqkv: Any, wo: Any, wg: Any, wu: Any, wd: Any) -> Any:
            q, k, v = (rms(x, g1) @ wqkv).view(m, 3, heads, h // heads).permute(1, 2, 0, 3).unbind(0)
            a = nf.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0].transpose(0, 1).reshape(m, h)
            x = x + a @ wo
            y = rms(x, g2)
            return x + (nf.silu(y @ wg) * (y @ wu)) @ wd

        w = lambda *s: _random(t, *s, scale=0.5 / 64)
        return f, (_random(t, m, h), _random(t, h), _random(t, h), w(h, 3 * h), w(h, h), w(h, i), w(h, i), w(i, h))

    return Workload("", make, 2 * m * h * (4 * h + 3 * i) + 2 * m * m * h, 2 * h * (4 * h + 3 * i))


def _llama_decode(b: int = 1, four_bits: bool = False, s: int = 4096, h: int = 4096, i: int = 11008) -> Workload:
    """One token a sequence through a layer, over a cache of s keys. `four_bits`: weights [columns, depth / 2] of two numbers a byte with a
    scale for each 128 of depth."""
    heads, own, d = 32, 8, h // 32
    sizes = [(h, heads * d), (h, own * d), (h, own * d), (heads * d, h), (h, i), (h, i), (i, h)]  # [depth, columns]: q k v o gate up down
    weights = sum(k * n for k, n in sizes)

    def make(t: Any) -> Any:
        from benchmarks.gpu_models import llama_step

        def weight(k: int, n: int) -> tuple[Any, ...]:
            if not four_bits:
                return (_random(t, k, n, scale=0.5 / 64),)
            return t.randint(0, 255, (n, k // 2), device="cuda", dtype=t.uint8), _random(t, n, k // 128, scale=0.1 / 64)

        cache = (_random(t, b, own, s, d), _random(t, b, own, s, d))
        turns = (_random(t, 1, 1, 1, d), _random(t, 1, 1, 1, d))
        given = (_random(t, b, h), *cache, *turns, _random(t, h), _random(t, h), *(x for size in sizes for x in weight(*size)))
        return llama_step(t, heads, four_bits), given

    read = weights // 2 + weights // 64 if four_bits else 2 * weights
    return Workload("", make, 2 * b * weights + 4 * b * heads * s * d, read + 4 * b * own * s * d)


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "gemm_f16_8192": lambda: _gemm(8192, 8192, 8192),
    "gemm_bf16_4096": lambda: _gemm(4096, 4096, 4096, "bf16"),
    "gemm_f16_1024": lambda: _gemm(1024, 1024, 1024),
    "gemm_f16_m16": lambda: _gemm(16, 8192, 8192),
    "gemm_f16_odd": lambda: _gemm(4000, 3000, 2008),
    "gemm_bias_gelu": _gemm_bias_gelu,
    "gemm_exp": _gemm_exp,
    "swiglu_mlp": _swiglu,
    "softmax_row": lambda: _softmax(16384, 4096),
    "softmax_wide": lambda: _softmax(512, 131072),
    "layernorm": _layernorm,
    "add_rmsnorm": _add_rmsnorm,
    "pointwise_chain": _pointwise,
    "reduce_axis0": _reduce_axis0,
    "transpose_add": _transpose_add,
    "attn_d128_s4096": lambda: _attention(2, 32, 4096, 128),
    "attn_d128_s4096_causal": lambda: _attention(2, 32, 4096, 128, causal=True),
    "attn_bert": lambda: _attention(32, 12, 512, 64),
    "attn_naive_graph": lambda: _attention(8, 16, 2048, 64, plain=True),
    "conv_bn_relu": _conv_bn_relu,
    "attn_decode": lambda: _decode(1, 32, 8, 32768, 128),
    "attn_decode_16h": lambda: _decode(1, 16, 16, 32768, 128),
    "sum_all": _sum_all,
    "mla_decode": _mla_decode,
    "w4a16_m1": _w4a16,
    "llama_block": _llama_block,
    "resnet50_b32": _resnet50,
    "bert_base_b16_s512": _bert,
}
# Rows beside those that the headline is the mean of. flops of 8-bit products: half of the count, at the rate of 16-bit ones.
EXTRA: dict[str, Callable[[], Workload]] = {
    "gemm_fp8": _gemm_fp8,
    "gemm_int8": _gemm_int8,
    "attn_decode_gqa": _decode_masked,
    "llama_decode": _llama_decode,
    "llama_decode_b8": lambda: _llama_decode(8),
    "llama_decode_w4": lambda: _llama_decode(1, four_bits=True),
    "w4a16_m16": lambda: _w4a16(16),
    "w4a16_m512": lambda: _w4a16(512),
    "w4a16_m4096": lambda: _w4a16(4096),
}
