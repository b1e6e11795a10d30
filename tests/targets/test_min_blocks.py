"""Launch bounds of sums that a loop carries (directive `min_blocks`): where they are printed, and what a count says without them."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.cost import printed
from autocomp.egraph.parts import merged
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule_text import parse
from tests.helpers.device_graphs import graph

TARGET = load_target("cuda:h200")
COLUMNS = graph({"x": "f32[8865, 1128]"}, "%y = reduce_sum(x, axes=[0])")
PRODUCT = graph({"x": "bf16[1, 4096]", "w": "bf16[4096, 6144]"}, "%y = matmul(x, w)")
ROWS = graph({"x": "f32[500, 5003]"}, "%y = softmax(x, axes=[1])")
SUMS = [(COLUMNS, "tile i0 32, r0 128 | threads 128"), (PRODUCT, "tile i0 32, r0 512"), (PRODUCT, "tile i0 64, r0 128 | threads 128")]


def kernel_of(text: str) -> Kernel:
    """The only body of a program, before it is done in parts."""
    return merged(autocomp.optimize(text, target="cuda:h200").calls).calls[0].kernel


@pytest.mark.parametrize(("text", "schedule"), SUMS)
def test_a_turn_of_many_loads_has_all_registers(text, schedule):
    kernel = kernel_of(text)
    without, bound = (parse(f"{schedule}{x} | thread_partials") for x in ("", " | min_blocks"))
    threads = without.threads
    assert f"__launch_bounds__({threads})" in TARGET.emit(kernel, without).text
    assert f"__launch_bounds__({threads}, 1)" in TARGET.emit(kernel, bound).text
    late, first = (printed.time(TARGET.issued(kernel, s), TARGET.chip) for s in (without, bound))
    assert dict(late.parts)["latency"] > 1.3 * dict(first.parts)["latency"]


@pytest.mark.parametrize(
    ("text", "schedule"), [(ROWS, "tile i0 1 | threads 512"), (COLUMNS, "tile i0 32, r0 64 | threads 512 | thread_partials")]
)
def test_rows_that_stay_in_registers_and_short_turns_have_none(text, schedule):
    """Divergences of rows of 18186 took 1.2 times as long, a group norm whose turns load 16 bytes of two tensors 1.17."""
    source = TARGET.emit(kernel_of(text), parse(f"{schedule} | min_blocks")).text
    assert "__launch_bounds__(512)" in source


@pytest.mark.parametrize("text", [COLUMNS, PRODUCT])
def test_it_is_chosen(text):
    program = autocomp.optimize(text, target="cuda:h200")
    assert any("min_blocks" in k.schedule for k in program.kernels)
