"""How much of the onnx package's own backend test suite we do: a table by operator.

    python -m benchmarks.onnx_coverage [--kind node] [--only Conv] [--shard 1/4] [--jobs 2] [--json out.json] [--reasons]

Columns: generated (passes, all of it in generated code), opaque (passes, a data-dependent operator ran through its NumPy
reference), refused (an AutocompError that says why), wrong, crashed. Each case runs in a worker process with a time limit, so
that its crash counts as a crash and nothing else. Exit 1 if anything is wrong or crashed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from autocomp.files import write_atomic
from benchmarks import apart
from benchmarks.apart import Judge

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
OUTCOMES = ("generated", "opaque", "refused", "wrong", "crashed")


def cases(kinds: tuple[str, ...], only: str) -> list[Any]:
    """The suite's cases whose name or first operator contains `only`, models loaded."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    out = []
    for kind in kinds:
        for case in load_model_tests(kind=kind):
            if case.model is None:
                case.model = onnx.load(str(Path(case.model_dir) / "model.onnx"))  # type: ignore[arg-type]
            if only.lower() in case.name.lower() or only.lower() in operator_of(case).lower():
                out.append(case)
    return out


def operator_of(case: Any) -> str:
    """The operator a case is about: its single node's, else the one its name starts with."""
    nodes = case.model.graph.node
    if len(nodes) == 1:
        return str(nodes[0].op_type)
    return str(case.name.removeprefix("test_").split("_")[0]) + " (graph)"


def data_sets(case: Any) -> list[tuple[list[Any], list[Any]]]:
    """(inputs, expected outputs) of a case, from memory or from its folder."""
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.runner import _normalize_tensor

    if case.data_sets is not None:
        return [([_normalize_tensor(x) for x in i], [_normalize_tensor(x) for x in o]) for i, o in case.data_sets]
    out = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        sides = []
        for side, declared in (("input", case.model.graph.input), ("output", case.model.graph.output)):
            arrays = []
            for k in range(len(list(folder.glob(f"{side}_*.pb")))):
                t = onnx.TensorProto()
                if declared[k].type.WhichOneof("value") == "tensor_type":
                    t.ParseFromString((folder / f"{side}_{k}.pb").read_bytes())
                    arrays.append(numpy_helper.to_array(t))
                else:
                    arrays.append([])  # type: ignore[arg-type]
            sides.append(arrays)
        out.append((sides[0], sides[1]))
    return out


def check_outputs(expected: list[Any], got: list[Any], rtol: float, atol: float) -> None:
    """The suite's own comparison. Raises AssertionError. Sequences are taken apart here: the suite's runner goes into their
    elements as if those were sequences too, and fails on one that is a scalar."""
    from onnx.backend.test.runner import Runner

    assert len(expected) == len(got), f"{len(got)} values, expected {len(expected)}"
    for want, value in zip(expected, got):
        assert isinstance(want, list) == isinstance(value, list), f"a {type(value).__name__}, expected a {type(want).__name__}"
        if isinstance(want, list):
            check_outputs(want, value, rtol, atol)
        else:
            Runner.assert_similar_outputs([want], [value], rtol, atol)


def where_defined(case: Any, inputs: list[Any], values: list[Any]) -> list[Any]:
    """`values` without the elements that ONNX leaves open: floats cast to an integer of 2 or 4 bits that does not hold them. The suite's
    numbers for these change with the release of ml_dtypes that makes them."""
    from onnx import TensorProto

    kind = case.model.graph.output[0].type.tensor_type.elem_type
    ends = {TensorProto.INT2: (-2, 1), TensorProto.UINT2: (0, 3), TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15)}.get(kind)
    if ends is None or "cast" not in case.name or inputs[0].dtype.kind in "iu":
        return values
    x = np.trunc(inputs[0].astype(np.float64))
    return [y[(ends[0] <= x) & (x <= ends[1])] for y in values]


def judge(case: Any) -> tuple[str, str]:
    """(outcome, reason) of one case."""
    from autocomp.errors import AutocompError
    from autocomp.onnx_backend import AutocompBackend

    try:
        rep = AutocompBackend.prepare(case.model)
        for inputs, expected in data_sets(case):
            want, got = (where_defined(case, inputs, list(v)) for v in (expected, rep.run(inputs)))
            check_outputs(want, got, case.rtol, case.atol)
        return ("opaque", "an opaque operator ran through its reference") if rep.opaque else ("generated", "")
    except AutocompError as e:
        return "refused", str(e)
    except AssertionError as e:
        return "wrong", " ".join(str(e).split())[:300]
    except Exception as e:
        return "crashed", f"{type(e).__name__}: {e}"[:300]


def quick_compiler() -> str:
    """A compiler for $CC that optimises little, since most of a case's time is the C compiler's; "" where none is found."""
    wrapper = Path(tempfile.gettempdir()) / f"autocomp-coverage-{os.getuid()}" / "cc-O1"
    found = (shutil.which(n) for n in (os.environ.get("CC"), "cc", "gcc", "clang") if n)
    real = next((p for p in found if p and p != str(wrapper)), None)  # not itself, where $CC is what this gave before
    if real is None:
        return ""
    wrapper.parent.mkdir(mode=0o700, exist_ok=True)
    fused = "-fexpensive-optimizations"  # gcc makes a product and a sum one instruction, as angles near a pole need; -O1 alone does not
    text = f'#!/bin/sh\nexec {shlex.quote(real)} "$@" -O1 {fused}\n'.encode()
    if not wrapper.is_file() or wrapper.read_bytes() != text:  # others may be about to start it
        write_atomic(wrapper, text, mode=0o700)
    return str(wrapper)


def judging(kinds: tuple[str, ...], only: str) -> Judge:
    """`judge` for indices among the cases of `kinds` and `only`."""
    todo = cases(kinds, only)
    return lambda index: judge(todo[index])


def run(todo: list[tuple[int, Any]], kinds: tuple[str, ...], only: str, limit: float, jobs: int) -> list[dict[str, str]]:
    """Outcomes of `todo` = [(index among the cases of `kinds` and `only`, case)], in order, by `jobs` processes at a time."""
    names = {index: case.name for index, case in todo}
    answers = apart.run([index for index, _ in todo], judging, (kinds, only), limit, jobs, names.__getitem__)
    rows = []
    for (_, case), (alive, answer) in zip(todo, answers, strict=True):
        outcome, reason = answer if alive else ("crashed", answer)
        rows.append({"name": case.name, "kind": case.kind, "operator": operator_of(case), "outcome": outcome, "reason": reason})
    return rows


def table(rows: list[dict[str, str]]) -> str:
    """By operator: how many cases had which outcome; totals and percentages below."""
    by: dict[str, Counter[str]] = defaultdict(Counter)
    for r in rows:
        by[r["operator"]][r["outcome"]] += 1
    lines = [f"{'operator':34}" + "".join(f"{o:>10}" for o in OUTCOMES)]
    lines += [f"{op[:33]:34}" + "".join(f"{by[op][o] or '':>10}" for o in OUTCOMES) for op in sorted(by)]
    total = Counter(r["outcome"] for r in rows)
    lines.append(f"{'total ' + str(len(rows)):34}" + "".join(f"{total[o]:>10}" for o in OUTCOMES))
    lines.append(f"{'share':34}" + "".join(f"{total[o] / max(1, len(rows)):>10.1%}" for o in OUTCOMES))
    return "\n".join(lines)


def shard(todo: list[Any], text: str) -> list[tuple[int, Any]]:
    """Every n-th case from the k-th on, with its index; `text` is "k/n", k from 1."""
    k, _, n = text.partition("/")
    if not (k.isdigit() and n.isdigit() and 1 <= int(k) <= int(n)):
        raise SystemExit(f"--shard {text}: give k/n with 1 <= k <= n, such as 1/4")
    return list(enumerate(todo))[int(k) - 1 :: int(n)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="which parts of the suite (default: all)")
    parser.add_argument("--only", default="", help="cases whose name or operator contains this")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="every N-th case from the K-th on")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side (default: all cores)")
    parser.add_argument("--again", type=Path, help="only cases that were not generated in this earlier --json file")
    parser.add_argument("--json", type=Path, help="also write every case's outcome here")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one case")
    parser.add_argument("--reasons", action="store_true", help="print why cases were refused, wrong or crashed")
    parser.add_argument("--full", action="store_true", help="compile at the target's own optimisation level (default: -O1)")
    args = parser.parse_args()
    if not args.full:
        os.environ["CC"] = quick_compiler()
    warnings.filterwarnings("ignore")
    kinds = tuple(args.kind or KINDS)
    todo = shard(cases(kinds, args.only), args.shard)
    if args.again:
        done = {r["name"] for r in json.loads(args.again.read_text()) if r["outcome"] == "generated"}
        todo = [(k, c) for k, c in todo if c.name not in done]
    rows = run(todo, kinds, args.only, args.limit, args.jobs)
    print(table(rows))
    for r in rows:
        if r["outcome"] in ("wrong", "crashed") or (args.reasons and r["outcome"] == "refused"):
            print(f"{r['outcome']:8} {r['name']}: {' '.join(r['reason'].split())}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(r["outcome"] in ("wrong", "crashed") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
