"""A wait that a kernel lacks is seen by the machine model, also where a ring of copies hides it from every one order of threads."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.ir.schedule import Schedule
from benchmarks.fuzz.dropped_barriers import ROLES, few_blocks, reason, without_each
from tests.helpers.device_graphs import gemm
from tests.helpers.simt_model import COMPILER

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
RING = Schedule.make({"i0": 32, "i1": 32, "r0": 32}, stages=3)


def ring(target: str):
    """A product whose copies go round a ring of three slots several times."""
    program = autocomp.optimize(gemm(64, 64, 320), target=target)
    kernel = program.calls.calls[0].kernel
    program.printed[kernel.name] = program.target.emit(kernel, RING)
    return program


@pytest.mark.parametrize("target", ["cuda:a100", "maca:c500"])
def test_every_barrier_and_wait_of_a_ring_of_copies_is_missed(target, model, tmp_path):
    program = ring(target)
    texts = {k: s.text for k, s in program.printed.items()}
    found = without_each(program, tmp_path, model)
    barriers = [s for s in found if s.statement == "ac_sync"]
    assert barriers and all("unordered accesses of shared memory" in s.said for s in barriers)
    assert not [s for s in found if not s.said and not reason(target, s, texts[s.kernel])]


def test_every_wait_between_warpgroups_with_roles_is_missed(model, tmp_path):
    program = few_blocks(gemm(200, 264, 328), ROLES, 2)
    found = without_each(program, tmp_path, model)
    assert {"ac_barrier_wait", "ac_barrier_arrive", "ac_team_fence", "ac_team_wait", "ac_bulk_wait"} <= {s.statement for s in found}
    missed = [s for s in found if not s.said and not reason("cuda:h200", s, "")]
    # of the last turn of a tile, where the whole tile is waited for a moment later: products that have been performed are not spoilt
    assert {s.text for s in missed} <= {"ac_team_wait<1>();"} and len(missed) <= 1
