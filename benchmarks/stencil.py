"""A time-iterated stencil untiled against skewed and tiled:  python -m benchmarks.stencil [cells] [steps]

Prints, for each schedule, what the model predicts and the best of five runs; gcc -O3 -march=native -fopenmp.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from time import perf_counter

import numpy as np
from autocomp.targets.cpu.recurrence import PRELUDE, print_recurrence

from autocomp.cost.chip import load_chip
from autocomp.cost.recurrence import choose_recurrence, recurrence_time
from autocomp.ir.schedule import Schedule
from autocomp.rewrite import load_rules
from tests.helpers.nests import stencil

INCLUDE = files("autocomp.targets").joinpath("cpu", "include")
FLAGS = ["-O3", "-march=native", "-fopenmp", "-std=c11", "-shared", "-fPIC"]


def main(cells: int = 2_000_000, steps: int = 100) -> None:
    kernel, chip = stencil(cells, steps), load_chip("cpu")
    best, _ = choose_recurrence(kernel, load_rules(), chip)
    x = np.random.default_rng(0).random(cells, np.float32)
    w = np.array([0.25, 0.5, 0.25], np.float32)
    print(f"3-point stencil, {cells} cells of f32, {steps} steps, {chip.cores} cores")
    rows = {"untiled": Schedule(), "untiled, parallel": Schedule(parallel=("i0",)), "chosen: " + _text(best): best}
    results = []  # type: ignore[var-annotated]
    with tempfile.TemporaryDirectory() as folder:
        for name, schedule in rows.items():
            source = print_recurrence(kernel, schedule)
            path = Path(folder) / f"k{len(results)}.c"
            path.write_text(PRELUDE + source.text)
            library = path.with_suffix(".so")
            subprocess.run(["gcc", *FLAGS, f"-I{INCLUDE}", "-o", library, path, "-lm"], check=True)
            f = getattr(ctypes.CDLL(str(library)), source.name)
            out, scratch = np.empty(cells, np.float32), np.empty(source.scratch_bytes, np.uint8)
            pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, w, out, scratch)]
            times = []
            for _ in range(5):
                t = perf_counter()
                f(*pointers)
                times.append(perf_counter() - t)
            results.append(out)
            cost = recurrence_time(kernel, schedule, chip)
            print(f"  {name:60s} predicted {cost.seconds * 1e3:7.1f} ms ({cost.bound}), measured {min(times) * 1e3:7.1f} ms, "
                  f"differs from untiled by {abs(out - results[0]).max():.1e}")


def _text(s: Schedule) -> str:
    return f"tile {dict(s.tile)} skew {s.skew} parallel {s.parallel}"


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
