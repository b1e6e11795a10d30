"""Fusion rules, checked: on small graphs that are drawn by seed, what the kernels compute of which the rule admits a body is what the graph
says, in double precision. A rule of which some graph's kernels say something else is refuted by it; else its status is checked-N, for N
graphs of whose kernels it made some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from autocomp.deadline import current
from autocomp.egraph.examples import program_of, setting
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.frontends.text import show
from autocomp.ir import reference
from autocomp.ir.body_meaning import evaluate
from autocomp.ir.builder import Builder
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import F32, TensorType
from autocomp.options import Options
from autocomp.rewrite.check import CheckResult
from autocomp.rewrite.laws import is_sibling
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.trace import Trace

DRAWN = 16  # graphs for one of those wanted: a rule fires on few
EXTENTS = (2, 3, 4, 5, 8)
CLOSE = 1e-9  # of the largest number of a result, which sums in another order move
OPTIONS = Options(cache=False, fuse_conv_relu=True)  # with it, rules that ask for it fire too
MAPS, PAIRS, FOLDS = ("tanh", "relu", "exp", "neg", "abs", "sigmoid"), ("add", "sub", "mul", "max"), ("reduce_sum", "reduce_max")
HOW = {"strides": [1, 1], "lo": [1, 1], "hi": [1, 1], "dilations": [1, 1], "groups": 1}


def check_fusion_rule(rule: Rule, in_force: RuleSet, samples: int = 20, seed: int = 0) -> CheckResult:
    """Check a rule of the phase fusion on up to `samples` graphs in which it fires. `in_force`: the other rules of bodies. `seed`: which
    graphs. Raises what the cover raises of a rule that has no form of one."""
    rules, chip = setting(rule, in_force)
    fired = tried = 0
    for graph in graphs(seed, DRAWN * samples, is_sibling(rule)):
        if current().over:
            return CheckResult("unchecked", f"the deadline came after {fired} graphs", fired, fired, cut=True)
        if fired == samples:
            break
        tried, trace = tried + 1, Trace()
        try:
            program = program_of(rule, graph, rules, chip, OPTIONS, trace)
        except UnsupportedOp as e:
            return CheckResult("refuted", f"no kernels are found for {_line(graph)}: {e.what}", fired, fired)
        if all(e.name != rule.name for e in trace.of("rule")):
            continue
        fired += 1
        if wrong := _difference(graph, program, seed):
            return CheckResult("refuted", f"{wrong} of {_line(graph)}", fired, fired)
    if not fired:
        return CheckResult("assumed", f"it fires in none of {tried} drawn graphs")
    return CheckResult(f"checked-{fired}", f"kernels of {fired} graphs mean what their graphs say", fired, fired)


def _difference(graph: Graph, program: KernelGraph, seed: int) -> str:
    """Where the kernels of a graph compute something else than it says, "" where they do not."""
    rng = np.random.default_rng(seed)
    shape = lambda n: tuple(int(d) for d in n.type.shape)
    inputs = {str(n.attrs["name"]): rng.standard_normal(shape(n)).astype(np.float32) for n in graph.nodes() if n.op == "input"}
    want, have = reference.evaluate(graph, inputs, float64=True), meaning(program, inputs)
    for name, w in want.items():
        off = np.abs(np.asarray(w) - have[name]).max(initial=0.0)
        if not off <= CLOSE * max(1.0, np.abs(w).max(initial=0.0)):
            return f"kernels make {name} {off:.3g} off"
    return ""


def meaning(program: KernelGraph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What the kernels of a program compute, one call behind the other, in double precision: outputs by their public names."""
    arrays = {**{p: program.source.param(p) for p in program.params}, **inputs}
    for name, g in program.constants.items():
        arrays[name] = next(iter(reference.evaluate(g, {n: program.source.param(n) for n in g.params}).values()))
    for call in program.calls:
        given = {a.name: np.asarray(arrays[call.args[a.name]]).reshape(a.type.shape)  # type: ignore[arg-type]
                 for a in call.kernel.inputs}  # fmt: skip
        for name, value in evaluate(call.kernel, given, {}).items():
            arrays[call.args[name]] = value.reshape(program.tensors[call.args[name]].shape)  # type: ignore[arg-type]
    return {public: arrays[t] for public, t in program.outputs}


def _line(graph: Graph) -> str:
    return "; ".join(x.strip() for x in show(graph).splitlines() if x.strip() and not x.startswith("graph"))


def graphs(seed: int, count: int, beside: bool = False) -> Iterator[Graph]:
    """Small graphs of floats: products, convolutions, attention and rows, with maps, views and reductions before and behind. `beside`: each
    has readers of one tensor beside each other, whose kernels take long to price."""
    for k in range(count):
        yield _Drawing(Random(f"{seed}/{k}")).graph(beside)


@dataclass
class _Drawing:
    """One graph: a middle of some form, maps in front of it, and a few operations of what is there behind it."""

    r: Random
    b: Builder = field(default_factory=lambda: Builder("drawn"))
    made: list[Node] = field(default_factory=list)

    def graph(self, beside: bool) -> Graph:
        middles = (self.product, self.product, self.chain, self.convolution, self.attention, self.rows)
        self.beside() if beside else self.r.choice(middles)()
        for _ in range(self.r.randint(1, 3)):
            self.more()
        used = {id(i) for n in self.made for i in n.inputs}
        for n, x in enumerate(x for x in self.made if id(x) not in used):
            self.b.output(f"y{n}", x)
        return self.b.graph()

    def extents(self, count: int) -> tuple[int, ...]:
        return tuple(self.r.choice(EXTENTS) for _ in range(count))

    def input(self, *shape: int) -> Node:
        """A tensor from outside, sometimes behind a map."""
        x = self.b.input(f"x{len(self.b.inputs)}", TensorType(F32, shape))
        return self.b.op(self.r.choice(MAPS), x) if self.r.random() < 0.3 else x

    def product(self) -> None:
        m, k, n = self.extents(3)
        self.made.append(self.b.op("matmul", self.input(m, k), self.input(k, n)))

    def chain(self) -> None:
        self.product()
        x = self.made[-1]
        m, n = (int(d) for d in x.type.shape)  # type: ignore[arg-type]
        o = self.r.choice(EXTENTS)
        left = self.r.random() < 0.5
        self.made.append(self.b.op("matmul", self.input(o, m), x) if left else self.b.op("matmul", x, self.input(n, o)))

    def convolution(self) -> None:
        n, c, k, h, w = self.extents(5)
        self.made.append(self.b.op("conv", self.input(n, c, h, w), self.input(k, c, 3, 3), **HOW))

    def attention(self) -> None:
        b, q, s, d = self.extents(4)
        scores = self.b.op("matmul", self.input(b, q, d), self.input(b, d, s))
        scores = self.b.op("tanh", scores) if self.r.random() < 0.3 else scores
        self.made.append(self.b.op("softmax_weighted_sum", scores, self.input(b, s, d)))

    def rows(self) -> None:
        x = self.input(*self.extents(2))
        y = self.b.op("sub", x, self.b.op(self.r.choice(FOLDS), x, axes=(1,), keepdims=True))
        self.made.append(self.b.op(self.r.choice(FOLDS), y, axes=(1,), keepdims=True) if self.r.random() < 0.5 else y)

    def beside(self) -> None:
        """Two readers of one tensor."""
        m, k, n = self.extents(3)
        x = self.b.input("x", TensorType(F32, (m, k)))
        if self.r.random() < 0.5:
            self.made += [self.b.op("matmul", x, self.b.input(name, TensorType(F32, (k, n)))) for name in ("v", "w")]
        else:
            self.made += [self.b.op(f, x, axes=(1,), keepdims=False) for f in FOLDS]

    def more(self) -> None:
        """One operation of what was made last, or of something in front of it."""
        x = self.made[-1] if self.r.random() < 0.8 else self.r.choice(self.made)
        shape = tuple(int(d) for d in x.type.shape)  # type: ignore[arg-type]
        kind = self.r.choice(("map", "pair", "pair", "fold", "view", "product"))
        try:
            if kind == "map":
                new = self.b.op(self.r.choice(MAPS), x)
            elif kind == "pair":
                new = self.b.op(self.r.choice(PAIRS), x, self.input(*shape[self.r.randint(0, len(shape)) :]))
            elif kind == "fold":
                new = self.b.op(self.r.choice(FOLDS), x, axes=(self.r.randrange(len(shape)),), keepdims=self.r.random() < 0.5)
            elif kind == "view":
                new = self.b.op("transpose", x, perm=tuple(self.r.sample(range(len(shape)), len(shape))))
            else:
                new = self.b.op("matmul", x, self.input(shape[-1], self.r.choice(EXTENTS)))
        except (ModelError, ValueError, IndexError):  # of a rank that the operation does not take
            return
        self.made.append(new)
