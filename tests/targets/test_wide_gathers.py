"""Rows whose numbers a tensor says are read in vectors (directive `wide_gathers`): embeddings, selected rows, sums of looked-up rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from autocomp.targets.simt.wide_gathers import bounded
from autocomp.targets.source import KernelSource

import autocomp
from autocomp.ir.affine import aff
from autocomp.ir.body import Const, Index
from autocomp.ir.types import I64, Sym, dtype_of
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tile.program import TileProgram
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.sass import instructions, needs_disassembler
from tests.helpers.schedules import by_hand

RULE = "directives/wide-gathers"
ROWS = "%0 = gather(t, i, axis=0)"


def rows(t: np.ndarray, i: np.ndarray, axis: int = 0) -> np.ndarray:
    """Negative numbers count from the end; those that are no row's are the nearest one's."""
    n = t.shape[axis]
    return np.take(t, np.clip(np.where(i < 0, i + n, i), 0, n - 1), axis)


@dataclass(frozen=True)
class Case:
    """`widths`: elements of the accesses to the table, none where each element is read alone."""

    table: str
    index: str
    tile: dict[str, int]
    widths: set[int]
    body: str = ROWS
    meaning: Callable[[np.ndarray, np.ndarray], np.ndarray] = rows


CASES = {
    "whole tiles": Case("f16[70, 64]", "i64[32]", {"i0": 16, "i1": 64}, {8}),
    "tails of rows and columns": Case("f16[70, 72]", "i64[37]", {"i0": 16, "i1": 64}, {8}),
    "half a vector is left": Case("bf16[70, 76]", "i32[37]", {"i0": 16, "i1": 64}, {4}),
    "rows that begin anywhere": Case("f16[70, 77]", "i64[37]", {"i0": 16, "i1": 64}, set()),
    "f32": Case("f32[70, 36]", "i64[37]", {"i0": 8, "i1": 64}, {4}, f"{ROWS}\n%1 = neg(%0)", lambda t, i: -rows(t, i)),
    "bytes": Case("i8[70, 80]", "i64[37]", {"i0": 8, "i1": 128}, {16}),
    "one column": Case("f32[70, 1]", "i64[37]", {"i0": 64}, set()),
    "one row": Case("f16[1, 64]", "i64[1]", {"i0": 64}, {8}),
    "rows in the middle": Case("f16[3, 40, 24]", "i64[11]", {"i0": 1, "i1": 8, "i2": 32}, {8}, "%0 = gather(t, i, axis=1)",
                               lambda t, i: rows(t, i, 1)),
    "columns": Case("f16[12, 64]", "i64[64]", {"i0": 4, "i1": 64}, set(), "%0 = gather(t, i, axis=1)", lambda t, i: rows(t, i, 1)),
    "each element has its row": Case("f16[70, 64]", "i64[32, 64]", {"i0": 8, "i1": 64}, set(), "%0 = gather_elements(t, i, axis=0)",
                                     lambda t, i: np.take_along_axis(t, np.clip(np.where(i < 0, i + 70, i), 0, 69), 0)),
    "an index is used twice": Case("f32[70, 32]", "i64[37]", {"i0": 8, "i1": 32}, {4},
                                   f"%1 = neg(i)\n{ROWS}\n%2 = gather(t, %1, axis=0)\n%3 = add(%0, %2)",
                                   lambda t, i: rows(t, i) + rows(t, -i)),
    "columns from the eighth": Case("f16[70, 72]", "i64[37]", {"i0": 16, "i1": 64}, {8},
                                    f"{ROWS}\n%1 = slice(%0, starts=[0, 8], limits=[37, 72], steps=[1, 1])",
                                    lambda t, i: rows(t, i)[:, 8:]),
    "columns from the third": Case("f16[70, 72]", "i64[37]", {"i0": 16, "i1": 64}, set(),
                                   f"{ROWS}\n%1 = slice(%0, starts=[0, 3], limits=[37, 67], steps=[1, 1])",
                                   lambda t, i: rows(t, i)[:, 3:67]),
    "borders": Case("f16[70, 72]", "i64[37]", {"i0": 16, "i1": 128}, set(), f"{ROWS}\n%1 = pad(%0, lo=[0, 8], hi=[0, 8], value=0.0)",
                    lambda t, i: np.pad(rows(t, i), ((0, 0), (8, 8)))),
    "numbers of numbers": Case("f16[70, 72]", "i64[37]", {"i0": 16, "i1": 128}, {8},
                               "%a = gather(i, i, axis=0)\n%0 = gather(t, %a, axis=0)", lambda t, i: rows(t, rows(i, i))),
    "sums of rows": Case("f32[70, 32]", "i64[9, 6]", {"i0": 4, "i1": 32}, {4}, f"{ROWS}\n%1 = reduce_sum(%0, axes=[1])",
                         lambda t, i: rows(t, i).sum(1)),
}  # fmt: skip


def data(c: Case) -> tuple[np.ndarray, np.ndarray]:
    """A table, and numbers of rows of which some are negative, and some no row's."""
    rng = fresh.rng()
    (kind, shape), (number, many) = ((dtype_of(t[: t.index("[")]), [int(n) for n in t[t.index("[") + 1 : -1].split(",")])
                                     for t in (c.table, c.index))  # fmt: skip
    t = rng.integers(-99, 99, shape) if kind.is_int else rng.standard_normal(shape)
    return t.astype(kind.numpy), rng.integers(-150, 150, many).astype(number.numpy)


def run(c: Case, target: str, directives: tuple[str, ...], model, folder) -> tuple[KernelSource, np.ndarray, np.ndarray]:
    """(kernel, what came out, what should have) of a case under a schedule by hand."""
    program = autocomp.optimize(graph({"t": c.table, "i": c.index}, c.body), target=target)
    (kernel,) = (x.kernel for x in program.calls.calls)
    source = program.printed[kernel.name] = program.target.emit(kernel, by_hand(c.tile, threads=64, directives=directives))
    program.executor = ModelExecutor(program, folder, model)
    t, i = data(c)
    return source, program.run({"t": t, "i": i})["out"].astype("f8"), c.meaning(t.astype("f8"), i)


def widths(text: str) -> set[int]:
    return {int(w) for w in re.findall(r"\bac_load(?:_where)?<(\d+)>\(&v", text)}


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("name", "target"), [*((n, "cuda:h200") for n in CASES), ("tails of rows and columns", "maca:c500")])
def test_rows_are_read_in_vectors_and_are_the_same(name, target, model, tmp_path):
    c = CASES[name]
    source, got, want = run(c, target, ("wide_gathers",), model, tmp_path)
    text = source.text.partition("*/")[2]
    assert ("wide_gathers" in source.applied) == bool(c.widths)
    assert widths(text) == c.widths and ("ac_held(in1" in text) == (not c.widths)
    assert all(x.count("ac_clamp(") == 1 for x in text.splitlines() if "ac_load" in x and "in1 + (" in x)  # of the row alone
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 if "add" in c.body or "sum" in c.body else 0)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("draw", range(3))
def test_drawn_shapes_and_tiles(draw, model, tmp_path):
    r = Random(fresh.seed() + draw)
    kind, n, many = r.choice(("f16", "bf16", "f32", "u8", "i32")), r.randrange(1, 12) * r.choice((1, 2, 4, 8, 16)), r.randrange(1, 60)
    tile = {"i0": r.choice((4, 8, 32)), **({"i1": r.choice((16, 32, 64, 128))} if n > 1 and many > 1 else {})}
    c = Case(f"{kind}[{r.randrange(1, 90)}, {n}]", f"i64[{many}]", tile, set())
    for directives in ((), ("wide_gathers",)):
        (folder := tmp_path / str(len(directives))).mkdir()
        source, got, want = run(c, "cuda:h200", directives, model, folder)
        np.testing.assert_array_equal(got, want, err_msg=source.text)


def test_without_the_rule_each_element_is_read_alone_and_it_takes_longer():
    text = graph({"t": "f16[1556, 440]", "i": "i64[22727]"}, f"{ROWS}\n%y = mul(%0, const(2, f16))")
    whole, apart = (autocomp.optimize(text, target="cuda:h200", cache=False, tuned=False, without=w) for w in ((), (RULE,)))
    assert [widths(p.source().partition("*/")[2]) for p in (whole, apart)] == [{8}, set()]
    assert whole.kernels[0].predicted < 0.9 * apart.kernels[0].predicted
    (said,) = [e for e in whole.trace.of("directive") if e.data["directive"] == "wide_gathers"]
    assert said.name == RULE and said.data["used"] and said.data["saves"] > 0


def test_rows_that_begin_anywhere_have_no_use_for_the_rule():
    program = autocomp.optimize(graph({"t": "f16[1556, 441]", "i": "i64[2272]"}, ROWS), target="cuda:h200", cache=False)
    assert "wide_gathers" not in program.kernels[0].schedule


@pytest.mark.parametrize(("wide", "directives", "most"), [(795, (), 4), (800, ("wide_gathers",), 1.2)])
def test_lanes_along_a_row_ask_for_its_lines_together(wide, directives, most):
    """By the count: sectors that a block asks for, beside the bytes of its rows."""
    program = autocomp.optimize(graph({"t": f"f16[16384, {wide}]", "i": "i64[20000]"}, ROWS), target="cuda:h200")
    (kernel,) = (x.kernel for x in program.calls.calls)
    work = program.target.issued(kernel, by_hand({"i0": 4, "i1": wide}, threads=128, directives=directives))
    assert 1 <= work.asked / (4 * wide * 2) < most


@needs_disassembler
def test_rows_are_asked_for_together(tmp_path):
    """All of a thread's numbers, then all of its rows: a row's address is made in front of the condition, not behind a jump."""
    program = autocomp.optimize(graph({"t": "bf16[2908, 320]", "i": "i64[2908]"}, ROWS), target="cuda:h200", cache=False,
                                schedule={"gather": "tile i0 32, i1 256 | wide_gathers"})  # fmt: skip
    lines = instructions(program.source(), tmp_path)
    loads = [n for n, line in enumerate(lines) if "LDG.E" in line]
    rows = [n for n in loads if "LDG.E.128" in lines[n]]
    assert len(rows) == 4 and loads[-4:] == rows and not any("BSYNC" in line for line in lines[: rows[-1]])


@pytest.mark.parametrize(("index", "size", "inside"), [
    (aff("i"), 9, True), (aff("i") + 1, 9, False), (aff("i") + 1, 10, True), (aff("i") - 1, 9, False), (-aff("i") + 8, 9, True),
    (aff("n"), Sym("N", 1, 99), True), (aff("n") + 1, Sym("N", 1, 99), False), (aff("n"), 9, False),
])  # fmt: skip
def test_an_index_stays_in_its_dimension_by_ranges(index, size, inside):
    p = TileProgram("k", (), (), (("i", 9), ("n", Sym("N", 1, 99))), (), (), ())
    assert bounded(p, Index(I64, index), size) is inside
    assert not bounded(p, Const(I64, 3), 9)
