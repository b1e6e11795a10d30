"""Tests that an enclosing choice decides are gone from kernels; loads keep the guards that keep them inside their tensor."""

from __future__ import annotations

import autocomp
from autocomp.ir.body import Inside, Load, postorder
from tests.helpers.device_graphs import GRAPHS, graph


def kernel(text, target="cuda:h200"):
    (call,) = autocomp.optimize(text, target=target, cache=False).calls.calls
    return call.kernel


def parts(k, kind):
    return [e for s in k.stores for e in postorder(s.value) if isinstance(e, kind)]


def test_both_halves_of_a_byte_are_read_at_once_and_without_a_guard():
    """Nibbles interleaved by concat: each half's reads were guarded by the choice that already took them."""
    k = kernel(GRAPHS["row_int4"])
    loads = parts(k, Load)
    assert all(not e.guard for e in loads)
    assert len(parts(k, Inside)) == 1


def test_a_guard_stays_where_the_load_would_leave_its_tensor():
    k = kernel(graph({"x": "f32[8, 5]", "y": "f32[8, 7]"}, "%0 = concat(x, y, axis=1)\n%1 = exp(%0)"))
    assert all(e.guard for e in parts(k, Load))
