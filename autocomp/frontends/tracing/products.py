"""NumPy's products of arrays, as matmul, einsum and convolution of the op table."""

from __future__ import annotations

from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.arguments import array, axes_of, builder, together
from autocomp.frontends.tracing.array import Tracer
from autocomp.frontends.tracing.registry import FUNCTIONS, UFUNCS, function
from autocomp.frontends.tracing.selection import where
from autocomp.frontends.tracing.shapes import concatenate, expand_dims, flip, moveaxis, pad, ravel
from autocomp.ir.types import BOOL, I64


@function("dot")
def dot(x: Any, y: Any) -> Any:
    b = builder(x, y)
    x, y = array(x, b), array(y, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim <= 2 or x.ndim == 1:
        return x @ y
    return tensordot(x, y, ((-1,), (-2,)))


@function("tensordot")
def tensordot(x: Any, y: Any, axes: Any = 2) -> Tracer:
    x, y = together([x, y])
    if isinstance(axes, int):
        left, right = tuple(range(x.ndim - axes, x.ndim)), tuple(range(axes))
    else:
        left, right = axes_of(axes[0], x.ndim), axes_of(axes[1], y.ndim)
    free = [chr(ord("a") + k) for k in range(x.ndim + y.ndim)]
    xs, ys = free[: x.ndim], free[x.ndim :]
    for a, b in zip(left, right):
        ys[b] = xs[a]
    out = [s for k, s in enumerate(xs) if k not in left] + [s for k, s in enumerate(ys) if k not in right]
    return _products(x, y, f"{''.join(xs)},{''.join(ys)}->{''.join(out)}")


def _products(x: Tracer, y: Tracer, spec: str) -> Tracer:
    """Sums of products; of bools, whether any pair is true."""
    if x.element == BOOL:
        return x.astype(I64).op("einsum", y.astype(I64).node, spec=spec) != 0  # type: ignore[return-value]
    return x.op("einsum", y.node, spec=spec)


@function("einsum")
def einsum(spec: str, *operands: Any) -> Tracer:
    """One or two operands, each letter once in each of them."""
    xs = together(operands)
    ins, arrow, out = spec.replace(" ", "").partition("->")
    if not arrow:
        out = "".join(sorted(s for s in set(ins) - {","} if ins.count(s) == 1))
    terms = ins.split(",")
    if len(xs) > 2 or len(terms) != len(xs) or "." in spec or any(len(set(t)) != len(t) for t in (*terms, out)):
        raise UnsupportedOp(f"numpy.einsum '{spec}'", where="trace", hint="use one or two operands, without ... or repeated letters")
    for k, t in enumerate(terms):
        lone = tuple(i for i, s in enumerate(t) if s not in out and s not in "".join(terms[:k] + terms[k + 1 :]))
        if lone:
            xs[k] = FUNCTIONS["sum"](xs[k], lone, xs[k].element)
            terms[k] = "".join(s for i, s in enumerate(t) if i not in lone)
    if len(xs) == 1:
        return xs[0].transpose([terms[0].index(s) for s in out]) if out != terms[0] else xs[0]
    return _products(xs[0], xs[1], f"{terms[0]},{terms[1]}->{out}")


function("outer")(lambda x, y: expand_dims(ravel(array(x, builder(x, y))), 1) * ravel(array(y, builder(x, y))))
function("inner")(lambda x, y: tensordot(x, y, ((-1,), (-1,))))
function("vdot")(lambda x, y: ravel(array(x, builder(x, y))) @ ravel(array(y, builder(x, y))))
function("matmul")(lambda x, y: UFUNCS["matmul"](x, y))


@function("vecdot")
def vecdot(x: Any, y: Any, axis: int = -1) -> Any:
    b = builder(x, y)
    x, y = array(x, b), array(y, b)
    return UFUNCS["vecdot"](moveaxis(x, axis, -1), moveaxis(y, axis, -1))


@function("convolve")
def convolve(x: Any, y: Any, mode: str = "full") -> Tracer:
    """One-dimensional convolution: the op table's with the shorter operand turned round where it lies wholly on the other, sums of the
    products that there are at the ends (an infinite tap times padding would be NaN)."""
    x, y = together([x, y])
    x, y = (x, y) if x.shape[0] >= y.shape[0] else (y, x)
    k = y.shape[0]
    pads = {"full": (k - 1, k - 1), "same": ((k - 1) - (k - 1) // 2, (k - 1) // 2), "valid": (0, 0)}
    if mode not in pads or x.ndim != 1 or y.ndim != 1 or not k:
        what = f"numpy.convolve of {x.type} and {y.type} in mode '{mode}'"
        raise ModelError(what, where="trace", hint="give rows; modes: full, same, valid")
    lo, hi = pads[mode]
    n, turned = x.shape[0], flip(y)
    if not x.element.is_float:
        windows = np.arange(n + lo + hi - k + 1)[:, None] + np.arange(k)
        return pad(x, ((lo, hi),))[windows] @ turned

    def sums(first: int, count: int) -> Tracer:
        """Elements of the result whose windows begin at first, first + 1, .. of x, and end outside."""
        at = np.arange(first, first + count)[:, None] + np.arange(k)
        terms = where((at >= 0) & (at < n), x[np.clip(at, 0, n - 1)] * turned, array(0, x.b, x.element))
        return FUNCTIONS["sum"](terms, 1, x.element)  # type: ignore[no-any-return]

    whole = x.reshape(1, 1, -1).op("conv", turned.reshape(1, 1, -1).node, strides=(1,), lo=(0,), hi=(0,), dilations=(1,))
    return concatenate([*([sums(-lo, lo)] if lo else []), whole.reshape(-1), *([sums(n - k + 1, hi)] if hi else [])])
