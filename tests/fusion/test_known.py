"""Tests that an enclosing choice decides are gone from kernels; loads keep the guards that keep them inside their tensor."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.egraph.known import use_known
from autocomp.egraph.merge import merge_axes
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Const, Contract, Index, Inside, Load, Map, Reduce, postorder
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.types import F32, TensorType
from tests.helpers.device_graphs import GRAPHS, graph


def kernel(text, target="cuda:h200"):
    (call,) = autocomp.optimize(text, target=target, cache=False).calls.calls
    return call.kernel


def parts(k, kind):
    return [e for s in k.stores for e in postorder(s.value) if isinstance(e, kind)]


def test_both_halves_of_a_byte_are_read_at_once_and_without_a_guard():
    """Nibbles interleaved by concat: each half's reads were guarded by the choice that already took them."""
    k = kernel(GRAPHS["row_int4"])
    loads = parts(k, Load)
    assert all(not e.guard for e in loads)
    assert len(parts(k, Inside)) == 1


def test_a_guard_stays_where_the_load_would_leave_its_tensor():
    k = kernel(graph({"x": "f32[8, 5]", "y": "f32[8, 7]"}, "%0 = concat(x, y, axis=1)\n%1 = exp(%0)"))
    assert all(e.guard for e in parts(k, Load))


# ---- bodies by hand: where one more or one less decides
R = Axis("r", 5)


def chosen(length: int, taken: Aff, guard: Aff) -> Kernel:
    """y[r] = where(taken, x[r] if guard, 0) over r:5, x of that length."""
    load = Load(F32, "x", (aff("r"),), (guard,))
    value = Map(F32, "where", (Inside.of((taken,)), load, Const(F32, 0.0)))
    args = Arg("x", TensorType(F32, (length,))), Arg("y", TensorType(F32, (5,)))
    return Kernel("k", "E", (R,), args[:1], args[1:], (Store("y", (aff("r"),), value),), "k")


@pytest.mark.parametrize(("length", "guard", "left"), [
    (5, 3 - aff("r"), 0),  # the choice says it
    (5, 2 - aff("r"), 1),  # the choice says one less: row 3 would be read, not zero
    (4, 3 - aff("r"), 1),  # it says it, but whoever reads whichever side is taken would leave x at row 4
])  # fmt: skip
def test_one_element_more_keeps_the_guard(length, guard, left):
    (load,) = parts(use_known(chosen(length, 3 - aff("r"), guard)), Load)
    assert len(load.guard) == left


def test_axes_merge_unless_a_guard_tells_them_apart():
    """x[a, b] over a:3 b:4 is one axis of 12, but not where only b < 3 is read."""

    def kernel_of(*guard: Aff) -> Kernel:
        index = (aff("a"), aff("b"))
        args = Arg("x", TensorType(F32, (3, 4))), Arg("y", TensorType(F32, (3, 4)))
        return Kernel("k", "E", (Axis("a", 3), Axis("b", 4)), args[:1], args[1:], (Store("y", index, Load(F32, "x", index, guard)),), "k")

    merged, kept = merge_axes(kernel_of()), merge_axes(kernel_of(2 - aff("b")))
    assert [a.extent for a in merged.axes] == [12] and merged.inputs[0].type.shape == (12,)
    assert kept == kernel_of(2 - aff("b"))


@pytest.mark.parametrize(("height", "axes"), [(7, [2, 3, 42]), (6, [2, 3, 2, 21])])
def test_what_walks_the_same_memory_in_other_axes_merges_too(height, axes):
    """Groups of 2 channels of [2, 6, 7, 3], each element by the sum of its group; not where the sum leaves out the last row of places."""
    at = lambda c, h, w: (aff("n"), 2 * aff("g") + aff(c), aff(h), aff(w))
    own = [Axis("n", 2), Axis("g", 3), Axis("c", 2), Axis("h", 7), Axis("w", 3)]
    over = (Axis("d", 2), Axis("i", height), Axis("j", 3))
    shape = TensorType(F32, (2, 6, 7, 3))
    value = Map(F32, "add", (Load(F32, "x", at("c", "h", "w")), Reduce(F32, "sum", over, (Load(F32, "x", at("d", "i", "j")),))))
    merged = merge_axes(Kernel("k", "S", tuple(own), (Arg("x", shape),), (Arg("y", shape),), (Store("y", at("c", "h", "w"), value),), "k"))
    assert [a.extent for a in merged.axes] == axes
    (fold,) = parts(merged, Reduce)
    assert [a.extent for a in fold.axes] == ([42] if height == 7 else [2, 18])


@pytest.mark.parametrize(("outer", "inner", "one"), [(9, 1, True), (11, 1, False), (18, 2, True), (9, 2, False)])
def test_two_axes_that_walk_one_dimension_are_one(outer, inner, one):
    """y[outer i + inner h] = x[i, h] over h:9: the inner axis walks the steps of the outer one, or rows lie apart."""
    x, place = Load(F32, "x", (aff("i"), aff("h"))), aff("i") * outer + aff("h") * inner
    args = Arg("x", TensorType(F32, (5, 9))), Arg("y", TensorType(F32, (200,)))
    k = merge_axes(Kernel("k", "E", (Axis("i", 5), Axis("h", 9)), args[:1], args[1:], (Store("y", (place,), x),), "k"))
    assert [a.extent for a in k.axes] == ([45] if one else [5, 9])
    assert k.stores[0].index == ((aff("i") * inner,) if one else (place,))


@pytest.mark.parametrize(("place", "one"), [(9 * aff("i") + aff("h"), True), (aff("i") + 5 * aff("h"), False), (aff("h"), False)])
def test_an_index_that_is_a_value_walks_with_the_axes(place, one):
    """y[i, h] = x[i, h] + (9 i + h) over i:5 h:9 is one axis of 45; a value of other steps keeps them apart."""
    at = (aff("i"), aff("h"))
    args = Arg("x", TensorType(F32, (5, 9))), Arg("y", TensorType(F32, (5, 9)))
    value = Map(F32, "add", (Load(F32, "x", at), Index(F32, place)))
    k = merge_axes(Kernel("k", "E", (Axis("i", 5), Axis("h", 9)), args[:1], args[1:], (Store("y", at, value),), "k"))
    assert [a.extent for a in k.axes] == ([45] if one else [5, 9])
    assert parts(k, Index) == [Index(F32, aff("i") if one else place)]


def test_columns_of_a_product_that_a_view_splits_are_one_axis():
    """y[i, g, c] = sum over k of x[i, k] w[k, 6 g + c]: tiles need not end where a group of columns does. A window's taps stay apart."""
    text = graph({"x": "f32[40, 24]", "w": "f32[24, 30]"}, "%0 = matmul(x, w)\n%out = reshape(%0, shape=[40, 5, 6])")
    assert [a.extent for a in kernel(text).axes] == [40, 30]
    window = (
        "graph g\ninput x: f32[2, 8, 9, 16]\nparam w: f32[8, 3, 3, 16] = random(1)\n"
        '%0 = conv(x, w, strides=[1, 1], lo=[0, 0], hi=[0, 0], dilations=[1, 1], groups=1, layout="nhwc_ohwi")\noutput o = %0\n'
    )
    (taps,) = parts(kernel(window), Contract)
    assert [a.extent for a in taps.axes] == [3, 3, 16]


def test_weights_that_become_a_matrix_are_one_run():
    text = "graph g\ninput w: f32[11, 63, 3, 3]\n%0 = reshape(w, shape=[1, 11, 567, 1])\n%1 = neg(%0)\noutput o = %1\n"
    assert [a.extent for a in kernel(text, "ascend:950pr").axes] == [11 * 63 * 9]
