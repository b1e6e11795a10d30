"""Files that somebody edits: once at the beginning, and once after each change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

LOOK = 0.3  # seconds between two looks


def changes(files: Sequence[Path], sleep: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yields at once, then whenever one of the files is another than it was, until Ctrl-C (which ends it quietly). A file that is away for
    a moment, as editors write, counts when it is back."""
    seen = _stamps(files)
    with suppress(KeyboardInterrupt):
        yield
        while True:
            sleep(LOOK)
            now = _stamps(files)
            if now != seen and None not in now:
                seen = now
                yield


def _stamps(files: Sequence[Path]) -> list[tuple[int, int, int] | None]:
    out: list[tuple[int, int, int] | None] = []
    for f in files:
        try:
            s = f.stat()
            out.append((s.st_mtime_ns, s.st_size, s.st_ino))
        except OSError:
            out.append(None)
    return out
