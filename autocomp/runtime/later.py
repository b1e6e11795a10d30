"""Kernels that a deadline left uncompiled: whoever first needs them compiles them, and all others wait for that."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from autocomp.deadline import by_counts
from autocomp.errors import BuildError
from autocomp.forks import Lock
from autocomp.ir.kernel import KernelGraph
from autocomp.runtime.executor import Executor, ReferenceExecutor
from autocomp.trace import Trace

if TYPE_CHECKING:
    from autocomp.targets import Target


class Later:
    """An executor to be made by `build`, once, by any thread, in a forked child too."""

    def __init__(self, build: Callable[[], Executor | None], calls: KernelGraph, target: Target, trace: Trace) -> None:
        self._build, self._calls, self._target, self._trace = build, calls, target, trace
        self._lock = Lock()
        self._made: Executor | None = None

    def made(self) -> Executor | None:
        """The executor. The compiler may take what it may take without a deadline; one for the CPU that does not end even then leaves
        the reference. Raises BuildError where it refuses, and tries again when it is asked again."""
        with self._lock.held:
            if self._made is None:
                begun = time.perf_counter()
                with by_counts():
                    self._made = self._compiled()
                self._trace.add("note", "build", text=f"built when it was first needed, in {time.perf_counter() - begun:.2f} s")
            return self._made

    def _compiled(self) -> Executor | None:
        try:
            return self._build()
        except BuildError as e:
            if not e.late or self._target.runtime != "host":
                raise
            self._trace.add("note", "build", text=f"{e.what}: calls run through the reference, slowly")
            return ReferenceExecutor(self._calls)
