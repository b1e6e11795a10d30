"""The worked examples of docs/targets.md, done as they stand on the page."""

from __future__ import annotations

import re
from pathlib import Path

import autocomp.targets
import pytest
import yaml
from autocomp.targets import load_target, manifests

import autocomp
from autocomp.errors import DoesNotFit
from autocomp.ir.schedule import Schedule
from tests.helpers.device_graphs import GRAPHS, attention

PAGE = (Path(__file__).parents[2] / "docs" / "targets.md").read_text(encoding="utf-8")


def block(title: str) -> str:
    """The code block of the page that begins with `# title`."""
    found = re.findall(rf"```\w+\n(# {re.escape(title)}\n.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1, title
    return found[0]


def test_a_chip_is_a_file(tmp_path):
    path = tmp_path / "big.yaml"
    path.write_text(block("big.yaml"))
    with pytest.raises(DoesNotFit, match="has 65536"):
        autocomp.optimize(attention(1, 2, 200, 128, "f32"), target="maca:c500")
    program = autocomp.optimize(attention(1, 2, 200, 128, "f32"), target=f"maca:{path}")
    folder = program.save(tmp_path / "out")
    assert (folder / "launcher.maca").exists() and "A card of this page" in (folder / "README.md").read_text()


def test_a_target_is_a_folder(tmp_path, monkeypatch):
    folder = tmp_path / "acme"
    folder.mkdir()
    for name in ("target.yaml", "target.py"):
        (folder / name).write_text(block(name))
    known = {**manifests(), "acme": yaml.safe_load((folder / "target.yaml").read_text())}
    monkeypatch.setattr(autocomp.targets, "manifests", lambda: known)
    monkeypatch.setattr(autocomp.targets, "__path__", [*autocomp.targets.__path__, str(tmp_path)])
    kernel = autocomp.optimize(GRAPHS["gemm_f32"], target="maca").calls.calls[0].kernel
    schedule = Schedule.make({"i0": 32, "i1": 32, "r0": 16}, stages=2, threads=128)
    source = load_target("acme:c500").emit(kernel, schedule)
    assert source.language == "acme" and "__global__" in source.text and "ac_mma" not in source.text
