"""Loops of a core while they are being filled: works of a round, of the one behind it, and of some rounds before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from autocomp.tile.agents import Again, Node, Skewed


@dataclass
class Frame:
    """A loop that is being filled: `turn` is the text of its count of rounds; `loads` stand in front of `works`."""

    loop: str
    turn: str
    declarations: list[str] = field(default_factory=list)
    loads: list[Node] = field(default_factory=list)
    works: list[Node] = field(default_factory=list)
    early: list[Node] = field(default_factory=list)  # works of the round behind this one
    late: list[Node] = field(default_factory=list)  # works of the round `by` rounds before
    by: int = 1
    joint: Joint | None = None  # a loop in this one that is to run its rounds as well

    @property
    def body(self) -> tuple[Node, ...]:
        return (*self.loads, *self.works)

    def again(self, loop: str, limit: str, origin: Sequence[str]) -> Again:
        """The loop over `loop` in 0 .. limit, its text with the declarations behind `origin`, that of a round's first indices."""
        inside = [*origin, *self.declarations]
        now = 1 if self.early else 0
        parts = [(0, tuple(self.early)), (now, self.body), (now + self.by, tuple(self.late))]
        parts = [(lag, body) for lag, body in parts if body]
        last = parts[-1][0] if parts else 0
        head = f"for (uint32_t {loop} = 0; {loop} < {limit}{f' + {last}' if last else ''}; ++{loop}, ++{self.turn}) {{"
        if not last:
            return Again(loop, (head, *("  " + x for x in inside)), self.body, ("}",))
        behind = tuple(self._behind(lag, last, loop, limit, inside, body) for lag, body in parts)
        return Again(loop, (head,), behind, ("}", f"{self.turn} -= {last};"))

    def _behind(self, lag: int, last: int, loop: str, limit: str, inside: Sequence[str], body: tuple[Node, ...]) -> Skewed:
        """A part of the loop that is at the round `lag` rounds before."""
        if not lag:
            return Skewed(0, (f"if ({loop} < {limit}) {{", *("  " + x for x in inside)), body, ("}",))
        now = f"const uint32_t {loop}_now = {loop}, {self.turn}_now = {self.turn};"
        before = f"const uint32_t {loop} = {loop}_now - {lag}, {self.turn} = {self.turn}_now - {lag};"
        some = f"{loop} >= {lag}" if lag == last else f"{loop} >= {lag} && {loop} < {limit} + {lag}"
        return Skewed(lag, (f"if ({some}) {{", "  " + now, "  {", *("  " + x for x in (before, *inside))), body, ("  }", "}"))


@dataclass(frozen=True)
class Joint:
    """The loop `name` over the rounds of `frame` up to `limit`, with `first`, the text of a round's first indices; it stands behind so many
    of the works and late works of the frame around it."""

    frame: Frame
    name: str
    limit: str
    first: tuple[str, ...]
    works: int
    late: int
