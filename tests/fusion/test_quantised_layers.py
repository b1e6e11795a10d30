"""Layers of bytes one behind the other: each product reads what the one before stored, as bytes."""

from __future__ import annotations

import re

import pytest

import autocomp

LAYER = """%a{n} = cast({x}, to='i32')
%b{n} = cast(w{n}, to='i32')
%c{n} = matmul(%a{n}, %b{n})
%d{n} = cast(%c{n}, to='f32')
%e{n} = mul(%d{n}, const(0.01, f32))
%f{n} = round(%e{n})
%g{n} = max(%f{n}, const(0.0, f32))
%h{n} = min(%g{n}, const(255.0, f32))
%y{n} = cast(%h{n}, to='u8')
"""


@pytest.mark.parametrize("target", ["cpu", "cuda:h200"])
def test_bytes_are_what_is_stored_between_products(target):
    """The cast to 32 bits of a layer's bytes could stand behind the layer before it: then the product is one of integers of 32 bits."""
    weights = "".join(f"param w{n}: i8[192, 192] = random({n})\n" for n in range(3))
    layers = "".join(LAYER.format(n=n, x="x" if n == 0 else f"%y{n - 1}") for n in range(3))
    program = autocomp.optimize(f"graph g\ninput x: u8[64, 192]\n{weights}{layers}output y = %y2\n", target=target, cache=False)
    heads = re.findall(r" \* kernel \S*matmul\S*\((.*)", program.source())
    assert heads
    for head in heads:
        assert "u8[" in head
        assert "i8[i" in head
        assert "i32[" not in head
