"""Prices of an NPU's vector cores count instructions: drawn kernels take on the model of the machine what their prices say, to a factor."""

from __future__ import annotations

from random import Random

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER
from autocomp.simulate.program import simulated
from tests.helpers.device_graphs import conv, graph
from tests.helpers.repeats import repeats

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
KINDS = ("border", "functions", "bytes", "sums of bytes", "quotients", "running words", "first", "rows", "windows")
MOST = 1.75  # times that price and model may be apart, both without the launch


def drawn(kind: str, seed: int) -> str:
    """A kernel of several rounds of a core."""
    r = Random(f"{kind} {seed}")
    dtype, m, n = r.choice(("f16", "f32")), r.randint(100, 300), r.randint(300, 1500)
    x = {"x": f"{dtype}[{m}, {n}]"}
    if kind == "border":
        return graph(x, "%0 = pad(x, lo=[1, 2], hi=[3, 4], value=0.0)")
    if kind == "functions":
        return graph(x, "%0 = tanh(x)\n%1 = mul(%0, x)")
    if kind == "bytes":
        return graph({"x": f"f32[{m}, {n}]"}, '%0 = mul(x, const(3.0, f32))\n%1 = round(%0)\n%2 = cast(%1, to="i8")')
    if kind == "sums of bytes":
        return graph({"x": f"i8[{m}, {n}]", "y": f"i8[{m}, {n}]"}, "%0 = add(x, y)\n%1 = mul(%0, y)")
    if kind == "quotients":
        return graph({"x": f"f32[{m}, {n}]", "y": f"f32[{m}, {n}]"}, "%0 = mod(x, y)")
    if kind == "running words":
        return graph({"x": f"i32[{m}, {n // 5}]"}, "%0 = cumsum(x, axis=1)")
    if kind == "first":
        return graph(x, "%0 = reduce_argmax(x, axes=[1])")
    if kind == "rows":
        return graph({**x, "i": f"i32[{r.randint(200, 600)}]"}, "%0 = gather(x, i, axis=0)")
    c, h, w = r.randint(4, 8), r.randint(20, 40), r.randint(24, 40)
    return conv(f"{dtype}[1, {c}, {h}, {w}]", f"{dtype}[{c}, 1, 3, 3]", 1, 1, 1, c)


@needs_compiler
@pytest.mark.parametrize("seed", [1, repeats(2, of="the same kind of kernel")])
@pytest.mark.parametrize("kind", KINDS)
def test_prices_are_what_the_model_says(kind: str, seed: int) -> None:
    program = autocomp.optimize(drawn(kind, seed), target="ascend:910b1", without=["tiling/npu-scalar-*"], cache=False)
    with simulated(program) as seen:
        program.verify()
    for picture in seen.pictures():
        (kernel,) = (k for k in program.kernels if k.name == picture.kernel)
        price = kernel.predicted - dict(kernel.terms)["launch"]
        assert 1 / MOST < price / picture.seconds < MOST, (kind, seed, kernel.schedule, price, picture.seconds)
