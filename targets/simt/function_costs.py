"""What operations of an expression cost a thread: the rows of functions.yaml, in instructions by pipe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from autocomp.files import own_table
from autocomp.ir.body import Expr, Inside, Map, postorder
from autocomp.ir.types import BOOL, F16, SHORT_FLOATS, DType

CHEAPER_HALVES = {"gelu", "tanh", "sigmoid", "silu", "mish", "exp", "exp2", "expm1", "div", "rsqrt"}
"""Functions of which a cheaper form errs far below half precision."""


@lru_cache(maxsize=1)
def table() -> Mapping[str, Any]:
    """functions.yaml."""
    return own_table("autocomp.targets.simt", "functions.yaml")  # type: ignore[no-any-return]


def cost_of(x: Map, half: bool) -> Mapping[str, float]:
    """Instructions of an operation by pipe. `half`: it may be computed in half precision."""
    rows = table()
    of = x.args[1].dtype if x.fn == "where" else x.args[0].dtype if x.args else x.dtype
    if x.fn == "cast":
        return cast(of, x.dtype)
    return function_cost(x.fn, of, half) if x.fn != "where" or not isinstance(x.args[0], Inside) else rows["functions"]["where"]


def cast(a: DType, b: DType) -> Mapping[str, float]:
    casts = table()["casts"]
    if b == BOOL:
        return casts["truth"]  # type: ignore[no-any-return]
    if a.is_float and b.is_float:
        return {} if b in SHORT_FLOATS or a in SHORT_FLOATS else casts["float"]
    return casts["integer"] if a.is_float == b.is_float else casts["number"]  # type: ignore[no-any-return]


def function_cost(fn: str, of: DType, half: bool) -> Mapping[str, float]:
    rows = table()
    if of.is_float and fn in CHEAPER_HALVES and (half or of in SHORT_FLOATS) and fn in rows["half"]:
        cost = rows["half"][fn]
    elif of == F16 and fn in rows["f16"]:
        cost = rows["f16"][fn]
    elif not of.is_float and of != BOOL and fn in rows["integers"]:
        cost = rows["integers"][fn]
    else:
        cost = rows["functions"].get(fn, rows["otherwise"])
    if of.bits == 64 and fn in rows["long"] and not of.is_float:
        return rows["long"][fn]  # type: ignore[no-any-return]
    return {k: n * rows["wide"] for k, n in cost.items()} if of.bits == 64 else cost  # type: ignore[no-any-return]


def written(e: Expr) -> dict[Expr, int]:
    """How often each part of an expression stands in its text."""
    often = dict.fromkeys(postorder(e), 0) | {e: 1}
    for x in reversed(often):
        for a in x.args if isinstance(x, Map) else ():
            often[a] += often[x]
    return often
