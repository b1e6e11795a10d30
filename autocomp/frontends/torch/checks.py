"""Choices by elements of which one side raises, while torch traces: the side that goes on is taken, and a warning names the line.

    if torch.any(var < 0):                     is false
        raise ValueError("negative")
    assert mask.any(1).all(), "an empty row"   is true

A program has no place for them, as under torch.compile, which makes a graph without such checks of it. Any other choice by elements is
refused by torch.
"""

from __future__ import annotations

import ast
import linecache
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).parent
MACHINERY = ("_dynamo", "_export", "_functorch", "_higher_order_ops", "_subclasses", "export", "fx", "utils")  # torch's folders that trace
CHECKED = ("nn",)  # those whose functions check their arguments for a caller, who did not ask for it


@contextmanager
def unraised() -> Iterator[None]:
    """While torch traces, choices that are checks go on. It must be held alone (`EXPORTS`)."""
    from torch.fx.experimental.sym_node import SymNode

    asked: Any = SymNode.guard_bool

    def goes_on(self: Any, file: str, line: int) -> Any:
        answer = _answer(sys._getframe(1)) if _by_elements(self) else None
        return asked(self, file, line) if answer is None else answer

    SymNode.guard_bool = goes_on  # type: ignore[method-assign]
    try:
        yield
    finally:
        SymNode.guard_bool = asked  # type: ignore[method-assign]


def _by_elements(node: Any) -> bool:
    """Whether what is asked for depends on elements of tensors, and on nothing that torch knows of them."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(node.expr)) and node.shape_env._maybe_evaluate_static(node.expr) is None


def _answer(frame: FrameType | None) -> bool | None:
    """What lets the innermost frame that is no machinery, torch's or this folder's, go on; None where it does not check."""
    import torch

    home = Path(torch.__file__).parent
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        within = file.relative_to(home).parts if file.is_relative_to(home) else None
        if (within is None and file.parent != HERE) or (within is not None and len(within) > 1 and within[0] not in MACHINERY):
            break
        frame = frame.f_back
    if frame is None or not (within is None or within[0] in CHECKED):
        return None
    name, at = frame.f_code.co_filename, frame.f_lineno
    lines = tuple(linecache.getlines(name, frame.f_globals))
    answer = passing(lines, at)
    if answer is not None:
        warnings.warn_explicit(f"a check of elements is not in the program: `{lines[at - 1].strip()}`", UserWarning, name, at)
    return answer


def passing(lines: tuple[str, ...], at: int) -> bool | None:
    """What a choice that a line asks for has to be for the code to go on; None where that line has no check, or several choices."""
    known = [way for first, last, way in _choices(lines) if first <= at <= last]
    return known[0] if len(known) == 1 else None


@lru_cache(maxsize=64)
def _choices(lines: tuple[str, ...]) -> list[tuple[int, int, bool | None]]:
    """Lines of each choice's test in a file, and what its parts have to be for the code to go on."""
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return []
    found = []
    for n in ast.walk(tree):
        if isinstance(n, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            found.append((n.test.lineno, n.test.end_lineno or n.test.lineno, _way(n.test, _goes_on(n))))
        elif isinstance(n, ast.comprehension):
            found += [(t.lineno, t.end_lineno or t.lineno, None) for t in n.ifs]
    return found


def _goes_on(n: ast.AST) -> bool | None:
    """What a statement's test is where it does not raise; None where both sides go on."""
    raises = lambda body: bool(body) and isinstance(body[-1], ast.Raise)
    if isinstance(n, ast.Assert):
        return True
    if not isinstance(n, ast.If) or raises(n.body) == raises(n.orelse):
        return None
    return raises(n.orelse)


def _way(test: ast.expr, wanted: bool | None) -> bool | None:
    """What each part of a test has to be for all of it to be as wanted; None where that is not one answer for all."""
    if wanted is None or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
        return None if wanted is None else _way(test.operand, not wanted)  # type: ignore[attr-defined]
    if isinstance(test, ast.BoolOp):
        ways = {_way(part, wanted) for part in test.values}
        return ways.pop() if len(ways) == 1 else None
    inner = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.comprehension)
    nots = lambda n: isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.Not)
    return None if any(isinstance(n, inner) or nots(n) for n in ast.walk(test)) else wanted
