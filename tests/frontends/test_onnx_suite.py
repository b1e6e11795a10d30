"""A fixed, fast part of the onnx package's own backend suite: nothing wrong, nothing crashes, most of it in generated code.

`python -m benchmarks.onnx_coverage` runs all of it.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("onnx")

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from onnx_coverage import KINDS, cases, judge, quick_compiler

ALWAYS = {
    "test_attention_4d_causal_fp16",  # its expected values are rounded to f16 after every step of the softmax
    "test_loop16_seq_none",  # an optional sequence in, a sequence out
    "test_sequence_map_add_1_sequence_1_tensor",
    "test_optional_get_element_optional_tensor",
}


def _chosen(name: str) -> bool:
    return name in ALWAYS or int(hashlib.sha256(name.encode()).hexdigest(), 16) % 1000 < 28


@pytest.fixture(scope="module")
def outcomes() -> dict[str, tuple[str, str]]:
    warnings.filterwarnings("ignore")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", quick_compiler())
        return {c.name: judge(c) for c in cases(KINDS, "") if _chosen(c.name)}


def test_chosen_cases_are_neither_wrong_nor_crash(outcomes: dict[str, tuple[str, str]]) -> None:
    bad = {n: o for n, o in outcomes.items() if o[0] in ("wrong", "crashed")}
    assert not bad
    assert len(outcomes) > 50
    assert {outcomes[n][0] for n in ALWAYS} == {"generated"}


def test_most_chosen_cases_pass(outcomes: dict[str, tuple[str, str]]) -> None:
    count = Counter(o for o, _ in outcomes.values())
    assert count["generated"] >= 0.6 * len(outcomes), count


def test_refusals_say_what_to_do(outcomes: dict[str, tuple[str, str]]) -> None:
    refused = {name: reason for name, (outcome, reason) in outcomes.items() if outcome == "refused"}
    assert refused and not {name: reason for name, reason in refused.items() if "next:" not in reason}
