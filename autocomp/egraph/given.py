"""Schedules that the user gives for kernels by name: in the place of those that are chosen, through the same checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, Protocol

from autocomp.cost.chip import Chip
from autocomp.cost.demand import demand_of
from autocomp.cost.estimate import pricer
from autocomp.cost.work import Cost
from autocomp.egraph.choose import counted
from autocomp.errors import AutocompError, IllegalTransform, UnsupportedOp
from autocomp.ir.body import bound_axes
from autocomp.ir.kernel import Kernel, KernelGraph
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse
from autocomp.loops.schedules import legal
from autocomp.options import Options
from autocomp.rewrite.laws import instruction_words
from autocomp.trace import Trace

GIVEN = "given"  # in the place of a rule's name


class Printer(Protocol):
    """What is asked of a target (`targets.Target`)."""

    @property
    def chip(self) -> Chip: ...
    def emit(self, kernel: Kernel, schedule: Schedule) -> Any: ...
    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str] | None: ...


def given_schedules(calls: KernelGraph, schedules: Mapping[str, tuple[Schedule, Cost]], printer: Printer, options: Options,
                    trace: Trace) -> dict[str, tuple[Schedule, Cost]]:  # fmt: skip
    """`schedules` by signature with those of `options.schedule` in their places.

    Raises AutocompError for a kernel or an axis that is not there, IllegalTransform with the two iterations that isl names, and what
    the target raises where the target does not print it.
    """
    kernels = {c.kernel.name: c.kernel for c in calls.calls if c.kernel.signature in schedules}
    out = dict(schedules)
    for name, text in options.schedule:
        if name not in kernels:
            near = get_close_matches(name, kernels, 3)
            hint = f"nearest: {', '.join(near)}" if near else "`autocomp explain MODEL` lists them"
            raise AutocompError(f"there is no kernel '{name}' with a schedule", where="schedule", hint=hint)
        k = kernels[name]
        s, cost = _checked(k, parse(text, f"schedule of {name}"), printer, options)
        if idle := _idle(k, s, printer):
            trace.add("note", "schedule", text=f"of what was given for {name}, this changes nothing: {', '.join(idle)}")
        out[k.signature] = s, cost
        trace.add("schedule", name, signature=k.signature, rule=GIVEN, seconds=cost.seconds, bound=cost.bound, candidates=1, runners_up=[],
                  made={})  # fmt: skip
    return out


def _checked(k: Kernel, s: Schedule, printer: Printer, options: Options) -> tuple[Schedule, Cost]:
    where = f"schedule of {k.name}"
    extents = {a.name: a.extent for a in (*k.axes, *(a for v in k.stores for a in bound_axes(v.value)))}
    named = [*(a for a, _ in s.tile), *s.order, *s.parallel, *([s.vector[0]] if s.vector else []), *([s.split[0]] if s.split else [])]
    if unknown := [a for a in named if a not in extents]:
        raise AutocompError(f"the kernel has no axis '{unknown[0]}'", where=where,
                            hint=f"it has {', '.join(f'{a} of {n}' for a, n in extents.items())}")  # fmt: skip
    if twice := next((a for axes in (s.order, s.parallel) for a in axes if axes.count(a) > 1), ""):
        raise AutocompError(f"axis '{twice}' stands twice in a clause", where=where, hint=f"name each of {', '.join(extents)} once")
    if s.instruction and s.instruction not in (known := instruction_words()):
        raise AutocompError(f"no target has an instruction '{s.instruction}'", where=where, hint=f"known are {', '.join(known)}")
    if s.instruction == "tf32" and not options.allow_tf32:
        raise UnsupportedOp("'instruction tf32' rounds factors of f32 to 10 bits of mantissa", where=where,
                            hint="allow it with allow_tf32=True (--set allow_tf32=true), or leave out the clause")  # fmt: skip
    verdict = legal(k, s, options.exact)
    if not verdict.ok:
        raise IllegalTransform(verdict.why or str(verdict.witness or ""), where=where,
                               hint="leave out the clause that cuts or reorders these axes")  # fmt: skip
    for piece, own in pieces(k, s):
        printer.admit(piece, own)
    demand = demand_of(k)
    cost, issued = pricer(demand, printer.chip, k)(s), getattr(printer, "issued", None)
    return s, cost if issued is None else counted(k, s, cost, printer.chip, issued, demand.work.read)


def _idle(k: Kernel, s: Schedule, printer: Printer) -> list[str]:
    """Clauses without which the same code is printed."""
    plain = Schedule()
    less = {f.name: replace(s, **{f.name: getattr(plain, f.name)}) for f in fields(s)
            if f.name not in ("tile", "split", "join", "roles", "workers", "directives") and getattr(s, f.name) != getattr(plain, f.name)}
    less |= {"warp_specialise": replace(s, roles=plain.roles, workers=plain.workers)} if s.roles != plain.roles else {}
    less |= {d: replace(s, directives=tuple(x for x in s.directives if x != d)) for d in s.directives}
    code = _code(k, s, printer)
    return [name for name, t in less.items() if _code(k, t, printer) == code]


def _code(k: Kernel, s: Schedule, printer: Printer) -> object:
    """What the target prints and how it is started, the comments left out; why it does not."""
    try:
        sources = [printer.emit(piece, own) for piece, own in pieces(k, s)]
    except AutocompError as e:
        return str(e)
    return [(x.text.partition("*/")[2], x.launch) for x in sources]
