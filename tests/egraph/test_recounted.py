"""Schedules whose price by tiles is far above what is printed of them: the cheapest by count is chosen, not the first counted one."""

from __future__ import annotations

from random import Random

import pytest
from autocomp.targets import load_target

from autocomp import pipeline
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.egraph.choose import candidates, choose_schedule, counted
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.device_graphs import graph

H200 = load_target("cuda:h200")


@pytest.mark.parametrize("seed", range(4))
def test_steps_through_images_are_tiled_as_counts_say(seed):
    """Every other place of images, their channels last: tiles of one place, 1024 channels, took 161 us, of 28 places, 32 channels 64 (60
    images of 1968 channels of 28 x 28 in bf16, H200, 2026-11-30)."""
    r, rules, options = Random(seed), load_rules(), Options(cache=False, tuned=False)
    shape = (r.randrange(40, 80), r.randrange(120, 260) * 8, *(4 * r.randrange(5, 9),) * 2)
    steps = f"%0 = slice(x, starts=[0, 0, 0, 0], limits={[*shape]}, steps=[1, 1, 2, 2])\n%1 = transpose(%0, perm=[0, 2, 3, 1])"
    program, _ = pipeline.extract(pipeline.import_model(graph({"x": f"bf16{[*shape]}"}, steps), Trace()), H200, rules, options, Trace())
    (kernel,) = (c.kernel for c in program.calls)
    demand = demand_of(kernel)
    price = pricer(demand, H200.chip, kernel)
    least = min(counted(kernel, c.schedule, price(c.schedule), H200.chip, H200.issued, demand.work.read).seconds
                for c in candidates(kernel, rules, H200.chip, options))  # fmt: skip
    schedule, cost = choose_schedule(kernel, rules, H200.chip, options, Trace(), issued=H200.issued)
    assert cost.seconds <= 1.05 * least, schedule
