"""What stands between the products of two tiles: only what has to."""

from __future__ import annotations

from dataclasses import replace

import pytest
from autocomp.targets.cuda.target import CudaTarget

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import gemm, graph, prepared
from tests.helpers.schedules import by_hand

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")


def printed(text: str, tile: tuple[int, int], **how):
    """A program under a schedule, and its text; its tiles are shared out among one or two blocks."""
    program = prepared(text, target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    schedule = by_hand(dict(zip(("i0", "i1", "r0"), (*tile, 64))), **{"roles": "warp_specialise", "persistent": True, "stages": 3, **how})
    source = CudaTarget(load_chip("h200")).emit(kernel, schedule)
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=schedule.cluster))
    return program, source.text


def check(program, model, folder) -> None:
    executor = program.executor = ModelExecutor(program, folder, model)
    for late in (True, False):
        executor.late = late
        program.verify(seed=fresh.seed())


@pytest.mark.parametrize(("depth", "steps"), [(200, 1), (152, 2)])
@pytest.mark.parametrize("how", [{"workers": 2}, {"workers": 1}, {"workers": 2, "cluster": 2}, {"workers": 2, "ping_pong": True}], ids=str)
def test_the_last_turn_multiplies_no_deeper_than_the_depth(depth, steps, how, model, tmp_path):
    """Depths of 8 and 24 beyond whole turns of 64 take 1 and 2 steps of 16."""
    rows = 64 if how == {"workers": 1} or how.get("apart") else 128
    program, code = printed(gemm(264, 136, depth), (rows, 64), **how)
    assert [int(x.split(";")[0]) for x in code.split("kk < ")[1:]] == [4, steps]
    check(program, model, tmp_path)


@pytest.mark.parametrize("depth", [128, 184])
def test_turns_that_are_alike_are_printed_once(depth, model, tmp_path):
    """Whole ones, and a last one of as many steps."""
    program, code = printed(gemm(264, 136, depth), (128, 64), workers=2)
    assert code.count("kk < ") == 1
    check(program, model, tmp_path)


MAPS = {
    "exp": ({"x": "f16[264, 200]", "w": "f16[200, 264]"}, "%0 = matmul(x, w)\n%1 = exp(%0)", (128, 256), {}),
    "bias": ({"x": "bf16[264, 200]", "w": "bf16[200, 264]", "b": "bf16[264]"}, "%0 = matmul(x, w)\n%1 = add(%0, b)\n%2 = gelu(%1)",
             (256, 128), {}),
    "rows of the depth": ({"x": "f16[200, 264]", "w": "f16[200, 264]"}, "%0 = transpose(x, perm=[1, 0])\n%1 = matmul(%0, w)\n%2 = relu(%1)",
                          (128, 256), {"stages": 2}),
}  # fmt: skip


def with_spare(name: str):
    inputs, body, tile, how = MAPS[name]
    program, code = printed(graph(inputs, body), tile, workers=2, **how)
    assert "% 3 == 2 ?" in code and code.count("wave % 4 > 0 && lane == 0") == 1
    return program, code


@pytest.mark.parametrize("name", MAPS)
def test_the_third_box_leaves_from_the_rings_last_slot(name, model, tmp_path):
    """Only the fourth one waits for a store."""
    program, code = with_spare(name)
    assert "ac_bulk_wait<2>();" in code
    check(program, model, tmp_path)


@pytest.mark.parametrize("gone", ["wave % 4 > 0 && ", "  ac_bulk_wait<0>();", "if (threadIdx.x % 128 == 0) ac_bulk_wait<2>();"])
def test_a_slot_that_is_given_back_too_soon_is_seen(gone, model, tmp_path):
    program, code = with_spare("exp")
    ((name, source),) = program.printed.items()
    program.printed[name] = replace(source, text=code.replace(gone, ""))
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        check(program, model, tmp_path)


@pytest.mark.parametrize(("depth", "how"), [(120, {}), (200, {"cluster": 2}), (200, {"persistent": False})])
def test_where_no_slot_is_a_warpgroups_own_boxes_have_two_places(depth, how):
    """Fewer turns than slots, a cluster's slots, and blocks of one tile."""
    inputs = {"x": f"f16[264, {depth}]", "w": f"f16[{depth}, 264]"}
    _, code = printed(graph(inputs, "%0 = matmul(x, w)\n%1 = exp(%0)"), (128, 256), workers=2, **how)
    assert "% 3 == 2 ?" not in code and "% 2 * 8192" in code
