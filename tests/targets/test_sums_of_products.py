"""Two products that are added, as gates of recurrent cells and shortcuts of residual blocks are: one accumulator may take both on GPUs."""

from __future__ import annotations

import shutil

import pytest

import autocomp
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import by_turns, repeats

needs_cc = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")

HOW: list[dict] = [{"same": True}, {}, {"depth": 33}, {"after": "mul(%s, b2)"}]


def products(dtype: str, depth: int = 48, same: bool = False, after: str = "relu(%s)") -> str:
    """relu(a @ b + c @ d); `same`: a in both."""
    inputs = {"a": f"{dtype}[70, 48]", "b": f"{dtype}[48, 100]", "c": f"{dtype}[70, {depth}]", "d": f"{dtype}[{depth}, 100]"}
    if same:
        inputs.pop("c")
    return graph(inputs, f"%p = matmul(a, b)\n%q = matmul({'a' if same else 'c'}, d)\n%s = add(%p, %q)\n%r = {after}")


@needs_cc
@pytest.mark.usefixtures("quick_builds")
@pytest.mark.parametrize(("dtype", "how"), [*by_turns(["f16", "f32", "f64"], HOW), *(repeats("bf16", x, of="f16") for x in HOW)], ids=str)
def test_products_are_added_on_cpus(dtype, how):
    text = products(dtype, **how)
    text = text.replace("input b:", f"input b2: {dtype}[100]\ninput b:") if "b2" in text else text
    assert autocomp.optimize(text, target="cpu").verify().ratio <= 1


@needs_cc
def test_convolutions_are_added_on_cpus():
    inputs = {"x": "f32[2, 8, 14, 14]", "w": "f32[12, 8, 3, 3]", "v": "f32[12, 8, 1, 1]"}
    body = """%c = conv(x, w, strides=[2, 2], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)
    %d = conv(x, v, strides=[2, 2], lo=[0, 0], hi=[0, 0], dilations=[1, 1], groups=1)
    %s = add(%c, %d)
    %r = relu(%s)"""
    assert autocomp.optimize(graph(inputs, body), target="cpu").verify().ratio <= 1
