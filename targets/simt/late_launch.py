"""The next launch starts behind the loops (directive `late_launch`; PTX: griddepcontrol.launch_dependents).

    before   await earlier launches, let the next one start      after   await earlier launches
             serial r0 ..                                                serial r0 ..
             store out = acc                                             let the next one start
                                                                         store out = acc

Blocks that start beside those of a kernel that still has all of its turns to do lie where these have left room: few on each core, and
all that do not fit on the first cores that are done. A core then has several times as many as the others, which the next kernel waits for.
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.targets.simt.facts import Facts
from autocomp.targets.simt.pdl import AwaitLaunches

from autocomp.tile.steps import Act, Over, Scheme, Step, Steps, by


@dataclass(frozen=True)
class LetNextStart(Scheme):
    """The next launch may start its blocks."""

    says = "let the next launch start"


def late_launch(steps: Steps, facts: Facts) -> Steps:
    """Moves what lets the next launch start behind a tile's last loop."""
    last = max((k for k, n in enumerate(steps) if _turns(n)), default=-1)
    if last < 0 or not by(steps[0], AwaitLaunches):
        return steps
    return (Act(AwaitLaunches(alone=True)), *steps[1 : last + 1], Act(LetNextStart()), *steps[last + 1 :])


def _turns(n: Step) -> bool:
    """Whether a step takes turns."""
    if not isinstance(n, Over):
        return False
    return (n.loop is not None and n.loop.kind in ("serial", "pipelined")) or any(map(_turns, n.body))
