"""A graph of parts that share nothing takes no longer than its parts alone: what refutes a body of one decides nothing for the others."""

from __future__ import annotations

from random import Random

import pytest

import autocomp
from tests.targets.test_ascend_scalar import ALL, merged

SLACK = 1.01
TWELVE = ("gathered", "signed_bytes", "attention_128", "few_rows", "gemm_residual", "softmax_odd", "conv_groups", "off_variance", "swiglu",
          "gemm_i8_pairs", "unpack", "integers")  # fmt: skip


def price(names: tuple[str, ...], target: str) -> float:
    return autocomp.optimize(merged(list(names)), target=target, cache=False).predicted


def test_a_fall_back_that_another_part_outweighs_is_taken_again() -> None:
    """Rows looked up and joined are one kernel of the scalar units alone, which the covers that other parts ask for do without."""
    assert price(TWELVE, "ascend:910b1") <= SLACK * sum(price((n,), "ascend:910b1") for n in TWELVE)


@pytest.mark.parametrize("target", ["ascend:910b1", "maca:c500", "cuda:h200"])
def test_drawn_pairs_take_what_they_take_alone(target: str) -> None:
    r = Random(f"merged {target}")
    for _ in range(2):
        pair = tuple(r.sample(sorted(ALL), 2))
        assert price(pair, target) <= SLACK * sum(price((n,), target) for n in pair), pair
