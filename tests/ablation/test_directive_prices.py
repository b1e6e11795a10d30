"""Every directive is worth something by its price, on kernels whose shapes a seed draws, or says why no price knows it."""

from __future__ import annotations

from contextlib import nullcontext
from functools import lru_cache
from random import Random
from unittest.mock import patch

import pytest

import autocomp
from autocomp.ir.directives import DIRECTIVES, required
from autocomp.report.chain import Evidence
from autocomp.rewrite import load_rules
from tests.helpers.device_graphs import attention, graph
from tests.helpers.hosts import HOSTS, cpu_chip

R = Random(12)
M, N = (R.randrange(40, 64) * 64 for _ in range(2))
K = R.randrange(100, 130) * 8  # no multiple of a step in depth
HEAD, BATCH, ROWS = R.choice((16, 32)), R.choice((16, 24, 32)), R.choice((2900, 3000, 3100))


def product(after: str, **more: str) -> str:
    return graph({"a": f"f16[{M}, {K}]", "b": f"f16[{K}, {N}]", **more}, f"%0 = matmul(a, b)\n{after}")


GELU = product("%1 = gelu(%0)")
RESIDUAL = product("%1 = gelu(%0)\n%2 = add(%1, r)", r=f"f16[{M}, {N}]")
CUT = product(f"%1 = slice(r, starts=[0, 0], limits=[{M}, {N}], steps=[1, 1])\n%2 = add(%0, %1)", r=f"f16[{M}, {N + 2}]")
TALL = graph({"a": "f16[8192, 768]", "b": f"f16[768, {R.choice((2816, 3072, 3328))}]"}, "%0 = matmul(a, b)\n%1 = gelu(%0)")
HEADS = attention(BATCH, 12, 512, 64)
SINGLE = HEADS.replace("f16", "bf16")  # scores of bf16 are in single precision on NPUs
CAUSAL = attention(4, 16, 1024, HEAD, causal=True)
NORM = graph({"x": f"f16[{ROWS}, 2048]", "g": "f16[2048]", "b": "f16[2048]"}, "%0 = layer_norm(x, g, b, axes=[1])")
WIDE = graph({"x": f"f32[{ROWS // 10}, 131072]"}, "%0 = softmax(x, axes=[1])")
TURNED = graph({"x": "f32[1024, 512]", "y": "f32[512, 1024]", "z": "f32[1024, 512]"},
               "%0 = transpose(x, perm=[1, 0])\n%1 = add(y, %0)\n%2 = transpose(z, perm=[1, 0])\n%3 = mul(%1, %2)")  # fmt: skip
WINDOWS = graph({"x": "f32[64, 28, 28, 136]", "w": "f32[3, 3, 1, 136]"},
                '%0 = conv(x, w, layout="nhwc", lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=136)')  # fmt: skip
ROWS_OF_TAPS = graph({"x": "f32[64, 14, 14, 136]", "w": "f32[136, 1, 3, 3]"},
                     "%x = transpose(x, perm=[0, 3, 1, 2])\n"
                     "%c = conv(%x, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=136)\n"
                     "%r = relu(%c)\n%0 = transpose(%r, perm=[0, 2, 3, 1])")  # fmt: skip
MIXED = graph({"x": "f16[128, 14, 14, 384]", "w": "f16[384, 1, 3, 3]"},
              "%0 = transpose(x, perm=[0, 3, 1, 2])\n"
              "%1 = conv(%0, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=384)")  # fmt: skip
BORDERS = graph({"x": "f32[1, 96, 28, 28]", "w": "f32[96, 1, 3, 3]"},
                "%0 = conv(x, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=96)")  # fmt: skip
HALVES = graph({"x": f"f16[{ROWS}, 128]"},
               f"%0 = slice(x, starts=[0, 64], limits=[{ROWS}, 128], steps=[1, 1])\n%1 = neg(%0)\n"
               f"%2 = slice(x, starts=[0, 0], limits=[{ROWS}, 64], steps=[1, 1])\n"
               "%3 = concat(%1, %2, axis=1)\n%4 = mul(%3, x)")  # fmt: skip
COLUMNS = graph({"x": "f32[20011, 7]"},
                f"%0 = reduce_sum(x, axes=[0], keepdims=1)\n%1 = mul(%0, const({1 / 20011}, f32))\n%2 = sub(x, %1)\n%3 = mul(%2, %2)\n"
                f"%4 = reduce_sum(%3, axes=[0])\n%5 = mul(%4, const({1 / 20010}, f32))")  # fmt: skip
MAPPED = graph({"x": "f16[64, 64, 1024]", "w": "f16[64, 1024, 64]"}, "%0 = exp(x)\n%1 = matmul(%0, w)")
SCATTERED = graph({"x": f"i16[{ROWS}, 768]", "at": "i64[2000, 1]", "u": "i16[2000, 768]"},
                  '%0 = scatter_nd(x, at, u, reduction="add")')  # fmt: skip
QUANTISED = graph({"x": f"bf16[{ROWS}, 8960]"},
                  "%x = cast(x, to=\"f32\")\n%0 = abs(%x)\n%1 = reduce_max(%0, axes=[1], keepdims=1)\n%2 = div(%x, %1)\n"
                  "%3 = mul(%2, const(127, f32))\n%4 = round(%3)\n%5 = cast(%4, to=\"i8\")")  # fmt: skip
LOOKED_UP = graph({"t": "f16[50304, 776]", "i": f"i64[{ROWS}]"}, "%0 = gather(t, i, axis=0)\n%1 = neg(%0)")
ODD = graph({"x": "f16[16271027]", "y": "f16[16271027]"}, "%0 = erf(x)\n%1 = abs(y)\n%2 = log1p(%1)\n%3 = mul(%0, %2)")
SQUARE = graph({"x": "f32[300, 64]", "w": "f32[64, 64]"}, "%0 = matmul(x, w)")
WEIGHTED = "graph g\ninput x: f32[64, 512]\nparam w: f32[512, 700] = random(3)\n%0 = matmul(x, w)\noutput y = %0\n"
BYTES = ("graph g\ninput x: u8[1, 64, 7, 7]\nparam w: i8[256, 64, 3, 3] = random(3)\n%1 = cast(x, to=\"i32\")\n%2 = cast(w, to=\"i32\")\n"
         "%0 = conv(%1, %2, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)\noutput y = %0\n")  # fmt: skip
TRIANGLE = graph({"x": "f32[2048, 1024]", "w": "f32[1024, 2048]"},
                 "%0 = matmul(x, w)\n%1 = iota(shape=[2048, 2048], axis=0)\n%2 = iota(shape=[2048, 2048], axis=1)\n%3 = ge(%2, %1)\n"
                 "%4 = where(%3, %0, const(0.0, f32))")  # fmt: skip
SHORT = graph({"x": f"f16[{ROWS}, 57]"}, "%0 = pad(x, lo=[1, 2], hi=[3, 4], value=0)")
PLACES = graph({"x": "f16[16, 56, 56, 128]", "w": "f16[72, 5, 5, 128]"}, "%0 = conv_spread(x, w, spread=[2, 2], lo=[2, 2], hi=[2, 2], "
               'dilations=[1, 1], layout="nhwc_ohwi")')  # fmt: skip
# directive -> (graph, chip); by the price of the schedule
PRICED = {
    "tma_store": (GELU, "h200"), "interleave_epilogue": (GELU, "h200"), "third_epilogue_stage": (TALL, "h200"),
    "load_c": (RESIDUAL, "h200"), "prefetch_epilogue": (CUT, "h200"), "mma_zero_init": (GELU, "h200"), "short_last_step": (GELU, "h200"),
    "skip_dead_steps": (PLACES, "h200"),
    "fused_scale": (SINGLE, "910b"), "handed_fractals": (SINGLE, "910b"), "half_scores": (HEADS, "910b"),
    "skip_masked_sums": (TRIANGLE, "h200"), "joined_rows": (SHORT, "310p"),
    "unroll_ring": (HEADS, "h200"), "warpgroup_order": (HEADS, "h200"), "mma_row_sums": (HEADS, "h200"), "exp2_scores": (HEADS, "h200"),
    "stage_windows": (BORDERS, "cpu"), "unroll_and_jam": (BORDERS, "cpu"), "pack_constants": (WEIGHTED, "cpu"),
    "read_in_place": (SQUARE, "cpu"), "lone_column": (BYTES, "cpu"), "short_pairs": (BYTES, "zen3"),
}  # fmt: skip
# by what is printed, counted
COUNTED = {
    "thread_partials": (WIDE, "a100"), "skip_masks": (CAUSAL, "a100"), "batch_copies": (TURNED, "h200"),
    "prefetch_behind_reduction": (NORM, "h200"), "prefetch_factors": (MAPPED, "h200"), "window_strips": (WINDOWS, "h200"),
    "turned_store": (MIXED, "h200"), "one_load": (HALVES, "h200"), "peel_tail": (ODD, "h200"),
    "wide_gathers": (LOOKED_UP, "h200"), "shared_divisors": (QUANTISED, "h200"), "min_blocks": (ROWS_OF_TAPS, "h200"),
    "common_values": (COLUMNS, "h200"), "skip_neutral": (SCATTERED, "h200"),
}  # fmt: skip


@lru_cache
def program(text: str, chip: str, without: str = "") -> autocomp.Program:
    target = {"cpu": "cpu", "zen3": "cpu", "910b": "ascend:910b", "310p": "ascend:310p"}.get(chip, f"cuda:{chip}")
    with patch("autocomp.cost.chip._host", lambda: cpu_chip(chip)) if chip in HOSTS else nullcontext():
        return autocomp.optimize(text, target=target, cache=False, tuned=False, without=(without,) if without else ())


def saved(p: autocomp.Program, directive: str) -> float:
    return max((e.data["saves"] for e in p.trace.of("directive") if e.data["directive"] == directive and e.data["used"]), default=0.0)


def rule(directive: str) -> str:
    return f"directives/{directive.replace('_', '-')}"


@pytest.mark.parametrize("directive", [*PRICED, *COUNTED])
def test_a_directive_saves_time_by_its_price(directive: str) -> None:
    whole = program(*(PRICED | COUNTED)[directive])
    assert saved(whole, directive) > 0 and DIRECTIVES[directive].neutral == ""


@pytest.mark.parametrize("directive", PRICED)
def test_without_its_rule_the_program_takes_longer(directive: str) -> None:
    text, chip = PRICED[directive]
    whole, less = program(text, chip), program(text, chip, rule(directive))
    assert all(directive not in k.schedule for k in less.kernels) and less.predicted > whole.predicted


def test_others_say_why_no_price_knows_them() -> None:
    assert {n for n, d in DIRECTIVES.items() if d.neutral} == DIRECTIVES.keys() - PRICED.keys() - COUNTED.keys()
    assert all(len(d.neutral) > 20 for d in DIRECTIVES.values() if d.neutral)


def test_explain_has_a_line_for_each_with_its_rule_its_reason_and_what_it_saves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evidence, "of", lambda self, name: "assumed")  # no rule is tested here
    p = program(RESIDUAL, "h200")
    (k,) = p.kernels
    text = p.explain(why=k.name)
    why = {r.name: r.why for r in load_rules().of("directives")}
    used = [d for d in DIRECTIVES if d in k.schedule.split(" | ")]
    assert {"tma_store", "load_c", "load_c_halves", "short_last_step"} <= {*used}
    for d in used:
        (line,) = [x.strip() for x in text.splitlines() if x.strip().startswith(f"{d}: ")]
        assert rule(d) in line and line.endswith(why[rule(d)])
        assert (f"(not priced: {DIRECTIVES[d].neutral})" if DIRECTIVES[d].neutral else "saves ") in line


def test_what_needs_another_is_priced_with_it() -> None:
    """Without two places that alternate there is no third one either."""
    p = program(TALL, "h200")
    assert "interleave_epilogue" in required("third_epilogue_stage")
    assert saved(p, "interleave_epilogue") > saved(p, "third_epilogue_stage") > 0
