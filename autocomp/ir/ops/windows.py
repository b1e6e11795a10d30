"""Sliding windows: convolution and pooling, for one to three spatial dimensions.

`layout` is "nchw" (data N,C,spatial; weights OC,C/groups,spatial), "nhwc" (data N,spatial,C; weights spatial,C/groups,OC) or, for
convolutions, "nhwc_ohwi" (data N,spatial,C; weights OC,spatial,C/groups: both factors contiguous along the reduced channels).
Output position o reads input position o*stride + k*dilation - lo; outside the input a convolution reads 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

from autocomp.budget import check_table
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Comprehension, Const, Expr, Index, Map, Read, Reduce
from autocomp.ir.monoids import identity
from autocomp.ir.node import Attrs
from autocomp.ir.ops.contractions import contracted, widened
from autocomp.ir.ops.pointwise import axes_of
from autocomp.ir.ops.table import Op, register
from autocomp.ir.scalar import accumulator
from autocomp.ir.sizes import linear, quotient, size_of, summed
from autocomp.ir.types import F32, I64, SHORT_FLOATS, SHORT_NUMPY, Dim, DType, Sym, TensorType, dtype_of

Types = tuple[TensorType, ...]
Arrays = tuple[np.ndarray, ...]
LAYOUTS = ("nchw", "nhwc", "nhwc_ohwi")
WINDOW = {"strides": ..., "lo": ..., "hi": ..., "dilations": ..., "layout": "nchw"}


def split(t: TensorType, layout: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """(batch, channels, spatial) of data."""
    s = t.shape
    return (s[0], s[1], s[2:]) if layout == "nchw" else (s[0], s[-1], s[1:-1])


def join(n: Any, c: Any, spatial: tuple[Any, ...], layout: str) -> tuple[Any, ...]:
    return (n, c, *spatial) if layout == "nchw" else (n, *spatial, c)


def _check(name: str, t: TensorType, a: Attrs, kernel: tuple[Any, ...]) -> tuple[Dim, ...]:
    """Output's spatial shape. Raises ModelError."""
    rank = t.rank - 2
    lists = [a["strides"], a["lo"], a["hi"], a["dilations"], kernel]
    if rank < 1 or any(len(x) != rank for x in lists):
        raise ModelError(f"strides, lo, hi, dilations and window must have {rank} entries for {t}", where=name)
    if a["layout"] not in (LAYOUTS if name == "conv" else LAYOUTS[:2]):
        raise ModelError(f"layout '{a['layout']}' is none of {', '.join(LAYOUTS if name == 'conv' else LAYOUTS[:2])}", where=name)
    spatial = split(t, a["layout"])[2]
    if any(not isinstance(d, int) for d in kernel):
        raise UnsupportedOp("a window of symbolic size", where=name, hint="fix it with dims={...}")
    out: list[Dim] = []
    for d, s, lo, hi, dil, k in zip(spatial, *lists):
        more = lo + hi - dil * (k - 1)
        if s < 1 or dil < 1 or k < 1 or (d.lo if isinstance(d, Sym) else d) + more < 1:
            bounds = f" ({d.lo}..{d.hi})" if isinstance(d, Sym) else ""
            raise ModelError(
                f"a window of {k} (stride {s}, dilation {dil}, pads {lo} and {hi}) does not fit a dimension of {d}{bounds}", where=name
            )
        out.append(size_of(quotient(summed([(linear(d), 1)], more + s - 1), s)))
    return tuple(out)


def _positions(
    t: TensorType, a: Attrs, out_axes: tuple[Axis, ...], k_axes: tuple[Axis, ...]
) -> tuple[tuple[Aff, ...], tuple[Aff, ...]]:
    """(spatial input indices, guards that are needed)."""
    spatial = split(t, a["layout"])[2]
    index, guard = [], []
    for o, k, s, lo, hi, dil, d in zip(out_axes, k_axes, a["strides"], a["lo"], a["hi"], a["dilations"], spatial):
        i = aff(o.name) * s + aff(k.name) * dil - lo
        if isinstance(d, Sym):
            guard += ([i] if lo > 0 else []) + ([aff(d.name) - 1 - i] if hi > 0 else [])
            index.append(i)
            continue
        low, high = i.range({o.name: o.extent, k.name: k.extent})  # type: ignore[dict-item]
        guard += ([i] if low < 0 else []) + ([aff(d - 1) - i] if high >= d else [])
        index.append(i)
    return tuple(index), tuple(guard)


def _patches(x: np.ndarray, a: Attrs, kernel: tuple[int, ...], out: tuple[int, ...], fill: float) -> Any:
    """Yield (window position, slice of channels-first data for all outputs): x[..., o*s + k*d - lo]."""
    if a["layout"] != "nchw":
        x = np.moveaxis(x, -1, 1)
    x = np.pad(
        x,
        [(0, 0), (0, 0)] + [(max(lo, 0), max(hi, 0) + s) for lo, hi, s in zip(a["lo"], a["hi"], a["strides"])],
        constant_values=np.asarray(fill, x.dtype),
    )
    x = x[(slice(None), slice(None), *(slice(max(-lo, 0), None) for lo in a["lo"]))]
    for k in product(*map(range, kernel)):
        cut = [slice(q * d, q * d + (o - 1) * s + 1, s) for q, d, o, s in zip(k, a["dilations"], out, a["strides"])]
        yield k, x[(slice(None), slice(None), *cut)]


# ---- convolution
def kernel_shape(w: TensorType, layout: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """(output channels, input channels a group, window) of weights."""
    s = w.shape
    if layout == "nhwc_ohwi":
        return s[0], s[-1], s[1:-1]
    return (s[0], s[1], s[2:]) if layout == "nchw" else (s[-1], s[-2], s[:-2])


def _conv_infer(t: Types, a: Attrs) -> TensorType:
    x, w = t
    if x.rank < 3 or w.rank != x.rank or x.dtype != w.dtype or x.dtype.kind == "b":
        raise ModelError(f"data {x} and weights {w} do not match", where="conv")
    oc, icg, kernel = kernel_shape(w, a["layout"])
    spatial = _check("conv", x, a, kernel)
    n, c, _ = split(x, a["layout"])
    g = a["groups"]
    if g < 1 or c != icg * g or oc % g:
        raise ModelError(f"{c} channels, {oc} outputs and weights {w} do not divide into {g} groups", where="conv")
    return TensorType(x.dtype, join(n, oc, spatial, a["layout"]))


def _conv_reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    x, w = widened(xs)
    if a["layout"] == "nhwc":
        w = np.moveaxis(w, (-1, -2), (0, 1))
    elif a["layout"] == "nhwc_ohwi":
        w = np.moveaxis(w, -1, 1)
    oc, icg, kernel, g = w.shape[0], w.shape[1], w.shape[2:], a["groups"]
    spatial = split(out, a["layout"])[2]
    y = np.zeros((x.shape[0], g, oc // g, *spatial), np.result_type(x, w))
    for k, patch in _patches(x, a, kernel, spatial, 0):
        patch = patch.reshape(x.shape[0], g, icg, prod(spatial))
        tap = w[(slice(None), slice(None), *k)].reshape(g, oc // g, icg)
        y += np.matmul(tap[None], patch).reshape(y.shape)
    y = y.reshape(x.shape[0], oc, *spatial)
    y = np.moveaxis(y, 1, -1) if a["layout"] != "nchw" else y
    return y if xs[0].dtype == np.float64 else y.astype(out.dtype.numpy)


def _conv_meaning(t: Types, a: Attrs, out: TensorType, alone: bool = False) -> Comprehension:
    x, w = t
    spatial = split(out, a["layout"])[2]
    places = tuple(Axis(f"i{2 + j}", d) for j, d in enumerate(spatial))  # names that no symbol may have: guards also name sizes
    taps = tuple(Axis(f"r{1 + j}", d) for j, d in enumerate(kernel_shape(w, a["layout"])[2]))
    index, guard = _positions(x, a, places, taps)
    return convolved(t, a, out, taps, index, guard, tuple(aff(k.name) for k in taps), alone=alone)


def convolved(t: Types, a: Attrs, out: TensorType, taps: tuple[Axis, ...], index: tuple[Aff, ...], guard: tuple[Aff, ...],
              tap: tuple[Aff, ...], tap_guard: tuple[Aff, ...] = (), alone: bool = False) -> Comprehension:  # fmt: skip
    """Sums over channels r0 and `taps` of data at the spatial `index` times weights at `tap`; places of the output are i0 .. (batch,
    channels, spatial). `alone`: as a reduction of products, not as a contraction; what each channel has of its own always is."""
    x, w = t
    layout = a["layout"]
    oc, icg, _ = kernel_shape(w, layout)
    n_, _, spatial = split(out, layout)
    n, o = Axis("i0", n_), Axis("i1", oc)
    places = tuple(Axis(f"i{2 + j}", d) for j, d in enumerate(spatial))
    c = Axis("r0", icg)
    per = oc // a["groups"]
    channel = aff("r0") if a["groups"] == 1 else (aff("i1") // per * icg + "r0").simplify({"i1": oc, "r0": icg})
    data = Read(x.dtype, 0, join(aff("i0"), channel, index, layout), guard)
    weight_index = {
        "nchw": (aff("i1"), aff("r0"), *tap),
        "nhwc": (*tap, aff("r0"), aff("i1")),
        "nhwc_ohwi": (aff("i1"), *tap, aff("r0")),
    }[layout]
    weights = Read(w.dtype, 1, weight_index, tap_guard)
    reduced = (c, *taps) if layout == "nchw" else (*taps, c)
    sums = _alone if alone or icg == per == 1 else contracted
    return Comprehension(join(n, o, places, layout), sums(out.dtype, reduced, data, weights))


def _alone(out: DType, axes: tuple[Axis, ...], data: Expr, weights: Expr) -> Expr:
    """A window times weights as a sum of products, which is no contraction: threads fold what they load themselves."""
    wide = accumulator(out)
    cast = lambda x, t: x if x.dtype == t else Map(t, "cast", (x,))
    return cast(Reduce(wide, "sum", axes, (Map(wide, "mul", (cast(data, wide), cast(weights, wide))),)), out)


register(
    Op(
        "conv",
        (2, 2),
        _conv_infer,
        _conv_reference,
        _conv_meaning,
        attrs={**WINDOW, "groups": 1},
        doc="cross-correlation of data with weights",
    )
)
register(
    Op(
        "conv_direct",
        (2, 2),
        _conv_infer,
        _conv_reference,
        partial(_conv_meaning, alone=True),
        attrs={**WINDOW, "groups": 1},
        doc="`conv` whose sums are folded by the threads that load their elements, not by products of tiles",
    )
)


# ---- patches: what every window reads, as a tensor
def _patches_infer(t: Types, a: Attrs) -> TensorType:
    if t[0].rank < 3 or a["layout"] != "nchw":
        raise ModelError(f"does not take {t[0]} as {a['layout']}", where="patches")
    return TensorType(t[0].dtype, (*t[0].shape[:2], *a["window"], *_check("patches", t[0], a, a["window"])))


def _patches_reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    window = a["window"]
    read = [patch for _, patch in _patches(xs[0], a, window, out.shape[2 + len(window) :], 0)]  # type: ignore[arg-type]
    return np.stack(read, axis=2).reshape(out.shape).astype(xs[0].dtype)  # type: ignore[arg-type]


def _patches_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    axes, many = axes_of(out.shape), len(a["window"])
    index, guard = _positions(t[0], a, axes[2 + many :], axes[2 : 2 + many])
    return Comprehension(axes, Read(t[0].dtype, 0, (aff(axes[0].name), aff(axes[1].name), *index), guard))


register(
    Op(
        "patches",
        (1, 1),
        _patches_infer,
        _patches_reference,
        _patches_meaning,
        attrs={**WINDOW, "window": ...},
        doc="[batch, channels, window, places]: the element that each place's window reads, 0 outside of x",
    )
)


# ---- pooling
def _pool_infer(name: str) -> Callable[[Types, Attrs], TensorType]:
    def infer(t: Types, a: Attrs) -> TensorType:
        if t[0].rank < 3 or t[0].dtype.kind == "b":
            raise ModelError(f"does not take {t[0]}", where=name)
        spatial = _check(name, t[0], a, a["window"])
        n, c, _ = split(t[0], a["layout"])
        return TensorType(t[0].dtype, join(n, c, spatial, a["layout"]))

    return infer


def _pool_reference(combine: Any, fill: Callable[[DType], Any]) -> Callable[[Arrays, Attrs, TensorType], np.ndarray]:
    def reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
        x = xs[0].astype(np.float32) if xs[0].dtype in SHORT_NUMPY else xs[0]
        spatial = split(out, a["layout"])[2]
        y: Any = None
        for _, patch in _patches(x, a, a["window"], spatial, fill(out.dtype)):
            y = patch.copy() if y is None else combine(y, patch)
        y = np.moveaxis(y, 1, -1) if a["layout"] == "nhwc" else y
        return y if xs[0].dtype == np.float64 else y.astype(out.dtype.numpy)

    return reference


def _pool_meaning(monoid: str, fill: Callable[[DType], Any]) -> Callable[[Types, Attrs, TensorType], Comprehension]:
    def meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
        n_, c_, spatial = split(out, a["layout"])
        places = tuple(Axis(f"i{2 + j}", d) for j, d in enumerate(spatial))
        taps = tuple(Axis(f"r{j}", d) for j, d in enumerate(a["window"]))
        index, guard = _positions(t[0], a, places, taps)
        read = Read(t[0].dtype, 0, join(aff("i0"), aff("i1"), index, a["layout"]), guard, float(fill(t[0].dtype)) if guard else 0.0)
        axes = join(Axis("i0", n_), Axis("i1", c_), places, a["layout"])
        wide = F32 if monoid == "sum" and out.dtype in SHORT_FLOATS else out.dtype
        from autocomp.ir.body import Map

        value = Reduce(wide, monoid, taps, (read if wide == out.dtype else Map(wide, "cast", (read,)),))
        return Comprehension(axes, value if wide == out.dtype else Map(out.dtype, "cast", (value,)))

    return meaning


register(
    Op(
        "maxpool",
        (1, 1),
        _pool_infer("maxpool"),
        _pool_reference(np.maximum, lambda d: identity("max", d)),
        _pool_meaning("max", lambda d: identity("max", d)),
        attrs={**WINDOW, "window": ...},
        doc="largest element of each window",
    )
)
register(
    Op(
        "sumpool",
        (1, 1),
        _pool_infer("sumpool"),
        _pool_reference(np.add, lambda d: 0),
        _pool_meaning("sum", lambda d: 0),
        attrs={**WINDOW, "window": ...},
        doc="sum of each window; padding counts 0",
    )
)


# ---- where the largest element of each window lies
def _steps(t: TensorType, a: Attrs) -> tuple[int, ...]:
    """How far each dimension moves the flat number of an element: row-major, or with the spatial dimensions column-major."""
    c, *spatial = (int(d) for d in t.shape[1:])  # type: ignore[arg-type]
    inner = [prod(spatial[:k]) if a["column_major"] else prod(spatial[k + 1 :]) for k in range(len(spatial))]
    return (c * prod(spatial), prod(spatial), *inner)


def _index_infer(t: Types, a: Attrs) -> TensorType:
    if a["layout"] != "nchw" or any(isinstance(d, Sym) for d in t[0].shape[1:]):
        raise UnsupportedOp(f"takes fixed channels and images in the layout nchw, not {t[0]}", where="maxpool_index")
    return TensorType(I64, _pool_infer("maxpool_index")(t, a).shape)


def _index_meaning(t: Types, a: Attrs, out: TensorType) -> Comprehension:
    places = tuple(Axis(f"i{2 + j}", d) for j, d in enumerate(out.shape[2:]))
    taps = tuple(Axis(f"r{j}", d) for j, d in enumerate(a["window"]))
    index, guard = _positions(t[0], a, places, taps)
    here = (aff("i0"), aff("i1"), *index)
    read = Read(t[0].dtype, 0, here, guard, float(identity("max", t[0].dtype)) if guard else 0.0)
    steps = _steps(t[0], a)
    flat: Expr = Index(I64, sum((i * k for i, k in zip(here, steps)), Aff()))
    if any(a["lo"]):  # padding before a window's first element has that one's number: where all are the lowest, it is the answer
        firsts = [aff(o.name) * s - lo for o, s, lo in zip(places, a["strides"], a["lo"])]
        firsts = [b - (b // d) * d if d > 1 else Aff() for b, d in zip(firsts, a["dilations"])]
        inside = [Map(I64, "max", (Index(I64, i), Index(I64, f))) for i, f in zip(index, firsts)]
        parts = [Map(I64, "mul", (i, Const(I64, k))) for i, k in zip(inside, steps[2:])]
        flat = Index(I64, aff("i0") * steps[0] + aff("i1") * steps[1])
        for part in parts:
            flat = Map(I64, "add", (flat, part))
    axes = (Axis("i0", out.shape[0]), Axis("i1", out.shape[1]), *places)
    return Comprehension(axes, Reduce(I64, "argmax", taps, (read, flat), "i"))


def _index_reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    t = TensorType(out.dtype, xs[0].shape)
    numbers = sum(np.arange(d).reshape([-1 if j == k else 1 for j in range(t.rank)]) * s
                  for k, (d, s) in enumerate(zip(xs[0].shape, _steps(t, a))))  # fmt: skip
    best = at = None
    spatial = out.shape[2:]
    values = _patches(xs[0], a, a["window"], spatial, identity("max", dtype_of(xs[0])))  # type: ignore[arg-type]
    places = _patches(np.broadcast_to(numbers, xs[0].shape), a, a["window"], spatial, np.iinfo(np.int64).max)  # type: ignore[arg-type]
    for (_, v), (_, i) in zip(values, places):
        if best is None:
            best, at = v.copy(), i.copy()
            continue
        none, same = np.isnan(v) & ~np.isnan(best), (v == best) | (np.isnan(v) & np.isnan(best))  # NaN is the largest, as `argmax` has it
        better = (v > best) | none | (same & (i < at))
        best, at = np.where(better, v, best), np.where(better, i, at)
    return np.asarray(at)


register(
    Op(
        "maxpool_index",
        (1, 1),
        _index_infer,
        _index_reference,
        _index_meaning,
        attrs={**WINDOW, "window": ..., "column_major": False},
        doc="number of the largest element of each window, counted over the whole tensor; equal ones: the lowest number",
    )
)


# ---- average pooling: a sum over a count that is known at compile time
def _avg_counts(t: TensorType, a: Attrs, out: TensorType) -> list[np.ndarray]:
    """For each spatial dimension, how many elements of each window count: a window's number is the product of its dimensions'."""
    return [_avg_count(a["count_include_pad"], *of) for of in _avg_axes(t, a, out)]


def _avg_axes(t: TensorType, a: Attrs, out: TensorType) -> Any:
    """(size, stride, lo, hi, dilation, window, outputs) of each spatial dimension."""
    return zip(
        split(t, a["layout"])[2], a["strides"], a["lo"], a["hi"], a["dilations"], a["window"], split(out, a["layout"])[2], strict=True
    )


def _avg_count(include: bool, d: int, s: int, lo: int, hi: int, dil: int, k: int, o: int) -> np.ndarray:
    check_table(o, "avgpool")
    left, right = (-lo, d + hi) if include else (0, d)
    begin = np.arange(o, dtype=object if max(d, s * o, lo + hi, dil * k) > 2**61 else np.int64) * s - lo
    first, last = np.maximum(0, -((begin - left) // dil)), np.minimum(k - 1, (right - 1 - begin) // dil)
    return np.maximum(0, last - first + 1).astype(np.float64)


def _avg_open(b: Any, x: Any, y: Any, a: Attrs, wide: DType) -> Any:
    """The sums y of windows of x over their counts, dimension by dimension; of a symbolic one counts are computed when the program runs,
    but where no window reaches over an end."""
    number = lambda v: b.const(v, I64)
    first, rank = (2 if a["layout"] == "nchw" else 1), x.type.rank
    for n, (d, s, lo, hi, dil, k, o) in enumerate(_avg_axes(x.type, a, y.type)):
        form = (-1 if isinstance(o, int) else o, *[1] * (rank - first - n - 1))
        if not isinstance(d, Sym):
            y = b.op("mul", y, b.param(b.fresh("window_counts"), (1.0 / _avg_count(a["count_include_pad"], d, s, lo, hi, dil, k, o)
                                                                  ).astype(wide.numpy).reshape(form)))  # fmt: skip
            continue
        if a["count_include_pad"] or (lo <= 0 and hi <= 0):  # windows do not reach beyond what is padded
            y = b.op("mul", y, b.const(1.0 / k, wide))
            continue
        begin = b.op("sub", b.op("mul", b.op("iota", shape=(o,), axis=0, dtype=I64.name), number(s)), number(lo))
        behind = b.op("sub", b.op("sub", b.op("extent", x, axis=first + n, dtype=I64.name), number(1)), begin)
        low = b.op("max", number(0), b.op("neg", b.op("floordiv", begin, number(dil))))
        high = b.op("min", number(k - 1), b.op("floordiv", behind, number(dil)))
        count = b.op("max", number(0), b.op("add", b.op("sub", high, low), number(1)))
        y = b.op("div", y, b.op("cast", b.op("reshape", count, shape=form), to=wide.name))
    return y


def _avg_all(counts: list[np.ndarray]) -> np.ndarray:
    """The numbers of all windows, in the shape of the spatial dimensions."""
    return reduce(np.multiply.outer, counts, np.ones(()))


def _avg_reference(xs: Arrays, a: Attrs, out: TensorType) -> np.ndarray:
    total = _pool_reference(np.add, lambda d: 0)((xs[0].astype(np.float64),), a, out)
    t = TensorType(out.dtype, xs[0].shape)
    counts = _avg_all(_avg_counts(t, a, out))
    y = total / (counts[..., None] if a["layout"] == "nhwc" else counts)
    return y if xs[0].dtype == np.float64 else y.astype(out.dtype.numpy)


TOGETHER = 2**22  # windows up to which their numbers are one table; beyond it there is one a dimension


def _inverse(b: Any, counts: np.ndarray, a: Attrs, wide: DType) -> Any:
    with np.errstate(divide="ignore"):  # the mean of nothing: 0 times infinity
        inverse = (1.0 / counts).astype(wide.numpy)
    return b.param(b.fresh("window_counts"), inverse[..., None] if a["layout"] == "nhwc" else inverse)


def _avg_decompose(b: Any, x: Any, a: Attrs) -> Any:
    t = x[0].type
    window = {k: a[k] for k in (*WINDOW, "window")}
    wide = F32 if t.dtype in SHORT_FLOATS else t.dtype
    y = x[0] if wide == t.dtype else b.op("cast", x[0], to=wide.name)
    y = b.op("sumpool", y, **window)
    if any(isinstance(d, Sym) for d in split(t, a["layout"])[2]):
        y = _avg_open(b, x[0], y, a, wide)
        return y if wide == t.dtype else b.op("cast", y, to=t.dtype.name)
    counts = _avg_counts(t, a, y.type)
    if all(c.size and c[0] and (c == c[0]).all() for c in counts):
        y = b.op("mul", y, b.const(1.0 / float(np.prod([c[0] for c in counts])), wide))
    elif prod(c.size for c in counts) <= TOGETHER:
        y = b.op("mul", y, _inverse(b, _avg_all(counts), a, wide))
    else:
        for n, c in enumerate(counts):
            y = b.op("mul", y, _inverse(b, c.reshape(-1, *[1] * (len(counts) - n - 1)), a, wide))
    return y if wide == t.dtype else b.op("cast", y, to=t.dtype.name)


register(
    Op(
        "avgpool",
        (1, 1),
        _pool_infer("avgpool"),
        _avg_reference,
        decompose=_avg_decompose,
        attrs={**WINDOW, "window": ..., "count_include_pad": False},
        doc="mean of each window",
    )
)
