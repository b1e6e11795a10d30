"""A saved folder builds with the vendor's compiler alone and computes what the program does."""

from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import pytest

import autocomp
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import files_of
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.split_depth import on_device


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("name", ["gemm_bias_gelu", "gemm", "gemm_i8_scaled", "attention_f16", "softmax",
                                  "cluster epilogue", "stream epilogue"])  # fmt: skip
def test_the_folder_builds_and_runs(name, tmp_path):
    kind, _, shared = name.partition(" ")
    program = on_device(kind, shared) if shared else autocomp.optimize(GRAPHS[name], target="cuda")
    program.sources = files_of(program.calls, program.printed, program.target)
    program.save(tmp_path)
    feed = random_inputs(program.graph, 5)
    for n, x in feed.items():
        (tmp_path / f"{n}.bin").write_bytes(x.tobytes())
    own = {k: v for k, v in os.environ.items() if k not in ("NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")}
    done = subprocess.run(["make", "run"], cwd=tmp_path, env=own, check=False, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    want = program.run(feed)["out"]
    got = np.frombuffer((tmp_path / "out.out.bin").read_bytes(), want.dtype).reshape(want.shape)
    np.testing.assert_array_equal(got, want)
