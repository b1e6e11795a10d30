"""Values of a vector core: where they lie, or what number they are."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf


@dataclass(frozen=True)
class Operand:
    """A value in unified buffer (`name`, at `offset`, lanes along axis `lane`) or a number (kind "number", its text in `name`)."""

    name: str
    kind: str
    lane: str = ""
    offset: int = -1

    @property
    def storage(self) -> tuple[str, ...]:
        return (f"ub+{self.offset}",) if self.offset >= 0 else (self.name,)


def number(value: float) -> str:
    if isinf(value):
        return f"{'-' if value < 0 else ''}3.4028235e38f"
    text = f"{value:.9g}"
    return text + ("f" if any(c in text for c in ".e") else ".0f")
