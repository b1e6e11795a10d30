"""The saturated graph e-graph, frozen into plain Python: what cuts, covers and views read. No egglog in here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autocomp.ir.node import Attrs, Graph
from autocomp.ir.types import TensorType
from autocomp.quick import quick
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env


@quick
@dataclass(frozen=True)
class ENode:
    """One way to compute a class: an op of the table over child classes (leaves: input, param, const).

    `why` is the rule that made it, "source" for nodes of the imported graph.
    """

    op: str
    attrs: Attrs
    children: tuple[int, ...]
    why: str = "source"


@dataclass(frozen=True)
class EClass:
    """One tensor value with all its known forms. `constant`: computable from parameters and constants alone.

    Ids are dense and deterministic (the same graph and rules give the same ids). `nodes` are sorted by text.
    """

    id: int
    type: TensorType
    nodes: tuple[ENode, ...]
    constant: bool = False


@dataclass(frozen=True)
class Instance:
    """One time that a rule fired: `root` and `tensors` (by variable) are classes, `env` what its variables stood for."""

    rule: Rule
    root: int
    tensors: tuple[tuple[str, int], ...]
    env: Env


@dataclass(frozen=True)
class Frozen:
    """`roots` are the graph's outputs (name, class). `source` maps classes to the op name of the source node there, `places` to what
    the model calls that node, `nodes` to the source nodes there (numbers in the graph's `nodes()`; several where rules found them
    equal).
    `instances`: by rule and class, the first instance that made a node there; `joined`: by class, those that found the right side of a node
    of the model to be there already.
    """

    classes: Mapping[int, EClass]
    roots: tuple[tuple[str, int], ...]
    graph: Graph
    source: Mapping[int, str]
    places: Mapping[int, str] = field(default_factory=dict)
    nodes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    instances: Mapping[tuple[str, int], Instance] = field(default_factory=dict)
    joined: Mapping[int, tuple[Instance, ...]] = field(default_factory=dict)
