"""Sums at indices that data give, by atomics on CUDA, on the model of the device."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.goldens import sums

TYPES = {"f32": "f4", "f16": "f2", "bf16": ml_dtypes.bfloat16, "f64": "f8", "i32": "i4", "i64": "i8"}
TURNS = ["scattering/rows-add", "scattering/elements-add"]
pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def rows(dtype, index, n, width, size, more=""):
    """Graph text: updates of `n` rows added to `size` rows."""
    lines = f"graph g\ninput x: {dtype}[{size}{width}]\ninput i: {index}[{n}, 1]\ninput u: {dtype}[{n}{width}]\n"
    return f'{lines}%0 = scatter_nd(x, i, u, reduction="add")\n{more}output y = %0'


def elements(dtype, shape, axis, size):
    """Graph text: updates with an index each."""
    whole = ", ".join(str(size if k == axis else d) for k, d in enumerate(shape))
    each = ", ".join(map(str, shape))
    lines = f"graph g\ninput x: {dtype}[{whole}]\ninput i: i64[{each}]\ninput u: {dtype}[{each}]\n"
    return f'{lines}%0 = scatter_elements(x, i, u, axis={axis}, reduction="add")\noutput y = %0'


def compiled(text, tmp_path, model, chip="h200"):
    program = autocomp.optimize(text, target=f"cuda:{chip}", without=TURNS)
    assert "sum_at" in [c.kernel.opaque for c in program.calls.calls]
    program.executor = ModelExecutor(program, tmp_path, model)
    return program


def test_the_text_is_as_it_was():
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_sums_at.py  writes the file anew."""
    (source,) = sums().printed.values()  # neither a copy of the indices nor of widened updates
    path = Path(__file__).parents[1] / "golden" / "cuda" / "sum_at.h200.cu"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(source.text)
    assert source.text == path.read_text()


CASES = [  # graph, type, rows or places of the result
    (rows("f32", "i64", 2100, ", 3", 40), "f32", 40),  # one element a lane, more than one block
    (rows("f32", "i32", 70, ", 4, 9", 5), "f32", 5),  # four at once, rows of several axes
    (rows("f64", "i64", 33, ", 8", 6), "f64", 6),
    (rows("i32", "i64", 500, "", 7), "i32", 7),
    (rows("i64", "i32", 40, ", 2", 1), "i64", 1),
    (rows("bf16", "i64", 90, ", 12", 11), "bf16", 11),
    (elements("f32", (50, 6), 0, 9), "f32", 9),
    (elements("f16", (3, 40, 2), 1, 8), "f16", 8),
    (elements("i32", (4, 30), 1, 3), "i32", 3),
]


def drawn_sums(program, text, dtype, size):
    """(inputs, sums in float64, how far the program's may be off)."""
    rng = fresh.rng()
    shape = {t: program.calls.tensors[t].shape for t in "xiu"}
    x, u = (rng.normal(size=shape[t]) * 9 for t in "xu")
    x, u = (v.astype(TYPES[dtype]) for v in (x, u))
    i = rng.integers(-size, size, shape["i"]).astype(TYPES[program.calls.tensors["i"].dtype.name])
    want = x.astype("f8" if dtype[0] != "i" else "i8")
    at = [i[:, 0]] if "scatter_nd" in text else list(np.indices(shape["i"]))
    if "scatter_elements" in text:
        at[int(re.search(r"axis=(\d)", text)[1])] = i
    np.add.at(want, tuple(at), u.astype(want.dtype))
    return {"x": x, "i": i, "u": u}, want, {"f32": 1e-4, "f64": 1e-10, "f16": 0.2, "bf16": 2.0}.get(dtype, 0)


@pytest.mark.parametrize(("text", "dtype", "size"), CASES)
def test_sums(text, dtype, size, model, tmp_path):
    program = compiled(text, tmp_path, model)
    inputs, want, bound = drawn_sums(program, text, dtype, size)
    np.testing.assert_allclose(program.run(inputs)["y"].astype(want.dtype), want, rtol=0, atol=bound)


def test_an_index_outside_adds_nothing_and_nan_stays_where_it_goes(model, tmp_path):
    program = compiled(rows("f32", "i64", 4, ", 4", 3), tmp_path, model)
    u = np.ones((4, 4), "f4")
    u[1] = np.nan
    got = program.run({"x": np.zeros((3, 4), "f4"), "i": np.array([[7], [1], [-1], [-4]]), "u": u})["y"]
    np.testing.assert_array_equal(got, np.array([[0] * 4, [np.nan] * 4, [1] * 4], "f4"))


def test_what_it_adds_to_is_zero_before(model, tmp_path):
    program = compiled(rows("f32", "i64", 4, ", 4", 3), tmp_path, model)
    ((name, source),) = [(n, s) for n, s in program.printed.items() if s.launch.zeroed]
    program.printed[name] = replace(source, launch=replace(source.launch, zeroed=()))
    program.executor = ModelExecutor(program, tmp_path, model)
    zeros = np.zeros((3, 4), "f4")
    got = program.run({"x": zeros, "i": np.array([[0], [1], [2], [0]]), "u": np.ones((4, 4), "f4")})["y"]
    assert not np.array_equal(got, np.array([[2] * 4, [1] * 4, [1] * 4], "f4"))


def test_older_chips_add_one_float_at_a_time():
    wide = lambda chip: re.search(r"ac_add_to<(\d)>", autocomp.optimize(rows("f32", "i64", 900, ", 64", 50), target=f"cuda:{chip}",
                                                                        without=TURNS).source())[1]  # fmt: skip
    assert (wide("a100"), wide("h200")) == ("1", "4")


def test_the_price_decides():
    """Few places wait for each other, and each takes its own updates sooner; an index for each of many elements is added where it goes."""
    coded = lambda text: any(c.kernel.opaque == "sum_at" for c in autocomp.optimize(text, target="cuda:h200").calls.calls)
    assert not coded(rows("f32", "i64", 1000000, "", 10))
    assert coded(rows("f32", "i64", 65536, ", 128", 1000)) and coded(elements("f32", (4096, 512), 0, 4096))
    small = autocomp.optimize(elements("f32", (40, 3), 0, 9), target="cuda:h200", without=["scattering/*-by-atomics"])
    assert not any(c.kernel.opaque for c in small.calls.calls)


@pytest.mark.parametrize("wrong", ['axis=2, size=3, dtype="f32"', 'axis=0, size=0, dtype="f32"', 'axis=0, size=3, dtype="f16"',
                                   'axis=1, size=3, dtype="f32"'])  # fmt: skip
def test_what_is_no_sum_is_refused(wrong):
    with pytest.raises(ModelError, match=r"sum_at|axis"):
        autocomp.optimize(f"graph g\ninput i: i64[4]\ninput u: f32[4, 3]\n%0 = sum_at(i, u, {wrong})\noutput y = %0", target="cuda:h200")


def test_open_sizes_are_refused():
    """The kernel's numbers are those of one size."""
    text = 'graph g\ndim n in 1..64\ninput i: i64[n]\ninput u: f32[n, 3]\n%0 = sum_at(i, u, axis=0, size=3, dtype="f32")\noutput y = %0'
    with pytest.raises(UnsupportedOp, match="symbolic dimensions"):
        autocomp.optimize(text, target="cuda:h200")
