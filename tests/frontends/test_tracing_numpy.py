"""Every function that the traced front end claims of NumPy, over every dtype, at special values: dtype, shape and values are NumPy's own.
What differs on purpose is in docs/differences.md and tests/frontends/test_differences.py."""

from __future__ import annotations

import operator
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError
from autocomp.frontends.tracing.registry import UFUNCS
from tests.helpers.numpy_values import KINDS, difference, pairs, traced, values

UNARY, BINARY = ([n for n in sorted(UFUNCS) if isinstance(f := getattr(np, n, None), np.ufunc) and f.nin == k and f.signature is None
                  and f.nout == 1] for k in (1, 2))  # fmt: skip
EITHER_ZERO = {"maximum", "minimum", "fmax", "fmin", "sign", "sort"}  # NumPy's own loops differ in the sign of zero
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def compare(name, fn, args, problems, zeros=True, run=traced):
    """Notes how a function differs from NumPy; refusing what NumPy refuses is right."""
    try:
        want = fn(*args)
    except Exception:
        with pytest.raises(Exception):  # noqa: B017
            run(fn, *args)
        return
    try:
        got = run(fn, *args)[0]
    except AutocompError as e:
        problems.append(f"{name}: refused: {e.what}")
        return
    if text := difference(got, want, zeros):
        problems.append(f"{name}: {text}")


@pytest.mark.parametrize("kind", KINDS)
def test_ufuncs_are_numpys(kind):
    problems: list[str] = []
    for name in UNARY:
        x = values(kind)
        x = x[x != 0] if name == "reciprocal" and x.dtype.kind in "iu" else x
        compare(name, getattr(np, name), (x,), problems, name not in EITHER_ZERO)
    x, y = pairs(kind, kind)
    for name in BINARY:
        args = (x, np.abs(y)) if name == "power" and x.dtype.kind == "i" else (x, y)
        args = (x[args[1] >= 0], args[1][args[1] >= 0]) if name == "power" and x.dtype.kind == "i" else args
        compare(name, getattr(np, name), args, problems, name not in EITHER_ZERO)
    assert not problems


NUMBERS = (True, 2, 0, -1, 300, 2.5, -0.0, float("inf"), float("nan"), 70000, 2**31, np.float32(1.5), np.int8(3), np.float64(0.1))
SOME = ("add", "floor_divide", "less", "not_equal", "multiply", "left_shift", "arctan2", "hypot", "logical_and", "true_divide")


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_beside_arrays_are_weak_as_numpys(kind):
    problems: list[str] = []
    for name, number in product(SOME, NUMBERS):
        f = getattr(np, name)
        compare(f"{name} x {number!r}", lambda x, f=f, n=number: f(x, n), (values(kind),), problems)
        compare(f"{name} {number!r} x", lambda x, f=f, n=number: f(n, x), (values(kind),), problems)
    for k, number in product((1, 2), (-1, -2, 3)):
        compare("power", lambda x, k=k, n=number: np.power(*((x, n) if k == 1 else (n, np.abs(x) % 3))), (values(kind)[:6],), problems)
    assert not problems


@pytest.mark.parametrize("kind", KINDS)
def test_dtypes_of_two_operands_are_numpys(kind):
    problems: list[str] = []
    for other, name in product(KINDS, ("add", "less", "true_divide", "maximum", "bitwise_xor", "greater_equal")):
        compare(f"{name} {kind} {other}", getattr(np, name), pairs(kind, other), problems, name != "maximum")
    assert not problems


# ---- functions; x is [3, 4]
FUNCTIONS = {
    "sum": lambda x: (x.sum(), x.sum(0), np.sum(x, (0, 1), keepdims=True), x.sum(1, dtype="f4"), x.sum(1, dtype="i8")),
    "prod": lambda x: np.prod(x, -1), "extremes": lambda x: (x.max(1), np.min(x, axis=0)), "any": lambda x: (np.any(x, 0), x.all(1)),
    "mean": lambda x: (x.mean(0), np.mean(x, 1, dtype="f4")), "average": lambda x: np.average(x, 0),
    "weights along an axis": lambda x: (np.average(x, 0, weights=np.array([1, 2, 3])), np.average(x, 1, weights=np.array([1.0, 2, 3, 4]))),
    "var": lambda x: (np.var(x, 0), x.var(1, ddof=1), np.std(x), np.var(x, (0, 1), keepdims=True), np.var(x, 0, ddof=3)),
    "var of too few": lambda x: (np.var(x, 0, ddof=5), np.var(x[:1], 0), np.std(x[:1, :1], 0)),
    "var in f4": lambda x: np.var(x, 0, dtype="f4"),
    "arg": lambda x: (x.argmax(1), np.argmin(x), np.argmax(x, 0, keepdims=True)),
    "running": lambda x: (np.cumsum(x, 1), x.cumsum(), np.cumprod(x, 0), np.cumulative_sum(x, axis=0)),
    "counts": lambda x: (np.count_nonzero(x, axis=1), np.trace(x), np.trace(x, 1)),
    "norm": lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=0), np.linalg.norm(x, 1, axis=1), np.linalg.norm(x, np.inf, axis=1)),
    "round": lambda x: (np.rint(x), np.nan_to_num(x), np.nan_to_num(x, nan=1, posinf=2, neginf=3)),
    "isclose": lambda x: (np.isclose(x, x[0]), np.isclose(x, 2), np.isclose(x, x, equal_nan=True), np.isclose(x[0], x)),
    "sort": lambda x: (np.sort(x, 1), np.sort(x, axis=0)),
    "triangles": lambda x: (np.tril(x), np.triu(x, 1), np.diag(x), np.diag(x[0], -1)),
    "diff": lambda x: (np.diff(x), np.diff(x, 2, axis=0)), "clip": lambda x: (np.clip(x, 0.5, 2.5), x.clip(1), np.clip(x, 3, 1)),
    "take": lambda x: (np.take(x, [0, -1, 1], axis=1), np.take(x, [3, -2]), np.take_along_axis(x, np.argmax(x, 1, keepdims=True), 1)),
    "repeat": lambda x: (np.repeat(x, 2, axis=0), np.repeat(x, [1, 0, 2], axis=0), np.tile(x, (2, 0, 1)), np.roll(x, (1, -2), (0, 1))),
    "pad": lambda x: (np.pad(x, 1), np.pad(x, ((1, 0), (0, 2)), constant_values=3), np.pad(x, 1, constant_values=2.7),
                      np.pad(x, 1, "edge")),
    "join": lambda x: (np.concatenate([x, x.astype("f8")], 0), np.concatenate([x, x], None), np.stack([x, x], -1), np.vstack([x, x[0]])),
    "like": lambda x: (np.zeros_like(x), np.full_like(x, 2.7), np.full_like(x, 3, dtype="i2"), np.ones_like(x, dtype=float)),
    "where": lambda x: (np.where(x, x, 0), np.where(x > 1, x, 0.5), np.where(x > 1, 2, x)),
    "views": lambda x: (x[::-1, 1::2], x[None, ..., -1], x[[0, 2, -1]], x[[0, 1], [1, -1]], x[3:1], x[1:][::-1].T[1:], x.ravel()[::3]),
    "names of dtypes": lambda x: (x.astype("i8"), x.astype("u8"), x.astype("f4"), x.astype("f8"), x.astype(int), x.astype(bool)),
    "computed in": lambda x: (np.add(x, x, dtype="f8"), np.add.reduce(x, axis=1, dtype="f8"), np.multiply.outer(x[0], x[1])),
    "reduced": lambda x: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.add.accumulate(x, axis=1), np.logical_and.reduce(x)),
    "asks its dtype": lambda x: x * 3 if x.dtype == np.float32 or np.issubdtype(x.dtype, np.integer) else x + np.ones(4, x.dtype),
    "parts": lambda x: (np.unstack(x)[1], np.split(x, 2, axis=1)[1], *np.array_split(x, 2), np.matrix_transpose(x)),
}  # fmt: skip
TWO = {
    "matmul": lambda x, y: (x @ y, x @ y[:, 0], x[0] @ y, x[0] @ y[:, 0]), "outer": lambda x, y: np.outer(x[0], y[0]),
    "tensordot": lambda x, y: (np.tensordot(x, y, 1), np.tensordot(x, y, ([0], [1])), np.inner(x, y.T)),
    "einsum": lambda x, y: (np.einsum("ij,jk->ik", x, y), np.einsum("ij->j", x)), "vecdot": lambda x, y: np.vecdot(x, y.T[:1]),
    "convolve": lambda x, y: (np.convolve(x[0], y[:3, 0]), np.convolve(x[0], y[:2, 0], "same"), np.convolve(x.ravel(), y[:, 0], "same"),
                              np.convolve(y[:3, 0], x.ravel(), "same"), np.convolve(x.ravel(), y[:, 0], "valid")),
}  # fmt: skip
NO_BF16 = {"norm", "clip", "var in f4", "names of dtypes", "round", "einsum"}  # NumPy has them in other dtypes or not at all


def one_by_one(table, arrays, problems, run=traced):
    for name, fn in table.items():
        if name in NO_BF16 and arrays[0].dtype == ml_dtypes.bfloat16:
            continue
        try:
            want = fn(*arrays)
        except Exception:
            continue  # e.g. differences of bools
        try:
            got = run(fn, *arrays)
        except AutocompError as e:
            problems.append(f"{name}: refused: {e.what}")
            continue
        for k, (g, w) in enumerate(zip(got, want if isinstance(want, tuple) else (want,), strict=True)):
            if text := difference(g, w, name not in EITHER_ZERO):
                problems.append(f"{name} ({k}): {text}")


@pytest.mark.parametrize("kind", KINDS)
def test_functions_are_numpys(kind):
    problems: list[str] = []
    rng = np.random.default_rng(1)
    plain = values(kind)[np.isfinite(values(kind).astype("f8")) & (np.abs(values(kind).astype("f8")) <= 100)]
    ends = plain if kind == "bool" else values(kind)[rng.permutation(values(kind).size)]
    for v in (plain, ends if ends.dtype.kind in "iub" else plain):
        x = v[rng.integers(0, v.size, (3, 4))]
        one_by_one({k: f for k, f in FUNCTIONS.items() if k != "names of dtypes" or kind[0] in "iub"}, (x,), problems)
    small = [rng.integers(0 if kind[0] in "bu" and kind != "bf16" else -4, 5, s).astype(x.dtype) for s in ((3, 4), (4, 2))]
    one_by_one({k: f for k, f in TWO.items() if kind != "bool" or k in ("matmul", "outer", "vecdot")}, small, problems)
    if kind[0] in "iu":
        one_by_one(TWO, [values(kind)[rng.integers(0, values(kind).size, s)] for s in ((3, 4), (4, 2))], problems)
    assert not problems


@pytest.mark.parametrize("kind", ["i8", "u32", "f16", "f32", "bool"])
def test_compiled_ufuncs_are_numpys(kind):
    """All of them in one program: fused, where they can be."""
    x, y = pairs(kind, kind)
    y = np.abs(y) if x.dtype.kind == "i" else y
    keep = y >= 0
    x, y = (x[keep], y[keep]) if x.dtype.kind == "i" else (x, y)
    calls = [(n, (0,)) for n in UNARY if n != "reciprocal" or x.dtype.kind == "f"] + [(n, (0, 1)) for n in BINARY]
    want = {}
    for name, at in calls:
        try:
            want[name] = getattr(np, name)(*((x, y)[k] for k in at)), at
        except TypeError:
            continue
    program = autocomp.optimize(lambda x, y: {n: getattr(np, n)(*((x, y)[k] for k in at)) for n, (_, at) in want.items()},
                                example_inputs=(x, y), target="cpu")  # fmt: skip
    got = program.run({"x": x, "y": y})
    problems = {n: difference(got[n], w, n not in EITHER_ZERO) for n, (w, _) in want.items()}
    assert not {n: p for n, p in problems.items() if p}


# ---- what was wrong once
def compiled(fn, *args):
    program = autocomp.optimize(fn, example_inputs=args, target="cpu")
    got = program.run(dict(zip([n.attrs["name"] for n in program.graph.inputs], args)))
    return [got[n] for n, _ in program.graph.outputs]


def test_a_fused_power_of_integers_wraps():
    for kind in ("i1", "i4", "i8", "u1", "u4"):
        x = np.arange(-20 if kind[0] == "i" else 0, 60).astype(kind)
        fn = lambda x: (x**13 // 3, x**13 > 0, (x**9).astype("f8") * 0.5)
        for g, w in zip(compiled(fn, x), fn(x)):
            np.testing.assert_array_equal(g, w)


def test_the_way_over_an_integer_is_gone():
    """2.7 -> 2 -> 2.0, -0.5 -> 0 -> 0.0 without a sign, 3e9 -> the least integer of 32 bits as a float."""
    x = np.array([2.7, -2.7, -0.5, -0.0, 3e9, -3e9, 1e30, np.nan, np.inf], np.float32)
    fn = lambda x: (x.astype("i4").astype("f4"), 1 / x.astype("i8").astype("f4"), (x.astype("i2") + 1).astype("f4") * 2)
    for g, w in zip(compiled(fn, x), fn(x)):
        np.testing.assert_array_equal(g, w)
        np.testing.assert_array_equal(np.signbit(g), np.signbit(w))


def test_casts_in_a_row_are_each_done():
    x = values("f64")
    x = x[np.isfinite(x) & (np.abs(x) < 60000)]
    kinds = ("i1", "u1", "i4", "f2", "f4", "?")
    fn = lambda x: [x.astype(a).astype(b) for a, b in product(kinds, kinds)]
    for g, w, pair in zip(compiled(fn, np.abs(x) % 100), fn(np.abs(x) % 100), product(kinds, kinds)):
        assert not difference(g, w), pair


@pytest.mark.parametrize("fn", [
    lambda x: x.transpose(0, 5), lambda x: x.swapaxes(0, 2), lambda x: np.moveaxis(x, (0, 0), (0, 1)), lambda x: np.expand_dims(x, (0, 0)),
    lambda x: np.split(x, 3, axis=1), lambda x: np.pad(x, -1), lambda x: x.sum((0, 0)), lambda x: x[:, :0].max(1),
    lambda x: np.full_like(x.astype("i1"), 300),
    lambda x: np.power(x.astype("i4"), -1), lambda x: x.astype("u1") + 256, lambda x: np.average(x, 0, weights=np.ones(4)),
    lambda x: np.diff(x, -1),
    lambda x: x.sum(True), lambda x: x.sum(initial=1), lambda x: x.astype("f16"), lambda x: x.astype("c8"), lambda x: x.astype("nonsense"),
    lambda x: np.add(x, x, dtype="i4"),
], ids=range(19))  # fmt: skip
def test_what_numpy_refuses_or_has_otherwise_is_refused(fn):
    with pytest.raises(AutocompError):
        traced(fn, np.ones((3, 4), np.float32))


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne])
def test_comparisons_beyond_the_range_and_across_signs(compare):
    u, i = pairs("u64", "i64")
    for fn, args in ((lambda u, i: (compare(u, i), compare(i, u)), (u, i)), (lambda u: (compare(u, -1), compare(2**70, u)), (u,)),
                     (lambda i: (compare(i.astype("i1"), 300), compare(-300, i.astype("i1"))), (i,))):  # fmt: skip
        for g, w in zip(traced(fn, *args), fn(*args)):
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("shape", [(0, 1), (0, 3), (2, 0), (1, 0, 3), (0,)])
def test_empty_arrays_are_arranged_and_multiplied(shape):
    x = np.zeros(shape, np.float32)
    fn = lambda x: (x.T @ x if x.ndim == 2 else x * 2, x.reshape(*x.shape, 1), x.ravel() + 1, x.sum(0), x[..., None].T)
    for g, w in zip(compiled(fn, x), fn(x)):
        assert g.shape == w.shape
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("kind", KINDS)
def test_the_operator_of_powers_is_numpys(kind):
    x = values(kind)
    for fn in (lambda x: x**2, lambda x: x**3, lambda x: x**1, lambda x: np.power(x, 2)):
        assert not difference(traced(fn, x)[0], fn(x))


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_powers_that_numpy_takes_for_roots(kind):
    """Of -inf and -0.0: one exponent for all is a root, in halves for the operator alone; an array of exponents is not."""
    x = np.resize(np.array([-np.inf, -0.0, 0.0, np.inf, -1, 4, np.nan], kind), 40)
    half = np.full(40, 0.5, kind)
    for fn in (lambda x: x**0.5, lambda x: np.power(x, 0.5), lambda x: np.power(x, x.dtype.type(0.5)), lambda x: x**half,
               lambda x: x**-0.5):  # fmt: skip
        for run in (traced, compiled):
            assert not difference(run(fn, x)[0], fn(x))


def test_the_square_of_one_truth_value_is_a_scalars():
    """`x ** 2` of an array of bools is i8, of the scalar that a comparison of numbers gives i64."""
    def fn(x):
        return (x != x) ** 2, (x == x) ** 3

    for x in (np.array(3, np.int32), np.arange(3, dtype=np.int32)):
        for got, want in zip(autocomp.optimize(fn, target="cpu", example_inputs=(x,))(x), fn(x), strict=True):
            assert (np.asarray(got).dtype, np.shape(got)) == (np.asarray(want).dtype, np.shape(want))
            assert np.array_equal(got, want)
