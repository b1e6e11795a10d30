"""api.yaml, read once: the public MACA C interface, and the check that a printed text names nothing else of the vendor's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.files import own_table

COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"[^"\n]*"|^[ ]*#(?:include|pragma)[^\n]*', re.S | re.M)
VENDOR = re.compile(r"\b(?:__\w+|mc[A-Z]\w*|MACA_\w+|maca_\w+)")  # the compiler's, its headers' and the runtime's
CALL = re.compile(r"(?<![\w.>:])([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>)?\s*\(")
LANGUAGE = frozenset(["if", "for", "while", "switch", "return", "sizeof", "alignas", "constexpr", "decltype", "static_assert", "memcpy",
                      "const_cast", "reinterpret_cast", "static_cast", "int", "unsigned", "float", "double", "bool", "char", "short",
                      "long"])  # fmt: skip


@lru_cache(maxsize=1)
def rows() -> dict[str, Any]:
    out: dict[str, Any] = own_table("autocomp.targets.maca", "api.yaml")
    return out


def math_names() -> Iterator[tuple[str, str, int]]:
    """(name, type, arguments) of the table's mathematical functions."""
    m = rows()["math"]
    for names, count in ((m["one"], 1), (m["two"], 2)):
        for n in names:
            yield f"{n}f", "float", count
            yield n, "double", count
    yield from ((n, "float", count) for n, count in m["float"].items())


@lru_cache(maxsize=8)
def known(architecture: str) -> frozenset[str]:
    """Every name of the table that an architecture has."""
    t = rows()
    here = (b["name"] for b in t["builtins"] if architecture in b.get("architectures", [architecture]))
    return frozenset([*here, *(f["name"] for f in t["functions"]), *(n for n, *_ in math_names()), *t["constants"], *t["words"],
                      *t["runtime"]["names"], *t["runtime"]["headers"]])  # fmt: skip



def check(text: str, architecture: str, where: str = "") -> None:
    """Raises UnsupportedOp for the first name of the vendor's in a kernel's text, or the first function that it calls, that an architecture
    lacks by the table.

    Functions whose names begin with ac_ and AC_ are the target's own headers', k_ the kernels; they are checked where they stand.
    """
    check_vendor(text, architecture, where)
    text = COMMENT.sub(" ", text)
    made = re.findall(r"#define (\w+)\(", text) + re.findall(r"(?:\w[\w<>]* |\*)(\w+)\([^()]*\) \{", text)
    own = known(architecture) | LANGUAGE | set(made)
    for found in CALL.finditer(text):
        if found[1] not in own and not found[1].startswith(("ac_", "AC_", "k_")):
            raise absent(found[1], architecture, where)


def check_vendor(text: str, architecture: str, where: str = "") -> None:
    """Raises UnsupportedOp for the first name of the vendor's that the table has not for an architecture."""
    for found in VENDOR.finditer(COMMENT.sub(" ", text)):
        if found[0] not in known(architecture):
            raise absent(found[0], architecture, where)


def absent(name: str, architecture: str, where: str) -> UnsupportedOp:
    """The refusal of a name."""
    return UnsupportedOp(f"{name} is not in the public MACA C interface of {architecture}", where=where,
                         hint="see targets/maca/api.yaml; a row needs the public code that uses it so")  # fmt: skip
