"""Steps: the plan of a block before any of it is text. The statements of a tile program in their order, and what schemes have made of them.

A scheme (TMA stores, prefetching, warp specialisation, ..) is a pass, steps -> steps, that a target keeps in a file of the scheme's name.
It moves, drops or groups steps, puts acts beside them, or says at a step how it is done. What it says is a record of its own (`Scheme`),
which the target's writer spells; `show` is the same for people.

    grid i0, i1                      grid i0, i1
      acc = fill 0                     serial r0
      serial r0               ->         a = copy x; b = copy y
        a = copy x; b = copy y           acc += mma a, b
        acc += mma a, b                    | its first turn overwrites
      store out = acc                  store out = acc
                                         | by TMA in boxes of 64 x 64
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from autocomp.tile.program import Loop, Stmt, TileProgram, walk
from autocomp.tile.text import show_stmt


@dataclass(frozen=True)
class Scheme:
    """What a pass says of a step. `says`: the same for people, in one line, with its fields as {0.field}."""

    says: ClassVar[str] = ""

    @property
    def said(self) -> str:
        """In one line, for people."""
        return self.says.format(self)

    @property
    def does(self) -> tuple[Stmt, ...]:
        """Statements of the program that this does in place of steps of their own."""
        return ()


S = TypeVar("S", bound=Scheme)


@dataclass(frozen=True)
class Do:
    """A statement of the program, done as `how` says."""

    stmt: Stmt
    how: tuple[Scheme, ...] = ()


@dataclass(frozen=True)
class Act:
    """What a scheme does beside the program's statements."""

    what: Scheme


@dataclass(frozen=True)
class Over:
    """Steps of a loop of the program; without one, steps that a scheme has grouped."""

    body: tuple[Step, ...]
    loop: Loop | None = None
    how: tuple[Scheme, ...] = ()


Step = Do | Act | Over
N = TypeVar("N", bound=Do | Act | Over)
Steps = tuple[Step, ...]


def steps_of(body: Iterable[Loop | Stmt | Step]) -> Steps:
    """Statements and loops of a program as steps; those that are stay."""
    return tuple(
        Over(steps_of(n.body), n) if isinstance(n, Loop) else Do(n) if isinstance(n, Stmt) else n for n in body
    )  # fmt: skip


def by(n: Step, kind: type[S]) -> S | None:
    """What a scheme says of a step, or does there, if it does."""
    return next((x for x in ((n.what,) if isinstance(n, Act) else n.how) if isinstance(x, kind)), None)


def stmt_of(n: Step) -> Stmt | None:
    """The statement that a step does, if it does one."""
    return n.stmt if isinstance(n, Do) else None


def sayings(steps: Iterable[Step]) -> Iterator[Scheme]:
    """All that schemes say of steps and do among them."""
    for n in steps:
        yield from (n.what,) if isinstance(n, Act) else n.how
        if isinstance(n, Over):
            yield from sayings(n.body)


def told(n: N, *what: Scheme) -> N:
    """The step with more said of it; what a scheme does is its own."""
    return n if isinstance(n, Act) else replace(n, how=(*n.how, *what))


def restated(n: Over, old: Scheme, new: Scheme, *more: Scheme) -> Over:
    """The loop with one thing said in another way, and more."""
    return replace(n, how=(*(new if x is old else x for x in n.how), *more))


def inside(steps: Iterable[Step]) -> Iterator[Stmt]:
    """The statements of steps, in order."""
    for n in steps:
        if isinstance(n, Do):
            yield n.stmt
        elif isinstance(n, Over):
            yield from inside(n.body)


def of_program(n: Step) -> Iterator[Stmt]:
    """The program's statements that a step stands for, also those that schemes have taken out of its loop."""
    return (s for s, _ in walk(n.loop.body)) if isinstance(n, Over) and n.loop is not None else inside((n,))


def each(steps: Steps, change: Callable[[Step], Step]) -> Steps:
    """Every step that is no group of others, changed."""
    return tuple(replace(n, body=each(n.body, change)) if isinstance(n, Over) else change(n) for n in steps)


def bodies(steps: Steps, change: Callable[[Steps], Steps]) -> Steps:
    """Every sequence of steps, those inside of others first, changed."""
    return change(tuple(replace(n, body=bodies(n.body, change)) if isinstance(n, Over) else n for n in steps))


def loops(steps: Steps, change: Callable[[Over, Loop], Over]) -> Steps:
    """Every loop of the program, those inside of others first, changed."""
    here = lambda n: change(n, n.loop) if isinstance(n, Over) and n.loop is not None else n
    return bodies(steps, lambda body: tuple(map(here, body)))


def of_tile(steps: Steps, change: Callable[[Steps], Steps]) -> Steps:
    """The steps of a tile changed: what stands in the grid's loop, where there is one."""
    return tuple(replace(n, body=change(n.body)) for n in steps if isinstance(n, Over)) if is_grid(steps[0]) else change(steps)


def is_grid(n: Step) -> bool:
    """Whether a step is the loop over a grid's tiles, which a program has as its only step."""
    return isinstance(n, Over) and n.loop is not None and n.loop.kind == "grid"


def show(p: TileProgram, steps: Sequence[Step], indent: str = "") -> str:
    """The steps of a program as text."""
    out = []
    for n in steps:
        head, how = "", () if isinstance(n, Act) else n.how
        if isinstance(n, Act):
            head = n.what.said
        elif isinstance(n, Do):
            head = show_stmt(p, n.stmt)
        elif n.loop is not None:
            head = " ".join((n.loop.kind, ", ".join(n.loop.axes), *(f"{k}={v}" for k, v in n.loop.opts)))
        else:
            head, how = how[0].said, how[1:]
        out += [f"{indent}{head}\n", *(f"{indent}  | {x.said}\n" for x in how)]
        if isinstance(n, Over):
            out.append(show(p, n.body, indent + "  "))
    return "".join(out)
