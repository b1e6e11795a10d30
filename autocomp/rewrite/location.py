"""Where a piece of a rule stands, and text that knows where it came from."""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.errors import RuleError

LONG = 160  # characters of a text that an error shows


@dataclass(frozen=True)
class Location:
    """file:line:column, line and column counted from 1. `spelled`: text that Python or a `let` made
    has its function's or its line's place alone."""

    file: str
    line: int = 1
    column: int = 1
    spelled: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Text:
    """A piece of rule text (a pattern, a condition) and where its first character stands."""

    value: str
    location: Location
    rule: str = ""

    def error(self, what: str, offset: int, hint: str | None = None) -> RuleError:
        """A RuleError that points at the character `offset` of this text."""
        at = self.location
        if at.spelled:
            low, high = (0, len(self.value)) if len(self.value) <= LONG else (max(0, offset - LONG // 2), offset + LONG // 2)
            cut = self.value[low:high]
            what = f"{what}, in `{'…' if low else ''}{cut}{'…' if high < len(self.value) else ''}`"
        else:
            at = Location(at.file, at.line, at.column + offset)
        where = f"{at} rule '{self.rule}'" if self.rule else str(at)
        return RuleError(what, where=where, hint=hint)
