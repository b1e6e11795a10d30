"""A wait that a kernel lacks is seen by the machine model, also where a ring of copies hides it from every one order of threads."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.simulate.simt_model import COMPILER
from benchmarks.fuzz.dropped_barriers import ROLES, Dropped, explained, without_each
from tests.helpers.device_graphs import gemm
from tests.helpers.split_depth import few_blocks, weights

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
    found = without_each(ring(target), tmp_path, model)
    barriers = [s for s in found if s.statement == "ac_sync"]
    assert barriers and all("unordered accesses of shared memory" in s.said for s in barriers)
    assert not [s for s in found if not s.said and not s.why]


def test_every_wait_between_warpgroups_with_roles_is_missed(model, tmp_path):
    """But one of two: a last turn that stands alone waits for all products of the tile, and what reads them waits behind it once more."""
    found = without_each(few_blocks(gemm(200, 264, 328), ROLES, 2), tmp_path, model)
    assert {"ac_barrier_wait", "ac_barrier_arrive", "ac_team_fence", "ac_team_wait", "ac_bulk_wait"} <= {s.statement for s in found}
    assert not [s for s in found if not s.said and not s.why]
    assert sum(not s.said for s in found if s.statement == "ac_team_wait") <= 1


def test_a_wait_for_earlier_launches_is_missed_by_threads_that_no_other_tells_of_them(model, tmp_path):
    """The producer tells the consumers by the barriers of its copies; nobody tells the producer."""
    found = without_each(weights("blocks that stay"), tmp_path, model)
    producer, consumers = (s for s in found if s.statement == "ac_launch_wait")
    assert "before earlier launches are waited for" in producer.said
    assert not consumers.said and "another thread's wait" in consumers.why


def test_a_survivor_without_a_reason_stays_one():
    line = {"kernel": "k", "statement": "ac_sync", "line": 3, "text": "ac_sync();"}
    here, there = Dropped(lines="{ac_sync();", **line), Dropped(lines="{ac_sync();", said="unordered accesses", **line)
    assert explained([("cuda", "a", here)]) == {("ac_sync", ""): ["cuda a:3"]}
    ((_, why),) = explained([("cuda", "a", here), ("cuda", "b", there)])
    assert why.endswith("without these lines b is caught")
    ((_, why),) = explained([("cuda", "a", here), ("maca", "b", there)])
    assert not why, "another target's kernels say nothing of this one's"
