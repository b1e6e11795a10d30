"""Where elements lie, as C++ text: digits of a worker's number, elements along combined axes, registers of one layout in another."""

from __future__ import annotations

from typing import Any

from autocomp.errors import UnsupportedOp
from autocomp.tile.layout import Digit, Layout, weights


def digit(var: str, d: Digit, weight: int, level: tuple[Digit, ...]) -> str:
    """(var / weight % count) * stride, without what does nothing."""
    total = 1
    for x in level:
        total *= x.count
    text = f"{var} / {weight}" if weight > 1 else var
    if weight * d.count < total:
        text += f" % {d.count}"
    return f"{text} * {d.stride}" if d.stride != 1 else text


def linear(group: tuple[tuple[str, int], ...], at: Any) -> str:
    """The number of an element along combined axes, innermost first."""
    terms, below = [], 1
    for axis, size in group:
        terms.append(f"({at(axis)})" + (f" * {below}" if below > 1 else ""))
        below *= size
    return " + ".join(terms) or "0"


def along(group: tuple[tuple[str, int], ...], number: str) -> dict[str, str]:
    """The way back from `linear`: each axis' place in element `number`; the outermost takes what is left."""
    out, below = {}, 1
    for i, (axis, size) in enumerate(group):
        text = f"{number} / {below}" if below > 1 else number
        out[axis] = text if i == len(group) - 1 else f"{text} % {size}"
        below *= size
    return out


def _moved(mine: Layout, of: Layout) -> list[tuple[Digit, int, int | None]]:
    """The digits of registers in layout `mine`, each with its weight there and that in layout `of`, None where a lane or a wave has it."""
    where = {(d.axis, d.stride, d.count): w for d, w in weights(of.reg)}
    of_all = [(d, w, where.get((d.axis, d.stride, d.count))) for d, w in weights(mine.reg)]
    return [x for x in of_all if x[2] is not None or not x[0].axis.endswith(" of 1")]  # rows for the instruction's sake are all alike


def register(mine: Layout, of: Layout, r: str, name: str) -> str:
    """Register number in layout `mine` of the element at register `r` of layout `of`."""
    parts = []
    for d, w, there in _moved(mine, of):
        if there is None:
            raise UnsupportedOp(f"{name} would have to move between threads ({mine} and {of})", where="GPU targets")
        text = digit(r, Digit(d.axis, 1, d.count), there, of.reg)
        parts.append(f"({text}) * {w}" if w > 1 else f"({text})")
    return " + ".join(parts) or "0"


def number(mine: Layout, of: Layout, r: int) -> int | None:
    """`register` of register `r`; None where the element is another thread's."""
    out = 0
    for d, w, there in _moved(mine, of):
        if there is None:
            return None
        out += r // there % d.count * w
    return out


def refined(digits: tuple[Digit, ...], like: tuple[Digit, ...]) -> tuple[Digit, ...]:
    """The same elements in the same order, digits cut where those of `like` are."""
    out: list[Digit] = []
    for d in digits:
        cuts = sorted(x.stride for x in like if x.axis == d.axis and d.stride < x.stride < d.stride * d.count)
        edges = [d.stride, *cuts, d.stride * d.count]
        out += [Digit(d.axis, low, high // low) for low, high in zip(edges, edges[1:])]
    return tuple(out)
