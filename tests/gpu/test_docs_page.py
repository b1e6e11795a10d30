"""The torch example of docs/gpu.md, run as it stands on a card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gpu.md"


@pytest.fixture(autouse=True)
def schedules_are_chosen_by_the_model():
    """Overrides the fixture of the same name: here programs do use measurements."""


def test_the_torch_example_runs_as_it_stands(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOCOMP_CACHE", str(tmp_path / "cache"))
    (text,) = re.findall(r"^```python gpu\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    exec(compile(text, str(PAGE), "exec"), {})
    assert (tmp_path / "report.html").stat().st_size > 1000
