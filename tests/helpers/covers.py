"""Graph -> cover -> NumPy, for tests of fusion."""

from __future__ import annotations

import numpy as np

from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import freeze_graph
from autocomp.ir import reference
from autocomp.ir.body_meaning import evaluate
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.options import Options
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace


def cover_of(graph: Graph, chip: str = "h200", without: tuple[str, ...] = (), **options: object) -> KernelGraph:
    """The cover of a graph without algebra: only the fusion rules decide."""
    opts = Options(**options)  # type: ignore[arg-type]
    return cover(freeze_graph(decompose(graph)), load_rules(without=without, options=opts), load_chip(chip), opts, Trace())


def run_cover(k: KernelGraph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every call's NumPy meaning in order, in float64."""
    arrays = {**{p: k.source.param(p) for p in k.params}, **inputs}
    for name, g in k.constants.items():
        params = {n: k.source.param(n) for n in g.params}
        arrays[name] = next(iter(reference.evaluate(g, params).values()))
    for call in k.calls:
        given = {a.name: np.asarray(arrays[call.args[a.name]]).reshape(a.type.shape)  # type: ignore[arg-type]
                 for a in call.kernel.inputs}
        for name, value in evaluate(call.kernel, given, {}).items():
            arrays[call.args[name]] = value.reshape(k.tensors[call.args[name]].shape)  # type: ignore[arg-type]
    return {public: arrays[t] for public, t in k.outputs}
