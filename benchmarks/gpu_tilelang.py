"""TileLang kernels for the workloads of gpu.py, as its users write them: products with an epilogue and online-softmax attention, a few
configurations each, of which the benchmark keeps the fastest. `pip install tilelang`; without it the rows have no such contestant.
"""

# mypy: ignore-errors
# (tilelang reads the annotations of its functions as values: they are no types, and must not become strings)

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

Contestant = tuple[str, Callable[[], Any]]
LOG2E = 1.4426950408889634


def available() -> bool:
    """Whether TileLang is installed; its notes on every build are turned off."""
    if importlib.util.find_spec("tilelang") is None:
        return False
    import tilelang

    tilelang.set_log_level("WARNING")
    return True


def contestants(name: str, inputs: tuple[Any, ...]) -> Iterator[Contestant]:
    """(configuration, a function that builds its kernel and returns the call) of a workload."""
    if name in GEMMS:
        a, b = inputs[:2]
        (m, k), n = a.shape, b.shape[1]
        dtype = "bfloat16" if "bfloat16" in str(a.dtype) else "float16"
        for c in SKINNY if m < 64 else TILES:
            yield f"{c}", lambda c=c: _call(gemm(m, n, k, dtype, GEMMS[name], *c), inputs)
    if name in ATTENTION:
        batch, heads, s, d = inputs[0].shape
        for c in ROWS:
            yield f"{c}", lambda c=c: _call(attention(batch * heads, s, d, ATTENTION[name], *c), inputs, (batch * heads, s, d))


def _call(kernel: Any, inputs: tuple[Any, ...], shape: tuple[int, ...] = ()) -> Callable[[], Any]:
    args = [x.reshape(shape) for x in inputs] if shape else inputs
    return lambda: kernel(*args)


PLAIN = ("gemm_f16_8192", "gemm_bf16_4096", "gemm_f16_1024", "gemm_f16_m16", "gemm_f16_odd")
GEMMS = dict.fromkeys(PLAIN, "") | {"gemm_bias_gelu": "bias gelu", "gemm_exp": "exp"}
ATTENTION = {"attn_d128_s4096": False, "attn_d128_s4096_causal": True, "attn_bert": False, "attn_naive_graph": False}
# rows and columns of a tile, depth of a step, stages, threads
TILES = [(128, 256, 64, 3, 256), (128, 256, 64, 4, 256), (256, 128, 64, 3, 256), (128, 128, 64, 4, 256), (128, 128, 64, 3, 128)]
SKINNY = [(16, 64, 128, 4, 128), (16, 128, 128, 4, 128), (16, 32, 256, 4, 64), (16, 64, 256, 3, 128)]
# rows of queries, keys of a step, stages, threads
ROWS = [(128, 128, 2, 256), (128, 64, 2, 256), (64, 64, 2, 128), (128, 128, 1, 256), (192, 64, 2, 384)]


def gemm(m: int, n: int, k: int, dtype: str, epilogue: str, bm: int, bn: int, bk: int, stages: int, threads: int) -> Any:
    """A product [m, k] x [k, n] with float32 sums; epilogue: words of "bias", "gelu", "exp"."""
    import tilelang
    import tilelang.language as T  # noqa: N812

    @T.macro
    def finish(acc: Any, bias: Any, column: Any) -> None:
        for i, j in T.Parallel(bm, bn):
            if "bias" in epilogue:
                acc[i, j] = acc[i, j] + T.cast(bias[column + j], "float32")
            if "gelu" in epilogue:
                acc[i, j] = 0.5 * acc[i, j] * (1.0 + T.erf(acc[i, j] * 0.7071067811865476))
            if "exp" in epilogue:
                acc[i, j] = T.exp2(acc[i, j] * LOG2E)

    @T.macro
    def product(a: Any, b: Any, bias: Any, c: Any) -> None:
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (x, y):
            at, bt = T.alloc_shared((bm, bk), dtype), T.alloc_shared((bk, bn), dtype)
            acc, out = T.alloc_fragment((bm, bn), "float32"), T.alloc_shared((bm, bn), dtype)
            T.use_swizzle(10)
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(a[y * bm, step * bk], at)
                T.copy(b[step * bk, x * bn], bt)
                T.gemm(at, bt, acc)
            if len(epilogue) > 0:
                finish(acc, bias, x * bn)
            T.copy(acc, out)
            T.copy(out, c[y * bm, x * bn])

    if "bias" in epilogue:

        @T.prim_func
        def main(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), bias: T.Tensor((n,), dtype), c: T.Tensor((m, n), dtype)):
            product(a, b, bias, c)
    else:

        @T.prim_func
        def main(a: T.Tensor((m, k), dtype), b: T.Tensor((k, n), dtype), c: T.Tensor((m, n), dtype)):
            product(a, b, a, c)

    return tilelang.compile(main, out_idx=[-1])


def attention(heads: int, s: int, d: int, causal: bool, bm: int, bn: int, stages: int, threads: int) -> Any:
    """softmax(q k^T / sqrt(d)) v of [heads, s, d] in float16, rows of softmax online."""
    import tilelang
    import tilelang.language as T  # noqa: N812

    scale = d**-0.5 * LOG2E

    @T.prim_func
    def main(
        q: T.Tensor((heads, s, d), "float16"),
        k: T.Tensor((heads, s, d), "float16"),
        v: T.Tensor((heads, s, d), "float16"),
        o: T.Tensor((heads, s, d), "float16"),
    ):
        with T.Kernel(T.ceildiv(s, bm), heads, threads=threads) as (x, h):
            qt, kt, vt = T.alloc_shared((bm, d), "float16"), T.alloc_shared((bn, d), "float16"), T.alloc_shared((bn, d), "float16")
            ot = T.alloc_shared((bm, d), "float16")
            scores, weights = T.alloc_fragment((bm, bn), "float32"), T.alloc_fragment((bm, bn), "float16")
            out = T.alloc_fragment((bm, d), "float32")
            top, before, moved = T.alloc_fragment((bm,), "float32"), T.alloc_fragment((bm,), "float32"), T.alloc_fragment((bm,), "float32")
            part, total = T.alloc_fragment((bm,), "float32"), T.alloc_fragment((bm,), "float32")
            T.copy(q[h, x * bm : (x + 1) * bm, :], qt)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            steps = T.min(T.ceildiv(s, bn), T.ceildiv((x + 1) * bm, bn)) if causal else T.ceildiv(s, bn)
            for step in T.Pipelined(steps, num_stages=stages):
                T.copy(k[h, step * bn : (step + 1) * bn, :], kt)
                if causal:
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(x * bm + i >= step * bn + j, 0, -T.infinity("float32"))
                else:
                    T.clear(scores)
                T.gemm(qt, kt, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    moved[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * moved[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(bm, d):
                    out[i, j] *= moved[i]
                T.copy(v[h, step * bn : (step + 1) * bn, :], vt)
                T.gemm(weights, vt, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, d):
                out[i, j] /= total[i]
            T.copy(out, ot)
            T.copy(ot, o[h, x * bm : (x + 1) * bm, :])

    return tilelang.compile(main, out_idx=[-1])
