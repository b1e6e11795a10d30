"""An error that names FILE:LINE:COLUMN with the line itself and a caret below the place."""

from __future__ import annotations

import re
from pathlib import Path

from autocomp.errors import AutocompError

_PLACE = re.compile(r"(.+?):(\d+):(\d+)(?: rule '.*')?")
WIDE = 120  # characters of a line that are shown


def with_caret(e: AutocompError) -> str:
    """The error's text; where its place can be read, the line stands above its next step."""
    text, shown = str(e), _line(e.where or "")
    if not shown:
        return text
    head, cut, hint = text.partition("\n  next: ")
    return f"{head}\n{shown}{cut}{hint}"


def _line(where: str) -> str:
    found = _PLACE.fullmatch(where)
    if found is None:
        return ""
    number, column = int(found[2]), int(found[3])
    try:
        lines = Path(found[1]).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return ""
    if not 1 <= number <= len(lines) or not 1 <= column <= len(lines[number - 1]) + 1:
        return ""
    line = lines[number - 1].replace("\t", " ")
    first = len(line) - len(line.lstrip()) if column - 1 < WIDE else column - 1 - WIDE // 2
    return f"    {line[first : first + WIDE]}\n    {' ' * max(0, column - 1 - first)}^"
