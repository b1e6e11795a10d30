"""Loops of CPU kernels that run apart over ranges in which conditions are decided (directive `index_set_split`); rows read backwards."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from tests.helpers import fresh

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip
BOTH = "input x: {0}[5, 47]\ninput y: {0}[5, 70]\n"
FORMS = {  # what is computed, how many ranges the innermost loop has
    "two": (BOTH + "%0 = concat(x, y, axis=1)", 2),
    "three, one mapped": (BOTH + "%1 = neg(x)\n%0 = concat(x, y, %1, axis=1)", 3),
    "an empty part": (BOTH + "%1 = slice(y, starts=[0, 9], limits=[5, 9], steps=[1, 1])\n%0 = concat(x, %1, y, axis=1)", 2),
    "padded": ("input x: {0}[5, 87]\n%0 = pad(x, lo=[0, 3], hi=[0, 2], value=1.5)", 3),
    "padded lines too": ("input x: {0}[3, 5, 87]\n%0 = pad(x, lo=[1, 1, 20], hi=[0, 2, 0], value=-2.0)", 2),
    "narrow": ("input x: {0}[5, 11]\n%0 = pad(x, lo=[0, 1], hi=[0, 1], value=0.0)", 0),
    "many": (BOTH + "%0 = concat(x, y, x, y, x, y, axis=1)", 0),
    "other axis": (BOTH.replace("70", "47") + "%0 = concat(x, y, axis=0)", 0),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["f32", "f16", "u8"])
def test_results_and_ranges(form, kind):
    lines, count = FORMS[form]
    for what, of_bytes in (("value=1.5", "value=3"), ("value=-2.0", "value=7"), ("value=0.0", "value=0"), ("neg(x)", "max(x, x)")):
        lines = lines.replace(what, of_bytes) if kind == "u8" else lines
    g = parse("graph g\n" + lines.format(kind) + "\noutput out = %0\n")
    rng = fresh.rng()
    feed = {i.attrs["name"]: rng.integers(-99 if kind != "u8" else 0, 99, i.type.shape).astype({"f32": "f4", "f16": "f2", "u8": "u1"}[kind])
            for i in g.inputs}  # fmt: skip
    want = evaluate(g, feed)["out"]
    for without in ((), ("directives/index-set-split",)):
        program = autocomp.optimize(g, target="cpu", cache=False, threads=1, without=without)
        program.run(feed)["out"][...] = 55
        np.testing.assert_array_equal(program.run(feed)["out"].astype("f8"), want)
        split = any("index_set_split" in k.schedule for k in program.kernels)
        assert split == bool(count and not without)
        if split:
            assert program.source().count("_end = ") == count or count == 3  # a short range has no loop
    assert "no operation that is counted" in program.explain(why=program.kernels[0].name) or not count or without


@pytest.mark.parametrize("size", [16, 37, 200])
def test_rows_backwards(size):
    """A whole vector is loaded and turned; the last one, which is cut, is not."""
    x = np.random.default_rng(size).standard_normal((3, size)).astype("f4")
    program = autocomp.optimize(lambda x: x[:, ::-1] * np.float32(2), example_inputs=(x,), target="cpu", cache=False, threads=1)
    np.testing.assert_array_equal(program(x), x[:, ::-1] * 2)
    assert "vf_strided(" in program.source() and ", -1)" in program.source()
