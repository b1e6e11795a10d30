"""A program for a chip that is not here, as a folder: complete, and its launcher computes the graph (on the CPU model)."""

from __future__ import annotations

import json
import re
import subprocess
from shutil import which

import numpy as np
import pytest

import autocomp
from autocomp.cli import main
from autocomp.ir.reference import evaluate
from autocomp.ir.types import dtype_of
from autocomp.runtime import deploy_check
from autocomp.runtime.deploy import plain
from autocomp.runtime.deploy_host import COMPARE, FILES, INCLUDES, type_of
from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.simt_model import COMPILER, INCLUDE, SHARED, compile_to
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, graph, prepared
from tests.helpers.repeats import repeating

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")


def two_layers(x):
    """Intermediates, folded constants and weights: whatever a launcher has to place."""
    rng = np.random.default_rng(3)
    w, v = (rng.standard_normal(s).astype("f2") / 8 for s in ((72, 136), (136, 40)))
    h = np.maximum(x @ w, 0)
    return np.tanh(h @ v) + (h @ v)


def run_folder(folder, model, build, *words):
    """Build the folder's launcher with the stand-in runtime, and run it in the folder."""
    text = (folder / "launcher.maca").read_text()
    text, launches = re.subn(r"(\w+)<<<(dim3\([^)]*\)), (dim3\(\d+\)), (\d+), stream>>>\(", r"standin_launch(\1, \2, \3, \4, ", text)
    assert launches
    (build / "launcher.cpp").write_text('#include "maca_launch.h"\n' + text)
    for kernel in set(folder.glob("*.maca")) - {folder / "launcher.maca"}:
        (build / kernel.name).write_text(kernel.read_text().replace(SHARED, ""))
    include = [f"-I{p}" for p in (build, folder, *INCLUDE["maca"])]
    compile_to(build / "launcher", [*include, str(build / "launcher.cpp"), str(model)])
    return subprocess.run([build / "launcher", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


@needs_compiler
@pytest.mark.parametrize("name", repeating(["two_layers", "gemm_bias_gelu", "softmax_odd", "layer_norm_odd", "argmax"],
                                           {"layer_norm_odd": "softmax_odd", "gemm_bias_gelu": "two_layers"}))  # fmt: skip
def test_the_launcher_computes_the_graph(name, model, tmp_path):
    if name == "two_layers":
        program = autocomp.optimize(two_layers, example_inputs=(np.zeros((51, 72), "f2"),), target="maca:c500")
        assert len(program.kernels) > 1
    else:
        program = prepared(GRAPHS[name], "maca:c500")
    folder = program.save(tmp_path / "out")
    feed = random_inputs(program.graph, fresh.seed())
    for n, x in feed.items():
        (folder / f"{plain(n)}.bin").write_bytes(np.ascontiguousarray(x).tobytes())
    done = run_folder(folder, model, tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = evaluate(program.graph, feed)
    for n, t in program.calls.outputs:
        kind = program.calls.tensors[t].dtype.numpy
        got = np.frombuffer((folder / f"{plain(n)}.out.bin").read_bytes(), kind).astype("f8")
        np.testing.assert_allclose(got, np.asarray(wanted[n], "f8").ravel(), rtol=2e-2, atol=2e-2)


@needs_compiler
def test_a_folder_checks_itself(model, tmp_path):
    """Inputs and expected outputs lie in it; an element that is off is found, and so is a missing input."""
    folder = autocomp.optimize(GRAPHS["softmax_short"], target="maca").save(tmp_path / "out")
    done = run_folder(folder, model, tmp_path, "check")
    assert done.returncode == 0 and done.stdout.endswith("of what is allowed\nall right\n"), done.stdout + done.stderr
    quiet = {"capture_output": True, "text": True, "timeout": 60}
    again = lambda *words: subprocess.run([tmp_path / "launcher", *words], cwd=folder, check=False, **quiet)
    assert re.search(r"us  a call, median of 2; kernels one by one above", again("bench", "2").stdout)
    expected = np.fromfile(folder / "out.expected.bin")
    expected[7] += 0.5
    expected.tofile(folder / "out.expected.bin")
    wrong = again("check")
    assert wrong.returncode == 1 and "the worst is [7]" in wrong.stdout and wrong.stdout.endswith("WRONG\n")
    (folder / "x.bin").unlink()
    missing = again("check")
    assert missing.returncode == 1 and missing.stderr == "x.bin: expected 28800 bytes\n"


DECODED = {"f64": 1.5e300, "f32": -3.25, "f16": 2.0**-24, "bf16": -1e38, "f8e4m3": 448.0, "f8e5m2": 2.0**-16, "i8": -128, "u8": 200,
           "i32": -(2**31), "i64": -(2**52), "bool": 1}  # fmt: skip


@needs_compiler
def test_the_check_reads_every_type(tmp_path):
    """Largest, smallest and special values, as NumPy reads them."""
    lines, want = [], []
    for name, value in DECODED.items():
        t = dtype_of(name)
        special = [np.nan, np.inf, -np.inf, 0.0] if t.is_float and name != "f8e4m3" else [np.nan] if t.is_float else [0]
        values = np.array([value, *special]).astype(t.numpy)
        raw = ", ".join(f"char({b})" for b in values.tobytes())
        each = f'for (int i = 0; i < {len(values)}; ++i) printf("%.17g\\n", decoded(p + i * {t.bytes}, {type_of(t)}));'
        lines.append(f"  {{ const char p[] = {{{raw}}}; {each} }}")
        want += values.astype(np.float64).tolist()
    text = "\n".join(f"#include <{h}>" for h in INCLUDES) + f"\n{FILES}{COMPARE}\nint main() {{\n" + "\n".join(lines) + "\n}\n"
    (tmp_path / "d.cpp").write_text(text)
    subprocess.run([*COMPILER.split(), "-std=c++17", "-w", "-o", tmp_path / "d", tmp_path / "d.cpp"], check=True, timeout=60)
    said = subprocess.run([tmp_path / "d"], capture_output=True, text=True, check=True, timeout=60).stdout
    np.testing.assert_array_equal([float(x) for x in said.split()], want)


def test_what_is_too_much_to_check_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(deploy_check, "MOST", 10)
    folder = autocomp.optimize(GRAPHS["softmax_short"], target="maca").save(tmp_path / "out")
    said = r"There are no expected outputs in this folder: [\d.e+]+ operations, and the reference is computed for at most 1e\+01"
    assert re.search(said, (folder / "README.md").read_text())
    assert not (folder / "x.bin").exists()


@pytest.mark.skipif(not which("nvcc"), reason="no nvcc")
def test_nvcc_builds_the_folder(tmp_path):
    """The program, and the library that the torch extension takes."""
    folder = autocomp.optimize(GRAPHS["softmax_short"], target="cuda:h200").save(tmp_path / "out")
    make = lambda *words: subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    done = make("program")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    flags = (folder / "Makefile").read_text()
    assert "run check: program" in flags and "bench: program" in flags


def test_the_command_leaves_a_folder_with_everything(tmp_path, monkeypatch):
    (tmp_path / "model.txt").write_text(GRAPHS["gemm_bias_gelu"])
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["autocomp", "optimize", str(tmp_path / "model.txt"), "--target", "maca:c500", "-o", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    found = {p.name for p in out.iterdir()}
    assert {"launcher.maca", "Makefile", "README.md", "manifest.json", "weights.bin", "autocomp_maca.h", "autocomp_simt.h"} <= found
    assert {"torch_extension.cpp", "torch_program.py", "x.bin", "w.bin", "b.bin", "out.expected.bin"} <= found
    m = json.loads((out / "manifest.json").read_text())
    assert (m["target"], m["chip"], m["no_launcher"], m["version"]) == ("maca", "c500", "", autocomp.__version__)
    assert set(m["sources"]) <= found and set(m["launches"]) == {k["kernel"] for k in m["kernels"]}
    assert m["memory"]["bytes"] >= 0 and all(c["rules"] for c in m["calls"])
    make = (out / "Makefile").read_text()
    assert "mxgpu_llvm/bin/mxcc" in make and "-offload-arch=xcore1000" in make


def test_memory_of_intermediates_is_shared(tmp_path):
    """The offsets of a chain of products repeat: the third intermediate lies where the first one lay."""
    lines = "\n".join(f"%{i} = matmul({'x' if i == 0 else f'%{i - 1}'}, w)" for i in range(5))
    program = autocomp.optimize(graph({"x": "f16[64, 64]", "w": "f16[64, 64]"}, lines), target="maca")
    program.save(tmp_path)
    memory = json.loads((tmp_path / "manifest.json").read_text())["memory"]
    assert len(memory["offsets"]) == 4 and memory["bytes"] == 2 * 64 * 64 * 2
    text = (tmp_path / "launcher.maca").read_text()
    assert all(f"memory + {at};" in text for at in memory["offsets"].values())


def test_names_from_models_cannot_leave_comments_or_strings():
    for name in ('x"); system("true', "x\n}", "x\\", "../x", "ä", "a/b", "."):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", plain(name))
    assert plain("fc1.weight") == "fc1.weight" and plain("a/b") != plain("a_b")


def test_a_program_with_opaque_kernels_says_why_there_is_no_launcher(tmp_path):
    program = autocomp.optimize(OPAQUE, target="maca", without=("ordering/pairs-of-*",))
    program.save(tmp_path)
    m = json.loads((tmp_path / "manifest.json").read_text())
    assert "have no generated code" in m["no_launcher"] and m["no_launcher"] in (tmp_path / "README.md").read_text()
    assert not (tmp_path / "launcher.maca").exists()


OPAQUE = graph({"x": "i64[8, 64]"}, "%0 = topk(x, k=3, axis=1)")


@pytest.mark.parametrize(("target", "prefix", "most"), [("cuda:a100", "cuda", 48 * 1024), ("maca:c500", "mc", 64 * 1024 - 1)])
def test_a_block_is_allowed_its_shared_memory(target, prefix, most, tmp_path):
    """The runtimes launch a block with so many bytes and no more, unless they were told."""
    program = autocomp.optimize(graph({"a": "f16[512, 512]", "b": "f16[512, 512]"}, "%0 = matmul(a, b)"), target=target)
    (source,) = program.printed.values()
    text = next(program.save(tmp_path / "out").glob("launcher.*")).read_text()
    attribute = f"{prefix}FuncAttributeMaxDynamicSharedMemorySize"
    asked = f"{prefix}FuncSetAttribute((const void *){source.entry}, {attribute}, {source.launch.shared})"
    assert (asked in text) == (source.launch.shared > most), source.launch.shared
    assert source.launch.shared > most
