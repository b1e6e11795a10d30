"""Products on a chip whose cores have a cube and a vector unit each (310P): what is printed, run on the model, and its faults seen."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from autocomp.targets.ascend.api import api, check
from autocomp.targets.ascend.target import own_names
from autocomp.targets.ascend.toolchain import headers

import autocomp
from autocomp.cost.estimate import estimate
from autocomp.errors import UnsupportedOp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import by_turns

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
PLAIN = ["tiling/npu-scalar-*"]
VECTORS = ["algebra/product-on-vector-cores", "convolution/direct-on-vector-cores"]
# Tails of rows and columns, factors stored either way, several steps of depth, rows that begin within a block, one row, a batch; what comes
# behind a sum: nothing, a conversion, a line and a function, another tensor.
SHAPES = """graph g
input a: f16[37, 64]
input b: f16[64, 75]
input c: f16[130, 1072]
input d: f16[1072, 72]
input e: f16[72]
input f: f16[48, 21]
input h: f16[100, 48]
input i: f16[1, 256]
input j: f16[256, 48]
input k: f16[3, 33, 64]
input l: f16[3, 64, 50]
input r: f32[3, 33, 50]
%0 = matmul(a, b)
%1 = matmul(c, d)
%2 = add(%1, e)
%3 = gelu(%2)
%4 = transpose(f, perm=[1, 0])
%5 = transpose(h, perm=[1, 0])
%6 = cast(%4, to="f32")
%7 = cast(%5, to="f32")
%8 = matmul(%6, %7)
%9 = matmul(i, j)
%10 = matmul(k, l)
%11 = cast(%10, to="f32")
%12 = add(%11, r)
output v = %0
output w = %3
output x = %8
output y = %9
output z = %12
"""
STEPS = graph({"a": "f16[40, 4096]", "b": "f16[4096, 96]"}, "%0 = matmul(a, b)\n%1 = relu(%0)")


def test_the_header_keeps_to_the_table():
    check(headers()["autocomp_ascend_coupled.h"], api("2002"), own_names())


@needs_compiler
def test_products_of_both_units_of_a_core_are_right(tmp_path):
    program = autocomp.optimize(SHAPES, target="ascend:310p", without=PLAIN)
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())
    products = [s for s in program.printed.values() if "ac_mmad" in s.text]
    assert len(products) == 5
    for s in products:
        assert "KERNEL_TYPE_AICORE" in s.text and "HardEvent::M_V" in s.text and "queue core.M -> core.V [acc]" in s.text
        assert not re.search("CrossCore|Fixpipe|fixpipe|ASCEND_IS", s.text)


@needs_compiler
@pytest.mark.parametrize(
    ("was", "by"),
    [(r" +WaitFlag<HardEvent::M_V>.*\n", ""), (r" +WaitFlag<HardEvent::V_M>\(round.*\n", ""), (r" +WaitFlag<HardEvent::MTE2_MTE1>.*\n", ""),
     (r"PipeBarrier<PIPE_V>\(\);", ""), (r"(ac_from_l0c\(\w+, \w+, \w+, \d+, \d+, )(\d+)", r"\1 8 + \2"),
     (r"(ac_mmad.*), r0_part == 0|(ac_mmad.*, )[^,]* == 0[^,;]*\);", r"\g<2>false);"), (r"(ac_to_l1\(in0_t, in0_g\[)", r"\1 16 + ")],
)  # fmt: skip
def test_faults_in_the_core_s_one_loop_are_seen(was, by, tmp_path):
    program = autocomp.optimize(STEPS, target="ascend:310p", without=[*PLAIN, "scheduling/npu-split-depth"])
    (source,) = program.printed.values()
    assert re.search(was, source.text)
    program.executor = AscendExecutor(program, tmp_path, lambda text: re.sub(was, by, text), blocks=1)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=3)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [(graph({"a": "f16[64, 40]", "b": "f16[40, 64]"}, "%0 = matmul(a, b)"), "depth of 40.*multiples of 16"),
     (graph({"a": "f32[64, 64]", "b": "f32[64, 64]"}, "%0 = matmul(a, b)"), "no products of f32.*has f16, i8")],
)  # fmt: skip
def test_other_products_take_the_fall_back(text, refusal):
    assert "instruction scalar" in str(autocomp.optimize(text, target="ascend:310p", without=VECTORS).kernels[0].schedule)
    with pytest.raises(UnsupportedOp, match=f"(?s){refusal}"):
        autocomp.optimize(text, target="ascend:310p", without=[*PLAIN, *VECTORS])


# A depth that is no whole fractal, few rows of a great depth, a batch, a factor that is turned and read along its rows, a convolution.
OTHERS = {
    "odd": ({"a": "f16[19, 70]", "b": "f16[70, 90]"}, "%0 = matmul(a, b)"),
    "few": ({"a": "f32[3, 700]", "b": "f32[700, 130]"}, "%0 = matmul(a, b)\n%1 = gelu(%0)"),
    "batch": ({"a": "f32[2, 3, 9, 33]", "b": "f32[3, 33, 40]"}, "%0 = matmul(a, b)"),
    "turned": ({"a": "f16[21, 41]", "b": "f16[50, 41]"}, "%0 = transpose(b, perm=[1, 0])\n%1 = matmul(a, %0)"),
    "conv": ({"x": "f32[2, 16, 7, 33]", "w": "f32[16, 16, 2, 3]"},
             "%0 = conv(x, w, strides=[1, 1], dilations=[1, 1], groups=1, lo=[0, 0], hi=[0, 0])"),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("name", "chip"), by_turns(OTHERS, ["310p", "950pr"]))
def test_vector_units_multiply_what_the_cube_unit_does_not_take(name, chip, tmp_path):
    text = graph(*OTHERS[name])
    program, scalar = (autocomp.optimize(text, target=f"ascend:{chip}", without=w) for w in ((), VECTORS))
    assert program.predicted < 0.3 * scalar.predicted
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


def test_few_rows_are_tiles_of_their_own():
    """As several they would have no layout: a value has rows along the depth already (rule `npu-columns-of-few-rows`)."""
    tiles, without = (autocomp.optimize(graph(*OTHERS["few"]), target="ascend:950pr", without=w)
                      for w in ((), ["tiling/npu-columns-of-few-rows"]))  # fmt: skip
    assert "tiling/npu-columns-of-few-rows" in tiles.source() and tiles.predicted < without.predicted


@pytest.mark.parametrize("without", [[], PLAIN])
def test_what_makes_a_factor_is_a_kernel_of_its_own(without):
    """A function of a factor; the weights of attention, whose one body would be the fall-back's: both products are one kernel's."""
    made = graph({"a": "f16[64, 64]", "b": "f16[64, 64]"}, "%0 = exp(a)\n%1 = matmul(%0, b)")
    attention = graph({n: "f16[64, 64]" for n in "qkv"}, "%0 = matmul(q, k)\n%1 = softmax(%0, axes=[1])\n%2 = matmul(%1, v)")
    for text, count in ((made, 2), (attention, 2)):
        if text is attention or not without:
            kernels = autocomp.optimize(text, target="ascend:310p", without=without).kernels
            assert len(kernels) == count and not any("instruction scalar" in str(k.schedule) for k in kernels)


def test_blocks_that_go_to_their_fractals_one_by_one_have_a_price():
    program = autocomp.optimize(graph({"a": "f16[512, 512]", "b": "f16[512, 512]"}, "%0 = matmul(a, b)"), target="ascend:310p")
    kernel, chip, schedule = program.calls.calls[0].kernel, program.target.chip, Schedule.make({"i0": 128, "i1": 128, "r0": 128})
    free = replace(chip, features=tuple(f for f in chip.features if f != "whole_blocks"))
    priced, less = (dict(estimate(kernel, schedule, c).parts)["copies to L1"] for c in (chip, free))
    assert priced > 3 * less
