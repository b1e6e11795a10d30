"""Random graphs from a generator of random numbers: a leaf, then steps that each add an op over what is there. Sizes are small, or
those at which GPU kernels change their form (`wide`). `graphs` is the same as a strategy of hypothesis, which shrinks them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

from autocomp.errors import ModelError
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import BF16, F16, F32, F64, I8, I32, I64, DType, TensorType

SMOOTH = ("tanh", "sigmoid", "relu", "abs", "neg", "erf", "gelu", "gelu_tanh", "silu", "softplus", "sin", "cos", "atan", "asinh")
BINARY = ("add", "sub", "mul", "max", "min")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33)
WIDE = (1, 3, 8, 16, 17, 24, 40, 64, 65, 72, 100, 128, 130, 136, 200, 264)  # around the tiles and vectors of GPU kernels
DTYPES = (F32, F32, F32, F32, F64, F16, I32, I8)
WIDE_DTYPES = (F32, F16, F16, F16, BF16, BF16, I32, I8)


def fixed(t: TensorType) -> tuple[int, ...]:
    """A shape without named dimensions, which are all that is drawn here."""
    return tuple(d for d in t.shape if isinstance(d, int))


@dataclass
class Drawn:
    """A graph in the making: `pool` are its values so far."""

    random: Random
    b: Builder
    pool: list[Node]
    sizes: tuple[int, ...] = SIZES
    fresh: int = 0

    def pick(self, *kinds: str) -> Node | None:
        """A value whose dtype is float ("f"), integer ("i") or bool ("b"), recent ones more often."""
        fits = [n for n in self.pool if kind_of(n.type.dtype) in kinds]
        return self.random.choice([*fits, *fits[-2:] * 3]) if fits else None

    def one_of(self, *items: Any) -> Any:
        return self.random.choice(items)

    def number(self, lo: int, hi: int) -> int:
        return self.random.randint(lo, hi)

    def coin(self) -> bool:
        return self.random.randint(0, 1) == 1

    def leaf(self, t: TensorType) -> Node:
        """A new input or, for floats, sometimes a parameter."""
        self.fresh += 1
        if t.dtype.is_float and self.coin():
            values = np.random.default_rng(self.fresh).standard_normal(fixed(t)) * 0.5
            return self.b.param(f"w{self.fresh}", values.astype(t.dtype.numpy))
        return self.b.input(f"x{self.fresh}", t)


def kind_of(d: DType) -> str:
    return "f" if d.is_float else "i" if d.is_int else "b"


def unary(g: Drawn) -> Node | None:
    x = g.pick("f", "i")
    if x is None:
        return None
    return g.b.op(g.one_of(*SMOOTH) if x.type.dtype.is_float else g.one_of("abs", "neg", "sign"), x)


def bounded(g: Drawn) -> Node | None:
    """Functions with poles or growth, on arguments where they have neither."""
    x = g.pick("f")
    if x is None:
        return None
    one = g.b.const(1.0, x.type.dtype)
    positive = g.b.op("add", g.b.op("abs", x), one)
    return {
        "exp": lambda: g.b.op("exp", g.b.op("tanh", x)),
        "sqrt": lambda: g.b.op("sqrt", positive),
        "rsqrt": lambda: g.b.op("rsqrt", positive),
        "log": lambda: g.b.op("log", positive),
        "div": lambda: g.b.op("div", one, positive),
    }[g.one_of("exp", "sqrt", "rsqrt", "log", "div")]()


def binary(g: Drawn) -> Node | None:
    """With a value of the same type, a broadcast leaf, or a constant."""
    x = g.pick("f", "i")
    if x is None:
        return None
    t = x.type
    same = [n for n in g.pool if n.type == t]
    how = g.one_of("same", "leaf", "const")
    if how == "same":
        y = g.one_of(*same)
    elif how == "leaf":
        cut = g.number(0, t.rank)
        y = g.leaf(TensorType(t.dtype, tuple(1 if g.coin() else d for d in t.shape)[cut:]))
    else:
        y = g.b.const(g.one_of(0.0, 1.0, 2.0, -0.5, 3.0) if t.dtype.is_float else g.one_of(0, 1, 2, 3), t.dtype)
    pair = (x, y) if g.coin() else (y, x)
    return g.b.op(g.one_of(*BINARY), *pair)


def choice(g: Drawn) -> Node | None:
    """where over a comparison of a leaf, which rounding cannot turn."""
    x = g.pick("f", "i")
    if x is None:
        return None
    z = g.b.const(0 if x.type.dtype.is_int else 0.0, x.type.dtype)
    c = g.b.op(g.one_of("gt", "le", "ne"), g.leaf(x.type), z)
    return g.b.op("where", c, *((x, z) if g.coin() else (z, x)))


def compare(g: Drawn) -> Node | None:
    x = g.pick("i")
    return None if x is None else g.b.op(g.one_of("lt", "eq", "ge"), x, g.b.const(2, x.type.dtype))


def axes_of(g: Drawn, x: Node) -> list[int]:
    return sorted(g.random.sample(range(x.type.rank), g.number(1, x.type.rank)))


def reduction(g: Drawn) -> Node | None:
    x = g.pick("f", "i")
    if x is None or not x.type.rank:
        return None
    ops = ("reduce_sum", "reduce_max", "reduce_min", *(("reduce_mean",) if x.type.dtype.is_float else ()))
    return g.b.op(g.one_of(*ops), x, axes=axes_of(g, x), keepdims=g.coin())


def rows(g: Drawn) -> Node | None:
    x = g.pick("f")
    if x is None or not x.type.rank:
        return None
    return {
        "softmax": lambda: g.b.op("softmax", x, axes=[x.type.rank - 1]),
        "softmax_any": lambda: g.b.op("softmax", x, axes=[g.number(0, x.type.rank - 1)]),
        "log_softmax": lambda: g.b.op("log_softmax", x, axes=[x.type.rank - 1]),
        "norm": lambda: normalised(g, x),
    }[g.one_of("softmax", "softmax_any", "log_softmax", "norm")]()


def normalised(g: Drawn, x: Node) -> Node:
    """A norm over the last axis or the last two, with its scale and, where it has one, its shift."""
    first = g.number(max(x.type.rank - 2, 0), x.type.rank - 1)
    weights = TensorType(x.type.dtype, x.type.shape[first:])
    axes = list(range(first, x.type.rank))
    if g.coin():
        return g.b.op("layer_norm", x, g.leaf(weights), g.leaf(weights), axes=axes, eps=0.1)
    return g.b.op("rms_norm", x, g.leaf(weights), axes=axes, eps=0.1)


def scale(g: Drawn, x: Node, depth: int) -> Node:
    """x / sqrt(depth), so that products do not grow."""
    return g.b.op("mul", x, g.b.const(depth**-0.5, x.type.dtype)) if g.coin() else x


def product(g: Drawn) -> Node | None:
    x = g.pick("f")
    if x is None or x.type.rank < 2:
        return None
    k = fixed(x.type)[-1]
    n = g.one_of(*g.sizes)
    same = [m for m in g.pool if m.type.rank >= 2 and m.type.dtype == x.type.dtype and m.type.shape[:-2] == x.type.shape[:-2]]
    right = [m for m in same if m.type.shape[-2] == k]
    how = g.one_of("weight", "value", "transposed", "einsum")
    if how == "value" and right:
        w = g.one_of(*right)
    elif how == "transposed":
        perm = [*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2]
        w = g.b.op("transpose", g.one_of(*[m for m in same if m.type.shape[-1] == k]), perm=perm)
    elif how == "einsum" and x.type.rank == 2:
        return scale(g, g.b.op("einsum", x, g.leaf(TensorType(x.type.dtype, (n, k))), spec=g.one_of("mk,nk->mn", "mk,nk->nm")), k)
    else:
        w = g.leaf(TensorType(x.type.dtype, (k, n)))
    return scale(g, g.b.op("matmul", x, w), k)


def integers(g: Drawn) -> Node | None:
    """A product of integers of 8 bits."""
    x = g.pick("i")
    if x is None or x.type.rank < 2 or x.type.dtype != I8:
        return None
    w = g.leaf(TensorType(I8, (fixed(x.type)[-1], g.one_of(*g.sizes))))
    return g.b.op("matmul", g.b.op("cast", x, to="i32"), g.b.op("cast", w, to="i32"))


def attention(g: Drawn) -> Node | None:
    """softmax(x k^T + mask) v over the last two dimensions."""
    x = g.pick("f")
    if x is None or x.type.rank < 2:
        return None
    *outer, rows, depth = fixed(x.type)
    keys, width = g.one_of(*g.sizes), g.one_of(*g.sizes)
    k, v = (g.leaf(TensorType(x.type.dtype, (*outer, keys, n))) for n in (depth, width))
    turned = g.b.op("transpose", k, perm=[*range(len(outer)), len(outer) + 1, len(outer)])
    scores = g.b.op("mul", g.b.op("matmul", x, turned), g.b.const(depth**-0.5, x.type.dtype))
    mask = g.one_of("none", "causal", "added")
    if mask == "causal":  # as many rows see the first key alone as there are rows before it
        row, key = (g.b.op("iota", shape=[rows, keys], axis=a) for a in (0, 1))
        scores = g.b.op("where", g.b.op("ge", row, key), scores, g.b.const(float("-inf"), x.type.dtype))
    if mask == "added":
        scores = g.b.op("add", scores, g.leaf(TensorType(x.type.dtype, g.one_of((keys,), (rows, keys)))))
    return g.b.op("matmul", g.b.op("softmax", scores, axes=[len(outer) + 1]), v)


def windows(g: Drawn) -> Node | None:
    x = g.pick("f")
    if x is None or x.type.rank != 4:
        return None
    common = {"strides": [g.number(1, 2), g.number(1, 2)], "lo": [g.number(0, 1), g.number(0, 1)],
              "hi": [g.number(0, 1), g.number(0, 1)], "dilations": [1, g.number(1, 2)]}  # fmt: skip
    size = [g.number(1, 3), g.number(1, 3)]
    kind = g.one_of("conv", "conv", "groups", "depthwise", "maxpool", "avgpool")
    c = fixed(x.type)[1]
    if kind == "conv":
        w = g.leaf(TensorType(x.type.dtype, (g.one_of(1, 3, 5, 8), c, *size)))
        return scale(g, g.b.op("conv", x, w, **common), c * size[0] * size[1])
    if kind == "depthwise":
        return g.b.op("conv", x, g.leaf(TensorType(x.type.dtype, (c, 1, *size))), groups=c, **common)
    if kind == "groups":
        n = g.one_of(*[n for n in (1, 2, 3, 4) if c % n == 0])
        w = g.leaf(TensorType(x.type.dtype, (n * g.one_of(1, 5, 8), c // n, *size)))
        return scale(g, g.b.op("conv", x, w, groups=n, **common), c // n * size[0] * size[1])
    if min(size) < 2:  # padding may not be wider than the window
        common |= {"lo": [0, 0], "hi": [0, 0]}
    return g.b.op(kind, x, window=size, **common)


def view(g: Drawn) -> Node | None:
    x = g.pick("f", "i", "b")
    if x is None:
        return None
    s, r = fixed(x.type), x.type.rank
    kind = g.one_of("transpose", "reshape", "broadcast", "slice", "pad", "concat", "cast")
    if kind == "cast":
        if x.type.dtype.is_float:
            return g.b.op("cast", x, to=g.one_of("f32", "f64" if x.type.dtype.bits > 16 else "bf16"))
        return g.b.op("cast", x, to=g.one_of("f32", "i32", "i64"))
    if kind == "broadcast":
        return g.b.op("broadcast", x, shape=[g.number(1, 3), *s]) if r < 4 else None
    if kind == "reshape":
        return g.b.op("reshape", x, shape=regroup(g, s))
    if not r:
        return None
    if kind == "transpose":
        return g.b.op("transpose", x, perm=g.random.sample(range(r), r))
    if kind == "slice":
        starts = [g.number(0, d - 1) if d else 0 for d in s]
        limits = [g.number(a + 1, d) if d else 0 for a, d in zip(starts, s)]
        return g.b.op("slice", x, starts=starts, limits=limits, steps=[g.number(1, 3) for _ in s])
    if kind == "pad":
        value = 0.0 if x.type.dtype.is_float else 0
        return g.b.op("pad", x, lo=[g.number(0, 2) for _ in s], hi=[g.number(0, 2) for _ in s], value=value)
    axis = g.number(0, r - 1)
    fits = [m for m in g.pool if m.type.dtype == x.type.dtype and m.type.rank == r
            and all(a == b for i, (a, b) in enumerate(zip(m.type.shape, s)) if i != axis)]  # fmt: skip
    return g.b.op("concat", x, g.one_of(*fits), axis=axis)


def regroup(g: Drawn, shape: tuple[int, ...]) -> list[int]:
    """Another shape of as many elements: a neighbour pair joined, or a dimension split."""
    s = list(shape)
    if len(s) >= 2 and g.coin():
        i = g.number(0, len(s) - 2)
        return [*s[:i], s[i] * s[i + 1], *s[i + 2 :]]
    if s and len(s) < 4:
        i = g.number(0, len(s) - 1)
        d = g.one_of(*[k for k in (1, 2, 3, 4, s[i]) if k and s[i] % k == 0])
        return [*s[:i], d, s[i] // d, *s[i + 1 :]]
    return s


def lookup(g: Drawn) -> Node | None:
    """gather with an index input (within bounds by `random_inputs`), or a running sum."""
    x = g.pick("f", "i")
    if x is None or not x.type.rank:
        return None
    if g.coin():
        return g.b.op("cumsum", x, axis=g.number(0, x.type.rank - 1), exclusive=g.coin(), reverse=g.coin())
    axis = g.number(0, x.type.rank - 1)
    g.fresh += 1
    i = g.b.input(f"i{g.fresh}", TensorType(I64, (g.one_of(1, 3, 6),)))
    return g.b.op("gather", x, i, axis=axis)


LENGTHS = (1, 2, 3, 4, 6, 8, 9, 10, 12, 14, 16)  # sampled evenly: drawn integers would mostly be small
STEPS = (unary, unary, bounded, binary, binary, binary, choice, compare, reduction, reduction, rows, product, product, windows,
         view, view, view, lookup)  # fmt: skip
WIDE_STEPS = (*STEPS, *[product] * 6, *[windows] * 4, *[attention] * 3, *[integers] * 3, rows, rows, reduction, reduction, reduction)


def random_graph(random: Random, largest: int = 20_000, wide: bool = False) -> Graph:
    """Up to sixteen ops over leaves of one dtype (and index inputs).

    Outputs: up to three values that nothing uses, and sometimes one that is used. `random` decides all of it.
    """
    sizes = WIDE if wide else SIZES
    g = Drawn(random, Builder("random"), [], sizes)
    dtype = g.one_of(*(WIDE_DTYPES if wide else DTYPES))
    rank = g.one_of(*([1, 2, 2, 2, 3, 3, 4, 4, 4] if wide else [0, 1, 2, 2, 2, 3, 3, 4, 4]))
    few = (1, 2, 3, 4, 5, 7, 8, 9, 16)
    shape = [g.one_of(*((few if k < rank - 2 else sizes) if wide else sizes if rank < 4 else sizes[:7])) for k in range(rank)]
    for k in range(g.number(1, 2)):
        g.pool.append(g.b.input(f"a{k}", TensorType(dtype, tuple(shape))))
    for _ in range(g.one_of(*LENGTHS)):
        try:
            n = g.one_of(*(WIDE_STEPS if wide else STEPS))(g)
        except ModelError:  # an op that has no meaning on these shapes
            continue
        if n is not None and n.type.elements <= largest and n.type.rank <= 5:
            g.pool.append(n)
    used = {i for n in g.pool for i in n.inputs}
    ends = [n for n in g.pool if n not in used and n.op not in ("input", "param")][-3:] or g.pool[-1:]
    chosen = [*ends, *([g.one_of(*g.pool)] if g.coin() else [])]
    for k, n in enumerate(dict.fromkeys(chosen)):
        g.b.output(f"y{k}", n)
    return g.b.graph()


def graphs(largest: int = 20_000, wide: bool = False) -> st.SearchStrategy[Graph]:
    return st.randoms(use_true_random=False).map(lambda random: random_graph(random, largest, wide))
