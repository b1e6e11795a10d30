"""An operator that the table lacks, or has as a loop, over parameters alone: torch computes it where its value is first needed, as it would
on each call.

    weight = matrix_exp(triu(raw) - triu(raw).T)         a parametrisation: the program has a parameter `weight`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def of_parameters(program: Any, node: Any) -> Callable[[], Any] | None:
    """The node's tensor, computed by torch when called; None where it reads an input, draws random numbers, or is no operator of torch's
    that gives one tensor."""
    import torch
    from torch.export.graph_signature import InputKind

    signature = getattr(program, "graph_signature", None)
    if signature is None or not hasattr(node.meta.get("val"), "dtype"):
        return None
    kept = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
    sources = {s.arg.name: s.target for s in signature.input_specs if s.kind in kept}
    order: dict[Any, None] = {}

    def reach(n: Any) -> bool:
        if n in order:
            return True
        if n.op == "placeholder":
            if n.name not in sources:
                return False
        elif n.op != "call_function" or torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()):
            return False
        if not all(map(reach, n.all_input_nodes)):
            return False
        order[n] = None
        return True

    if not reach(node):
        return None

    def value() -> Any:
        found: dict[Any, Any] = {}
        with torch.no_grad():
            for n in order:
                if n.op == "placeholder":
                    target = sources[n.name]
                    held = program.state_dict.get(target)
                    found[n] = held if held is not None else program.constants[target]
                else:
                    args, kwargs = torch.fx.map_arg((n.args, n.kwargs), found.__getitem__)
                    found[n] = n.target(*args, **kwargs)
        return found[node]

    return value
