"""Interrupts (SIGINT) of a command at any moment: one line and exit code 130."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


def _ours() -> bool:
    """Whether Python's own handler is there, in the thread that may set another."""
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def leaving() -> Iterator[None]:
    """An interrupt ends the process at once: where nothing is begun, and a KeyboardInterrupt might be raised anywhere."""
    if not _ours():
        yield
        return

    def leave(signum: int, frame: FrameType | None) -> None:
        os.write(2, b"interrupted before anything was begun\n")
        os._exit(130)

    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Interrupts:
    """`came`: an interrupt was there since. While the interpreter ends, one more ends it without a text."""

    came = False

    def __enter__(self) -> Interrupts:
        self.set = _ours()
        if self.set:
            signal.signal(signal.SIGINT, self._note)
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)
        return self

    def __exit__(self, *exc: Any) -> None:
        if self.set:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt
