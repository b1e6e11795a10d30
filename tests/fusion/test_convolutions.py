"""Convolutions with what follows them: one kernel in either order of axes, with the graph's meaning."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.ir import reference
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import F16, F32, DType, TensorType
from tests.helpers.covers import run_cover
from tests.helpers.nets import WINDOW, compiled, copies, made, weights


def block(layout: str, dtype: DType, residual: bool, channels: int = 64, size: int = 28) -> Graph:
    """conv + batch norm + relu (+ add), on data and weights that lie as `layout` says."""
    b = Builder(f"block_{layout}")
    last = layout == "nhwc"
    shape = (2, size, size, channels) if last else (2, channels, size, size)
    x = b.input("x", TensorType(dtype, shape))
    w: Node = weights(b, "w", channels, channels, 3, 3, dtype=dtype)
    if last:
        w = b.op("transpose", w, perm=(2, 3, 1, 0))
    y = b.op("conv", x, w, layout=layout, **WINDOW)
    scale, shift, mean = (weights(b, n, channels, dtype=dtype) for n in ("scale", "shift", "mean"))
    var = b.param("var", (np.arange(channels) / channels + 0.5).astype(dtype.numpy))
    if last:  # the batch norm of the op table is over axis 1
        y = b.op("transpose", y, perm=(0, 3, 1, 2))
    y = b.op("batch_norm", y, scale, shift, mean, var)
    if last:
        y = b.op("transpose", y, perm=(0, 2, 3, 1))
    if residual:
        y = b.op("add", y, b.input("r", TensorType(dtype, shape)))
    b.output("y", b.op("relu", y))
    return b.graph()


@pytest.mark.parametrize("residual", [False, True], ids=["", "add"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("chip", ["cpu", "h200"])
def test_a_block_is_one_kernel(chip: str, layout: str, residual: bool) -> None:
    """On the GPU f16, where data that lies channels first is turned before; on the CPU f32."""
    graph = block(layout, F16 if chip == "h200" else F32, residual)
    k = compiled(graph, chip)
    assert len(k.calls) - len(copies(k)) == 1, [c.kernel.name for c in k.calls]
    assert set(copies(k)) <= ({"x", "r"} if chip == "h200" and layout == "nchw" else set())
    rng = np.random.default_rng(0)
    data = {n.attrs["name"]: rng.standard_normal(n.type.shape).astype(n.type.dtype.numpy) for n in graph.inputs}
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if chip == "h200" else {"rtol": 1e-4, "atol": 1e-4}
    want = reference.evaluate(graph, data)["y"].astype("f8")
    np.testing.assert_allclose(run_cover(k, data)["y"].astype("f8"), want, **tolerance)


def test_without_epilogues_the_block_falls_apart() -> None:
    assert len(compiled(block("nhwc", F16, True), without=("fusion/convolution-epilogue",)).calls) > 1


def projections(columns: tuple[int, ...], bias: bool, dtype: DType = F32, rows: int = 40, depth: int = 48) -> Graph:
    b = Builder("projections")
    x = b.input("x", TensorType(dtype, (2, rows, depth)))
    for i, n in enumerate(columns):
        y = b.op("matmul", x, weights(b, f"w{i}", depth, n, dtype=dtype))
        b.output(f"y{i}", b.op("exp", b.op("add", y, weights(b, f"b{i}", n, dtype=dtype)) if bias else y))
    return b.graph()


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize("columns", [(32, 32), (24, 8, 40), (16, 16, 16, 7)], ids=str)
def test_siblings_have_the_columns_that_are_theirs(columns: tuple[int, ...], bias: bool) -> None:
    """Whether they are merged is the price's choice; here the rule's sides are compared for every sibling."""
    from autocomp.egraph.saturate import saturate
    from autocomp.ir.decompose import decompose
    from autocomp.options import Options
    from autocomp.rewrite.load import load_rules
    from autocomp.trace import Trace

    graph, trace = projections(columns, bias), Trace()
    frozen = saturate(decompose(graph), load_rules(), Options(), trace)
    rule = "algebra/sibling-matmuls-biased" if bias else "algebra/sibling-matmuls"
    assert made(trace, rule) == len(columns)
    merged = [e for c in frozen.classes.values() for e in c.nodes if e.op == "slice"]
    assert len({e.children for e in merged if e.why == rule}) == 1
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 40, 48)).astype("f4")
    w = np.concatenate([graph.param(f"w{i}") for i in range(len(columns))], 1)
    v = np.concatenate([graph.param(f"b{i}") for i in range(len(columns))]) if bias else 0.0
    want = reference.evaluate(graph, {"x": x})
    whole = np.exp(x.astype("f8") @ w + v)
    parts = sorted((e.attrs["starts"][2], e.attrs["limits"][2]) for e in merged if e.why == rule)
    for i, (low, high) in enumerate(parts):
        np.testing.assert_allclose(whole[..., low:high], want[f"y{i}"], rtol=1e-4)


def test_siblings_are_merged_where_it_pays_and_only_there() -> None:
    """Small products are bound by their launches: one instead of three. With launches for free nothing is gained by merging f32."""
    graph = projections((256, 256, 256), True, F16, rows=512, depth=256)
    merged, apart = compiled(graph), compiled(graph, without=("algebra/sibling-*",))
    assert merged.predicted <= apart.predicted
    names = [c.kernel.name for c in merged.calls]
    assert sum("matmul" in n for n in names) in (1, 3)
    x = {"x": np.random.default_rng(3).standard_normal((2, 512, 256)).astype("f2")}
    want = reference.evaluate(graph, x)
    for name, y in run_cover(merged, x).items():
        np.testing.assert_allclose(y.astype("f8"), want[name].astype("f8"), rtol=3e-2, atol=3e-2)
