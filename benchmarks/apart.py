"""Cases judged in worker processes with a time limit, so that a crash or a hang costs one case and is counted as what it is."""

from __future__ import annotations

import multiprocessing as mp
import queue
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

Judge = Callable[[Any], Any]
START = 120.0  # seconds that a process may take to import everything and make its cases


def _serve(make: Callable[..., Judge], args: tuple[Any, ...], jobs: Any, results: Any) -> None:
    warnings.filterwarnings("ignore")
    judge = make(*args)
    results.put(("ready", None))
    for case in iter(jobs.get, None):
        results.put(("done", judge(case)))


class Worker:
    """A process that runs `make(*args)` once and then what that gives on one case at a time. `make` is a function of a module."""

    def __init__(self, make: Callable[..., Judge], args: tuple[Any, ...], limit: float) -> None:
        context = mp.get_context("spawn")
        self.limit, self.jobs, self.results = limit, context.Queue(), context.Queue()
        self.process = context.Process(target=_serve, args=(make, args, self.jobs, self.results), daemon=True)
        self.process.start()
        self.alive = self._wait(START)[0] == "ready"

    def judge(self, case: Any) -> tuple[bool, Any]:
        """(True, the answer), or (False, why the process is gone)."""
        self.jobs.put(case)
        kind, answer = self._wait(self.limit)
        self.alive = kind == "done"
        return self.alive, answer

    def _wait(self, limit: float) -> tuple[str, Any]:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                return self.results.get(timeout=0.5)  # type: ignore[no-any-return]
            except queue.Empty:
                if not self.process.is_alive():
                    return "died", f"killed: the process died with exit code {self.process.exitcode}"
        return "died", f"killed after {limit:.0f} s"

    def stop(self) -> None:
        self.process.kill()
        self.process.join(10)


def run(todo: Sequence[Any], make: Callable[..., Judge], args: tuple[Any, ...], limit: float, jobs: int,
        show: Callable[[Any], str] = str) -> list[tuple[bool, Any]]:  # fmt: skip
    """What `Worker.judge` gives for each case, in order, by `jobs` processes at a time; progress on stderr by `show`."""
    waiting, done, lock = iter(enumerate(todo)), {}, threading.Lock()

    def serve() -> None:
        worker = None
        while True:
            with lock:
                index, case = next(waiting, (-1, None))
            if index < 0:
                break
            if worker is None or not worker.alive:
                worker = Worker(make, args, limit)
            answer = worker.judge(case)
            if not worker.alive:
                worker.stop()
            with lock:
                done[index] = answer
                if sys.stderr.isatty() or len(done) % 100 == 0:
                    end = "" if sys.stderr.isatty() else "\n"
                    print(f"\r{len(done)}/{len(todo)} {show(case)[:60]:60}", end=end, file=sys.stderr, flush=True)
        if worker is not None:
            worker.stop()

    threads = [threading.Thread(target=serve) for _ in range(min(jobs, len(todo)))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if sys.stderr.isatty():
        print("\r" + " " * 90 + "\r", end="", file=sys.stderr)
    return [done[i] for i in range(len(todo))]
