"""Random graphs as C with AddressSanitizer and UndefinedBehaviorSanitizer: each tensor in memory of its exact size, one program a case."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from autocomp.errors import AutocompError
from autocomp.frontends.text import show
from autocomp.ir.node import Graph
from autocomp.ir.tolerance import deviation
from autocomp.runtime.program import Program
from benchmarks.drawn_graphs import random_graph
from benchmarks.fuzz import graphs
from benchmarks.fuzz.verdict import RIGHT, Verdict
from benchmarks.random_graphs import NOISE, NOTHING, Expected
from tests.helpers.c_driver import AVX2, AVX512, PLAIN, Driven, DrivenFailure, Machine, for_machine, sanitized

NAME = "sanitized"
TERABYTES = True  # of address space, for the shadow of memory
MACHINES = {m.name: m for m in (PLAIN, AVX2, AVX512)}  # a sanitizer has no emulator


@dataclass(frozen=True)
class Case:
    """A graph and the name of the machine whose vectors it is printed with."""

    graph: Graph
    machine: str

    def text(self) -> str:
        return f"# printed for {self.machine}\n{show(self.graph)}"


def draw(seed: int) -> Case:
    rng = Random(f"sanitized {seed}")
    return Case(random_graph(rng), rng.choice(list(MACHINES)))


def check(case: Case) -> Verdict:
    machine = MACHINES[case.machine]
    if why := machine.missing():
        return Verdict("refused", why)
    try:
        program = for_machine(case.graph, machine)
    except AutocompError as e:
        return Verdict("refused", str(e))
    return judged(program, case.graph, machine)


def judged(program: Program, graph: Graph, machine: Machine) -> Verdict:
    """What the sanitizers and the float64 reference say of a printed program."""
    known = Expected.of(graph)
    with tempfile.TemporaryDirectory(prefix="autocomp-sanitized-") as folder:
        driven = Driven(program, Path(folder), sanitized(machine.toolchain), environment={"ASAN_OPTIONS": "detect_leaks=1"})
        try:
            got = driven.run(known.feed)
            driven.run(extremes(graph, known.feed))
        except DrivenFailure as e:
            return Verdict("wrong", str(e))
        except AutocompError as e:  # an index outside of what is scattered to
            return Verdict("refused", str(e))
    d = deviation(graph, known.want, got, known.own, near=known.near)
    if d.ratio <= max(1.0, NOISE * known.natural) or abs(d.got - d.want) <= NOTHING:
        return RIGHT
    return Verdict("wrong", f"{d.output}{list(d.index)} is {d.got!r}, float64 says {d.want!r}: {d.ratio:.3g} times the tolerance")


def extremes(graph: Graph, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs of these shapes whose elements are the ends of their types, small numbers, infinities and NaN: what arithmetic, conversions
    and addresses make of them must be defined, whatever it is."""
    out = {}
    for k, (name, x) in enumerate(sorted(feed.items())):
        rng = np.random.default_rng(k)
        if x.dtype == bool:
            out[name] = x
        elif x.dtype.kind in "iu":
            ends = np.iinfo(x.dtype)
            out[name] = rng.choice(np.array([ends.min, ends.max, ends.max - 1, 0, 1, 3], x.dtype), x.shape)
        else:
            values = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5, 3e9, -3e9, 1e19, 6e4, 3e38, 1e-40]
            with np.errstate(all="ignore"):
                out[name] = rng.choice(np.array(values).astype(x.dtype), x.shape)
    return out


def smaller(case: Case) -> Iterator[Case]:
    for less in graphs.smaller(graphs.Case(case.graph)):
        yield Case(less.graph, case.machine)
