"""CANN's compiler for Ascend C, bisheng (started through ccec in older releases)."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from autocomp.targets.sdk import SdkToolchain

from autocomp.errors import BuildError

HINT = "install the CANN toolkit and source its set_env.sh, or set $ASCEND_HOME_PATH"


def headers() -> dict[str, str]:
    """The target's device headers by name."""
    folder = files("autocomp.targets.ascend").joinpath("include")
    return {f.name: f.read_text(encoding="utf-8") for f in sorted(folder.iterdir(), key=lambda f: f.name)}


@dataclass(frozen=True)
class Toolchain(SdkToolchain):
    """Compiles one kernel's text for `arch` (dav-c220, ...)."""

    target, command, suffix = "ascend", "bisheng", "cpp"

    def compiler(self) -> str:
        """Path of bisheng. Raises BuildError with what to install."""
        home = Path(os.environ.get("ASCEND_HOME_PATH", "/usr/local/Ascend/ascend-toolkit/latest"))
        path = os.pathsep.join([str(home / "compiler" / "ccec_compiler" / "bin"), os.environ.get("PATH", "")])
        found = shutil.which("bisheng", path=path) or shutil.which("ccec", path=path)
        if found is None:
            raise BuildError("bisheng, the Ascend C compiler of CANN, is not found", where="target ascend", hint=HINT)
        return found

    def headers(self) -> dict[str, str]:
        return headers()

    def arguments(self, source: str) -> list[str]:
        return ["-x", "cce", "-O3", "-std=c++17", f"--cce-aicore-arch={self.arch}", "-c", source]
