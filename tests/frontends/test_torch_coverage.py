"""A part of PyTorch's own table of sample inputs: nothing wrong, nothing crashes, and what was right stays so.

`python -m benchmarks.torch_coverage` runs all of it.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

from benchmarks.apart import Worker  # noqa: E402
from benchmarks.torch_coverage import _same_order, difference, judging, spread  # noqa: E402

RIGHT = {  # operator, dtype -> how many of at most three samples are right at least
    ("index_add", "f32"): 3, ("scatter_reduce.amax", "i64"): 3,
    ("scatter_reduce.mean", "i64"): 3,
    ("index_reduce.mean", "f32"): 3, ("index_reduce.amin", "f16"): 3, ("sort", "bf16"): 3,
    ("slice_scatter", "bool"): 3, ("median", "f16"): 3,
    ("nn.functional.grid_sample", "f32"): 2, ("softmax", "f16"): 3, ("var_mean", "f32"): 3,
    ("fft.irfft", "bool"): 3,
}  # fmt: skip


@pytest.fixture(scope="module")
def worker():
    """A process of its own: torch's table, once imported, forbids to set flags of torch.backends."""
    found = Worker(judging, (True,), 60.0)
    yield found
    found.stop()


@pytest.mark.parametrize(("name", "dtype"), RIGHT)
def test_samples(worker, name, dtype):
    alive, rows = worker.judge((name, dtype, 3))
    assert alive, rows
    count = Counter(outcome for outcome, _, _ in rows)
    assert not count["wrong"] and not count["crashed"], rows
    assert count["generated"] >= RIGHT[name, dtype], rows


def test_a_wrong_result_is_noticed():
    want = torch.tensor([1.0, float("nan"), -0.5])
    assert not difference(np.array([1.0, np.nan, -0.5], "f4"), want, want.double())
    assert "1 of 3 elements differ, at [2]" in difference(np.array([1.0, np.nan, -0.6], "f4"), want, want.double())
    assert "elements differ" in difference(np.array([np.nan, np.nan, -0.5], "f4"), want, None)
    assert "torch has float32" in difference(np.array([1.0, np.nan, -0.5]), want, None)
    assert "torch has [3]" in difference(np.zeros((1, 3), "f4"), want, None)


def test_samples_are_spread():
    assert spread(3, 5) == [0, 1, 2] and spread(100, 3) == [0, 50, 99] and spread(100, 1) == [0]


def test_an_index_of_one_of_equal_elements():
    x = np.array([[3, 1, 3], [2, 5, 2]])
    assert _same_order(x, np.array([0, 2]), np.array([2, 0])) and not _same_order(x, np.array([1, 2]), np.array([2, 0]))
