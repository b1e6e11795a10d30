"""Schedules written by hand for tests of targets: with every directive, as rules give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocomp.ir.directives import DIRECTIVES
from autocomp.ir.schedule import Schedule


def by_hand(tile: Mapping[str, int], **rest: Any) -> Schedule:
    """A schedule by hand, with all directives."""
    return Schedule.make(tile, **{"directives": tuple(DIRECTIVES), **rest})
