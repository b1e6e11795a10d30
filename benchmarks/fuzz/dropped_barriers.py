"""Kernels without one of their waits: each barrier, wait, arrival and fence of printed GPU kernels is left out, one at a time, and the
machine model (autocomp/simulate/include/simt) must say so.

    python -m benchmarks.fuzz.dropped_barriers [--only cuda:h200] [--kernels softmax,gemm_odd] [--jobs 2] [--verbose]

A kernel is compiled once, with every such statement under a number; one run a number, of the first and the last block (or cluster) of a
grid. It is caught where the model ends the run (accesses that nothing orders, a hang, copies never waited for, ...) or a result is not bit
by bit what the whole kernel gives. What is not caught has a reason, which the model counted in a run of the whole kernel: the statement was
never come to, or whoever comes there knows already what it would tell them; or nothing behind it needs the order at this size, and without
the same lines another kernel is caught (which a part of the cases may lack). Exit 1 where a survivor has none: the model has a hole.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


import autocomp
from autocomp.runtime.inputs import random_inputs
from autocomp.simulate.simt_model import ModelExecutor, ModelFailure, compile_model
from tests.helpers.device_graphs import GOLDEN, GRAPHS, attention, gemm
from tests.helpers.goldens import four_warpgroups, patch
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import AHEAD, FEW_ROWS, RESIDUAL, TWO, few_blocks, split, stream, weights

KINDS = {
    "barriers": ("__syncthreads", "ac_sync", "ac_wave_sync", "ac_barrier_sync", "ac_cluster_sync"),
    "waits": ("ac_wait", "ac_wait_copies", "ac_barrier_wait", "ac_barrier_wait_far", "ac_bulk_wait", "ac_bulk_drain", "ac_team_wait",
              "ac_cluster_wait", "ac_flag_take", "ac_launch_wait"),
    "arrivals": ("ac_barrier_arrive", "ac_barrier_arrive_at", "ac_barrier_expect", "ac_barrier_pass", "ac_cluster_arrive", "ac_commit",
                 "ac_team_commit", "ac_flag_set"),
    "fences": ("ac_async_fence", "ac_barrier_fence", "ac_team_fence", "__threadfence"),
}  # fmt: skip
STATEMENT = re.compile(rf"(?<!\w)({'|'.join(chain(*KINDS.values()))})(<[^;<>]*>)?\([^;]*\);")
ROLES = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2, persistent=True, grouped=8)
# So deep, or over so many keys, that rings of copies go round several times
LONG = {
    "gemm_long": gemm(40, 72, 1024),
    "gemm_f32_long": gemm(40, 72, 1024, "f32"),
    "attention_long": attention(1, 1, 70, 64, keys=1000),
    "attention_causal_long": attention(1, 1, 700, 128, causal=True),
    "attention_f32_long": attention(1, 1, 40, 64, "f32", keys=500),
}


@dataclass(frozen=True)
class Dropped:
    """One statement left out: `line` of the kernel's code, `lines` it and the one before it without their numbers; `said` by the model, ""
    where nothing was noticed, and then `why` not ("" where nobody knows)."""

    kernel: str
    statement: str
    line: int
    text: str
    lines: str
    said: str = ""
    why: str = ""


def cases() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """(target, name, how the program is made): the goldens' graphs and longer ones on every chip, and schedules that small graphs do not
    choose."""
    for chip, target in (("a100", "cuda:a100"), ("h200", "cuda:h200"), ("c500", "maca:c500")):
        for name in GOLDEN[chip]:
            yield target, name, partial(autocomp.optimize, GRAPHS[name], target=target)
        for name, text in LONG.items():
            yield target, name, partial(autocomp.optimize, text, target=target)
    yield "cuda:h200", "roles", lambda: few_blocks(RESIDUAL, ROLES, 2)
    yield "cuda:h200", "turns", lambda: few_blocks(RESIDUAL, replace(ROLES, tile=(("i0", 64), ("i1", 128), ("r0", 64)), ping_pong=True), 2)
    yield "cuda:h200", "split_cluster", lambda: split(RESIDUAL, TWO)
    yield "cuda:h200", "split_few_rows", lambda: split(*FEW_ROWS["split"])
    yield "cuda:h200", "split_stream", lambda: stream("whole_waves_then_pieces")
    yield "cuda:h200", "split_few_rows_long", lambda: split(gemm(16, 264, 2048), FEW_ROWS["split"][1])
    yield "cuda:h200", "halves", lambda: stream("alone")
    yield "cuda:h200", "halves_clusters", lambda: stream("clusters")
    yield "cuda:h200", "attention_four_warpgroups", four_warpgroups
    yield "cuda:h200", "conv_window", patch
    for name in AHEAD:
        yield "cuda:h200", f"weights, {name}", partial(weights, name, deeper=4)


def numbered(program: Any) -> list[Dropped]:
    """Puts every statement of the program's kernels under a number."""
    out: list[Dropped] = []
    for name, source in program.printed.items():
        comment, end, code = source.text.partition("*/")

        def under(m: re.Match[str], name: str = name, code: str = code) -> str:
            begin = code.rfind("\n", 0, m.start())
            both = code[code.rfind("\n", 0, begin) : m.end()]
            lines = re.sub(r"\d+|\bown\b|\s+", "", both)
            out.append(Dropped(name, m[1], code.count("\n", 0, m.start()), code[begin : m.end()].strip(), lines))
            return f"do {{ if (simt_keeps({len(out) - 1})) {m[0]} simt_passed(); }} while (0);"

        program.printed[name] = replace(source, text=comment + end + STATEMENT.sub(under, code))
    return out


def without_each(program: Any, folder: Path, model: Path) -> list[Dropped]:
    """What the model says of a program without each of its statements, with asynchronous work late and early.

    Raises ModelFailure where the whole program fails already.
    """
    statements = numbered(program)
    feed = random_inputs(program.calls.source, 0)
    # of a kernel behind another one the blocks that are not run before it would be missed
    executor = ModelExecutor(program, folder, model, sample=1 if len(program.calls.calls) == 1 else 0)
    library = executor.library
    library.simt_count(len(statements))
    whole = {}
    for late in (True, False):
        executor.late = late
        whole[late] = executor.run(feed)
    runs, orders = ctypes.c_long(), ctypes.c_long()
    counted = []
    for i in range(len(statements)):
        library.simt_counted(i, ctypes.byref(runs), ctypes.byref(orders))
        counted.append((runs.value, orders.value))
    library.simt_count(0)
    out = []
    for i, s in enumerate(statements):
        library.simt_drop(i)
        said = ""
        for late in (True, False):
            executor.late = late
            executor.scratch.clear()
            try:
                got = executor.run(feed)
            except ModelFailure as e:
                said = str(e).partition(": ")[2]
            else:
                if any(got[n].tobytes() != w.tobytes() for n, w in whole[late].items()):
                    said = "another result"
            if said:
                break
        out.append(replace(s, said=said, why="" if said else reason(program.target.name, s, *counted[i])))
    library.simt_drop(-1)
    return out


def reason(target: str, s: Dropped, runs: int, orders: int) -> str:
    """Why a survivor is no hole of the model, "" where nobody knows. A whole kernel came to it `runs` times, and so often it `orders` what
    was not in order already."""
    if not runs:
        return "never come to at this size"
    if (target, s.statement) == ("maca", "ac_commit"):
        return "copies are counted one by one on this target: a commit is empty"
    if s.statement in IMPLIED:
        return IMPLIED[s.statement]
    if s.statement.endswith("_commit") and orders:
        return "what it closes joins the next group, and what needs it waits for that one too"
    if not orders:
        return NOTHING_NEW[next(k for k, names in KINDS.items() if s.statement in names)]
    return ""


# What the model follows on every access, and what it does not model
IMPLIED = {
    "ac_launch_wait": "each access behind it has another thread's wait before it, which the barriers of its copies pass on (PTX "
                      "griddepcontrol.wait: what earlier grids wrote is visible to the grid)",
    "__threadfence": "the flag is set by a release of the device behind a barrier of all that wrote, which has their writes behind it "
                     "(PTX memory model: causality order is transitive); the model has no fence there",
}  # fmt: skip
NOTHING_NEW = {
    "barriers": "its threads know of each other already what it would tell them, by the barrier before or behind it",
    "waits": "what it waits for is known already: waited for by a statement before it, or nothing is under way",
    "arrivals": "nobody waits for what it completes (the last turn of a ring, a group without copies)",
    "fences": "nothing was written since the fence before",
}


def one(model: Path, number: int) -> tuple[str, str, list[Dropped]]:
    """A case by its number."""
    target, name, make = list(cases())[number]
    with tempfile.TemporaryDirectory(prefix="autocomp-dropped-") as folder:
        return target, name, without_each(make(), Path(folder), model)


def explained(found: list[tuple[str, str, Dropped]]) -> dict[tuple[str, str], list[str]]:
    """Where statements of (target, case, statement) survived, by (name, reason); the reason is "" where none is known."""
    elsewhere = {(t, s.lines): name for t, name, s in found if s.said}
    out: dict[tuple[str, str], list[str]] = {}
    for t, name, s in found:
        if s.said:
            continue
        other = elsewhere.get((t, s.lines), "")
        why = s.why or (f"nothing behind it needs its order at this size; without these lines {other} is caught" if other else "")
        out.setdefault((s.statement, why), []).append(f"{t} {name}:{s.line}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a target, as cuda:h200")
    parser.add_argument("--kernels", default="", help="some of the cases, by name")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--verbose", action="store_true", help="what the model says of each")
    a = parser.parse_args()
    names = set(filter(None, a.kernels.split(",")))
    chosen = [i for i, (t, n, _) in enumerate(cases()) if t.startswith(a.only) and (not names or n in names)]
    began = time.time()
    all_found: list[tuple[str, str, Dropped]] = []
    with tempfile.TemporaryDirectory(prefix="autocomp-model-") as folder, ProcessPoolExecutor(a.jobs, get_context("spawn")) as pool:
        for target, name, found in pool.map(partial(one, compile_model(Path(folder))), chosen):
            missed = [s for s in found if not s.said]
            print(f"{target:<10} {name:<28} {len(found):>3} left out, {len(missed):>2} not caught", flush=True)
            for s in found if a.verbose else ():
                print(f"    line {s.line:>3}  {s.text[:70]:<70}  {s.said[:150] or s.why or 'not caught'}", flush=True)
            all_found += [(target, name, s) for s in found]
    tried = Counter((t, s.statement) for t, _, s in all_found)
    caught = Counter((t, s.statement) for t, _, s in all_found if s.said)
    survivors = explained(all_found)
    for kind, statements in KINDS.items():
        print(f"\n{kind:<22} {'target':<10} {'left out':>8} {'caught':>7} {'in order without':>17}")
        for statement in statements:
            for target in sorted({t for t, x in tried if x == statement}):
                n, c = tried[target, statement], caught[target, statement]
                print(f"{statement:<22} {target:<10} {n:>8} {c:>7} {n - c:>17}")
    n, c = sum(tried.values()), sum(caught.values())
    print(f"\n{'all':<33} {n:>8} {c:>7} {n - c:>17}    {len(chosen)} programs, {time.time() - began:.0f} s")
    for (statement, why), where in sorted(survivors.items()):
        print(f"not caught: {statement}, {len(where)} times: {why or 'NO REASON IS KNOWN'}\n    {', '.join(where)}")
    sys.exit(any(not why for _, why in survivors))


if __name__ == "__main__":
    main()
