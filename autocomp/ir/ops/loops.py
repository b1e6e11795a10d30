"""`loop`: a recurrence whose body is a graph of its own, run once a step.

    carry = init                                       inputs of the op:  inits | stacked tensors | tensors that all steps read
    for t in range(trips):                             values of the body: carries | slices | the same, then one of each step
        carry, out[t] = body(carry, stacked[t], rest)  results:           new carries | what is stacked, along a new first axis

With a `condition`, the number of a carry that is one truth value, it is `while`: steps run as long as that carry is true, `trips` of them
at most. What they stack would have as many rows as they are, so nothing is stacked then.

The body is text in tuples, (op, numbers of its operands, attributes) a step, so that equal loops are equal nodes. Each node is one of the
results (`part`): nodes that differ in nothing else are one loop (`egraph.rolled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Attrs
from autocomp.ir.ops.table import OPS, Op, register
from autocomp.ir.types import BOOL, DTYPES, Dim, Sym, TensorType, dim_hint

Step = tuple[str, tuple[int, ...], tuple[tuple[str, Any], ...]]
MOST = 4096  # operands
NAME = "loop"
NONE = -1  # no condition: all steps run
ENDLESS = 2**31 - 1  # trips of a loop that its condition alone ends
EXPECTED = 32  # steps that the price of a loop with a condition counts on: nothing in a model says how many run


def attributes(step: Step) -> Attrs:
    """Those of a step of a body."""
    return Attrs(dict(step[2]))


def expected(trips: Dim, condition: bool) -> int:
    """Steps to price a loop with."""
    return min(dim_hint(trips), EXPECTED) if condition else dim_hint(trips)


@lru_cache(maxsize=512)
def body_types(types: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    """The type of each value of a body, by its number. Raises ModelError with the step that is wrong."""
    c, s = attrs["carried"], attrs["scanned"]
    if not 0 <= c <= c + s <= len(types):
        raise _fail(f"carries {c} tensors and goes through {s}, of {len(types)} operands")
    if not isinstance(attrs["trips"], (int, Sym)) or (isinstance(attrs["trips"], int) and attrs["trips"] < 0):
        raise _fail(f"trips is {attrs['trips']!r}, a size is needed")
    for t in types[c : c + s]:
        if not t.rank or t.shape[0] != attrs["trips"]:
            raise _fail(f"goes through {t}, whose first dimension is not its {attrs['trips']} steps")
    if tuple(attrs["dtypes"]) != tuple(t.dtype.name for t in types):
        raise _fail(f"has dtypes {list(attrs['dtypes'])} for {', '.join(map(str, types))}")
    values = [*types[:c], *(TensorType(t.dtype, t.shape[1:]) for t in types[c : c + s]), *types[c + s :]]
    for k, step in enumerate(attrs["body"]):
        op, operands, _ = step
        a = attributes(step)
        if any(not 0 <= i < len(values) for i in operands):
            raise _fail(f"step {k} of its body, {op}, reads what is not made yet")
        if op == "const":
            values.append(TensorType(DTYPES[a["dtype"]], ()))
            continue
        if op not in OPS:
            raise _fail(f"step {k} of its body is no op: '{op}'")
        if not OPS[op].arity[0] <= len(operands) <= OPS[op].arity[1]:
            raise _fail(f"step {k} of its body, {op}, has {len(operands)} operands")
        values.append(OPS[op].infer(tuple(values[i] for i in operands), a))
    return tuple(values)


def _infer(types: tuple[TensorType, ...], a: Attrs) -> TensorType:
    values, results, c = body_types(types, a), a["results"], a["carried"]
    if len(results) < c or any(not 0 <= r < len(values) for r in results):
        raise _fail(f"has results {list(results)} of {len(values)} values, {c} of them carried")
    for k, r in enumerate(results[:c]):
        if values[r] != types[k]:
            raise _fail(f"carry {k} begins as {types[k]} and goes on as {values[r]}")
    if (k := a["condition"]) != NONE:
        if not 0 <= k < c or types[k] != TensorType(BOOL, ()):
            raise _fail(f"has condition {k}, which is no carry of one truth value")
        if len(results) > c:
            raise _fail("stacks results of steps whose number a condition decides")
    if not 0 <= a["part"] < len(results):
        raise _fail(f"has no result {a['part']}: there are {len(results)}")
    t = values[results[a["part"]]]
    return t if a["part"] < c else TensorType(t.dtype, (a["trips"], *t.shape))


def _reference(x: Sequence[np.ndarray], a: Attrs, out: TensorType) -> np.ndarray:
    c, s = a["carried"], a["scanned"]
    wide = any(v.dtype != DTYPES[d].numpy for v, d in zip(x, a["dtypes"], strict=True))  # the float64 oracle
    types = body_types(tuple(TensorType(DTYPES[d], v.shape) for v, d in zip(x, a["dtypes"])), a)
    steps = [(op, operands, attributes((op, operands, pairs))) for op, operands, pairs in a["body"]]
    carries, rest, stacked = list(x[:c]), list(x[c + s :]), []
    for t in range(a["trips"]):
        if a["condition"] != NONE and not carries[a["condition"]]:
            break
        values = [*carries, *(v[t] for v in x[c : c + s]), *rest]
        for op, operands, attrs in steps:
            of = types[len(values)]
            if op == "const":
                v = np.asarray(attrs["value"], of.dtype.numpy)
            else:
                v = np.asarray(OPS[op].reference(tuple(values[i] for i in operands), attrs, of))
            values.append(v.astype(np.float64) if wide and of.dtype.is_float else v)
        carries = [values[r] for r in a["results"][:c]]
        stacked.append(values[a["results"][a["part"]]])
    if a["part"] < c:
        return np.asarray(carries[a["part"]])
    if stacked:
        return np.stack(stacked)
    nothing = np.zeros([d for d in out.shape if isinstance(d, int)], out.dtype.numpy)
    return nothing.astype(np.float64) if wide and out.dtype.is_float else nothing


def _fail(text: str) -> ModelError:
    return ModelError(text, where=NAME)


register(
    Op(
        NAME,
        (0, MOST),
        _infer,
        _reference,
        opaque="its body's kernels run once a step",
        attrs={"body": ..., "dtypes": ..., "carried": ..., "scanned": ..., "results": ..., "trips": ..., "part": 0, "condition": NONE},
        doc="carry = init, then `trips` times carry, out[t] = body(carry, stacked[t], rest); `part`: which of the last carries and outs; "
        "`condition`: a carry that must be true for a step to run, the first that is not ends it",
    )
)
