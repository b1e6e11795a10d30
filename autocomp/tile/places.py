"""Places on chip: buffers laid one behind the other in each, slots of rings, reuse where a value has died."""

from __future__ import annotations

from dataclasses import dataclass, field

from autocomp.errors import DoesNotFit
from autocomp.tile.agents import Span


@dataclass
class Place:
    """One memory of `capacity` bytes. `take` gives an offset and raises DoesNotFit with both numbers; `give` frees it again. `row`: bytes
    of a row of its banks (0: none that count): pieces begin at rows, those that are to be `apart` from them half a row further."""

    name: str
    capacity: int
    align: int
    row: int = 0
    top: int = 0
    free: dict[int, list[int]] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)

    def rounded(self, bytes_: int) -> int:
        return -(-bytes_ // self.align) * self.align

    def take(self, bytes_: int, slots: int = 0, name: str = "", apart: bool = False) -> int:
        """An offset for a piece of `bytes_` (rounded up), or for a ring of `slots` neighbouring ones: rings never lie where something was
        freed, not even those of one slot, as other agents than the one that freed it use them. `name`: of the buffer, if not `piece`.
        `apart`: an instruction that reads it beside another piece waits for no bank."""
        size = self.rounded(bytes_) * max(1, slots)
        if not slots and self.free.get(size):
            at = self.free[size].pop()
        else:
            at = self.top
            if self.row and size >= self.row and (apart or any(s.at % self.row for s in self.spans.values())):
                at += (self.row // 2 * apart - at) % self.row
            self.top = at + size
        if self.top > self.capacity:
            raise DoesNotFit(f"tiles in {self.name} of a core", needed=self.top, available=self.capacity, hint="use smaller tiles")
        name = name or self.piece(at)
        self.spans[name] = Span(self.name, at, max(self.rounded(bytes_), self.spans[name].bytes if name in self.spans else 0))
        return at

    def piece(self, at: int) -> str:
        """The name of a buffer without one."""
        return f"{self.name}+{at}"

    def give(self, at: int, bytes_: int) -> None:
        """A piece that is no longer used; the next one of its size may lie there."""
        self.free.setdefault(self.rounded(bytes_), []).append(at)
