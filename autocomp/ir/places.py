"""What the model itself calls its nodes: an ONNX node's name, a torch module's path, a traced line.

    front end     a node's place (`Graph.locations`)         short
    ONNX          node 3 'encoder/q' (MatMul)                encoder/q
    torch         layers.0.attention (linear_1)              layers.0.attention (linear_1)
    traced        model.py:12 in block `y = x @ w`           model.py:12
    in a helper   model.py:3 in norm `..` (called at model.py:12)    model.py:3 <- 12
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from autocomp.ir.node import Graph, Node
from autocomp.ir.rounding import VIEWS

LEAVES = ("input", "param", "const")
_QUOTED = re.compile(r"node \d+ '(.+)' \(\w+\)")
_LINE = re.compile(r"(\S+:\d+) in \S+(?: `.*`)?(?: \(called at ([^()]*)\))?", re.S)
_STEP = re.compile(r"[^./:]*[./:]*")
_MODULE = re.compile(r"(.+) \((\w+)\)")


def spread_places(graph: Graph) -> Graph:
    """The graph in which every node but the leaves has a place, if any that reads it has: what a front end or a decomposition made on its
    way to a node of the model belongs to that node."""
    where: dict[Node, str] = dict(graph.locations)
    for n in reversed(graph.nodes()):  # readers first
        if n in where:
            for i in n.inputs:
                if i.op not in LEAVES:
                    where.setdefault(i, where[n])
    return replace(graph, locations=where)


def places_of(graph: Graph, numbers: Iterable[int], views: bool = True) -> tuple[str, ...]:
    """What the model calls nodes, given as numbers in `graph.nodes()`; each place once, in the model's order. Without `views`, those that
    only arrange elements are left out, if others are there."""
    nodes = graph.nodes()
    mine = [nodes[i] for i in sorted(numbers)]
    if not views:
        mine = [n for n in mine if n.op not in VIEWS] or mine
    return tuple(dict.fromkeys(graph.locations[n] for n in mine if n in graph.locations))


def labels_of(graph: Graph, numbers: Iterable[int]) -> tuple[str, ...]:
    """Nodes, given as numbers in `graph.nodes()`, as texts that another compilation of the same model has too; those that only arrange
    elements left out, if others are there."""
    nodes = graph.nodes()
    mine = sorted(numbers)
    return tuple(f"{i} {nodes[i].op} {nodes[i].type}" for i in [i for i in mine if nodes[i].op not in VIEWS] or mine)


def short(place: str) -> str:
    """The name alone, as a reader of the model knows it."""
    if found := _QUOTED.fullmatch(place):
        return found[1]
    found = _LINE.fullmatch(place)
    return _chain(found[1], found[2]) if found else place


def _chain(line: str, callers: str | None) -> str:
    """`util.py:3 <- model.py:12 <- 40`: a line and what it was called from, a file's name where it is another than before."""
    out, file = [line], line.rpartition(":")[0]
    for caller in re.sub(r" and \d+ more$", "", callers or "").split(", ") if callers else ():
        at, _, number = caller.rpartition(":")
        out.append(number if at == file else caller)
        file = at
    return " <- ".join(out)


def summary(places: Iterable[str], most: int = 4) -> str:
    """Places in one line: what they have in common once, nodes of one torch module as the module.

    layer1.0: conv1, bn1, relu        model.py: 12, 13        layers.0.self_attn: mul, neg, 3 more
    """
    nodes: dict[str, list[str]] = {}
    for place in map(short, places):
        found = _MODULE.fullmatch(place)
        path, node = (found[1], found[2]) if found else (place, "")
        nodes.setdefault(path, []).append(node)
    common = _common([_STEP.findall(path) for path in nodes])
    common = common if common.strip("./:") else ""  # all names begin with a slash: they stay as the model has them
    inside = lambda path: path[len(common):].lstrip("./:") if common else path
    shown: list[str] = []
    for path, names in nodes.items():
        shown += [inside(path)] if len(path) > len(common) else filter(None, names)
    few = shown if len(shown) <= most else [*shown[: most - 1], f"{len(shown) - most + 1} more"]
    return ": ".join(filter(None, (common.rstrip("./:"), ", ".join(few))))


def _common(paths: list[list[str]]) -> str:
    """The steps that all paths begin with."""
    same = 0
    while paths and all(len(p) > same and p[same].strip("./:") == paths[0][same].strip("./:") for p in paths):
        same += 1
    return min(("".join(p[:same]) for p in paths), key=len, default="")
