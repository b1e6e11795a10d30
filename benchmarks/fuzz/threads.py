"""Programs called from 2 to 8 threads at a time, with other inputs and sizes in each call: the bytes that one thread alone gets."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np

import autocomp
from autocomp.errors import AutocompError
from autocomp.frontends.text import parse, show
from autocomp.ir.node import Graph
from autocomp.ir.types import Sym
from autocomp.runtime.inputs import random_inputs
from benchmarks.drawn_graphs import random_graph
from benchmarks.fuzz import graphs
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "threads"
CALLS = 40  # of each thread
SWITCH = 1e-5  # seconds after which Python goes on with another thread
LARGEST = 48  # extent of an open dimension
STEPS = (
    "matmul({x}, w)", "cumsum({x}, axis=0)", "cumsum({x}, axis=1)", "softmax({x}, axes=[1])", "softmax({x}, axes=[0])", "tanh({x})",
    "add({x}, {y})", "max({x}, {y})", "log_softmax({x}, axes=[1])", "sub({x}, reduced)", "mul({x}, {y})",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """`sizes`: of the open dimension, one for each set of inputs (of none, where all are fixed); `team`: threads of a call."""

    graph: Graph
    callers: int
    sizes: tuple[int, ...]
    team: int

    def text(self) -> str:
        return f"# {self.callers} callers, {self.team} threads a call, sizes {list(self.sizes)}\n{show(self.graph)}"


def draw(seed: int) -> Case:
    rng = Random(f"threads {seed}")
    graph = open_graph(rng) if rng.random() < 0.5 else random_graph(rng)
    sizes = tuple(rng.randint(1, LARGEST) for _ in range(rng.randint(2, 6)))
    return Case(graph, rng.randint(2, 8), sizes, rng.choice((1, 1, 2)))


def open_graph(rng: Random) -> Graph:
    """Steps over rows whose number is open; intermediates that are needed again lie in the arena."""
    width = rng.choice((1, 3, 8, 16, 17, 24))
    lines = [f"graph open\ndim n in 1..{LARGEST}\ninput a: f32[n, {width}]\nparam w: f32[{width}, {width}] = random({rng.randint(0, 9)})"]
    values = ["a"]
    for _ in range(rng.randint(2, 9)):
        step, x, y, k = rng.choice(STEPS), values[-1], rng.choice(values), 2 * len(values)
        if "reduced" in step:
            lines.append(f"%{k} = reduce_max({y}, axes=[0], keepdims=True)")
        lines.append(f"%{k + 1} = {step.format(x=x, y=y).replace('reduced', f'%{k}')}")
        values.append(f"%{k + 1}")
    kept = dict.fromkeys([values[-1], *(v for v in values[1:] if rng.random() < 0.2)])
    return parse("\n".join([*lines, *(f"output y{i} = {v}" for i, v in enumerate(kept))]) + "\n")


def feeds(case: Case) -> list[dict[str, np.ndarray]]:
    """The sets of inputs."""
    out = []
    for k, size in enumerate(case.sizes):
        feed = random_inputs(case.graph, k)
        for n in case.graph.inputs:
            if any(isinstance(d, Sym) for d in n.type.shape):
                shape = tuple(size if isinstance(d, Sym) else d for d in n.type.shape)
                feed[n.attrs["name"]] = np.random.default_rng(k).standard_normal(shape).astype(n.type.dtype.numpy)
        out.append(feed)
    return out


def check(case: Case) -> Verdict:
    try:
        program = autocomp.optimize(case.graph, threads=case.team)
    except AutocompError as e:
        return Verdict("refused", str(e))
    return judged(program, case)


def judged(program: Any, case: Case) -> Verdict:
    """The calls of all threads against those of one."""
    given = feeds(case)
    want = [taken(program.run(f)) for f in given]
    start = threading.Barrier(case.callers)

    def calls(i: int) -> str:
        rng = Random(i)
        kept = []
        start.wait(30)
        for k in range(CALLS):
            j = rng.randrange(len(given))
            out = program.run(given[j])
            if different := differs(taken(out), want[j]):
                return f"caller {i}, call {k}, inputs {j}: output {different}"
            kept.append((j, out))
        return next((f"caller {i}: a result that it kept has changed" for j, out in kept if differs(taken(out), want[j])), "")

    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with ThreadPoolExecutor(case.callers) as pool:
            said = [s for s in pool.map(calls, range(case.callers)) if s]
    finally:
        sys.setswitchinterval(before)
    return Verdict("wrong", f"{len(said)} of {case.callers} callers: {said[0]}") if said else RIGHT


def taken(outputs: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: x.tobytes() for name, x in outputs.items()}


def differs(got: dict[str, bytes], want: dict[str, bytes]) -> str:
    return next((name for name in want if got[name] != want[name]), "")


def smaller(case: Case) -> Iterator[Case]:
    """Fewer callers, threads and sets of inputs, then a smaller graph."""
    for callers in sorted({2, case.callers // 2}):
        if 2 <= callers < case.callers:
            yield replace(case, callers=callers)
    if case.team > 1:
        yield replace(case, team=1)
    if len(case.sizes) > 2:
        yield replace(case, sizes=case.sizes[:2])
    for less in graphs.smaller(graphs.Case(case.graph)):
        yield replace(case, graph=less.graph)
