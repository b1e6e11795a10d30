"""The MACA SDK's compiler, mxcc."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autocomp.errors import BuildError

HINT = "install the MACA SDK and put mxgpu_llvm/bin on PATH, or set $MACA_PATH"


def headers() -> dict[str, str]:
    """The target's device headers and those that GPU targets share, by name."""
    folders = [files(f"autocomp.targets.{t}").joinpath("include") for t in ("simt", "maca")]
    return {f.name: f.read_text() for folder in folders for f in sorted(folder.iterdir(), key=lambda f: f.name)}


@dataclass(frozen=True)
class Toolchain:
    """Compiles one kernel's text for `arch` (xcore1000, ...)."""

    arch: str

    def compiler(self) -> str:
        """Path of mxcc. Raises BuildError with what to install."""
        sdk = Path(os.environ.get("MACA_PATH", "/opt/maca")) / "mxgpu_llvm" / "bin"
        found = shutil.which("mxcc", path=f"{sdk}{os.pathsep}{os.environ.get('PATH', '')}")
        if found is None:
            raise BuildError("mxcc is not found", where="target maca", hint=HINT)
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
        for file, content in {**headers(), f"{name}.maca": text}.items():
            (folder / file).write_text(content)
        flags = ["-x", "maca", "-O3", "-std=c++17", f"-offload-arch={self.arch}", "-device-obj"]
        command = [self.compiler(), *flags, f"{name}.maca", "-o", f"{name}.o"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            (folder / "log.txt").write_text(" ".join(command) + "\n" + done.stderr)
            first = next((x for x in done.stderr.splitlines() if "error" in x), done.stderr[:200])
            raise BuildError(f"mxcc refused kernel {name}: {first}", log=str(folder / "log.txt"), where="target maca",
                             hint=f"read {folder / 'log.txt'}")  # fmt: skip
        code = (folder / f"{name}.o").read_bytes()
        shutil.rmtree(folder, ignore_errors=True)
        return code
