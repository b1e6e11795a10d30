"""Tests that run printed kernels on a CUDA device; without one they skip and say why."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    from autocomp.targets import load_target

    why = load_target("cuda").why_not_runnable()
    for item in items:
        if HERE not in item.path.parents:
            continue
        item.add_marker(pytest.mark.gpu)
        if why:
            item.add_marker(pytest.mark.skip(reason=why))
