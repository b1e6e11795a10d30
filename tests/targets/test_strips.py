"""Windows of a thread that overlap are loaded as strips: each element once, and right at borders, odd sizes, strides and dilations."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor

DIRECTIVE = "directives/window-strips"


def depthwise(dtype: str, n: int, c: int, h: int, w: int, k: int, stride: int = 1, dilation: int = 1, last: bool = True) -> str:
    pad = (k - 1) * dilation // 2
    how = ", ".join(f"{a}=[{x}, {x}]" for a, x in (("lo", pad), ("hi", pad), ("strides", stride), ("dilations", dilation)))
    head = f"graph g\ninput x: {dtype}[{n}, {f'{h}, {w}, {c}' if last else f'{c}, {h}, {w}'}]\ninput w: {dtype}[{c}, 1, {k}, {k}]\n"
    if not last:
        return f"{head}%0 = conv(x, w, {how}, groups={c})\n%1 = relu(%0)\noutput y = %1\n"
    return (f"{head}%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = conv(%0, w, {how}, groups={c})\n%2 = relu(%1)\n"
            "%3 = transpose(%2, perm=[0, 2, 3, 1])\noutput y = %3\n")  # fmt: skip


def mixed(dtype: str, n: int, c: int, h: int, w: int, k: int) -> str:
    """Read with channels last, stored with channels first, as torch's depthwise convolutions are on GPUs."""
    text = depthwise(dtype, n, c, h, w, k).replace("%3 = transpose(%2, perm=[0, 2, 3, 1])\n", "")
    return text.replace("output y = %3", "output y = %2")


def kernel(program):
    return next(s.text for n, s in program.printed.items() if "conv" in n)


@pytest.mark.parametrize("target, last", [("cuda:h200", True), ("cuda:h200", False), ("maca:c500", True)])
def test_a_strip_is_loaded_once_and_pays(target, last):
    """8 or more windows of 5 in a thread: no more than 2 loads a window and row of taps, where each had 5."""
    text = depthwise("f32", 32, 64, 56, 56, 5, last=last)
    ours, before = (autocomp.optimize(text, target=target, without=w) for w in ([], [DIRECTIVE, "tiling/gpu-window-strips"]))
    assert "window_strips" in next(k.schedule for k in ours.kernels if "conv" in k.name)
    assert ours.predicted < (0.8 if target == "cuda:h200" else 1) * before.predicted
    sizes = {n: int(c) for n, c in re.findall(r"float (in0_t|mul_t)\[(\d+)\]", kernel(ours))}
    assert 2 * sizes["in0_t"] < sizes["mul_t"]


def test_a_turned_store_pays():
    """Results apart by a whole image leave as runs of memory."""
    text, rule = mixed("f16", 128, 384, 14, 14, 3), "directives/turned-store"
    ours, before = (autocomp.optimize(text, target="cuda:h200", without=w) for w in ([], [rule]))
    assert "turned_store" in kernel(ours) and "ac_move<" in kernel(ours) and ours.predicted < 0.8 * before.predicted


def test_without_the_directive_windows_are_read_one_by_one():
    program = autocomp.optimize(depthwise("f32", 32, 64, 56, 56, 5), target="cuda:h200", without=[DIRECTIVE])
    sizes = {n: int(c) for n, c in re.findall(r"float (in0_t|mul_t)\[(\d+)\]", kernel(program))}
    assert sizes["in0_t"] == sizes["mul_t"]


CASES = {
    "last": (depthwise("f32", 2, 40, 19, 21, 3), "i0 1, i1 8, i2 8, i3 32, r0 1, r1 3 | threads 128"),
    "whole window": (depthwise("f16", 2, 64, 9, 17, 3), "i0 1, i1 4, i2 8, i3 64, r0 3, r1 3 | threads 64"),
    "first": (depthwise("f32", 2, 3, 21, 37, 5, last=False), "i0 1, i1 1, i2 8, i3 32, r0 5, r1 5 | threads 64"),
    "stride": (depthwise("f32", 2, 32, 23, 21, 5, 2), "i0 1, i1 8, i2 4, i3 32, r0 1, r1 5 | threads 64"),
    "stride, first": (depthwise("f16", 2, 2, 41, 35, 3, 2, last=False), "i0 1, i1 2, i2 8, i3 32, r0 3, r1 3 | threads 64"),
    "dilation": (depthwise("f32", 2, 32, 16, 16, 3, 1, 2), "i0 1, i1 4, i2 8, i3 32, r0 1, r1 3 | threads 64"),
    "stride and dilation": (depthwise("f32", 2, 32, 16, 20, 3, 2, 2), "i0 1, i1 4, i2 4, i3 32, r0 1, r1 3 | threads 64"),
    "stride 3": (depthwise("f32", 2, 32, 17, 31, 3, 3), "i0 1, i1 4, i2 4, i3 32, r0 1, r1 3 | threads 64"),
    "turned": (mixed("f32", 2, 40, 19, 21, 3), "i0 1, i1 32, i2 8, i3 8, r0 1, r1 3 | threads 64"),
    "turned, rows of 8": (mixed("f32", 2, 32, 16, 24, 3), "i0 1, i1 32, i2 4, i3 8, r0 1, r1 3 | threads 64"),
    "turned, halves": (mixed("f16", 2, 64, 14, 14, 3), "i0 1, i1 32, i2 8, i3 14, r0 1, r1 3 | threads 128"),
}
SHARES_NOTHING = {"stride 3"}


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("case", CASES)
def test_strips_on_the_cpu_model(case, model, tmp_path):
    text, tile = CASES[case]
    name = next(k.name for k in autocomp.optimize(text, target="cuda:h200").kernels if "conv" in k.name)
    program = autocomp.optimize(text, target="cuda:h200", schedule={name: f"tile {tile} | window_strips | turned_store"})
    assert ("ac_move<" in kernel(program)) == ("turned" in case)
    sizes = {n: int(c) for n, c in re.findall(r"float (in0_t|mul_t)\[(\d+)\]", kernel(program))}
    assert (sizes["in0_t"] < sizes["mul_t"]) == (case not in SHARES_NOTHING)
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify(seed=1).ratio <= 1
