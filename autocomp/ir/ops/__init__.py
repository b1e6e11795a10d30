"""The op table, one file a subject; importing this package fills `OPS`."""

from autocomp.ir.ops import (
    contractions,
    data,
    derived_windows,
    lookups,
    loops,
    norms,
    pointwise,
    recurrences,
    reductions,
    repeats,
    running,
    spread_windows,
    views,
    weighted,
    windows,
)
from autocomp.ir.ops.table import OPS, Op, register

__all__ = [
    "OPS",
    "Op",
    "contractions",
    "data",
    "derived_windows",
    "lookups",
    "loops",
    "norms",
    "pointwise",
    "recurrences",
    "reductions",
    "register",
    "repeats",
    "running",
    "spread_windows",
    "views",
    "weighted",
    "windows",
]
