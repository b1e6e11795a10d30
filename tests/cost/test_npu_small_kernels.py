"""Prices of small kernels of NPUs beside the model of the machine, by the copies and instructions that are printed."""

from __future__ import annotations

from random import Random

import pytest

import autocomp
from autocomp.simulate.program import simulated
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeats

APART = 1.5


def weights(r: Random) -> str:
    """Weights of a convolution as [out, window, in]: a row is every ninth element, or as many as the window has."""
    shape = [r.randint(5, 30), r.randint(4, 40), r.randint(3, 15)]
    return graph({"x": f"f16{shape}"}, "%0 = transpose(x, perm=[0, 2, 1])")


def steps(r: Random) -> str:
    m, n = r.randint(60, 200), r.randint(60, 300)
    return graph({"x": f"f32[{m}, {n}]"}, f"%0 = slice(x, starts=[1, 2], limits=[{m}, {n}], steps=[{r.randint(2, 4)}, {r.randint(2, 4)}])")


def gelu(r: Random) -> str:
    m, n, k = r.randint(20, 150), r.randint(60, 250), r.randint(40, 200)
    return graph({"x": f"f16[{m}, {k}]", "y": f"f16[{k}, {n}]"}, "%0 = matmul(x, y)\n%1 = gelu(%0)")


def shifted(r: Random) -> str:
    """Rows that end within a block: on a 310P the scalar unit puts the last one together."""
    m, n = r.randint(50, 200), 8 * r.randint(6, 40) + r.randint(1, 7)
    return graph({"x": f"f32[{m}, {n}]", "y": f"f32[{n}]"}, "%0 = add(x, y)")


def compared(r: Random) -> str:
    m, n = r.randint(50, 200), 32 * r.randint(2, 8) + r.randint(1, 31)
    return graph({"x": f"f16[{m}, {n}]", "y": f"f16[{n}]"}, "%0 = gt(x, y)")


def columns(r: Random) -> str:
    """Columns that integers name: the indices are words, and each row's elements are looked up by an instruction of its own."""
    m, n, k = r.randint(60, 200), r.randint(60, 300), r.randint(20, 60)
    return graph({"t": f"f32[{m}, {n}]", "i": f"i32[{k}]"}, "%0 = gather(t, i, axis=1)")


def multiplied(r: Random) -> str:
    """Words: a 310P's unit has no shifts, and takes halves apart by masks."""
    m, n = r.randint(50, 200), 8 * r.randint(6, 40)
    return graph({"x": f"i32[{m}, {n}]", "y": f"i32[{m}, {n}]"}, "%0 = mul(x, y)")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("target", "make"), [("ascend:910b1", weights), ("ascend:910b1", steps), ("ascend:910b1", gelu),
                                              ("ascend:310p", shifted), ("ascend:310p", compared), ("ascend:310p", multiplied),
                                              ("ascend:910b1", columns), ("ascend:950pr", columns)])  # fmt: skip
@pytest.mark.parametrize("seed", [1, repeats(2, of="the same kind of kernel")])
def test_a_price_without_its_launch_is_near_the_models_time(target: str, make, seed: int) -> None:
    program = autocomp.optimize(make(Random(f"{make.__name__} {seed}")), target=target)
    with simulated(program) as seen:
        program.verify()
        took = {p.kernel: p.seconds for p in seen.pictures()}
    for k in program.kernels:
        own = k.predicted - dict(k.terms)["launch"]
        assert took[k.name] / APART <= own <= took[k.name] * APART, (k.name, k.schedule, own, took[k.name])
