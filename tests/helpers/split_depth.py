"""Products under schedules that share out their depth, for the CPU model and for a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from autocomp.ir.schedule import Schedule
from autocomp.runtime.program import Program, executor_of, files_of
from tests.helpers.device_graphs import gemm, graph, prepared
from tests.helpers.schedules import by_hand

TWO = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2, cluster=2, cluster_split_k=2)
FOUR = replace(TWO, tile=(("i0", 128), ("i1", 256), ("r0", 64)), stages=2, cluster=4, cluster_split_k=4)
EPILOGUE = graph({"x": "f16[136, 328]", "w": "f16[328, 264]", "b": "f16[264]", "y": "f16[136, 264]"},
                 "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)\n%3 = add(%2, y)")  # fmt: skip
SWIGLU = graph({"x": "f16[136, 200]", "u": "f16[200, 136]", "v": "f16[200, 136]"},
               "%0 = matmul(x, u)\n%1 = silu(%0)\n%2 = matmul(x, v)\n%3 = mul(%1, %2)")  # fmt: skip
CASES = {
    "two": (gemm(136, 136, 264, "bf16"), replace(TWO, grouped=8)),
    "four": (gemm(128, 256, 328), FOUR),
    "epilogue": (EPILOGUE, TWO),
    "wide_results": (graph({"x": "f16[136, 328]", "w": "f16[328, 136]"}, '%0 = matmul(x, w)\n%1 = cast(%0, to="f32")'), TWO),
    "fewer_turns_than_blocks": (gemm(128, 256, 72), FOUR),
    "batched": (gemm(136, 128, 136, "f16", "2, "), replace(TWO, tile=(("i0", 1), ("i1", 128), ("i2", 128), ("r0", 64)))),
    "two_sums": (SWIGLU, replace(TWO, tile=(("i0", 128), ("i1", 64), ("r0", 64)), workers=1)),
}


FEW = by_hand({"i0": 16, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2)
FEW_ROWS = {
    "eight": (gemm(8, 200, 136, "bf16"), replace(FEW, tile=(("i0", 8), ("i1", 64), ("r0", 64)), workers=1)),
    "split": (gemm(16, 264, 520), replace(FEW, tile=(("i0", 16), ("i1", 256), ("r0", 64)), cluster=4, cluster_split_k=4)),
    "weights_turned": (graph({"x": "f16[32, 136]", "w": "f16[200, 136]", "b": "f16[200]"},
                             "%0 = transpose(w, perm=[1, 0])\n%1 = matmul(x, %0)\n%2 = add(%1, b)\n%3 = relu(%2)"),
                       replace(FEW, tile=(("i0", 32), ("i1", 128), ("r0", 64)), cluster=2, cluster_split_k=2)),
    "odd": (gemm(13, 200, 136, "bf16"), replace(FEW, tile=(("i0", 13), ("i1", 64), ("r0", 64)), workers=1)),
    "odd_shared_out": (gemm(5, 136, 264), replace(FEW, tile=(("i0", 5), ("i1", 128), ("r0", 64)), cluster=2, cluster_split_k=2)),
}  # fmt: skip


def split(text: str, schedule: Schedule, edit: Callable[[str], str] = lambda text: text) -> Program:
    """The program under this very schedule."""
    program = prepared(text, "cuda:h200")
    (kernel,) = {c.kernel.name: c.kernel for c in program.calls.calls}.values()
    source = program.target.emit(kernel, schedule)
    comment, end, code = source.text.partition("*/")
    program.printed[kernel.name] = replace(source, text=comment + end + edit(code))
    return program


STREAM = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2, persistent=True, stream_k=True, grouped=8)
STREAMS = {
    "whole_waves_then_pieces": (gemm(264, 264, 520), STREAM, 4),
    "fewer_tiles_than_blocks": (gemm(136, 136, 520), STREAM, 7),
    "more_blocks_than_turns": (gemm(136, 136, 72), replace(STREAM, workers=1), 20),
    "epilogue": (EPILOGUE, STREAM, 3),
}

# Schedules whose epilogue's operand comes in two halves; several tiles a block
WIDE = by_hand({"i0": 128, "i1": 256, "r0": 64}, stages=4, roles="warp_specialise", workers=2, persistent=True, grouped=8)
RESIDUAL = graph({"x": "f16[392, 520]", "w": "f16[520, 528]", "r": "f16[392, 528]"}, "%0 = matmul(x, w)\n%1 = add(%0, r)")
HALVES = {
    "alone": (RESIDUAL, WIDE, 3),
    "clusters": (RESIDUAL, replace(WIDE, cluster=2), 4),
}


def stream(name: str, edit: Callable[[str], str] = lambda text: text) -> Program:
    """A program of STREAMS or HALVES, with its number of blocks."""
    text, schedule, blocks = (STREAMS | HALVES)[name]
    program = split(text, schedule, edit)
    (key,) = program.printed
    source = program.printed[key]
    program.printed[key] = replace(source, launch=replace(source.launch, at_most=blocks))
    return program


def few_blocks(text: str, schedule: Schedule, blocks: int) -> Program:
    """Under this very schedule, by so few blocks that each has several tiles."""
    program = split(text, schedule)
    (key,) = program.printed
    program.printed[key] = replace(program.printed[key], launch=replace(program.printed[key].launch, at_most=blocks))
    return program


# Weights are asked for before the launches before have been waited for
WEIGHTS = """graph g
input x: f16[{m}, {k}]
param w: f16[{k}, {n}] = random(3)
input r: f16[{m}, {n}]
%0 = matmul(x, w)
%1 = add(%0, r)
output out = %1
"""
TILES = {"i0": 64, "i1": 128, "r0": 64}
# (m, n, k), schedule, blocks
AHEAD = {
    "a ring": ((200, 136, 200), {"workers": 1}, 0),
    "fewer turns than slots": ((200, 136, 72), {"workers": 1, "stages": 5}, 0),
    "blocks that stay": ((200, 136, 200), {"workers": 1, "persistent": True}, 2),
    "blocks without a tile": ((64, 128, 200), {"workers": 1, "persistent": True}, 0),
    "one step a tile": ((328, 264, 64), {"workers": 1, "persistent": True}, 2),
    "in turns": ((328, 264, 64), {"workers": 2, "persistent": True, "ping_pong": True}, 2),
    "clusters": ((328, 264, 136), {"workers": 1, "persistent": True, "cluster": 2}, 2),
    "pieces of tiles": ((328, 264, 200), {"workers": 1, "persistent": True, "stream_k": True}, 4),
    "depth in parts": ((128, 128, 264), {"workers": 1, "cluster": 2, "cluster_split_k": 2}, 0),
}


def weights(name: str, deeper: int = 1) -> Program:
    """A program of AHEAD, or so many times as deep."""
    (m, n, k), how, blocks = AHEAD[name]
    text, schedule = WEIGHTS.format(m=m, n=n, k=k * deeper), by_hand(TILES, **{"stages": 3, "roles": "warp_specialise", **how})
    return few_blocks(text, schedule, blocks) if blocks else split(text, schedule)


PROGRAMS = [("cluster", n) for n in CASES] + [("few rows", n) for n in FEW_ROWS] + [("stream", n) for n in (*STREAMS, *HALVES)]


def on_device(kind: str, name: str) -> Program:
    """One of PROGRAMS with an executor for what it prints now."""
    p = stream(name) if kind == "stream" else split(*(CASES if kind == "cluster" else FEW_ROWS)[name])
    p.executor = executor_of(p.calls, p.printed, files_of(p.calls, p.printed, p.target), p.target, p.options, p.trace)
    return p
