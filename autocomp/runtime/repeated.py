"""Loops of programs whose kernels the host launches one by one: where the tensors of a body lie at a step, and what is copied around it.

    begins;  for s in range(trips): launches of the body over the addresses of step s;  ends
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from autocomp.ir.kernel import KernelGraph
from autocomp.ir.types import Sym
from autocomp.runtime.plan import size_of


@dataclass(frozen=True)
class Rows:
    """`rows` rows of `width` bytes, copied between places that are so many bytes apart. `at`: bytes before the first row that is read."""

    to: str
    of: str
    rows: int
    width: int
    to_apart: int
    of_apart: int
    at: int = 0


@dataclass(frozen=True)
class Repeated:
    """A loop, ready to start: its launches at step 0 and at later steps, which differ in what may start early.

    table: for each tensor of the body that is not alike in all steps, the tensor of the program where it lies at step 0, (one, bytes
    behind its beginning) at odd steps and at even ones, and the bytes that are added for each step.
    graphs: an executor's own, by addresses.
    """

    trips: int
    first: Sequence[Any]
    later: Sequence[Any]
    table: tuple[tuple[str, str, tuple[tuple[str, int], ...], int], ...]
    begins: tuple[Rows, ...]
    ends: tuple[Rows, ...]
    graphs: dict[tuple[int, ...], Any] = field(default_factory=dict, init=False, compare=False)

    def addresses(self, pointers: Mapping[str, int], step: int) -> dict[str, int]:
        """Of the body's tensors at a step."""
        out = {}
        for tensor, begins, (odd, even), apart in self.table:
            memory, behind = odd if step & 1 else even
            out[tensor] = pointers[memory] + behind + step * apart if step else pointers[begins]
        return out

    @property
    def memory(self) -> tuple[str, ...]:
        """Tensors of the program by which its addresses are told."""
        read = [t for one in self.first for t in (*one.arguments, *(z for z, _ in one.zeroed), *(m for _, m in one.maps))]
        read += [x for _, begins, later, _ in self.table for x in (begins, *(memory for memory, _ in later))]
        read += [x for r in (*self.begins, *self.ends) for x in (r.to, r.of)]
        return tuple(x for x in dict.fromkeys(read) if x not in {t for t, *_ in self.table})


def trips_of(g: KernelGraph, name: str, values: Mapping[str, int]) -> int:
    """Steps of a loop."""
    trips = g.loops[name].trips
    return values[trips.name] if isinstance(trips, Sym) else trips


def repeated(g: KernelGraph, name: str, values: Mapping[str, int], first: Sequence[Any] = (), later: Sequence[Any] = ()) -> Repeated:
    """A loop for these sizes."""
    loop, trips = g.loops[name], trips_of(g, name, values)
    table = []
    for tensor, place in loop.places.items():
        apart = step_bytes(g, place.memory[0], values) if len(place.memory) == 1 else 0
        odd, even = (place.at(step)[0] for step in (1, 2))
        back = -apart if place.before else 0
        table.append((tensor, place.at(0)[0], ((odd, back), (even, back)), apart))
    begins = tuple(_rows(g, e.to, e.of, trips, values) for e in loop.begins)
    ends = []
    for e, (to, of, at) in zip(loop.ends, loop.filled(trips), strict=True):
        if e.first:
            size = size_of(g.tensors[to], values)
            ends.append(Rows(to, of, 1, size, size, size, at * step_bytes(g, of, values) if at else 0))
        else:
            ends.append(_rows(g, to, of, trips, values))
    return Repeated(trips, first, later, tuple(table), begins, tuple(ends))


def step_bytes(g: KernelGraph, memory: str, values: Mapping[str, int]) -> int:
    """Bytes from step to step of a tensor along whose first axis the steps lie."""
    t = g.tensors[memory]
    return prod(values[d.name] if isinstance(d, Sym) else d for d in t.shape[1:]) * t.dtype.bytes


def _rows(g: KernelGraph, to: str, of: str, trips: int, values: Mapping[str, int]) -> Rows:
    apart = step_bytes(g, to, values), step_bytes(g, of, values)
    if apart[0] == apart[1]:
        return Rows(to, of, 1, trips * apart[0], trips * apart[0], trips * apart[0])
    return Rows(to, of, trips, min(apart), *apart)
