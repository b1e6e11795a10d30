"""How far a program may be from the float64 reference, derived from dtypes and reduction lengths.

Rounding model: a value computed from operands with relative errors has an error that grows by one unit roundoff u a step;
a sum of n terms in a type of roundoff u is off by at most n*u of the sum of magnitudes and, for independent errors, by about
sqrt(n)*u (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 4.2). Along the longest path the squares of the
steps' errors add up. The bound is scaled by the largest magnitude in the output, times a safety factor. An output that its inputs
hardly determine (one number in which two large ones cancel) is beyond any such bound: `shaken` inputs show how far it moves by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import ml_dtypes
import numpy as np

from autocomp.ir.body import Contract, Reduce, postorder
from autocomp.ir.node import Attrs, Graph, Node
from autocomp.ir.ops import OPS
from autocomp.ir.ops.loops import NAME as LOOP
from autocomp.ir.ops.loops import NONE, body_types
from autocomp.ir.scalar import accumulator
from autocomp.ir.types import DType, TensorType, dim_hint

TF32 = 2.0**-10  # from 1 to the next number of tf32, to which products of f32 may round their factors
SAFETY = 8.0  # the constant of the probabilistic bound; also covers the polynomials of exp and erf (2 to 4 ulp)


UNTOLD = 1024  # steps of a loop that ends when a value says so: symbols are taken to be as large at most (`dim_hint`)


@dataclass(frozen=True)
class Tolerance:
    """|got - want| <= absolute + relative * |want|."""

    relative: float
    absolute: float


def _step(n: Node) -> float:
    """Variance (in units of relative error squared) that this op adds."""
    if n.op == LOOP:
        return _steps(n)
    return _of_op(n.op, tuple(i.type for i in n.inputs), n.attrs, n.type)


def _of_op(op: str, inputs: tuple[TensorType, ...], attrs: Attrs, out: TensorType) -> float:
    entry = OPS.get(op)
    if entry is None or not out.dtype.is_float:
        return 0.0
    u = out.dtype.eps / 2
    if entry.comprehension is None:
        return u * u
    body = entry.comprehension(inputs, attrs, out).value
    length = 1
    for e in postorder(body):
        if isinstance(e, (Reduce, Contract)):
            length *= prod(dim_hint(a.extent) for a in e.axes)
    wide = accumulator(out.dtype).eps / 2
    return u * u + max(length - 1, 0) * wide * wide


def _steps(n: Node) -> float:
    """That of a loop: the worst path through its body, as often as it runs; where a condition ends it, `UNTOLD` times at most."""
    types = body_types(tuple(i.type for i in n.inputs), n.attrs)
    total = [0.0] * len(n.inputs)
    times = dim_hint(n.attrs["trips"]) if n.attrs["condition"] == NONE else min(dim_hint(n.attrs["trips"]), UNTOLD)
    for op, operands, pairs in n.attrs["body"]:
        own = 0.0 if op == "const" else _of_op(op, tuple(types[i] for i in operands), Attrs(dict(pairs)), types[len(total)])
        total.append(max((total[i] for i in operands), default=0.0) + own)
    return max((total[r] for r in n.attrs["results"]), default=0.0) * times


def relative_error(graph: Graph) -> dict[str, float]:
    """Expected relative error of each output: root of the summed variances along the worst path."""
    total: dict[int, float] = {}
    for n in graph.nodes():
        before = max((total[id(i)] for i in n.inputs), default=0.0)
        total[id(n)] = before + _step(n)
    return {name: sqrt(total[id(n)]) for name, n in graph.outputs}


def tolerance(graph: Graph, name: str, want: np.ndarray, noise: float = 1.0, coarse: float = 0.0) -> Tolerance:
    """Tolerance of one output; `want` its float64 value. `noise`: extra factor where inputs are themselves rounded; `coarse`: distance
    from 1 to the next number of a type in which factors were multiplied."""
    node = dict(graph.outputs)[name]
    if not node.type.dtype.is_float:
        return Tolerance(0.0, 0.0)
    r = SAFETY * noise * max(relative_error(graph)[name], node.type.dtype.eps, coarse)
    finite = np.abs(want[np.isfinite(want)])
    return Tolerance(r, r * float(finite.max()) if finite.size else 0.0)


def coarseness(schedules: Iterable[str]) -> float:
    """`coarse` of kernels under these schedules: TF32 where one of them rounds its factors to it."""
    return TF32 if any("tf32" in s for s in schedules) else 0.0


def shaken(feed: Mapping[str, np.ndarray], k: int) -> dict[str, np.ndarray]:
    """Inputs of f32 and f64 an ulp away, up or down (seed k), zeros as they are: how far results move says how well a graph determines
    them."""
    rng = np.random.default_rng(k)

    def moved(x: np.ndarray) -> np.ndarray:
        return np.where(x == 0, x, np.nextafter(x, rng.choice([-np.inf, np.inf], x.shape).astype(x.dtype)))

    return {n: moved(x) if x.dtype in (np.float32, np.float64) else x for n, x in feed.items()}


@dataclass(frozen=True)
class Deviation:
    """The worst element of a program's outputs: error over tolerance (1 is the limit), where it is, and both values."""

    ratio: float
    output: str
    index: tuple[int, ...]
    got: float
    want: float


def deviation(
    graph: Graph,
    want: Mapping[str, np.ndarray],
    got: Mapping[str, np.ndarray],
    own: Mapping[str, np.ndarray] | None = None,
    noise: float = 1.0,
    coarse: float = 0.0,
    near: Sequence[Mapping[str, np.ndarray]] = (),
) -> Deviation:
    """Compare outputs with their float64 values `want`. Every element is compared; the ratio is inf where one of the two is no finite
    number and the other is not the same, or an integer or bool differs. Such an element is right by one of these rules only:

    - the graph in its own dtypes (`own`), or with inputs an ulp away (`near`), says the same: a pole or an edge that rounding crosses;
    - `own` has no number there although float64 has (an intermediate value overflows), and neither has the program; where the float64
      value itself is beyond the type, that is the infinity of its sign.
    """
    worst = Deviation(0.0, "", (), 0.0, 0.0)
    for name, w in want.items():
        t = tolerance(graph, name, w, noise, coarse)
        kind = dict(graph.outputs)[name].type.dtype
        wide = (lambda x: np.asarray(x).astype(np.float64)) if kind.is_float else np.asarray
        g, w = wide(got[name]), wide(w)
        ratio = _ratio(g, w, t)
        if np.isinf(ratio).any():
            for other in (*(() if own is None else (own,)), *near):
                ratio = np.where(np.isinf(ratio) & (_ratio(g, wide(other[name]), t) <= 1), 0.0, ratio)
            if own is not None and kind.is_float:
                ratio = np.where(_overflown(g, w, wide(own[name]), kind), 0.0, ratio)
        if ratio.size and ratio.max() > worst.ratio:
            at = np.unravel_index(int(ratio.argmax()), ratio.shape)
            worst = Deviation(float(ratio[at]), name, tuple(map(int, at)), g[at].item(), w[at].item())
    return worst


def _ratio(got: np.ndarray, want: np.ndarray, t: Tolerance) -> np.ndarray:
    """Error over tolerance: 0 for equal values, infinities and NaN among them, inf for a NaN or infinity beside anything else."""
    with np.errstate(all="ignore"):
        if got.dtype.kind != "f":
            return np.where(got == want, 0.0, np.inf)
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        limit = t.absolute + t.relative * np.abs(want)
        ratio = np.where(same, 0.0, np.where(limit > 0, np.abs(got - want) / limit, np.inf))
    return np.where(same | (np.isfinite(got) & np.isfinite(want)), ratio, np.inf)


def _overflown(got: np.ndarray, want: np.ndarray, own: np.ndarray, kind: DType) -> np.ndarray:
    """Where neither the program nor the graph in its own types has a number although float64 has."""
    lost = np.isfinite(want) & ~np.isfinite(own) & ~np.isfinite(got)
    beyond = np.abs(want) > float(ml_dtypes.finfo(kind.numpy).max)
    return lost & (~beyond | (got == np.copysign(np.inf, want)))
