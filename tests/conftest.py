"""Shared set-up: where CI is set, property tests draw the same examples on every run; elsewhere they explore."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from tests.helpers.simt_model import COMPILER, compile_model

settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(autouse=True)
def programs_are_compiled(monkeypatch):
    """No program and no schedule comes from the cache of an earlier run: tests change what its key cannot know. The tests of the
    caches override this."""
    monkeypatch.setattr("autocomp.egraph.kernel_memo.ScheduleMemo.get", lambda *a: None)
    monkeypatch.setattr("autocomp.egraph.kernel_memo.ScheduleMemo.put", lambda *a: None)
    monkeypatch.setattr("autocomp.pipeline.load_program", lambda *a: None)
    monkeypatch.setattr("autocomp.pipeline.store_program", lambda *a: None)


@pytest.fixture(autouse=True)
def schedules_are_chosen_by_the_model(monkeypatch):
    """No schedule comes from measurements that were made on this machine before. `tests/tune` overrides this."""
    from autocomp.tune.use import Measured

    monkeypatch.setattr("autocomp.pipeline.measured", lambda *a: Measured({}))


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The machine model that runs printed GPU kernels on this CPU, compiled once."""
    if not COMPILER:
        pytest.skip("no C++ compiler (g++ or clang++)")
    return compile_model(tmp_path_factory.mktemp("simt"))
