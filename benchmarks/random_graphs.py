"""Random graphs through the whole compiler, against the float64 reference; what fails is shrunk and kept as a text graph.

    python benchmarks/random_graphs.py --count 2000 [--seed 0] [--jobs 2] [--keep random_graph_failures] [--target cpu]

Each graph is compiled and run twice (the second time over an arena filled with 0xFF bytes, so that a value which is read
before it is written shows), every output compared with the float64 reference. A graph fails if an error is larger than its
tolerance and than `NOISE` times the error that NumPy makes in the graph's own types: random graphs may be ill-conditioned.

With a GPU's target (cuda:h200, maca:c500) the printed kernels run on the CPU model of tests/helpers/simt_model.py, with asynchronous
work done as late and as early as the plan allows; graphs that the target refuses with a reason are counted apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

import autocomp
from autocomp.errors import DoesNotFit, ModelError, UnsupportedOp
from autocomp.files import write_atomic
from autocomp.frontends.text import show
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.reference import evaluate
from autocomp.ir.tolerance import deviation
from autocomp.ir.types import F16, F32, F64, I8, I32, I64, DType, TensorType
from autocomp.runtime.inputs import random_inputs

NOISE = 32.0  # times NumPy's own error in the graph's types, or what an ulp in the inputs does
SMOOTH = ("tanh", "sigmoid", "relu", "abs", "neg", "erf", "gelu", "gelu_tanh", "silu", "softplus", "sin", "cos", "atan", "asinh")
BINARY = ("add", "sub", "mul", "max", "min")
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33)


def fixed(t: TensorType) -> tuple[int, ...]:
    """A shape without named dimensions, which are all that is drawn here."""
    return tuple(d for d in t.shape if isinstance(d, int))


class Failure(AssertionError):
    """A wrong result or a crash of one graph."""


class Refused(Exception):
    """The target does not take the graph, and says why."""


@dataclass
class Drawn:
    """A graph in the making: `pool` are its values so far."""

    draw: Any
    b: Builder
    pool: list[Node]
    fresh: int = 0

    def pick(self, *kinds: str) -> Node | None:
        """A value whose dtype is float ("f"), integer ("i") or bool ("b"), recent ones more often."""
        fits = [n for n in self.pool if kind_of(n.type.dtype) in kinds]
        return self.draw(st.sampled_from([*fits, *fits[-2:] * 3])) if fits else None

    def one_of(self, *items: Any) -> Any:
        return self.draw(st.sampled_from(items))

    def number(self, lo: int, hi: int) -> int:
        return self.draw(st.integers(lo, hi))

    def leaf(self, t: TensorType) -> Node:
        """A new input or, for floats, sometimes a parameter."""
        self.fresh += 1
        if t.dtype.is_float and self.draw(st.booleans()):
            values = np.random.default_rng(self.fresh).standard_normal(fixed(t)) * 0.5
            return self.b.param(f"w{self.fresh}", values.astype(t.dtype.numpy))
        return self.b.input(f"x{self.fresh}", t)


def kind_of(d: DType) -> str:
    return "f" if d.is_float else "i" if d.is_int else "b"


def unary(g: Drawn) -> Node | None:
    x = g.pick("f", "i")
    if x is None:
        return None
    return g.b.op(g.one_of(*SMOOTH) if x.type.dtype.is_float else g.one_of("abs", "neg", "sign"), x)


def bounded(g: Drawn) -> Node | None:
    """Functions with poles or growth, on arguments where they have neither."""
    x = g.pick("f")
    if x is None:
        return None
    one = g.b.const(1.0, x.type.dtype)
    positive = g.b.op("add", g.b.op("abs", x), one)
    return {
        "exp": lambda: g.b.op("exp", g.b.op("tanh", x)),
        "sqrt": lambda: g.b.op("sqrt", positive),
        "rsqrt": lambda: g.b.op("rsqrt", positive),
        "log": lambda: g.b.op("log", positive),
        "div": lambda: g.b.op("div", one, positive),
    }[g.one_of("exp", "sqrt", "rsqrt", "log", "div")]()


def binary(g: Drawn) -> Node | None:
    """With a value of the same type, a broadcast leaf, or a constant."""
    x = g.pick("f", "i")
    if x is None:
        return None
    t = x.type
    same = [n for n in g.pool if n.type == t]
    how = g.one_of("same", "leaf", "const")
    if how == "same":
        y = g.one_of(*same)
    elif how == "leaf":
        cut = g.number(0, t.rank)
        y = g.leaf(TensorType(t.dtype, tuple(1 if g.draw(st.booleans()) else d for d in t.shape)[cut:]))
    else:
        y = g.b.const(g.one_of(0.0, 1.0, 2.0, -0.5, 3.0) if t.dtype.is_float else g.one_of(0, 1, 2, 3), t.dtype)
    pair = (x, y) if g.draw(st.booleans()) else (y, x)
    return g.b.op(g.one_of(*BINARY), *pair)


def choice(g: Drawn) -> Node | None:
    """where over a comparison of a leaf, which rounding cannot turn."""
    x = g.pick("f", "i")
    if x is None:
        return None
    z = g.b.const(0 if x.type.dtype.is_int else 0.0, x.type.dtype)
    c = g.b.op(g.one_of("gt", "le", "ne"), g.leaf(x.type), z)
    return g.b.op("where", c, *((x, z) if g.draw(st.booleans()) else (z, x)))


def compare(g: Drawn) -> Node | None:
    x = g.pick("i")
    return None if x is None else g.b.op(g.one_of("lt", "eq", "ge"), x, g.b.const(2, x.type.dtype))


def axes_of(g: Drawn, x: Node) -> list[int]:
    return sorted(g.draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1)))


def reduction(g: Drawn) -> Node | None:
    x = g.pick("f", "i")
    if x is None or not x.type.rank:
        return None
    ops = ("reduce_sum", "reduce_max", "reduce_min", *(("reduce_mean",) if x.type.dtype.is_float else ()))
    return g.b.op(g.one_of(*ops), x, axes=axes_of(g, x), keepdims=g.draw(st.booleans()))


def rows(g: Drawn) -> Node | None:
    x = g.pick("f")
    if x is None or not x.type.rank:
        return None
    return {
        "softmax": lambda: g.b.op("softmax", x, axes=[x.type.rank - 1]),
        "softmax_any": lambda: g.b.op("softmax", x, axes=[g.number(0, x.type.rank - 1)]),
        "log_softmax": lambda: g.b.op("log_softmax", x, axes=[x.type.rank - 1]),
        "norm": lambda: g.b.op(g.one_of("layer_norm", "rms_norm"), x, axes=[x.type.rank - 1], eps=0.1),
    }[g.one_of("softmax", "softmax_any", "log_softmax", "norm")]()


def scale(g: Drawn, x: Node, depth: int) -> Node:
    """x / sqrt(depth), so that products do not grow."""
    return g.b.op("mul", x, g.b.const(depth**-0.5, x.type.dtype)) if g.draw(st.booleans()) else x


def product(g: Drawn) -> Node | None:
    x = g.pick("f")
    if x is None or x.type.rank < 2:
        return None
    k = fixed(x.type)[-1]
    n = g.one_of(*SIZES)
    same = [m for m in g.pool if m.type.rank >= 2 and m.type.dtype == x.type.dtype and m.type.shape[:-2] == x.type.shape[:-2]]
    right = [m for m in same if m.type.shape[-2] == k]
    how = g.one_of("weight", "value", "transposed", "einsum")
    if how == "value" and right:
        w = g.one_of(*right)
    elif how == "transposed":
        perm = [*range(x.type.rank - 2), x.type.rank - 1, x.type.rank - 2]
        w = g.b.op("transpose", g.one_of(*[m for m in same if m.type.shape[-1] == k]), perm=perm)
    elif how == "einsum" and x.type.rank == 2:
        return scale(g, g.b.op("einsum", x, g.leaf(TensorType(x.type.dtype, (n, k))), spec=g.one_of("mk,nk->mn", "mk,nk->nm")), k)
    else:
        w = g.leaf(TensorType(x.type.dtype, (k, n)))
    return scale(g, g.b.op("matmul", x, w), k)


def windows(g: Drawn) -> Node | None:
    x = g.pick("f")
    if x is None or x.type.rank != 4:
        return None
    common = {"strides": [g.number(1, 2), g.number(1, 2)], "lo": [g.number(0, 1), g.number(0, 1)],
              "hi": [g.number(0, 1), g.number(0, 1)], "dilations": [1, g.number(1, 2)]}  # fmt: skip
    size = [g.number(1, 3), g.number(1, 3)]
    kind = g.one_of("conv", "conv", "depthwise", "maxpool", "avgpool")
    c = fixed(x.type)[1]
    if kind == "conv":
        w = g.leaf(TensorType(x.type.dtype, (g.one_of(1, 3, 5, 8), c, *size)))
        return scale(g, g.b.op("conv", x, w, **common), c * size[0] * size[1])
    if kind == "depthwise":
        return g.b.op("conv", x, g.leaf(TensorType(x.type.dtype, (c, 1, *size))), groups=c, **common)
    if min(size) < 2:  # padding may not be wider than the window
        common |= {"lo": [0, 0], "hi": [0, 0]}
    return g.b.op(kind, x, window=size, **common)


def view(g: Drawn) -> Node | None:
    x = g.pick("f", "i", "b")
    if x is None:
        return None
    s, r = fixed(x.type), x.type.rank
    kind = g.one_of("transpose", "reshape", "broadcast", "slice", "pad", "concat", "cast")
    if kind == "cast":
        if x.type.dtype.is_float:
            return g.b.op("cast", x, to=g.one_of("f32", "f64"))
        return g.b.op("cast", x, to=g.one_of("f32", "i32", "i64"))
    if kind == "broadcast":
        return g.b.op("broadcast", x, shape=[g.number(1, 3), *s]) if r < 4 else None
    if kind == "reshape":
        return g.b.op("reshape", x, shape=regroup(g, s))
    if not r:
        return None
    if kind == "transpose":
        return g.b.op("transpose", x, perm=list(g.draw(st.permutations(range(r)))))
    if kind == "slice":
        starts = [g.number(0, d - 1) if d else 0 for d in s]
        limits = [g.number(a + 1, d) if d else 0 for a, d in zip(starts, s)]
        return g.b.op("slice", x, starts=starts, limits=limits, steps=[g.number(1, 3) for _ in s])
    if kind == "pad":
        value = 0.0 if x.type.dtype.is_float else 0
        return g.b.op("pad", x, lo=[g.number(0, 2) for _ in s], hi=[g.number(0, 2) for _ in s], value=value)
    axis = g.number(0, r - 1)
    fits = [m for m in g.pool if m.type.dtype == x.type.dtype and m.type.rank == r
            and all(a == b for i, (a, b) in enumerate(zip(m.type.shape, s)) if i != axis)]  # fmt: skip
    return g.b.op("concat", x, g.one_of(*fits), axis=axis)


def regroup(g: Drawn, shape: tuple[int, ...]) -> list[int]:
    """Another shape of as many elements: a neighbour pair joined, or a dimension split."""
    s = list(shape)
    if len(s) >= 2 and g.draw(st.booleans()):
        i = g.number(0, len(s) - 2)
        return [*s[:i], s[i] * s[i + 1], *s[i + 2 :]]
    if s and len(s) < 4:
        i = g.number(0, len(s) - 1)
        d = g.one_of(*[k for k in (1, 2, 3, 4, s[i]) if k and s[i] % k == 0])
        return [*s[:i], d, s[i] // d, *s[i + 1 :]]
    return s


def lookup(g: Drawn) -> Node | None:
    """gather with an index input (within bounds by `random_inputs`), or a running sum."""
    x = g.pick("f", "i")
    if x is None or not x.type.rank:
        return None
    if g.draw(st.booleans()):
        return g.b.op("cumsum", x, axis=g.number(0, x.type.rank - 1), exclusive=g.draw(st.booleans()), reverse=g.draw(st.booleans()))
    axis = g.number(0, x.type.rank - 1)
    g.fresh += 1
    i = g.b.input(f"i{g.fresh}", TensorType(I64, (g.one_of(1, 3, 6),)))
    return g.b.op("gather", x, i, axis=axis)


LENGTHS = (1, 2, 3, 4, 6, 8, 9, 10, 12, 14, 16)  # sampled evenly: drawn integers would mostly be small
STEPS = (unary, unary, bounded, binary, binary, binary, choice, compare, reduction, reduction, rows, product, product, windows,
         view, view, view, lookup)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn, largest: int = 20_000) -> Graph:
    """Up to sixteen ops over leaves of one dtype (and index inputs).

    Outputs: up to three values that nothing uses, and sometimes one that is used.
    """
    g = Drawn(draw, Builder("random"), [])
    dtype = draw(st.sampled_from([F32, F32, F32, F32, F64, F16, I32, I8]))
    rank = draw(st.sampled_from([0, 1, 2, 2, 2, 3, 3, 4, 4]))
    shape = [draw(st.sampled_from(SIZES if rank < 4 else SIZES[:7])) for _ in range(rank)]
    for k in range(draw(st.integers(1, 2))):
        g.pool.append(g.b.input(f"a{k}", TensorType(dtype, tuple(shape))))
    for _ in range(draw(st.sampled_from(LENGTHS))):
        try:
            n = draw(st.sampled_from(STEPS))(g)
        except ModelError:  # an op that has no meaning on these shapes
            continue
        if n is not None and n.type.elements <= largest and n.type.rank <= 5:
            g.pool.append(n)
    used = {i for n in g.pool for i in n.inputs}
    ends = [n for n in g.pool if n not in used and n.op not in ("input", "param")][-3:] or g.pool[-1:]
    chosen = [*ends, *draw(st.lists(st.sampled_from(g.pool), max_size=1))]
    for k, n in enumerate(dict.fromkeys(chosen)):
        g.b.output(f"y{k}", n)
    return g.b.graph()


def shaken(feed: Mapping[str, np.ndarray], k: int) -> dict[str, np.ndarray]:
    """Floating-point inputs an ulp away, up or down: how far the results move says how well a graph determines them."""
    rng = np.random.default_rng(k)
    return {n: np.nextafter(x, rng.choice([-np.inf, np.inf], x.shape).astype(x.dtype)) if x.dtype in (np.float32, np.float64) else x
            for n, x in feed.items()}  # fmt: skip


def on_this_cpu(program: Any, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    program.executor.poison = True
    return [program.run(feed)]


@cache
def model_object() -> tuple[Path, Any]:
    """The CPU model as an object file, compiled once a process; its folder goes when the process ends."""
    from tests.helpers.simt_model import compile_model

    folder = tempfile.TemporaryDirectory(prefix="autocomp-model-")
    return compile_model(Path(folder.name)), folder


def on_the_model(program: Any, feed: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """A GPU's printed kernels on the CPU model, with asynchronous work late, then early."""
    from tests.helpers.simt_model import ModelExecutor

    if any(c.kernel.opaque for c in program.calls.calls):
        raise Refused("a kernel has no generated code")
    if not program.calls.calls:
        return []
    with tempfile.TemporaryDirectory() as folder:
        executor = ModelExecutor(program, Path(folder), model_object()[0])
        out = []
        for executor.late in (True, False):
            out.append(executor.run(feed))
        return out


def check(graph: Graph, target: str = "cpu", **options: Any) -> None:
    """Compile and run; raises Failure on a crash or a wrong result, Refused where the target does not take the graph."""
    feed = random_inputs(graph, 1)
    try:
        program = autocomp.optimize(graph, target=target, **options)
        results = (on_this_cpu if target == "cpu" else on_the_model)(program, feed)
        with np.errstate(all="ignore"):
            want = evaluate(graph, feed)
            own = evaluate(graph, feed, float64=False)
            moved = [evaluate(graph, shaken(feed, k)) for k in range(4)]
    except (UnsupportedOp, DoesNotFit, Refused) as e:
        if target == "cpu":
            raise Failure(f"{type(e).__name__}: {e}") from e
        raise Refused(str(e)) from e
    except (Exception, AssertionError) as e:
        raise Failure(f"{type(e).__name__}: {e}") from e
    natural = max((r for r in (deviation(graph, want, x, own).ratio for x in (own, *moved)) if np.isfinite(r)), default=1.0)
    for got in results:
        d = deviation(graph, want, got, own)
        if not d.ratio <= max(1.0, NOISE * natural):
            raise Failure(f"{d.output}{list(d.index)} is {d.got!r}, float64 says {d.want!r}: {d.ratio:.3g} times the tolerance "
                          f"(NumPy in these types, or with inputs an ulp away: {natural:.3g})")  # fmt: skip


def keep(graph: Graph, failure: Failure, folder: Path, name: str) -> Path:
    """The failing graph as text with its message."""
    path = folder / f"{name}.txt"
    message = "\n".join(f"# {line}" for line in str(failure).splitlines())
    write_atomic(path, f"{message}\n{show(graph)}")
    return path


def run(count: int, number: int, folder: Path, tries: int = 3, target: str = "cpu",
        refused: list[str] | None = None) -> list[tuple[str, str]]:  # fmt: skip
    """`count` graphs of seed `number`; (path, message) of what failed, shrunk. Goes on after a failure with the next seed.

    `refused` collects the reasons why the target did not take a graph.
    """
    found: list[tuple[str, str]] = []
    done = 0
    for attempt in range(tries):
        last: list[tuple[Graph, Failure]] = []

        @seed(number + 1000 * attempt)
        @settings(max_examples=max(1, count - done), deadline=None, database=None, verbosity=Verbosity.quiet,
                  suppress_health_check=list(HealthCheck), phases=(Phase.generate, Phase.shrink), report_multiple_bugs=False)  # fmt: skip
        @given(graphs())
        def one(graph: Graph) -> None:
            nonlocal done
            done += not last  # noqa: B023
            try:
                check(graph, target=target)
            except Refused as e:
                if refused is not None and not last:  # noqa: B023
                    refused.append(str(e))
            except Failure as e:
                last.append((graph, e))  # noqa: B023
                raise

        try:
            one()
        except Failure:
            graph, failure = last[-1]
            found.append((str(keep(graph, failure, folder, f"{target.replace(':', '_')}_seed{number}_{attempt}")), str(failure)))
        if done >= count:
            break
    return found


def _share(args: tuple[int, int, str, str]) -> tuple[list[tuple[str, str]], list[str]]:
    count, number, folder, target = args
    refused: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["AUTOCOMP_CACHE"] = cache
        return run(count, number, Path(folder), target=target, refused=refused), refused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default="random_graph_failures")
    parser.add_argument("--target", default="cpu", help="cpu, or a GPU's, run on the CPU model")
    a = parser.parse_args()
    share = 50 if a.target == "cpu" else 10
    work = [(min(share, a.count - at), a.seed * 10_000 + at, a.keep, a.target) for at in range(0, a.count, share)]
    start, failures, done = time.perf_counter(), 0, 0
    reasons: Counter[str] = Counter()
    print(f"{a.count} random graphs for {a.target}, seed {a.seed}", flush=True)
    with ProcessPoolExecutor(a.jobs) as pool:
        for (count, number, _, _), (found, refused) in zip(work, pool.map(_share, work)):
            done += count
            failures += len(found)
            reasons.update(refused)
            for path, message in found:
                print(f"FAILED {path}\n  {message}", flush=True)
            print(f"{done} graphs, {failures} failures, {reasons.total()} refused, {time.perf_counter() - start:.0f} s "
                  f"(share of seed {number})", flush=True)  # fmt: skip
    for reason, n in reasons.most_common(10):
        print(f"refused {n}: {reason}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
