"""What ended a worker of a run that died: its signal or exit code, and where its threads were. The last lines of the run say so, since what
a worker writes itself stands far above them, or nowhere."""

from __future__ import annotations

import faulthandler
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import pytest

LINES = 60  # of the stacks
_FOLDER = pytest.StashKey[tempfile.TemporaryDirectory[str]]()
_FILE = pytest.StashKey[IO[str]]()
_DIED = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Before a worker starts: the file for its stacks."""
    if _FOLDER not in node.config.stash:
        node.config.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="autocomp-stacks-")
    node.workerinput["stacks"] = str(Path(node.config.stash[_FOLDER].name) / f"{node.gateway.id}.txt")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """In a worker, behind pytest's own handler."""
    if place := getattr(config, "workerinput", {}).get("stacks"):
        config.stash[_FILE] = open(place, "w")  # noqa: SIM115  # for as long as the worker lives
        faulthandler.enable(file=config.stash[_FILE])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    if not error:
        return
    code = None
    with suppress(AttributeError, subprocess.TimeoutExpired):
        code = node.gateway._io.popen.wait(10)
    how = "how is not known" if code is None else f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    with suppress(OSError, KeyError):
        how += "\n" + "".join(Path(node.workerinput["stacks"]).read_text(errors="replace").splitlines(keepends=True)[:LINES])
    node.config.stash.setdefault(_DIED, []).append(f"{node.gateway.id} died: {how}".rstrip())


def pytest_unconfigure(config: pytest.Config) -> None:
    for told in config.stash.get(_DIED, []):
        print(told)
    if folder := config.stash.get(_FOLDER, None):
        folder.cleanup()
