"""RNN, GRU and LSTM of torch: in each layer and direction one product for all steps' inputs, then a loop over the steps.

Gates lie side by side along the last dimension: LSTM i f g o, GRU r z n. Inside: x [steps, batch, inputs], state [batch, hidden].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Node
from autocomp.ir.sizes import total
from autocomp.ir.types import Dim

Step = Callable[[Call, "Weights", Node, list[Node]], list[Node]]


@dataclass(frozen=True)
class Weights:
    """Of one direction of a layer, transposed: w [inputs, gates], r [hidden, gates]; biases or None; p: of an LSTM's projection."""

    w: Node
    r: Node
    bias: Node | None
    recurrent_bias: Node | None
    p: Node | None


def _span(c: Call, x: Node, axis: int, first: Dim, last: Dim, step: int = 1) -> Node:
    full = [(first, last, step) if k == axis else (0, d, 1) for k, d in enumerate(x.type.shape)]
    starts, limits, steps = zip(*full, strict=True)
    return c.op("slice", x, starts=starts, limits=limits, steps=steps)


def _backwards(c: Call, x: Node) -> Node:
    return _span(c, x, 0, total([(x.type.shape[0], 1)], -1), -1, -1)


def _gate(c: Call, x: Node, k: int, count: int) -> Node:
    """The k-th of `count` gates."""
    size = x.type.shape[-1]
    assert isinstance(size, int)
    return _span(c, x, x.type.rank - 1, k * size // count, (k + 1) * size // count)


def _place(c: Call, x: Node, k: int) -> Node:
    """x[k]"""
    return c.op("reshape", _span(c, x, 0, k, k + 1), shape=x.type.shape[1:])


def _with(c: Call, x: Node, bias: Node | None) -> Node:
    return x if bias is None else c.op("add", x, bias)


def _rnn(fn: str) -> Step:
    return lambda c, w, x, state: [c.op(fn, c.op("add", x, _with(c, c.op("matmul", state[0], w.r), w.recurrent_bias)))]


def _gru(c: Call, w: Weights, x: Node, state: list[Node]) -> list[Node]:
    of_h = _with(c, c.op("matmul", state[0], w.r), w.recurrent_bias)
    r, z = (c.op("sigmoid", c.op("add", _gate(c, x, k, 3), _gate(c, of_h, k, 3))) for k in range(2))
    n = c.op("tanh", c.op("add", _gate(c, x, 2, 3), c.op("mul", r, _gate(c, of_h, 2, 3))))
    return [c.op("add", c.op("mul", z, c.op("sub", state[0], n)), n)]


def _lstm(c: Call, w: Weights, x: Node, state: list[Node]) -> list[Node]:
    gates = c.op("add", x, _with(c, c.op("matmul", state[0], w.r), w.recurrent_bias))
    i, f, o = (c.op("sigmoid", _gate(c, gates, k, 4)) for k in (0, 1, 3))
    new = c.op("add", c.op("mul", f, state[1]), c.op("mul", i, c.op("tanh", _gate(c, gates, 2, 4))))
    h = c.op("mul", o, c.op("tanh", new))
    return [h if w.p is None else c.op("matmul", h, w.p), new]


def _layers(c: Call, step: Step, x: Node, states: Sequence[Node], params: Sequence[Node], biases: bool, layers: int, dropout: float,
            train: bool, both: bool, batch_first: bool) -> tuple[Node, ...]:  # fmt: skip
    """(h of each step of the last layer, last states). Raises UnsupportedOp where numbers are dropped at random."""
    if not all(isinstance(n, Node) for n in (x, *states, *params)):
        raise c.refuse("over packed sequences", "pad them, and let the module go through all steps")
    if train and dropout and layers > 1:
        raise c.refuse(f"drops {dropout:.0%} of what is between its layers at random", "call module.eval() before the export")
    x = c.op("transpose", x, perm=(1, 0, 2)) if batch_first else x
    directions = 2 if both else 1
    each = len(params) // (layers * directions)
    last: list[list[Node]] = [[] for _ in states]
    for layer in range(layers):
        outs = []
        for d in range(directions):
            k = layer * directions + d
            w = _weights(c, params[k * each : (k + 1) * each], biases, together=step is not _gru)
            given = _backwards(c, x) if d else x
            inputs = _with(c, c.op("matmul", given, w.w), w.bias)

            def body(carries: list[Node], slices: list[Node], w: Weights = w) -> tuple[list[Node], list[Node]]:
                new = step(c, w, slices[0], carries)
                return new, new[:1]

            ends, (y,) = loop(c.b, [_place(c, s, k) for s in states], [inputs], body, x.type.shape[0])
            outs.append(_backwards(c, y) if d else y)
            for into, n in zip(last, ends, strict=True):
                into.append(c.op("reshape", n, shape=(1, *n.type.shape)))
        x = c.op("concat", *outs, axis=2) if both else outs[0]
    y = c.op("transpose", x, perm=(1, 0, 2)) if batch_first else x
    return (y, *(c.op("concat", *n, axis=0) if len(n) > 1 else n[0] for n in last))


def _weights(c: Call, params: Sequence[Node], biases: bool, together: bool) -> Weights:
    """`together`: both biases are added to all steps' inputs at once."""
    w, r, *rest = params
    first, second = (rest.pop(0), rest.pop(0)) if biases else (None, None)
    if together and first is not None and second is not None:
        first, second = c.op("add", first, second), None
    turned = lambda n: c.op("transpose", n, perm=(1, 0))
    return Weights(turned(w), turned(r), first, second, turned(rest[0]) if rest else None)


@row("lstm")
def lstm(c: Call, x: Node, hx: list[Node], params: Any, *how: Any) -> tuple[Node, ...]:
    if not isinstance(hx, list) or not isinstance(params, list):
        raise c.refuse("over packed sequences", "pad them, and let the module go through all steps")
    return _layers(c, _lstm, x, hx, params, *how)


@row("gru", "rnn_tanh", "rnn_relu")
def gru(c: Call, x: Node, hx: Node, params: Any, *how: Any) -> tuple[Node, ...]:
    if not isinstance(params, list):
        raise c.refuse("over packed sequences", "pad them, and let the module go through all steps")
    return _layers(c, _gru if c.name == "gru" else _rnn(c.name.removeprefix("rnn_")), x, [hx], params, *how)


@row("mkldnn_rnn_layer")
def one_layer(c: Call, x: Node, w: Node, r: Node, bias: Node, recurrent_bias: Node, h: Node, state: Node, reverse: bool, batch_sizes: Any,
              mode: int, hidden: int, layers: int, biases: bool, both: bool, batch_first: bool,
              train: bool) -> tuple[Node | None, ...]:  # fmt: skip
    """One layer and direction of an LSTM, which torch's decomposition for CPUs makes: (h of each step, last h, last c, a workspace)."""
    if mode != 2 or layers != 1 or both or batch_first or batch_sizes:
        raise c.refuse("other than one layer and direction of an LSTM", "export the module with autocomp.optimize(module, ..)")
    params = [w, r, bias, recurrent_bias] if biases else [w, r]
    given = _backwards(c, x) if reverse else x
    y, *last = _layers(c, _lstm, given, [h, state], params, biases, 1, 0.0, False, False, False)
    return (_backwards(c, y) if reverse else y, *last, None)
