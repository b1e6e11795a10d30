"""What is read of a tensor is what its indices name, in prices of kernels and of covers."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.cost.demand import demand_of
from autocomp.egraph.forms import comprehension_form
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, Comprehension, Map, Read
from autocomp.ir.types import DTYPES, TensorType

F32 = DTYPES["f32"]
LARGE = np.zeros((65536, 4096), "f4")


def predicted(f, *inputs, target="cuda:h200"):
    program = autocomp.optimize(f, target=target, example_inputs=inputs, verify=False)
    return sum(k.predicted for k in program.kernels), [demand_of(c.kernel).work.read for c in program.calls.calls]


@pytest.mark.parametrize("f, share", [
    (lambda x: x[:, :64] * 2, 64),
    (lambda x: x[::64] * 2, 64),
    (lambda x: x[:64].sum(-1), 1024),
    (lambda x: x[:64, ::2] + x[64:128, 1::2], 1024),
])  # fmt: skip
def test_a_slice_reads_its_part(f, share):
    _, read = predicted(f, LARGE)
    assert sum(read) == LARGE.nbytes / share


def test_a_slice_of_a_large_tensor_takes_the_time_of_its_part():
    part, _ = predicted(lambda x: x[:1024] * 2, LARGE)
    alone, _ = predicted(lambda x: x * 2, LARGE[:1024])
    assert part == pytest.approx(alone, rel=0.2)


@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500", "cpu"])
def test_a_lookup_reads_the_rows_it_asks_for(target):
    tokens = np.zeros(3, "i8")
    took, read = predicted(lambda t, x: np.take(x, t, axis=0) * 2, tokens, LARGE, target=target)
    assert sum(read) == 3 * 4096 * 4 + tokens.nbytes
    assert took < 2e-5  # the whole table takes 250 us of an H200's memory


def test_single_elements_that_are_looked_up_bring_sectors():
    places = np.zeros(100, "i8")
    _, read = predicted(lambda t, x: np.take(x, t), places, LARGE.reshape(-1))
    assert sum(read) == 100 * 32 + places.nbytes


def test_windows_read_all_and_several_reads_add_up():
    _, read = predicted(lambda x: x[:48] + x[16:], np.zeros((64, 128), "f4"))
    assert sum(read) == 64 * 128 * 4


def test_a_body_of_a_cover_reads_its_part():
    """A cover's price of a body over a slice is that of the slice: `cuts` multiplies the shares of the views that it reads through."""
    i, j = Axis("i", 64), Axis("j", 4)
    read = Read(F32, 0, (Aff.of("i") * 8, Aff.of("j")))
    comp = Comprehension((i, j), Map(F32, "exp", (read,)))
    form = comprehension_form(comp, (TensorType(F32, (512, 16)),), TensorType(F32, (64, 4)), "exp of a slice")
    assert form.shares == (64 * 4 / (512 * 16),)
