"""Loops as front ends make them, and back: a body as nodes, as a graph of its own, or once a step (unrolled).

    finals, stacks = loop(b, [h0], [x], body, trips)        body([h], [x_t]) -> ([new h], [y_t])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.builder import Builder, make_op
from autocomp.ir.node import Attrs, Graph, Node, make
from autocomp.ir.ops.loops import NAME, NONE, Step, attributes
from autocomp.ir.types import DTYPES, Dim, TensorType

Body = Callable[[list[Node], list[Node]], tuple[Sequence[Node], Sequence[Node]]]


def loop(b: Builder, inits: Sequence[Node], stacked: Sequence[Node], body: Body, trips: Dim,
         condition: int = NONE) -> tuple[list[Node], list[Node]]:  # fmt: skip
    """(last carries, stacked results) of `trips` steps; `condition`: the number of a carry without which no further step runs. What a body
    computes from outer nodes alone is computed once, before the loop; a carry that no step changes is no carry. Raises ModelError where
    a carry changes its type, or no step its condition."""
    inits = [_in_memory(b, n) for n in inits]
    names = [b.fresh("carried") for _ in inits]
    carries = [make("input", (), n.type, {"name": f"{k}/{name}"}) for k, (name, n) in enumerate(zip(names, inits))]
    slices = [make("input", (), TensorType(n.type.dtype, n.type.shape[1:]), {"name": f"{k}/{b.fresh('slice')}"})
              for k, n in enumerate(stacked)]  # fmt: skip
    new, out = body(list(carries), list(slices))
    new, out = list(new), list(out)
    for k, (n, init) in enumerate(zip(new, inits, strict=True)):
        if n.type != init.type:
            raise ModelError(f"carry {k} begins as {init.type} and goes on as {n.type}", where=NAME)
    same = {c: init for c, init, n in zip(carries, inits, new) if n is c}
    mine = [k for k, c in enumerate(carries) if c not in same]
    if condition != NONE and condition not in mine:
        raise ModelError("no step changes its condition: it ends at once or never", where=NAME)
    inner = [*(carries[k] for k in mine), *slices]
    number, steps, held = _steps(inner, same, [*(new[k] for k in mine), *out])
    operands = (*(inits[k] for k in mine), *stacked, *held)
    results = tuple(number[n] for n in (*(new[k] for k in mine), *out))
    attrs = {"body": tuple(steps), "dtypes": tuple(n.type.dtype.name for n in operands), "carried": len(mine), "scanned": len(stacked),
             "results": results, "trips": trips, "condition": NONE if condition == NONE else mine.index(condition)}  # fmt: skip
    part = lambda k: make_op(NAME, operands, {**attrs, "part": k})
    last = {k: part(j) for j, k in enumerate(mine)}
    return [last[k] if k in last else inits[k] for k in range(len(inits))], [part(len(mine) + j) for j in range(len(out))]


def _in_memory(b: Builder, n: Node) -> Node:
    """A scalar constant as a parameter: steps read their first value as they read the later ones."""
    return b.param(b.fresh("init"), np.asarray(n.attrs["value"], n.type.dtype.numpy)) if n.op == "const" else n


def _steps(inner: Sequence[Node], same: Mapping[Node, Node], roots: Sequence[Node]) -> tuple[dict[Node, int], list[Step], list[Node]]:
    """Numbers of nodes, the steps that make those that depend on `inner`, and the outer nodes that they read, in order."""
    order = Graph("", (), tuple((str(i), n) for i, n in enumerate(roots))).nodes()
    depends = {*inner}
    outer: dict[Node, Node] = dict(same)  # a carry that stays is what it began as
    for n in order:
        if n not in depends and any(i in depends for i in n.inputs):
            depends.add(n)
        elif n not in depends and n not in outer and any(i in outer and outer[i] is not i for i in n.inputs):
            outer[n] = make(n.op, tuple(outer.get(i, i) for i in n.inputs), n.type, n.attrs)
    held: dict[Node, None] = {}
    wanted = {r for r in roots if r not in depends}
    for n in order:
        if n in depends:
            wanted |= {i for i in n.inputs if i not in depends}
    for n in order:
        if n in wanted and n.op != "const":
            held.setdefault(outer.get(n, n))
    number = {n: k for k, n in enumerate([*inner, *held])}
    for n in order:
        if n in wanted and n.op != "const":
            number[n] = number[outer.get(n, n)]
    steps: list[Step] = []
    for n in order:
        if n.op == "const" and n in wanted and n not in number:
            step: Step = ("const", (), (("dtype", n.type.dtype.name), ("value", n.attrs["value"])))
        elif n in depends and n not in number:
            step = (n.op, tuple(number[i] for i in n.inputs), tuple(n.attrs.items()))
        else:
            continue
        number[n] = len(inner) + len(held) + len(steps)
        steps.append(step)
    return number, steps, list(held)


def replay(attrs: Attrs, values: Sequence[Node]) -> list[Node]:
    """The results of one step as nodes over its carries, slices and what all steps read."""
    made = list(values)
    for step in attrs["body"]:
        op, operands, _ = step
        a = attributes(step)
        if op == "const":
            made.append(make("const", (), TensorType(DTYPES[a["dtype"]], ()), {"value": a["value"]}))
        else:
            made.append(make_op(op, tuple(made[i] for i in operands), a))
    return [made[r] for r in attrs["results"]]


def loops_of(graph: Graph) -> list[Node]:
    """Its loops' nodes, one a result."""
    return [n for n in graph.nodes() if n.op == NAME]


def unrolled(graph: Graph, which: Callable[[Node], bool]) -> Graph:
    """The graph with these loops as their bodies, one behind the other; loops inside of them too. Symbolic trips stay a loop. Steps behind
    the end of a loop with a condition are computed too; what they give is not chosen."""
    done: dict[Node, Node] = {}
    made: dict[tuple[Any, ...], list[Node]] = {}

    def expand(root: Node) -> Node:
        stack = [root]
        while stack:
            n = stack[-1]
            todo = [i for i in n.inputs if i not in done]
            if n in done:
                stack.pop()
                continue
            if todo:
                stack.extend(todo)
                continue
            inputs = tuple(done[i] for i in n.inputs)
            if n.op == NAME and isinstance(n.attrs["trips"], int) and which(n):
                key = (Attrs({k: v for k, v in n.attrs.items() if k != "part"}), inputs)
                if key not in made:
                    made[key] = [expand(r) for r in _turns(n.attrs, inputs)]
                done[n] = made[key][n.attrs["part"]]
            else:
                done[n] = n if all(x is y for x, y in zip(inputs, n.inputs)) else make(n.op, inputs, n.type, n.attrs)
            stack.pop()
        return done[root]

    outputs = tuple((name, expand(n)) for name, n in graph.outputs)
    where = {done[n]: text for n, text in graph.locations.items() if n in done}
    return replace(graph, outputs=outputs, locations=where)


def _turns(attrs: Attrs, inputs: tuple[Node, ...]) -> list[Node]:
    """All results of a loop of a known number of steps, without a loop."""
    c, s, trips = attrs["carried"], attrs["scanned"], attrs["trips"]
    carries, rest = list(inputs[:c]), inputs[c + s :]
    stacks: list[list[Node]] = [[] for _ in attrs["results"][c:]]
    for t in range(trips):
        results = replay(attrs, [*carries, *(_slice(x, t) for x in inputs[c : c + s]), *rest])
        if attrs["condition"] == NONE:
            carries = results[:c]
        else:
            goes_on = carries[attrs["condition"]]
            carries = [_chosen(goes_on, new, old) for new, old in zip(results, carries)]
        for into, x in zip(stacks, results[c:], strict=True):
            into.append(make_op("reshape", (x,), {"shape": (1, *x.type.shape)}))
    if not trips and stacks:
        raise ModelError("stacks the results of no step", where=NAME)
    return [*carries, *(x[0] if len(x) == 1 else make_op("concat", tuple(x), {"axis": 0}) for x in stacks)]


def _chosen(condition: Node, new: Node, old: Node) -> Node:
    """`new` where the condition, one truth value, holds, else `old`."""
    shape = new.type.shape
    return make_op("where", (make_op("broadcast", (condition,), {"shape": shape}) if shape else condition, new, old), {})


def _slice(x: Node, t: int) -> Node:
    """x[t]"""
    shape = x.type.shape
    cut = make_op("slice", (x,), {"starts": (t, *(0 for _ in shape[1:])), "limits": (t + 1, *shape[1:]), "steps": (1,) * len(shape)})
    return make_op("reshape", (cut,), {"shape": shape[1:]})
