"""Weights that stream once through a product of few rows are marked so, whichever way they come on chip; nothing else is."""

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


def test_asynchronous_copies_bear_no_policy():
    """ptxas before 13.4 makes illegal instructions of cp.async with a policy of createpolicy.fractional (Hopper)."""
    header = (Path(autocomp.__file__).parents[1] / "targets" / "cuda" / "include" / "autocomp_cuda.cuh").read_text()
    copies = re.findall(r"cp\.async\.c[ag]\.[^\s\"]*", header)
    assert copies and not [c for c in copies if "cache_hint" in c]
    name = autocomp.optimize(deep_bits(1, 8192, 8192), target="cuda:h200").kernels[0].name
    ring = {name: "tile i0 16, r0 16, r1 64, r2 2 | stages 3 | instruction direct | evict_first"}
    source = autocomp.optimize(deep_bits(1, 8192, 8192), target="cuda:h200", schedule=ring).source().partition("*/")[2]
    assert "ac_copy<16>" in source and "evict_first" not in source
