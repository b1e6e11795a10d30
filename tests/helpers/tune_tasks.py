"""Tasks that crash, hang and fail, for child processes (which import this module)."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any

from autocomp.errors import UnsupportedOp


def task(x: Any) -> Any:
    """x squared, or what the word says."""
    if x == "segv":
        ctypes.string_at(0)
    if x == "hang":
        while True:
            time.sleep(1)
    if x == "error":
        raise ValueError("bad candidate")
    if x == "unsupported":
        raise UnsupportedOp("the target has no such instruction")
    if x == "exit":
        os._exit(7)
    return x * x


def noisy() -> str:
    """Writes to both outputs, also below Python."""
    os.write(1, b"\x00\x01 generated code prints this\n")
    print("and this", file=sys.stderr)
    return "quiet"


def slowly(seconds: float) -> int:
    """The process that slept."""
    time.sleep(seconds)
    return os.getpid()


def begun(path: str, seconds: float) -> str:
    """Leaves a file, and sleeps."""
    Path(path).write_text(str(os.getpid()))
    time.sleep(seconds)
    return path


def compiler(arch: str, name: str, text: str) -> bytes | str:
    """A compiler of kernels in whose text stands what it does."""
    if text in ("hang", "segv"):
        task(text)
    return text if "error" in text else name.encode()
