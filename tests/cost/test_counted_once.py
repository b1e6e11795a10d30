"""Schedules that issue the same statements are counted once: what differs with their rings is put in for each of them."""

from dataclasses import replace

import pytest
from autocomp.targets.cuda.target import CudaTarget, instructions_of
from autocomp.targets.simt.count import count

from autocomp.cost.chip import load_chip
from autocomp.errors import DoesNotFit
from autocomp.frontends.text import parse
from autocomp.ir.schedule import Schedule
from autocomp.tile.derive import derive
from tests.helpers.covers import cover_of

CHIP = load_chip("h200")
PRODUCT = cover_of(parse("graph g\ninput x: f32[300, 256]\ninput w: f32[256, 200]\n%0 = matmul(x, w)\noutput y = %0\n")).calls[0].kernel
TILED = Schedule.make({"i0": 64, "i1": 64, "r0": 16}, threads=128)
ROOM = CHIP.memory("shared").capacity


def alone(s):
    warp, _, plain = instructions_of(CHIP.arch)
    return count(derive(PRODUCT, s, short=True), s, CHIP, warp, plain).issued(s.stages, ROOM)


@pytest.mark.parametrize("directives", [(), ("turned_store",)])
def test_a_count_that_is_shared_is_that_of_the_schedule_alone(directives):
    target = CudaTarget(CHIP)
    found = {}
    for stages in (1, 2, 3, 4, 7):
        for grouped in (0, 8):
            s = replace(TILED, stages=stages, grouped=grouped, directives=directives)
            assert target.issued(PRODUCT, s) == alone(s), (stages, grouped)
            found[stages] = target.issued(PRODUCT, s)
    assert len(target.counted._known) == 2  # rings, and none
    assert found[7].shared > found[3].shared > found[2].shared
    assert found[2].phases != found[7].phases  # of their waits


def test_rings_that_do_not_fit_are_refused_where_shallow_ones_are_counted():
    target = CudaTarget(CHIP)
    assert target.issued(PRODUCT, replace(TILED, stages=2)) is not None
    with pytest.raises(DoesNotFit, match="shared memory of a block"):
        target.issued(PRODUCT, replace(TILED, stages=64))
