"""Minimal sets of names for which something holds: one by halves, then the others, each without a member of those that were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Good = Callable[[tuple[str, ...]], bool]


@dataclass(frozen=True)
class Sets:
    """Minimal sets in the order they were found; `more`: the search ended at its bound, so there may be others."""

    found: tuple[tuple[str, ...], ...] = ()
    more: bool = False


def all_smallest(names: Sequence[str], good: Good, most: int, over: Callable[[], bool] = lambda: False) -> Sets:
    """Every minimal set for which `good` holds, at most `most` of them, as long as `over` does not say that enough was tried.

    Where a set holds, all that contain it are taken to hold (Reiter, A theory of diagnosis from first principles, 1987: a further set
    lacks at least one member of each that is known). Names that stand in front are tried first.
    """
    found: list[tuple[str, ...]] = []
    closed: set[frozenset[str]] = set()
    todo: list[frozenset[str]] = [frozenset()]  # names that stay on
    while todo:
        kept = todo.pop(0)
        if kept in closed:
            continue
        if len(found) >= most or over():
            return Sets(tuple(found), True)
        closed.add(kept)
        known = next((s for s in found if not kept & set(s)), None)
        if known is None:
            left = tuple(n for n in names if n not in kept)
            if not left or (kept and not good(left)):
                continue
            known = smallest(left, good)
            if not known:
                continue
            found.append(known)
        todo += [kept | {n} for n in known]
    return Sets(tuple(found))


def smallest(names: Sequence[str], good: Callable[[tuple[str, ...]], bool]) -> tuple[str, ...]:
    """A set of names for which `good` holds and from which no name can be left out; () where none was found.

    Delta debugging (Zeller, Hildebrandt, Simplifying and isolating failure-inducing input, 2002): halves first, then finer parts.
    """
    have = tuple(names)
    if not good(have):  # too much is off: look for a part that is enough
        parts = 2
        while True:
            found = next((c for c in _parts(have, parts) if good(c)), None)
            if found is not None:
                have = found
                break
            if parts >= len(have):
                return ()
            parts = min(2 * parts, len(have))
    parts = 2
    while len(have) > 1:
        chunks = _parts(have, parts)
        rest = [tuple(n for n in have if n not in c) for c in chunks] if parts > 2 else []
        part = next((c for c in (*chunks, *rest) if good(c)), None)
        if part is not None:
            parts = 2 if part in chunks else max(2, parts - 1)
            have = part
        elif parts >= len(have):
            break
        else:
            parts = min(2 * parts, len(have))
    return have


def _parts(names: tuple[str, ...], n: int) -> list[tuple[str, ...]]:
    """n parts of nearly equal length."""
    at = [len(names) * i // n for i in range(n + 1)]
    return [names[a:b] for a, b in zip(at, at[1:]) if a < b]
