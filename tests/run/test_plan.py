"""Intermediates that are alive at the same time share no byte, whatever their sizes and lifetimes are."""

from __future__ import annotations

from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from autocomp.ir.types import F32, TensorType
from autocomp.runtime.plan import ALIGN, Slots, arena

LIFE = st.tuples(st.integers(0, 400), st.integers(0, 9), st.integers(0, 4))  # elements, first call, calls until the last one


@given(st.lists(LIFE, max_size=12))
@example([(100, 0, 1), (90, 0, 9), (95, 3, 1), (20, 5, 1), (30, 0, 8)])
@example([(320, 0, 0), (48, 4, 0), (32, 4, 0), (16, 0, 4), (8, 0, 4)])
def test_lifetimes_that_meet_share_nothing(lives):
    tensors = {f"t{i}": TensorType(F32, (n,)) for i, (n, _, _) in enumerate(lives)}
    first = {f"t{i}": a for i, (_, a, _) in enumerate(lives)}
    last = {f"t{i}": a + more for i, (_, a, more) in enumerate(lives)}
    offsets, total = arena(SimpleNamespace(tensors=tensors), Slots({}, tuple(tensors), last, first), {})
    for t, at in offsets.items():
        assert at % ALIGN == 0
        assert at + tensors[t].bytes <= total
        for u in offsets:
            if t < u and first[t] <= last[u] and first[u] <= last[t]:
                assert at + tensors[t].bytes <= offsets[u] or offsets[u] + tensors[u].bytes <= at, (t, u, offsets)
