"""Each named option has its stated default, is read by something, and changes what it says."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.grammar import Record
from autocomp.egraph.rows import Body, compile_rows
from autocomp.errors import AutocompError
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.runtime.inputs import random_inputs
from autocomp.trace import Trace
from tests.fusion.test_one_kernel import layer_norm, softmax
from tests.helpers.covers import cover_of

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = {
    "fuse_conv_relu": True, "fuse_bn_add": True, "max_fusion_depth": 4, "max_body_ops": 64, "fusion_threshold_gb": 0.1, "size_spread": 0.3,
    "inline_threshold": 1024, "tile_heuristic": "model-driven", "spill_ratio": 0.05, "unroll_factor": 8, "parallel_outer": True,
    "vectorize_inner": True, "min_speedup": 1.2, "bw_util": 0.7, "occupancy": 0.5, "search_configurations": 1000, "search_keep": 3,
}  # fmt: skip


def test_defaults_are_the_stated_ones():
    assert {k: getattr(Options(), k) for k in DEFAULTS} == DEFAULTS
    assert 4 <= Options().register_tile_factor <= 16


def test_every_option_is_described_and_read_by_something():
    code = "".join(p.read_text() for top in ("autocomp", "targets") for p in sorted((ROOT / top).rglob("*.py")) if p.name != "options.py")
    rules = "".join(p.read_text() for p in sorted((ROOT / "rules").glob("*.yaml")))
    for f in fields(Options):
        assert re.search(rf"\b{f.name}\b", str(Options.__doc__)), f"{f.name} is not described"
        read = re.search(rf"options\.{f.name}\b", code) or re.search(rf"option\({f.name}\)|requires: \[[^\]]*\b{f.name}\b", rules)
        assert read, f"{f.name} is read by nothing"


@pytest.mark.parametrize(("given", "text"), [
    ({"max_body_ops": "8"}, "options: max_body_ops wants int, got '8'"),
    ({"exact": 1}, "options: exact wants bool, got 1"),
    ({"threads": True}, "options: threads wants int, got True"),
    ({"bw_util": "much"}, "options: bw_util wants float, got 'much'"),
    ({"max_body_opz": 8}, "optimize: optimize() has no option 'max_body_opz'\n  next: did you mean 'max_body_ops'?"),
    ({"example_input": 8}, "optimize: optimize() has no option 'example_input'\n  next: did you mean 'example_inputs'?"),
])  # fmt: skip
def test_wrong_options_are_refused(given, text):
    with pytest.raises(AutocompError) as e:
        autocomp.optimize(GEMM, **given)
    assert str(e.value) == text


def test_options_take_one_value_for_several_and_whole_numbers_for_real_ones():
    options = Options(without="fusion/*", rules=["a.yaml"], min_speedup=1)  # type: ignore[arg-type]
    assert (options.without, options.rules, options.min_speedup) == (("fusion/*",), ("a.yaml",), 1.0)


CONV = "graph g\ninput x: f32[1, 8, 14, 14]\ninput w: f32[8, 8, 3, 3]\n" \
       "%0 = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)\n%1 = relu(%0)\noutput y = %1\n"
CHAIN = "graph g\ninput x: f32[64, 64]\n%0 = tanh(x)\n%1 = exp(%0)\n%2 = sin(%1)\n%3 = cos(%2)\noutput y = %3\n"
GEMM = "graph g\ninput x: f32[64, 96]\ninput w: f32[96, 80]\n%0 = matmul(x, w)\n%1 = relu(%0)\noutput y = %1\n"
TOTAL = "graph g\ninput x: f32[8, 4096]\n%0 = reduce_sum(x, axes=[1])\noutput y = %0\n"
BIG = "graph g\ninput x: f32[512, 4096]\n%0 = exp(x)\noutput y = %0\n"


def kernels(text: str, **options: object) -> int:
    return len(autocomp.optimize(text, **options).calls.calls)


def test_fuse_conv_relu():
    assert (kernels(CONV), kernels(CONV, fuse_conv_relu=False)) == (1, 2)
    assert kernels(GEMM, fuse_conv_relu=False) == 1  # a product is no convolution


def test_fuse_bn_add():
    text = "graph g\ninput x: f32[1, 3, 9, 9]\nparam w: f32[4, 3, 3, 3] = random(0)\n" + "".join(
        f"param {p}: f32[4] = random({i})\n" for i, p in enumerate("sbmv")
    ) + ("%0 = conv(x, w, strides=[1, 1], lo=[1, 1], hi=[1, 1], dilations=[1, 1], groups=1)\n%5 = abs(v)\n"
         "%1 = batch_norm(%0, s, b, m, %5)\noutput y = %1\n")  # fmt: skip
    folded, apart = (autocomp.optimize(text, fuse_bn_add=on).kernels[0].ops for on in (True, False))
    assert ("mul" in folded, "mul" in apart) == (False, True)


def test_max_fusion_depth():
    assert len(cover_of(softmax(), max_fusion_depth=0).calls) > len(cover_of(softmax()).calls) == 1
    assert len(cover_of(layer_norm(), max_fusion_depth=0).calls) > 1


def test_max_body_ops():
    assert (kernels(CHAIN), kernels(CHAIN, max_body_ops=2)) == (1, 2)
    for most in (1, 2, 3):
        assert all(len(k.ops) <= most for k in autocomp.optimize(CHAIN, max_body_ops=most).kernels)
    two = "graph g\ninput x: f32[64, 64]\n%0 = tanh(x)\n%1 = sin(x)\n%2 = mul(%0, %1)\noutput y = %2\n"
    assert (kernels(two, max_body_ops=3), kernels(two, max_body_ops=2)) == (1, 2)  # each producer fits, both together do not


@pytest.mark.parametrize(("elements", "options", "admitted"), [
    (1024, {"fusion_threshold_gb": 0.0}, True),
    (1025, {"fusion_threshold_gb": 0.0}, False),
    (1025, {"fusion_threshold_gb": 0.0, "inline_threshold": 2000}, True),
    (25_000_000, {}, True),                                    # 0.1 GB
    (25_000_001, {}, False),
    (25_000_001, {"fusion_threshold_gb": 0.2}, True),
])  # fmt: skip
def test_thresholds_of_recomputing_a_value_with_several_readers(elements, options, admitted):
    rows = compile_rows(load_rules().of("fusion"), Options(**options))
    shared = Body(Record("E"), 5, TensorType(F32, (elements,)), users=2, reads=elements * 8)
    name, refused = rows.admit("map", 0, shared)
    assert (name == "fusion/map-into-map") is admitted
    assert admitted or refused.startswith("fusion/map-into-map: ")


def test_exact_leaves_out_rules_that_regroup():
    assert not any(not r.exact for r in load_rules(options=Options(exact=True)))
    assert any(not r.exact for r in load_rules())


def test_tile_heuristic():
    kernel = autocomp.optimize(GEMM.replace("64, 96", "4096, 96"), target="cuda:h200").calls.calls[0].kernel
    chosen, first = (choose_schedule(kernel, load_rules(), load_chip("h200"), Options(tile_heuristic=h), Trace())
                     for h in ("model-driven", "first"))  # fmt: skip
    assert chosen[1].seconds < first[1].seconds
    with pytest.raises(AutocompError, match="options: tile_heuristic is 'magic'\n  next: one of: model-driven, first"):
        Options(tile_heuristic="magic")


@pytest.mark.parametrize(("text", "option", "value", "gone"), [
    (BIG, "parallel_outer", False, "ac_share_out("),
    (BIG, "vectorize_inner", False, "vf_exp"),
    (GEMM, "vectorize_inner", False, "vf "),
    (TOTAL, "unroll_factor", 1, "_v1"),
])  # fmt: skip
def test_what_the_cpu_prints(text, option, value, gone):
    default, other = autocomp.optimize(text), autocomp.optimize(text, **{option: value})
    assert gone in default.kernels[0].source
    assert gone not in other.kernels[0].source
    assert other.verify().ratio <= 1


def test_size_spread():
    """Scores of an open length are made for some rows at a time, as all of them do not stay near where there are many. For the sizes in
    the middle alone another tile would do."""
    text = ("graph g\ndim b in 1..64\ndim n in 2..1024\ninput q: f32[b, 4, n, 16]\ninput k: f32[b, 4, n, 16]\ninput v: f32[b, 4, n, 16]\n"
            "%0 = transpose(k, perm=[0, 1, 3, 2])\n%1 = matmul(q, %0)\n%2 = softmax(%1, axes=[3])\n%3 = matmul(%2, v)\noutput y = %3\n")
    spread, middle = (autocomp.optimize(text, size_spread=s, threads=1) for s in (0.3, 0.0))
    assert re.match(r"tile i0 1, i1 1, i2 (64|128|256), ", spread.kernels[0].schedule)
    assert middle.kernels[0].schedule != spread.kernels[0].schedule
    assert "by the mean of their times at b = 2, n = 6; b = 8, n = 45; b = 27, n = 294" in spread.explain(why=spread.kernels[0].name)
    assert "by the mean" not in middle.explain(why=middle.kernels[0].name)
    for sizes in ({"b": 1, "n": 2}, {"b": 2, "n": 37}, {"b": 1, "n": 300}):
        spread.verify(random_inputs(spread.graph, 1, sizes))
    with pytest.raises(AutocompError, match=r"options: size_spread is 0\.7, from 0 to 0.5 is understood"):
        Options(size_spread=0.7)


def test_register_tile_factor():
    def rows(source: str) -> int:
        return len(set(re.findall(r"\bvf \w+_(\d+)_0\b", source)) or set(re.findall(r"acc\w*?(\d+)_0", source)))

    default, few = (autocomp.optimize(GEMM, register_tile_factor=f) for f in (16, 2))
    assert rows(few.kernels[0].source) <= 2 < rows(default.kernels[0].source)
    assert few.verify().ratio <= 1
    with pytest.raises(AutocompError, match="register_tile_factor is 0, at least 1 is needed"):
        Options(register_tile_factor=0)
