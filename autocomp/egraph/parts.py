"""Reductions in parts on the whole program: a call whose schedule splits its reduction becomes two calls with the states between them.

The states are tensors of the program like any other: they share the arena by their lifetimes, and every runtime and launcher starts
the two kernels as it starts all kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from autocomp.cost.chip import Chip
from autocomp.cost.estimate import estimate
from autocomp.cost.issue import Issued
from autocomp.cost.printed import corrected
from autocomp.cost.work import Cost
from autocomp.ir.kernel import Call, Kernel, KernelGraph
from autocomp.ir.parts import Pieces, pieces
from autocomp.ir.schedule import Schedule

Issues = Callable[[Kernel, Schedule], Issued | None]
Schedules = Mapping[str, tuple[Schedule, Cost]]


def split_calls(calls: KernelGraph, schedules: Schedules, chip: Chip,
                issued: Issues | None = None) -> tuple[KernelGraph, dict[str, tuple[Schedule, Cost]]]:  # fmt: skip
    """The program with every split call as its pieces, and the schedules of all of them by signature. `issued` counts what the target
    prints of a piece, where it does."""
    made = {c.kernel.signature: pieces(c.kernel, schedules[c.kernel.signature][0]) for c in calls.calls
            if c.kernel.signature in schedules and schedules[c.kernel.signature][0].split}  # fmt: skip
    if not made:
        return calls, dict(schedules)
    out = {key: value for key, value in schedules.items() if key not in made}
    for found in made.values():
        out |= {k.signature: (s, _price(k, s, chip, issued)) for k, s in found}
    return expand(calls, lambda signature: made.get(signature, ())), out


def _price(k: Kernel, s: Schedule, chip: Chip, issued: Issues | None) -> Cost:
    """A piece's price as its whole's was taken: by tiles, and by what is printed where that is more."""
    cost, work = estimate(k, s, chip), issued(k, s) if issued else None
    return cost if work is None else corrected(cost, work, chip)


def expand(calls: KernelGraph, pieces_of: Callable[[str], Pieces]) -> KernelGraph:
    """The program with calls of some signatures as several calls; what one of these writes and a later one reads is a new tensor."""
    tensors, out = dict(calls.tensors), []
    for c in calls.calls:
        found = pieces_of(c.kernel.signature)
        if not found:
            out.append(c)
            continue
        args = dict(c.args)
        for k, _ in found:
            for a in k.outputs:
                if a.name not in args:
                    args[a.name] = f"{args[c.kernel.outputs[0].name]}/{a.name}"
                    tensors[args[a.name]] = a.type
            mine = {a.name: args[a.name] for a in (*k.inputs, *k.outputs)}
            out.append(Call(k, mine, c.ops, c.rules, c.name and f"{c.name}, {k.name}", of=c.kernel, computes=c.computes, loop=c.loop))
    return replace(calls, calls=tuple(out), tensors=tensors)


def merged(calls: KernelGraph) -> KernelGraph:
    """The program before `split_calls`: pieces as the calls of which they are."""
    out: list[Call] = []
    tensors = dict(calls.tensors)
    args: dict[str, str] = {}
    for c in calls.calls:
        if c.of is None:
            out.append(c)
            continue
        args |= c.args
        if all(o.name in c.args for o in c.of.outputs):  # the last piece
            mine = {a.name: args.pop(a.name) for a in (*c.of.inputs, *c.of.outputs)}
            out.append(Call(c.of, mine, c.ops, c.rules, c.name.removesuffix(f", {c.kernel.name}"), computes=c.computes,
                            loop=c.loop))  # fmt: skip
            for state in args.values():
                del tensors[state]
            args = {}
    return replace(calls, calls=tuple(out), tensors=tensors)
