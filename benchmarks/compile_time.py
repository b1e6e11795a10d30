"""Time per stage and peak memory of compiling up to the cover, for BERT and ResNet-50 and growing depth.

BERT has 12 heads but width 96, so that the memory shown is the compiler's and not that of weights.

    python benchmarks/compile_time.py [--layers 12 24 48] [--no-resnet] [--chip h200]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autocomp import frontends
from autocomp.cost.chip import load_chip
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.ir.decompose import decompose
from autocomp.options import Options
from autocomp.rewrite.load import load_rules
from autocomp.trace import Trace
from examples import models


def measure(name: str, model: Callable[[], Any], chip: str) -> None:
    """One line: seconds of each stage, kernels, distinct kernels, peak resident memory of the process so far."""
    options, trace = Options(), Trace()
    source = model()
    at = [time.perf_counter()]
    graph = decompose(frontends.load(source))
    at.append(time.perf_counter())
    rules = load_rules()
    frozen = saturate(graph, rules, options, trace)
    at.append(time.perf_counter())
    k = cover(frozen, rules, load_chip(chip), options, trace)
    at.append(time.perf_counter())
    load, grow, choose = (b - a for a, b in pairwise(at))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    distinct = len({c.kernel.signature for c in k.calls})
    print(f"{name:14} ops {len(graph.nodes()):5}  import {load:6.2f} s  saturate {grow:6.2f} s  cover {choose:6.2f} s  "
          f"kernels {len(k.calls):4} ({distinct} distinct)  peak {peak:5.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="*", default=[12, 24, 48, 96])
    parser.add_argument("--no-resnet", action="store_true")
    parser.add_argument("--chip", default="h200")
    args = parser.parse_args()
    if not args.no_resnet:
        measure("ResNet-50", models.resnet50, args.chip)
    for n in args.layers:
        measure(f"BERT {n} layers", partial(models.bert, layers=n, hidden=96, heads=12, inner=384), args.chip)


if __name__ == "__main__":
    main()
