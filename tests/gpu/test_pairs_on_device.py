"""Factors that are unpacked in pairs of bf16, by the device's own instructions."""

from __future__ import annotations

import pytest

import autocomp
from tests.targets.test_pairs_of_bf16 import each_weight_is_that_of_the_graph, layer


@pytest.mark.parametrize("without", [(), ["directives/paired-fields"]])
@pytest.mark.parametrize(("shift", "mask", "zero"), [(4, 15, 8.0), (1, 127, 64.0), (3, 15, -5.0), (4, 15, 200.0)])
def test_each_weight_is_the_one_that_the_graph_says(shift, mask, zero, without):
    program = autocomp.optimize(layer(shift, mask, zero), target="cuda", cache=False, without=without)
    each_weight_is_that_of_the_graph(program, shift, mask, zero)
