"""torch.compile(backend="autocomp") on common cases and architectures: right, in part with torch, fell back, wrong, error.

    python -m benchmarks.torch_compile                        # a line a case that is not right, then the table
    python -m benchmarks.torch_compile --only "view *" --verbose
    python -m benchmarks.torch_compile --architectures --library torchvision --only "resnet*"
    python -m benchmarks.torch_compile --calls                # microseconds of Python a call
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

import autocomp
from autocomp.torch_compile import autocomp as backend
from autocomp.torch_compile import graphs as graphs_module
from benchmarks.architectures.table import all_of_them
from benchmarks.models import compared, outputs, shaken
from benchmarks.onnx_coverage import quick_compiler
from benchmarks.torch_compile_cases import CASES

SIZES = (5, 3, 8, 2)  # of the first dimension of a dynamic case


def difference(got: Any, want: Any, gradients: bool = False) -> str:
    """What differs between two results, "" for nothing that may not. Gradients may have another memory format: torch's own
    decompositions give them others than eager."""
    a, b = tree_leaves(got), tree_leaves(want)
    if len(a) != len(b):
        return f"{len(a)} results, not {len(b)}"
    for g, w in zip(a, b):
        if not isinstance(w, torch.Tensor):
            if g != w and not (isinstance(w, float) and abs(g - w) < 1e-5 * (1 + abs(w))):
                return f"{g!r}, not {w!r}"
            continue
        if (g.dtype, g.shape) != (w.dtype, w.shape):
            return f"{g.dtype} {tuple(g.shape)}, not {w.dtype} {tuple(w.shape)}"
        if g.requires_grad != w.requires_grad:
            return f"requires_grad is {g.requires_grad}"
        steps = lambda x: [s for n, s in zip(x.shape, x.stride()) if n > 1]
        if not gradients and w.numel() and steps(g) != steps(w):
            return f"strides {g.stride()}, not {w.stride()}"
        try:
            short = w.dtype in (torch.float16, torch.bfloat16)
            near = (2e-2, 2e-2) if short else (1e-5, 2e-5)
            torch.testing.assert_close(g, w, equal_nan=True, atol=near[0], rtol=near[1])
        except AssertionError as e:
            return " ".join(str(e).split())[:200]
    return ""


def leaves(xs: Any) -> list[torch.Tensor]:
    return [x for x in tree_leaves(xs) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point]


def with_gradients(f: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """The result, and gradients of a weighted sum of its floats by all floating arguments and parameters."""
    wanted = [x.requires_grad_() for x in leaves(args) if x.is_leaf]
    of = f._orig_mod if hasattr(f, "_orig_mod") else f
    wanted += list(of.parameters()) if isinstance(of, nn.Module) else []
    out = f(*args)
    total = sum((y.double() * torch.linspace(0.5, 1.5, y.numel()).view(y.shape)).sum() for y in leaves(out) if y.requires_grad)
    grads = torch.autograd.grad(total, wanted, allow_unused=True) if isinstance(total, torch.Tensor) else []
    return out, [g if g is not None else "none" for g in grads]


def run(name: str) -> tuple[str, str]:
    """(verdict, detail) of a case."""
    f, make, kind = CASES[name]
    torch._dynamo.reset()
    torch.manual_seed(1)
    if kind.startswith("module"):
        f = f()
    mine = copy.deepcopy(f) if isinstance(f, nn.Module) else f
    args = make()
    before = len(autocomp.report())
    c = torch.compile(mine, backend=backend, dynamic=True if kind == "dynamic" else None)
    said = ""
    try:
        for size in SIZES if kind == "dynamic" else (0, 0):
            if size:
                args = (torch.randn(size, 6),)
            a, b = copy.deepcopy(args), copy.deepcopy(args)
            if "grad" in kind:
                torch.manual_seed(2)
                want: Any = with_gradients(f, a)
                torch.manual_seed(2)
                got: Any = with_gradients(c, b)
            else:
                with torch.no_grad():
                    torch.manual_seed(2)
                    want = f(*a)
                    torch.manual_seed(2)
                    got = c(*b)
            said = said or (difference(got[0], want[0]) or difference(got[1], want[1], True) if "grad" in kind else difference(got, want))
            said = said or difference(b, a)
            if isinstance(f, nn.Module):
                said = said or difference(list(mine.state_dict().values()), list(f.state_dict().values()))  # type: ignore[attr-defined]
    except Exception as e:
        return "error", f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
    return verdict(said, before)


def verdict(said: str, before: int) -> tuple[str, str]:
    graphs = autocomp.report()[before:]
    stayed = dict.fromkeys(f"{s.op}: {s.why}" for g in graphs for s in g.stayed if "is a view" not in s.why)
    notes = [n for g in graphs for n in g.notes]
    if said:
        return "wrong", said
    if any("an error in autocomp" in s for s in stayed):
        return "error", next(s for s in stayed if "an error in autocomp" in s)
    what = "; ".join((*stayed, *notes))
    if not stayed:
        return "right", what
    return ("right in part" if any(g.nodes for g in graphs) else "fell back"), what


def architectures(pattern: str, library: str, grad: bool) -> Iterator[tuple[str, str, str]]:
    """(name, verdict, detail) of those of benchmarks.models, against float64, and with `grad` of their gradients against eager's."""
    os.environ["CC"] = quick_compiler()
    for name, a in all_of_them().items():
        if not fnmatch(name, pattern) or library not in ("", a.library) or importlib.util.find_spec(a.library) is None:
            continue
        torch._dynamo.reset()
        torch.manual_seed(0)
        try:
            built = a.build()
            shaken(torch, built.module.eval())
            want, own = outputs(built, torch.float64), outputs(built, torch.float32)
        except Exception as e:
            yield name, "unbuilt", f"{type(e).__name__}: {e}"
            continue
        before, begun = len(autocomp.report()), time.perf_counter()
        try:
            module = torch.compile(built.module, backend=backend)
            with torch.set_grad_enabled(grad):
                out = [x for x in tree_leaves(module(*built.args, **built.kwargs)) if isinstance(x, torch.Tensor)]
            seconds = time.perf_counter() - begun
            got = [x.detach().double().numpy() if x.is_floating_point() else x.numpy() for x in out]
            row = compared(got, want, own, "right")
            said = row["reason"] if row["outcome"] == "wrong" else gradients(module, built, out) if grad else ""
        except Exception as e:
            yield name, "error", f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
            continue
        graphs = autocomp.report()[before:]
        stayed = sum("is a view" not in s.why for g in graphs for s in g.stayed)
        figures = f"{sum(g.nodes for g in graphs)} ours, {stayed} torch's, {len(graphs)} graphs, {sum(g.kernels for g in graphs)} kernels"
        what, detail = verdict(said, before)
        yield name, what, f"{figures}, {seconds:.1f} s  {detail}"


def gradients(module: Any, built: Any, out: list[Any]) -> str:
    """How the gradients of all parameters differ from eager's, "" where they do not. Where a number that is cut at 0 lies within rounding
    of it, the two sides are both right: other inputs tell."""
    said = _apart(module, built.module, built.args, built.kwargs, out)
    if not said:
        return ""
    other = lambda x: torch.randn_like(x) if x.is_floating_point() else x
    args, kwargs = tree_map_only(torch.Tensor, other, (built.args, dict(built.kwargs)))
    out = [x for x in tree_leaves(module(*args, **kwargs)) if isinstance(x, torch.Tensor)]
    return said if _apart(module, built.module, args, kwargs, out) else ""


def _apart(module: Any, eager: Any, args: Any, kwargs: Any, out: list[Any]) -> str:
    total = lambda ys: sum((y.double() * torch.linspace(0.5, 1.5, y.numel()).view(y.shape)).sum() for y in ys if y.requires_grad)
    ps = [p for p in eager.parameters() if p.requires_grad]
    got = torch.autograd.grad(total(out), ps, allow_unused=True)
    plain = [y for y in tree_leaves(eager(*args, **kwargs)) if isinstance(y, torch.Tensor)]
    for g, w, (name, _) in zip(got, torch.autograd.grad(total(plain), ps, allow_unused=True), eager.named_parameters()):
        if (g is None) != (w is None):
            return f"{name}: {'no' if g is None else 'a'} gradient"
        if g is not None and (g - w).abs().max() > 1e-3 * w.abs().max() + 1e-5:
            return f"the gradient of {name} is off by {(g - w).abs().max():.2g} of {w.abs().max():.2g}"
    return ""


SMALL: dict[str, tuple[Callable[[], Any], Callable[[], torch.Tensor]]] = {
    "x + 1": (lambda: lambda x: x + 1, lambda: torch.randn(8)),
    "two layers": (lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)), lambda: torch.randn(2, 16)),
    "twenty layers": (lambda: nn.Sequential(*(nn.Linear(8, 8) for _ in range(20))), lambda: torch.randn(2, 8)),
    "in two parts": (lambda: lambda x: torch.linalg.eigvalsh(x + 1) * 2, lambda: torch.randn(2, 2)),
}


def calls() -> None:
    """Microseconds of the processor for a call of small graphs, on one thread: uncompiled, through dynamo with torch's operators, with
    ours, and our Python alone (a call of each program, its kernels left out)."""
    torch.set_num_threads(1)
    print(f"{'':16}{'eager':>8}{'backend eager':>15}{'aot_eager':>11}{'autocomp':>10}{'our Python':>12}")
    made: list[tuple[Any, Any]] = []
    real = graphs_module.callable_of

    def noted(source: Any, program: Any) -> Any:
        made.append((real(source, program), source))
        return made[-1][0]

    graphs_module.callable_of = noted  # type: ignore[assignment]
    for name, (build, example) in SMALL.items():
        torch.manual_seed(0)
        f, x = build(), example()
        row = []
        with torch.no_grad():
            for how in (None, "eager", "aot_eager", backend):
                torch._dynamo.reset()
                made.clear()
                g = torch.compile(f, backend=how) if how else f
                row.append(taken(g, x))
            ours = 0.0
            for call, source in made:
                args = [torch.empty(tuple(n.meta["val"].shape), device=n.meta["val"].device) for n in source.inputs]
                call.run._executor.run_frame = call.run._executor.launch_all = lambda *_: None
                ours += taken(call, *args)
        print(f"{name:16}{row[0]:8.1f}{row[1]:15.1f}{row[2]:11.1f}{row[3]:10.1f}{ours:12.1f}")
    graphs_module.callable_of = real


def taken(f: Callable[..., Any], *args: Any) -> float:
    """Microseconds of a call: the least of some rounds."""
    rounds = []
    for _ in range(8):
        begun = time.process_time()
        for _ in range(1000):
            f(*args)
        rounds.append((time.process_time() - begun) * 1e3)
    return min(rounds)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="*", help="names, as a pattern")
    p.add_argument("--shard", default="1/1", help="a part of the cases, such as 2/4")
    p.add_argument("--verbose", action="store_true", help="a line for each that is right, too")
    p.add_argument("--calls", action="store_true", help="what a call costs")
    p.add_argument("--architectures", action="store_true")
    p.add_argument("--library", default="", help="of the architectures: torch, torchvision, timm, transformers or diffusers")
    p.add_argument("--grad", action="store_true", help="gradients of the architectures, too")
    p.add_argument("--device", default="cpu", help="where tensors lie that say nothing else")
    a = p.parse_args()
    if a.device != "cpu":
        torch.set_default_device(a.device)
    warnings.simplefilter("ignore")
    if a.calls:
        calls()
        return
    k, n = map(int, a.shard.split("/"))
    names = [x for x in CASES if fnmatch(x, a.only)][k - 1 :: n]
    found = ((x, *run(x)) for x in names)
    begun, count, reasons = time.process_time(), Counter[str](), Counter[str]()
    for name, what, detail in architectures(a.only, a.library, a.grad) if a.architectures else found:
        count[what] += 1
        if what in ("right in part", "fell back"):
            reasons.update({x.split(":")[0] for x in detail.split("; ")})
        if what != "right" or a.verbose:
            print(f"{name:32} {what:14} {detail[:220]}", flush=True)
    print(f"\n{sum(count.values())} cases in {time.process_time() - begun:.0f} s of the processor: "
          + ", ".join(f"{v} {k}" for k, v in sorted(count.items())))  # fmt: skip
    if reasons:
        print("operators that stayed: " + ", ".join(f"{op} {k}" for op, k in reasons.most_common(40)))
    sys.exit(1 if count["wrong"] or count["error"] else 0)


if __name__ == "__main__":
    main()
