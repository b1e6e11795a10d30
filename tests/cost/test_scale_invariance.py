"""Prices are equations over a chip's numbers: where every rate is four times as high and every time a quarter, every schedule is priced at
a quarter. A number in Python that is a time or a rate, or a limit without its unit, shows here."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from autocomp.targets import load_target

from autocomp import pipeline
from autocomp.cost.chip import chip_names, shipped
from autocomp.cost.estimate import demand_of, estimate, pricer
from autocomp.cost.issue import PIPES, WAITS, Issued, Phase
from autocomp.cost.printed import time
from autocomp.cost.roofline import time_of
from autocomp.egraph.choose import candidates
from autocomp.egraph.parts import Schedules
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.families import FAMILIES

OPTIONS = Options(cache=False, tuned=False)
CHIPS = {"cuda:h200": (0,), "cuda:a100": (1, 2), "maca:c500": (3,), "ascend:910b": (4,)}  # seeds of the graphs that each is tried on


@cache
def extracted(family: str, seed: int, target: str) -> tuple[str, KernelGraph, Schedules]:
    """A graph of a family, its kernels and their schedules."""
    text, trace = FAMILIES[family](Random(f"{family} {seed}")), Trace()
    graph = decompose(pipeline.import_model(text, trace))
    return text, *pipeline.extract(graph, load_target(target), load_rules(), OPTIONS, trace)


@pytest.mark.parametrize("target", CHIPS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_chip_four_times_as_fast_is_priced_four_times_faster(family: str, target: str) -> None:
    """An A100, of which no kernel was measured, is also priced between the units' and the memory's own time and half a second."""
    chip, priced = shipped({"910b": "ascend910b"}.get(target.partition(":")[2], target.partition(":")[2])), 0
    for seed in CHIPS[target]:
        text, calls, schedules = extracted(family, seed, target)
        for call in calls.calls:
            schedule = schedules[call.kernel.signature][0]
            now, then = (estimate(call.kernel, schedule, c) for c in (chip, chip.faster(4.0)))
            apart = {n: x for (n, x), (_, y) in zip(now.parts, then.parts) if 4 * y != pytest.approx(x, rel=1e-9)}
            assert not apart and 4 * then.seconds == pytest.approx(now.seconds, rel=1e-9), (text, str(schedule))
            priced += 1
            if target == "cuda:a100":
                demand = demand_of(call.kernel)
                floor = max((x for n, x in time_of(demand.work, chip).parts if n in ("dram", "matrix unit")), default=0.0)
                assert 0.95 * demand.left({})[0] * floor <= now.seconds < 0.5, (call.kernel.name, now)
    assert priced


ROLES = {"product": {"warp_specialise", "persistent", "ping_pong", "stream_k", "cluster", "cluster_split_k", "direct or warps"},
         "attention": {"warp_specialise", "persistent", "softmax_overlap", "rescale_threshold", "direct or warps"},
         "few_rows": {"direct or warps"}}  # fmt: skip


def ways(s: Schedule) -> set[str]:
    """What a schedule has of what prices tell apart."""
    words = {w for w in ("persistent", "ping_pong", "stream_k", "softmax_overlap", "rescale_threshold") if getattr(s, w)}
    words |= {w for w in ("cluster", "cluster_split_k") if getattr(s, w) > 1}
    return words | {"warp_specialise" if s.roles == "warp_specialise" else "direct or warps"}


@pytest.mark.parametrize("target", ["cuda:h200", "cuda:a100", "maca:c500"])
@pytest.mark.parametrize("family", ROLES)
def test_every_schedule_of_products_and_attention_is_priced_by_the_chip_alone(family: str, target: str) -> None:
    """Not the chosen ones only: single warps, warpgroups with roles, clusters, shared out tiles, turns."""
    chip, seen = shipped(target.partition(":")[2]), set()
    rules = load_rules()
    for seed in (0, 1, 5) if "warpgroups" in chip.features else (0,):
        _, calls, _ = extracted(family, seed, target)
        for call in calls.calls:
            made = [c.schedule for c in candidates(call.kernel, rules, chip, OPTIONS)]
            new = [s for s in made if not ways(s) <= seen]
            seen |= set().union(*map(ways, made))
            now, then = (pricer(demand_of(call.kernel), c, call.kernel) for c in (chip, chip.faster(4.0)))
            for s in [*new[:20], *made[:: max(1, len(made) // 40)]]:
                assert 4 * then(s).seconds == pytest.approx(now(s).seconds, rel=1e-9), str(s)
    assert seen >= (ROLES[family] if "warpgroups" in chip.features else {"direct or warps"}), seen


@pytest.mark.parametrize("name", [n for n in chip_names() if any(m.name == "shared" for m in shipped(n).memories)])
def test_what_is_counted_is_priced_by_the_chip_alone(name: str) -> None:
    """Counts of a kernel that waits, multiplies and reads twice."""
    waits = dict.fromkeys(WAITS, 3.0)
    phase = Phase(5.0, dict.fromkeys(PIPES, 40.0), 30.0, 1e5, waits)
    chip = shipped(name)
    for blocks in (1, chip.cores, 1000 * chip.cores):
        w = Issued(blocks, 256, 64, 16384, (phase, Phase(1.0, {"fma": 9.0})), 1e8, 1e7, 3e5, 2e5, 1e5, 1e5, "f16")
        now, then = time(w, chip), time(w, chip.faster(4.0))
        assert 4 * then.seconds == pytest.approx(now.seconds, rel=1e-9) and now.bound == then.bound


def test_times_and_rates_of_chips_have_their_unit() -> None:
    for name in chip_names():
        chip = shipped(name)
        small = {k for k, v in chip.limits.items() if 0 < v < 1e-3}
        assert small <= {k for k, u in chip.units.items() if u == "s"}, name
        told = {k for k in chip.limits if "bytes/s" in chip.sources[f"limits.{k}"] or "seconds" in chip.sources[f"limits.{k}"]}
        assert told <= set(chip.units), name
