"""Commands of others, compilers above all: each in a process group of its own, read in bounded memory, ended at a limit.

What such a command does is not ours: it may hang, write a gigabyte or bytes that are no text, leave children behind, end well without a
result, or not be there any more. All of it ends in a BuildError that names the command, keeps its output in a log and says what to do.
"""

from __future__ import annotations

import errno
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from autocomp.deadline import current
from autocomp.errors import BuildError

SECONDS = "AUTOCOMP_BUILD_SECONDS"  # what one command of a compiler may take; set in the environment
LIMIT = 900.0
ASKED = 30.0  # seconds that a compiler may take to say its version
KEPT = 1 << 16  # bytes of each stream that are kept from its beginning, and as many from its end
LOOKS = 0.05  # seconds between two looks at commands that say nothing
GRACE = 1.0  # seconds that a command which has ended may be read from: what it left behind may hold its streams open
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE)  # what a compiler says that cannot write
_shared = False


def share_group() -> None:
    """From now on commands stay in this process's group: who ends that ends them too (a worker of the tuner)."""
    global _shared  # noqa: PLW0603
    _shared = True


def supervised() -> bool:
    """Whether this process is a worker, which whoever waits for it ends."""
    return _shared


def build_limit() -> float:
    """Seconds that one command of a compiler may take: what the deadline leaves, and some in any case.

    Raises BuildError where $AUTOCOMP_BUILD_SECONDS is no number above 0.
    """
    text = os.environ.get(SECONDS, "")
    try:
        seconds = float(text or LIMIT)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise BuildError(f"${SECONDS} is '{text}'", where="environment", hint="set it to seconds, a number above 0, or unset it")
    return current().within(seconds)


def identity(command: str) -> str:
    """What changes when the file behind a command does, without reading it: compilers have a hundred megabytes."""
    try:
        s = os.stat(command)
    except OSError as e:
        return f"{command} {e.strerror}"
    return f"{os.path.realpath(command)} {s.st_size} {s.st_mtime_ns} {s.st_ino}"


@dataclass(frozen=True)
class Ended:
    """How a command ended: `code` is its exit code, or minus the signal that killed it; `late`: it was killed at its limit of `seconds`."""

    command: tuple[str, ...]
    code: int
    out: str
    err: str
    late: bool = False
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return Path(self.command[0]).name

    @property
    def said(self) -> str:
        """What it printed: errors first, as some compilers print theirs on the standard output."""
        return "\n".join(x for x in (self.err.strip(), self.out.strip()) if x)

    @property
    def why(self) -> str:
        """Why it is no success; "" where it is one."""
        if self.late:
            return f"did not end in {round(self.seconds, 2):g} s and was killed"
        if self.code < 0:
            return f"was killed by {_signal(-self.code)}"
        return f"failed with exit code {self.code}" if self.code else ""


@dataclass
class _Stream:
    """The two ends of what a pipe gave."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    left: int = 0

    def add(self, data: bytes) -> None:
        room = KEPT - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > KEPT:
            self.left += len(self.tail) - KEPT
            del self.tail[:-KEPT]

    @property
    def text(self) -> str:
        cut = f"\n... {self.left} bytes are left out ...\n".encode() if self.left else b""
        return bytes(self.head + cut + self.tail).decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")


class _Running:
    """A command that was started."""

    def __init__(self, command: Sequence[str], folder: Path | None, limit: float, where: str) -> None:
        self.command, self.limit = tuple(command), limit
        try:
            self.process = subprocess.Popen(
                self.command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "LC_ALL": "C"}, process_group=None if _shared else 0,
            )  # fmt: skip
        except (OSError, ValueError) as e:  # ValueError: a null byte in an argument
            text = getattr(e, "strerror", None) or str(e)
            raise BuildError(f"{Path(self.command[0]).name} cannot be started: {text} ({self.command[0]})", where=where,
                             hint="is it still installed, and may it be executed here?", machine=True) from None  # fmt: skip
        self.began = time.monotonic()
        self.closed = 0.0  # when it had ended, while its streams were still open
        assert self.process.stdout is not None and self.process.stderr is not None
        self.streams = {self.process.stdout.fileno(): _Stream(), self.process.stderr.fileno(): _Stream()}
        self.open = set(self.streams)

    @property
    def over(self) -> bool:
        """Whether it has ended and was read to its end, or will not be waited for any longer."""
        now = time.monotonic()
        if self.process.poll() is None:
            return now > self.began + self.limit
        self.closed = self.closed or now
        return not self.open or now > self.closed + GRACE

    def ended(self) -> Ended:
        late = self.process.poll() is None
        if late or self.open:
            self.kill()
        out, err = (s.text for s in self.streams.values())
        self._close()
        return Ended(self.command, -signal.SIGKILL if late else self.process.returncode, out, err, late, self.limit)

    def kill(self) -> None:
        """End it, and its group where it has one of its own."""
        if not _shared:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait(GRACE)  # it may sit in the kernel, behind a file system that does not answer

    def _close(self) -> None:
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


def run(commands: Sequence[Sequence[str]], folder: Path | None = None, *, where: str, limit: float | None = None,
        jobs: int = 1) -> list[Ended]:  # fmt: skip
    """How each command ended, in their order; at most `jobs` run at a time, each for `limit` seconds ($AUTOCOMP_BUILD_SECONDS).

    After the first that is no success no further one is begun, and those that run are ended; what comes back is then shorter.
    Raises BuildError where a command cannot be started.
    """
    seconds = build_limit() if limit is None else limit
    waiting = list(enumerate(commands))[::-1]
    running: dict[int, _Running] = {}
    ended: dict[int, Ended] = {}
    with selectors.DefaultSelector() as pipes:
        try:
            while waiting or running:
                while waiting and len(running) < max(1, jobs):
                    n, command = waiting.pop()
                    running[n] = _Running(command, folder, seconds, where)
                    for fd in running[n].open:
                        pipes.register(fd, selectors.EVENT_READ, running[n])
                _read(pipes)
                for n in [n for n, r in running.items() if r.over]:
                    r = running.pop(n)
                    for fd in r.open:
                        pipes.unregister(fd)
                    ended[n] = r.ended()
                    if ended[n].why:
                        waiting.clear()
                        return [ended[n]]
        finally:
            for r in running.values():
                r.kill()
                r._close()
    return [ended[n] for n in sorted(ended)]


def _read(pipes: selectors.BaseSelector) -> None:
    """What there is to read now, waiting for it a little."""
    for key, _ in pipes.select(LOOKS):
        running: _Running = key.data
        data = os.read(key.fd, 1 << 16)
        if data:
            running.streams[key.fd].add(data)
        else:
            pipes.unregister(key.fd)
            running.open.discard(key.fd)


def build(commands: Sequence[Sequence[str]], makes: Sequence[Path], folder: Path, *, where: str, jobs: int = 1,
          error: Callable[[Ended, str, str], BuildError] | None = None) -> None:  # fmt: skip
    """Run a compiler's commands of which each makes a file (in their order). Raises BuildError: the command, its first error, its log
    (what `error` makes of a command that failed, why, and `where`; `failure` if not given)."""
    error = error or failure
    done = run(commands, folder, where=where, jobs=jobs)
    if bad := next((e for e in done if e.why), None):
        raise error(bad, bad.why, where)
    for e, path in zip(done, makes, strict=True):
        try:
            size = path.stat().st_size
        except OSError:
            raise error(e, f"ended well but wrote no {path.name}", where) from None
        if not size:
            raise error(e, f"ended well but {path.name} is empty", where)


def failure(e: Ended, what: str, where: str, hint: str = "", source: str = "") -> BuildError:
    """The error for a command, with its first complaint; its output is kept in a log, and behind it the text that it was given."""
    path = keep_log(f"{shlex.join(e.command)}\n{e.why or what}\n{e.said}\n{source}")
    lines = [line for line in e.said.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line), lines[0] if lines else "")[:200]
    steps = [hint, f"read {path}" if path else "its output could not be kept: is there room for temporary files?"]
    if e.late:
        steps.append("give it a later --deadline" if current().over else f"set ${SECONDS} if it needs longer")
    full = any(os.strerror(n) in e.said for n in FULL)
    if any(os.strerror(n) in e.said for n in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)):
        steps.append("make room, or set $AUTOCOMP_CACHE and $TMPDIR to folders of another disk")
    return BuildError(f"{e.name} {what}" + (f": {first}" if first else ""), log=path, where=where, hint="; ".join(s for s in steps if s),
                      machine=full, late=e.late)  # fmt: skip


def keep_log(text: str) -> str | None:
    """Path of a temporary file with a text, for people to read; None where none can be written."""
    try:
        fd, path = tempfile.mkstemp(prefix="autocomp-", suffix=".log")
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as f:
            f.write(text)
    except OSError:
        return None
    return path


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
