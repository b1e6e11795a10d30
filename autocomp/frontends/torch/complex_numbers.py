"""ATen operators on complex numbers, which are pairs of real tensors here: a value of torch's graph, none of ours.

What moves elements alone is done to either part by its own row; inputs and results of a program are real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.frontends.torch.call import TABLE, Call
from autocomp.ir.node import Node
from autocomp.ir.types import DType, TensorType

REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
"""The type of each part."""


@dataclass(frozen=True)
class Pair:
    """re + i im; parts of one type."""

    re: Node
    im: Node

    @property
    def type(self) -> TensorType:
        """The type of a part."""
        return self.re.type


COMPLEX: dict[str, Callable[..., Any]] = {}


def complex_row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function for what takes or gives complex numbers under these names."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        COMPLEX.update(dict.fromkeys(names, f))
        return f

    return add


def holds_pair(x: Any) -> bool:
    """Whether an argument is complex, or has something complex in it."""
    return isinstance(x, (Pair, complex)) or (isinstance(x, (list, tuple)) and any(map(holds_pair, x)))


def lowered(c: Call, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The value of a node that takes or gives complex numbers. Raises UnsupportedOp for operators without a row for them."""
    if (f := COMPLEX.get(c.name) or COMPLEX.get(c.name.removesuffix("_copy"))) is None:
        raise UnsupportedOp(f"ATen operator '{c.name}' on complex numbers", where=c.where, hint="write it with real and imaginary parts")
    return f(c, *args, **kwargs)


def parts(c: Call, x: Any) -> tuple[Any, Any]:
    """Either part of a tensor or a number."""
    if isinstance(x, Pair):
        return x.re, x.im
    if isinstance(x, (list, tuple)):
        both = [parts(c, v) for v in x]
        return [a for a, _ in both], [b for _, b in both]
    if isinstance(x, Node):
        return x, c.op("broadcast", c.b.const(0, x.type.dtype), shape=x.type.shape)
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0)


def of_type(c: Call, x: Any, d: DType) -> Pair:
    """A tensor or a number as a pair of parts of this type."""
    re, im = (c.value(v, d) for v in parts(c, x))
    return Pair(re, im)


def _type(c: Call, *xs: Any) -> DType:
    """The parts' type of what operands make together."""
    if c.out is not None:
        return c.out.dtype
    return next(x.type.dtype for x in xs if isinstance(x, Pair))


# ---- made of real numbers, and the way back
@complex_row("complex")
def _complex(c: Call, re: Node, im: Node) -> Pair:
    return Pair(c.shaped(re), c.shaped(im))


@complex_row("polar")
def _polar(c: Call, size: Node, angle: Node) -> Pair:
    return Pair(c.op("mul", size, c.op("cos", angle)), c.op("mul", size, c.op("sin", angle)))


def apart(b: Any, x: Node) -> Pair:
    """The two parts that lie along the last dimension of a tensor."""
    lead = x.type.shape[:-1]
    part = lambda k: b.op("slice", x, starts=(*[0] * len(lead), k), limits=(*lead, k + 1), steps=(1,) * x.type.rank)
    return Pair(*(b.op("reshape", part(k), shape=lead) for k in (0, 1)))


def beside(b: Any, x: Pair) -> Node:
    """The parts along one more dimension, the last: as complex numbers lie in memory."""
    shape = (*x.type.shape, 1)
    return b.op("concat", *(b.op("reshape", v, shape=shape) for v in (x.re, x.im)), axis=len(shape) - 1)  # type: ignore[no-any-return]


@complex_row("view_as_complex")
def _from_last(c: Call, x: Node) -> Pair:
    """Its last dimension has the two parts."""
    return apart(c.b, x)


@complex_row("view_as_real")
def _to_last(c: Call, x: Pair) -> Node:
    return beside(c.b, x)


@complex_row("real")
def _real(c: Call, x: Pair) -> Node:
    return x.re


@complex_row("imag")
def _imag(c: Call, x: Pair) -> Node:
    return x.im


@complex_row("abs")
def _abs(c: Call, x: Pair) -> Node:
    return TABLE["hypot"](c, x.re, x.im)  # type: ignore[no-any-return]


@complex_row("angle")
def _angle(c: Call, x: Pair) -> Node:
    return TABLE["atan2"](c, x.im, x.re)  # type: ignore[no-any-return]


@complex_row("_to_copy", "to")
def _cast(c: Call, x: Any, *_: Any, **__: Any) -> Pair:
    assert c.out is not None
    return of_type(c, x, c.out.dtype)


# ---- arithmetic
@complex_row("conj", "_conj", "conj_physical", "_conj_physical")
def _conjugate(c: Call, x: Any) -> Pair:
    x = of_type(c, x, _type(c, x))  # a number of Python in a way back
    return Pair(x.re, c.op("neg", x.im))


@complex_row("add", "sub")
def _sum(c: Call, x: Any, y: Any, alpha: Any = 1) -> Pair:
    d = _type(c, x, y)
    a, b = of_type(c, x, d), of_type(c, _times(c, alpha, y, d) if alpha != 1 else y, d)
    return Pair(c.op(c.name, a.re, b.re), c.op(c.name, a.im, b.im))


def _times(c: Call, x: Any, y: Any, d: DType, by: str = "mul") -> Pair:
    """A real factor times, or below, what may be complex; or the product of two pairs."""
    for a, b in ((x, y), (y, x)):
        if not holds_pair(a):
            f, v = c.value(a, d), of_type(c, b, d)
            return Pair(c.op(by, v.re, f), c.op(by, v.im, f))
    a, b = of_type(c, x, d), of_type(c, y, d)
    return _product(c, a, b, lambda u, v: c.op("mul", u, v))


def _product(c: Call, a: Pair, b: Pair, mul: Callable[[Node, Node], Node]) -> Pair:
    re = c.op("sub", mul(a.re, b.re), mul(a.im, b.im))
    return Pair(re, c.op("add", mul(a.re, b.im), mul(a.im, b.re)))


@complex_row("mul")
def _mul(c: Call, x: Any, y: Any) -> Pair:
    return _times(c, x, y, _type(c, x, y))


@complex_row("linalg_cross")
def _cross(c: Call, x: Any, y: Any, *, dim: int = -1) -> Pair:
    d = _type(c, x, y)
    (a, b), (e, f) = ((z.re, z.im) for z in (of_type(c, x, d), of_type(c, y, d)))
    cross = lambda p, q: TABLE["linalg_cross"](c, p, q, dim=dim)
    return Pair(c.op("sub", cross(a, e), cross(b, f)), c.op("add", cross(a, f), cross(b, e)))


@complex_row("div")
def _div(c: Call, x: Any, y: Any) -> Pair:
    """By the divisor's conjugate over its square, with the larger of its parts taken out of both."""
    d = _type(c, x, y)
    if not holds_pair(y):
        return _times(c, x, y, d, "div")
    b = of_type(c, y, d)
    largest = c.op("max", c.op("abs", b.re), c.op("abs", b.im))
    b = _times(c, b, largest, d, "div")
    square = c.op("add", c.op("mul", b.re, b.re), c.op("mul", b.im, b.im))
    y = _times(c, of_type(c, x, d), Pair(b.re, c.op("neg", b.im)), d)
    return _times(c, _times(c, y, square, d, "div"), largest, d, "div")


@complex_row("reciprocal")
def _reciprocal(c: Call, x: Pair) -> Pair:
    return _div(c, 1, x)


@complex_row("exp")
def _exp(c: Call, x: Pair) -> Pair:
    return _polar(c, c.op("exp", x.re), x.im)


@complex_row("log")
def _log(c: Call, x: Pair) -> Pair:
    return Pair(c.op("log", _abs(c, x)), _angle(c, x))


@complex_row("sqrt")
def _sqrt(c: Call, x: Pair) -> Pair:
    """The root with a real part that is not negative, and the sign of the imaginary part: of the larger part first, from which the other
    follows without a difference of what is nearly equal."""
    number = lambda v: c.b.const(v, x.type.dtype)
    half = c.op("sqrt", c.op("mul", c.op("add", c.op("abs", x.re), _abs(c, x)), number(0.5)))
    safe = c.op("where", c.op("eq", half, number(0)), number(1), half)
    other = c.op("div", c.op("mul", c.op("abs", x.im), number(0.5)), safe)
    left = c.op("lt", x.re, number(0))
    im = c.op("where", left, half, other)
    return Pair(c.op("where", left, other, half), TABLE["copysign"](c, im, x.im))


@complex_row("pow")
def _pow(c: Call, x: Any, y: Any) -> Pair:
    """Small whole powers as products, others as exp(y log x). Raises UnsupportedOp on a base or exponents of another kind."""
    if not isinstance(x, Pair) or holds_pair(y) or not isinstance(y, (int, float)):
        raise c.refuse("of other than complex numbers and a real number", "write it as torch.exp(y * torch.log(x))")
    if y != int(y) or not 0 < abs(y) <= 16:
        if not y > 0:
            raise c.refuse(f"with the exponent {y}", "write it as a quotient")
        zero = c.op("eq", _abs(c, x), c.b.const(0, x.type.dtype))
        z = _exp(c, _times(c, _log(c, x), y, x.type.dtype))
        return Pair(*(c.op("where", zero, c.b.const(0, x.type.dtype), v) for v in (z.re, z.im)))
    power, base, rest = None, x, abs(int(y))
    while rest:
        if rest % 2:
            power = base if power is None else _times(c, power, base, x.type.dtype)
        base, rest = (_times(c, base, base, x.type.dtype) if rest > 1 else base), rest // 2
    assert power is not None
    return power if y > 0 else _reciprocal(c, power)


@complex_row("sin", "cos")
def _sine(c: Call, x: Pair) -> Pair:
    """sin(a + ib) = sin a cosh b + i cos a sinh b; cos(a + ib) = cos a cosh b - i sin a sinh b."""
    sin, cos = c.op("sin", x.re), c.op("cos", x.re)
    cosh, sinh = TABLE["cosh"](c, x.im), TABLE["sinh"](c, x.im)
    if c.name == "sin":
        return Pair(c.op("mul", sin, cosh), c.op("mul", cos, sinh))
    return Pair(c.op("mul", cos, cosh), c.op("neg", c.op("mul", sin, sinh)))


@complex_row("mm", "bmm", "matmul", "mv", "dot")
def _matmul(c: Call, x: Pair, y: Pair) -> Pair:
    return _product(c, x, y, lambda u, v: TABLE[c.name](c, u, v))


@complex_row("full", "full_like", "new_full", "scalar_tensor")
def _full(c: Call, *args: Any, **_: Any) -> Pair:
    assert c.out is not None
    shape = c.out.shape
    return Pair(*(c.op("broadcast", c.b.const(v, c.out.dtype), shape=shape) for v in parts(c, complex(args[-1]))))


@complex_row("eq", "ne")
def _equal(c: Call, x: Any, y: Any) -> Node:
    d = next(v.type.dtype for v in (x, y) if isinstance(v, Pair))
    a, b = of_type(c, x, d), of_type(c, y, d)
    return c.op("and" if c.name == "eq" else "or", c.op(c.name, a.re, b.re), c.op(c.name, a.im, b.im))


# ---- what moves elements, or is a sum of them: done to either part
VALUES = {"where": (1, 2), "cat": (0,), "stack": (0,), "slice_scatter": (0, 1), "select_scatter": (0, 1), "diagonal_scatter": (0, 1),
          "copy": (0, 1), "index_put": (0, 2), "_unsafe_index_put": (0, 2), "scatter": (0, 3), "scatter_add": (0, 3), "index_copy": (0, 3),
          "index_add": (0, 3), "masked_fill": (0, 2), "fill": (0, 1), "constant_pad_nd": (0, 2), "pad": (0, 3)}  # fmt: skip
"""Which arguments hold elements, where it is not the first alone."""
MOVED = (*VALUES, "view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "flatten", "unflatten", "expand", "flip", "roll", "repeat",
         "permute", "transpose", "t", "slice", "diagonal", "select", "split_with_sizes", "split", "chunk", "unbind", "tril", "triu",
         "unfold", "index_select", "gather", "index", "clone", "detach", "contiguous", "alias", "lift_fresh_copy", "neg", "sum", "mean",
         "cumsum", "resolve_conj", "resolve_neg")  # fmt: skip


@complex_row("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty", "empty_like", "empty_strided", "new_empty",
             "new_empty_strided")
def _made(c: Call, *_: Any, **__: Any) -> Pair:
    return _full(c, 1 if "ones" in c.name else 0)


@complex_row(*MOVED)
def _either(c: Call, *args: Any, **kwargs: Any) -> Any:
    """A row of real tensors, once for each part."""
    lower = TABLE.get(c.name) or TABLE.get(c.name.removesuffix("_copy")) or (lambda _, x: x)
    at = VALUES.get(c.name, (0,))
    made = []
    for k in (0, 1):
        given = [parts(c, a)[k] if j in at else a for j, a in enumerate(args)]
        given = [c.cast(a, c.out.dtype) if j in at and isinstance(a, Node) and c.out is not None else a for j, a in enumerate(given)]
        made.append(lower(c, *given, **kwargs))
    re, im = made
    if isinstance(re, (tuple, list)):
        return tuple(Pair(a, b) for a, b in zip(re, im, strict=True))
    return Pair(re, im)

