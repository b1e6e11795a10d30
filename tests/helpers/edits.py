"""Changes of a target's headers, to see that models notice them."""

from __future__ import annotations


class Edit:
    """Puts `by` in the place of `was`, in whichever header has it; `found`: so often."""

    def __init__(self, was: str, by: str) -> None:
        self.was, self.by, self.found = was, by, 0

    def __call__(self, header: str) -> str:
        self.found += header.count(self.was)
        return header.replace(self.was, self.by)
