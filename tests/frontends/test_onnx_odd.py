"""ONNX models at the edges of the standard: no axes, no elements, negative amounts, outputs that are inputs, names of all kinds."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from ml_dtypes import finfo
from onnx import TensorProto, helper, numpy_helper

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.onnx import load_onnx
from autocomp.ir.places import short
from autocomp.ir.reference import evaluate
from autocomp.ir.types import F32, TensorType

X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5.5


def node(op, *inputs, **attrs):
    """A model of one node over constants (lists of integers) and the inputs v0, v1, ... (arrays), with its feed."""
    names, given, fixed = [], {}, []
    for i, x in enumerate(inputs):
        names.append("" if x is None else f"v{i}")
        if isinstance(x, list):
            fixed.append(numpy_helper.from_array(np.array(x, np.int64), f"v{i}"))
        elif x is not None:
            given[f"v{i}"] = x
    return model([helper.make_node(op, names, ["y"], **attrs)], given, ["y"], fixed), given


def model(nodes, given, outputs, fixed=()):
    shown = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in given.items()]
    graph = helper.make_graph(nodes, "g", shown, [helper.make_empty_tensor_value_info(o) for o in outputs], fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def zeros(*shape):
    return np.zeros(shape, np.float32)


CASES = {
    "a sum over no axes": (node("ReduceSum", X, [], noop_with_empty_axes=0, keepdims=0), X.sum()),
    "axes that are none": (node("ReduceSum", X, [], noop_with_empty_axes=1), X),
    "a mean of a scalar": (node("ReduceMean", np.array(3, np.float32), []), np.float32(3)),
    "a sum of nothing": (node("ReduceSum", zeros(2, 0), [1], keepdims=0), zeros(2)),
    "a maximum of nothing": (node("ReduceMax", zeros(2, 0), [-1]), np.full((2, 1), -np.inf, np.float32)),
    "a window over no images": (node("Conv", zeros(0, 2, 5, 5), zeros(3, 2, 2, 2)), zeros(0, 3, 4, 4)),
    "a transposed one": (node("ConvTranspose", zeros(0, 2, 4), zeros(2, 3, 2), strides=[2]), zeros(0, 3, 8)),
    "backwards from before the first": (node("Slice", X, [-100], [-100], [0], [-2]), X[:1]),
    "backwards to the first": (node("Slice", X, [-1], [-(2**63)], [1], [-3]), X[:, ::-3]),
    "nothing in between": (node("Slice", X, [2], [1], [0]), X[2:1]),
    "a frame that removes": (node("Pad", X, [-1, 1, 1, -2]), np.pad(X[1:, :2], ((0, 1), (1, 0)))),
    "a torus of what is left": (node("Pad", X, [0, -3, 0, 2], mode="wrap"), np.repeat(X[:, 3:], 3, 1)),
    "an ellipsis of one and of many": (node("Einsum", zeros(2, 3, 4) + 1, zeros(1, 4, 5) + 1, equation="...ij,...jk"),
                                       np.full((2, 3, 5), 4, np.float32)),
    "pads of a scalar": (node("Pad", np.array(2, np.float32), []), np.float32(2)),
}  # fmt: skip
PICTURE = X.reshape(1, 1, 3, 4)
CASES["a window far beyond the image"] = (node("MaxPool", PICTURE, kernel_shape=[2**32 + 1, 2**31], auto_pad="SAME_UPPER"),
                                          np.full((1, 1, 3, 4), 5.5, np.float32))  # fmt: skip
CASES["its mean"] = node("AveragePool", PICTURE, kernel_shape=[2**33, 2**33], auto_pad="SAME_LOWER"), np.full((1, 1, 3, 4), 0, np.float32)
AXIS = model([helper.make_node("CumSum", ["v0", "a"], ["y"], exclusive=1)], {"v0": zeros(0, 2)}, ["y"],
             [numpy_helper.from_array(np.array(0), "a")])  # fmt: skip
CASES["running sums of nothing"] = (AXIS, {"v0": zeros(0, 2)}), zeros(0, 2)


@pytest.mark.parametrize("name", CASES)
def test_what_the_standard_says(name):
    (m, feed), want = CASES[name]
    (got,) = evaluate(load_onnx(m), feed, float64=False).values()
    assert got.shape == np.shape(want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["axes that are none", "a mean of a scalar", "a sum of nothing", "a window over no images", "its mean"])
def test_and_generated_code_does(name):
    (m, feed), want = CASES[name]
    program = autocomp.optimize(m, target="cpu")
    program.executor.poison = True
    np.testing.assert_array_equal(program.run(feed)["y"], want)


@pytest.mark.parametrize(("one", "said"), [
    (node("ArgMax", zeros(2, 0), axis=1), "axis 1 of f32[2, 0] has no elements, so none is the largest or smallest"),
    (node("DepthToSpace", zeros(1, 8, 2, 3), blocksize=-1), "blocksize -1 must be positive"),
    (node("SpaceToDepth", zeros(1, 2, 4, 6), blocksize=0), "blocksize 0 must be positive"),
    (node("Pad", zeros(1, 2), [0, -2, 0, -1]), "removes -2 and -1 elements of a dimension of 2"),
])  # fmt: skip
def test_what_has_no_result_is_refused(one, said):
    with pytest.raises(ModelError) as e:
        load_onnx(one[0])
    assert said in str(e.value)


def test_outputs_that_are_inputs_constants_and_each_other():
    c = numpy_helper.from_array(X, "c")
    relu = lambda out: helper.make_node("Relu", ["x"], [out])
    m = model([relu("a"), relu("b"), helper.make_node("Identity", ["a"], ["d"])], {"x": -X, "unused": X}, ["x", "c", "a", "b", "d"], [c])
    got = autocomp.optimize(m, target="cpu").run({"x": -X, "unused": X})
    want = {"x": -X, "c": X, "a": np.maximum(-X, 0), "b": np.maximum(-X, 0), "d": np.maximum(-X, 0)}
    assert list(got) == list(want)
    for name, value in want.items():
        np.testing.assert_array_equal(got[name], value)


@pytest.mark.parametrize("names", [("x y/0:1", 'ü "y"\n', "%0"), ("int", "return", "static"), ("a.b", "a_b", "a/b")])
def test_names_of_all_kinds(names):
    first, second, out = names
    m = model([helper.make_node("Sub", [first, second], [out])], {first: X, second: 2 * X}, [out])
    np.testing.assert_array_equal(autocomp.optimize(m, target="cpu").run({first: X, second: 2 * X})[out], -X)


def test_an_initializer_that_is_an_input_is_one_where_the_caller_gives_it():
    """Else it is a constant, and a call with another value for it is refused: its result would be the default's."""
    m = model([helper.make_node("Add", ["x", "d"], ["y"])], {"x": X, "d": X}, ["y"], [numpy_helper.from_array(3 * X, "d")])
    run = lambda feed, **inputs: autocomp.optimize(load_onnx(m, inputs=inputs), target="cpu").run(feed)["y"]
    np.testing.assert_array_equal(run({"x": X}), 4 * X)
    with pytest.raises(ModelError, match="g: has no input 'd'\n  next: inputs: x"):
        run({"x": X, "d": X})
    np.testing.assert_array_equal(run({"x": X, "d": X}, d=TensorType(F32, (3, 4))), 2 * X)
    np.testing.assert_array_equal(run({"x": X}, d=5 * X), 6 * X)
    with pytest.raises(ModelError, match="model 'g': has no input 'e'\n  next: inputs: x, d"):
        run({"x": X}, e=X)


def test_one_output_twice_is_refused():
    m = model([helper.make_node("Relu", ["x"], ["y"])], {"x": X}, ["y", "y"])
    with pytest.raises(ModelError, match="two outputs are called 'y'"):
        load_onnx(m)


@pytest.mark.parametrize(("first", "second"), [("a b", "a_b"), ("é", "è"), ("r0", "i1"), ("9", "d_9"), ("x" * 300, "x" * 299 + "y"),
                                               ("for", "int"), ("batch size", "batch.size")])  # fmt: skip
def test_named_dimensions_of_any_name_stay_two(first, second):
    """Each is an identifier of its own, however alike their letters are, and none is an axis of a kernel."""
    shown = [helper.make_tensor_value_info("x", 1, [first, second]), helper.make_tensor_value_info("z", 1, [second])]
    nodes = [helper.make_node("MatMul", ["x", "z"], ["m"]), helper.make_node("Softmax", ["m"], ["y"], axis=0)]
    graph = helper.make_graph(nodes, "g", shown, [helper.make_empty_tensor_value_info("y")])
    program = autocomp.optimize(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), cache=False)
    x, z = np.random.default_rng(0).standard_normal((5, 3), np.float32), np.ones(3, np.float32)
    e = np.exp(x @ z)
    np.testing.assert_allclose(program(x, z), e / e.sum(), rtol=1e-5)


@pytest.mark.parametrize("index", [5, -6, 2**62])
def test_a_scatter_outside_of_its_tensor_is_refused_when_it_runs(index):
    """Where it writes depends on the data: only the run can tell."""
    x, u, i = zeros(1, 5), zeros(1, 1) + 1, np.array([[index]], np.int64)
    m, given = node("ScatterElements", x, i, u, axis=1)
    with pytest.raises(ModelError, match=rf"scatter: index {index} is outside of axis 1 of 5 elements\n  next: indices are -5 .. 4 there"):
        autocomp.optimize(m, cache=False).run(given)


def test_updates_that_do_not_fit_are_refused():
    m, _ = node("ScatterND", zeros(4, 7), np.array([[0, 1], [2, 3]], np.int64), zeros(4, 2))
    with pytest.raises(ModelError, match=r"updates f32\[4, 2\] are not f32\[2\], as indices i64\[2, 2\] into f32\[4, 7\] ask for"):
        load_onnx(m)


def test_a_softcap_that_is_no_number_is_refused():
    m, _ = node("Attention", zeros(2, 9, 4, 8), zeros(2, 3, 6, 8), zeros(2, 3, 6, 8), softcap=float("nan"))
    m.opset_import[0].version = 23
    with pytest.raises(UnsupportedOp, match="softcap is nan"):
        load_onnx(m)


def test_nodes_of_one_name_are_told_apart():
    nodes = [helper.make_node("Relu", ["v0"], ["a"], name="dense"), helper.make_node("Exp", ["a"], ["b"], name="dense"),
             helper.make_node("Neg", ["b"], ["c"], name="other"), helper.make_node("Abs", ["c"], ["y"])]  # fmt: skip
    graph = load_onnx(model(nodes, {"v0": X}, ["y"]))
    assert [short(graph.locations[n]) for n in graph.nodes() if n.op != "input"][-4:] == ["dense (node 0)", "dense (node 1)", "other",
                                                                                         "node 3 (Abs)"]  # fmt: skip


@pytest.mark.parametrize("to", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_eight_bit_floats_keep_fractions_and_end_at_their_largest_number(to):
    """Casts of what lies beyond saturate unless told otherwise; NaN stays. GPUs compute with them, CPUs refuse them by name."""
    code = getattr(TensorProto, to)
    kind = helper.tensor_dtype_to_np_dtype(code)
    x = np.array([1e6, -np.inf, np.nan, 0.3, -100], np.float32)
    s, z = np.array(0.5, np.float32), np.array(0, kind)
    nodes = [helper.make_node("Cast", ["x"], ["a"], to=code), helper.make_node("CastLike", ["x", "z"], ["b"], saturate=0),
             helper.make_node("QuantizeLinear", ["x", "s", "z"], ["c"]),
             helper.make_node("DequantizeLinear", ["w", "s"], ["d"])]  # fmt: skip
    w = np.array([0.75, -1.5, 2], kind)
    fixed = [helper.make_tensor("z", code, [], z.tobytes(), raw=True), helper.make_tensor("w", code, [3], w.tobytes(), raw=True)]
    m = model(nodes, {"x": x, "s": s}, "abcd", fixed)
    m.opset_import[0].version, m.ir_version = 21, 10
    got = evaluate(load_onnx(m), {"x": x, "s": s}, float64=False)
    most = float(finfo(kind).max)
    saturated = lambda v: np.clip(v, -most, most).astype(kind)
    with np.errstate(all="ignore"):
        want = {"a": saturated(x), "b": x.astype(kind), "c": saturated(x / s), "d": w.astype(np.float32) * s}
    for name, value in want.items():
        np.testing.assert_array_equal(got[name].astype(np.float32), value.astype(np.float32))
    autocomp.optimize(m, target="cuda:h200")
    got = autocomp.optimize(m, target="cpu", cache=False).run({"x": x, "s": s})
    for name, value in want.items():
        np.testing.assert_array_equal(got[name].astype(np.float32), value.astype(np.float32))


@pytest.mark.parametrize("kind", ["int4", "uint4"])
@pytest.mark.parametrize("shape, block", [((5, 3), 0), ((64, 33), 32), ((300, 501), 0)])
def test_constants_of_four_bits_are_dequantised(kind: str, shape: tuple[int, int], block: int, tmp_path) -> None:
    """Two elements a byte, of which the first is in the low bits; in the model, in its file and beside it."""
    dtype, code, rng = getattr(ml_dtypes, kind), getattr(TensorProto, kind.upper()), np.random.default_rng(0)
    w = rng.integers(*{"int4": (-8, 8), "uint4": (0, 16)}[kind], shape).astype(dtype)
    s = (rng.random((shape[0] // block, shape[1]) if block else shape[1:]) + 0.1).astype("f4")
    z, x = rng.integers(1, 7, s.shape).astype(dtype), rng.standard_normal((3, shape[0])).astype("f4")
    attrs = {"axis": 0, "block_size": block} if block else {"axis": 1}
    fixed = [helper.make_tensor("w", code, shape, w.astype("i4").flatten().tolist()),
             *(numpy_helper.from_array(v, name) for v, name in ((s, "s"), (z, "z")))]  # fmt: skip
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], **attrs), helper.make_node("MatMul", ["x", "d"], ["y"])]
    m = model(nodes, {"x": x}, "y", fixed)
    m.opset_import[0].version, m.ir_version = 21, 10
    spread = lambda v: np.repeat(v.astype("f8"), block, 0) if block else v.astype("f8")
    want = x.astype("f8") @ ((w.astype("f8") - spread(z)) * spread(s))
    onnx.save(m, tmp_path / "in.onnx")
    apart = onnx.ModelProto.FromString(m.SerializeToString())
    onnx.save(apart, tmp_path / "beside.onnx", save_as_external_data=True, size_threshold=0, location="w.bin")
    for source in (m, str(tmp_path / "in.onnx"), str(tmp_path / "beside.onnx")):
        got = evaluate(load_onnx(source), {"x": x})["y"]
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_a_quantisation_has_the_type_of_its_zero_point() -> None:
    """Also where the same constant is dequantised, and its numbers are all that matters there."""
    x, zero = np.array([-9, -3.9, 0.2, 9], "f4"), numpy_helper.from_array(np.zeros((), ml_dtypes.int4), "z")
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    m = model(nodes, {"x": x, "s": np.float32(0.5)}, "y", [zero])
    m.opset_import[0].version, m.ir_version = 21, 10
    np.testing.assert_array_equal(evaluate(load_onnx(m), {"x": x, "s": np.float32(0.5)})["y"], [-4, -4, 0, 3.5])
