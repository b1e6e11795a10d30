"""What passes know of a kernel: where its values lie. And how passes run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from autocomp.targets.simt.placed import Placement

from autocomp.ir.directives import DIRECTIVES
from autocomp.tile.program import TileProgram
from autocomp.tile.steps import Steps


@dataclass(frozen=True)
class Facts:
    """`asked`: the schedule's directives; `overlaps`: a launch may start while the one before it ends."""

    p: TileProgram
    place: Placement
    asked: frozenset[str]
    overlaps: bool


F = TypeVar("F", bound=Facts)


def scheduled(passes: Sequence[Callable[[Steps, F], Steps]], steps: Steps, facts: F) -> Iterator[tuple[str, Steps]]:
    """The steps behind each pass that changed them. One that a directive of its name asks for is not run without it."""
    for run in passes:
        name = run.__name__
        if name in DIRECTIVES and name not in facts.asked:
            continue
        after = run(steps, facts)
        if after != steps:
            yield name, after
        steps = after
