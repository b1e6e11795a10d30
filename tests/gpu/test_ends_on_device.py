"""Functions and casts at the ends of types on a device, which flushes, approximates and divides in its own way."""

from __future__ import annotations

import pytest

from tests.targets.test_casts import there_and_back
from tests.targets.test_ends_of_types import TYPES, checked


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_at_the_ends_of_types(dtype):
    assert checked("cuda", dtype) == []


def test_there_and_back_between_all_pairs_of_types():
    assert there_and_back("cuda") == []
