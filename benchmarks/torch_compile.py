"""torch.compile(backend="autocomp") on common cases and architectures: right, in part with torch, fell back, wrong, error.

    python -m benchmarks.torch_compile                        # a line a case that is not right, then the table
    python -m benchmarks.torch_compile --only "view *" --verbose
    python -m benchmarks.torch_compile --architectures --library torchvision --limit 10
    python -m benchmarks.torch_compile --calls                # microseconds of Python a call
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import autocomp
from autocomp.torch_compile import autocomp as backend
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


def architectures(library: str, limit: int) -> Iterator[tuple[str, str, str]]:
    """(name, verdict, detail) of those of benchmarks.models."""
    return iter(())


def calls() -> None:
    """Microseconds a call of small graphs through dynamo: eager's back end against ours, torch's kernels against ours in them."""


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="*", help="names, as a pattern")
    p.add_argument("--shard", default="1/1", help="a part of the cases, such as 2/4")
    p.add_argument("--verbose", action="store_true", help="a line for each that is right, too")
    p.add_argument("--calls", action="store_true", help="what a call costs")
    p.add_argument("--architectures", action="store_true")
    p.add_argument("--library", default="torch")
    p.add_argument("--limit", type=int, default=1000)
    a = p.parse_args()
    warnings.simplefilter("ignore")
    if a.calls:
        calls()
        return
    k, n = map(int, a.shard.split("/"))
    names = [x for x in CASES if fnmatch(x, a.only)][k - 1 :: n]
    found = ((x, *run(x)) for x in names)
    begun, count, reasons = time.process_time(), Counter[str](), Counter[str]()
    for name, what, detail in architectures(a.library, a.limit) if a.architectures else found:
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
