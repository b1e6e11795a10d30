"""Prices of CPUs here are those of one make, whatever machine runs the tests: their sizes stand around its caches."""

from __future__ import annotations

import pytest

from tests.helpers.hosts import cpu_chip, price_for


@pytest.fixture(autouse=True, scope="module")
def priced_for_one_make():
    with pytest.MonkeyPatch.context() as patch:
        price_for(patch, cpu_chip("xeon"))
        yield


@pytest.fixture(autouse=True)
def built_quickly(quick_builds):
    """Prices are asked here, not how fast what is built is."""
