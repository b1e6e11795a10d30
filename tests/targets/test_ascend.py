"""Ascend C kernels on a CPU model of the API that sees missing flags: against float64, odd sizes, faults put in on purpose, refusals."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from autocomp.targets import load_target
from autocomp.targets.ascend.geometry import Geometry, extent
from autocomp.targets.simt.min_blocks import _overlap

import autocomp
from autocomp.egraph.choose import choose_schedule
from autocomp.errors import AutocompError, DoesNotFit, UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from autocomp.tile.derive import derive
from autocomp.tile.program import TileProgram
from autocomp.tile.text import show
from autocomp.trace import Trace
from examples import models
from tests.helpers import fresh
from tests.helpers.device_graphs import GRAPHS, gemm, graph
from tests.helpers.edits import Edit

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "ascend"
needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
PRODUCTS = {
    "bias_gelu": graph({"x": "f16[150, 77]", "w": "f16[77, 203]", "b": "f16[203]"}, "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)"),
    "residual": graph({"x": "f16[70, 40]", "w": "f16[40, 90]", "r": "f16[70, 90]"}, "%0 = matmul(x, w)\n%1 = add(%0, r)"),
    "turned": graph({"a": "f16[77, 50]", "b": "f16[61, 77]", "c": "f16[61]"},
                    "%0 = transpose(a, perm=[1, 0])\n%1 = transpose(b, perm=[1, 0])\n%2 = matmul(%0, %1)\n%3 = add(%2, c)\n%4 = tanh(%3)"),
    "batched": graph({"a": "bf16[5, 37, 72]", "b": "bf16[5, 72, 41]"}, "%0 = matmul(a, b)\n%1 = exp(%0)"),
    "bare": graph({"a": "f16[100, 77]", "b": "f16[77, 33]"}, "%0 = matmul(a, b)"),
    "clipped": graph({"a": "f16[3, 100, 77]", "b": "f16[3, 77, 33]"}, "%0 = matmul(a, b)\n%1 = relu(%0)"),
    "one_row": graph({"a": "f16[1, 130]", "b": "f16[130, 80]", "c": "f16[80]"}, "%0 = matmul(a, b)\n%1 = sub(%0, c)"),
    "two_products": graph({"x": "f16[65, 130]", "a": "f16[130, 70]", "b": "f16[130, 70]"},
                          "%0 = matmul(x, a)\n%1 = silu(%0)\n%2 = matmul(x, b)\n%3 = mul(%1, %2)"),
    "prologue": graph({"x": "f16[66, 72]", "g": "f16[72]", "w": "f16[72, 90]"}, "%0 = rms_norm(x, g, axes=[1])\n%1 = matmul(%0, w)"),
    "attention": graph({a: "f16[3, 75, 32]" for a in "qkv"},
                       "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%2 = mul(%1, const(0.2, f16))\n"
                       "%3 = softmax(%2, axes=[2])\n%4 = matmul(%3, v)"),
    "single": graph({"x": "f32[50, 77]", "w": "f32[77, 93]", "b": "f32[93]"}, "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)"),
    "single_turned": graph({"a": "f32[3, 77, 50]", "b": "f32[3, 61, 77]"},
                           "%0 = transpose(a, perm=[0, 2, 1])\n%1 = transpose(b, perm=[0, 2, 1])\n%2 = matmul(%0, %1)"),
    "conv_border": graph({"x": "f16[2, 12, 14, 20]", "w": "f16[40, 3, 3, 20]", "b": "f16[40, 1, 1]"},
                         "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
                         "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])\n%3 = add(%2, b)\n%4 = gelu(%3)"),
    "conv_strided": graph({"x": "f32[2, 12, 37, 20]", "w": "f32[40, 5, 5, 20]"},
                          "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
                          "%2 = conv(%0, %1, lo=[2, 3], hi=[1, 4], strides=[1, 2], dilations=[1, 1])\n%3 = relu(%2)"),
    "causal": graph({a: "f16[2, 75, 32]" for a in "qkv"},
                    "%0 = transpose(k, perm=[0, 2, 1])\n%1 = matmul(q, %0)\n%r = iota(shape=[75, 75], axis=0)\n"
                    "%c = iota(shape=[75, 75], axis=1)\n%m = ge(%r, %c)\n%2 = where(%m, %1, const(-inf, f16))\n"
                    "%3 = softmax(%2, axes=[2])\n%4 = matmul(%3, v)"),
}  # fmt: skip
GROUPS = {
    "epilogues": ["bias_gelu", "residual", "two_products", "single"],
    "shapes": ["batched", "bare", "clipped", "one_row"],
    "factors": ["turned", "single_turned", "prologue"],
    "attention": ["attention", "causal"],
    "convolutions": ["conv_border", "conv_strided"],
}
VECTOR = {
    "half": """graph g
input x: f16[100, 777]
input y: f16[100, 777]
input r: f16[33, 768]
input s: f16[33, 768]
input g: f16[768]
input b: f16[768]
input long: f16[7, 4096]
%0 = mul(x, y)
%1 = gelu(%0)
%2 = tanh(%1)
%3 = add(r, s)
%4 = rms_norm(%3, g, axes=[1])
%5 = layer_norm(r, g, b, axes=[1])
%6 = softmax(long, axes=[1])
output chain = %2
output rms = %4
output norm = %5
output soft = %6
""",
    "single": """graph g
input x: f32[100, 777]
input y: f32[100, 777]
input r: f32[77, 1023]
input g: f32[1023]
input b: f32[1023]
%0 = mul(x, y)
%1 = exp(%0)
%2 = sub(%1, y)
%3 = erf(%2)
%4 = layer_norm(r, g, b, axes=[1])
%5 = softmax(x, axes=[1])
%6 = reduce_sum(r, axes=[1])
%p = gt(x, y)
%q = lt(x, const(0.5, f32))
%n = and(%p, %q)
%7 = where(%n, x, const(2.0, f32))
%8 = reduce_max(r, axes=[0])
%9 = softmax(y, axes=[0])
output columns = %8
output down = %9
output chain = %3
output norm = %4
output soft = %5
output sum = %6
output chosen = %7
""",
}


def check(model, folder, **executor):
    program = autocomp.optimize(model, target="ascend:ascend910b")
    program.executor = AscendExecutor(program, folder, **executor)
    program.verify(seed=fresh.seed())
    return program


@needs_compiler
@pytest.mark.parametrize("name", VECTOR)
def test_vector_kernels_compute_their_graph(name, tmp_path):
    check(VECTOR[name], tmp_path)


def together(names):
    """One graph of several, so that they are built at once; what fails names its output."""
    inputs, lines, outputs = [], [], []
    for k in names:
        for line in PRODUCTS[k].splitlines()[1:]:
            if line.startswith("input "):
                name, kind = line[len("input ") :].split(": ")
                inputs.append(f"input {k}_{name}: {kind}")
            elif line.startswith("output "):
                outputs.append(f"output {k} = %{k}_{line.split('%')[1]}")
            else:
                line = re.sub(r"%(\w+)", rf"%{k}_\1", line)
                lines.append(re.sub(r"(?<=[(\s])([a-z])(?=[,)])", rf"{k}_\1", line))
    return "\n".join(["graph g", *inputs, *lines, *outputs, ""])


@needs_compiler
@pytest.mark.parametrize("group", GROUPS)
def test_products_pass_between_cube_and_vector_cores(group, tmp_path):
    program = check(together(GROUPS[group]), tmp_path)
    assert len(program.calls.calls) >= len(GROUPS[group])


@pytest.mark.parametrize(("name", "kind"), [("bare", "AIC_ONLY"), ("clipped", "AIC_ONLY"), ("bias_gelu", "MIX_AIC_1_2")])
def test_a_sum_that_is_only_converted_or_clipped_needs_no_vector_core(name, kind):
    assert f"KERNEL_TYPE_{kind}" in autocomp.optimize(PRODUCTS[name], target="ascend").source()


@needs_compiler
@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_bert_runs_kernel_by_kernel(dtype, tmp_path):
    """Rows looked up by index, projections, attention with a mask, norms: every kernel is printed for cube and vector cores."""
    program = check(models.bert(layers=1, seq=40, hidden=64, heads=2, inner=96, vocab=30, dtype=dtype), tmp_path)
    assert not any(c.kernel.opaque for c in program.calls.calls)


def once(pattern, by=""):
    return lambda text: re.sub(pattern, by, text, count=1)


@needs_compiler
@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (lambda t: re.sub(r"(Set|Wait)Flag<HardEvent::MTE2_V>\(round % 2\);", "", t), "MTE2 writes, V reads the same bytes unordered"),
        (lambda t: re.sub(r"(Set|Wait)Flag<HardEvent::V_MTE2>.*;", "", t), "V reads, MTE2 writes the same bytes unordered"),
        (lambda t: re.sub(r"(Set|Wait)Flag<HardEvent::V_MTE3>.*;", "", t), "V writes, MTE3 reads the same bytes unordered"),
        (lambda t: t.replace("PipeBarrier<PIPE_V>();", ""), "V writes, V reads the same bytes unordered"),
        (once(r"WaitFlag<HardEvent::V_MTE2>\(0\);"), "a flag is left set"),
        (once(r"SetFlag<HardEvent::MTE3_V>\(0\);"), "a wait without a set"),
        (lambda t: t.replace("InitBuffer(ub, ", "InitBuffer(ub, 9"), "a memory on chip is too small"),
    ],
)
def test_the_model_sees_faults(edit, complaint, tmp_path):
    with pytest.raises((ModelFailure, autocomp.VerificationError), match=complaint):
        check(GRAPHS["softmax_odd"], tmp_path, edit=edit, blocks=1)


@needs_compiler
def test_the_model_sees_unordered_bytes_far_from_the_beginning_of_a_work(tmp_path):
    """Uses are kept by kilobytes: 64 bytes behind the second one are read before the instruction that writes four has ended."""
    def edit(text):
        text = re.sub(r"(Set|Wait)Flag<HardEvent::V_MTE3>.*;", "", text)
        few = re.sub(r"out0_out\[0\], ac_copy\(1, n_i0 \* 2, 0, 0\)", "out0_out[1024], ac_copy(1, 64, 0, 0)", text)
        assert few != text
        return few

    with pytest.raises(ModelFailure, match="V writes, MTE3 reads the same bytes unordered"):
        check(GRAPHS["chain"], tmp_path, edit=edit, blocks=1)


@needs_compiler
@pytest.mark.parametrize(
    ("name", "was", "by", "complaint"),
    [
        # a single row is taken for a vector, whose elements lie side by side: 16 rows are asked for instead
        ("one_row", "p.m = m == 1 ? 16 : m;", "p.m = m;", "float64 reference"),
        ("last_row", "p.m = m == 1 ? 16 : m;", "p.m = m;", "float64 reference"),
        # the scalar unit writes the first block of an index vector without waiting for the vector unit
        ("masked", "  SetFlag<HardEvent::V_S>(0);\n  WaitFlag<HardEvent::V_S>(0);\n  CreateVecIndex(d,", "  CreateVecIndex(d,",
         "V reads, S writes the same bytes unordered"),
    ],
)
def test_the_model_sees_what_the_library_does_with_its_scalar_unit_and_with_one_row(name, was, by, complaint, tmp_path):
    masked = ("%r = iota(shape=[200, 75], axis=0)\n%c = iota(shape=[200, 75], axis=1)\n%m = ge(%r, %c)\n"
              "%0 = where(%m, x, const(0.5, f32))")  # fmt: skip
    last = graph({"a": "f16[129, 40]", "b": "f16[40, 32]"}, "%0 = matmul(a, b)")
    source = {**PRODUCTS, "last_row": last, "masked": graph({"x": "f32[200, 75]"}, masked)}[name]

    edit = Edit(was, by)
    (tmp_path / "whole").mkdir()
    check(source, tmp_path / "whole", blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError), match=complaint):
        check(source, tmp_path, blocks=1, edit_header=edit)
    assert edit.found == 1


def test_the_aliases_name_the_target():
    assert {autocomp.targets.load_target(n).name for n in ("npu", "ascendc", "ascend", "ascend:ascend910b", "ascend:910b")} == {"ascend"}


def test_rows_that_unified_buffer_cannot_hold_are_refused_with_both_numbers():
    kernel = autocomp.optimize(GRAPHS["softmax_odd"], target="npu").calls.calls[0].kernel
    with pytest.raises(DoesNotFit, match=r"tiles in ub of a core: needs \d+, has 188160"):
        load_target("npu").emit(kernel, Schedule.make({"i0": 123}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (graph({"x": "i64[100, 37]"}, "%0 = floordiv(x, x)"), "elements of type i64"),
        (graph({"x": "i32[100, 37]", "y": "i32[100, 37]"}, "%0 = shr(x, y)"), "elements of type i32"),
    ],
)
def test_what_has_no_vector_form_says_why_not(text, reason):
    """Without the fall-back, whose rules may be left out."""
    with pytest.raises(UnsupportedOp, match=reason):
        autocomp.optimize(text, target="npu", without=["tiling/npu-scalar-*"])


@pytest.mark.parametrize("name", ["chain", "softmax", "layer_norm_odd", "gemm_bias_gelu", "attention_causal"])
def test_the_text_is_as_it_was(name):
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_ascend.py  writes the files anew."""
    text = autocomp.optimize(GRAPHS[name], target="ascend").source()
    path = GOLDEN / f"{name}.cpp"
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def test_the_tile_program_does_not_know_the_target():
    """Under one schedule the tile program in the comment is the one that GPUs print; what differs is in tables and emitters."""
    kernel = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target="ascend").calls.calls[0].kernel
    schedule = Schedule.make({"i0": 128, "i1": 64, "r0": 32}, threads=128)
    text = show(derive(kernel, schedule))
    for target in ("cuda:a100", "ascend:910b"):
        source = load_target(target).emit(kernel, schedule).text
        assert all(line in source for line in text.splitlines() if line), target


def chosen(model, chip):
    """Tiles of a model's one kernel."""
    rules, target = load_rules((), options=Options()), load_target(chip)
    kernel = autocomp.optimize(model, target=chip).calls.calls[0].kernel
    return dict(choose_schedule(kernel, rules, target.chip, Options(), Trace(), target.admit)[0].tile)


def test_tiles_follow_what_binds(tmp_path):
    """Large products fill L0C; few rows make few rows; a chip with a quarter of L0C takes smaller tiles."""
    large, skinny = gemm(4096, 4096, 1024), gemm(16, 4096, 4096)
    tile = chosen(large, "ascend:910b")
    assert tile["i0"] * tile["i1"] * 4 == 131072 and tile["r0"] == 256
    assert chosen(skinny, "ascend:910b")["i0"] == 16
    chip = yaml.safe_load((ROOT / "cost_models" / "ascend910b.yaml").read_text())
    next(m for m in chip["memories"] if m["name"] == "l0c")["capacity"]["value"] = 32768
    small = tmp_path / "small.yaml"
    small.write_text(yaml.safe_dump(chip))
    tile = chosen(large, f"ascend:{small}")
    assert tile["i0"] * tile["i1"] * 4 <= 32768


def test_a_program_for_a_chip_that_is_not_here_says_so_when_called():
    program = autocomp.optimize(graph({"x": "f16[8, 64]"}, "%0 = softmax(x, axes=[1])"), target="npu")
    with pytest.raises(AutocompError, match="bisheng, the Ascend C compiler of CANN, is not found"):
        program.run({})


def test_columns_that_are_no_lanes_are_refused():
    """As of rows times matrices of their own that one product gives: another schedule is taken (it was a KeyError)."""
    of = Geometry((("i0", 3),), {"i2": 6})
    assert of.pitch("i2") % of.block == 0
    with pytest.raises(UnsupportedOp, match="columns along i1"):
        of.pitch("i1")


def test_open_sizes_that_an_index_is_computed_with_are_no_axes():
    """A shifted window of an open image reads at i0 + r0 - n (KeyError 'n' before)."""
    program = TileProgram("k", (), (), (("i0", 8), ("r0", 3)), (), (), ())
    with pytest.raises(UnsupportedOp, match="open size n"):
        extent(program, "n")
    assert not _overlap(program, aff("i0") + aff("n"))
    assert _overlap(program, aff("i0") + aff("r0"))
