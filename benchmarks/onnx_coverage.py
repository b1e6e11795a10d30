"""How much of the onnx package's own backend test suite we do: a table by operator.

    python benchmarks/onnx_coverage.py [--kind node] [--only Conv] [--json out.json] [--limit 60]

Each case runs in a worker process with a time limit, so that a crash of it counts as a crash and nothing else.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
OUTCOMES = ("passed", "opaque", "refused", "wrong", "crashed")


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


def judge(case: Any) -> tuple[str, str]:
    """(outcome, reason) of one case."""
    from onnx.backend.test.runner import Runner

    from autocomp.errors import AutocompError
    from autocomp.onnx_backend import AutocompBackend

    try:
        rep = AutocompBackend.prepare(case.model)
        for inputs, expected in data_sets(case):
            got = rep.run(inputs)
            Runner.assert_similar_outputs(expected, list(got), case.rtol, case.atol)
        return ("opaque", "an opaque operator ran through its reference") if rep.opaque else ("passed", "")
    except AutocompError as e:
        return "refused", str(e)
    except AssertionError as e:
        return "wrong", " ".join(str(e).split())[:300]
    except Exception as e:
        return "crashed", f"{type(e).__name__}: {e}"[:300]


def _worker(kinds: tuple[str, ...], only: str, jobs: Any, results: Any) -> None:
    warnings.filterwarnings("ignore")
    todo = cases(kinds, only)
    for index in iter(jobs.get, None):
        results.put((index, *judge(todo[index])))


def run(kinds: tuple[str, ...], only: str, limit: float, progress: bool) -> list[dict[str, str]]:
    """Every case's outcome. A worker that dies or overruns the limit is replaced and its case counted as crashed."""
    context = mp.get_context("spawn")
    todo = cases(kinds, only)
    rows, worker, jobs, results = [], None, None, None
    for index, case in enumerate(todo):
        if worker is None or not worker.is_alive():
            jobs, results = context.Queue(), context.Queue()
            worker = context.Process(target=_worker, args=(kinds, only, jobs, results), daemon=True)
            worker.start()
            grace = 60.0
        jobs.put(index)  # type: ignore[union-attr]
        outcome, reason = _wait(results, worker, limit + grace)
        grace = 0.0
        if outcome == "crashed" and reason.startswith("killed"):
            worker.kill()
            worker = None
        rows.append({"name": case.name, "kind": case.kind, "operator": operator_of(case), "outcome": outcome, "reason": reason})
        if progress and index % 25 == 0:
            print(f"\r{index + 1}/{len(todo)} {case.name[:60]:60}", end="", file=sys.stderr, flush=True)
    if worker is not None:
        jobs.put(None)  # type: ignore[union-attr]
        worker.join(10)
    if progress:
        print("\r" + " " * 90 + "\r", end="", file=sys.stderr)
    return rows


def _wait(results: Any, worker: Any, limit: float) -> tuple[str, str]:
    import queue
    import time

    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            _, outcome, reason = results.get(timeout=0.5)
            return outcome, reason
        except queue.Empty:
            if not worker.is_alive():
                return "crashed", f"killed: the process died with exit code {worker.exitcode}"
    return "crashed", f"killed after {limit:.0f} s"


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", action="append", choices=KINDS, help="which parts of the suite (default: all)")
    parser.add_argument("--only", default="", help="cases whose name or operator contains this")
    parser.add_argument("--json", type=Path, help="also write every case's outcome here")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one case")
    parser.add_argument("--reasons", action="store_true", help="print why cases were refused, wrong or crashed")
    args = parser.parse_args()
    rows = run(tuple(args.kind or KINDS), args.only, args.limit, sys.stderr.isatty())
    print(table(rows))
    for r in rows:
        if r["outcome"] in ("wrong", "crashed") or (args.reasons and r["outcome"] == "refused"):
            print(f"{r['outcome']:8} {r['name']}: {' '.join(r['reason'].split())}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))
    return 1 if any(r["outcome"] in ("wrong", "crashed") for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
