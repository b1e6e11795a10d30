"""Kernels beside each other become one (egraph/siblings.py): by the rule, where neither needs the other and the model says that it pays."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import autocomp
from autocomp.egraph import siblings
from autocomp.errors import RuleError
from autocomp.options import Options
from autocomp.pipeline import compile_model
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from autocomp.trace import Trace
from tests.helpers.repeats import seeds

HEAD = "graph g\ninput x: f32[{n}, {m}]\ninput w: f32[{m}]\n"
GRAPHS = {  # text behind the head -> (float64 functions of x and w, kernels)
    "maps": ("%0 = sin(x)\n%1 = exp(x)\noutput y = %0\noutput z = %1\n", lambda x, w: (np.sin(x), np.exp(x)), 1),
    "rows": ("%0 = reduce_sum(x, axes=[1])\n%1 = reduce_max(x, axes=[1])\noutput y = %0\noutput z = %1\n",
             lambda x, w: (x.sum(1), x.max(1)), 1),
    "columns": ("%0 = reduce_sum(x, axes=[0])\n%1 = reduce_max(x, axes=[0])\n%2 = reduce_min(x, axes=[0])\n"
                "output y = %0\noutput z = %1\noutput u = %2\n",
                lambda x, w: (x.sum(0), x.max(0), x.min(0)), 1),
    "told over two axes": ("%0 = mul(x, w)\n%1 = relu(x)\noutput y = %0\noutput z = %1\n", lambda x, w: (x * w, np.maximum(x, 0)), 1),
    "other domains": ("%0 = reduce_sum(x, axes=[0])\n%1 = reduce_max(x, axes=[1])\noutput y = %0\noutput z = %1\n",
                      lambda x, w: (x.sum(0), x.max(1)), 2),
}  # fmt: skip


def results(program: Any, x: np.ndarray, w: np.ndarray) -> list[np.ndarray]:
    return list(program(**{name: {"x": x, "w": w}[name] for name in (n.attrs["name"] for n in program.graph.inputs)}))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("n,m", [(37, 53), (1, 7)])
def test_siblings_are_one_kernel_and_right(name: str, n: int, m: int) -> None:
    text, meaning, kernels = GRAPHS[name]
    program = autocomp.optimize(HEAD.format(n=n, m=m) + text, target="cpu", cache=False)
    if n > 1:
        assert len(program.kernels) == kernels
        assert any("fusion/siblings" in r for k in program.kernels for r in k.rules) == (kernels == 1)
    rng = np.random.default_rng(n)
    x, w = rng.standard_normal((n, m)).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    for got, want in zip(results(program, x, w), meaning(x.astype(np.float64), w.astype(np.float64)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_without_the_rule_they_stay_apart() -> None:
    assert len(autocomp.optimize(HEAD.format(n=37, m=53) + GRAPHS["rows"][0], target="cpu", without=["fusion/siblings"]).kernels) == 2


def test_a_kernel_that_needs_the_other_stays_behind_it() -> None:
    """exp(x - s) and the sum s both read x over one domain, by way of a product between them."""
    text = "graph g\ninput x: f32[64, 64]\ninput w: f32[64, 64]\n%0 = sin(x)\n%1 = matmul(%0, w)\n"
    text += "%2 = reduce_max(%1, axes=[1], keepdims=True)\n"
    text += "%3 = sub(x, %2)\noutput y = %0\noutput z = %3\n"
    program = autocomp.optimize(text, target="cpu", cache=False)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
    want = x - (np.sin(x.astype(np.float64)) @ w).max(1, keepdims=True)
    np.testing.assert_allclose(results(program, x, w)[1], want, rtol=1e-4, atol=1e-4)
    assert not any("sub" in k.ops and "sin" in k.ops for k in program.kernels)


def test_what_lies_between_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call between the two that needs the first runs behind their kernel."""
    text = "graph g\ninput x: f32[48, 64]\ninput w: f32[64, 32]\n%0 = sin(x)\n%1 = matmul(%0, w)\n%2 = exp(x)\n"
    text += "output y = %0\noutput p = %1\noutput z = %2\n"
    program = autocomp.optimize(text, target="cpu", cache=False)
    names = [k.name for k in program.kernels]
    assert names[0] == "sin_and_exp" and len(names) == 2


def test_what_gains_nothing_is_refused_with_both_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "GAIN", 0.0)
    trace = Trace()
    program = compile_model(HEAD.format(n=37, m=53) + GRAPHS["rows"][0], "cpu", Options(cache=False), trace)
    assert len(program.kernels) == 2
    said = [e.data["reason"] for e in trace.of("reject") if e.name == "fusion/siblings"]
    assert said and "as one kernel" in said[0] and " us" in said[0]


@pytest.mark.parametrize("change,says", [
    (("rhs: store(?j, ?k)", "rhs: store(?k, ?j)"), "the law says store(?j, ?k)"),
    (("beside(store(?j), store(?k))", "beside(store(?j), ?k)"), "the left side is"),
    (("shared(?j, ?k) > 0", "windowed(?k)"), "they answer"),
])  # fmt: skip
def test_other_laws_are_refused(tmp_path, change: tuple[str, str], says: str) -> None:
    text = "- name: mine/beside\n  phase: fusion\n  lhs: beside(store(?j), store(?k))\n  rhs: store(?j, ?k)\n  where: "
    text += "'[shared(?j, ?k) > 0]'\n  why: reads once\n"
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace(*change))
    with pytest.raises(RuleError) as e:
        autocomp.optimize(HEAD.format(n=4, m=4) + GRAPHS["maps"][0], target="cpu", rules=[str(file)])
    assert says in str(e.value)


def test_other_bodies_share_nothing() -> None:
    with pytest.raises(RuleError, match="beside each other"):
        autocomp.rule(phase="fusion", name="mine/x", lhs="reduce(?m, load(store(?k)), ?rest...)", rhs="reduce(?m, ?k, ?rest...)",
                      where=["shared(?k, ?k) > 0"])(lambda: None)  # fmt: skip


STATISTICS = ("sum", "max", "min", "mean")


@pytest.mark.parametrize("seed", range(3))
def test_drawn_siblings_are_right(seed: int) -> None:
    """Maps and statistics of x and of x * w, along either axis, at odd sizes."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 60)), int(rng.integers(2, 90))
    text, wants = HEAD.format(n=n, m=m) + "%p = mul(x, w)\n", []
    for k in range(5):
        source, axis, fn = rng.integers(2), int(rng.integers(2)), STATISTICS[rng.integers(4)]
        name = ("x", "%p")[source]
        if rng.integers(2):
            text += f"%o{k} = reduce_{fn}({name}, axes=[{axis}])\n"
            wants.append(lambda x, w, s=source, a=axis, f=fn: getattr(x * w if s else x, f)(a))
        else:
            text += f"%o{k} = tanh({name})\n"
            wants.append(lambda x, w, s=source: np.tanh(x * w if s else x))
    program = autocomp.optimize(text + "".join(f"output o{k} = %o{k}\n" for k in range(5)), target="cpu", cache=False)
    x, w = rng.standard_normal((n, m)).astype(np.float32), rng.standard_normal(m).astype(np.float32)
    for got, want in zip(results(program, x, w), wants):
        np.testing.assert_allclose(got, want(x.astype(np.float64), w.astype(np.float64)), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize("seed", seeds(range(6), always=2))
def test_drawn_products_of_one_tensor_are_right(seed: int, tmp_path, model) -> None:
    """Products by two tensors that are no constants, of which one may be looked at as heads, with what follows them."""
    r = Random(seed)
    m, k, n, dtype = r.choice((1, 3, 17)), r.choice((40, 96, 264)), r.choice((32, 64, 200)), r.choice(("f16", "f32", "bf16"))
    after = [r.choice(("%{0}1 = relu(%{0})", "%{0}1 = gelu(%{0})", "%{0}1 = add(%{0}, %{0})")).format(x) for x in "pq"]
    heads = f"%e0 = reshape(%q1, shape=[{m}, {n // 8}, 8])\n%e = transpose(%e0, perm=[1, 0, 2])" if r.random() < 0.5 else "%e = neg(%q1)"
    inputs = "".join(f"input {x}: {dtype}[{rows}, {columns}]\n" for x, rows, columns in (("x", m, k), ("a", k, n), ("b", k, n)))
    text = f"graph g\n{inputs}%p = matmul(x, a)\n%q = matmul(x, b)\n{after[0]}\n{after[1]}\n{heads}\noutput y = %p1\noutput z = %e\n"
    target = r.choice(("cuda:h200", "cuda:a100", "maca:c500"))
    program = autocomp.optimize(text, target=target, cache=False)
    program.executor = ModelExecutor(program, tmp_path, model)
    program.verify(seed=seed)
