"""A kernel's schedules share what they have in common of a price: the price of each is as it is alone, in any order."""

from __future__ import annotations

from random import Random

import pytest

from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate, pricer
from autocomp.egraph.choose import candidates
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.rewrite import load_rules
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import gemm, graph

CONV = "%c = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)"


GRAPHS = (gemm(300, 200, 500, "f32"), gemm(300, 200, 500), graph({"x": "f32[2, 24, 14, 14]", "w": "f32[40, 24, 3, 3]"}, CONV))


@pytest.mark.parametrize("text", GRAPHS, ids=["f32", "f16", "conv"])
def test_prices_do_not_depend_on_what_was_priced_before(text):
    kernel, chip, draw = cover_of(parse(text)).calls[0].kernel, load_chip("h200"), Random(0)
    made = [c.schedule for c in candidates(kernel, load_rules(), chip, Options())]
    draw.shuffle(made)
    price = pricer(demand_of(kernel), chip, kernel)
    for s in made:
        price(s)
    for s in draw.sample(made, min(60, len(made))):
        assert price(s) == estimate(kernel, s, chip)
