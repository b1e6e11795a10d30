"""Products of bytes whose last column is alone in its vector: its lanes are rows (49 places of an image are 3 vectors and one)."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from autocomp.cost.cores import lone_column, register_tile
from autocomp.cost.host import facts
from autocomp.ir.reference import evaluate
from autocomp.ir.types import I8, U8
from tests.helpers.repeats import by_turns
from tests.targets.test_cpu_words import run, windows

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip


def kernel(size, k, o=45, c=36, images=1, **types):
    return windows(images, c, o, size, (k, k), (1, 1), (1, 1), (k // 2, k // 2), (k // 2, k // 2), 1, "nchw", ends=True, **types)


@pytest.mark.parametrize(("image", "weights"), [(U8, I8), (I8, I8), (I8, U8), (U8, U8)], ids=str)
@pytest.mark.parametrize("k", [1, 3])
def test_rows_are_the_lanes_of_a_last_column(k, image, weights):
    graph, x = kernel((7, 7), k, image=image, weights=weights)
    want = evaluate(graph, {"x": x})["y"]
    program, got = run(graph, x, threads=1)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got, run(graph, x, threads=2)[1])
    assert "vi lone0" in program.source() or facts().vector_bytes < 64  # narrower vectors may share 49 columns otherwise
    less, same = run(graph, x, threads=1, without=["directives/lone-column"])
    assert "lone0" not in less.source() and "lone_column" not in less.kernels[0].schedule
    np.testing.assert_array_equal(same, want)


@pytest.mark.parametrize(("size", "o"), by_turns([(1, 17), (3, 11), (5, 13), (1, 1), (9, 9), (7, 8)], [1, 5, 64]))
def test_columns_of_all_numbers(size, o):
    graph, x = kernel(size, 3, o, 8, images=2)
    np.testing.assert_array_equal(run(graph, x, threads=1)[1], evaluate(graph, {"x": x})["y"])


def test_a_lone_column_is_priced_as_one_operation_for_all_rows():
    assert [n for n in range(1, 70) if lone_column(n, 64, 16)] == [17, 33, 49, 65]
    assert not lone_column(129 + 63 * 16, 16, 16)  # panels of one vector all run alike
    plain, lone = register_tile(512, 49, 16, 32)[2], register_tile(512, 49, 16, 32, True)[2]
    assert lone > 1.15 * plain and register_tile(512, 50, 16, 32, True) == register_tile(512, 50, 16, 32)
