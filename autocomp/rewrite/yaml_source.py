"""Rule files as located values: safe YAML with limits, no tags, no anchors, no duplicate keys.

The fields `lhs`, `rhs`, `match` and `where` hold rule text, in which `?x`, `[..]` and `m: ?M` are common and YAML's own
meaning of them is not wanted: an inline value of these fields is taken as text to the end of its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from autocomp.errors import RuleError
from autocomp.rewrite.location import Location

MAX_BYTES = 1_000_000
MAX_EVENTS = 100_000
MAX_DEPTH = 20
RULE_TEXT = re.compile(r"\s*(?:- +)*(?:lhs|rhs|match|where):[ ]+(?=[^\s'\"|>#])")
COMMENT = re.compile(r"\s#")
INT = re.compile(r"[-+]?\d+$")
FLOAT = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?$|[-+]?\.?inf$")
PLAIN = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True)
class Located:
    """A value of the file and where its text starts. `value` is a scalar, a tuple of Located, or a dict str -> Located."""

    value: Any
    location: Location

    def error(self, what: str, hint: str | None = None) -> RuleError:
        return RuleError(what, where=str(self.location), hint=hint)


def read_yaml(text: str, file: str) -> Located:
    """The document as Located values. Raises RuleError at file:line:column."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise RuleError(f"the file has more than {MAX_BYTES} bytes", where=file, hint="split it into several files")
    lines, quoted = [], set()
    for i, line in enumerate(text.split("\n")):
        if m := RULE_TEXT.match(line):
            comment = COMMENT.search(line, m.end())
            text = line[m.end() : comment.start() if comment else None].rstrip()
            if _balanced(text):
                body = text.replace("'", "''")
                line = f"{m[0]}'{body}'{line[m.end() + len(text) :]}"
                quoted.add(i)
        lines.append(line)
    return _Reader("\n".join(lines), file, quoted).document()


def _balanced(text: str) -> bool:
    return all(text.count(a) == text.count(b) for a, b in ("[]", "()", "{}"))


class _Reader:
    """Builds Located values from YAML events, so that tags, anchors and depth are refused before anything is built."""

    def __init__(self, text: str, file: str, quoted: set[int]) -> None:
        self.file, self.quoted, self.events = file, quoted, 0
        self.stream: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))

    def next(self) -> yaml.Event:
        try:
            e = next(self.stream)
        except yaml.MarkedYAMLError as x:
            mark = x.problem_mark or x.context_mark
            at = Location(self.file, mark.line + 1, mark.column + 1) if mark else self.file
            raise RuleError(f"not YAML: {x.problem or x}", where=str(at),
                            hint="indent with spaces" if "tab" in str(x.problem)
                            else "write conditions as a block list, one '- condition' a line") from None  # fmt: skip
        except yaml.YAMLError as x:
            raise RuleError(f"not YAML: {str(x).splitlines()[0]}", where=self.file) from None
        self.events += 1
        if self.events > MAX_EVENTS:
            raise RuleError(f"more than {MAX_EVENTS} values in one file", where=self.file, hint="split it into several files")
        return e

    def at(self, e: yaml.Event) -> Location:
        return Location(self.file, e.start_mark.line + 1, e.start_mark.column + 1)  # type: ignore[union-attr]

    def document(self) -> Located:
        self.next()
        e = self.next()
        if isinstance(e, yaml.StreamEndEvent):
            return Located(None, Location(self.file))
        value = self.value(self.next(), 0)
        self.next()
        e = self.next()
        if not isinstance(e, yaml.StreamEndEvent):
            raise RuleError("a second document in one file", where=str(self.at(e)), hint="use one file a document")
        return value

    def value(self, e: yaml.Event, depth: int) -> Located:
        at = self.at(e)
        if isinstance(e, yaml.AliasEvent):
            raise RuleError(f"alias *{e.anchor}: anchors and aliases are not read", where=str(at), hint="write the value out")
        if getattr(e, "anchor", None):
            raise RuleError(f"anchor &{e.anchor}: anchors and aliases are not read", where=str(at), hint="write the value out")  # type: ignore[attr-defined]
        if getattr(e, "tag", None):
            raise RuleError(f"tag {e.tag}: tags are not read", where=str(at), hint="remove it; a rule file is plain data")  # type: ignore[attr-defined]
        if depth > MAX_DEPTH:
            raise RuleError(f"nested deeper than {MAX_DEPTH}", where=str(at))
        if isinstance(e, yaml.ScalarEvent):
            return self.scalar(e, at)
        if isinstance(e, yaml.SequenceStartEvent):
            items = []
            while not isinstance(e := self.next(), yaml.SequenceEndEvent):
                items.append(self.value(e, depth + 1))
            return Located(tuple(items), at)
        return self.mapping(at, depth)

    def scalar(self, e: yaml.ScalarEvent, at: Location) -> Located:
        s = e.value
        if e.style not in (None, ""):
            if e.start_mark.line not in self.quoted and e.style in "'\"":  # type: ignore[union-attr]
                at = Location(at.file, at.line, at.column + 1)
            return Located(s, at)
        if s.lower() in PLAIN:
            return Located(PLAIN[s.lower()], at)
        if INT.match(s) and len(s) < 40:
            return Located(int(s), at)
        return Located(float(s.replace(".inf", "inf")) if FLOAT.match(s) else s, at)

    def mapping(self, at: Location, depth: int) -> Located:
        out: dict[str, Located] = {}
        where: dict[str, Location] = {}
        while not isinstance(e := self.next(), yaml.MappingEndEvent):
            key = self.value(e, depth + 1)
            if not isinstance(key.value, (str, int)) or isinstance(key.value, bool):
                raise RuleError("a key must be a word", where=str(key.location))
            name = str(key.value)
            if name in out:
                raise RuleError(f"'{name}' is given twice (first on line {where[name].line})", where=str(key.location))
            where[name] = key.location
            out[name] = self.value(self.next(), depth + 1)
        return Located(out, at)
