"""What each phase's rules may say: ops of patterns, functions and words of conditions.

Graph phases speak of the op table; `fusion` of bodies (checked for each cut); `tiling` and `scheduling` of one kernel.
The functions' meaning lives with the stage that evaluates them (`functions.py` for the graph phases).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from autocomp.ir.ops import OPS
from autocomp.ir.types import DTYPES
from autocomp.options import Options

GRAPH_PHASES = ("shapes", "algebra", "layout", "precision", "idioms", "monoids")
BODY_PHASES = ("fusion",)
KERNEL_PHASES = ("tiling", "scheduling")
PHASES = GRAPH_PHASES + BODY_PHASES + KERNEL_PHASES
ANY = 99


@dataclass(frozen=True)
class Vocabulary:
    """arity: op -> least and most operands; attrs: op -> its attributes (None: any); functions: name -> argument counts."""

    arity: Mapping[str, tuple[int, int]]
    attrs: Mapping[str, frozenset[str]] | None
    functions: Mapping[str, tuple[int, int]]
    words: frozenset[str]


OPTION_NAMES = frozenset(f.name for f in fields(Options))
LISTS = {"len": (1, 1), "product": (1, 1), "min": (1, ANY), "max": (1, ANY), "abs": (1, 1), "option": (1, 1)}
TENSORS = {
    "rank": (1, 1),
    "shape": (1, 1),
    "dim": (2, 2),
    "dtype": (1, 1),
    "elements": (1, 1),
    "bytes": (1, 1),
    "is_constant": (1, 1),
    "is_uniform": (1, 1),
    "value": (1, 1),
    "is_float": (1, 1),
    "is_int": (1, 1),
    "compose": (2, 2),
    "inverse": (1, 1),
    "permuted": (2, 2),
    "padded": (2, 2),
    "range": (1, 2),
    "sorted": (1, 1),
    "mapped": (2, 2),
    "replaced": (3, 3),
    "without": (2, 2),
    "kept": (2, 2),
    "contains": (2, 2),
    "is_static": (1, 1),
    "broadcast": (2, 2),
    "close": (2, 2),
    "sqrt": (1, 1),
    "suffix": (2, 2),
    "normal": (2, 2),
    "sum": (1, 1),
    "repeat": (2, 2),
    "widens": (2, 2),
    "int": (1, 1),
    "offset": (2, 2),
    "batched": (2, 2),
    "power_of_two": (1, 1),
    "feature": (1, 1),
    "channels_last": (1, 1),
    "channels_first": (1, 1),
    "keeps_order": (2, 2),
    "rotated": (1, 1),
    "dim_at": (2, 2),
    "missing": (2, 2),
    "gcd": (2, 2),
}
ATTRIBUTE_WORDS = frozenset({"nchw", "nhwc", "nhwc_ohwi"})  # values that attributes of the op table's entries have
BODY = {
    "kind": (1, 1),
    "form": (1, 1),
    "ops": (1, 1),
    "depth": (0, 2),
    "reads": (0, 2),
    "uses": (1, 2),
    "users": (1, 2),
    "position": (0, 2),
    "rank": (1, 1),
    "shape": (1, 1),
    "dim": (2, 2),
    "dtype": (1, 1),
    "elements": (1, 1),
    "bytes": (1, 1),
    "gigabytes": (1, 1),
    "fns": (1, 1),
    "recompute": (0, 2),
    "level": (1, 1),
    "leaves": (0, 2),
    "is_constant": (1, 1),
    "view": (1, 1),
    "windowed": (1, 1),
}
KERNEL = {
    "legal": (1, ANY),
    "fits": (2, 3),
    "bytes": (1, 1),
    "bits": (1, 1),
    "has": (1, 2),
    "chip": (1, 2),
    "extent": (1, 1),
    "ceildiv": (2, 2),
    "divides": (2, 2),
    "dtype": (0, 1),
    "kind": (0, 1),
    "power_of_two": (1, 1),
    "lanes": (0, 1),
    "cores": (0, 0),
    "feature": (1, 1),
    "open_rows": (0, 0),
    "taps": (0, 0),
    "wave": (0, 0),
    "factor_bytes": (0, 0),
    "factor": (0, 0),
    "capacity": (1, 1),
    "elements": (1, 1),
    "waves": (1, 3),
    "instruction": (0, 3),
    "threads": (0, 0),
    "ops": (0, 1),
}
BODY_OPS = (
    "map",
    "reduce",
    "contract",
    "online",
    "load",
    "store",
    "select",
    "view",
    "kernel",
    "const",
    "opaque",
    "alone",
    "gather",
    "recurrence",
)
BODY_WORDS = frozenset(
    {
        "contract",
        "contraction",
        "chain",
        "online",
        "map",
        "reduce",
        "view",
        "const",
        "leaf",
        "elementwise",
        "statistic",
        "normalised",
        "alone",
        "opaque",
        "first",
        "second",
        "a",
        "b",
        "r",
        "post",
        "table",
        "scores",
        "values",
    }
)
KERNEL_WORDS = frozenset(
    {
        "tile",
        "block",
        "l0a",
        "l0b",
        "l0c",
        "ub",
        "fragment",
        "thread",
        "warp",
        "grid",
        "serial",
        "parallel",
        "pipelined",
        "vectorise",
        "vectorize",
        "unroll",
        "interchange",
        "skew",
        "reverse",
        "split",
        "pipeline",
        "fuse",
        "m",
        "n",
        "k",
        "i",
        "j",
        "r",
        "batch",
        "rows",
        "cols",
        "row",
        "axes",
        "L1",
        "L2",
        "L3",
        "l1",
        "l2",
        "l3",
        "registers",
        "register",
        "shared",
        "map",
        "reduce",
        "contract",
        "contraction",
        "chain",
        "online",
        "elementwise",
        "statistic",
        "normalised",
        "matrix",
        "vector",
        "recurrence",
        "time",
        "space",
    }
)


def vocabulary(phase: str) -> Vocabulary:
    """The vocabulary of a phase. Raises KeyError for a phase that is none of PHASES."""
    words = OPTION_NAMES | frozenset(DTYPES)
    if phase in GRAPH_PHASES:
        arity = {n: o.arity for n, o in OPS.items()} | {"const": (0, 0)}
        attrs = {n: frozenset(o.attrs) for n, o in OPS.items()} | {"const": frozenset({"value", "dtype"})}
        return Vocabulary(arity, attrs, {**LISTS, **TENSORS}, words | ATTRIBUTE_WORDS)
    any_arity = {n: (0, ANY) for n in BODY_OPS}
    if phase in BODY_PHASES:
        return Vocabulary(any_arity, None, {**LISTS, **BODY}, words | BODY_WORDS)
    if phase in KERNEL_PHASES:
        moves = {n: (0, ANY) for n in sorted(KERNEL_WORDS)}
        return Vocabulary({**any_arity, **moves}, None, {**LISTS, **KERNEL}, words | KERNEL_WORDS | BODY_WORDS)
    raise KeyError(phase)
