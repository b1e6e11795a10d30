"""What is left of a compilation when its deadline comes: seconds of each stage, and what each left undone.

A sum of 15 terms under a user's associativity and commutativity, a random graph of 400 operations, BERT of 12 layers (narrow), a KL
divergence; each for the CPU, the C compiler included, and what it then needs to compile what it left. A check against the float64
reference follows. Every row is a process of its own.

    python -m benchmarks.deadlines [--seconds 0.1 1 5 0] [--only kl] [--target cuda:h200] [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import autocomp
from autocomp.options import Options
from autocomp.trace import Trace
from benchmarks.fuzz import explosions

STAGES = ("rules", "import", "saturate", "cover", "schedule", "build")


def ac(folder: Path) -> tuple[str, list[str]]:
    (folder / "ac.yaml").write_text("\n".join(explosions.ac("add")) + "\n")
    w = explosions.Writer(explosions.Random(0))
    total = w.input()
    for _ in range(14):
        total = w.op("add", total, w.input())
    return "\n".join(w.done(total)) + "\n", [str(folder / "ac.yaml")]


def kl(folder: Path) -> tuple[str, list[str]]:
    w = explosions.Writer(explosions.Random(0))
    p, q = explosions.softmax(w, w.input()), explosions.softmax(w, w.input())
    terms = w.op("mul", p, w.op("sub", w.op("log", p), w.op("log", q)))
    return "\n".join(w.done(w.op("reduce_sum", terms, axes=[1], keepdims="False"))) + "\n", []


def graph(folder: Path) -> tuple[str, list[str]]:
    number = list(explosions.FAMILIES).index("dag")
    drawn = (explosions.draw(s) for s in range(number, 10_000, len(explosions.FAMILIES)))
    return next(c.graph() for c in drawn if len(c.lines) > 450), []


def bert(folder: Path) -> tuple[str, list[str]]:
    from examples.bert_onnx import write_bert

    return str(write_bert(folder / "bert.onnx", layers=12, hidden=96, inner=384, vocab=1000)), []


MODELS = {"sum of 15, AC rules": ac, "random graph": graph, "BERT, 12 layers": bert, "KL divergence": kl}


def measured(name: str, seconds: float, target: str) -> dict[str, Any]:
    """One compilation without the caches of programs: its stages, what the deadline left out, whether the result is right."""
    from autocomp.egraph import choose, cover, saturate  # noqa: F401  # their imports are no part of the stages

    with tempfile.TemporaryDirectory() as folder:
        model, rules = MODELS[name](Path(folder))
        trace, options = Trace(), Options(deadline=seconds, cache=False, rules=tuple(rules))
        begun = time.perf_counter()
        program = autocomp.optimize(model, target=target, options=options, trace=trace)
        total = time.perf_counter() - begun
        begun = time.perf_counter()
        if program.runnable:
            program.prepare()
        late = time.perf_counter() - begun
        ratio = program.verify().ratio if program.runnable else None
    spent = {s: sum(e.seconds for e in trace.of("stage") if e.name == s) for s in STAGES}
    cut = {e.name: e.data["undone"] for e in trace.of("budget") if "undone" in e.data}
    return {"total": total, "late": late, "stages": spent, "kernels": len(program.calls.calls), "cut": cut, "ratio": ratio}


def child(name: str, seconds: float, target: str) -> dict[str, Any]:
    """`measured` in a process of its own, with caches of its own: no build of another row's helps it."""
    with tempfile.TemporaryDirectory() as cache:
        code = f"import json; from benchmarks.deadlines import measured; print(json.dumps(measured({name!r}, {seconds}, {target!r})))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=600,
                              env={**os.environ, "AUTOCOMP_CACHE": cache})  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.1, 1.0, 5.0, 0.0])
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--markdown", action="store_true")
    args = parser.parse_args()
    if args.markdown:
        heads = ("model", "deadline", "seconds", "compiled later", *STAGES, "kernels", "left out in", "error / tolerance")
        print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for name in MODELS:
        for seconds in args.seconds if args.only.lower() in name.lower() else ():
            r = child(name, seconds, args.target)
            stages, ratio = [f"{r['stages'][s]:.2f}" for s in STAGES], "-" if r["ratio"] is None else f"{r['ratio']:.2f}"
            cells = [name, f"{seconds:g}" if seconds else "none", f"{r['total']:.2f}", f"{r['late']:.2f}", *stages, str(r["kernels"]),
                     ", ".join(r["cut"]) or "nothing", ratio]  # fmt: skip
            print(f"| {' | '.join(cells)} |" if args.markdown else "  ".join(f"{c:>8}" for c in cells), flush=True)
            if not args.markdown:
                for stage, undone in r["cut"].items():
                    print(f"{'':20} {stage}: {undone}")


if __name__ == "__main__":
    main()
