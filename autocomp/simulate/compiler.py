"""The C++ compiler that builds printed kernels together with a model of their machine."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import count
from pathlib import Path

from autocomp import commands
from autocomp.errors import AutocompError, BuildError
from autocomp.files import digest
from autocomp.store import read_entry, write_entry

CANDIDATES = ("g++", "clang++-19", "clang++")
WHERE = "simulate"
OBJECT = "autocomp machine model 1"


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


def quick_link() -> tuple[str, ...]:
    """Options of a command that links: GNU's other linker, where it is there, takes half the time for a small library."""
    return ("-fuse-ld=gold",) if shutil.which("ld.gold") and "clang" not in " ".join(found()) else ()


def new_library(folder: Path) -> Path:
    """A library that is not in a folder yet: the loader takes a path that it knows for the library that it has, whatever lies there."""
    return next(path for n in count() if not (path := folder / f"kernels{n or ''}.so").exists())


def compile_all(arguments: Sequence[Sequence[str]], makes: Sequence[Path], folder: Path, jobs: int = 1) -> None:
    """Run the compiler once for each list of arguments, each of which makes a file. Raises BuildError with its first complaint."""
    commands.build([[*compiler(), *a] for a in arguments], makes, folder, where=WHERE, jobs=jobs)


def kept_object(out: Path, source: Path, flags: Sequence[str], where: Sequence[str] = ()) -> None:
    """A model of a machine as an object file, the same for all programs: compiled once, with flags and the folders of headers that lie
    beside it or in `where`, and kept in the cache. Raises BuildError."""
    command = compiler()
    texts = (path.read_text(encoding="utf-8") for path in sorted(source.parent.glob("*.*")))
    key = digest([*command, commands.identity(command[0]), *flags, *texts])
    if kept := read_entry("models", OBJECT, key):
        out.write_bytes(kept)
        return
    compile_all([[*flags, "-c", *where, str(source), "-o", str(out)]], [out], out.parent)
    write_entry("models", OBJECT, key, out.read_bytes())


@lru_cache(maxsize=1)
def include() -> Path:
    """The folder of the models' headers."""
    return Path(str(files("autocomp.simulate"))) / "include"


def of_target(name: str) -> Path:
    """The folder of a target's device headers."""
    return Path(str(files(f"autocomp.targets.{name}"))) / "include"
