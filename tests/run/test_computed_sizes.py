"""Sizes that are sums of multiples of symbols: one program for all sizes in their bounds, and a refusal with numbers beyond them."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.builder import Builder
from autocomp.ir.sizes import larger, linear, size_of, smaller, total, with_computed
from autocomp.ir.types import F32, Sym, TensorType

pytestmark = pytest.mark.usefixtures("quick_builds")

S, T = Sym("s", 2, 96), Sym("t", 1, 8)


def test_sums():
    one = total([(S, 1)], 1)
    assert (str(one), one.lo, one.hi, linear(one)) == ("size_s_plus_1", 3, 97, ({S: 1}, 1))
    assert total([(one, 1)], -1) is S and total([(one, 1), (S, -1)]) == 1 and total([(S, 1), (one, -1)], 1) == 0
    assert total([(Sym("u", 2, 8, 2), 3)]).multiple == 6
    assert total([(S, 1), (T, 1)]) == total([(T, 1), (S, 1)])
    with pytest.raises(UnsupportedOp, match=r"the size s - 3 may be -1 \(2 <= s <= 96\)"):
        total([(S, 1)], -3)


def test_the_smaller_and_the_larger_of_sums():
    s, t, u = Sym("s", 2, 9), Sym("t", 1, 8), Sym("u", 3, 7)
    least, most = size_of(smaller(linear(s), linear(t))), size_of(larger(linear(s), linear(t)))
    assert (least.lo, least.hi, most.lo, most.hi) == (1, 8, 2, 9)
    assert smaller(linear(s), linear(total([(s, 1)], 1))) == linear(s)  # always as far apart
    third = size_of(smaller(linear(least), linear(u)))
    apart = total([(most, 1), (s, -1)])  # is 0 or more, for all it takes off
    for a, b, c in ((2, 1, 3), (2, 8, 3), (9, 8, 7), (5, 5, 6)):
        got = with_computed({"s": a, "t": b, "u": c}, (least, most, third, apart))
        assert [got[d.name] for d in (least, most, third, apart)] == [min(a, b), max(a, b), min(a, b, c), max(a, b) - a]
    halves = size_of(smaller(linear(total([(s, 1)], 1)), ({}, 4)))
    assert with_computed({"s": 2}, (halves,))[halves.name] == 3


def graph_of(make):
    b = Builder("g")
    make(b, b.input("x", TensorType(F32, (S, 4))), b.input("y", TensorType(F32, (T, 4))))
    return b.graph()


def joined(b, x, y):
    b.output("z", b.op("exp", b.op("concat", x, y, x, axis=0)))


def shifted(b, x, y):
    cut = lambda start, limit: b.op("slice", x, starts=(start, 0), limits=(limit, 4), steps=(1, 1))
    b.output("z", b.op("sub", cut(1, S), cut(0, total([(S, 1)], -1))))
    b.output("w", b.op("neg", y))


def product(b, x, y):
    z = b.op("concat", x, y, axis=0)
    s = b.op("matmul", z, b.op("transpose", z, perm=(1, 0)))
    b.output("z", b.op("matmul", b.op("softmax", s, axes=(1,)), z))


def as_far_as_both(b, x, y):
    n = size_of(smaller(linear(S), linear(T)))
    cut = lambda z, start, limit: b.op("slice", z, starts=(start, 0), limits=(limit, 4), steps=(1, 1))
    b.output("z", b.op("mul", cut(x, 0, n), cut(y, 0, n)))
    b.output("w", b.op("reduce_sum", cut(x, total([(S, 1), (n, -1)]), S), axes=(0,), keepdims=False))
    b.output("rest", b.op("concat", cut(x, n, S), cut(y, n, T), axis=0))


CASES = {
    "as far as both": (as_far_as_both, lambda x, y: (x[: len(y)] * y[: len(x)], x[-min(len(x), len(y)) :].sum(0),
                                                     np.concatenate([x[len(y) :], y[len(x) :]]))),
    "joined": (joined, lambda x, y: (np.exp(np.concatenate([x, y, x])),)),
    "differences": (shifted, lambda x, y: (x[1:] - x[:-1], -y)),
    "attention over a join": (product, None),
}


@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_sizes(name):
    make, want = CASES[name]
    program = autocomp.optimize(graph_of(make), target="cpu", cache=False)
    assert program.verify().ratio <= 1
    for s, t in ((2, 1), (3, 2), (37, 7), (96, 8)):
        x, y = (np.random.default_rng(s).standard_normal((n, 4)).astype("f4") for n in (s, t))
        assert program.verify({"x": x, "y": y}).ratio <= 1
        got = program(x, y)
        for a, b in zip(got if isinstance(got, tuple) else (got,), want(x, y) if want else ()):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match=r"'x' has s = 97, allowed are 2..96"):
        program(np.zeros((97, 4), "f4"), np.zeros((1, 4), "f4"))


def test_slices_that_may_leave_the_dimension_are_refused():
    text = "graph g\ndim n in 2..64\ninput x: f32[n, 4]\n%0 = slice(x, starts=[0, 0], limits=[5, 4], steps=[1, 1])\noutput y = %0\n"
    with pytest.raises((UnsupportedOp, ModelError), match=r"the symbolic dimension n \(2..64\)"):
        autocomp.optimize(parse(text), target="cpu")


torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")


class Growing(torch.nn.Module):
    """One step of attention over a cache that grows by concat."""

    def forward(self, x, keys, values):
        keys, values = torch.cat([keys, x], 1), torch.cat([values, x * 2], 1)
        return torch.softmax(x @ keys.mT, -1) @ values, keys, values


class Shifted(torch.nn.Module):
    def forward(self, x):
        return torch.cat([x[:, 1:] - x[:, :-1], x, x], 1)


def exported(module, given, shapes):
    return torch.export.export(module, given, dynamic_shapes=shapes)


def test_a_growing_cache():
    s = torch.export.Dim("s", min=2, max=128)
    cache = torch.randn(2, 5, 8)
    program = autocomp.optimize(exported(Growing(), (torch.randn(2, 1, 8), cache, cache.clone()), ({}, {1: s}, {1: s})), target="cpu")
    keys, values = torch.randn(2, 2, 8), torch.randn(2, 2, 8)
    k2, v2 = keys, values
    for _ in range(6):
        x = torch.randn(2, 1, 8)
        y, keys, values = program(x, keys, values)
        want, k2, v2 = Growing()(x, k2, v2)
        assert torch.allclose(y, want, atol=1e-5) and torch.equal(keys, k2) and torch.allclose(values, v2)
    assert keys.shape[1] == 8
    assert program.verify().ratio <= 1
    with pytest.raises(ModelError, match=r"s = 129, allowed are 2\.\.128"):
        program(x, torch.zeros(2, 129, 8), torch.zeros(2, 129, 8))


def test_slices_and_joins_of_a_symbol():
    s = torch.export.Dim("s", min=3, max=64)
    program = autocomp.optimize(exported(Shifted(), (torch.randn(3, 9, 4),), ({1: s},)), target="cpu")
    for n in (3, 4, 37, 64):
        x = torch.randn(3, n, 4)
        assert torch.allclose(program(x), Shifted()(x), atol=1e-6)


@pytest.mark.parametrize("body", ("%1 = reduce_max(%0, axes=[0], keepdims=True)", "%1 = reduce_sum(%0, axes=[0], keepdims=False)"))
def test_a_computed_size_that_only_a_reduction_runs_over(body):
    """No tensor of the kernel has it: the join is computed where it is reduced."""
    text = f"graph g\ndim s in 1..64\ninput x: f32[s]\n%0 = concat(x, x, x, axis=0)\n{body}\noutput y = %1\n"
    program = autocomp.optimize(text, target="cpu", cache=False)
    for n in (1, 7, 64):
        x = np.random.default_rng(n).standard_normal(n).astype("f4")
        got = program(x)
        want = np.concatenate([x] * 3).max() if "max" in body else np.concatenate([x] * 3).sum()
        np.testing.assert_allclose(np.ravel(got)[0], want, rtol=1e-5, atol=1e-5)
