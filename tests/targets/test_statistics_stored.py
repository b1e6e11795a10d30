"""A kernel over rows stores the rows' statistics too, where others read them: one pass, checked on the CPU model."""

from __future__ import annotations

from dataclasses import replace

import pytest

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse as parse_schedule
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tile.check_once import problems
from autocomp.tile.derive import derive

INT8 = """%f = cast(x, to="f32")
%a = abs(%f)
%m = reduce_max(%a, axes=[1], keepdims=1)
%s = mul(%m, const(0.007874015748, f32))
%d = div(%f, %s)
%r = round(%d)
%lo = max(%r, const(-128, f32))
%hi = min(%lo, const(127, f32))
%y = cast(%hi, to="i8")"""
NORM = """%f = cast(x, to="f32")
%q = mul(%f, %f)
%m = reduce_mean(%q, axes=[1], keepdims=1)
%e = add(%m, const(0.00001, f32))
%s = rsqrt(%e)
%y = mul(%f, %s)"""
LOG_SUM = """%f = cast(x, to="f32")
%m = reduce_max(%f, axes=[1], keepdims=1)
%d = sub(%f, %m)
%p = exp(%d)
%t = reduce_sum(%p, axes=[1], keepdims=1)
%l = log(%t)
%s = add(%l, %m)
%y = sub(%f, %s)"""


def both(dtype: str, shape: tuple[int, ...], body: str) -> str:
    return f"graph g\ninput x: {dtype}{list(shape)}\n{body}\noutput s = %s\noutput y = %y\n"


@pytest.mark.parametrize("body", [INT8, NORM, LOG_SUM])
@pytest.mark.parametrize("shape", [(3071, 3256), (52083, 768), (656, 15233)])
def test_rows_are_read_once(shape, body):
    """Before, a scale and what it scales were two kernels, each of which read the rows."""
    program = autocomp.optimize(both("f16", shape, body), target="cuda:h200")
    assert len(program.kernels) == 1
    read, written = 2 * shape[0] * shape[1], (1 if body is INT8 else 4) * shape[0] * shape[1]
    assert program.predicted < 1.8 * (read + written) / 4.3e12 + 5e-6


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("body", "width", "schedule"), [
    (INT8, 601, "tile i0 1, i1 256, r0 256 | threads 64 | thread_partials"), (NORM, 300, "tile i0 1 | threads 64 | cluster 2"),
    (LOG_SUM, 97, "tile i0 2 | threads 64"),
])  # fmt: skip
def test_both_are_right_on_the_cpu_model(model, tmp_path, body, width, schedule):
    source = both("f16", (3, width), body)
    (kernel,) = autocomp.optimize(source, target="cuda:h200").kernels
    program = autocomp.optimize(source, target="cuda:h200", schedule={kernel.name: schedule})
    program.executor = ModelExecutor(program, tmp_path, model)
    assert program.verify(seed=len(schedule)).ratio <= 1
    assert not [why for call in program.calls.calls for why in problems(derive(call.kernel, parse_schedule(schedule)))]


def test_no_two_blocks_store_a_statistic():
    (call,) = autocomp.optimize("graph g\ninput x: f32[300, 5120]\n%y = neg(x)\noutput y = %y\n", target="cuda:h200").calls.calls
    (store,) = call.kernel.stores
    kernel = replace(call.kernel, axes=(Axis("i0", 300), Axis("i1", 5120)), stores=(replace(store, index=(aff("i0"),)),))
    with pytest.raises(UnsupportedOp, match="has no axis i1, along which blocks would each store it"):
        derive(kernel, Schedule.make({"i0": 1, "i1": 512}))
