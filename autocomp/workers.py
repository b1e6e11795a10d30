"""Child processes that may crash or hang: each does one task at a time, and is replaced when it dies or is killed.

A task is (function, arguments) with the function named by module and name, as pickle does. The pipe is a socket of their
own, so nothing that generated code prints can disturb it. A child ends with its parent, also when that is killed.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.spawn import get_executable
from typing import Any

from autocomp.commands import share_group
from autocomp.errors import AutocompError
from autocomp.forks import Lock, in_child

START = 60.0  # seconds that a child may take to be ready
LOOK = 1.0  # seconds between two looks of a child at whether its parent is there


@dataclass(frozen=True)
class Failure:
    """A task that gave no result. `refused`: the code said no (an error of ours); `machine`: the task is not at fault (a full disk, a
    compiler that is not there any more); `late`: it was ended at its limit; else it crashed or raised."""

    reason: str
    refused: bool = False
    machine: bool = False
    late: bool = False


class Worker:
    """One child process. `run` gives the task's value or a Failure, and never raises for what the task did.

    `module` is imported before a child's first task, so that no task's time is spent on it. `where`: who asks, in errors.
    """

    def __init__(self, module: str = "", where: str = "tune") -> None:
        self._module, self._where = module, where
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

    def result(self, end: float = float("inf")) -> Any:
        """Wait for the value of the started task, at most its limit; None where it is ended at `end` (monotonic), before its limit."""
        assert self._pipe is not None
        if not self._pipe.poll(max(0.0, min(end, self.deadline) - time.monotonic())):
            self.stop()
            if end < self.deadline:
                return None
            return Failure(f"no result after {self._limit:g} s", late=True)
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
        # Linux ends a child with the thread that made it, which is the parent's last one only if it is its main one
        tied = str(int(threading.current_thread() is threading.main_thread()))
        try:
            mine, theirs = socket.socketpair()
            paths = os.pathsep.join(dict.fromkeys(p or os.getcwd() for p in sys.path))
            with theirs:
                python = os.fsdecode(get_executable() or b"")
                self._process = subprocess.Popen(
                    [python, "-m", "autocomp.workers", str(theirs.fileno()), str(os.getpid()), tied, self._module],
                    pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": paths},
                )  # fmt: skip
        except OSError as e:
            raise AutocompError(f"a child process cannot be started: {e.strerror or e}", where=self._where,
                                hint="is there memory, and are there file descriptors, for another Python process?") from None  # fmt: skip
        self._pipe, self._ready = Connection(mine.detach()), False

    def _await_ready(self) -> None:
        """Wait for a child that was just started. Raises AutocompError where it does not come up."""
        if self._ready:
            return
        self._ready = self.pipe.poll(START) and not self._pipe_closed()
        if not self._ready:
            raise AutocompError(f"a child process did not start ({self._death()})", where=self._where,
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

    def forget(self) -> None:
        """In a forked process: the child is its parent's, and so is all that is on the way between them."""
        if self._process is not None:
            self._process.returncode = 0  # nothing that this process could wait for
            self._process = None
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None


class Shared:
    """Workers for any thread, each of which waits for its own: as many as there are tasks under way, one stays when there is none.

    A forked child begins without any. What is left ends with the process.
    """

    def __init__(self, module: str = "", where: str = "tune") -> None:
        self._module, self._where = module, where
        self._lock = Lock()
        self._idle: list[Worker] = []
        self._busy: list[Worker] = []
        in_child(self._forget)
        atexit.register(self.stop)

    def run(self, task: Callable[..., Any], *args: Any, limit: float) -> Any:
        """The value of `task(*args)` in a child, or a Failure. Raises AutocompError where no child can be started."""
        with self._lock.held:
            worker = self._idle.pop() if self._idle else Worker(self._module, self._where)
            self._busy.append(worker)
        try:
            return worker.run(task, *args, limit=limit)
        except BaseException:  # an interrupt: its answer is still to come, and nobody waits for it
            worker.stop()
            raise
        finally:
            self._give(worker)

    def _give(self, worker: Worker) -> None:
        with self._lock.held:
            self._busy.remove(worker)
            self._idle.append(worker)
            over = [] if self._busy else self._idle[:-1]
            self._idle = self._idle[len(over) :]
        for w in over:
            w.stop()

    def stop(self) -> None:
        """End all that do nothing, and those that do something too."""
        with self._lock.held:
            workers, self._idle = [*self._idle, *self._busy], []
        for w in workers:
            w.stop()

    def _forget(self) -> None:
        for w in (*self._idle, *self._busy):
            w.forget()
        self._idle, self._busy = [], []


class Pool:
    """Several workers side by side."""

    def __init__(self, jobs: int, module: str = "", where: str = "tune") -> None:
        self.workers = [Worker(module, where) for _ in range(max(1, jobs))]
        self.begun: list[Worker] = []

    def wake(self, count: int) -> None:
        """Start as many children, at most all, that need not wait for each other to come up."""
        for w in self.workers[:count]:
            w.wake()

    def each(self, task: Callable[..., Any], items: Sequence[tuple[Any, ...]], limit: float,
             end: float = float("inf"), kinds: Sequence[Hashable] = ()) -> Iterator[tuple[int, Any]]:  # fmt: skip
        """(number of the item, value or Failure) as they come; a worker that dies costs its own item alone. At `end` (monotonic) those
        under way are ended, and neither they nor those that are left come. `kinds`: of each item; a worker goes on with the kind that it
        has, then with the first that no other has, then with the first item that is left."""
        self.wake(len(items))
        left = list(range(len(items)))
        busy: dict[Worker, int] = {}
        own: dict[Worker, Hashable] = {}
        idle = self.workers[::-1]
        while left or busy:
            while left and idle:
                w = idle.pop()
                n = _next(left, kinds, own.get(w), [own.get(x) for x in busy]) if kinds else left[0]
                left.remove(n)
                own[w] = kinds[n] if kinds else None
                w.start(task, *items[n], limit=limit)
                busy[w] = n
            late = min(end, *(w.deadline for w in busy))
            ready = wait([w.pipe for w in busy], max(0.0, late - time.monotonic()))
            for w in [w for w in busy if w.pipe in ready or w.deadline <= time.monotonic()]:
                n = busy.pop(w)
                idle.append(w)
                yield n, w.result()
            if time.monotonic() >= end:
                for w in busy:
                    w.stop()
                return

    def begin(self, task: Callable[..., Any], items: Sequence[tuple[Any, ...]], limit: float) -> None:
        """Start at most as many items as there are workers; `collect` waits for them."""
        self.wake(len(items))
        self.begun = self.workers[: len(items)]
        for w, args in zip(self.begun, items, strict=True):
            w.start(task, *args, limit=limit)

    def collect(self, end: float = float("inf")) -> list[Any]:
        """Values or Failures of the items that were begun, in their order; None for those that are ended at `end` (monotonic)."""
        out = [w.result(end) for w in self.begun]
        self.begun = []
        return out

    def stop(self) -> None:
        for w in self.workers:
            w.stop()


def _next(left: Sequence[int], kinds: Sequence[Hashable], own: Hashable, others: Sequence[Hashable]) -> int:
    """The item that a worker takes next: of its own kind, else of one that no other has, else the first."""
    free = (n for n in left if kinds[n] not in others)
    return next((n for n in left if kinds[n] == own), next(free, left[0]))


def _outlived(parent: int) -> None:
    """End this process and what it started once its parent is gone."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def serve(descriptor: int, parent: int, tied: bool, module: str) -> None:
    """The child: import `module`, then take tasks until the pipe closes. `tied`: Linux may tell it when its parent ends."""
    if sys.platform == "linux" and tied:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
    if os.getppid() != parent:
        return
    threading.Thread(target=_outlived, args=(parent,), daemon=True).start()
    share_group()  # `Worker.stop` ends the group
    pipe = Connection(descriptor)
    if module:
        import_module(module)
    with suppress(EOFError, ConnectionError):  # the parent is gone: there is nobody to tell
        _answer(pipe)


def _answer(pipe: Connection) -> None:
    """Do tasks until the pipe closes. Raises EOFError or ConnectionError then."""
    pipe.send("ready")
    while True:
        task, args = pipe.recv()
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
    serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1", sys.argv[4])
