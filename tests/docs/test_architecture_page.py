"""docs/architecture.md against the code: files, folders and entry points that it names are there."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ENTRIES = PAGE.split("## Entry points of each stage\n```text\n")[1].split("```")[0]
# (module, name, arguments) of those whose arguments the page shows
CALLS = re.findall(r"^(?:.*; +)?([a-z_.]+)\.([A-Za-z_]+)\(([^)]*)\)", ENTRIES.replace(";  ", "\n"), re.MULTILINE)


def test_every_folder_of_the_pipeline_is_named():
    folders = sorted(p.parent.name for p in (ROOT / "autocomp").glob("*/__init__.py") if not p.parent.is_symlink())
    assert [f for f in folders if f"`{f}/" not in PAGE and f"{f}/" not in PAGE] == []


def test_files_and_folders_that_it_names():
    names = {w for code in re.findall(r"`([^`\n]+)`", PAGE) for w in re.split(r"[ ,]+", code)}
    files = {w for w in names if re.fullmatch(r"[\w/]+\.(py|yaml|md)", w)}
    folders = {w for w in names if re.fullmatch(r"[\w/]+/", w)}
    assert len(files) > 40
    assert len(folders) > 10
    there = [p.relative_to(ROOT).as_posix() for top in ("autocomp", "rules", "cost_models", "targets", "tests", "benchmarks", "docs")
             for p in (ROOT / top).rglob("*")]  # fmt: skip
    assert not [f for f in files if not any(p == f or p.endswith(f"/{f}") for p in there)]
    assert not [f for f in folders if not any(f"/{p}/".endswith(f"/{f}") for p in there)]


def test_entry_points_exist():
    folders = "frontends|ir|rewrite|egraph|tune|loops|cost|tile|targets|runtime"
    names = re.findall(rf"(?<![\w.])((?:{folders})(?:\.\w+)+)", ENTRIES)
    assert len(names) > 20
    for name in names:
        assert pkgutil.resolve_name(f"autocomp.{name}") is not None, name


@pytest.mark.parametrize(("module", "name", "arguments"), CALLS, ids=[f"{m}.{n}" for m, n, _ in CALLS])
def test_entry_points_and_their_arguments(module, name, arguments):
    made = getattr(import_module(f"autocomp.{module}"), name)
    known = inspect.signature(made).parameters
    named = [re.split(r"[:=]", a.strip())[0] for a in arguments.split(",") if a.strip() and not a.strip().startswith(('"', ".", "**"))]
    assert not [a for a in named if a not in known], f"{name}{inspect.signature(made)}"
