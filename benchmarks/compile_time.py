"""Compile cost without the C compiler: seconds and peak memory from an ONNX file to its extracted program (kernels and schedules).

Each row is a process of its own that reads a file, so its peak is the compiler's and the weights', and no other row's. BERT-base
and ResNet-50 have their real weights' sizes; the rows of growing depth have narrow ones, so that what grows is the compiler's.
`cpu s` is the time of the process on a core and does not depend on what else the machine does; `wall s` does.

    python benchmarks/compile_time.py [--target cuda] [--layers 12 24 48 96] [--only NAME..] [--json]

Goals: BERT-base and ResNet-50 under 2 s and 500 MB; seconds and megabytes near linear to 8 times the layers; about a thousand
schedules of a 4096 cubed matmul in under 0.1 s; a second run of the same model from the program cache under 1 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
STAGES = ("import", "rules", "saturate", "cover", "schedule")


def peak_mb() -> float:
    """Most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(path: str, target: str) -> dict[str, Any]:
    """One compilation up to its schedules, without any cache: seconds of the stages, counts, memory."""
    from autocomp.targets import load_target

    from autocomp import pipeline, rewrite
    from autocomp.egraph import choose, cover, saturate  # noqa: F401  # their imports are no part of the stages
    from autocomp.options import Options
    from autocomp.trace import Trace

    trace, options, machine = Trace(), Options(cache=False), load_target(target)
    before, wall, cpu = peak_mb(), time.perf_counter(), time.process_time()
    graph = pipeline.import_model(path, trace)
    with trace.stage("rules"):
        rules = rewrite.load_rules()
    calls, _ = pipeline.extract(graph, machine, rules, options, trace)
    row = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "ops": len(graph.nodes()), "kernels": len(calls.calls),
           "distinct": len({c.kernel.signature for c in calls.calls}), "start_mb": before, "peak_mb": peak_mb()}  # fmt: skip
    return row | {e.name: e.seconds for e in trace.of("stage")}


def again(path: str, target: str) -> dict[str, Any]:
    """`optimize` with the program cache: what a run of the model costs up to a program that can be called."""
    import autocomp
    from autocomp.trace import Trace

    trace, wall, cpu = Trace(), time.perf_counter(), time.process_time()
    autocomp.optimize(path, target=target, trace=trace)
    found = any(e.name == "cache" and e.data.get("found") == "yes" for e in trace.of("stage"))
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "found": found, "peak_mb": peak_mb()}


def matmul(path: str, target: str) -> dict[str, Any]:
    """Schedules of one signature, a 4096 cubed matmul, and the seconds to make them and to choose one; the best of 5 runs."""
    from autocomp.targets import load_target

    from autocomp import pipeline, rewrite
    from autocomp.egraph.choose import candidates, choose_schedule
    from autocomp.options import Options
    from autocomp.trace import Trace

    machine, options, rules = load_target(target), Options(cache=False), rewrite.load_rules()
    dtype = "f32" if target.startswith("cpu") else "f16"
    text = f"graph m\ninput a: {dtype}[4096, 4096]\ninput b: {dtype}[4096, 4096]\n%0 = matmul(a, b)\noutput y = %0\n"
    kernel = pipeline.extract(pipeline.import_model(text, Trace()), machine, rules, options, Trace())[0].calls[0].kernel
    made, chosen = [], []
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.thread_time()
        found = candidates(kernel, rules, machine.chip, options)
        made.append((time.thread_time() - cpu, time.perf_counter() - wall))
        wall, cpu = time.perf_counter(), time.thread_time()
        choose_schedule(kernel, rules, machine.chip, options, Trace(), machine.admit)
        chosen.append((time.thread_time() - cpu, time.perf_counter() - wall))
    return {"schedules": len(found), "make_cpu": min(made)[0], "make": min(w for _, w in made),
            "choose_cpu": min(chosen)[0], "choose": min(w for _, w in chosen)}  # fmt: skip


def bert(folder: Path, name: str, **size: int) -> str:
    """Path of a BERT of that size as an ONNX file."""
    from examples.bert_onnx import write_bert

    return str(write_bert(folder / f"{name}.onnx", **size))


def resnet(folder: Path) -> str:
    """Path of ResNet-50 with random weights as an ONNX file."""
    from examples.models import resnet50

    (folder / "resnet50.onnx").write_bytes(resnet50())
    return str(folder / "resnet50.onnx")


MODES = {"measure": measure, "again": again, "matmul": matmul}
MAKERS = {"bert": bert, "resnet": resnet}


def child(mode: str, path: str, target: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One row, measured in a process of its own."""
    run = subprocess.run([sys.executable, __file__, "--child", mode, path, target], capture_output=True, text=True, check=False,
                         cwd=ROOT, env={**os.environ, **(env or {})})  # fmt: skip
    if run.returncode:
        raise SystemExit(run.stderr)
    return dict(json.loads(run.stdout.splitlines()[-1]))


def made(folder: Path, maker: str, *args: str, **size: int) -> str:
    """A model file, made in a process of its own (weights take memory)."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path; from benchmarks import compile_time as c; " \
           f"print(c.MAKERS[{maker!r}](Path({str(folder)!r}), *{args!r}, **{size!r}))"  # fmt: skip
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def table(folder: Path, target: str, layers: list[int], only: list[str], say: Any) -> dict[str, Any]:
    """All rows by name."""
    rows: dict[str, Any] = {}
    wants = lambda name: not only or name in only
    if wants("matmul"):
        for t in ("cuda:h200", "cpu"):
            rows[f"matmul 4096 {t}"] = r = child("matmul", "-", t)
            ms = {k: round(v * 1e3) for k, v in r.items() if k != "schedules"}
            say(f"matmul 4096^3 on {t:10} {r['schedules']:5} schedules made in cpu {ms['make_cpu']} ms, wall {ms['make']} ms; "
                f"made, priced and printed: cpu {ms['choose_cpu']} ms, wall {ms['choose']} ms")  # fmt: skip
    for name, make in {"resnet": ("resnet",), "bert": ("bert", "bert_base")}.items():
        if wants(name) or wants("again"):
            path = made(folder, *make)
            if wants(name):
                rows[name] = child("measure", path, target)
                say(line(name, rows[name]))
            if wants("again"):
                env = {"AUTOCOMP_CACHE": str(folder / "cache")}
                child("again", path, "cpu", env)
                rows[f"{name} again"] = r = child("again", path, "cpu", env)
                say(f"{name:12} second run, program cache {'hit' if r['found'] else 'MISS'}: wall {r['wall']:5.2f} s  "
                    f"cpu {r['cpu']:5.2f} s  peak {r['peak_mb']:4.0f} MB")  # fmt: skip
    for n in layers if wants("depth") else ():
        path = made(folder, "bert", f"bert_{n}", layers=n, hidden=96, inner=384, vocab=1000)
        rows[f"depth {n}"] = child("measure", path, target)
        say(line(f"{n} layers", rows[f"depth {n}"]))
    return rows


def line(name: str, r: Mapping[str, Any]) -> str:
    """A model's row of the table."""
    stages = "  ".join(f"{s} {r[s]:5.2f}" for s in STAGES)
    return (f"{name:12} ops {r['ops']:5}  kernels {r['kernels']:4} ({r['distinct']} distinct)  cpu {r['cpu']:5.2f} s  "
            f"wall {r['wall']:5.2f} s ({stages})  peak {r['peak_mb']:4.0f} MB, {r['start_mb']:.0f} of it imports")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--layers", type=int, nargs="*", default=[12, 24, 48, 96])
    parser.add_argument("--only", nargs="*", default=[], choices=["matmul", "resnet", "bert", "again", "depth"])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        mode, path, target = args.child
        print(json.dumps(MODES[mode](path, target)))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows = table(Path(folder), args.target, args.layers, args.only, (lambda _: None) if args.json else lambda x: print(x, flush=True))
    if args.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
