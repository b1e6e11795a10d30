"""The calls of a program by the model's own names, each layer that repeats once: 'layers.1 to layers.10: the same 8 kernels, 10 times'."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autocomp.ir.places import places_of, short, summary

if TYPE_CHECKING:
    from autocomp.ir.kernel import Call

LONGEST = 256  # calls of a layer that is looked for
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Run:
    """Calls `first` to `first + length * times`: `times` times the same kernels in the same order."""

    first: int
    length: int
    times: int


@dataclass(frozen=True)
class Layer:
    """Calls in order that the program makes `times` times one behind the other. `name`: what the model calls them all, `names` each."""

    name: str
    calls: tuple[Call, ...]
    times: int
    names: tuple[str, ...] = ()


def model_places(program: Any, call: Call, views: bool = False) -> tuple[str, ...]:
    """What the model calls the nodes that a call computes. Without `views`, those that only arrange elements are left out."""
    return places_of(program.calls.source, call.computes, views)


def model_text(program: Any, call: Call, most: int = 4) -> str:
    """The same in one line; empty where the model has no names (graphs as text)."""
    return summary(model_places(program, call), most)


def called(program: Any, kernel: str, most: int = 12) -> list[str]:
    """What the model calls the nodes that each call of a kernel computes, a line a call that has names."""
    return [t for c in program.calls.calls if c.kernel.name == kernel and (t := model_text(program, c, most))]


def runs(kernels: Sequence[str], places: Sequence[Sequence[str]] = ()) -> list[Run]:
    """The calls in order, as runs that repeat where they do: of those that begin at a call the one that covers most, the shortest first.
    With `places` (the model's names of each call) a run begins where the model's layers begin."""
    out: list[Run] = []
    i, n = 0, len(kernels)
    while i < n:
        best = Run(i, 1, 1)
        for length in range(1, min(LONGEST, (n - i) // 2) + 1):
            times = 1
            while kernels[i + times * length : i + (times + 1) * length] == kernels[i : i + length]:
                times += 1
            if times > 1 and times * length > best.times * best.length:
                best = Run(i, length, times)
        if best.times > 1 and places:
            best = _at_layers(best, kernels, places)
        out += [*(Run(k, 1, 1) for k in range(i, best.first)), best]
        i = best.first + best.length * best.times
    return out


def _at_layers(r: Run, kernels: Sequence[str], places: Sequence[Sequence[str]]) -> Run:
    """The run begun elsewhere: kernels behind it may belong to it as well, and of the places at which it can begin that one is taken at
    which most kernels of a layer have the layer's name."""
    end = r.first + r.length * r.times
    while end < len(kernels) and kernels[end] == kernels[end - r.length]:
        end += 1
    ways = [Run(r.first + k, r.length, (end - r.first - k) // r.length) for k in range(r.length)]
    return max((w for w in ways if w.times > 1), key=lambda w: (_named(w, places), w.times, -w.first), default=r)


def _named(r: Run, places: Sequence[Sequence[str]]) -> float:
    """Of the calls of each layer, how many have the name of most, on the average."""
    same = 0
    for k in range(r.first, r.first + r.length * r.times, r.length):
        said = [p[0][: m.end()] for p in places[k : k + r.length] if p and (m := _NUMBER.search(p[0]))]
        same += max(map(said.count, said), default=0)
    return round(same / r.times, 6)


def folded(program: Any) -> list[Layer]:
    """The calls in order, layers that repeat once."""
    calls = program.calls.calls
    out = []
    kernels = [c.kernel.signature for c in calls]
    for r in runs(kernels, _places(program, calls)):
        body = tuple(calls[r.first : r.first + r.length])
        if r.times == 1:
            out.append(Layer(model_text(program, body[0]), body, 1))
            continue
        each = [calls[r.first + k * r.length : r.first + (k + 1) * r.length] for k in range(r.times)]
        names = _names([_places(program, layer) for layer in each])
        out.append(Layer(f"{names[0]} to {names[-1]}" if names[0] != names[-1] else names[0], body, r.times, names))
    return out


def layer_lines(program: Any) -> list[str]:
    """The calls by the model's names, a line each; nothing where the model has none."""
    layers = folded(program)
    if not any(x.name for x in layers):
        return []
    line = lambda c, name: f"{name or ' '.join(c.ops)}: {c.kernel.name}"
    lines = []
    for x in layers:
        if x.times == 1:
            lines.append(line(x.calls[0], x.name))
            continue
        same = f"the same {len(x.calls)} kernels" if len(x.calls) > 1 else "the same kernel"
        lines += [f"{x.name}: {same}, {x.times} times", *(f"  {line(c, model_text(program, c))}" for c in x.calls)]
    return lines


def _places(program: Any, layer: Sequence[Call]) -> list[list[str]]:
    """The model's names of some calls; of a graph as text, which names no node, the parameters that they read."""
    if program.calls.source.locations:
        return [[short(p) for p in model_places(program, c)] for c in layer]
    params = set(program.calls.params)
    return [[t for t in c.args.values() if t in params] for c in layer]


def _names(places: Sequence[Sequence[Sequence[str]]]) -> tuple[str, ...]:
    """What the model calls each of some layers that are alike, by the places of their calls: 'layers.1' of 'layers.1.norm', a name up to
    the first number in which the first and the last differ; else what each of them computes (the same of all in a loop that was
    unrolled)."""
    for i, (first, last) in enumerate(zip(places[0], places[-1], strict=True)):
        for j, (x, y) in enumerate(zip(first, last, strict=False)):
            for n, (a, b) in enumerate(zip(_NUMBER.finditer(x), _NUMBER.finditer(y), strict=False)):
                if x[: a.start()] == y[: b.start()] and a[0] != b[0] and all(len(p[i]) > j for p in places):
                    return tuple(_up_to(p[i][j], n) for p in places)
    return tuple(summary(dict.fromkeys(p for c in layer for p in c)) for layer in places)


def _up_to(name: str, n: int) -> str:
    """A name up to its number `n`, counted from 0."""
    numbers = [*_NUMBER.finditer(name)]
    begun = name[: numbers[n].end()] if n < len(numbers) else name
    return begun + ")" * (begun.count("(") - begun.count(")"))
