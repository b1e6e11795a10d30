"""What each thread keeps of a reduction that a loop carries is of its own elements (directive `thread_partials`)."""

from __future__ import annotations

import numpy as np
import pytest
from autocomp.targets import load_target
from autocomp.targets.simt.placement import Placer

import autocomp
from autocomp.egraph.parts import merged
from autocomp.ir.schedule_text import parse
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph

TARGET = load_target("cuda:h200")
NORM = graph({"x": "bf16[1301, 72]"}, """%0 = cast(x, to="f32")
    %1 = welford(%0, axes=[0], part="var")""")
COLUMNS = "tile i0 16, r0 512 | threads 128 | min_blocks | thread_partials"


def text_of(schedule: str) -> str:
    kernel = merged(autocomp.optimize(NORM, target="cuda:h200").calls).calls[0].kernel
    return TARGET.emit(kernel, parse(schedule)).text


def layout_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f" * {name}: reg")).partition(": ")[2]


def test_a_count_lies_as_what_is_counted():
    text = text_of(COLUMNS)
    rows = lambda name: {d for d in layout_of(text, name).replace(")(", ") (").replace("reg", "").split() if d.startswith("(r")}
    assert rows("one") == rows("in0_t") and "behind" not in text


def test_counts_of_other_elements_meet_in_every_turn(monkeypatch):
    """Layouts that nothing brings together: threads may not keep such a count for themselves."""
    together = text_of(COLUMNS)
    monkeypatch.setattr(Placer, "read_alike", lambda self: frozenset(n for n in self.bufs if not self.extended[n]))
    apart = text_of(COLUMNS)
    assert layout_of(apart, "one") != layout_of(together, "one")
    assert "own_base" in together and "own_base" not in apart, "bases of each thread meet behind the loop"


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_results_are_those_of_float64(tmp_path, model):
    program = autocomp.optimize(NORM, target="cuda:h200", cache=False)
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=2)
    assert np.isfinite(program.predicted)
