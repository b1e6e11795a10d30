"""Kernels that may start while the one before them ends: they wait in front of their first access to global memory, and only they do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import autocomp
from autocomp.runtime.cuda import started_early
from tests.helpers.device_graphs import GRAPHS
from tests.helpers.simt_model import COMPILER, ModelExecutor, ModelFailure, compile_model

NAMES = ["gemm_bias_gelu", "attention_f16", "softmax", "softmax_wide", "layer_norm_odd", "transpose", "swiglu", "conv_window", "embedding"]
CONSTANT = "graph g\ninput x: f16[200, 64]\nparam b: f16[64] = random(3)\n%0 = add(x, b)\noutput out = %0\n"
WAIT, NEXT = "ac_launch_wait();", "ac_launch_next();"


def statements(source) -> str:
    return source.text.partition("*/")[2].partition("{")[2]


@pytest.mark.parametrize("name", [n for n in NAMES if n in GRAPHS])
def test_a_kernel_waits_before_it_touches_what_others_write(name):
    """Pointers, descriptors and workspace appear behind the wait alone, which every thread passes."""
    program = autocomp.optimize(GRAPHS[name], target="cuda:h200")
    for source in program.printed.values():
        text = statements(source)
        assert source.launch.overlaps and text.count(WAIT) == text.count(NEXT) == 1
        before, after = text.split(WAIT)
        touched = "|".join([r"\b(?:in|out)\d+\b", r"&map\d+", r"\bscratch\b"])
        assert not re.search(touched, before), before
        assert re.search(touched, after)
        assert before.count("{") == before.count("}"), "the wait stands under a condition"


def test_what_earlier_launches_may_write_is_not_said_to_stay():
    """Reads of `const .. __restrict__` become loads of constants, which the assembler moves in front of the wait."""
    program = autocomp.optimize(GRAPHS["embedding"], target="cuda:h200")
    (source,) = program.printed.values()
    head = source.text.partition("*/")[2].partition("{")[0]
    assert "*__restrict__ out0" in head and "*__restrict__ in0" not in head
    older = autocomp.optimize(GRAPHS["embedding"], target="cuda:a100")
    assert "*__restrict__ in0" in next(iter(older.printed.values())).text
    weights = autocomp.optimize(CONSTANT, target="cuda:h200")
    head = next(iter(weights.printed.values())).text.partition("*/")[2].partition("{")[0]
    assert head.count("*__restrict__ in") == 1, "a constant stays: it may be read before the wait"


def test_chips_whose_launches_do_not_overlap_have_none_of_it():
    for target in ("cuda:a100", "maca:c500"):
        program = autocomp.optimize(GRAPHS["gemm_bias_gelu"], target=target)
        for source in program.printed.values():
            assert not source.launch.overlaps and WAIT not in source.text and NEXT not in source.text


def test_only_kernels_behind_kernels_start_early():
    """The first call waits for what runs before the program; one whose outputs are cleared first, for the clearing; one behind an op
    on the host, for its copy."""
    program = autocomp.optimize(GRAPHS["layer_norm_odd"], target="cuda:h200")
    call = program.calls.calls[0]
    source = program.printed[call.kernel.name]
    host = replace(call, kernel=replace(call.kernel, name="host", opaque="top_k"))
    named = lambda n: replace(call, kernel=replace(call.kernel, name=n))
    with_launch = lambda **kw: replace(source, launch=replace(source.launch, **kw))
    sources = {"k": source, "cleared": with_launch(zeroed=("out0",)), "old": with_launch(overlaps=False)}
    calls = [named("k"), named("k"), named("cleared"), named("k"), host, named("k"), named("old"), named("k")]
    assert started_early(calls, sources) == [False, True, False, True, False, False, False, True]


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("how", ["removed", "late"])
def test_a_wait_that_is_missing_or_late_is_seen(how, tmp_path):
    program = autocomp.optimize(GRAPHS["layer_norm_odd"], target="cuda:h200")
    name, source = next(iter(program.printed.items()))
    text = source.text.replace(WAIT, "")
    if how == "late":
        text = text[: text.rindex("}")] + WAIT + "}\n"
    program.printed[name] = replace(source, text=text)
    executor = ModelExecutor(program, tmp_path, compile_model(tmp_path))
    program.executor = executor
    with pytest.raises(ModelFailure, match="before earlier launches are waited for"):
        program.verify(seed=1)
