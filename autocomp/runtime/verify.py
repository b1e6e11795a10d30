"""Replaying a program against the float64 reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autocomp.deadline import current
from autocomp.errors import VerificationError
from autocomp.ir.node import Graph
from autocomp.ir.orders import in_memory_order
from autocomp.ir.reference import evaluate, input_sizes
from autocomp.ir.tolerance import SAFETY, Deviation, Tolerance, coarseness, deviation, shaken, tolerance
from autocomp.runtime.executor import apart
from autocomp.runtime.inputs import random_inputs, sizes_to_try


@dataclass(frozen=True)
class Verification:
    """`worst`: largest absolute error over the outputs. `ratio`: error over tolerance at the element where that is largest,
    which lies in `output`; `tolerance`: the absolute limit there. `sizes`: of the symbolic dimensions in that run."""

    worst: float
    tolerance: float
    ratio: float
    output: str
    seed: int
    sizes: Mapping[str, int] = field(default_factory=dict)


ROUNDED = 2.0  # what a program may be off by, in errors of the reference that rounds every value to its own type
SHAKES = 8  # times that inputs are moved by an ulp at most, up and down at random


def verify(program: Any, feed: Mapping[str, np.ndarray] | None = None, seed: int = 0) -> Verification:
    """Run and compare every output with the float64 reference: on `feed`, or on seeded random inputs, with symbolic dimensions at their
    smallest, at two odd sizes and at their largest (after the deadline at no further one). The run with the largest error over tolerance
    is given back.

    Every element is compared: a NaN or an infinity must be one in the reference too, or by a rule of `tolerance.deviation` (a value on
    the way overflows in the graph's own types, an ulp in the inputs crosses a pole). Where large terms cancel in an output, what an ulp
    in the inputs does to it, times SAFETY, is allowed too; where rounded values are made larger (exponentials of large scores in half
    precision), what rounding every value to its own type does to it, times ROUNDED.
    Raises VerificationError with the worst element, both values, the tolerance and the rules that made its kernel.
    """
    if feed is not None:
        return _verify_on(program, dict(feed), seed)
    runs: list[Verification] = []
    tried = list(sizes_to_try(program.graph, seed))
    for sizes in tried:
        if runs and current().passed("verify", f"{len(tried) - len(runs)} of {len(tried)} sizes"):
            break
        runs.append(_verify_on(program, random_inputs(program.graph, seed, sizes), seed))
    return max(runs, key=lambda v: v.ratio)


def compare(graph: Graph, feed: Mapping[str, np.ndarray], got: Mapping[str, np.ndarray], coarse: float = 0.0,
            want: Mapping[str, np.ndarray] | None = None) -> Comparison:  # fmt: skip
    """Outputs `got` of a program on `feed`, held against the float64 reference (`want`, where it is known) as `verify` does; never raises
    for a wrong value."""
    want = evaluate(graph, feed) if want is None else want
    own: dict[str, np.ndarray] | None = None
    d = deviation(graph, want, got, coarse=coarse)
    if d.ratio == np.inf:
        own = evaluate(graph, feed, float64=False)
        d = deviation(graph, want, got, own, coarse=coarse)
    if d.ratio == np.inf:
        near = [evaluate(graph, shaken(feed, k)) for k in range(SHAKES)]
        d = deviation(graph, want, got, own, coarse=coarse, near=near)
    natural = _natural(graph, feed, want, d.ratio, own) if 1.0 < d.ratio < np.inf else Natural()
    d = replace(d, ratio=d.ratio / max(1.0, SAFETY * natural.shaken, ROUNDED * natural.rounded))
    return Comparison(d, natural, max((_error(got[n], w) for n, w in want.items()), default=0.0))


def allowed(program: Any, feed: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> dict[str, Tolerance]:
    """How far each output of a program may be from `want` on `feed`, as one number for all its elements: the tolerance of `ir.tolerance`,
    more where values rounded to their types, or inputs an ulp away, move outputs further."""
    graph = program.graph
    coarse = coarseness(k.schedule for k in program.kernels)
    natural = _natural(graph, feed, want, 2.0, None)
    more = max(1.0, SAFETY * natural.shaken, ROUNDED * natural.rounded)
    found = {n: tolerance(graph, n, w, coarse=coarse) for n, w in want.items()}
    return {n: Tolerance(t.relative * more, t.absolute * more) for n, t in found.items()}


def _verify_on(program: Any, feed: dict[str, np.ndarray], seed: int) -> Verification:
    graph = program.graph
    sizes = input_sizes(graph, in_memory_order(feed, graph.input_orders))
    coarse = coarseness(k.schedule for k in program.kernels)
    want = evaluate(graph, feed)
    c = compare(graph, feed, program.run(apart(graph, feed)), coarse, want)
    d = c.worst
    limit = abs(d.got - d.want) / d.ratio if d.ratio else 0.0
    if not d.ratio <= 1.0:
        raise VerificationError(
            f"output '{d.output}'{list(d.index)} is {d.got!r}, the float64 reference says {d.want!r}: "
            f"{d.ratio:.3g} times the allowed error" + c.natural.text + "".join(f", {k} = {n}" for k, n in sizes.items()),
            where=program.name,
            hint="`autocomp bisect` finds the rule or the kernel that breaks it; --without leaves rules out")  # fmt: skip
    return Verification(c.error, limit, d.ratio, d.output, seed, sizes)


def _error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest absolute error where both are numbers."""
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return float(np.max(off[np.isfinite(off)], initial=0.0))


@dataclass(frozen=True)
class Natural:
    """How far outputs move by themselves, in tolerances: with inputs an ulp away, and with every value rounded to its own type."""

    shaken: float = 0.0
    rounded: float = 0.0

    @property
    def text(self) -> str:
        """What an error says of it."""
        parts = [f"{self.shaken:.2g} tolerances: inputs an ulp away"] if self.shaken > 1 else []
        parts += [f"{self.rounded:.2g} tolerances: values rounded to their types"] if self.rounded > 1 else []
        return f" ({'; '.join(parts)})" if parts else ""


@dataclass(frozen=True)
class Comparison:
    """`worst`: the element furthest off, its ratio in units of what is allowed (1 is the limit), how far outputs move by themselves
    counted in; `error`: the largest absolute error."""

    worst: Deviation
    natural: Natural
    error: float


def _natural(graph: Graph, feed: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray], ratio: float,
             own: Mapping[str, np.ndarray] | None) -> Natural:  # fmt: skip
    """As far as it takes to explain `ratio`."""
    found = Natural()
    with np.errstate(all="ignore"):
        if any(n.type.dtype.name in ("f16", "bf16") for n in graph.nodes()):
            moved = deviation(graph, want, evaluate(graph, feed, float64=False), own).ratio
            found = Natural(rounded=moved if np.isfinite(moved) else 0.0)
        for k in range(SHAKES):
            if ratio <= max(SAFETY * found.shaken, ROUNDED * found.rounded):
                break
            moved = deviation(graph, want, evaluate(graph, shaken(feed, k))).ratio
            found = replace(found, shaken=max(found.shaken, moved if np.isfinite(moved) else 0.0))
    return found
