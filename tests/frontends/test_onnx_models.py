"""Whole models with seeded random weights: what we import computes what onnxruntime computes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
import models  # noqa: E402

from autocomp.errors import AutocompError, ModelError  # noqa: E402
from autocomp.frontends.onnx import load_onnx  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402

LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def _against_onnxruntime(raw: bytes) -> float:
    """Largest error relative to the largest output."""
    graph = load_onnx(raw)
    rng = np.random.default_rng(0)
    x = {}
    for n in graph.inputs:
        shape = n.type.shape
        x[n.attrs["name"]] = rng.integers(0, 100, shape) if n.type.dtype.is_int else rng.standard_normal(shape).astype(np.float32)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(raw, options, providers=["CPUExecutionProvider"])
    theirs = session.run(None, x)[0]
    ours = evaluate(graph, x, float64=False)[graph.outputs[0][0]]
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("name", LIGHT)
def test_every_light_model_imports(name: str) -> None:
    graph = load_onnx(models.light_model(f"light_{name}"))
    assert [str(n.type) for n in graph.inputs] == ["f32[1, 3, 224, 224]"]
    assert all(n in graph.locations or n.op in ("const", "param") for n in graph.nodes())


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "resnet50"])
def test_light_model_with_random_weights(name: str) -> None:
    assert _against_onnxruntime(models.with_random_weights(models.light_model(f"light_{name}"))) < 1e-3


def test_named_dimension_is_kept_or_fixed() -> None:
    from onnx import TensorProto, helper

    g = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("batch", 3))],
    )  # fmt: skip
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 20)])
    assert str(load_onnx(m).inputs[0].type) == "f32[batch, 3]"
    assert str(load_onnx(m, dims={"batch": 4}).inputs[0].type) == "f32[4, 3]"
    with pytest.raises(ModelError, match=r"has no named dimension 'bach'\n  next: named dimensions: batch$"):
        load_onnx(m, dims={"bach": 4})
    bounded = load_onnx(m, dims={"batch": (1, 64)}).inputs[0].type.shape[0]
    assert (bounded.lo, bounded.hi) == (1, 64)


def test_a_squeeze_without_axes_of_an_open_dimension_that_may_be_1_is_refused() -> None:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ("batch", 1, 3)), ("y", None)))
    m = helper.make_model(helper.make_graph([helper.make_node("Squeeze", ["x"], ["y"])], "g", [x], [y]),
                          opset_imports=[helper.make_opsetid("", 20)])  # fmt: skip
    with pytest.raises(AutocompError, match=r"(?s)its axis 0 \('batch'\) may be 1 .*axes \[1\], or .*dims=\{'batch': 2\}"):
        load_onnx(m)
    assert str(load_onnx(m, dims={"batch": (2, 64)}).outputs[0][1].type) == "f32[batch, 3]"
