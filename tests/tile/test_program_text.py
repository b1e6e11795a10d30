"""Text of tile programs: what is printed reads back, and bad text is refused with its line and column."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pytest

from autocomp.errors import ModelError
from autocomp.tile.meaning import run
from autocomp.tile.text import parse, show
from tests.helpers import fresh

GOLDEN = Path(__file__).parents[1] / "golden"
SOFTMAX = """kernel softmax(in0: f32[i0:100, i1:1000]) -> out0: f32[i0:100, i1:1000]
axes i0=100 i1=1000
tile i0=4
grid i0
  in0_t: f32[i0, i1] fragment = copy in0
  m: f32[i0] fragment = reduce max i1 in0_t
  e: f32[i0, i1] fragment = map exp(in0_t - m)
  s: f32[i0] fragment = reduce add i1 e
  y: f32[i0, i1] fragment = map e / s
  store out0 = y
"""
SHIFTED = """kernel shifted(in0: f32[i:8] of in0[8] at [-1*i + 7]) -> out0: f32[i:8]
axes i=8
tile
x: f32[i] fragment = copy in0
y: f32[i] fragment = map x
store out0 = y
"""


@cache
def printed() -> dict[str, str]:
    """The tile programs in the comments of all goldens."""
    found = {}
    for path in sorted(x for folder in ("cuda", "maca") for x in (GOLDEN / folder).iterdir()):
        lines = [line.removeprefix(" *").removeprefix(" ") for line in path.read_text().partition("*/")[0].splitlines()]
        if starts := [i for i, line in enumerate(lines) if line.startswith("kernel ")]:
            rest = lines[starts[0]:]
            found[path.name] = "\n".join(rest[:rest.index("")]) + "\n"
    return found


def test_every_golden_reads_back():
    assert len(printed()) > 50
    for name, text in printed().items():
        assert show(parse(text)) == text, name


def test_a_minus_in_front_of_an_index():
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(run(parse(SHIFTED), {"in0": x})["out0"], x[::-1])


@pytest.mark.parametrize(("old", "new", "line", "column", "says"), [
    ("in0: f32[", "in0: f33[", 1, 21, "expected a dtype, found 'f33'; did you mean 'f32'?"),
    ("axes i0=100 i1=1000", "axes i0=100 i1=", 2, 1, "expected the line 'axes i0=64 ...'"),
    ("tile i0=4", "tile i7=4", 1, 1, "there is no axis 'i7'"),
    ("i0:100, i1:1000]) ->", "i0:100, i1:999]) ->", 1, 1, "in0 has 999 elements along i1, the axis 1000"),
    ("grid i0", "grid i0, i0", 4, 1, "grid has an axis twice"),
    ("copy in0", "copy in1", 5, 3, "there is no input 'in1' to copy"),
    ("reduce max i1", "reduce max i7", 6, 3, "in0_t has no axis 'i7'"),
    ("reduce max i1", "reduce exp i1", 6, 3, "there is no reduction 'exp'"),
    ("m: f32[i0] ", "m: f32[i1] ", 6, 3, "m has axes [i1], what it is made of [i0]"),
    ("exp(in0_t - m)", "exp(in0_t - q)", 7, 45, "unknown value 'q'"),
    ("exp(in0_t - m)", "expo(in0_t - m)", 7, 33, "unknown function 'expo'"),
    ("e: f32[i0, i1] fragment = map exp", "e: f32[i0] fragment = map exp", 7, 3, "e has axes [i0]"),
    ("  y: f32[i0, i1] fragment = map e / s\n", "", 9, 3, "value 'y' is not made yet"),
    ("store out0 = y", "store out1 = y", 10, 3, "there is no output 'out1'"),
    ("  store out0 = y\n", "", 1, 1, "output 'out0' is never stored"),
    ("fragment = copy", "register = copy", 5, 22, "expected block or fragment"),
    ("s: f32[i0] fragment = reduce", "s: f32[i0] fragment += reduce", 8, 3, "s is added to before it has a value"),
    ("map e / s", "melt e / s", 9, 3, "unknown statement 'melt'"),
])  # fmt: skip
def test_bad_text_is_refused_with_line_and_column(old, new, line, column, says):
    assert SOFTMAX.count(old) >= 1
    with pytest.raises(ModelError) as refused:
        parse(SOFTMAX.replace(old, new, 1))
    assert says in refused.value.what
    assert refused.value.where == f"line {line}:{column}", refused.value


def test_a_view_beyond_its_buffer_is_refused():
    with pytest.raises(ModelError, match=r"in0: index -1\*i \+ 8 goes from 1 to 8 in a dimension of 8"):
        parse(SHIFTED.replace("+ 7", "+ 8"))


def test_damaged_text_is_read_or_refused():
    rng, refused = Random(fresh.seed()), 0
    texts = list(printed().values())
    for _ in range(1500):
        text = rng.choice(texts)
        i, kind = rng.randrange(len(text)), rng.random()
        lines = text.splitlines()
        if kind < 0.3:
            text = text[:i] + text[i + 1:]
        elif kind < 0.7:
            text = text[:i] + rng.choice(" :=[](),+-*/.0x\n{}<") + text[i + 1:]
        else:
            del lines[rng.randrange(len(lines))]
            text = "\n".join(lines)
        try:
            parse(text)
        except ModelError as e:
            assert e.where is None or re.fullmatch(r"(line \d+:\d+|tile program)", e.where), e
            refused += 1
    assert refused > 500
