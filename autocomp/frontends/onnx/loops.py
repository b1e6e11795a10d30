"""What loops of ONNX have in common: the op `loop` at a node's place, and a dimension read backwards."""

from __future__ import annotations

from collections.abc import Sequence

from autocomp.frontends.onnx.call import Call
from autocomp.frontends.onnx.shapes import cut
from autocomp.ir.loop_bodies import Body, loop
from autocomp.ir.node import Node
from autocomp.ir.ops.loops import NONE
from autocomp.ir.sizes import total
from autocomp.ir.types import Dim


def looped(c: Call, inits: Sequence[Node], stacked: Sequence[Node], body: Body, trips: Dim,
           condition: int = NONE) -> tuple[list[Node], list[Node]]:  # fmt: skip
    """(last carries, stacked results); see `ir.loop_bodies.loop`."""
    last, stacks = loop(c.importer.builder, inits, stacked, body, trips, condition)
    for n in (*last, *stacks):
        c.importer.builder.locations.setdefault(n, c.where)
    return last, stacks


def backwards(c: Call, x: Node, axis: int) -> Node:
    """x from its last place along an axis to the first."""
    return cut(c, x, {axis: (total([(x.type.shape[axis], 1)], -1), -1, -1)})
