"""Models are read without their weights: the same model, bytes where they were, and any damage found all the same."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from autocomp import frontends
from autocomp.errors import ModelError
from autocomp.frontends.onnx.model import read_model
from autocomp.frontends.onnx.wire import LARGE, NotPlain, lean
from autocomp.ir.reference import evaluate


def model(seed=0, odd=False):
    """Two large weights, a small one, one as typed values, and (odd) names that shift the weights to odd addresses."""
    rng = np.random.default_rng(seed)
    w, v = rng.standard_normal((128, 192)).astype("f4"), rng.standard_normal((192, 160)).astype("f2")
    tensors = [
        helper.make_tensor("w" + "x" * odd, TensorProto.FLOAT, w.shape, w.tobytes(), raw=True),
        helper.make_tensor("b", TensorProto.FLOAT, [192], rng.standard_normal(192).astype("f4").tobytes(), raw=True),
        helper.make_tensor("v", TensorProto.FLOAT16, v.shape, v.tobytes(), raw=True),
        helper.make_tensor("t", TensorProto.FLOAT, [160], rng.standard_normal(160).astype("f4")),
    ]
    nodes = [helper.make_node("MatMul", ["a", "w" + "x" * odd], ["h"]), helper.make_node("Add", ["h", "b"], ["i"]),
             helper.make_node("Cast", ["v"], ["vf"], to=TensorProto.FLOAT), helper.make_node("MatMul", ["i", "vf"], ["j"]),
             helper.make_node("Add", ["j", "t"], ["y"])]  # fmt: skip
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("a", TensorProto.FLOAT, [3, 128])], [value("y", TensorProto.FLOAT, [3, 160])], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_a_lean_model_is_the_model_and_its_weights_are_where_it_says(odd):
    whole = model(odd=odd)
    data = whole.SerializeToString()
    small, found = lean(data)
    assert set(found) == {0} and len(small) < len(data) - LARGE  # v has 61,440 bytes, less than LARGE
    for i, (offset, length) in found.items():
        assert data[offset : offset + length] == whole.graph.initializer[i].raw_data
        whole.graph.initializer[i].ClearField("raw_data")
    again = onnx.ModelProto()
    again.ParseFromString(small)
    assert again == whole


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
@pytest.mark.parametrize("how", ["path", "bytes", "proto"])
def test_results_are_those_of_the_whole_model(tmp_path, how, odd):
    whole = model(odd=odd)
    (tmp_path / "m.onnx").write_bytes(whole.SerializeToString())
    source = {"path": tmp_path / "m.onnx", "bytes": whole.SerializeToString(), "proto": whole}[how]
    graph = frontends.load(source)
    feed = {"a": np.random.default_rng(1).standard_normal((3, 128)).astype("f4")}
    want = evaluate(frontends.load(whole), feed)["y"]
    np.testing.assert_array_equal(evaluate(graph, feed)["y"], want)
    assert all(graph.param(p).flags.aligned for p in graph.params)


def test_weights_of_a_file_are_read_when_they_are_asked_for(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(model().SerializeToString())
    graph = frontends.load(path)
    assert callable(graph.params["w"]) and not callable(graph.params["b"])
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ModelError, match="the file changed; load it again") as e:
        graph.param("w")
    assert str(path) in str(e.value)
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read again"):
        graph.param("w")


def test_a_weight_of_another_size_than_declared_is_refused(tmp_path):
    broken = model()
    broken.graph.initializer[0].dims[0] = 127
    with pytest.raises(ModelError, match=r"declares f32\[127, 192\], which is 24384 elements \(97536 bytes\), but carries 98304 bytes"):
        frontends.load(broken.SerializeToString())


DATA = model().SerializeToString()


@settings(max_examples=150, deadline=None)
@example(at=41, byte=41, cut=False)  # an initializer under another wire type
@given(st.integers(0, len(DATA) - 1), st.integers(0, 255), st.booleans())
def test_damage_is_judged_as_by_the_full_parser(at, byte, cut):
    at = at % 400 if byte % 2 else at  # most of the structure is in front
    data = DATA[:at] if cut else DATA[:at] + bytes([byte]) + DATA[at + 1 :]
    whole = onnx.ModelProto()
    try:
        whole.ParseFromString(data)
    except Exception:
        whole = None
    try:
        small, found = lean(data)
    except NotPlain:
        return  # the full parser is asked
    again = onnx.ModelProto()
    try:
        again.ParseFromString(small)
    except Exception:
        assert whole is None
        return
    if whole is not None and len(whole.graph.initializer) == len(again.graph.initializer):
        for i, (offset, length) in found.items():
            assert whole.graph.initializer[i].raw_data == data[offset : offset + length]
            whole.graph.initializer[i].ClearField("raw_data")
        assert whole.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)


def test_what_is_no_plain_message_goes_to_the_full_parser():
    for data in (b"", b"\x00", b"\x3a\xff", b"\x0b\x0c", b"\xff" * 20):
        with pytest.raises(NotPlain):
            lean(data)
    with pytest.raises(ModelError, match=r"names no operator set|is no ONNX model"):
        read_model(b"\xff" * 100)
