"""Sizes that a user gives to a model's named dimensions."""

from __future__ import annotations

from collections.abc import Iterable

from autocomp.errors import ModelError


def unknown_dims(given: Iterable[str], named: Iterable[str], where: str) -> None:
    """Raise ModelError where a size is given for a dimension that the model does not name."""
    known = sorted(named)
    for name in sorted(set(given) - set(known)):
        raise ModelError(f"has no named dimension '{name}'", where=where,
                         hint=f"named dimensions: {', '.join(known)}" if known else "all of its dimensions are numbers")  # fmt: skip
