"""Cases that repeat another one: on another chip, of another type, at more sizes or seeds. `make test` leaves them out, `make test-all`
runs them. No property, chip or rule has such cases alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import pytest


def repeats(*case: Any, of: str) -> Any:
    """A case of a parametrisation; `of`: the case that it repeats."""
    return pytest.param(*case, marks=pytest.mark.exhaustive(f"repeats {of}"))


def repeating(cases: Iterable[Any], of: Mapping[Any, str]) -> list[Any]:
    """The cases of a parametrisation, where those that `of` names repeat what it says."""
    all_of_them = list(cases)
    assert of.keys() <= {*all_of_them} and not of.keys() >= {*all_of_them}, "one that there is not, or all"
    return [repeats(*(c if isinstance(c, tuple) else (c,)), of=of[c]) if c in of else c for c in all_of_them]


def by_turns(*axes: Iterable[Any]) -> list[Any]:
    """Cases of all values of some axes: each second one, so that each value stands beside half of those of any other axis, and of three
    axes each pair does; the others repeat these."""
    numbered = product(*(list(enumerate(a)) for a in axes))
    cases = [(sum(k for k, _ in c), tuple(x for _, x in c)) for c in numbered]
    return [repeats(*case, of="its values in other pairs") if at % 2 else case for at, case in cases]


def seeds(all_of_them: Iterable[int], always: int) -> list[Any]:
    """Seeds of a property, the first of them `always`."""
    return [s if k < always else repeats(s, of="the same property with other seeds") for k, s in enumerate(all_of_them)]


GPUS = ["cuda:h200", repeats("maca:c500", of="cuda:h200, whose printer MACA shares but for the width of a wave")]
