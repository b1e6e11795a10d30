"""Programmatic dependent launch (directive `pdl`; PTX: griddepcontrol.wait and .launch_dependents) of kernels without roles: launches
overlap, so a block waits for the ones before it in front of its first access, and lets the next one start.

    before   a = copy x                after   await earlier launches, let the next one start
             ..                                a = copy x
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.simt.facts import Facts

from autocomp.tile.steps import Act, Scheme, Steps


@dataclass(frozen=True)
class AwaitLaunches(Scheme):
    """What earlier launches wrote is there, and what they read may be overwritten; the next one may start its blocks, unless the wait
    stands `alone`."""

    alone: bool = False

    @property
    def said(self) -> str:
        return "await earlier launches" + ("" if self.alone else ", let the next one start")


def pdl(steps: Steps, facts: Facts) -> Steps:
    """Puts the wait in front of a tile's steps."""
    return (Act(AwaitLaunches()), *steps) if facts.overlaps else steps
