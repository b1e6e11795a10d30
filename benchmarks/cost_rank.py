"""Does the cost model order schedules as the machine does? Predicted against measured time, and Spearman's rank correlation.

For each kernel the kernel e-graph's schedules are put in order of their predicted time; `--schedules` of them, evenly spaced from the
best to the worst, are printed, built and timed (two that print the same code count once; one that fails to build is counted and
skipped). On a CPU: one thread, the calling thread's CPU time, least of the runs, so that other work on the machine does not count.
On a GPU: device time between events, median of the launches.

    python benchmarks/cost_rank.py [--target cpu|cuda|cuda:h200] [--kernels NAME..] [--schedules N] [--json] [--details]

rho is 1 where both orders agree. `overall` ranks all schedules of all kernels together, which sizes alone order well; the mean over
kernels is the harder figure (a flat kernel, whose schedules all measure alike, has no order to find and is left out of it). `loss`
is the time of the schedule that the model likes best over the best measured one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autocomp.targets import Target, load_target

from autocomp import pipeline, rewrite
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import estimate, pricer
from autocomp.egraph.choose import Joins, candidates, describe
from autocomp.egraph.parts import merged, split_calls
from autocomp.errors import AutocompError
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.options import Options
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.program import Program, build_program
from autocomp.trace import Trace


def graph(inputs: Mapping[str, str], body: str, output: str) -> str:
    """A graph's text from its inputs and statements."""
    return "\n".join(["graph g", *(f"input {n}: {t}" for n, t in inputs.items()), *body.split("; "), f"output out = {output}", ""])


def attention(dtype: str, shape: str) -> str:
    """softmax(q k^T / 8) v as one graph."""
    return graph({a: f"{dtype}[{shape}]" for a in "qkv"},
                 "%0 = transpose(k, perm=[0, 1, 3, 2]); %1 = matmul(q, %0); %2 = mul(%1, const(0.125, " + dtype + ")); "
                 "%3 = softmax(%2, axes=[3]); %4 = matmul(%3, v)", "%4")  # fmt: skip


def norm(dtype: str, rows: int, width: int) -> str:
    """Layer norm over the last axis, with scale and shift."""
    return graph({"x": f"{dtype}[{rows}, {width}]", "g": f"{dtype}[{width}]", "b": f"{dtype}[{width}]"},
                 "%0 = layer_norm(x, g, b, axes=[1], eps=1e-05)", "%0")  # fmt: skip


def conv(dtype: str, n: int, c: int, size: int, out: int) -> str:
    """3 x 3 convolution with relu."""
    return graph({"x": f"{dtype}[{n}, {c}, {size}, {size}]", "w": f"{dtype}[{out}, {c}, 3, 3]"},
                 "%0 = conv(x, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1]); %1 = relu(%0)", "%1")  # fmt: skip


def conv_last(dtype: str, n: int, c: int, size: int, out: int) -> str:
    """The same of an image whose channels are contiguous, as nets of convolutions are made inside."""
    return (f"graph g\ninput x: {dtype}[{n}, {size}, {size}, {c}]\ninput w: {dtype}[{out}, 3, 3, {c}]\n"
            "%0 = transpose(x, perm=[0, 3, 1, 2])\n%1 = transpose(w, perm=[0, 3, 1, 2])\n"
            "%2 = conv(%0, %1, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1])\n%3 = relu(%2)\n"
            "%4 = transpose(%3, perm=[0, 2, 3, 1])\noutput y = %4\n")  # fmt: skip


def linear(dtype: str, m: int, n: int, k: int, after: str = "%2 = gelu(%1)") -> str:
    """A matmul with bias and an activation."""
    return graph({"x": f"{dtype}[{m}, {k}]", "w": f"{dtype}[{k}, {n}]", "b": f"{dtype}[{n}]"},
                 f"%0 = matmul(x, w); %1 = add(%0, b); {after}", "%2")  # fmt: skip


def matmul(dtype: str, m: int, n: int, k: int) -> str:
    """a @ b"""
    return graph({"a": f"{dtype}[{m}, {k}]", "b": f"{dtype}[{k}, {n}]"}, "%0 = matmul(a, b)", "%0")


def softmax(dtype: str, rows: int, width: int) -> str:
    """Along the last axis."""
    return graph({"x": f"{dtype}[{rows}, {width}]"}, "%0 = softmax(x, axes=[1])", "%0")


def chain(dtype: str, rows: int, width: int) -> str:
    """Element-wise, with a row's bias."""
    return graph({"x": f"{dtype}[{rows}, {width}]", "y": f"{dtype}[{rows}, {width}]", "b": f"{dtype}[{width}]"},
                 "%0 = add(x, b); %1 = tanh(%0); %2 = mul(%1, y); %3 = relu(%2)", "%3")  # fmt: skip


def turned(dtype: str, rows: int, width: int) -> str:
    """A transposed read beside a straight one."""
    return graph({"x": f"{dtype}[{width}, {rows}]", "y": f"{dtype}[{rows}, {width}]"},
                 "%0 = transpose(x, perm=[1, 0]); %1 = add(%0, y)", "%1")  # fmt: skip


def columns(dtype: str, rows: int, width: int) -> str:
    """Sums down the columns."""
    return graph({"x": f"{dtype}[{rows}, {width}]"}, "%0 = reduce_sum(x, axes=[0], keepdims=False)", "%0")


CPU = {
    "matmul": matmul("f32", 512, 768, 512), "linear_gelu": linear("f32", 256, 1024, 512), "conv_relu": conv("f32", 1, 64, 40, 64),
    "softmax": softmax("f32", 1536, 768), "layer_norm": norm("f32", 1024, 768), "chain": chain("f32", 768, 1000),
    "attention": attention("f32", "1, 4, 256, 64"), "matvecs": matmul("f32", 8, 2048, 1024),
    "turned": turned("f32", 1000, 1536), "columns": columns("f32", 2048, 1024),
}  # fmt: skip
GPU = {
    "matmul": matmul("f16", 4096, 4096, 4096), "matmul_small": matmul("f16", 1024, 1024, 1024),
    "matmul_deep": matmul("f16", 256, 512, 16384),
    "linear_gelu": linear("f16", 8192, 3072, 768), "linear_odd": linear("f16", 1000, 1000, 1000), "matvecs": matmul("f16", 8, 8192, 4096),
    "conv_relu": conv_last("f16", 16, 64, 56, 64), "softmax": softmax("f16", 16384, 4096), "layer_norm": norm("f16", 16384, 1024),
    "chain": chain("f16", 16384, 4096), "attention": attention("f16", "4, 16, 2048, 64"),
    "turned": turned("f16", 8192, 8192), "columns": columns("f16", 16384, 4096),
}  # fmt: skip


FLAT = 1.15  # slowest over fastest, below which runs of one schedule differ as much


@dataclass(frozen=True)
class Point:
    """One schedule of one kernel; seconds."""

    kernel: str
    schedule: str
    rule: str
    predicted: float
    bound: str
    measured: float


def ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    x = np.asarray(values)
    _, group, count = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count + 1) / 2)[group]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rho: the correlation of the ranks; NaN where one side does not vary."""
    x, y = (r - r.mean() for r in map(ranks, (a, b)))
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm else float("nan")


def sample(calls: KernelGraph, target: Target, options: Options, n: int) -> tuple[list[tuple[float, str, str, Schedule]], int]:
    """(predicted, bound, rule, schedule) of n schedules with different code, evenly spaced in the predicted order; how many there are."""
    (kernel,) = {c.kernel.signature: c.kernel for c in calls.calls}.values()
    chip = target.chip.with_cores(1) if target.runtime == "host" else target.chip
    demand, rules = demand_of(kernel), rewrite.load_rules()
    price, joins = pricer(demand, chip, kernel), Joins(kernel, rules, chip, options)
    priced = []
    for c in candidates(kernel, rules, chip, options, demand):
        cost = price(c.schedule)
        priced.append((cost.seconds, cost.bound, c.rule, c.schedule))
    priced.sort(key=lambda p: (p[0], str(p[3])))
    taken: list[tuple[float, str, str, Schedule]] = []
    texts: set[str] = set()
    for i in _spaced(len(priced), n):
        for p in (*priced[i:], *reversed(priced[:i])):  # the nearest after it, else before it, that the target prints as other code
            try:
                p = (*p[:3], joins.complete(p[3]))
                text = "".join(target.emit(k, s).text.partition("*/")[2] for k, s in pieces(kernel, p[3]))
            except AutocompError:
                continue
            if text not in texts:
                texts.add(text)
                taken.append(p)
                break
    return taken, len(priced)


def _spaced(total: int, n: int) -> list[int]:
    return sorted({round(i * (total - 1) / max(1, n - 1)) for i in range(n)})


def cpu_seconds(program: Program, feed: Mapping[str, Any], budget: float = 0.25) -> float:
    """Least CPU time of the calling thread for one call; about `budget` seconds of runs, three at least."""
    program.run(feed)
    best, spent, runs = float("inf"), 0.0, 0
    while runs < 3 or (spent < budget and runs < 50):
        at = time.thread_time()
        program.run(feed)
        took = time.thread_time() - at
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def device_seconds(program: Program, feed: Mapping[str, Any]) -> float:
    """Median device time of the kernel's launches."""
    return sum(program.profile(feed, repeat=20).by_kernel.values())


def measure(name: str, text: str, target: Target, n: int, out: Callable[[str], None]) -> tuple[list[Point], dict[str, Any]]:
    """Points of one kernel, and its row of the table."""
    options, trace = Options(cache=False, threads=1 if target.runtime == "host" else 0), Trace()
    source = pipeline.import_model(text, trace)
    calls = merged(pipeline.extract(source, target, rewrite.load_rules(), options, trace)[0])
    if len(calls.calls) != 1:
        raise SystemExit(f"{name} became {len(calls.calls)} kernels; the benchmark wants one")
    picked, total = sample(calls, target, options, n)
    feed = random_inputs(source, 0)
    points, failed = [], []
    for seconds, bound, rule, schedule in picked:
        signature = calls.calls[0].kernel.signature
        price = estimate(calls.calls[0].kernel, schedule, target.chip)
        try:
            program = build_program(*split_calls(calls, {signature: (schedule, price)}, target.chip), target, options, Trace())
            time_ = cpu_seconds(program, feed) if target.runtime == "host" else device_seconds(program, feed)
        except (AutocompError, RuntimeError) as e:
            failed.append(f"{describe(schedule)}: {e}")
            continue
        points.append(Point(name, describe(schedule), rule, seconds, bound, time_))
        out(f"{name:14} {describe(schedule):60.60} predicted {seconds * 1e6:9.1f} us ({bound}), measured {time_ * 1e6:9.1f} us")
    rho = spearman([p.predicted for p in points], [p.measured for p in points])
    best = min(points, key=lambda p: p.measured)
    liked = min(points, key=lambda p: p.predicted)
    ratio = float(np.exp(np.mean([np.log(p.measured / p.predicted) for p in points])))
    return points, {"kernel": name, "candidates": total, "measured": len(points), "failed": failed, "rho": rho,
                    "spread": max(p.measured for p in points) / best.measured, "measured_over_predicted": ratio,
                    "loss": liked.measured / best.measured}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--kernels", nargs="*", help="some of the kernels")
    parser.add_argument("--schedules", type=int, help="a kernel (6 on a CPU, 24 on a GPU)")
    parser.add_argument("--json", action="store_true", help="everything as JSON on stdout")
    parser.add_argument("--details", action="store_true", help="a line a schedule")
    args = parser.parse_args()
    target = load_target(args.target)
    if target.why_not_runnable():
        parser.exit(1, f"{args.target} cannot run here: {target.why_not_runnable()}\n")
    host = target.runtime == "host"
    kernels = {k: v for k, v in (CPU if host else GPU).items() if not args.kernels or k in args.kernels}
    out = print if args.details and not args.json else lambda _: None
    points, rows, begun = [], [], time.time()
    for name, text in kernels.items():
        found, row = measure(name, text, target, args.schedules or (6 if host else 24), out)
        points += found
        rows.append(row)
        if not args.json:
            print(line(row), flush=True)
    overall = spearman([p.predicted for p in points], [p.measured for p in points])
    varied = [r["rho"] for r in rows if r["spread"] >= FLAT]
    mean = float(np.mean(varied)) if varied else float("nan")
    summary = {"target": args.target, "chip": target.chip.title, "points": len(points), "failed": sum(len(r["failed"]) for r in rows),
               "rho_overall": overall, "rho_mean_of_kernels": mean, "flat": len(rows) - len(varied),
               "seconds": time.time() - begun}  # fmt: skip
    if args.json:
        print(json.dumps({**summary, "kernels": rows, "schedules": [vars(p) for p in points]}, indent=1))
    else:
        print(f"{target.chip.title}: {len(points)} schedules of {len(rows)} kernels, {summary['failed']} failed; Spearman's rho overall "
              f"{overall:.2f}, mean of kernels {mean:.2f} ({summary['seconds']:.0f} s)")  # fmt: skip


def line(r: Mapping[str, Any]) -> str:
    """A kernel's row of the table."""
    flat = " (flat)" if r["spread"] < FLAT else "       "
    return (f"{r['kernel']:14} {r['candidates']:5} candidates, {r['measured']:3} measured, {len(r['failed'])} failed  "
            f"rho {r['rho']:5.2f}{flat}  slowest/fastest {r['spread']:5.1f}  measured/predicted {r['measured_over_predicted']:5.2f}  "
            f"loss {r['loss']:4.2f}")  # fmt: skip


if __name__ == "__main__":
    main()
