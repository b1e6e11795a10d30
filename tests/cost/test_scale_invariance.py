"""Prices are equations over a chip's numbers: where every rate is four times as high and every time a quarter, every schedule is priced at
a quarter. A number in Python that is a time or a rate, or a limit without its unit, shows here."""

from __future__ import annotations

from random import Random

import pytest
from autocomp.targets import load_target

from autocomp import pipeline
from autocomp.cost.chip import chip_names, shipped
from autocomp.cost.estimate import estimate
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.decompose import decompose
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.families import FAMILIES

REFUSED = {("depthwise", "ascend:910b"), ("scan", "ascend:910b"), ("transposed", "ascend:910b")}  # the target has no form of them yet
CHIPS = ("cuda:h200", "cuda:a100", "maca:c500", "ascend:910b")


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_chip_four_times_as_fast_is_priced_four_times_faster(family: str, target: str) -> None:
    chip, priced = shipped({"910b": "ascend910b"}.get(target.partition(":")[2], target.partition(":")[2])), 0
    for seed in range(4):
        text, trace, options = FAMILIES[family](Random(f"{family} {seed}")), Trace(), Options(cache=False, tuned=False)
        graph = decompose(pipeline.import_model(text, trace))
        try:
            calls, schedules = pipeline.extract(graph, load_target(target), load_rules(), options, trace)
        except (UnsupportedOp, DoesNotFit):
            continue  # the target lacks it
        for call in calls.calls:
            schedule = schedules[call.kernel.signature][0]
            now, then = (estimate(call.kernel, schedule, c) for c in (chip, chip.faster(4.0)))
            apart = {n: x for (n, x), (_, y) in zip(now.parts, then.parts) if 4 * y != pytest.approx(x, rel=1e-9)}
            assert not apart and 4 * then.seconds == pytest.approx(now.seconds, rel=1e-9), (text, str(schedule))
            priced += 1
    assert bool(priced) != ((family, target) in REFUSED)


def test_times_and_rates_of_chips_have_their_unit() -> None:
    for name in chip_names():
        chip = shipped(name)
        small = {k for k, v in chip.limits.items() if 0 < v < 1e-3}
        assert small <= {k for k, u in chip.units.items() if u == "s"}, name
        told = {k for k in chip.limits if "bytes/s" in chip.sources[f"limits.{k}"] or "seconds" in chip.sources[f"limits.{k}"]}
        assert told <= set(chip.units), name
