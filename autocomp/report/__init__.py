"""Texts and pages about programs. `autocomp.report()` says what `torch.compile(.., backend="autocomp")` made."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Called(ModuleType):
    """The package answers a call too: `autocomp.report` is a folder and a function."""

    def __call__(self) -> Any:
        from autocomp.report.compiled import report

        return report()


sys.modules[__name__].__class__ = _Called
