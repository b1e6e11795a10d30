"""Max pools on CPUs: no masks inside of an image, maps behind them, bytes kept as bytes by a step that they have already."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip
POOL = "maxpool({}, window=[3, 3], strides=[2, 2], lo=[1, 1], hi=[1, 1], dilations=[1, 1], layout=\"nchw\")"


def program(text, inputs):
    graph = parse(text)
    p = autocomp.optimize(graph, target="cpu", threads=1)
    want = evaluate(graph, inputs, float64=False)["y"]
    np.testing.assert_array_equal(next(iter(p.run(inputs).values())), want)
    return p


def test_bias_and_relu_stand_behind_and_the_inside_has_no_masks():
    text = ("graph g\ninput x: f32[1, 5, 40, 41]\nparam b: f32[5, 1, 1] = random(1)\n%0 = add(x, b)\n%1 = relu(%0)\n"
            f"%2 = {POOL.format('%1')}\noutput y = %2\n")  # fmt: skip
    x = np.random.default_rng(1).standard_normal((1, 5, 40, 41)).astype("f4")
    p = program(text, {"x": x})
    (kernel,) = p.kernels
    inside = p.source().split("if (2*")[1].split("else {")[0]
    assert kernel.name == "maxpool_add_relu" and "vf_strided(" in inside and "vf_select" not in inside and "_where(" not in inside


def test_bytes_that_are_rounded_again_by_their_own_step_are_what_they_were():
    text = ("graph g\ninput x: u8[1, 4, 40, 40]\n%0 = cast(x, to=\"f32\")\n%1 = mul(%0, const(0.0371, f32))\n"
            f"%2 = {POOL.format('%1')}\n%3 = div(%2, const(0.0371, f32))\n%4 = round(%3)\n%5 = max(%4, const(0, f32))\n"
            "%6 = min(%5, const(255, f32))\n%7 = cast(%6, to=\"u8\")\noutput y = %7\n")  # fmt: skip
    p = program(text, {"x": np.random.default_rng(1).integers(0, 256, (1, 4, 40, 40), dtype=np.uint8)})
    assert {k.name.split("_")[0] for k in p.kernels} == {"maxpool"} and "rint" not in p.source() and "vf" not in p.source()


def test_a_step_is_part_of_the_scale_of_sums_of_bytes():
    text = ("graph g\ninput x: u8[20, 32]\nparam w: i8[32, 48] = random(1)\nparam s: f32[48] = random(2)\nparam b: f32[48] = random(3)\n"
            "%0 = cast(x, to=\"i32\")\n%1 = cast(w, to=\"i32\")\n%2 = matmul(%0, %1)\n%3 = cast(%2, to=\"f32\")\n%4 = mul(%3, s)\n"
            "%5 = add(%4, b)\n%6 = div(%5, const(3.7, f32))\n%7 = round(%6)\noutput y = %7\n")  # fmt: skip
    p = program(text, {"x": np.random.default_rng(1).integers(0, 256, (20, 32), dtype=np.uint8)})
    assert "/ vf_set(" not in p.source() and "quantised/step-into-scale-and-bias" in p.explain()
