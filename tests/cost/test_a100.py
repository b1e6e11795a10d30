"""A chip of public figures alone: an A100 is priced by the formulas of an H200, and by no number of one."""

from __future__ import annotations

import pytest

from autocomp.cost.chip import chip_names, shipped
from autocomp.cost.derived import derived
from autocomp.cost.issue import Issued, Phase
from autocomp.cost.printed import rates, time

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
