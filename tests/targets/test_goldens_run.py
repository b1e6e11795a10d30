"""Every text that tests/golden keeps for GPUs runs on the machine model, where accesses that nothing orders are errors: what small graphs
print in test_on_cpu_model.py, whole; the others here, by the first and the last block of their grids."""

from __future__ import annotations

from pathlib import Path

import pytest

from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.goldens import OTHERS, SMALL

FOLDER = Path(__file__).parents[1] / "golden"


def test_no_golden_is_left_out():
    assert {*SMALL, *OTHERS} == {str(p.relative_to(FOLDER)) for kind in ("cuda", "maca") for p in (FOLDER / kind).iterdir()}


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", OTHERS)
def test_a_golden_orders_its_accesses(name, model, tmp_path):
    program = OTHERS[name]()
    (source,) = program.printed.values()
    assert source.text in (FOLDER / name).read_text()
    executor = ModelExecutor(program, tmp_path, model, sample=1)
    feed = random_inputs(program.calls.source, 0)
    for executor.late in (True, False):
        executor.run(feed)
