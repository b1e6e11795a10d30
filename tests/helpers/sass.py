"""What ptxas makes of a printed kernel, disassembled."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest


@cache
def disassembler() -> str:
    """nvdisasm of the toolkit or of the package of its name, "" without one."""
    spec = find_spec("nvidia")
    places = list(spec.submodule_search_locations or ()) if spec else []
    found = [Path(p) / "cu13" / "bin" / "nvdisasm" for p in places]
    return shutil.which("nvdisasm") or next((str(p) for p in found if p.exists()), "")


needs_disassembler = pytest.mark.skipif(not (find_spec("cuda") and disassembler()),
                                        reason="no NVRTC or no nvdisasm (pip install nvidia-cuda-nvdisasm)")  # fmt: skip


def instructions(text: str, tmp_path: Path) -> list[str]:
    """The instructions of a file with one kernel, in order, for sm_90a."""
    from autocomp.targets.cuda import nvrtc

    binary = nvrtc.compiled("sm_90a", "kernel", text[text.index("#include") :])
    assert isinstance(binary, bytes), binary
    (file := tmp_path / "kernel.cubin").write_bytes(binary)
    out = subprocess.run([disassembler(), "-c", str(file)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(.*?);", out, re.MULTILINE)
