"""Where in the user's code an operation was traced: the innermost frame that is neither ours nor NumPy's."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType, TracebackType

import numpy as np

_OURS = tuple(str(p) + "/" for p in (Path(__file__).parents[2], Path(np.__file__).parent))


def _is_user(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(_OURS)


def _text(filename: str, line: int, function: str) -> str:
    code = linecache.getline(filename, line).strip()
    short = code if len(code) <= 80 else code[:77] + "..."
    name = Path(filename).name if not filename.startswith("<") else filename
    return f"{name}:{line} in {function}" + (f" `{short}`" if short else "")


def here() -> str:
    """The user's line that is running now, as `file.py:12 in mlp `y = x @ w``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_user(frame):
        frame = frame.f_back
    return _text(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame is not None else "trace"


def of_traceback(tb: TracebackType | None) -> str:
    """The innermost line of the user's code that an exception passed through."""
    found = ""
    while tb is not None:
        if _is_user(tb.tb_frame):
            found = _text(tb.tb_frame.f_code.co_filename, tb.tb_lineno, tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    return found or "trace"
