"""How many of the architectures that people have we do: each built small with random weights, compiled, compared with torch in float64.

    python -m benchmarks.models [--only llama] [--library timm] [--accept-only] [--target cuda:h200] [--jobs 2] [--json out.json]

Outcomes: right, wrong (further off than BOUND and than FACTOR times torch's own float32, which stands for float64 in outputs that torch
does not compute there), refused (an AutocompError that says why),
crashed (another exception, a signal, over the time limit), unbuilt (its library cannot build it, or torch cannot export it). Without a
C compiler (--accept-only) "accepted" stands for right: kernels are chosen and printed; with --meaning the graph as read is compared with
float64 through its NumPy meaning. Each architecture runs in a process of its own. Exit 1 if anything is wrong or crashed.

Needs torchvision, timm, transformers and diffusers: pip install 'autocomp[models]'.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.util
import json
import multiprocessing as mp
import os
import re
import sys
import threading
import traceback
import warnings
from collections import Counter
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.architectures.table import Architecture, Built, all_of_them
from benchmarks.onnx_coverage import quick_compiler

OUTCOMES = ("right", "accepted", "refused", "wrong", "crashed", "unbuilt")
BOUND, FACTOR = 1e-4, 30.0  # of the largest element of an output; of torch's own error in float32


def judge(a: Architecture, target: str, accept_only: bool, meaning: bool) -> dict[str, Any]:
    """One architecture's row: outcome, reason, error, kernels, seconds by stage."""
    import torch

    from autocomp.errors import AutocompError

    row: dict[str, Any] = {"name": a.name, "library": a.library}
    try:
        torch.manual_seed(0)
        built = a.build()
        shaken(torch, built.module.eval())
        own = outputs(built, torch.float32)
        want = reference(built, own)
    except Exception as e:
        return row | {"outcome": "unbuilt", "reason": f"{type(e).__name__}: {_line(e)}"}
    try:
        return row | _compiled(built, want, own, target, accept_only, meaning)
    except AutocompError as e:
        return row | {"outcome": "unbuilt" if "torch cannot export" in str(e) else "refused", "reason": str(e), "what": e.what}
    except Exception as e:
        return row | {"outcome": "crashed", "reason": f"{type(e).__name__}: {_line(e)}", "traceback": traceback.format_exc()}


def _compiled(built: Built, want: list[Any], own: list[Any], target: str, accept_only: bool, meaning: bool) -> dict[str, Any]:
    from autocomp.targets import load_target

    import autocomp
    from autocomp import rewrite
    from autocomp.frontends.torch.exported import export
    from autocomp.ir.reference import evaluate
    from autocomp.pipeline import extract, import_model
    from autocomp.trace import Trace

    row: dict[str, Any] = {}
    start = perf_counter()
    program = export(built.module, built.args, built.kwargs)
    row["export"] = perf_counter() - start
    start, busy = perf_counter(), process_time()
    if not accept_only:
        compiled = autocomp.optimize(program, target, cache=False)
        row |= {"seconds": perf_counter() - start, "cpu": process_time() - busy, "kernels": sum(k.calls for k in compiled.kernels)}
        row |= {"ops": len(compiled.graph.nodes()), "front": sum(e.seconds for e in compiled.trace.of("stage") if e.name != "build")}
        got = [*compiled.run(_feed(compiled.graph, built)).values()]
        return row | compared(got, want, own, "right")
    options, trace = autocomp.Options(cache=False), Trace()
    machine = load_target(target, options)
    graph = import_model(program, trace)
    row |= {"ops": len(graph.nodes())}
    if meaning:
        got = [*evaluate(graph, _feed(graph, built)).values()]
        row |= compared(got, want, own, "accepted")
        if row["outcome"] == "wrong":
            return row
    calls, schedules = extract(graph, machine, rewrite.load_rules(options=options), options, trace)
    for k in {c.kernel.signature: c.kernel for c in calls.calls if not c.kernel.opaque}.values():
        machine.emit(k, schedules[k.signature][0])
    row |= {"seconds": perf_counter() - start, "cpu": process_time() - busy, "front": perf_counter() - start, "kernels": len(calls.calls)}
    opaque = sorted({o for c in calls.calls if c.kernel.opaque for o in c.ops})
    return {"outcome": "accepted", "reason": f"opaque: {', '.join(opaque)}" if opaque else ""} | row


def shaken(torch: Any, module: Any) -> None:
    """Parameters without spread (gains of 1, biases of 0, gates that begin at 0) and statistics of norms get some: they would hide
    errors."""
    with torch.no_grad():
        for p in module.parameters():
            if p.is_floating_point() and p.numel() > 1 and p.min() == p.max():
                p.add_(0.1 * torch.randn_like(p))
        for name, b in module.named_buffers():
            if name.endswith("running_mean"):
                b.add_(0.1 * torch.randn_like(b))
            if name.endswith("running_var"):
                b.mul_(0.5 + torch.rand_like(b))


def outputs(built: Built, dtype: Any) -> list[Any]:
    """What torch computes with parameters and inputs of this type: the tensors of the result, in order, in float64."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map_only

    module = copy.deepcopy(built.module)._apply(lambda x: x.to(dtype) if x.is_floating_point() else x)  # `to` makes complex numbers real
    for config in (part.config for part in module.modules() if hasattr(part, "config")):
        if dtype == torch.float64 and getattr(config, "_experts_implementation", None):
            config._experts_implementation = "eager"  # torch's grouped products have no float64
    args, kwargs = tree_map_only(
        torch.Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x.clone(), (built.args, dict(built.kwargs))
    )
    with torch.no_grad():
        out = module(*args, **kwargs)
    return [x.to(torch.float64).numpy() if x.is_floating_point() else x.numpy() for x in tree_leaves(out) if isinstance(x, torch.Tensor)]


def reference(built: Built, own: list[Any]) -> list[Any]:
    """torch's results in float64; those of float32 (`own`) where there are none, or NaN where float32 has numbers: some modules choose
    their masks' least number, or operators, by the type of their weights."""
    import numpy as np
    import torch

    try:
        wide = outputs(built, torch.float64)
    except Exception:
        return own
    return [o if (np.isnan(w) & np.isfinite(o)).any() else w for w, o in zip(wide, own, strict=True)]


def _feed(graph: Any, built: Built) -> dict[str, Any]:
    """Inputs by name. Those that the program has are the tensors among the arguments, in order."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [x for x in tree_leaves((built.args, dict(built.kwargs))) if isinstance(x, torch.Tensor)]
    return {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, tensors, strict=True)}


def compared(got: list[Any], want: list[Any], own: list[Any], right: str) -> dict[str, Any]:
    """The row's outcome and error: relative to the largest element of each output."""
    import numpy as np

    if len(got) != len(want):
        return {"outcome": "wrong", "reason": f"{len(got)} outputs, torch has {len(want)}"}
    worst = 0.0
    for k, (g, w, o) in enumerate(zip(got, want, own)):
        g = np.asarray(g)
        if g.shape != w.shape:
            return {"outcome": "wrong", "reason": f"output {k} is {list(g.shape)}, torch's {list(w.shape)}"}
        g, w, o = (np.asarray(x, np.float64) for x in (g, w, o))
        odd = ~np.isfinite(w)
        if not np.array_equal(g[odd], w[odd], equal_nan=True) or not np.isfinite(g[~odd]).all():
            return {"outcome": "wrong", "reason": f"output {k} has infinities or NaN elsewhere"}
        scale = np.abs(w[~odd]).max(initial=0.0) or 1.0
        error, natural = (np.abs(x[~odd] - w[~odd]).max(initial=0.0) / scale for x in (g, o))
        worst = max(worst, float(error))
        if error > max(BOUND, FACTOR * natural):
            return {
                "outcome": "wrong",
                "reason": f"output {k} is off by {error:.2g} of its largest element, torch's float32 by {natural:.2g}",
                "error": worst,
            }
    return {"outcome": right, "reason": "", "error": worst}


def _line(e: object) -> str:
    return next((line.strip() for line in str(e).splitlines() if line.strip()), "")[:300]


# ---- processes
def _child(name: str, options: tuple[Any, ...], answer: Any) -> None:
    warnings.filterwarnings("ignore")
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        import logging

        import torch

        logging.disable(logging.CRITICAL)
        torch.set_num_threads(1)
        row = judge(all_of_them()[name], *options)
    answer.send(row)


def run(todo: list[Architecture], options: tuple[Any, ...], limit: float, jobs: int) -> list[dict[str, Any]]:
    """Rows in the order of `todo`."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torchvision", "timm", "transformers", "diffusers", "autocomp.pipeline"])
    waiting, rows, lock = iter(todo), {}, threading.Lock()

    def one(a: Architecture) -> dict[str, Any]:
        if importlib.util.find_spec(a.library) is None:
            return {"name": a.name, "library": a.library, "outcome": "unbuilt", "reason": f"pip install 'autocomp[models]': no {a.library}"}
        here, there = context.Pipe()
        child = context.Process(target=_child, args=(a.name, options, there), daemon=False)
        child.start()
        there.close()
        row = None
        if here.poll(limit):
            with contextlib.suppress(EOFError):
                row = here.recv()
            child.join(20)
        died = child.exitcode
        child.kill()
        child.join()
        return row or {
            "name": a.name,
            "library": a.library,
            "outcome": "crashed",
            "reason": f"over {limit:.0f} s" if died is None else f"its process ended with {died}",
        }

    def serve() -> None:
        while True:
            with lock:
                a = next(waiting, None)
            if a is None:
                return
            row = one(a)
            with lock:
                rows[a.name] = row
                print(text(row), flush=True)

    threads = [threading.Thread(target=serve) for _ in range(min(jobs, len(todo)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [rows[a.name] for a in todo]


def text(r: dict[str, Any]) -> str:
    """A line for a row."""
    number = lambda key, form: format(r[key], form) if r.get(key) is not None else "-"
    return (
        f"{r['name'][:34]:35}{r['outcome']:9}{number('error', '.1e'):>9}{number('kernels', 'd'):>7}{number('export', '.1f'):>7}"
        f"{number('front', '.1f'):>7}{number('seconds', '.1f'):>7}  {' '.join(str(r.get('reason', '')).split())[:200]}"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    """Totals, reasons grouped (without what differs from model to model), seconds."""
    count = Counter(r["outcome"] for r in rows)
    lines = ["", f"{len(rows)} architectures: " + ", ".join(f"{count[o]} {o}" for o in OUTCOMES if count[o])]
    groups: dict[str, list[str]] = {}
    for r in rows:
        if r["outcome"] not in ("right", "accepted"):
            reason = " ".join(str(r.get("what", r.get("reason", ""))).split())
            groups.setdefault(f"{r['outcome']}: {re.sub(r'[0-9]+', 'N', reason)[:110]}", []).append(r["name"])
    lines += [
        f"{len(names):4}  {reason}  ({', '.join(names[:6])}{', ..' if len(names) > 6 else ''})"
        for reason, names in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))
    ]
    for key, what in (("front", "front end to printed kernels"), ("seconds", "all of the compilation"), ("export", "torch.export")):
        taken = [r[key] for r in rows if r.get(key) is not None]
        if taken:
            lines.append(f"{what}: median {median(taken):.1f} s, most {max(taken):.1f} s")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="architectures whose name contains this")
    parser.add_argument("--library", action="append", help="torch, torchvision, timm, transformers or diffusers")
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--accept-only", action="store_true", help="choose and print kernels, compile no C, run nothing")
    parser.add_argument("--meaning", action="store_true", help="with --accept-only: compare the graph's NumPy meaning with torch")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side (default: all cores)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one architecture")
    parser.add_argument("--again", type=Path, help="only those that were neither right nor accepted in this earlier --json file")
    parser.add_argument("--json", type=Path, help="also write every row here")
    parser.add_argument("--full", action="store_true", help="compile C at the target's own optimisation level (default: -O1)")
    parser.add_argument("--list", action="store_true", help="names alone")
    args = parser.parse_args()
    if not args.full:
        os.environ["CC"] = quick_compiler()
    todo = [a for a in all_of_them().values() if not args.library or a.library in args.library]
    todo = [a for a in todo if not args.only or any(o in a.name for o in args.only)]
    if args.again:
        todo = [a for a in todo if a.name not in {r["name"] for r in json.loads(args.again.read_text()) if r["outcome"] in OUTCOMES[:2]}]
    if args.list:
        print("\n".join(f"{a.library:14}{a.name}" for a in todo))
        return 0
    rows = run(todo, (args.target, args.accept_only, args.meaning), args.limit, args.jobs)
    print(summary(rows))
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(r["outcome"] in ("wrong", "crashed") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
