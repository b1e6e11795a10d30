"""Multicast in a cluster (schedule field `cluster`; PTX: cp.async.bulk.tensor .multicast::cluster): neighbouring blocks that need the same
factor bring a part of it each, for all of them.

    before   producer                     after   producer
               grid i0, i1                          grid i0, i1
                 serial r0                            serial r0
                   send q0: a, b                        send q0: a, b  (b for all blocks of the cluster)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.warp_specialise import Send

from autocomp.tile.program import Loop, walk
from autocomp.tile.steps import Act, Step, Steps, by, each, sayings

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter


def multicast(steps: Steps, facts: Facts) -> Steps:
    """Says of each send which of its copies all blocks of the cluster need alike."""

    def change(n: Step) -> Step:
        send = by(n, Send)
        alike = [s.dst for s in send.copies if facts.paired not in facts.placer.bulk[s.dst].view.axes] if send else []
        return Act(replace(send, for_all=tuple(alike))) if send and alike else n

    return each(steps, change) if facts.together > 1 else steps


def for_all(steps: Steps) -> frozenset[str]:
    """The factors that blocks bring for each other."""
    return frozenset(x for send in sayings(steps) if isinstance(send, Send) for x in send.for_all)


def pair(at: WarpSpecialisedPrinter) -> str:
    """The grid axis along which a cluster's blocks lie: some copied factor does not depend on it."""
    first = at.p.body[0] if at.p.body else None
    axes = first.axes if isinstance(first, Loop) and first.kind == "grid" else ()
    if len(axes) < 2 or first is None or first.opt("persistent") != "yes":  # type: ignore[union-attr]
        raise at.placer.refuse("a cluster shares a factor between rows of tiles, in blocks that stay")
    if any(s.op == "reduce" for s, _ in walk(at.p.body)):
        raise at.placer.refuse("a cluster that shares a factor reduces nothing")
    if all(axes[-2] in x.view.axes for x in at.placer.bulk.values()):
        raise at.placer.refuse(f"no factor is shared along {axes[-2]}")
    return axes[-2]
