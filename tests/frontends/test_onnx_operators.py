"""Operators whose lowering is a computation of its own: against onnxruntime, through the references (no C compiler)."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import helper, numpy_helper  # noqa: E402

import autocomp  # noqa: E402
from autocomp.frontends.onnx import load_onnx  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402

RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, dtype: str = "uint8") -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


def single(op, arrays, attrs, outputs=1, opset=21, static=()):
    """A model of one node; operands in `static` are initializers, None is an absent operand."""
    names = ["" if a is None else f"x{k}" for k, a in enumerate(arrays)]
    kind = lambda a: helper.np_dtype_to_tensor_dtype(a.dtype)
    g = helper.make_graph(
        [helper.make_node(op, names, [f"y{k}" for k in range(outputs)], **attrs)],
        op,
        [
            helper.make_tensor_value_info(n, kind(a), a.shape)
            for k, (n, a) in enumerate(zip(names, arrays, strict=True))
            if a is not None and k not in static
        ],
        [helper.make_empty_tensor_value_info(f"y{k}") for k in range(outputs)],
        [numpy_helper.from_array(arrays[k], names[k]) for k in static],
    )
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def theirs(m, feed):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, feed)


def error(op, arrays, attrs, outputs=1, opset=21, static=()):
    """The largest difference from onnxruntime over 1 + the value's size; infinite for another type, shape or NaN."""
    m = single(op, arrays, attrs, outputs, opset, static)
    feed = {f"x{k}": a for k, a in enumerate(arrays) if a is not None and k not in static}
    graph = load_onnx(m)
    ours = evaluate(graph, feed, float64=False)
    largest = 0.0
    for (name, _), want in zip(graph.outputs, theirs(m, feed), strict=True):
        got = ours[name]
        if got.dtype != want.dtype or got.shape != want.shape:
            return np.inf
        apart = np.abs(got.astype("f8") - want) / (1 + np.abs(want.astype("f8")))
        largest = max(largest, np.inf if np.isnan(apart).any() else apart.max())
    return largest


LENGTHS = np.array([4, 1, 3], np.int32)
B, H, I, T = 3, 5, 4, 4


def recurrent_operands(gates: int, directions: int, cell: bool) -> list[np.ndarray | None]:
    d = directions
    xs = [floats(T, B, I), floats(d, gates * H, I), floats(d, gates * H, H), floats(d, 2 * gates * H), LENGTHS, floats(d, B, H)]
    return [*xs, floats(d, B, H), floats(d, 3 * H)] if cell else xs


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_recurrent_with_lengths_and_initial_states(op, gates, direction):
    operands = recurrent_operands(gates, 2 if direction == "bidirectional" else 1, op == "LSTM")
    assert error(op, operands, {"hidden_size": H, "direction": direction}, outputs=3 if op == "LSTM" else 2) < 1e-5


def test_gru_resets_after_the_product():
    assert error("GRU", recurrent_operands(3, 1, False), {"hidden_size": H, "linear_before_reset": 1}, outputs=2) < 1e-5


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("where", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("sizes", [(2, 3, 11, 4), (2, 3, 14, 10), (2, 3, 3, 5)])
def test_resize(mode, where, sizes):
    attrs = {"mode": mode, "coordinate_transformation_mode": where}
    assert error("Resize", [floats(2, 3, 7, 5), None, None, np.array(sizes)], attrs, static=(3,)) < 1e-4


def test_resize_to_sizes_that_are_products_of_single_precision():
    scales = np.array([1, 1, 1.4, 1.1], np.float32)  # 5 by 1.4 are 7, though 1.4 of f32 is less; 10 by 1.1 are 11
    assert error("Resize", [floats(1, 2, 5, 10), None, scales], {"mode": "nearest"}, static=(2,)) < 1e-6


@pytest.mark.parametrize("scales", [(0.6, 0.6), (0.7, 1.5), (2.0, 0.25), (1.0, 0.9)])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_opset_10_takes_the_next_element_where_an_axis_shrinks(mode, scales):
    array = np.array([1, 1, *scales], np.float32)
    assert error("Resize", [floats(1, 2, 7, 10), array], {"mode": mode}, opset=10, static=(1,)) < 1e-5


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_resize_with_antialiasing(mode):
    attrs = {"mode": mode, "antialias": 1}
    assert error("Resize", [floats(1, 2, 17, 13), None, None, np.array([1, 2, 5, 6])], attrs, static=(3,)) < 1e-4


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("aligned", [0, 1])
def test_grid_sample(mode, padding, aligned):
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    assert error("GridSample", [floats(2, 3, 5, 4), floats(2, 3, 6, 2) * 1.5], attrs) < 1e-4


def test_roi_align():
    rois = np.array([[0, 0, 5, 4], [1.5, 2, 9, 7.25], [-3, -2, 12, 3]], np.float32)
    attrs = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.75}
    assert error("RoiAlign", [floats(2, 3, 8, 7), rois, np.array([1, 0, 1])], attrs) < 1e-5


def test_quantised_product_and_convolution():
    scale, one = np.array(0.03, np.float32), np.array(0.5, np.float32)
    zero, other = np.array(7, np.uint8), np.array(100, np.uint8)
    assert error("QLinearMatMul", [bytes_(3, 9), scale, zero, bytes_(9, 5), scale, other, one, zero], {}) < 1e-5
    per = (floats(4) ** 2 + 0.1).astype(np.float32)
    operands = [bytes_(1, 3, 7, 6), scale, zero, bytes_(4, 3, 3, 3, dtype="int8"), per, np.zeros(4, np.int8), one, zero]
    assert error("QLinearConv", [*operands, np.arange(4, dtype=np.int32) * 100], {"pads": [1, 0, 1, 2]}, static=(4, 5)) < 1e-5


@pytest.mark.parametrize("axis", [0, 1])
def test_quantise_by_slices(axis):
    shape = (4, 6)
    scale = np.abs(floats(shape[axis])) + 0.01
    zero = bytes_(shape[axis])
    assert error("QuantizeLinear", [floats(*shape) * 3, scale, zero], {"axis": axis}) < 1e-5
    assert error("DequantizeLinear", [bytes_(*shape), scale, zero], {"axis": axis}) < 1e-5


def test_a_long_sum_of_products_compiles():
    """Sixteen weighted look-ups: more than one body can hold, so the unfused form must stay a choice."""
    m = single("GridSample", [floats(1, 2, 4, 5), floats(1, 3, 3, 2)], {"mode": "cubic"})
    x, grid = floats(1, 2, 4, 5), floats(1, 3, 3, 2)
    program = autocomp.optimize(load_onnx(m), target="cpu")
    np.testing.assert_allclose(program(x, grid), theirs(m, {"x0": x, "x1": grid})[0], rtol=1e-4, atol=1e-5)


def test_a_guarded_product_compiles_as_vectors():
    """The squares that LRN sums are products behind a guard on the channel."""
    x = floats(1, 12, 13, 13)
    m = single("LRN", [x], {"size": 5, "alpha": 0.5})
    program = autocomp.optimize(load_onnx(m), target="cpu")
    np.testing.assert_allclose(program(x), theirs(m, {"x0": x})[0], rtol=1e-5, atol=1e-6)


def test_a_product_of_two_vectors_compiles():
    """Its result has no axis that a tile or a packed factor could lie along."""
    x, y = floats(9), floats(9)
    program = autocomp.optimize(load_onnx(single("MatMul", [x, y], {})), target="cpu")
    np.testing.assert_allclose(program(x, y), x @ y, rtol=1e-5, atol=1e-6)
