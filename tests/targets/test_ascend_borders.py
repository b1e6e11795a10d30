"""Vector cores of Ascend read tiles with borders: pads, the parts of a concatenation, halves that are turned, windows at an edge."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

pytestmark = pytest.mark.skipif(not COMPILER, reason="no g++")

PAD = "lo=[2, 5], hi=[1, 3]"
GRAPHS = {
    "pads": ({"x": "f32[70, 901]", "h": "f16[37, 77]", "b": "bf16[37, 77]"},
             f"%0 = pad(x, {PAD}, value=1)\n%1 = pad(h, {PAD}, value=-2)\n%2 = pad(b, {PAD}, value=0)"),
    "joined": ({"x": "f32[37, 65]", "y": "f32[37, 3]", "z": "f32[37, 130]", "r": "f16[5, 70]", "s": "f16[9, 70]"},
               "%0 = concat(x, y, z, axis=1)\n%1 = concat(r, s, axis=0)"),
    "turned_halves": ({"x": "f16[4, 20, 66]", "c": "f16[20, 66]", "s": "f16[20, 66]"},
                      "%a = slice(x, starts=[0, 0, 0], limits=[4, 20, 33], steps=[1, 1, 1])\n"
                      "%b = slice(x, starts=[0, 0, 33], limits=[4, 20, 66], steps=[1, 1, 1])\n%c = neg(%b)\n"
                      "%d = concat(%c, %a, axis=2)\n%e = mul(x, c)\n%f = mul(%d, s)\n%0 = add(%e, %f)"),
    "gathered": ({"x": "f32[50, 33]", "i": "i64[7, 3]", "y": "f32[7, 3, 10]"},  # no row is looked up beyond its 33 elements
                 "%a = gather(x, i, axis=0)\n%b = concat(%a, y, axis=2)\n%0 = relu(%b)"),
    "beside": ({"x": "f16[37, 77]", "y": "f16[40, 85]"}, f"%a = pad(x, {PAD}, value=1)\n%0 = add(%a, y)"),
    "chained": ({"x": "f32[37, 70]", "y": "f32[40, 80]"}, "%a = exp(x)\n%b = pad(%a, lo=[2, 7], hi=[1, 3], value=-inf)\n%0 = max(%b, y)"),
}  # fmt: skip


def compiled(name):
    inputs, lines = GRAPHS[name]
    text = graph(inputs, lines)
    outputs = [n for n in ("%0", "%1", "%2") if f"{n} =" in lines]
    text = text[: text.index("output")] + "".join(f"output o{n[1:]} = {n}\n" for n in outputs)
    return autocomp.optimize(text, target="ascend:910b", without=["tiling/npu-scalar-*"])


@pytest.mark.parametrize("name", GRAPHS)
def test_what_lies_outside_is_the_fill(name, tmp_path):
    program = compiled(name)
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


def test_parts_of_a_concatenation_need_no_selection_of_a_fill(tmp_path):
    """Each part is read only where it lies inside: one selection for two parts."""
    text = next(s.text for n, s in compiled("turned_halves").printed.items())
    assert text.count("Select(") == 1


@pytest.mark.parametrize(("was", "by"), [("uint8_t(in0_t_lo_i1 % ", "uint8_t((in0_t_lo_i1 + 1) % "), ("CMPMODE::GE", "CMPMODE::GT"),
                                         ("ac_fewest((", "ac_most((")])  # fmt: skip
def test_a_wrong_border_is_seen(was, by, tmp_path):
    def edit(text):
        return text.replace(was, by)

    program = compiled("pads")
    assert any(was in s.text for s in program.printed.values())
    program.executor = AscendExecutor(program, tmp_path, edit=edit)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)
