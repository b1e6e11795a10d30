"""Reading a chip's YAML file against its schema; every number stands with its source.

    cores: {value: 132, source: "white paper, table 3"}
    memories:                                       # from far to near
      - {name: dram, per: chip, line: 64, capacity: {value: 141e9, source: ..}, bandwidth: {value: 4.27e12, source: ..}}
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from autocomp.errors import ChipError, RuleError
from autocomp.ir.types import DTYPES
from autocomp.rewrite.yaml_source import Located, read_yaml

NUMBERS = ("cores", "clock", "launch", "latency", "vector_bytes", "special")
TABLES = ("matrix", "vector", "limits")
WORDS = ("name", "title", "target", "arch")
REQUIRED = {*WORDS, *NUMBERS, "matrix", "vector", "granule", "registers", "memories"}
ALLOWED = REQUIRED | {"limits", "features", "untried"}
MEMORY_WORDS = {"name", "per", "line", "align", "cache"}
MEMORY_NUMBERS = {"capacity", "bandwidth", "core_bandwidth"}
# Of limits that are times, and rates (bytes or elements a second or clock): the unit that they are kept in
UNITS = {"s": "s", "1/s": "1/s", "clocks": "s", "1/clock": "1/s"}
MOST = 1e12 * 1e12  # bytes, or operations a second: a wrong unit is beyond
TIMES = {"launch": 0.0, "latency": 1e-12}  # seconds, and how many at least
RATES = ("clock", "special", "matrix.", "vector.")
NEVER_NONE = ("limits.threads", "limits.registers", "limits.resident_threads", "limits.resident_blocks")  # other limits may be zero
PER = ("chip", "core", "block", "thread")


def read_chip(text: str, file: str, known: Mapping[str, set[str]] = MappingProxyType({})) -> dict[str, Any]:
    """Fields for `chip.Chip`. Raises ChipError at file:line:column.

    known: names of "limits" and "features" that other chips have. A chip may have others, but none that looks like a slip of the pen.
    """
    try:
        doc = read_yaml(text, file)
    except RuleError as e:
        raise ChipError(e.what, where=e.where, hint=None) from None
    _fields(doc, ALLOWED, REQUIRED, "a chip file")
    top = doc.value
    sources: dict[str, str] = {}
    out: dict[str, Any] = {w: _word(top[w], w) for w in WORDS}
    for n in NUMBERS:
        out[n] = _number(top[n], n, sources)
    for n in ("cores", "vector_bytes"):
        out[n] = _whole(top[n].value["value"], n)
    for t in TABLES:
        if t in top:
            out[t] = {k: _number(v, f"{t}.{k}", sources, {"unit"} if t == "limits" else set()) for k, v in _mapping(top[t], t).items()}
    for t in ("matrix", "vector"):
        for k in out[t]:
            if k not in (*DTYPES, "tf32"):
                raise _error(top[t].value[k], f"{t}: there is no dtype '{k}'", f"dtypes: {', '.join((*DTYPES, 'tf32'))}")
    for k, v in _mapping(top["limits"], "limits").items() if "limits" in top else ():
        _no_slip(v, k, "limit", known.get("limits", set()))
        if "unit" in v.value:
            unit = _unit(v.value["unit"], f"limits.{k}")
            out.setdefault("units", {})[k] = UNITS[unit]
            out["limits"][k] *= {"clocks": 1 / out["clock"], "1/clock": out["clock"]}.get(unit, 1.0)
    if "f32" not in out["vector"]:
        raise _error(top["vector"], "vector needs the rate of f32")
    out["granule"] = _granule(top["granule"], sources)
    out["registers"] = _registers(top["registers"], sources)
    out["memories"] = [_memory(m, sources) for m in _items(top["memories"], "memories")]
    if not out["memories"]:
        raise _error(top["memories"], "memories is empty", "list at least main memory")
    if out["memories"][0].get("cache") or out["memories"][0]["per"] != "chip":
        raise _error(top["memories"].value[0], f"the first memory is main memory, and '{out['memories'][0]['name']}' is none",
                     "begin with one of `per: chip` that is no cache")  # fmt: skip
    for key in ("features", "untried"):
        found = [(f, _word(f, key)) for f in (_items(top[key], key) if key in top else ())]
        for f, word in found:
            if key == "features":
                _no_slip(f, word, "feature", known.get("features", set()))
            elif word not in out["features"]:
                raise _error(f, f"untried: '{word}' is none of the chip's features", f"features: {', '.join(out['features'])}")
        out[key] = tuple(word for _, word in found)
    out["sources"] = sources
    return out


def _error(at: Located, what: str, hint: str | None = None) -> ChipError:
    return ChipError(what, where=str(at.location), hint=hint)


def _no_slip(at: Located, name: str, what: str, known: set[str]) -> None:
    near = get_close_matches(name, sorted(known), 1, 0.8) if name not in known else []
    if near:
        raise _error(at, f"no {what} '{name}' is known", f"did you mean '{near[0]}'?")


def _mapping(at: Located, what: str) -> dict[str, Located]:
    if not isinstance(at.value, dict):
        raise _error(at, f"{what} must be a mapping")
    return at.value


def _items(at: Located, what: str) -> tuple[Located, ...]:
    if not isinstance(at.value, tuple):
        raise _error(at, f"{what} must be a list")
    return at.value


def _fields(at: Located, allowed: set[str], required: set[str], what: str) -> None:
    have = _mapping(at, what)
    for k, v in have.items():
        if k not in allowed:
            near = get_close_matches(k, sorted(allowed), 1)
            raise _error(v, f"unknown field '{k}' in {what}",
                         f"did you mean '{near[0]}'?" if near else f"known are {', '.join(sorted(allowed))}")  # fmt: skip
    missing = sorted(required - have.keys())
    if missing:
        raise _error(at, f"{what} lacks {', '.join(missing)}", "every number is written {value: .., source: ..}")


def _word(at: Located, what: str) -> str:
    if not isinstance(at.value, (str, int)) or isinstance(at.value, bool):
        raise _error(at, f"{what} must be a word")
    return str(at.value)


def _positive(at: Located, what: str) -> float:
    v = at.value
    if isinstance(v, bool) or not isinstance(v, (int, float)) or not 0 <= v < float("inf"):
        raise _error(at, f"{what} must be a number, zero or more")
    return float(v)


def _whole(at: Located, what: str) -> int:
    v = _positive(at, what)
    if v != int(v) or not 1 <= v < 1e12:
        raise _error(at, f"{what} must be a whole number, one or more; it is {v:g}")
    return int(v)


def _unit(at: Located, what: str) -> str:
    if at.value not in UNITS:
        raise _error(at, f"{what}: '{at.value}' is no unit", f"units: {', '.join(UNITS)}; counts and ratios have none")
    return str(at.value)


def _number(at: Located, what: str, sources: dict[str, str], more: Set[str] = frozenset()) -> float:
    _fields(at, {"value", "source", *more}, {"value", "source"}, what)
    sources[what] = _word(at.value["source"], f"source of {what}")
    v = _positive(at.value["value"], what)
    if v == 0 and (what in NEVER_NONE or not what.startswith("limits.")) and what not in TIMES:
        raise _error(at.value["value"], f"{what} must be more than zero")
    if what in TIMES and not TIMES[what] <= v <= 1:
        raise _error(at.value["value"], f"{what} is {v:g} s", f"it is written in seconds, {TIMES[what]:g} to 1: 2.5e-6 for 2.5 us")
    if what.startswith(RATES) or what.endswith("bandwidth"):
        if not 1e6 <= v <= MOST:
            raise _error(at.value["value"], f"{what} is {v:g} a second", "rates are written in bytes, operations or clocks a second, 1e6 "
                         "to 1e24: 504e9 for 504 GB/s, 2.475e9 for 2475 MHz")  # fmt: skip
    elif what.endswith("capacity") and not 1 <= v <= MOST:
        raise _error(at.value["value"], f"{what} is {v:g} bytes", "it is written in bytes, 1 or more")
    return v


def _granule(at: Located, sources: dict[str, str]) -> tuple[int, int, int]:
    _fields(at, {"m", "n", "k", "source"}, {"m", "n", "k", "source"}, "granule")
    sources["granule"] = _word(at.value["source"], "source of granule")
    m, n, k = (int(_positive(at.value[a], f"granule.{a}")) for a in "mnk")
    return max(m, 1), max(n, 1), max(k, 1)


def _per(at: Located) -> str:
    if at.value not in PER:
        raise _error(at, f"per: '{at.value}' is none of {', '.join(PER)}")
    return str(at.value)


def _registers(at: Located, sources: dict[str, str]) -> dict[str, Any]:
    _fields(at, {"count", "bytes", "per", "source"}, {"count", "bytes", "per", "source"}, "registers")
    sources["registers"] = _word(at.value["source"], "source of registers")
    count, size = (_whole(at.value[n], f"registers.{n}") for n in ("count", "bytes"))
    return {"count": count, "bytes": size, "per": _per(at.value["per"])}


def _memory(at: Located, sources: dict[str, str]) -> dict[str, Any]:
    _fields(at, MEMORY_WORDS | MEMORY_NUMBERS, {"name", "per", "capacity", "bandwidth"}, "a memory")
    v = at.value
    name = _word(v["name"], "name")
    out: dict[str, Any] = {"name": name, "per": _per(v["per"])}
    for n in sorted(MEMORY_NUMBERS & v.keys()):
        out[n] = _number(v[n], f"{name}.{n}", sources)
    for n in ("line", "align"):
        if n in v:
            out[n] = max(1, int(_positive(v[n], f"{name}.{n}")))
    if "cache" in v:
        if not isinstance(v["cache"].value, bool):
            raise _error(v["cache"], "cache must be true or false")
        out["cache"] = v["cache"].value
    return out
