"""Changes of printed text are noticed by the models: a sample here, all by `python -m benchmarks.text_mutants`."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER
from benchmarks.text_mutants import Mutant, guarded, mutants, subject, verdict
from tests.helpers.device_graphs import GRAPHS

needs_compiler = pytest.mark.skipif(not COMPILER, reason="no g++")


@needs_compiler
def test_changes_are_judged_by_what_they_do_and_no_wrong_one_of_a_sample_goes_unnoticed(tmp_path):
    s = subject("ascend/softmax", tmp_path)
    lines = s.source.text.splitlines()

    def changed(was, now):
        at = next(i for i, line in enumerate(lines) if was in line)
        return Mutant("", at, lines[at], lines[at].replace(was, now)).applied(s.source.text)

    sample = list(mutants("ascend", s.source.text))[::16]
    whole, again, lost, far, *rest = s.run([
        s.source.text,
        changed("ac_copy(1, 4096 * 2, 0, 0)", "ac_copy(1, 4096 * 2, 32, 0)"),  # of one row: says nothing
        changed("SetFlag<HardEvent::MTE2_V>(round % 2);", ";"),
        changed("in0_g[4096ull * s_i0]", "in0_g[4096ull * s_i0 + 9999999]"),
        *(m.applied(s.source.text) for m in sample),
    ])  # fmt: skip
    assert verdict(again, whole) == "same"
    assert "unordered" in verdict(lost, whole)
    assert "outside of its tensor" in verdict(far, whole)
    said = [(m, verdict(got, whole)) for m, got in zip(sample, rest)]
    assert not [x for x in said if x[1].startswith("missed")] and sum(v.startswith("caught") for _, v in said) >= len(said) - 2, said
    assert s.run([changed("RoundMode::CAST_NONE", "RoundMode::CAST_HYBRID")]) == ["it does not compile"]


def test_what_does_not_end_or_dies_is_caught():
    assert guarded(lambda: 3) == 3
    assert guarded(lambda: time.sleep(60), limit=0.2) == "it does not end"
    assert guarded(lambda: os.kill(os.getpid(), signal.SIGTERM)) == "it dies with 15"


def test_a_difference_within_the_tolerance_is_missed():
    whole = {"y": np.ones(4, np.float16)}
    assert verdict({"y": np.array([1, 1, 1, 1.001], np.float16)}, whole).startswith("missed")
    assert verdict({"y": np.array([1, 1, 1, 2], np.float16)}, whole) == "caught: other values"
    assert verdict({"y": np.array([1, 1, 1, np.nan], np.float16)}, whole) == "caught: other values"


def test_every_kind_has_mutants():
    found = {"ascend": set(), "maca": set()}
    for name, target in (("ascend/attention_causal", "ascend:910b"), ("maca/gemm_bias_gelu", "maca:c500")):
        language, _, graph = name.partition("/")
        text = next(iter(autocomp.optimize(GRAPHS[graph], target=target).printed.values())).text
        found[language] |= {m.kind for m in mutants(language, text)}
    both = {"index", "stride", "bound", "place", "count", "operand order", "wait left out", "barrier left out", "copy left out"}
    assert both | {"width"} <= found["maca"]
    assert both | {"flag", "flag left out", "cross-core flag left out", "capacity", "mask"} <= found["ascend"]
