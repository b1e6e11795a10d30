"""Discrete Fourier transforms as products with constant matrices.

A length is taken apart into two factors, each transformed by itself, with a turn of each element between them, until a factor is at most
DIRECT or prime: the work of a length n is n times the sum of its factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.frontends.torch.call import Call
from autocomp.frontends.torch.complex_numbers import Pair, complex_row
from autocomp.ir.node import Node

DIRECT = 64  # a length that is not taken apart


@complex_row("_fft_c2c")
def _complex(c: Call, x: Pair, dims: Sequence[int], norm: int, forward: bool) -> Pair:
    sizes = _sizes(c, x, dims)
    return _scaled(c, _all(c, x, dims, -1 if forward else 1), sizes, norm)


@complex_row("_fft_r2c")
def _of_real(c: Call, x: Node, dims: Sequence[int], norm: int, onesided: bool) -> Pair:
    """`onesided`: of the last dimension's frequencies those up to the middle; the others are their conjugates."""
    sizes = _sizes(c, x, dims)
    y = _along(c, (x, None), dims[-1], -1, sizes[-1] // 2 + 1 if onesided else sizes[-1])
    return _scaled(c, _all(c, y, dims[:-1], -1), sizes, norm)


@complex_row("_fft_c2r")
def _to_real(c: Call, x: Pair, dims: Sequence[int], norm: int, n: int) -> Node:
    """The real signal of n elements whose frequencies up to the middle are x's: those beyond it are their conjugates."""
    assert c.out is not None
    sizes = (*_sizes(c, x, dims)[:-1], n)
    x = _all(c, x, dims[:-1], 1)
    axis = dims[-1] % len(x.type.shape)
    half = n // 2 + 1
    if not isinstance(n, int) or x.type.shape[axis] != half:
        raise c.refuse(f"gives {n} elements from {x.type.shape[axis]} frequencies", f"cut or pad them to {half} first")
    check_table(half * n, c.where)
    turn = 2 * np.pi * (np.outer(np.arange(half), np.arange(n)) % n) / n
    twice = np.where((np.arange(half) == 0) | (2 * np.arange(half) == n), 1.0, 2.0)[:, None]
    last = lambda v: _moved(c, v, axis)
    d = x.type.dtype
    cosines, sines = (c.array((twice * m).astype(d.numpy)) for m in (np.cos(turn), -np.sin(turn)))
    y = c.op("add", c.op("matmul", last(x.re), cosines), c.op("matmul", last(x.im), sines))
    factor = _factor(sizes, norm)
    y = _moved(c, y, axis, back=True)
    return y if factor == 1 else c.op("mul", y, c.b.const(factor, d))


def _sizes(c: Call, x: Any, dims: Sequence[int]) -> tuple[int, ...]:
    sizes = tuple(x.type.shape[k] for k in dims)
    if not all(isinstance(n, int) and n for n in sizes):
        raise c.refuse(f"transforms dimensions {list(dims)} of {x.type}", "fix the dimensions")
    return sizes


def _factor(sizes: Sequence[int], norm: int) -> float:
    """ATen's ways to scale: none, by the square root of the number of elements, by that number."""
    return float((1.0, prod(sizes) ** -0.5, 1.0 / prod(sizes))[norm])


def _scaled(c: Call, x: Pair, sizes: Sequence[int], norm: int) -> Pair:
    if (factor := _factor(sizes, norm)) == 1:
        return x
    return Pair(*(c.op("mul", v, c.b.const(factor, v.type.dtype)) for v in (x.re, x.im)))


def _all(c: Call, x: Pair, dims: Sequence[int], sign: int) -> Pair:
    for k in dims:
        x = _along(c, (x.re, x.im), k, sign, x.type.shape[k])  # type: ignore[arg-type]
    return x


def _along(c: Call, x: tuple[Node, Node | None], dim: int, sign: int, kept: int) -> Pair:
    """The first `kept` frequencies along a dimension; a second part of None is zero."""
    axis = dim % x[0].type.rank
    re, im = (v if v is None else _moved(c, v, axis) for v in x)
    assert re is not None
    y = _last(c, re, im, sign, kept)
    return Pair(_moved(c, y.re, axis, back=True), _moved(c, y.im, axis, back=True))


def _moved(c: Call, x: Node, axis: int, back: bool = False) -> Node:
    """x with an axis last, or the last one there."""
    rank = x.type.rank
    rest = [k for k in range(rank) if k != axis]
    perm = [*rest, axis]
    if back:
        perm = [*range(axis), rank - 1, *range(axis, rank - 1)]
    return x if perm == [*range(rank)] else c.op("transpose", x, perm=tuple(perm))


def _last(c: Call, re: Node, im: Node | None, sign: int, kept: int) -> Pair:
    """Along the last axis: its elements number n2 a + b, its frequencies p + n1 q, for n = n1 n2, a and p under n1, b and q under n2."""
    shape = re.type.shape
    n = int(shape[-1])  # type: ignore[arg-type]
    first = next((f for f in range(isqrt(n), 1, -1) if n % f == 0), 1) if n > DIRECT else 1
    if first == 1:
        return _direct(c, re, im, sign, n, kept)
    second, lead = n // first, shape[:-1]
    turned = lambda v: c.op("transpose", v, perm=(*range(len(lead)), len(lead) + 1, len(lead)))
    apart = lambda v, a, b: None if v is None else c.op("reshape", v, shape=(*lead, a, b))
    a, b = (None if v is None else turned(v) for v in (apart(re, first, second), apart(im, first, second)))
    assert a is not None
    y = _last(c, a, b, sign, first)  # [.., b, p]
    turn = sign * 2 * np.pi * (np.outer(np.arange(second), np.arange(first)) % n) / n
    y = _turned(c, y, turn)
    y = _last(c, turned(y.re), turned(y.im), sign, second)  # [.., p, q]
    whole = Pair(*(c.op("reshape", turned(v), shape=shape) for v in (y.re, y.im)))
    if kept == n:
        return whole
    cut = lambda v: c.op("slice", v, starts=(0,) * len(shape), limits=(*lead, kept), steps=(1,) * len(shape))
    return Pair(cut(whole.re), cut(whole.im))


def _turned(c: Call, x: Pair, angle: np.ndarray) -> Pair:
    """Each element of the last two axes times the number on the unit circle at its angle."""
    co, si = (c.array(m.astype(x.type.dtype.numpy)) for m in (np.cos(angle), np.sin(angle)))
    mul = lambda u, v: c.op("mul", u, v)
    return Pair(c.op("sub", mul(x.re, co), mul(x.im, si)), c.op("add", mul(x.re, si), mul(x.im, co)))


def _direct(c: Call, re: Node, im: Node | None, sign: int, n: int, kept: int) -> Pair:
    check_table(n * kept, c.where)
    turn = sign * 2 * np.pi * (np.outer(np.arange(n), np.arange(kept)) % n) / n
    co, si = (c.array(m.astype(re.type.dtype.numpy)) for m in (np.cos(turn), np.sin(turn)))
    by = lambda v, m: c.op("matmul", v, m) if v.type.rank > 1 else c.op(
        "reshape", c.op("matmul", c.op("reshape", v, shape=(1, n)), m), shape=(kept,))  # fmt: skip
    if im is None:
        return Pair(by(re, co), by(re, si))
    return Pair(c.op("sub", by(re, co), by(im, si)), c.op("add", by(re, si), by(im, co)))
