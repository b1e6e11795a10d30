"""The net over NumPy functions: fixed seeds are right, and errors planted in the tracer or in a result are noticed."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.frontends.tracing.registry import UFUNCS
from benchmarks.fuzz import metamorphic
from benchmarks.fuzz.numpy_functions import Case, Expected, Input, _Loops, check, draw, expected, problem, smaller
from tests.helpers.repeats import seeds

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("seed", seeds(range(20), 10))
def test_drawn_functions_are_numpys(seed):
    verdict = check(draw(seed))
    assert verdict.kind != "wrong", f"{verdict.detail}\n{draw(seed).text()}"


@pytest.mark.parametrize("seed", seeds(range(6), 3))
def test_two_ways_agree(seed):
    verdict = metamorphic.check(metamorphic.draw(seed))
    assert verdict.kind != "wrong", f"{verdict.detail}\n{metamorphic.draw(seed).text()}"


def test_a_seed_gives_one_case():
    assert [draw(s).text() for s in range(40)] == [draw(s).text() for s in range(40)]


SUM = Case((Input("x0", "f4", (3, 4), 1, False),), ("v0 = x0 + 1", "v1 = v0 * 2", "v2 = np.negative(v1)"), ("v2", "v0"))


def test_an_error_of_the_tracer_is_noticed_and_shrunk(monkeypatch):
    assert check(SUM).kind == "right"
    monkeypatch.setitem(UFUNCS, "multiply", UFUNCS["add"])
    assert check(SUM).kind == "wrong"
    assert len(next(c for c in smaller(SUM) if check(c).kind == "wrong").lines) < len(SUM.lines)


def test_an_error_in_one_element_is_noticed():
    def spoil(program):
        run = program.executor.run

        def wrong(feed):
            out = {n: v.copy() for n, v in run(feed).items()}
            out["out0"][1, 2] += np.float32(1e-3)
            return out

        program.executor.run = wrong

    assert check(SUM, spoil).kind == "wrong"


@pytest.mark.parametrize(("got", "own", "other", "right"), [
    (1.0, 1.0, 1.0, True), (np.nan, np.nan, 1.0, True), (np.nan, 1.0, 1.0, False), (np.inf, -np.inf, -np.inf, False),
    (1.0, np.inf, 1.0, True), (1.001, 1.0, 1.0, False), (1.001, 1.0, 1.0005, True), (np.inf, 3e38, 4e38, True),
    (-np.inf, 3e38, 4e38, False),
])  # fmt: skip
def test_what_is_allowed(got, own, other, right):
    want = Expected(np.array([own], "f4"), (np.array([other]),))
    assert (problem(np.array([got], "f4"), want) == "") == right


def test_integers_dtypes_and_shapes_are_exact():
    want = Expected(np.array([3]), (np.array([3]),))
    assert problem(np.array([4]), want)
    assert problem(np.array([3], "i4"), want)
    assert problem(np.array([[3]]), want)
    assert not problem(np.array([4]), Expected(np.array([3]), (np.array([5]),)))


@pytest.mark.parametrize("dtype", ["", ", dtype='f8'", ", dtype='f4'"])
def test_sums_of_integers_in_floating_point_may_cancel(dtype):
    """2^63 - 1 and -2^63 leave -1, or what an ulp of them is: 0 to 2,048 of nine, by the order."""
    x = np.array([-7, -7, 2**63 - 1, -5, -(2**63), 2, 2, -2, 5])
    case = Case((Input("x0", "i8", (9,), 0, False),), (f"v0 = np.mean(x0, axis=0{dtype})",), ("v0",))
    (want,) = expected(case, [x])
    for order in (x, x[::-1], np.sort(x)):
        assert not problem(np.mean(order, dtype=dtype[-3:-1] or None), want)
    assert problem(want.own.dtype.type(1e15 if "4" in dtype else 1e6), want)
    (want,) = expected(case, [np.arange(9)])
    assert problem(np.asarray(np.mean(np.arange(9))) * np.asarray(1 + 1e-4, want.own.dtype), want)


def test_either_zero_may_come_first_and_no_other_number():
    x = np.array([0.0, -0.0, 1, -1, 0.0, -0.0])
    case = Case((Input("x0", "f8", (6,), 0, False),), ("v0 = np.sort(x0, axis=0)", "v1 = np.signbit(v0)"), ("v0", "v1"))
    values, signs = expected(case, [x], range(24))
    for zeros in ([0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0]):
        assert not problem(np.array([True, *map(bool, zeros), False]), signs)
    assert problem(np.array([False, *[False] * 5]), signs)
    assert problem(np.array([-1, 0, 0, 0, 0, 1 + 1e-9]), values)


def test_products_by_loops_are_numpys():
    rng = np.random.default_rng(0)
    for a in (rng.standard_normal(s) for s in ((3,), (2, 3), (4, 2, 3))):
        for b in (rng.standard_normal(s) for s in ((3,), (3, 5), (2, 3, 5))):
            np.testing.assert_allclose(_Loops().dot(a, b), np.dot(a, b), rtol=1e-12)
            np.testing.assert_allclose(_Loops().inner(a, np.moveaxis(b, -1 if b.ndim == 1 else -2, -1)),
                                       np.inner(a, np.moveaxis(b, -1 if b.ndim == 1 else -2, -1)), rtol=1e-12)  # fmt: skip
    infinite, none = np.array([[np.inf], [1.0]]), np.zeros(1)
    np.testing.assert_array_equal(_Loops().tensordot(infinite, none), [np.nan, 0])


def test_variances_of_halves_do_not_overflow():
    x = np.array([0.0, 255, 0, 255, 255, 0], "f2")
    assert np.isinf(np.var(x))
    assert float(_Loops().var(x)) == pytest.approx(16256, rel=1e-2)
    assert float(_Loops().std(x)) == pytest.approx(127.5, rel=1e-2)
    y = np.random.default_rng(0).standard_normal((3, 5, 4))
    np.testing.assert_array_equal(_Loops().var(y, axis=1, ddof=1, keepdims=True), np.var(y, axis=1, ddof=1, keepdims=True))
    np.testing.assert_allclose(_Loops().var(y.astype("f2"), axis=1, ddof=1).astype("f8"), np.var(y.astype("f2"), axis=1, ddof=1), rtol=4e-3)
