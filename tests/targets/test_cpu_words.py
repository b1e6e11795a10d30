"""Windows of bytes on CPUs: words of four channels are made once (`targets.cpu.words`), panels of any columns are copies of them."""

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
from autocomp.ir.types import F32, I8, I32, U8, TensorType
from tests.helpers.c_driver import AVX512, for_machine
from tests.helpers.repeats import by_turns

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip

RULE = "directives/stage-words"
# images, channels in and out, size, window, step, dilation, borders in front and behind, groups, layout
SHAPES = {
    "lines of three vectors and a bit": (1, 8, 12, (9, 37), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw"),
    "lines shorter than a vector": (1, 32, 20, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw"),
    "whole vectors": (1, 8, 16, (5, 32), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw"),
    "channels that fill no word": (1, 13, 9, (8, 21), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw"),
    "steps of two": (1, 16, 9, (15, 41), (5, 3), (2, 2), (1, 1), (2, 1), (2, 1), 1, "nchw"),
    "steps of three and dilated": (1, 16, 9, (20, 31), (5, 5), (1, 3), (2, 1), (0, 3), (4, 0), 1, "nchw"),
    "steps wider than the window": (1, 16, 9, (15, 41), (3, 1), (1, 3), (1, 1), (1, 0), (1, 0), 1, "nchw"),
    "borders wider than the image": (1, 8, 9, (1, 2), (3, 3), (1, 1), (1, 1), (3, 4), (2, 5), 1, "nchw"),
    "two images": (2, 8, 9, (10, 18), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw"),
    "two groups": (1, 16, 18, (10, 18), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 2, "nchw"),
    "channels last": (1, 16, 18, (10, 18), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nhwc_ohwi"),
}  # fmt: skip


def windows(n, c, o, size, window, strides, dilations, lo, hi, groups, layout, image=U8, weights=I8, ends=False):
    """(graph, image): a convolution of bytes in 32 bits; numbers at their ends with `ends`."""
    rng, b = np.random.default_rng(o), Builder("windows")
    last = layout == "nhwc_ohwi"
    ends_of = lambda t: (np.iinfo(t.numpy).min, np.iinfo(t.numpy).max)
    draw = lambda t, shape: (rng.choice(ends_of(t), shape) if ends else rng.integers(*ends_of(t), shape, endpoint=True)).astype(t.numpy)
    shape = (n, *size, c) if last else (n, c, *size)
    x = b.input("x", TensorType(image, shape))
    w = b.param("w", draw(weights, (o, *window, c // groups) if last else (o, c // groups, *window)))
    y = b.op("conv", b.op("cast", x, to="i32"), b.op("cast", w, to="i32"), strides=strides, lo=lo, hi=hi, dilations=dilations,
             groups=groups, layout=layout)  # fmt: skip
    b.output("y", b.op("cast", y, to="f32"))
    return b.graph(), draw(image, shape)


def run(graph, x, **options):
    program = autocomp.optimize(graph, target="cpu", cache=False, **options)
    program.run({"x": x})["y"][...] = np.nan
    return program, program.run({"x": x})["y"]


@pytest.mark.parametrize("form", SHAPES)
def test_words_hold_what_windows_read(form):
    graph, x = windows(*SHAPES[form])
    want = evaluate(graph, {"x": x})["y"]
    for threads in (1, 2):
        np.testing.assert_array_equal(run(graph, x, threads=threads)[1], want)
    plain, got = run(graph, x, threads=1, without=(RULE,))
    np.testing.assert_array_equal(got, want)
    assert "words" not in plain.source() and "stage_windows" not in "".join(k.schedule for k in plain.kernels)


@pytest.mark.parametrize("form", ["lines of three vectors and a bit", "lines shorter than a vector", "steps of two"])
def test_words_are_used_and_said_to_be(form):
    graph, x = windows(*SHAPES[form])
    program = run(graph, x, threads=1)[0]
    assert "stage_windows" in program.kernels[0].schedule and "words + (" in program.source()
    assert RULE in program.explain(why=program.kernels[0].name)


@pytest.mark.parametrize(("line", "reads"), [(7, 4), (14, 2), (28, 2), (32, 1)])
def test_vectors_of_several_lines_are_one_read_for_each(line, reads):
    """Not a loop over lines for each row of a panel."""
    graph, _ = windows(1, 32, 40, (line, line), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw")
    row = next(x for x in for_machine(graph, AVX512).source().splitlines() if "vi_store(out + 0," in x)
    assert row.count("vi_load(") == reads, row


@pytest.mark.parametrize(("image", "weights"), [(U8, I8), (I8, I8), (I8, U8), (U8, U8)], ids=str)
def test_bytes_at_their_ends_do_not_saturate(image, weights):
    graph, x = windows(1, 36, 17, (6, 19), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), 1, "nchw", image, weights, ends=True)
    np.testing.assert_array_equal(run(graph, x, threads=1)[1], evaluate(graph, {"x": x})["y"])


def test_one_tap_and_images_that_leave_the_cache_have_none():
    near = windows(1, 16, 16, (20, 20), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), 1, "nchw")
    assert "words + (" not in run(*near, threads=1)[0].source()


def test_weights_that_a_call_gives_are_widened_one_by_one():
    """Their channels do not lie side by side, so no word of theirs is one read."""
    rng, b = np.random.default_rng(3), Builder("given")
    x, w = b.input("x", TensorType(U8, (1, 8, 9, 21))), b.input("w", TensorType(I8, (12, 8, 3, 3)))
    y = b.op("conv", b.op("cast", x, to="i32"), b.op("cast", w, to="i32"), strides=(1, 1), lo=(1, 1), hi=(1, 1), dilations=(1, 1))
    b.output("y", y)
    feed = {"x": rng.integers(0, 256, x.type.shape).astype("u1"), "w": rng.integers(-128, 128, w.type.shape).astype("i1")}
    program = autocomp.optimize(b.graph(), target="cpu", cache=False)
    np.testing.assert_array_equal(program.run(feed)["y"], evaluate(b.graph(), feed)["y"])


def lines(gates):
    """(graph, line): convolutions along one axis as a quantiser writes them, filters with a scale each; their sigmoids' product."""
    rng, b = np.random.default_rng(gates), Builder("lines")
    x = b.input("x", TensorType(U8, (1, 16, 75)))
    real = lambda v: b.op("cast", b.op("sub", b.op("cast", v, to="i32"), b.const(130, I32)), to="f32")
    y = None
    for n in range(gates):
        w = b.param(f"w{n}", rng.integers(-128, 128, (20, 16, 3)).astype("i1"))
        s = b.param(f"s{n}", rng.uniform(1e-4, 2e-4, (20, 1, 1)).astype("f4"))
        image, filters = b.op("mul", real(x), b.const(0.02, F32)), b.op("mul", b.op("cast", w, to="f32"), s)
        z = b.op("sigmoid", b.op("conv", image, filters, strides=(1,), lo=(2,), hi=(2,), dilations=(2,)))
        y = z if y is None else b.op("mul", y, z)
    b.output("y", y)
    return b.graph(), rng.integers(0, 256, (1, 16, 75)).astype("u1")


@pytest.mark.parametrize("left_out", [(), ("quantised/scale-of-line-filters",), ("quantised/zero-of-line",)], ids=str)
def test_windows_of_lines_are_of_bytes_too(left_out):
    """Twelve layers of dilated convolutions of 48 channels: 13.5 to 7.3 ms (Xeon, AVX-512)."""
    graph, x = lines(1)
    program, got = run(graph, x, threads=1, without=left_out)
    assert ("vi_dot" in program.source()) == (not left_out)
    np.testing.assert_allclose(got, evaluate(graph, {"x": x})["y"], rtol=1e-5)


def test_two_products_of_bytes_are_two_kernels():
    """In one, bytes would be widened: 5.8 ms for 0.4."""
    graph, x = lines(2)
    program, got = run(graph, x, threads=1)
    assert sum("vi_dot" in p.text for p in program.printed.values()) == 2
    np.testing.assert_allclose(got, evaluate(graph, {"x": x})["y"], rtol=1e-5)


FEW = {  # channels in and out, size, window, step: an image of few channels, whose words are taps side by side
    "stem of steps of two": (3, 16, (24, 48), (7, 7), (2, 2)), "whole vectors": (3, 16, (20, 64), (3, 3), (1, 1)),
    "taps that fill words": (1, 9, (12, 70), (3, 4), (1, 1)), "steps of two": (4, 24, (17, 97), (5, 5), (2, 2)),
    "narrow": (3, 8, (9, 9), (3, 3), (1, 1)),
    "steps of three": (3, 12, (20, 80), (5, 5), (1, 3)), "higher steps": (2, 16, (40, 64), (5, 5), (3, 2)),
}  # fmt: skip


@pytest.mark.parametrize(("form", "image"), by_turns(FEW, [U8, I8]), ids=str)
def test_taps_side_by_side_are_one_read(form, image):
    """Four taps of eight columns are one read and one instruction where all of them lie inside of the image (directive `strided_taps`)."""
    c, o, size, window, strides = FEW[form]
    borders = tuple(k // 2 for k in window)
    graph, x = windows(1, c, o, size, window, strides, (1, 1), borders, borders, 1, "nchw", image=image)
    want = evaluate(graph, {"x": x})["y"]
    program, got = run(graph, x, threads=1)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(run(graph, x, threads=2)[1], want)
    plain, same = run(graph, x, threads=1, without=("directives/strided-taps",))
    np.testing.assert_array_equal(same, want)
    assert "vi_windows(" not in plain.source()
    if form in ("stem of steps of two", "whole vectors", "higher steps"):
        assert "vi_windows(" in program.source() and any("strided_taps" in k.schedule for k in program.kernels)
    assert form != "steps of three" or "vi_windows(" not in program.source()


AT_THE_END = """
#include "autocomp_cpu.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  long bad = 0;
  for (int s = 1; s <= 2; s++) {
    const size_t n = (AC_LANES - 1) * s + 4; /* all that may be touched: the memory ends with it */
    uint8_t *p = malloc(n);
    for (size_t i = 0; i < n; i++) p[i] = (uint8_t)(i * 37 + 11);
    const vi x = s == 1 ? vi_windows(p, 1) : vi_windows(p, 2);
    for (int l = 0; l < AC_LANES; l++) bad += x[l] != ac_quad(p + l * s);
    free(p);
  }
  printf("%ld\\n", bad); return 0;
}
"""


@pytest.mark.parametrize("level", ["x86-64-v4", "x86-64-v3", "x86-64"])
def test_words_of_a_run_of_bytes(level, tmp_path):
    if platform.machine() != "x86_64" or (level != "x86-64" and facts().vector_bytes < {"x86-64-v4": 64, "x86-64-v3": 32}[level]):
        pytest.skip(f"this machine does not run {level}")
    lanes = {"x86-64-v4": 16, "x86-64-v3": 8, "x86-64": 4}[level]
    (tmp_path / "words.c").write_text(f"#define AC_LANES {lanes}\n{AT_THE_END}", encoding="utf-8")
    cc, include = shutil.which("gcc") or "cc", files("autocomp.targets.cpu") / "include"
    options = ["-O1", "-fsanitize=address", "-fno-strict-aliasing", f"-march={level}", f"-I{include}"]
    subprocess.run([cc, *options, "words.c", "-o", "words", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "words"], capture_output=True, text=True, check=True).stdout == "0\n"
