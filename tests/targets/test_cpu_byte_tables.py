"""Functions of one byte that give bytes are looked up in 256 results (directive `byte_tables`)."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import autocomp
from autocomp.egraph.cuts import Enumerator
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip


def quantised(x: str, y: str, scale: float, zero: int, kind: str = "u8") -> str:
    low, high = (0, 255) if kind == "u8" else (-128, 127)
    return (f"%{y}a = div({x}, const({scale}, f32))\n%{y}b = round(%{y}a)\n"
            f"%{y}c = add(%{y}b, const({zero}, f32))\n%{y}d = max(%{y}c, const({low}, f32))\n%{y}e = min(%{y}d, const({high}, f32))\n"
            f"%{y}f = cast(%{y}e, to=\"{kind}\")\n")  # fmt: skip


def real(x: str, y: str, scale: float, zero: int) -> str:
    return f"%{y}g = cast({x}, to=\"f32\")\n%{y}h = sub(%{y}g, const({zero}, f32))\n%{y} = mul(%{y}h, const({scale}, f32))\n"


def hard_swish(y: str, gate: str) -> str:
    """A tensor times its gate, both rounded to bytes on the way."""
    return (f"%{gate}i = mul({y}, const(0.16666667, f32))\n"
            f"%{gate}j = add(%{gate}i, const(0.5, f32))\n%{gate}k = max(%{gate}j, const(0, f32))\n"
            f"%{gate}l = min(%{gate}k, const(1, f32))\n" + quantised(f"%{gate}l", gate, 0.0039, 0) + real(f"%{gate}f", gate, 0.0039, 0)
            + f"%{gate}m = mul({y}, %{gate})\n")  # fmt: skip


BEHIND = ("graph g\ninput x: u8[37, 24]\nparam w: i8[24, 45] = random(3)\ninput r: f32[37, 45]\n%m0 = cast(x, to=\"i32\")\n"
          "%m1 = cast(w, to=\"i32\")\n%m2 = matmul(%m0, %m1)\n%m3 = cast(%m2, to=\"f32\")\n%m4 = mul(%m3, const(0.003, f32))\n"
          + quantised("%m4", "1", 0.031, 97) + real("%1f", "2", 0.031, 97) + hard_swish("%2", "3") + quantised("%3m", "4", 0.02, 19)
          + real("%4f", "5", 0.02, 19) + "%6 = add(%5, r)\n%7 = add(%6, %2)\noutput y = %7\n")  # fmt: skip
ALONE = ("graph g\ninput x: u8[16, 16]\ninput z: i8[16, 16]\n" + real("x", "1", 0.05, 131) + hard_swish("%1", "2")
         + quantised("%2m", "3", 0.02, 7) + real("z", "4", 0.05, -3) + "%5 = tanh(%4)\n%5x = mul(%5, %4)\n"
         + quantised("%5x", "6", 0.03, -90, "i8")
         + "output y = %3f\noutput u = %6f\n")  # fmt: skip


def compiled(text: str, inputs: dict[str, np.ndarray], tables: int) -> None:
    graph = parse(text)
    program = autocomp.optimize(graph, target="cpu", threads=1)
    less = autocomp.optimize(graph, target="cpu", threads=1, without=["directives/byte-tables"])
    assert sum("_table" in line and "static const" in line for line in program.source().splitlines()) == tables
    assert any("byte_tables" in k.schedule for k in program.kernels) and "vi_table(" in program.source()
    assert not any("byte_tables" in k.schedule for k in less.kernels) and "vi_table" not in less.source()
    want, got, plain = evaluate(graph, inputs, float64=False), program.run(inputs), less.run(inputs)
    for name in want:
        np.testing.assert_allclose(got[name], plain[name], rtol=1e-5, atol=1e-6)  # sums of products with one rounding or two
        np.testing.assert_allclose(got[name], want[name], rtol=1e-5, atol=1e-6)


def test_behind_a_product_and_with_readers_of_the_byte_itself():
    rng = np.random.default_rng(1)
    compiled(BEHIND, {"x": rng.integers(0, 255, (37, 24), dtype=np.uint8), "r": rng.standard_normal((37, 45)).astype("f4")}, 1)


def test_every_byte_of_both_kinds():
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    compiled(ALONE, {"x": every, "z": every.view(np.int8)}, 2)


def test_only_kernels_that_make_bytes_are_asked_about_them():
    text = "graph g\ninput x: f32[64, 32]\ninput w: u8[32, 16]\n%1 = cast(w, to=\"f32\")\n%0 = matmul(x, %1)\noutput y = %0\n"
    program = autocomp.optimize(text, target="cpu", threads=1)
    assert "byte_tables" not in program.explain(why=program.kernels[0].name)


def gelu(x: str, to: str) -> str:
    """What a quantiser makes of a gelu of the byte `x`: bytes behind the error function, the sum, and both products; each with its zero
    point, a byte that is cast."""
    lines, names = [], iter(f"%{to}{n}" for n in range(100))

    def op(text: str, *operands: str) -> str:
        lines.append(f"{(name := next(names))} = {text.replace('(', '(' + ', '.join((*operands, '')), 1)}".replace(", )", ")"))
        return name

    def real(x: str, scale: float, zero: int) -> str:
        z = op("cast(to=\"i32\")", f"const({zero}, u8)")
        whole = op("cast(to=\"f32\")", op(f"sub({z})", op("cast(to=\"i32\")", x)))
        return op(f"mul(const({scale}, f32))", whole)

    def byte(x: str, scale: float, zero: int) -> str:
        z = op("cast(to=\"f32\")", f"const({zero}, u8)")
        moved = op(f"add({z})", op("round()", op(f"div(const({scale}, f32))", x)))
        return op("cast(to=\"u8\")", op("min(const(255, f32))", op("max(const(0, f32))", moved)))

    y = real(x, 0.031, 97)
    bell = real(byte(op("erf()", op("div(const(1.4142135, f32))", y)), 0.0078, 128), 0.0078, 128)
    sums = real(byte(op("add(const(1, f32))", bell), 0.0079, 0), 0.0079, 0)
    whole = real(byte(op(f"mul({sums})", y), 0.02, 9), 0.02, 9)
    out = byte(op("mul(const(0.5, f32))", whole), 0.01, 9)
    weights = op("cast(to=\"f32\")", "v")
    sums = op(f"matmul({weights})", real(out, 0.01, 9))
    return "\n".join(lines) + f"\noutput y = {sums}\n"


def test_a_gelu_between_bytes_is_one_table():
    """Of 100 x 1024 elements: 320 us where its operand is stored as floats (Xeon, AVX-512)."""
    text = ("graph g\ninput x: u8[64, 96]\nparam w: i8[96, 384] = random(3)\nparam b: f32[384] = random(4)\n"
            "param v: i8[384, 96] = random(5)\n%m0 = cast(x, to=\"i32\")\n"
            "%m1 = cast(w, to=\"i32\")\n%m2 = matmul(%m0, %m1)\n%m3 = cast(%m2, to=\"f32\")\n%m4 = mul(%m3, const(0.0003, f32))\n"
            "%m5 = add(%m4, b)\n" + quantised("%m5", "1", 0.031, 97) + gelu("%1f", "g"))  # fmt: skip
    graph, x = parse(text), np.random.default_rng(2).integers(0, 255, (64, 96), dtype=np.uint8)
    program = autocomp.optimize(graph, target="cpu", threads=1)
    assert "vf_erf" not in program.source() and "vi_table(" in program.source()
    np.testing.assert_allclose(program.run({"x": x})["y"], evaluate(graph, {"x": x}, float64=False)["y"], rtol=1e-5, atol=1e-4)


def test_what_bytes_stand_for_counts_whole_for_each_reader(monkeypatch):
    """So that readers widen bytes themselves, rather than that each counts on the others to have floats stored (an MLP-Mixer in 8 bits 4.66
    to 3.14 ms); a tensor times another one is shared as any."""
    found, real = {}, Enumerator._widened

    def widened(self, c, *steps):
        return found.setdefault(self.subject.by_class[c][0].enode.op, real(self, c, *steps))

    monkeypatch.setattr(Enumerator, "_widened", widened)
    text = ("graph g\ninput x: u8[40, 50]\ninput w: f32[40, 50]\n%1 = cast(x, to=\"i32\")\n%2 = sub(%1, const(97, i32))\n"
            "%3 = cast(%2, to=\"f32\")\n%4 = mul(%3, const(0.03, f32))\n%5 = exp(%4)\n%6 = add(%5, w)\n"
            "%7 = tanh(%4)\noutput y = %6\noutput z = %7\n")  # fmt: skip
    autocomp.optimize(text, target="cpu", threads=1, cache=False)
    assert found["mul"] and found["sub"] and not found["exp"] and not found["add"] and not found["tanh"]


def test_a_zero_point_that_is_cast_is_a_number():
    """And no tensor that a kernel reads, which would be no function of a byte."""
    text = ("graph g\ninput x: f32[500]\ninput y: f32[16, 16]\n%z = cast(const(128, u8), to=\"f32\")\n%a = add(x, %z)\n%b = round(%a)\n"
            "%c = matmul(y, y)\n%d = sub(%c, %z)\noutput o = %b\noutput p = %d\n")  # fmt: skip
    program = autocomp.optimize(text, target="cpu", threads=1, cache=False)
    assert not any("cast" in k.ops for k in program.kernels) and "128.0f" in program.source()
