"""A product that stores its result turned is given up where that is dear: the transposition is a kernel of its own."""

from __future__ import annotations

import autocomp


def test_the_last_product_of_winograd_stores_channels_last():
    """Channels first: 536 us for the product that turns, 299 by its price; 135 and 52 by prices apart (H200, 2026-11-28)."""
    text = ("graph g\ninput x: f32[64, 32, 28, 28]\nparam w: f32[440, 32, 5, 5] = random(1)\n"
            "%0 = conv(x, w, strides=[1, 1], lo=[2, 2], hi=[2, 2], dilations=[1, 1], groups=1)\noutput y = %0\n")  # fmt: skip
    program = autocomp.optimize(text, target="cuda:h200")
    assert "winograd-four-of-five" in program.explain()
    assert [k.ops for k in program.kernels if "einsum" in k.ops] and not any({"einsum", "transpose"} <= {*k.ops} for k in program.kernels)
