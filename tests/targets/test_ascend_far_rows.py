"""Rows of factors that lie farther apart than the copy to L1 can say in its field of 16 bits."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")


@needs_compiler
def test_far_rows_are_copied_one_by_one(tmp_path):
    """Rows of the first factor are not summed over, those of the second are; in half and in single precision."""
    given = {f"{v}_{d}": f"{d}[{n}, 65600]" for d in ("f16", "f32") for v, n in (("x", 35), ("w", 40))}
    lines = "\n".join(
        f"%a{d} = slice(x_{d}, starts=[0, 3], limits=[35, 43], steps=[1, 1])\n"
        f"%b{d} = slice(w_{d}, starts=[0, 8], limits=[40, 41], steps=[1, 1])\n%{d} = matmul(%a{d}, %b{d})"
        for d in ("f16", "f32"))  # fmt: skip
    text = graph(given, lines)
    text = text[: text.index("output")] + "output half = %f16\noutput single = %f32\n"
    program = autocomp.optimize(text, target="ascend:910b", without=["tiling/npu-scalar-*"])
    assert all("65600" in s.text for s in program.printed.values())
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())
