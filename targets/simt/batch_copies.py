"""Copies that stand side by side are all started before one of them is waited for (directive `batch_copies`), where some are transposed
through shared memory (`turned`).

    before   a = copy x                after   side by side
             b = copy y                          a = copy x
             c = map a + b                       b = copy y
                                               c = map a + b
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from autocomp.targets.simt.facts import Facts

from autocomp.tile.steps import Over, Scheme, Steps, bodies, inside, stmt_of


@dataclass(frozen=True)
class SideBySide(Scheme):
    """Copies that are all started before one of them is waited for."""

    says = "side by side"


def batch_copies(steps: Steps, facts: Facts) -> Steps:
    """Groups the copies at the beginning of each body without products, where there are several of which some are turned."""
    place = facts.place
    others = {*place.words, *place.shared, *place.late}

    def change(body: Steps) -> Steps:
        copies = lambda n: (s := stmt_of(n)) is not None and s.op == "copy" and facts.p.tensor(s.srcs[0]) is not None
        first = tuple(takewhile(copies, body))
        names = {s.dst for s in inside(first)}
        together = len(first) > 1 and names & place.staged.keys() and not names & others
        return (Over(first, None, (SideBySide(),)), *body[len(first) :]) if together else body

    return steps if place.products else bodies(steps, change)
