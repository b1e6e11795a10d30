"""A worker of the suite that dies says of what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("does", "says"), [
    ("import ctypes; ctypes.string_at(0)", ["gw0 died: SIGSEGV", 'test_it.py", line 2 in test_dies']),
    ("import os; os._exit(7)", ["gw0 died: exit code 7"]),
])  # fmt: skip
def test_what_a_worker_died_of_is_said_at_the_end(does, says, tmp_path):
    (tmp_path / "test_it.py").write_text(f"def test_dies():\n    {does}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.helpers.crashes", "-n", "1", "--max-worker-restart", "0"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=False, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    end = done.stdout.partition("short test summary")[2]
    assert all(s in end for s in says), done.stdout
