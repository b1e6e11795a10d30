"""Where a piece of a rule stands, and text that knows where it came from."""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.errors import RuleError


@dataclass(frozen=True)
class Location:
    """file:line:column, line and column counted from 1. `spelled`: text that Python made has its function's place alone."""

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
            what = f"{what}, in `{self.value}`"
        else:
            at = Location(at.file, at.line, at.column + offset)
        where = f"{at} rule '{self.rule}'" if self.rule else str(at)
        return RuleError(what, where=where, hint=hint)
