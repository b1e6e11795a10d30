"""The op table's entries, by subject. Importing this package fills `OPS`."""

from autocomp.ir.ops import composite, contractions, indexing, pointwise, reductions, views, windows
from autocomp.ir.ops.table import OPS, Op

__all__ = ["OPS", "Op", "composite", "contractions", "indexing", "pointwise", "reductions", "views", "windows"]
