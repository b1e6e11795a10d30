"""Products of bytes into 32-bit integers on cube cores that are asked for products of floats: exact as long as sums stay below 2^24."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers.device_graphs import graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")


def product(left: str, right: str, depth: int) -> str:
    return graph({"x": f"{left}[33, {depth}]", "w": f"{right}[{depth}, 47]"},
                 '%0 = cast(x, to="i32")\n%1 = cast(w, to="i32")\n%2 = matmul(%0, %1)')


def ends(dtype: str) -> tuple[int, int]:
    info = np.iinfo(f"{dtype[0]}1")
    return info.min, info.max


@needs_compiler
@pytest.mark.parametrize(("left", "right", "depth"), [("i8", "i8", 1024), ("i8", "i8", 1030), ("u8", "u8", 300)])
def test_ends_of_bytes(left, right, depth, tmp_path):
    """At the greatest depth of one product, and beyond, where parts of the depth are summed as integers."""
    program = autocomp.optimize(product(left, right, depth), target="ascend:910b")
    assert "instruction scalar" not in program.source()
    program.executor = AscendExecutor(program, tmp_path)
    rng = np.random.default_rng(3)
    x, w = (rng.integers(*ends(t), shape, f"{t[0]}1", endpoint=True) for t, shape in ((left, (33, depth)), (right, (depth, 47))))
    x[0], w[:, 0] = ends(left)[0], ends(right)[0]
    x[1], w[:, 1] = ends(left)[1], ends(right)[1]
    (got,) = program.run({"x": x, "w": w}).values()
    np.testing.assert_array_equal(got, x.astype("i4") @ w.astype("i4"))


@pytest.mark.parametrize(("left", "right", "depth", "cube"), [("i8", "i8", 130, True), ("u8", "i8", 258, True), ("u8", "i8", 260, False),
                                                              ("i8", "i8", 1040, False)])  # fmt: skip
def test_the_rule_fires_where_single_precision_holds_the_sums(left, right, depth, cube):
    program = autocomp.optimize(product(left, right, depth), target="ascend:910b", without=["quantised/parts-of-integers-as-floats"])
    texts = "".join(s.text for s in program.printed.values())
    assert ("ac_mmad(" in texts) == cube and ("instruction scalar" in texts) != cube
