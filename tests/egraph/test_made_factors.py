"""A factor that is costly to make is stored first where schedules say that this is cheaper; one that is cheap is made where it is used."""

from __future__ import annotations

import autocomp
from tests.helpers.device_graphs import graph

ELU = """%m = cast(k, to="f32")
    %e = expm1(%m)
    %g = gt(%m, const(0.0, f32))
    %w = where(%g, %m, %e)
    %f = cast(%w, to="f16")
    %t = transpose(%f, perm=[0, 2, 1])
    %y = matmul(%t, v)"""
WIDENED = """%h = cast(w, to="f16")
    %s = mul(%h, const(0.01, f16))
    %y = matmul(x, %s)"""


def names(text: str, **options) -> list[list[str]]:
    return [list(k.ops) for k in autocomp.optimize(text, target="cuda:h200", **options).kernels]


def test_exponentials_that_every_tile_would_compute_again_are_stored():
    text = graph({"k": "f16[32, 4096, 128]", "v": "f16[32, 4096, 512]"}, ELU)
    assert [("expm1" in ops, "matmul" in ops) for ops in names(text)] == [(True, False), (False, True)]
    both = autocomp.optimize(text, target="cuda:h200")
    apart = autocomp.optimize(text, target="cuda:h200", without=["fusion/contract-prologue-a", "fusion/contract-prologue-b"])
    assert both.predicted <= apart.predicted


def test_weights_in_four_bits_are_widened_where_they_are_multiplied():
    text = graph({"x": "f16[16, 4096]", "w": "i8[4096, 4096]"}, WIDENED)
    assert ["cast", "mul", "matmul"] in [[o for o in ops if o != "transpose"] for ops in names(text)]
