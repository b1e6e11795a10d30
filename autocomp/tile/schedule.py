"""The schedule record under the name that the tile program's readers know; it lives with the data that stages hand on."""

from autocomp.ir.schedule import Schedule

__all__ = ["Schedule"]
