"""Tiles of windows whose rows run along several axes: indices of rows are quotients of a row's number, and a border about a tap and its
place has ends for each row of the tap."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import conv, graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
WINDOW = "window=[3, 3], strides=[{}, {}], lo=[1, 1], hi=[1, 1], dilations=[1, 1]"
POOL = graph({"x": "f32[1, 7, 11, 13]"}, f"%0 = maxpool(x, {WINDOW.format(1, 1)})")
STEPS = graph({"x": "f16[1, 6, 12, 15]"}, f"%0 = maxpool(x, {WINDOW.format(2, 2)})")
IMAGE = conv("f32[1, 12, 9, 13]", "f32[9, 12, 3, 3]", 2, 1)
LINE = graph({"x": "f32[1, 10, 41]", "w": "f32[9, 10, 3]"}, "%0 = conv(x, w, strides=[1], lo=[1], hi=[1], dilations=[1], groups=1)")
# (graph, kernel, tile by the axes of results, chips)
CASES = {
    "rows of two images": (POOL, "maxpool", (2, 11, 13), {"r0": 1, "r1": 1}, ("910b1", "310p", "950pr")),
    "with a short last tile": (STEPS, "maxpool", (4, 6, 8), {"r0": 1, "r1": 1}, ("910b1", "310p")),
    "taps of a column": (IMAGE, "patches", (1, 3, 1, 5, 7), {}, ("310p", "950pr")),
    "taps of a row": (IMAGE, "patches", (1, 1, 3, 5, 7), {}, ("310p", "950pr")),
    "channels, all taps": (IMAGE, "patches", (2, 3, 3, 5, 7), {}, ("310p", "950pr")),
    "taps of a line": (LINE, "patches", (3, 3, 41), {}, ("950pr",)),
}


@needs_compiler
@pytest.mark.parametrize(("case", "chip"), [(c, chip) for c, x in CASES.items() for chip in x[4]])
def test_tiles_with_rows_along_several_axes_are_right(case, chip, tmp_path):
    text, name, tile, folded, _ = CASES[case]
    program = autocomp.optimize(text, target=f"ascend:{chip}")
    kernel = next(c.kernel for c in program.calls.calls if name in c.kernel.name)
    sizes = {**dict(zip((a.name for a in kernel.axes), tile, strict=True)), **folded}
    runs = ("joined_rows",) if chip == "310p" else ()
    program.printed[kernel.name] = source = program.target.emit(kernel, Schedule.make(sizes, directives=runs))
    assert "ac_steps_of_rows(" in source.text or "(r_" in source.text
    program.executor = AscendExecutor(program, tmp_path, blocks=3)
    program.verify(seed=fresh.seed())


def test_patches_of_an_image_are_cheap_where_copies_are_of_whole_blocks():
    """A row that ends within a block, and a tile of one tap alone, made stored patches four times as dear."""
    program = autocomp.optimize(conv("f16[1, 40, 14, 23]", "f16[29, 40, 3, 3]", 1, 1), target="ascend:310p")
    (patches,) = (k for k in program.kernels if "patches" in k.name)
    assert "i2 3" in patches.schedule and "joined_rows" in patches.schedule and patches.predicted < 90e-6


@pytest.mark.parametrize("chip", ["910b1", "310p"])
def test_rows_that_differ_in_their_border_alone_are_not_copied_again(chip):
    """A running sum folds a row for each of its elements: a tile of them would copy it as often."""
    text = graph({"x": "f16[86, 166]"}, "%0 = cumsum(x, axis=1)")
    program = autocomp.optimize(text, target=f"ascend:{chip}")
    kernel = autocomp.optimize(text, target=f"ascend:{chip}", without=["running/*"]).calls.calls[0].kernel
    assert [a.extent for a in kernel.axes] == [86, 166] and len(program.kernels) > 1
    with pytest.raises(UnsupportedOp, match="does not vary along i1"):
        program.target.emit(kernel, Schedule.make({"i0": 1, "i1": 166, "r0": 64}))
