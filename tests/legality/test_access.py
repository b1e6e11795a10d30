"""Access maps through isl: simplest forms, and accesses that stay in their buffers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autocomp.ir.affine import Aff, FloorDiv, Mod, aff
from autocomp.ir.body import Axis, Inside, Load, Map
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.types import BOOL, F32, Sym, TensorType
from autocomp.loops import access as q
from autocomp.loops.bounds import check_accesses, check_kernel_graph_accesses
from tests.helpers.nests import matmul, scan, softmax, stencil, tensor

a, b, h, d = (aff(x) for x in "abhd")


def test_reshape_of_reshape_is_the_identity() -> None:
    axes = (("h", 12), ("d", 64))
    assert str(q.simplest(Aff(((FloorDiv(64 * h + d, 64), 1),)), (), axes)) == "h"
    assert str(q.simplest(Aff(((Mod(64 * h + d, 64), 1),)), (), axes)) == "d"
    assert q.minimal_guard((127 - d,), axes) == ()


def test_divisions_of_divisions_are_one() -> None:
    axes = (("a", 4), ("b", 6))
    assert str(q.simplest(Aff(((Mod(Aff(((Mod(6 * a + b, 8), 1),)), 4), 1),)), (), axes)) == "((2*a + b) mod 4)"


def test_guards_that_others_imply_are_dropped_and_help_to_simplify() -> None:
    axes = (("a", 30), ("b", 8))
    guard = q.minimal_guard((7 - a - b, 20 - a), axes)
    assert len(guard) == 1
    assert str(q.simplest((a + b) // 8, guard, axes)) == "0"


@pytest.mark.parametrize("seed", range(40))
def test_the_simplest_form_keeps_the_meaning(seed: int) -> None:
    from random import Random
    rng = Random(seed)
    extent = {"a": rng.randint(1, 7), "b": rng.randint(1, 9)}
    axes = tuple(extent.items())
    e = a * rng.randint(-3, 9) + b * rng.randint(-2, 5) + rng.randint(-4, 9)
    e = rng.choice((lambda x: x // 4, lambda x: x % 6, lambda x: (x // 3) % 5, lambda x: (x % 12) // 4))(e) + a
    guard = (a * rng.randint(-1, 1) + b * rng.randint(-1, 1) + rng.randint(-1, 5),)
    kept = q.minimal_guard(guard, axes)
    new = q.simplest(e, kept, axes)
    for x in range(extent["a"]):
        for y in range(extent["b"]):
            at = {"a": x, "b": y}
            inside = guard[0].eval(at) >= 0
            assert inside == all(g.eval(at) >= 0 for g in kept)
            assert not inside or e.eval(at) == new.eval(at), (str(e), str(new), at)


def test_bounds_name_the_iteration() -> None:
    axes = (("a", 4), ("b", 3))
    window = 2 * a + b - 1
    assert q.bounds((window,), (window,), axes, (8,))
    assert "iteration [a=0, b=0] reads or writes [-1] of a buffer of shape [8]" in q.bounds((window,), (), axes, (8,)).why
    n = Sym("N", 1, 4096)
    assert q.bounds((a,), (), (("a", n),), (n,))
    assert "with N=" in q.bounds((a + 1,), (), (("a", n),), (n,)).why
    with pytest.raises(q.OutOfBounds, match=r"add_1: iteration \[a=0, b=0\]"):
        q.require_in_bounds((window,), (), axes, (8,), "add_1")


def test_every_access_of_a_kernel_is_checked() -> None:
    for kernel in (matmul(), softmax(), stencil(40, 5), scan(8, 4)):
        check_accesses(kernel)
    i = aff("i")
    t = tensor(8)

    def shifted(value: Load | Map) -> Kernel:
        store = Store("out0", (i,), value)
        return Kernel("shift", "E", (Axis("i", 8),), (Arg("in0", t),), (Arg("out0", t),), (store,), str(id(value)))
    past = Load(F32, "in0", (i + 1,))
    with pytest.raises(q.OutOfBounds, match=r"shift: in0\[i \+ 1\]: iteration \[i=7\] reads or writes \[8\]"):
        check_accesses(shifted(past))
    with pytest.raises(q.OutOfBounds, match="shift"):
        check_kernel_graph_accesses(SimpleNamespace(calls=(SimpleNamespace(kernel=shifted(past)),)))
    check_accesses(shifted(Load(F32, "in0", (i + 1,), (6 - i,))))
    check_accesses(shifted(Map(F32, "where", (Inside(BOOL, (6 - i,)), past, Load(F32, "in0", (i,))))))


@pytest.mark.parametrize(("shift", "good"), [(5, True), (4, False), (6, False)])
def test_the_other_side_of_a_choice_begins_where_the_first_one_ends(shift: int, good: bool) -> None:
    """where(r < 5, x[r], y[r - shift]) over r:12, y of 7: exactly the rows from 5 on are read of y."""
    r = aff("r")
    value = Map(F32, "where", (Inside.of((4 - r,)), Load(F32, "x", (r,)), Load(F32, "y", (r - shift,))))
    k = Kernel("k", "E", (Axis("r", 12),), (Arg("x", TensorType(F32, (5,))), Arg("y", TensorType(F32, (7,)))),
               (Arg("out0", TensorType(F32, (12,))),), (Store("out0", (r,), value),), "k")  # fmt: skip
    if good:
        check_accesses(k)
    else:
        with pytest.raises(q.OutOfBounds):
            check_accesses(k)
