"""ATen's operators over lists of tensors, which optimisers are written with: each is its operator on every tensor of the list."""

from __future__ import annotations

from typing import Any

from autocomp.frontends.torch import pointwise, reductions, special  # noqa: F401  (their rows stand in TABLE)
from autocomp.frontends.torch.call import TABLE, Call, Lowering
from autocomp.ir.node import Node

OF_ONE = ("abs", "acos", "add", "asin", "atan", "ceil", "copy", "cos", "cosh", "div", "erf", "erfc", "exp", "expm1", "floor", "log",
          "log10", "log1p", "log2", "max", "maximum", "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign",
          "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc")  # fmt: skip
BY_OTHER_NAMES = {"norm": "linalg_vector_norm", "clamp_min": "maximum", "clamp_max": "minimum"}


def _beside(by: str) -> Lowering:
    """x + value * a (times or over) b."""

    def lower(c: Call, x: Node, a: Node, b: Node, value: Any = 1) -> Node:
        return c.op("add", x, c.op(by, c.op("mul", c.value(value, x.type.dtype), a), b))

    return lower


def _lerp(c: Call, x: Node, y: Node, weight: Any) -> Node:
    """From x to y, as torch has it from the nearer one."""
    w, apart = c.value(weight, x.type.dtype), c.op("sub", y, x)
    one = c.b.const(1, x.type.dtype)
    from_x = c.op("add", x, c.op("mul", w, apart))
    from_y = c.op("sub", y, c.op("mul", apart, c.op("sub", one, w)))
    return c.op("where", c.op("lt", c.op("abs", w), c.b.const(0.5, x.type.dtype)), from_x, from_y)


JOINED: dict[str, Lowering] = {"addcmul": _beside("mul"), "addcdiv": _beside("div"), "lerp": _lerp}


def _of_each(name: str, row: Lowering) -> Lowering:
    def lower(c: Call, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The k-th of every list, and what is no list, for the k-th result."""
        one = lambda a, k: a[k] if isinstance(a, list) else a
        return tuple(row(Call(c.b, name, t, c.where), *(one(a, k) for a in args), **{n: one(v, k) for n, v in kwargs.items()})
                     for k, t in enumerate(c.outs))  # fmt: skip

    return lower


TABLE.update({f"_foreach_{n}": _of_each(n, TABLE[n]) for n in OF_ONE})
TABLE.update({f"_foreach_{n}": _of_each(of, TABLE[of]) for n, of in BY_OTHER_NAMES.items()})
TABLE.update({f"_foreach_{n}": _of_each(n, row) for n, row in JOINED.items()})
