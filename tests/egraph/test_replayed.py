"""The suite's replay of kernel e-graphs gives what running them gives, and runs them where Python answers otherwise than before."""

from __future__ import annotations

import pytest

from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.egraph import kernel_egraph
from autocomp.egraph.choose import found_together
from autocomp.loops.verdict import Verdict
from autocomp.options import Options
from autocomp.rewrite import load_rules
from tests.helpers.nests import matmul
from tests.helpers.replayed import Replayed

RULES, CHIP = load_rules(), load_chip("h200")


def found(size: int):
    kernel = matmul(size, 96, 64)
    (f,) = found_together([kernel], [demand_of(kernel).roles], RULES, CHIP, Options())
    return f.schedules, list(f.refused.items()), f.budget


def test_what_is_replayed_is_what_is_run(monkeypatch: pytest.MonkeyPatch):
    ran: list[Replayed] = []
    monkeypatch.setattr(kernel_egraph._KernelEGraph, "__init__", _noting(ran, kernel_egraph._KernelEGraph.__init__))
    sizes = (64, 80, 64, 80)
    want = {n: found(n) for n in sizes}
    with monkeypatch.context() as patch:
        patch.setattr(kernel_egraph, "_KernelEGraph", Replayed)
        ran.clear()
        assert all(found(n) == want[n] for n in sizes)
        assert [x.live for x in ran] == [True, True, False, False]
        refused = Verdict(False, None, "not today")
        patch.setattr("autocomp.egraph.choose.legal", lambda *a: refused)
        replayed = found(64)
        assert ran[-1].live and replayed != want[64]
    monkeypatch.setattr("autocomp.egraph.choose.legal", lambda *a: refused)
    assert replayed == found(64)


def _noting(ran: list, original):
    def init(self, *a):
        ran.append(self)
        original(self, *a)

    return init
