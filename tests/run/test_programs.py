"""Whole programs on the CPU: from a model to numbers, against the float64 reference."""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, ModelError
from examples.models import bert, llama_block

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


def mlp(x, w, b):
    return np.maximum(x @ w + b, 0)


@pytest.fixture(scope="module")
def program():
    rng = np.random.default_rng(0)
    return autocomp.optimize(mlp, example_inputs=tuple(rng.standard_normal(s).astype("f4") for s in ((37, 50), (50, 75), (75,))))


@pytest.mark.parametrize("model", [
    lambda: bert(2, seq=19, hidden=48, heads=4, inner=70), lambda: llama_block(2, seq=21, hidden=64, heads=4, kv_heads=2, inner=90),
], ids=["bert", "llama"])  # fmt: skip
def test_transformers_match_the_reference(model):
    checked = autocomp.optimize(model()).verify()
    assert 0 < checked.ratio <= 1


def test_one_kernel_for_matmul_bias_relu(program):
    assert len(program.kernels) == 1
    assert program.kernels[0].ops == ("matmul", "add", "max")
    assert "fusion/epilogue" in " ".join(program.kernels[0].rules)


def test_call_takes_and_gives_arrays(program):
    rng = np.random.default_rng(1)
    x, w, b = (rng.standard_normal(s).astype("f4") for s in ((37, 50), (50, 75), (75,)))
    np.testing.assert_allclose(program(x, w, b), mlp(x, w, b), rtol=1e-4, atol=1e-4)


def test_call_takes_dlpack(program):
    class Capsule:
        def __init__(self, a):
            self.a = a

        def __dlpack__(self, **kw):
            return self.a.__dlpack__(**kw)

        def __dlpack_device__(self):
            return self.a.__dlpack_device__()

    rng = np.random.default_rng(2)
    x, w, b = (rng.standard_normal(s).astype("f4") for s in ((37, 50), (50, 75), (75,)))
    np.testing.assert_array_equal(program(Capsule(x), w, b), program(x, w, b))


def test_wrong_inputs_are_refused(program):
    x = np.zeros((37, 50), "f4")
    with pytest.raises(ModelError, match=r"takes 3 inputs \(x, w, b\), got 1"):
        program(x)
    with pytest.raises(ModelError, match=r"input 'w' wants f32\[50, 75\], got f32\[50, 74\]"):
        program(x, np.zeros((50, 74), "f4"), np.zeros(75, "f4"))
    with pytest.raises(ModelError, match=r"input 'x' wants f32\[37, 50\], got f64\[37, 50\]"):
        program(x.astype("f8"), np.zeros((50, 75), "f4"), np.zeros(75, "f4"))


def test_one_array_alone_is_one_input():
    x = np.arange(12, dtype="f4").reshape(2, 6)
    program = autocomp.optimize(lambda a: a + 1, example_inputs=x)
    np.testing.assert_array_equal(program(x), x + 1)
    assert repr(program) == "<Program traced on cpu (cpu): 1 kernel>"


def test_two_runs_give_the_same_sources():
    a, b = (autocomp.optimize(bert(1, seq=9, hidden=32, heads=2, inner=40)) for _ in range(2))
    assert a.sources == b.sources


def test_saved_folder_builds_and_compares(program, tmp_path):
    folder = program.save(tmp_path / "out")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["inputs"] == ["x", "w", "b"]
    assert [c["kernel"] for c in manifest["calls"]] == [program.kernels[0].name]
    subprocess.run(["sh", str(folder / "build.sh")], check=True)
    assert (folder / "kernels.so").is_file()
    same = autocomp.compare(folder, folder)
    assert same.diffs() == []
    assert [x == y for x, y in same.pairs] == [True]
    same.report(tmp_path / "ab.html")
    assert "Sources that differ" in (tmp_path / "ab.html").read_text()


def test_symbolic_dimension_is_bound_at_the_call():
    text = "graph g\ndim n in 1..64\ninput x: f32[n, 8]\n%0 = exp(x)\n"
    text += "%1 = reduce_sum(%0, axes=[1], keepdims=True)\n%2 = div(%0, %1)\noutput y = %2\n"
    program = autocomp.optimize(text)
    for n in (1, 7, 64):
        x = np.random.default_rng(n).standard_normal((n, 8)).astype("f4")
        e = np.exp(x.astype("f8"))
        np.testing.assert_allclose(program(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    with pytest.raises(ModelError, match=r"input 'x' has n = 65, allowed are 1\.\.64"):
        program(np.zeros((65, 8), "f4"))


def test_copies_of_a_program_are_itself_and_pickles_are_refused(program):
    assert copy.copy(program) is program and copy.deepcopy({"p": program})["p"] is program
    with pytest.raises(AutocompError, match="a program cannot be pickled"):
        pickle.dumps(program)
