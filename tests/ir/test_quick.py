"""Frozen records that are made quickly are the dataclasses that they were."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from autocomp.cost.work import Cost
from autocomp.ir.affine import Aff, FloorDiv
from autocomp.quick import changed, quick

A = Aff((("i", 2), (FloorDiv(Aff.of("j"), 3), 1)), 4)


def test_it_is_made_by_position_by_name_and_by_defaults():
    assert Aff(A.terms, 4) == Aff(terms=A.terms, const=4) == A
    assert (Aff().terms, Aff().const) == ((), 0)
    with pytest.raises(TypeError, match="missing"):
        Cost(1.0)  # type: ignore[call-arg]


def test_it_is_frozen_hashed_compared_and_copied_as_before():
    with pytest.raises(FrozenInstanceError):
        A.const = 5  # type: ignore[misc]
    for other in (replace(A), copy.deepcopy(A), pickle.loads(pickle.dumps(A))):
        assert other == A and hash(other) == hash(A) and repr(other) == repr(A)
    assert replace(A, const=5) != A


def test_one_with_other_values_is_what_dataclasses_make_and_keeps_nothing_else():
    known = Aff(A.terms, 4)
    object.__setattr__(known, "kept", "computed from 4")
    other = changed(known, const=5)
    assert other == replace(A, const=5) and hash(other) == hash(replace(A, const=5)) and not hasattr(other, "kept")
    assert (known.const, list(vars(other))) == (4, ["terms", "const"])


def test_what_it_cannot_make_is_told():
    with pytest.raises(AssertionError, match=r"Listed\.of"):

        @quick
        @dataclass(frozen=True)
        class Listed:
            of: list = field(default_factory=list)
