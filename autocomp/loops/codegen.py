"""Loops from a schedule: isl's AST generator, handed on as a small tree of our own (no isl object leaves this package).

    Loop(var, first, last, step, body)   last inclusive      If(condition, body)      Run(statement, values of its axes)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Union

import islpy as isl

from autocomp.errors import AutocompError
from autocomp.loops.dependence import order_map
from autocomp.loops.nest import LoopNest


@dataclass(frozen=True)
class Num:
    """An integer."""

    value: int


@dataclass(frozen=True)
class Var:
    """A loop variable or a size."""

    name: str


@dataclass(frozen=True)
class Calc:
    """op: + - * neg min max floordiv div mod == < <= > >= and or select. floordiv rounds down, div is of non-negative
    numbers or without rest, mod is of non-negative numbers."""

    op: str
    args: tuple[Formula, ...]


Formula = Union[Num, Var, Calc]


@dataclass(frozen=True)
class Run:
    """One instance of a statement; `at` gives its axes in order."""

    statement: str
    at: tuple[Formula, ...]


@dataclass(frozen=True)
class If:
    condition: Formula
    body: tuple[Tree, ...]
    other: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Loop:
    """for var = first; condition; var += step. `mark`: parallel (iterations at once), simd (innermost and independent), ""."""

    var: str
    name: str
    first: Formula
    condition: Formula
    step: Formula
    body: tuple[Tree, ...]
    mark: str = ""


Tree = Union[Loop, If, Run]

_OPS = {"add": "+", "sub": "-", "mul": "*", "minus": "neg", "min": "min", "max": "max", "fdiv_q": "floordiv", "pdiv_q": "div",
        "div": "div", "pdiv_r": "mod", "zdiv_r": "mod", "eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and_": "and",
        "and_then": "and", "or_": "or", "or_else": "or", "cond": "select", "select": "select"}


def generate(nest: LoopNest) -> tuple[Tree, ...]:
    """Loops that run every instance of the nest once, in the order of its rows. Its legality is not asked here.

    The innermost loops are separated into pieces with the same statements (full parts free of tests).
    """
    time = order_map(nest, nest.rows)
    inner = 2 * max(len(r.loops) for r in nest.rows) - 1
    dims = ", ".join(f"i{k}" for k in range(nest.depth))
    options = isl.UnionMap(f"{{ [{dims}] -> separate[{inner}] }}")
    build = isl.AstBuild.from_context(isl.Set("{ : }")).set_options(options)
    ids = isl.IdList.alloc(isl.DEFAULT_CONTEXT, nest.depth)
    for k in range(nest.depth):
        ids = ids.add(isl.Id(f"c{k}"))
    return _marked(_tree(build.set_iterators(ids).node_from_schedule_map(time)), nest)


def _tree(node: isl.AstNode) -> tuple[Tree, ...]:
    kind = node.get_type()
    if kind == isl.ast_node_type.for_:  # type: ignore[attr-defined]
        body = _tree(node.for_get_body())
        var = node.for_get_iterator().get_id().get_name()
        first = _formula(node.for_get_init())
        if node.for_is_degenerate():
            return tuple(_placed(n, var, first) for n in body)
        return (Loop(var, "", first, _formula(node.for_get_cond()), _formula(node.for_get_inc()), body),)
    if kind == isl.ast_node_type.if_:  # type: ignore[attr-defined]
        other = _tree(node.if_get_else()) if node.if_has_else() else ()
        return (If(_formula(node.if_get_cond()), _tree(node.if_get_then()), other),)
    if kind == isl.ast_node_type.block:
        children = node.block_get_children()
        return tuple(t for k in range(children.n_ast_node()) for t in _tree(children.get_at(k)))
    if kind == isl.ast_node_type.user:
        call = node.user_get_expr()
        args = [call.op_get_arg(k) for k in range(call.op_get_n_arg())]
        return (Run(args[0].get_id().get_name(), tuple(_formula(a) for a in args[1:])),)
    raise AutocompError(f"isl gave a loop tree with an unknown node {kind}")


def _placed(t: Tree, var: str, value: Formula) -> Tree:
    """A loop of one iteration disappears: its variable is its value."""
    if isinstance(t, Run):
        return Run(t.statement, tuple(_put(f, var, value) for f in t.at))
    if isinstance(t, If):
        return If(_put(t.condition, var, value), tuple(_placed(x, var, value) for x in t.body),
                  tuple(_placed(x, var, value) for x in t.other))
    return Loop(t.var, t.name, _put(t.first, var, value), _put(t.condition, var, value), t.step,
                tuple(_placed(x, var, value) for x in t.body), t.mark)


def _put(f: Formula, var: str, value: Formula) -> Formula:
    if isinstance(f, Var):
        return value if f.name == var else f
    return f if isinstance(f, Num) else Calc(f.op, tuple(_put(a, var, value) for a in f.args))


def _formula(e: isl.AstExpr) -> Formula:
    kind = e.get_type()
    if kind == isl.ast_expr_type.int:
        return Num(e.int_get_val().to_python())
    if kind == isl.ast_expr_type.id:
        return Var(e.get_id().get_name())
    op = str(e.op_get_type()).rsplit(".", 1)[-1]
    args = tuple(_formula(e.op_get_arg(k)) for k in range(e.op_get_n_arg()))
    if op not in _OPS:
        raise AutocompError(f"isl gave a loop bound with an unknown operation {op}")
    folded = args[0]
    if op in ("min", "max") and len(args) > 2:
        for a in args[1:]:
            folded = Calc(op, (folded, a))
        return folded
    return Calc(_OPS[op], args)


def statements_of(trees: tuple[Tree, ...]) -> Iterator[str]:
    """Names of the statements run anywhere below, with repeats."""
    for t in trees:
        if isinstance(t, Run):
            yield t.statement
        elif isinstance(t, If):
            yield from statements_of((*t.body, *t.other))
        else:
            yield from statements_of(t.body)


def _marked(trees: tuple[Tree, ...], nest: LoopNest) -> tuple[Tree, ...]:
    """Names of loops, and the marks of those that were asked to run at once; a marked loop inside a marked one is simd."""
    index = {s.name: n for n, s in enumerate(nest.statements)}
    marks = dict(nest.marks)

    def go(t: Tree, inside: bool) -> Tree:
        if isinstance(t, Run):
            return t
        if isinstance(t, If):
            return If(t.condition, tuple(go(x, inside) for x in t.body), tuple(go(x, inside) for x in t.other))
        place = (int(t.var[1:]) - 1) // 2
        names = {nest.rows[index[s]].names()[place] for s in statements_of(t.body) if place < len(nest.rows[index[s]].loops)}
        name = min(names) if len(names) == 1 else t.var
        kind = marks.get(name, "")
        mark = "simd" if kind == "lanes" else "parallel" if kind and not inside else ""
        return Loop(t.var, name, t.first, t.condition, t.step, tuple(go(x, inside or mark == "parallel") for x in t.body), mark)
    return tuple(go(t, False) for t in trees)
