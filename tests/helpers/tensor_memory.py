"""Products into tensor memory: graphs and schedules by hand, and the programs of goldens."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.runtime.program import Program
from tests.helpers.device_graphs import gemm, graph, turned
from tests.helpers.schedules import by_hand

ONE = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=1)
STAY = replace(ONE, persistent=True, grouped=8)
BYTES = replace(STAY, tile=(("i0", 128), ("i1", 64), ("r0", 128)))
GELU = graph({"a": "f16[200, 136]", "b": "f16[136, 264]", "c": "f16[264]"}, "%0 = matmul(a, b)\n%1 = add(%0, c)\n%2 = gelu(%1)")
RESIDUAL = graph({"a": "f16[200, 136]", "b": "f16[136, 264]", "c": "f16[200, 264]", "s": "f16[200, 1]"},
                 "%0 = matmul(a, b)\n%1 = add(%0, c)\n%2 = mul(%1, s)")  # fmt: skip


def widened(a: str, b: str, to: str) -> str:
    """A product of bytes that lie along the depth."""
    return graph({"a": f"{a}[150, 256]", "b": f"{b}[80, 256]"},
                 f'%t = transpose(b, perm=[1, 0])\n%1 = cast(a, to="{to}")\n%2 = cast(%t, to="{to}")\n%3 = matmul(%1, %2)')  # fmt: skip


CASES = {
    "one_tile_a_block": (gemm(200, 136, 256), ONE),
    "tiles_by_turns": (gemm(512, 264, 200), STAY),
    "bf16": (gemm(256, 256, 256, "bf16"), STAY),
    "both_along_their_rows": (turned(304, 264, 200, True, False), STAY),
    "both_along_the_depth": (turned(300, 200, 136, False, True), STAY),
    "left_turned_right_too": (turned(304, 136, 200, True, True), STAY),
    "bias_and_gelu": (GELU, STAY),
    "residual_and_row_scale": (RESIDUAL, STAY),
    "sums_of_256_columns": (gemm(256, 512, 128), replace(STAY, tile=(("i0", 128), ("i1", 256), ("r0", 64)))),
    "rows_of_two_warpgroups": (gemm(300, 136, 200), replace(STAY, tile=(("i0", 256), ("i1", 64), ("r0", 64)), workers=2)),
    "columns_of_one_load_of_16": (gemm(256, 80, 128), replace(STAY, tile=(("i0", 128), ("i1", 80), ("r0", 64)))),
    "two_boxes_in_depth": (turned(256, 64, 512, False, True), replace(STAY, tile=(("i0", 128), ("i1", 64), ("r0", 128)))),
    "a_batch": (gemm(200, 128, 128, batch="3, "), replace(STAY, tile=(("i0", 1), ("i1", 128), ("i2", 128), ("r0", 64)))),
    "i8": (widened("i8", "i8", "i32"), BYTES),
    "u8_by_i8": (widened("u8", "i8", "i32"), BYTES),
    "f8": (widened("f8e4m3", "f8e5m2", "f32"), BYTES),
}
GOLDEN = {"f16": "tiles_by_turns", "bf16": "bf16", "gelu": "bias_and_gelu"}


def made(name: str) -> Program:
    """The program of a case, its product under the case's schedule."""
    text, schedule = CASES[name]
    return product(text, schedule)


@cache
def product(text: str, schedule: Schedule, allow_tf32: bool = False) -> Program:
    """A graph's one kernel for the B200, under a schedule; blocks that stay are two, so that they take several tiles each."""
    program = autocomp.optimize(text, target="cuda:b200", tuned=False, allow_tf32=allow_tf32)
    (kernel,) = (c.kernel for c in program.calls.calls)
    source = program.target.emit(kernel, schedule)
    launch = replace(source.launch, at_most=min(2, source.launch.at_most)) if source.launch else None
    program.printed[kernel.name] = replace(source, launch=launch)
    return program
