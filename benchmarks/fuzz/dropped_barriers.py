"""Kernels without one of their waits: each barrier, wait, fence and arrival of printed GPU kernels is left out, one at a time, and the
machine model (tests/helpers/simt) must say so.

    python -m benchmarks.fuzz.dropped_barriers [--only cuda:h200] [--kernels softmax,gemm_odd] [--verbose]

A kernel is compiled once, with every such statement under a number; one run a number. It is caught where the model ends the run (accesses
that nothing orders, a hang, copies never waited for, ...) or a result is not bit by bit what the whole kernel gives. What is not caught is
listed: the statement either waits for what another one waits for, or the model has a hole. Exit 1 where a survivor has no known reason.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


import autocomp
from autocomp.ir.schedule import Schedule
from autocomp.runtime.inputs import random_inputs
from tests.helpers.device_graphs import GOLDEN, GRAPHS
from tests.helpers.simt_model import ModelExecutor, ModelFailure, compile_model
from tests.helpers.split_depth import FEW_ROWS, RESIDUAL, TWO, split, stream

STATEMENTS = (
    "__syncthreads", "ac_sync", "ac_wave_sync", "ac_barrier_sync", "ac_barrier_pass", "ac_barrier_wait", "ac_barrier_wait_far",
    "ac_barrier_arrive", "ac_barrier_arrive_at", "ac_barrier_expect", "ac_barrier_fence", "ac_wait", "ac_wait_copies", "ac_commit",
    "ac_bulk_wait", "ac_bulk_drain", "ac_async_fence", "ac_team_fence", "ac_team_commit", "ac_team_wait", "ac_cluster_sync",
    "ac_cluster_arrive", "ac_cluster_wait", "ac_flag_set", "ac_flag_take", "__threadfence", "ac_launch_wait",
)  # fmt: skip
STATEMENT = re.compile(rf"(?<!\w)({'|'.join(STATEMENTS)})(<[^;<>]*>)?\([^;]*\);")
ROLES = Schedule.make({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="cooperative", workers=2, persistent=True, grouped=8)


@dataclass(frozen=True)
class Dropped:
    """One statement left out: `line` of the kernel's code, `said` by the model ("" where nothing was noticed)."""

    kernel: str
    statement: str
    line: int
    text: str
    said: str


def cases() -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """(target, name, how the program is made): the goldens' graphs on every chip, and schedules that small graphs do not choose."""
    for chip, target in (("a100", "cuda:a100"), ("h200", "cuda:h200"), ("c500", "maca:c500")):
        for name in GOLDEN[chip]:
            yield target, name, partial(autocomp.optimize, GRAPHS[name], target=target)
    yield "cuda:h200", "roles", lambda: few_blocks(RESIDUAL, ROLES, 2)
    yield "cuda:h200", "turns", lambda: few_blocks(RESIDUAL, replace(ROLES, tile=(("i0", 64), ("i1", 128), ("r0", 64)), apart=True), 2)
    yield "cuda:h200", "split_cluster", lambda: split(RESIDUAL, TWO)
    yield "cuda:h200", "split_few_rows", lambda: split(*FEW_ROWS["split"])
    yield "cuda:h200", "split_stream", lambda: stream("whole_waves_then_pieces")
    yield "cuda:h200", "halves", lambda: stream("alone")
    yield "cuda:h200", "halves_clusters", lambda: stream("clusters")


def few_blocks(text: str, schedule: Schedule, blocks: int) -> Any:
    """Under this very schedule, by so few blocks that each has several tiles."""
    program = split(text, schedule)
    (key,) = program.printed
    program.printed[key] = replace(program.printed[key], launch=replace(program.printed[key].launch, at_most=blocks))
    return program


def numbered(program: Any) -> list[Dropped]:
    """Puts every statement of the program's kernels under a number."""
    out: list[Dropped] = []
    for name, source in program.printed.items():
        comment, end, code = source.text.partition("*/")

        def under(m: re.Match[str], name: str = name, code: str = code) -> str:
            out.append(Dropped(name, m[1], code.count("\n", 0, m.start()), code[code.rfind("\n", 0, m.start()) : m.end()].strip(), ""))
            return f"do {{ if (simt_keeps({len(out) - 1})) {m[0]} }} while (0);"

        program.printed[name] = replace(source, text=comment + end + STATEMENT.sub(under, code))
    return out


def without_each(program: Any, folder: Path, model: Path) -> list[Dropped]:
    """What the model says of a program without each of its statements, with asynchronous work late and early.

    Raises ModelFailure where the whole program fails already.
    """
    statements = numbered(program)
    feed = random_inputs(program.calls.source, 0)
    executor = ModelExecutor(program, folder, model)
    whole = {}
    for late in (True, False):
        executor.late = late
        whole[late] = executor.run(feed)
    out = []
    for i, s in enumerate(statements):
        executor.library.simt_drop(i)
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
        out.append(replace(s, said=said))
    executor.library.simt_drop(-1)
    return out


def reason(target: str, s: Dropped, code: str) -> str:
    """Why a survivor is no hole of the model, "" where nobody knows. `code`: of its kernel."""
    late = r"ac_copy<16>" if target.startswith("maca") else r"ac_copy<(4|8|16)>"
    if s.statement == "ac_commit" and target.startswith("maca"):
        return "copies are counted one by one on this target: a commit is empty"
    if s.statement in ("ac_wait", "ac_wait_copies", "ac_commit") and not re.search(late, code):
        return "copies so narrow are plain loads and stores: none is under way"
    if s.statement in ("ac_wait", "ac_wait_copies"):
        return "its groups are empty or waited for: a copy that is read, overwritten or left behind too early is named"
    if s.statement == "__threadfence":
        return "the flag behind it is set by a release of the whole chip, behind a barrier of all that wrote: it has their writes behind it"
    if s.statement == "ac_launch_wait":
        return "a hole that is known: the model takes the wait of one thread for the whole block's, and another one waits"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a target, as cuda:h200")
    parser.add_argument("--kernels", default="", help="some of the cases, by name")
    parser.add_argument("--verbose", action="store_true", help="what the model says of each")
    a = parser.parse_args()
    names = set(filter(None, a.kernels.split(",")))
    total: Counter[tuple[str, str]] = Counter()
    caught: Counter[tuple[str, str]] = Counter()
    survivors: list[tuple[str, str, Dropped, str]] = []
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="autocomp-dropped-") as folder:
        model = compile_model(Path(folder))
        for i, (target, name, make) in enumerate(cases()):
            if not target.startswith(a.only) or (names and name not in names):
                continue
            (inner := Path(folder) / str(i)).mkdir()
            program = make()
            texts = {k: x.text for k, x in program.printed.items()}
            found = without_each(program, inner, model)
            missed = [s for s in found if not s.said]
            print(f"{target:<10} {name:<22} {len(found):>3} dropped, {len(missed):>2} not caught", flush=True)
            for s in found:
                total[target, s.statement] += 1
                caught[target, s.statement] += bool(s.said)
                if a.verbose or not s.said:
                    print(f"    line {s.line:>3}  {s.text[:70]:<70}  {s.said[:150] or 'NOT CAUGHT'}")
            survivors += [(target, name, s, reason(target, s, texts[s.kernel])) for s in missed]
    print(f"\n{'target':<10} {'statement':<22} {'dropped':>7} {'caught':>7}")
    for key in sorted(total):
        print(f"{key[0]:<10} {key[1]:<22} {total[key]:>7} {caught[key]:>7}")
    print(f"{'all':<33} {sum(total.values()):>7} {sum(caught.values()):>7}    {time.time() - began:.0f} s")
    unknown = 0
    for target, name, s, why in survivors:
        unknown += not why
        print(f"not caught: {target} {name}, kernel {s.kernel}, line {s.line}: {s.text}\n    {why or 'NO REASON IS KNOWN'}")
    sys.exit(1 if unknown else 0)


if __name__ == "__main__":
    main()
