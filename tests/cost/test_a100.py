"""A chip of public figures alone: an A100 is priced by the formulas of an H200, and by no number of one."""

from __future__ import annotations

from random import Random

import pytest
from autocomp.targets import load_target

from autocomp import pipeline
from autocomp.cost.chip import chip_names, shipped
from autocomp.cost.derived import derived
from autocomp.cost.estimate import demand_of, estimate
from autocomp.cost.issue import Issued, Phase
from autocomp.cost.printed import rates, time
from autocomp.cost.roofline import time_of
from autocomp.ir.decompose import decompose
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.families import FAMILIES

CHIP = shipped("a100")


def test_every_number_has_a_source_and_none_was_measured_on_another_chip() -> None:
    for name in chip_names():
        assert not [n for n, s in shipped(name).sources.items() if len(s) <= len("inferred")], f"{name}: inferred from what?"
    assert {f"limits.{n}" for n in CHIP.limits} <= set(CHIP.sources)
    assert not [n for n, s in CHIP.sources.items() if "H200, 2026" in s and not s.startswith("inferred")]


def test_every_number_that_prices_ask_for_is_there_or_derived() -> None:
    assert all(CHIP.numbers[n] >= 0 for n in derived())
    r = rates(CHIP)
    assert (r.issue, r.integer, r.multiply, r.dram) == (4, 2, 2, pytest.approx(846)) and r.fma == pytest.approx(2, rel=0.02)


def test_a_core_of_64_lanes_takes_twice_the_clocks_for_the_same_multiply_adds() -> None:
    h200 = shipped("h200")
    w = Issued(1000 * CHIP.cores, 256, 32, 0, (Phase(1000.0, {"fma": 800.0}),), 1.0, 1.0, 0, 0, 0)
    clocks = lambda chip: (time(w, chip).seconds - chip.launch) * chip.clock * chip.cores
    assert time(w, CHIP).bound == "fma" and clocks(CHIP) / clocks(h200) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_are_priced_between_the_roofline_and_what_is_absurd(family: str) -> None:
    """No kernel goes below the units' and the memory's own time, none takes half a second."""
    for seed in range(3):
        graph, options = decompose(pipeline.import_model(FAMILIES[family](Random(f"a100 {family} {seed}")), Trace())), Options(cache=False)
        calls, schedules = pipeline.extract(graph, load_target("cuda:a100"), load_rules(), options, Trace())
        for call in calls.calls:
            cost = estimate(call.kernel, schedules[call.kernel.signature][0], CHIP)
            floor = max((x for n, x in time_of(demand_of(call.kernel).work, CHIP).parts if n in ("dram", "matrix unit")), default=0.0)
            left = demand_of(call.kernel).left({})[0]
            assert cost.seconds >= 0.95 * left * floor and cost.seconds < 0.5, (call.kernel.name, cost)
