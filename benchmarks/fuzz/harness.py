"""Runs generators of random cases in worker processes and keeps what fails, shrunk.

    python -m benchmarks.fuzz.harness graphs numpy_functions --count 1000 [--seed 0] [--jobs 2] [--limit 20] [--seconds 600]
    python -m benchmarks.fuzz.harness graphs --replay 17            # one seed again; --replay 17/2,0 the smaller case at that path
    python -m benchmarks.fuzz.harness graphs --show 17              # its text
    python -m benchmarks.fuzz.harness --list

A case is right, refused (with a reason), or fails: *wrong*, *traceback* (an exception that is no AutocompError), *crash* (a signal), *hang*
(over --limit seconds of work; where the machine is loaded, three times that by the clock). Exit 1 where any failed. Each case is a row of
FOLDER/record.sqlite with the version of the code that ran it, so a run goes on where it was stopped; what failed lies in FOLDER
as text with the command that replays it. Workers start afresh every 200 cases, with an empty program cache.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from autocomp.runtime.cuda import WATCHDOG
from benchmarks.fuzz.record import BAD, Record, import_paths, version

FRESH = 200  # cases a worker runs before a new one takes its place
SHRINK_SECONDS, SHRINK_TRIES = 90.0, 150  # what making one failure smaller may take
START_SECONDS = 120.0  # imports of torch on a loaded machine


@dataclass
class Outcome:
    kind: str
    detail: str = ""
    seconds: float = 0.0


@dataclass
class Worker:
    """A process that runs cases of `name`; started at the first case and again after a crash, a hang or `FRESH` cases."""

    name: str
    target: str
    limit: float
    process: subprocess.Popen[str] | None = None
    ran: int = 0
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _said: IO[str] | None = None
    _wait: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def ask(self, seed: int, path: Iterable[int] = (), show: bool = False) -> Outcome:
        if self.process is None or self.ran >= FRESH:
            self.close()
            started = self._start()
            if started.kind != "ready":
                self.close()
                return started
        self.ran += 1
        assert self.process is not None and self.process.stdin is not None
        with suppress(BrokenPipeError):  # what it died of is read below
            self.process.stdin.write(json.dumps({"seed": seed, "path": [*path], "show": show}) + "\n")
            self.process.stdin.flush()
        out = self._answer(self.limit)
        if out.kind in ("crash", "hang") or (out.kind in BAD and self.target.startswith("cuda")):  # a fault of a device stays
            self.close()
        return out

    def close(self) -> None:
        if self.process is not None:
            _kill(self.process)
            self._wait.close()
            self.process = None
        for x in (self._folder, self._said):
            if x is not None:
                x.cleanup() if isinstance(x, tempfile.TemporaryDirectory) else x.close()
        self._folder = self._said = None
        self.ran = 0

    def _start(self) -> Outcome:
        self._folder = tempfile.TemporaryDirectory(prefix="autocomp-fuzz-", ignore_cleanup_errors=True)
        self._said = open(Path(self._folder.name) / "stderr.txt", "w+", errors="replace")  # noqa: SIM115
        # two threads: what the libraries' threads of many workers take of each other is no work of a case, and was counted as hangs
        env = {WATCHDOG: "20", "OMP_NUM_THREADS": "2", **os.environ, "AUTOCOMP_CACHE": f"{self._folder.name}/cache",
               "PYTHONPATH": import_paths()}  # fmt: skip
        self.process = subprocess.Popen([sys.executable, "-m", "benchmarks.fuzz.worker", self.name, self.target], cwd=self._folder.name,
                                        env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, text=True,
                                        start_new_session=True)  # fmt: skip
        self._wait = selectors.DefaultSelector()
        assert self.process.stdout is not None
        self._wait.register(self.process.stdout, selectors.EVENT_READ)
        return self._answer(START_SECONDS)

    def _answer(self, limit: float) -> Outcome:
        """The next line; a hang is `limit` seconds of processor time of the process and its children, or three times that by the clock."""
        assert self.process is not None and self.process.stdout is not None
        start, used = time.monotonic(), None
        while not self._wait.select(timeout=0.5):
            waited = time.monotonic() - start
            if used is None and waited > limit / 4:  # nearly no case takes so long, and to look at all processes takes time
                used = _work(self.process.pid) - limit / 4
            if waited > 3 * limit or (waited > limit and used is not None and _work(self.process.pid) - used > limit):
                return Outcome("hang", f"no answer after {waited:.0f} s\n{self._stacks()}", waited)
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            reason = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return Outcome("crash", f"{reason}\n{self._tail()}", time.monotonic() - start)
        got = json.loads(line)
        return Outcome(got["kind"], got.get("detail", ""), got.get("seconds", 0.0))

    def _stacks(self) -> str:
        assert self.process is not None
        self.process.send_signal(signal.SIGUSR1)
        time.sleep(1.0)
        return self._tail()

    def _tail(self, most: int = 4000) -> str:
        assert self._said is not None
        self._said.seek(0)
        return self._said.read()[-most:]


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def _work(group: int) -> float:
    """Seconds of processor time of a process group, its waited-for children included (Linux; elsewhere a clock)."""
    ticks = 0
    try:
        for p in Path("/proc").iterdir():
            if p.name.isdigit():
                try:
                    fields = (p / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[2]) == group:
                    ticks += sum(int(x) for x in fields[11:15])
    except OSError:
        return time.monotonic()
    return ticks / os.sysconf("SC_CLK_TCK")


def shrunk(worker: Worker, seed: int, first: Outcome) -> tuple[list[int], Outcome]:
    """The path of the smallest case found that fails as `first` does, and its outcome."""
    path, outcome, end, tries = [], first, time.monotonic() + SHRINK_SECONDS, 0  # type: tuple[list[int], Outcome, float, int]
    i = 0
    while tries < SHRINK_TRIES and time.monotonic() < end:
        tries += 1
        got = worker.ask(seed, [*path, i])
        if got.kind == "none":
            break
        if got.kind == first.kind:
            path, outcome, i = [*path, i], got, 0
        else:
            i += 1
    return path, outcome


def keep(folder: Path, name: str, target: str, seed: int, path: list[int], outcome: Outcome, text: str) -> Path:
    """The failure as a file: what was wrong, how to replay it, the case."""
    at = f"{seed}/{','.join(map(str, path))}" if path else str(seed)
    aimed = f" --target {target}" if target else ""
    file = folder / f"{name}{'-' + target.replace(':', '_') if target else ''}-{seed}.txt"
    head = f"# {outcome.kind}: replay with\n# python -m benchmarks.fuzz.harness {name}{aimed} --replay {at}\n"
    file.write_text(head + "".join(f"# {line}\n" for line in outcome.detail.splitlines()) + text + "\n")
    return file


def generators() -> list[str]:
    """The modules of this folder that have a `NAME`."""
    return sorted(p.stem for p in Path(__file__).parent.glob("*.py") if "\nNAME = " in p.read_text())


@dataclass
class Run:
    """One go over seeds of several generators. `due(name)` gives a generator's seeds in order."""

    folder: Path
    target: str = ""
    jobs: int = 2
    limit: float = 20.0
    say: Callable[[str], None] = print

    def label(self, name: str) -> str:
        return f"{name}@{self.target}" if self.target else name

    def cases(self, due: Iterator[tuple[str, int]], until: float = float("inf")) -> int:
        """Run until `due` ends or the clock reaches `until`; the number of failures."""
        stamp, failures, lock = version(), 0, threading.Lock()
        record = Record(self.folder / "record.sqlite")
        spare: dict[str, list[Worker]] = {}

        def one(name: str, seed: int) -> tuple[str, int, Outcome, Path | None]:
            with lock:
                worker = spare[name].pop() if spare.get(name) else Worker(name, self.target, self.limit)
            outcome, file = worker.ask(seed), None
            if outcome.kind in BAD:
                path, least = shrunk(worker, seed, outcome)
                shown = worker.ask(seed, path, show=True)
                file = keep(self.folder, name, self.target, seed, path, least, shown.detail)
            with lock:
                spare.setdefault(name, []).append(worker)
            return name, seed, outcome, file

        done, start, said = 0, time.monotonic(), time.monotonic()
        try:
            with ThreadPoolExecutor(self.jobs) as pool:
                running: set[Any] = set()
                while True:
                    while len(running) < self.jobs and time.time() < until and (at := next(due, None)):
                        running.add(pool.submit(one, *at))
                    if not running:
                        break
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    for f in finished:
                        name, seed, outcome, file = f.result()
                        record.add(self.label(name), stamp, seed, outcome.kind, outcome.seconds, outcome.detail)
                        done += 1
                        if file:
                            failures += 1
                            why = outcome.detail.partition("\n")[0]
                            self.say(f"{outcome.kind.upper()} {self.label(name)} seed {seed}: {why}\n  {file}")
                    if time.monotonic() - said > 30:
                        said = time.monotonic()
                        self.say(f"{done} cases, {failures} failures, {said - start:.0f} s")
        finally:
            for workers in spare.values():
                for w in workers:
                    w.close()
        return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generators", nargs="*", help=", ".join(generators()))
    parser.add_argument("--count", type=int, default=1000, help="cases of each generator")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds a case may take")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; the same command goes on")
    parser.add_argument("--folder", type=Path, default=Path("fuzz_failures"), help="for the record and the failures")
    parser.add_argument("--target", default="", help="for generators that take one (graphs): cuda:h200, maca:c500")
    parser.add_argument("--again", action="store_true", help="also seeds that this version ran before")
    parser.add_argument("--replay", help="SEED or SEED/I,J,..")
    parser.add_argument("--show", help="the text of SEED or SEED/I,J,..")
    parser.add_argument("--list", action="store_true", help="name the generators")
    a = parser.parse_args()
    known = generators()
    if a.list or not a.generators:
        texts = {n: (Path(__file__).parent / f"{n}.py").read_text() for n in known}  # as text: a net's own imports may not be here
        print("\n".join(f"{n:<20} {(ast.get_docstring(ast.parse(t)) or '').splitlines()[0]}" for n, t in texts.items()))
        sys.exit(0 if a.list else 2)
    if unknown := [n for n in a.generators if n not in known]:
        parser.error(f"there is no generator {', '.join(unknown)}; there are {', '.join(known)}")
    if a.replay or a.show:
        seed, _, path = (a.replay or a.show).partition("/")
        worker = Worker(a.generators[0], a.target, a.limit)
        steps = [int(x) for x in path.split(",") if x]
        for show in (True, *([] if a.show else [False])):
            out = worker.ask(int(seed), steps, show=show)
            print(out.detail if show else f"{out.kind} after {out.seconds:.1f} s\n{out.detail}", flush=True)
        worker.close()
        sys.exit(1 if out.kind in BAD else 0)
    run = Run(a.folder, a.target, a.jobs, a.limit, lambda s: print(s, flush=True))
    record, stamp = Record(a.folder / "record.sqlite"), version()
    seen = {n: set() if a.again else record.seeds(run.label(n), stamp) for n in a.generators}
    due = ((n, s) for s in range(a.seed, a.seed + a.count) for n in a.generators if s not in seen[n])
    failures = run.cases(due, until=time.time() + a.seconds)
    print(f"version {stamp}\n{record.table(stamp)}")
    for n in a.generators:
        for reason, count in record.reasons(run.label(n), stamp).most_common(5):
            print(f"{run.label(n)}: refused {count}: {reason[:160]}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
