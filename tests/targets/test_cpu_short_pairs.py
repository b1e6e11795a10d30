"""Bytes on cores that multiply none: constants, panels and copied rows are pairs of 16 bits (directive `short_pairs`)."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

import autocomp
from autocomp.cost.cores import copies_rows
from autocomp.cost.host import facts
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import I8, U8, TensorType
from tests.helpers.c_driver import AVX2, AVX512, for_machine
from tests.helpers.hosts import price_for, this_machine
from tests.helpers.repeats import by_turns, repeating
from tests.targets.test_cpu_words import SHAPES, run, windows

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip

RULE = "directives/short-pairs"
TYPES = [(U8, I8), (I8, I8), (I8, U8), (U8, U8)]


@pytest.fixture(autouse=True)
def no_instruction_for_bytes(monkeypatch):
    """This machine without an instruction that sums four products of bytes: what it runs is right on any."""
    price_for(monkeypatch, this_machine(arch="x86-64-v3", dot_bytes=False))


@pytest.mark.parametrize(("size", "types"), by_turns(
    [((7, 7), 1), ((7, 7), 3), ((6, 19), 3), ((1, 1), 3), ((5, 40), 1)], TYPES), ids=str)  # fmt: skip
def test_bytes_at_their_ends(size, types):
    """Sums of the largest products, channels that fill no group of four, columns that fill no vector."""
    (shape, k), (image, weights) = size, types
    graph, x = windows(1, 37, 13, shape, (k, k), (1, 1), (1, 1), (k // 2, k // 2), (k // 2, k // 2), 1, "nchw", image, weights, ends=True)
    want = evaluate(graph, {"x": x})["y"]
    program, got = run(graph, x, threads=1)
    np.testing.assert_array_equal(got, want)
    if shape == (1, 1):  # lanes are channels: the constant is the panel
        return
    assert "vi_dot2(" in program.source() and "vi_dot4(" not in program.source() and "short_pairs" in program.kernels[0].schedule
    assert "under0" not in program.source()  # no factor is turned: pairs are signed whatever bytes are
    np.testing.assert_array_equal(run(graph, x, threads=2)[1], want)
    plain, same = run(graph, x, threads=1, without=(RULE,))
    assert "vi_dot2(" not in plain.source() and "short_pairs" not in plain.kernels[0].schedule
    np.testing.assert_array_equal(same, want)
    assert program.predicted < plain.predicted


@pytest.mark.parametrize("form", repeating(SHAPES, dict.fromkeys([*SHAPES][1::2], "the others; test_cpu_words has all")))
def test_windows_of_all_forms(form):
    graph, x = windows(*SHAPES[form])
    np.testing.assert_array_equal(run(graph, x, threads=1)[1], evaluate(graph, {"x": x})["y"])


@pytest.mark.parametrize(("sizes", "types"), by_turns(
    [(5, 7, 9), (13, 64, 48), (33, 6, 17), (2, 1, 40), (64, 130, 1)], TYPES), ids=str)  # fmt: skip
def test_products_by_a_constant_on_the_left(sizes, types):
    image, weights = types
    rng, b = np.random.default_rng(7), Builder("left")
    rows, depth, columns = sizes
    w = b.param("w", rng.choice(np.iinfo(weights.numpy).min + np.array([0, 255, 77]), (rows, depth)).astype(weights.numpy))
    x = b.input("x", TensorType(image, (depth, columns)))
    b.output("y", b.op("matmul", b.op("cast", w, to="i32"), b.op("cast", x, to="i32")))
    feed = {"x": rng.choice(np.iinfo(image.numpy).min + np.array([0, 255, 130]), (depth, columns)).astype(image.numpy)}
    np.testing.assert_array_equal(autocomp.optimize(b.graph(), cache=False).run(feed)["y"], evaluate(b.graph(), feed)["y"])


@pytest.mark.parametrize(("sizes", "types"), by_turns(
    [(16, 7, 9), (64, 64, 48), (33, 130, 17), (100, 1, 40), (21, 1030, 300), (5, 64, 48)], TYPES), ids=str)  # fmt: skip
def test_products_by_a_constant_on_the_right(sizes, types):
    """The constant is the panel: rows are copied as pairs once a tile where there are enough of them. Largest products, depths that fill no
    group of four, columns that fill no vector, tiles that end early."""
    image, weights = types
    rng, b = np.random.default_rng(7), Builder("right")
    rows, depth, columns = sizes
    x = b.input("x", TensorType(image, (rows, depth)))
    w = b.param("w", rng.choice(np.iinfo(weights.numpy).min + np.array([0, 255, 77]), (depth, columns)).astype(weights.numpy))
    b.output("y", b.op("matmul", b.op("cast", x, to="i32"), b.op("cast", w, to="i32")))
    graph = b.graph()
    feed = {"x": rng.choice(np.iinfo(image.numpy).min + np.array([0, 255, 130]), (rows, depth)).astype(image.numpy)}
    want = evaluate(graph, feed)["y"]
    for threads in (1, 2):
        program = autocomp.optimize(graph, cache=False, threads=threads)
        np.testing.assert_array_equal(program.run(feed)["y"], want)
        assert ("ac_pairs_" in program.source()) == ("short_pairs" in program.kernels[0].schedule)
        assert rows * depth * columns < 1e5 or "ac_pairs_" in program.source()
    plain = autocomp.optimize(graph, cache=False, without=(RULE,))
    np.testing.assert_array_equal(plain.run(feed)["y"], want)
    assert "vi_dot2(" not in plain.source()
    assert rows * depth * columns < 1e6 or autocomp.optimize(graph, cache=False).predicted < plain.predicted  # small ones: 2 % either way


def test_copied_rows_are_priced_as_they_are_printed():
    """Whether rows are copied is asked by the price and by the printer; a row's copy that leaves the second cache is none."""
    for rows, depth, copies in ((15, 512, False), (16, 512, True), (64, 4096, True), (64, 4100, False)):
        assert copies_rows(rows, depth) is copies


def test_a_core_with_such_an_instruction_multiplies_bytes():
    graph, _ = windows(1, 32, 24, (9, 21), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw")
    assert "short_pairs" not in this_machine(arch="x86-64-v3", dot_bytes=True).features
    assert "short_pairs" not in this_machine(arch="aarch64", dot_bytes=False).features
    assert "vi_dot2(" in for_machine(graph, AVX2).source() and "vi_dot4(" in for_machine(graph, AVX512).source()


PAIRS = """
#include "autocomp_cpu.h"
#include <stdio.h>
int main(void) {
  unsigned s = 1; long bad = 0;
  for (int turn = 0; turn < 20000; turn++) {
    vi x, y, sums;
    for (int l = 0; l < AC_LANES; l++) {
      x[l] = (int)(s = s * 1664525u + 1013904223u), y[l] = (int)(s = s * 1664525u + 1013904223u), sums[l] = l - 3;
    }
    if (turn < 4) x = vi_set(turn & 1 ? (int)0x80808080u : -1), y = vi_set(turn & 2 ? (int)0x80808080u : -1);
    vi u = vi_dot2(vi_dot2(sums, vi_even_i8(x), vi_even_u8(y)), vi_odd_i8(x), vi_odd_u8(y));
    vi t = vi_dot2(vi_dot2(sums, vi_even_i8(x), vi_even_i8(y)), vi_odd_i8(x), vi_odd_i8(y));
    for (int l = 0; l < AC_LANES; l++) {
      int a = sums[l], b = sums[l];
      for (int i = 0; i < 4; i++) {
        a += (int8_t)(x[l] >> 8 * i) * (uint8_t)(y[l] >> 8 * i);
        b += (int8_t)(x[l] >> 8 * i) * (int8_t)(y[l] >> 8 * i);
      }
      bad += a != u[l] || b != t[l] || vi_even_i8(x)[l] != ac_pair_i8((uint32_t)x[l]) || vi_odd_u8(x)[l] != ac_pair_u8((uint32_t)x[l] >> 8);
    }
  }
  printf("%ld\\n", bad); return 0;
}
"""


@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3", "x86-64"])
def test_pairs_on_all_widths(level, tmp_path):
    if platform.machine() != "x86_64" or (level != "x86-64" and facts().vector_bytes < {"x86-64-v4": 64, "x86-64-v3": 32}[level]):
        pytest.skip(f"this machine does not run {level}")
    lanes = {"x86-64-v4": 16, "x86-64-v3": 8, "x86-64": 4}[level]
    (tmp_path / "pairs.c").write_text(f"#define AC_LANES {lanes}\n{PAIRS}", encoding="utf-8")
    cc, include = shutil.which("gcc") or "cc", files("autocomp.targets.cpu") / "include"
    options = ["-O2", "-fno-strict-aliasing", f"-march={level}", f"-I{include}"]
    subprocess.run([cc, *options, "pairs.c", "-o", "pairs", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "pairs"], capture_output=True, text=True, check=True).stdout == "0\n"
