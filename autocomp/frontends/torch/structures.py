"""Arguments and results that are dicts, lists or registered classes of tensors: a program has one input a tensor, callers keep theirs.

    program({"a": x, "b": [y, None]})  ->  inputs x, y          outputs (p, q)  ->  {"logits": p, "states": (q, None)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autocomp.errors import ModelError


@dataclass(frozen=True)
class Structures:
    """What torch.export found (`torch.utils._pytree`). `given`: of every leaf of the arguments the input's name, or in a tuple the value
    that it had; `made`: of every leaf of the results whether it is an output, `fixed`: else what it is. `result` None: one tensor, or a
    tuple of them."""

    where: str
    arguments: Any
    given: tuple[str | tuple[Any], ...]
    result: Any
    made: tuple[bool, ...]
    fixed: tuple[Any, ...]

    @property
    def names(self) -> set[str]:
        """Of arguments that were given by keyword."""
        return set(self.arguments.children()[1].context) if self.arguments.num_children == 2 else set()

    def inputs(self, args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as the module takes them -> inputs by name. Raises ModelError where they have another structure, or where what is no
        tensor has another value than when the module was exported."""
        try:
            leaves = self.arguments.flatten_up_to((tuple(args), dict(named)))
        except (ValueError, TypeError, KeyError) as e:
            raise ModelError(f"its arguments were {_shown(self.arguments)} when it was exported: {e}", where=self.where,
                             hint="give them in that structure, or its tensors one after another") from None  # fmt: skip
        found = {}
        for name, x in zip(self.given, leaves, strict=True):
            if isinstance(name, str):
                found[name] = x
            elif name[0] is not x and (type(name[0]) is not type(x) or name[0] != x):
                raise ModelError(f"an argument was {name[0]!r} when it was exported, and is {type(x).__name__} {str(x)[:40]}",
                                 where=self.where, hint="compile it again with that value")  # fmt: skip
        return found

    def results(self, outputs: Sequence[Any]) -> Any:
        """Outputs in order -> what the module returns."""
        rest = iter(outputs)
        return self.result.unflatten([next(rest) if made else value for made, value in zip(self.made, self.fixed)])


def structures_of(program: Any, where: str) -> Structures | None:
    """None where all arguments are tensors, given by position, and the result is one tensor or a tuple or list of them."""
    from torch.export.graph_signature import InputKind, OutputKind

    spec, signature = program.call_spec, program.graph_signature
    if spec is None or spec.in_spec is None or spec.out_spec is None:
        return None
    args = [s.arg for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
    results = [s.arg for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    if len(args) != spec.in_spec.num_leaves or len(results) != spec.out_spec.num_leaves:
        return None
    constant = lambda a: type(a).__name__ == "ConstantArgument"
    positional = spec.in_spec.children()[0] if spec.in_spec.num_children == 2 else spec.in_spec
    flat = all(c.is_leaf() for c in positional.children()) and not any(map(constant, args))
    out = _changeable(spec.out_spec)
    plain = out.is_leaf() or (out.type in (tuple, list) and all(c.is_leaf() for c in out.children()))
    plain = plain and not any(map(constant, results))
    if (flat and plain) or not all(constant(a) or type(a).__name__ == "TensorArgument" for a in args):
        return None
    return Structures(where, spec.in_spec, tuple((a.value,) if constant(a) else a.name for a in args), None if plain else out,
                      tuple(not constant(a) for a in results), tuple(a.value if constant(a) else None for a in results))  # fmt: skip


def _changeable(spec: Any) -> Any:
    """A structure with dicts and lists where torch.fx, which traced a module that takes gradients itself, has its own of them, which
    callers cannot change."""
    from torch.fx.immutable_collections import immutable_dict, immutable_list
    from torch.utils._pytree import tree_flatten, tree_structure

    if "immutable_" not in str(spec):
        return spec

    def own(x: Any) -> Any:
        children, of = tree_flatten(x, is_leaf=lambda y: y is not x)
        if of.is_leaf():
            return x
        rest = [own(c) for c in children]
        if isinstance(x, immutable_dict):
            return dict(zip(x, rest, strict=True))
        return rest if isinstance(x, immutable_list) else of.unflatten(rest)

    return tree_structure(own(spec.unflatten([object() for _ in range(spec.num_leaves)])))


def _shown(spec: Any) -> str:
    """The positional arguments of a structure in Python's notation, `x` for a tensor or a number."""
    if spec.is_leaf():
        return "x"
    inner = [_shown(c) for c in spec.children()]
    if spec.type is dict:
        return "{" + ", ".join(f"{k!r}: {v}" for k, v in zip(spec.context, inner)) + "}"
    if spec.type in (tuple, list):
        a, b = "()" if spec.type is tuple else "[]"
        return f"{a}{', '.join(inner)}{b}"
    return f"{spec.type.__name__}({', '.join(inner)})"
