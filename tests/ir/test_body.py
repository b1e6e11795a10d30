"""Bodies: equal expressions are one object, substitution and renaming keep meaning, index maps simplify."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocomp.errors import ModelError
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Const, Contract, Map, Prev, Read, Recurrence, Reduce, bound_axes, rename_bound, substitute
from autocomp.ir.body_meaning import evaluate_comprehension
from autocomp.ir.checks import check_graph, check_kernel
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.node import Attrs, Graph, make
from autocomp.ir.ops import OPS
from autocomp.ir.types import F32, F64, TensorType

X = np.arange(12.0).reshape(3, 4)


def x(*index: object) -> Read:
    return Read(F64, 0, tuple(aff(i) for i in index))  # type: ignore[arg-type]


def test_equal_expressions_are_one_object():
    assert Map(F64, "exp", (x("i", "j"),)) is Map(F64, "exp", (x("i", "j"),))
    assert Const(F64, 1) is not Const(F64, 1.0)
    assert Const(F64, 0.0) is not Const(F64, -0.0)


def test_substitution_composes_index_maps():
    moved = substitute(x("i", "j"), {"i": aff("a") // 2, "j": aff("b") * -1 + 3})
    got = evaluate_comprehension((Axis("a", 6), Axis("b", 4)), moved, [X])
    np.testing.assert_array_equal(got, np.repeat(X, 2, 0)[:, ::-1])


@pytest.mark.parametrize(
    "value",
    [
        Reduce(F64, "sum", (Axis("r", 4),), (x("i", "r"),)),
        Contract(F64, (Axis("r", 4),), x("i", "r"), x("i", "r")),
        Recurrence(
            F64,
            Axis("t", 4),
            (Axis("s", 3),),
            Const(F64, 0.0),
            Map(F64, "add", (Prev(F64, (aff("s"),)), x("s", "t"))),
            (aff("i"),),
        ),
    ],
)
def test_renaming_bound_axes_keeps_the_meaning(value):
    renamed = rename_bound(value, lambda n: f"{n}_fresh")
    assert {a.name for a in bound_axes(renamed)} == {f"{a.name}_fresh" for a in bound_axes(value)}
    axes = (Axis("i", 3),)
    np.testing.assert_array_equal(evaluate_comprehension(axes, renamed, [X]), evaluate_comprehension(axes, value, [X]))


def test_a_recurrence_can_give_every_state():
    step = Map(F64, "add", (Prev(F64, (aff("s"),)), x("s", "t")))
    value = Recurrence(F64, Axis("t", 4), (Axis("s", 3),), Const(F64, 0.0), step, (aff("i"),), aff("k"))
    got = evaluate_comprehension((Axis("i", 3), Axis("k", 5)), value, [X])
    np.testing.assert_array_equal(got, np.concatenate([np.zeros((3, 1)), np.cumsum(X, 1)], 1))


def test_reads_outside_a_tensor_are_reported():
    with pytest.raises(ModelError, match=r"index 1 \+ i|index i \+ 1"):
        evaluate_comprehension((Axis("i", 3),), x(aff("i") + 1, 0), [X])


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 12), st.integers(1, 12), st.data())
def test_simplify_keeps_values(sizes, den, outer, data):
    names = [f"a{k}" for k in range(len(sizes))]
    extents = dict(zip(names, sizes))
    coefs = data.draw(st.lists(st.integers(-12, 12), min_size=len(sizes), max_size=len(sizes)))
    num: Aff = sum((aff(n) * c for n, c in zip(names, coefs)), aff(data.draw(st.integers(-20, 20))))
    for a in (num // den, num % den, (num // den) % outer, (num % den) // outer):
        grid = dict(zip(names, np.indices(sizes)))
        full = lambda v: np.broadcast_to(v, sizes)
        np.testing.assert_array_equal(full(a.simplify(extents).eval(grid)), full(a.eval(grid)))
        lo, hi = a.range(extents)
        assert lo <= np.min(a.eval(grid))
        assert np.max(a.eval(grid)) <= hi


def test_reshape_that_splits_evenly_needs_no_division():
    t, out = TensorType(F32, (6, 8)), TensorType(F32, (2, 3, 2, 4))
    comp = OPS["reshape"].comprehension((t,), Attrs({"shape": out.shape}), out)  # type: ignore[misc]
    assert all(i.is_affine for i in comp.value.index)  # type: ignore[attr-defined]


def _kernel(axes, store_index, load_index, tensor="in0"):
    from autocomp.ir.body import Load

    t = TensorType(F32, (3, 4))
    value = Load(F32, tensor, tuple(aff(i) for i in load_index))
    store = Store("out0", tuple(aff(i) for i in store_index), value)
    return Kernel("k", "E", axes, (Arg("in0", t),), (Arg("out0", t),), (store,), "sig")


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (_kernel((Axis("i", 3), Axis("i", 4)), "ii", "ii"), "axis names repeat: i, i"),
        (_kernel((Axis("i", 3), Axis("j", 4)), "i", "ij"), "stores out0 with 1 indices for rank 2"),
        (_kernel((Axis("i", 3), Axis("j", 4)), "ij", "i"), "loads in0 with 1 indices"),
        (_kernel((Axis("i", 3), Axis("j", 4)), "ij", "ij", "in7"), "loads in7 with 2 indices"),
    ],
)
def test_broken_kernels_are_named(kernel, text):
    with pytest.raises(ModelError) as e:
        check_kernel(kernel)
    assert text in str(e.value)


def test_broken_graphs_are_named():
    n = make("input", (), TensorType(F32, (3,)), {"name": "x"})
    wrong = make("exp", (n,), TensorType(F32, (4,)))
    unknown = make("frobnicate", (n,), TensorType(F32, (3,)))
    lost = make("param", (), TensorType(F32, (3,)), {"name": "w"})
    for node, text in (
        (wrong, "has type f32[4], its rule gives f32[3]"),
        (unknown, "'frobnicate' is not in the op table"),
        (lost, "parameter 'w' has no data"),
    ):
        with pytest.raises(ModelError) as e:
            check_graph(Graph("g", (n,), (("y", node),)))
        assert text in str(e.value)
