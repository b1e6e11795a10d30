"""Optimiser steps of ai.onnx.preview.training: element-wise on each parameter, its gradient and its running averages."""

from __future__ import annotations

from collections.abc import Sequence

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.ir.node import Node

DOMAIN = "ai.onnx.preview.training"


def _groups(c: Call, states: int) -> list[tuple[Node, ...]]:
    """(parameter, regularised gradient, states...) of each parameter; the operands after R and T list each kind in turn."""
    rest = c.tensors()[2:]
    n = len(rest) // (2 + states)
    if n * (2 + states) != len(rest) or not n:
        c.broken(f"has {len(rest)} tensors; each parameter needs {2 + states}")
    norm = c.float_attr("norm_coefficient", 0.0)
    out = []
    for k in range(n):
        x, g, *more = rest[k::n]
        out.append((x, g if norm == 0.0 else c.op("add", c.op("mul", x, norm), g), *more))
    return out


def _ordered(steps: Sequence[tuple[Node, ...]]) -> tuple[Node, ...]:
    """All new parameters, then all first states, ..."""
    return tuple(v for kind in zip(*steps, strict=True) for v in kind)


@lower("Momentum", domain=DOMAIN)
def momentum(c: Call) -> tuple[Node, ...]:
    rate, t, mode = c.x(0), c.x(1), c.str_attr("mode")
    alpha, beta = c.float_attr("alpha"), c.float_attr("beta")
    if mode not in ("standard", "nesterov"):
        c.broken(f"has unknown mode '{mode}'")
    steps = []
    for x, g, v in _groups(c, 1):
        weight = c.op("where", c.op("gt", t, 0), c.const(beta, x.type.dtype), c.const(1.0, x.type.dtype))
        new = c.op("add", c.op("mul", v, alpha), c.op("mul", g, weight))
        move = new if mode == "standard" else c.op("add", g, c.op("mul", new, alpha))
        steps.append((c.op("sub", x, c.op("mul", move, cast(c, rate, x.type.dtype))), new))
    return _ordered(steps)


@lower("Adagrad", domain=DOMAIN)
def adagrad(c: Call) -> tuple[Node, ...]:
    steps = []
    for x, g, h in _groups(c, 1):
        rate, t = (cast(c, c.x(k), x.type.dtype) for k in (0, 1))
        rate = c.op("div", rate, c.op("add", c.op("mul", t, c.float_attr("decay_factor", 0.0)), 1.0))
        new = c.op("add", h, c.op("mul", g, g))
        scale = c.op("add", c.op("sqrt", new), c.float_attr("epsilon", 1e-6))
        steps.append((c.op("sub", x, c.op("div", c.op("mul", g, rate), scale)), new))
    return _ordered(steps)


@lower("Adam", domain=DOMAIN)
def adam(c: Call) -> tuple[Node, ...]:
    alpha, beta = c.float_attr("alpha", 0.9), c.float_attr("beta", 0.999)
    steps = []
    for x, g, v, h in _groups(c, 2):
        dtype = x.type.dtype
        rate, t = (cast(c, c.x(k), dtype) for k in (0, 1))
        first, second = (c.op("sub", c.const(1.0, dtype), c.op("pow", c.const(base, dtype), t)) for base in (alpha, beta))
        corrected = c.op("div", c.op("mul", rate, c.op("sqrt", second)), first)
        rate = c.op("where", c.op("gt", t, 0.0), corrected, rate)
        mean = c.op("add", c.op("mul", v, alpha), c.op("mul", g, 1.0 - alpha))
        square = c.op("add", c.op("mul", h, beta), c.op("mul", c.op("mul", g, g), 1.0 - beta))
        scale = c.op("add", c.op("sqrt", square), c.float_attr("epsilon", 1e-6))
        new = c.op("sub", x, c.op("div", c.op("mul", mean, rate), scale))
        post = c.float_attr("norm_coefficient_post", 0.0)
        steps.append((new if post == 0.0 else c.op("mul", new, 1.0 - post), mean, square))
    return _ordered(steps)
