"""Registers of a thread at the fullest statement of a block; threads and blocks that a launch takes."""

from __future__ import annotations

import pytest
from autocomp.targets import load_target
from autocomp.targets.simt.capacity import pressure, registers_of
from autocomp.targets.simt.placed import Placement

from autocomp.check.kernels import kernels_of, read
from autocomp.cost.chip import load_chip
from autocomp.errors import DoesNotFit
from autocomp.ir.schedule_text import parse
from autocomp.ir.types import F32
from autocomp.tile.layout import Digit, Layout
from autocomp.tile.program import Buf, Loop, Stmt, TileProgram


def held(*body: Loop | Stmt, **registers: int) -> int:
    bufs = tuple(Buf(n, F32, ("i",), "fragment") for n in registers)
    layouts = {n: Layout((Digit("i", 1, k),), (), ()) for n, k in registers.items()}
    return pressure(TileProgram("k", (), (), (("i", 16),), (), bufs, body), Placement(128, 32, 1, layouts), frozenset())


Q, X, Y = Stmt("copy", "q", ("in0",)), Stmt("map", "x", ("q",)), Stmt("map", "y", ("x",))


def test_a_map_may_take_its_operands_registers():
    assert held(Q, X, Y, q=16, x=8, y=8) == 16


def test_what_a_loop_reads_lives_to_its_end():
    assert held(Q, Loop("serial", ("r",), (X, Y)), q=16, x=8, y=8) == 16 + 8


def test_a_tile_of_the_grid_keeps_nothing_for_the_next():
    assert held(Loop("grid", ("i",), (Q, X, Y)), q=16, x=8, y=8) == 16


def test_a_threads_part_of_a_core_comes_in_steps_of_eight():
    a100 = load_chip("a100")
    assert [registers_of(a100, threads) for threads in (128, 256, 384, 1024)] == [255, 255, 168, 64]
    assert registers_of(a100, 256, resident=2) == 128


PRODUCT = "input a: f16[1024, 512]; input b: f16[512, 512]; %0 = matmul(a, b)"
ROLES = "tile i0 64, i1 64, r0 64 | stages 3 | grouped 8 | {} | persistent"


@pytest.mark.parametrize(("graph", "schedule", "what"), [
    (PRODUCT, ROLES.format("cluster 16 | warp_specialise 1"), "blocks of a cluster: needs 16, has 8"),
    (PRODUCT, ROLES.format("warp_specialise 8"), "threads of a block: needs 1152, has 1024"),
    ("input a: f32[64, 8192]; %0 = softmax(a, axes=[1])", "tile i0 1 | threads 128 | cluster 16", "blocks of a cluster: needs 16, has 8"),
    ("input a: f16[640, 8192]; %0 = exp(a)", "tile i0 2, i1 8192 | threads 2048", "threads of a block: needs 2048, has 1024"),
])  # fmt: skip
def test_what_no_launch_takes_is_refused(graph: str, schedule: str, what: str):
    """The launch would fail, behind a compilation that did not."""
    machine = load_target("cuda:h200")
    kernel, *_ = kernels_of(read(graph), machine)
    with pytest.raises(DoesNotFit, match=what):
        machine.admit(kernel, parse(schedule))
