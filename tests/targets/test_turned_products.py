"""Results of matrix instructions that leave through shared memory, in rows: odd columns, turned and batched results, on the CPU model."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.schedules import by_hand

RULE = "directives/turned-store-of-products"
NT = "%1 = transpose(b, perm=[{p}])\n%0 = matmul(a, %1)"
CASES = {
    "odd_columns": ("f16[70, 40]", "f16[131, 40]", "1, 0", "", {"i0": 64, "i1": 64, "r0": 32}, 64),
    "even_columns": ("bf16[5, 70, 40]", "bf16[5, 90, 40]", "0, 2, 1", "%y = relu(%0)", {"i0": 1, "i1": 64, "i2": 64, "r0": 40}, 64),
    "columns_that_threads_do_not_divide": ("f16[150, 40]", "f16[187, 40]", "1, 0", "", {"i0": 64, "i1": 96, "r0": 32}, 128),
    "whole_rows": ("f16[3, 118, 40]", "f16[3, 50, 40]", "0, 2, 1", "", {"i0": 1, "i1": 118, "i2": 50, "r0": 40}, 128),
    "odd_whole_rows": ("f16[3, 50, 40]", "f16[3, 47, 40]", "0, 2, 1", "", {"i0": 1, "i1": 64, "i2": 47, "r0": 40}, 64),
    "eights": ("f16[3, 70, 32]", "f16[3, 136, 32]", "0, 2, 1", "", {"i0": 1, "i1": 64, "i2": 128, "r0": 32}, 128),
    "bias": ("f16[70, 64]", "f16[74, 64]", "1, 0", "%y = add(%0, c)", {"i0": 32, "i1": 128, "r0": 32}, 128),
    "turned_result": ("f16[70, 64]", "f16[200, 64]", "1, 0", "%y = transpose(%0, perm=[1, 0])", {"i0": 64, "i1": 64, "r0": 32}, 64),
}


def program(name: str, target: str = "cuda:h200"):
    """The product under its schedule, with every directive."""
    a, b, p, after, tile, threads = CASES[name]
    inputs = {"a": a, "b": b} | ({"c": f"f16[{b[4:].partition(',')[0]}]"} if name == "bias" else {})
    made = autocomp.optimize(graph(inputs, NT.format(p=p) + f"\n{after}" * bool(after)), target=target, without=["layout/pad-*"])
    kernel = made.calls.calls[-1].kernel
    made.printed[kernel.name] = made.target.emit(kernel, by_hand(tile, threads=threads, stages=2))
    return made


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", CASES)
def test_rows_leave_whole_and_right(name, model, tmp_path):
    ours = program(name)
    text = next(iter(ours.printed.values())).text
    assert "ac_mma_" in text and "ac_move<" in text.partition("box")[2]
    ours.executor = ModelExecutor(ours, tmp_path, model)
    assert ours.verify(seed=fresh.seed()).ratio <= 1


def test_a_product_of_many_columns_and_little_depth_is_stored_so():
    """Before: 422 us for torch's 293, most of them parts of sectors."""
    text = graph({"a": "bf16[512, 448, 40]", "b": "bf16[512, 610, 40]"}, NT.format(p="0, 2, 1"))
    ours, before = (autocomp.optimize(text, target="cuda:h200", without=w) for w in ([], [RULE]))
    assert "turned_store" in ours.kernels[-1].schedule and ours.predicted < 0.96 * before.predicted


@pytest.mark.parametrize("depth", [32, 256])
def test_halves_of_sectors_leave_in_whole_lines(depth):
    """Four lanes of a matrix instruction have 16 bytes of a row of halves: the cache takes a line of its own for each."""
    text = graph({"a": f"f16[64, 104, {depth}]", "b": f"f16[64, {depth}, 672]"}, "%0 = matmul(a, b)")
    assert "turned_store" in autocomp.optimize(text, target="cuda:a100").kernels[-1].schedule


def test_whole_sectors_stay_with_their_threads():
    """Eight lanes of a multiply-add have 128 bytes of a row of f32."""
    ours = autocomp.optimize(graph({"a": "f32[300, 64]", "b": "f32[64, 200]"}, "%0 = matmul(a, b)"), target="cuda:h200")
    assert "turned_store" not in ours.kernels[-1].schedule


def test_windows_that_overlap_pass_through_the_first_cache():
    """Taps that step by less than they reach; patches that lie side by side, and weights, are read once a tile."""
    def code(stride: int, **more) -> str:
        text = graph({"x": "bf16[8, 56, 56, 256]", "w": "bf16[64, 3, 3, 64]"},
                     f'%0 = conv(x, w, layout="nhwc_ohwi", lo=[0, 0], hi=[0, 0], strides=[{stride}, {stride}], dilations=[1, 1], groups=4)')
        return autocomp.optimize(text, target="cuda:a100", **more).source()

    assert code(1).count("ac_copy_kept<16>") == code(2).count("ac_copy_kept<16>") > 0 and "ac_copy<16>" in code(1)
    assert "ac_copy_kept" not in code(3) and "ac_copy_kept" not in code(1, without=["directives/cache-windows"])


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_a_factor_that_is_read_again_is_not_overwritten(model, tmp_path):
    """The first product's result is stored in front of the second one, which has a factor in common with it."""
    body = "%t = transpose(b, perm=[1, 0])\n%s = transpose(a, perm=[1, 0])\n%p = matmul(a, %t)\n%q = matmul(a, %s)\n%r = add(%p, %q)"
    text = graph({"a": "f16[71, 40]", "b": "f16[71, 40]"}, body) + "output p = %p\noutput q = %q\n"
    ours = autocomp.optimize(text, target="cuda:h200", without=["layout/pad-*"])
    for kernel in {c.kernel.name: c.kernel for c in ours.calls.calls}.values():
        tile = {a.name: 64 for a in kernel.axes}
        ours.printed[kernel.name] = ours.target.emit(kernel, by_hand(tile, threads=64, stages=1))
    ours.executor = ModelExecutor(ours, tmp_path, model)
    assert ours.verify(seed=fresh.seed()).ratio <= 1
