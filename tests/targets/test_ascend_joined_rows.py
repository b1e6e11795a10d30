"""Rows of results that are no whole blocks, on a chip whose copies are (310P): a look-up puts them side by side for one copy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from autocomp.targets.ascend.blocks import least_run

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from autocomp.simulate.program import simulated
from autocomp.tile.derive import derive
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, graph
from tests.helpers.repeats import repeats

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
RULE = "directives/joined-rows"


def drawn(dtype: str, draw: np.random.Generator) -> dict[str, str]:
    """Pads, windows, turned tiles, steps, bytes that become others: rows of a few elements up to some blocks."""
    m, n = (int(x) for x in draw.integers(9, 60, 2))
    side = int(draw.integers(5, 19))
    window = f"window=[3, 3], strides=[{draw.integers(1, 3)}, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1]"
    matrix, image = {"x": f"{dtype}[{m}, {n}]"}, {"x": f"{dtype}[1, 7, {side + 3}, {side}]"}
    return {
        "pad": graph(matrix, "%0 = pad(x, lo=[1, 2], hi=[3, 4], value=1)"),
        "steps": graph(matrix, f"%0 = slice(x, starts=[1, 2], limits=[{m}, {n}], steps=[1, 3])"),
        "turned": graph({"x": f"{dtype}[{m}, 7]"}, "%0 = transpose(x, perm=[1, 0])"),
        "turned back": graph({"x": f"{dtype}[7, {m}]"}, "%0 = transpose(x, perm=[1, 0])"),
        "window": graph(image, f"%0 = maxpool(x, {window})"),
        "compared": graph(matrix, "%0 = gt(x, const(0, " + dtype + "))"),
    }


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f16", "i8", repeats("i32", of="f32: words")])
def test_drawn_results_of_short_rows_are_right(dtype, tmp_path):
    draw, joined = np.random.default_rng(fresh.seed()), 0
    for i, text in enumerate(drawn(dtype, draw).values()):
        program = autocomp.optimize(text, target="ascend:310p", without=["tiling/npu-scalar-*"])
        (folder := tmp_path / str(i)).mkdir()
        program.executor = AscendExecutor(program, folder, blocks=3)
        program.verify(seed=fresh.seed())
        joined += any("ac_places_of_rows(" in s.text for s in program.printed.values())
    assert joined >= 4


# Two inner axes of three, with a shorter last tile outside or inside; one instruction on halves as they are.
SWAPPED = graph({"x": "f16[9, 5, 13]"}, "%0 = transpose(x, perm=[1, 0, 2])")
CUT = graph({"x": "f16[43, 20]"}, "%0 = slice(x, starts=[0, 3], limits=[43, 16], steps=[1, 1])\n%1 = relu(%0)")


@needs_compiler
@pytest.mark.parametrize(("text", "tile", "run"), [(SWAPPED, (2, 9, 13), 234), (SWAPPED, (1, 5, 13), 65), (CUT, (8, 13), 104)])
def test_tiles_of_several_axes_and_their_ends_leave_as_runs(text, tile, run, tmp_path):
    program = autocomp.optimize(text, target="ascend:310p")
    kernel = program.calls.calls[0].kernel
    sizes = dict(zip((a.name for a in kernel.axes), tile, strict=True))
    source = program.target.emit(kernel, Schedule.make(sizes, directives=("joined_rows",)))
    assert re.search(rf"ac_picked\(.*, {run}, \d+, \d+\);", source.text) and "joined_rows" in source.applied
    program.printed = {kernel.name: source}
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())


@needs_compiler
def test_what_orders_the_places_of_rows_is_missed(tmp_path):
    text = graph({"a": "f32[20, 33]"}, "%0 = pad(a, lo=[0, 1], hi=[0, 3], value=1)")
    program = autocomp.optimize(text, target="ascend:310p")
    assert "ac_places_of_rows(" in program.source()
    body = lambda t: re.search(r"ac_places_of_rows.*?\n}\n", t, re.S)
    drop = lambda t: t.replace(body(t)[0], re.sub(r" +(Set|Wait)Flag<HardEvent::V_S>\(0\);\n", "", body(t)[0])) if body(t) else t
    feed = {"a": np.ones((20, 33), "f4")}
    AscendExecutor(program, tmp_path, blocks=2).run(feed)
    (folder := tmp_path / "without").mkdir()
    with pytest.raises(ModelFailure, match="unordered"):
        AscendExecutor(program, folder, blocks=2, edit_header=drop).run(feed)


@pytest.mark.parametrize(("shape", "tile", "least"), [((64, 65), (8, 65), 520), ((130, 3), (64, 3), 6), ((60, 3), (4, 3), 12),
                                                      ((3, 2), (3, 2), 8), ((64, 65), (8, 64), 1), ((61, 3), (4, 3), 3)])  # fmt: skip
def test_the_shortest_run_of_a_result_is_found(shape, tile, least):
    kernel = autocomp.optimize(graph({"a": f"f32[{shape[0]}, {shape[1]}]", "b": f"f32[{shape[1]}]"}, "%0 = add(a, b)"),
                               target="ascend:910b").calls.calls[0].kernel  # fmt: skip
    p = derive(kernel, Schedule.make(dict(zip(("i0", "i1"), tile))))
    assert least_run(p, p.outputs[0], joined=True) == least


PRICED = {
    "pad": graph({"x": "f16[170, 57]"}, "%0 = pad(x, lo=[1, 2], hi=[3, 4], value=0)"),
    "bytes": graph({"x": "i8[90, 201]", "y": "i8[90, 211]"}, "%0 = concat(x, y, axis=1)"),
    "windows": conv("f16[1, 24, 13, 14]", "f16[29, 24, 3, 3]", 1, 1),
}


@needs_compiler
@pytest.mark.parametrize("case", PRICED)
def test_runs_are_priced_as_the_model_has_them(case):
    whole, rows = (autocomp.optimize(PRICED[case], target="ascend:310p", without=w) for w in ([], [RULE]))
    assert 1.5 * whole.predicted < rows.predicted and "joined_rows" in str([k.schedule for k in whole.kernels])
    with simulated(whole) as seen:
        whole.verify(seed=fresh.seed())
        own = {k.name: k.predicted - dict(k.terms)["launch"] for k in whole.kernels if "joined_rows" in k.schedule}
        for picture in seen.pictures():
            if picture.kernel in own:
                assert 1 / 1.7 < own[picture.kernel] / picture.seconds < 1.7, picture.kernel


def test_chips_with_copies_of_any_length_have_no_such_runs():
    program = autocomp.optimize(PRICED["pad"], target="ascend:910b1")
    assert all("joined_rows" not in k.schedule for k in program.kernels)
