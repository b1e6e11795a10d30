"""The model of order that plans are checked by: what an agent knows when a wait tells it the parity of a phase alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autocomp.tile.happens_before import Agent, World

WRONG = ["waits passes a wait for m by a phase that is not its own"]


@pytest.mark.parametrize(("told", "seen", "found"), [(True, True, []), (False, True, WRONG), (True, False, WRONG)])
def test_a_wait_by_parity(told: bool, seen: bool, found: list[str]) -> None:
    """`told`: who ends the second phase knows that the wait for the first is over; `seen`: who waits for the second has seen the first."""
    a, b = Agent(0, "waits", [0, 0]), Agent(1, "ends", [0, 0])
    w = World([a, b])

    def does(by: Agent, act: Callable[[], object]) -> None:
        act()
        by.now += 1

    ends = lambda: w.arrives(("m",), b, "m", 1, 0, 1, 0)
    does(b, ends)
    if seen:
        does(a, lambda: w.awaits(("m",), a, "m", 1))
    if told:
        b.learns(a.says)
    does(b, ends)
    does(a, lambda: w.awaits(("m",), a, "m", 2))
    assert w.found == found
