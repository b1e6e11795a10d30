"""Places on chip: buffers laid one behind the other in each, slots of rings, reuse where a value has died."""

from __future__ import annotations

from dataclasses import dataclass, field

from autocomp.errors import DoesNotFit


@dataclass
class Place:
    """One memory of `capacity` bytes. `take` gives an offset and raises DoesNotFit with both numbers; `give` frees it again."""

    name: str
    capacity: int
    align: int
    top: int = 0
    free: dict[int, list[int]] = field(default_factory=dict)

    def rounded(self, bytes_: int) -> int:
        return -(-bytes_ // self.align) * self.align

    def take(self, bytes_: int, slots: int = 0) -> int:
        """An offset for a piece of `bytes_` (rounded up), or for a ring of `slots` neighbouring ones: rings never lie where something was
        freed, not even those of one slot, as other agents than the one that freed it use them."""
        size = self.rounded(bytes_) * max(1, slots)
        if not slots and self.free.get(size):
            return self.free[size].pop()
        self.top += size
        if self.top > self.capacity:
            raise DoesNotFit(f"tiles in {self.name} of a core", needed=self.top, available=self.capacity, hint="use smaller tiles")
        return self.top - size

    def give(self, at: int, bytes_: int) -> None:
        """A piece that is no longer used; the next one of its size may lie there."""
        self.free.setdefault(self.rounded(bytes_), []).append(at)
