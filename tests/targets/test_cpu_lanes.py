"""Lanes of products on the CPU run along what lies side by side, and a few taps of every other element are read as vectors."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

import autocomp
from autocomp.cost.host import facts
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, TensorType

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")


def conv(b, x, o, k, stride=1, pad=0):
    c = x.type.shape[1]
    w = b.param(f"w{o}", (np.random.default_rng(o).standard_normal((o, c, k, k)) / (k * k * c) ** 0.5).astype("f4"))
    return b.op("conv", x, w, strides=(stride, stride), lo=(pad, pad), hi=(pad, pad), dilations=(1, 1), groups=1)


def checked(graph, **options):
    rng = np.random.default_rng(1)
    feed = {x.attrs["name"]: rng.standard_normal(x.type.shape).astype("f4") for x in graph.inputs}
    program = autocomp.optimize(graph, **options)
    got = program.run(feed)["y"].copy()
    want = evaluate(graph, feed)["y"]
    assert np.abs(got - want).max() < 2e-6 * np.abs(want).max()
    np.testing.assert_array_equal(got, autocomp.optimize(graph, **{**options, "threads": 2}).run(feed)["y"])
    return program


def linked(size):
    """Two 1 x 1 convolutions with a residual between them, 16 > 16 > 64 channels."""
    b = Builder("linked")
    x, r = (b.input(n, TensorType(F32, (1, 16, *size))) for n in "xr")
    y = b.op("add", conv(b, b.op("max", x, b.const(0.0, F32)), 16, 1), r)
    b.output("y", conv(b, y, 64, 1))
    return b.graph()


def test_a_first_product_has_lanes_where_its_sums_lie():
    program = checked(linked((101, 97)), threads=1)
    text = next(program.source(k.name) for k in program.kernels if k.ops.count("conv") == 2)
    assert "vf_scatter" not in text and "vf_strided" not in text  # its result lies as the residual does, places side by side


@pytest.mark.parametrize("size, k", [((41, 33), 3), ((9, 64), 5), ((3, 3), 3), ((38, 1), 1)])
def test_few_taps_of_every_other_element(size, k):
    b = Builder("stem")
    b.output("y", conv(b, b.input("x", TensorType(F32, (1, 3, *size))), 24, k, 2))
    program = checked(b.graph(), threads=1)
    assert "vf_transpose(in0" not in program.source()


ROWS = """
#include "autocomp_cpu.h"
#include <stdio.h>
#include <string.h>
#define CHECK(R) for (long n = 0; n <= AC_LANES; n++) { \\
  vf x[R]; memset(out, 0, sizeof out); memset(want, 0, sizeof want); \\
  for (long i = 0; i < R; i++) for (long l = 0; l < AC_LANES; l++) { \\
    x[i][l] = 1 + 100 * i + l; \\
    if (l < n) want[3 + l * 23 + i] = x[i][l]; \\
  } \\
  if (n == AC_LANES) vf_scatter_rows(out + 3, 23, x, R); \\
  else vf_scatter_rows_n(out + 3, 23, x, R, n); \\
  bad += memcmp(out, want, sizeof out) != 0; }
int main(void) {
  static float out[512], want[512]; int bad = 0;
  CHECK(1) CHECK(2) CHECK(3) CHECK(4) CHECK(5) CHECK(6) CHECK(7) CHECK(8) CHECK(11) CHECK(14)
  printf("%d\\n", bad); return 0;
}
"""


@pytest.mark.parametrize("flag", ["-march=x86-64-v4", "-march=x86-64-v3", "-march=x86-64"])
def test_rows_are_turned_in_registers_and_nothing_else_is_written(flag, tmp_path):
    level = flag.removeprefix("-march=")
    if platform.machine() != "x86_64" or (level != "x86-64" and facts().vector_bytes < {"x86-64-v4": 64, "x86-64-v3": 32}[level]):
        pytest.skip(f"this machine does not run {level}")
    lanes = {"x86-64-v4": 16, "x86-64-v3": 8, "x86-64": 4}[level]
    (tmp_path / "rows.c").write_text(f"#define AC_LANES {lanes}\n{ROWS}", encoding="utf-8")
    cc, include = shutil.which("gcc") or "cc", files("autocomp.targets.cpu") / "include"
    subprocess.run([cc, "-O1", flag, f"-I{include}", "rows.c", "-o", "rows", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "rows"], capture_output=True, text=True, check=True).stdout == "0\n"


@pytest.mark.parametrize("o", [64, 83])
def test_a_short_convolution_stores_its_places_together(o):
    """Lanes of the last transform are channels: two places are one store, and sums that lie as a panel does are read where they are."""
    b = Builder("short")
    b.output("y", conv(b, b.input("x", TensorType(F32, (1, 64, 13, 15))), o, 3, pad=1))
    text = checked(b.graph(), threads=1).source()
    assert "vf_scatter_rows(" in text and ("panel0 = &acc2[" in text) == (o == 64)
