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


def shared(readers: int):
    """An expensive map of a large tensor that several outputs read."""
    b = Builder("shared")
    t = TensorType(F32, (4096, 4096))
    x = b.input("x", t)
    for op in ("erf", *("sin", "tanh", "cos") * 6):
        x = b.op(op, x)
    for k in range(readers):
        b.output(f"y{k}", b.op("mul", x, b.input(f"z{k}", t)))
    return b.graph()


def free_arithmetic():
    chip = load_chip("h200")
    return replace(chip, vector={k: v * 1e6 for k, v in chip.vector.items()}, special=chip.special * 1e6)


def times_computed(g, op):
    return sum(op in c.ops for c in g.calls)


def test_with_recompute_priced_at_zero_the_choice_to_materialise_flips():
    """Nineteen functions an element cost more than storing the value and reading it again; if they were free, less memory traffic wins:
    each reader computes them for itself."""
    dear, cheap = kernels(shared(3)), kernels(shared(3), chip=free_arithmetic())
    assert (times_computed(dear, "erf"), times_computed(cheap, "erf")) == (1, 3)
    stored = lambda g: [t for t in g.tensors if t not in {*g.inputs, *(n for _, n in g.outputs)}]
    assert (len(stored(dear)), len(stored(cheap))) == (1, 0)
    assert moved(cheap) < moved(dear)


def test_a_lie_about_recompute_costs_time():
    """The flipped choice, priced as it really is, is slower than the one that was made."""
    honest = kernels(shared(3)).predicted
    flipped = kernels(shared(3), chip=free_arithmetic())
    one = kernels(shared(1)).predicted  # one reader that computes for itself, at its real price
    assert times_computed(flipped, "erf") * one > honest


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
