"""Programs of a few kernels on this machine's GPU beside torch: what a call costs the host, and what results of one tensor cost together.

    python -m benchmarks.calls             both tables
    python -m benchmarks.calls --host      microseconds of the host a call from Python, nothing waited for
    python -m benchmarks.calls --siblings  microseconds of the device, as CUDA graphs: ours, without `fusion/siblings`, torch.compile

The median of 30 replays of one call, or the mean of 300 calls from Python. Inputs are larger than the caches, but for the small host row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import autocomp

RULE = "fusion/siblings"
ROWS: dict[str, Callable[..., Any]] = {
    "sin(x), exp(x)": lambda x, y, w: (x.sin(), x.exp()),
    "x * y, x + y": lambda x, y, w: (x * y, x + y),
    "sum and max of rows": lambda x, y, w: (x.sum(1), x.amax(1)),
    "sum and max of columns": lambda x, y, w: (x.sum(0), x.amax(0)),
    "x * w, relu(x)": lambda x, y, w: (x * w, x.relu()),
    "mean and variance of rows": lambda x, y, w: (x.mean(1), x.var(1)),
    "mean and variance of columns": lambda x, y, w: (x.mean(0), x.var(0)),
    "softmax, x / (norm + 1)": lambda x, y, w: (x.softmax(1), x / (x.norm(dim=1, keepdim=True) + 1)),
}


def module(torch: Any, f: Callable[..., Any]) -> Any:
    """The function as a module in evaluation mode."""

    class Apply(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, *xs: Any) -> Any:
            return f(*xs)

    return Apply().eval()


def on_device(torch: Any, call: Callable[[], Any]) -> float:
    """Seconds of a call's work on the device, as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    graph.replay()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(30)]
    for begin, end in marks:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return median(a.elapsed_time(b) for a, b in marks) / 1e3


def of_host(torch: Any, call: Callable[[], Any]) -> float:
    """Seconds of the host a call."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(300):
        call()
    seconds = (time.perf_counter() - begin) / 300
    torch.cuda.synchronize()
    return seconds


def host_table(torch: Any) -> None:
    def f(x: Any) -> Any:
        return x.relu() * 2

    print(f"{'relu(x) * 2':30} {'ours us':>9} {'eager':>9} {'compile':>9}")
    for n in (64, 4096):
        x = torch.randn(n, n, device="cuda")
        program = autocomp.optimize(module(torch, f), example_inputs=(x,), target="cuda", cache=False)
        seconds = [of_host(torch, partial(call, x)) for call in (program, f, torch.compile(f))]
        print(f"f32 {n} x {n:<20} " + " ".join(f"{s * 1e6:9.1f}" for s in seconds))


def siblings_table(torch: Any) -> None:
    print(f"{'f32 4096 x 4096':30} {'ours us':>9} {'without':>9} {'compile':>9}")
    xs = tuple(torch.randn(*shape, device="cuda") for shape in ((4096, 4096), (4096, 4096), (4096,)))
    for name, f in ROWS.items():
        torch._dynamo.reset()
        ours = [autocomp.optimize(module(torch, f), example_inputs=xs, target="cuda", cache=False, without=w) for w in ([], [RULE])]
        seconds = [on_device(torch, partial(call, *xs)) for call in (*ours, torch.compile(f))]
        print(f"{name:30} " + " ".join(f"{s * 1e6:9.1f}" for s in seconds), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", action="store_true", help="the host's table alone")
    parser.add_argument("--siblings", action="store_true", help="the table of results of one tensor alone")
    args = parser.parse_args()
    try:
        import torch
    except ImportError:
        parser.exit(1, "torch is not installed: pip install torch\n")
    if not torch.cuda.is_available():
        parser.exit(1, "there is no CUDA device here\n")
    print(torch.cuda.get_device_name())
    if args.host or not args.siblings:
        host_table(torch)
    if args.siblings or not args.host:
        siblings_table(torch)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
