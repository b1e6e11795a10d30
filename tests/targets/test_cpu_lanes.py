"""Lanes of products on the CPU run along what lies side by side, and a few taps of every other element are read as vectors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, TensorType

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


def conv(b, x, o, k, stride=1, pad=0):
    c = x.type.shape[1]
    w = b.param(f"w{o}", (np.random.default_rng(o).standard_normal((o, c, k, k)) / (k * k * c) ** 0.5).astype("f4"))
    return b.op("conv", x, w, strides=(stride, stride), lo=(pad, pad), hi=(pad, pad), dilations=(1, 1), groups=1)


def checked(graph, **options):
    rng = np.random.default_rng(1)
    feed = {x.attrs["name"]: rng.standard_normal(x.type.shape).astype("f4") for x in graph.inputs}
    program = autocomp.optimize(graph, **options)
    got = program.run(feed)["y"].copy()
    want = evaluate(graph, feed)["y"]
    assert np.abs(got - want).max() < 2e-6 * np.abs(want).max()
    np.testing.assert_array_equal(got, autocomp.optimize(graph, **{**options, "threads": 2}).run(feed)["y"])
    return program


def linked(size):
    """Two 1 x 1 convolutions with a residual between them, 16 > 16 > 64 channels."""
    b = Builder("linked")
    x, r = (b.input(n, TensorType(F32, (1, 16, *size))) for n in "xr")
    y = b.op("add", conv(b, b.op("max", x, b.const(0.0, F32)), 16, 1), r)
    b.output("y", conv(b, y, 64, 1))
    return b.graph()


def test_a_first_product_has_lanes_where_its_sums_lie():
    program = checked(linked((101, 97)), threads=1)
    text = next(program.source(k.name) for k in program.kernels if k.ops.count("conv") == 2)
    assert "vf_scatter" not in text and "vf_strided" not in text  # its result lies as the residual does, places side by side


@pytest.mark.parametrize("size, k", [((41, 33), 3), ((9, 64), 5), ((3, 3), 3), ((38, 1), 1)])
def test_few_taps_of_every_other_element(size, k):
    b = Builder("stem")
    b.output("y", conv(b, b.input("x", TensorType(F32, (1, 3, *size))), 24, k, 2))
    program = checked(b.graph(), threads=1)
    assert "vf_transpose(in0" not in program.source()
