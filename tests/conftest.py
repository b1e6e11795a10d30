"""Shared set-up: where CI is set, property tests draw the same examples on every run; elsewhere they explore."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
