"""NumPy style functions, traced, mean what NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.tracing import trace
from autocomp.ir.reference import evaluate

RNG = np.random.default_rng(5)
X, Y, V = (RNG.standard_normal(s).astype("f4") for s in ((3, 4), (4, 6), (6,)))
FUNCTIONS = {
    "mlp": lambda x, y, v: np.maximum(x @ y + v, 0),
    "softmax": lambda x, y, v: (
        np.exp(x - x.max(-1, keepdims=True)) / np.sum(np.exp(x - x.max(-1, keepdims=True)), axis=-1, keepdims=True)
    ),
    "norm": lambda x, y, v: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5),
    "views": lambda x, y, v: np.concatenate([x.T[::-1, 1:], np.transpose(x)[:, None, 0]], axis=1).reshape(-1, 2),
    "where": lambda x, y, v: np.where(x > 0, x, 0.1 * x) ** 2 - 1 / (2 + np.abs(x)),
    "constants": lambda x, y, v: x * np.arange(4, dtype="f4") + np.float32(2),
    "integers": lambda x, y, v: (x > 0).astype(np.int32).sum(0) % 2,
    "clip": lambda x, y, v: np.clip(np.tanh(x), -0.5, 0.5),
    "tuple": lambda x, y, v: (x + 1, {"a": 0} and x.sum()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_traced_function_means_the_same(name):
    fn = FUNCTIONS[name]
    g = trace(fn, X, Y, V)
    want = fn(X, Y, V)
    want = want if isinstance(want, tuple) else (want,)
    got = evaluate(g, {"x": X, "y": Y, "v": V}, float64=False)
    for w, v in zip(want, got.values()):
        assert v.dtype == np.asarray(w).dtype
        np.testing.assert_allclose(v, w, rtol=1e-5, atol=1e-6)


def test_inputs_carry_the_parameters_names():
    assert [n.attrs["name"] for n in trace(lambda left, right: left + right, X, X).inputs] == ["left", "right"]


def test_a_branch_on_values_is_refused():
    with pytest.raises(UnsupportedOp, match="a branch on the value of a traced array"):
        trace(lambda x: x if x.sum() > 0 else -x, X)


def test_unknown_functions_are_refused_by_name():
    with pytest.raises(UnsupportedOp, match=r"numpy\.linalg\.inv|numpy\.inv"):
        trace(np.linalg.inv, X)


def test_bad_index_is_refused():
    with pytest.raises(ModelError, match="index 9 is out of range for a dimension of 3"):
        trace(lambda x: x[9], X)


def test_an_array_given_twice_is_two_inputs_and_outputs_share_no_memory():
    def f(a, b):
        return a - 2 * b, a, a.T, a[::-1], a - 2 * b

    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    x = draw(3, 3)
    for examples in ((x, x), (x, x.T), (x[:2, :2], x[1:, 1:])):
        program = autocomp.optimize(f, example_inputs=examples, target="cpu")
        a, b = (draw(*v.shape) for v in examples)
        for given in ((a, b), (a, a)):
            got = program(*given)
            for g, w in zip(got, f(*given), strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)
                assert sum(np.shares_memory(g, v) for v in (*got, *given)) == 1  # itself
