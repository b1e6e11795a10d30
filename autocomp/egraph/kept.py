"""E-graphs in which something is declared and nothing said, kept for the next use: to declare rules takes longer than a small graph's
matches."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from autocomp.egraph.native import egglog

if TYPE_CHECKING:
    from types import ModuleType

KEPT = 32  # e-graphs of a thread in a pool, at most


class Pool(threading.local):
    """E-graphs that nobody stands on, by what was declared in them, the last one at the end: an e-graph stays in its thread.

    Those of the process before a fork are left as they are: to drop one waits for threads that a forked child does not have.
    """

    def __init__(self) -> None:
        self._of: ModuleType = egglog()
        self._kept: dict[Hashable, Any] = {}

    def _here(self) -> dict[Hashable, Any]:
        """Those of this process."""
        if self._of is not (module := egglog()):
            _LEFT.append(self._kept)
            self._of, self._kept = module, {}
        return self._kept

    def take(self, name: Hashable) -> Any:
        """The one of a name, which the pool has no longer; None if there is none."""
        return self._here().pop(name, None)

    def keep(self, name: Hashable, kept: Any) -> None:
        kept_here = self._here()
        kept_here[name] = kept
        if len(kept_here) > KEPT:
            del kept_here[next(iter(kept_here))]


_LEFT: list[dict[Hashable, Any]] = []
