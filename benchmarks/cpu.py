"""Ours against onnxruntime, torch and torch.compile on this machine's CPU, side by side in one run.

    python -m benchmarks.cpu                                every workload, 1 and 2 threads
    python -m benchmarks.cpu --only bert,softmax --threads 2
    python -m benchmarks.cpu --quick                        fewer rounds, without torch.compile
    python -m benchmarks.cpu --json out.json                also every figure as JSON
    python -m benchmarks.cpu --only mobilenet --kernels 12  also the kernels that take longest, with their share of the ceilings
    python -m benchmarks.cpu --only resnet18 --cpu-time --threads 1 --quick     on a busy machine; `least` is the ratio of the minima

Contestants take turns in shuffled rounds. A turn is a pause (so that no foreign thread pool still spins), one call that is not
counted, then the timed calls: data are as warm as the contestant's own previous call leaves them, and the other contestants'
turns have gone through the caches in between. Models in 8 bits (`_qdq`, `_qlinear`: made by onnxruntime's quantiser) have
onnxruntime as their only peer, with whose results ours agree up to rounding.
The table has medians over all timed calls, `+-` is half the distance of our
quartiles, `ratio` the best peer's median over ours (above 1: ours is faster), `roof` the time that the work takes at ceilings
measured in the same run (multiply-adds; copy) over ours. A result that differs from torch's is an error and is not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from math import exp, log
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import autocomp
from autocomp.cost.calibrate import measure_ceilings
from benchmarks.cpu_workloads import WORKLOADS, Workload, onnx_bytes, quantised

PAUSE = 0.03  # seconds: longer than the spinning of the peers' pools
INSTALL = {"torch": "pip install torch", "onnxruntime": "pip install onnxruntime"}
Run = Callable[[], Any]


def parse() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", help=f"workloads, separated by commas: {', '.join(WORKLOADS)}")
    p.add_argument("--threads", default="1,2", help="thread counts, separated by commas (default 1,2)")
    p.add_argument("--quick", action="store_true", help="fewer rounds, no torch.compile")
    p.add_argument("--json", type=Path, help="file for every figure")
    p.add_argument("--cpu-time", action="store_true", help="processor time of the calling thread (1 thread only): on a busy machine")
    p.add_argument("--kernels", type=int, default=0, help="print this many of each program's kernels, those that take longest first")
    p.add_argument("--seconds", type=float, default=4.0, help="time a contestant gets for each row (default 4)")
    args = p.parse_args()
    args.names = args.only.split(",") if args.only else list(WORKLOADS)
    unknown = [n for n in args.names if n not in WORKLOADS]
    if unknown:
        sys.exit(f"no workload '{unknown[0]}'; there are {', '.join(WORKLOADS)}")
    args.counts = [int(n) for n in args.threads.split(",")]
    if args.cpu_time and args.counts != [1]:
        sys.exit("--cpu-time measures the calling thread alone: it needs --threads 1")
    return args


def contestants(torch: Any, ort: Any, w: Workload, threads: int,
                quick: bool) -> tuple[dict[str, Run], autocomp.Program, dict[str, Any], float]:  # fmt: skip
    """(name -> one call, ours first; our program; what it is given; how far its result may be off, see `check`)."""
    module, args = w.make(torch)
    module.eval()
    model, arrays = onnx_bytes(torch, module, args), [a.numpy() for a in args]
    if w.quantised:
        model = quantised(model, arrays, w.quantised)
    program = autocomp.optimize(model, target="cpu", threads=threads)
    feed = {n.attrs["name"]: a for n, a in zip(program.graph.inputs, arrays)}
    runs: dict[str, Run] = {"ours": lambda: next(iter(program.run(feed).values()))}
    if ort is not None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        runs["onnxruntime"] = lambda: session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})[0]
    if w.quantised:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        plain = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        own = off(runs["onnxruntime"](), plain.run(None, {f"x{i}": a for i, a in enumerate(arrays)})[0])
        return runs, program, feed, max(0.02, 2 * own)
    runs["torch"] = lambda: module(*args).numpy()
    if not quick:
        torch._dynamo.reset()
        import torch._inductor.config as inductor

        inductor.freezing = True
        compiled = torch.compile(module, dynamic=False)
        runs["torch.compile"] = lambda: compiled(*args).numpy()
    return runs, program, feed, 1e-3


def off(got: Any, want: Any) -> float:
    """Largest difference over the largest value."""
    return float(np.max(np.abs(want.astype(np.float64) - got)) / np.max(np.abs(want)))


def check(runs: dict[str, Run], name: str, allowed: float) -> float:
    """How far ours is off torch's result. Of a model in 8 bits, onnxruntime's: twice as far as it is off itself without optimisation at
    most (one number that is rounded the other way is a step of a layer's scale). Exits where it is further off."""
    peer = "torch" if "torch" in runs else "onnxruntime"
    error = off(runs["ours"](), runs[peer]())
    if not error < allowed:
        sys.exit(f"{name}: ours differs from {peer} by {error:.1e} of the largest value, {allowed:.1e} are allowed")
    return error


def measure(runs: dict[str, Run], seconds: float, rounds: int, seed: int, clock: Callable[[], float]) -> dict[str, list[float]]:
    """Seconds of every timed call, by contestant."""
    calls = {}
    for name, run in runs.items():
        run()
        t = clock()
        run()
        calls[name] = max(1, min(50, int(seconds / rounds / (clock() - t))))
    out: dict[str, list[float]] = {name: [] for name in runs}
    order = random.Random(seed)
    for _ in range(rounds):
        for name in order.sample(sorted(runs), len(runs)):
            time.sleep(PAUSE)
            runs[name]()
            for _ in range(calls[name]):
                t = clock()
                runs[name]()
                out[name].append(clock() - t)
    return out


def row(name: str, w: Workload, threads: int, times: dict[str, list[float]], ceilings: tuple[float, float], error: float) -> dict[str, Any]:
    """The figures of one row."""
    median = {k: statistics.median(v) for k, v in times.items()}
    quartiles = statistics.quantiles(times["ours"], n=4) if len(times["ours"]) > 1 else [median["ours"]] * 3
    peers = {k: v for k, v in median.items() if k != "ours"}
    best = min(peers, key=peers.__getitem__)
    floor = max(w.flops / ceilings[0], w.bytes / ceilings[1])
    return {"workload": name, "threads": threads, "median": median, "spread": (quartiles[2] - quartiles[0]) / 2, "best": best,
            "ratio": peers[best] / median["ours"], "roof": floor / median["ours"], "error": error,
            "least": min(min(times[k]) for k in peers) / min(times["ours"]),
            "minimum": {k: min(v) for k, v in times.items()}, "calls": len(times["ours"])}  # fmt: skip


def show(r: dict[str, Any], names: list[str]) -> str:
    cells = "".join(f"{r['median'][n] * 1e3:14.3f}" if n in r["median"] else f"{'-':>14}" for n in names)
    figures = f"{r['spread'] * 1e3:9.3f}{r['ratio']:8.2f}{r['least']:7.2f}{r['roof']:7.0%}"
    return f"{r['workload']:14}{r['threads']:3}{cells}{figures}  {r['best']}"


def kernel_table(program: autocomp.Program, feed: dict[str, Any], ceilings: tuple[float, float], count: int) -> str:
    """Kernels by the time that a call spends in them: microseconds and launches, operations and bytes a second with their shares of the
    ceilings, what was predicted. On the usual clock (not --cpu-time), medians of ten calls."""
    took = program.profile(feed).by_kernel
    lines = []
    for k in sorted(program.kernels, key=lambda k: -took[k.name] * k.calls)[:count]:
        t = took[k.name]
        done = ((k.operations / t, ceilings[0], "GFLOP/s"), (k.moved / t, ceilings[1], "GB/s"))
        rates = " ".join(f"{x / 1e9:7.1f} {unit} {x / most:4.0%}" for x, most, unit in done)
        want = f"{k.predicted * k.calls * 1e6:8.0f} predicted"
        lines.append(f"  {t * k.calls * 1e6:9.0f} us x{k.calls:<3}{rates} {want}  {k.name}: {k.schedule}")
    return "\n".join(lines)


def main() -> None:
    """Run the rows and print the table."""
    args = parse()
    try:
        import torch
    except ImportError:
        sys.exit(f"the workloads are written in torch: {INSTALL['torch']}")
    try:
        import onnxruntime as ort
    except ImportError:
        ort = None
        print(f"onnxruntime is not installed and is left out: {INSTALL['onnxruntime']}")
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    names = ["ours", "onnxruntime", "torch", *([] if args.quick else ["torch.compile"])]
    rows: list[dict[str, Any]] = []
    for threads in args.counts:
        torch.set_num_threads(threads)
        ceilings = measure_ceilings(threads)
        print(f"{threads} threads: {ceilings[0] / 1e9:.0f} GFLOP/s, copy {ceilings[1] / 1e9:.0f} GB/s, load {os.getloadavg()[0]:.1f}")
        print(f"{'milliseconds':17}{''.join(f'{n:>14}' for n in names)}{'+-':>9}{'ratio':>8}{'least':>7}{'roof':>7}  best peer", flush=True)
        for name in args.names:
            if WORKLOADS[name].quantised and ort is None:
                continue
            runs, program, feed, allowed = contestants(torch, ort, WORKLOADS[name], threads, args.quick)
            error = check(runs, name, allowed)
            rounds, seconds = (4, args.seconds / 4) if args.quick else (10, args.seconds)
            times = measure(runs, seconds, rounds, len(rows), time.thread_time if args.cpu_time else time.perf_counter)
            rows.append(row(name, WORKLOADS[name], threads, times, ceilings, error))
            print(show(rows[-1], names), flush=True)
            if args.kernels:
                print(kernel_table(program, feed, ceilings, args.kernels), flush=True)
    mean = exp(sum(log(r["ratio"]) for r in rows) / len(rows))
    print(f"geometric mean of the ratios against the best peer: {mean:.2f}")
    if args.json:
        args.json.write_text(json.dumps({"rows": rows, "geometric_mean": mean}, indent=1) + "\n")


if __name__ == "__main__":
    main()
