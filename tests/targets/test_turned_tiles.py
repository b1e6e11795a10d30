"""Tiles that memory holds in another order: on the CPU model, and all copies under way before threads meet."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS, repeats
from tests.helpers.sass import instructions, needs_disassembler

BODIES = {
    "turned first": "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)",
    "turned last": "%0 = transpose(x, perm=[1, 0])\n%1 = sub(y, %0)",
    "two turned": "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)\n%2 = transpose(z, perm=[1, 0])\n%3 = mul(%1, %2)",
}


def turned(body: str, rows: int, columns: int) -> str:
    inputs = {"x": f"f16[{columns}, {rows}]", "y": f"f16[{rows}, {columns}]"} | ({"z": f"f16[{columns}, {rows}]"} if "z" in body else {})
    return graph(inputs, body)


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("body", BODIES)
def test_turned_tiles_compute_their_graph(body, target, model, tmp_path):
    program = autocomp.optimize(turned(BODIES[body], 136, 72), target=target)
    executor = program.executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        program.verify()


@pytest.mark.parametrize("seed", range(3))
def test_a_waves_asynchronous_copies_lie_side_by_side(seed, model, tmp_path):
    """Rows of a few whole chunks of 16 bytes: MACA's builtin writes a wave's chunks as one piece, so that rows have no padding there."""
    r = Random(seed)
    rows, columns = 2 * r.randint(33, 125), r.choice((4, 8, 12))
    program = autocomp.optimize(graph({"x": f"f32[{rows}, {columns}]"}, "%0 = transpose(x, perm=[1, 0])"), target="maca:c500")
    assert any("ac_copy<16>" in s.text for s in program.printed.values())
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify()


@pytest.mark.parametrize("body", BODIES)
def test_every_copy_is_under_way_before_threads_meet(body):
    """In whichever order the operands stand; what comes straight to registers may not be moved behind the barrier."""
    (kernel,) = autocomp.optimize(turned(BODIES[body], 4096, 4096), target="cuda:h200").kernels
    before, _, behind = kernel.source.partition("ac_wait<0>();")
    turns = 2 if body == "two turned" else 1
    assert (before.count("ac_load_soon<8>("), before.count("ac_commit();")) == (1, turns)
    assert "ac_load" not in behind and "ac_copy" not in behind and behind.count("ac_sync();") == 1


def test_a_tile_whose_lanes_lie_along_memory_is_not_staged():
    """Rows of 687 halves begin anywhere: threads read one each, their neighbours the next ones, and no shared memory is between."""
    text = graph({"x": "bf16[4, 96, 687]"}, '%0 = reduce_max(x, axes=[1], keepdims=1)\n%1 = sub(x, %0)')
    program = autocomp.optimize(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    for tile in ("tile i0 1, i2 32 | threads 128", "tile i0 1, i2 64"):
        (printed,) = autocomp.optimize(text, target="cuda:h200", schedule={kernel.name: tile}).kernels
        assert "ac_copy<" not in printed.source and "ac_load" in printed.source


@pytest.mark.parametrize("target", GPUS)
def test_narrow_copies_are_under_way_in_batches(target, model, tmp_path):
    """Three columns of halves in a row are no asynchronous copies: a thread reads eight of them before it writes the first, and what is
    asynchronous starts in front of them."""
    text = graph({"a": "f16[160, 3]", "b": "f16[160, 72]"}, "%t = transpose(a, perm=[1, 0])\n%0 = matmul(%t, b)")
    kernel = autocomp.optimize(text, target=target, without=["algebra/*"]).calls.calls[0].kernel
    how = "tile i0 3, i1 64, r0 64 | stages 2 | threads 128"
    made = [autocomp.optimize(text, target=target, without=["algebra/*"], schedule={kernel.name: how + more})
            for more in ("", " | batch_copies")]  # fmt: skip
    plain, batched = (p.kernels[0].source for p in made)
    assert "ac_copy<2>" in plain and "ac_fetched" not in plain
    assert "ac_copy<2>" not in batched and batched.index("ac_copy<16>") < batched.index("ac_fetched<1>")
    for p in made:
        (folder := tmp_path / str(id(p))).mkdir()
        p.executor = ModelExecutor(p, folder, model)
        assert p.verify().ratio <= 1


DRAW = Random(30)
SHAPES = [(dtype, DRAW.randrange(60, 300), DRAW.randrange(60, 300) // step * step) for dtype in ("i8", "f16", "f32") for step in (1, 2, 16)]


def bare(dtype: str, rows: int, columns: int) -> str:
    return graph({"x": f"{dtype}[{rows}, {columns}]"}, "%0 = transpose(x, perm=[1, 0])")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize(("dtype", "rows", "columns"), [repeats(*s, of="f16") if s[0] == "i8" else s for s in SHAPES])
@pytest.mark.parametrize("schedule", ["tile i0 64, i1 32 | threads 128", "tile i0 32, i1 256 | threads 256"])
def test_a_transpose_of_any_size_is_exact(dtype, rows, columns, schedule, target, model, tmp_path):
    """Chunks of one element to sixteen, in rows that fill a block's threads, or which these fill, wherever a row begins."""
    program = autocomp.optimize(bare(dtype, rows, columns), target=target, schedule={"transpose": schedule})
    program.executor = ModelExecutor(program, tmp_path, model)
    x = np.arange(rows * columns).reshape(rows, columns).astype({"i8": "i1", "f16": "f2", "f32": "f4"}[dtype])
    (got,) = program.run({"x": x}).values()
    np.testing.assert_array_equal(got, x.T)


@needs_disassembler
@pytest.mark.parametrize(("dtype", "rows", "columns", "tile", "threads"), [
    ("f16", 4690, 1289, (128, 64), 256), ("bf16", 2604, 2792, (64, 128), 256), ("f32", 3500, 3360, (64, 128), 256),
])  # fmt: skip
def test_a_staged_tile_takes_few_instructions_and_is_counted_so(dtype, rows, columns, tile, threads, tmp_path):
    """Every address is a constant away from a thread's first one: 5 to 12 instructions an element where a swizzle and rows numbered by a
    permutation took 19 to 52. What is counted lies within a third of what ptxas makes."""
    by_hand = {"transpose": f"tile i0 {tile[0]}, i1 {tile[1]} | threads {threads}"}
    program = autocomp.optimize(bare(dtype, rows, columns), target="cuda:h200", schedule=by_hand)
    (text,) = program.sources.values()
    assert "ac_swizzle" not in text and ("ac_copy<" in text or "ac_keep(" in text)
    made = [i for i in instructions(text, tmp_path) if not i.startswith("NOP")]
    assert len(made) < 12 * tile[0] * tile[1] / threads
    schedule = Schedule.make({"i0": tile[0], "i1": tile[1]}, threads=threads)
    found = load_target("cuda:h200").issued(program.calls.calls[0].kernel, schedule)
    counted = sum(found.total(pipe) for pipe in ("fma", "integer", "integer multiply", "memory", "branch")) / (threads / 32)
    assert counted == pytest.approx(len(made), rel=0.33)
