"""Child processes that may crash or hang: each does one task at a time, and is replaced when it dies or is killed.

A task is (function, arguments) with the function named by module and name, as pickle does. The pipe is a socket of their
own, so nothing that generated code prints can disturb it. A child ends with its parent, also when that is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from typing import Any

from autocomp.commands import share_group
from autocomp.errors import AutocompError

START = 60.0  # seconds that a child may take to be ready


@dataclass(frozen=True)
class Failure:
    """A task that gave no result. `refused`: the code said no (an error of ours); `machine`: the task is not at fault (a full disk, a
    compiler that is not there any more); else it crashed, hung or raised."""

    reason: str
    refused: bool = False
    machine: bool = False


class Worker:
    """One child process. `run` gives the task's value or a Failure, and never raises for what the task did.

    `module` is imported before a child's first task, so that no task's time is spent on it.
    """

    def __init__(self, module: str = "") -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._ready = False
        self._since = 0.0
        self._limit = 0.0

    # ---- one task
    def run(self, task: Callable[..., Any], *args: Any, limit: float) -> Any:
        """The value of `task(*args)` in the child, or a Failure; `limit` in seconds."""
        self.start(task, *args, limit=limit)
        return self.result()

    def start(self, task: Callable[..., Any], *args: Any, limit: float) -> None:
        """Hand over a task; `result` fetches its value."""
        self.wake()
        self._await_ready()
        assert self._pipe is not None
        self._since, self._limit = time.monotonic(), limit
        with suppress(OSError):  # it died between two tasks: `result` says how
            self._pipe.send((task, args))

    def wake(self) -> None:
        """Start the child, if there is none; the next task waits until it is ready."""
        if not self.alive:
            self.stop()
            self._spawn()

    def result(self) -> Any:
        """Wait for the value of the started task, at most its limit."""
        assert self._pipe is not None
        if not self._pipe.poll(max(0.0, self.deadline - time.monotonic())):
            self.stop()
            return Failure(f"no result after {self._limit:g} s")
        try:
            good, value = self._pipe.recv()
        except (EOFError, OSError):
            return Failure(self._death())
        except Exception as e:  # the code that ran there wrote into the socket
            self.stop()
            return Failure(f"its answer cannot be read: {type(e).__name__}")
        return value if good else Failure(*value)

    @property
    def alive(self) -> bool:
        """Whether the child of the last task is still there."""
        return self._process is not None and self._process.poll() is None

    @property
    def deadline(self) -> float:
        """When the started task is late, on the monotonic clock."""
        return self._since + self._limit

    @property
    def pipe(self) -> Connection:
        assert self._pipe is not None
        return self._pipe

    # ---- the child
    def _spawn(self) -> None:
        try:
            mine, theirs = socket.socketpair()
            paths = os.pathsep.join(dict.fromkeys(p or os.getcwd() for p in sys.path))
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "autocomp.tune.process", str(theirs.fileno()), str(os.getpid()), self._module],
                    pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": paths},
                )  # fmt: skip
        except OSError as e:
            raise AutocompError(f"a child process cannot be started: {e.strerror or e}", where="tune",
                                hint="is there memory, and are there file descriptors, for another Python process?") from None  # fmt: skip
        self._pipe, self._ready = Connection(mine.detach()), False

    def _await_ready(self) -> None:
        """Wait for a child that was just started. Raises AutocompError where it does not come up."""
        if self._ready:
            return
        self._ready = self.pipe.poll(START) and not self._pipe_closed()
        if not self._ready:
            raise AutocompError(f"a child process did not start ({self._death()})", where="tune",
                                hint="its output is above; is there memory for another Python process?")  # fmt: skip

    def _pipe_closed(self) -> bool:
        try:
            return bool(self.pipe.recv() != "ready")
        except (EOFError, OSError):
            return True

    def _death(self) -> str:
        """How the child ended, in words."""
        assert self._process is not None
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            code = 0
        self.stop()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"

    def stop(self) -> None:
        """End the child, and what it started."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


class Pool:
    """Several workers side by side."""

    def __init__(self, jobs: int, module: str = "") -> None:
        self.workers = [Worker(module) for _ in range(max(1, jobs))]
        self.begun: list[Worker] = []

    def wake(self, count: int) -> None:
        """Start as many children, at most all, that need not wait for each other to come up."""
        for w in self.workers[:count]:
            w.wake()

    def each(self, task: Callable[..., Any], items: Sequence[tuple[Any, ...]], limit: float) -> Iterator[tuple[int, Any]]:
        """(number of the item, value or Failure) as they come; a worker that dies costs its own item alone."""
        self.wake(len(items))
        left = list(enumerate(items))[::-1]
        busy: dict[Worker, int] = {}
        idle = self.workers[::-1]
        while left or busy:
            while left and idle:
                n, args = left.pop()
                w = idle.pop()
                w.start(task, *args, limit=limit)
                busy[w] = n
            late = min(w.deadline for w in busy)
            ready = wait([w.pipe for w in busy], max(0.0, late - time.monotonic()))
            for w in [w for w in busy if w.pipe in ready or w.deadline <= time.monotonic()]:
                n = busy.pop(w)
                idle.append(w)
                yield n, w.result()

    def begin(self, task: Callable[..., Any], items: Sequence[tuple[Any, ...]], limit: float) -> None:
        """Start at most as many items as there are workers; `collect` waits for them."""
        self.wake(len(items))
        self.begun = self.workers[: len(items)]
        for w, args in zip(self.begun, items, strict=True):
            w.start(task, *args, limit=limit)

    def collect(self) -> list[Any]:
        """Values or Failures of the items that were begun, in their order."""
        out = [w.result() for w in self.begun]
        self.begun = []
        return out

    def stop(self) -> None:
        for w in self.workers:
            w.stop()


def serve(descriptor: int, parent: int, module: str) -> None:
    """The child: import `module`, then take tasks until the pipe closes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
        if os.getppid() != parent:
            return
    share_group()  # `Worker.stop` ends the group
    pipe = Connection(descriptor)
    if module:
        import_module(module)
    pipe.send("ready")
    while True:
        try:
            task, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, task(*args)
        except AutocompError as e:
            answer = False, (e.what, type(e).__name__ in ("DoesNotFit", "UnsupportedOp"), getattr(e, "machine", False))
        except OSError as e:
            answer = False, (f"{e.strerror or e} ({e.filename})", False, True)
        except Exception as e:  # whatever a candidate does is its own failure, told to the parent
            answer = False, (f"{type(e).__name__}: {e}", False)
        pipe.send(answer)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
