"""Element types that the op table does not have: as codes they are read, rounded to, moved, and refused by other operators."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autocomp import optimize
from autocomp.errors import UnsupportedOp
from autocomp.frontends.onnx import load_onnx
from autocomp.frontends.onnx.data import CODED, Codes
from autocomp.ir.reference import evaluate
from autocomp.onnx_backend import prepare

TYPES = sorted(CODED.values(), key=lambda c: c.name)
NARROW = [c for c in TYPES if c.is_float and c.name != "float8e8m0"]
INTEGERS = [c for c in TYPES if not c.is_float]
named = lambda c: c.name


def codes_of(c: Codes) -> np.ndarray:
    """Each number of the type once, as codes."""
    if c.is_float:
        return np.arange(2**c.bits, dtype=np.uint8)
    low = -(2 ** (c.bits - 1)) if c.held.kind == "i" else 0
    return np.arange(low, low + 2**c.bits).astype(c.held.numpy)


def model(nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, tuple[int, ...]]], output: int, fixed=()) -> onnx.ModelProto:
    shown = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
    graph = helper.make_graph(nodes, "g", shown, [helper.make_tensor_value_info("y", output, None)], fixed)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=10)


def cast(c: Codes, to: int, n: int, source: int = TensorProto.FLOAT, **attrs: object) -> onnx.ModelProto:
    return model([helper.make_node("Cast", ["x"], ["y"], to=to, **attrs)], {"x": (source, (n,))}, to)


def near(c: Codes) -> np.ndarray:
    """f32 at and beside each number, each middle of two, and beyond the largest."""
    at = codes_of(c).view(c.numpy).astype("f8")
    at = np.unique(at[np.isfinite(at)])
    ends = np.concatenate([at, (at[:-1] + at[1:]) / 2, at[-1:] + (at[-1] - at[-2]) / 2, at[-1:] * 3]).astype("f4")
    ends = np.concatenate([ends, -ends])
    drawn = np.random.default_rng(0).standard_normal(500).astype("f4") * at.max().astype("f4")
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, -1e-30], "f4")
    return np.concatenate([ends, np.nextafter(ends, np.float32(np.inf)), np.nextafter(ends, np.float32(-np.inf)), drawn, odd])


@pytest.mark.parametrize("c", TYPES, ids=named)
def test_each_code_is_the_number_that_it_stands_for(c: Codes) -> None:
    codes = codes_of(c)
    program = optimize(cast(c, TensorProto.FLOAT, len(codes), c.number), target="cpu")
    want = c.array(codes).astype("f4")
    np.testing.assert_array_equal(program.run({"x": codes})["y"], want)


@pytest.mark.parametrize("saturate", [1, 0])
@pytest.mark.parametrize("c", NARROW, ids=named)
def test_a_float_is_rounded_once_and_to_the_even_of_two(c: Codes, saturate: int) -> None:
    """To the last code, NaN and the sign of zero among them."""
    x = near(c)
    with np.errstate(all="ignore"):
        limited = np.clip(x, *(np.float32(f(c.numpy)) for f in (_least, _most))) if saturate and c.bits == 8 else x
        want = limited.astype(c.numpy).view(np.uint8)
    got = optimize(cast(c, c.number, len(x), saturate=saturate), target="cpu").run({"x": x})["y"]
    np.testing.assert_array_equal(got, want)


def _most(t: np.dtype) -> float:
    at = np.arange(256, dtype=np.uint8).view(t).astype("f8")
    return float(at[np.isfinite(at)].max())


def _least(t: np.dtype) -> float:
    return -_most(t)


@pytest.mark.parametrize("saturate", [1, 0])
def test_a_power_of_two_is_not_less(saturate: int) -> None:
    (c,) = (c for c in TYPES if c.name == "float8e8m0")
    x = np.array([0, 2.0**-127, 2.0**-126, 1, 1.0000001, -3, 4, 2.0**127, 3e38, np.inf, np.nan], "f4")
    got = optimize(cast(c, c.number, len(x), saturate=saturate, round_mode="up"), target="cpu").run({"x": x})["y"]
    np.testing.assert_array_equal(got, [0, 0, 1, 127, 128, 129, 129, 254, 254 if saturate else 255, 255, 255])
    with pytest.raises(UnsupportedOp, match="round_mode 'nearest'"):
        load_onnx(cast(c, c.number, 3, round_mode="nearest"))


@pytest.mark.parametrize("c", INTEGERS, ids=named)
def test_an_integer_keeps_its_low_bits(c: Codes) -> None:
    x = np.arange(-300, 301, dtype=np.int32)
    n = 2**c.bits
    want = (x + (n // 2 if c.held.kind == "i" else 0)) % n - (n // 2 if c.held.kind == "i" else 0)
    (got,) = prepare(cast(c, c.number, len(x), TensorProto.INT32)).run([x])
    assert got.dtype == c.numpy
    np.testing.assert_array_equal(got.astype("i4"), want)


@pytest.mark.parametrize("c", NARROW + INTEGERS, ids=named)
def test_quantised_and_back(c: Codes) -> None:
    """Zero points of these types too; in between it is turned and cut."""
    rng = np.random.default_rng(1)
    x, s = rng.standard_normal((6, 5)).astype("f4") * 3, np.float32(0.375)
    zero = np.array(0 if c.is_float else 1, "f4").astype(c.numpy)
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]), helper.make_node("Transpose", ["q"], ["t"], perm=[1, 0]),
             helper.make_node("Slice", ["t", "one", "four"], ["c"]),
             helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"])]  # fmt: skip
    fixed = [numpy_helper.from_array(np.array(v), n) for n, v in (("z", zero), ("s", s), ("one", [1]), ("four", [4]))]
    m = model(nodes, {"x": (TensorProto.FLOAT, x.shape)}, TensorProto.FLOAT, fixed)
    if c.is_float:
        want = np.clip(x / s, _least(c.numpy), _most(c.numpy)).astype(c.numpy).astype("f4") * s
    else:
        codes = codes_of(c).astype("f4")
        want = (np.clip(np.rint(x / s) + 1, codes.min(), codes.max()) - 1) * s
    np.testing.assert_allclose(evaluate(load_onnx(m), {"x": x})["y"], want.T[1:4], rtol=1e-6)


@pytest.mark.parametrize("c", TYPES, ids=named)
def test_constants_are_packed(c: Codes) -> None:
    """As many elements a byte as find room, an odd number of them."""
    w = c.array(np.resize(codes_of(c), 37))
    at = np.arange(37, dtype="f4")
    nodes = [helper.make_node("Cast", ["w"], ["d"], to=TensorProto.FLOAT), helper.make_node("Where", ["b", "x", "d"], ["y"])]
    fixed = [numpy_helper.from_array(w, "w")]
    m = model(nodes, {"x": (TensorProto.FLOAT, (37,)), "b": (TensorProto.BOOL, (37,))}, TensorProto.FLOAT, fixed)
    got = evaluate(load_onnx(m), {"x": at, "b": np.zeros(37, bool)})["y"]
    np.testing.assert_array_equal(got.astype("f4"), w.astype("f4"))


@pytest.mark.parametrize("c", TYPES, ids=named)
def test_what_computes_with_them_is_refused(c: Codes) -> None:
    """By the type's name: bytes of codes are no numbers."""
    add = model([helper.make_node("Add", ["x", "x"], ["y"])], {"x": (c.number, (3,))}, c.number)
    both = model([helper.make_node("Concat", ["x", "u"], ["y"], axis=0)], {"x": (c.number, (3,)), "u": (TensorProto.UINT8, (3,))}, c.number)
    for m in (add, both):
        with pytest.raises(UnsupportedOp, match=f"element type {c.name} of operand 0 is not computed with"):
            load_onnx(m)


def test_through_the_standard_interface() -> None:
    (c,) = (c for c in TYPES if c.name == "float8e4m3fnuz")
    x = c.array(codes_of(c)).reshape(16, 16)
    m = model([helper.make_node("Reshape", ["x", "n"], ["y"])], {"x": (c.number, (16, 16))}, c.number,
              [numpy_helper.from_array(np.array([8, 32]), "n")])  # fmt: skip
    (got,) = prepare(m).run([x])
    assert got.dtype == c.numpy and got.shape == (8, 32)
    np.testing.assert_array_equal(got.view(np.uint8), x.reshape(8, 32).view(np.uint8))
