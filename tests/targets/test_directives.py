"""Any directives together compute the same: kernels of every form under subsets of them, on the CPU model of a GPU. And each of them
does something: it is named by a rule, takes effect in one of these kernels, and changes its text."""

from __future__ import annotations

from dataclasses import replace

import pytest

import autocomp
from autocomp.errors import DoesNotFit
from autocomp.ir.directives import DIRECTIVES, complete
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tune.bisect import Request, fired
from autocomp.tune.space import legal_points
from tests.helpers import fresh
from tests.helpers.device_graphs import attention, gemm, graph, prepared
from tests.helpers.schedules import by_hand

TEAM = {"roles": "warp_specialise", "workers": 2, "stages": 3, "persistent": True}
WEIGHTS = """graph g
input x: f16[200, 168]
param w: f16[168, 136] = random(3)
input r: f16[200, 136]
%0 = matmul(x, w)
%1 = gelu(%0)
%2 = add(%1, r)
output out = %2
"""
ODD = graph({"x": "f16[200, 168]", "w": "f16[168, 136]", "r": "f16[200, 138]"},
            "%0 = matmul(x, w)\n%1 = slice(r, starts=[0, 0], limits=[200, 136], steps=[1, 1])\n%2 = add(%0, %1)")  # fmt: skip
LONG = graph({"x": "f16[136, 520]", "w": "f16[520, 264]", "r": "f16[136, 264]"}, "%0 = matmul(x, w)\n%1 = add(%0, r)")
GELU = graph({"x": "f16[264, 264]", "w": "f16[264, 264]"}, "%0 = matmul(x, w)\n%1 = gelu(%0)")
NORM = graph({"x": "f16[3, 2048]", "g": "f16[2048]", "b": "f16[2048]"}, "%0 = layer_norm(x, g, b, axes=[1])")
TURNED = graph({"x": "f16[72, 136]", "y": "f16[136, 72]"}, "%0 = transpose(x, perm=[1, 0])\n%1 = add(%0, y)")
WINDOWS = graph({"x": "f32[2, 3, 21, 37]", "w": "f32[3, 1, 5, 5]"},
                "%0 = conv(x, w, lo=[2, 2], hi=[2, 2], strides=[1, 1], dilations=[1, 1], groups=3)")  # fmt: skip
MIXED = graph({"x": "f32[2, 14, 24, 40]", "w": "f32[40, 1, 3, 3]"},
              "%0 = transpose(x, perm=[0, 3, 1, 2])\n"
              "%1 = conv(%0, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups=40)")  # fmt: skip
TAPS = graph({"x": "f16[2, 5, 20, 64]", "w": "f16[64, 3, 3, 64]"},
             "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
             "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])")  # fmt: skip
HALVES = graph({"x": "f16[72, 96]"},
               "%0 = slice(x, starts=[0, 48], limits=[72, 96], steps=[1, 1])\n%1 = neg(%0)\n"
               "%2 = slice(x, starts=[0, 0], limits=[72, 48], steps=[1, 1])\n%3 = concat(%1, %2, axis=1)")  # fmt: skip
SCATTERED = graph({"at": "i32[1, 65, 1]", "u": "f32[1, 65, 300]"},
                  "%0 = iota(shape=[7, 1, 1], axis=0, dtype=\"i32\")\n%1 = eq(at, %0)\n%2 = where(%1, u, const(0.0, f32))\n"
                  "%3 = reduce_sum(%2, axes=[1])")  # fmt: skip
PLACES = graph({"x": "f16[1, 9, 8, 64]", "w": "f16[24, 3, 3, 64]"}, "%0 = conv_spread(x, w, spread=[2, 2], lo=[1, 1], hi=[1, 1], "
               'dilations=[1, 1], layout="nhwc_ohwi")')  # fmt: skip
ROWS = graph({"x": "f16[5, 3000]"}, "%0 = softmax(x, axes=[1])")
TILE, BOX = {"i0": 128, "i1": 64, "r0": 64}, {"i0": 128, "i1": 256, "r0": 64}
HEADS = {"softmax_overlap": 2, "rescale_threshold": 14}
# graph, schedule without directives, blocks at most
VARIANCE = graph({"x": "f32[40011, 7]"},
                 f"%0 = reduce_sum(x, axes=[0], keepdims=1)\n%1 = mul(%0, const({1 / 40011}, f32))\n%2 = sub(x, %1)\n"
                 f"%3 = mul(%2, %2)\n%4 = reduce_sum(%3, axes=[0])\n%5 = mul(%4, const({1 / 40010}, f32))")  # fmt: skip
MAPPED = graph({"x": "f16[64, 256]", "w": "f16[256, 40]"}, "%0 = exp(x)\n%1 = matmul(%0, w)")
QUANTISED = graph({"x": "f32[12, 200]", "s": "f32[12, 1]"}, "%0 = div(x, s)\n%1 = round(%0)")
LOOKED_UP = graph({"t": "f16[70, 72]", "i": "i64[37]"}, "%0 = gather(t, i, axis=0)")
BYTES = graph({"x": "bf16[16, 512]", "q": "u8[264, 512]"},
              "%0 = bitand(q, const(63, u8))\n%1 = cast(%0, to=\"bf16\")\n%2 = transpose(%1, perm=[1, 0])\n%3 = matmul(x, %2)")
SUMS = graph({"x": "f32[45, 77]", "w": "f32[77, 60]"}, "%0 = matmul(x, w)")
TRIANGLE = graph({"x": "f16[200, 96]", "w": "f16[96, 200]"},
                 "%0 = matmul(x, w)\n%1 = iota(shape=[200, 200], axis=0)\n%2 = iota(shape=[200, 200], axis=1)\n%3 = gt(%1, %2)\n"
                 "%4 = where(%3, const(0.0, f16), %0)")  # fmt: skip
KERNELS = {
    "residual behind gelu": (WEIGHTS, by_hand(TILE, **TEAM), 3),
    "rows that are no boxes": (ODD, by_hand(TILE, **TEAM), 3),
    "half an operand": (LONG, by_hand(BOX, **{**TEAM, "stages": 4}), 2),
    "three places": (GELU, by_hand({"i0": 128, "i1": 256, "r0": 64}, **TEAM), 2),
    "attention": (attention(1, 2, 200, 64), by_hand({"rows": 128, "r1": 64}, **{**TEAM, "stages": 2}, **HEADS), 3),
    "causal attention": (attention(1, 2, 200, 64, causal=True), by_hand({"rows": 64, "r1": 32}, stages=2, threads=128), 0),
    "a triangle of a product": (TRIANGLE, by_hand({"i0": 64, "i1": 32, "r0": 32}, stages=3, threads=128), 0),
    "norm": (NORM, by_hand({"i0": 1}, threads=64), 0),
    "turned": (TURNED, by_hand({"i0": 32, "i1": 32}, threads=128), 0),
    "windows": (WINDOWS, by_hand({"i0": 1, "i1": 1, "i2": 8, "i3": 32, "r0": 5, "r1": 5}, threads=64), 0),
    "windows by rows of taps": (WINDOWS, by_hand({"i0": 1, "i1": 1, "i2": 8, "i3": 32, "r0": 1, "r1": 5}, threads=64), 0),
    "windows of channels last": (MIXED, by_hand({"i0": 1, "i1": 32, "i2": 4, "i3": 8, "r0": 3, "r1": 3}, threads=64), 0),
    "windows of a product": (TAPS, by_hand({"i0": 1, "i1": 32, "i2": 1, "i3": 20, "r0": 1, "r1": 2, "r2": 64}, stages=4, threads=128), 0),
    "halves that change places": (HALVES, by_hand({"i0": 32}, threads=64), 0),
    "an odd length": (graph({"x": "f16[4099]"}, "%0 = exp(x)"), by_hand({"i0": 1024}, threads=128), 0),
    "variance by columns": (VARIANCE, by_hand({"i0": 4, "r0": 512}, threads=64), 0),
    "a scattered sum": (SCATTERED, by_hand({"i0": 1, "i1": 256, "r0": 1}, threads=64), 0),
    "looked-up rows": (LOOKED_UP, by_hand({"i0": 16, "i1": 64}, threads=64), 0),
    "rounded rows": (QUANTISED, by_hand({"i0": 1, "i1": 256}, threads=64), 0),
    "a computed factor": (MAPPED, by_hand({"i0": 32, "i1": 32, "r0": 64}, stages=3, threads=64), 0),
    "a factor of bytes": (BYTES, by_hand({"i0": 16, "i1": 16, "r0": 256}, threads=64, instruction="direct"), 0),
    "sums thread by thread": (SUMS, by_hand({"i0": 64, "i1": 64, "r0": 32}, stages=2, threads=64), 0),
    "places of a stride": (PLACES, by_hand({"i0": 8, "i1": 1, "i2": 8, "i3": 1, "i4": 24, "r0": 1, "r1": 1, "r2": 64},
                                           **{**TEAM, "workers": 1}), 3),
    "rows in pieces": (ROWS, by_hand({"i0": 1, "r0": 512, "i1": 512}, threads=64), 0),
}  # fmt: skip
SUBSETS = 1  # of each kernel's directives, drawn


def printed(name: str, names: tuple[str, ...]):
    """The program, its kernel's source under these directives."""
    text, schedule, blocks = KERNELS[name]
    program = prepared(text, "cuda:h200")
    kernel = program.calls.calls[0].kernel
    tile = dict(schedule.tile)
    if rows := tile.pop("rows", 0):  # of attention: one head
        tile |= {a.name: rows if a.extent == 200 else 1 for a in kernel.axes if a.extent != 64}
    schedule = replace(schedule, tile=tuple(sorted(tile.items())), directives=names)
    source = program.target.emit(kernel, schedule)
    limited = replace(source, launch=replace(source.launch, at_most=blocks)) if blocks else source
    program.printed[kernel.name] = limited
    return program, source


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("name", KERNELS)
def test_any_directives_compute_the_same(name, model, tmp_path):
    used = printed(name, tuple(DIRECTIVES))[1].applied
    rng, texts = fresh.rng(), set[str]()
    for names in ((), *(complete(d for d in used if rng.random() < 0.6) for _ in range(SUBSETS))):
        try:
            program, source = printed(name, names)
        except DoesNotFit:  # operands that are in registers, not on their way
            continue
        assert set(source.applied) <= set(names)
        if source.text in texts:
            continue
        texts.add(source.text)
        (folder := tmp_path / str(len(texts))).mkdir()
        executor = program.executor = ModelExecutor(program, folder, model)
        for executor.late in (True, False):
            program.verify(seed=fresh.seed())


def test_each_directive_changes_the_text_of_a_kernel():
    """And takes effect there, by what the target says."""
    seen = set()
    for name in KERNELS:
        used = printed(name, tuple(DIRECTIVES))[1]
        for d in set(used.applied) - seen:
            try:
                less = printed(name, complete(set(used.applied) - {d}))[1]
            except DoesNotFit:
                seen.add(d)
                continue
            assert d not in less.applied
            if less.text != used.text or less.launch != used.launch:
                seen.add(d)
    rules = load_rules().of("directives")
    elsewhere = {r.rhs.op for r in rules} - {r.rhs.op for r in rules if {"cuda", "maca"} & set(r.targets)}  # their tests are by target
    assert elsewhere and seen == DIRECTIVES.keys() - {"evict_first"} - elsewhere, "a directive that changes no text"


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_said_to_take_effect_prints_the_same(name):
    """Schedules that are chosen keep these directives alone."""
    every = printed(name, tuple(DIRECTIVES))[1]
    kept = printed(name, every.applied)[1]
    assert (kept.text, kept.launch, kept.applied) == (every.text, every.launch, every.applied)


def test_weights_that_stream_leave_l2_first():
    few = autocomp.optimize(gemm(16, 4096, 4096), target="cuda:h200", cache=False)
    assert "evict_first" in few.kernels[0].schedule and "_once(" in few.source()
    without = autocomp.optimize(few.graph, target="cuda:h200", cache=False, without=("directives/evict-first",))
    assert "evict_first" not in without.kernels[0].schedule and "_once(" not in without.source()


def test_every_directive_has_a_rule_and_every_rule_a_reason():
    rules = load_rules().of("directives")
    assert {r.rhs.op for r in rules} == DIRECTIVES.keys()
    assert all(r.why for r in rules)
    assert all(set(d.requires) <= DIRECTIVES.keys() for d in DIRECTIVES.values())


def test_explain_names_the_rule_of_each():
    program = autocomp.optimize(GELU.replace("264", "4096"), target="cuda:h200", cache=False)
    (k,) = program.kernels
    why = program.explain(why=k.name)
    assert "tma_store: directives/tma-store" in why and "no use for pdl, prefetch_constants, load_c" in why
    assert "load_c" not in k.schedule and "tma_store" in k.schedule
    assert f"gave: kernel {k.name}, tma_store" in program.explain(why_not="directives/tma-store")


def test_bisect_suspects_directives_that_took_effect(tmp_path):
    (tmp_path / "m.txt").write_text(GELU.replace("264", "4096"))
    suspects = fired(Request(str(tmp_path / "m.txt"), "cuda:h200", Options(cache=False)))
    assert "directives/tma-store" in suspects and "directives/load-c" not in suspects


def test_the_tuner_tries_the_choice_without_each_directive():
    program = autocomp.optimize(GELU.replace("264", "4096"), target="cuda:h200", cache=False)
    (kernel,) = (c.kernel for c in program.calls.calls)
    untuned = parse(program.kernels[0].schedule)
    rules = {p.rule for p in legal_points(kernel, load_rules(), program.target.chip, Options(), untuned)}
    assert {r.rpartition(" without ")[2] for r in rules if " without " in r} == set(untuned.directives)


def test_exact_programs_keep_sums_and_scores_as_they_are():
    text = attention(16, 12, 512, 64)
    chosen = autocomp.optimize(text, target="cuda:h200", cache=False).kernels[0].schedule
    exact = autocomp.optimize(text, target="cuda:h200", cache=False, exact=True).kernels[0].schedule
    assert {"mma_row_sums", "exp2_scores"} <= set(chosen.split(" | ")) and not {"mma_row_sums", "exp2_scores"} & set(exact.split(" | "))


def test_what_requires_another_goes_with_it():
    assert complete(["third_epilogue_stage", "interleave_epilogue"]) == ()
    three = ("tma_store", "interleave_epilogue", "third_epilogue_stage")
    assert complete(reversed(three)) == three
    assert Schedule().directives == ()


@pytest.mark.parametrize(("groups", "cached"), [(1, True), (4, True), (8, False)])
def test_windows_of_narrow_groups_pass_the_cache_by(groups, cached):
    """A group of less than 128 bytes of channels reads a part of each line of the cache."""
    x, w = f"f16[2, 28, 28, {64 * groups}]", f"f16[{64 * groups}, 3, 3, 64]"
    if not cached:
        x, w = f"f16[2, 28, 28, {16 * groups}]", f"f16[{16 * groups}, 3, 3, 16]"
    model = graph({"x": x, "w": w}, "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
                  f"%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], groups={groups})")  # fmt: skip
    kernel = autocomp.optimize(model, target="cuda:a100").kernels[-1]
    assert ("cache_windows" in kernel.schedule) == cached, kernel.schedule
