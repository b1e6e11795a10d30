"""Places of a run at which a call to the system fails, drawn with fixed seeds; and the net can fail."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.fuzz import faults

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")
PLANTED = '''
def half(where):
    """Writes in place what it reads again."""
    import numpy as np
    path = where / "table.txt"
    if not path.exists():
        path.write_text("one two three")
    assert path.read_text() == "one two three", "half of it is there"

def lets_fly(where):
    (where / "table.txt").write_text("one two three")
'''


def test_drawn_faults():
    drawn = [faults.draw(seed) for seed in range(200)]
    cases = [c for c in drawn if c.scenario == "database"][:6] + [c for c in drawn if c.scenario == "warm"][:1]
    with ThreadPoolExecutor(2) as pool:
        verdicts = dict(zip(cases, pool.map(faults.check, cases)))
    assert not [(c.text(), v.detail) for c, v in verdicts.items() if v.kind == "wrong"]
    assert {v.kind for v in verdicts.values()} == {"right", "refused"}


def test_the_last_writes_of_a_saved_program_on_a_full_disk():
    calls = faults.total("save", False)
    assert calls > 50
    with ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda n: faults.ask("save", n, "ENOSPC")[0], range(calls - 2, calls)))
    assert not [v.detail for v in verdicts if v.kind == "wrong"]


@pytest.mark.parametrize(("name", "said"), [("half", "half of it is there"), ("lets_fly", "No space left on device")])
def test_the_net_can_fail(tmp_path, monkeypatch, name, said):
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    verdict, _ = faults.ask(f"planted:{name}", 1, "ENOSPC")
    assert verdict.kind == "wrong"
    assert "No space left on device" in verdict.detail or said in verdict.detail
