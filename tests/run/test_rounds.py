"""Two calls timed in turns: the order, the interval, and what the verdict says."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.runtime.rounds import CONFIDENCE, Rounds, in_turns, median_interval


def test_the_interval_is_that_of_the_sign_test():
    i = median_interval(range(1, 21))
    assert (i.low, i.median, i.high) == (6, 10.5, 15) and round(i.chance, 4) == 0.9586  # as in the tables of the binomial distribution
    assert median_interval([1.0, 2.0, 3.0]).chance < CONFIDENCE
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


def test_the_interval_holds_the_median_as_often_as_it_says():
    rng = np.random.default_rng(7)
    held = sum(i.low <= 1.0 <= i.high for _ in range(2000) for i in [median_interval(np.exp(rng.standard_cauchy(20) / 9).tolist())])
    assert 0.945 < held / 2000 < 0.975


@pytest.mark.parametrize(("b", "said"), [
    ([1.0] * 20, "B is 2.00 to 2.00 times faster"),
    ([2.5] * 20, "B is 1.25 to 1.25 times slower"),
    ([2.0, 2.01] * 10, "no difference larger than 0.5 %"),
    ([1.0, 4.0] * 10, "no verdict: B is between 2.00 times slower and 2.00 times faster"),
    ([1.0] * 5, "no verdict: 5 rounds are too few for 95%"),
])  # fmt: skip
def test_a_verdict_says_what_the_interval_allows(b, said):
    assert Rounds((2.0,) * len(b), tuple(b)).verdict == said


def test_equal_sides_are_called_different_seldom():
    rng = np.random.default_rng(3)
    noisy = lambda: tuple((1 + rng.exponential(0.3, 20)).tolist())
    different = sum("times faster" in v or "times slower" in v for _ in range(500)
                    for v in [Rounds(noisy(), noisy()).verdict] if v.startswith("B is"))  # fmt: skip
    assert different / 500 < 0.07


def test_calls_take_turns_and_the_first_are_not_counted():
    order, now = [], [0.0]

    def call(name, seconds):
        order.append(name)
        now[0] += seconds

    found = in_turns(lambda: call("a", 2.0), lambda: call("b", 1.0), rounds=4, cold=False, clock=lambda: now[0])
    assert "".join(order) == "ab" * 7 and found.a == (2.0,) * 4 and found.b == (1.0,) * 4
