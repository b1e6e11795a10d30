"""CANN's compiler for Ascend C, bisheng (started through ccec in older releases)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autocomp.errors import BuildError

HINT = "install the CANN toolkit and source its set_env.sh, or set $ASCEND_HOME_PATH"


def headers() -> dict[str, str]:
    """The target's device headers by name."""
    folder = files("autocomp.targets.ascend").joinpath("include")
    return {f.name: f.read_text() for f in sorted(folder.iterdir(), key=lambda f: f.name)}


@dataclass(frozen=True)
class Toolchain:
    """Compiles one kernel's text for `arch` (dav-c220, ...)."""

    arch: str

    def compiler(self) -> str:
        """Path of bisheng. Raises BuildError with what to install."""
        home = Path(os.environ.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest"))
        path = os.pathsep.join([str(home / "compiler" / "ccec_compiler" / "bin"), os.environ.get("PATH", "")])
        found = shutil.which("bisheng", path=path) or shutil.which("ccec", path=path)
        if found is None:
            raise BuildError("bisheng, the Ascend C compiler of CANN, is not found", where="target ascend", hint=HINT)
        return found

    def missing(self) -> str:
        """Why nothing can be compiled here, "" if it can."""
        try:
            self.compiler()
        except BuildError as e:
            return f"{e.what} ({e.hint})"
        return ""

    def key(self) -> str:
        """What the result depends on besides the text."""
        return "\n".join((self.compiler(), self.arch, *headers().values()))

    def compile_object(self, name: str, text: str) -> bytes:
        """The device object of a kernel. Raises BuildError with the compiler's first error and the path of its log."""
        folder = Path(tempfile.mkdtemp(prefix="autocomp-"))
        for file, content in {**headers(), f"{name}.cpp": text}.items():
            (folder / file).write_text(content)
        flags = ["-x", "cce", "-O3", "-std=c++17", f"--cce-aicore-arch={self.arch}"]
        command = [self.compiler(), *flags, "-c", f"{name}.cpp", "-o", f"{name}.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            (folder / "log.txt").write_text(" ".join(command) + "\n" + done.stderr)
            first = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr[:200])
            raise BuildError(f"bisheng refused kernel {name}: {first}", log=str(folder / "log.txt"), where="target ascend",
                             hint=f"read {folder / 'log.txt'}")  # fmt: skip
        code = (folder / f"{name}.o").read_bytes()
        shutil.rmtree(folder, ignore_errors=True)
        return code
