"""Seconds that single kernels take to compile: from the graph to its text, and NVRTC's, for every kept kernel of the tests.

    python -m benchmarks.kernel_compile_time [--chip a100] [--only gemm,conv]

CPU seconds of one process, nothing from a cache; NVRTC's start is measured apart. Goal: median below 0.5 s, none above 2 s.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from time import process_time

from autocomp.targets import load_target
from autocomp.targets.cuda.nvrtc import compiled

import autocomp
from tests.helpers.device_graphs import GOLDEN, GRAPHS

GOAL = (0.5, 2.0)  # seconds: median, most


def main() -> int:
    """Print the table; 0 where both goals hold."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--chip", default="a100", help="a100 or h200")
    arguments.add_argument("--only", default="", help="names of graphs, with commas")
    chosen = arguments.parse_args()
    compiler = load_target(f"cuda:{chosen.chip}").toolchain
    if why := compiler.missing():
        print(why)
        return 1
    start = process_time()
    compiled(compiler.arch, "empty", '#include "autocomp_cuda.cuh"\n')
    print(f"NVRTC's start and an empty kernel: {process_time() - start:.2f} s")
    print(f"{'graph':22s} {'kernels':>7s} {'emit s':>7s} {'NVRTC s':>8s} {'sum s':>7s}   (a kernel)")
    totals = []
    for name in chosen.only.split(",") if chosen.only else GOLDEN["a100"]:
        start = process_time()
        program = autocomp.optimize(GRAPHS[name], target=f"cuda:{chosen.chip}", cache=False)
        emit = (process_time() - start) / len(program.kernels)
        start = process_time()
        for file, text in program.sources.items():
            assert isinstance(compiled(compiler.arch, Path(file).stem, text), bytes)
        built = (process_time() - start) / len(program.kernels)
        totals.append(emit + built)
        print(f"{name:22s} {len(program.kernels):7d} {emit:7.2f} {built:8.2f} {totals[-1]:7.2f}")
    print(f"median {median(totals):.2f} s (goal {GOAL[0]}), most {max(totals):.2f} s (goal {GOAL[1]})")
    return int(median(totals) > GOAL[0] or max(totals) > GOAL[1])


if __name__ == "__main__":
    raise SystemExit(main())
