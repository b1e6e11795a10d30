"""Weights that are unpacked from bytes and halves of bytes: few rows read the bytes, many what they were unpacked to once."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.egraph import subject
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph


def layer(rows: int, depth: int, columns: int, dtype: str = "bf16", group: int = 64) -> str:
    """x @ (halves of bytes, each less 8, times a scale for each group)."""
    text = graph({"x": f"{dtype}[{rows}, {depth}]"}, f"""%0 = bitand(q, const(15, u8))
        %1 = shr(q, const(4, u8))
        %2 = cast(%0, to="{dtype}")
        %3 = cast(%1, to="{dtype}")
        %4 = sub(%2, const(8.0, {dtype}))
        %5 = sub(%3, const(8.0, {dtype}))
        %6 = reshape(%4, shape=[{columns}, {depth // 2}, 1])
        %7 = reshape(%5, shape=[{columns}, {depth // 2}, 1])
        %8 = concat(%6, %7, axis=2)
        %9 = reshape(%8, shape=[{columns}, {depth // group}, {group}])
        %10 = mul(%9, s)
        %11 = reshape(%10, shape=[{columns}, {depth}])
        %12 = transpose(%11, perm=[1, 0])
        %y = matmul(x, %12)""")  # fmt: skip
    q, s = f"param q: u8[{columns}, {depth // 2}] = random(1)", f"param s: {dtype}[{columns}, {depth // group}, 1] = random(2)"
    head, _, rest = text.partition("%0")
    return f"{head}{q}\n{s}\n%0{rest}"


@pytest.mark.parametrize("rows", [1, 8])
def test_few_rows_read_the_bytes(rows, monkeypatch):
    program = autocomp.optimize(layer(rows, 4096, 4096), target="cuda:h200", cache=False)
    assert all("bitand" in k.ops for k in program.kernels) and not program.calls.constants
    monkeypatch.setattr(subject, "_unpacked", lambda *_: frozenset())
    folded = autocomp.optimize(layer(rows, 4096, 4096), target="cuda:h200", cache=False)
    assert folded.calls.constants and program.predicted < 0.7 * folded.predicted


def test_many_rows_read_what_was_unpacked_once():
    program = autocomp.optimize(layer(4096, 4096, 4096), target="cuda:h200", cache=False)
    assert [k.ops for k in program.kernels] == [("matmul",)] and len(program.calls.constants) == 1


def test_small_constants_and_cpus_are_as_they_were():
    small = autocomp.optimize(layer(1, 128, 64), target="cuda:h200", cache=False)
    assert small.calls.constants and not any("bitand" in k.ops for k in small.kernels)
    cpu = autocomp.optimize(layer(1, 1024, 1024, "f32"), target="cpu", cache=False)
    assert cpu.calls.constants


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("rows", "dtype"), [(1, "bf16"), (3, "f16")])
def test_results_are_those_of_float64(rows, dtype, tmp_path, model):
    program = autocomp.optimize(layer(rows, 3072, 2056, dtype), target="cuda:h200", cache=False)
    assert not program.calls.constants
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=4)


def two_layers(rows: int, depth: int, columns: int) -> str:
    """x by two layers, of which one is looked at as heads of 64."""
    one, _, rest = layer(rows, depth, columns).partition("%0")
    text, out = "%0" + rest.partition("output")[0], rest.partition("output")[2]
    params = [x for x in one.splitlines() if x.startswith("param")]
    head = "\n".join(x for x in one.splitlines() if not x.startswith("param"))
    second = re.sub(r"%(\w+)", r"%b\1", text).replace("(q,", "(q2,").replace(", s)", ", s2)")
    heads = f"%h = reshape(%by, shape=[{rows}, {columns // 64}, 64])\n%e = transpose(%h, perm=[1, 0, 2])\n"
    both = "\n".join([*params, *(p.replace("q:", "q2:").replace("s:", "s2:").replace("random(", "random(1") for p in params)])
    return f"{head}\n{both}\n{text}\n{second}\n{heads}output{out.rstrip()}\noutput heads = %e\n"


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_two_layers_of_one_tensor_are_one_kernel(tmp_path, model):
    text = two_layers(1, 3072, 1024)
    program = autocomp.optimize(text, target="cuda:h200", cache=False)
    (kernel,) = program.kernels
    assert any("fusion/sibling-products" in r for r in program.calls.calls[0].rules) and len(kernel.schedule) > 0
    apart = autocomp.optimize(text, target="cuda:h200", cache=False, without=["fusion/sibling-products"])
    assert len(apart.kernels) == 2 and program.predicted < 0.8 * apart.predicted
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify()
