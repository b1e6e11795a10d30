"""Convolutions on the CPU: by fewer products in one kernel, right at every size, the same bytes on one and two threads."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.cost.host import facts
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, TensorType
from tests.helpers.hosts import HOSTS, cpu_chip, price_for, this_machine

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip


def block(n, c, o, size, pad, residual=False):
    """relu(conv 3 x 3 + bias (+ r)) with constant weights; `size` and `pad` by axis."""
    rng, b = np.random.default_rng(c), Builder("block")
    x = b.input("x", TensorType(F32, (n, c, *size)))
    w = b.param("w", (rng.standard_normal((o, c, 3, 3)) / (9 * c) ** 0.5).astype("f4"))
    y = b.op("conv", x, w, strides=(1, 1), lo=pad, hi=pad, dilations=(1, 1), groups=1)
    y = b.op("add", y, b.param("b", rng.standard_normal((o, 1, 1)).astype("f4")))
    if residual:
        y = b.op("add", y, b.input("r", y.type))
    b.output("y", b.op("max", y, b.const(0.0, F32)))
    return b.graph()


def run(graph, **options):
    """(program, result of a call into memory full of NaN, largest error over the largest value)."""
    rng = np.random.default_rng(1)
    feed = {x.attrs["name"]: rng.standard_normal(x.type.shape).astype("f4") for x in graph.inputs}
    program = autocomp.optimize(graph, **options)
    program.run(feed)["y"][...] = np.nan
    got, want = program.run(feed)["y"], evaluate(graph, feed)["y"]
    return program, got, np.abs(got - want).max() / np.abs(want).max()


SIZES = {
    "even": (1, 64, 72, (14, 14), (1, 1), True), "odd": (1, 96, 80, (7, 7), (1, 1)), "uneven": (1, 64, 64, (11, 18), (1, 1)),
    "two images": (2, 64, 40, (12, 10), (1, 1)), "no border": (1, 80, 64, (13, 12), (0, 0)), "a border of two": (1, 64, 48, (8, 8), (2, 0)),
}  # fmt: skip


@pytest.fixture
def caches(monkeypatch):
    """This machine's vectors with caches that hold the weights of these tests, and two cores. Where packed weights take more than half of
    the second cache, which a core of Zen 3 has 512 KB of, two tiles read them again and three kernels have the lower price."""
    price_for(monkeypatch, this_machine(cores=2, l1=48 << 10, l2=2 << 20, l3=32 << 20))


@pytest.mark.parametrize("shape", SIZES.values(), ids=SIZES)
def test_short_convolutions_take_fewer_products(shape, caches):
    program, one, error = run(block(*shape), threads=1)
    assert error < 2e-6
    assert "convolution/winograd" in program.explain()
    assert next(k.ops.count("einsum") for k in program.kernels) == 2  # both transforms and the product are one kernel
    np.testing.assert_array_equal(one, run(block(*shape), threads=2)[1])
    direct, two, less = run(block(*shape), exact=True)
    assert all("einsum" not in k.ops for k in direct.kernels) and less < 2e-6
    assert np.abs(one - two).max() < 4e-6 * np.abs(two).max()


@pytest.mark.parametrize("shape", SIZES.values(), ids=SIZES)
def test_short_convolutions_are_right_in_the_kernels_that_this_machine_takes(shape):
    """One, two or three of them, as its caches and cores have it; the same bytes on one thread and two."""
    _, one, error = run(block(*shape), threads=1)
    assert error < 2e-6
    np.testing.assert_array_equal(one, run(block(*shape), threads=2)[1])


@pytest.mark.skipif(facts().vector_bytes < HOSTS["xeon"].vector_bytes, reason="vectors of 64 bytes are asked for")
def test_results_between_links_lie_with_their_longest_axis_last(monkeypatch):
    price_for(monkeypatch, cpu_chip("xeon"))  # another make, or two threads, may choose three kernels
    program, _, error = run(block(1, 128, 128, (14, 14), (1, 1)), threads=1)
    source = program.source()
    assert error < 2e-6 and "vf_store(&acc[" in source and "vf_scatter(&acc" not in source
    assert "__builtin_prefetch(next" in source  # the next panel of weights, also where lines of tiles are the rows
    assert "runs over both" in source  # lines and columns of the image are one axis of rows


@pytest.mark.parametrize("shape", [(37, 12, 130, 75), (5, 300, 64, 16), (64, 16, 16, 200)], ids=str)
def test_chains_of_products(shape):
    """relu((x @ a) @ b): one kernel where one of the sums has few terms."""
    m, k, n, o = shape
    rng, b = np.random.default_rng(0), Builder("chain")
    x = b.input("x", TensorType(F32, (m, k)))
    y = b.op("matmul", x, b.param("a", (rng.standard_normal((k, n)) / k**0.5).astype("f4")))
    b.output("y", b.op("relu", b.op("matmul", y, b.param("b", (rng.standard_normal((n, o)) / n**0.5).astype("f4")))))
    program, _, error = run(b.graph())
    assert error < 2e-6 and (len(program.kernels) == 1) == (min(k, n) <= 16)


@pytest.mark.parametrize(("c", "o", "size", "apart"), [(1024, 96, 5, True), (64, 96, 7, False), (1024, 64, 16, False)])
def test_lanes_run_along_channels_where_an_image_fills_too_few(c, o, size, apart):
    """25 results fill 78 % of four vectors: long sums take whole vectors of channels and store them apart; 256 fill all."""
    rng, b = np.random.default_rng(0), Builder("pointwise")
    x = b.input("x", TensorType(F32, (1, c, size, size)))
    w = b.param("w", (rng.standard_normal((o, c, 1, 1)) / c**0.5).astype("f4"))
    y = b.op("conv", x, w, strides=(1, 1), lo=(0, 0), hi=(0, 0), dilations=(1, 1), groups=1)
    b.output("y", b.op("max", b.op("add", y, b.input("r", y.type)), b.const(0.0, F32)))
    program, one, error = run(b.graph())
    assert error < 2e-6 and ("vf_scatter" in program.source()) == apart
    np.testing.assert_array_equal(one, run(b.graph(), threads=2)[1])


@pytest.mark.parametrize("residual", [True, False])
def test_a_residual_is_asked_for_before_the_products(residual):
    rng, b = np.random.default_rng(0), Builder("residual")
    x = b.input("x", TensorType(F32, (45, 64)))
    y = b.op("matmul", x, b.param("w", (rng.standard_normal((64, 96)) / 8).astype("f4")))
    b.output("y", b.op("add", y, b.input("r", y.type) if residual else b.param("b", rng.standard_normal(96).astype("f4"))))
    program, _, error = run(b.graph())
    assert error < 2e-6
    source = program.source()
    asked = source.count(", 1, 3);")  # for writing
    assert (asked > 0) == residual and (not residual or source.index(", 1, 3);") < source.index("for (long kk"))


def test_a_convolution_that_overlapping_windows_would_repeat_stands_alone():
    """Input transforms of 4 x 4 places every 2: a convolution in front of them in one kernel would be computed about four times."""
    rng, b = np.random.default_rng(0), Builder("down")
    y = b.input("x", TensorType(F32, (1, 64, 14, 14)))
    for name, c, stride in (("w", 64, 2), ("v", 128, 1)):
        w = b.param(name, (rng.standard_normal((128, c, 3, 3)) / (9 * c) ** 0.5).astype("f4"))
        y = b.op("relu", b.op("conv", y, w, strides=(stride, stride), lo=(1, 1), hi=(1, 1), dilations=(1, 1), groups=1))
    b.output("y", y)
    program, _, error = run(b.graph(), threads=1)
    assert error < 2e-6 and all(k.ops.count("conv") <= 1 for k in program.kernels)


@pytest.mark.parametrize(("op", "window", "stride"), [("maxpool", 3, 2), ("sumpool", 2, 2), ("depthwise", 5, 2), ("depthwise", 3, 3)])
def test_lanes_run_along_results_of_windows(op, window, stride):
    """Not along a window's few columns, where no vector is whole."""
    rng, b = np.random.default_rng(0), Builder("windows")
    x = b.input("x", TensorType(F32, (1, 12, 29, 53)))
    around = {"strides": (stride, stride), "lo": (1, 1), "hi": (0, 1), "dilations": (1, 1)}
    if op == "depthwise":
        w = b.param("w", rng.standard_normal((12, 1, window, window)).astype("f4"))
        y = b.op("relu", b.op("conv", x, w, groups=12, **around))
    else:
        y = b.op(op, b.op("relu", b.op("add", x, b.input("z", TensorType(F32, (12, 1, 1))))), window=(window, window), **around)
    b.output("y", y)
    program, _, error = run(b.graph(), threads=1)
    assert error < 1e-6 and len(program.kernels) == 1
    assert "vf_strided" in program.kernels[0].source


def test_a_computed_factor_keeps_its_weights_packed_and_runs_along_the_columns():
    """A gate in front of a 1 x 1 convolution: the depth is not cut where nothing is gained (weights would be packed in every call), and
    lanes run where the image lies, whatever the weights, which a product reads in panels, lie along."""
    rng, b = np.random.default_rng(0), Builder("gate")
    x, g = b.input("x", TensorType(F32, (1, 200, 9, 15))), b.input("g", TensorType(F32, (1, 200, 1, 1)))
    w = b.param("w", (rng.standard_normal((48, 200, 1, 1)) / 14).astype("f4"))
    b.output("y", b.op("conv", b.op("mul", x, g), w, strides=(1, 1), lo=(0, 0), hi=(0, 0), dilations=(1, 1), groups=1))
    program, _, error = run(b.graph(), threads=1)
    source = program.kernels[0].source
    assert error < 1e-6 and len(program.kernels) == 1
    assert "_pack_in2(" in source and "vf_scatter" not in source


def test_a_term_of_windows_shares_the_loops_of_its_sum():
    """An activation that is used twice in front of a depthwise convolution is no array of all windows."""
    rng, b = np.random.default_rng(0), Builder("swish")
    x = b.op("add", b.input("x", TensorType(F32, (1, 10, 28, 40))), b.input("z", TensorType(F32, (10, 1, 1))))
    y = b.op("mul", x, b.op("min", b.op("max", x, b.const(0.0, F32)), b.const(6.0, F32)))
    w = b.param("w", rng.standard_normal((10, 1, 3, 3)).astype("f4"))
    b.output("y", b.op("conv", y, w, strides=(2, 2), lo=(1, 1), hi=(1, 1), dilations=(1, 1), groups=10))
    program, _, error = run(b.graph(), threads=1)
    assert error < 1e-6 and all("scatter" not in k.source for k in program.kernels)


@pytest.mark.parametrize(("outputs", "side", "joined"), [(16, 15, False), (64, 31, False), (256, 7, True)])
def test_lines_share_panels_where_that_pays_for_gathers(outputs, side, joined):
    """Columns of several lines in one panel are gathered: for many products of each, and lines that leave many lanes empty."""
    rng, b = np.random.default_rng(0), Builder("lines")
    x = b.input("x", TensorType(F32, (1, 6, 2 * side, 2 * side)))
    w = b.param("w", (rng.standard_normal((outputs, 6, 3, 3)) / 7).astype("f4"))
    b.output("y", b.op("conv", x, w, strides=(2, 2), lo=(1, 1), hi=(0, 0), dilations=(1, 1), groups=1))
    program, _, error = run(b.graph(), threads=1)
    assert error < 1e-6 and ("gather" in program.kernels[0].source) == joined


@pytest.mark.parametrize("dtype", ["u8", "i8", "i16"])
def test_pools_of_small_integers_run_in_lanes(dtype):
    pool = "maxpool(x, window=[3, 3], strides=[2, 2], dilations=[1, 1], lo=[1, 1], hi=[1, 1])"
    program = autocomp.optimize(f"graph g\ninput x: {dtype}[2, 3, 19, 37]\n%0 = {pool}\noutput y = %0\n", cache=False)
    assert "vi_max(" in program.source()
    kind = np.dtype({"u8": np.uint8, "i8": np.int8, "i16": np.int16}[dtype])
    program.verify({"x": np.random.default_rng(7).integers(np.iinfo(kind).min, 100, (2, 3, 19, 37)).astype(kind)})


@pytest.mark.parametrize(("side", "window", "stride", "dilation", "lo", "hi"), [
    ((21, 50), 3, 1, 1, 1, 1), ((9, 67), 5, 1, 1, 2, 2), ((33, 97), 3, 2, 1, 1, 0), ((20, 61), 3, 1, 2, 2, 2), ((5, 80), 7, 1, 1, 3, 3),
    ((40, 35), 3, 2, 1, 0, 3),
])  # fmt: skip
def test_windows_inside_of_an_image_are_read_without_masks(side, window, stride, dilation, lo, hi):
    """And those at its edges with them: every element right, at sizes where the last vector is a part of one."""
    two = lambda n: [n, n]
    attrs = f"strides={two(stride)}, dilations={two(dilation)}, lo={two(lo)}, hi={two(hi)}"
    text = (f"graph g\ninput x: f32[1, 3, {side[0]}, {side[1]}]\nparam w: f32[3, 1, {window}, {window}] = random(3)\n"
            f"%0 = conv(x, w, {attrs}, groups=3)\n%1 = maxpool(x, window={two(window)}, {attrs})\noutput y = %0\n"
            "output z = %1\n")  # fmt: skip
    program = autocomp.optimize(text, cache=False, without=("directives/stage-windows",))  # else a buffer has the borders
    loads = [line for line in program.source().splitlines() if "&in0[" in line and "r1" in line]
    assert any("_where(" in line for line in loads)
    assert any("_where(" not in line for line in loads)
    assert program.verify().ratio <= 1


def test_steps_of_two_go_along_the_lines_of_an_image():
    """Panels of one line follow each other, so that no line of results is written in parts far from each other in time."""
    b = Builder("steps")
    x, w = b.input("x", TensorType(F32, (1, 3, 40, 111))), b.param("w", np.ones((64, 3, 3, 3), "f4"))
    b.output("y", b.op("conv", x, w, strides=(2, 2), lo=(0, 0), hi=(0, 0), dilations=(1, 1)))
    text = autocomp.optimize(b.graph(), target="cpu", cache=False, threads=1).source()
    assert 0 < text.index("for (long i1 = 0") < text.index("for (long i2_p = 0")
