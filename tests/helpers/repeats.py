"""Cases that repeat another one on another chip: `make test` leaves them out, `make test-all` runs them. No property, chip or rule has such
cases alone."""

from __future__ import annotations

from typing import Any

import pytest


def repeats(*case: Any, of: str) -> Any:
    """A case of a parametrisation; `of`: the case that it repeats."""
    return pytest.param(*case, marks=pytest.mark.exhaustive(f"repeats {of}"))


GPUS = ["cuda:h200", repeats("maca:c500", of="cuda:h200, whose printer MACA shares but for the width of a wave")]
