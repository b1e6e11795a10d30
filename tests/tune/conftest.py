"""Here programs do use measurements, each test from a cache folder of its own."""

from __future__ import annotations

import pytest

from tests.helpers.shared_files import new_cache


@pytest.fixture(autouse=True)
def schedules_are_chosen_by_the_model(monkeypatch, tmp_path):
    """Overrides the fixture of the same name that keeps measurements out of every other test."""
    new_cache(tmp_path / "cache", monkeypatch)
