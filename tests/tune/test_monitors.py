"""Bandwidth, occupancy and spills of a measured kernel, and which of them are pointed at."""

from __future__ import annotations

import pytest

from autocomp.cost.chip import load_chip
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.tune.monitors import Monitors, monitors_of, occupancy
from tests.helpers.covers import cover_of

H200 = load_chip("h200")


def figures(registers, shared, threads, local=0):
    return {"registers": registers, "shared": shared, "threads": threads, "local": local}


@pytest.mark.parametrize("given, share", [
    (figures(32, 0, 256), 1.0),  # 8 blocks of 256 fill 2048 threads
    (figures(64, 0, 256), 0.5),  # 65536 registers hold 4 blocks of 64 * 256
    (figures(65, 0, 256), 0.375),  # by warps of 72 * 32 registers: 3 blocks of 8 warps
    (figures(32, 0, 32), 0.5),  # 32 blocks at most
    (figures(32, 232448, 384), 384 / 2048),  # one block takes all of the shared memory
    (figures(32, 100000, 128), 2 * 128 / 2048),
    (figures(168, 200000, 384), 384 / 2048),
])  # fmt: skip
def test_occupancy_by_what_a_multiprocessor_has(given, share):
    assert occupancy(H200, given) == share


def test_without_figures_there_is_a_share_of_the_bandwidth_alone():
    kernel = cover_of(parse("graph g\ninput x: f16[8192, 8192]\n%0 = exp(x)\noutput y = %0\n")).calls[0].kernel
    dram = H200.memory("dram").bandwidth
    m = monitors_of(kernel, H200, 4 * 8192 * 8192 / dram / 0.5, {})
    assert m == Monitors(pytest.approx(0.5), "dram")
    assert monitors_of(kernel, load_chip("cpu"), 1.0, {}).level == "dram"


def test_a_small_kernel_is_held_against_the_cache_that_holds_it():
    kernel = cover_of(parse("graph g\ninput x: f16[64, 64]\n%0 = exp(x)\noutput y = %0\n")).calls[0].kernel
    assert monitors_of(kernel, H200, 1e-5, figures(32, 0, 256)).level == "l2"


def test_what_is_beyond_the_limits_is_pointed_at():
    m = Monitors(0.4, "dram", 0.25, 0.1)
    bandwidth, resident, spills = m.warnings("dram", Options())
    assert bandwidth == "uses 40% of the bandwidth of dram (below bw_util, 70%)"
    assert resident == "occupancy 25% of a core's threads (below occupancy, 50%)"
    assert spills == "spills 10% of its values (above spill_ratio, 5%)"
    assert m.warnings("matrix unit", Options(occupancy=0.2, spill_ratio=0.2)) == []
    assert m.warnings("dram", Options(bw_util=0.3, occupancy=0.2, spill_ratio=0.2)) == []


def test_spills_are_the_share_of_values_that_lie_in_local_memory():
    kernel = cover_of(parse("graph g\ninput x: f16[64, 64]\n%0 = exp(x)\noutput y = %0\n")).calls[0].kernel
    assert monitors_of(kernel, H200, 1e-5, figures(32, 0, 256, local=128)).spilled == 0.5
    assert monitors_of(kernel, H200, 1e-5, figures(32, 0, 256)).spilled == 0
