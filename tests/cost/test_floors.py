"""What a schedule takes at least is never more than its price, and the search that prices few finds what pricing all finds."""

from __future__ import annotations

from random import Random

import pytest

from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.egraph import choose
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.rewrite import load_rules
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import gemm, graph


def drawn(seed: int) -> str:
    """A product or a convolution of some size, with something behind it."""
    r = Random(seed)
    dtype = r.choice(("f32", "f16", "bf16"))
    if seed % 3:
        return gemm(*(r.choice((r.randrange(1, 40), r.randrange(40, 5000))) for _ in range(3)), dtype)
    c, o, n = r.randrange(1, 300), r.randrange(8, 300), r.randrange(5, 60)
    conv = f"%c = conv(x, w, strides={r.choice(('[1, 1]', '[2, 2]'))}, lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)\n%r = relu(%c)"
    return graph({"x": f"{dtype}[{r.randrange(1, 9)}, {c}, {n}, {n}]", "w": f"{dtype}[{o}, {c}, 3, 3]"}, conv)


@pytest.mark.parametrize("chip", ["h200", "b200", "c500"])
@pytest.mark.parametrize("seed", range(6))
def test_no_price_is_below_what_a_schedule_takes_at_least(seed, chip):
    of, rules = load_chip(chip), load_rules()
    kernel = cover_of(parse(drawn(seed))).calls[0].kernel
    price = pricer(demand_of(kernel), of, kernel)
    found = choose.candidates(kernel, rules, of, Options())
    assert price.least is not None
    least = [price.least(c.schedule) for c in found]
    for low, c in zip(least, found, strict=True):
        assert low <= price(c.schedule).seconds, c.schedule
    every = choose.Priced(found, price, None)
    few = choose.Priced(found, price, price.least)
    assert few.made() == every.made()
    assert list(few.ranked()) == list(choose._ranked(every.all(), True))


@pytest.mark.parametrize("seed", range(3))
def test_few_of_many_schedules_are_priced(seed):
    """Up to the first that a search takes, and the cheapest of each rule."""
    kernel, of = cover_of(parse(gemm(512 + 64 * seed, 384, 640, "f32"))).calls[0].kernel, load_chip("h200")
    price = pricer(demand_of(kernel), of, kernel)
    found = choose.candidates(kernel, load_rules(), of, Options())
    priced = choose.Priced(found, price, price.least)
    next(priced.ranked())
    priced.made()
    assert len(priced.costs) < len(found) / 3
