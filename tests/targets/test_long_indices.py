"""Indices of tensors with more elements than 32 bits count: printed with 64 bits where they need them, and only there."""

from __future__ import annotations

import re

import pytest

import autocomp
from autocomp.errors import DoesNotFit
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.repeats import GPUS
from tests.helpers.schedules import by_hand

MASKED = """graph g
input x: f16[50000, 65000]
%0 = reshape(x, shape=[65000, 50000])
%1 = pad(%0, lo=[3, 5], hi=[0, 0], value=0.0)
output y = %1
"""
LONG_AXIS = "graph g\ninput x: i8[3221225477]\n%0 = abs(x)\noutput y = %0\n"


def text_of(graph: str, target: str) -> str:
    program = autocomp.optimize(graph, target=target)
    return "\n".join(s.text.partition("*/")[2] for s in program.printed.values())


@pytest.mark.parametrize("target", GPUS)
def test_an_index_beyond_32_bits_is_a_64_bit_variable(target):
    assert re.search(r"const long long i0_b = \(long long\)\(block\) \* \d+;", text_of(LONG_AXIS, target))
    short = text_of(LONG_AXIS.replace("3221225477", "322122547"), target)
    assert "long long i0_b" not in short
    assert "(long long)" not in short


def test_what_a_view_counts_beyond_32_bits_is_computed_in_64(tmp_path):
    """The rows and columns of the padded view are short; the number that its floors divide is not."""
    text = text_of(MASKED, "cuda:h200")
    floors = re.findall(r"ac_(?:floordiv|mod)\(([^,]*),", text)
    assert floors
    assert all("(long long)" in f for f in floors)


def test_more_blocks_than_a_grid_has_are_refused_with_both_numbers():
    program = autocomp.optimize("graph g\ninput x: f32[4000000000]\n%0 = abs(x)\noutput y = %0\n", target="cuda:h200")
    (kernel,) = (c.kernel for c in program.calls.calls)
    with pytest.raises(DoesNotFit, match=r"blocks of a grid: needs 4e\+09, has 2.14748e\+09"):
        program.target.emit(kernel, by_hand({"i0": 1}))


def test_two_sizes_without_bounds_are_printed_and_calls_count_their_blocks():
    dims = "dim a in 1..2147483647\ndim b in 1..2147483647\n"
    program = autocomp.optimize(f"graph g\n{dims}input x: f32[a, b]\n%0 = exp(x)\noutput y = %0\n", target="cuda:h200")
    (launch,) = (s.launch for s in program.printed.values())
    assert launch.blocks({"a": 1000, "b": 1000})[0] < 2**20
    with pytest.raises(DoesNotFit, match="a call with a = 2147483647, b = 2147483647: blocks of a grid"):
        launch.blocks({"a": 2**31 - 1, "b": 2**31 - 1})


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", ["cuda:h200", "cuda:a100"])
def test_kernels_whose_every_index_has_64_bits_compute_their_graph(target, model, tmp_path, monkeypatch):
    monkeypatch.setattr("autocomp.targets.simt.coordinates.LONG", 0)
    for name in ("gemm_odd", "conv_dilated", "attention_causal", "softmax_wide", "sum_columns", "transpose", "gemm_padded", "embedding"):
        program = autocomp.optimize(GRAPHS[name], target=target)
        assert "long long i" in "".join(s.text for s in program.printed.values())
        (folder := tmp_path / name).mkdir()
        program.executor = ModelExecutor(program, folder, model)
        assert program.verify(seed=3).ratio <= 1
