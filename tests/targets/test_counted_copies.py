"""What copies into shared memory and reads of factors cost is counted by how their places are made (`targets/simt/count.py`)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from autocomp.targets import load_target
from autocomp.targets.simt.samples import Samples

import autocomp
from autocomp.cost.issue import Issued
from autocomp.egraph.parts import pieces
from autocomp.ir.schedule_text import parse
from autocomp.tile.layout import Digit, Layout
from autocomp.tile.program import Loop, TileProgram
from tests.helpers.device_graphs import gemm, graph, turned

H100 = load_target("cuda:h100")
WINDOWS = "tile i0 1, i1 4, i2 8, i3 32, r0 1, r1 1, r2 32 | stages 2 | threads 64"


def issued(text: str, schedule: str) -> Issued:
    kernel = max((c.kernel for c in autocomp.optimize(text, target=H100).calls.calls), key=lambda k: len(k.axes))
    found = H100.issued(*(pieces(kernel, s)[0] if (s := parse(schedule)).split else (kernel, s)))
    assert found is not None
    return found


def of(work: Issued, pipe: str) -> float:
    return sum(p.turns * p.issued.get(pipe, 0.0) for p in work.phases)


def test_reads_of_factors_write_registers():
    """Multiply-adds leave by the same port: pieces of few results pay for it."""
    each = lambda threads: issued(turned(256, 256, 256, False, True, "f32"), f"tile i0 64, i1 64, r0 32 | stages 2 | threads {threads}")
    few, many = (of(w, "loaded") / of(w, "fma") for w in (each(64), each(256)))
    assert 0 < few < many


def test_a_lane_that_holds_more_has_room_for_fewer_blocks():
    text = turned(512, 512, 256, False, True, "f32")
    assert issued(text, "tile i0 128, i1 64, r0 32 | stages 2 | threads 64").registers > 128 + 32  # sums and a step's factors


def test_places_of_windows_take_more_than_those_of_rows():
    """Before: 10 instructions a copy for either, where ptxas makes 12 of a product's rows and 25 of windows in three dimensions."""
    rows = issued(gemm(1024, 128, 288, "f32"), "tile i0 32, i1 32, r0 32 | stages 2 | threads 64")
    how = 'strides=[2, 2], dilations=[1, 1], groups=1, lo=[1, 1], hi=[1, 1], layout="nhwc_ohwi"'
    windows = issued(graph({"x": "f32[4, 24, 24, 32]", "w": "f32[32, 3, 3, 32]"}, f"%0 = conv(x, w, {how})"), WINDOWS)
    copies = lambda w: w.phases[1].issued["integer"] / w.phases[1].issued["memory"]
    assert copies(windows) > 1.4 * copies(rows)


@pytest.mark.parametrize("masked", [False, True])
def test_loads_of_different_turns_do_not_pass_a_branch(masked):
    text = graph({"x": "f32[256, 10000]"}, "%0 = reduce_mean(x, axes=[1], keepdims=True)\n%1 = sub(x, %0)\n%2 = mul(%1, %1)\n"
                 "%3 = reduce_mean(%2, axes=[1], keepdims=False)")  # fmt: skip
    tile = "tile i0 1, r0 2048, r1 2048 | threads 512 | thread_partials"
    waits = sum(p.turns * p.waits.get("load", 0.0) for p in issued(text, tile + (" | skip_masks" if masked else "")).phases)
    assert waits == pytest.approx(5 * 0.25 + 5 if masked else 2 * 5 * 0.25)


def test_rows_of_even_length_are_copied_by_words():
    """Before: both factors of a batch of 512 were padded first, 192 us where copies of 4 bytes take 93 (eager 100; H100)."""
    text = graph({"a": "bf16[512, 128, 858]", "b": "bf16[512, 56, 858]"}, "%t = transpose(b, perm=[0, 2, 1])\n%0 = matmul(a, %t)")
    assert len(autocomp.optimize(text, target="cuda:h100").kernels) == 1


def test_what_samples_keep_is_of_the_loops_around_alone():
    """Indices and limits are computed once for a loop's body: another loop's are others."""
    program = TileProgram("p", (), (), (("i", 40), ("j", 100)), (("i", 16), ("j", 16)), (), ())
    x, layout = Samples(program, SimpleNamespace(wave=32, threads=32)), Layout((Digit("i", 1, 16),), (Digit("j", 1, 32),), ())
    r, _ = x.registers(layout)
    alone = [limit.name for limit in x.inside(layout, ["i", "j"], r)], x.at(layout, r)["i"].max()
    x.enter(Loop("grid", ("i",), ()))
    within = [limit.name for limit in x.inside(layout, ["i", "j"], r)], x.at(layout, r)["i"].max()
    x.leave(Loop("grid", ("i",), ()))
    assert alone == (["j"], 15) == ([limit.name for limit in x.inside(layout, ["i", "j"], r)], x.at(layout, r)["i"].max())
    assert within == (["i", "j"], 47)
