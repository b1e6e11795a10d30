"""Convolutions of an image whose elements lie apart (XLA's base dilation), of which only taps that meet an element are multiplied.

Along an axis with `spread` s and dilation d (without a common divisor) the image is x[0], s - 1 zeros, x[1], .. and position o reads
it at o + k*d - lo, where an element i lies if that is s*i. So o = s*h + p sees the taps k = s*t + first(p) with

    first(p) = (lo - p) / d mod s                i = h + t*d + (p - lo + first(p)*d) / s

The remainder p is an axis of its own in a kernel (`egraph.split`): both factors depend on it, as on a batch.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Comprehension
from autocomp.ir.node import Attrs
from autocomp.ir.ops.contractions import widened
from autocomp.ir.ops.table import OPS, Op, register
from autocomp.ir.ops.windows import LAYOUTS, Arrays, Types, convolved, join, kernel_shape, split
from autocomp.ir.types import TensorType


def _infer(t: Types, a: Attrs) -> TensorType:
    x, w = t
    if len(a["spread"]) != x.rank - 2 or any(s < 1 for s in a["spread"]):
        raise ModelError(f"spread needs {x.rank - 2} positive entries for {x}, not {list(a['spread'])}", where="conv_spread")
    n, c, spatial = split(x, a["layout"])
    if any(not isinstance(d, int) for d in (c, *spatial, *w.shape)):
        raise UnsupportedOp(f"symbolic dimensions of {x} or {w}", where="conv_spread", hint="fix all but the batch with dims={...}")
    if any(s > 1 and gcd(s, d) > 1 for s, d in zip(a["spread"], a["dilations"])):
        raise ModelError(f"spread {list(a['spread'])} and dilations {list(a['dilations'])} have a common divisor", where="conv_spread")
    wide = tuple((d - 1) * s + 1 for d, s in zip(spatial, a["spread"]))
    attrs = {k: v for k, v in a.items() if k != "spread"} | {"strides": (1,) * len(wide)}
    return OPS["conv"].infer((TensorType(x.dtype, join(n, c, wide, a["layout"])), w), Attrs(attrs))


def _reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    x, w = widened(xs)
    if a["layout"] != "nchw":
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, *((-1, 1) if a["layout"] == "nhwc_ohwi" else ((-1, -2), (0, 1))))
    spatial, g = split(out, a["layout"])[2], a["groups"]
    y = np.zeros((x.shape[0], g, w.shape[0] // g, *spatial), np.result_type(x, w))
    more = [max(n + dil * k + abs(lo), d) for n, k, d, lo, dil in zip(spatial, w.shape[2:], x.shape[2:], a["lo"], a["dilations"])]
    image = np.pad(x.reshape(x.shape[0], g, -1, *x.shape[2:]), [(0, 0)] * 3 + [(m, m) for m in more])  # borders are multiplied, as in conv
    weights = w.reshape(g, -1, *w.shape[1:])
    for k in np.ndindex(*w.shape[2:]):
        read, written = [], []
        for q, m, n, s, lo, dil in zip(k, more, spatial, a["spread"], a["lo"], a["dilations"]):
            o = np.arange((lo - q * dil) % s, n, s)
            read.append(m + (o + q * dil - lo) // s)
            written.append(o)
        if all(map(len, written)):
            at = lambda places: (slice(None), slice(None), slice(None), *places)
            y[at(np.ix_(*written))] += np.einsum("goc,ngc...->ngo...", weights[at(k)], image[at(np.ix_(*read))])
    y = y.reshape(x.shape[0], w.shape[0], *spatial)
    y = np.moveaxis(y, 1, -1) if a["layout"] != "nchw" else y
    return y if xs[0].dtype == np.float64 else y.astype(out.dtype.numpy)


def _meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    x, w = t
    image, window = split(x, a["layout"])[2], kernel_shape(w, a["layout"])[2]
    taps, index, guard, tap, tap_guard = [], [], [], [], []
    for j, (d, k, n, s, lo, dil) in enumerate(zip(image, window, split(out, a["layout"])[2], a["spread"], a["lo"], a["dilations"])):
        o, t_ = aff(f"i{2 + j}"), Axis(f"r{1 + j}", -(-k // s))
        p = o % s if n > 1 else aff(0)
        first = _first(p, s, lo, dil)
        at = o // s + aff(t_.name) * dil + (p - lo + first * dil) // s
        of = aff(t_.name) * s + first
        extents = {f"i{2 + j}": n, t_.name: t_.extent}
        if of.range(extents)[1] >= k:  # a tap that is not reads behind the image: no element, however large, is multiplied by its zero
            at = at + of // k * (d - min(at.range(extents)[0], 0))
            tap_guard.append(aff(k - 1) - of)
        low, high = at.range(extents)
        guard += ([at] if low < 0 else []) + ([aff(d - 1) - at] if high >= d else [])
        taps.append(t_)
        index.append(at)
        tap.append(of)
    return convolved(t, a, out, tuple(taps), tuple(index), tuple(guard), tuple(tap), tuple(tap_guard))


def _first(p: Aff, s: int, lo: int, dil: int) -> Aff:
    """The first tap that meets an element at places with the remainder p: (lo - p) / dil mod s, affine where it can be."""
    if s == 1:
        return aff(0)
    inverse = pow(dil, -1, s)
    if s == 2:
        return 1 - p if lo % 2 else p
    return (p * (s - inverse) + lo * inverse) % s


register(
    Op(
        "conv_spread",
        (2, 2),
        _infer,
        _reference,
        _meaning,
        attrs={"spread": ..., "lo": ..., "hi": ..., "dilations": ..., "layout": LAYOUTS[0], "groups": 1},
        doc="conv (strides 1) of data with spread - 1 zeros between its elements along each axis, which are not multiplied",
    )
)
