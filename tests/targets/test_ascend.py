"""Ascend C kernels on a CPU model of the API that sees missing flags: against float64, odd sizes, faults put in on purpose, refusals."""

from __future__ import annotations

import os
import re

import pytest

import autocomp
from autocomp.errors import AutocompError, DoesNotFit, UnsupportedOp
from tests.helpers.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers.device_graphs import GRAPHS, graph

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")
VECTOR = ["chain", "chain_f32", "softmax_odd", "softmax", "layer_norm", "layer_norm_odd", "rms_norm", "sum_rows"]


def check(name, folder, **executor):
    program = autocomp.optimize(GRAPHS[name], target="ascend:ascend910b")
    program.executor = AscendExecutor(program, folder, **executor)
    program.verify(seed=int.from_bytes(os.urandom(4), "little"))
    return program


@needs_compiler
@pytest.mark.parametrize("name", VECTOR)
def test_vector_kernels_compute_their_graph(name, tmp_path):
    check(name, tmp_path)


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
        check("softmax_odd", tmp_path, edit=edit, blocks=1)


def test_the_aliases_name_the_target():
    assert {autocomp.targets.load_target(n).name for n in ("npu", "ascendc", "ascend", "ascend:ascend910b")} == {"ascend"}


def test_rows_that_unified_buffer_cannot_hold_are_refused_with_both_numbers():
    from autocomp.targets import load_target

    from autocomp.ir.schedule import Schedule

    kernel = autocomp.optimize(GRAPHS["softmax_odd"], target="npu").calls.calls[0].kernel
    with pytest.raises(DoesNotFit, match=r"tiles in ub of a core: needs \d+, has 188160"):
        load_target("npu").emit(kernel, Schedule.make({"i0": 123}))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("integers", "elements of type i32"), ("transpose", "lie 520 apart"), ("maxpool", "a reduction over axes r0,r1 at once")],
)
def test_what_is_not_printed_is_refused_with_its_reason(name, reason):
    with pytest.raises(UnsupportedOp, match=reason):
        autocomp.optimize(GRAPHS[name], target="npu")


def test_a_program_for_a_chip_that_is_not_here_says_so_when_called():
    program = autocomp.optimize(graph({"x": "f16[8, 64]"}, "%0 = softmax(x, axes=[1])"), target="npu")
    with pytest.raises(AutocompError, match="bisheng, the Ascend C compiler of CANN, is not found"):
        program.run({})
