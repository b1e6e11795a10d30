"""Reductions over several axes on vector cores: the inner axes are folded on chip, the outer ones as they pass by."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import by_turns, repeats

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"
WINDOW = "dilations=[1, 1]"
GIVEN = {"x": "f32[7, 37, 65]", "y": "f16[7, 37, 65]", "p": "f16[2, 11, 13, 37]", "w": "f16[3, 3, 1, 37]", "z": "f32[3, 5, 4, 19]"}
LINES = {
    "sum": "%0 = reduce_sum(x, axes=[0, 2])",
    "largest": "%1 = reduce_max(y, axes=[0, 2])",
    "pool": f'%2 = maxpool(p, window=[3, 2], strides=[2, 2], lo=[1, 0], hi=[1, 1], {WINDOW}, layout="nhwc")',
    "depthwise": f'%3 = conv(p, w, strides=[2, 1], lo=[1, 1], hi=[0, 1], {WINDOW}, groups=37, layout="nhwc")',
    "channels": "%4 = reduce_sum(z, axes=[0, 2, 3])",
}  # fmt: skip


def together() -> str:
    text = graph(GIVEN, "\n".join(LINES.values()))
    return text[: text.index("output")] + "".join(f"output {n} = {line.split()[0]}\n" for n, line in LINES.items())


@needs_compiler
def test_several_axes_are_folded_without_the_fall_back(tmp_path):
    program = autocomp.optimize(together(), target="ascend:910b", without=[FALL_BACK])
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


def test_windows_are_added_up_lane_by_lane_by_a_rule():
    program = autocomp.optimize(graph({"p": GIVEN["p"]}, LINES["pool"].replace("%2", "%0")), target="ascend:910b")
    (text,) = (s.text for s in program.printed.values())
    assert "rule: tiling/npu-folds" in text and "Max(" in text and "WholeReduce" not in text and "ac_row" not in text


@needs_compiler
@pytest.mark.parametrize("rows", [13, 3])
def test_rows_are_folded_by_blocks(rows, tmp_path):
    """Rows of less than a repeat, of whole ones and of parts, several in a tile: blocks of eight first, at a clock a repeat, where a repeat
    takes seven as a whole. Few rows take fewer instructions without them."""
    lanes = {"a": 5, "b": 40, "c": 64, "d": 130, "e": 512, "g": 600}
    text = "\n".join(f"%{i} = reduce_{'max' if i % 3 else 'sum' if i else 'min'}({n}, axes=[1])" for i, n in enumerate(lanes))
    text = graph({n: f"f32[13, {k}]" for n, k in lanes.items()}, text).partition("output")[0]
    program = autocomp.optimize(text + "".join(f"output {n} = %{i}\n" for i, n in enumerate(lanes)), target="ascend:910b")
    target, kernels = load_target("ascend:910b"), [c.kernel for c in program.calls.calls]
    program.printed = {k.name: target.emit(k, Schedule.make({k.axes[0].name: rows})) for k in kernels}
    seen = Counter()
    program.executor = executor = AscendExecutor(program, tmp_path, done=lambda *_: seen.update(e.name for e in executor.events()[0]))
    program.verify(seed=fresh.seed())
    assert (sum(n for f, n in seen.items() if f.startswith(b"BlockReduce")) > 0) == (rows > 4) == (not seen[b"WholeReduceMax"])


STATES = "%0 = reduce_max(x, axes=[0], keepdims=True)\n%1 = sub(x, %0)\n%2 = exp(%1)\n%3 = reduce_sum(%2, axes=[0])"
DEPTH = "%0 = transpose(a, perm=[1, 0])\n%1 = matmul(%0, b)\n%2 = relu(%1)"
KEYS = {"q": "bf16[2, 5, 64]", "k": "bf16[2, 64, 4096]", "v": "bf16[2, 4096, 64]"}
PARTS = {
    "all": ({"x": "f32[301, 1291]"}, "%0 = reduce_sum(x, axes=[0, 1])", "split"),
    "columns": ({"x": "f16[5362, 118]"}, "%0 = reduce_max(x, axes=[0])", "split"),
    "two states": ({"x": "f32[9001, 37]"}, STATES, "split"),
    "a depth": ({"a": "bf16[16384, 19]", "b": "bf16[16384, 70]"}, DEPTH, "split-depth"),
    "keys": (KEYS, "%0 = matmul(q, k)\n%1 = softmax(%0, axes=[2])\n%2 = matmul(%1, v)", "split-keys"),
    "a row": ({"a": "f16[1, 8192]", "b": "f16[8192, 96]"}, "%0 = matmul(a, b)", "split*"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("rows", "after"), by_turns([1, 2, 3, 13, 100], ["", "exp(x)"]))
def test_columns_are_folded_half_of_the_rows_onto_the_other(rows, after, tmp_path):
    """An instruction a half, not one a row: of what is read, which stays, and of what is made, which is lost."""
    lines = [f"%9 = {after}", "%0 = reduce_sum(%9, axes=[0])"] if after else ["%0 = reduce_sum(x, axes=[0])"]
    text = graph({"x": f"f32[{rows}, 70]"}, "\n".join(lines))
    program = autocomp.optimize(text, target="ascend:910b")
    target, kernel = load_target("ascend:910b"), program.calls.calls[-1].kernel
    program.printed[kernel.name] = target.emit(kernel, Schedule.make({kernel.axes[0].name: 64}))
    seen = Counter()
    program.executor = executor = AscendExecutor(program, tmp_path, done=lambda *_: seen.update(e.name for e in executor.events()[0]))
    program.verify(seed=fresh.seed())
    assert seen[b"Add"] + seen["Add"] <= 2 * rows.bit_length()


@needs_compiler
@pytest.mark.parametrize("name", PARTS)
def test_few_results_are_folded_in_parts_by_all_cores(name, tmp_path):
    inputs, body, rule = PARTS[name]
    parts, whole = (autocomp.optimize(graph(inputs, body), target="ascend:910b1", without=w) for w in ((), (f"scheduling/npu-{rule}",)))
    assert any(k.name.endswith("_join") for k in parts.kernels) and not any(k.name.endswith("_join") for k in whole.kernels)
    assert sum(k.predicted for k in parts.kernels) < sum(k.predicted for k in whole.kernels)
    parts.executor = AscendExecutor(parts, tmp_path)
    parts.verify(seed=fresh.seed())


@needs_compiler
def test_parts_of_keys_whose_rounds_run_on_leave_the_maximum_of_every_row(tmp_path):
    """It is stored some rounds late, by itself: a value a row lies in a block of its own, and goes out side by side."""
    apart = ["tiling/npu-online", "tiling/npu-online-ahead"]  # what has no loop over tiles and their blocks
    program = autocomp.optimize(graph(KEYS, PARTS["keys"][1]), target="ascend:910b1", without=apart)
    assert ["persistent" in str(k.schedule) for k in program.kernels] == [True, False]
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


@needs_compiler
@pytest.mark.parametrize("op", [repeats("softmax(x, axes=[1])", of="layer_norm"), "layer_norm(x, g, b, axes=[1])"])
def test_few_long_rows_take_two_kernels(op, tmp_path):
    """Parts of rows on all cores, then results, whose tiles each combine the states of their row (rule `npu-same-folds`)."""
    text = graph({"x": "f16[3, 140009]"} | ({} if "soft" in op else dict.fromkeys("gb", "f16[140009]")), f"%0 = {op}")
    parts, short, whole = (autocomp.optimize(text, target="ascend:910b1", without=w)
                           for w in ((), ("tiling/npu-same-folds",), ("scheduling/npu-split",)))  # fmt: skip
    assert [k.name.split("_")[-1] for k in parts.kernels] == ["part", "join"]
    assert parts.predicted < 0.85 * short.predicted and parts.predicted < 0.7 * whole.predicted
    parts.executor = AscendExecutor(parts, tmp_path)
    parts.verify(seed=fresh.seed())
    if "soft" in op:
        x = np.full((3, 140009), -np.inf, np.float16)
        x[0, 139999], x[1, 70000] = 3, np.nan
        got = parts.run({"x": x})["out"]
        assert got[0, 139999] == 1 and got[0].sum() == 1 and np.isnan(got[1]).all() and np.isnan(got[2]).all()  # as in NumPy


# A value a row (a bias, a scale) where rows of products are folded down columns: one element a tile, spread over its lanes.
@needs_compiler
@pytest.mark.parametrize("chip, dtype", [("ascend:950pr", "f32"), ("ascend:950pr", "f16"), ("ascend:310p", "f32")])
def test_a_bias_of_the_only_row_is_added_where_columns_are_folded(chip, dtype, tmp_path):
    draw = np.random.default_rng(fresh.seed())
    m, k, n = int(draw.integers(3, 40)), int(draw.integers(65, 200)), int(draw.integers(17, 90))
    text = graph({"x": f"{dtype}[{m}, {k}, 1]", "w": f"{dtype}[1, {k}, {n}]", "b": f"{dtype}[{m}, 1]", "s": f"{dtype}[{m}, 1]"},
                 "%0 = mul(x, w)\n%1 = reduce_sum(%0, axes=[1])\n%2 = mul(%1, s)\n%3 = add(%2, b)\n%4 = relu(%3)")  # fmt: skip
    program = autocomp.optimize(text, target=chip, without=["tiling/npu-scalar-*"])
    assert len(program.kernels) == 1 and re.search(r"ac_Add_stat\(\w+, \w+, \w+, 1, ", program.source())
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=fresh.seed())


# Where the rows that share one of the large factor do not fit beside it, all pass by in chunks.
@needs_compiler
def test_few_columns_share_a_long_row_in_chunks(tmp_path):
    draw = np.random.default_rng(fresh.seed())
    m, k, n = int(draw.integers(9, 20)), int(draw.integers(5000, 7000)), int(draw.integers(11, 16))
    text = graph({"w": f"f32[{m}, {k}]", "x": f"f32[{k}, {n}]"}, "%0 = matmul(w, x)")
    chunks = autocomp.optimize(text, target="ascend:950pr")
    assert [re.sub(r"\d+$", "", x.schedule) for x in chunks.kernels] == ["tile i0 1, r0 "], chunks.kernels
    chunks.executor = AscendExecutor(chunks, tmp_path, blocks=3)
    chunks.verify(seed=fresh.seed())
