"""Control flow and sequences: branches chosen, loops the op `loop` where steps are alike, else unrolled; sequences of known length."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.constants import ValueNeeded
from autocomp.frontends.onnx.loops import backwards, looped
from autocomp.frontends.onnx.registry import lower
from autocomp.frontends.onnx.scope import Coded, Value
from autocomp.frontends.onnx.shapes import cut, reshape
from autocomp.ir.node import Node
from autocomp.ir.ops.loops import ENDLESS
from autocomp.ir.types import BOOL, I64, Dim, Sym

MAX_TRIPS = 1024
"""Iterations of one loop that are unrolled."""

MAX_COUNTED = 2**20
"""Iterations of a Loop whose number is a tensor."""

MAX_PARTS = 2**16
"""Elements of a sequence."""


@lower("If")
def if_op(c: Call) -> tuple[Value, ...]:
    """The branch that is taken where that is known, else both of them and a choice between their results."""
    branch = lambda name: tuple(c.importer.subgraph(c, c.graph_attr(name), [], name))
    if c.importer.constants.is_constant(c.x()):
        return branch("then_branch" if bool(c.static(0).reshape(-1)[0]) else "else_branch")
    try:
        yes, no = branch("then_branch"), branch("else_branch")
    except UnsupportedOp:
        c.static(0)  # names the input that would have to be bound for one branch to be enough
        raise
    if any(not (isinstance(x, Node) and isinstance(y, Node) and x.type == y.type) for x, y in zip(yes, no, strict=True)):
        c.static(0)
    condition = reshape(c, c.x(), ())
    return tuple(x if x is y else c.op("where", condition, _tensor(c, x), _tensor(c, y)) for x, y in zip(yes, no))


@lower("Loop")
def loop(c: Call) -> tuple[Value, ...]:
    """A loop of a known number of steps, or of as many as a size says; else unrolled where its end is known; else one that a value ends."""
    body = c.graph_attr("body")
    known = lambda i: not c.has(i) or c.importer.constants.is_constant(c.x(i))
    carried = list(c.inputs[2:])
    scans = len(body.output) - 1 - len(carried)
    size = c.static(0).reshape(-1)[0] if c.has(0) and known(0) else None
    trips = size if isinstance(size, Sym) else c.static_int(0) if c.has(0) and known(0) else None
    if not known(0) or not known(1):
        try:
            return _while(c, body, trips, carried)
        except ValueNeeded:
            raise
        except UnsupportedOp:
            for k in range(2):
                if not known(k):
                    c.static(k)  # names the input that would have to be bound for its steps to be known
            raise
    go = bool(c.static(1).reshape(-1)[0]) if c.has(1) else True
    why = ""
    if trips is not None and not (isinstance(trips, int) and trips <= 1) and go:
        alike, why = _alike(lambda: _counted(c, body, trips, carried))
        if alike is not None:
            return alike
    try:
        if isinstance(trips, Sym) and go:
            raise TooLong(f"runs {trips} iterations, and {why}", where=c.where, hint=f"fix the number: dims={{'{trips}': ..}}")
        return _unrolled(c, body, trips if isinstance(trips, int) else None, go, carried, scans, why)
    except (ValueNeeded, TooLong) as e:
        if isinstance(e, TooLong) and (scans or trips is None or (isinstance(trips, int) and trips > MAX_COUNTED)):
            c.refuse(e.what, e.hint)
        return _while(c, body, trips, carried)


class TooLong(UnsupportedOp):
    """More steps than are unrolled."""


def _unrolled(c: Call, body: GraphProto, trips: int | None, go: bool, carried: Sequence[Value], scans: int, why: str) -> tuple[Value, ...]:
    """Its steps one behind the other. Raises TooLong, and ValueNeeded where data decide whether a step runs."""
    stacks: list[list[Node]] = [[] for _ in range(scans)]
    step = 0
    while go and (trips is None or step < trips):
        if step == MAX_TRIPS:
            also = f" where {why}" if why else ""
            raise TooLong(f"runs more than {MAX_TRIPS} iterations; loops are unrolled{also}", where=c.where,
                          hint="write it with tensor operators")  # fmt: skip
        flag, *values = c.importer.subgraph(
            c, body, [c.const(step, I64), c.const(True, BOOL), *carried], f"body, iteration {step}"
        )
        go = bool(c.importer.constants.value(_tensor(c, flag), "the loop's condition", c.where).reshape(-1)[0])
        carried = values[: len(carried)]
        for out, v in zip(stacks, values[len(carried) :], strict=True):
            out.append(_tensor(c, v))
        step += 1
    return (*carried, *(_stack(c, out, 0) for out in stacks))


def _while(c: Call, body: GraphProto, trips: Dim | None, carried: Sequence[Value]) -> tuple[Value, ...]:
    """A Loop of as many steps as values say, `trips` at most: the step's number and whether it runs are carried. Raises ValueNeeded, or
    UnsupportedOp, where it stacks results, which would have a row for each step."""
    stacked = [o for o in list(c.proto.output)[len(carried) :] if o]
    if stacked:
        what = f"the number of its steps, of which its output '{stacked[0]}' has a row each,"
        for k in range(2):
            if c.has(k) and trips is None:
                c.importer.constants.value(c.x(k), what, c.where)
        c.refuse(f"{what} is a value of a step", hint="carry a tensor of a known size, into which each step writes")
    scalar = lambda n: reshape(c, n, ())
    most = scalar(c.x(0)) if c.has(0) else None

    def runs(number: Node, condition: Node) -> Node:
        return condition if most is None else c.op("and", condition, c.op("lt", number, most))

    def step(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        _, number, *rest = carries
        flag, *values = c.importer.subgraph(c, body, [number, c.const(True, BOOL), *rest], "body")
        later = c.op("add", number, c.const(1, I64))
        return [runs(later, scalar(_tensor(c, flag))), later, *(_tensor(c, v) for v in values[: len(rest)])], []

    zero = c.const(0, I64)
    first = runs(zero, scalar(c.x(1)) if c.has(1) else c.const(True, BOOL))
    try:
        last, _ = looped(c, [first, zero, *(_tensor(c, v) for v in carried)], [], step, ENDLESS if trips is None else trips, 0)
    except ModelError as e:
        c.refuse(f"data say how many steps it runs, and {e.what}", hint="keep shapes and dtypes of what it carries")
    return tuple(last[2:])


def _alike(make: Callable[[], tuple[Value, ...]]) -> tuple[tuple[Value, ...] | None, str]:
    """What `make` gives, or None and why steps are not alike: one asks for a value that is known while compiling, or changes a shape."""
    try:
        return make(), ""
    except (UnsupportedOp, ModelError) as e:
        return None, e.what


def _counted(c: Call, body: GraphProto, trips: Dim, carried: Sequence[Value]) -> tuple[Value, ...]:
    """A Loop of so many steps. Raises UnsupportedOp where its condition is not known to hold."""
    if isinstance(trips, int) and trips > MAX_COUNTED:
        c.refuse(f"it runs more than {MAX_COUNTED} iterations")

    def step(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        flag, *values = c.importer.subgraph(c, body, [slices[0], c.const(True, BOOL), *carries], "body")
        if not c.importer.constants.value(_tensor(c, flag), "the loop's condition", c.where).reshape(-1)[0]:
            c.refuse("ends before its last step")
        made = [_tensor(c, v) for v in values]
        return made[: len(carries)], made[len(carries) :]

    b = c.importer.builder
    if isinstance(trips, int):
        count = b.param(b.fresh("step"), np.arange(trips, dtype=np.int64))
    else:
        count = b.op("iota", shape=(trips,), axis=0, dtype=I64.name)
    last, stacks = looped(c, [_tensor(c, v) for v in carried], [count], step, trips)
    return (*last, *stacks)


def _tensor(c: Call, v: Value) -> Node:
    if isinstance(v, Coded):
        c.refuse(f"element type {v.codes.name} is not carried by its body", hint="cast it before")
    if not isinstance(v, Node):
        c.refuse("its body gives a sequence where a tensor is needed")
    return v


def _stack(c: Call, xs: list[Node], axis: int) -> Node:
    """The tensors along a new axis."""
    if not xs:
        c.refuse("collects the results of no iteration", hint="its output would be empty")
    shape = xs[0].type.shape
    parts = [reshape(c, x, (*shape[:axis], 1, *shape[axis:])) for x in xs]
    return parts[0] if len(parts) == 1 else c.op("concat", *parts, axis=axis)


@lower("Scan")
def scan(c: Call) -> tuple[Value, ...]:
    if c.opset < 9:
        c.refuse("is of the opset 8 form, with a batch axis", hint="export with opset 9 or newer")
    body, n = c.graph_attr("body"), c.int_attr("num_scan_inputs")
    states: list[Value] = list(c.inputs[: len(c.inputs) - n])
    xs = [c.x(len(states) + k) for k in range(n)]
    outs = len(body.output) - len(states)
    axes = c.ints_attr("scan_input_axes", (0,) * n) or ()
    back = c.ints_attr("scan_input_directions", (0,) * n) or ()
    out_axes = c.ints_attr("scan_output_axes", (0,) * outs) or ()
    out_back = c.ints_attr("scan_output_directions", (0,) * outs) or ()
    at = [c.axis(a, x.type.rank) for a, x in zip(axes, xs, strict=True)]
    trips = {x.type.shape[a] for x, a in zip(xs, at, strict=True)}
    if len(trips) != 1:
        c.broken(f"scans inputs of different lengths {sorted(map(str, trips))}")
    length = trips.pop()

    def step(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        made = [_tensor(c, v) for v in c.importer.subgraph(c, body, [*carries, *slices], "body")]
        return made[: len(carries)], made[len(carries) :]

    def scanned() -> tuple[Value, ...]:
        to_front = [x if not a else c.op("transpose", x, perm=(a, *(k for k in range(x.type.rank) if k != a))) for x, a in zip(xs, at)]
        stacked = [backwards(c, x, 0) if reverse else x for x, reverse in zip(to_front, back, strict=True)]
        last, stacks = looped(c, [_tensor(c, v) for v in states], stacked, step, length)
        results = []
        for x, axis, reverse in zip(stacks, out_axes, out_back, strict=True):
            x, a, order = backwards(c, x, 0) if reverse else x, c.axis(axis, x.type.rank), list(range(1, x.type.rank))
            results.append(c.op("transpose", x, perm=(*order[:a], 0, *order[a:])) if a else x)
        return (*last, *results)

    alike, why = _alike(scanned) if length != 1 else (None, "")
    if alike is not None:
        return alike
    if not isinstance(length, int) or length > MAX_TRIPS:
        c.refuse(f"runs {length} iterations; loops are unrolled up to {MAX_TRIPS} where {why}", hint="write it with tensor operators")
    collected: list[list[Node]] = [[] for _ in range(outs)]
    for t in range(length):
        elements = []
        for x, a, reverse in zip(xs, at, back, strict=True):
            k = length - 1 - t if reverse else t
            elements.append(reshape(c, cut(c, x, {a: (k, k + 1, 1)}), x.type.shape[:a] + x.type.shape[a + 1 :]))
        values = c.importer.subgraph(c, body, [*states, *elements], f"body, iteration {t}")
        states = values[: len(states)]
        for out, v in zip(collected, values[len(states) :], strict=True):
            out.append(_tensor(c, v))
    results = []
    for out, axis, reverse in zip(collected, out_axes, out_back, strict=True):
        results.append(_stack(c, out[::-1] if reverse else out, c.axis(axis, out[0].type.rank + 1) if out else 0))
    return (*states, *results)


# ---- sequences of known length
@lower("SequenceConstruct")
def sequence_construct(c: Call) -> list[Value]:
    return list(c.inputs)


@lower("SequenceEmpty")
def sequence_empty(c: Call) -> list[Value]:
    return []


@lower("SequenceLength")
def sequence_length(c: Call) -> Node:
    return c.const(len(c.sequence(0)), I64)


@lower("SequenceAt")
def sequence_at(c: Call) -> Value:
    xs = c.sequence(0)
    return xs[c.axis(c.static_int(1), len(xs))]


@lower("SequenceInsert")
def sequence_insert(c: Call) -> list[Value]:
    xs = list(c.sequence(0))
    at = c.static_int(2) if c.has(2) else len(xs)
    return [*xs[:at], c.x(1), *xs[at:]]


@lower("SequenceErase")
def sequence_erase(c: Call) -> list[Value]:
    xs = list(c.sequence(0))
    del xs[c.axis(c.static_int(1), len(xs)) if c.has(1) else -1]
    return xs


@lower("SplitToSequence")
def split_to_sequence(c: Call) -> list[Value]:
    x = c.x()
    axis = c.axis(c.int_attr("axis", 0), x.type.rank)
    d = c.shape(x)[axis]
    if d > MAX_PARTS:
        c.refuse(f"splits a dimension of {d}; sequences have up to {MAX_PARTS} elements", hint="use Split")
    if c.has(1) and c.x(1).type.rank == 1:
        sizes = c.static_ints(1)
    else:
        each = c.static_int(1) if c.has(1) else 1
        sizes = tuple(min(each, d - k) for k in range(0, d, each))
    edges = np.cumsum([0, *sizes]).tolist()
    parts = [cut(c, x, {axis: (a, b, 1)}) for a, b in zip(edges, edges[1:], strict=False)]
    if not c.has(1) and not c.flag("keepdims", 1):
        parts = [reshape(c, p, x.type.shape[:axis] + x.type.shape[axis + 1 :]) for p in parts]
    return list(parts)


@lower("ConcatFromSequence")
def concat_from_sequence(c: Call) -> Node:
    xs = [_tensor(c, v) for v in c.sequence(0)]
    axis = c.int_attr("axis")
    if c.int_attr("new_axis", 0):
        return _stack(c, xs, c.axis(axis, xs[0].type.rank + 1))
    return c.op("concat", *xs, axis=c.axis(axis, xs[0].type.rank))


# ---- optionals: whether one is there is known while compiling
@lower("Optional")
def optional(c: Call) -> Value:
    return c.inputs[0] if c.inputs else None


@lower("OptionalHasElement")
def optional_has_element(c: Call) -> Node:
    return c.const(bool(c.inputs) and c.inputs[0] is not None, BOOL)


@lower("OptionalGetElement")
def optional_get_element(c: Call) -> Value:
    if not c.inputs or c.inputs[0] is None:
        c.broken("takes the element of an optional that has none")
    return c.inputs[0]
