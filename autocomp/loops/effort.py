"""A limit for one question to isl: its operations are counted, so that an answer is the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import islpy as isl

OPERATIONS = 1_000_000  # of isl for one question, some 2 s; what kernels ask takes a few thousand


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
    except isl.Error as e:
        if "maximal number of operations" not in str(e):
            raise
        raise OverBudget from None
    finally:
        context.set_max_operations(0)
