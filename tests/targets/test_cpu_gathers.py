"""Gathers in C: their indices count every dimension, also where views of the same tensor lack those of one element."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import autocomp


def test_a_tensor_that_is_sliced_and_gathered_in_one_kernel():
    # a cubic resize reads its image [1, 1, 4, 4] at fixed lines and at computed ones; expected: onnxruntime's numbers
    resize = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 3, 3])
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 1, 3, 3])
    graph = helper.make_graph([resize], "g", [x], [y], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8)
    program = autocomp.optimize(model.SerializeToString(), target="cpu")
    got = program(np.arange(1, 17, dtype="f4").reshape(1, 1, 4, 4))
    want = [1.6307871, 3.0046299, 4.3784733, 7.1261587, 8.5, 9.873844, 12.621532, 13.995373, 15.369216]
    np.testing.assert_allclose(np.asarray(got).ravel(), want, rtol=1e-5)


@pytest.mark.parametrize("index", ["%1 = cast(%0, to=\"i64\")", "%9 = cast(%0, to=\"i64\")\n%1 = mod(%9, const(7, i64))"])
def test_an_index_made_of_a_comparison(index):
    """GCC 12 and 13 made a gather of the loop whose lanes had the mask of the comparison, -1, for an index of 1."""
    text = f"graph g\ninput t: f32[21]\ninput x: f32[21]\n%0 = le(x, const(0.0, f32))\n{index}\n%2 = gather(t, %1, axis=0)\noutput y = %2\n"
    program = autocomp.optimize(text, cache=False)
    t, x = np.arange(21, dtype="f4") + 1, np.where(np.arange(21) % 3, 1, -1).astype("f4")
    np.testing.assert_array_equal(program(t, x), t[(x <= 0).astype(int)])


TABLES = {"f32": "f4", "f16": "f2", "u8": "u1", "i32": "i4"}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_that_are_looked_up_come_in_vectors(kind, axis):
    """With a short last vector, indices from the end, and a map behind; where the looked-up axis is the last one, lane by lane."""
    shape = (9, 37) if axis == 0 else (37, 9)
    behind = "%1 = neg(%0)" if kind in ("f32", "f16") else "%1 = max(%0, %0)"
    text = f"graph g\ninput t: {kind}{list(shape)}\ninput at: i64[11]\n%0 = gather(t, at, axis={axis})\n{behind}\noutput y = %1\n"
    program = autocomp.optimize(text, target="cpu", cache=False, threads=1)
    rng = np.random.default_rng(3)
    t = rng.integers(0, 200, shape).astype(TABLES[kind])
    at = np.array([0, 8, -1, 3, 3, -9, 5, 1, 7, -2, 4])
    want = np.take(t, at, axis)
    got = program(t, at)
    np.testing.assert_array_equal(got, -want if kind in ("f32", "f16") else want)
    loads = [line for line in program.source().splitlines() if "ac_place(" in line and "_load" in line]
    assert len(loads) == (2 if axis == 0 else 0)


def test_rows_of_rows_are_looked_up():
    """The row's number is an element of another row; the last index begins behind the row's first element."""
    text = ("graph g\ninput t: f32[7, 40]\ninput first: i64[5]\ninput at: i64[6]\n"
            "%0 = gather(first, at, axis=0)\n%1 = gather(t, %0, axis=0)\n"
            "%2 = slice(%1, starts=[0, 3], limits=[6, 38], steps=[1, 1])\noutput y = %2\n")  # fmt: skip
    program = autocomp.optimize(text, target="cpu", cache=False, threads=1)
    t, first, at = np.random.default_rng(1).standard_normal((7, 40)).astype("f4"), np.array([6, 0, 3, 1, -1]), np.array([4, 0, 2, 2, 1, -3])
    np.testing.assert_array_equal(program(t, first, at), t[first[at]][:, 3:38])


def test_elements_that_are_looked_up_are_stored_where_they_are_read():
    """Not put into an array of which a vector waits for all of its elements."""
    text = "graph g\ninput t: f32[13, 70]\ninput at: i64[13, 8]\n%0 = gather_elements(t, at, axis=1)\noutput y = %0\n"
    rng = np.random.default_rng(2)
    t, at = rng.standard_normal((13, 70)).astype("f4"), rng.integers(-70, 70, (13, 8))
    program = autocomp.optimize(text, target="cpu", cache=False, threads=1)
    np.testing.assert_array_equal(program(t, at), np.take_along_axis(t, at % 70, 1))
    assert "aligned(64)" not in program.source().split("void k_")[1]
