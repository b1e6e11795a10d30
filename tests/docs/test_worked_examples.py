"""The worked examples of README and docs, run as they stand; the pages' lists against what the code has."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from autocomp import errors

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/models.md", "docs/rules.md", "docs/errors.md"]
RUNS = {"README.md": {"python"}, "docs/models.md": {"python", "text", "console"}, "docs/rules.md": {"python", "yaml", "text", "console"},
        "docs/errors.md": {"yaml", "text", "console"}}  # fmt: skip


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def command(line: str, folder: Path) -> str:
    """What a shell command of the page prints."""
    program, *arguments = shlex.split(line)
    assert program == "autocomp"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "300"}
    done = subprocess.run([sys.executable, "-m", "autocomp.cli", *arguments], cwd=folder, env=env, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert "Traceback" not in done.stderr
    assert (done.returncode == 0) == ("error: " not in done.stderr), done.stderr
    return done.stdout + done.stderr


def console(text: str, folder: Path) -> None:
    """Each command; the lines under it are pieces of what it prints."""
    said, line = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            said = command(line[2:], folder)
        elif line.strip():
            assert line.strip() in said, f"'{line}' is not in:\n{said}"


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")
@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language not in RUNS[page]:
            continue
        if language == "python":
            (tmp_path / "page.py").write_text(text)  # rules made by functions say where they stand
            exec(compile(text, str(tmp_path / "page.py"), "exec"), names)
        elif language == "console":
            console(text, tmp_path)
        else:
            title = re.match(r"# (\S+)\n", text)
            assert title, f"a {language} block without its file's name"
            (tmp_path / title[1]).write_text(text.partition("\n")[2] if language == "text" else text)


def test_every_error_class_and_exit_code_is_listed():
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", page, re.MULTILINE))
    classes = {n: c for n, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}
    assert listed == {n: str(c.exit_code) for n, c in classes.items()}
    codes = set(re.findall(r"^\| (\d+) \|", page, re.MULTILINE))
    source = "".join(p.read_text(encoding="utf-8") for p in [ROOT / "autocomp/cli/__init__.py", *(ROOT / "autocomp" / "cli").glob("*.py")])
    used = {*re.findall(r"(?:sys\.exit|typer\.Exit)\((\d+)\)", source), *listed.values(), "0", "2"}  # 2: typer's own for usage
    assert codes == used
    head = source.split('"""')[1]
    assert all(re.search(rf"\b{c}\b", head) for c in codes)


def test_every_folder_of_the_pipeline_is_in_the_architecture():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = sorted(p.parent.name for p in (ROOT / "autocomp").glob("*/__init__.py") if not p.parent.is_symlink())
    assert [f for f in folders if f"`{f}/" not in page and f"{f}/" not in page] == []
