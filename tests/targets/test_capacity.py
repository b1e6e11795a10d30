"""Registers of a thread at the fullest statement of a block."""

from __future__ import annotations

from autocomp.targets.simt.capacity import pressure, registers_of
from autocomp.targets.simt.placed import Placement

from autocomp.cost.chip import load_chip
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
