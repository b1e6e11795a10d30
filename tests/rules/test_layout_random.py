"""Random convolution nets on a chip whose narrow copies are so slow that everything becomes channels last: results stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace
from tests.helpers import fresh
from tests.helpers.covers import run_cover
from tests.helpers.nets import weights

MAPS = ("relu", "sigmoid", "tanh", "neg", "abs", "gelu")
PAIRS = ("add", "mul", "sub", "max", "min")


def window(rng: np.random.Generator, size: list[int], taps: list[int]) -> dict[str, tuple[int, ...]]:
    """Strides, dilations and borders of which at least one output remains."""
    dilation = [int(rng.integers(1, 3)) if (k - 1) * 2 < n else 1 for k, n in zip(taps, size)]
    lo, hi = ([int(rng.integers(0, 2)) for _ in size] for _ in range(2))
    return {"strides": tuple(int(rng.integers(1, 3)) for _ in size), "dilations": tuple(dilation), "lo": tuple(lo), "hi": tuple(hi)}


def step(b: Builder, rng: np.random.Generator, x: Node, name: str) -> Node:
    """One random op on [N, C, spatial...]."""
    c, *size = (int(d) for d in x.type.shape[1:])
    rank = len(size)
    kind = rng.choice(["conv", "conv", "group", "pool", "map", "pair", "scalar", "concat", "pad", "slice", "self"])
    taps = [int(rng.integers(1, min(4, n + 1))) for n in size]
    if kind in ("conv", "group"):
        groups = int(rng.choice([g for g in range(1, c + 1) if c % g == 0])) if kind == "group" else 1
        w = weights(b, name, groups * int(rng.integers(1, 5)), c // groups, *taps, dtype=F32)
        return b.op("conv", x, w, groups=groups, **window(rng, size, taps))
    if kind == "pool":
        return b.op("maxpool", x, window=tuple(taps), **window(rng, size, taps))
    if kind == "map":
        return b.op(str(rng.choice(MAPS)), x)
    if kind == "pair":
        shape = [(c, *(1,) * rank), (1, c, *(1,) * rank), tuple(size), (size[-1],)][int(rng.integers(4))]
        y = weights(b, name, *shape, dtype=F32)
        return b.op(str(rng.choice(PAIRS)), *((x, y) if rng.integers(2) else (y, x)))
    if kind == "scalar":
        return b.op(str(rng.choice(PAIRS)), x, b.const(float(rng.standard_normal()), F32))
    if kind == "concat":
        return b.op("concat", x, b.op("neg", x), axis=int(rng.integers(1, 2 + rank)))
    if kind == "pad":
        return b.op("pad", x, lo=(0, *(int(v) for v in rng.integers(0, 2, 1 + rank))), hi=(0,) * (2 + rank), value=0.5)
    if kind == "slice":
        low = [int(rng.integers(0, 2)) if n > 1 else 0 for n in (c, *size)]
        return b.op("slice", x, starts=(0, *low), limits=tuple(map(int, x.type.shape)), steps=(1,) * (2 + rank))
    return b.op("add", x, b.op("reduce_max", x, axes=tuple(range(2, 2 + rank)), keepdims=True))


def net(rng: np.random.Generator) -> Graph:
    b = Builder("random")
    rank = int(rng.integers(1, 4))
    x: Node = b.input("x", TensorType(F32, (2, int(rng.integers(2, 7)), *(int(n) for n in rng.integers(4, 8, rank)))))
    for i in range(int(rng.integers(3, 9))):
        x = step(b, rng, x, f"w{i}")
    b.output("y", b.op("reduce_sum", x, axes=tuple(range(2, 2 + rank))) if rng.integers(2) else x)
    return b.graph()


def compare(seed: int) -> bool:
    """Compile a net for the slow chip and compare with the reference; whether a convolution was turned to channels last."""
    machine = load_chip("h200")
    slow = replace(machine, limits={**machine.limits, "copies": 1e6})
    rules, opts, trace = load_rules(), Options(), Trace()
    graph = decompose(net(np.random.default_rng(seed)))
    k = cover(saturate(graph, rules, opts, trace, slow.features), rules, slow, opts, Trace())
    assert not trace.of("budget"), f"seed {seed}: {trace.of('budget')}"
    data = {"x": np.random.default_rng(seed + 1).standard_normal(graph.inputs[0].type.shape).astype("f4")}
    want = reference.evaluate(graph, data)["y"]
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=1.0))
    np.testing.assert_allclose(run_cover(k, data)["y"], want, rtol=1e-3, atol=1e-4 * scale, err_msg=f"seed {seed}")
    return any("layout/conv-channels-last" in r for c in k.calls for r in c.rules)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a window of borders alone has the maximum -inf
@pytest.mark.parametrize("part", range(4))
def test_random_nets_keep_their_results(part: int) -> None:
    turned = [compare(fresh.seed()) for _ in range(6)]
    assert any(turned)


@pytest.mark.parametrize("seed", [3413329356])  # its negations of negations turned tensors round and round without end
def test_kept_nets(seed: int) -> None:
    compare(seed)
