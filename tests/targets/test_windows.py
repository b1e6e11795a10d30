"""Pooling on GPUs: threads fold windows of their own; what is printed, on the CPU model at odd sizes."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeats

RULES = ["tiling/gpu-own-folds", "tiling/gpu-window-strips"]


def pool(op: str, dtype: str, shape: tuple[int, ...], k: int, s: int, pad: int, last: bool = False) -> str:
    layout = "nhwc" if last else "nchw"
    around = ", ".join(f"{n}=[{x}, {x}]" for n, x in (("window", k), ("strides", s), ("lo", pad), ("hi", pad), ("dilations", 1)))
    return graph({"x": f"{dtype}{list(shape)}"}, f'%0 = {op}(x, layout="{layout}", {around})')


@pytest.mark.parametrize("target", ["cuda:h200", repeats("cuda:a100", of="cuda:h200"), "maca:c500"])
def test_threads_fold_windows_of_their_own(target):
    """Before: lanes shared the taps of a window and exchanged what they had."""
    program = autocomp.optimize(pool("maxpool", "f16", (64, 24, 112, 112), 3, 2, 1), target=target)
    (text,) = {s.text for s in program.printed.values()}
    assert "shuffle" not in text and "ac_sync" not in text
    lanes = re.search(r"in0_t: reg (\S*) lane (\S*) wave (\S*)", text)
    assert lanes and "r0" not in lanes[2] + lanes[3] and "r1" not in lanes[2] + lanes[3]


def test_windows_pass_by_in_pieces_of_an_image():
    text = pool("maxpool", "bf16", (64, 216, 28, 28), 5, 1, 2)
    ours, before = (autocomp.optimize(text, target="cuda:h200", without=w) for w in ([], RULES[1:]))
    assert "i3 28" not in ours.kernels[0].schedule and ours.predicted < 0.8 * before.predicted


CASES = [
    ("maxpool", "f16", (3, 5, 13, 19), 3, 2, 1),
    ("maxpool", "f32", (2, 40, 9, 11), 5, 1, 2),
    ("maxpool", "f16", (2, 7, 20, 20), 2, 2, 1),
    ("maxpool", "f16", (1, 14, 14, 304), 3, 1, 1, True),
    ("sumpool", "bf16", (2, 3, 17, 21), 3, 1, 0),
    ("sumpool", "f32", (2, 17, 21, 24), 3, 1, 1, True),
]


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("case", CASES)
def test_pools_of_odd_sizes_on_the_cpu_model(case, model, tmp_path):
    program = autocomp.optimize(pool(*case), target="cuda:h200")
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify(seed=1).ratio <= 1
