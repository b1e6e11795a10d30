"""The net over torch modules: some fixed seeds, and that it catches what is planted."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from autocomp.frontends.torch.call import TABLE  # noqa: E402
from benchmarks.fuzz import torch_functions as net  # noqa: E402
from tests.helpers.repeats import seeds  # noqa: E402

pytestmark = pytest.mark.torch
SEEDS = tuple(range(12))


@pytest.mark.parametrize("seed", seeds(SEEDS, 6))
def test_fixed_seeds(seed):
    case = net.draw(seed)
    assert net.draw(seed) == case
    verdict = net.check(case)
    assert verdict.kind != "wrong", f"seed {seed}: {verdict.detail}\n{case.text()}"


def one(line, *inputs, **more):
    return net.Case(0, inputs, (), (("t0", f"t0 = {line}"),), ("t0",), **more)


X = net.Given("x0", "float32", (3, 4), "normal", 1)


def test_a_planted_error_is_caught(monkeypatch):
    case = one("x0 * 2", X)
    assert net.check(case).kind == "right"
    monkeypatch.setitem(TABLE, "mul", TABLE["add"])
    found = net.check(one("x0 * 2.5", X))
    assert (found.kind, found.detail.partition(":")[0]) == ("wrong", "output 0 (t0)")


@pytest.mark.parametrize(("got", "want", "said"), [
    ([1.0, 2.0], [1.0, 2.0 + 1e-6], ""),
    ([1.0, 2.0], [1.0, 2.001], "1 of 2 elements, [1] is 2.0"),
    ([float("nan"), 2.0], [1.0, 2.0], "1 of 2 elements, [0] is nan"),
    ([0.0, 2.0], [float("nan"), 2.0], "1 of 2 elements, [0] is 0.0, torch has nan"),
    ([float("inf")], [float("-inf")], "1 of 1 elements"),
    ([1.0], [1], "is torch.float32[1], torch has torch.int64[1]"),
])  # fmt: skip
def test_what_differs(got, want, said):
    found = net.differs(torch.tensor(got), [torch.tensor(want)] * 2)
    assert found.startswith(said) if said else not found


def test_a_result_is_as_near_as_the_coarsest_type_on_its_way(monkeypatch):
    """x - tanh(x) of f32 has an ulp of tanh, many of its own: a cast to f64 does not take it away. What is f64 is held to it."""
    lines = (("t0", "t0 = F.tanhshrink(x0)"), ("t1", "t1 = x1 * 2"), ("t1", "t1[0] = t0[0].half()"),
             ("t2", "t2 = t0.clamp(-1, 1).double()"), ("t3", "t3 = x1.exp()"),
             ("t4", "t4 = t1.T[1:] + 1"), ("t5", "t5 = x0 < 0"))  # fmt: skip
    case = net.Case(0, (X, net.Given("x1", "float64", (3, 4), "normal", 2)), (), lines, ("t0", "t2", "t3", "t4", "t5"))
    module, xs = case.module(), [g.make() for g in case.inputs]
    assert net.coarsest(module, xs) == ["float32", "float32", "float64", "float16", ""]
    want = torch.tensor([-0.0077295, 1.0], dtype=torch.float64)
    off = want + torch.tensor([3e-8, 0])
    assert net.differs(off, [want]) and not net.differs(off, [want], 0, "float32")
    assert net.differs(want * (1 + 1e-4), [want], 0, "float32")
    shrunk = net.Case(0, (X,), (), (("t0", "t0 = F.tanhshrink(x0)"), ("t1", "t1 = t0.double()")), ("t1",))
    assert net.check(shrunk).kind == "right"
    monkeypatch.setitem(TABLE, "tanh", TABLE["sigmoid"])
    assert net.check(net.Case(0, (X,), (), (("t0", "t0 = F.tanhshrink(x0 * 2)"), ("t1", "t1 = t0.double()")), ("t1",))).kind == "wrong"


def test_what_a_layer_magnifies_is_allowed_and_no_more():
    """Equal columns that no input's rounding moves: their norm is 0 but for the mean's last bit, over the root of eps."""
    case = net.Case(0, (X,), ("self.l0 = nn.LayerNorm(4)",), (("t0", "t0 = self.l0(x0.clamp(2, 2))"),), ("t0",))
    references = [r[0] for r in net._references(case, case.module(), None)]
    assert references[0].abs().max() == 0
    assert not net.differs(torch.full((3, 4), -1.9e-5), references)
    assert net.differs(torch.full((3, 4), 1e-3), references)


def test_references_in_float64_are_made_of_truth_values_too():
    case = net.Case(0, (X,), ("self.l0 = nn.LSTM(4, 3)",), (("t0", "t0 = self.l0(torch.exp(x0 < x0))[0]"),), ("t0",))
    references = [r[0] for r in net._references(case, case.module(), None)]
    assert [r.dtype for r in references] == [torch.float32, torch.float64] * (net.SHAKES + 1)


def test_smaller_cases_are_smaller_and_run():
    case = next(c for c in map(net.draw, range(50)) if len(c.lines) > 5 and len(c.outputs) > 1)
    for less in net.smaller(case):
        assert less != case
        assert len(less.lines) <= len(case.lines)
        less.module()
