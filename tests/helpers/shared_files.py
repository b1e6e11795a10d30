"""Files that one run of the suite makes once, whichever of its processes asks first."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder of this run that `make` has filled; others wait until it is."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each has a folder of its own in the run's
        root = root.parent
    folder, done = root / f"{name}-shared", root / f"{name}-shared.done"
    with (root / f"{name}-shared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            folder.mkdir(exist_ok=True)  # one that failed left it
            make(folder)
            done.touch()
    return folder
