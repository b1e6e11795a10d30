"""Values of a vector core: where they lie, or what number they are."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isnan

WORD, LONG = "int32_t", "int64_t"


@dataclass(frozen=True)
class Operand:
    """A value in unified buffer (`name`, at `offset`, lanes along axis `lane`) or a number (kind "number", its text in `name`), of C++ type
    `element` where instructions compute with it: in single precision, or words."""

    name: str
    kind: str
    lane: str = ""
    offset: int = -1
    element: str = "float"

    @property
    def zero(self) -> str:
        return "0" if self.element == WORD else "0.0f"

    @property
    def neutral(self) -> str:
        """What added to any number gives that number, also to a zero of either sign."""
        return "0" if self.element == WORD else "-0.0f"

    @property
    def storage(self) -> str:
        """The buffer of a plan."""
        return f"ub+{self.offset}" if self.offset >= 0 else self.name


def name_of(hint: str, n: int) -> str:
    """The name of the n-th value: no other hint and number have the same (m2 and 2 as m and 22)."""
    return f"{hint}_{n}" if hint[-1].isdigit() else f"{hint}{n}"


def number(value: float) -> str:
    if not isfinite(value):  # divisions that C++ folds: Ascend C's public interface names neither
        return "(0.0f / 0.0f)" if isnan(value) else f"({'-' if value < 0 else ''}1.0f / 0.0f)"
    text = f"{value:.9g}"
    return text + ("f" if any(c in text for c in ".e") else ".0f")
