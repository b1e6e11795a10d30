"""Small convolution nets, and a compiler of graphs up to their cover."""

from __future__ import annotations

import numpy as np

from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import F16, DType, TensorType
from autocomp.options import Options
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace

WINDOW = {"strides": (1, 1), "dilations": (1, 1), "lo": (1, 1), "hi": (1, 1)}
VIEWS = {"transpose", "reshape", "broadcast", "slice", "pad", "copy", "concat"}


def compiled(graph: Graph, chip: str = "h200", without: tuple[str, ...] = (), trace: Trace | None = None) -> KernelGraph:
    """The cover of a graph under all shipped rules."""
    opts, machine, trace = Options(), load_chip(chip), trace or Trace()
    rules = load_rules(without=without, options=opts)
    return cover(saturate(decompose(graph), rules, opts, trace, machine.features, machine.target), rules, machine, opts, trace)


def weights(b: Builder, name: str, *shape: int, dtype: DType = F16) -> Node:
    """A parameter of random numbers that keep the scale of what they multiply."""
    rng = np.random.default_rng(len(name) + sum(shape))
    return b.param(name, (rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(dtype.numpy))


def residual_net(channels: int, size: int, dtype: DType = F16, blocks: int = 2, image: bool = False) -> Graph:
    """A stem, a pooling, residual blocks and a global mean: what matters is that the blocks share one order of axes."""
    b = Builder("net")
    x = b.input("x", TensorType(dtype, (2, 3 if image else channels, size, size)))
    y = b.op("relu", b.op("conv", x, weights(b, "stem", channels, x.type.shape[1], 3, 3, dtype=dtype), **WINDOW))
    y = b.op("maxpool", y, window=(3, 3), **{**WINDOW, "strides": (2, 2)})
    for k in range(blocks):
        z = b.op("conv", y, weights(b, f"a{k}", channels, channels, 1, 1, dtype=dtype), **{**WINDOW, "lo": (0, 0), "hi": (0, 0)})
        z = b.op("relu", b.op("add", z, weights(b, f"bias{k}", channels, 1, 1, dtype=dtype)))
        z = b.op("conv", z, weights(b, f"b{k}", channels, channels, 3, 3, dtype=dtype), **WINDOW)
        y = b.op("relu", b.op("add", z, y))
    b.output("y", b.op("reduce_mean", y, axes=(2, 3)))
    return b.graph()


def copies(k: KernelGraph) -> list[str]:
    """What the kernels that only move elements read."""
    return [t for c in k.calls if set(c.ops) <= VIEWS for a, t in sorted(c.args.items()) if a.startswith("in")]


def made(trace: Trace, rule: str) -> int:
    """How often a rule fired."""
    return sum(e.data["count"] for e in trace.of("rule") if e.name == rule)
