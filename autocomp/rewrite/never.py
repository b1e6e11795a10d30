"""Can a rule of the graph phases ever fire? The condition that holds for no instance of its left side that can be drawn: a sign that it
contradicts another one or the op's own types, and no proof, as sizes that are drawn are small."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from autocomp.deadline import current
from autocomp.errors import ModelError
from autocomp.rewrite.draw import Drawer, Miss
from autocomp.rewrite.expr import Expr
from autocomp.rewrite.instance import Instance
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Unanswerable, evaluate, held

TRIES = 400  # instances that are drawn without asking the conditions
ENOUGH = 20  # on which all of a rule's conditions have an answer


def why_never(rule: Rule) -> str:
    """The condition (or the two) that held for none of the drawn instances, with the values of one; "" where some pass, or too few are
    drawn to say so."""
    drawers = Drawer(rule), Drawer(replace(rule, where=()), seed=1)  # by the conditions, and whatever they say
    seen: list[tuple[tuple[bool, ...], Instance]] = []
    for k in range(TRIES):
        if current().over:
            return ""
        try:
            x = Instance(rule, drawers[k % 2].grown(), open=True)
            answers = tuple(_holds(c, x) for c in rule.where)
        except (Miss, ModelError, Unanswerable):
            continue  # what was drawn is no instance
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError):
            continue  # attributes of a form that the op's type rule does not look for
        if all(answers):
            return ""
        seen.append((answers, x))
    if len(seen) < ENOUGH:
        return ""
    for n in (1, 2):
        for mine in combinations(range(len(rule.where)), n):
            if not any(all(answers[i] for i in mine) for answers, _ in seen):
                (_, x), *_ = seen
                said = [(text, values) for text, values in held(tuple(rule.where[i] for i in mine), x.env)]
                values = ", ".join(dict.fromkeys(v for _, v in said if v))
                together = "never holds" if n == 1 else "never hold together"
                return f"{' and '.join(repr(text) for text, _ in said)} {together}, on {len(seen)} drawn instances" + (
                    f"; of one: {values}" if values else "")  # fmt: skip
    return ""


def _holds(c: Expr, x: Instance) -> bool:
    try:
        return bool(evaluate(c, x.env))
    except Unanswerable:
        return False
