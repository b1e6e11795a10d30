"""The text form of a graph. `parse(show(g))` gives the same nodes.

graph mlp
input x: f32[128, 768]
param w: f32[768, 64] = random(3)          # or zeros, ones, values(1, 2, 3); parameters from elsewhere: = extern
dim batch in 1..64 multiple 4               # a symbolic dimension, before its first use
%0 = matmul(x, w)
%1 = max(%0, const(0.0, f32))
output y = %1
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from autocomp.errors import AutocompError, ModelError
from autocomp.frontends.sizes import unknown_dims
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import DTYPES, Dim, Sym, TensorType

_NAME = r"[A-Za-z_][\w.\-/]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_LIMIT = 1 << 28  # elements of a parameter that a text may ask to be made up


def show(graph: Graph) -> str:
    """The text; parameters print as `extern` (pass their arrays to `parse`)."""
    lines = [f"graph {_word(graph.name)}"]
    syms: dict[str, Sym] = {}
    for n in graph.nodes():
        syms.update({d.name: d for d in n.type.shape if isinstance(d, Sym)})
    for n in graph.inputs:
        syms.update({d.name: d for d in n.type.shape if isinstance(d, Sym)})
    lines += [f"dim {s.name} in {s.lo}..{s.hi} multiple {s.multiple}" for s in sorted(syms.values(), key=str)]
    ref: dict[Node, str] = {}
    for n in graph.inputs:
        ref[n] = _word(n.attrs["name"])
        lines.append(f"input {ref[n]}: {n.type}")
    count = 0
    for n in graph.nodes():
        if n.op == "param":
            ref[n] = _word(n.attrs["name"])
            lines.append(f"param {ref[n]}: {n.type} = extern")
        elif n.op == "const":
            ref[n] = f"const({n.attrs['value']!r}, {n.type.dtype})"
        elif n not in ref:
            args = [ref[i] for i in n.inputs] + [f"{k}={_literal(v)}" for k, v in n.attrs.items()]
            ref[n] = f"%{count}"
            lines.append(f"%{count} = {n.op}({', '.join(args)})")
            count += 1
    return "\n".join([*lines, *(f"output {_word(name)} = {ref[n]}" for name, n in graph.outputs)]) + "\n"


def _word(name: str) -> str:
    return name if re.fullmatch(_NAME, name) else json.dumps(name)


def _literal(v: Any) -> str:
    if isinstance(v, tuple):
        return "[" + ", ".join(_literal(x) for x in v) + "]"
    if isinstance(v, str):
        return json.dumps(v)
    return v.name if isinstance(v, Sym) else repr(v)


class _Parser:
    def __init__(self, where: str, params: Mapping[str, np.ndarray], dims: Mapping[str, int]) -> None:
        self.where, self.params, self.dims, self.line = where, params, dims, 0
        self.b = Builder()
        self.values: dict[str, Node] = {}
        self.syms: dict[str, Dim] = {}

    def fail(self, text: str, hint: str | None = None) -> ModelError:
        return ModelError(text, where=f"{self.where}:{self.line}", hint=hint)

    def statement(self, s: str) -> None:
        word = s.split(None, 1)[0]
        if word == "graph":
            self.b.name = self.name(s[5:].strip())
        elif word == "dim":
            self.dim(s)
        elif word in ("input", "param"):
            self.leaf(word, s)
        elif word == "output":
            m = re.fullmatch(rf"output\s+({_NAME}|{_QUOTED})\s*=\s*(.+)", s)
            if not m:
                raise self.fail(f"cannot read '{s}'", "output NAME = VALUE")
            self.b.output(self.name(m[1]), self.value(m[2].strip()))
        else:
            self.assignment(s)

    def name(self, text: str) -> str:
        return json.loads(text) if text.startswith('"') else text

    def dim(self, s: str) -> None:
        m = re.fullmatch(r"dim\s+(\w+)(?:\s+in\s+(\d+)\.\.(\d+))?(?:\s+multiple\s+(\d+))?", s)
        if not m:
            raise self.fail(f"cannot read '{s}'", "dim NAME in LO..HI multiple N")
        dim = Sym(m[1], int(m[2] or 1), int(m[3] or 2**31 - 1), int(m[4] or 1))
        fixed = self.dims.get(dim.name)
        if fixed is not None and not (dim.lo <= fixed <= dim.hi and fixed % dim.multiple == 0):
            raise self.fail(f"dimension {dim.name} cannot be {fixed}", f"it is in {dim.lo}..{dim.hi}, a multiple of {dim.multiple}")
        self.syms[dim.name] = dim if fixed is None else fixed

    def leaf(self, word: str, s: str) -> None:
        m = re.fullmatch(rf"{word}\s+({_NAME}|{_QUOTED})\s*:\s*(\w+)\[([^\]]*)\]\s*(?:=\s*(.+))?", s)
        if not m or (word == "input") != (m[4] is None):
            raise self.fail(f"cannot read '{s}'", "input NAME: dtype[dims]   or   param NAME: dtype[dims] = random(SEED)")
        name, type = self.name(m[1]), self.type(m[2], m[3])
        self.values[name] = (
            self.b.input(name, type) if word == "input" else self.b.param(name, self.data(name, type, m[4].strip()), type)
        )

    def type(self, dtype: str, dims: str) -> TensorType:
        if dtype not in DTYPES:
            raise self.fail(f"unknown dtype '{dtype}'", f"dtypes: {', '.join(DTYPES)}")
        shape: list[Dim] = []
        for d in filter(None, (x.strip() for x in dims.split(","))):
            if d.isdecimal():
                shape.append(int(d))
            elif d in self.syms:
                shape.append(self.syms[d])
            elif not d.isidentifier():
                raise self.fail(f"'{d}' is no dimension", "write a whole number from 0, or the name of a declared dimension")
            else:
                raise self.fail(f"unknown dimension '{d}'", f"declare it first: dim {d} in 1..64")
        return TensorType(DTYPES[dtype], tuple(shape))

    def data(self, name: str, t: TensorType, how: str) -> np.ndarray:
        if how == "extern":
            if name not in self.params:
                raise self.fail(f"parameter '{name}' is extern and was not given", "pass params={...}, or write = random(0)")
            return np.asarray(self.params[name])
        if t.elements > _LIMIT or not t.is_static:
            raise self.fail(f"parameter '{name}' of {t} is too large or symbolic to be made up", f"at most {_LIMIT} elements")
        m = re.fullmatch(r"(zeros|ones|random|values)(?:\(([^)]*)\))?", how)
        if not m:
            raise self.fail(f"cannot read '= {how}'", "zeros, ones, random(SEED), values(..) or extern")
        if m[1] == "random":
            x = np.random.default_rng(int(m[2] or 0)).standard_normal(t.shape)  # type: ignore[arg-type]
        elif m[1] == "values":
            x = np.array([float(v) for v in (m[2] or "").split(",") if v.strip()]).reshape(t.shape)  # type: ignore[arg-type]
        else:
            x = np.full(t.shape, float(m[1] == "ones"))  # type: ignore[arg-type]
        return x.astype(t.dtype.numpy)

    def value(self, text: str) -> Node:
        m = re.fullmatch(r"const\((.+),\s*(\w+)\)", text)
        if m and m[2] in DTYPES:
            return self.b.const(self.number(m[1].strip()), DTYPES[m[2]])
        key = self.name(text)
        if key not in self.values:
            raise self.fail(f"'{text}' is not defined")
        return self.values[key]

    def number(self, text: str) -> Any:
        special = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}
        if text in special:
            return special[text]
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise self.fail(f"'{text}' is no number, string or list") from None

    def attribute(self, text: str) -> Any:
        if text.startswith("["):
            return tuple(self.attribute(x) for x in _split(text[1:-1]))
        return self.syms[text] if text in self.syms else self.number(text)

    def assignment(self, s: str) -> None:
        m = re.fullmatch(rf"(%\w+|{_NAME})\s*=\s*(\w+)\((.*)\)", s)
        if not m:
            raise self.fail(f"cannot read '{s}'", "NAME = op(operands, attr=value)")
        nodes, attrs = [], {}
        for part in _split(m[3]):
            k = re.fullmatch(r"(\w+)=(.+)", part)
            if k:
                attrs[k[1]] = self.attribute(k[2].strip())
            else:
                nodes.append(self.value(part))
        try:
            self.values[m[1]] = self.b.op(m[2], *nodes, **attrs)
        except ModelError as e:
            raise self.fail(f"{e.where}: {e.what}" if e.where else e.what, e.hint) from None


def _without_comment(line: str) -> str:
    """The line up to a # outside quotes."""
    m = re.match(rf"(?:{_QUOTED}|[^#\"])*", line)
    return m[0] if m else ""


def _split(text: str) -> list[str]:
    """Parts between commas outside brackets and quotes."""
    parts, depth, start = [], 0, 0
    quoted = [m.span() for m in re.finditer(_QUOTED, text)]
    for i, c in enumerate(text):
        if any(a <= i < b for a, b in quoted):
            continue
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in (*parts, text[start:]) if p.strip()]


def parse(text: str, where: str = "text", params: Mapping[str, np.ndarray] | None = None,
          dims: Mapping[str, int] | None = None) -> Graph:  # fmt: skip
    """The graph of a text. `params` has the arrays of `extern` parameters, `dims` sizes of named dimensions. Raises ModelError with
    where:line."""
    p = _Parser(where, params or {}, dims or {})
    for i, raw in enumerate(text.splitlines(), 1):
        p.line = i
        s = _without_comment(raw).strip()
        if s:
            try:
                p.statement(s)
            except (ValueError, SyntaxError) as e:
                if isinstance(e, AutocompError):
                    raise
                raise p.fail(f"cannot read '{s}': {e}") from None
    unknown_dims(p.dims, p.syms, where)
    if not p.b.outputs:
        raise ModelError("the graph has no output", where=where, hint="a text graph ends in lines like `output y = %0`")
    return p.b.graph()
