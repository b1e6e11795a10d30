"""The MACA SDK's compiler, mxcc."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autocomp.targets.sdk import SdkToolchain

from autocomp.errors import BuildError

HINT = "install the MACA SDK and put mxgpu_llvm/bin on PATH, or set $MACA_PATH"


def headers() -> dict[str, str]:
    """The target's device headers and those that GPU targets share, by name."""
    folders = [files(f"autocomp.targets.{t}").joinpath("include") for t in ("simt", "maca")]
    return {f.name: f.read_text() for folder in folders for f in sorted(folder.iterdir(), key=lambda f: f.name)}


@dataclass(frozen=True)
class Toolchain(SdkToolchain):
    """Compiles one kernel's text for `arch` (xcore1000, ...)."""

    target, command, suffix = "maca", "mxcc", "maca"

    def compiler(self) -> str:
        """Path of mxcc. Raises BuildError with what to install."""
        sdk = Path(os.environ.get("MACA_PATH", "/opt/maca")) / "mxgpu_llvm" / "bin"
        found = shutil.which("mxcc", path=f"{sdk}{os.pathsep}{os.environ.get('PATH', '')}")
        if found is None:
            raise BuildError("mxcc is not found", where="target maca", hint=HINT)
        return found

    def headers(self) -> dict[str, str]:
        return headers()

    def arguments(self, source: str) -> list[str]:
        return ["-x", "maca", "-O3", "-std=c++17", f"-offload-arch={self.arch}", "-device-obj", source]
