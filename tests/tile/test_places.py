"""Memories on chip: pieces behind one another, pieces that have died used again, rings apart."""

from __future__ import annotations

import pytest

from autocomp.errors import DoesNotFit
from autocomp.tile.places import Place


def test_a_dead_piece_is_used_again_by_one_of_its_size():
    p = Place("ub", 1024, 32)
    first, second = p.take(100), p.take(100)
    assert (first, second, p.top) == (0, 128, 256)
    p.give(first, 100)
    assert p.take(60) == 256  # another size
    assert p.take(128) == first and p.top == 320


def test_a_ring_never_lies_where_something_died():
    p = Place("ub", 1024, 32)
    p.give(p.take(64), 64)
    assert p.take(64, 2) == 64 and p.top == 192


def test_what_does_not_fit_says_both_numbers():
    p = Place("l0a", 256, 64)
    p.take(128)
    with pytest.raises(DoesNotFit, match="tiles in l0a of a core: needs 384, has 256"):
        p.take(100, 2)
