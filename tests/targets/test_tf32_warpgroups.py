"""tf32 by warpgroup instructions: where factors may be rounded and both lie along the depth."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeating

BY_ROWS = "%1 = transpose(b, perm=[1, 0])\n%0 = matmul(a, %1)"  # both factors lie along the depth


def product(m: int, n: int, k: int) -> str:
    return graph({"a": f"f32[{m}, {k}]", "b": f"f32[{n}, {k}]"}, BY_ROWS)


def instructions(text: str, **options) -> set[str]:
    program = autocomp.optimize(text, target="cuda:h200", **options)
    return {word for s in program.sources.values() for word in ("wgmma.mma_async", "ac_mma_tf32") if word in s}


def test_factors_along_the_depth_are_multiplied_by_warpgroups_where_rounding_is_allowed():
    assert instructions(product(576, 1920, 4776), allow_tf32=True) == {"wgmma.mma_async"}
    assert instructions(product(576, 1920, 4776)) == set()
    along_rows = graph({"a": "f32[576, 4776]", "b": "f32[4776, 1920]"}, "%0 = matmul(a, b)")
    assert "wgmma.mma_async" not in instructions(along_rows, allow_tf32=True, without=["layout/turn-*"])


@pytest.mark.parametrize(("left", "right", "depth"), repeating([(0, 0, 512), (1, 0, 4928), (0, 1, 1023), (0, 0, 1027)],
                                                               {(0, 0, 1027): "the odd depth of another side"}))  # fmt: skip
def test_a_factor_is_turned_or_padded_where_that_pays(left, right, depth):
    """Before: 35 us for torch's 22 at 1152 x 1864 x 512 (no warpgroup reads a tf32 factor that lies along its rows)."""
    a, b = (f"f32[{', '.join(map(str, shape[::-1] if turned else shape))}]"
            for shape, turned in (((1152, depth), left), ((depth, 1864), right)))  # fmt: skip
    lines = [f"%{x} = transpose({x}, perm=[1, 0])" for x, turned in (("a", left), ("b", right)) if turned]
    text = graph({"a": a, "b": b}, "\n".join([*lines, f"%0 = matmul({'%a' if left else 'a'}, {'%b' if right else 'b'})"]))
    ours, before = (autocomp.optimize(text, target="cuda:h200", allow_tf32=True, without=w)
                    for w in ([], ["layout/turn-*", "layout/pad-*"]))  # fmt: skip
    assert any("wgmma.mma_async" in s for s in ours.sources.values())
    assert ours.predicted < 0.9 * before.predicted
    strict = [autocomp.optimize(text, target="cuda:h200", without=w).source() for w in ([], ["layout/*turn*"])]
    assert strict[0] == strict[1], "factors that may not be rounded stay where they are"


def test_small_products_turn_nothing():
    """A launch more costs what a small product takes."""
    text = graph({"a": "f32[417, 253]", "b": "f32[253, 429]"}, "%0 = matmul(a, b)")
    assert len(autocomp.optimize(text, target="cuda:h200", allow_tf32=True).kernels) == 1


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("m", "n", "k", "tile"), [
    (130, 200, 100, "tile i0 64, i1 128, r0 32 | stages 4 | warp_specialise 1"),
    (300, 140, 64, "tile i0 128, i1 128, r0 32 | stages 3 | grouped 8 | warp_specialise 2 | persistent"),
    (192, 140, 64, "tile i0 64, i1 128, r0 32 | stages 4 | grouped 8 | cluster 2 | warp_specialise 1 | persistent"),
    (70, 260, 516, "tile i0 64, i1 64, r0 32 | stages 4 | grouped 8 | warp_specialise 1 | cluster 2 | cluster_split_k 2"),
])  # fmt: skip
def test_odd_ends_are_right(m, n, k, tile, model, tmp_path):
    schedule = {"matmul": f"{tile} | instruction tf32"}
    program = autocomp.optimize(product(m, n, k), target="cuda:h200", allow_tf32=True, schedule=schedule)
    assert any("wgmma.mma_async" in s for s in program.sources.values())
    program.executor = executor = ModelExecutor(program, tmp_path, model)
    for late in (True, False):
        executor.late = late
        assert program.verify(seed=fresh.seed()).ratio <= 1
