"""Writes at indices by vector cores, chunk by chunk (`targets/ascend/scatters.py`): right on the model, in the order of updates."""

from __future__ import annotations

import re

import numpy as np
import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FOLD = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
TYPES = {"f32": np.float32, "f16": np.float16, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
# (form, type, reduction): wide rows by vector instructions, narrow ones and single elements by the scalar unit
CASES = [("rows", "f32", "add"), ("rows", "f16", "max"), ("rows", "i64", "none"), ("rows", "i32", "mul"), ("tuples", "f16", "add"),
         ("tuples", "bool", "none"), ("along 0", "f32", "mul"), ("columns", "f16", "add"), ("along 1", "i32", "min")]  # fmt: skip


def drawn(rng, k, form, dtype, whole):
    """Inputs of a scatter, their text, and what makes it: places twice, from the end, more updates than places."""
    m, n, many = (int(x) for x in rng.integers((20, 17, 20), (60, 70, 90)))
    if form == "rows":
        index, shape = rng.integers(-m, m, (many, 1)), (many, n)
    elif form == "tuples":
        index, shape = np.stack([rng.integers(-m, m, many), rng.integers(-n, n, many)], 1), (many,)
    elif form == "columns":
        n = int(rng.integers(7, 10)) * (16 if whole else 11)
        index, shape = rng.integers(-m, m, (9, n)), (9, n)
    else:
        axis = int(form[-1])
        shape = (m, 9) if axis else (9, n)
        index = rng.integers(-(m, n)[axis], (m, n)[axis], shape)
    make = lambda s: rng.integers(-9, 9, s) if dtype[0] == "i" else rng.random(s) < 0.5 if dtype == "bool" else rng.standard_normal(s)
    feed = {f"x{k}": make((m, n)).astype(TYPES[dtype]), f"i{k}": index, f"u{k}": make(shape).astype(TYPES[dtype])}
    types = (f"{dtype}[{m}, {n}]", f"i64{list(index.shape)}", f"{dtype}{list(shape)}")
    return feed, "".join(f"input {name}: {t}\n" for name, t in zip(feed, types))


def along(form):
    return 0 if form == "columns" else int(form[-1])


def wanted(x, i, u, form, how):
    at = tuple(np.moveaxis(i, -1, 0)) if form in ("rows", "tuples") else None
    if at is None:
        at = tuple(i if a == along(form) else g for a, g in enumerate(np.indices(i.shape)))
    y = x.astype(np.float64) if x.dtype.kind == "f" else x.copy()
    if how == "none":
        y[at] = u
    else:
        FOLD[how].at(y, at, u.astype(y.dtype))
    return y


def program_of(cases, seed, chip):
    rng = np.random.default_rng(seed)
    feed, inputs, lines = {}, "", ""
    for k, (form, dtype, how) in enumerate(cases):
        given, text = drawn(rng, k, form, dtype, chip == "310p")
        feed, inputs = feed | given, inputs + text
        op = f"scatter_nd(x{k}, i{k}, u{k}, "
        if form not in ("rows", "tuples"):
            op = f"scatter_elements(x{k}, i{k}, u{k}, axis={along(form)}, "
        lines += f'%{k} = {op}reduction="{how}")\n'
    outputs = "".join(f"output o{k} = %{k}\n" for k in range(len(cases)))
    return autocomp.optimize(f"graph g\n{inputs}{lines}{outputs}", target=f"ascend:{chip}", without=["scattering/*"]), feed


@needs_compiler
@pytest.mark.parametrize("chip", ["310p", "910b1"])
def test_updates_are_written_in_their_order(chip, tmp_path):
    program, feed = program_of(CASES, fresh.seed(), chip)
    assert all(c.kernel.coded for c in program.calls.calls) and "k < first + n" in program.source()  # one by its columns
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    found = program.run(feed)
    for k, (form, dtype, how) in enumerate(CASES):
        want = wanted(feed[f"x{k}"], feed[f"i{k}"], feed[f"u{k}"], form, how)
        error = np.abs(found[f"o{k}"].astype(np.float64) - want.astype(np.float64)) / np.maximum(1, np.abs(want.astype(np.float64)))
        assert error.max() <= {"f32": 1e-5, "f16": 1e-3}.get(dtype, 0), (form, dtype, how)


@needs_compiler
@pytest.mark.parametrize(("how", "was"), [("add", r"(Set|Wait)Flag<HardEvent::V_MTE2>\(0\);"), ("none", r"PipeBarrier<PIPE_MTE2>\(\);")])
def test_an_update_that_does_not_wait_is_seen(how, was, tmp_path):
    program, feed = program_of([("rows", "f32", how)], 5, "910b1")
    assert re.search(was, program.source())
    program.executor = AscendExecutor(program, tmp_path, edit=lambda t: re.sub(was, "", t))
    with pytest.raises(ModelFailure, match="unordered"):
        program.run(feed)


@pytest.mark.parametrize(("width", "own"), [(4700, True), (16384, True), (16385, False)])
def test_a_place_is_no_longer_than_what_a_core_holds(width, own):
    text = (f'graph g\ninput x: f16[3, {width}]\ninput i: i64[2, 1]\ninput u: f16[2, {width}]\n'
            '%0 = scatter_nd(x, i, u, reduction="add")\noutput o = %0\n')  # fmt: skip
    for chip in ("310p", "910b1", "950pr"):
        assert autocomp.optimize(text, target=f"ascend:{chip}", without=["scattering/*"]).calls.calls[0].kernel.coded == own


def test_a_scatter_is_its_own_function_where_that_is_cheaper():
    """2000 updates of 4000 rows: each row asking each update took 779 us by price on 910B1; on 310P they ran through their reference."""
    text = ('graph g\ninput x: f32[4000, 64]\ninput i: i64[2000, 1]\ninput u: f32[2000, 64]\n'
            '%0 = scatter_nd(x, i, u, reduction="add")\noutput o = %0\n')  # fmt: skip
    for chip, most in (("910b1", 70e-6), ("310p", 400e-6)):
        program = autocomp.optimize(text, target=f"ascend:{chip}")
        assert [c.kernel.coded for c in program.calls.calls] == [True] and program.predicted < most
