"""Rows whose axes a view merges with others: normalised groups of channels are stored as the image has them, by one kernel."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeating
from tests.targets.test_on_cpu_model import check


def grouped(shape: tuple[int, ...], groups: int, rows: str, dtype: str = "f32", behind: str = "%9 = mul(%8, w)") -> str:
    """A group's elements less their mean over their deviation, as the image lies, with what follows. `rows`: shape of the groups."""
    n, c, *places = shape
    axes = list(range(2, 2 + rows.count(",") + 1))
    count = c // groups * int(np.prod(places))
    return graph({"x": f"{dtype}[{', '.join(map(str, shape))}]", "w": f"{dtype}[{c}{', 1' * len(places)}]"}, f"""
        %0 = reshape(x, shape=[{n}, {groups}, {rows}])
        %1 = reduce_sum(%0, axes={axes}, keepdims=True)
        %2 = mul(%1, const({1 / count}, {dtype}))
        %3 = sub(%0, %2)
        %4 = mul(%3, %3)
        %5 = reduce_sum(%4, axes={axes}, keepdims=True)
        %6 = add(%5, const(0.01, {dtype}))
        %7 = div(%3, %6)
        %8 = reshape(%7, shape={list(shape)})
        {behind}""")


CASES = {
    "channels of a group by themselves": grouped((3, 12, 5, 7), 4, "3, 35"),
    "all elements of a group": grouped((2, 6, 9), 3, "18"),
    "a result beside it": grouped((2, 10, 4, 3), 5, "24", behind="%9 = add(%8, x)"),
    "one channel a group": grouped((2, 6, 11), 6, "11"),
    "one group": grouped((3, 4, 6), 1, "24"),
}


@pytest.mark.parametrize(("name", "target"), repeating(product(CASES, ["cpu", "cuda:h200", "maca:c500"]), {
    (n, "maca:c500"): "cuda:h200" for n in CASES if n != "a result beside it"}))  # fmt: skip
def test_groups_are_one_kernel(name, target, model, tmp_path):
    program = autocomp.optimize(CASES[name], target=target)
    assert len(program.kernels) == 1, [k.ops for k in program.kernels]
    if target == "cpu":
        program.verify(seed=1)
    elif COMPILER:
        check(program, model, tmp_path)


def test_another_sum_over_other_rows_stays_behind():
    """Rows of the image are no rows of its groups: their sum reads what is stored."""
    text = grouped((2, 6, 9), 3, "18", behind="%9 = reduce_sum(%8, axes=[2])")
    program = autocomp.optimize(text, target="cuda:h200")
    assert len(program.kernels) == 2


def test_a_view_that_takes_rows_apart_is_refused():
    """The reshape puts the end of one group and the start of another into one row of three."""
    text = grouped((2, 6, 10), 2, "30", behind="%9 = reshape(%8, shape=[2, 3, 20])\n%10 = mul(%9, const(2.0, f32))")
    program = autocomp.optimize(text, target="cpu")
    assert len(program.kernels) == 2
    program.verify(seed=2)
