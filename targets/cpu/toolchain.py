"""The system's C compiler."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from autocomp.errors import BuildError

FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fPIC",
    "-w",
)
NO_OPENMP = ("'omp.h' file not found", "omp.h: No such file", "-lomp", "-lgomp", "unsupported option '-fopenmp'")
CANDIDATES = ("cc", "gcc", "clang")


@lru_cache(maxsize=8)
def _found(wanted: str) -> tuple[tuple[str, ...], str]:
    """(command, version line) of the compiler: `wanted` may have options or a launcher in front, as $CC may for make. Raises BuildError
    with what to install."""
    words = [wanted.split(), [wanted]] if wanted.strip() else [[n] for n in CANDIDATES]
    found = next(([p, *n[1:]] for n in words if (p := shutil.which(n[0]))), None)
    if found is None:
        what = f"$CC names '{wanted}', which is not found" if wanted else "no C compiler found"
        raise BuildError(what, where="target cpu", hint="install one, e.g. `apt-get install gcc`, or set $CC")
    run = subprocess.run([*found, "--version"], capture_output=True, text=True, check=False)
    return tuple(found), next(iter((run.stdout or run.stderr).splitlines()), found[0])


@dataclass(frozen=True)
class Toolchain:
    """Compiles C files, side by side, into one shared library or program.

    command: the compiler, else $CC, else the first of cc, gcc and clang. machine: options that say for which instruction set, which must
    have the vectors of the chip that kernels are printed for. more: options behind all others, of compiler and linker (`-O1`, `-g`,
    `-fsanitize=address`, `-static`).
    """

    command: str = ""
    machine: tuple[str, ...] = ("-march=native",)
    more: tuple[str, ...] = ()

    def compiler(self) -> str:
        """The command that compiles, as a shell reads it."""
        return shlex.join(_found(self.command or os.environ.get("CC", ""))[0])

    def missing(self) -> str:
        """Why nothing can be built here, "" if it can."""
        try:
            self.compiler()
        except BuildError as e:
            return e.what
        return ""

    def key(self) -> str:
        """What the result depends on besides the sources."""
        command, version = _found(self.command or os.environ.get("CC", ""))
        folder = files("autocomp.targets.cpu").joinpath("include")
        headers = [f.read_text() for f in sorted(folder.iterdir(), key=lambda f: f.name)]
        return "\n".join((*command, version, _cpu_flags(), *FLAGS, *self.machine, *self.more, *headers))

    def compile(self, folder: Path, names: Sequence[str], out: Path, jobs: int = 2, program: bool = False) -> None:
        """Objects side by side, then one link: a library, or a `program` (with a main). Raises BuildError with the compiler's log."""
        cc = _found(self.command or os.environ.get("CC", ""))[0]
        with as_file(files("autocomp.targets.cpu").joinpath("include")) as include:
            commands = [[*cc, *FLAGS, *self.machine, f"-I{include}", *self.more, "-c", n, "-o", n[:-2] + ".o"] for n in names]
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(lambda c: self._run(c, folder), commands))
        kind = () if program else ("-shared",)
        self._run([*cc, *kind, "-fopenmp", *[n[:-2] + ".o" for n in names], "-o", out.name, "-lm", *self.more], folder)
        for n in names:
            (folder / (n[:-2] + ".o")).unlink()

    def _run(self, command: list[str], folder: Path) -> None:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            import tempfile

            fd, log = tempfile.mkstemp(prefix="autocomp-", suffix=".log")
            with os.fdopen(fd, "w") as f:
                f.write(" ".join(command) + "\n" + done.stderr)
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:200])
            if any(sign in done.stderr for sign in NO_OPENMP):
                raise BuildError(f"{Path(command[0]).name} has no OpenMP here: {first}", log=log, where="target cpu",
                                 hint="install it (for clang e.g. `apt-get install libomp-dev` of its version), or set $CC to a compiler "
                                 "that has it, e.g. CC=gcc")  # fmt: skip
            raise BuildError(
                f"{Path(command[0]).name} failed with exit code {done.returncode}: {first}",
                log=log,
                where="target cpu",
                hint=f"read {log}",
            )


@lru_cache(maxsize=1)
def _cpu_flags() -> str:
    """The instruction sets that -march=native means on this machine."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
