"""The C++ compiler that builds printed kernels together with a model of their machine."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from autocomp import commands
from autocomp.errors import AutocompError, BuildError

CANDIDATES = ("g++", "clang++-19", "clang++")
WHERE = "simulate"


class ModelFailure(AutocompError):
    """A model ended a kernel: a hang, divergence, an access outside of a buffer, accesses that nothing orders, ..."""


def found() -> tuple[str, ...]:
    """Command of the C++ compiler, $CXX first; () where there is none."""
    wanted = shlex.split(os.environ.get("CXX", ""))
    names = [wanted] if wanted else [[n] for n in CANDIDATES]
    return next(((p, *n[1:]) for n in names if (p := shutil.which(n[0]))), ())


def compiler() -> tuple[str, ...]:
    """Command of the C++ compiler. Raises BuildError with what to install."""
    command = found()
    if not command:
        wanted = os.environ.get("CXX", "")
        what = f"$CXX names '{wanted}', which is not found" if wanted else f"no C++ compiler found ({', '.join(CANDIDATES)})"
        raise BuildError(f"{what}: the models of chips compile printed kernels with one", where=WHERE,
                         hint="install one, e.g. `apt-get install g++`, or set $CXX", machine=True)  # fmt: skip
    return command


def compile_all(arguments: Sequence[Sequence[str]], makes: Sequence[Path], folder: Path, jobs: int = 1) -> None:
    """Run the compiler once for each list of arguments, each of which makes a file. Raises BuildError with its first complaint."""
    commands.build([[*compiler(), *a] for a in arguments], makes, folder, where=WHERE, jobs=jobs)


@lru_cache(maxsize=1)
def include() -> Path:
    """The folder of the models' headers."""
    return Path(str(files("autocomp.simulate"))) / "include"


def of_target(name: str) -> Path:
    """The folder of a target's device headers."""
    return Path(str(files(f"autocomp.targets.{name}"))) / "include"
