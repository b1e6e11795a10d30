"""Writes whose places depend on data: on GPUs each element asks which updates are meant for it."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError
from autocomp.simulate.program import simulated
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeating

NUMPY = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def elements(dtype, x, i, axis, reduction):
    return graph({"x": f"{dtype}{list(x)}", "i": f"i64{list(i)}", "u": f"{dtype}{list(i)}"},
                 f'%0 = scatter_elements(x, i, u, axis={axis}, reduction="{reduction}")')  # fmt: skip


def rows(dtype, x, count, reduction):
    return graph({"x": f"{dtype}{list(x)}", "i": f"i32[{count}, 1]", "u": f"{dtype}{[count, *x[1:]]}"},
                 f'%0 = scatter_nd(x, i, u, reduction="{reduction}")')  # fmt: skip


CASES = [
    (elements, "f32", (37, 5), (50, 5), 0, "add"),
    (elements, "f16", (3, 40), (3, 11), 1, "max"),
    (elements, "i32", (6, 9, 2), (6, 4, 2), 1, "mul"),
    (elements, "f32", (20, 3), (31, 3), 0, "none"),
    (rows, "f32", (37, 6), 90, None, "add"),
    (rows, "i32", (12,), 30, None, "min"),
    (rows, "f32", (14, 5), 25, None, "none"),
    (rows, "f32", (1, 4), 1, None, "none"),
]


def feed(program, n):
    rng, out = fresh.rng(), {}
    for a in program.graph.inputs:
        t, name = a.type, a.attrs["name"]
        v = rng.integers(-n, n, t.shape) if name == "i" else rng.integers(-3, 4, t.shape) * (1 if t.dtype.is_int else 0.5)
        out[name] = v.astype(t.dtype.numpy)
    return out


def expected(x, i, u, axis, reduction):
    """One update after the other."""
    y = x.astype("f8")
    for at in np.ndindex(u.shape if axis is not None else i.shape[:1]):
        to = (int(i[at[0], 0]),) if axis is None else (*at[:axis], int(i[at]), *at[axis + 1 :])
        y[to] = u[at] if reduction == "none" else NUMPY[reduction](y[to], u[at].astype("f8"))
    return y


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("make", "dtype", "x", "i", "axis", "reduction"), CASES)
def test_scatters_on_gpus(make, dtype, x, i, axis, reduction, model, tmp_path):
    """Indices come twice, and count from the end where they are negative."""
    text = make(dtype, x, i, *(() if axis is None else (axis,)), reduction)
    program = autocomp.optimize(text, target="cuda:h200")
    assert not any(c.kernel.opaque for c in program.calls.calls)
    assert any(c.kernel.opaque for c in autocomp.optimize(text, target="cuda:h200", without=["scattering/*"]).calls.calls)
    program.executor = ModelExecutor(program, tmp_path, model)
    given = feed(program, x[axis or 0])
    (got,) = program.run(given).values()
    want = expected(given["x"], given["i"], given["u"], axis, reduction)
    np.testing.assert_allclose(got.astype("f8"), want, rtol=1e-3 if dtype == "f16" else 1e-6)


CPU = [
    *CASES,
    (elements, "bf16", (40, 70, 30), (40, 9, 30), 1, "add"),  # by all threads
    (elements, "i8", (4, 30, 700), (3, 20, 650), 1, "max"),  # indices of a part of the tensor, along rows
    (rows, "f64", (300, 80), 900, None, "add"),
]


@pytest.mark.parametrize(("make", "dtype", "x", "i", "axis", "reduction"), CPU)
def test_scatters_on_a_cpu(make, dtype, x, i, axis, reduction):
    program = autocomp.optimize(make(dtype, x, i, *(() if axis is None else (axis,)), reduction))
    given = feed(program, x[axis or 0])
    (got,) = program.run(given).values()
    np.testing.assert_array_equal(got.astype("f8"), expected(given["x"], given["i"], given["u"], axis, reduction))


def test_on_a_cpu_they_are_functions_of_the_target():
    """Which refuse an index that is outside."""
    program = autocomp.optimize(rows("f32", (5, 2), 3, "add"))
    assert program.calls.calls[0].kernel.coded and program.predicted > 0 and "pragma omp" in program.kernels[0].source
    with pytest.raises(ModelError, match="index 5 is outside of axis 0 of 5 elements"):
        program.run({"x": np.zeros((5, 2), "f4"), "i": np.array([[0], [5], [1]], "i4"), "u": np.zeros((3, 2), "f4")})


OTHERS = [(t, *CASES[k]) for t in ("ascend:910b1", "ascend:310p", "ascend:950pr", "maca:c600") for k in (0, 2, 4, 6)]
OF_ITS_OWN = {0, 1, 2, 3, 5, 10, 15}  # all on one chip, one on each other


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("target", "make", "dtype", "x", "i", "axis", "reduction"), repeating(
    OTHERS, {c: "ascend:910b1" for k, c in enumerate(OTHERS) if k not in OF_ITS_OWN}))  # fmt: skip
def test_scatters_on_other_chips(make, dtype, x, i, axis, reduction, target):
    """By the same comparisons where a chip has no function for them or that is dearer, so that such programs have a launcher."""
    program = autocomp.optimize(make(dtype, x, i, *(() if axis is None else (axis,)), reduction), target=target)
    assert not any(c.kernel.by_reference for c in program.calls.calls)
    with simulated(program):
        given = feed(program, x[axis or 0])
        (got,) = program.run(given).values()
    np.testing.assert_allclose(got.astype("f8"), expected(given["x"], given["i"], given["u"], axis, reduction), rtol=1e-6)
