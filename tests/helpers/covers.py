"""Graph -> cover -> NumPy, for tests of fusion."""

from __future__ import annotations

from autocomp.check.bodies import meaning
from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import freeze_graph
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

run_cover = meaning
