"""A program for NPUs as a folder: complete, and its launcher computes the graph (kernels and AscendCL on the CPU model)."""

from __future__ import annotations

import json
import subprocess

import numpy as np
import pytest

import autocomp
from autocomp.cli import main
from autocomp.ir.reference import evaluate
from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.ascend_model import COMPILER, build_folder
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
HIDDEN = 40


def block(x):
    """Attention over rows and a perceptron: intermediates, weights, an epilogue, all three kinds of kernels."""
    rng = np.random.default_rng(3)
    w, up, down = (rng.standard_normal(s).astype("f2") / 6 for s in ((HIDDEN, HIDDEN), (HIDDEN, 96), (96, HIDDEN)))
    h = np.tanh(x @ w)
    return np.maximum(h @ up, 0) @ down + h


def test_the_command_leaves_a_folder_with_everything(tmp_path, monkeypatch):
    (tmp_path / "model.txt").write_text(GRAPHS["gemm_bias_gelu"])
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["autocomp", "optimize", str(tmp_path / "model.txt"), "--target", "ascend:910b", "-o", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    found = {p.name for p in out.iterdir()}
    assert found == {"launcher.cpp", "CMakeLists.txt", "Makefile", "README.md", "torch_extension.cpp", "torch_program.py", "x.bin", "w.bin",
                     "b.bin", "out.expected.bin", "manifest.json", "weights.bin", "weights.npz", "autocomp_ascend.h",
                     "autocomp_ascend_words.h", "autocomp_ascend_bf16.h", "autocomp_ascend_scalar.h", "autocomp_ascend_cube.h",
                     "autocomp_ascend_coupled.h", "autocomp_ascend_blocks.h", "matmul_add_gelu.cpp"}  # fmt: skip
    m = json.loads((out / "manifest.json").read_text())
    assert (m["target"], m["chip"], m["no_launcher"]) == ("ascend", "ascend910b", "")
    cmake = (out / "CMakeLists.txt").read_text()
    assert "ascendc_library(kernels STATIC matmul_add_gelu.cpp)" in cmake and 'SOC_VERSION "Ascend910B3"' in cmake
    text = (out / "README.md").read_text()
    assert "Nothing of this target has been compiled" in text
    build = "cmake -B build && cmake --build build --target torch_library"  # by hand: the extension links to what it leaves
    extension = (out / "torch_extension.cpp").read_text()  # memory is asked for behind a tensor, with which torch starts the device
    assert extension.index("at::empty(") < extension.index("autocomp_prepare(folder")
    assert "prepare" not in (out / "torch_program.py").read_text()
    assert build in text and build in (out / "torch_program.py").read_text() and "add_library(torch_library SHARED" in cmake


@needs_compiler
def test_the_launcher_computes_the_graph(tmp_path):
    program = autocomp.optimize(block, example_inputs=(np.zeros((37, HIDDEN), "f2"),), target="ascend:910b")
    folder = program.save(tmp_path / "out")
    build = tmp_path / "build"
    build.mkdir()
    started = build_folder(program, folder, build)
    checked = subprocess.run([started, "check"], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0 and checked.stdout.endswith("all right\n"), checked.stdout + checked.stderr
    (folder / f"{program.calls.inputs[0]}.bin").unlink()
    missing = subprocess.run([started], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert (missing.returncode, missing.stderr) == (1, f"{program.calls.inputs[0]}.bin: expected {37 * HIDDEN * 2} bytes\n")
    feed = random_inputs(program.graph, fresh.seed())
    for n, x in feed.items():
        (folder / f"{n}.bin").write_bytes(np.ascontiguousarray(x).tobytes())
    done = subprocess.run([started], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    wanted = evaluate(program.graph, feed)
    for n, _ in program.calls.outputs:
        got = np.frombuffer((folder / f"{n}.out.bin").read_bytes(), "f2").astype("f8")
        np.testing.assert_allclose(got, np.asarray(wanted[n], "f8").ravel(), rtol=2e-2, atol=2e-2)


@needs_compiler
def test_the_launcher_of_a_chip_with_other_functions_computes_too(tmp_path):
    """Headers look at the architecture: words of a 310P are multiplied without shifts, by functions of other arguments."""
    text = graph({"x": "f32[37, 90]", "w": "i32[37, 90]"}, "%0 = softmax(x, axes=[1])\n%1 = mul(w, w)\n%2 = transpose(x, perm=[1, 0])")
    program = autocomp.optimize(text.replace("output", "output q = %1\noutput", 1), target="ascend:310p", without=["tiling/npu-scalar-*"])
    folder = program.save(tmp_path / "out")
    (build := tmp_path / "build").mkdir()
    started = build_folder(program, folder, build)
    checked = subprocess.run([started, "check"], cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0 and checked.stdout.endswith("all right\n"), checked.stdout + checked.stderr
