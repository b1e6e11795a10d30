"""`autocomp explain --matrix`: kernels by targets, right or refused with a reason, and the rules that fired."""

from __future__ import annotations

import json
import re

import pytest

import autocomp
from autocomp.errors import AutocompError, VerificationError
from autocomp.report import matrix as page
from autocomp.simulate.simt_model import COMPILER
from tests.helpers.command_line import call


def test_there_are_forty_kernels_and_each_is_a_graph():
    found = page.kernels()
    assert len(found) >= 40 and len(set(found.values())) == len(found)
    with pytest.raises(AutocompError, match="no kernel of the matrix is called like 'convolve'"):
        page.chosen("convolve")


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler")
def test_a_shard(monkeypatch):
    """One kernel that all targets take, one that NPUs refuse with the type and both numbers."""
    monkeypatch.setattr(page, "which", lambda name: None)  # nvcc is tried by hand
    code, out, _ = call("explain", "--matrix", "--only", "masks,double")
    assert code == 0 and re.search(r"2 kernels: cpu 2 right; cuda:h200 2 right; maca:c500 2 right; ascend:910b 1 right, 1 refused", out)
    assert "refused: elements of type f64 have 64 bits, Ascend 910B3 64 GB computes floats of at most 32" in out
    assert re.search(r"masks\n  cpu +right: run, equal", out) and re.search(r"ascend:910b +tiling/npu-small$", out, re.MULTILINE)


def test_what_is_wrong_ends_the_command_with_3(monkeypatch):
    monkeypatch.setattr(page, "cell", lambda *_: page.Cell("wrong", "far off"))
    code, out, _ = call("explain", "--matrix", "--only", "masks", "--json")
    assert code == 3 and json.loads(out)["masks"]["cpu"] == {"outcome": "wrong", "note": "far off", "rules": []}
    code, _, err = call("explain")
    assert code == 2 and "explain wants a MODEL, or --matrix" in err


def test_what_a_file_keeps_is_not_run_again(monkeypatch, tmp_path):
    """Interrupted at the third cell, it goes on there; a line that was cut off, and one of another version, count for nothing."""
    kept, ran = tmp_path / "rows.jsonl", []

    def cell(text, target, optimize):
        ran.append(target)
        if len(ran) == 3:
            raise KeyboardInterrupt
        return page.Cell("right", "equal", ("a",))

    monkeypatch.setattr(page, "cell", cell)
    with pytest.raises(KeyboardInterrupt):
        list(page.matrix("masks", None, kept))
    with kept.open("a") as f:
        f.write(kept.read_text().replace(page.package_stamp(), "0.0").replace("cpu", "maca:c500") + '{"version": "')
    kept.write_text(kept.read_text() + "\n")
    code, _, err = call("explain", "--matrix", "--only", "masks", "--kept", str(kept))
    assert code == 0 and ran == ["cpu", "cuda:h200", "maca:c500", "maca:c500", "ascend:910b"] and "[1/1] masks on ascend:910b" in err
    assert dict(page.matrix("masks", None, kept))["masks"]["cpu"].rules == ("a",) and len(ran) == 5


def test_a_wrong_result_is_said(monkeypatch):
    def optimize(*given, **named):
        program = autocomp.optimize(*given, **named)
        monkeypatch.setattr(program, "verify", lambda: (_ for _ in ()).throw(VerificationError("off by 3")))
        return program

    found = page.cell(page.kernels()["masks"], "cpu", optimize)
    assert (found.outcome, found.note) == ("wrong", "off by 3") and found.rules
