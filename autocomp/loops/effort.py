"""A limit for one question to isl: its operations are counted, so that an answer is the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy as isl

OPERATIONS = 1_000_000  # of isl for one question, some 2 s; what kernels ask takes a few thousand
ROUNDINGS = 24  # of an index, up to which isl is asked for a simpler one: beyond, each of many questions takes seconds and none is found


class OverBudget(Exception):
    """A question took more than OPERATIONS; whoever asks takes the answer that is right without isl's."""


@contextmanager
def counted() -> Iterator[None]:
    """Raises OverBudget when what isl does in the block, questions inside of questions together, exceeds the limit."""
    context = isl.DEFAULT_CONTEXT
    if context.get_max_operations():
        yield
        return
    context.reset_operations()
    context.set_max_operations(OPERATIONS)
    try:
        yield
    except (isl.Error, TypeError) as e:
        # beyond the limit isl writes no text to its end: what reads it finds a syntax error, and islpy makes a number of it, a TypeError
        if "maximal number of operations" in str(e) or _spent():
            raise OverBudget from None
        raise
    finally:
        context.set_max_operations(0)


def _spent() -> bool:
    """Whether isl answers nothing any more."""
    try:
        isl.Set("{ [x] : 0 <= x < 2 }").is_empty()
    except isl.Error:
        return True
    return False
