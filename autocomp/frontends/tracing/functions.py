"""NumPy's and the array API's functions on tracers: views, reductions, products, choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing.array import FUNCTIONS, UFUNCS, Tracer, lift
from autocomp.ir.builder import Builder
from autocomp.ir.ops.pointwise import broadcast_shapes
from autocomp.ir.ops.repeats import PAD_MODES
from autocomp.ir.types import BOOL, I64, DType, dtype_of


def function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is what these names of numpy do to tracers."""

    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.update(dict.fromkeys(names, fn))
        return fn

    return add


# ---- arguments
def builder(*values: Any) -> Builder:
    """The builder of the first tracer among (sequences of) values."""
    for v in values:
        if isinstance(v, Tracer):
            return v.b
        if isinstance(v, (list, tuple)) and (inner := [w for w in v if isinstance(w, (Tracer, list, tuple))]):
            return builder(*inner)
    raise ModelError("no traced array among the arguments", where="trace")


def array(value: Any, b: Builder, like: DType | None = None) -> Tracer:
    """The value as a tracer; nested lists of tracers are stacked."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Tracer, list, tuple)) for v in value):
        return FUNCTIONS["stack"]([array(v, b) for v in value])  # type: ignore[no-any-return]
    return Tracer(b, lift(b, value, like))


def together(values: Sequence[Any]) -> list[Tracer]:
    """Values as tracers of one dtype, NumPy's promotion with weak Python numbers."""
    b = builder(*values)
    kinds = [v.dtype.numpy if isinstance(v, Tracer) else v for v in values]
    dtype = dtype_of(np.result_type(*kinds))
    return [array(v, b, dtype).astype(dtype) for v in values]


def axis_of(axis: int, rank: int) -> int:
    """The axis in [0, rank). Raises ModelError."""
    if isinstance(axis, Tracer) or not -rank <= axis < rank:
        raise ModelError(f"axis {axis} is out of range for {rank} dimensions", where="trace")
    return int(axis) % rank


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """None: all axes; an int: that one."""
    if axis is None:
        return tuple(range(rank))
    return tuple(axis_of(a, rank) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))


# ---- reductions
def _reduction(op: str) -> Callable[..., Tracer]:
    def reduce(x: Tracer, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tracer:
        x = x if dtype is None else x.astype(dtype)
        if op in ("reduce_sum", "reduce_prod") and dtype is None and not x.dtype.is_float and x.dtype.bits < 64:
            x = x.astype("u64" if x.dtype.kind == "u" else "i64")
        if op in ("reduce_any", "reduce_all"):
            x = x if x.dtype == BOOL else x != 0
        elif x.dtype == BOOL:
            return reduce(x.astype("i8"), axis, None, keepdims).astype(BOOL)
        return x.op(op, axes=axes_of(axis, x.ndim), keepdims=bool(keepdims))

    return reduce


for _names, _entry in (
    (("sum",), "reduce_sum"), (("prod",), "reduce_prod"), (("any",), "reduce_any"), (("all",), "reduce_all"),
    (("max", "amax"), "reduce_max"), (("min", "amin"), "reduce_min"),
):  # fmt: skip
    function(*_names)(_reduction(_entry))


@function("mean")
def mean(x: Tracer, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tracer:
    x = x.astype(dtype) if dtype is not None else x if x.dtype.is_float else x.astype("f64")
    return x.op("reduce_mean", axes=axes_of(axis, x.ndim), keepdims=bool(keepdims))


@function("var")
def var(x: Tracer, axis: Any = None, dtype: Any = None, ddof: float = 0, keepdims: bool = False, correction: float = 0) -> Tracer:
    x = x.astype(dtype) if dtype is not None else x if x.dtype.is_float else x.astype("f64")
    axes, less = axes_of(axis, x.ndim), ddof or correction
    centred = x - mean(x, axes, keepdims=True)
    y = mean(centred * centred, axes, keepdims=keepdims)
    n = prod(x.shape[a] for a in axes)
    return y * (n / (n - less)) if less else y


@function("std")
def std(x: Tracer, axis: Any = None, **kwargs: Any) -> Any:
    return np.sqrt(var(x, axis, **kwargs))


def _arg(op: str) -> Callable[..., Tracer]:
    def arg(x: Tracer, axis: int | None = None, *, keepdims: bool = False) -> Tracer:
        if axis is None:
            y = ravel(x).op(op, axes=(0,), keepdims=False)
            return y.reshape((1,) * x.ndim) if keepdims else y
        return x.op(op, axes=(axis_of(axis, x.ndim),), keepdims=keepdims)

    return arg


function("argmax")(_arg("reduce_argmax"))
function("argmin")(_arg("reduce_argmin"))


def _running(op: str) -> Callable[..., Tracer]:
    def run(x: Tracer, axis: int | None = None, dtype: Any = None) -> Tracer:
        x = ravel(x) if axis is None else x
        if dtype is None and not x.dtype.is_float and x.dtype.bits < 64:
            dtype = "u64" if x.dtype.kind == "u" else "i64"
        x = x if dtype is None else x.astype(dtype)
        return x.op(op, axis=axis_of(0 if axis is None else axis, x.ndim))

    return run


function("cumsum", "cumulative_sum")(_running("cumsum"))
function("cumprod", "cumulative_prod")(_running("cumprod"))
function("ptp")(lambda x, axis=None, keepdims=False: FUNCTIONS["max"](x, axis, None, keepdims) - FUNCTIONS["min"](x, axis, None, keepdims))
function("count_nonzero")(lambda x, axis=None, keepdims=False: FUNCTIONS["sum"](x != 0, axis, "i64", keepdims))
function("trace")(lambda x, offset=0: FUNCTIONS["sum"](diagonal(x, offset), -1))


@function("average")
def average(x: Tracer, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    total = FUNCTIONS["sum"]
    return total(x * weights, axis, None, keepdims) / total(broadcast_to(array(weights, x.b), x.shape), axis, None, keepdims)


@function("norm", "vector_norm")
def norm(x: Tracer, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The 2-norm (of all elements, or along axes), or the 1- or maximum norm of vectors."""
    if ord not in (None, 1, 2, np.inf) or (ord is not None and not isinstance(axis, int) and x.ndim != 1):
        raise UnsupportedOp(f"numpy.linalg.norm of order {ord}", where="trace", hint="use the 2-norm, or 1 or inf of vectors")
    if ord in (1, np.inf):
        return FUNCTIONS["sum" if ord == 1 else "max"](abs(x), axis, None, keepdims)
    return np.sqrt(FUNCTIONS["sum"](x * x, axis, None, keepdims))


# ---- shapes
@function("reshape")
def reshape(x: Tracer, /, shape: Any = None, order: str = "C", *, newshape: Any = None) -> Tracer:
    return x.reshape(shape if shape is not None else newshape, order=order)


@function("ravel", "flatten")
def ravel(x: Tracer, order: str = "C") -> Tracer:
    return x.reshape(-1, order=order) if x.size else x.reshape(0)


function("transpose", "permute_dims")(lambda x, axes=None: x.transpose(*(axes or ())))
function("matrix_transpose")(lambda x: x.mT)
function("copy", "conj", "real")(lambda x, *a, **k: x)
function("astype")(lambda x, dtype, copy=True: x.astype(dtype))
function("shape")(lambda x: x.shape)
function("ndim")(lambda x: x.ndim)
function("size")(lambda x, axis=None: x.size if axis is None else x.shape[axis])


@function("swapaxes")
def swapaxes(x: Tracer, a: int, b: int) -> Tracer:
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return x.transpose(order)


@function("moveaxis")
def moveaxis(x: Tracer, source: Any, destination: Any) -> Tracer:
    src, dst = axes_of(source, x.ndim), axes_of(destination, x.ndim)
    order = [k for k in range(x.ndim) if k not in src]
    for d, s in sorted(zip(dst, src)):
        order.insert(d, s)
    return x.transpose(order)


@function("expand_dims")
def expand_dims(x: Tracer, axis: Any) -> Tracer:
    many = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(many)
    new, rest = axes_of(tuple(many), rank), iter(x.shape)
    return x.reshape(tuple(1 if k in new else next(rest) for k in range(rank)))


@function("squeeze")
def squeeze(x: Tracer, axis: Any = None) -> Tracer:
    drop = [k for k, d in enumerate(x.shape) if d == 1] if axis is None else list(axes_of(axis, x.ndim))
    if any(x.shape[k] != 1 for k in drop):
        raise ModelError(f"squeezes axes {drop} of {x.type}, which are not all 1", where="trace")
    return x.reshape(tuple(d for k, d in enumerate(x.shape) if k not in drop))


@function("broadcast_to")
def broadcast_to(x: Tracer, shape: Any) -> Tracer:
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return x if shape == x.shape else x.op("broadcast", shape=shape)


@function("broadcast_arrays")
def broadcast_arrays(*values: Any) -> tuple[Tracer, ...]:
    b = builder(*values)
    xs = [array(v, b) for v in values]
    shape = broadcast_shapes("broadcast_arrays", *(x.shape for x in xs))
    return tuple(broadcast_to(x, shape) for x in xs)


@function("flip")
def flip(x: Tracer, axis: Any = None) -> Tracer:
    axes = axes_of(axis, x.ndim)
    return x[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(x.ndim))]


function("fliplr")(lambda x: flip(x, 1))
function("flipud")(lambda x: flip(x, 0))


@function("roll")
def roll(x: Tracer, shift: Any, axis: Any = None) -> Tracer:
    if axis is None:
        return roll(ravel(x), shift, 0).reshape(x.shape)
    axes = axes_of(axis, x.ndim)
    for a, s in zip(axes, shift if isinstance(shift, (tuple, list)) else (shift,) * len(axes), strict=True):
        k = s % x.shape[a] if x.shape[a] else 0
        before = tuple(slice(None) for _ in range(a))
        x = concatenate([x[(*before, slice(x.shape[a] - k, None))], x[(*before, slice(None, x.shape[a] - k))]], a) if k else x
    return x


@function("tile")
def tile(x: Tracer, reps: Any) -> Tracer:
    times = tuple(reps) if isinstance(reps, (tuple, list)) else (reps,)
    rank = max(len(times), x.ndim)
    x = x.reshape((1,) * (rank - x.ndim) + x.shape)
    return x.op("tile", repeats=(1,) * (rank - len(times)) + times)


@function("repeat")
def repeat(x: Tracer, repeats: Any, axis: int | None = None) -> Tracer:
    x, axis = (ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    if not isinstance(repeats, int):
        return take(x, np.repeat(np.arange(x.shape[axis]), repeats), axis)
    y = expand_dims(x, axis + 1)
    y = broadcast_to(y, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
    return y.reshape((*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]))


@function("pad")
def pad(x: Tracer, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Tracer:
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    lo, hi = tuple(a for a, _ in widths), tuple(b for _, b in widths)
    if mode == "constant" and isinstance(constant_values, (int, float)):
        return x.op("pad", lo=lo, hi=hi, value=float(constant_values) if x.dtype.is_float else int(constant_values))
    if mode not in PAD_MODES:
        raise UnsupportedOp(f"numpy.pad in mode '{mode}' with {constant_values}", where="trace",
                            hint=f"modes: constant (one number), {', '.join(PAD_MODES)}")  # fmt: skip
    return x.op(f"pad_{mode}", lo=lo, hi=hi)


# ---- joining and splitting
@function("concatenate", "concat")
def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tracer:
    xs = together(arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    return xs[0] if len(xs) == 1 else xs[0].op("concat", *(x.node for x in xs[1:]), axis=axis_of(axis, xs[0].ndim))


@function("stack")
def stack(arrays: Sequence[Any], axis: int = 0) -> Tracer:
    xs = together(arrays)
    return concatenate([expand_dims(x, axis_of(axis, xs[0].ndim + 1)) for x in xs], axis_of(axis, xs[0].ndim + 1))


def _at_least(x: Any, rank: int, b: Builder) -> Tracer:
    x = array(x, b)
    return x.reshape((1,) * (rank - x.ndim) + x.shape) if x.ndim < rank else x


@function("hstack")
def hstack(arrays: Sequence[Any]) -> Tracer:
    xs = [_at_least(a, 1, builder(*arrays)) for a in arrays]
    return concatenate(xs, 0 if xs[0].ndim == 1 else 1)


function("vstack", "row_stack")(lambda arrays: concatenate([_at_least(a, 2, builder(*arrays)) for a in arrays], 0))


@function("split", "array_split")
def split(x: Tracer, sections: Any, axis: int = 0) -> list[Tracer]:
    axis = axis_of(axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, int):
        sizes = [n // sections + (k < n % sections) for k in range(sections)]
        edges = np.cumsum([0, *sizes]).tolist()
    else:
        edges = [0, *sections, n]
    before = tuple(slice(None) for _ in range(axis))
    return [x[(*before, slice(a, b))] for a, b in zip(edges, edges[1:])]


@function("unstack")
def unstack(x: Tracer, axis: int = 0) -> tuple[Tracer, ...]:
    return tuple(moveaxis(x, axis, 0))


# ---- choosing
@function("where")
def where(condition: Any, x: Any, y: Any) -> Tracer:
    b = builder(condition, x, y)
    if not isinstance(x, Tracer) and not isinstance(y, Tracer):
        kinds = dtype_of(np.result_type(x, y))
        branches = [array(v, b, kinds).astype(kinds) for v in (x, y)]
    else:
        branches = together([x, y])
    mask = array(condition, b, BOOL)
    mask = mask if mask.dtype == BOOL else mask != 0
    return mask.op("where", *(v.node for v in branches))


@function("clip")
def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = a_min if a_min is not None else min, a_max if a_max is not None else max
    x = x if low is None else UFUNCS["maximum"](x, low)
    return x if high is None else UFUNCS["minimum"](x, high)


@function("take")
def take(x: Any, indices: Any, axis: int | None = None) -> Tracer:
    b = builder(x, indices)
    x = array(x, b)
    x, axis = (ravel(x), 0) if axis is None else (x, axis_of(axis, x.ndim))
    at = indices if isinstance(indices, Tracer) else Tracer(b, lift(b, np.asarray(indices), I64))
    return x.op("gather", at.node, axis=axis)


@function("take_along_axis")
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Tracer:
    b = builder(x, indices)
    x, at = array(x, b), array(indices, b)
    rest = tuple(k for k in range(x.ndim) if k != axis_of(axis, x.ndim))
    if any(at.shape[k] != x.shape[k] for k in rest):
        shape = tuple(x.shape[k] if k in rest else at.shape[k] for k in range(x.ndim))
        at = broadcast_to(at, shape)
    return x.op("gather_elements", at.node, axis=axis_of(axis, x.ndim))


@function("round", "around")
def round_(x: Tracer, decimals: int = 0) -> Any:
    if x.dtype.is_int:
        return x
    return np.rint(x) if decimals == 0 else np.rint(x * 10.0**decimals) / 10.0**decimals


@function("nan_to_num")
def nan_to_num(x: Tracer, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    import ml_dtypes

    limits = ml_dtypes.finfo(x.dtype.numpy)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    y = where(np.isnan(x), nan, x)
    return where(np.isinf(y), where(y > 0, high, low).astype(x.dtype), y)


@function("isclose")
def isclose(x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Any:
    return (x == y) | (abs(x - y) <= atol + rtol * abs(y))


@function("sort")
def sort(x: Tracer, axis: int = -1) -> Tracer:
    axis = axis_of(axis, x.ndim)
    return x.op("topk", k=x.shape[axis], axis=axis, largest=False, part="values")


@function("argsort")
def argsort(x: Tracer, axis: int = -1) -> Tracer:
    axis = axis_of(axis, x.ndim)
    return x.op("topk", k=x.shape[axis], axis=axis, largest=False, part="indices")


# ---- diagonals and triangles
def _grid(x: Tracer, offset: int) -> Tracer:
    """column - row - offset of the last two dimensions."""
    rows, cols = x.shape[-2:]
    i, j = (Tracer(x.b, x.b.op("iota", shape=(rows, cols), axis=a)) for a in range(2))
    return j - i - offset


function("tril")(lambda x, k=0: where(_grid(x, k) <= 0, x, array(0, x.b, x.dtype)))
function("triu")(lambda x, k=0: where(_grid(x, k) >= 0, x, array(0, x.b, x.dtype)))


@function("diagonal")
def diagonal(x: Tracer, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tracer:
    x = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, cols = x.shape[-2:]
    n = max(0, min(rows - max(-offset, 0), cols - max(offset, 0)))
    at = np.arange(n) * (cols + 1) + (offset if offset >= 0 else -offset * cols)
    return take(x.reshape((*x.shape[:-2], rows * cols)), at, -1)


@function("diag")
def diag(x: Tracer, k: int = 0) -> Tracer:
    if x.ndim == 2:
        return diagonal(x, k)
    n = x.shape[0] + abs(k)
    wide = broadcast_to(pad(x, ((max(-k, 0), max(k, 0)),)).reshape(n, 1), (n, n))
    return where(_grid(wide, k) == 0, wide, array(0, x.b, x.dtype))


@function("diff")
def diff(x: Tracer, n: int = 1, axis: int = -1) -> Tracer:
    axis = axis_of(axis, x.ndim)
    before = tuple(slice(None) for _ in range(axis))
    for _ in range(n):
        x = x[(*before, slice(1, None))] - x[(*before, slice(None, -1))]
    return x


# ---- products
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
    return x.op("einsum", y.node, spec=f"{''.join(xs)},{''.join(ys)}->{''.join(out)}")


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
            xs[k] = FUNCTIONS["sum"](xs[k], lone, xs[k].dtype)
            terms[k] = "".join(s for i, s in enumerate(t) if i not in lone)
    if len(xs) == 1:
        return xs[0].transpose([terms[0].index(s) for s in out]) if out != terms[0] else xs[0]
    return xs[0].op("einsum", xs[1].node, spec=f"{terms[0]},{terms[1]}->{out}")


function("outer")(lambda x, y: expand_dims(ravel(array(x, builder(x, y))), 1) * ravel(array(y, builder(x, y))))
function("inner")(lambda x, y: tensordot(x, y, ((-1,), (-1,))))
function("vdot")(lambda x, y: ravel(array(x, builder(x, y))) @ ravel(array(y, builder(x, y))))
function("matmul")(lambda x, y: UFUNCS["matmul"](x, y))
function("vecdot")(lambda x, y, axis=-1: FUNCTIONS["sum"](x * y, axis))


@function("convolve")
def convolve(x: Any, y: Any, mode: str = "full") -> Tracer:
    """One-dimensional convolution, as the op table's with the shorter operand turned round."""
    x, y = together([x, y])
    x, y = (x, y) if x.shape[0] >= y.shape[0] else (y, x)
    k = y.shape[0]
    lo, hi = {"full": (k - 1, k - 1), "same": ((k - 1) - (k - 1) // 2, (k - 1) // 2), "valid": (0, 0)}[mode]
    lo, hi = ((k - 1) // 2, (k - 1) - (k - 1) // 2) if mode == "same" else (lo, hi)
    z = x.reshape(1, 1, -1).op("conv", flip(y).reshape(1, 1, -1).node, strides=(1,), lo=(lo,), hi=(hi,), dilations=(1,))
    return z.reshape(-1)


# ---- arrays like another
def _like(value: float) -> Callable[..., Tracer]:
    def make(x: Tracer, dtype: Any = None, shape: Any = None) -> Tracer:
        kind = x.dtype if dtype is None else dtype if isinstance(dtype, DType) else dtype_of(dtype)
        return broadcast_to(Tracer(x.b, x.b.const(value, kind)), x.shape if shape is None else shape)

    return make


function("zeros_like", "empty_like")(_like(0))
function("ones_like")(_like(1))
function("full_like")(lambda x, fill_value, dtype=None: _like(fill_value)(x, dtype))
function("result_type")(lambda *v: np.result_type(*(a.dtype.numpy if isinstance(a, Tracer) else a for a in v)))

