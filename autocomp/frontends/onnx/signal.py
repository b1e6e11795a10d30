"""Fourier transforms as products with matrices of cosines and sines, mel filters, and windows put back into an image."""

from __future__ import annotations

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.data import dtype_named
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import I64

MAX_TRANSFORM = 4096
"""Length of a transform done as a product with a matrix of its square."""


def _waves(c: Call, n: int, count: int, inverse: bool) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin [n, count] of 2 pi j k / n (backwards and divided by n for the inverse)."""
    if n > MAX_TRANSFORM:
        c.refuse(f"transforms {n} elements; up to {MAX_TRANSFORM} are done, as a matrix product", hint="split the transform")
    check_table(n * count, c.where)
    angle = 2 * np.pi * (np.outer(np.arange(n), np.arange(count)) % n) / n
    cos, sin = np.cos(angle), -np.sin(angle)
    return (cos / n, -sin / n) if inverse else (cos, sin)


def _fitted(c: Call, x: Node, axis: int, n: int) -> Node:
    """x with n elements along an axis: the rest dropped, or zeros after them."""
    d, rank = c.shape(x)[axis], x.type.rank
    if d >= n:
        return x if d == n else cut(c, x, {axis: (0, n, 1)})
    return c.op("pad", x, lo=(0,) * rank, hi=tuple(n - d if k == axis else 0 for k in range(rank)), value=0.0)


def fourier(c: Call, re: Node, im: Node | None, n: int, count: int, inverse: bool) -> tuple[Node, Node]:
    """(real, imaginary) parts of `count` coefficients along the last axis."""
    cos, sin = (c.array(m, re.type.dtype) for m in _waves(c, n, count, inverse))
    real, imag = c.op("matmul", re, cos), c.op("matmul", re, sin)
    if im is None:
        return real, imag
    return c.op("sub", real, c.op("matmul", im, sin)), c.op("add", imag, c.op("matmul", im, cos))


def _parts(c: Call, x: Node) -> tuple[Node, Node | None]:
    """Real and imaginary part of a tensor whose last dimension is 1 (real) or 2 (complex)."""
    last, shape = x.type.rank - 1, x.type.shape
    if shape[last] not in (1, 2):
        c.broken(f"has a last dimension of {shape[last]}; 1 (real) or 2 (complex) is needed")
    parts = [reshape(c, cut(c, x, {last: (k, k + 1, 1)}), shape[:last]) for k in range(int(shape[last]))]  # type: ignore[arg-type]
    return parts[0], parts[1] if len(parts) > 1 else None


def _swapped(c: Call, x: Node, axis: int) -> Node:
    """The axis and the last one exchanged."""
    order = list(range(x.type.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return x if axis == x.type.rank - 1 else c.op("transpose", x, perm=tuple(order))


def _hermitian(c: Call, re: Node, im: Node | None, axis: int, n: int) -> tuple[Node, Node | None]:
    """All n coefficients of a real signal from its first n // 2 + 1: the others are their conjugates, mirrored."""
    spans = {axis: ((n - 1) // 2, 0, -1)}
    whole = lambda v, sign: c.op("concat", v, c.op("mul", cut(c, v, spans), sign), axis=axis)
    return whole(re, 1.0), None if im is None else whole(im, -1.0)


@lower("DFT")
def dft(c: Call) -> Node:
    x = c.x()
    rank = x.type.rank
    axis = c.axis(c.static_int(2) if c.has(2) else -2, rank) if c.opset >= 20 else c.axis(c.int_attr("axis", 1), rank)
    inverse, onesided = c.flag("inverse", 0), c.flag("onesided", 0)
    if inverse and not onesided and c.importer.round_steps:
        c.refuse("sums an inverse transform by a matrix product, which leaves other rounding errors than the FFT that the standard "
                 "takes its values from", hint="leave out round_steps")  # fmt: skip
    d = c.shape(x)[axis]
    n = c.static_int(1) if c.has(1) else 2 * (d - 1) if inverse and onesided else d
    re, im = _parts(c, x)
    if inverse and onesided:
        half = n // 2 + 1
        re, im = _fitted(c, re, axis, half), None if im is None else _fitted(c, im, axis, half)
        re, im = _hermitian(c, re, im, axis, n) if n > 1 else (re, im)
    else:
        re, im = _fitted(c, re, axis, n), None if im is None else _fitted(c, im, axis, n)
    count = n // 2 + 1 if onesided and not inverse else n
    real, imag = fourier(c, _swapped(c, re, axis), None if im is None else _swapped(c, im, axis), n, count, inverse)
    parts = [_swapped(c, v, axis) for v in ((real,) if inverse and onesided else (real, imag))]
    parts = [reshape(c, v, (*v.type.shape, 1)) for v in parts]
    return parts[0] if len(parts) == 1 else c.op("concat", *parts, axis=rank - 1)


@lower("STFT")
def stft(c: Call) -> Node:
    """Overlapping frames of the signal, times the window, transformed."""
    x, step = c.x(), c.static_int(1)
    window = c.maybe(2)
    n = c.static_int(3) if c.has(3) else c.shape(window)[0] if window is not None else c.broken("has neither window nor length")
    frames = 1 + (c.shape(x)[1] - n) // step
    if step < 1 or frames < 1:
        c.broken(f"takes frames of {n} every {step} from a signal of {c.shape(x)[1]}")
    check_table(frames * n, c.where)
    at = c.array(np.arange(frames)[:, None] * step + np.arange(n), I64)
    parts = []
    for v in _parts(c, x):
        framed = None if v is None else c.op("gather", v, at, axis=1)
        parts.append(framed if framed is None or window is None else c.op("mul", framed, window))
    assert parts[0] is not None
    out = fourier(c, parts[0], parts[1], n, n // 2 + 1 if c.flag("onesided", 1) else n, False)
    return c.op("concat", *(reshape(c, v, (*v.type.shape, 1)) for v in out), axis=3)


@lower("MelWeightMatrix")
def mel_weights(c: Call) -> Node:
    """Triangles evenly spaced in mel, m = 2595 log10(1 + f / 700), over the bins of a one-sided spectrum (ONNX's formula)."""
    bins, length, rate = (c.static_int(k) for k in range(3))
    low, high = (float(c.static(k)) for k in (3, 4))
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    check_table((bins + 2) * (length // 2 + 1), c.where)
    points = mel(low) + np.arange(bins + 2) * (mel(high) - mel(low)) / (bins + 2)
    edges = ((length + 1) * (700 * (np.power(10, points / 2595) - 1)) // rate).astype(int)
    out = np.zeros((length // 2 + 1, bins))
    for k in range(bins):
        left, centre, right = edges[k : k + 3]
        if centre == left:
            out[centre, k] = 1
        else:
            for j in range(left, centre + 1):
                out[j, k] = (j - left) / (centre - left)
        for j in range(centre, right):
            out[j, k] = (right - j) / (right - centre)
    return c.array(out, dtype_named(c.int_attr("output_datatype", 1), c.where))


@lower("Col2Im")
def col2im(c: Call) -> Node:
    """Windows added up where they overlap: the transposed convolution whose weights are one 1 for each window position."""
    x, image, block = c.x(), c.static_ints(1), c.static_ints(2)
    rank, taps = len(image), int(np.prod(block))
    strides, dilations = c.ints_attr("strides", (1,) * rank) or (), c.ints_attr("dilations", (1,) * rank) or ()
    pads = c.ints_attr("pads", (0,) * 2 * rank) or ()
    n, rows, _ = c.shape(x)
    if rows % taps or not len(block) == len(strides) == len(dilations) == rank:
        c.broken(f"windows of {list(block)} do not fit {x.type}")
    reach = [d * (b - 1) + 1 for d, b in zip(dilations, block, strict=True)]
    counts = [(i + pads[k] + pads[k + rank] - r) // s + 1 for k, (i, r, s) in enumerate(zip(image, reach, strides, strict=True))]
    made = [(k - 1) * s + r for k, s, r in zip(counts, strides, reach, strict=True)]
    hi = tuple(m - pads[k] - i for k, (m, i) in enumerate(zip(made, image, strict=True)))
    weights = np.tile(np.eye(taps).reshape(taps, 1, *block), (rows // taps, *[1] * (rank + 1)))
    return c.op(
        "conv_transpose", reshape(c, x, (n, rows, *counts)), c.array(weights, x.type.dtype), strides=strides, dilations=dilations,
        lo=pads[:rank], hi=hi, groups=rows // taps,
    )  # fmt: skip
