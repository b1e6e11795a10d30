"""What must hold behind every pass over steps: each statement of the program is done, once, in the loops that are around it in the
program, and in an order in which a value is made before it is read and read before it is made anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from autocomp.errors import AutocompError
from autocomp.tile.program import Stmt
from autocomp.tile.steps import Act, Do, Over, Steps

Key = tuple[int, tuple[int, ...]]  # a statement and the loops around it, by identity: one may stand in two of them


def require(forms: Sequence[tuple[str, Steps]], kernel: str) -> None:
    """Raises AutocompError where a pass has spoilt the steps, which is an error of the compiler. `forms`: (pass, steps behind it), the
    program first."""
    if not problems(forms[0][1], forms[-1][1]):
        return
    name, found = next((name, found) for name, steps in forms if (found := problems(forms[0][1], steps)))
    raise AutocompError(f"the pass {name} is wrong: {found[0]}", where=f"kernel {kernel}",
                        hint="this is an error of the compiler; another schedule may avoid it")  # fmt: skip


def problems(program: Steps, steps: Steps) -> list[str]:
    """What does not hold, by statement."""
    wanted = [(s, key) for s, key, _ in _places(program)]
    keys, known = Counter(key for _, key in wanted), {id(s) for s, _ in wanted}
    at: dict[Key, int] = {}  # the first place of each
    instead: dict[int, int] = {}  # of those that a scheme does
    own: Counter[Key] = Counter()
    out = []
    for k, (s, key, alone) in enumerate(_places(steps)):
        if id(s) not in known:
            out.append(f"{_called(s)} is no statement of the program")
        elif not alone:
            instead.setdefault(id(s), k)
        else:
            own[key] += 1
            at.setdefault(key, k)
            out += [f"{_called(s)} stands in other loops"] * (key not in keys)
    place = lambda key: at.get(key, instead.get(key[0]))
    out += [f"{_called(s)} is lost" for s, key in wanted if place(key) is None]
    out += [f"{_called(s)} is done twice" for s, key in dict(((key, (s, key)) for s, key in wanted)).values() if own[key] > keys[key]]
    return out or list(_order([(s, place(key) or 0) for s, key in wanted]))


def _places(steps: Steps, loops: tuple[int, ...] = ()) -> Iterator[tuple[Stmt, Key, bool]]:
    """Statements in the order of the steps; whether a step of its own does it."""
    for n in steps:
        for x in (n.what,) if isinstance(n, Act) else n.how:
            yield from ((s, (id(s), loops), False) for s in x.does)
        if isinstance(n, Do):
            yield n.stmt, (id(n.stmt), loops), True
        elif isinstance(n, Over):
            yield from _places(n.body, (*loops, id(n.loop)) if n.loop else loops)


def _order(program: list[tuple[Stmt, int]]) -> Iterator[str]:
    """Statements of a program that come before one that they must follow, by their places."""
    made: dict[str, tuple[Stmt, int]] = {}
    read: dict[str, list[tuple[Stmt, int]]] = defaultdict(list)
    for s, at in program:
        before = [made[x] for x in dict.fromkeys((*s.srcs, s.dst)) if x in made] + read[s.dst]
        yield from (f"{_called(s)} comes before {_called(x)}" for x, place in before if place > at)
        made[s.dst], read[s.dst] = (s, at), []
        for x in s.srcs:
            read[x].append((s, at))


def _called(s: Stmt) -> str:
    return f"{s.op} {s.dst}"
