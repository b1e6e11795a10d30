"""Kernels of two programs of one model beside each other, by what they compute of it: one that is fused stands beside the three that it
replaces."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autocomp.ir.places import labels_of


@dataclass(frozen=True)
class Beside:
    """Indices of calls of A and of B that make the same things; one side is empty where the other has nothing of it."""

    a: tuple[int, ...]
    b: tuple[int, ...]


def matched(a: Sequence[Iterable[Hashable]], b: Sequence[Iterable[Hashable]]) -> list[Beside]:
    """Calls, given by what each makes, in groups that share it, directly or over others; in the order of A, then of B."""
    parent: dict[Hashable, Hashable] = {}

    def root(x: Hashable) -> Hashable:
        while parent.setdefault(x, x) != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for side, calls in (("a", a), ("b", b)):
        for i, makes in enumerate(calls):
            for m in makes:
                parent[root(("node", m))] = root((side, i))
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for n, (side, calls) in enumerate((("a", a), ("b", b))):
        for i in range(len(calls)):
            groups.setdefault(root((side, i)), ([], []))[n].append(i)
    return [Beside(tuple(x), tuple(y)) for x, y in groups.values()]


def makes(program: Any) -> list[tuple[str, ...]]:
    """Of each call, the nodes of the model that it computes."""
    return [labels_of(program.calls.source, c.computes) for c in program.calls.calls]
