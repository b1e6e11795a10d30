"""Loops before and after, dependences and moves, as the graph page shows them."""

from __future__ import annotations

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.cost.recurrence import choose_recurrence
from autocomp.ir.schedule import Schedule
from autocomp.loops.arrows import Arrow, arrows
from autocomp.loops.nest import LoopNest
from autocomp.report.nest_view import nest_lines, nest_view
from autocomp.rewrite import load_rules
from tests.helpers.nests import stencil

TEXT = "graph g\ninput x: f32[64, 48]\ninput w: f32[48, 32]\n%0 = matmul(x, w)\n%1 = relu(%0)\noutput y = %1\n"


def kernel():
    (call,) = autocomp.optimize(TEXT, verify=False).calls.calls
    return call.kernel


def test_a_product_before_and_after_its_schedule():
    k = kernel()
    text = lambda lines: [x["text"] for x in lines]
    assert text(nest_lines(LoopNest.of(k))) == [
        "for i0 in 64, i1 in 32", "  I0: r0[i0, i1] = neutral",
        "for i0 in 64, i1 in 32, r0 in 48", "  U0: r0[i0, i1] = fold(r0[i0, i1], in0[i0, r0], in1[r0, i1])",
        "for i0 in 64, i1 in 32", "  S0: out0[i0, i1] = r0[i0, i1]"]  # fmt: skip
    view = nest_view(k, Schedule(tile=(("i0", 16), ("i1", 32), ("r0", 8))))
    assert text(view["after"])[:2] == ["for i0_tile in 64 step 16", "  for i0 in a tile of 16, i1 in a tile of 32"]
    assert "  for r0_tile in 48 step 8, i0 in a tile of 16, i1 in a tile of 32, r0 in a tile of 8" in text(view["after"])
    assert [x["statement"] for x in view["after"] if x["statement"]] == ["I0", "U0", "S0"]


def test_arrows_are_the_dependences_that_others_follow_from():
    assert {a for a in arrows(LoopNest.of(kernel())) if a.kind == "flow"} == {
        Arrow("flow", "I0", "U0"), Arrow("flow", "U0", "U0", ("0", "0", "1")), Arrow("flow", "U0", "S0")}  # fmt: skip


def test_a_refused_move_shows_its_two_iterations():
    moves = {m["move"]: m for m in nest_view(kernel(), Schedule())["moves"]}
    assert moves["parallel i0"]["ok"] and moves["reverse r0"]["ok"] and not moves["parallel r0"]["ok"]
    first, second = moves["parallel r0"]["points"]
    assert (first["statement"], second["statement"]) == ("U0", "U0")
    assert dict(first["at"])["r0"] + 1 == dict(second["at"])["r0"]
    assert not moves["parallel i0"]["points"]


def test_a_stencil_may_not_be_tiled_as_written_and_is_skewed():
    k = stencil(100, 20)
    schedule, _ = choose_recurrence(k, load_rules().of("tiling", "cpu"), load_chip("cpu"))
    view = nest_view(k, schedule)
    tile = next(m for m in view["moves"] if m["move"] == "tile t, i0")
    assert not tile["ok"] and "must run before" in tile["text"] and len(tile["points"]) == 2
    assert {"step", "store0"} <= {x["statement"] for x in view["after"]}
