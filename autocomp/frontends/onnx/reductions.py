"""Reductions and what is a reduction and maps: softmax, hardmax, arg-max, Lp norms."""

from __future__ import annotations

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import LOWERINGS, lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import BOOL, F32, F64, I64, U8


def reduced_axes(c: Call) -> tuple[int, ...] | None:
    """The axes of a Reduce operator; None where it reduces nothing."""
    x = c.x()
    given = c.ints_at("axes", 1)
    if not given:
        return None if c.flag("noop_with_empty_axes", 0) else tuple(range(x.type.rank))
    return tuple(sorted(c.axes(given, x.type.rank)))


def _reduce(op: str, before: str = "", after: str = ""):
    """A Reduce operator: a map of each element, the fold, a map of the result."""

    def lowering(c: Call) -> Node:
        x = c.x()
        dtype = x.type.dtype
        axes = reduced_axes(c)
        if dtype == BOOL:
            op_here = {"reduce_max": "reduce_any", "reduce_min": "reduce_all"}[op]
        else:
            op_here = op
        if before == "abs" and dtype.kind != "u":
            x = c.op("abs", x)
        elif before == "square":
            x = c.op("mul", x, x)
        if axes is not None:
            x = c.op(op_here, x, axes=axes, keepdims=c.flag("keepdims", 1))
        if after:
            wide = dtype if dtype.is_float else F64
            x = cast(c, c.op(after, cast(c, x, wide)), dtype)
        return x

    return lowering


LOWERINGS["", "ReduceSum"] = _reduce("reduce_sum")
LOWERINGS["", "ReduceProd"] = _reduce("reduce_prod")
LOWERINGS["", "ReduceMax"] = _reduce("reduce_max")
LOWERINGS["", "ReduceMin"] = _reduce("reduce_min")
LOWERINGS["", "ReduceL1"] = _reduce("reduce_sum", "abs")
LOWERINGS["", "ReduceSumSquare"] = _reduce("reduce_sum", "square")
LOWERINGS["", "ReduceL2"] = _reduce("reduce_sum", "square", "sqrt")
LOWERINGS["", "ReduceLogSum"] = _reduce("reduce_sum", "", "log")


@lower("ReduceMean")
def reduce_mean(c: Call) -> Node:
    x, axes = c.x(), reduced_axes(c)
    if axes is None:
        return x
    if x.type.dtype.is_float:
        return c.op("reduce_mean", x, axes=axes, keepdims=c.flag("keepdims", 1))
    count = 1
    for k in axes:
        count *= c.shape(x)[k]
    return c.op("idiv", c.op("reduce_sum", x, axes=axes, keepdims=c.flag("keepdims", 1)), count)


@lower("ReduceLogSumExp")
def reduce_log_sum_exp(c: Call) -> Node:
    x, axes = c.x(), reduced_axes(c)
    dtype = x.type.dtype
    if axes is None:
        return x
    x = cast(c, x, dtype if dtype.is_float else F64)
    top = c.op("reduce_max", x, axes=axes, keepdims=True)
    top = c.op("where", c.op("isinf", top), 0.0, top) if top.type.dtype.is_float else top
    total = c.op("reduce_sum", c.op("exp", c.op("sub", x, top)), axes=axes, keepdims=True)
    y = c.op("add", c.op("log", total), top)
    if not c.flag("keepdims", 1):
        y = reshape(c, y, tuple(d for k, d in enumerate(y.type.shape) if k not in axes))
    return cast(c, y, dtype)


def _arg(op: str):
    def lowering(c: Call) -> Node:
        x = c.x()
        axis, keep = c.axis(c.int_attr("axis", 0), x.type.rank), c.flag("keepdims", 1)
        if not c.flag("select_last_index", 0):
            return c.op(op, x, axes=(axis,), keepdims=keep)
        d = c.shape(x)[axis]
        back = cut(c, x, {axis: (d - 1, -1, -1)})
        return c.op("sub", c.const(d - 1, I64), c.op(op, back, axes=(axis,), keepdims=keep))

    return lowering


LOWERINGS["", "ArgMax"] = _arg("reduce_argmax")
LOWERINGS["", "ArgMin"] = _arg("reduce_argmin")


def _start(c: Call, x: Node) -> int:
    """Where the trailing block of an old softmax starts: 0 to rank, negative ones count from the end."""
    axis = c.int_attr("axis", 1)
    return axis if axis == x.type.rank else c.axis(axis, x.type.rank)


def _softmax(c: Call, op: str) -> Node:
    """From opset 13 along one axis; before, over the trailing block that starts at `axis` (all its dimensions at once)."""
    x = c.x()
    if c.opset >= 13:
        axes: tuple[int, ...] = (c.axis(c.int_attr("axis", -1), x.type.rank),)
    else:
        axes = tuple(range(_start(c, x), x.type.rank))
    if c.importer.round_steps and x.type.dtype.bits < 32:
        return _stepwise_softmax(c, x, axes, log=op == "log_softmax")
    return c.op(op, x, axes=axes)


def _stepwise_softmax(c: Call, x: Node, axes: tuple[int, ...], log: bool) -> Node:
    """The standard's function body: ReduceMax, Sub, Exp, ReduceSum, Div, each rounded to the tensor's own type."""
    z = c.op("sub", x, c.op("reduce_max", x, axes=axes, keepdims=True))
    e = c.op("exp", z)
    total = c.op("reduce_sum", e, axes=axes, keepdims=True)
    return c.op("sub", z, c.op("log", total)) if log else c.op("div", e, total)


LOWERINGS["", "Softmax"] = lambda c: _softmax(c, "softmax")
LOWERINGS["", "LogSoftmax"] = lambda c: _softmax(c, "log_softmax")


@lower("Hardmax")
def hardmax(c: Call) -> Node:
    x = c.x()
    if c.opset >= 13:
        axis = c.axis(c.int_attr("axis", -1), x.type.rank)
        return _one_hot_max(c, x, axis)
    axis, shape, rows = _start(c, x), c.shape(x), 1
    for d in shape[:axis]:
        rows *= d
    flat = reshape(c, x, (rows, x.type.elements // max(rows, 1)))
    return reshape(c, _one_hot_max(c, flat, 1), shape)


def _one_hot_max(c: Call, x: Node, axis: int) -> Node:
    best = c.op("reduce_argmax", x, axes=(axis,), keepdims=True)
    place = c.importer.node("iota", [], {"shape": c.shape(x), "axis": axis})
    return cast(c, c.op("eq", place, best), x.type.dtype)


@lower("LpNormalization")
def lp_normalization(c: Call) -> Node:
    x = c.x()
    axis, p = c.axis(c.int_attr("axis", -1), x.type.rank), c.int_attr("p", 2)
    if p == 1:
        norm = c.op("reduce_sum", c.op("abs", x), axes=(axis,), keepdims=True)
    elif p == 2:
        norm = c.op("sqrt", c.op("reduce_sum", c.op("mul", x, x), axes=(axis,), keepdims=True))
    else:
        c.broken(f"p is {p}; 1 and 2 are allowed")
    return c.op("where", c.op("eq", norm, 0.0), 0.0, c.op("div", x, c.op("where", c.op("eq", norm, 0.0), 1.0, norm)))


@lower("TopK")
def topk(c: Call) -> tuple[Node, Node]:
    x = c.x()
    k = c.static_int(1) if c.opset >= 10 else c.int_attr("k")
    attrs = {"k": k, "axis": c.axis(c.int_attr("axis", -1), x.type.rank), "largest": c.flag("largest", 1)}
    return c.op("topk", x, **attrs, part="values"), c.op("topk", x, **attrs, part="indices")


@lower("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: Call) -> tuple[Node, Node, Node]:
    x = c.x()
    axes = tuple(range(x.type.rank))
    high = c.op("max", c.op("reduce_max", x, axes=axes), 0.0)
    low = c.op("min", c.op("reduce_min", x, axes=axes), 0.0)
    scale = c.op("div", c.op("sub", high, low), 255.0)
    bound = lambda v: c.op("min", c.op("max", v, 0.0), 255.0)
    zero = c.op("round", bound(c.op("div", c.op("neg", low), scale)))
    y = bound(c.op("add", c.op("round", c.op("div", x, scale)), zero))
    return cast(c, y, U8), cast(c, scale, F32), cast(c, zero, U8)
