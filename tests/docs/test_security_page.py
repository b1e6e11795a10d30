"""docs/security.md: every promise names tests, and they are there; and those that no other test holds."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError
from autocomp.runtime.inputs import load_npz

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.endswith("tests |")]


def named(text: str) -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", text)


@pytest.mark.parametrize("row", ROWS, ids=[r[2:40] for r in ROWS])
def test_every_promise_has_its_tests(row):
    assert named(row)


def test_the_tests_are_there():
    assert len(ROWS) > 15
    for file, name in named(PAGE):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, f"{file}::{name}"


def test_the_environment_that_it_names_is_read():
    code = "".join(p.read_text(encoding="utf-8") for top in ("autocomp", "targets") for p in (ROOT / top).rglob("*.py"))
    for name in set(re.findall(r"`\$([A-Z_]+)`", PAGE)) - {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME"}:
        assert f'"{name}"' in code, name


def test_how_to_report_stands_at_the_top():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "docs/security.md" in text
    assert "**Supported versions.**" in text
    assert "**Reporting.**" in text


class Ran:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_inputs_are_not_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "x.npz", x=np.array([Ran()], dtype=object))
    with pytest.raises(ModelError, match=r"not a readable \.npz: Object arrays cannot be loaded"):
        load_npz(tmp_path / "x.npz")
    assert not (tmp_path / "ran").exists()


def test_nothing_of_a_saved_program_runs_when_it_is_read(tmp_path):
    folder = autocomp.optimize("graph g\ninput x: f32[5]\n%0 = exp(x)\noutput y = %0\n").save(tmp_path / "out")
    mark = tmp_path / "ran"
    (folder / "build.sh").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (folder / "kernels.so").write_bytes(b"no library")
    (folder / "weights.npz").write_bytes(b"no weights")
    autocomp.compare(folder, folder).report(tmp_path / "ab.html")
    assert not mark.exists()
