"""A program for NVIDIA GPUs as a folder: its launcher computes the graph (on the CPU model), clusters and scratch memory too."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest

import autocomp
from autocomp.runtime.deploy import plain
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import files_of
from autocomp.simulate.simt_model import COMPILER, INCLUDE, SHARED, compile_to, team_products
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, graph, prepared
from tests.helpers.repeats import repeating
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import CASES, split, stream

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
ALIKE = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
TWICE = graph({"x": "f16[256, 256]", "w": "f16[256, 256]", "b": "f16[256]"},
              "%0 = matmul(x, w)\n%1 = gelu(%0)\n%2 = matmul(%1, w)\n%3 = add(%2, b)")  # fmt: skip


def run_folder(program, folder, model, build):
    """Build the folder's launcher over the model's runtime, and run it in the folder."""
    build.mkdir()
    for s in program.printed.values():
        text = (folder / f"{s.name}.cu").read_text().replace(SHARED, "")
        (build / f"{s.name}.cu").write_text(text.replace(s.prelude, team_products(s.prelude)) if s.prelude else text)
    text = (folder / "launcher.cu").read_text().replace("#include <cuda.h>\n#include <cuda_runtime.h>", '#include "cuda_launch.h"')
    text = re.sub(r"(\w+)<<<(dim3\([^)]*\)), (dim3\(\d+\)), (\d+), stream>>>\(", r"standin_launch(\1, \2, \3, \4, ", text)
    (build / "launcher.cpp").write_text(text)
    include = [f"-I{p}" for p in INCLUDE["cuda"]]
    compile_to(build / "launcher", [*include, str(build / "launcher.cpp"), str(model)])
    return subprocess.run([build / "launcher"], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def program_of(name):
    if name == "stream":
        program = stream("epilogue")
    elif name == "cluster":
        program = split(*CASES["epilogue"])
    elif name == "one_helper_twice":
        program = autocomp.optimize(TWICE, target="cuda:h200")
        for c in program.calls.calls:
            program.printed[c.kernel.name] = program.target.emit(c.kernel, ALIKE)
    else:
        program = prepared(GRAPHS[name], "cuda:h200")
    program.sources = files_of(program.calls, program.printed, program.target)
    return program


@pytest.mark.parametrize("name", repeating(["gemm_i8_scaled", "gemm_f8e4m3", "softmax_odd", "one_helper_twice", "cluster", "stream"],
                                           {"gemm_f8e4m3": "gemm_i8_scaled"}))  # fmt: skip
def test_the_launcher_computes_the_graph(name, model, tmp_path):
    program = program_of(name)
    folder = program.save(tmp_path / "out")
    launches = [s.launch for s in program.printed.values()]
    assert (name == "cluster") == any(x.cluster > 1 for x in launches)
    assert (name == "stream") == any(x.workspace for x in launches)
    feed = random_inputs(program.graph, fresh.seed())
    for n, x in feed.items():
        (folder / f"{plain(n)}.bin").write_bytes(np.ascontiguousarray(x).tobytes())
    done = run_folder(program, folder, model, tmp_path / "build")
    assert done.returncode == 0, done.stderr
    (output,) = (t for _, t in program.calls.outputs)
    t = program.calls.tensors[output]
    got = np.frombuffer((folder / "out.out.bin").read_bytes(), t.dtype.numpy).reshape(t.shape)

    class Ran:
        run = staticmethod(lambda feed: {"out": got})

    program.executor = Ran()
    program.verify(feed)


def test_one_helper_in_two_kernels_is_defined_apart(tmp_path):
    program = program_of("one_helper_twice")
    first, second = program.printed.values()
    assert set(re.findall(r"ac_wgmma_\w+", first.prelude)) & set(re.findall(r"ac_wgmma_\w+", second.prelude))
    text = (program.save(tmp_path) / "launcher.cu").read_text()
    for k in (first, second):
        assert re.search(rf'namespace (\w+) {{\n#include "{k.name}.cu"\n}}\nusing \1::{k.entry};', text)
