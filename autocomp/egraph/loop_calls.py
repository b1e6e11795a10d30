"""Loops in a program: the calls of a loop's results become the calls of its body, which run once a step.

    t9 = loop(h0, x, w; part 0), t10 = loop(h0, x, w; part 1)
    ->   for t: matmul_add_tanh(loop0/carry 0, loop0/slice 0, w) -> loop0/t4      loop0/t4 lies at t10[t], loop0/carry 0 at t10[t-1]
         t9 = what loop0/t4 was last

The body is a graph like any other: it has its own e-graph, cover, schedules and prices. What all steps read and the model knows is a
parameter of it, so that it is folded and packed once. A carry that is stacked too is read where it was stacked; others lie in two
buffers in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd, prod
from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import Call, Copied, Kernel, KernelGraph, Loop, Place
from autocomp.ir.loop_bodies import replay, unrolled
from autocomp.ir.node import Attrs, Graph, Node, make
from autocomp.ir.ops.loops import NAME, NONE, expected
from autocomp.ir.rounding import round_casts
from autocomp.ir.types import Dim, TensorType

Scheduled = tuple[KernelGraph, dict[str, Any]]


@dataclass
class _Made:
    """What the program becomes."""

    calls: list[Call] = field(default_factory=list)
    tensors: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Graph] = field(default_factory=dict)
    loops: dict[str, Loop] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)  # by signature
    schedules: dict[str, Any] = field(default_factory=dict)
    predicted: float = 0.0

    def kernel(self, k: Kernel) -> Kernel:
        """The one of its signature, under a name of its own."""
        if k.signature not in self.kernels:
            taken, name, n = {x.name for x in self.kernels.values()}, k.name, 1
            while name in taken:
                n += 1
                name = f"{k.name}_{n}"
            self.kernels[k.signature] = replace(k, name=name)
        return self.kernels[k.signature]


def inlined(calls: KernelGraph, schedules: dict[str, Any], compile: Callable[[Graph], Scheduled], aligned: int = 1) -> Scheduled:
    """The program with its loops as calls of their bodies, and the schedules of all kernels. `compile`: a graph -> its kernels and
    schedules; `aligned`: bytes of which the places of slices must be multiples. Raises UnsupportedOp where a body has an op without a
    kernel (`ir.loop_choice` unrolls such loops)."""
    groups: dict[tuple[Any, ...], list[Call]] = {}
    for c in calls.calls:
        if c.kernel.opaque == NAME:
            groups.setdefault(_group(c), []).append(c)
    if not groups:
        return calls, schedules
    made = _Made(tensors=dict(calls.tensors), constants=dict(calls.constants), schedules=dict(schedules), predicted=calls.predicted)
    for c in calls.calls:
        if c.kernel.opaque != NAME:
            made.kernel(c.kernel)
    for c in calls.calls:
        mine = groups.get(_group(c)) if c.kernel.opaque == NAME else None
        if mine is None:
            made.calls.append(c)
        elif mine[0] is c:
            _inline(calls, mine, compile, made, aligned)
    used = {t for c in made.calls for t in c.args.values()} | {t for _, t in calls.outputs} | {
        t for x in made.loops.values() for t in x.touched}  # fmt: skip
    params = tuple(dict.fromkeys(p for p in (*calls.params, *sorted(calls.source.params)) if p in used))
    tensors = {n: t for n, t in made.tensors.items() if n in used or n in calls.inputs}
    constants = {n: g for n, g in made.constants.items() if n in used}
    out = replace(calls, calls=tuple(made.calls), tensors=tensors, params=params, constants=constants, predicted=made.predicted,
                  loops=made.loops)  # fmt: skip
    return out, made.schedules


def _group(c: Call) -> tuple[Any, ...]:
    """Equal for the results of one loop."""
    same = Attrs({k: v for k, v in c.kernel.attrs.items() if k != "part"})
    return same, tuple(c.args[a.name] for a in c.kernel.inputs)


def _inline(calls: KernelGraph, mine: list[Call], compile: Callable[[Graph], Scheduled], made: _Made, aligned: int) -> None:
    """One loop, whose results are made by the calls `mine`."""
    first = mine[0]
    attrs = first.kernel.attrs
    types = tuple(a.type for a in first.kernel.inputs)
    actual = tuple(first.args[a.name] for a in first.kernel.inputs)
    parts = {c.kernel.attrs["part"]: c.args[c.kernel.outputs[0].name] for c in mine}
    c, s = attrs["carried"], attrs["scanned"]
    name = next(n for k in range(len(calls.tensors) + len(made.loops) + 1) if (n := f"loop{k}") not in made.loops
                and not any(t.startswith(f"{n}/") for t in calls.tensors))  # fmt: skip
    graph, leaves = _body(calls, attrs, types, actual, parts, name)
    body, schedules = compile(graph)
    opaque = next((x.kernel.opaque for x in body.calls if x.kernel.by_reference), "")
    if opaque:
        raise UnsupportedOp(f"'{opaque}', in a loop's body, runs through its reference", where=graph.name)
    leaf = {leaves[k]: t for k, t in enumerate(actual) if k in leaves and k >= c + s}
    inside = lambda t: leaf.get(t) or (t if t in body.params else f"{name}/{t}")
    for t, of in body.tensors.items():
        made.tensors.setdefault(inside(t), of)
    made.constants |= {inside(t): g for t, g in body.constants.items()}
    outputs = {n: inside(t) for n, t in body.outputs}
    places: dict[str, Place] = {}
    begins: dict[Copied, None] = {}
    ends: list[Copied] = []
    for part, to in sorted(parts.items()):
        value = outputs.get(f"stacked {part}", "")
        if part >= c and value in places:  # two results that are one value
            ends.append(Copied(to, places[value].memory[0]))
        elif part >= c:
            rows = _apart(made, to, f"{name}/rows of {part}", aligned)
            places[value] = Place((rows,))
            ends += [Copied(to, rows)] if rows != to else []
    for k in range(c):
        new = outputs[f"carry {k}"]
        if new not in places:
            turns = (f"{new}/even", f"{new}/odd")
            places[new] = Place(turns)
            made.tensors |= dict.fromkeys(turns, types[k])
    asked = {t for x in body.calls for t in x.args.values()} | {t for _, t in body.outputs}
    for k in range(c):
        if k in leaves:
            if leaves[k] in asked:  # else no step reads it
                places[inside(leaves[k])] = Place(places[outputs[f"carry {k}"]].memory, before=actual[k])
            if k in parts:
                ends.append(Copied(parts[k], outputs[f"carry {k}"], actual[k]))
    for k in range(c, c + s):
        if leaves[k] not in asked:
            continue
        rows = _apart(made, actual[k], f"{name}/rows of {actual[k]}", aligned)
        places[inside(leaves[k])] = Place((rows,))
        begins |= {Copied(rows, actual[k]): None} if rows != actual[k] else {}
    computes = tuple(sorted({n for x in mine for n in x.computes}))
    for x in body.calls:
        args = {a: inside(t) for a, t in x.args.items()}
        made.calls.append(Call(made.kernel(x.kernel), args, x.ops, x.rules, x.name, expected=x.expected, computes=computes, loop=name))
    made.schedules |= schedules
    made.predicted += body.predicted * expected(attrs["trips"], attrs["condition"] != NONE)
    goes_on = None
    if (k := attrs["condition"]) != NONE:
        goes_on = Place(places[outputs[f"carry {k}"]].memory, before=actual[k])
    made.loops[name] = Loop(attrs["trips"], places, tuple(ends), tuple(begins), goes_on)


def _apart(made: _Made, stacked: str, rows: str, aligned: int) -> str:
    """The stacked tensor, if its steps lie at multiples of `aligned` bytes; else `rows`, in which they do."""
    t = made.tensors[stacked]
    n = prod(d if isinstance(d, int) else d.multiple for d in t.shape[1:]) * t.dtype.bytes
    if n % aligned == 0:
        return stacked
    if all(isinstance(d, int) for d in t.shape[1:]):
        shape: tuple[Dim, ...] = (-(-n // aligned) * aligned // t.dtype.bytes,)
    else:
        shape = (*t.shape[1:], aligned // gcd(aligned, n))
    made.tensors[rows] = TensorType(t.dtype, (t.shape[0], *shape))
    return rows


def _body(calls: KernelGraph, attrs: Attrs, types: tuple[TensorType, ...], actual: tuple[str, ...], parts: Mapping[int, str],
          name: str) -> tuple[Graph, dict[int, str]]:  # fmt: skip
    """The body as a graph, and the names of the inputs that stand for operands: all but what the model knows."""
    c, s = attrs["carried"], attrs["scanned"]
    taken = set(calls.source.params)
    leaves: dict[int, str] = {}
    values: list[Node] = []
    inputs: list[Node] = []
    for k, (t, of) in enumerate(zip(types, actual)):
        if k >= c + s and of in calls.constants:
            values.append(calls.constants[of].outputs[0][1])
            continue
        if k >= c + s and of in calls.params:
            values.append(make("param", (), t, {"name": of}))
            continue
        word = f"carry {k}" if k < c else f"slice {k - c}" if k < c + s else f"all {k - c - s}"
        while word in taken:
            word = "_" + word
        leaves[k] = word
        of_step = TensorType(t.dtype, t.shape[1:]) if c <= k < c + s else t
        values.append(make("input", (), of_step, {"name": word}))
        inputs.append(values[-1])
    results = replay(attrs, values)
    outputs = [(f"carry {k}", n) for k, n in enumerate(results[:c])]
    outputs += [(f"stacked {k}", results[k]) for k in sorted(parts) if k >= c]
    graph = Graph(f"{calls.source.name}/{name}", tuple(inputs), tuple(outputs), calls.source.params)
    graph = decompose(round_casts(unrolled(graph, lambda n: True)))
    return graph, leaves
