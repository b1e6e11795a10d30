"""torch's operators over graphs: cond as a choice between both branches, scan, map and while_loop as the op `loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.builder import Builder
from autocomp.ir.loop_bodies import Body, loop
from autocomp.ir.node import Node
from autocomp.ir.ops.loops import ENDLESS, NONE
from autocomp.ir.types import BOOL, Dim, TensorType


class Reading(Protocol):
    """What reads a graph of torch's (`export.Reader`)."""

    b: Builder
    values: dict[Any, Any]

    def branch(self, module: Any, operands: Sequence[Any]) -> list[Any]: ...

    def tensor_type(self, v: Any, node: Any) -> TensorType: ...


def given(r: Reading, x: Any) -> Any:
    """What was read for an argument of torch's, or for each of a list."""
    if isinstance(x, (list, tuple)):
        return [given(r, y) for y in x]
    return r.values[x] if hasattr(x, "users") else x


def conditional(r: Reading, node: Any, where: str) -> tuple[Any, ...]:
    """torch.cond: both branches are computed, and each result is chosen. Raises UnsupportedOp where a result is no tensor."""
    choice, yes, no, beside = node.args
    condition = r.values.get(choice)
    if not isinstance(condition, Node):
        raise UnsupportedOp("torch.cond on what is no tensor", where=where, hint="let its condition be a tensor of one truth value")
    condition = r.b.op("reshape", condition, shape=())
    operands = given(r, beside)
    a, b = (r.branch(graph_of(node, side), operands) for side in (yes, no))
    if any(not (isinstance(x, Node) and isinstance(y, Node) and x.type == y.type) for x, y in zip(a, b, strict=True)):
        raise UnsupportedOp("torch.cond whose branches give other things than tensors of one type", where=where,
                            hint="let both branches return tensors of one shape and dtype")  # fmt: skip
    return tuple(r.b.op("where", condition, x, y) for x, y in zip(a, b, strict=True))


def while_loop(r: Reading, node: Any, where: str) -> tuple[Any, ...]:
    """torch.while_loop: its condition is a carry beside what the body carries. Raises UnsupportedOp where a carry is no tensor."""
    goes_on, step, carried, rest = (*map(lambda x: graph_of(node, x), node.args[:2]), *map(lambda x: given(r, x), node.args[2:]))

    def condition(values: Sequence[Node]) -> Node:
        (x,) = _tensors(r.branch(goes_on, [*values, *rest]), "its condition", where)
        return r.b.op("reshape", x if x.type.dtype == BOOL else r.b.op("cast", x, to=BOOL.name), shape=())

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        new = _tensors(r.branch(step, [*carries[1:], *rest]), "a value that its steps change", where)
        return [condition(new), *new], []

    inits = _tensors(carried, "a value that its steps change", where)
    last, _ = _loop(r, [condition(inits), *inits], [], body, ENDLESS, where, 0)
    return tuple(last[1:])


def scan(r: Reading, node: Any, where: str) -> tuple[Any, ...]:
    """scan(body, inits, xs, rest): last carries, then what steps give, stacked."""
    step, (inits, xs, rest) = graph_of(node, node.args[0]), (given(r, x) for x in node.args[1:])
    last, stacks = _stacked(r, node, step, inits, xs, rest, where)
    return (*last, *stacks)


def mapped(r: Reading, node: Any, where: str) -> tuple[Any, ...]:
    """map(body, xs, rest): what steps give, stacked."""
    step, (xs, rest) = graph_of(node, node.args[0]), (given(r, x) for x in node.args[1:])
    return tuple(_stacked(r, node, step, [], xs, rest, where)[1])


def _stacked(r: Reading, node: Any, step: Any, inits: Sequence[Any], xs: Sequence[Any], rest: Sequence[Any],
             where: str) -> tuple[list[Node], list[Node]]:  # fmt: skip
    first, stacked = _tensors(inits, "a carry", where), _tensors(xs, "what it goes through", where)

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        new = _tensors(r.branch(step, [*carries, *slices, *rest]), "a result of a step", where)
        return new[: len(carries)], new[len(carries) :]

    return _loop(r, first, stacked, body, stacked[0].type.shape[0], where)


def _loop(r: Reading, inits: Sequence[Node], stacked: Sequence[Node], body: Body, trips: Dim, where: str,
          condition: int = NONE) -> tuple[list[Node], list[Node]]:  # fmt: skip
    try:
        last, stacks = loop(r.b, inits, stacked, body, trips, condition)
    except ModelError as e:
        raise ModelError(e.what, where=where, hint=e.hint) from None
    for n in (*last, *stacks):
        r.b.locations.setdefault(n, where)
    return last, stacks


def graph_of(node: Any, side: Any) -> Any:
    """The graph that an argument of an operator names."""
    return getattr(node.graph.owning_module, side.target)


def _tensors(values: Sequence[Any], what: str, where: str) -> list[Node]:
    for v in values:
        if not isinstance(v, Node):
            raise UnsupportedOp(f"{what} is {v!r}, no tensor", where=where, hint="make it a tensor: torch.tensor(0) for a counter")
    return list(values)


OPERATORS: dict[str, Callable[[Reading, Any, str], tuple[Any, ...]]] = {
    "cond": conditional, "while_loop": while_loop, "scan": scan, "map_impl": mapped}  # fmt: skip
