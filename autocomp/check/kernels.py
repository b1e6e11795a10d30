"""Kernels that are drawn by seed, for checks of rules about kernels: what a target's cover makes of the graphs of `families`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from autocomp.check.families import FAMILIES, FORMS, PARTS, SPLIT, Family, Inputs
from autocomp.cost.roles import roles_of
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.text import parse
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import Kernel
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import dim_hint
from autocomp.options import Options
from autocomp.rewrite.instance import CONSTANT, type_of
from autocomp.rewrite.load import shipped_rules
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.targets import Target

Drawn = tuple[tuple[tuple[str, str], ...], str]  # a graph: its inputs with their types, its lines


def text(inputs: Inputs, body: str) -> str:
    """A graph's text; the last line of the body is its output."""
    lines = body.splitlines()
    leaves = [f"param {n}: {t.removesuffix(CONSTANT)} = extern" if t.endswith(CONSTANT) else f"input {n}: {t}" for n, t in inputs.items()]
    return "\n".join(["graph drawn", "dim open in 1..65536", *leaves, *lines, f"output y = {lines[-1].split()[0]}", ""])


_GRAPHS: dict[Kernel, Drawn] = {}


def graph_of(kernel: Kernel) -> Drawn | None:
    """The graph that a kernel was made of, where it was drawn or read here."""
    return _GRAPHS.get(kernel)


def one_line(graph: Drawn) -> str:
    """A graph as examples of rules write it."""
    lines = text(dict(graph[0]), graph[1]).splitlines()
    return "; ".join(line for line in lines if line and line.partition(" ")[0] not in ("graph", "dim"))


def read(line: str) -> Drawn:
    """What `one_line` wrote, or somebody; parameters have any numbers, `open` is a length that is known when it runs.

    Raises ModelError where it is no such graph.
    """
    inputs, body = [], []
    for part in filter(None, (p.strip() for p in line.split(";"))):
        if found := re.fullmatch(r"(input|param) (\w+): ([^=]+?)( = .*)?", part):
            inputs.append((found[2], found[3] + (CONSTANT if found[1] == "param" else "")))
        elif not part.startswith("output "):
            body.append(part)
    if not inputs or not body:
        hint = "such as 'input x: f32[8, 64]; %0 = exp(x); output y = %0'"
        raise ModelError("is no graph in one line", where=repr(line), hint=hint)
    return tuple(inputs), "\n".join(body)


def kernels_of(graph: Drawn, machine: Target, *others: Target) -> tuple[Kernel, ...]:
    """The kernels that a target's cover makes of a graph, those of other targets' covers too, and what combines the parts of a split.

    Raises AutocompError where the graph is wrong.
    """
    return tuple(dict.fromkeys(k for m in (machine, *others) for k in _made(*graph, True, m)))


@dataclass
class Pool:
    """Kernels that a target's cover makes of graphs of some families, in a fixed order, each once; drawn when they are asked for."""

    left: Iterator[Kernel]
    have: list[Kernel] = field(default_factory=list)
    known: set[Kernel] = field(default_factory=set)

    def __iter__(self) -> Iterator[Kernel]:
        at = 0
        while True:
            if at == len(self.have):
                new = next((k for k in self.left if k not in self.known), None)
                if new is None:
                    return
                self.have.append(new)
                self.known.add(new)
            yield self.have[at]
            at += 1


def with_form(form: str) -> tuple[Family, ...]:
    """The families whose kernels may have a form."""
    return tuple(f for f, forms in FORMS.items() if form in forms)


@lru_cache(maxsize=64)
def drawn(machine: Target, rounds: int, seed: int = 0, families: tuple[Family, ...] = FAMILIES) -> Pool:
    """The pool of a target: the same one for the same seed."""
    return Pool(k for r in range(rounds) for f in families for k in _kernels(f, f"{seed}/{r}", machine))


def _kernels(family: Family, seed: str, machine: Target) -> tuple[Kernel, ...]:
    inputs, body = family(Random(f"{seed}/{family.__name__}"))
    return _made(tuple(inputs.items()), body, family in SPLIT, machine)


@lru_cache(maxsize=4096)
def _made(inputs: tuple[tuple[str, str], ...], body: str, split: bool, machine: Target) -> tuple[Kernel, ...]:
    """The kernels of one graph: seeds draw some graphs more than once, and pools of several forms have them in common."""
    params = {n: _numbers(t) for n, t in inputs if t.endswith(CONSTANT)}
    graph = decompose(parse(text(dict(inputs), body), params=params))
    rules, options, chip = RuleSet(shipped_rules()), Options(cache=False), machine.chip
    calls = cover(saturate(graph, rules, options, Trace(), chip.features, chip.target), rules, chip, options, Trace()).calls
    made = dict.fromkeys(c.kernel for c in calls if not c.kernel.opaque)
    parts = []
    for k in made if split else ():
        if axis := roles_of(k).split:
            try:
                parts.append(pieces(k, Schedule(split=(axis, PARTS)))[1][0])
            except UnsupportedOp:  # its parts would have to be equal
                continue
    for k in (*made, *parts):
        _GRAPHS.setdefault(k, (inputs, body))
    return (*made, *parts)


def _numbers(type: str) -> np.ndarray:
    """An array of a type that takes no memory and is not of one number."""
    t = type_of(type)
    assert t is not None, type
    shape = tuple(map(dim_hint, t.shape))
    return np.broadcast_to(np.arange(shape[-1]).astype(t.dtype.numpy), shape)
