"""Factors on Ascend whose rows begin within blocks of 32 bytes (rules `layout/*-rows-at-blocks`): copied once to rows that do not."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeats
from tests.targets.test_ascend_ahead import attention

TURN = "%{0} = transpose({1}, perm=[1, 0])\n"


def seconds(program):
    return sum(k.predicted for k in program.kernels)


def compiled(text, chip="910b1", **options):
    return autocomp.optimize(text, target=f"ascend:{chip}", **options)


def names(program):
    return [k.name for k in program.kernels]


def product(m, n, k, left=False, right=False, dtype="f16"):
    factors = {"a": f"{dtype}[{k}, {m}]" if left else f"{dtype}[{m}, {k}]", "b": f"{dtype}[{n}, {k}]" if right else f"{dtype}[{k}, {n}]"}
    lines = TURN.format(0, "a") * left + TURN.format(1, "b") * right + f"%2 = matmul({'%0' if left else 'a'}, {'%1' if right else 'b'})"
    return graph(factors, lines)


@pytest.mark.parametrize(("factors", "rule"), [
    ({"m": 2048, "n": 2048, "k": 2047}, "left"), ({"m": 2048, "n": 2047, "k": 2048}, "right"),
    ({"m": 2047, "n": 2048, "k": 2047, "left": True}, "turned-left"),
    repeats({"m": 2048, "n": 2048, "k": 2040, "dtype": "bf16"}, "left", of="f16"),
    ({"m": 2048, "n": 2047, "k": 2047, "left": True, "right": True}, "turned-right")])  # fmt: skip
def test_a_copy_is_made_where_it_pays(factors, rule):
    text, name = product(**factors), f"layout/{rule}-rows-at-blocks"
    program, plain = compiled(text), compiled(text, without=["layout/*-at-blocks", "layout/pad-*"])
    assert name in program.source() and seconds(program) < 0.85 * seconds(plain)
    assert name not in compiled(text, without=[name]).source()
    assert "at-blocks" not in compiled(text, "950pr").source()  # whose copies take no longer for it


def test_a_factor_that_a_product_reads_once_stays():
    assert names(compiled(product(96, 96, 333))) == ["matmul"]  # the copy's launch alone takes longer
    assert not any("pad" in k for k in names(compiled(attention(2, 1024, 1024, 72, dtype="bf16"))))  # a tile's queries are copied once
    one, two = (seconds(compiled(product(1, 4096, k))) for k in (4096, 4095))
    assert two < 1.1 * one  # a row alone begins where its tensor does


@pytest.mark.skipif(not COMPILER, reason="no g++")
def test_products_of_padded_rows_are_right(tmp_path):
    """What fills the rows is not read: here it is data."""
    cut = "%{0} = slice({1}, starts=[0, 0], limits=[{2}, {3}], steps=[1, 1])\n"
    body = cut.format(0, "a", 85, 69) + cut.format(1, "b", 85, 51) + TURN.format(2, "%0") + "%3 = matmul(%2, %1)"
    program = compiled(graph({"a": "bf16[85, 80]", "b": "bf16[85, 64]"}, body))
    assert names(program) == ["matmul"] and "scalar" not in program.kernels[0].schedule
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())
