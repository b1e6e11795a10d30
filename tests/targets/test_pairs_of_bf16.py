"""Factors that are unpacked from fields of bytes, two bf16 in a register: each is the bf16 that the graph says, to the last bit."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.ir.schedule_text import parse
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph

DEPTH, COLUMNS = 2048, 1032
TARGET = load_target("cuda:h200")


def layer(shift: int, mask: int, zero: float, dtype: str = "bf16") -> str:
    """Element 2k of a row is the low half of byte k, element 2k + 1 a field of it: less `zero`, times a scale of the row."""
    tensors = {"x": f"{dtype}[1, {DEPTH}]", "q": f"u8[{COLUMNS}, {DEPTH // 2}]", "s": f"{dtype}[{COLUMNS}, 1]"}
    return graph(tensors, f"""%0 = bitand(q, const(15, u8))
        %a = shr(q, const({shift}, u8))
        %1 = bitand(%a, const({mask}, u8))
        %2 = cast(%0, to="{dtype}")
        %3 = cast(%1, to="{dtype}")
        %4 = sub(%2, const({zero}, {dtype}))
        %5 = sub(%3, const({zero}, {dtype}))
        %6 = reshape(%4, shape=[{COLUMNS}, {DEPTH // 2}, 1])
        %7 = reshape(%5, shape=[{COLUMNS}, {DEPTH // 2}, 1])
        %8 = concat(%6, %7, axis=2)
        %9 = reshape(%8, shape=[{COLUMNS}, {DEPTH}])
        %10 = mul(%9, s)
        %11 = transpose(%10, perm=[1, 0])
        %y = matmul(x, %11)""")  # fmt: skip


def each_weight_is_that_of_the_graph(program, shift: int, mask: int, zero: float) -> None:
    """By rows of one 1, whose products are columns of the weights."""
    draw = np.random.default_rng(5)
    q, s = draw.integers(0, 256, (COLUMNS, DEPTH // 2), np.uint8), draw.normal(size=(COLUMNS, 1)).astype(ml_dtypes.bfloat16)
    for at in (0, 1, 777, DEPTH - 1):
        x = np.zeros((1, DEPTH), ml_dtypes.bfloat16)
        x[0, at] = 1
        n = (q[:, at // 2] >> shift & mask if at % 2 else q[:, at // 2] & 15).astype(np.float32) - np.float32(zero)
        want = (n * s[:, 0].astype(np.float32)).astype(ml_dtypes.bfloat16)
        (got,) = program.run({"x": x, "q": q, "s": s}).values()
        assert np.array_equal(got[0].astype(np.float32), want.astype(np.float32))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("without", "call"), [((), "ac_pair_apart_bf16("), (["directives/paired-fields"], "ac_pair_fields_bf16(")])
@pytest.mark.parametrize(("shift", "mask", "zero"), [(4, 15, 8.0), (4, 7, 0.0), (1, 127, 64.0), (3, 15, -5.0), (4, 15, 200.0)])
def test_each_weight_is_the_one_that_the_graph_says(shift, mask, zero, without, call, tmp_path, model):
    program = autocomp.optimize(layer(shift, mask, zero), target="cuda:h200", cache=False, without=without)
    (source,) = program.printed.values()
    assert "ac_pair_mul_bf16(" in source.text and call in source.text
    assert ("paired_fields" in program.kernels[0].schedule) is (not without)
    program.executor = ModelExecutor(program, tmp_path, model)
    each_weight_is_that_of_the_graph(program, shift, mask, zero)


def bytes_layer(dtype: str, mask: int) -> str:
    """A byte a weight, of which `mask` counts."""
    tensors = {"x": f"{dtype}[16, {DEPTH}]", "q": f"u8[{COLUMNS}, {DEPTH}]", "s": f"{dtype}[{COLUMNS}, 1]"}
    return graph(tensors, f"""%0 = bitand(q, const({mask}, u8))
        %1 = cast(%0, to="{dtype}")
        %2 = sub(%1, const(64.0, {dtype}))
        %3 = mul(%2, s)
        %4 = transpose(%3, perm=[1, 0])
        %y = matmul(x, %4)""")  # fmt: skip


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("dtype", "call"), [("bf16", "ac_pair_apart_bf16("), ("f16", "ac_pair_apart(")])
def test_bytes_are_paired_two_apart(dtype, call, tmp_path, model):
    program = autocomp.optimize(bytes_layer(dtype, 127), target="cuda:h200", cache=False)
    assert call in next(iter(program.printed.values())).text
    program.executor = ModelExecutor(program, tmp_path, model)
    draw = np.random.default_rng(7)
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.float16
    x, s = draw.normal(size=(16, DEPTH)).astype(kind), draw.normal(size=(COLUMNS, 1)).astype(kind)
    q = draw.integers(0, 256, (COLUMNS, DEPTH), np.uint8)
    weights = (((q & 127).astype(np.float32) - 64) * s.astype(np.float32)).astype(kind).astype(np.float64)
    want, (got,) = x.astype(np.float64) @ weights.T, program.run({"x": x, "q": q, "s": s}).values()
    assert np.abs(got.astype(np.float64) - want).max() <= (0.01 if dtype == "bf16" else 0.002) * np.abs(want).max()


def two_layers(columns: int = 28672, depth: int = 4096) -> str:
    """silu(x @ a) * (x @ b), a and b of 4 bits."""
    text = graph({"x": f"bf16[1, {depth}]"} | {f"{n}": f"u8[{columns}, {depth // 2}]" for n in "ab"},
                 "\n".join(f"""%{n}0 = bitand({n}, const(15, u8))
        %{n}1 = shr({n}, const(4, u8))
        %{n}2 = cast(%{n}0, to="bf16")
        %{n}3 = cast(%{n}1, to="bf16")
        %{n}4 = reshape(%{n}2, shape=[{columns}, {depth // 2}, 1])
        %{n}5 = reshape(%{n}3, shape=[{columns}, {depth // 2}, 1])
        %{n}6 = concat(%{n}4, %{n}5, axis=2)
        %{n}7 = reshape(%{n}6, shape=[{columns}, {depth}])
        %{n}8 = transpose(%{n}7, perm=[1, 0])
        %{n}9 = matmul(x, %{n}8)""" for n in "ab") + "\n%s = silu(%a9)\n%y = mul(%s, %b9)")  # fmt: skip
    return text


def test_a_factor_that_two_products_read_has_registers_until_the_second():
    """Blocks share a core only as far as a turn's values find registers: launch bounds say so to the compiler."""
    program = autocomp.optimize(two_layers(), target="cuda:h200", cache=False)
    (kernel,) = [c.kernel for c in program.calls.calls]
    for rows, depth, blocks in ((32, 1024, 2), (16, 512, 3)):
        tile = f"tile i0 {rows}, r0 {depth}, r1 2, r2 {depth}, r3 2"
        assert f"__launch_bounds__(256, {blocks})" in TARGET.emit(kernel, parse(f"{tile} | instruction direct")).text
    one = autocomp.optimize(layer(4, 15, 8.0).replace("1032", "28672"), target="cuda:h200", cache=False)
    (kernel,) = [c.kernel for c in one.calls.calls]
    assert "__launch_bounds__(256, 4)" in TARGET.emit(kernel, parse("tile i0 32, r0 1024, r1 2 | instruction direct")).text


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_what_a_mantissa_does_not_hold_is_computed_apart(tmp_path, model):
    """Eight bits beside four of a bf16: bytes are neither neighbours' fields nor fields of words."""
    program = autocomp.optimize(layer(0, 255, 8.0), target="cuda:h200", cache=False)
    (source,) = program.printed.values()
    text = source.text.partition("*/")[2]
    assert "ac_pair_fields_bf16(" not in text and text.count("ac_pair_apart_bf16(") == text.count("ac_pair_sub_bf16(") == 2
    program.executor = ModelExecutor(program, tmp_path, model)
    each_weight_is_that_of_the_graph(program, 0, 255, 8.0)


def test_what_is_multiplied_as_it_is_stored_has_registers_for_a_turn():
    """Loads of a turn are all asked for first, where nothing is made of them and no ring brings them."""
    text = graph({"x": "f16[1, 8192]", "w": "f16[28672, 8192]"}, "%0 = transpose(w, perm=[1, 0])\n%y = matmul(x, %0)")
    (kernel,) = [c.kernel for c in autocomp.optimize(text, target="cuda:h200", cache=False).calls.calls]
    for fields, bounds in (("r0 1024", "256, 2"), ("r0 256", "256, 3"), ("r0 256 | stages 2", "256, 4")):
        assert f"__launch_bounds__({bounds})" in TARGET.emit(kernel, parse(f"tile i0 32, {fields} | instruction direct")).text
