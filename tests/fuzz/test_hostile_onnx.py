"""The net of hostile ONNX models: fixed seeds end well, the made models are valid, and what is planted is caught."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

pytest.importorskip("onnxruntime")

from autocomp.runtime.program import Program
from benchmarks.fuzz import onnx_models
from benchmarks.fuzz.onnx_seeds import MADE


@pytest.mark.parametrize("start", [0, 100])
def test_some_seeds(start, monkeypatch):
    """Only those made here: the onnx package's suite takes seconds to make."""
    monkeypatch.setattr(onnx_models, "suite", lambda: tuple(f().SerializeToString() for f in MADE))
    for seed in range(start, start + 8):
        case = onnx_models.draw(seed)
        assert case == onnx_models.draw(seed)
        verdict = onnx_models.check(case)
        assert verdict.kind in ("right", "refused"), f"seed {seed}: {verdict.detail}\n{case.text()}"


@pytest.mark.parametrize("make", MADE, ids=lambda f: f.__name__)
def test_the_made_models_are_valid(make):
    onnx.checker.check_model(make(), full_check=True)


def test_an_unchanged_model_runs_and_agrees():
    for make in (MADE[0], MADE[5]):
        assert onnx_models.check(onnx_models.Case(make().SerializeToString())).kind == "right"


def test_a_wrong_result_is_caught(monkeypatch):
    run = Program.run
    monkeypatch.setattr(Program, "run", lambda self, feed: {k: v + np.asarray(0.25, v.dtype) for k, v in run(self, feed).items()})
    verdict = onnx_models.check(onnx_models.Case(MADE[0]().SerializeToString(), ("planted",)))
    assert verdict.kind == "wrong"
    assert "onnxruntime says" in verdict.detail
    assert "planted" in verdict.detail


def test_another_exception_flies(monkeypatch):
    def broken(self, feed):
        raise KeyError("planted")

    monkeypatch.setattr(Program, "run", broken)
    with pytest.raises(KeyError, match="planted"):
        onnx_models.check(onnx_models.Case(MADE[0]().SerializeToString()))


def test_a_hostile_model_does_not_end_the_process_that_compares():
    """What onnxruntime refuses is not compared."""
    with open("/dev/null", "w+b") as f:
        assert onnx_models.by_onnxruntime(b"no model", {}, f) is None


def test_smaller_cases_have_a_node_less():
    case = onnx_models.Case(MADE[0]().SerializeToString())
    sizes = [len(onnx.ModelProto.FromString(c.data).graph.node) for c in onnx_models.smaller(case)]
    assert min(sizes) == len(MADE[0]().graph.node) - 1
