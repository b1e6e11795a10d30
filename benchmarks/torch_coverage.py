"""How much of PyTorch's own table of sample inputs we do: a table by operator and dtype.

    python -m benchmarks.torch_coverage [--ops add,index_put] [--dtype f32] [--most 5] [--shard 1/8] [--jobs 2] [--json out.json]

Samples are those of `torch.testing._internal.common_methods_invocations.op_db`, exported with torch.export and compiled for this CPU.
Columns: generated (right, all of it in generated code), opaque (right, a data-dependent operator ran through its NumPy reference),
refused (an AutocompError that says why), wrong, crashed; beside them, and no part of a share, what torch itself does not export (it is
not traceable, or its result's size depends on data), and how many of the refused ones have, after torch's decompositions, an operator
beyond the core ATen set or a dtype that is none of ours. Two shares are printed: of all samples, and of those within the core set.
Floats are compared with the same operator in float64, with a bound from the dtype, torch's own error in that dtype and the largest
element; integers and bools exactly. Each operator runs in a worker process with a time limit, so that its crash
counts as a crash and nothing else. Exit 1 if anything is wrong or crashed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import types
import unittest
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import apart
from benchmarks.apart import Judge
from benchmarks.onnx_coverage import quick_compiler, shard

OUTCOMES = ("generated", "opaque", "refused", "wrong", "crashed", "torch")
COUNTED = OUTCOMES[:5]
DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "bool": "bool"}
EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ULPS = 64.0  # of the largest element of a result
NATURAL = 8.0  # times torch's own distance from float64
# whose indices are any order of equal elements, unless they are asked to be stable
ORDERS = ("sort", "argsort", "msort", "topk", "kthvalue", "median", "nanmedian", "mode")


def operators(names: list[str]) -> list[Any]:
    """Entries of the table; all, or those whose name is, or begins with, one of `names`."""
    if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:  # the table does without
        sys.modules["expecttest"] = types.ModuleType("expecttest")
        sys.modules["expecttest"].TestCase = unittest.TestCase  # type: ignore[attr-defined]
    from torch.testing._internal.common_methods_invocations import op_db

    return [o for o in op_db if not names or any(o.name == n or full(o) == n or o.name.startswith(f"{n}.") for n in names)]


def full(op: Any) -> str:
    """An entry's name with its variant: var_mean.unbiased."""
    return str(op.name) + (f".{op.variant_test_name}" if op.variant_test_name else "")


def supports(op: Any, dtype: str) -> bool:
    import torch

    return getattr(torch, DTYPES[dtype]) in op.supported_dtypes("cpu")


def spread(n: int, most: int) -> list[int]:
    """At most `most` of n numbers, evenly."""
    return list(range(n)) if n <= most else sorted({round(k * (n - 1) / (most - 1)) if most > 1 else 0 for k in range(most)})


def judging(meaning: bool) -> Judge:
    """`judge_operator` in a process of its own: quiet, one thread of torch, seeds fixed."""
    import logging

    import torch

    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    by_name = {full(o): o for o in operators([])}
    return lambda case: judge_operator(by_name[case[0]], case[1], case[2], meaning)


Judged = tuple[str, str, str]
"""(outcome, reason, what in the decomposed graph is beyond the core ATen set)"""


def judge_operator(op: Any, dtype: str, most: int, meaning: bool = False) -> list[Judged]:
    """Of each of an operator's samples in a dtype, at most `most` of them."""
    import torch

    torch.manual_seed(0)
    try:
        samples = list(op.sample_inputs("cpu", getattr(torch, DTYPES[dtype]), requires_grad=False))
    except Exception as e:  # the table's own limits
        return [("torch", _line(e), "")]
    return [judge(op, samples[k], meaning) for k in spread(len(samples), most)]


def judge(op: Any, sample: Any, meaning: bool = False) -> Judged:
    """One sample; with `meaning` the imported graph is evaluated by NumPy and nothing is compiled."""
    import torch
    from torch.utils import _pytree as pytree

    leaves, spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
    at = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    given = [leaves[k].detach().clone() for k in at]

    class Sample(torch.nn.Module):
        def forward(self, *tensors: Any) -> Any:
            values = list(leaves)
            for k, t in zip(at, tensors, strict=True):
                values[k] = t
            x, args, kwargs = pytree.tree_unflatten(values, spec)
            return op(x, *args, **kwargs)

    module = Sample().eval()
    try:
        want = _tensors(module(*(t.clone() for t in given)))
    except Exception as e:
        return "torch", _line(e), ""
    if not given or not want:
        return "torch", "it takes or gives no tensor", ""
    from autocomp.errors import AutocompError
    from autocomp.frontends.torch.exported import decompose, export

    try:
        program = decompose(export(module, tuple(given)), op.name)
    except AutocompError as e:
        return ("torch" if "cannot export" in e.what else "refused"), _line(e), ""
    outcome, reason = _compared(program, module, given, want, meaning, op.name in ORDERS, "empty" in op.name)
    return outcome, reason, beyond(program)


def beyond(program: Any) -> str:
    """An operator of a decomposed program that is not in the core ATen set, or a dtype that is none of ours; "" where there is none. What
    the front end keeps from decomposition counts as what it would have become."""
    import torch

    from autocomp.frontends.torch.export import DTYPE
    from autocomp.frontends.torch.exported import KEPT

    for n in program.graph.nodes:
        dtype = str(getattr(n.meta.get("val"), "dtype", "")).removeprefix("torch.")
        if dtype and dtype not in DTYPE:
            return dtype
        name = str(n.target).removeprefix("aten.")
        if isinstance(n.target, torch._ops.OpOverload) and torch.Tag.core not in n.target.tags \
                and name not in KEPT and not n.target.is_view and not name.startswith(("sym_", "_assert")):  # fmt: skip
            return str(n.target)
    return ""


def _compared(program: Any, module: Any, given: list[Any], want: list[Any], meaning: bool, orders: bool, unset: bool) -> tuple[str, str]:
    """`orders`: indices are any order of equal elements; `unset`: elements are whatever was in memory."""
    import torch

    import autocomp
    from autocomp.errors import AutocompError
    from autocomp.frontends.torch.export import Reader
    from autocomp.ir.reference import evaluate

    try:
        graph = Reader(program, "sample").graph()
        if meaning:
            with np.errstate(all="ignore"):
                feed = {n.attrs["name"]: _array(t) for n, t in zip(graph.inputs, given, strict=True)}
                apart = {w.output for w in graph.written if not w.returned}
                got = [y for name, y in evaluate(graph, feed, float64=False).items() if name not in apart]
                opaque = False
        else:
            compiled = autocomp.optimize(graph)
            answer = compiled(*(_array(t) for t in given))
            got, opaque = list(answer) if isinstance(answer, tuple) else [answer], any(k.bound == "opaque" for k in compiled.kernels)
    except AutocompError as e:
        return "refused", _line(e)
    except Exception as e:
        return "crashed", f"{type(e).__name__}: {_line(e)}"
    if len(got) != len(want):
        return "wrong", f"{len(got)} results, torch has {len(want)}"
    exact: list[Any] = [None] * len(want)
    if any(w.is_floating_point() for w in want):
        default = torch.get_default_dtype()
        try:
            torch.set_default_dtype(torch.float64)  # what integers and bools become
            wide = [t.double() if t.is_floating_point() else t for t in given]
            exact = [w if w.dtype == torch.float64 else None for w in _tensors(module(*wide))] or exact
        except Exception:  # an operator of one dtype: torch's own answer counts
            exact = [None] * len(want)
        finally:
            torch.set_default_dtype(default)
    for k, (g, w, wider) in enumerate(zip(got, want, exact, strict=True)):
        said = difference(np.asarray(g), w, wider)
        if unset and (np.asarray(g).shape, str(np.asarray(g).dtype)) == (tuple(w.shape), str(_array(w).dtype)):
            continue
        if said and not (orders and w.dtype == torch.int64 and _same_order(_array(given[0]), np.asarray(g), _array(w))):
            return "wrong", f"result {k}: {said}"
    return ("opaque" if opaque else "generated"), ""


def difference(got: np.ndarray, want: Any, exact: Any) -> str:
    """How a result differs from torch's, or ""."""
    own = _array(want)
    if got.shape != own.shape:
        return f"is {list(got.shape)}, torch has {list(own.shape)}"
    if str(got.dtype) != str(own.dtype):
        return f"is {got.dtype}, torch has {own.dtype}"
    if not want.is_floating_point():
        apart = got != own
        return f"{int(apart.sum())} of {own.size} elements differ, {_first(got, own, apart)}" if apart.any() else ""
    g, w = got.astype(np.float64), own.astype(np.float64)
    e = w if exact is None or tuple(exact.shape) != tuple(want.shape) else exact.numpy()
    with np.errstate(all="ignore"):
        natural = np.abs(w - e)
        natural = np.where(np.isfinite(natural), natural, 0.0)
        scale = np.abs(e[np.isfinite(e)]).max(initial=0.0)
        eps = EPS[str(want.dtype).removeprefix("torch.")] if want.dtype.itemsize < 8 else 2.0**-40
        limit = ULPS * eps * np.maximum(np.abs(e), 1e-3 * scale) + NATURAL * natural.max(initial=0.0)
        same = lambda o: (g == o) | (np.isnan(g) & np.isnan(o)) | (np.isfinite(g) & np.isfinite(o) & (np.abs(g - o) <= limit))
        bad = ~(same(e) | same(w))
    return "" if not bad.any() else f"{int(bad.sum())} of {bad.size} elements differ, {_first(g, w, bad)}"


def _same_order(x: np.ndarray, got: np.ndarray, want: np.ndarray) -> bool:
    """Whether two arrays of indices pick equal elements along some axis."""
    if got.ndim == x.ndim - 1:  # of one element along an axis that is gone
        rest = [a for a in range(x.ndim) if x.shape[:a] + x.shape[a + 1 :] == got.shape]
        return any(_same_order(x, np.expand_dims(got, a), np.expand_dims(want, a)) for a in rest)
    if got.shape != want.shape or got.dtype != want.dtype or got.ndim != x.ndim:
        return False
    axes = [a for a in range(x.ndim) if all(k == a or n == m for k, (n, m) in enumerate(zip(x.shape, got.shape, strict=True)))]
    y = x.astype(np.float64) if x.dtype.kind in "Vf" else x
    in_range = lambda i, a: not i.size or (i.min() >= 0 and i.max() < x.shape[a])
    picked = lambda i, a: np.take_along_axis(y, i, a)
    both = [a for a in axes if in_range(want, a) and in_range(got, a)]
    return any(np.array_equal(picked(got, a), picked(want, a), equal_nan=y.dtype.kind == "f") for a in both)


def _first(got: np.ndarray, want: np.ndarray, bad: np.ndarray) -> str:
    at = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return f"at {list(map(int, at))} {got[at]!r} for {want[at]!r}"


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def _array(t: Any) -> np.ndarray:
    """A tensor as an array; bf16 as the dtype of ml_dtypes."""
    import ml_dtypes
    import torch

    t = t.detach().resolve_conj().resolve_neg().contiguous()
    return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if t.dtype == torch.bfloat16 else t.numpy()


def _line(e: object) -> str:
    return next((line.strip() for line in str(e).splitlines() if line.strip()), type(e).__name__)[:240]


# ---- output
def table(rows: list[dict[str, Any]]) -> str:
    """By operator, then by dtype, then all, then those within the core set: how many samples had which outcome; shares leave out what torch
    does not export."""
    by: dict[str, Counter[str]] = {}
    for r in rows:
        by.setdefault(r["op"], Counter())[r["outcome"]] += 1
        by[r["op"]]["beyond"] += bool(r["beyond"] and r["outcome"] == "refused")
    columns = (*OUTCOMES, "beyond")
    lines = [f"{'operator':44}" + "".join(f"{o:>10}" for o in columns)]
    lines += [f"{op[:43]:44}" + "".join(f"{by[op][o] or '':>10}" for o in columns) for op in sorted(by)]
    of = {d: [r for r in rows if r["dtype"] == d] for d in sorted({r["dtype"] for r in rows})}
    for name, those in {**of, "all": rows, "within the core ATen set": [r for r in rows if not r["beyond"]]}.items():
        mine = Counter(r["outcome"] for r in those)
        counted = max(1, sum(mine[o] for o in COUNTED))
        lines.append(f"{name:44}" + "".join(f"{mine[o]:>10}" for o in OUTCOMES))
        lines.append(f"{'':44}" + "".join(f"{mine[o] / counted:>10.1%}" for o in COUNTED))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="", help="operators, by name, with a comma between them (default: all)")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="default: all")
    parser.add_argument("--most", type=int, default=5, help="samples of an operator and dtype")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="every N-th operator and dtype from the K-th on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side (default: all cores)")
    parser.add_argument("--meaning", action="store_true", help="evaluate the imported graph by NumPy, compile nothing")
    parser.add_argument("--again", type=Path, help="only operators that were refused, wrong or crashed in this earlier --json file")
    parser.add_argument("--json", type=Path, help="also write every sample's outcome here")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds for one operator and dtype")
    parser.add_argument("--reasons", action="store_true", help="print why samples were refused")
    args = parser.parse_args()
    os.environ["CC"] = quick_compiler()
    warnings.filterwarnings("ignore")
    ops = operators([n for n in args.ops.split(",") if n])
    todo = [(full(o), d, args.most) for o in ops for d in (args.dtype or DTYPES) if supports(o, d)]
    if args.again:
        bad = {(r["op"], r["dtype"]) for r in json.loads(args.again.read_text()) if r["outcome"] in ("refused", "wrong", "crashed")}
        todo = [t for t in todo if t[:2] in bad]
    todo = [t for _, t in shard(todo, args.shard)]
    answers = apart.run(todo, judging, (args.meaning,), args.limit, args.jobs, lambda t: f"{t[0]} {t[1]}")
    rows = [{"op": op, "dtype": dtype, "outcome": outcome, "reason": reason, "beyond": beyond_core}
            for (op, dtype, _), (alive, answer) in zip(todo, answers, strict=True)
            for outcome, reason, beyond_core in (answer if alive else [("crashed", answer, "")])]  # fmt: skip
    print(table(rows))
    for r in rows:
        if r["outcome"] in ("wrong", "crashed") or (args.reasons and r["outcome"] == "refused"):
            print(f"{r['outcome']:8} {r['op']} {r['dtype']}: {r['reason']}", f"(beyond the core set: {r['beyond']})" if r["beyond"] else "")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(r["outcome"] in ("wrong", "crashed") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
