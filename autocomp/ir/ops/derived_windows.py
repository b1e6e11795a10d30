"""Windowed ops that are decompositions: transposed convolution, local response normalisation."""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.node import Attrs
from autocomp.ir.ops.contractions import widened
from autocomp.ir.ops.table import Op, register
from autocomp.ir.sizes import linear, product, size_of, summed
from autocomp.ir.types import TensorType

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]


# ---- transposed convolution: y[o*1 - lo] += x[i] * w[k] at o = i*stride + k*dilation
def _transpose_infer(t: Types, a: Attrs) -> TensorType:
    x, w = t
    rank = x.rank - 2
    if x.dtype.kind == "b":
        raise ModelError(f"takes numbers, not data {x}", where="conv_transpose")
    if rank < 1 or w.rank != x.rank or x.dtype != w.dtype or w.shape[0] != x.shape[1]:
        raise ModelError(f"data {x} and weights {w} do not match: weights are [channels, outputs / groups, window]", where="conv_transpose")
    if any(not isinstance(d, int) for d in (x.shape[1], *w.shape)):
        raise UnsupportedOp(f"symbolic channels of {x} or a symbolic dimension of {w}", where="conv_transpose",
                            hint="fix them with dims={...}")  # fmt: skip
    if any(len(a[k]) != rank for k in ("strides", "lo", "hi", "dilations")) or int(x.shape[1]) % a["groups"]:  # type: ignore[arg-type]
        raise ModelError(
            f"strides, lo, hi and dilations need {rank} entries, and {a['groups']} groups must divide {x}", where="conv_transpose"
        )
    spatial = [
        summed([(linear(d), s)], dil * (k - 1) + 1 - s - lo - hi)  # type: ignore[operator]
        for d, s, dil, k, lo, hi in zip(x.shape[2:], a["strides"], a["dilations"], w.shape[2:], a["lo"], a["hi"])
    ]
    if any(not parts and offset < 1 for parts, offset in spatial):
        raise ModelError(f"the output of {x} and {w} would have size {[offset for _, offset in spatial]}", where="conv_transpose")
    return TensorType(x.dtype, (x.shape[0], w.shape[1] * a["groups"], *map(size_of, spatial)))  # type: ignore[operator]


def _transpose_reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    x, w = widened(xs)
    g, window = a["groups"], w.shape[2:]
    extra = [max(-h, 0) for h in a["hi"]]
    full = [
        (d - 1) * s + dil * (k - 1) + 1 + e + max(-lo, 0)
        for d, s, dil, k, e, lo in zip(x.shape[2:], a["strides"], a["dilations"], window, extra, a["lo"])
    ]
    y = np.zeros((x.shape[0], w.shape[1] * g, *full), x.dtype)
    xg = x.reshape(x.shape[0], g, x.shape[1] // g, prod(x.shape[2:]))
    wg = w.reshape(g, x.shape[1] // g, w.shape[1], *window)
    for k in np.ndindex(*window):
        part = np.matmul(wg[(slice(None), slice(None), slice(None), *k)].swapaxes(1, 2)[None], xg)
        at = [
            slice(p * dil + max(-lo, 0), p * dil + max(-lo, 0) + (d - 1) * s + 1, s)
            for p, dil, d, s, lo in zip(k, a["dilations"], x.shape[2:], a["strides"], a["lo"])
        ]
        y[(slice(None), slice(None), *at)] += part.reshape(x.shape[0], y.shape[1], *x.shape[2:])
    cut = [slice(max(lo, 0), max(lo, 0) + int(n)) for lo, n in zip(a["lo"], out.shape[2:])]  # type: ignore[arg-type]
    y = y[(slice(None), slice(None), *cut)]
    return y if xs[0].dtype == np.float64 else y.astype(out.dtype.numpy)


def _transpose_decompose(b: Any, nodes: Any, a: Attrs) -> Any:
    """conv(x with stride - 1 zeros between its elements, weights flipped and with their channels exchanged): a conv_spread of fixed sizes
    whose strides and dilations have no common divisor, else a conv of zeros that are stored."""
    x, w = nodes
    s, window, g, rank = x.type.shape, w.type.shape[2:], a["groups"], len(a["strides"])
    spread = any(k > 1 for k in a["strides"])
    known = all(isinstance(d, int) for d in s[1:]) and all(k == 1 or gcd(k, d) == 1 for k, d in zip(a["strides"], a["dilations"]))
    if spread and not known:
        x = b.op("reshape", x, shape=(*s[:2], *(v for d in s[2:] for v in (d, 1))))
        x = b.op("pad", x, lo=(0,) * (2 + 2 * rank), hi=(0, 0, *(v for k in a["strides"] for v in (0, k - 1))), value=0.0)
        x = b.op("reshape", x, shape=(*s[:2], *(product(v) for v in zip(s[2:], a["strides"]))))
    c, per = w.type.shape[:2]
    if g > 1:
        w = b.op("reshape", w, shape=(g, c // g, per, *window))
        w = b.op("transpose", w, perm=(0, 2, 1, *range(3, 3 + rank)))
        w = b.op("reshape", w, shape=(g * per, c // g, *window))
    else:
        w = b.op("transpose", w, perm=(1, 0, *range(2, 2 + rank)))
    lead = w.type.shape[:2]
    w = b.op(
        "slice",
        w,
        starts=(0, 0, *(k - 1 for k in window)),
        limits=(*lead, *(-1 for _ in window)),
        steps=(1, 1, *(-1 for _ in window)),
    )
    reach = [dil * (k - 1) for dil, k in zip(a["dilations"], window)]
    around = {"lo": tuple(r - lo for r, lo in zip(reach, a["lo"])), "hi": tuple(r - hi for r, hi in zip(reach, a["hi"])),
              "dilations": a["dilations"], "groups": g}  # fmt: skip
    if spread and known:
        return b.op("conv_spread", x, w, spread=a["strides"], **around)
    around["hi"] = tuple(hi - (k - 1) for hi, k in zip(around["hi"], a["strides"]))
    return b.op("conv", x, w, strides=(1,) * rank, **around)


register(
    Op(
        "conv_transpose",
        (2, 2),
        _transpose_infer,
        _transpose_reference,
        decompose=_transpose_decompose,
        attrs={"strides": ..., "lo": ..., "hi": ..., "dilations": ..., "groups": 1},
        doc="the adjoint of conv (channels first); lo and hi are cut from the output, negative ones add zeros",
    )
)


# ---- local response normalisation
def _lrn_infer(t: Types, a: Attrs) -> TensorType:
    x = t[0]
    if not x.dtype.is_float or x.rank < 3 or a["size"] < 1:
        raise ModelError(f"takes floats of rank 3 or more and a positive size, not {x} and {a['size']}", where="lrn")
    if any(not isinstance(d, int) for d in x.shape):
        raise UnsupportedOp(f"symbolic dimensions of {x}", where="lrn", hint="fix them with dims={...}")
    return x


def _lrn_reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    x = widened(xs)[0]
    below = (a["size"] - 1) // 2
    total = np.zeros_like(x)
    for c in range(x.shape[1]):
        total[:, c] = (x[:, max(0, c - below) : c - below + a["size"]] ** 2).sum(1)
    y = x / (a["bias"] + a["alpha"] / a["size"] * total) ** a["beta"]
    return y.astype(x.dtype) if xs[0].dtype == np.float64 else y.astype(out.dtype.numpy)


def _lrn_decompose(b: Any, nodes: Any, a: Attrs) -> Any:
    from autocomp.ir.ops.norms import _enter, _leave

    x, size = _enter(b, nodes[0]), a["size"]
    shape, wide = x.type.shape, x.type.dtype
    flat = b.op("reshape", b.op("mul", x, x), shape=(shape[0], 1, shape[1], prod(shape[2:])))
    near = b.op("sumpool", flat, window=(size, 1), strides=(1, 1), lo=((size - 1) // 2, 0), hi=(size // 2, 0), dilations=(1, 1))
    total = b.op("mul", b.op("reshape", near, shape=shape), b.const(a["alpha"] / size, wide))
    scale = b.op("pow", b.op("add", total, b.const(a["bias"], wide)), b.const(a["beta"], wide))
    return _leave(b, b.op("div", x, scale), nodes[0].type.dtype)


register(
    Op(
        "lrn",
        (1, 1),
        _lrn_infer,
        _lrn_reference,
        decompose=_lrn_decompose,
        attrs={"size": ..., "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
        doc="x / (bias + alpha/size * sum of squares of `size` neighbouring channels) ^ beta, channel axis 1",
    )
)
