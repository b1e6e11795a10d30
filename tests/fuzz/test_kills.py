"""A process that is killed loses nothing; and the net can fail."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.fuzz.kills import Tally, rounds

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")


def test_two_kills(tmp_path):
    tally = rounds(2, 5, tmp_path)
    assert (tally.kills, tally.lost, tally.bad) == (2, [], [])
    assert tally.acknowledged


def test_the_net_can_fail(tmp_path):
    tally = Tally()
    tally.hear("ADDED 1-0-0 1.0\nDAMAGED cache/build/x.entry is damaged\n")
    assert tally.bad == ["DAMAGED cache/build/x.entry is damaged"]
    broken = tmp_path / "out" / "7"
    broken.mkdir(parents=True)
    (broken / "manifest.json").write_text("{")
    tally.look(tmp_path)
    assert tally.lost == ["1-0-0"]
    assert len(tally.bad) == 2
