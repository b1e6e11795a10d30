"""AscendNPU-IR from the tile programs of chosen kernels: of the grammar of the public tests, well typed, and right where it is run."""

from __future__ import annotations

import re

import ml_dtypes  # noqa: F401
import numpy as np
import pytest
from autocomp.targets.ascend import npuir
from autocomp.targets.ascend.npuir import emit, forms
from autocomp.targets.ascend.npuir_check import check, parse, run

import autocomp
from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.ir.reference import evaluate
from autocomp.ir.schedule_text import parse as schedule_of
from autocomp.runtime.inputs import random_inputs
from autocomp.tile.derive import derive
from tests.helpers.command_line import call
from tests.helpers.device_graphs import graph

GRAPHS = {
    "pointwise": graph({"x": "f32[37, 65]", "y": "f32[65]"}, "%0 = add(x, y)\n%1 = exp(%0)\n%2 = sub(const(1.0, f32), %1)"),
    "softmax": graph({"x": "f16[37, 200]"}, "%0 = softmax(x, axes=[1])"),
    "gemm": graph({"a": "f16[300, 520]", "b": "f16[520, 170]"}, "%0 = matmul(a, b)"),
    "gemm_transposed": graph({"a": "f16[40, 72]", "b": "f16[50, 72]"}, "%0 = transpose(b, perm=[1, 0])\n%1 = matmul(a, %0)"),
    "gemm_exp": graph({"a": "f16[100, 120]", "b": "f16[120, 70]"}, "%0 = matmul(a, b)\n%1 = mul(%0, const(0.01, f16))\n%2 = exp(%1)"),
    "gemm_bias": graph({"a": "f16[70, 64]", "b": "f16[64, 48]", "c": "f16[48]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)\n%2 = relu(%1)"),
}


def printed(text, schedule=""):
    program = autocomp.optimize(text, target="ascend:910b")
    (call_,), (info,) = program.calls.calls, program.kernels
    return program, call_, emit(derive(call_.kernel, schedule_of(schedule or info.schedule)), program.target.chip)


def ran(text, schedule=""):
    program, c, module = printed(text, schedule)
    feed = random_inputs(program.graph, 0)
    tensors = {**feed, **{t: np.full([int(n) for n in program.calls.tensors[t].shape], np.nan).astype(program.calls.tensors[t].dtype.numpy)
                          for _, t in program.calls.outputs}}  # fmt: skip
    arrays = {a: np.ascontiguousarray(tensors[t]).ravel() for a, t in c.args.items()}
    blocks = re.search(r"step (%c\d+) \{", module)
    count = int(re.search(rf"{blocks[1]} = arith.constant (\d+)", module)[1]) if blocks else 1
    run(module, arrays, count)
    ((name, tensor),) = program.calls.outputs
    got = next(arrays[a] for a, t in c.args.items() if t == tensor)
    want = np.asarray(evaluate(program.graph, feed)[name], "f8").ravel()
    np.testing.assert_allclose(got.astype("f8"), want, rtol=2e-2, atol=2e-2 * np.abs(want).max())
    return module


@pytest.mark.parametrize("name", GRAPHS)
def test_a_module_computes_the_graph(name):
    module = ran(GRAPHS[name])
    cores = {"gemm": "AIC", "gemm_transposed": "AIC", "gemm_exp": "MIX", "gemm_bias": "MIX"}.get(name, "AIV")
    assert f"#hivm.func_core_type<{cores}>" in module and ("hivm.hir.fixpipe" in module) == (cores == "AIC")


def test_a_depth_in_steps_carries_its_sum():
    module = ran(GRAPHS["gemm"], "tile i0 64, i1 64, r0 96 | stages 2")
    assert "iter_args" in module and "arith.cmpi eq" in module and "init_out_buffer = true" in module  # 520 is no multiple of 96


@pytest.mark.parametrize(
    ("was", "by", "said"),
    [
        ("hivm.hir.vexp", "hivm.hir.vgamma", "is no operation of the table"),
        ("ins(%10,", "ins(%99,", "%99 is not defined"),
        ("tensor<1x65xf32>, tensor<1x65xf32>", "tensor<1x65xf32>, tensor<1x64xf32>", "is a tensor<1x65xf32>, not a tensor<1x64xf32>"),
        ("ins(%10, %15 : tensor<1x65xf32>, ", "ins(%10, %15 : ", "2 operands of ins have 1 types"),
        ("    }\n", "", "a loop is not closed"),
    ],
)
def test_the_grammar_refuses_what_is_not_in_it(was, by, said):
    _, _, module = printed(GRAPHS["pointwise"], "tile i0 1, i1 65")
    assert was in module
    with pytest.raises(AutocompError, match=re.escape(said)):
        check(module.replace(was, by, 1))


def test_a_wrong_module_is_wrong_when_it_is_run(monkeypatch):
    monkeypatch.setitem(forms()["functions"], "exp", {"op": "vln", "operands": 1})
    with pytest.raises(AssertionError):
        ran(GRAPHS["softmax"])


def test_what_has_no_form_is_refused_by_name():
    cases = {graph({"x": "f32[9, 40]"}, "%0 = sin(x)"): "the function 'sin'", graph({"x": "i32[9, 40]"}, "%0 = add(x, x)"): "type i32"}
    for text, what in cases.items():
        with pytest.raises(UnsupportedOp, match=f"{what}.*has no form in AscendNPU-IR here"):
            printed(text)


def test_every_row_has_its_source():
    assert all(row["seen"].endswith(".mlir") for row in (*forms()["functions"].values(), *forms()["operations"].values()))
    assert parse(printed(GRAPHS["softmax"])[2])[1] and npuir.forms() is forms()


def test_the_command_writes_a_module_a_kernel(tmp_path):
    (tmp_path / "m.txt").write_text(GRAPHS["gemm"])
    words = ("optimize", str(tmp_path / "m.txt"), "--emit", "ascendnpu-ir", "-o", str(tmp_path / "out"))
    code, out, _ = call(*words, "--target", "ascend:910b")
    assert code == 0 and "1 of 1 kernels as AscendNPU-IR" in out
    check((tmp_path / "out" / "matmul.mlir").read_text())
    code, _, err = call(*words, "--target", "maca:c500")
    assert code == 2 and "--emit ascendnpu-ir is for --target ascend" in err
