"""Orders of whole rows on CUDA: a sort by the digits of the keys, on the model of the device."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.simulate.compiler import ModelFailure
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.targets.test_radix_select import drawn, ordered, text

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
missing = load_target("cuda").toolchain.missing()
WITHOUT = ["ordering/ranks*"]

CASES = [  # type, shape, k, axis, largest, share of values that are equal to many
    ("f32", (3, 2500), 2500, 1, True, 0.3),
    ("f16", (2070, 2), 2060, 0, False, 0.9),  # two digits; the last ten are left out
    ("i64", (1, 2100), 2100, 1, True, 0.2),  # eight
    ("i8", (1, 3001), 3001, 1, False, 0.5),  # one: what is read is written at once
    ("u32", (2, 2049), 2049, 1, False, 0.0),
    ("bf16", (1, 2, 4097), 4097, 2, True, 0.1),  # the last warps have no key
]


@pytest.mark.parametrize(("dtype", "shape", "k", "axis", "largest", "tied"), CASES)
def test_rows_are_sorted(dtype, shape, k, axis, largest, tied, model, tmp_path):
    program = autocomp.optimize(text(dtype, shape, k, axis, largest), target="cuda:h200", without=WITHOUT)
    assert [c.kernel.opaque for c in program.calls.calls if c.kernel.opaque] == ["radix_topk"]
    assert any(s.launch and s.launch.workspace for s in program.printed.values())
    program.executor = ModelExecutor(program, tmp_path, model)
    x = drawn(fresh.rng(), dtype, shape, tied)
    got, places = program.run({"x": x}), ordered(x, k, axis, largest)
    np.testing.assert_array_equal(got["indices"], places)
    np.testing.assert_array_equal(got["values"].view(f"u{x.itemsize}"), np.take_along_axis(x, places, axis).view(f"u{x.itemsize}"))


@pytest.mark.parametrize("barrier", [0, 1, 2, 3, 5, 6])
def test_each_barrier_is_needed(barrier, model, tmp_path):
    """Between what a warp clears and counts, counts and adds up, adds up and reads: the model sees what nothing orders."""
    program = autocomp.optimize(text("i16", (1, 2100), 2100, 1, True, ("indices",)), target="cuda:h200", without=WITHOUT)
    ((name, source),) = program.printed.items()
    body = source.text.index('extern "C"')
    found = [m for m in re.finditer(r"__syncthreads\(\);|ac_wave_sync\(\);", source.text) if m.start() > body]
    assert len(found) == 7
    at = found[barrier]
    program.printed[name] = replace(source, text=source.text[: at.start()] + ";" + source.text[at.end() :])
    program.executor = ModelExecutor(program, tmp_path, model)
    with pytest.raises(ModelFailure):
        program.run({"x": drawn(fresh.rng(), "i16", (1, 2100), 0.2)})


def test_the_price_decides_against_ranks():
    """A vocabulary's logits in order: ranks are a thousand million comparisons a row, 27.8 ms for 64 rows (H200, 2026-12-01)."""
    program = autocomp.optimize(text("f32", (64, 32000), 32000, 1, True), target="cuda:h200")
    assert program.predicted < 1e-3 and "ordering/radix-sort" in str(program.kernels[0].rules)


def test_rows_longer_than_ranks_count_are_sorted_too():
    program = autocomp.optimize(text("f32", (2, 70000), 70000, 1, False, ("values",)), target="cuda:h200")
    assert not any(c.kernel.by_reference for c in program.calls.calls)


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.parametrize("chip", ["h200", "a100"])
def test_the_text_compiles(chip):
    for dtype in ("f32", "f64", "f16"):
        program = autocomp.optimize(text(dtype, (300, 4000), 4000, 1, True), target=f"cuda:{chip}", without=WITHOUT)
        for file, source in program.sources.items():
            if file.endswith(".cu"):
                assert program.target.toolchain.compile_object(Path(file).stem, source)
