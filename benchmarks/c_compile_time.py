"""Seconds of a processor that the C compiler takes for the kernels of a model on the CPU target, its header and the linker's part included.

    python -m benchmarks.c_compile_time [--only bert,mlp] [--plain]

A row a model; CPU seconds of the compiler's processes (what else the machine does matters little), the least of three builds, in a cache
of its own where the precompiled header is made before. `--plain`: without the precompiled header. Goal: 0.1 s a kernel at the median.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

import autocomp
from examples.models import bert, llama_block, resnet50
from tests.helpers.device_graphs import GOLDEN, GRAPHS

GOAL = 0.1  # seconds a kernel, median of the models
MODELS = {"resnet50": resnet50, "bert": bert, "llama_block": llama_block}


def spent() -> float:
    """CPU seconds of all processes that this one started and waited for."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(sources: Mapping[str, str], toolchain: Any, times: int = 3) -> float:
    """The least CPU seconds of some builds."""
    found = []
    for _ in range(times):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for file, text in sources.items():
                (folder / file).write_text(text)
            start = spent()
            toolchain.compile(folder, [n for n in sorted(sources) if n.endswith(".c")], folder / "kernels.so")
            found.append(spent() - start)
    return min(found)


def main() -> int:
    """Print the table; 0 where the goal holds."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="", help="names of models and graphs, with commas")
    arguments.add_argument("--plain", action="store_true")
    chosen = arguments.parse_args()
    models: dict[str, Any] = {**MODELS, **{n: GRAPHS[n] for n in GOLDEN["a100"]}}
    print(f"{'model':22s} {'kernels':>7s} {'files':>6s} {'KB':>6s} {'CC s':>7s} {'a kernel':>9s}")
    each = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["AUTOCOMP_CACHE"] = cache
        for name, model in models.items():
            if chosen.only and name not in chosen.only.split(","):
                continue
            try:
                program = autocomp.optimize(model() if name in MODELS else model, target="cpu", cache=False)
            except autocomp.AutocompError as e:
                print(f"{name:22s} {str(e).splitlines()[0][:100]}")
                continue
            tool = program.target.toolchain
            took = seconds(program.sources, replace(tool, precompiled=not chosen.plain))
            kernels = len(program.printed)
            if not kernels:
                continue
            each.append(took / kernels)
            size = sum(map(len, program.sources.values())) / 1024
            print(f"{name:22s} {kernels:7d} {len(program.sources):6d} {size:6.0f} {took:7.2f} {each[-1]:9.3f}", flush=True)
    print(f"median {median(each):.3f} s a kernel (goal {GOAL}), most {max(each):.3f}")
    return int(median(each) > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
