"""Copies that only what follows a tile's products reads stand behind them."""

from __future__ import annotations

from autocomp.ir.schedule import Schedule
from autocomp.tile.derive import derive
from autocomp.tile.order import behind_products
from autocomp.tile.program import Loop
from tests.helpers.device_graphs import graph


def program(body: str, depth: int, **inputs: str):
    import autocomp

    kernel = autocomp.optimize(graph(inputs, body), target="cuda:h200").calls.calls[0].kernel
    return derive(kernel, Schedule.make({"i0": 64, "i1": 64, "r0": depth}, roles="warp_specialise"))


def order(p) -> list[str]:
    grid = p.body[0]
    return [f"loop {n.axes[0]}" if isinstance(n, Loop) else f"{n.op} {n.srcs[0]}" if n.op == "copy" else n.op for n in grid.body]


INPUTS = {"r": "f16[128, 128]", "x": "f16[128, 256]", "w": "f16[256, 128]"}


def test_an_operand_in_front_of_the_product_goes_behind_it():
    p = program("%0 = matmul(x, w)\n%1 = add(r, %0)", 64, **INPUTS)
    late = behind_products(p)
    assert order(p) == ["copy in0", "fill", "loop r0", "map", "store"]
    assert order(late) == ["fill", "loop r0", "copy in0", "map", "store"]
    assert behind_products(late) == late


def test_a_product_without_a_loop_is_crossed_too_but_its_factors_stay():
    late = behind_products(program("%0 = matmul(x, w)\n%1 = add(r, %0)", 256, **INPUTS))
    assert order(late) == ["copy in1", "copy in2", "fill", "mma", "copy in0", "map", "store"]


def test_what_the_product_reads_stays():
    p = program("%0 = relu(x)\n%1 = matmul(%0, w)", 256, **{k: v for k, v in INPUTS.items() if k != "r"})
    assert behind_products(p) == p
