"""Windows on CPUs: their elements in a buffer, several rows summed side by side (directives `stage_windows`, `unroll_and_jam`)."""

from __future__ import annotations

import re
import shutil
from itertools import product

import numpy as np
import pytest

import autocomp
from autocomp.frontends.text import parse
from autocomp.ir.reference import evaluate
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.hosts import cpu_chip, price_for

pytestmark = [pytest.mark.usefixtures("quick_builds"),
              pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")]  # fmt: skip
RULES = ("directives/stage-windows", "directives/unroll-and-jam")


def windows(op, x, k, step=(1, 1), pad=(1, 1), dilation=(1, 1), layout="nchw", front="", dtype="f32"):
    """A depthwise convolution or a pooling of `front`(x)."""
    channels = x[1] if layout == "nchw" else x[-1]
    inputs, lines, read = {"x": f"{dtype}{list(x)}"}, [], "x"
    if dtype == "u8":
        lines += ['%u = cast(x, to="f32")', "%v = sub(%u, const(3.0, f32))"]
        read = "%v"
    if front:
        lines.append(f"%f = {front}({read})")
        read = "%f"
    how = f'strides={list(step)}, lo={list(pad)}, hi={list(pad)}, dilations={list(dilation)}, layout="{layout}"'
    if op == "conv":
        kind = "f32" if dtype == "u8" else dtype
        inputs["w"] = f"{kind}{[channels, 1, *k] if layout == 'nchw' else [*k, 1, channels]}"
        lines.append(f"%0 = conv({read}, w, {how}, groups={channels})")
    else:
        lines.append(f"%0 = {op}({read}, window={list(k)}, {how})")
    return graph(inputs, "\n".join(lines))


FORMS = {
    "channels first": windows("conv", (2, 5, 9, 21), (3, 3)), "channels last": windows("conv", (1, 9, 7, 37), (3, 3), layout="nhwc"),
    "lines of a few": windows("conv", (1, 19, 7, 7), (5, 5), pad=(2, 2)),
    "every other": windows("conv", (1, 4, 15, 33), (5, 5), (2, 2), (2, 2)),
    "every third": windows("conv", (1, 3, 11, 40), (7, 7), (1, 3), (3, 3)),
    "apart": windows("conv", (1, 4, 14, 20), (3, 3), pad=(2, 2), dilation=(2, 2)),
    "a map in front": windows("conv", (1, 4, 10, 18), (3, 3), front="silu"),
    "of two, mapped": windows("conv", (1, 4, 10, 18), (2, 2), pad=(0, 0), front="exp"),
    "bytes": windows("conv", (1, 6, 12, 17), (3, 3), dtype="u8"), "halves": windows("conv", (1, 6, 12, 17), (3, 3), dtype="f16"),
    "largest": windows("maxpool", (1, 6, 13, 19), (3, 3)), "sums": windows("sumpool", (2, 13, 19, 6), (3, 3), layout="nhwc"),
    "no border": windows("conv", (1, 4, 12, 34), (3, 3), pad=(0, 0)),
    "turned before": graph({"x": "f32[1, 9, 21, 6]", "w": "f32[6, 1, 3, 3]"},
        "%t = transpose(x, perm=[0, 3, 1, 2])\n%0 = conv(%t, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=6)"),
    "turned behind": graph({"x": "f32[1, 6, 21, 9]", "w": "f32[6, 1, 3, 3]"},
        "%c = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=6)\n%0 = transpose(%c, perm=[0, 1, 3, 2])"),
    "channels last behind": graph({"x": "f32[1, 37, 10, 19]", "w": "f32[37, 1, 5, 5]"},
        "%c = conv(x, w, strides=[1, 1], lo=[2, 2], hi=[2, 2], dilations=[1, 1], groups=37)\n%0 = transpose(%c, perm=[0, 2, 3, 1])"),
    "two of one image": graph({"x": "f32[1, 6, 13, 20]", "v": "f32[6, 1, 3, 3]", "w": "f32[6, 1, 3, 3]"},
        "%c = conv(x, v, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=6)\n"
        "%d = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=6)\n%0 = add(%c, %d)"),
    "a line": graph({"x": "f32[3, 8, 50]", "w": "f32[8, 1, 7]"},
                    "%0 = conv(x, w, strides=[1], lo=[3], hi=[3], dilations=[1], groups=8)"),
}  # fmt: skip


KEPT = graph({"x": "f32[3, 125, 6]"}, """%e = silu(x)
%f = reshape(%e, shape=[3, 25, 5, 6])
%m = reduce_max(%f, axes=[1])
%r = reshape(%m, shape=[3, 1, 5, 6])
%b = broadcast(%r, shape=[3, 25, 5, 6])
%s = sub(%f, %b)
%0 = exp(%s)""")


def test_results_that_are_kept_begin_anew_in_each_row():
    """Largest elements of rows side by side, in an array that the loop behind reads: each image has those of its own alone."""
    x = fresh.rng().standard_normal((3, 125, 6)).astype("f4") + np.float32([90, -90, 0]).reshape(3, 1, 1)
    p = autocomp.optimize(KEPT, target="cpu", cache=False, threads=1)
    assert "unroll_and_jam" in p.kernels[0].schedule and len(p.kernels) == 1
    (got,) = p.run({"x": x}).values()
    y = (x.astype("f8") / (1 + np.exp(-x.astype("f8")))).reshape(3, 25, 5, 6)
    np.testing.assert_allclose(got, np.exp(y - y.max(1, keepdims=True)), rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_under_any_of_both_the_results_are_the_same(form):
    g, texts = parse(FORMS[form]), set()
    rng = fresh.rng()
    feed = {}
    for i in g.inputs:
        drawn = rng.integers(0, 256, i.type.shape) if i.type.dtype.name == "u8" else rng.standard_normal(i.type.shape)
        feed[i.attrs["name"]] = drawn.astype({"u8": "u1", "f16": "f2"}.get(i.type.dtype.name, "f4"))
    if form == "largest":
        feed["x"][0, 2, 5, 5:9] = np.nan, np.inf, -np.inf, -0.0
    want = next(iter(evaluate(g, feed).values()))
    for left_out in product((False, True), repeat=2):
        p = autocomp.optimize(g, target="cpu", cache=False, without=tuple(r for r, out in zip(RULES, left_out, strict=True) if out))
        next(iter(p.run(feed).values()))[...] = 7  # memory that a call before left
        got = next(iter(p.run(feed).values())).astype("f8")
        np.testing.assert_allclose(got, want, rtol=2e-2 if form == "halves" else 2e-5, atol=(1e-2 if form == "halves" else 1e-5) * 9)
        texts.add(p.source())
        used = "".join(k.schedule for k in p.kernels)
        assert not any(out and d in used for d, out in zip(("stage_windows", "unroll_and_jam"), left_out, strict=True))
    assert len(texts) > 1, "no directive had a use"


def test_an_element_is_mapped_once(priced_for_a_xeon):
    """And not for each window, also where neighbours lie two apart: each phase lies by itself."""
    p = autocomp.optimize(windows("conv", (1, 96, 56, 56), (3, 3), (2, 2), front="silu"), target="cpu", cache=False, threads=1)
    text = p.source()
    assert len(p.kernels) == 1 and "window[" in text and "u1_0_phase" in text
    assert text.count("vf_sigmoid") == 2  # whole vectors, and the end of a line


def test_lanes_run_along_lines_of_the_image_where_results_lie_channels_last():
    """Windows read an element 25 times, results are written once; a buffer holds one channel, since its loop is the outer one."""
    p = autocomp.optimize(FORMS["channels last behind"], target="cpu", cache=False, threads=1)
    text = p.source()
    lanes = int(re.search(r"#define AC_LANES (\d+)", text)[1])
    assert "stage_windows" in p.kernels[0].schedule and "vf_strided(" not in text
    assert f"float window[(14)*({-(-23 // lanes) * lanes}) + " in text


@pytest.mark.parametrize("size", [7, 9, 14, 33])
def test_rows_of_a_buffer_are_whole_vectors(size):
    """A store under a mask takes some 40 operations on some cores; lanes behind a row's end are no one's."""
    form = windows("conv", (1, 3, size, size), (5, 5), (2, 2), (2, 2))
    text = autocomp.optimize(form, target="cpu", cache=False, threads=1).source()
    assert "vf_store(&window[" in text and "vf_store_n(&window[" not in text


@pytest.mark.parametrize("step", [1, 2])
def test_vectors_between_the_edges_are_read_without_masks(step, monkeypatch):
    """The middle of a long row of a buffer's, not a row of a few vectors."""
    price_for(monkeypatch, cpu_chip("zen3"))
    for size, inside in ((12 * step, False), (60 * step, True)):
        form = windows("conv", (1, 3, size, size), (5, 5), (step, step), (2, 2))
        text = autocomp.optimize(form, target="cpu", cache=False, threads=1).source()
        stores = [line for line in text.splitlines() if "vf_store(&window[" in line]
        assert any("_where(" in line for line in stores) and any("_where(" not in line for line in stores) is inside


LONG = [((9, 131), 5, 2, "f32"), ((5, 70), 5, 1, "f32"), ((20, 61), 5, 2, "u8"), ((2, 200), 7, 2, "f32"), ((30, 50), 5, 2, "f16"),
        ((1, 49), 3, 1, "f32")]  # fmt: skip


@pytest.mark.parametrize(("size", "k", "step", "dtype"), LONG)
def test_long_rows_of_buffers(size, k, step, dtype):
    """Edges of both sides, rows above and below the image, lengths that end within a vector; NaN stays in its windows."""
    g, rng = parse(windows("conv", (1, 3, *size), (k, k), (step, step), (k // 2, k // 2), dtype=dtype)), fresh.rng()
    kind = {"u8": "u1", "f16": "f2", "f32": "f4"}
    feed = {i.attrs["name"]: (rng.integers(0, 256, i.type.shape) if i.type.dtype.name == "u8" else rng.standard_normal(i.type.shape))
            .astype(kind[i.type.dtype.name]) for i in g.inputs}  # fmt: skip
    if dtype != "u8":
        feed["x"][0, 1, 0, 37:39] = np.nan, np.inf
    how = dict(target="cpu", cache=False, threads=1)
    (kernel,) = autocomp.optimize(g, **how).kernels
    own = kernel.schedule if "stage_windows" in kernel.schedule else "stage_windows"  # 7 of 16 lanes by 2: 3 % either way by price
    p = autocomp.optimize(g, schedule={kernel.name: own}, **how)
    assert "window[" in p.source()
    want, got = next(iter(evaluate(g, feed).values())), next(iter(p.run(feed).values())).astype("f8")
    np.testing.assert_allclose(got, want, rtol=2e-2 if dtype == "f16" else 2e-5, atol=(1e-2 if dtype == "f16" else 1e-5) * 9)


def test_a_buffer_that_would_leave_the_second_cache_is_not_made():
    """All channels of a padded image of 200 x 200, as lanes run along channels: 10 MB."""
    near, far = (autocomp.optimize(windows("conv", (1, s, s, 64), (5, 5), pad=(2, 2), layout="nhwc"), target="cpu", cache=False, threads=1)
                 for s in (12, 200))  # fmt: skip
    assert "stage_windows" in near.kernels[0].schedule
    assert "stage_windows" not in far.kernels[0].schedule and "unroll_and_jam" in far.kernels[0].schedule


def test_elements_that_few_windows_read_stay_where_they_are():
    p = autocomp.optimize(windows("conv", (1, 8, 30, 30), (3, 3), (2, 2)), target="cpu", cache=False)
    assert "stage_windows" not in p.kernels[0].schedule and "window[" not in p.source()
    assert "no use for stage_windows" in p.explain(why=p.kernels[0].name)


def test_sums_run_side_by_side():
    text = autocomp.optimize(FORMS["channels first"], target="cpu", cache=False, threads=1).source()
    assert "vf s_t_row0, s_t_row1" in text or "s_t_row0, s_t_row1" in text
    alone = autocomp.optimize(FORMS["channels first"], target="cpu", cache=False, threads=1, without=RULES[1:]).source()
    assert "_row0" not in alone
