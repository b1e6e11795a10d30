"""Prices of attention with few queries: rounds of blocks that share a core and memory; the states of one fold are counted once."""

from __future__ import annotations

from functools import cache

import pytest

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate
from autocomp.egraph.parts import merged
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import attention, graph

CHIP = load_chip("h200")


@cache
def step(batch: int, own: int, group: int, keys: int) -> Kernel:
    """One query a sequence, `group` heads of it over each head of keys of 128."""
    program = autocomp.optimize(attention(batch, own * group, 1, 128, keys=keys, shared=group), target="cuda:h200")
    (call,) = merged(program.calls).calls
    return call.kernel


def schedule(kernel: Kernel, keys: int, parts: int, threads: int = 32, stages: int = 2) -> Schedule:
    rows = [a for a in kernel.axes if a.extent == 4][:1]
    tile = {a.name: 128 if a is kernel.axes[-1] else a.extent if a in rows else 1 for a in kernel.axes}
    return Schedule.make({**tile, "r1": keys}, threads=threads, stages=stages, split=("r1", parts) if parts else None)


def test_states_of_one_fold_are_one_product():
    """The part's kernel stores a maximum, a sum and a weighted sum: the values are multiplied once for all three."""
    kernel = step(1, 8, 4, 32768)
    whole = demand_of(kernel).work
    (part, _), _ = pieces(kernel, schedule(kernel, 64, 32))
    assert demand_of(part).work.matrix == whole.matrix


# Microseconds of torch-like benchmarks on an H200, 2026-11-21, behind an overwritten L2: (keys a turn, stages, threads, parts)
MEASURED = {(32, 3, 32, 64): 52.4, (64, 2, 32, 48): 54.9, (64, 2, 64, 48): 57.0, (32, 4, 32, 48): 57.3, (64, 2, 32, 32): 65.2,
            (64, 2, 32, 64): 69.7, (128, 2, 32, 32): 112.5}  # fmt: skip


def test_one_query_over_32768_keys_is_ordered_as_measured():
    kernel = step(1, 8, 4, 32768)
    predicted = {m: estimate(kernel, schedule(kernel, m[0], m[3], m[2], m[1]), CHIP).seconds * 1e6 for m in MEASURED}
    for a, us in MEASURED.items():
        assert 0.65 * us < predicted[a] < us, (a, us, predicted[a])  # written lines of L2 leave meanwhile: 10 us
        for b, more in MEASURED.items():
            assert more < 1.06 * us or predicted[a] < predicted[b], (a, b)


def test_blocks_that_find_no_room_wait_for_a_round():
    """Rings of 64 keys in two stages leave room for three blocks: 64 parts of 8 heads are a fourth one on most cores."""
    kernel = step(1, 8, 4, 32768)
    one, two = (estimate(kernel, schedule(kernel, 64, parts), CHIP).seconds for parts in (48, 64))
    assert two > 1.15 * one


@pytest.mark.parametrize(("batch", "own", "group", "keys"), [(8, 32, 1, 4096), (8, 8, 4, 8192), (1, 8, 4, 131072)])
def test_the_choice_has_many_small_blocks(batch, own, group, keys):
    """Long caches: rings of 32 keys, so that a core has more turns under way."""
    text = attention(batch, own * group, 1, 128, keys=keys, shared=group)
    first = autocomp.optimize(text, target="cuda:h200").kernels[0]
    assert "r1 32" in str(first.schedule) and "threads 32" in str(first.schedule), first.schedule


# Microseconds of products of few rows (benchmarks/cost_rank.py --seed 2711, H200, 2026-11-27): rows x columns x depth -> with factors that
# come straight to registers, (columns, depth, threads, stages), and with roles, (columns, depth, stages, blocks that share the depth)
FEW = {(41, 3520, 7168): ((32, 512, 128, 4, 47.5), (64, 128, 6, 2, 22.2)),
       (30, 1600, 4800): ((16, 1024, 128, 4, 21.7), (64, 64, 8, 2, 14.3))}  # fmt: skip


@pytest.mark.parametrize("shape", FEW)
def test_a_factor_that_no_ring_brings_is_waited_for_in_each_turn(shape):
    m, n, k = shape
    text = graph({"a": f"bf16[{m}, {k}]", "b": f"bf16[{n}, {k}]"}, "%t = transpose(b, perm=[1, 0])\n%0 = matmul(a, %t)")
    kernel = autocomp.optimize(text, target="cuda:h200").calls.calls[0].kernel
    (columns, depth, threads, stages, straight), (wide, steps, slots, parts, roles) = FEW[shape]
    direct = Schedule.make({"i0": m, "i1": columns, "r0": depth}, stages=stages, threads=threads, instruction="direct")
    team = Schedule.make({"i0": m, "i1": wide, "r0": steps}, stages=slots, roles="warp_specialise", workers=1, cluster=parts,
                         cluster_split_k=parts)  # fmt: skip
    mine, other = (estimate(kernel, s, CHIP).seconds * 1e6 for s in (direct, team))
    assert mine > 1.1 * other and mine > 0.45 * straight and other > 0.45 * roles


@pytest.mark.parametrize("size", [(128, 64), (128, 128), (100, 96), (512, 80)])
def test_few_heads_take_no_longer_than_many(size):
    """Cores without a tile wait: one head of 128 x 64 was priced at 38 us, 32 heads at 4.2; one takes 5.6 (H200, 2026-11-30)."""
    one, eight, many = (autocomp.optimize(attention(1, heads, *size), target="cuda:h200").predicted for heads in (1, 8, 32))
    assert one <= 1.02 * eight <= 1.05 * many
