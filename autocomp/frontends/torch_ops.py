"""ATen operators -> the op table: one row each, by ATen's name without its overload."""

from __future__ import annotations

from collections.abc import Callable
from math import log, prod
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, I64, DType, TensorType

Lowering = Callable[..., Any]
TABLE: dict[str, Lowering] = {}


class Call:
    """One node of an exported graph. `out`: the type that torch gives the result (None where it is no tensor)."""

    def __init__(self, b: Builder, name: str, out: TensorType | None, where: str) -> None:
        self.b, self.name, self.out, self.where = b, name, out, where

    def op(self, name: str, *inputs: Node, **attrs: Any) -> Node:
        return self.b.op(name, *inputs, **attrs)

    def refuse(self, why: str, hint: str = "") -> UnsupportedOp:
        return UnsupportedOp(f"{self.name}: {why}", where=self.where, hint=hint or "export the model without it")

    def cast(self, x: Node, to: DType) -> Node:
        return x if x.type.dtype == to else self.op("cast", x, to=to.name)

    def value(self, x: Any, dtype: DType) -> Node:
        """A node of this type: a tensor cast, a number as a constant."""
        return self.cast(x, dtype) if isinstance(x, Node) else self.b.const(x, dtype)

    def shaped(self, x: Node) -> Node:
        """x with the result's shape (broadcast)."""
        assert self.out is not None
        return x if x.type.shape == self.out.shape else self.op("broadcast", x, shape=self.out.shape)


def row(*names: str) -> Callable[[Lowering], Lowering]:
    """Adds a function to the table under these names."""

    def add(f: Lowering) -> Lowering:
        TABLE.update(dict.fromkeys(names, f))
        return f

    return add


def axis_of(x: Node, dim: int) -> int:
    return dim % max(1, x.type.rank)


def axes_of(x: Node, dims: Any) -> tuple[int, ...]:
    """Dimensions as non-negative axes; None or [] for all. torch lets a scalar have a dimension 0, over which nothing is done."""
    if dims is None or dims == [] or not x.type.rank:
        return tuple(range(x.type.rank))
    return tuple(sorted(axis_of(x, d) for d in ([dims] if isinstance(dims, int) else dims)))


# ---- element by element
def _arithmetic(op: str) -> Lowering:
    def lower(c: Call, a: Any, b: Any, alpha: float = 1) -> Node:
        assert c.out is not None
        if c.out.dtype == BOOL and op in ("add", "mul", "max", "min"):  # of truth values
            return c.shaped(c.op("or" if op in ("add", "max") else "and", c.value(a, BOOL), c.value(b, BOOL)))
        x, y = c.value(a, c.out.dtype), c.value(b, c.out.dtype)
        y = y if alpha == 1 else c.op("mul", y, c.b.const(alpha, c.out.dtype))
        return c.shaped(c.op(op, x, y))

    return lower


for _name, _op in {"add": "add", "sub": "sub", "mul": "mul", "maximum": "max", "minimum": "min", "pow": "pow", "remainder": "mod",
                   "fmod": "fmod", "bitwise_and": "bitand", "bitwise_or": "bitor", "bitwise_xor": "bitxor", "__and__": "bitand",
                   "__or__": "bitor", "__lshift__": "shl", "__rshift__": "shr", "bitwise_left_shift": "shl",
                   "bitwise_right_shift": "shr"}.items():  # fmt: skip
    TABLE[_name] = _arithmetic(_op)


@row("div")
def _div(c: Call, a: Any, b: Any, rounding_mode: str | None = None) -> Node:
    assert c.out is not None
    x, y = c.value(a, c.out.dtype), c.value(b, c.out.dtype)
    if rounding_mode is None:
        return c.op("div", x, y)
    if rounding_mode == "floor":
        return c.op("floordiv", x, y)
    return c.op("idiv", x, y) if c.out.dtype.is_int else c.op("trunc", c.op("div", x, y))


@row("rsub")
def _rsub(c: Call, a: Any, b: Any, alpha: float = 1) -> Node:
    return _arithmetic("sub")(c, b, a if alpha == 1 else c.op("mul", a, c.b.const(alpha, a.type.dtype)))


def _common(a: Any, b: Any) -> DType:
    """The type in which two operands are compared."""
    kinds = [x.type.dtype for x in (a, b) if isinstance(x, Node)]
    number = next((x for x in (a, b) if not isinstance(x, Node)), None)
    if isinstance(number, float) and not kinds[0].is_float:
        return F32
    return max(kinds, key=lambda d: (d.is_float, d.bits))


def _comparison(op: str) -> Lowering:
    def lower(c: Call, a: Any, b: Any) -> Node:
        d = _common(a, b)
        return c.op(op, c.value(a, d), c.value(b, d))

    return lower


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    TABLE[_name] = _comparison(_name)


def _logic(op: str) -> Lowering:
    def lower(c: Call, *xs: Node) -> Node:
        zero = lambda x: x if x.type.dtype == BOOL else c.op("ne", x, c.b.const(0, x.type.dtype))
        return c.op(op, *map(zero, xs))

    return lower


for _name, _op in {"logical_and": "and", "logical_or": "or", "logical_not": "not", "logical_xor": "xor"}.items():
    TABLE[_name] = _logic(_op)


def _unary(op: str) -> Lowering:
    def lower(c: Call, x: Node) -> Node:
        assert c.out is not None
        return c.op(op, c.cast(x, c.out.dtype))

    return lower


for _name in ("abs", "neg", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
              "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "round", "trunc", "erf", "sigmoid", "silu", "relu",
              "sign"):  # fmt: skip
    TABLE[_name] = _unary(_name)
TABLE["isnan"] = lambda c, x: c.op("isnan", x)
TABLE["isinf"] = lambda c, x: c.op("isinf", x)
TABLE["bitwise_not"] = lambda c, x: c.op("not" if x.type.dtype == BOOL else "bitnot", x)
TABLE["reciprocal"] = lambda c, x: c.op("div", c.b.const(1, x.type.dtype), x)


@row("gelu")
def _gelu(c: Call, x: Node, approximate: str = "none") -> Node:
    return c.op("gelu_tanh" if approximate == "tanh" else "gelu", x)


@row("clamp", "hardtanh")
def _clamp(c: Call, x: Node, min: Any = None, max: Any = None) -> Node:
    if c.name == "hardtanh":
        min, max = -1.0 if min is None else min, 1.0 if max is None else max
    x = x if min is None else c.op("max", x, c.value(min, x.type.dtype))
    return x if max is None else c.op("min", x, c.value(max, x.type.dtype))


@row("leaky_relu")
def _leaky(c: Call, x: Node, slope: float = 0.01) -> Node:
    zero = c.b.const(0, x.type.dtype)
    return c.op("where", c.op("gt", x, zero), x, c.op("mul", x, c.b.const(slope, x.type.dtype)))


@row("softplus")
def _softplus(c: Call, x: Node, beta: float = 1, threshold: float = 20) -> Node:
    """log(1 + exp(beta x)) / beta, and x where beta x is beyond the threshold: from 20 on it is that to the last digit anyway."""
    by = lambda y, k: y if k == 1 else c.op("mul", y, c.b.const(k, x.type.dtype))
    y = by(c.op("softplus", by(x, beta)), 1 / beta)
    return y if threshold >= 20 else c.op("where", c.op("gt", by(x, beta), c.b.const(threshold, x.type.dtype)), x, y)


@row("elu")
def _elu(c: Call, x: Node, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Node:
    d = x.type.dtype
    of = lambda y, by: y if by == 1 else c.op("mul", y, c.b.const(by, d))
    low = of(c.op("expm1", of(x, input_scale)), alpha * scale)
    return c.op("where", c.op("gt", x, c.b.const(0, d)), of(x, scale), low)


TABLE["log10"] = lambda c, x: c.op("mul", c.op("log", c.cast(x, c.out.dtype)), c.b.const(1 / log(10), c.out.dtype))


@row("where")
def _where(c: Call, condition: Node, a: Any, b: Any) -> Node:
    assert c.out is not None
    return c.shaped(c.op("where", condition, c.value(a, c.out.dtype), c.value(b, c.out.dtype)))


@row("masked_fill")
def _masked_fill(c: Call, x: Node, mask: Node, value: Any) -> Node:
    return c.shaped(c.op("where", mask, c.value(value, x.type.dtype), x))


@row("_to_copy", "to", "type_as", "float", "half")
def _to(c: Call, x: Node, *_: Any, **__: Any) -> Node:
    assert c.out is not None
    return c.cast(x, c.out.dtype)


@row("clone", "detach", "contiguous", "alias", "lift_fresh_copy")
def _same(c: Call, x: Node, *_: Any, **__: Any) -> Node:
    return x


@row("dropout", "native_dropout")
def _dropout(c: Call, x: Node, p: float, train: bool | None = False) -> Any:
    if train is not False and p:
        raise c.refuse(f"drops out {p} of the elements at random", "export the model in eval mode")
    return (x, None) if c.name == "native_dropout" else x


@row("copy")
def _copy(c: Call, x: Node, source: Node, *_: Any) -> Node:
    """What a write in place becomes: `source` with the shape and the type of what it is written to."""
    assert c.out is not None
    return c.shaped(c.cast(source, c.out.dtype))


# ---- reductions
def _reduction(op: str) -> Lowering:
    def lower(c: Call, x: Node, dim: Any = None, keepdim: bool = False, **_: Any) -> Node:
        assert c.out is not None
        if op in ("reduce_any", "reduce_all"):
            x = x if x.type.dtype == BOOL else c.op("ne", x, c.b.const(0, x.type.dtype))
        elif op in ("reduce_sum", "reduce_mean", "reduce_prod"):
            x = c.cast(x, c.out.dtype)
        return c.op(op, x, axes=axes_of(x, dim), keepdims=keepdim)

    return lower


for _name, _op in {"sum": "reduce_sum", "mean": "reduce_mean", "prod": "reduce_prod", "amax": "reduce_max", "amin": "reduce_min",
                   "any": "reduce_any", "all": "reduce_all"}.items():  # fmt: skip
    TABLE[_name] = _reduction(_op)


@row("linalg_vector_norm")
def _norm(c: Call, x: Node, order: float = 2, dim: Any = None, keepdim: bool = False) -> Node:
    assert c.out is not None
    x = c.cast(x, c.out.dtype)
    total = lambda y, op="reduce_sum": c.op(op, y, axes=axes_of(x, dim), keepdims=keepdim)
    if order == 2:
        return c.op("sqrt", total(c.op("mul", x, x)))
    if order == 1 or abs(order) == float("inf"):
        return total(c.op("abs", x), "reduce_sum" if order == 1 else "reduce_max" if order > 0 else "reduce_min")
    raise c.refuse(f"is of order {order}", "orders 1, 2 and the infinities are there")


@row("max", "min")
def _extremum(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Any:
    if isinstance(dim, Node):
        return _arithmetic(c.name)(c, x, dim)
    value = c.op(f"reduce_{c.name}", x, axes=axes_of(x, dim), keepdims=keepdim)
    if dim is None:
        return value
    return value, c.op(f"reduce_arg{c.name}", x, axes=axes_of(x, dim), keepdims=keepdim)


@row("argmax", "argmin")
def _arg(c: Call, x: Node, dim: Any = None, keepdim: bool = False) -> Node:
    if dim is None:
        x, dim = c.op("reshape", x, shape=(x.type.elements,)), 0
    return c.op(f"reduce_{c.name}", x, axes=axes_of(x, dim), keepdims=keepdim)


@row("var")
def _var(c: Call, x: Node, dim: Any = None, correction: Any = 1, keepdim: bool = False, **_: Any) -> Node:
    axes = axes_of(x, dim)
    sizes = [n for a in axes if isinstance(n := x.type.shape[a], int)]
    n, less = prod(sizes), 1 if correction is None else correction
    d = c.op("sub", x, c.op("reduce_mean", x, axes=axes, keepdims=True))
    if less == 0:
        return c.op("reduce_mean", c.op("mul", d, d), axes=axes, keepdims=keepdim)
    if len(sizes) < len(axes):
        raise c.refuse(f"correction {less} over a symbolic dimension", "fix it with dims={...}, or take correction=0")
    total = c.op("reduce_sum", c.op("mul", d, d), axes=axes, keepdims=keepdim)
    return c.op("div", total, c.b.const(max(n - less, 0), x.type.dtype))


@row("cumsum")
def _cumsum(c: Call, x: Node, dim: int, **_: Any) -> Node:
    assert c.out is not None
    return c.op("cumsum", c.cast(x, c.out.dtype), axis=axis_of(x, dim))


@row("_softmax", "softmax", "_log_softmax", "log_softmax")
def _softmax(c: Call, x: Node, dim: int, *_: Any, **__: Any) -> Node:
    assert c.out is not None
    return c.op(c.name.removeprefix("_"), c.cast(x, c.out.dtype), axes=axes_of(x, dim))


# ---- products and windows
@row("mm", "bmm", "matmul")
def _matmul(c: Call, a: Node, b: Node) -> Node:
    assert c.out is not None
    a2 = c.op("reshape", a, shape=(1, *a.type.shape)) if a.type.rank == 1 else a
    b2 = c.op("reshape", b, shape=(*b.type.shape, 1)) if b.type.rank == 1 else b
    y = c.op("matmul", a2, b2)
    return y if y.type.shape == c.out.shape else c.op("reshape", y, shape=c.out.shape)


@row("addmm", "baddbmm")
def _addmm(c: Call, bias: Node, a: Node, b: Node, beta: float = 1, alpha: float = 1) -> Node:
    y = c.op("matmul", a, b)
    y = y if alpha == 1 else c.op("mul", y, c.b.const(alpha, y.type.dtype))
    if beta == 0:  # the bias is not read: it may be anything
        return y
    bias = bias if beta == 1 else c.op("mul", bias, c.b.const(beta, y.type.dtype))
    return c.op("add", y, bias)


@row("linear")
def _linear(c: Call, x: Node, w: Node, bias: Node | None = None) -> Node:
    y = c.op("matmul", x, c.op("transpose", w, perm=(1, 0)))
    return y if bias is None else c.op("add", y, bias)


@row("scaled_dot_product_attention")
def _attention(c: Call, q: Node, k: Node, v: Node, mask: Node | None = None, dropout: float = 0.0, is_causal: bool = False,
               scale: float | None = None, enable_gqa: bool = False) -> Node:  # fmt: skip
    if dropout:
        raise c.refuse(f"drops out {dropout} of the weights", "export the model in eval mode")
    d = q.type.dtype
    if enable_gqa and k.type.shape[-3] != q.type.shape[-3]:
        k, v = (_repeated(c, x, q) for x in (k, v))
    rank = k.type.rank
    s = c.op("matmul", q, c.op("transpose", k, perm=(*range(rank - 2), rank - 1, rank - 2)))
    s = c.op("mul", s, c.b.const(scale if scale is not None else float(q.type.shape[-1]) ** -0.5, d))  # type: ignore[arg-type]
    if is_causal:
        i, j = (c.op("iota", shape=s.type.shape[-2:], axis=n, dtype=I64.name) for n in (0, 1))
        s = c.op("where", c.op("ge", i, j), s, c.b.const(float("-inf"), d))
    if mask is not None:
        s = c.op("where", mask, s, c.b.const(float("-inf"), d)) if mask.type.dtype == BOOL else c.op("add", s, c.cast(mask, d))
    return c.op("matmul", c.op("softmax", s, axes=(s.type.rank - 1,)), v)


def _repeated(c: Call, x: Node, q: Node) -> Node:
    """Each head of x as often as q has heads for it."""
    *batch, heads, n, e = x.type.shape
    times = int(q.type.shape[-3]) // int(heads)  # type: ignore[arg-type]
    x = c.op("broadcast", c.op("reshape", x, shape=(*batch, heads, 1, n, e)), shape=(*batch, heads, times, n, e))
    return c.op("reshape", x, shape=(*batch, int(heads) * times, n, e))  # type: ignore[arg-type]


@row("convolution", "conv1d", "conv2d", "conv3d")
def _conv(c: Call, x: Node, w: Node, bias: Node | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, *rest: Any) -> Node:
    n = x.type.rank - 2
    wide = lambda v: _window(x, v)[0]
    if isinstance(padding, str):
        raise c.refuse(f"pads by '{padding}'")
    transposed = c.name == "convolution" and bool(rest[0])
    if transposed:
        raise c.refuse("is transposed")
    groups = rest[2] if c.name == "convolution" else (rest[0] if rest else 1)
    y = c.op("conv", x, w, strides=wide(stride), lo=wide(padding), hi=wide(padding), dilations=wide(dilation), groups=groups)
    return y if bias is None else c.op("add", y, c.op("reshape", bias, shape=(*bias.type.shape, *[1] * n)))


@row("_native_batch_norm_legit_no_training", "batch_norm")
def _batch_norm(c: Call, x: Node, w: Node | None, b: Node | None, mean: Node, var: Node, *rest: Any) -> Any:
    if c.name == "batch_norm" and rest[0]:
        raise c.refuse("is training", "export the model in eval mode")
    eps = rest[-1] if c.name != "batch_norm" else rest[2]
    shape = (x.type.shape[1],)
    one = lambda v, fill: c.op("broadcast", c.b.const(fill, mean.type.dtype), shape=shape) if v is None else v
    y = c.op("batch_norm", x, one(w, 1), one(b, 0), mean, var, eps=eps)
    return y if c.name == "batch_norm" else (y, None, None)


@row("native_layer_norm", "layer_norm")
def _layer_norm(c: Call, x: Node, shape: list[int], w: Node | None = None, b: Node | None = None, eps: float = 1e-5, *_: Any) -> Any:
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    own = x.type.shape[x.type.rank - len(shape) :]
    one = lambda v, fill: c.op("broadcast", c.b.const(fill, x.type.dtype), shape=own) if v is None else v
    y = c.op("layer_norm", x, one(w, 1), one(b, 0), axes=axes, eps=eps)
    return y if c.name == "layer_norm" else (y, None, None)


@row("rms_norm")
def _rms_norm(c: Call, x: Node, shape: list[int], w: Node | None = None, eps: float | None = None) -> Node:
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    w = c.op("broadcast", c.b.const(1, x.type.dtype), shape=x.type.shape[axes[0] :]) if w is None else w
    return c.op("rms_norm", x, w, axes=axes, eps=1.1920929e-07 if eps is None else eps)


def _window(x: Node, *values: Any) -> list[tuple[int, ...]]:
    """Each value once a spatial dimension."""
    n = x.type.rank - 2
    lists = [list(v) if isinstance(v, (list, tuple)) else [v] for v in values]
    return [tuple(v * n if len(v) == 1 else v) for v in lists]


@row("max_pool2d_with_indices", "max_pool2d", "max_pool1d")
def _max_pool(c: Call, x: Node, kernel: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Any:
    if ceil_mode:
        raise c.refuse("rounds its size up")
    k, s, p, d = _window(x, kernel, stride or kernel, padding, dilation)
    y = c.op("maxpool", x, window=k, strides=s, lo=p, hi=p, dilations=d)
    return (y, None) if c.name.endswith("indices") else y


@row("avg_pool2d", "avg_pool1d")
def _avg_pool(c: Call, x: Node, kernel: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False, include: bool = True,
              divisor: Any = None) -> Node:  # fmt: skip
    if ceil_mode or divisor is not None:
        raise c.refuse("rounds its size up or has a divisor of its own")
    k, s, p = _window(x, kernel, stride or kernel, padding)
    return c.op("avgpool", x, window=k, strides=s, lo=p, hi=p, dilations=(1,) * len(k), count_include_pad=include)


@row("_adaptive_avg_pool2d", "adaptive_avg_pool2d")
def _adaptive(c: Call, x: Node, size: Any) -> Node:
    n = x.type.rank
    sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,) * 2
    if sizes == (1, 1):
        return c.op("reduce_mean", x, axes=(n - 2, n - 1), keepdims=True)
    shape = [int(d) for d in x.type.shape[-2:]]  # type: ignore[arg-type]
    if any(a % b for a, b in zip(shape, sizes)):
        raise c.refuse(f"pools {shape} to {list(sizes)} with windows of several sizes")
    k = tuple(a // b for a, b in zip(shape, sizes))
    return c.op("avgpool", x, window=k, strides=k, lo=(0, 0), hi=(0, 0), dilations=(1, 1))


# ---- data dependent
@row("embedding")
def _embedding(c: Call, table: Node, index: Node, *_: Any) -> Node:
    return c.op("gather", table, index, axis=0)


@row("index_select")
def _index_select(c: Call, x: Node, dim: int, index: Node) -> Node:
    return c.op("gather", x, index, axis=axis_of(x, dim))


@row("gather")
def _gather(c: Call, x: Node, dim: int, index: Node, **_: Any) -> Node:
    return c.op("gather_elements", x, index, axis=axis_of(x, dim))


@row("topk")
def _topk(c: Call, x: Node, k: int, dim: int = -1, largest: bool = True, *_: Any) -> tuple[Node, Node]:
    part = lambda p: c.op("topk", x, k=k, axis=axis_of(x, dim), largest=largest, part=p)
    return part("values"), part("indices")
