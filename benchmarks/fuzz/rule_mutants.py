"""Changed rules: is each that is refused by nothing right? 120 changes of shipped rules by seed, half of them of rules about schedules.

    python -m benchmarks.fuzz.rule_mutants                      # seed 0
    python -m benchmarks.fuzz.rule_mutants --seed 3 --count 20 --samples 2

A rule of the graph phases is judged by plain evaluation on instances and values that the checker does not draw (`rewrite/judge.py`). A rule
about schedules is judged by what is printed: of small graphs the schedules that it makes are given to `optimize(schedule=..)`, and the
programs are run, C on this machine, the other languages on the models of their machines, and compared with float64.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from autocomp.targets import Target, load_target, manifests

import autocomp
from autocomp.check.kernels import kernels_of, read, text
from autocomp.check.rules import OPTIONS, check_kernel_rule, for_rule
from autocomp.cost.demand import demand_of
from autocomp.egraph.choose import found_together
from autocomp.errors import AutocompError, VerificationError
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import show
from autocomp.report.mutation import mutate_rules
from autocomp.rewrite import load_rules
from autocomp.rewrite.mutate import Mutant, mutants
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.simulate.program import simulated

EACH = 2  # schedules of a kernel that are run
GRAPHS = (
    "input a: f32[37, 70]; input b: f32[70, 45]; %0 = matmul(a, b); %1 = relu(%0); output y = %1",
    "input a: f16[3, 96]; input b: f16[96, 130]; %0 = matmul(a, b); output y = %0",
    "input a: f32[19, 100]; %0 = softmax(a, axes=[1]); output y = %0",
    "input a: f32[70, 33]; %0 = reduce_sum(a, axes=[0], keepdims=False); output y = %0",
    "input a: f16[5, 40, 24]; %0 = softmax(a, axes=[1]); output y = %0",
    "input q: f16[2, 40, 32]; input k: f16[2, 50, 32]; input v: f16[2, 50, 32]; %0 = transpose(k, perm=[0, 2, 1]); %1 = matmul(q, %0); "
    "%2 = softmax(%1, axes=[2]); %3 = matmul(%2, v); output y = %3",
    "input a: f32[9, 130]; %0 = cumsum(a, axis=1, exclusive=False, reverse=False); output y = %0",
    "input a: f16[37, 70]; input b: f16[70]; %0 = add(a, b); %1 = exp(%0); output y = %1",
    "input a: f32[300]; %0 = stencil(a, offsets=[[-1], [0], [1]], weights=[0.25, 0.5, 0.25], steps=9); output y = %0",
    "input x: f32[1, 6, 20, 23]; input w: f32[6, 1, 3, 3]; %0 = conv(x, w, lo=[1, 1], hi=[1, 1], strides=[1, 1], dilations=[1, 1], "
    "groups=6); output y = %0",
)


def chosen(rules: RuleSet, graphs: bool, count: int, seed: int) -> list[tuple[Rule, Mutant]]:
    """Changes of rules of the graph phases, or of tiling and scheduling rules; of a family one member is changed."""
    mine = [r for r in rules if (r.phase in GRAPH_PHASES if graphs else r.phase in ("tiling", "scheduling"))]
    first = {str(r.location): r for r in reversed(mine)}
    every = [(r, m) for r in first.values() for m in mutants(r)]
    Random(seed).shuffle(every)
    return every[:count]


def made(rule: Rule, others: tuple[Rule, ...], machine: Target) -> Iterator[tuple[str, Kernel, Schedule]]:
    """Graphs with the schedules that a rule makes of their kernels."""
    rules = RuleSet((*others, rule) if rule.phase == "scheduling" else (rule,))
    for graph in GRAPHS:
        for kernel in kernels_of(read(graph), machine)[:1]:
            (found,) = found_together((kernel,), [demand_of(kernel).roles], rules, machine.chip, replace(OPTIONS, exact=False))
            mine = [s for s, by in found.schedules if by == rule.name]
            yield from ((graph, kernel, s) for s in Random(graph).sample(mine, min(EACH, len(mine))))


def run(graph: str, kernel: Kernel, schedule: Schedule, machine: Target) -> str:
    """`right`, `refused` where the program is not made, or the largest error of a wrong result."""
    inputs, body = read(graph)
    try:
        spec = machine.name if machine.name == "cpu" else f"{machine.name}:{machine.chip.name}"
        program = autocomp.optimize(text(dict(inputs), body), spec, schedule={kernel.name: show(schedule)}, cache=False)
    except AutocompError as e:
        return f"refused: {e.what}"
    try:
        if machine.name == "cpu":
            program.verify()
        else:
            with simulated(program):
                program.verify()
    except VerificationError as e:
        return f"wrong: {e}"
    except AutocompError as e:
        return f"refused: {e.what}"
    return "right"


def judged(rule: Rule, others: tuple[Rule, ...]) -> tuple[Counter[str], str]:
    """Outcomes of the schedules that a changed rule makes, and the first that computes something wrong."""
    seen: Counter[str] = Counter()
    for name in rule.targets or manifests():
        machine = for_rule(rule, load_target(f"{name}:{manifests()[name]['chips'][0]}", OPTIONS))
        try:
            for graph, kernel, schedule in made(rule, others, machine):
                said = run(graph, kernel, schedule, machine)
                seen[said.partition(":")[0]] += 1
                if said.startswith("wrong"):
                    return seen, f"on {name} '{show(schedule)}' of {graph}: {said}"
        except AutocompError as e:
            return seen, f"refused: {e.what}" if not seen else ""
    return seen, ""


def of_schedules(rules: RuleSet, count: int, seed: int, samples: int) -> list[str]:
    """The survivors: changes that the check accepts and that compute something wrong."""
    survivors, total = [], Counter[str]()
    for n, (rule, mutant) in enumerate(chosen(rules, False, count, seed)):
        others = tuple(r for r in rules if r.name != rule.name and r.phase in ("tiling", "scheduling"))
        try:
            found = check_kernel_rule(mutant.rule, (*others, *rules.of("directives")), samples, seed).status.partition("-")[0]
        except AutocompError as e:
            found = f"refused ({e.what})"
        seen, wrong = (Counter[str](), "") if found.startswith("ref") else judged(mutant.rule, others)
        bad = wrong.startswith("on ")
        total[f"{found.partition(' ')[0]}, {'wrong' if bad else 'right' if seen['right'] else 'refused' if seen else 'not run'}"] += 1
        print(f"{n + 1} {rule.name}: {mutant.what}: {found}; {dict(seen)} {wrong}", flush=True)
        survivors += [f"{rule.name}: {mutant.what}: {wrong}"] if bad else []
    print(f"{count} changes of rules about schedules: {dict(total)}")
    return survivors


def main() -> None:
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--count", type=int, default=60, help="of each half")
    args.add_argument("--samples", type=int, default=20)
    args.add_argument("--only", choices=("graphs", "schedules"))
    a = args.parse_args()
    rules, begun, survivors = load_rules(), time.process_time(), []
    if a.only != "schedules":
        report = mutate_rules([r for r in rules if r.phase in GRAPH_PHASES], a.count, a.seed, a.samples, print, tuple(rules))
        print(report.text)
        survivors += [f"{t.rule}: {t.what}: {t.wrong}" for t in report.missed]
    if a.only != "graphs":
        survivors += of_schedules(rules, a.count, a.seed, a.samples)
    print(f"{len(survivors)} survive ({time.process_time() - begun:.0f} s of a processor)", *survivors, sep="\n  ")


if __name__ == "__main__":
    main()
