"""Which instruction multiplies follows from the table by dtypes, chip and what the schedule asks for; the comment of a kernel names it."""

from __future__ import annotations

import re

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.errors import UnsupportedOp
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import gemm, turned, widened
from tests.helpers.schedules import by_hand

WARPS = by_hand({"i0": 64, "i1": 64, "r0": 32}, stages=2, threads=128)
TEAM = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
DEEP = by_hand({"i0": 128, "i1": 128, "r0": 128}, stages=3, roles="warp_specialise", workers=2)


def chosen(text: str, chip: str, schedule: Schedule) -> str:
    """The instruction that the comment of the kernel names, "" for products thread by thread."""
    kernel = autocomp.optimize(text, target=f"cuda:{chip}").calls.calls[0].kernel
    source = load_target(f"cuda:{chip}").emit(kernel, schedule)
    named = re.search(r" \* \w+: ((?:wgmma|mma|dp4a|fma)[^,]*), \d", source.text)
    return named[1] if named else ""


@pytest.mark.parametrize("chip", ["a100", "a10", "l40s", "h100", "h200"])
@pytest.mark.parametrize(("text", "name"), [
    (gemm(256, 256, 256), "mma.m16n8k16.f16"), (gemm(256, 256, 256, "bf16"), "mma.m16n8k16.bf16"),
    (widened(256, 256, 256, "i8", "i32", nt=True), "mma.m16n8k32.s8"), (widened(256, 256, 256, "u8", "i32", nt=True), "mma.m16n8k32.u8"),
    (widened(256, 256, 256, "f8e4m3", "f32", nt=True), "mma.m16n8k16.f16 of f8e4m3"),
    (gemm(256, 256, 256, "f32"), "fma"), (gemm(256, 256, 256, "f64"), "fma"),
])  # fmt: skip
def test_warps_multiply_by_the_row_of_their_types(text, name, chip):
    assert chosen(text, chip, WARPS) == name


@pytest.mark.parametrize(("text", "schedule", "name"), [
    (gemm(256, 256, 256), TEAM, "wgmma.m64n128k16.f16"), (turned(256, 256, 256, True, True, "bf16"), TEAM, "wgmma.m64n128k16.bf16"),
    (widened(256, 256, 256, "f8e4m3", "f32", nt=True), DEEP, "wgmma.m64n128k32.e4m3.e4m3"),
    (widened(256, 256, 256, "f8e5m2", "f32", nt=True), DEEP, "wgmma.m64n128k32.e5m2.e5m2"),
    (widened(256, 256, 256, "i8", "i32", nt=True), DEEP, "wgmma.m64n128k32.s8.s8"),
])  # fmt: skip
def test_warpgroups_multiply_where_the_chip_has_them(text, schedule, name):
    assert chosen(text, "h200", schedule) == name
    with pytest.raises(UnsupportedOp, match="has no warpgroup instructions"):
        chosen(text, "l40s", schedule)


@pytest.mark.parametrize(("text", "asked", "name"), [
    (widened(256, 256, 256, "i8", "i32", nt=True), "dp4a", "dp4a.s8"), (gemm(256, 256, 256, "f32"), "tf32", "mma.m16n8k8.tf32"),
])  # fmt: skip
def test_a_schedule_may_ask_for_another_row(text, asked, name):
    schedule = by_hand({"i0": 64, "i1": 64, "r0": 64}, stages=2, threads=128, instruction=asked)
    assert chosen(text, "h200", schedule) == name
    with pytest.raises(UnsupportedOp, match=f"no instruction '{asked}' for a contraction f16 x f16 -> f32"):
        chosen(gemm(256, 256, 256), "h200", schedule)
