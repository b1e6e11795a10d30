"""The MACA SDK's compiler, mxcc."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autocomp.targets.sdk import SdkToolchain

from autocomp.errors import BuildError

HINT = "install the MACA SDK and put mxgpu_llvm/bin on PATH, set $MACA_PATH, or give its folder as maca_path (--maca-path)"
DEFAULT = "/opt/maca"
COMPILER, NEEDED = "mxgpu_llvm/bin/mxcc", ("mxgpu_llvm/bin/mxcc", "include/mcr/mc_runtime.h")  # of the SDK's folder
PLAIN = re.compile(r"[\w./+,@~-]+")  # what a path may have that stands in a Makefile


def headers() -> dict[str, str]:
    """The target's device headers and those that GPU targets share, by name."""
    folders = [files(f"autocomp.targets.{t}").joinpath("include") for t in ("simt", "maca")]
    return {f.name: f.read_text(encoding="utf-8") for folder in folders for f in sorted(folder.iterdir(), key=lambda f: f.name)}


@dataclass(frozen=True)
class Toolchain(SdkToolchain):
    """Compiles one kernel's text for `arch` (xcore1000, ...). `given`: folder of the SDK that the user named, "" for none."""

    target, command, suffix = "maca", "mxcc", "maca"
    given: str = ""

    def sdk(self) -> Path:
        """Folder of the SDK, whether or not it is there. Raises BuildError where one was named that lacks what a build needs."""
        if not self.given:
            return Path(os.environ.get("MACA_PATH") or DEFAULT)
        folder = Path(self.given).expanduser().absolute()
        what = "" if folder.is_dir() else "is no folder" if folder.exists() else "does not exist"
        if lacks := [n for n in NEEDED if not (folder / n).is_file()]:
            what = what or f"has no {' and no '.join(lacks)}"
        elif not os.access(folder / COMPILER, os.X_OK):
            what = f"has {COMPILER}, which cannot be executed"
        elif not PLAIN.fullmatch(str(folder)):
            what = "cannot stand in a Makefile: letters, digits and ./+,@~_- can"
        if what:
            raise BuildError(f"the MACA SDK's folder {folder} {what}", where="maca_path",
                             hint=f"name the folder that has {' and '.join(NEEDED)}, {DEFAULT} where it was not moved")  # fmt: skip
        return folder

    def elsewhere(self) -> str:
        """Where a saved folder looks for the SDK on another machine: where the user said, else where it is installed."""
        return str(self.sdk()) if self.given else DEFAULT

    def compiler(self) -> str:
        """Path of mxcc. Raises BuildError with what to install."""
        here = self.sdk() / "mxgpu_llvm" / "bin"
        found = shutil.which("mxcc", path=f"{here}{os.pathsep}{os.environ.get('PATH', '') if not self.given else ''}")
        if found is None:
            raise BuildError("mxcc is not found", where="target maca", hint=HINT)
        return found

    def headers(self) -> dict[str, str]:
        return headers()

    def arguments(self, source: str) -> list[str]:
        where = [f"--maca-path={self.sdk()}"] if self.sdk().is_dir() else []  # else mxcc finds its own
        return ["-x", "maca", "-O3", "-std=c++17", f"-offload-arch={self.arch}", *where, "-device-obj", source]
