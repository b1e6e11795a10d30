"""Traced functions of NumPy and of the array API: the same values, shapes and dtypes as NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.frontends.tracing import trace
from autocomp.ir.reference import evaluate

RNG = np.random.default_rng(9)
X = RNG.standard_normal((3, 4)).astype("f4")
Y = RNG.standard_normal((4, 6)).astype("f4")
N = RNG.integers(-5, 6, (3, 4)).astype("i4")
B = X > 0

UNARY = [
    "absolute", "fabs", "negative", "positive", "exp", "exp2", "expm1", "sqrt", "square", "cbrt", "reciprocal", "sin",
    "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "floor", "ceil", "trunc", "rint", "sign", "isnan",
    "isinf", "isfinite", "signbit", "deg2rad", "degrees", "log1p", "log10", "log2", "log",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "arctan2",
    "copysign", "heaviside", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "power",
    "remainder", "floor_divide", "fmod",
]  # fmt: skip

FUNCTIONS = {
    "sums": lambda x, n, b: (x.sum(), np.sum(n, axis=0), np.sum(b), x.sum((0, 1), keepdims=True), np.sum(n, dtype=np.float32)),
    "extremes": lambda x, n, b: (x.max(1), np.amin(n), np.ptp(x, axis=0), x.argmax(), np.argmin(n, axis=1, keepdims=True)),
    "moments": lambda x, n, b: (x.mean(), n.mean(0), x.var(1), np.std(x, axis=1, ddof=1), np.average(x, axis=0)),
    "weights": lambda x, n, b: np.average(x, axis=1, weights=np.arange(4, dtype="f4")),
    "logic": lambda x, n, b: (b.any(0), np.all(n, axis=1), np.logical_xor(b, n > 1), ~b & (x < 1) | b, np.count_nonzero(n, axis=1)),
    "running": lambda x, n, b: (np.cumsum(x), np.cumsum(n, axis=1), x.cumprod(0), np.diff(x, axis=1), np.add.accumulate(x)),
    "ufunc methods": lambda x, n, b: (np.add.reduce(x), np.maximum.reduce(x, axis=1), np.multiply.outer(x[0], n[:, 0])),
    "norms": lambda x, n, b: (np.linalg.norm(x), np.linalg.norm(x, axis=1, keepdims=True), np.linalg.norm(x, 1, axis=0)),
    "views": lambda x, n, b: (x.T, x.mT, np.swapaxes(x, 0, 1), np.moveaxis(x[None], 0, 2), np.squeeze(x[:1]), np.ravel(n), x.flatten()),
    "expand": lambda x, n, b: (
        np.expand_dims(x, (0, -1)), np.broadcast_to(x[0], (2, 4)), *np.broadcast_arrays(x[:, :1], n[0])),
    "turning": lambda x, n, b: (np.flip(x), np.fliplr(x), np.flip(n, 0), np.roll(x, 3), np.roll(x, (1, -1), (0, 1)), np.roll(n, -2, 1)),
    "repeating": lambda x, n, b: (np.tile(x, (2, 1, 3)), np.tile(n, 2), np.repeat(x, 2, 1), np.repeat(n, [0, 2, 1], axis=0), x.repeat(3)),
    "padding": lambda x, n, b: (
        np.pad(x, 1), np.pad(n, ((0, 2), (1, 0)), constant_values=7), np.pad(x, ((1, 1), (0, 3)), mode="reflect"),
        np.pad(x, 2, mode="edge"), np.pad(x, (2, 1), mode="wrap"),
    ),
    "joining": lambda x, n, b: (
        np.concatenate([x, n]), np.stack([x, x], -1), np.vstack([x, n]), np.hstack([x, x]), np.hstack([x[0], x[1]])),
    "splitting": lambda x, n, b: (*np.split(x, 2, axis=1), *np.array_split(n, [1, 1, 3]), *np.array_split(x, 3, 1)),
    "choosing": lambda x, n, b: (np.where(b, x, 0), np.where(n, n, -n), x.clip(-1, 1), np.clip(n, None, 2), np.nan_to_num(np.log(x))),
    "rounding": lambda x, n, b: (np.round(x, 2), x.round(), np.round(n), np.isclose(x, x + 1e-9)),
    "taking": lambda x, n, b: (
        np.take(x, [1, -1], axis=0), np.take(n, np.array([[2, 0]]), axis=1), x.take([5, 0]),
        np.take_along_axis(x, np.argmax(x, 1, keepdims=True), 1),
    ),
    "basic index": lambda x, n, b: (x[1], x[-1, ::2], x[..., 1:3], x[:, None, 0], n[2:0:-1, -2:], x[1:1], x[()]),
    "array index": lambda x, n, b: (x[np.array([0, 2, 2])], x[:, [3, 0]], x[np.array([[0], [2]]), np.array([1, -1])], x[abs(n[0]) % 3]),
    "index behind": lambda x, n, b: (x.reshape(3, 2, 2)[:, [0, 1], [1, 0]], x[1][np.array([[1, 2]])]),
    "triangles": lambda x, n, b: (np.tril(x), np.triu(n, 1), np.diagonal(x), np.diag(x, 1), np.diag(x[0], -1), np.trace(x), x.trace(-1)),
    "products": lambda x, n, b: (
        x @ x.T, np.dot(x, x[0]), np.inner(x, x), np.outer(x[0], n[1]), np.vdot(x, x), np.tensordot(x, x, ((0,), (0,))),
        np.matmul(n, n.T), np.dot(x, 2),
    ),
    "einsum": lambda x, n, b: (
        np.einsum("ij,kj->ik", x, x), np.einsum("ij->ji", x), np.einsum("ij,ij->i", x, x), np.einsum("ij,j", x, x[0])),
    "convolve": lambda x, n, b: (np.convolve(x[0], x[1]), np.convolve(x[0], x[1, :3], "same"), np.convolve(x[1, :2], x[0], "valid")),
    "sorting": lambda x, n, b: (np.sort(x), np.argsort(n, axis=0, kind="stable") if isinstance(n, np.ndarray) else np.argsort(n, 0)),
    "like": lambda x, n, b: (np.zeros_like(x), np.ones_like(n, dtype="f4"), np.full_like(x, 3), np.zeros((2, 4), "f4") + x[:2]),
    "dtypes": lambda x, n, b: (n / 2, n + 1.5, x * 2, x + np.float64(1), n // 3, n % 3, -n, abs(n), n**2, 2**x, 1 - b, n & 3, n << 2, ~n),
    "bools": lambda x, n, b: (b + b, b * x, b & True, np.maximum(b, b[::-1]), b.astype("i4") - 1, np.exp(b), np.floor(n)),
    "loops": lambda x, n, b: sum(row * k for k, row in enumerate(x)),
    "in place": lambda x, n, b: _in_place(x),
}  # fmt: skip


def _in_place(x):
    y = x * 1
    y += 2
    y /= 3
    return y


def check(fn, *arrays):
    with np.errstate(all="ignore"):
        want = fn(*arrays)
        g = trace(fn, *arrays)
        got = list(evaluate(g, {n.attrs["name"]: a for n, a in zip(g.inputs, arrays, strict=True)}, float64=False).values())
    want = list(want) if isinstance(want, (tuple, list)) else [want]
    assert len(got) == len(want)
    for w, v in zip(want, got, strict=True):
        w = np.asarray(w)
        assert (v.dtype, v.shape) == (w.dtype, w.shape)
        if w.dtype.kind == "f":
            np.testing.assert_allclose(v, w, rtol=2e-3 if w.dtype == np.float16 else 2e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(v, w)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    check(FUNCTIONS[name], X, N, B)


@pytest.mark.parametrize("name", UNARY)
def test_unary_ufunc(name):
    fn = getattr(np, name)
    check(lambda x: fn(x), X)
    if name not in ("fabs", "reciprocal"):
        check(lambda n: fn(n), N)
    check(lambda x: fn(x), np.array([0.5, -0.0, np.inf, -np.inf, np.nan], "f4"))


@pytest.mark.parametrize("name", BINARY)
def test_binary_ufunc(name):
    fn = getattr(np, name)
    check(lambda x, y: fn(x, y), X, np.abs(X[::-1]) + 0.5)
    check(lambda x: (fn(x, 2), fn(1.5, x)), X)
    check(lambda x, y: fn(x, y), np.array([1, np.nan, 2, 0], "f4"), np.array([np.nan, 3, 2, 0], "f4"))
    if name not in ("power", "remainder", "floor_divide", "fmod"):
        check(lambda n, x: fn(n, x), N, X)


def softmax(x):
    xp = x.__array_namespace__()
    e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
    return e / xp.sum(e, axis=-1, keepdims=True)


def attention(x, y):
    xp = x.__array_namespace__()
    scores = xp.matmul(x, xp.matrix_transpose(x)) / xp.pi
    mask = xp.tril(xp.ones((3, 3), dtype=xp.bool))
    scores = xp.where(mask, scores, xp.asarray(-xp.inf, dtype=xp.float32))
    mixed = softmax(scores) @ x @ y
    return xp.concat([xp.abs(mixed), xp.astype(xp.argmax(mixed, axis=1, keepdims=True), xp.float32)], axis=1)


def test_array_api_functions():
    check(softmax, X)
    check(attention, X, Y)


def test_every_operation_names_the_users_line():
    def two_lines(x, y):
        h = x @ y
        return np.tanh(h)

    g = trace(two_lines, X, Y)
    first = two_lines.__code__.co_firstlineno
    assert {n.op: w for n, w in g.locations.items() if n.inputs} == {
        "matmul": f"test_tracing_functions.py:{first + 1} in two_lines `h = x @ y`",
        "tanh": f"test_tracing_functions.py:{first + 2} in two_lines `return np.tanh(h)`",
    }


def refusal(fn, *arrays) -> str:
    with pytest.raises(AutocompError) as e:
        trace(fn, *arrays)
    return str(e.value)


def test_shapes_that_do_not_fit_name_the_line():
    def helper(a, b):
        return a @ b

    def model(x, y):
        return helper(y, x) + 1

    line = helper.__code__.co_firstlineno + 1
    assert refusal(model, X, Y) == (
        f"test_tracing_functions.py:{line} in helper `return a @ b`: matmul: inner dimensions of f32[4, 6] and f32[3, 4] differ"
    )


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (lambda x: float(x.sum()), "the value of a traced array f32[]\n  next: keep it an array"),
        (lambda x: x if x.sum() > 0 else -x, "a branch on the value of a traced array bool[]\n  next: use np.where"),
        (lambda x: x[: x.argmax()], "an index or a size from the value of a traced array i64[]"),
        (lambda x: x[x > 0], "indexing with a mask: the result's shape depends on the data\n  next: use np.where"),
        (lambda x: x.__setitem__(0, 1), "an assignment into a traced array f32[3, 4]\n  next: make a new array"),
        (lambda x: np.linalg.inv(x @ x.T), "numpy.inv\n  next: functions traced: "),
        (lambda x: np.nextafter(x, x), "numpy.nextafter\n  next: ufuncs traced: "),
        (lambda x: x.tobytes(), "a traced array has no attribute 'tobytes'\n  next: use a function of numpy"),
        (lambda x: np.sum(x, where=x > 0), "numpy.sum: got an unexpected keyword argument 'where'\n  next: leave that argument out"),
        (lambda x: np.exp(x, out=x), "numpy.exp with out=\n  next: call it with arrays only"),
        (lambda x: np.bitwise_and(x, 1), "numpy.bitwise_and of float32, "),
        (lambda x: x.reshape(5, -1), "cannot reshape f32[3, 4] into [5, -1]"),
        (lambda x: x.sum(2), "axis 2 is out of range for 2 dimensions"),
        (lambda x: x[0, 0, 0], "3 indices for f32[3, 4], which has 2 dimensions"),
        (lambda x: np.einsum("ii->i", x[:3, :3]), "numpy.einsum 'ii->i'\n  next: use one or two operands"),
        (lambda x: x.astype(np.uint8) + 300, "300 does not fit the u8 of the array beside it\n  next: cast the array first"),
        (lambda x: x.astype(np.int32) + 2**40, "1099511627776 does not fit the i32 of the array beside it"),
        (lambda x: "text", "what traced returns: a value of type str is no array of numbers"),
    ],
)
def test_refusals_say_where_and_what_to_do(fn, text):
    said = refusal(fn, X)
    assert text in said
    assert f"test_tracing_functions.py:{fn.__code__.co_firstlineno}" in said or "returns" in said


def test_computing_with_an_open_size_is_refused():
    from autocomp.ir.types import F32, Sym, TensorType

    for fn in (lambda x: x[: x.shape[0] - 1], lambda x: x * (2 / x.shape[0]), lambda x: np.repeat(x, 2, 0), lambda x: np.diff(x.ravel())):
        with pytest.raises(AutocompError):
            trace(fn, TensorType(F32, (Sym("n"), 4)))


def test_a_squeeze_without_axes_of_an_open_size_that_may_be_1_is_refused():
    """At 1 NumPy drops it, and the result has another rank."""
    from autocomp.ir.types import F32, Sym, TensorType

    x, more = (TensorType(F32, (Sym("n", least), 1, 4)) for least in (1, 2))
    for fn in (np.squeeze, lambda x: x.squeeze()):
        with pytest.raises(AutocompError, match=r"(?s)without axes, and its axis 0 \('n'\) may be 1 .*squeeze\(axis=\(1,\)\)"):
            trace(fn, x)
    for g in (trace(lambda x: np.squeeze(x, 1), x), trace(np.squeeze, more)):
        assert str(g.outputs[0][1].type) == "f32[n, 4]"


def test_errors_of_the_users_own_pass_through():
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: x * (1 // 0), X)
    with pytest.raises(AttributeError, match="append"):
        trace(lambda x: (1).append(x), X)


def test_bfloat16_beside_numbers_is_what_numpy_makes_of_it():
    import ml_dtypes

    x = X.astype(ml_dtypes.bfloat16)
    for fn in (lambda x: np.maximum(x * 2, 0), lambda x: x + 1.5, lambda x: np.where(x > 0, x, 0.5)):
        assert trace(fn, x).outputs[0][1].type.dtype.numpy == fn(x).dtype


def test_examples_of_objects_are_refused():
    with pytest.raises(AutocompError, match="example 'x' has dtype object"):
        trace(lambda x: x, np.array([None]))
    with pytest.raises(UnsupportedOp):
        trace(lambda x: np.sort_complex(x), X)


def _norm(x):
    return x / np.sqrt(x)


def _deep(x, n):
    return _deep(x, n - 1) if n else _norm(x)


def test_two_calls_of_a_helper_are_told_apart():
    def twice(x):
        y = _norm(x)
        return _norm(np.exp(y)), _deep(y, 9)

    first, inside = twice.__code__.co_firstlineno, _norm.__code__.co_firstlineno + 1
    graph = trace(twice, np.ones((4, 3), "f4"))
    places = [text for node, text in graph.locations.items() if node.op == "div"]
    at = f"test_tracing_functions.py:{inside} in _norm `return x / np.sqrt(x)` (called at test_tracing_functions.py:"
    assert places[:2] == [f"{at}{first + 1})", f"{at}{first + 2})"]
    deep = _deep.__code__.co_firstlineno + 1
    assert places[2] == at + ", test_tracing_functions.py:".join([str(deep)] * 3) + " and 8 more)"
