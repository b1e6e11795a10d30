"""Take an idea out, or make it lie, and the result changes as predicted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.egraph import choose
from autocomp.egraph.choose import choose_schedule
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import freeze_graph
from autocomp.ir.builder import Builder
from autocomp.ir.decompose import decompose
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from examples.models import bert


def kernels(graph, without=(), chip=None, options=None):
    options = options or Options()
    rules = load_rules(without=without)
    return cover(freeze_graph(decompose(graph)), rules, chip or load_chip("h200"), options, Trace())


def moved(g):
    """Bytes that kernels read and write."""
    return sum(g.tensors[t].bytes for c in g.calls for t in c.args.values())


def test_without_fusion_rules_kernels_and_bytes_rise():
    graph = bert(1, seq=32, hidden=64, heads=4, inner=128)
    fused, plain = kernels(graph), kernels(graph, without=("fusion/*",))
    assert len(plain.calls) > 2 * len(fused.calls)
    assert moved(plain) > 1.5 * moved(fused)


def exp_with_readers(n, readers):
    b = Builder("readers")
    x = b.input("x", TensorType(F32, (n, n)))
    e = b.op("matmul", x, b.param("w", np.zeros((n, n), "f4")))
    for k in range(readers):
        b.output(f"y{k}", b.op("mul", e, b.input(f"z{k}", TensorType(F32, (n, n)))))
    return b.graph()


def test_an_expensive_producer_is_computed_once():
    g = kernels(exp_with_readers(1024, 3))
    assert sum("matmul" in c.ops for c in g.calls) == 1


def test_with_recompute_priced_at_zero_it_is_computed_for_every_reader():
    chip = load_chip("h200")
    free = replace(chip, matrix={k: v * 1e6 for k, v in chip.matrix.items()}, launch=0.0)
    g = kernels(exp_with_readers(1024, 3), chip=replace(free, features=("free",)))
    dear = kernels(exp_with_readers(1024, 3))
    assert sum("matmul" in c.ops for c in g.calls) >= sum("matmul" in c.ops for c in dear.calls)


def matmul_kernel(n=2048):
    b = Builder("m")
    x, w = (b.input(s, TensorType(F32, (n, n))) for s in "xw")
    b.output("y", b.op("matmul", x, w))
    return kernels(b.graph()).calls[0].kernel


@pytest.mark.parametrize("shrink", [16, 64])
def test_a_smaller_cache_gives_smaller_tiles(shrink):
    chip = load_chip("cpu")
    small = replace(
        chip, memories=tuple(replace(m, capacity=m.capacity / shrink) if m.name in ("l1", "l2") else m for m in chip.memories)
    )
    k = matmul_kernel()
    tile = lambda c: np.prod([t for _, t in choose_schedule(k, load_rules(), c, Options(), Trace())[0].tile])
    assert tile(small) < tile(chip)


def test_a_lying_legality_answer_is_needed_for_an_illegal_schedule(monkeypatch):
    """With legality refusing everything no tile is chosen: the rules do ask."""

    class No:
        ok, why = False, "refused"

    monkeypatch.setattr(choose, "legal", lambda *a, **k: No())
    schedule, _ = choose_schedule(matmul_kernel(256), load_rules(), load_chip("cpu"), Options(), Trace())
    assert schedule.tile == ()


def test_without_tiling_rules_kernels_run_as_one_tile():
    schedule, _ = choose_schedule(matmul_kernel(256), load_rules(without=("tiling/*",)), load_chip("cpu"), Options(), Trace())
    assert schedule.tile == ()


def test_optimize_takes_without():
    graph = bert(1, seq=8, hidden=16, heads=2, inner=16)
    assert len(autocomp.optimize(graph, without=["fusion/*"]).calls.calls) > len(autocomp.optimize(graph).calls.calls)
