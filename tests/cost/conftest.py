"""Prices of CPUs here are those of one make, whatever machine runs the tests: their sizes stand around its caches."""

from __future__ import annotations

import pytest

from tests.helpers.hosts import cpu_chip


@pytest.fixture(autouse=True, scope="module")
def priced_for_one_make():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("autocomp.cost.chip._host", lambda: cpu_chip("xeon"))
        yield
