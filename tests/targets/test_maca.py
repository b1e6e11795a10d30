"""MACA C kernels: type-checked by clang in HIP mode against a stand-in of the SDK's headers, goldens, refusals."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.errors import AutocompError, BuildError, DoesNotFit, UnsupportedOp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import GOLDEN, GRAPHS, HOMES, attention, graph, printed
from tests.helpers.repeats import repeats
from tests.helpers.schedules import by_hand

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "golden" / "maca"
CLANG = shutil.which("clang++-19") or ""
needs_clang = pytest.mark.skipif(not CLANG, reason="clang++-19 is not installed (apt-get install clang-19)")
INCLUDE = [f"-I{ROOT / p}" for p in ("tests/helpers/maca", "targets/maca/include", "targets/simt/include")]


def check(path: Path) -> str:
    """The compiler's complaints about a file, "" if it has none."""
    flags = ["-x", "hip", "--cuda-device-only", "--offload-arch=gfx90a", "-nogpulib", "-nogpuinc", "-std=c++17", "-fsyntax-only"]
    done = subprocess.run([CLANG, *flags, *INCLUDE, str(path)], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@needs_clang
@pytest.mark.parametrize("name", [n if n in GOLDEN["c500"] or HOMES[n] == "maca:c500" else repeats(n, of="the same graph compiled for CUDA")
                                  for n in GRAPHS])  # fmt: skip
def test_every_kernel_type_checks(name, tmp_path):
    program = printed(name, "maca:c500")
    for file, text in program.sources.items():
        (tmp_path / file).write_text(text)
        assert check(tmp_path / file) == ""


@needs_clang
@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("float f() { return __builtin_mxc_mma_16x16x32f16(0, 0, 0); }", "undeclared identifier '__builtin_mxc_mma_16x16x32f16'"),
        ("float f(float x) { return __shfl_xor_sync(0xffffffffu, x, 1); }", "deleted function"),
    ],
)
def test_the_check_sees_unknown_builtins_and_32_bit_masks(wrong, complaint, tmp_path):
    path = tmp_path / "k.maca"
    path.write_text(f'#include "autocomp_maca.h"\nAC_DEVICE {wrong}\n')
    assert complaint in check(path)


@pytest.mark.parametrize("name", GOLDEN["c500"])
def test_the_text_is_as_it_was(name):
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_maca.py  writes the files anew."""
    text = printed(name, "maca:c500").source()
    path = FOLDER / f"{name}.maca"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_the_tile_program_does_not_know_the_target():
    """Under one schedule the text between the comment's lines is the same for both; what differs is in tables and headers."""
    from autocomp.tile.derive import derive
    from autocomp.tile.text import show

    kernel = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target="maca").calls.calls[0].kernel
    schedule = by_hand({"i0": 128, "i1": 64, "r0": 32}, stages=3, threads=128)
    text = show(derive(kernel, schedule))
    for target in ("cuda:a100", "maca:c500"):
        source = load_target(target).emit(kernel, schedule).text
        assert all(line in source for line in text.splitlines() if line)


def test_half_a_wave_is_refused():
    kernel = autocomp.optimize(GRAPHS["gemm"], target="maca").calls.calls[0].kernel
    with pytest.raises(UnsupportedOp, match="32 threads of a block are no whole number of waves of 64"):
        load_target("maca").emit(kernel, by_hand({"i0": 32, "i1": 32, "r0": 32}, stages=2, threads=32))


def test_what_64_kilobytes_cannot_hold_is_refused_with_both_numbers():
    kernel = autocomp.optimize(GRAPHS["gemm"], target="maca").calls.calls[0].kernel
    with pytest.raises(DoesNotFit, match=r"shared memory of a block: needs \d+, has 65536"):
        load_target("maca").emit(kernel, by_hand({"i0": 256, "i1": 256, "r0": 64}, stages=2, threads=256))


def test_attention_that_fits_no_kernel_is_two_and_the_trace_has_both_numbers():
    program = autocomp.optimize(attention(1, 2, 200, 128, "f32"), target="maca")
    assert len(program.kernels) == 2
    reasons = [e.data["reason"] for e in program.trace.events if e.kind == "reject" and e.name == "target"]
    assert any(re.search(r"shared memory of a block: needs \d+, has 65536", r) for r in reasons), reasons


def _sdk(folder: Path, *without: str) -> Path:
    for name in {"mxgpu_llvm/bin/mxcc", "include/mcr/mc_runtime.h"} - set(without):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(("without", "complaint"), [
    (("mxgpu_llvm/bin/mxcc",), "has no mxgpu_llvm/bin/mxcc"), (("include/mcr/mc_runtime.h",), "has no include/mcr/mc_runtime.h"),
    (("mxgpu_llvm/bin/mxcc", "include/mcr/mc_runtime.h"), "does not exist"),
])  # fmt: skip
def test_a_folder_without_the_sdk_is_refused_by_what_it_lacks(without, complaint, tmp_path):
    folder = _sdk(tmp_path / "sdk", *without)
    with pytest.raises(BuildError, match=f"the MACA SDK's folder {folder} {complaint}") as e:
        autocomp.optimize(GRAPHS["softmax"], target="maca:c500", maca_path=str(folder))
    assert "include/mcr/mc_runtime.h" in e.value.hint


def test_a_named_sdk_compiles_and_stands_in_the_folder(tmp_path, monkeypatch):
    """Also where $MACA_PATH and $PATH name others."""
    monkeypatch.setenv("MACA_PATH", str(_sdk(tmp_path / "other")))
    folder = _sdk(tmp_path / "sdk")
    program = autocomp.optimize(GRAPHS["softmax"], target="maca:c500", maca_path=str(folder))
    tools = program.target.toolchain
    assert tools.compiler() == str(folder / "mxgpu_llvm/bin/mxcc") and f"--maca-path={folder}" in tools.arguments("k.maca")
    makefile = (program.save(tmp_path / "out") / "Makefile").read_text()
    assert f"MACA_PATH ?= {folder}\n" in makefile and "--maca-path=$(MACA_PATH)" in makefile
    plain = autocomp.optimize(GRAPHS["softmax"], target="maca:c500")
    assert plain.target.toolchain.compiler() == str(tmp_path / "other/mxgpu_llvm/bin/mxcc")
    assert "MACA_PATH ?= /opt/maca\n" in (plain.save(tmp_path / "plain") / "Makefile").read_text()


def test_a_program_for_a_chip_that_is_not_here_says_so_when_called():
    program = autocomp.optimize(graph({"x": "f16[8, 64]"}, "%0 = softmax(x, axes=[1])"), target="maca")
    assert not program.runnable
    with pytest.raises(AutocompError, match="target maca cannot run here"):
        program.run({})


@pytest.mark.skipif(not COMPILER, reason="no g++")
def test_a_single_row_s_product_is_shared_out_by_its_depth(model, tmp_path):
    """A row has no tiles of rows, so that its columns alone would leave most cores idle."""
    rule = "scheduling/gpu-split-depth"
    row = lambda n, k: graph({"a": f"f16[1, {k}]", "b": f"f16[{k}, {n}]"}, "%0 = matmul(a, b)")
    programs = (autocomp.optimize(row(1024, 8192), target="maca:c500", without=w) for w in ((), (rule,)))
    took, plain = (sum(k.predicted for k in p.kernels) for p in programs)
    assert took < 0.6 * plain
    program = autocomp.optimize(row(72, 2048), target="maca:c500")
    assert [k.name for k in program.kernels] == ["matmul_part", "matmul_join"]
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=fresh.seed())
