"""What an epilogue reads besides its product waits packed from before it, and columns over several axes share a tile: on the CPU model."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from autocomp.targets.cuda.target import CudaTarget

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph, prepared
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")

RESIDUAL = graph({"x": "f16[200, 96]", "w": "f16[96, 136]", "b": "f16[136]", "r": "f16[200, 136]"},
                 "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = add(%1, r)")  # fmt: skip
HEADS = graph({"x": "f16[256, 64]", "w": "f16[64, 640]", "b": "f16[640]"},
              "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = reshape(%1, shape=[2, 128, 2, 5, 64])\n"
              "%3 = transpose(%2, perm=[2, 0, 3, 1, 4])")  # fmt: skip
CASES = {
    "heads in pairs, one left over": (HEADS, (1, 1, 2, 128, 64), {"workers": 2}),
    "three heads a tile, blocks that stay": (HEADS, (1, 1, 3, 64, 64), {"workers": 1, "persistent": True}),
}
# rows of 138 elements are no whole 16 bytes
ODD = graph({"x": "f16[200, 96]", "w": "f16[96, 136]", "r": "f16[200, 138]"},
            "%0 = matmul(x, w)\n%1 = slice(r, starts=[0, 0], limits=[200, 136], steps=[1, 1])\n%2 = add(%0, %1)")  # fmt: skip
GATES = graph({"x": "bf16[200, 96]", "w": "bf16[96, 264]", "g": "bf16[200, 264]", "r": "bf16[200, 264]"},
              "%0 = matmul(x, w)\n%1 = mul(%0, g)\n%2 = add(%1, r)")  # fmt: skip
FIRST = graph({"r": "f16[200, 136]", "x": "f16[200, 96]", "w": "f16[96, 136]"}, "%0 = matmul(x, w)\n%1 = sub(r, %0)")
# (graph, tile without depth, slots, schedule)
BOXES = {
    "tails in rows and columns": (RESIDUAL, (128, 128), 1, {"workers": 2}),
    "blocks that stay": (RESIDUAL, (64, 128), 2, {"workers": 1, "persistent": True}),
    "three workers": (RESIDUAL, (192, 64), 2, {"workers": 3, "persistent": True}),
    "one slot, boxes that go round": (RESIDUAL, (128, 128), 1, {"workers": 2, "persistent": True, "stages": 6}),
    "two boxes of rows a worker": (RESIDUAL, (128, 64), 2, {"workers": 1, "persistent": True}),
    "in turns": (RESIDUAL, (64, 64), 4, {"workers": 2, "persistent": True, "ping_pong": True}),
    "in turns, a slot each": (RESIDUAL, (64, 128), 2, {"workers": 2, "persistent": True, "ping_pong": True, "stages": 8}),
    "clusters": (RESIDUAL, (64, 64), 2, {"workers": 1, "persistent": True, "cluster": 2}),
    "pieces of tiles": (RESIDUAL, (64, 64), 2, {"workers": 1, "persistent": True, "stream_k": True}),
    "in front of the product": (FIRST, (64, 64), 2, {"workers": 1, "persistent": True}),
    "the first of two": (GATES, (128, 64), 2, {"workers": 2, "persistent": True}),
}  # fmt: skip

# 128 x 256 beside a ring of four leaves room for half of an operand; gelu and a bias beside it
LONG = graph({"x": "f16[136, 520]", "w": "f16[520, 264]", "r": "f16[136, 264]"}, "%0 = matmul(x, w)\n%1 = add(%0, r)")
LONG_GELU = graph({"x": "bf16[264, 648]", "w": "bf16[648, 136]", "b": "bf16[136]", "r": "bf16[264, 136]"},
                  "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)\n%3 = add(%2, r)")  # fmt: skip
HALVES = {
    "columns": (LONG, (128, 256), {}, 1),
    "rows": (LONG_GELU, (256, 128), {}, 1),
    "clusters": (LONG, (128, 256), {"cluster": 2}, 2),
}


def printed(text: str, tile: tuple[int, ...], **how):
    """A program and its kernel's source under a schedule."""
    program = prepared(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    sizes = {a.name: t for a, t in zip(kernel.axes, tile)} | {"r0": 64}
    source = CudaTarget(load_chip("h200")).emit(kernel, by_hand(sizes, **{"stages": 3, "roles": "warp_specialise", **how}))
    program.printed[kernel.name] = source
    return program, source


def check(program, folder, model):
    program.executor = executor = ModelExecutor(program, folder, model)
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


@pytest.mark.parametrize("name", CASES)
def test_columns_over_axes_leave_in_boxes(name, model, tmp_path):
    text, tile, how = CASES[name]
    program, source = printed(text, tile, **how)
    assert "ac_bulk_store" in source.text
    check(program, tmp_path, model)


@pytest.mark.parametrize("name", BOXES)
def test_operands_as_large_as_the_tile_arrive_in_boxes(name, model, tmp_path):
    """They lie where the result leaves from; the tiles of a block come round to each slot several times."""
    text, tile, slots, how = BOXES[name]
    program, source = printed(text, tile, **how)
    assert "ac_ldmatrix4(" in source.text
    loops = [int(n) for n in re.findall(r"for \(int i = 0; i < (\d+); \+\+i\)", source.text)]
    assert loops[-1] == slots, "barriers of the slots are the last"
    at_most = {"clusters": 2, "pieces of tiles": 3}.get(name, 1)
    if source.launch.at_most:
        program.printed[source.name] = replace(source, launch=replace(source.launch, at_most=at_most))
    check(program, tmp_path, model)


def test_rows_that_the_engine_cannot_copy_are_read_by_threads(model, tmp_path):
    """They are asked for before the product, wait packed and are used behind it."""
    program, source = printed(ODD, (128, 128), workers=2, persistent=True)
    assert "ac_ldmatrix4(" not in source.text
    asked, product, used = (source.text.rindex(x) for x in ("ac_load_packed<", "ac_team_commit", "ac_unpack<"))
    assert asked < product < used
    check(program, tmp_path, model)


@pytest.mark.parametrize("edit", ["wait", "give back", "fence"])
def test_a_missing_signal_is_seen(edit, model, tmp_path):
    """Without the wait the values are not there; without giving back, the producer hangs."""
    program, source = printed(RESIDUAL, (64, 128), workers=1, persistent=True)
    lines = source.text.split("\n")
    last = lambda word: max(i for i, x in enumerate(lines) if word in x)
    gone = {"wait": last("ac_ldmatrix4(") - 7, "give back": last("ac_barrier_arrive("), "fence": last("ac_bulk_wait<")}[edit]
    assert ("ac_barrier_wait" in lines[gone]) == (edit == "wait"), lines[gone]
    program.printed[source.name] = replace(source, text="\n".join(lines[:gone] + lines[gone + 1 :]),
                                           launch=replace(source.launch, at_most=1))  # fmt: skip
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        check(program, tmp_path, model)


def halves(name: str):
    """A program whose blocks take several tiles each, and its source."""
    text, tile, how, blocks = HALVES[name]
    program, source = printed(text, tile, workers=2, persistent=True, **{"stages": 4, **how})
    program.printed[source.name] = source = replace(source, launch=replace(source.launch, at_most=blocks))
    return program, source


@pytest.mark.parametrize("name", HALVES)
def test_an_operand_comes_in_two_halves_where_memory_is_short(name, model, tmp_path):
    """The first half waits packed, the second where its results leave from; the bulk engine brings both during the product."""
    program, source = halves(name)
    code = source.text
    assert "unsigned beside[32];" in code
    assert code.index("unsigned beside[32];") < code.rindex("ac_team_commit") < code.rindex("&beside[")
    check(program, tmp_path, model)


@pytest.mark.parametrize("gone", ["ac_bulk_wait<0>();", ", 0);\n    unsigned beside", ", 1);\n    #pragma unroll\n    for (int b",
                                  "ac_bulk_wait<1>();"])  # fmt: skip
def test_a_half_that_is_not_waited_for_is_seen(gone, model, tmp_path):
    program, source = halves("columns")
    head, found, rest = source.text.partition(gone)
    assert found
    if "beside" in gone or "pragma" in gone:  # the barrier's wait stands before it
        head = head[: head.rindex("ac_barrier_wait(")]
        found = found.partition("\n")[2]
    else:
        found = ";"
    program.printed[source.name] = replace(source, text=head + found + rest)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        check(program, tmp_path, model)


def test_maps_are_made_box_by_box(model, tmp_path):
    """Their values' stores are under way while the next box's are computed."""
    text = graph({"x": "f16[136, 136]", "w": "f16[136, 264]", "b": "f16[264]"},
                 "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = mul(%1, const(0.1, f16))\n%3 = exp(%2)")  # fmt: skip
    program, source = printed(text, (128, 256), workers=2, persistent=True)
    code = source.text
    assert code.index("unsigned char *const box") < code.index("ac_exp_half(") < code.index("ac_bulk_store(")
    check(program, tmp_path, model)
