"""Programmatic dependent launch (directive `pdl`; PTX: griddepcontrol.wait and .launch_dependents), the pass: launches overlap, so each
role waits for the ones before it in front of what it first reads or writes of theirs, and lets the next one start.

    before   producer                after   producer
               send q1: w                      send q1: w  (a constant, which no kernel writes)
               send q2: x                      await earlier launches
               grid ..                         send q2: x
                                               grid ..
             consumers                       consumers
               grid ..                         await earlier launches
                                               grid ..
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.warp_specialise import Send
from autocomp.targets.simt.pdl import AwaitLaunches

from autocomp.tile.program import Stmt
from autocomp.tile.steps import Act, Over, Step, Steps, by


def pdl(steps: Steps, facts: Facts) -> Steps:
    """Puts the wait in front of each role's first access."""
    if not facts.overlaps:
        return steps

    def change(n: Step) -> Step:
        assert isinstance(n, Over)
        early = sorted(n.body, key=lambda m: not _stays(m, facts))
        k = sum(_stays(m, facts) for m in n.body)
        return replace(n, body=(*early[:k], Act(AwaitLaunches()), *early[k:]))

    return tuple(map(change, steps))


def stays(at: Facts, copies: Sequence[Stmt]) -> bool:
    """Whether no kernel writes what these copies read."""
    return all(at.placer.bulk[s.dst].view.constant for s in copies)


def _stays(n: Step, facts: Facts) -> bool:
    send = by(n, Send)
    return send is not None and send.resident and stays(facts, send.copies)
