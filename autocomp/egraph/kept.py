"""E-graphs in which something is declared and nothing said, kept for the next use: to declare rules takes longer than a small graph's
matches."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from autocomp.egraph.native import egglog

if TYPE_CHECKING:
    from types import ModuleType

KEPT = 32  # e-graphs of a thread in a pool, at most


class _Held:
    """An e-graph in a pool. Only its own thread may drop it: egglog's module complains of others, as of one that ends while a thread of
    another language lives (torch compiles backward graphs in its own); what they would drop is left where it is, for good."""

    def __init__(self, kept: Any) -> None:
        self.kept, self.thread = kept, threading.get_ident()

    def leave(self, hold: Any = ctypes.pythonapi.Py_IncRef, as_object: Any = ctypes.py_object) -> None:
        """Nobody drops it any more."""
        hold(as_object(self.kept))

    def __del__(self, here: Any = threading.get_ident) -> None:
        if here() != self.thread:
            self.leave()


class Pool(threading.local):
    """E-graphs that nobody stands on, by what was declared in them, the last one at the end: an e-graph stays in its thread.

    Those of the process before a fork are left as they are: to drop one waits for threads that a forked child does not have.
    """

    def __init__(self) -> None:
        self._of: ModuleType = egglog()
        self._kept: dict[Hashable, _Held] = {}

    def _here(self) -> dict[Hashable, _Held]:
        """Those of this process."""
        if self._of is not (module := egglog()):
            for held in self._kept.values():
                held.leave()
            self._of, self._kept = module, {}
        return self._kept

    def take(self, name: Hashable) -> Any:
        """The one of a name, which the pool has no longer; None if there is none."""
        held = self._here().pop(name, None)
        return held.kept if held else None

    def take_one(self, fits: Callable[[Any], bool]) -> Any:
        """The last one that fits, as `take`."""
        here = self._here()
        return self.take(next((name for name in reversed(here) if fits(here[name].kept)), None))

    def keep(self, name: Hashable, kept: Any) -> None:
        kept_here = self._here()
        kept_here[name] = _Held(kept)
        if len(kept_here) > KEPT:
            del kept_here[next(iter(kept_here))]
