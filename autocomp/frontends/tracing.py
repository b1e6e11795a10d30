"""Python tracing: run a NumPy or array-API style function once on tracers and record its graph.

    graph = trace(lambda x, w: np.maximum(x @ w, 0), x, w)

A tracer answers to operators, ufuncs (`np.exp(x)`), array functions (`np.sum(x, axis=1)`) and methods (`x.reshape(2, -1)`).
NumPy arrays met on the way become parameters, Python numbers constants. A branch on a value cannot be traced and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import BOOL, DType, TensorType, dtype_of

# NumPy's ufunc and function names where they differ from the op table's.
UFUNCS = {
    "absolute": "abs",
    "negative": "neg",
    "subtract": "sub",
    "multiply": "mul",
    "true_divide": "div",
    "divide": "div",
    "power": "pow",
    "maximum": "max",
    "minimum": "min",
    "remainder": "mod",
    "floor_divide": "floordiv",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
    "logical_and": "and",
    "logical_or": "or",
    "logical_not": "not",
    "rint": "round",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
}
SAME = {
    "add",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "floor",
    "ceil",
    "trunc",
    "sign",
    "isnan",
    "isinf",
}
COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
FLOATING = {
    "div",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log1p",
    "sqrt",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
}
REDUCTIONS = {
    "sum": "reduce_sum",
    "max": "reduce_max",
    "min": "reduce_min",
    "prod": "reduce_prod",
    "any": "reduce_any",
    "all": "reduce_all",
}


def trace(fn: Callable[..., Any], *examples: Any, name: str | None = None) -> Graph:
    """The graph of `fn` for arguments like `examples` (arrays, or TensorTypes).

    Inputs are named after the function's parameters. `fn` returns an array, or a tuple, list or dict of arrays.
    Raises UnsupportedOp for what has no entry in the op table.
    """
    b = Builder(name or getattr(fn, "__name__", "traced").replace("<lambda>", "traced"))
    types = [e if isinstance(e, TensorType) else TensorType(dtype_of(np.asarray(e)), np.shape(e)) for e in examples]
    args = [Tracer(b, b.input(n, t)) for n, t in zip(_names(fn, len(types)), types)]
    result = fn(*args)
    named = (
        result.items() if isinstance(result, dict) else enumerate(result) if isinstance(result, (tuple, list)) else [("", result)]
    )
    for key, value in named:
        b.output(f"out{key}" if not isinstance(key, str) or not key else key, _lift(b, value, None))
    return b.graph()


def _names(fn: Callable[..., Any], count: int) -> list[str]:
    import inspect

    try:
        params = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        params = []
    fixed = [p.name for p in params if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [fixed[i] if i < len(fixed) else f"arg{i}" for i in range(count)]


def _lift(b: Builder, value: Any, like: DType | None) -> Node:
    """A node for a tracer, an array (a parameter) or a number (a constant of `like`)."""
    if isinstance(value, Tracer):
        return value.node
    if isinstance(value, (bool, int, float)) and like is not None:
        return b.const(value, like)
    array = np.asarray(value)
    if array.dtype == object:
        raise ModelError(f"a value of type {type(value).__name__} is no array", where="trace", hint="use arrays and numbers only")
    if array.ndim == 0:
        return b.const(array.item(), like or dtype_of(array))
    return b.param(f"const{len(b.params)}", array)


def _promote(values: Sequence[Any]) -> DType:
    """NumPy's promotion; Python numbers are weak."""
    return dtype_of(np.result_type(*[v.dtype.numpy if isinstance(v, Tracer) else v for v in values]))


class Tracer:
    """An array that is being recorded: `shape`, `dtype`, `ndim` are known, values are not."""

    __array_priority__ = 1000

    def __init__(self, builder: Builder, node: Node) -> None:
        self.b, self.node = builder, node

    # ---- what is known
    @property
    def shape(self) -> tuple[Any, ...]:
        return self.node.type.shape

    @property
    def dtype(self) -> DType:
        return self.node.type.dtype

    @property
    def ndim(self) -> int:
        return self.node.type.rank

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def T(self) -> Tracer:
        return self.transpose()

    def __len__(self) -> int:
        return int(self.shape[0])

    def __bool__(self) -> bool:
        raise UnsupportedOp(
            f"a branch on the value of a traced array {self.node.type}",
            where="trace",
            hint="use np.where, or decide on shapes and Python values",
        )

    __array__ = None

    # ---- recording
    def _op(self, op: str, *nodes: Node, **attrs: Any) -> Tracer:
        return Tracer(self.b, self.b.op(op, *nodes, **attrs))

    def _pointwise(self, op: str, *values: Any) -> Tracer:
        dtype = _promote(values)
        if op in FLOATING and not dtype.is_float:
            dtype = dtype_of(np.result_type(dtype.numpy, np.float32))
        if op in ("and", "or", "not"):
            dtype = BOOL
        nodes = []
        for v in values:
            n = _lift(self.b, v, dtype)
            nodes.append(n if n.type.dtype == dtype else self.b.op("cast", n, to=dtype.name))
        return self._op(op, *nodes)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Tracer:
        kwargs.pop("dtype", None)
        if method != "__call__" or kwargs:
            raise UnsupportedOp(
                f"numpy.{ufunc.__name__}.{method} with {sorted(kwargs)}", where="trace", hint="call it without out= and where="
            )
        if ufunc.__name__ == "matmul":
            return matmul(self.b, *inputs)
        if ufunc.__name__ == "square":
            return self._pointwise("mul", inputs[0], inputs[0])
        if ufunc.__name__ == "reciprocal":
            return self._pointwise("div", 1.0, inputs[0])
        op = UFUNCS.get(ufunc.__name__) or (ufunc.__name__ if ufunc.__name__ in SAME else None)
        if op is None:
            raise UnsupportedOp(
                f"numpy.{ufunc.__name__}", where="trace", hint="write it with " + ", ".join(sorted(SAME)[:8]) + ", ..."
            )
        return self._pointwise(op, *inputs)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        handler = FUNCTIONS.get(func.__name__)
        if handler is None:
            raise UnsupportedOp(f"numpy.{func.__name__}", where="trace", hint=f"functions traced: {', '.join(sorted(FUNCTIONS))}")
        return handler(self.b, *args, **kwargs)

    # ---- methods of arrays
    def reshape(self, *shape: Any) -> Tracer:
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if -1 in shape:
            rest = prod(s for s in shape if s != -1)
            if rest == 0 or self.size % rest:
                raise ModelError(f"cannot reshape {list(self.shape)} into {list(shape)}", where="trace")
            shape = tuple(self.size // rest if s == -1 else s for s in shape)
        return self._op("reshape", self.node, shape=tuple(shape))

    def transpose(self, *perm: Any) -> Tracer:
        perm = tuple(perm[0]) if len(perm) == 1 and isinstance(perm[0], (tuple, list)) else perm
        order = tuple(p % self.ndim for p in perm) if perm else tuple(reversed(range(self.ndim)))
        return self._op("transpose", self.node, perm=order)

    def swapaxes(self, a: int, b: int) -> Tracer:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def astype(self, dtype: Any) -> Tracer:
        return self._op("cast", self.node, to=dtype_of(dtype).name)

    def _reduce(self, op: str, axis: Any, keepdims: bool) -> Tracer:
        axes = tuple(range(self.ndim)) if axis is None else tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        x = self
        if op in ("sum", "prod") and not self.dtype.is_float and self.dtype.bits < 64:
            x = self.astype("u64" if self.dtype.kind == "u" else "i64")
        return x._op(REDUCTIONS[op], x.node, axes=tuple(a % self.ndim for a in axes), keepdims=bool(keepdims))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        return self._reduce("sum", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        return self._reduce("max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        return self._reduce("min", axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        return self._reduce("prod", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        return self._reduce("any", axis, keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        return self._reduce("all", axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        total = self.sum(axis, keepdims)
        return self._pointwise("div", total, self.size / total.size)

    def var(self, axis: Any = None, keepdims: bool = False) -> Tracer:
        centred = self._pointwise("sub", self, self.mean(axis, keepdims=True))
        return self._pointwise("mul", centred, centred).mean(axis, keepdims)

    def __getitem__(self, key: Any) -> Tracer:
        return index(self, key)


def _binary(op: str, flip: bool = False) -> Callable[[Tracer, Any], Tracer]:
    def method(self: Tracer, other: Any) -> Tracer:
        return self._pointwise(op, other, self) if flip else self._pointwise(op, self, other)

    return method


for _name, _op in (
    ("add", "add"),
    ("sub", "sub"),
    ("mul", "mul"),
    ("truediv", "div"),
    ("pow", "pow"),
    ("mod", "mod"),
    ("floordiv", "floordiv"),
):
    setattr(Tracer, f"__{_name}__", _binary(_op))
    setattr(Tracer, f"__r{_name}__", _binary(_op, flip=True))
for _name in COMPARISONS:
    setattr(Tracer, f"__{_name}__", _binary(_name))
Tracer.__hash__ = object.__hash__  # type: ignore[method-assign]
Tracer.__neg__ = lambda self: self._pointwise("neg", self)  # type: ignore[attr-defined,operator]
Tracer.__abs__ = lambda self: self._pointwise("abs", self)  # type: ignore[attr-defined,operator]
Tracer.__matmul__ = lambda self, o: matmul(self.b, self, o)  # type: ignore[attr-defined,operator]
Tracer.__rmatmul__ = lambda self, o: matmul(self.b, o, self)  # type: ignore[attr-defined,operator]


def matmul(b: Builder, x: Any, y: Any) -> Tracer:
    """x @ y with NumPy's rules."""
    dtype = _promote((x, y))
    nodes = [n if n.type.dtype == dtype else b.op("cast", n, to=dtype.name) for n in (_lift(b, v, None) for v in (x, y))]
    return Tracer(b, b.op("matmul", *nodes))


def index(x: Tracer, key: Any) -> Tracer:
    """Basic indexing: integers, slices, None and Ellipsis."""
    keys = list(key) if isinstance(key, tuple) else [key]
    if any(not (k is None or k is Ellipsis or isinstance(k, (int, slice))) for k in keys):
        raise UnsupportedOp("indexing with arrays", where="trace", hint="use np.take for gathers, np.where for masks")
    real = sum(k is not None and k is not Ellipsis for k in keys)
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at : at + 1] = [slice(None)] * (x.ndim - real)
    starts, limits, steps, shape, dim = [], [], [], [], 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        n = x.shape[dim]
        if isinstance(k, int):
            if not -n <= k < n:
                raise ModelError(f"index {k} is out of range for a dimension of {n}", where="trace")
            s = slice(k % n, k % n + 1, 1)
        else:
            s = slice(*k.indices(n))
            shape.append(len(range(*k.indices(n))))
        starts.append(s.start)
        limits.append(s.stop)
        steps.append(s.step)
        dim += 1
    cut = x._op("slice", x.node, starts=tuple(starts), limits=tuple(limits), steps=tuple(steps))
    return cut.reshape(tuple(shape)) if tuple(shape) != cut.shape else cut


def _concatenate(b: Builder, arrays: Sequence[Any], axis: int = 0) -> Tracer:
    dtype = _promote(arrays)
    nodes = [_lift(b, a, None) for a in arrays]
    nodes = [n if n.type.dtype == dtype else b.op("cast", n, to=dtype.name) for n in nodes]
    return Tracer(b, b.op("concat", *nodes, axis=axis % nodes[0].type.rank))


def _where(b: Builder, condition: Any, x: Any, y: Any) -> Tracer:
    dtype = _promote((x, y))
    nodes = [_lift(b, v, dtype) for v in (x, y)]
    nodes = [n if n.type.dtype == dtype else b.op("cast", n, to=dtype.name) for n in nodes]
    return Tracer(b, b.op("where", _lift(b, condition, BOOL), *nodes))


def _take(b: Builder, x: Any, indices: Any, axis: int = 0) -> Tracer:
    node = _lift(b, x, None)
    return Tracer(b, b.op("gather", node, _lift(b, indices, None), axis=axis % node.type.rank))


def _einsum(b: Builder, spec: str, *operands: Any) -> Tracer:
    return Tracer(b, b.op("einsum", *[_lift(b, o, None) for o in operands], spec=spec.replace(" ", "")))


def _method(name: str) -> Callable[..., Tracer]:
    return lambda b, x, *args, **kw: getattr(x, name)(*args, **kw)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: _method(n) for n in ("sum", "max", "min", "prod", "any", "all", "mean", "var", "reshape", "swapaxes", "astype")},
    "amax": _method("max"),
    "amin": _method("min"),
    "concatenate": _concatenate,
    "where": _where,
    "take": _take,
    "einsum": _einsum,
    "transpose": lambda b, x, axes=None: x.transpose(*(axes or ())),
    "permute_dims": lambda b, x, axes: x.transpose(*axes),
    "expand_dims": lambda b, x, axis: x.reshape((*x.shape[: axis % (x.ndim + 1)], 1, *x.shape[axis % (x.ndim + 1) :])),
    "squeeze": lambda b, x, axis=None: x.reshape(
        tuple(s for i, s in enumerate(x.shape) if s != 1 or (axis is not None and i != axis % x.ndim))
    ),
    "clip": lambda b, x, lo, hi: x._pointwise("min", x._pointwise("max", x, lo), hi),
    "broadcast_to": lambda b, x, shape: x._op("broadcast", x.node, shape=tuple(shape)),
    "ndim": lambda b, x: x.ndim,
    "shape": lambda b, x: x.shape,
}
