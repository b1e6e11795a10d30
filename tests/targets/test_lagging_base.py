"""Attention whose maximum moves only where weights would grow large: the same result, on scores that grow, fall, or are masked at first."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from autocomp.targets.cuda.emit import rounds_products

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.tile import meaning
from autocomp.tile.derive import derive
from autocomp.tile.text import parse, show
from tests.helpers.device_graphs import attention, graph, prepared
from tests.helpers.goldens import four_warpgroups
from tests.helpers.repeats import repeating, repeats
from tests.helpers.schedules import by_hand

ROWS = 200
GOLDEN = Path(__file__).parents[1] / "golden" / "cuda" / "attention_four_warpgroups.h200.cu"


def lagging(kernel, workers: int = 1, persistent: bool = False, overlap: int = 1) -> Schedule:
    """Tiles of 64 rows a warpgroup and 64 keys."""
    rows = {a.name: 64 * workers if a.extent == ROWS else 1 for a in kernel.axes if a.extent != 64}
    return by_hand({**rows, "r1": 64}, stages=2, roles="warp_specialise", workers=workers, softmax_overlap=overlap, rescale_threshold=14,
                         persistent=persistent)  # fmt: skip


def reference(feed, causal):
    q, k, v = (feed[x].astype("f8") for x in "qkv")
    s = q @ k.swapaxes(-1, -2) * 0.125 + feed.get("mask", np.zeros(1)).astype("f8")
    if causal:
        s = np.where(np.tri(ROWS, dtype=bool), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def feed_of(kind: str) -> dict[str, np.ndarray]:
    """Scores of one size, scores that grow by far more than the limit from turn to turn, scores whose exponentials are 0 in half
    precision, scores of which those of the second turn are large, or a first turn without a single key."""
    rng = np.random.default_rng(list(kind.encode()))
    feed = {x: rng.standard_normal((1, 2, ROWS, 64)).astype("f2") for x in "qkv"}
    if kind == "grows":
        feed["q"] = (1 + 0.1 * feed["q"]).astype("f2")
        feed["k"] = (0.03 * np.arange(ROWS)[:, None] + 0.1 * feed["k"]).astype("f2")
    if kind == "low":
        feed["q"], feed["k"] = (1 + 0.1 * feed["q"]).astype("f2"), (-4 + 0.1 * feed["k"]).astype("f2")
    if kind == "later":
        feed["q"] = (1 + 0.1 * feed["q"]).astype("f2")
        feed["k"] = (np.repeat([0, 1.8, 0.9, 0.9], 64)[:ROWS, None] + 0.1 * feed["k"]).astype("f2")
    if kind == "masked":
        feed["mask"] = np.where(np.arange(ROWS) < 64 + np.arange(ROWS)[:, None] // 8, -np.inf, 0.0)[None, None].astype("f2")
    return feed


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("kind", "workers", "stay", "overlap"), repeating(
    [("even", 1, True, 1), ("grows", 1, False, 1), ("grows", 2, True, 1), ("masked", 2, False, 1), ("causal", 2, False, 1),
     ("grows", 2, True, 2), ("causal", 1, False, 2), ("masked", 2, False, 2), ("low", 2, True, 2), ("later", 2, True, 2),
     ("even", 2, True, 2)],
    {("grows", 1, False, 1): "two warpgroups that stay", ("masked", 2, False, 1): "the same with an overlap",
     ("causal", 2, False, 1): "one with an overlap", ("even", 1, True, 1): "two with an overlap"}))  # fmt: skip
def test_a_base_that_lags_gives_the_same_result(kind, workers, stay, overlap, model, tmp_path):
    program = prepared(attention(1, 2, ROWS, 64, causal=kind == "causal", mask=kind == "masked"), "cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, lagging(kernel, workers, stay, overlap))
    assert "ac_any" in source.text
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=3 if stay else 0))
    assert ("_sums(" in source.text) == (overlap == 2) and ("ac_barrier_pass(" in source.text) == (overlap == 2 and workers > 1)
    assert ("if (based)" in source.text) == (overlap == 2 and kind != "masked")  # a mask that is added is not scaled with the scores
    feed, want = feed_of(kind), reference(feed_of(kind), kind == "causal")
    for late in (True, False):
        got = next(iter(ModelExecutor(program, tmp_path, model, late).run(feed).values()))
        np.testing.assert_allclose(got, want, rtol=4e-3, atol=4e-3)
    if kind == "even":  # scores of standard deviation 1: 2.8e-4 by scores in single precision
        assert np.linalg.norm(got - want) < 4e-4 * np.linalg.norm(want)


def test_scores_that_a_graph_has_in_single_precision_keep_it(monkeypatch):
    """Rows that are scaled are rounded once more, as scores of half type are."""
    program = autocomp.optimize(attention(1, 2, ROWS, 64), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    schedule = lagging(kernel, 2, True, 2)
    assert rounds_products(kernel) and "ac_scale" in program.target.emit(kernel, schedule).text
    wide = graph({x: "f16[64, 64]" for x in "ab"}, '%0 = cast(a, to="f32")\n%1 = cast(b, to="f32")\n%2 = matmul(%0, %1)')
    assert not any(rounds_products(c.kernel) for c in autocomp.optimize(wide, target="cuda:h200").calls.calls)
    monkeypatch.setattr("autocomp.targets.cuda.target.rounds_products", lambda kernel: False)
    text = program.target.emit(kernel, schedule).text
    assert "_sums(" in text and "based" not in text and "ac_scale" not in text


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
def test_columns_of_ones_are_of_the_weights_type(model, tmp_path):
    """bfloat16, in blocks that take two tiles each."""
    program = autocomp.optimize(attention(1, 2, ROWS, 64, "bf16"), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, lagging(kernel, 2, True, 2))
    assert "0x3f803f80u" in source.text
    program.printed[kernel.name] = replace(source, launch=replace(source.launch, at_most=4))
    feed = {x: v.astype(ml_dtypes.bfloat16) for x, v in feed_of("even").items()}
    got = ModelExecutor(program, tmp_path, model).run(feed)
    np.testing.assert_allclose(next(iter(got.values())).astype("f4"), reference(feed, False), rtol=2e-2, atol=2e-2)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("kind", "old", "new", "says"), [
    ("grows", "ac_barrier_pass(4 + (wave / 4 + 1) % 2, 256);", "", "wait"),
    repeats("grows", "ac_descriptor_beside(", "ac_descriptor_at(", "", of="the next one: a wrong sum"),
    ("grows", "sums[r] = (sums[r] * ", "sums[r] = (sums[r] + 0 * ", ""),
    ("later", "based = true;", "", ""),
    ("low", "ac_rows_reach<0x3800>", "ac_rows_reach<0x0>", ""),
    ("even", "0.180336878f);", "0.19f);", ""),
])  # fmt: skip
def test_turns_columns_and_their_scale_matter(kind, old, new, says, model, tmp_path):
    program = prepared(attention(1, 2, ROWS, 64), target="cuda:h200")
    kernel = program.calls.calls[0].kernel
    source = program.target.emit(kernel, lagging(kernel, 2, True, 2))
    assert old in source.text
    program.printed[kernel.name] = replace(source, text=source.text.replace(old, new), launch=replace(source.launch, at_most=3))
    feed = feed_of(kind)
    if says:
        with pytest.raises(Exception, match=says):
            ModelExecutor(program, tmp_path, model).run(feed)
    else:
        got = next(iter(ModelExecutor(program, tmp_path, model).run(feed).values()))
        assert not np.allclose(got, reference(feed, False), rtol=4e-3, atol=4e-3)


def test_the_text_of_four_warpgroups_is_as_it_was():
    """AUTOCOMP_GOLDEN=write pytest tests/targets/test_lagging_base.py  writes the file anew."""
    program = four_warpgroups()
    ((name, source),) = program.printed.items()
    if os.environ.get("AUTOCOMP_GOLDEN") == "write":
        GOLDEN.write_text(source.text)
    assert source.text == GOLDEN.read_text()
    if not program.target.toolchain.missing():
        assert program.target.toolchain.compile_object(name, f"{program.target.preamble([source])}\n{source.text}")


@pytest.mark.parametrize("kind", ["even", "grows"])
def test_the_program_says_when_the_base_moves(kind):
    kernel = autocomp.optimize(attention(1, 2, ROWS, 64), target="cuda:h200").calls.calls[0].kernel
    program = derive(kernel, lagging(kernel))
    assert show(parse(show(program))) == show(program) and "when of=l_t above=16376.0" in show(program)
    feed = feed_of(kind)
    names = dict(zip([a.name for a in kernel.inputs], "qkv"))
    arrays = {a: feed[x].reshape(kernel_shape(kernel, a)) for a, x in names.items()}
    got = meaning.run(program, arrays)["out0"]
    np.testing.assert_allclose(got.reshape(1, 2, ROWS, 64), reference(feed, False), rtol=1e-9)


def kernel_shape(kernel, name):
    return next(a.type.shape for a in kernel.inputs if a.name == name)
