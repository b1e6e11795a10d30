"""Rule files in one form, that every reader of YAML 1.2 understands too: `autocomp rules fmt`.

    match: contract(m: ?M, n: ?N)      ->    match: "contract(m: ?M, n: ?N)"      what YAML would read as something else is quoted
      where:   [rank(?x) <= 2]         ->      where: [rank(?x) <= 2]             two spaces a level, one behind a colon

Lines stay lines: comments, the order of fields and flow lists stand where they stood. What a file says never changes: both texts are read
and compared, and a text that this would change is refused.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from autocomp.errors import RuleError
from autocomp.rewrite.yaml_source import COMMENT, RULE_TEXT, Located, read_yaml

_KEY = re.compile(r"([\w$./-]+:)[ ]{2,}(?=\S)")
_DASH = re.compile(r"-[ ]+")


def formatted(text: str, file: str) -> str:
    """The text in the one form; formatting it again changes nothing. Raises RuleError where it is no rule file, or cannot be formatted."""
    before = read_yaml(text, file)
    lines = [_quoted(line.rstrip()) for line in text.replace("\r\n", "\n").split("\n")]
    out = "\n".join(_indented(lines, file)).strip("\n") + "\n"
    out = re.sub(r"\n{3,}", "\n\n", out).lstrip("\n")
    if _plain(read_yaml(out, file)) != _plain(before) or _comments(out) != _comments(text):
        raise RuleError("cannot be formatted: its values or comments would change", where=file,
                        hint="write texts of several lines as blocks (`|`), and flow lists in one line")  # fmt: skip
    return out


def _quoted(line: str) -> str:
    """A line whose rule text stands in quotes where YAML would read something else, with one space behind its key."""
    found = RULE_TEXT.match(line)
    if found is None:
        at = _KEY.search(line)
        return line[: at.end(1)] + " " + line[at.end() :] if at and not line[: at.start()].strip(" -") else line
    comment = COMMENT.search(line, found.end())
    value = line[found.end() : comment.start() if comment else None].rstrip()
    rest = line[found.end() + len(value) :]
    if any(value.count(a) != value.count(b) for a, b in ("[]", "()", "{}")):
        return line  # goes on in the next line
    return f"{found[0].rstrip()} {value if _is_yaml(value) else _in_quotes(value)}{rest}"


def _is_yaml(value: str) -> bool:
    """Whether YAML reads a text as itself, a number, or a flow list of words and numbers."""
    try:
        read = yaml.safe_load(f"- {value.replace('?', '_')}")[0]  # a letter of a word in YAML 1.2, not to PyYAML's own scanner
    except yaml.YAMLError:
        return False
    if isinstance(read, list):
        return all(isinstance(x, (str, int, float)) for x in read)
    return read == value.replace('?', '_') or (isinstance(read, (int, float)) and not isinstance(read, bool))


def _in_quotes(value: str) -> str:
    return f'"{value}"' if '"' not in value and "\\" not in value else "'" + value.replace("'", "''") + "'"


def _indented(lines: list[str], file: str) -> list[str]:
    """Lines at two spaces a level. Lines inside of a text or a flow list move with the line where it begins; a comment stands as the next
    line does."""
    inside = _inside("\n".join(lines), file)
    out: list[str] = []
    columns: list[int] = []
    shift = 0
    waiting: list[int] = []  # comments before the next line
    for i, line in enumerate(lines):
        body = line.lstrip(" ")
        if i in inside:
            out.append(" " * max(0, len(line) - len(body) + shift) + body if body else "")
            continue
        if not body or body.startswith("#"):
            waiting += [len(out)] if body else []
            out.append(body)
            continue
        at, text, first = len(line) - len(body), "", -1
        while True:
            while columns and columns[-1] > at:
                columns.pop()
            if not columns or columns[-1] < at:
                columns.append(at)
            first = 2 * (len(columns) - 1) if first < 0 else first
            if not (dash := _DASH.match(body)):
                break
            text, at, body = text + "- ", at + dash.end(), body[dash.end() :]
        shift = first - (len(line) - len(line.lstrip(" ")))
        out.append(" " * first + text + body)
        for n in waiting:
            out[n] = " " * first + out[n]
        waiting.clear()
    return out


def _inside(text: str, file: str) -> set[int]:
    """Lines, counted from 0, that go on with a text or a flow list of an earlier line."""
    found: set[int] = set()
    open_at: list[tuple[bool, int]] = []
    try:
        for e in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(e, yaml.CollectionStartEvent):
                open_at.append((bool(e.flow_style), e.start_mark.line))  # type: ignore[union-attr]
            elif isinstance(e, yaml.CollectionEndEvent):
                flow, line = open_at.pop()
                found.update(range(line + 1, e.end_mark.line + 1) if flow else ())  # type: ignore[union-attr]
            elif isinstance(e, yaml.ScalarEvent):
                end = e.end_mark.line + (e.end_mark.column > 0)  # type: ignore[union-attr]
                found.update(range(e.start_mark.line + 1, end))  # type: ignore[union-attr]
    except yaml.MarkedYAMLError as x:
        mark = x.problem_mark
        raise RuleError(f"cannot be formatted: {x.problem}", where=f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file,
                        hint="put the rule's text in quotes") from None  # fmt: skip
    return found


def _plain(x: Located) -> Any:
    if isinstance(x.value, tuple):
        return [_plain(i) for i in x.value]
    return {k: _plain(v) for k, v in x.value.items()} if isinstance(x.value, dict) else x.value


def _comments(text: str) -> list[str]:
    """Comments in order: what stands behind the first ` #` of a line."""
    return [m[1].strip() for line in text.split("\n") if (m := re.search(r"(?:^|\s)#(.*)", line))]
