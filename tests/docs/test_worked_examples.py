"""The worked examples of README and docs, run as they stand; the pages' lists against what the code has."""

from __future__ import annotations

import inspect
import linecache
import re
import shlex
import shutil
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import autocomp
from autocomp import errors
from autocomp.ir.schedule_text import CLAUSES
from tests.helpers.command_line import call

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/models.md", "docs/rules.md", "docs/errors.md", "docs/gpu.md", "docs/schedules.md", "docs/tile_program.md",
         "docs/plan.md", "docs/tutorial.md"]  # fmt: skip
RUNS = {"README.md": {"python"}, "docs/models.md": {"python", "text", "console"}, "docs/rules.md": {"python", "yaml", "text", "console"},
        "docs/errors.md": {"yaml", "text", "console"}, "docs/gpu.md": {"python", "yaml", "text", "console"},
        "docs/schedules.md": {"text", "console"}, "docs/tile_program.md": {"python"},
        "docs/plan.md": {"python"}, "docs/tutorial.md": {"python", "yaml", "text", "console"}}  # fmt: skip


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, text) of every fenced block."""
    return re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def command(line: str) -> str:
    """What a shell command of the page prints."""
    program, *arguments = shlex.split(line)
    assert program == "autocomp"
    code, out, err = call(*arguments)
    assert (code == 0) == ("error: " not in err), err
    return out + err


def console(text: str) -> None:
    """Each command; the lines under it are pieces of what it prints."""
    said, line = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            said = command(line[2:])
        elif line.strip():
            assert line.strip() in said, f"'{line}' is not in:\n{said}"


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")
@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_as_it_stands(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    names: dict[str, object] = {}
    for language, text in blocks(page):
        if language not in RUNS[page]:
            continue
        if language == "python":
            (tmp_path / "page.py").write_text(text)  # rules made by functions say where they stand
            exec(compile(text, str(tmp_path / "page.py"), "exec"), names)
        elif language == "console":
            console(text)
        else:
            title = re.match(r"# (\S+)\n", text)
            assert title, f"a {language} block without its file's name"
            (tmp_path / title[1]).write_text(text.partition("\n")[2] if language == "text" else text)


@pytest.mark.parametrize("page", ["docs/models.md", "docs/frontends.md"])
def test_the_torch_examples(page):
    pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
    text = "\n".join(re.findall(r"^```python torch\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))
    if "backend=" in text and "autocomp" not in entry_points(group="torch_dynamo_backends").names:
        pytest.skip("the package was installed before it had this entry point (pip install -e .)")
    exec(compile(text, page, "exec"), {})


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


def test_the_table_of_options_is_the_options():
    page = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (?:`(.*?)`|none) \|", page, re.MULTILINE))
    assert listed == {f.name: "" if f.default in ((), "") else str(f.default) for f in fields(autocomp.Options)}


EVERY_PAGE = ["README.md", *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]


def said(page: str) -> list[str]:
    """What the page sets in code: lines of its blocks and pieces between backticks, without their comments."""
    text = (ROOT / page).read_text(encoding="utf-8")
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    inline = re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    lines = [line.removeprefix("$ ") for block in fenced for line in block.splitlines()] + [" ".join(x.split()) for x in inline]
    return [re.sub(r"\s+#.*", "", line).strip() for line in lines]


def understood(words: list[str]) -> None:
    """The command line takes these words: nothing is run."""
    import typer.main

    from autocomp.cli import app

    command = typer.main.get_command(app)
    name = "autocomp"
    while hasattr(command, "commands") and words and words[0] in command.commands:
        name, command, words = words[0], command.commands[words[0]], words[1:]
    if words and words != ["-h"]:
        command.make_context(name, list(words))


def piped(line: str) -> list[list[str]]:
    """The words of each command of a line; a bar in quotes is a word's."""
    out: list[list[str]] = [[]]
    for word in shlex.split(re.sub(r"('[^']*'|\"[^\"]*\")|\|", lambda m: m[1] or " \0 ", line)):
        if word == "\0":
            out.append([])
        else:
            out[-1].append(word)
    return out


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_the_commands_of_a_page_exist(page):
    commands = [line for line in said(page) if line.startswith("autocomp ")]
    for line in commands:
        line = re.sub(r"\[-o DIR\]|\[.*?\]|\.\.\.", "", line.removeprefix("autocomp "))
        for words in piped(line):
            try:
                understood(words)
            except (Exception, SystemExit) as e:
                if "Missing" not in str(getattr(e, "message", "")):  # a sentence may name a command without its model
                    pytest.fail(f"{page}: autocomp {' '.join(words)}: {getattr(e, 'message', e)!r}")


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_the_benchmarks_of_a_page_exist(page):
    for line in said(page):
        if found := re.match(r"(?:\w+=\S+ )*python (?:-m benchmarks\.|benchmarks/)(\w+(?:\.(?!py\b)\w+)*)(?:\.py)?(.*)", line):
            file = ROOT / "benchmarks" / f"{found[1].replace('.', '/')}.py"
            assert file.is_file(), f"{page}: {line}"
            for flag in re.findall(r"--[a-z][\w-]*", found[2]):
                assert f'"{flag}"' in file.read_text(encoding="utf-8"), f"{page}: {line}: {flag}"


@pytest.mark.parametrize("page", EVERY_PAGE)
def test_files_and_tests_that_a_page_names_exist(page):
    """Paths between backticks that begin with a folder of the repository, or of the package."""
    for line in said(page):
        for path in re.findall(r"^((?:autocomp|targets|rules|cost_models|tests|examples|benchmarks|docs)/[\w./]*\w)(?:[ :]|$)", line):
            assert (ROOT / path).exists() or "acme" in path, f"{page}: {path}"  # acme: the vendor of docs/targets.md


def test_the_refused_branch_of_the_front_ends_page(tmp_path):
    page = (ROOT / "docs" / "frontends.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(model\.py:7 .*?)```", page, re.DOTALL)
    (tmp_path / "model.py").write_text("\n\n\ndef attention(scores):\n    import numpy as np\n\n    if scores.max() > 0:\n"
                                       "        return np.exp(scores)\n    return scores\n")  # fmt: skip
    names: dict[str, object] = {}
    exec(compile((tmp_path / "model.py").read_text(), str(tmp_path / "model.py"), "exec"), names)
    linecache.checkcache()
    with pytest.raises(errors.UnsupportedOp) as e:
        autocomp.optimize(names["attention"], example_inputs=np.zeros((2, 2), "f4"))
    assert str(e.value) == shown.strip()


def test_every_clause_of_schedules_is_listed():
    page = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")
    clauses, _ = page.split("## Directives")
    assert {c.split()[0] for c in re.findall(r"^\| `([^`]+)`", clauses, re.MULTILINE)} == set(CLAUSES) - {"join"}
