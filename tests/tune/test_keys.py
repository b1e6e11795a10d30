"""What a measurement is valid for: each part changes its place or its kernel's key, and that of a remembered choice."""

from __future__ import annotations

from dataclasses import replace

from autocomp.targets import load_target

from autocomp.cost.chip import load_chip
from autocomp.egraph.kernel_memo import ScheduleMemo
from autocomp.frontends.text import parse
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.tune import key
from tests.helpers.covers import cover_of


def test_a_place_is_a_chip_with_its_threads_the_rules_and_the_generator(monkeypatch):
    cuda, rules = load_target("cuda"), load_rules()
    tiling = next(r for r in rules if r.phase == "tiling" and not r.targets)
    places = [
        key.place_of(cuda, rules, Options()),
        key.place_of(replace(cuda, chip=replace(cuda.chip, arch="sm_100a")), rules, Options()),
        key.place_of(replace(cuda, chip=replace(cuda.chip, title="another")), rules, Options()),
        key.place_of(cuda, rules, Options(threads=3)),
        key.place_of(cuda, RuleSet(tuple(r for r in rules if r is not tiling)), Options()),
    ]
    assert key.place_of(cuda, rules, Options(search_configurations=3)) == places[0]
    monkeypatch.setattr(key, "generator_digest", lambda: "edited")
    places.append(key.place_of(cuda, rules, Options()))
    assert len(set(places)) == len(places)


def test_bounds_of_named_dimensions_are_in_a_kernels_key():
    """Kernels of one signature: their schedules are chosen and measured at other sizes."""
    text = "graph g\ndim n in 1..{}\ninput x: f32[n, 64]\n%0 = softmax(x, axes=[1])\noutput y = %0\n"
    small, large = (cover_of(parse(text.format(n)), "cpu").calls[0].kernel for n in (128, 4096))
    memo = ScheduleMemo("cpu", load_chip("cpu"), RuleSet(), Options())
    assert small.signature == large.signature
    assert key.kernel_key(small, Options()) != key.kernel_key(large, Options())
    assert memo.key(small) != memo.key(large)


def test_products_that_may_round_their_factors_are_measured_apart():
    """What was measured with tf32 is no choice where f32 is asked for."""
    strict, tf32 = Options(), Options(allow_tf32=True)
    text = "graph g\ninput a: {0}[64, 64]\ninput b: {0}[64, 64]\n%0 = {1}(a, b)\noutput y = %0\n"
    k = {n: cover_of(parse(text.format(*n)), "cpu").calls[0].kernel for n in (("f32", "matmul"), ("f16", "matmul"), ("f32", "add"))}
    assert [key.kernel_key(x, strict) == key.kernel_key(x, tf32) for x in k.values()] == [False, True, True]
    assert [key.may_round(x, tf32) for x in k.values()] == [True, False, False]
