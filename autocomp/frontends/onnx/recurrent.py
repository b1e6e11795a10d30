"""RNN, GRU and LSTM: one product for all steps' inputs, then a loop over the steps.

Gates lie side by side along the last dimension: RNN one, GRU z r h, LSTM i o f c. Shapes inside: x [steps, batch, inputs],
state [batch, hidden].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.loops import backwards, looped
from autocomp.frontends.onnx.pointwise import cast
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.types import I64

Activation = Callable[[Node], Node]
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULTS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
ALPHA = {"Affine": 1.0, "LeakyRelu": 0.01, "ThresholdedRelu": 1.0, "ScaledTanh": 1.0, "HardSigmoid": 0.2, "Elu": 1.0}
BETA = {"Affine": 0.0, "ScaledTanh": 1.0, "HardSigmoid": 0.5}


def _activation(c: Call, name: str, a: float, b: float) -> Activation:
    plain = {"Relu": "relu", "Tanh": "tanh", "Sigmoid": "sigmoid", "Softplus": "softplus"}
    forms: dict[str, Activation] = {
        "Affine": lambda x: c.op("add", c.op("mul", x, a), b),
        "LeakyRelu": lambda x: c.op("where", c.op("lt", x, 0.0), c.op("mul", x, a), x),
        "ThresholdedRelu": lambda x: c.op("where", c.op("gt", x, a), x, c.const(0.0, x.type.dtype)),
        "ScaledTanh": lambda x: c.op("mul", c.op("tanh", c.op("mul", x, b)), a),
        "HardSigmoid": lambda x: c.op("min", c.op("max", c.op("add", c.op("mul", x, a), b), 0.0), 1.0),
        "Elu": lambda x: c.op("where", c.op("lt", x, 0.0), c.op("mul", c.op("expm1", x), a), x),
        "Softsign": lambda x: c.op("div", x, c.op("add", c.op("abs", x), 1.0)),
    }
    if name in plain:
        return lambda x: c.op(plain[name], x)
    if name not in forms:
        c.broken(f"has unknown activation '{name}'")
    return forms[name]


@dataclass(frozen=True)
class Cell:
    """One direction's weights: r [hidden, gates * hidden]; bias of the recurrent part [gates * hidden] or None."""

    c: Call
    hidden: int
    act: tuple[Activation, ...]
    r: Node
    recurrent_bias: Node | None
    peepholes: Node | None

    def gate(self, x: Node, k: int, count: int = 1) -> Node:
        """Gates k to k + count - 1 of a tensor in which they lie side by side."""
        return cut(self.c, x, {x.type.rank - 1: (k * self.hidden, (k + count) * self.hidden, 1)})

    def clipped(self, x: Node) -> Node:
        bound = self.c.float_attr("clip", 0.0)
        return self.c.op("min", self.c.op("max", x, -bound), bound) if bound else x

    def from_state(self, h: Node, k: int, count: int) -> Node:
        """h times the recurrent weights of gates k to k + count - 1."""
        return self.c.op("matmul", h, self.gate(self.r, k, count))

    def rnn(self, x: Node, h: Node, _: Node | None) -> tuple[Node, None]:
        return self.act[0](self.clipped(self.c.op("add", x, self.from_state(h, 0, 1)))), None

    def gru(self, x: Node, h: Node, _: Node | None) -> tuple[Node, None]:
        c, f, g = self.c, *self.act[:2]
        both = f(self.clipped(c.op("add", self.gate(x, 0, 2), self.from_state(h, 0, 2))))
        z, r = self.gate(both, 0), self.gate(both, 1)
        if c.flag("linear_before_reset", 0):
            inner = self.from_state(h, 2, 1)
            inner = c.op("add", inner, self.gate(self.recurrent_bias, 2)) if self.recurrent_bias is not None else inner
            inner = c.op("mul", r, inner)
        else:
            inner = self.from_state(c.op("mul", r, h), 2, 1)
        new = g(self.clipped(c.op("add", self.gate(x, 2), inner)))
        return c.op("add", c.op("mul", c.op("sub", c.const(1.0, z.type.dtype), z), new), c.op("mul", z, h)), None

    def lstm(self, x: Node, h: Node, state: Node | None) -> tuple[Node, Node]:
        assert state is not None
        c, f, g, last = self.c, *self.act[:3]
        gates = c.op("add", x, self.from_state(h, 0, 4))
        peep = lambda k, s: self._peep(gates, k, s)
        i = f(self.clipped(peep(0, state)))
        if c.int_attr("input_forget", 0):
            forget = c.op("sub", c.const(1.0, i.type.dtype), i)
        else:
            forget = f(self.clipped(peep(2, state)))
        new = c.op("add", c.op("mul", forget, state), c.op("mul", i, g(self.clipped(self.gate(gates, 3)))))
        return c.op("mul", f(self.clipped(peep(1, new))), last(new)), new

    def _peep(self, gates: Node, k: int, state: Node) -> Node:
        x = self.gate(gates, k)
        return x if self.peepholes is None else self.c.op("add", x, self.c.op("mul", self.gate(self.peepholes, k), state))


def _activations(c: Call, direction: int) -> tuple[Activation, ...]:
    default = DEFAULTS[c.op_type]
    n = len(default)
    names = c.strs_attr("activations") or default * 2
    alphas, betas = list(c.floats_attr("activation_alpha") or ()), list(c.floats_attr("activation_beta") or ())
    made = []
    for name in names:
        a = alphas.pop(0) if name in ALPHA and alphas else ALPHA.get(name, 0.0)
        b = betas.pop(0) if name in BETA and betas else BETA.get(name, 0.0)
        made.append(_activation(c, name, a, b))
    chosen = tuple(made[direction * n : (direction + 1) * n])
    if len(chosen) != n:
        c.broken(f"names {len(names)} activations; each direction needs {n}")
    return chosen


def _mirrored(c: Call, x: Node, lengths: Node | None) -> Node:
    """x [steps, batch, ...] with the steps backwards: all of them, or the first `lengths` of each sequence."""
    if lengths is None:
        return backwards(c, x, 0)
    t = c.importer.node("iota", [], {"shape": c.shape(x), "axis": 0})
    n = reshape(c, lengths, (1, x.type.shape[1], *[1] * (x.type.rank - 2)))
    return c.op("gather_elements", x, c.op("where", c.op("lt", t, n), c.op("sub", c.op("sub", n, 1), t), t), axis=0)


def _part(c: Call, i: int, direction: int) -> Node:
    """What operand i has for one direction."""
    v = c.x(i)
    return reshape(c, cut(c, v, {0: (direction, direction + 1, 1)}), v.type.shape[1:])


def _direction(
    c: Call, x: Node, direction: int, lengths: Node | None, state: tuple[Node, Node | None]
) -> tuple[Node, Node, Node | None]:
    """(h of each step, last h, last c) of one direction; steps past a sequence's end give 0 and keep the state."""
    w, r, bias = _part(c, 1, direction), _part(c, 2, direction), _part(c, 3, direction) if c.has(3) else None
    hidden, gates = c.shape(r)[1], GATES[c.op_type]
    batch = x.type.shape[1]
    inputs = c.op("matmul", x, c.op("transpose", w, perm=(1, 0)))
    recurrent = None
    if bias is not None:
        own, recurrent = (cut(c, bias, {0: (k * gates * hidden, (k + 1) * gates * hidden, 1)}) for k in range(2))
        inputs = c.op("add", inputs, own)
        if c.op_type == "GRU" and c.flag("linear_before_reset", 0):
            keep = c.const(0.0, own.type.dtype)
            early = cut(c, recurrent, {0: (0, 2 * hidden, 1)})
            inputs = c.op("add", inputs, c.op("concat", early, c.op("broadcast", keep, shape=(hidden,)), axis=0))
        else:
            inputs = c.op("add", inputs, recurrent)
    cell = Cell(c, hidden, _activations(c, direction), c.op("transpose", r, perm=(1, 0)), recurrent,
                _part(c, 7, direction) if c.op_type == "LSTM" and c.has(7) else None)  # fmt: skip
    step: Callable[[Node, Node, Node | None], tuple[Node, Node | None]] = getattr(cell, c.op_type.lower())

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        h, *rest = carries
        memory = rest[0] if state[1] is not None else None
        now, new_memory = step(slices[0], h, memory)
        if lengths is None:
            return [now, *([new_memory] if new_memory is not None else [])], [now]
        t = carries[-1]
        live = reshape(c, c.op("gt", lengths, t), (batch, 1))
        new = [c.op("where", live, now, h)]
        new += [] if memory is None or new_memory is None else [c.op("where", live, new_memory, memory)]
        return [*new, c.op("add", t, 1)], [c.op("where", live, now, c.const(0.0, now.type.dtype))]

    begin = [state[0], *([state[1]] if state[1] is not None else []), *([c.const(0, I64)] if lengths is not None else [])]
    last, (y,) = looped(c, begin, [inputs], body, x.type.shape[0])
    return y, last[0], last[1] if state[1] is not None else None


@lower("RNN", "GRU", "LSTM")
def recurrent(c: Call) -> tuple[Node, ...]:
    batch_first = c.flag("layout", 0)
    swap: Callable[[Node], Node] = lambda v: c.op("transpose", v, perm=(1, 0, *range(2, v.type.rank)))
    x = swap(c.x(0)) if batch_first else c.x(0)
    if x.type.rank != 3:
        c.broken(f"goes through {x.type}, which has not three dimensions")
    steps, batch, _ = x.type.shape
    hidden = c.shape(c.x(2))[2]
    kind = c.str_attr("direction", "forward")
    if kind not in ("forward", "reverse", "bidirectional"):
        c.broken(f"has unknown direction '{kind}'")
    lengths = cast(c, c.x(4), I64) if c.has(4) else None
    zero = c.op("broadcast", c.const(0.0, x.type.dtype), shape=(batch, hidden))
    ys, hs, cs = [], [], []
    for d, back in enumerate({"forward": (False,), "reverse": (True,)}.get(kind, (False, True))):
        initial = []
        for operand in (5, 6):
            v = c.maybe(operand)
            v = swap(v) if v is not None and batch_first else v
            initial.append(zero if v is None else reshape(c, cut(c, v, {0: (d, d + 1, 1)}), (batch, hidden)))
        state = (initial[0], initial[1] if c.op_type == "LSTM" else None)
        y, h, memory = _direction(c, _mirrored(c, x, lengths) if back else x, d, lengths, state)
        ys.append(reshape(c, _mirrored(c, y, lengths) if back else y, (steps, 1, batch, hidden)))
        hs.append(reshape(c, h, (1, batch, hidden)))
        cs += [] if memory is None else [reshape(c, memory, (1, batch, hidden))]
    y = c.op("concat", *ys, axis=1) if len(ys) > 1 else ys[0]
    ends = [c.op("concat", *parts, axis=0) if len(parts) > 1 else parts[0] for parts in (hs, cs) if parts]
    if batch_first:
        y, ends = c.op("transpose", y, perm=(2, 0, 1, 3)), [swap(v) for v in ends]
    return (y, *ends)
