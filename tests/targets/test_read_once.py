"""Weights that stream once through a product of few rows, and what sums leave little of, are marked so; nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.device_graphs import attention, gemm, graph
from tests.targets.test_cuda import needs_nvrtc
from tests.targets.test_low_precision import deep_bits
from tests.targets.test_on_cpu_model import check

CHIPS = Path(__file__).parents[2] / "cost_models"
ONCE = {  # products of few rows, how their weights come, and at how many places
    "ring": (gemm(16, 8192, 8192), "ac_bulk_load_once(", 1),
    "straight": (deep_bits(16, 8192, 8192), "ac_load_once<16>", 1),
}
AGAIN = {
    "a_factor_of_many_tiles": gemm(8192, 8192, 8192),
    "small": gemm(16, 512, 512),
    "two_large_inputs": graph({"x": "f16[16, 8192]", "a": "f16[8192, 8192]", "b": "f16[8192, 8192]"},
                              "%0 = matmul(x, a)\n%1 = matmul(x, b)\n%2 = mul(%0, %1)"),
    "no_product": graph({"x": "f16[16384, 4096]"}, "%0 = softmax(x, axes=[1])"),
    "attention": attention(2, 32, 4096, 128),
}


SUMMED = {  # of tens of megabytes that leave little behind
    "rows": graph({"x": "f32[5120, 3136]"}, "%0 = reduce_sum(x, axes=[1])"),
    "odd_rows": graph({"x": "f16[8326, 2402]"}, "%0 = reduce_max(x, axes=[1])"),
    "columns_in_parts": graph({"x": "f16[156250, 256]"}, "%0 = reduce_sum(x, axes=[0])"),
    "middle": graph({"x": "f16[55, 64, 2844]"}, "%0 = reduce_sum(x, axes=[1])"),
}
NOT_SUMMED = {
    "small": graph({"x": "f32[512, 3136]"}, "%0 = reduce_sum(x, axes=[1])"),
    "far_larger_than_l2": graph({"x": "f32[65536, 3136]"}, "%0 = reduce_sum(x, axes=[1])"),
    "as_much_stored": graph({"x": "f32[5120, 3136]"}, "%0 = reduce_sum(x, axes=[1], keepdims=True)\n%1 = sub(x, %0)"),
    "windows_that_overlap": graph({"x": "f32[64, 64, 64, 64]"},
                                  "%0 = maxpool(x, window=[5, 5], strides=[3, 3], lo=[1, 1], hi=[1, 1], dilations=[1, 1])"),
}


@needs_nvrtc
@pytest.mark.parametrize("name", SUMMED)
def test_what_is_summed_is_marked(name):
    program = autocomp.optimize(SUMMED[name], target="cuda:h200")
    assert "ac_load_streamed" in program.source() and "evict_first" in program.kernels[0].schedule
    assert "_streamed" not in autocomp.optimize(SUMMED[name], target="cuda:h200", without=("directives/evict-first",)).source()
    for file, source in program.sources.items():
        assert program.target.toolchain.compile_object(Path(file).stem, source)[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", NOT_SUMMED)
def test_what_does_not_stream_into_little_is_not(name):
    program = autocomp.optimize(NOT_SUMMED[name], target="cuda:h200")
    assert "_streamed" not in program.source() and not any("evict_first" in k.schedule for k in program.kernels)


@needs_nvrtc
@pytest.mark.parametrize("name", ONCE)
def test_what_is_read_once_is_marked(name):
    text, how, places = ONCE[name]
    program = autocomp.optimize(text, target="cuda:h200")
    assert program.source().count(how) == places
    for file, source in program.sources.items():
        assert program.target.toolchain.compile_object(Path(file).stem, source)[:4] == b"\x7fELF"


@pytest.mark.parametrize("name", AGAIN)
def test_what_is_read_again_is_not(name):
    assert "_once" not in autocomp.optimize(AGAIN[name], target="cuda:h200").source()


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_marked_loads_bring_the_same(model, tmp_path):
    """On a chip on which half a megabyte is much."""
    chip = re.sub(r"streams_from: \{value: [\d.e+]+", "streams_from: {value: 100000", (CHIPS / "h200.yaml").read_text())
    (tmp_path / "small.yaml").write_text(chip)
    program = autocomp.optimize(deep_bits(1, 4096, 512), target=f"cuda:{tmp_path / 'small.yaml'}")
    assert "_once<" in program.source()
    check(program, model, tmp_path)
    rows = autocomp.optimize(graph({"x": "f16[300, 402]"}, "%0 = reduce_sum(x, axes=[1])"), target=f"cuda:{tmp_path / 'small.yaml'}")
    assert "_streamed_where<" in rows.source()
    check(rows, model, tmp_path)


def test_asynchronous_copies_bear_no_policy():
    """ptxas before 13.4 makes illegal instructions of cp.async with a policy of createpolicy.fractional (Hopper)."""
    header = (Path(autocomp.__file__).parents[1] / "targets" / "cuda" / "include" / "autocomp_cuda.cuh").read_text()
    copies = re.findall(r"cp\.async\.c[ag]\.[^\s\"]*", header)
    assert copies and not [c for c in copies if "cache_hint" in c]
    name = autocomp.optimize(deep_bits(1, 8192, 8192), target="cuda:h200").kernels[0].name
    ring = {name: "tile i0 16, r0 16, r1 64, r2 2 | stages 3 | instruction direct | evict_first"}
    source = autocomp.optimize(deep_bits(1, 8192, 8192), target="cuda:h200", schedule=ring).source().partition("*/")[2]
    assert "ac_copy<16>" in source and "evict_first" not in source


def test_what_a_later_kernel_reads_is_read_as_usual():
    """Columns whose means are taken off stay in L2 for the kernel that does so; a schedule that is given is taken as it is."""
    text = graph({"x": "f16[156250, 256]"}, "%s = reduce_sum(x, axes=[0], keepdims=True)\n%0 = sub(x, %s)")
    program = autocomp.optimize(text, target="cuda:h200", cache=False)
    assert len(program.kernels) > 1 and "_streamed" not in program.source()
    assert not any("evict_first" in k.schedule for k in program.kernels)
    told = [e for e in program.trace.of("directive") if e.data["directive"] == "evict_first"]
    assert told and not any(e.data["used"] for e in told)
    name = next(c.of.name for c in program.calls.calls if c.of)
    schedule = "tile i0 64, r0 256 | split_k r0 62 | pdl | thread_partials | evict_first"
    assert "_streamed" in autocomp.optimize(text, target="cuda:h200", cache=False, schedule={name: schedule}).source()
