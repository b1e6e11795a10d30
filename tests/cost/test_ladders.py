"""Published steps of NPU kernels beside the cost model's pipes."""

from __future__ import annotations

from statistics import median

import pytest

import autocomp
from autocomp.cost.chip import shipped
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate
from autocomp.cost.pipes import Product, Side, copy_to_l1, lines, memory_seconds, product_time, spilled, together
from autocomp.cost.threads import WARP, Round, Sums, block_time, conflicts, grid_time, sums_in_buffer, sums_in_memory
from autocomp.cost.tiles import turns
from autocomp.frontends.text import parse
from autocomp.ir.schedule_text import parse as schedule
from benchmarks.ladders import FITTED, main, order, rows, summary
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import GRAPHS


def test_errors_and_order_of_the_ladders() -> None:
    found = [r for r in rows() if r.model is not None]
    fitted, checks = ([r for r in found if (r.ladder in FITTED) == which] for which in (True, False))
    assert len(fitted) > 80 and len(checks) > 70, summary(found)
    assert median(abs(r.error) for r in fitted) < 0.05 and max(abs(r.error) for r in fitted) < 0.3, summary(fitted)
    assert median(abs(r.error) for r in checks) < 0.09 and max(abs(r.error) for r in checks) < 0.3, summary(checks)
    assert all(abs(r.error) < 0.16 for r in checks if "attention" in r.ladder) and sum("attention" in r.ladder for r in checks) == 6
    for some in (fitted, checks):
        by = {r.ladder: [x for x in some if x.ladder == r.ladder] for r in some}
        right, pairs = map(sum, zip(*map(order, by.values())))
        assert right >= 0.94 * pairs, summary(some)


def test_the_table_is_printed(capsys) -> None:  # type: ignore[no-untyped-def]
    main([])
    text = capsys.readouterr().out
    assert "add_f16_8192 (fitted)" in text and "checks: " in text and "not modelled" in text


def test_each_mechanism_costs_what_it_should() -> None:
    chip = shipped("ascend910b1")
    a, b = Side(16384, 1024, 8), Side(32768, 512, 4)
    p = Product(96, 128, 128, 256, 64, a, b)
    best = product_time(p, chip)
    assert product_time(Product(96, 128, 128, 256, 64, a, b, slots=1), chip) > 1.5 * best
    assert product_time(Product(96, 128, 128, 256, 64, a, b, drained=False), chip) > best
    assert product_time(Product(96, 128, 128, 256, 64, Side(16384, 128), Side(32768, 128)), chip) > 1.5 * best
    apart = Product(96, 128, 128, 256, 64, a, Side(32768, 512, 4, odd=15 / 16))  # blocks put together from two of memory's
    assert product_time(apart, chip) > 1.5 * best
    row = copy_to_l1(Side(64 * 512, 512, odd=15 / 16), chip) * chip.clock / 64  # data_copy, unaligned: 31.8 clocks
    assert 29 < row < 31.8 and copy_to_l1(Side(80, 80), chip) < copy_to_l1(Side(80, 80, odd=0.5), chip)
    # runs of 640 bytes at multiples of 640, that is of 128: each touches two lines of 512; anywhere, one and a quarter and one more
    assert (lines(640, 512, True, 128), lines(640, 512, True), lines(640, 512, False)) == (1.6, 1.8, 1.0)
    (row_major,) = [r for r in rows() if r.ladder == "catlass_tiling" and r.step == "B row major" and r.measured > 250]
    assert abs(row_major.error) < 0.1  # 32 % below without the lines that rows of a tile share with their neighbours
    assert spilled(1e8, chip) == 0 and spilled(1e9, chip) == 1
    assert memory_seconds(2.7e8, 1.34e8, chip) > memory_seconds(2.7e8, 1.34e8, chip, bypass=True)
    assert together((3.0, 4.0), 2) == 5.0 and together((), 2) == 0.0


def test_threads_cost_what_they_should() -> None:
    chip = shipped("ascend950pr")
    copy, turned = Round(1, 1, 1, 8), Round(1, WARP, 1, 8)
    seconds = lambda r, threads=2048, rounds=8: block_time(r, rounds, threads, chip)
    assert seconds(turned) > 4 * seconds(copy)  # each lane's store is a sector of its own
    assert seconds(copy, 1024, 16) > 1.5 * seconds(copy)  # fewer warps wait for as many loads each
    assert (conflicts(4), conflicts(512), conflicts(128), conflicts(136)) == (1, 32, 16, 1)
    assert grid_time(1024, 0.0, chip) > 5 * grid_time(64, 0.0, chip)
    far, near = (sums_in_memory(Sums(48, 256, n, 4, True), chip) for n in (12288, 1))
    assert near > 100 * far and sums_in_memory(Sums(48, 256, 32, 4, True), chip) == near  # one sector, one after another
    assert sums_in_memory(Sums(1, 1024, 1, 4, False), chip) > 30 * sums_in_buffer(Sums(1, 1024, 1, 4, False), chip)


def test_chunks_of_a_row_are_turns_of_one_core() -> None:
    """Of two long rows two vector cores have one each, and every chunk ends in statistics; taps are no chunks."""
    text = "graph g\ninput x: f16[2, 1048576]\n%0 = reduce_max(x, axes=[1])\noutput o = %0\n"
    (kernel,) = autocomp.optimize(text, target="ascend:910b1", without=["scheduling/npu-split"]).kernels
    chip, row = shipped("ascend910b1"), 2 * 1048576
    core = chip.limits["ub_in"] / (chip.cores * chip.limits["vector_cores"])  # bytes a second
    assert kernel.predicted > row / core + row / 2 / 8192 * chip.limits["tile"]
    d = demand_of(cover_of(parse(GRAPHS["depthwise"])).calls[0].kernel)
    assert d.roles.form == "reduce" and turns(d, {a.name: 1 for a in d.roles.depths[0]}) == (1, 1, 9, 1)


@pytest.mark.parametrize(("tile", "model"), [("tile i0 1024, r0 1", 100.1), ("tile i0 512, r0 8", 23.2), ("tile i0 16, r0 256", 2.0)])
def test_steps_of_columns_take_their_way_through_two_slots(tile: str, model: float) -> None:
    """Column sums of 1000 x 1024 in f32, microseconds of the first cores on the model (2026-11-29); runs of 64 bytes fetch whole lines."""
    (call,) = cover_of(parse("graph g\ninput x: f32[1000, 1024]\n%0 = reduce_sum(x, axes=[0])\noutput o = %0\n")).calls
    chip = shipped("ascend910b1")
    price = estimate(call.kernel, schedule(tile), chip).seconds - chip.launch
    assert 0.9 < price * 1e6 / model < (1.15 if model > 20 else 6)
