"""Where in the user's code an operation was traced: the innermost frame that is neither ours nor NumPy's, and what called it."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType, TracebackType

import numpy as np

CALLERS = 3  # lines at most that are named of those through which the traced function came to an operation
_OURS = tuple(str(p) + "/" for p in (Path(__file__).parents[2], Path(np.__file__).parent))


def _is_user(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(_OURS)


def _text(filename: str, line: int, function: str) -> str:
    code = linecache.getline(filename, line).strip()
    short = code if len(code) <= 80 else code[:77] + "..."
    name = Path(filename).name if not filename.startswith("<") else filename
    return f"{name}:{line} in {function}" + (f" `{short}`" if short else "")


def here() -> str:
    """The user's line that is running now, as `file.py:12 in mlp `y = x @ w``; of a helper also where it was called, so that two calls of
    it are told apart: `file.py:3 in norm `return x / s`` (called at file.py:12)`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_user(frame):
        frame = frame.f_back
    if frame is None:
        return "trace"
    text, callers = _text(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name), list[str]()
    outer = frame.f_back
    while outer is not None and _is_user(outer):
        callers.append(f"{Path(outer.f_code.co_filename).name}:{outer.f_lineno}")
        outer = outer.f_back
    more = f" and {len(callers) - CALLERS} more" if len(callers) > CALLERS else ""
    return f"{text} (called at {', '.join(callers[:CALLERS])}{more})" if callers else text


def of_traceback(tb: TracebackType | None) -> str:
    """The innermost line of the user's code that an exception passed through."""
    found = ""
    while tb is not None:
        if _is_user(tb.tb_frame):
            found = _text(tb.tb_frame.f_code.co_filename, tb.tb_lineno, tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    return found or "trace"
