"""api.yaml, read once: the public Ascend C interface by architecture, and the check that a printed text keeps to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.files import own_table

TYPE = re.compile(r"(\w+)(?: (-?\d+)\.\.(-?\d+))?$")
INTEGERS = {f"{u}int{n}_t": (0 if u else -(2 ** (n - 1)), 2 ** (n if u else n - 1) - 1) for u in ("u", "") for n in (8, 16, 32, 64)}


@dataclass(frozen=True)
class Field:
    """A field of a structure or an argument: C++ type, the numbers that it may be given and its first value."""

    name: str
    type: str
    least: int | None = None
    most: int | None = None
    first: int = 0


@dataclass(frozen=True)
class Structure:
    name: str
    fields: Mapping[str, Field]
    constructors: tuple[tuple[str, ...], ...]
    template: str


@dataclass(frozen=True)
class Form:
    """One overload: (C++ type, name) of its arguments."""

    arguments: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Function:
    """Overloads of one row; `steps`: pipes that a call works on in order, A_B for a flag that the library itself passes from A to B."""

    name: str
    forms: tuple[Form, ...]
    steps: tuple[str, ...]
    row: Mapping[str, Any]

    @property
    def begins_alone(self) -> bool:
        """Whether the scalar unit begins, waiting for nothing that a vector or copy pipe has under way."""
        return self.steps[:1] == ("S",)


@dataclass(frozen=True)
class Api:
    """What chips of one architecture have."""

    architecture: str
    words: frozenset[str]
    enumerations: Mapping[str, tuple[str, ...]]
    classes: Mapping[str, frozenset[str]]
    structures: Mapping[str, Structure]
    functions: Mapping[str, tuple[Function, ...]]

    def forms(self, name: str) -> Iterator[Form]:
        for f in self.functions[name]:
            yield from f.forms

    def most(self, structure: str, field: str) -> int:
        """The largest number that a field takes."""
        most = self.structures[structure].fields[field].most
        assert most is not None, (structure, field)
        return most


@lru_cache(maxsize=1)
def rows() -> dict[str, Any]:
    out: dict[str, Any] = own_table("autocomp.targets.ascend", "api.yaml")
    return out


def fact(name: str) -> int:
    """A number of the table's facts."""
    return int(rows()["facts"][name]["value"])


def architecture(flag: str) -> str:
    """The architecture of a compiler's flag (dav-c220 -> 2201)."""
    return next(k for k, a in rows()["architectures"].items() if a["flag"] == flag)


@lru_cache(maxsize=8)
def api(architecture: str) -> Api:
    """The interface of one architecture."""
    t = rows()
    enumerations = {n: (*e["members"], *e.get("only", {}).get(architecture, ())) for n, e in t["enumerations"].items()}
    classes = {n: frozenset(c["methods"]).difference(c.get("lacks", {}).get(architecture, ())) for n, c in t["classes"].items()}
    here = {n: s for n, s in t["structures"].items() if architecture in s.get("architectures", [architecture])}
    structures = {n: _structure(n, s, architecture) for n, s in here.items()}
    functions: dict[str, tuple[Function, ...]] = {}
    for f in t["functions"]:
        if architecture in f.get("architectures", [architecture]):
            forms = tuple(Form(tuple(_argument(a) for a in arguments(text))) for text in f["forms"])
            for n in f["names"]:
                functions[n] = (*functions.get(n, ()), Function(n, forms, tuple(f.get("steps", ())), f))
    return Api(architecture, frozenset([*t["words"], *t["language"]]), enumerations, classes, structures, functions)


def _structure(name: str, row: Mapping[str, Any], architecture: str) -> Structure:
    types = {n: f.get(architecture) if isinstance(f, dict) else f for n, f in row["fields"].items()}
    fields = {n: _field(n, str(t), row.get("first", {}).get(n, 0)) for n, t in types.items() if t is not None}
    return Structure(name, fields, tuple(map(tuple, row.get("constructors", ()))), row.get("template", ""))


def _field(name: str, text: str, first: int) -> Field:
    found = TYPE.match(text)
    assert found, text
    type_, least, most = found.groups()
    low, high = INTEGERS.get(type_, (None, None))
    return Field(name, type_, low if least is None else int(least), high if most is None else int(most), first)


def arguments(text: str, brackets: str = "([{<)]}>") -> list[str]:
    """A list of arguments, split at its own commas."""
    out, depth, half = [""], 0, len(brackets) // 2
    for c in text:
        depth += (c in brackets[:half]) - (c in brackets[half:])
        if c == "," and depth == 0:
            out.append("")
        else:
            out[-1] += c
    return [x.strip() for x in out] if text.strip() else []


def _argument(text: str) -> tuple[str, str]:
    type_, _, name = text.rpartition(" ")
    return type_, name


def defined(header: str) -> frozenset[str]:
    """Functions and macros that a header defines, those of its macros too."""
    names = set(re.findall(r"\b(?:ac|AC)_\w+", header))
    for name, parameter, body in MACRO.findall(header):
        for made in re.findall(rf"\bac_[\w#]*##{parameter}\b[\w#]*|\bac_##{parameter}\b[\w#]*", body):
            for given in re.findall(rf"^{name}\((\w+)\)", header, re.M):
                names.add(made.replace(parameter, given).replace("##", ""))
    return frozenset(names)


# ---- the check of a text
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"|^[ ]*#(?:include|pragma|define|if|else|endif)[^\n(]*|\\$|\w*(?:##\w+)+", re.S | re.M)
MACRO = re.compile(r"#define (\w+)\(([^)]*)\)(.*?[^\\])(?:\n|$)", re.S)
TOKEN = re.compile(r"(\.|->|::)?\s*\b([A-Za-z_]\w*)")
CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*(<[^<>;(){}]*>)?\s*\(")
DECLARED = re.compile(r"\b(?:GlobalTensor|LocalTensor|TBuf|ac_run)<[^;=()]*?>\s*[&*]?\s*(\w+)|"
                      r"\b(?:bool|float|half|int|u?int\d+_t|ac_f32|TPipe|GM_ADDR|T|D|S)\s+[&*]?\s*(\w+)|,\s*(\w+) = ")  # fmt: skip
SCALAR_FIRST = re.compile(r"WaitFlag<HardEvent::V_S>\((\d+)\);\s*$")


def check(text: str, of: Api, also: frozenset[str] = frozenset(), where: str = "") -> None:
    """Raises UnsupportedOp for the first name, field, member or count of arguments in a text that an architecture does not have.

    `also`: names that the text may use besides, those of the target's own header.
    """
    parameters = {n.strip() for m in MACRO.finditer(text) for n in m[2].split(",")} | {m[1] for m in MACRO.finditer(text)}
    text = COMMENT.sub(" ", text)
    known = of.words | of.enumerations.keys() | of.classes.keys() | of.structures.keys() | of.functions.keys() | also
    known |= {n for m in DECLARED.finditer(text) for n in m.groups() if n}
    members = frozenset().union(*of.classes.values())
    variables: dict[str, str] = {}
    made = [(m.start(), m[1], m[2]) for m in re.finditer(rf"\b({'|'.join(of.structures)})(?:<\w+>)? &?(\w+)", text)]
    known |= {n for _, _, n in made} | set(re.findall(r"\b(?:void |inline \w+ |typename )(\w+)", text)) | parameters
    last = ""
    for found in TOKEN.finditer(text):
        before, name = found.groups()
        while made and made[0][0] < found.start():  # a name is of the structure that it was declared with last
            _, type_, variable = made.pop(0)
            variables[variable] = type_
        if before == "::":
            if last in of.enumerations and name not in of.enumerations[last]:
                raise _absent(f"{last}::{name}", of, where)
        elif before:
            fields = of.structures[variables[last]].fields if last in variables else members
            if name not in fields:
                raise _absent(f"{variables.get(last, last)}.{name}", of, where)
        elif name not in known and not (text[found.start(2) - 1 : found.start(2)].isdigit() and name in ("ull", "f")):
            raise _absent(name, of, where)
        last = name
    _check_calls(text, of, where)


def _check_calls(text: str, of: Api, where: str) -> None:
    for found in CALL.finditer(text):
        name = found[1]
        if name not in of.functions or _declares(text, found.start()):
            continue
        end = _closing(text, found.end() - 1)
        given = len(arguments(text[found.end() : end], "([{)]}"))
        counts = sorted({len(f.arguments) for f in of.forms(name)})
        if given not in counts:
            raise _absent(f"{name} of {given} arguments (it takes {' or '.join(map(str, counts))})", of, where)
        if any(f.begins_alone for f in of.functions[name]) and not SCALAR_FIRST.search(text[: found.start()]):
            raise UnsupportedOp(f"{name} begins on the scalar unit, and no flag V_S is waited for in front of it", where=where,
                                hint="set and wait for the flag V_S right before the call")  # fmt: skip


def _declares(text: str, at: int) -> bool:
    return text[:at].rstrip().endswith("void")


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if not depth:
            return i
    return len(text)


def _absent(what: str, of: Api, where: str) -> UnsupportedOp:
    chips = ", ".join(rows()["architectures"][of.architecture]["chips"])
    return UnsupportedOp(f"{what} is not in the public Ascend C interface of architecture {of.architecture} ({chips})", where=where,
                         hint="see targets/ascend/api.yaml; a row needs the chips that have it and its public source")  # fmt: skip
