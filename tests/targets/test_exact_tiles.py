"""Thread-wise products over combined axes: a tile of 2 x 28 pixels is 56 rows of results, not 64, where threads' shares come out even."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.cost import lanes
from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.cost.tiles import tile_of
from autocomp.ir.schedule_text import parse
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import conv

CASES = {  # width, threads, tile; rows of results; registers of the accumulator
    "even": (28, 64, "i1 64, i2 2, i3 28", 56, "(i3,4,7)(i2,1,2)"),
    "waves down the image": (28, 128, "i1 32, i2 4, i3 28", 112, "(i3,4,7)"),
    "a digit would be cut": (30, 64, "i1 64, i2 2, i3 30", 64, "(i3,4,8)(i2,1,2)"),
}


def printed(case: str) -> tuple[autocomp.Program, str]:
    width, threads, tile, *_ = CASES[case]
    text = conv(f"f32[2, 20, 6, {width}]", "f32[64, 20, 3, 3]", pad=1, after="%o = relu(%c)")
    name = next(k.name for k in autocomp.optimize(text, target="cuda:h100", cache=False).kernels if "conv" in k.name)
    schedule = f"tile i0 1, {tile}, r0 1, r1 1, r2 8 | stages 3 | threads {threads}"
    program = autocomp.optimize(text, target="cuda:h100", cache=False, schedule={name: schedule})
    return program, program.printed[name].text


@pytest.mark.parametrize("case", CASES)
def test_rows_are_padded_only_where_a_digit_would_be_cut(case):
    (digits,) = re.findall(r"^ \* acc: reg (\S+)", printed(case)[1], re.MULTILINE)
    assert digits.endswith(CASES[case][-1])


@pytest.mark.parametrize("case", CASES)
def test_the_price_pads_as_the_text_does(case):
    program, _ = printed(case)
    kernel = next(c.kernel for c in program.calls.calls if "conv" in c.kernel.name)
    (text,) = (k.schedule for k in program.kernels if k.name == kernel.name)
    schedule, chip = parse(text), load_chip("h100")
    priced = tile_of(demand_of(kernel), dict(schedule.tile), chip, even=lanes.even(schedule, chip))
    assert priced.rows == CASES[case][3]


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("case", CASES)
def test_they_compute_the_same(case, model, tmp_path):
    program = printed(case)[0]
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=3)
