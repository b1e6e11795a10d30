"""The monoids' expressions, parsed; and the one rule that steps and combines their states.

    term ::= name | number | term (+ - * /) term | exp(term) | max(term, term)

`build` folds a term's tree with the caller's own leaves and functions (NumPy arrays here, body expressions in `tile/`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from autocomp.ir.body import Const, Expr, Map, Reduce
from autocomp.ir.monoids import MONOIDS, Monoid, bound, identity
from autocomp.ir.scalar import SCALAR, apply
from autocomp.ir.types import F64, DType, dtype_of

T = TypeVar("T")
_INFIX = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
State = Mapping[str, np.ndarray]


def build(text: str, leaf: Callable[[str | float], T], fn: Callable[[str, tuple[T, ...]], T]) -> T:
    """The value of a term: `leaf` of names and numbers, `fn` of scalar functions. Raises ValueError on anything else."""
    def go(n: ast.expr) -> T:
        if isinstance(n, ast.Name):
            return leaf(n.id)
        if isinstance(n, ast.Constant) and isinstance(n.value, (int, float)) and not isinstance(n.value, bool):
            return leaf(n.value)
        if isinstance(n, ast.BinOp) and type(n.op) in _INFIX:
            return fn(_INFIX[type(n.op)], (go(n.left), go(n.right)))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in SCALAR and not n.keywords:
            return fn(n.func.id, tuple(map(go, n.args)))
        raise ValueError(f"'{ast.unparse(n)}' is no monoid term (in '{text}')")
    return go(ast.parse(text, mode="eval").body)


def evaluate_term(text: str, env: Mapping[str, np.ndarray], dtype: DType) -> np.ndarray:
    """A term on NumPy arrays."""
    return build(text, lambda x: env[x] if isinstance(x, str) else np.asarray(x, dtype.numpy), lambda f, a: apply(f, a, dtype))


def term(text: str, env: Mapping[str, Expr], dtype: DType) -> Expr:
    """A monoid's term over body expressions; numbers of numbers, multiplying or dividing by 1, and adding a square to 0 leave no trace."""

    def fn(name: str, args: tuple[Expr, ...]) -> Expr:
        numbers = [a.value for a in args if isinstance(a, Const)]
        if len(numbers) == len(args):
            return Const(dtype, apply(name, [np.asarray(v, dtype.numpy) for v in numbers], dtype).item())
        for one, other in (args, args[::-1]) if name == "mul" else (args[::-1],) if name == "div" else ():
            if isinstance(one, Const) and one.value == 1:
                return other
        for one, other in (args, args[::-1]) if name == "add" else ():
            if isinstance(one, Const) and one.value == 0 and _is_square(other):
                return other
        return Map(dtype, name, args)

    return build(text, lambda x: env[x] if isinstance(x, str) else Const(dtype, float(x) if dtype.is_float else int(x)), fn)


def _is_square(e: Expr) -> bool:
    return isinstance(e, Map) and e.fn == "mul" and e.args[0] == e.args[1]


def alone(e: Reduce) -> Expr:
    """A reduction over one element, at that element: what is finished of its lifted state. Modules are rebased to their own base, which
    changes no number and keeps what has none: inf - inf is NaN, as in the sums that were rewritten to the monoid.

        welford over r:1 of v[r]  ->  (v - v) * (v - v) / 1        arg-max of (v[r], r)  ->  r        max_sumexp, part m  ->  v
    """
    m = MONOIDS[e.monoid]
    dtype = e.operands[0].dtype if m.pick else e.dtype
    of = dict(zip(m.operands, e.operands))
    as_state = {o: x if x.dtype == dtype else Map(dtype, "cast", (x,)) for o, x in of.items()}
    base = {s: term(t, as_state, dtype) for s, _, t in m.base}
    ends = {s: Const(dtype, bound(op, dtype)) for s, op, _ in m.base} if m.bounded else {}
    same = {f"{s}1": Map(dtype, op, (base[s], ends[s])) if ends else base[s] for s, op, _ in m.base}
    state = base | {s: term(rebase, {**base, **same, "x": term(t, as_state, dtype)}, dtype) for s, t, rebase in m.modules}
    state |= {s: of[o] for s, o in m.pick}
    part = e.part or m.finish
    value = state[part] if part in state else term(part, state, dtype)
    return value if value.dtype == e.dtype else Map(e.dtype, "cast", (value,))


def _value_dtype(m: Monoid, state: State) -> DType:
    return dtype_of(state[m.base[0][0]])


def lift(m: Monoid, operands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state of a single element."""
    dtype = dtype_of(operands[m.operands[0]])
    shape = np.broadcast_shapes(*(operands[o].shape for o in m.operands))
    out = {s: np.broadcast_to(evaluate_term(t, operands, dtype), shape) for s, *_, t in m.base}
    out |= {s: np.broadcast_to(evaluate_term(t, operands, dtype), shape) for s, t, _ in m.modules}
    return out | {s: operands[t] for s, t in m.pick}


def neutral(m: Monoid, like: State) -> dict[str, np.ndarray]:
    """The identity state in the shapes of `like`."""
    out = {s: np.full_like(like[s], identity(fn, dtype_of(like[s]))) for s, fn, _ in m.base}
    out |= {s: np.zeros_like(like[s]) for s, *_ in m.modules}
    return out | {s: np.full_like(like[s], np.iinfo(np.int64).max) for s, _ in m.pick}


def combine(m: Monoid, a: State, b: State) -> dict[str, np.ndarray]:
    """Two partial states as one: the base combined, both sides' modules rebased to it and added; of picks the winner's."""
    dtype = _value_dtype(m, a)
    new = {s: apply(fn, (a[s], b[s]), dtype) for s, fn, _ in m.base}
    moved = {f"{s}1": v for s, v in new.items()}
    for s, _, rebase in m.modules:
        parts = []
        for side in (a, b):
            shifted = evaluate_term(rebase, {**side, **moved, "x": side[s]}, dtype)
            parts.append(np.where(_unchanged(m, side, new), side[s], shifted))
        new[s] = apply("add", parts, dtype)
    first = m.base[0][0]
    for s, _ in m.pick:
        won = [np.where(_same(side[first], new[first]), side[s], np.iinfo(np.int64).max) for side in (a, b)]
        new[s] = np.minimum(*won)
    return new


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | ((a != a) & (b != b))


def _unchanged(m: Monoid, side: State, new: State) -> np.ndarray:
    """Where the base did not move, a module need not either (and -inf - -inf is never formed)."""
    return np.logical_and.reduce([_same(side[s], new[s]) for s, *_ in m.base])


def finish(m: Monoid, state: State) -> np.ndarray:
    """The value of the whole from its state."""
    return evaluate_term(m.finish, state, _value_dtype(m, state)) if m.finish not in state else np.asarray(state[m.finish])


def element_work(m: Monoid, part: str = "") -> tuple[str, ...]:
    """Scalar functions that folding one more element takes, for the states that `part` ("": the finished value) reads.

    What does not vary with the element (a row's base, numbers) costs nothing here, nor does what a number leaves as it is.
    """
    asked = set(re.findall(r"\w+", part or m.finish))
    work = [op for _, op, lift in m.base if _lifted(lift, m) == ELEMENT]
    for s, lift, rebase in m.modules:
        if s in asked and lift not in m.operands[1:]:
            one = {b: _lifted(t, m) for b, _, t in m.base} | {"x": _lifted(lift, m)}
            leaf = partial(_kind, one)
            build(rebase, leaf, lambda f, a: _count(f, a, work))
            work.append("add")
    return tuple(work)


ROW, ELEMENT = "row", "element"  # what a term varies with, where it is no number
_NEUTRAL = {("add", 0.0), ("mul", 1.0)}


def _kind(element: Mapping[str, str | float], x: str | float) -> str | float:
    return element.get(x, ROW) if isinstance(x, str) else float(x)


def _lifted(lift: str, m: Monoid) -> str | float:
    return ELEMENT if lift in m.operands else float(lift)


def _count(fn: str, args: tuple[str | float, ...], work: list[str]) -> str | float:
    """The kind of fn(args), its cost added to `work`."""
    numbers = [a for a in args if isinstance(a, float)]
    if len(numbers) == len(args):
        return float(apply(fn, tuple(np.asarray(a, np.float64) for a in numbers), F64))
    varying = [a for a in args if not isinstance(a, float)]
    if (len(varying) == 1 and any((fn, n) in _NEUTRAL for n in numbers)) or (fn in ("div", "sub") and args[1] == float(fn == "div")):
        return varying[0]
    if ELEMENT not in varying:
        return ROW
    work.append(fn)
    return ELEMENT
