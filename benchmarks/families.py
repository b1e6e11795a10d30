"""Functions that nobody tuned for, family by family, against torch on one CUDA device in one run.

    python -m benchmarks.families                       eight functions of each family, seed 1
    python -m benchmarks.families --seed 7 --count 4 --only attention,scans
    python -m benchmarks.families --problems textbook   problems of textbooks in strict f32: textbook_draws.py
    python -m benchmarks.families --list                what is drawn, without a device
    python -m benchmarks.families --predict --target cuda:h200      predicted shares of the roofline, without a device
    python -m benchmarks.families --out families.json --autotune
    python -m benchmarks.family_plots families.json -o docs/figures         plots and a table of what such a run measured

family_draws.py draws functions of torch and their shapes. Contestants: ours (what `optimize` makes of the function), eager, torch.compile
(with --autotune also max-autotune-no-cudagraphs), each captured in a CUDA graph so that no launch from the host is timed, with
cudnn.benchmark, in shuffled rounds behind an overwritten L2 cache. Results are compared with float64 first; a wrong one is not timed.
f32 products and convolutions are strict for all contestants, but in `products_tf32`, where all may round to tf32.

roof: share of the roofline whose ceilings (a large copy, a large bf16 product) are measured in the run, unavoidable bytes and operations
over them. pred.: predicted over measured time of ours, with what the overwritten
cache writes back (`cost_draw.written_back`). Programs are compiled side by side in `--jobs` processes first (0: not); the
time of one program is in the JSON.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from autocomp.targets import load_target

import autocomp
from autocomp.cost.roofline import memory_time
from benchmarks.cost_draw import written_back
from benchmarks.family_draws import FAMILIES, Case, moved
from benchmarks.gpu import Bench, Run, reference
from benchmarks.textbook_draws import PROBLEMS

Key = tuple[str, int, int]  # family, seed, which
SETS = {"layers": FAMILIES, "textbook": PROBLEMS}
ALL = FAMILIES | PROBLEMS


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="", help="names of families, separated by commas")
    p.add_argument(
        "--problems", choices=list(SETS), default="layers", help="layers of models in all types, or problems of textbooks in strict f32"
    )
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=8, help="functions of each family")
    p.add_argument("--rounds", type=int, default=12)
    p.add_argument("--autotune", action="store_true", help="also torch.compile's max-autotune-no-cudagraphs")
    p.add_argument("--target", default="cuda", help="target of our programs, e.g. cuda:h200")
    p.add_argument("--jobs", type=int, default=8, help="processes that compile before anything is timed")
    p.add_argument("--budget", type=float, default=540, help="seconds after which no further function is begun")
    p.add_argument("--list", action="store_true", help="print what is drawn and stop")
    p.add_argument("--predict", action="store_true", help="compile for the target, print the predicted shares of its roofline and stop")
    p.add_argument("--out", help="write all figures as JSON")
    args = p.parse_args()
    names = args.only.split(",") if args.only else list(SETS[args.problems])
    unknown = [n for n in names if n not in ALL]
    if unknown:
        sys.exit(f"no family {unknown[0]}; there are {', '.join(ALL)}")
    keys = [(n, args.seed, i) for n in names for i in range(args.count)]
    if args.list:
        print("\n".join(f"{n:24} {_case((n, s, i)).name}" for n, s, i in keys))
        return
    try:
        import torch
    except ImportError:
        sys.exit("the peers need torch: pip install torch")
    if args.predict:
        predict(torch, keys, args)
        return
    if not torch.cuda.is_available():
        sys.exit("this benchmark needs a CUDA device (--list and --predict need none)")
    torch.set_default_device("cuda")
    start = time.monotonic()
    seconds = dict(compiled(keys, args)) if args.jobs else {}
    print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    bench = Bench(torch, rounds=args.rounds)
    copy, flops = bench.ceilings()
    print(f"{torch.cuda.get_device_name()}: copy {copy / 1e12:.2f} TB/s, bf16 product {flops / 1e12:.0f} TFLOP/s")
    print(f"{'family':24} {'function':52} {'ours us':>9} {'+-':>6} {'best peer':>9} {'which':>9} {'ratio':>6} {'roof':>5} {'pred.':>6}")
    rows = []
    for key in keys:
        if time.monotonic() - start > args.budget:
            print(f"{key[0]:24} {key[2]} and all behind it not begun: {args.budget:.0f} s are over")
            break
        case = _case(key)
        rows.append(measured(bench, case, args, copy, flops) | seconds.get(key, {}))
        print(line(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    print("\n".join(summary(rows)))
    if args.out:
        Path(args.out).write_text(json.dumps({"copy": copy, "flops": flops, "rows": rows}, indent=1))


def _case(key: Key) -> Case:
    """The same key draws the same case, whatever else is drawn."""
    family, seed, i = key
    return ALL[family](Random(f"{family}/{seed}/{i}"))


def program_of(torch: Any, case: Case, target: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """(our program, torch's function, operands). Raises AutocompError where we refuse."""
    for where in (torch.backends.cuda.matmul, torch.backends.cudnn):
        where.allow_tf32 = case.tf32
    f, operands = case.make(torch)

    class Apply(torch.nn.Module):  # type: ignore[name-defined, misc]
        def forward(self, *xs: Any) -> Any:
            return f(*xs)

    module = f if isinstance(f, torch.nn.Module) else Apply().eval()
    return autocomp.optimize(module, example_inputs=operands, target=target, allow_tf32=case.tf32), f, operands


def predict(torch: Any, keys: Sequence[Key], args: argparse.Namespace) -> None:
    """The table without a device: predicted seconds and shares of the roofline by the chip's own figures."""
    chip = load_target(args.target).chip
    for key in keys:
        case = _case(key)
        head = f"{case.family:24} {case.name:52}"
        begun = time.process_time()
        try:
            with torch.no_grad():
                program, f, operands = program_of(torch, case, args.target)
                own = f(*operands)
        except autocomp.AutocompError as e:
            print(f"{head} {type(e).__name__}: {e.what}"[:200], flush=True)
            continue
        spent = time.process_time() - begun
        bytes_ = moved(operands, tuple(own) if isinstance(own, (tuple, list)) else (own,))
        floor = max(memory_time(bytes_, chip, chip.cores)[1], case.flops / chip.matrix_rate("bf16"))
        kernels = "; ".join(f"{k.name} {k.predicted * 1e6:.1f} ({k.schedule})" for k in program.kernels)
        print(f"{head} {program.predicted * 1e6:9.1f} us {floor / program.predicted:5.2f} {spent:5.1f} s  {kernels}", flush=True)


def compiled(keys: Sequence[Key], args: argparse.Namespace) -> Iterator[tuple[Key, dict[str, float]]]:
    """Fill the caches of ours and of torch.compile side by side; seconds of each. What fails here fails again where it is reported."""
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(_compile, k, args.target): k for k in keys}
        for n, done in enumerate(as_completed(futures)):
            if n % 20 == 19:
                print(f"{n + 1} of {len(keys)} compiled", file=sys.stderr, flush=True)
            if done.exception() is None:
                yield futures[done], done.result()


def _compile(key: Key, target: str) -> dict[str, float]:
    import torch

    torch.manual_seed(key[1])
    torch.set_num_threads(1)
    torch.set_default_device("cuda")
    case, out = _case(key), dict[str, float]()
    for name in ("ours", "torch.compile"):
        begun = time.perf_counter()
        try:
            with torch.no_grad():
                if name == "ours":
                    _, f, operands = program_of(torch, case, target)
                else:
                    torch.compile(f)(*operands)
        except Exception:
            return out
        out[f"{name} compile s"] = time.perf_counter() - begun
    torch.cuda.empty_cache()
    return out


def measured(bench: Bench, case: Case, args: argparse.Namespace, copy: float, flops: float) -> dict[str, Any]:
    """One row; an error ends in the row and not in the run."""
    t = bench.torch
    row: dict[str, Any] = {"family": case.family, "function": case.name}
    try:
        with t.no_grad():
            program, f, operands = program_of(t, case, args.target)
            row |= {"predicted": program.predicted, "kernels": [f"{k.name} ({k.schedule})" for k in program.kernels]}
            ours, outputs = bench.ours(program, operands)
            results, row["deviation"] = check(bench, f, operands, outputs, ours)
            row |= {"bytes": moved(operands, results), "operations": case.flops}
            floor = max(row["bytes"] / copy, case.flops / flops)
            if bench.read is None:
                row["predicted"] += written_back(moved(operands, ()), moved((), results), program.target.chip)
            runs: dict[str, Run] = {"ours": ours, "eager": partial(f, *operands)}
            for mode in ("compile", *(["autotune"] if args.autotune else [])):
                t._dynamo.reset()
                runs[mode] = partial(t.compile(f, mode="max-autotune-no-cudagraphs" if mode == "autotune" else None), *operands)
            times = bench.race({n: bench.captured(run) for n, run in runs.items()})
    except autocomp.AutocompError as e:
        return row | {"error": f"{type(e).__name__}: {e.what}"[:150]}
    except Exception as e:  # a peer's or the device's: the row says it
        return row | {"error": f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:200]}
    peer = min((n for n in times if n != "ours"), key=lambda n: times[n][0])
    mine = times["ours"][0]
    return row | {"ours": mine, "spread": times["ours"][1], "times": times, "peer": peer, "ratio": times[peer][0] / mine,
                  "roof": floor / mine * 1e3, "pred": row["predicted"] / mine * 1e3}  # fmt: skip


def check(bench: Bench, f: Any, operands: tuple[Any, ...], outputs: dict[str, Any], run: Run) -> tuple[tuple[Any, ...], float]:
    """(torch's results, |ours - float64| / |float64|), outputs poisoned first.

    Whole numbers: at most 1 % differ; indices into the first operand's rows do where the elements there do. Raises AssertionError beyond
    2e-2 (2e-5 for f32), on NaN.
    """
    t = bench.torch
    own = f(*operands)
    own = tuple(own) if isinstance(own, (tuple, list)) else (own,)
    got = [t.from_dlpack(o) for o in outputs.values()]
    for g in got:
        g.fill_(float("nan") if g.is_floating_point() else -1)
    t.cuda.synchronize()
    with t.cuda.stream(bench.stream):
        run()
    t.cuda.synchronize()
    worst = 0.0
    exact = tuple(reference(t, copy.deepcopy(f).double() if isinstance(f, t.nn.Module) else f, operands))
    for g, v, o in zip(got, exact, own):
        if o.is_floating_point():
            off = float((g.double().reshape(v.shape) - v.double()).norm() / v.double().norm().clamp(min=1e-30))
            theirs = float((o.double() - v.double()).norm() / v.double().norm().clamp(min=1e-30))
            assert off < max(4 * theirs, 1e-5), f"differs from float64 by {off:.1e}, torch by {theirs:.1e}"
        else:
            off = float(_differ(t, operands[0], g.reshape(o.shape), o).double().mean())
            assert off < 0.01, f"{off:.1%} of the whole numbers differ from torch's"
        worst = max(worst, off)
    return own, worst


def _differ(t: Any, x: Any, got: Any, own: Any) -> Any:
    """Where two results of whole numbers differ. Of equal elements in a row any may be named."""
    if own.dtype != t.int64 or x.ndim != 2 or own.shape[:1] != x.shape[:1] or not bool(((got >= 0) & (got < x.shape[1])).all()):
        return got != own
    at = lambda i: x.gather(1, i.reshape(x.shape[0], -1))
    return at(got) != at(own)


def line(r: dict[str, Any]) -> str:
    """A row of the table."""
    head = f"{r['family']:24} {r['function']:52}"
    if "error" in r:
        return f"{head} {r['error']}"
    times = f"{r['ours'] * 1e3:9.1f} {r['spread'] * 1e3:6.1f} {r['times'][r['peer']][0] * 1e3:9.1f} {r['peer']:>9}"
    return f"{head} {times} {r['ratio']:6.2f} {r['roof']:5.2f} {r['pred']:6.2f}"


def mean(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """By family: geometric mean, least ratio, share of the roofline; then over all."""
    yield f"\n{'family':24} {'rows':>4} {'mean':>6} {'worst':>6} {'roof':>5} {'pred. within 1.3':>16}  refused or failed"
    done = [r for r in rows if "ratio" in r]
    for family in dict.fromkeys(r["family"] for r in rows):
        of = [r for r in done if r["family"] == family]
        failed = sum("error" in r for r in rows if r["family"] == family)
        if of:
            ratios = [r["ratio"] for r in of]
            near = sum(abs(math.log(r["pred"])) < math.log(1.3) for r in of) / len(of)
            roof = mean([r["roof"] for r in of])
            yield f"{family:24} {len(of):4} {mean(ratios):6.2f} {min(ratios):6.2f} {roof:5.2f} {near:16.0%}  {failed or ''}"
        else:
            yield f"{family:24} {0:4} {'':6} {'':6} {'':5} {'':16}  {failed}"
    if done:
        ratios = [r["ratio"] for r in done]
        yield f"geometric mean of {len(done)} ratios: {mean(ratios):.3f}; {sum(x < 0.85 for x in ratios)} below 0.85"


if __name__ == "__main__":
    main()
