"""What a compilation may take, in counts: scaled to the graph, the same on every machine and at any load, so that two runs choose alike.

The clock, which is the last resort, is `deadline.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass

from autocomp.errors import UnsupportedOp
from autocomp.options import Options

FLOOR = 2_000  # terms that the rules of one phase may make of the smallest graph
MATCHES = 20_000  # of one left side, for the smallest graph
MATCHES_OF_A_TERM = 20  # and for each term of the graph
CUTS, CUTS_OF_AN_OP = 20_000, 100  # bodies of kernels that are priced, for the smallest graph and for each operation
LATE = 64  # schedules of a kernel that are made, priced or printed after the deadline
TABLE_BYTES = 2**28  # of one array that a model's numbers ask for while it is compiled
NODES = 200_000  # that reading one model makes: loops and functions of a file written out, calls of a traced function
FOLD_OPERATIONS = 2**30  # of constants that are computed while a model is read, all together
FOLDED = 16  # times the bytes of all parameters that one constant may have which is folded


def most_terms(options: Options, terms: int, now: int) -> int:
    """How many terms the e-graph of a graph of `terms` may hold at the end of a phase that began with `now`: what one phase made is no
    reason for the next to make as much of it."""
    return min(options.phase_nodes, now + FLOOR + options.phase_growth * terms)


def most_matches(terms: int) -> int:
    """How many tensors of a graph of `terms` one left side may match in a round."""
    return MATCHES + MATCHES_OF_A_TERM * terms


def check_table(elements: int, where: str, bytes: int = 8) -> None:
    """Raises UnsupportedOp before an array of so many elements is made while a model is compiled: a window, a pad, a length in a damaged
    file may be any number."""
    if elements * bytes > TABLE_BYTES:
        raise UnsupportedOp(f"needs a table of {elements * bytes} bytes while it is compiled; the limit is {TABLE_BYTES}", where=where,
                            hint="a number this large is likely a damaged file; export it again")  # fmt: skip


def folded_bytes(parameters: int) -> int:
    """The most that a constant may take which is computed once, when the program is loaded, from parameters of so many bytes; larger ones
    are computed by kernels."""
    return max(TABLE_BYTES, FOLDED * parameters)


@dataclass(eq=False)
class Effort:
    """Work that is counted as it is done."""

    limit: int
    done: int = 0

    @property
    def spent(self) -> bool:
        """Whether the limit is reached."""
        return self.done >= self.limit


def cover_effort(ops: int) -> Effort:
    """Bodies that all covers of a graph of so many operations may price together."""
    return Effort(CUTS + CUTS_OF_AN_OP * ops)
