"""The system's C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.resources import as_file, files
from pathlib import Path

from autocomp.errors import BuildError

FLAGS = (
    "-std=gnu11",
    "-O3",
    "-march=native",
    "-fopenmp",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fPIC",
    "-w",
)
CANDIDATES = ("cc", "gcc", "clang")


@lru_cache(maxsize=8)
def _found(wanted: str) -> tuple[str, str]:
    """(path, version line) of the compiler. Raises BuildError with what to install."""
    names = (wanted,) if wanted else CANDIDATES
    path = next((p for n in names if (p := shutil.which(n))), None)
    if path is None:
        what = f"$CC names '{wanted}', which is not found" if wanted else "no C compiler found"
        raise BuildError(what, where="target cpu", hint="install one, e.g. `apt-get install gcc`, or set $CC")
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return path, (run.stdout or run.stderr).splitlines()[0] if run.stdout or run.stderr else path


class Toolchain:
    """Compiles C files into one shared library, files side by side."""

    def compiler(self) -> str:
        return _found(os.environ.get("CC", ""))[0]

    def missing(self) -> str:
        """Why nothing can be built here, "" if it can."""
        try:
            self.compiler()
        except BuildError as e:
            return e.what
        return ""

    def key(self) -> str:
        """What the result depends on besides the sources."""
        path, version = _found(os.environ.get("CC", ""))
        folder = files("autocomp.targets.cpu").joinpath("include")
        headers = [f.read_text() for f in sorted(folder.iterdir(), key=lambda f: f.name)]
        return "\n".join((path, version, _cpu_flags(), *FLAGS, *headers))

    def compile(self, folder: Path, names: Sequence[str], out: Path, jobs: int = 2) -> None:
        """Objects side by side, then one link. Raises BuildError with the compiler's log."""
        cc = self.compiler()
        with as_file(files("autocomp.targets.cpu").joinpath("include")) as include:
            commands = [[cc, *FLAGS, f"-I{include}", "-c", n, "-o", n[:-2] + ".o"] for n in names]
            with ThreadPoolExecutor(jobs) as pool:
                list(pool.map(lambda c: self._run(c, folder), commands))
        self._run([cc, "-shared", "-fopenmp", *[n[:-2] + ".o" for n in names], "-o", out.name, "-lm"], folder)
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
