"""Masks that are parameters: where they are true is known, and so is how many elements a result has whose size torch leaves open.

    y = x[:, keep]        keep: a buffer of truth values   ->   y = x.index_select(1, the places where keep is true)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autocomp.frontends.torch.call import Call
from autocomp.frontends.torch.of_parameters import of_parameters
from autocomp.frontends.torch.sizes import is_size
from autocomp.ir.node import Node


def masks_of(program: Any, node: Any) -> list[np.ndarray]:
    """The data of the masks by which `index`, `masked_select` or `nonzero` chooses elements, where all of them are computed from
    parameters; else []. A mask of `masked_select` has the shape of the elements that it chooses from."""
    name = str(node.target).removeprefix("aten.").partition(".")[0]
    of: Sequence[Any] = ()
    if name in ("nonzero", "masked_select"):
        of = [node.args[name == "masked_select"]]
    elif name == "index":
        of = [i for i in node.args[1] if i is not None and str(i.meta["val"].dtype) == "torch.bool"]
    held = [h for n in of if (h := of_parameters(program, n)) is not None]
    shape = node.args[0].meta["val"].shape if name == "masked_select" else ()
    if len(held) < len(of) or any(map(is_size, shape)):
        return []
    masks = [h().cpu().numpy() for h in held]
    return [np.broadcast_to(m, np.broadcast_shapes(m.shape, tuple(shape))) for m in masks] if name == "masked_select" else masks


def counts(program: Any) -> dict[Any, int]:
    """Of symbols of torch's that stand for how many elements such masks choose: that number."""
    found: dict[Any, int] = {}
    for node in program.graph.nodes:
        value = node.meta.get("val") if node.op == "call_function" else None
        sizes = [d.node for d in getattr(value, "shape", ()) if is_size(d)]
        new = [d.expr for d in sizes if d.expr.is_symbol and d.shape_env.is_unbacked_symint(d.expr) and d.expr not in found]
        if len(new) == 1 and (masks := masks_of(program, node)):
            (found[new[0]],) = np.broadcast_shapes(*((int(np.count_nonzero(m)),) for m in masks))
    return found


def at_places(c: Call, masks: list[np.ndarray], args: Sequence[Any]) -> list[Any]:
    """The arguments of `index` with the places where a mask is true, one tensor for each of its dimensions, for the mask."""
    left, indices = iter(masks), list[Node | None]()
    for i in args[1]:
        indices += [c.array(k) for k in next(left).nonzero()] if i is not None and i.type.dtype.name == "bool" else [i]
    return [args[0], indices]


def chosen(c: Call, mask: np.ndarray, x: Node) -> Node:
    """`nonzero` of the mask x, and `masked_select` of x."""
    if c.name == "nonzero":
        return c.array(np.argwhere(mask))
    x = c.op("broadcast", x, shape=mask.shape) if x.type.shape != mask.shape else x
    return c.op("gather", c.op("reshape", x, shape=(mask.size,)), c.array(np.flatnonzero(mask)), axis=0)
