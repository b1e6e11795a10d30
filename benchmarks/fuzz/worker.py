"""Runs cases of one generator, one at a time, as the harness asks for them: a line of JSON in, a line of JSON out.

    {"seed": 7, "path": []}  ->  {"kind": "right", "detail": "", "seconds": 0.4}

`path` leads to a smaller case: [2, 0] is the first of what `smaller` gives for the third of what it gives for the seed's case. Where
there is none, `kind` is "none". What the compiler prints goes to stderr. SIGUSR1 prints the stacks of all threads: where it hangs.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import time
import traceback
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEMORY = 12 << 30  # bytes of address space a worker may have: a case that wants more is a traceback, not the end of the machine


def case_of(generator: Any, seed: int, path: list[int]) -> Any:
    """The case at the end of `path`, or None."""
    case = generator.draw(seed)
    for i in path:
        case = next(islice(generator.smaller(case), i, None), None)
        if case is None:
            return None
    return case


def answer(generator: Any, seed: int, path: list[int], show: bool) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        case = case_of(generator, seed, path)
        if case is None:
            return {"kind": "none", "detail": "", "seconds": 0.0}
        if show:
            return {"kind": "text", "detail": case.text(), "seconds": 0.0}
        verdict = generator.check(case)
        kind, detail = verdict.kind, verdict.detail
    except Exception as e:
        kind, detail = "traceback", f"{type(e).__name__}: {e}\n{traceback.format_exc(limit=-12)}"
    return {"kind": kind, "detail": detail[:8000], "seconds": time.perf_counter() - start}


def main() -> None:
    sys.path.insert(0, str(ROOT))
    name, target = sys.argv[1:3]
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    generator = import_module(f"benchmarks.fuzz.{name}")
    if not target.startswith("cuda") and not getattr(generator, "TERABYTES", False):  # which a device's driver and sanitizers reserve
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if target:
        vars(generator)["TARGET"] = target
    if hasattr(generator, "prepare"):
        generator.prepare()
    out.write('{"kind": "ready"}\n')
    for line in sys.stdin:
        asked = json.loads(line)
        out.write(json.dumps(answer(generator, asked["seed"], asked["path"], asked.get("show", False))) + "\n")


if __name__ == "__main__":
    main()
