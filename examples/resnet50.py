"""The main job: optimise ResNet-50 for this CPU, run it, and hold the result against float64 and onnxruntime.

The ONNX model ships with the onnx package (its weights are constant fills, so seeded random ones are put in).

    python -m examples.resnet50 [--out out/resnet50] [--repeat 10]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console

import autocomp
from autocomp.report.graphview import write_graph
from autocomp.report.progress import StageProgress
from autocomp.report.tables import kernel_table, seconds_text
from examples.models import resnet50


def onnxruntime_answer(model: bytes, x: dict[str, np.ndarray], repeat: int) -> tuple[np.ndarray, float] | None:
    """(first output, median seconds) of onnxruntime, or None if it is not installed."""
    try:
        import onnxruntime as ort
    except ImportError:
        return None
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    times = []
    for _ in range(repeat + 2):
        t = time.perf_counter()
        y = session.run(None, x)[0]
        times.append(time.perf_counter() - t)
    return y, float(np.median(times[2:]))


def main() -> None:
    """Optimise, run, compare, and say where everything lies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/resnet50"))
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    console = Console(width=max(120, Console().width))
    model = resnet50(seed=args.seed)
    trace = autocomp.Trace()
    with StageProgress(console, trace):
        program = autocomp.optimize(model, target="cpu", trace=trace)
    rng = np.random.default_rng(args.seed)
    feed = {n.attrs["name"]: rng.standard_normal(n.type.shape, dtype=np.float32) for n in program.graph.inputs}  # type: ignore[arg-type]
    console.print("running and timing each kernel ...")
    timing = program.profile(feed, repeat=args.repeat)
    console.print(kernel_table(program, timing))
    y = next(iter(program.run(feed).values()))
    console.print("replaying against the float64 reference ...")
    check = program.verify(feed)
    console.print(f"largest error against float64: {check.worst:.2e} (tolerance {check.tolerance:.2e})")
    other = onnxruntime_answer(model, feed, args.repeat)
    if other is None:
        console.print("onnxruntime is not installed: pip install 'autocomp\\[demo]'")
    else:
        console.print(f"largest difference from onnxruntime: {np.max(np.abs(y - other[0])):.2e}")
        console.print(f"one call: ours {seconds_text(timing.total)}, onnxruntime {seconds_text(other[1])}")
    program.save(args.out)
    write_graph(program, args.out / "graph.html")
    program.report(args.out / "report.html", timing)
    for what, name in (("sources and manifest", ""), ("graph view", "graph.html"), ("report", "report.html")):
        console.print(f"{what}: {args.out / name}")


if __name__ == "__main__":
    main()
