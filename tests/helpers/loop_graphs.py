"""A program with two recurrences, and what it gives."""

from __future__ import annotations

import numpy as np

from autocomp.ir.builder import Builder
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Graph
from autocomp.ir.types import F32, I64, TensorType

HIDDEN = 12


def network(trips, batch=3) -> Graph:
    """Two recurrences, one behind the other and back: tanh(x_t + h w + c), c' = 0.5 c + h', and a count of steps."""
    b = Builder("recurrent")
    t = lambda *shape: TensorType(F32, shape)
    x, h = b.input("x", t(trips, batch, HIDDEN)), b.input("h", t(batch, HIDDEN))
    w = b.param("w", (np.random.default_rng(5).standard_normal((HIDDEN, HIDDEN)) * 0.1).astype("f4"))

    def body(carries, slices):
        h, c, n = carries
        state = b.op("add", b.op("matmul", h, b.op("transpose", w, perm=(1, 0))), b.op("mul", c, b.const(0.2, F32)))
        new = b.op("tanh", b.op("add", slices[0], state))
        return [new, b.op("add", b.op("mul", c, b.const(0.5, F32)), new), b.op("add", n, b.const(1, I64))], [new]

    zero = b.op("broadcast", b.const(0.0, F32), shape=(batch, HIDDEN))
    for k in range(2):
        finals, (x,) = loop(b, [h, zero, b.const(0, I64)], [b.op("mul", x, b.const(1.5, F32))], body, trips)
        for name, n in zip("hcn", finals):
            b.output(f"{name}{k}", n)
    b.output("y", x)
    return b.graph()


def feed(trips, batch=3, seed=0):
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((trips, batch, HIDDEN)).astype("f4"), "h": rng.standard_normal((batch, HIDDEN)).astype("f4")}


def by_hand(graph, given):
    w = graph.params["w"].astype("f8")
    x, out = given["x"].astype("f8"), {}
    for k in range(2):
        h, c, ys = given["h"].astype("f8"), np.zeros(given["h"].shape), []
        for x_t in x * 1.5:
            h = np.tanh(x_t + h @ w.T + 0.2 * c)
            c = 0.5 * c + h
            ys.append(h)
        out |= {f"h{k}": h, f"c{k}": c, f"n{k}": np.int64(len(x))}
        x = np.array(ys).reshape(x.shape)
    return {**out, "y": x}


def check(got, want):
    assert got.keys() == want.keys()
    for name, x in want.items():
        np.testing.assert_allclose(got[name], x, rtol=1e-4, atol=2e-5, err_msg=name)

def handed_on(trips: int = 6) -> Graph:
    """A loop of three kernels, the last of which hands its result to the first and a running sum to itself."""
    b = Builder("handed_on")
    h, x = b.input("h", TensorType(F32, (4, 64))), b.input("x", TensorType(F32, (trips, 4, 64)))
    u, v = b.input("u", TensorType(F32, (64, 64))), b.input("v", TensorType(F32, (64, 64)))

    def body(carries, slices):
        low = b.op("tanh", b.op("add", b.op("matmul", carries[0], u), slices[0]))
        new = b.op("softmax", b.op("matmul", low, v), axes=(1,))
        return [new, b.op("add", carries[1], new)], [low]

    finals, stacks = loop(b, [h, h], [x], body, trips)
    for name, n in zip("hty", (*finals, *stacks)):
        b.output(name, n)
    return b.graph()
