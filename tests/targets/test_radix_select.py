"""The first of long orders on CUDA: the last key that is wanted is found by its bits, on the model of the device."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.simulate.compiler import ModelFailure
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.goldens import order

TYPES = {"bool": "?", "f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "f64": "f8", "i16": "i2", "i32": "i4", "i64": "i8",
         "i8": "i1", "u8": "u1", "u16": "u2", "u32": "u4"}  # fmt: skip
pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def drawn(rng, dtype, shape, tied):
    """Numbers of few values, or of any bits: both ends of the type, of floats NaN, infinities and both zeros among them."""
    t = np.dtype(TYPES[dtype])
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype[0] in "iu":
        info = np.iinfo(t)
        x = rng.integers(info.min, info.max, shape, dtype=t, endpoint=True)
        return np.where(rng.random(shape) < tied, rng.choice(np.array([info.min, info.max, 3, 4], t), shape), x)
    x = rng.normal(size=shape).astype(t)
    ends = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5]).astype(t)
    return np.where(rng.random(shape) < tied, rng.choice(ends, shape), x)


def ordered(x, k, axis, largest):
    """Places of the first k: NaN is the largest, zeros are equal, equal ones stay as they stood."""
    y = x.astype("f8") + 0 if np.dtype(x.dtype).kind not in "iub" else x
    rank = np.searchsorted(np.unique(y), y, side="left")  # np.unique sorts NaN behind all, and searchsorted finds it there
    return np.take(np.argsort(-rank if largest else rank, axis=axis, kind="stable"), np.arange(k), axis=axis)


def text(dtype, shape, k, axis, largest, parts=("values", "indices")):
    lines = "".join(f'%{p[0]} = topk(x, k={k}, axis={axis}, largest={largest}, part="{p}")\n' for p in parts)
    return f"graph g\ninput x: {dtype}[{', '.join(map(str, shape))}]\n{lines}" + "".join(f"output {p} = %{p[0]}\n" for p in parts)


def test_the_text_is_as_it_was():
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_radix_select.py  writes the file anew."""
    (source,) = order().printed.values()
    path = Path(__file__).parents[1] / "golden" / "cuda" / "radix_topk.h200.cu"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(source.text)
    assert source.text == path.read_text()


CASES = [  # type, shape, k, axis, largest, share of values that are equal to many
    ("f32", (5, 37), 17, 1, True, 0.3),  # warps: five rows by four, the last block has one
    ("f16", (2, 512), 32, 1, False, 0.9),
    ("bf16", (18, 3), 18, 0, True, 0.5),  # all of a row, whose elements are apart
    ("u8", (3, 200), 64, 1, True, 0.2),
    ("bool", (2, 70), 20, 1, True, 0.0),
    ("i64", (3, 40), 5, 1, False, 0.3),
    ("f64", (1, 600), 1, 1, True, 0.3),
    ("f32", (1, 1700), 1000, 1, True, 0.0),  # a block
    ("f64", (2, 700, 2), 33, 1, False, 0.4),
    ("i64", (1, 2000), 128, 1, True, 0.1),
    ("i32", (2, 600), 600, 1, False, 0.9),
    ("i8", (2, 900), 17, 1, False, 0.5),
    ("u16", (1, 4000), 200, 1, True, 0.0),
    ("u32", (1, 5000), 20, 1, False, 0.0),
    ("f32", (1, 24600), 40, 1, True, 0.0),  # more than registers hold: the threads' first keys leave few
    ("f32", (1, 24600), 900, 1, False, 0.9),  # and too many
    ("i64", (1, 13000), 1100, 1, True, 0.0),  # more than there are threads
]


@pytest.mark.parametrize(("dtype", "shape", "k", "axis", "largest", "tied"), CASES)
def test_the_first_of_rows(dtype, shape, k, axis, largest, tied, model, tmp_path):
    program = autocomp.optimize(text(dtype, shape, k, axis, largest), target="cuda:h200", without=["ordering/ranks*"])
    assert [c.kernel.opaque for c in program.calls.calls if c.kernel.opaque] == ["radix_topk"] and program.predicted < 1e-3
    program.executor = ModelExecutor(program, tmp_path, model)
    x = drawn(fresh.rng(), dtype, shape, tied)
    got, places = program.run({"x": x}), ordered(x, k, axis, largest)
    np.testing.assert_array_equal(got["indices"], places)
    np.testing.assert_array_equal(got["values"].view(f"u{x.itemsize}"), np.take_along_axis(x, places, axis).view(f"u{x.itemsize}"))


@pytest.mark.parametrize(("shape", "axis", "k"), [("a, b, 40", 2, 18), ("a, 520, b", 1, 17)])
def test_leading_and_inner_sizes_may_be_open(shape, axis, k, model, tmp_path):
    """Rows of a warp, four a block, and of a block; their number and their distance are known when the kernel starts."""
    graph = f"graph g\ndim a in 1..64\ndim b in 1..64\ninput x: f32[{shape}]\n%0 = topk(x, k={k}, axis={axis})\noutput y = %0"
    program = autocomp.optimize(graph, target="cuda:h200", without=["ordering/ranks*"])
    assert any(c.kernel.coded for c in program.calls.calls)
    program.executor = ModelExecutor(program, tmp_path, model)
    for sizes in ({"a": "1", "b": "1"}, {"a": "3", "b": "2"}, {"a": "2", "b": "5"}):
        x = drawn(fresh.rng(), "f32", tuple(int(sizes.get(d, d)) for d in shape.split(", ")), 0.3)
        want = np.take_along_axis(x, ordered(x, k, axis, True), axis)
        np.testing.assert_array_equal(program.run({"x": x})["y"].view("u4"), want.view("u4"))


def test_rows_of_an_open_length_are_ordered_by_the_reference():
    graph = "graph g\ndim n in 30..64\ninput x: f32[4, n]\n%0 = topk(x, k=20, axis=1)\noutput y = %0"
    assert [c.kernel.opaque for c in autocomp.optimize(graph, target="cuda:h200").calls.calls] == ["topk"]


@pytest.mark.parametrize(
    ("shape", "k", "barrier"), [((1, 900), 20, i) for i in range(4)] + [((1, 600), 300, 3)] + [((2, 60), 20, i) for i in range(2)]
)
def test_each_barrier_is_needed(shape, k, barrier, model, tmp_path):
    """Of a sum, of places in front, before the network and in it; the model sees what nothing orders."""
    program = autocomp.optimize(text("f32", shape, k, 1, True, ("indices",)), target="cuda:h200", without=["ordering/ranks*"])
    ((name, source),) = program.printed.items()
    found = list(re.finditer(r"__syncthreads\(\);|ac_wave_sync\(\);", source.text))
    at = found[barrier]
    program.printed[name] = replace(source, text=source.text[: at.start()] + ";" + source.text[at.end() :])
    program.executor = ModelExecutor(program, tmp_path, model)
    with pytest.raises(ModelFailure):
        program.run({"x": drawn(fresh.rng(), "f32", shape, 0.2)})


@pytest.mark.parametrize(
    ("k", "dtype", "there"), [(16, "f32", False), (17, "f32", True), (1, "f64", True), (2048, "i64", True), (2049, "i64", True)]
)
def test_which_orders_are_written_so(k, dtype, there):
    """Up to 16 of at most 32 bits are found in turn; what is longer than the function's limit is sorted (`test_radix_sort.py`)."""
    n = 2100 if k > 1000 else 40
    program = autocomp.optimize(text(dtype, (1, n), k, 1, True, ("indices",)), target="cuda:a100", without=["ordering/ranks*"])
    assert any(c.kernel.coded for c in program.calls.calls) == there


def test_the_price_decides_against_ranks():
    """Few elements are counted sooner than a selection's steps pass one after the other."""
    assert not any(c.kernel.coded for c in autocomp.optimize(text("f32", (5, 37), 17, 1, True), target="cuda:h200").calls.calls)
    program = autocomp.optimize(text("f32", (932, 5360), 32, 1, True), target="cuda:h200")
    assert program.predicted < 1e-4 and "ordering/radix-select" in str(program.kernels[0].rules)


MEASURED = [  # values and places, us behind an overwritten L2, H200, NVRTC 13.0, 2026-11-27
    ("f32", (932, 5360), 32, 33.8),
    ("f32", (44345, 451), 32, 100.3),
    ("f16", (4096, 4096), 64, 82.2),
    ("bf16", (1024, 32000), 50, 197.6),
    ("f32", (132, 70000), 64, 50.8),
    ("f32", (8, 131072), 64, 56.4),
    ("f32", (2000, 1000), 1000, 114.9),
    ("f64", (300, 12000), 1000, 120.5),
    ("f32", (1, 1000), 64, 10.4),
    ("f16", (700, 24000), 2000, 213.2),
]


@pytest.mark.parametrize(("dtype", "shape", "k", "us"), MEASURED)
def test_prices_are_near_what_was_measured(dtype, shape, k, us):
    """Rows that registers hold and rows that are read again, few long ones, and networks over many: each is bound by something else."""
    program = autocomp.optimize(text(dtype, shape, k, 1, True), target="cuda:h200", without=["ordering/ranks*"])
    assert us / 1.5 < program.predicted * 1e6 < us * 1.5
