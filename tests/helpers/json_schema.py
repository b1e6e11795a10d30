"""As much of JSON schema (draft 2020-12) as the project's own schemas use: where a value breaks one."""

from __future__ import annotations

import re
from typing import Any

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def broken(schema: dict[str, Any], value: Any, root: dict[str, Any] | None = None,
           path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], str]]:  # fmt: skip
    """(path, what is wrong) of everything that breaks the schema; a word of it that is not known here is an error of the test."""
    root = schema if root is None else root
    out: list[tuple[tuple[Any, ...], str]] = []
    say = lambda what, *more: out.append(((*path, *more), what))
    inner = lambda s, v, *more: out.extend(broken(s, v, root, (*path, *more)))
    for word, arg in schema.items():
        match word:
            case "$schema" | "title" | "description" | "$defs" | "then" | "else" | "$id":
                pass
            case "$ref":
                target: Any = root
                for step in arg.removeprefix("#/").split("/"):
                    target = target[step]
                inner(target, value)
            case "type":
                if not any(_is(t, value) for t in ([arg] if isinstance(arg, str) else arg)):
                    say(f"is no {arg}")
            case "enum":
                if value not in arg:
                    say(f"is none of {arg}")
            case "const":
                if value != arg:
                    say(f"is not {arg}")
            case "pattern":
                if isinstance(value, str) and not re.search(arg, value):
                    say(f"does not match {arg}")
            case "minimum":
                if _is("number", value) and value < arg:
                    say(f"is below {arg}")
            case "minItems":
                if isinstance(value, list) and len(value) < arg:
                    say("has too few items")
            case "minProperties":
                if isinstance(value, dict) and len(value) < arg:
                    say("has too few fields")
            case "items":
                for i, x in enumerate(value if isinstance(value, list) else ()):
                    inner(arg, x, i)
            case "required":
                for k in arg if isinstance(value, dict) else ():
                    if k not in value:
                        say(f"has no {k}")
            case "properties":
                for k, s in arg.items():
                    if isinstance(value, dict) and k in value:
                        inner(s, value[k], k)
            case "additionalProperties":
                for k in value if isinstance(value, dict) else ():
                    if k not in schema.get("properties", {}):
                        if arg is False:
                            say("is an unknown field", k)
                        elif isinstance(arg, dict):
                            inner(arg, value[k], k)
            case "anyOf":
                tries = [broken(s, value, root, path) for s in arg]
                if all(tries):
                    out.extend(max(tries, key=lambda t: max(len(p) for p, _ in t)))  # the one that came furthest
            case "allOf":
                for s in arg:
                    inner(s, value)
            case "if":
                inner(schema.get("else" if broken(arg, value, root) else "then", {}), value)
            case _:
                raise AssertionError(f"the test knows no '{word}' of JSON schema")
    return out


def _is(kind: str, value: Any) -> bool:
    if kind in ("number", "integer"):
        return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])
