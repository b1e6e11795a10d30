"""Nodes that can be ours -> convex groups.

A node's level is the largest number of changes between ours and torch's on a way to it: nodes of ours of one level are one group. A way
that leaves a group and comes back would have changed twice, so groups are convex, and there are as few one after another as there can be.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autocomp.torch_compile.capability import is_number, is_random, is_view, writes

LEAVES = ("placeholder", "get_attr")


def depends(graph: Any) -> dict[Any, list[Any]]:
    """What each node comes behind: its operands, for what writes all that reads or wrote the same before and for what reads it the
    writer, and for what draws random numbers the one before it."""
    behind: dict[Any, list[Any]] = {}
    last_writer: dict[Any, Any] = {}
    readers: dict[Any, list[Any]] = {}
    ordered = None
    for n in graph.nodes:
        operands = n.all_input_nodes
        found = dict.fromkeys(operands)
        found.update(dict.fromkeys(last_writer[i] for i in operands if i in last_writer))
        if writes(n) or is_random(n):
            if ordered is not None:
                found[ordered] = None
            ordered = n
        if writes(n):
            for i in operands:
                found.update(dict.fromkeys(r for r in readers.get(i, ()) if r is not n))
                last_writer[i] = n
        for i in operands:
            readers.setdefault(i, []).append(n)
        behind[n] = list(found)
    return behind


def groups(graph: Any, ours: Callable[[Any], bool]) -> list[list[Any]]:
    """The groups, each in the graph's order. Those that only give other views of what is there are left out."""
    level: dict[Any, int] = {}
    behind = depends(graph)
    found: dict[int, list[Any]] = {}
    for n in graph.nodes:
        if n.op in LEAVES:
            level[n] = 0
            continue
        mine = ours(n)
        if n.target is operator.getitem:
            level[n] = level[n.args[0]]
        else:
            operands = [i for i in behind[n] if i.op not in LEAVES and not (mine and is_number(i))]
            level[n] = max((level[i] + (ours(i) != mine) for i in operands), default=0 if mine else 1)
        if mine:
            found.setdefault(level[n], []).append(n)
    return [with_parts(g) for _, g in sorted(found.items()) if not all(map(is_view, g))]


def with_parts(group: Iterable[Any]) -> list[Any]:
    """The same order, each part of several results right behind what gives it."""
    out: list[Any] = []
    members = dict.fromkeys(group)
    for n in members:
        if n.target is operator.getitem and n.args[0] in members:
            continue
        out.append(n)
        out += [u for u in n.users if u.target is operator.getitem and u in members]
    return out


def halves(group: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Two groups in the place of one, the second behind the first; the second is empty where it cannot be cut."""
    cuts = [k for k in range(1, len(group)) if group[k].target is not operator.getitem]
    if not cuts:
        return list(group), []
    at = min(cuts, key=lambda k: abs(2 * k - len(group)))
    return list(group[:at]), list(group[at:])


def ordered(graph: Any, part_of: Callable[[Any], Any]) -> list[Any]:
    """Nodes and parts in an order in which each comes behind what it reads, as near to the graph's as can be. `part_of`: the part that
    a node is in, or the node itself."""
    place: dict[Any, int] = {}
    item_of: dict[Any, Any] = {}
    members: dict[Any, list[Any]] = {}
    for k, n in enumerate(graph.nodes):
        item = part_of(n)
        item_of[n] = item
        place.setdefault(item, k)
        members.setdefault(item, []).append(n)
    behind = depends(graph)
    # a part reads sizes of its tensors, or of the graph's inputs
    needs = lambda item, n: (i for i in behind[n] if item is n or i.op == "placeholder" or not is_number(i))
    waits = {item: {item_of[i] for n in nodes for i in needs(item, n)} - {item} for item, nodes in members.items()}
    releases: dict[Any, list[Any]] = {}
    for item, needed in waits.items():
        for i in needed:
            releases.setdefault(i, []).append(item)
    left = {item: len(needed) for item, needed in waits.items()}
    ready = [(place[item], item) for item, n in left.items() if not n]
    heapq.heapify(ready)
    out = []
    while ready:
        _, item = heapq.heappop(ready)
        out.append(item)
        for other in releases.get(item, ()):
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (place[other], other))
    assert len(out) == len(left), "groups are convex"
    return out
