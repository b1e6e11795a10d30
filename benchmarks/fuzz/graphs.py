"""Random tensor graphs through the whole compiler, against the float64 reference (TARGET: cpu, or a GPU's, on its device or its model)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from autocomp.errors import AutocompError
from autocomp.frontends.text import show
from autocomp.ir.node import Graph, Node, make
from autocomp.ir.types import Sym
from benchmarks.drawn_graphs import random_graph
from benchmarks.fuzz.verdict import RIGHT, Verdict
from benchmarks.random_graphs import Failure, Refused
from benchmarks.random_graphs import check as check_graph

NAME = "graphs"
TARGET = "cpu"


@dataclass(frozen=True)
class Case:
    graph: Graph

    def text(self) -> str:
        return show(self.graph)


def draw(seed: int) -> Case:
    return Case(random_graph(Random(seed), wide=TARGET != "cpu"))


def check(case: Case) -> Verdict:
    try:
        check_graph(case.graph, TARGET)
    except Refused as e:
        return Verdict("refused", str(e))
    except Failure as e:
        if e.__cause__ is not None and not isinstance(e.__cause__, AutocompError):
            raise e.__cause__ from None
        return Verdict("wrong", str(e))
    return RIGHT


def smaller(case: Case) -> Iterator[Case]:
    """One value alone as the output, the shallowest first; then all outputs with one value given as an input."""
    graph = case.graph
    inner = [n for n in graph.nodes() if n.inputs]
    sizes = {n: len(_of(graph, (("y", n),)).nodes()) for n in inner}
    everything = len(graph.nodes())
    for n in sorted(inner, key=lambda n: sizes[n]):
        if len(graph.outputs) > 1 or n is not graph.outputs[0][1]:
            yield Case(_of(graph, (("y", n),)))
    for n in reversed(inner):
        less = given(graph, n)
        if less is not None and len(less.nodes()) < everything:
            yield Case(less)


def given(graph: Graph, cut: Node) -> Graph | None:
    """The graph with the value `cut` as a new input; None where that is an output (which would be no computation)."""
    if any(n is cut for _, n in graph.outputs):
        return None
    names = {n.attrs["name"] for n in graph.nodes() if n.op in ("input", "param")}
    name = next(f"given{k}" for k in range(len(names) + 1) if f"given{k}" not in names)
    new: dict[Node, Node] = {cut: make("input", (), cut.type, {"name": name})}
    for n in graph.nodes():
        if n not in new:
            inputs = tuple(new[i] for i in n.inputs)
            new[n] = make(n.op, inputs, n.type, n.attrs) if inputs != n.inputs else n
    return _of(replace(graph, inputs=(*graph.inputs, new[cut])), tuple((k, new[n]) for k, n in graph.outputs))


def _of(graph: Graph, outputs: tuple[tuple[str, Node], ...]) -> Graph:
    """The graph of these outputs, with the inputs and parameters that they need."""
    less = replace(graph, outputs=outputs)
    used = set(less.nodes())
    named = {d.name for n in used for d in n.type.shape if isinstance(d, Sym)}
    inputs = tuple(n for n in graph.inputs if n in used or any(isinstance(d, Sym) and d.name in named for d in n.type.shape))
    params = {n.attrs["name"] for n in used if n.op == "param"}
    return replace(less, inputs=inputs, params={k: v for k, v in graph.params.items() if k in params})
