"""Files that one run of the suite makes once, whichever of its processes asks first; caches that are new but for what compilers keep."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from autocomp.targets.cpu import precompiled

from autocomp.store import cache_root


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


def new_cache(root: Path, patch: pytest.MonkeyPatch | None = None) -> Path:
    """A cache folder without programs, schedules and measurements; `patch` makes it this process's. What is the same for all of them lies
    in it already, where another test has made it: precompiled headers, without which each test would compile its first program in twice
    and its second in four times the time, models of machines, and the shipped rules as they were read, which takes a process as long as its
    imports. `tests/targets/test_precompiled.py` has folders without them."""
    for kind, ending in ((precompiled.KIND, "pch"), ("models", "entry"), ("rules", "entry")):
        known, own = cache_root() / kind, root / kind
        for folder in (root, own):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for made in known.glob(f"*.{ending}"):
            for file in {made, known / f"{made.stem.partition('-')[0]}.entry"}:
                with suppress(OSError):  # another file system, or removed meanwhile: it is made again
                    os.link(file, own / file.name)
            if at := precompiled._checked.get(made):
                precompiled._checked[own / made.name] = at
    if patch is not None:
        patch.setenv("AUTOCOMP_CACHE", str(root))
    return root
