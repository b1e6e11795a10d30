"""Ours against what people use, on one CUDA device, in one run.

    python -m benchmarks.gpu                          every workload
    python -m benchmarks.gpu --only softmax_row,layernorm --quick
    python -m benchmarks.gpu --out results.json --autotune

Peers: torch eager, torch.compile (and with --autotune its max-autotune-no-cudagraphs mode), TileLang where it is installed and
gpu_tilelang.py has a kernel (the fastest of a few configurations). Every contestant of a workload is timed
in shuffled rounds between which the L2 cache is overwritten, because the chip is power-capped and its clock drifts; the table
has medians, half the distance of the quartiles, the ratio to the best peer and the share of the roofline, whose ceilings (a large copy and
a large bf16 product) are measured in the same run. Our result is compared with torch in float64 first; a wrong one is not timed.
Beside them stand the seconds that our program took to compile (from the model, all its kernels), torch.compile's first call, and the
build of TileLang's fastest kernel.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import autocomp
from benchmarks import gpu_tilelang
from benchmarks.gpu_workloads import EXTRA, WORKLOADS, Workload

Run = Callable[[], Any]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", help="names of workloads, separated by commas")
    p.add_argument("--quick", action="store_true", help="fewer rounds, no torch.compile, no TileLang")
    p.add_argument("--autotune", action="store_true", help="also torch.compile's max-autotune-no-cudagraphs")
    p.add_argument("--clean", action="store_true", help="between rounds the L2 cache is left with lines that were only read: what is "
                   "measured then does not wait until those of the overwritten buffer are written back (up to 50 MB)")  # fmt: skip
    p.add_argument("--target", default="cuda", help="target of our programs, e.g. cuda:h200")
    p.add_argument("--out", help="write all figures as JSON")
    p.add_argument("--budget", type=float, default=540, help="seconds after which no further workload is begun")
    args = p.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit("the peers need torch: pip install torch")
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device")
    known = WORKLOADS | EXTRA
    names = args.only.split(",") if args.only else list(known)
    unknown = [n for n in names if n not in known]
    if unknown:
        sys.exit(f"no workload {unknown[0]}; there are {', '.join(known)}")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    start, bench = time.time(), Bench(torch, rounds=8 if args.quick else 24, clean=args.clean)
    copy, flops = bench.ceilings()
    print(f"{torch.cuda.get_device_name()}: copy {copy / 1e12:.2f} TB/s, bf16 product {flops / 1e12:.0f} TFLOP/s", flush=True)
    heads = f"{'ours ms':>9} {'+-':>7} {'best peer':>10} {'which':>12} {'ratio':>6} {'roofline':>8}"
    heads += f" {'compile s':>9} {'torch s':>8} {'tile s':>7}"
    print(f"{'workload':24} {heads}  kernels")
    rows: list[dict[str, Any]] = []
    for name in names:
        if time.time() - start > args.budget:
            print(f"{name:24} not begun: {args.budget:.0f} s are over")
            continue
        row = bench.workload(name, known[name](), args, copy, flops)
        rows.append(row)
        print(line(row), flush=True)
        torch.cuda.empty_cache()
    for what, of in (("", WORKLOADS), (" (beside the headline)", EXTRA)):
        ratios = [r["ratio"] for r in rows if "ratio" in r and r["workload"] in of]
        if ratios:
            print(f"geometric mean of {len(ratios)} ratios{what}: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}")
    if rows:
        print(f"to compile, medians (ours a kernel): {compile_line(rows)}")
    if args.out:
        Path(args.out).write_text(json.dumps({"copy": copy, "flops": flops, "rows": rows}, indent=1))


def line(r: dict[str, Any]) -> str:
    """A row of the table."""
    if "error" in r:
        return f"{r['workload']:24} {r['error']}"
    peer = f"{r['peer']:10.4f} {r['peer_name']:>12} {r['ratio']:6.2f}" if "ratio" in r else f"{'':10} {'':12} {'':6}"
    theirs = " ".join(f"{r[k]:{n}.2f}" if k in r else " " * n for k, n in (("compile seconds", 8), ("tilelang build", 7)))
    ours = f"{r['workload']:24} {r['ours']:9.4f} {r['spread']:7.4f}"
    return f"{ours} {peer} {r['roofline']:8.2f} {r['compile']:9.2f} {theirs}  {r['kernels']}"


def compile_line(rows: list[dict[str, Any]]) -> str:
    """Medians over the rows: what a distinct kernel of ours takes to compile, a workload with torch.compile, a kernel with TileLang."""
    columns = {"ours": [r["compile"] / r["distinct"] for r in rows if "distinct" in r]}
    columns |= {n: [r[k] for r in rows if k in r] for n, k in (("torch.compile", "compile seconds"), ("TileLang", "tilelang build"))}
    return "; ".join(f"{n} {median(x):.2f} s (most {max(x):.2f}, {len(x)} rows)" for n, x in columns.items() if x)


class Bench:
    """Timing on the current device. `rounds`: how often each contestant runs."""

    def __init__(self, torch: Any, rounds: int, clean: bool = False) -> None:
        self.torch, self.rounds = torch, rounds
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        self.read = torch.zeros(64 << 20, dtype=torch.float32, device="cuda") if clean else None
        self.stream = torch.cuda.Stream()

    def ceilings(self) -> tuple[float, float]:
        """Bytes/s of a large copy (reads and writes) and flop/s of a bf16 product of 8192 cubed."""
        t = self.torch
        x = t.empty(1 << 30, dtype=t.uint8, device="cuda")
        y = t.empty_like(x)
        a = t.randn(8192, 8192, device="cuda", dtype=t.bfloat16)
        times = self.race({"copy": lambda: y.copy_(x), "product": lambda: a @ a})
        return 2 * x.numel() / times["copy"][0] * 1e3, 2 * 8192**3 / times["product"][0] * 1e3

    def race(self, runs: dict[str, Run], rounds: int = 0) -> dict[str, tuple[float, float]]:
        """(median, half the interquartile range) in ms of each, cold caches, shuffled rounds."""
        t = self.torch
        with t.cuda.stream(self.stream):
            for f in runs.values():
                for _ in range(3):
                    f()
            t.cuda.synchronize()
            marks: dict[str, list[tuple[Any, Any]]] = {n: [] for n in runs}
            order = list(runs)
            for _ in range(rounds or self.rounds):
                random.shuffle(order)
                for n in order:
                    a, b = t.cuda.Event(enable_timing=True), t.cuda.Event(enable_timing=True)
                    self.flush.zero_()
                    if self.read is not None:
                        self.read.sum()
                    a.record()
                    runs[n]()
                    b.record()
                    marks[n].append((a, b))
                t.cuda.synchronize()
        out = {}
        for n, pairs in marks.items():
            ms = sorted(a.elapsed_time(b) for a, b in pairs)
            out[n] = ms[len(ms) // 2], (ms[3 * len(ms) // 4] - ms[len(ms) // 4]) / 2
        return out

    def captured(self, run: Run) -> Run:
        """The replay of a CUDA graph of one call, behind three calls that warm up; the call itself where it cannot be captured."""
        t = self.torch
        with t.cuda.stream(self.stream):
            for _ in range(3):
                run()
        t.cuda.synchronize()
        graph = t.cuda.CUDAGraph()
        try:
            with t.cuda.graph(graph, stream=self.stream):
                kept = run()  # its results live in the graph's memory
        except RuntimeError:
            t.cuda.synchronize()
            return run
        return lambda: (graph.replay(), kept)[0]

    def workload(self, name: str, w: Workload, args: argparse.Namespace, copy: float, flops: float) -> dict[str, Any]:
        """One row; an error ends in the row and not in the run."""
        t = self.torch
        row: dict[str, Any] = {"workload": name}
        try:
            with t.no_grad():
                f, inputs = w.make(t)
                begun = time.perf_counter()
                program = self.compiled(w, f, w.ours(inputs), args.target)
                row["compile"] = time.perf_counter() - begun
                row["distinct"] = len(program.kernels)
                row["kernels"] = "; ".join(f"{k.name} ({k.schedule})" for k in program.kernels)
                ours, outputs = self.ours(program, w.ours(inputs))
                row["deviation"] = self.check(f, inputs, w, outputs, ours)
                runs: dict[str, Run] = {"ours": ours, "eager": lambda: f(*inputs)}
                for mode in [] if args.quick else ["compile", *(["autotune"] if args.autotune else [])]:
                    t._dynamo.reset()
                    compiled = t.compile(f, mode="max-autotune-no-cudagraphs" if mode == "autotune" else None)
                    begun = time.perf_counter()
                    compiled(*inputs)
                    t.cuda.synchronize()
                    row[f"{mode} seconds"] = time.perf_counter() - begun
                    runs[mode] = partial(compiled, *inputs)
                if not args.quick:
                    runs |= self.tilelang(name, f, inputs, row)
                times = self.race(runs)
        except autocomp.AutocompError as e:
            return row | {"error": f"{type(e).__name__}: {e.what}"[:150]}
        except (AssertionError, RuntimeError, BufferError, TypeError) as e:
            return row | {"error": f"{type(e).__name__}: {str(e).splitlines()[0]}"[:200]}
        peer = min((n for n in times if n != "ours"), key=lambda n: times[n][0])
        floor = max(w.bytes / copy, w.flops / flops) * 1e3
        row |= {"ours": times["ours"][0], "spread": times["ours"][1], "times": times, "peer": times[peer][0], "peer_name": peer,
                "ratio": times[peer][0] / times["ours"][0], "roofline": floor / times["ours"][0], "floor": floor}  # fmt: skip
        return row

    def tilelang(self, name: str, f: Any, inputs: tuple[Any, ...], row: dict[str, Any]) -> dict[str, Run]:
        """The fastest right TileLang kernel of a workload, by a short race of its configurations; none where there is no such kernel.

        Kernels are built side by side. The row keeps the configuration, the seconds of its build and of all of them, and what failed.
        """
        if not gpu_tilelang.available():
            return {}
        todo = dict(gpu_tilelang.contestants(name, inputs))
        if not todo:
            return {}
        begun, runs, failed, seconds = time.perf_counter(), {}, {}, {}
        with ThreadPoolExecutor(8) as pool:
            built = {c: pool.submit(_timed, build) for c, build in todo.items()}
        want = f(*inputs).double()
        for config, future in built.items():
            try:
                run, seconds[config] = future.result()
                deviation = float((run().double().reshape(want.shape) - want).norm() / want.norm())
                if not deviation < 1e-2:
                    raise RuntimeError(f"differs from torch by {deviation:.1e}")
                runs[config] = run
            except Exception as e:  # a configuration that does not build or run costs that configuration alone
                failed[config] = f"{type(e).__name__}: {e}"[:200]
        row |= {"tilelang seconds": time.perf_counter() - begun, "tilelang failed": failed}
        if not runs:
            return {}
        times = self.race(runs, rounds=4)
        row["tilelang config"] = min(times, key=lambda c: times[c][0])
        row["tilelang build"] = seconds[row["tilelang config"]]
        return {"tilelang": runs[row["tilelang config"]]}

    def compiled(self, w: Workload, f: Any, inputs: tuple[Any, ...], target: str) -> Any:
        """Our program: of the workload's graph, or of what torch exports of its function."""
        if w.graph:
            return autocomp.optimize(w.graph, target=target)
        t = self.torch

        class Apply(t.nn.Module):  # type: ignore[name-defined, misc]
            def forward(self, *xs: Any) -> Any:
                return f(*xs)

        module = f if isinstance(f, t.nn.Module) else Apply().eval()
        return autocomp.optimize(module, example_inputs=inputs, target=target)

    def ours(self, program: Any, inputs: tuple[Any, ...]) -> tuple[Run, dict[str, Any]]:
        """A callable that queues one call of our program on the benchmark's stream, and the outputs that it rewrites."""
        from cuda.core import Stream

        names = [n.attrs["name"] for n in program.graph.inputs]
        executor = program.executor
        launch, outputs = executor.bind(dict(zip(names, inputs)))
        stream = Stream.from_handle(self.stream.cuda_stream)
        return lambda: launch(stream), outputs

    def check(self, f: Any, inputs: tuple[Any, ...], w: Workload, outputs: dict[str, Any], run: Run) -> float:
        """|ours - float64| / |float64| of every output, outputs poisoned first. Raises AssertionError beyond 1e-2 or on NaN."""
        t = self.torch
        got = [t.from_dlpack(o) for o in outputs.values()]
        for g in got:
            g.fill_(float("nan") if g.is_floating_point() else -1)
        t.cuda.synchronize()
        with t.cuda.stream(self.stream):
            run()
        t.cuda.synchronize()
        want = reference(t, w.exact or f, inputs) if w.graph else half_reference(f, inputs)
        worst = 0.0
        for g, v in zip(got, want):
            v = v.permute(0, 2, 3, 1) if v.dim() == 4 and g.shape != v.shape else v
            worst = max(worst, float((g.double() - v).norm() / v.norm()))
        assert worst < 1e-2, f"differs from float64 by {worst:.1e}"
        return worst


def _timed(f: Callable[[], Any]) -> tuple[Any, float]:
    """f's result and how many seconds it took."""
    begun = time.perf_counter()
    return f(), time.perf_counter() - begun


def reference(torch: Any, f: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """f in float64, in float32 where float64 does not fit; casts inside f to half types are kept out."""
    try:
        wide = [x.double() if x.is_floating_point() else x for x in inputs]
        half = torch.Tensor.half, torch.Tensor.float
        torch.Tensor.half = torch.Tensor.float = lambda x: x
        try:
            out = f(*wide)
        finally:
            torch.Tensor.half, torch.Tensor.float = half
    except torch.cuda.OutOfMemoryError:
        out = f(*[x.float() if x.is_floating_point() else x for x in inputs])
    return out if isinstance(out, tuple) else (out,)


def half_reference(f: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """torch's own result in half precision as float64: for functions and models whose casts and weights cannot be widened."""
    out = f(*inputs)
    return tuple(x.double() for x in (out if isinstance(out, tuple) else (out,)))


if __name__ == "__main__":
    main()
