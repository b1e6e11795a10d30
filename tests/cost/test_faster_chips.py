"""An NPU or a MACA chip that is better is never priced slower for the same graph: with twice the bandwidth, or every rate doubled. What it
cannot use it leaves; where a price rises the choice has taken another cover or schedule than the one it had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from autocomp.targets import load_target

from autocomp import pipeline
from autocomp.cost.chip import Chip, chip_names, shipped
from autocomp.ir.decompose import decompose
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from benchmarks.chip_draws import drawn
from tests.helpers.repeats import repeating

OPTIONS = Options(cache=False, tuned=False)
SLACK = 1.02
CHIPS = [n for n in chip_names() if shipped(n).target in ("ascend", "maca")]
GRAPHS = 1  # a chip


def wider(c: Chip) -> Chip:
    """Twice the bandwidth of main memory."""
    far, *near = c.memories
    return replace(c, memories=(replace(far, bandwidth=2 * far.bandwidth, core_bandwidth=2 * far.core_bandwidth), *near))


def rates(c: Chip) -> Chip:
    """All units and memories at twice the rate; what a start, a flag and a launch take stays."""
    twice = lambda t: {k: 2 * v for k, v in t.items()}
    limits = {k: v * (2 if c.units.get(k) == "1/s" else 1) for k, v in c.limits.items()}
    memories = tuple(replace(m, bandwidth=2 * m.bandwidth, core_bandwidth=2 * m.core_bandwidth) for m in c.memories)
    return replace(c, matrix=twice(c.matrix), vector=twice(c.vector), special=2 * c.special, limits=limits, memories=memories)


def price(text: str, target) -> float:
    trace = Trace()
    calls, schedules = pipeline.extract(decompose(pipeline.import_model(text, trace)), target, load_rules(), OPTIONS, trace)
    return sum(schedules[c.kernel.signature][1].seconds for c in calls.calls)


@pytest.mark.parametrize("name", repeating(CHIPS, {"ascend910c": "ascend910b1, of whose dies it has two"}))
def test_a_better_chip_is_priced_no_slower(name: str) -> None:
    """On graphs that are drawn for each chip."""
    of, texts = shipped(name).target, {n: t for n, t in drawn(7).items() if not n.startswith(("topk", "scatter"))}
    target = load_target(f"{of}:{name}")
    better: dict[str, tuple[Callable[[Chip], Chip], float]] = {
        "bandwidth": (wider, 1.0), "rates": (rates, 1.0), "everything": (lambda c: c.faster(2.0), 0.5)}  # fmt: skip
    for graph in Random(name).sample(sorted(texts), GRAPHS):
        now = price(texts[graph], target)
        for what, (change, part) in better.items():
            then = price(texts[graph], replace(target, chip=change(target.chip)))
            assert then <= SLACK * part * now, (graph, what, now, then)
