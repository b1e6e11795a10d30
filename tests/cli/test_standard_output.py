"""Commands whose standard output is closed, or full, or whose working folder is gone."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from autocomp.cli import main
from autocomp.cli.shared import check_outputs
from autocomp.errors import AutocompError

COMMAND = f"{sys.executable} -c 'from autocomp.cli import main; main()' rules words tiling"


def run(redirected: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["/bin/sh", "-c", f"{COMMAND} {redirected}"], capture_output=True, text=True, check=False)


def test_without_a_standard_output_a_command_ends_well():
    done = run(">&-")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_output_that_cannot_be_written_is_one_text():
    done = run("> /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("error: what it says cannot be written: No space left on device\n  next: ")
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr


def test_a_working_folder_that_is_gone_is_named(tmp_path, monkeypatch):
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(AutocompError, match=r"^out: cannot be written: the folder that this shell stands in is gone"):
        check_outputs(Path("out"))


@pytest.mark.skipif(not Path("/dev/zero").is_char_device(), reason="no /dev/zero")
@pytest.mark.parametrize("command", [["optimize", "/dev/zero"], ["rules", "check", "/dev/zero"], ["rules", "fmt", "/dev/zero"]])
def test_a_device_is_no_file(command, monkeypatch, capsys):
    """Before: read until the memory was full."""
    monkeypatch.setattr("sys.argv", ["autocomp", *command])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    said = capsys.readouterr().err
    assert "/dev/zero" in said and "is a device, not a file" in said


def test_what_the_encoding_of_the_output_lacks_is_written_out(monkeypatch):
    from autocomp import cli

    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(cli, "app", lambda **_: print("a table\u2026 of m\u00f6del\udcff.txt"))
    cli.main()
    out.flush()
    assert out.buffer.getvalue() == rb"a table\u2026 of m\xf6del\udcff.txt" + b"\n"
