"""Limits that the system sets, in the texts of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autocomp.errors import AutocompError


@contextmanager
def memory_told(what: str, where: str = "") -> Iterator[None]:
    """Raises AutocompError, with what the process has and may have, where `what` finds no memory."""
    try:
        yield
    except MemoryError as e:
        said = f" ({e})" if str(e) else ""
        raise AutocompError(f"{what} needs more memory than there is: {_told()}{said}", where=where or None,
                            hint="free memory, or raise the limit (`ulimit -v`, the container's)") from None  # fmt: skip


def _told() -> str:
    """What this process has had of memory, and how much address space it may take."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, RUSAGE_SELF, getrlimit, getrusage
    except ImportError:  # not on Windows
        return "no figures on this system"
    most, limit = getrusage(RUSAGE_SELF).ru_maxrss / 1024, getrlimit(RLIMIT_AS)[0]
    may = "no limit of its own" if limit == RLIM_INFINITY else f"a limit of {limit / 2**20:,.0f} MB of addresses"
    return f"the process has had {most:,.0f} MB, under {may}"
