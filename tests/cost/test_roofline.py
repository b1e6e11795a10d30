"""The roofline itself: which unit binds, how times add up, and from which level bytes come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autocomp.cost.chip import load_chip
from autocomp.cost.roofline import _bound, memory_time

CHIP = load_chip("h200")


def test_the_longest_unit_binds_and_a_tenth_of_the_others_is_left_over():
    cost = _bound([("dram", 4e-5), ("matrix unit", 6e-5)], CHIP)
    assert (cost.bound, cost.seconds) == ("matrix unit", pytest.approx(6e-5 + CHIP.numbers["overlap"] * 4e-5 + CHIP.launch))


@pytest.mark.parametrize(("share", "bound"), [(0.99, "launch"), (1.0, "dram"), (1.01, "dram")])
def test_what_is_shorter_than_a_launch_is_bound_by_it(share, bound):
    assert _bound([("dram", share * CHIP.launch)], CHIP).bound == bound


def test_work_of_no_unit_costs_its_launch():
    cost = _bound([], CHIP)
    assert (cost.bound, cost.seconds) == ("launch", CHIP.launch)


def test_bytes_come_from_the_nearest_cache_that_still_holds_them():
    """Half of a cache is what is left of tensors of that size when the next kernel reads them."""
    l2 = CHIP.memory("l2")
    assert memory_time(0.5 * l2.capacity, CHIP, 2) == ("l2", 0.5 * l2.capacity / l2.bandwidth)
    level, seconds = memory_time(0.5 * l2.capacity + 1, CHIP, 2)
    assert level == "dram"
    assert seconds == pytest.approx((0.5 * l2.capacity + 1) / CHIP.memory("dram").bandwidth)


def test_one_core_draws_what_one_core_can():
    chip = load_chip("cpu")
    far = next(m for m in chip.memories if m.name == "dram")
    alone = replace(far, core_bandwidth=far.bandwidth / 4)
    chip = replace(chip, memories=(alone, *chip.memories[1:]))
    assert memory_time(1e12, chip, 1)[1] == pytest.approx(4 * memory_time(1e12, chip, 2)[1])
