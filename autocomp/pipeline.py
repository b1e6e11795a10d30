"""The list of stages. Everything else is reached from here."""

from __future__ import annotations

import gc
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autocomp import frontends, rewrite
from autocomp.deadline import Deadline, by_counts, current, sized, started
from autocomp.errors import DoesNotFit, UnsupportedOp
from autocomp.ir.checks import check_graph
from autocomp.ir.decompose import decompose
from autocomp.ir.donation import given_away, in_place
from autocomp.ir.loop_choice import settled
from autocomp.ir.places import spread_places
from autocomp.ir.rounding import round_casts
from autocomp.options import Options
from autocomp.runtime.cache import load_program, program_key, store_program
from autocomp.runtime.program import Program, build_program
from autocomp.targets import load_target
from autocomp.trace import Event, Trace
from autocomp.tune.use import measured

if TYPE_CHECKING:
    from autocomp.cost.roofline import Cost
    from autocomp.ir.kernel import KernelGraph
    from autocomp.ir.node import Graph
    from autocomp.ir.schedule import Schedule
    from autocomp.rewrite import RuleSet
    from autocomp.targets import Target
    from autocomp.tune.use import Measured

    Schedules = dict[str, tuple[Schedule, Cost]]

REPEATS = {"cpu": 1, "cuda": 16, "maca": 16}  # targets whose programs have loops: of what their slices' places are multiples, in bytes
STOPS = ("cpu",)  # those whose loops end when a value that they compute says so
SELDOM = 1_000_000  # new objects between two looks for cycles of garbage: 7 % of ResNet-50's seconds and no more memory, against 700


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Millions of small values that no cycle holds: Python's collector looks through them less often meanwhile."""
    before = gc.get_threshold()
    if not 0 < before[0] < SELDOM:
        yield
        return
    gc.set_threshold(SELDOM, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_seldom_collected()
def compile_model(model: Any, target: str | Target, options: Options, trace: Trace, **frontend: Any) -> Program:
    """model -> Program. Each stage is timed and recorded in `trace`, all of them by one clock (`deadline.py`).

    `frontend` goes to `frontends.load` (example_inputs=, dims=, name=).
    """
    with started(options, trace) as deadline:
        return _compiled(model, target, options, trace, deadline, **frontend)


def _compiled(model: Any, target: str | Target, options: Options, trace: Trace, deadline: Deadline, **frontend: Any) -> Program:
    with trace.stage("rules") as note:  # first, as it takes no time to find a misspelt name
        machine = load_target(target, options) if isinstance(target, str) else target
        rules = rewrite.load_rules(options.rules, without=options.without, options=options)
        note.update(target=machine.name, chip=machine.chip.name, rules=len(rules))
    graph = settled(import_model(model, trace, machine.chip.features, **frontend), machine.name in REPEATS, trace, options.without,
                    machine.name in STOPS)  # fmt: skip
    graph = given_away(graph, options.donate)
    known = measured(machine, rules, options, trace)
    key = program_key(graph, machine, rules, options, known.stamp) if options.cache else ""
    if key:
        with trace.stage("cache") as note:
            stored = load_program(key, graph, machine, options, rules.names, trace)
            note.update(found="yes" if stored else "no")
        if stored:
            return stored
    calls, schedules = extract(graph, machine, rules, options, trace, known)
    if key and options.measure:  # what is known now
        key = program_key(graph, machine, rules, options, measured(machine, rules, options, trace).stamp)
    with trace.stage("build") as note:
        program = build_program(calls, schedules, machine, options, trace, rules.names)
        note.update(kernels=len(program.kernels))
    if key and not deadline.cut.keys() - {"build"}:  # an entry holds no library
        store_program(key, program)
    return program


def compile_written(text: str, target: str, options: Options, trace: Trace) -> Program:
    """A tile program that was written by hand -> Program."""
    from autocomp.tune import written

    with started(options, trace):
        machine = load_target(target, options)
        calls, schedules = written.alone(text, machine)
        with trace.stage("build") as note:
            program = build_program(calls, schedules, machine, options, trace)
            note.update(kernels=len(program.kernels))
    return program


@_seldom_collected()
def import_model(model: Any, trace: Trace, features: Container[str] = (), **frontend: Any) -> Graph:
    """model -> the graph of core operators, and of those that a chip with these features has functions for, in which the model's own casts
    to short floats round (`ir.rounding`)."""
    with trace.stage("import") as note:
        graph = spread_places(decompose(round_casts(frontends.load(model, **frontend)), features))
        check_graph(graph)
        note.update(model=graph.name, ops=len(graph.nodes()))
    return graph


@_seldom_collected()
def extract(graph: Graph, machine: Target, rules: RuleSet, options: Options, trace: Trace,
            known: Measured | None = None) -> tuple[KernelGraph, Schedules]:  # fmt: skip
    """graph -> its kernels, and for each signature a schedule with its predicted cost, or with what was measured before (`known`)."""
    from autocomp.egraph import given, loop_calls, parts, read_later  # a program from the cache does without the imports
    from autocomp.tune import written
    from autocomp.tune.apply import tuned_schedules
    from autocomp.tune.first import measured_first

    def compiled(g: Graph) -> tuple[KernelGraph, Schedules]:
        return _kernels(g, machine, rules, options, trace)

    def body(g: Graph) -> tuple[KernelGraph, Schedules]:
        inner = Trace(listener=trace.listener)
        try:
            return _kernels(g, machine, rules, options, inner)
        finally:  # the covers of the trace are those of the whole program
            trace.events += _but_of_covers(inner.events)
            trace.spent += inner.spent

    with started(options, trace) as deadline:
        sized(deadline, options, len(graph.nodes()))
        try:
            calls, schedules = compiled(graph)
        except (UnsupportedOp, DoesNotFit) as e:
            if not deadline.cut:
                raise
            deadline.ended(
                "compile", f"nothing: the target prints no program of what was left ({e.what}), so all was done again, ended by counts"
            )
            with by_counts():
                calls, schedules = compiled(graph)
        calls, schedules = loop_calls.inlined(calls, schedules, body, REPEATS.get(machine.name, 1))
        if options.measure and options.tuned:
            with trace.stage("measure"):
                known = measured_first(calls, schedules, machine, rules, options, trace)
        if known is not None and known.searches and not deadline.passed("tuned", "measured schedules"):
            with trace.stage("tuned"):
                asked = replace(options, min_speedup=1.0) if options.measure else options
                schedules = tuned_schedules(calls, schedules, known, machine, asked, trace)
        schedules = read_later.kept(calls, schedules, machine.chip, trace)
        if options.schedule:
            clauses, programs = written.told_apart(options.schedule)
            schedules = given.given_schedules(calls, schedules, machine, replace(options, schedule=clauses), trace)
            calls, schedules = written.replaced(calls, schedules, programs, machine, trace)
        calls, schedules = parts.split_calls(calls, schedules, machine.chip, getattr(machine, "issued", None))
        return in_place(calls), schedules


def _kernels(graph: Graph, machine: Target, rules: RuleSet, options: Options, trace: Trace) -> tuple[KernelGraph, Schedules]:
    """graph -> kernels and untuned schedules."""
    from autocomp.egraph import kernel_memo, printable, saturate, siblings

    with trace.stage("saturate") as note:
        frozen = saturate.saturate(graph, rules, options, trace, machine.chip.features, machine.chip.target)
        note.update(classes=len(frozen.classes), forms=sum(len(c.nodes) for c in frozen.classes.values()))
    memo = kernel_memo.ScheduleMemo(machine.name, machine.chip, rules, options) if options.cache else None
    issued = getattr(machine, "issued", None)

    shared = printable.Shared()

    def joined(without: frozenset[frozenset[int]], told: Trace) -> tuple[KernelGraph, Schedules, frozenset[frozenset[int]]]:
        calls, schedules = printable.cover(frozen, rules, machine.chip, options, told, machine.admit, memo, issued, without, shared)
        with told.stage("siblings") as note:
            together = siblings.joined(calls, schedules, rules, machine.chip, options, told, machine.admit, memo, issued)
            note.update(kernels=len(together[0].calls), joined=len(calls.calls) - len(together[0].calls))
        return *together, printable.waiting(calls, schedules)

    calls, schedules, waiting = joined(frozenset(), trace)
    if waiting and not current().passed("siblings", "reductions that may read a tensor once"):
        told = Trace(listener=trace.listener)
        try:
            once = joined(waiting, told)
        except (UnsupportedOp, DoesNotFit):
            return calls, schedules
        trace.spent += told.spent
        if printable.seconds(*once[:2]) < siblings.GAIN * printable.seconds(calls, schedules):
            trace.events = _but_of_covers(trace.events) + told.events
            calls, schedules = once[:2]
    return calls, schedules


def _but_of_covers(events: list[Event]) -> list[Event]:
    """What is told of anything but how a cover was found: the trace has that of the one that the program is made of."""
    return [e for e in events if e.kind not in ("cut", "alternatives")]
