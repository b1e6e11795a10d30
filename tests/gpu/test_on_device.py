"""Printed CUDA programs against the float64 reference: odd sizes, tails, fresh inputs, outputs poisoned first."""

from __future__ import annotations

import os

import numpy as np
import pytest

import autocomp
from autocomp.runtime.inputs import random_inputs
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.device_runs import poison
from tests.helpers.split_depth import PROGRAMS, on_device


@pytest.mark.parametrize("name", GRAPHS)
def test_program_matches_the_float64_reference(name):
    program = autocomp.optimize(GRAPHS[name], target="cuda")
    poison(program)
    program.run(random_inputs(program.graph, 0))
    for _ in range(2):
        seed = int.from_bytes(os.urandom(4), "little")
        try:
            assert program.verify(seed=seed).ratio <= 1
        except autocomp.VerificationError as e:
            raise AssertionError(f"seed {seed}: {e}") from None


@pytest.mark.parametrize(("kind", "name"), PROGRAMS)
def test_depth_that_blocks_share_out_adds_up(kind, name):
    program = on_device(kind, name)
    poison(program)
    feed = random_inputs(program.graph, 0)
    first = program.run(feed)["out"]
    for _ in range(5):
        assert program.verify(seed=int.from_bytes(os.urandom(4), "little")).ratio <= 1
        np.testing.assert_array_equal(first, program.run(feed)["out"])


def test_runs_of_one_input_are_equal_bit_by_bit():
    program = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target="cuda")
    feed = random_inputs(program.graph, 3)
    first = program.run(feed)["out"]
    for _ in range(5):
        np.testing.assert_array_equal(first, program.run(feed)["out"])
