"""Graph -> the same graph in entries that have a comprehension or are opaque."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from autocomp.ir.builder import Builder
from autocomp.ir.coded import coded
from autocomp.ir.node import Graph, Node, make
from autocomp.ir.ops import OPS

NARROW = "words_of_32_bits"  # a chip's feature: no unit computes with integers of 64 bits


def decompose(graph: Graph, features: Container[str] = ()) -> Graph:
    """Expand every entry that has a decomposition, to a fixed point. Types of outputs do not change.

    features: of the chip; what it has a function of its own for stays (`ir.coded`), and without integers of 64 bits some entries have
    another decomposition."""
    b = Builder(graph.name)
    b.params = dict(graph.params)
    done: dict[Node, Node] = {}

    def expand(root: Node) -> Node:
        stack = [root]
        while stack:
            n = stack[-1]
            todo = [i for i in n.inputs if i not in done]
            if n in done:
                stack.pop()
            elif todo:
                stack.extend(todo)
            else:
                inputs = tuple(done[i] for i in n.inputs)
                entry = OPS.get(n.op)
                how = None
                if entry is not None and not coded(n.op, [i.type for i in inputs], features):
                    how = entry.narrow if entry.narrow is not None and NARROW in features else entry.decompose
                new = how(b, inputs, n.attrs) if how is not None else None
                if new is not None:
                    done[n] = expand(new)
                else:
                    same = all(x is y for x, y in zip(inputs, n.inputs))
                    done[n] = n if same else make(n.op, inputs, n.type, n.attrs)
                stack.pop()
        return done[root]

    outputs = tuple((name, expand(n)) for name, n in graph.outputs)
    where = {done[n]: text for n, text in graph.locations.items() if n in done}
    new = Graph(graph.name, graph.inputs, outputs, b.params, where)
    used = {n.attrs["name"] for n in new.nodes() if n.op == "param"}
    return replace(graph, outputs=outputs, params={k: v for k, v in b.params.items() if k in used}, locations=where)
