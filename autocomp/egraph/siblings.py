"""Kernels beside each other become one: two that are computed over one domain and read the same tensor.

    s[i] = sum_r x[i, r]        m[i] = max_r x[i, r]        ->   one kernel that stores both and reads x once

A fusion rule `beside(store(?j), store(?k)) -> store(?j, ?k)` says which kernels may; of those that it admits the pair is joined whose one
kernel, with the best schedule of its own, is cheaper than both by the cost model. A cover cannot find these: its kernels are bodies of one
tensor and of what lies inside of it, and neither of two siblings lies inside the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Any

from autocomp.cost.chip import Chip
from autocomp.cost.scalar import SCALAR
from autocomp.cost.work import Cost
from autocomp.deadline import current
from autocomp.egraph import choose
from autocomp.egraph.bodies import numbered, renamed, signature
from autocomp.egraph.grammar import load_grammar
from autocomp.egraph.kernel_memo import ScheduleMemo
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Expr, Gather, Load, Map, Recurrence, Reduce, bound_axes, postorder, rewrite, substitute
from autocomp.ir.checks import check_kernel_graph
from autocomp.ir.kernel import Arg, Call, Kernel, KernelGraph, Store
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import Dim
from autocomp.options import Options
from autocomp.rewrite.functions import tensor_functions
from autocomp.rewrite.laws import is_sibling
from autocomp.rewrite.rule import Rule, RuleSet
from autocomp.rewrite.where import Env, holds
from autocomp.trace import Trace

Schedules = dict[str, tuple[Schedule, Cost]]
MOST = 8  # tensors that one kernel stores
NEAR = 24  # calls from one to the other: what lies between waits for the later one, and tensors live as long
GAIN = 0.99  # of both kernels' seconds that their one takes at most: less is within what the model can tell apart
KINDS = {"E", "S", "N", "C"}  # bodies whose siblings rules may name; products by constants are put side by side in the graph


@dataclass(frozen=True)
class _Side:
    """What a condition may ask of ?j or ?k: a kernel, and the tensors that its arguments are."""

    kernel: Kernel
    args: Mapping[str, str]


def joined(calls: KernelGraph, schedules: Schedules, rules: RuleSet, chip: Chip, options: Options, trace: Trace,
           admit: choose.Admit | None = None, memo: ScheduleMemo | None = None,
           issued: choose.Issues | None = None) -> tuple[KernelGraph, Schedules]:  # fmt: skip
    """The program with siblings joined as long as that makes it cheaper, and the schedules of its kernels."""
    mine = [r for r in rules.of("fusion", chip.target) if is_sibling(r)]
    if not mine:
        return calls, schedules
    refused: set[frozenset[str]] = set()  # pairs of signatures
    schedules = dict(schedules)
    begun, found = calls, True
    while found and not current().passed("siblings", "kernels beside each other"):
        found = False
        for one, other, *over in _pairs(calls):
            pair = frozenset((one.kernel.signature, other.kernel.signature))
            around = None if pair in refused else _around(calls.calls, one, other)
            rule = None if around is None else _admitted(mine, one, other, options)
            if around is None or rule is None:
                continue
            new = _together(one, other, over, rule, {c.kernel.name for c in calls.calls})
            told = Trace()
            best = choose.choose_schedules([new.kernel], rules, chip, options, told, admit, memo, {}, issued).get(new.kernel.signature)
            scalar = [schedules[c.kernel.signature][0].instruction == SCALAR for c in (one, other)]
            if best is None or (best[0].instruction == SCALAR and not all(scalar)):  # the target prints none, or element after element
                refused.add(pair)
                continue
            apart = sum(schedules[c.kernel.signature][1].seconds for c in (one, other))
            if best[1].seconds > GAIN * apart:
                refused.add(pair)
                together = f"as one kernel {best[1].seconds * 1e6:.3g}"
                trace.add("reject", rule.name, phase="fusion", count=1,
                          reason=f"{one.kernel.name} and {other.kernel.name} take {apart * 1e6:.3g} us, {together}")  # fmt: skip
                continue
            trace.add("rule", rule.name, phase="fusion", count=1)
            trace.events += told.events
            known = next((c.kernel for c in calls.calls if c.kernel.signature == new.kernel.signature), None)
            if known is not None:
                new = replace(new, kernel=known, name=known.name)
            schedules[new.kernel.signature] = best
            in_front, behind = around
            calls, found = replace(calls, calls=(*in_front, new, *behind), predicted=calls.predicted - apart + best[1].seconds), True
            break
    if calls is not begun:
        check_kernel_graph(calls)
    return calls, {s: schedules[s] for s in dict.fromkeys(c.kernel.signature for c in calls.calls if not c.kernel.opaque)}


def _pairs(calls: KernelGraph) -> Iterator[tuple[Call, Call, Kernel, Kernel]]:
    """Calls over one domain, at most NEAR apart, that read one tensor as one type, in the order of the program; and their kernels over the
    same axes."""
    groups: dict[Dim, list[tuple[int, Call]]] = {}
    outputs = dict(calls.outputs)
    given = [w for w in calls.source.written if not w.copied]
    in_place = {t for w in given for t in (w.input, outputs[w.output])}  # kernels that write there read nothing else of it
    for n, c in enumerate(calls.calls):
        if c.kernel.kind in KINDS and in_place.isdisjoint(c.args.values()) and not _apart(c.kernel):
            groups.setdefault(_points(c.kernel), []).append((n, c))
    near = [(i, j, one, other) for g in groups.values() for (i, one), (j, other) in combinations(g, 2) if j - i <= NEAR]
    for _, _, one, other in sorted(near, key=lambda x: x[:2]):
        if len(one.kernel.outputs) + len(other.kernel.outputs) > MOST or _read(one).isdisjoint(_read(other)):
            continue
        a, b = _over(one.kernel, other.kernel), _over(other.kernel, one.kernel)
        if [x.extent for x in a.axes] == [x.extent for x in b.axes] and _shared(one, other, a, b):
            yield one, other, a, b


def _apart(k: Kernel) -> bool:
    """Whether a kernel is printed in forms that are for it alone: recurrences, and windows that reach over an edge."""
    nodes = [e for s in k.stores for e in postorder(s.value)]
    folded = [x for e in nodes if isinstance(e, Reduce) for x in postorder(*e.args)]
    return any(isinstance(e, Recurrence) for e in nodes) or any(isinstance(x, Load) and x.guard for x in folded)


def _points(k: Kernel) -> Dim:
    """Of the domain; of one with named dimensions the first extent, which its siblings have too."""
    extents = [a.extent for a in k.axes]
    known = [x for x in extents if isinstance(x, int)]
    return prod(known) if len(known) == len(extents) else extents[0]


def _over(k: Kernel, other: Kernel) -> Kernel:
    """A kernel over one axis as one over as many axes as `other`, where it has as many points; else the kernel itself. The tensors of an
    element-wise one are seen with these axes, those of a product are read and stored where they were.

        y[i] = f(x[i])               over i:12   ->   y[i, j] = f(x[i, j])                       over i:3 j:4
        y[i] = sum_r x[r] * w[i, r]              ->   y[4*i + j] = sum_r x[r] * w[4*i + j, r]
    """
    here = aff(k.axes[0].name) if k.axes else None
    extents = [a.extent for a in other.axes if isinstance(a.extent, int)]
    if k.kind not in "EC" or here is None or len(k.axes) != 1 or len(extents) < 2 or k.axes[0].extent != prod(extents):
        return k
    loads = [e for s in k.stores for e in postorder(s.value) if isinstance(e, Load)]
    whole = {e.tensor for e in loads if e.index == (here,)} | {s.tensor for s in k.stores if s.index == (here,)}
    odd = any(here.names() & i.names() and e.index != (here,) for e in loads for i in e.index) or {s.tensor for s in k.stores} - whole
    if odd and k.kind == "E":
        return k
    whole = whole if k.kind == "E" else set()
    if any(isinstance(e, Gather) for s in k.stores for e in postorder(s.value)):
        return k
    axes = tuple(Axis(f"d{n}", x) for n, x in enumerate(extents))
    index = tuple(aff(a.name) for a in axes)
    flat = sum((i * prod(extents[n + 1 :]) for n, i in enumerate(index)), aff(0))
    by = {k.axes[0].name: flat}

    def one(e: Expr) -> Expr:
        if isinstance(e, Load) and e.tensor in whole:
            return replace(e, index=index)
        return e

    arg = lambda a: replace(a, type=replace(a.type, shape=tuple(extents))) if a.name in whole else a
    place = lambda s: index if s.tensor in whole else tuple(i.substitute(by) for i in s.index)
    guard = lambda s: tuple(g.substitute(by) for g in s.guard)
    stores = tuple(replace(s, index=place(s), guard=guard(s), value=rewrite(substitute(s.value, by), one)) for s in k.stores)
    return replace(k, axes=axes, inputs=tuple(map(arg, k.inputs)), outputs=tuple(map(arg, k.outputs)), stores=stores)


def _shared(one: Call, other: Call, a: Kernel, b: Kernel) -> dict[str, str]:
    """Arguments of the kernel b of `other` that are tensors, of the same type, that a of `one` reads -> their names there."""
    known = {(one.args[x.name], x.type): x.name for x in a.inputs}
    return {x.name: known[key] for x in b.inputs if (key := (other.args[x.name], x.type)) in known}


def _admitted(rules: list[Rule], one: Call, other: Call, options: Options) -> Rule | None:
    """The first rule whose conditions hold for the pair."""
    env = Env({"j": _Side(one.kernel, one.args), "k": _Side(other.kernel, other.args)}, _functions(options))
    return next((r for r in rules if holds(r.where, env)), None)


def _functions(options: Options) -> dict[str, Callable[..., Any]]:
    """What conditions of sibling rules may ask (`rewrite.laws.SIBLING_ASKS`)."""
    names = load_grammar().names
    return tensor_functions(options) | {
        "kind": lambda x: names[x.kernel.kind],
        "ops": lambda x: sum(isinstance(e, (Map, Reduce)) for e in postorder(*(s.value for s in x.kernel.stores))),
        "reads": lambda x: sum(a.type.bytes for a in x.kernel.inputs),
        "elements": lambda x: x.kernel.outputs[0].type.elements,
        "bytes": lambda x: x.kernel.outputs[0].type.bytes,
        "gigabytes": lambda x: x.kernel.outputs[0].type.bytes / 1e9,
        "dtype": lambda x: x.kernel.outputs[0].type.dtype.name,
        "rank": lambda x: x.kernel.outputs[0].type.rank,
        "shared": lambda j, k: sum(a.type.bytes for a in j.kernel.inputs if j.args[a.name] in {k.args[b.name] for b in k.kernel.inputs}),
    }  # fmt: skip


def _together(one: Call, other: Call, over: Sequence[Kernel], rule: Rule, taken: set[str]) -> Call:
    """The call that computes what both do: the first one's arguments, then what only the second one has."""
    a, b = over
    shared = _shared(one, other, a, b)
    tensors = dict(shared)
    args = dict(one.args)
    inputs, outputs = list(a.inputs), list(a.outputs)
    for x in b.inputs:
        if x.name not in shared:
            tensors[x.name] = f"in{len(inputs)}"
            inputs.append(Arg(tensors[x.name], x.type, x.constant))
            args[tensors[x.name]] = other.args[x.name]
    place = {old.name: new.name for old, new in zip(b.axes, a.axes)}
    folded = {x.name for s in a.stores for x in bound_axes(s.value)}
    for axis in (x for s in b.stores for x in bound_axes(s.value)):
        place.setdefault(axis.name, f"r{len(folded) + sum(v[0] == 'r' for v in place.values())}")
    by = {old: aff(new) for old, new in place.items()}
    stores = list(a.stores)
    for out, s in zip(b.outputs, b.stores):
        name = f"out{len(outputs)}"
        outputs.append(Arg(name, out.type))
        args[name] = other.args[out.name]
        stores.append(Store(name, tuple(i.substitute(by) for i in s.index), renamed(s.value, place, tensors),
                            tuple(g.substitute(by) for g in s.guard)))  # fmt: skip
    kind = a.kind if a.kind == b.kind else "N"
    kernel = numbered(replace(a, name=_name(a, b, taken), kind=kind, inputs=tuple(inputs), outputs=tuple(outputs), stores=tuple(stores)))
    kernel = replace(kernel, signature=signature(kernel))
    why = f"{rule.name}: {other.kernel.name} beside {one.kernel.name}"
    return Call(kernel, args, one.ops + other.ops, (*one.rules, *other.rules, why), kernel.name,
                body=tuple(sorted({*one.body, *other.body})), computes=tuple(sorted({*one.computes, *other.computes})),
                expected=one.expected + other.expected)  # fmt: skip


def _name(a: Kernel, b: Kernel, taken: set[str]) -> str:
    """`sin_and_exp`; `sin_and_2more` of several."""
    first, _, more = a.name.partition("_and_")
    n = int(more.removesuffix("more")) if more.endswith("more") and more[:-4].isdigit() else bool(more)
    name = f"{first}_and_{n + 1}more" if n or len(b.name) > len(first) + 8 else f"{first}_and_{b.name}"
    unique, k = name, 1
    while unique in taken:
        k += 1
        unique = f"{name}_{k}"
    return unique


def _around(calls: tuple[Call, ...], one: Call, other: Call) -> tuple[list[Call], list[Call]] | None:
    """The calls in front of and behind one in the place of both; None where the second needs the first, or a call between that does."""
    first, second = (next(n for n, c in enumerate(calls) if c is x) for x in (one, other))
    in_front, late, made = list(calls[:first]), list[Call](), _made(one)
    for c in calls[first + 1 : second]:
        if made.isdisjoint(_read(c)):
            in_front.append(c)
        else:
            late.append(c)
            made |= _made(c)
    return (in_front, [*late, *calls[second + 1 :]]) if made.isdisjoint(_read(other)) else None


def _made(c: Call) -> set[str]:
    return {c.args[a.name] for a in c.kernel.outputs}


def _read(c: Call) -> set[str]:
    return {c.args[a.name] for a in c.kernel.inputs}

