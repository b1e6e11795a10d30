"""SIGINT at any moment of a command: one line, exit code 130, no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

MODEL = "graph m\ninput x: f32[8, 8]\n%0 = exp(x)\noutput y = %0\n"


def command(before: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """`autocomp optimize` in a process of its own, after `before`."""
    (tmp_path / "m.txt").write_text(MODEL, encoding="utf-8")
    arguments = ["autocomp", "optimize", str(tmp_path / "m.txt"), "--target", "cuda:h200"]
    code = f"{textwrap.dedent(before)}\nimport sys\nsys.argv = {arguments!r}\nfrom autocomp.cli import main\nmain()\n"
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120,
                          env=dict(os.environ, AUTOCOMP_CACHE=str(tmp_path / "cache")))  # fmt: skip


IN_AN_IMPORT = """
    import os, signal, sys
    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == "autocomp.cli.machine": os.kill(os.getpid(), signal.SIGINT)
    sys.meta_path.insert(0, Finder())
"""
IN_A_COMMAND = """
    import os, signal, autocomp.pipeline as p
    p.compile_model = lambda *a, **k: os.kill(os.getpid(), signal.SIGINT)
"""
AS_ANOTHER_ERROR = """
    import os, signal, autocomp.pipeline as p
    def swallowed(*a, **k):
        try: os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt: raise ImportError("numpy._core.umath failed to import") from None
    p.compile_model = swallowed
"""


@pytest.mark.skipif(not hasattr(signal, "SIGINT"), reason="no signals")
@pytest.mark.parametrize(("before", "said"), [
    (IN_AN_IMPORT, "interrupted before anything was begun\n"),
    (IN_A_COMMAND, "interrupted; what was being written is not there\n"),
    (AS_ANOTHER_ERROR, "interrupted; what was being written is not there\n"),
])  # fmt: skip
def test_one_line_and_130(before, said, tmp_path):
    done = command(before, tmp_path)
    assert (done.returncode, done.stderr) == (130, said)
