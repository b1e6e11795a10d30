"""Kernels of vector cores that memory binds: long copies, values as memory has them, inputs that leave L2 to results."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers.device_graphs import graph

LARGE = graph({"a": "f16[8192, 8192]", "b": "f16[8192, 8192]"}, "%0 = add(a, b)")
HINT = "SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE)"


def test_a_large_sum_is_at_least_as_fast_as_the_best_published_step():
    """asc-devkit, add_high_performance, 910B1: 184.5 us."""
    program = autocomp.optimize(LARGE, target="ascend:910b1")
    (kernel,) = program.kernels
    assert 160e-6 < kernel.predicted < 184.5e-6 and kernel.at_full_rate < kernel.predicted
    text = program.source()
    assert text.count(HINT) == 2 and "Cast(" not in text
    size = next(int(line.split("i0 ")[1].split()[0]) for line in text.splitlines() if "schedule: tile i0" in line)
    assert size * 2 >= 16384  # bytes of a copy


@pytest.mark.parametrize("options", [{"without": ["directives/npu-read-once"]}, {}])
def test_inputs_pass_l2_by_only_where_asked_and_too_large(options):
    small = graph({"a": "f16[512, 512]", "b": "f16[512, 512]"}, "%0 = add(a, b)")
    assert HINT not in autocomp.optimize(small, target="ascend:910b1", **options).source()
    if options:
        program = autocomp.optimize(LARGE, target="ascend:910b1", **options)
        assert HINT not in program.source() and program.kernels[0].predicted > 250e-6


def test_what_is_read_again_stays():
    """A row that every tile reads; a matrix that is read once beside it."""
    text = autocomp.optimize(graph({"a": "f32[16384, 8192]", "b": "f32[8192]"}, "%0 = add(a, b)"), target="ascend:910b1").source()
    assert text.count(HINT) == 1 and f"in0_g.{HINT}" in text


@pytest.mark.skipif(not COMPILER, reason="no g++")
def test_single_instructions_work_on_values_as_they_are_stored(tmp_path):
    """Odd sizes, tails, broadcasts and functions beside them; a product of halves is rounded once."""
    text = graph({"a": "f16[61, 333]", "b": "f16[61, 333]", "c": "f32[3, 9001]", "d": "f32[3, 9001]", "e": "f16[333]"},
                 "%0 = mul(a, b)\n%1 = max(c, d)\n%2 = sub(c, c)\n%3 = relu(a)\n%4 = add(a, e)\n%5 = exp(b)")  # fmt: skip
    head = text[: text.index("output")]
    text = head + "".join(f"output o{i} = %{i}\n" for i in range(6))
    program = autocomp.optimize(text, target="ascend:910b1", without=["fusion/siblings"])
    direct = [s for s in program.printed.values() if "Cast(" not in s.text and "half" in s.text]
    assert len(direct) >= 2
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=151)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
@pytest.mark.parametrize("short", ["bf16", "f16"])
def test_a_cast_alone_rounds_what_it_stores(short, tmp_path):
    """What has arrived in single precision is no value of a shorter type yet."""
    program = autocomp.optimize(graph({"x": "f32[37, 65]"}, f'%0 = cast(x, to="{short}")'), target="ascend:910b")
    program.executor = AscendExecutor(program, tmp_path)
    program.verify()
