"""Printed GPU kernels, run without a GPU on the CPU model, against the float64 reference: fresh inputs, odd sizes, poisoned outputs."""

from __future__ import annotations

import os

import pytest

import autocomp
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.simt_model import COMPILER, ModelExecutor, compile_model

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return compile_model(tmp_path_factory.mktemp("simt"))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("target", ["cuda:a100", "cuda:h200"])
def test_kernels_compute_their_graph(name, target, model, tmp_path):
    program = autocomp.optimize(GRAPHS[name], target=target)
    executor = ModelExecutor(program, tmp_path, model)
    program.executor = executor
    for late in (True, False):
        executor.late = late
        seed = int.from_bytes(os.urandom(4), "little")
        try:
            program.verify(seed=seed)
        except autocomp.VerificationError as e:
            raise AssertionError(f"seed {seed}, late {late}: {e}") from None
