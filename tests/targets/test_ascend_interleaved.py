"""Results whose innermost axis an operand does not have: elements repeated side by side, and zeros between them."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.egraph import printable
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import by_turns

pytestmark = pytest.mark.skipif(not COMPILER, reason="no g++")
FALL_BACK = "tiling/npu-scalar-*"


def compiled(body: str, shape: tuple[int, ...], chip: str, dtype: str) -> autocomp.Program:
    return autocomp.optimize(graph({"x": f"{dtype}[{', '.join(map(str, shape))}]"}, body), target=f"ascend:{chip}", without=[FALL_BACK])


@pytest.mark.parametrize(("dtype", "chip"), by_turns(["f16", "f32"], ["910b1", "310p", "950pr"]))
def test_an_image_that_grows_by_its_nearest_elements_keeps_the_signs_of_zeros(dtype, chip, tmp_path):
    draw = np.random.default_rng(fresh.seed())
    c, h, w, u, v = (int(draw.integers(low, high)) for low, high in ((3, 9), (2, 7), (17, 40), (2, 4), (2, 4)))
    body = (f"%0 = reshape(x, shape=[{c}, {h}, 1, {w}, 1])\n%1 = broadcast(%0, shape=[{c}, {h}, {u}, {w}, {v}])\n"
            f"%2 = reshape(%1, shape=[{c}, {h * u}, {w * v}])")  # fmt: skip
    program = compiled(body, (c, h, w), chip, dtype)
    x = draw.choice(np.array([-0.0, 0.0, 1.5, -3.25, np.inf]), (c, h, w)).astype(np.float16 if dtype == "f16" else np.float32)
    (got,) = AscendExecutor(program, tmp_path, blocks=2).run({"x": x}).values()
    want = x.repeat(u, 1).repeat(v, 2)
    assert np.array_equal(got, want) and np.array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(("dtype", "chip"), by_turns(["i32", "f16"], ["310p", "950pr"]))
def test_zeros_are_put_between_elements_by_a_choice(dtype, chip, tmp_path):
    draw = np.random.default_rng(fresh.seed())
    c, w, more = (int(draw.integers(low, high)) for low, high in ((3, 9), (17, 40), (1, 4)))
    zero = "0" if dtype == "i32" else "0.0"
    body = (f"%0 = reshape(x, shape=[{c}, {w}, 1])\n%1 = pad(%0, lo=[0, 0, 0], hi=[0, 0, {more}], value={zero})\n"
            f"%2 = reshape(%1, shape=[{c}, {w * (more + 1)}])")  # fmt: skip
    program = compiled(body, (c, w), chip, dtype)
    x = draw.integers(-(2**31), 2**31, (c, w)).astype(np.int32) if dtype == "i32" else draw.standard_normal((c, w)).astype(np.float16)
    (got,) = AscendExecutor(program, tmp_path, blocks=2).run({"x": x}).values()
    want = np.zeros((c, w, more + 1), x.dtype)
    want[..., 0] = x
    assert np.array_equal(got, want.reshape(c, -1))


# Of a value a row and one that is the same for all (a scale of the tile's channel) a tile has all pairs.
@pytest.mark.parametrize("chip", ["310p", "910b1"])
def test_what_is_repeated_is_computed_in_the_same_kernel(chip, tmp_path):
    draw = np.random.default_rng(fresh.seed())
    c, w, v = (int(draw.integers(low, high)) for low, high in ((3, 9), (17, 40), (2, 4)))
    body = (f"%5 = mul(x, s)\n%6 = sub(t, %5)\n%0 = reshape(%6, shape=[{c}, 1, {w}, 1])\n"
            f"%1 = broadcast(%0, shape=[{c}, 2, {w}, {v}])\n%2 = reshape(%1, shape=[{2 * c}, {w * v}])")  # fmt: skip
    text = graph({"x": f"f32[{c}, {w}]", "s": f"f32[{c}, 1]", "t": f"f32[{c}, 1]"}, body)
    program = autocomp.optimize(text, target=f"ascend:{chip}", without=[FALL_BACK])
    assert len(program.kernels) == 1
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())


@pytest.mark.parametrize("chip", ["950pr"])
def test_a_transposed_convolution_has_zeros_stored_between_its_elements(chip, tmp_path, monkeypatch):
    monkeypatch.setattr(printable, "COVERS", 2)  # the first has the convolution alone, which scalar units compute
    monkeypatch.setattr(printable, "MORE", 0)
    draw = np.random.default_rng(fresh.seed())
    c, k, n, h, w = (int(draw.integers(low, high)) for low, high in ((5, 20), (5, 12), (2, 4), (4, 9), (5, 12)))
    body = f'%0 = conv_spread(x, w, spread=[2, 2], dilations=[1, 1], groups=1, lo=[{n - 1}, 1], hi=[1, {n - 1}], layout="nchw")'
    text = graph({"x": f"f16[1, {c}, {h}, {w}]", "w": f"f16[{k}, {c}, {n}, {n}]"}, body)
    program = autocomp.optimize(text, target=f"ascend:{chip}")
    assert "instruction scalar" not in program.source()
    program.executor = AscendExecutor(program, tmp_path, blocks=2)
    program.verify(seed=fresh.seed())
