"""Leaves out each barrier, wait, arrival and group of plans, and asks the plan's checkers, by kind: of every golden, and of schemes that no
golden has (a factor that blocks of a cluster share, rows that stay, teams that take turns, operands in halves or one slot, a slot that is
lent for boxes). Of an NPU's goldens
each wait and set of a flag, within a core and between cores, and each barrier of a pipe.

    python -m benchmarks.plan_mutants             a table
    python -m benchmarks.plan_mutants --left      and each that no checker misses

Four kinds may be missing for nothing: a group of copies or products that then joins the next one, which is waited for no later, the last
arrival at a slot that no copy fills again, a kernel's last wait for stores where each tile has waited for its own, and a barrier of an
NPU's products of which the way out has read the slot in between: the flags of both order them.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from tempfile import TemporaryDirectory
from unittest.mock import patch

from autocomp.targets.ascend import signals
from autocomp.targets.simt import printer
from autocomp.targets.source import Admitted

import autocomp
from autocomp.cost.roles import roles_of
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse
from autocomp.tile import agents
from autocomp.tile.check_plan import problem
from autocomp.tile.plan import (
    Barrier,
    Block,
    ClusterBarrier,
    Commit,
    Done,
    Fence,
    Flag,
    Group,
    Inbox,
    NamedBarrier,
    Node,
    Order,
    Signal,
    TensorMemory,
)
from tests.helpers import device_graphs, goldens, tensor_memory
from tests.helpers.device_graphs import gemm, graph
from tests.helpers.schedules import by_hand
from tests.helpers.split_depth import HALVES, split

Body = tuple[Node, ...]
PIPES = ["chain", "softmax", "layer_norm_odd", "gemm_bias_gelu", "attention_causal"]  # goldens of an NPU
LATE = ("half_scores", "mma_row_sums"), ("mma_row_sums", "handed_fractals"), ("fused_scale", "thread_partials")  # beside them
SHARE = by_hand({"i0": 128, "i1": 128, "r0": 64}, stages=3, roles="warp_specialise", workers=2, persistent=True, grouped=8)
ROWS = by_hand({"i0": 1, "i1": 512}, threads=64, stages=9, persistent=True)
SOFTMAX, TWO = graph({"x": "f16[19, 4096]"}, "%0 = softmax(x, axes=[1])"), gemm(300, 264, 520)
LONG = {"x": "f16[136, 520]", "w": "f16[520, 264]", "r": "f16[136, 264]"}
BESIDE = {  # of no golden: a graph and a schedule
    "multicast": (TWO, replace(SHARE, cluster=2)),
    "multicast_halves": HALVES["clusters"][:2],
    "ping_pong": (TWO, replace(SHARE, ping_pong=True)),
    "third_epilogue_stage": (graph(LONG, "%0 = matmul(x, w)\n%1 = gelu(%0)"), replace(SHARE, tile=(("i0", 128), ("i1", 256), ("r0", 64)))),
    "operands_in_one_slot": (graph(LONG, "%0 = matmul(x, w)\n%1 = add(%0, r)"), replace(SHARE, stages=6)),
    "rows": (SOFTMAX, ROWS),
    "rows_of_a_cluster": (SOFTMAX, replace(ROWS, tile=(("i0", 1), ("i1", 1024)), threads=32, cluster=4, stages=6)),
}
ADMITTED = Admitted.keep
KINDS = {ClusterBarrier: "cluster", NamedBarrier: "named", Inbox: "inbox", Flag: "flag"}


@dataclass(frozen=True)
class Plan:
    """The plan of one kernel of a golden file."""

    name: str
    body: Body
    takers: int


@dataclass(frozen=True)
class Mutant:
    """A plan without one statement; `caught`: what the checkers say first, "" for nothing."""

    plan: str
    dropped: Node | agents.Signal
    caught: str

    @property
    def kind(self) -> str:
        n = self.dropped
        if isinstance(n, agents.Signal):
            return f"{n.do} {n.what} of {'cores' if len({signals.core(a) for a in (n.queue.writer, n.queue.reader)}) > 1 else 'pipes'}"
        if isinstance(n, Signal):
            return f"{n.do} {n.what}{' of a cluster' if n.far else ''}"
        if isinstance(n, ClusterBarrier | NamedBarrier | Inbox | Flag):
            return f"{KINDS[type(n)]} {n.do}"
        if isinstance(n, Done) and "drain" in n.text:
            return "bulk drain"
        bulk, team = isinstance(n, Done) and n.of == "stores", n.agents if isinstance(n, Barrier) and n.agents != "block" else ""
        return ("bulk " if bulk else f"{team} " if team else "") + type(n).__name__.lower()

    @property
    def harmless(self) -> bool:
        """Whether it is of a kind that may be missing for nothing."""
        return isinstance(self.dropped, Commit | Group) or self.kind in ("arrive empty", "bulk drain", "cube.M barrier")


def plans() -> list[Plan]:
    """Of all goldens, those of GRAPHS under the schedules that were chosen for them, and of others."""
    found: dict[tuple[str, str], Plan] = {}
    check = printer.require
    tensor_memory.product.cache_clear()

    def keep(file: str, body: Body, kernel: str, takers: int = 1) -> None:
        check(body, kernel, takers)
        found[file, kernel] = Plan(f"{file} {kernel}", body, takers)

    try:
        for file, make in goldens.SMALL.items():
            program = make()
            printer.require = partial(keep, file)
            for k in program.kernels:
                kernel = next(c.kernel for c in program.calls.calls if c.kernel.name == k.name)
                program.target.emit(kernel, parse(k.schedule))
            printer.require = check
        written = patch.object(Admitted, "keep", lambda *a: a[3](()) and ADMITTED(*a))  # candidates too, which only chosen ones are else
        with TemporaryDirectory() as empty, patch.dict(os.environ, AUTOCOMP_CACHE=empty, AUTOCOMP_TEST_RUN=""), written:  # none is known
            for file, make in goldens.OTHERS.items():
                printer.require = partial(keep, file)
                make()
            for file, (text, schedule) in BESIDE.items():
                printer.require = partial(keep, file)
                split(text, schedule)
    finally:
        printer.require = check
    return list(found.values())


def mutants(plan: Plan) -> Iterator[Mutant]:
    for path in _paths(plan.body):
        body = _without(plan.body, path)
        yield Mutant(plan.name, _at(plan.body, path), problem(body, plan.takers))


@dataclass(frozen=True)
class Pipes:
    """The plan of an NPU's cores: programs with their signals and barriers, slots of buffers and where these lie."""

    name: str
    parts: dict[str, agents.Body]
    depth: dict[str, int]
    lies: Mapping[str, agents.Span]

    def mutants(self) -> Iterator[Mutant]:
        for part, body in self.parts.items():
            for dropped, less in _shorter(body):
                said = signals.faults({**self.parts, part: less}, self.depth, self.lies)
                yield Mutant(self.name, dropped, said[0] if said else "")


def _shorter(body: agents.Body) -> Iterator[tuple[agents.Signal | Barrier, agents.Body]]:
    """Each signal and barrier of a program, and the program without it."""
    for i, n in enumerate(body):
        if isinstance(n, agents.Signal | Barrier):
            yield n, body[:i] + body[i + 1 :]
        elif not isinstance(n, agents.Work):
            for dropped, less in _shorter(n.body):
                yield dropped, (*body[:i], replace(n, body=less), *body[i + 1 :])


def pipes(names: Sequence[str] = PIPES, beside: Sequence[tuple[str, ...]] = LATE) -> list[Pipes]:
    """Of an NPU's goldens, and of attention three rounds late under directives that they do not have."""
    found: dict[str, Pipes] = {}
    make, name = signals.ordered, ""

    def keep(parts: agents.Parts, depth: dict[str, int], lies: Mapping[str, agents.Span]) -> object:
        made = make(parts, depth, lies)
        found[name] = Pipes(name, made[0], depth, lies)
        return made

    with TemporaryDirectory() as empty, patch.dict(os.environ, AUTOCOMP_CACHE=empty), patch.object(signals, "ordered", keep):
        for name in names:
            autocomp.optimize(device_graphs.GRAPHS[name], target="ascend:910b", cache=False)
        for directives in beside:
            program = autocomp.optimize(device_graphs.attention(4, 256, 512, 64), target="ascend:910b1")
            kernel = program.calls.calls[0].kernel
            r, name = roles_of(kernel), f"attention {' '.join(directives)}"
            tile = {**{a.name: 1 for a in r.batch}, r.rows[-1].name: 128, r.depth[0].name: 128}
            program.target.emit(kernel, Schedule.make(tile, softmax_overlap=1, stages=4, persistent=True, directives=directives))
    return list(found.values())


def _paths(body: Body, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    for i, n in enumerate(body):
        if isinstance(n, Order | Signal | Group | Done | Fence | ClusterBarrier | NamedBarrier | Flag | TensorMemory) or (
            isinstance(n, Inbox) and n.do != "read"
        ):
            yield (*path, i)
        elif isinstance(n, Block):
            yield from _paths(n.body, (*path, i))


def _without(body: Body, path: tuple[int, ...]) -> Body:
    (i, *rest), n = path, body[path[0]]
    inside = (replace(n, body=_without(n.body, tuple(rest))),) if rest and isinstance(n, Block) else ()
    return body[:i] + inside + body[i + 1 :]


def _at(body: Body, path: tuple[int, ...]) -> Node:
    n = body[path[0]]
    return _at(n.body, path[1:]) if len(path) > 1 and isinstance(n, Block) else n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--left", action="store_true", help="list those that no checker misses")
    args = parser.parse_args()
    all_, npu = plans(), pipes()
    made = [m for p in all_ for m in mutants(p)] + [m for x in npu for m in x.mutants()]
    total, caught = Counter(m.kind for m in made), Counter(m.kind for m in made if m.caught)
    print(f"{len(all_) + len(npu)} plans, {len(made)} statements left out, {sum(caught.values())} refused, "
          f"{sum(not m.caught and m.harmless for m in made)} harmless by their kind, "
          f"{sum(not m.caught and not m.harmless for m in made)} without a reason")  # fmt: skip
    for kind, n in total.most_common():
        print(f"{kind:14} {caught[kind]:4} of {n:4}")
    for m in made if args.left else ():
        if not m.caught:
            print(f"{m.plan}: {m.dropped}")
    raise SystemExit(any(not m.caught and not m.harmless for m in made))


if __name__ == "__main__":
    main()
