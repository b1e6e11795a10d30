"""Programs that several tests of commands and pages look at."""

from __future__ import annotations

import pytest

import autocomp
from examples.models import bert


@pytest.fixture(scope="session")
def deep():
    """Six layers that are alike, from a graph as text."""
    return autocomp.optimize(bert(6, seq=32, hidden=64, heads=4, inner=128))
