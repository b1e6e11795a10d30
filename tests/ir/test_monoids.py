"""Monoids: combining partial states in any grouping gives what NumPy computes over the whole."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from autocomp import optimize
from autocomp.frontends.text import parse
from autocomp.ir.monoid_terms import build, combine, finish, lift, neutral
from autocomp.ir.monoids import MONOIDS, fold, start
from autocomp.ir.types import BF16, DTYPES, F16, F32, F64

RNG = np.random.default_rng(7)
N = 13


def operands(name: str) -> dict[str, np.ndarray]:
    v = RNG.standard_normal((3, N)) * 3
    if name in ("any", "all"):
        return {"v": v > 1}
    if name.startswith("arg"):
        return {"v": np.round(v), "i": np.broadcast_to(np.arange(N), (3, N))}
    if name.endswith("_counted"):
        k = np.where(np.arange(N) % 5 != 2, 1.0, 0.0)
        return {"v": v * k, "k": np.broadcast_to(k, (3, N))}
    return {"v": v, "w": RNG.standard_normal((3, N))} if "softmax_weighted" in name else {"v": v}


def whole(name: str, x: dict[str, np.ndarray]) -> np.ndarray:
    v = x["v"]
    e = np.exp(v - v.max(1, keepdims=True)) if v.dtype != bool else None
    return {
        "sum": lambda: v.sum(1),
        "prod": lambda: v.prod(1),
        "max": lambda: v.max(1),
        "min": lambda: v.min(1),
        "any": lambda: v.any(1),
        "all": lambda: v.all(1),
        "argmax": lambda: v.argmax(1),
        "argmin": lambda: v.argmin(1),
        "max_sumexp": lambda: e.sum(1),
        "softmax_weighted": lambda: (e * x["w"]).sum(1) / e.sum(1),
        "masked_softmax_weighted": lambda: (e * x["w"]).sum(1) / e.sum(1),
        "welford": lambda: v.var(1),
        "welford_counted": lambda: np.array([a[k == 1].var() for a, k in zip(v, x["k"])]),
    }[name]()


def elements(name: str, x: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    return [lift(MONOIDS[name], {k: a[:, j] for k, a in x.items()}) for j in range(N)]


def close(a, b):
    for s in a:
        np.testing.assert_allclose(np.asarray(a[s], "f8"), np.asarray(b[s], "f8"), rtol=1e-11, atol=1e-11, err_msg=s)


@pytest.mark.parametrize("name", sorted(MONOIDS))
def test_folding_states_is_the_direct_computation(name):
    x, m = operands(name), MONOIDS[name]
    state = reduce(lambda a, b: combine(m, a, b), elements(name, x))
    np.testing.assert_allclose(finish(m, state), whole(name, x), rtol=1e-11)
    np.testing.assert_allclose(fold(name, tuple(x.values()), (1,), "", x["v"].dtype)[:, 0], whole(name, x), rtol=1e-11)


@pytest.mark.parametrize("name", sorted(MONOIDS))
def test_combine_is_associative_and_has_its_identity(name):
    x, m = operands(name), MONOIDS[name]
    parts = elements(name, x)
    fold_ = lambda xs: reduce(lambda a, b: combine(m, a, b), xs)
    a, b, c = fold_(parts[:2]), fold_(parts[2:7]), fold_(parts[7:])
    close(combine(m, combine(m, a, b), c), combine(m, a, combine(m, b, c)))
    close(combine(m, neutral(m, a), a), a)
    close(combine(m, a, neutral(m, a)), a)


def test_a_masked_score_adds_nothing():
    m = MONOIDS["softmax_weighted"]
    first = lift(m, {"v": np.array([-np.inf]), "w": np.array([5.0])})
    second = lift(m, {"v": np.array([2.0]), "w": np.array([3.0])})
    np.testing.assert_array_equal(finish(m, combine(m, first, second)), [3.0])


@pytest.mark.parametrize("text", ["__import__('os')", "m.real", "m[0]", "m if m else m", "nosuch(m)", "m < 1", "True"])
def test_terms_are_a_closed_language(text):
    with pytest.raises(ValueError, match="no monoid term"):
        build(text, lambda x: x, lambda f, a: (f, *a))


@pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
def test_a_carried_state_survives_a_tile_that_is_all_masked(dtype):
    m = MONOIDS["softmax_weighted"]
    zero = np.zeros(1, dtype.numpy)
    state = {"m": np.full(1, start(m, "max", dtype), dtype.numpy), "l": zero, "o": zero}
    assert np.isfinite(state["m"].astype("f8")).all()
    for score in (-np.inf, -np.inf, 2.0):
        element = {"m": np.full(1, score, dtype.numpy), "l": zero + dtype.numpy.type(1), "o": zero + dtype.numpy.type(3)}
        new = np.maximum(state["m"], element["m"])
        with np.errstate(over="ignore"):
            moved = [s[k] * np.exp(s["m"] - new) for k in ("l", "o") for s in (state, element)]
        state = {"m": new, "l": moved[0] + moved[1], "o": moved[2] + moved[3]}
    np.testing.assert_array_equal((state["o"] / state["l"]).astype("f8"), [3.0])
    assert start(MONOIDS["max"], "max", dtype) == -np.inf


@pytest.mark.parametrize("dtype", ["f8e4m3", "f16"])
def test_what_changes_no_maximum_is_a_number_of_each_type(dtype: str):
    """f8e4m3 has no infinity: cast to it, one is NaN, which would change every maximum beside a border."""
    graph = f"""
graph g
input x: {dtype}[1, 1, 4]
%0 = maxpool(x, window=[2], strides=[1], lo=[1], hi=[0], dilations=[1], layout="nchw")
%1 = cummax(x, axis=2, exclusive=True, reverse=False)
%2 = max(x, %1)
%3 = cummin(x, axis=2, exclusive=True, reverse=True)
%4 = min(x, %3)
output a = %0
output b = %2
output c = %4
"""
    made = optimize(parse(graph))(x=np.array([[[1, 2, -3, 4]]]).astype(DTYPES[dtype].numpy))
    assert [np.asarray(y, np.float64).ravel().tolist() for y in made] == [[1, 2, 2, 4], [1, 2, 2, 4], [-3, -3, -3, 4]]
