"""Bytes on cores that multiply none: one instruction sums pairs of products in 16 bits, where no pair of a constant saturates (directive
`byte_pairs`). Whether one can is found when the constant is packed, so a kernel has both ways."""

from __future__ import annotations

import shutil
import subprocess
from importlib.resources import files

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import I8, U8, TensorType
from tests.helpers.hosts import price_for, this_machine
from tests.helpers.repeats import by_turns

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip

RULE = "directives/byte-pairs"
# each pair's products by two bytes of 255: 32640 and -32640 are numbers of 16 bits, 32895 and -32895 none
CONSTANTS = {
    "least that fit": (-64, -64), "most that fit": (64, 64), "of both signs": (-128, 127), "one beyond": (64, 65),
    "one below": (-65, -64), "largest": (127, 127), "least": (-128, -128), "one alone": (127, 1),
}  # fmt: skip
FIT = {"least that fit", "most that fit", "of both signs", "one alone"}


@pytest.fixture(autouse=True)
def no_instruction_for_bytes(monkeypatch):
    """This machine without an instruction that sums four products of bytes: what it runs is right on any."""
    price_for(monkeypatch, this_machine(arch="x86-64-v3", dot_bytes=False))


def product(rows: int, depth: int, columns: int, weights: np.ndarray, left: bool, image=U8):
    """(graph, input): a product by constant bytes on the left or on the right; inputs at their ends."""
    b = Builder("product")
    x = b.input("x", TensorType(image, (depth, columns) if left else (rows, depth)))
    w = b.param("w", weights)
    factors = [b.op("cast", v, to="i32") for v in ((w, x) if left else (x, w))]
    b.output("y", b.op("matmul", *factors))
    ends = np.iinfo(image.numpy)
    return b.graph(), np.random.default_rng(3).choice([ends.min, ends.max, ends.max], x.type.shape).astype(image.numpy)


def drawn(shape: tuple[int, int], bits: int, seed: int) -> np.ndarray:
    most = 1 << (bits - 1)
    return np.random.default_rng(seed).choice([-most, -most, most - 1, 0, 3], shape).astype("i1")


@pytest.mark.parametrize(("pair", "left"), by_turns(CONSTANTS, [True, False]), ids=str)
def test_pairs_at_the_ends_of_16_bits(pair, left):
    """A constant that saturates in one pair alone is summed without the instruction."""
    rows, depth, columns = (24, 48, 40)
    weights = drawn((rows, depth) if left else (depth, columns), 7, 1)
    if left:
        weights[17, 22:24] = CONSTANTS[pair]
    else:
        weights[22:24, 17] = CONSTANTS[pair]
    graph, x = product(rows, depth, columns, weights, left)
    x[...] = 255
    program = autocomp.optimize(graph, target="cpu", cache=False, threads=1)
    assert "vi_dot4_fits(" in program.source() and "byte_pairs" in program.kernels[0].schedule
    np.testing.assert_array_equal(program.run({"x": x})["y"], evaluate(graph, {"x": x})["y"])


@pytest.mark.parametrize(("sizes", "bits", "left", "image"), by_turns(
    [(24, 64, 40), (5, 7, 9), (1, 130, 33), (40, 1, 40), (33, 130, 17), (100, 1030, 21), (2, 3, 1)],
    [7, 8], [True, False], [U8, I8]), ids=str)  # fmt: skip
def test_results_are_exact(sizes, bits, left, image):
    rows, depth, columns = sizes
    graph, x = product(rows, depth, columns, drawn((rows, depth) if left else (depth, columns), bits, 5), left, image)
    want = evaluate(graph, {"x": x})["y"]
    for threads in (1, 2):
        program = autocomp.optimize(graph, target="cpu", cache=False, threads=threads)
        np.testing.assert_array_equal(program.run({"x": x})["y"], want)
    plain = autocomp.optimize(graph, target="cpu", cache=False, without=(RULE,))
    assert "vi_dot4_fits(" not in plain.source() and "byte_pairs" not in plain.kernels[0].schedule
    np.testing.assert_array_equal(plain.run({"x": x})["y"], want)


def test_bytes_that_are_signed_must_be_the_constant():
    """The instruction's signed bytes are the constant's, whose pairs are known."""
    weights = drawn((24, 64), 7, 5)
    for left, image, there in ((True, U8, True), (True, I8, False), (False, U8, True), (False, I8, True)):
        graph, _ = product(24, 64, 40, weights if left else np.ascontiguousarray(drawn((64, 40), 7, 5)), left, image)
        assert ("vi_dot4_fits(" in autocomp.optimize(graph, target="cpu", cache=False).source()) is there


def test_a_core_with_an_instruction_for_four_products_has_no_use_for_it(monkeypatch):
    price_for(monkeypatch, this_machine(arch="x86-64-v3", dot_bytes=True))
    graph, _ = product(24, 64, 40, drawn((24, 64), 7, 5), True)
    assert "vi_dot4_fits(" not in autocomp.optimize(graph, target="cpu", cache=False).source()


CHECK = """
#include "autocomp_cpu.h"
#include <stdio.h>
int main(void) {
  long bad = 0;
  for (int x = -128; x < 128; x++)
    for (int y = -128; y < 128; y++) {
      int low = 0, high = 0, fits = 1;
      for (int at = 0; at < 4; at++) {
        const int sum = 255 * ((at & 1 ? x : 0) + (at & 2 ? y : 0));
        low = sum < low ? sum : low, high = sum > high ? sum : high;
      }
      fits = low >= -32768 && high <= 32767;
      for (int at = 0; at < 32; at += 16) {
        const int32_t words[2] = {0, (int32_t)(((uint32_t)(uint8_t)x | (uint32_t)(uint8_t)y << 8) << at)};
        bad += ac_sums_fit(words, 2) != fits;
        vi s = vi_set(words[1]);
        for (int u = 0; u < 4 && fits; u++) {
          const vi image = vi_set(u == 0 ? -1 : u == 1 ? 0x00ff00ff : u == 2 ? (int)0xff00ff00u : 0x01807fff);
          bad += vi_dot4_fits(vi_set(7), image, s)[1] != vi_dot4(vi_set(7), image, s)[1];
        }
      }
    }
  printf("%ld\\n", bad); return 0;
}
"""


def test_the_question_asked_of_a_constant(tmp_path):
    (tmp_path / "check.c").write_text(f"#define AC_LANES {this_machine().granule[1]}\n{CHECK}", encoding="utf-8")
    cc, include = shutil.which("gcc") or "cc", files("autocomp.targets.cpu") / "include"
    options = ["-O2", "-fno-strict-aliasing", "-march=native", f"-I{include}"]
    subprocess.run([cc, *options, "check.c", "-o", "check", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "check"], capture_output=True, text=True, check=True).stdout == "0\n"
