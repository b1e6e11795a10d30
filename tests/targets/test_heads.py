"""Attention by warpgroups for heads that are no multiple of 64: boxes reach further than the instructions read."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.errors import AutocompError
from autocomp.ir.schedule import Schedule
from autocomp.simulate.simt_model import ModelExecutor
from tests.helpers.device_graphs import attention

NAME = "matmul_mul_softmax_weighted_sum"


def by_hand(width: int, rows: int = 128) -> str:
    tile = f"tile i0 1, i1 {rows}, i2 {width}, r1 64"
    return f"{tile} | stages 2 | softmax_overlap 1 | rescale_threshold 14 | warp_specialise {rows // 64} | persistent"


@pytest.mark.parametrize("width", [40, 72, 112])
def test_heads_of_eights_compute_their_graph(width, model, tmp_path):
    """72: the depth of the scores ends in the middle of an instruction's step, behind which the dimension's end makes zeros."""
    program = autocomp.optimize(attention(1, 2, 160, width), target="cuda:h200", schedule={NAME: by_hand(width)})
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify().ratio <= 1


def test_warpgroups_are_chosen_for_common_heads():
    for width in (72, 80, 96):
        (kernel,) = autocomp.optimize(attention(2, 32, 1024, width), target="cuda:h200").kernels
        assert "warp_specialise" in str(kernel.schedule), width


def test_columns_that_begin_inside_a_box_are_refused():
    """Four warpgroups that share the rows of 320 columns would have 80 each."""
    kernel = autocomp.optimize(attention(1, 2, 128, 320), target="cuda:h200").calls.calls[0].kernel
    s = Schedule.make({"i0": 1, "i1": 64, "i2": 320, "r1": 64}, stages=2, roles="warp_specialise", workers=4)
    with pytest.raises(AutocompError, match="no multiple of a box of 64"):
        load_target("cuda:h200").admit(kernel, s)
