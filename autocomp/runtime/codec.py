"""Compiled programs as JSON: frozen records of our own classes, shared where they are equal; nothing in it is executed.

    document ::= [record, ...]                the last record is the value
    record   ::= ["tuple", item...] | ["list", item...] | ["map", key, item, ...] | [class name, field item...]
    item     ::= null | bool | number | string | [number of an earlier record]

Only the classes of `_classes` are built, from their fields; a record of anything else is refused on both ways.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from autocomp.ir import affine, body, kernel, types
from autocomp.ir.node import Attrs, Graph, Node, ParamData, make
from autocomp.targets import source
from autocomp.trace import Event

_SCALARS = (bool, int, float, str, type(None))


class CodecError(ValueError):
    """The value has no form here, or the text is no value."""


@lru_cache(maxsize=1)
def _classes() -> dict[str, type]:
    """The data classes of the graph, kernel and source modules, by name."""
    found: dict[str, type] = {"Event": Event}
    for module in (types, affine, body, kernel, source):
        found |= {n: c for n, c in vars(module).items()
                  if isinstance(c, type) and is_dataclass(c) and c.__module__ == module.__name__}  # fmt: skip
    return found


@lru_cache(maxsize=64)
def _fields(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


class _Writer:
    """Records in order; `of` remembers objects by identity (kept alive in `held`) and records by their text."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self.number: dict[str, int] = {}
        self.of: dict[int, list[int]] = {}
        self.held: list[Any] = []

    def item(self, x: Any) -> Any:
        if type(x) in _SCALARS:
            return x
        if id(x) in self.of:
            return self.of[id(x)]
        text = json.dumps(self.record(x), separators=(",", ":"))
        at = self.number.setdefault(text, len(self.records))
        if at == len(self.records):
            self.records.append(text)
        self.of[id(x)] = [at]
        self.held.append(x)
        return self.of[id(x)]

    def record(self, x: Any) -> list[Any]:
        kind = type(x)
        if kind in (tuple, list):
            return [kind.__name__, *map(self.item, x)]
        if kind is types.DType:
            return ["DType", x.name]
        if kind is Attrs:
            return ["Attrs", self.item(dict(x))]
        if kind is Node:
            return ["Node", x.op, self.item(x.inputs), self.item(x.type), self.item(x.attrs)]
        if kind is Graph:
            return ["Graph", x.name, self.item(x.inputs), self.item(x.outputs), self.item(tuple(x.params))]
        if isinstance(x, Mapping):
            return ["map", *(self.item(v) for pair in x.items() for v in pair)]
        if _classes().get(kind.__name__) is not kind:
            raise CodecError(f"{kind.__module__}.{kind.__name__} has no stored form")
        return [kind.__name__, *(self.item(getattr(x, f)) for f in _fields(kind))]  # type: ignore[arg-type]


def encode(value: Any) -> str:
    """The document of a value. Raises CodecError where a part of it has no stored form."""
    w = _Writer()
    w.item([value])  # a record, even if the value is a scalar
    return "[" + ",\n".join(w.records) + "]"


def decode(text: str, params: Mapping[str, ParamData]) -> Any:
    """The value of a document; graphs get their parameters from `params`. Raises CodecError."""
    try:
        values: list[Any] = []
        for record in json.loads(text):
            values.append(_value(record, values, params))
        return values[-1][0]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as e:
        raise CodecError(f"no stored value: {type(e).__name__} {e}") from None


def _value(record: list[Any], values: list[Any], params: Mapping[str, ParamData]) -> Any:
    name, *rest = record
    items = [values[x[0]] if type(x) is list else x for x in rest]
    if name == "tuple":
        return tuple(items)
    if name == "list":
        return items
    if name == "map":
        return dict(zip(items[::2], items[1::2], strict=True))
    if name == "DType":
        return types.DTYPES[items[0]]
    if name == "Attrs":
        return Attrs(items[0])
    if name == "Node":
        return make(*items)
    if name == "Graph":
        return Graph(items[0], items[1], items[2], {p: params[p] for p in items[3]})
    return _classes()[name](*items)
