"""Conditions of rules in plain words: `rank(?x) <= 2` is said as 'rank(?x) is at most 2'."""

from __future__ import annotations

from autocomp.errors import RuleError
from autocomp.rewrite.expr import Call, Expr, Items, Op, Ref, parse_expr
from autocomp.rewrite.location import Location, Text
from autocomp.rewrite.vocabulary import vocabulary

IS = {"==": "is", "!=": "is not", "<": "is below", "<=": "is at most", ">": "is above", ">=": "is at least"}
ASKED = ("is_constant", "is_uniform", "is_float", "is_int", "is_static", "windowed", "power_of_two", "decides")  # said by what they mean


def in_words(text: str, phase: str) -> str:
    """A condition as a sentence; the text itself where it is none (a reason that a stage gave)."""
    try:
        return _say(parse_expr(Text(text, Location("<reason>"))), phase)
    except RuleError:
        return text


def _say(e: Expr, phase: str) -> str:
    if isinstance(e, Op) and e.op in ("and", "or"):
        return f" {e.op} ".join(_say(a, phase) for a in e.args)
    if isinstance(e, Op) and e.op == "not":
        return f"not ({_say(e.args[0], phase)})"
    if isinstance(e, Op) and e.op in IS:
        return f"{e.args[0]} {IS[e.op]} {e.args[1]}"
    if isinstance(e, Op) and e.op in ("in", "not in"):
        few = e.args[1]
        listed = isinstance(few, Items) and len(few.items) > 1
        words = f"{', '.join(map(str, few.items[:-1]))} or {few.items[-1]}" if listed and isinstance(few, Items) else str(few)
        return f"{e.args[0]} is {'none of' if e.op == 'not in' else 'one of'} {words}"
    if isinstance(e, Call) and e.name in ASKED and len(e.args) == 1 and isinstance(e.args[0], Ref):
        word = e.name.removeprefix("is_").replace("_", " ")
        return f"{e.args[0]} is {word} ({vocabulary(phase).functions[e.name].means})"
    if isinstance(e, Call) and e.name == "legal":
        return f"isl allows {', '.join(map(str, e.args))}"
    if isinstance(e, Call) and e.name == "fits" and len(e.args) == 2:
        return f"{e.args[1]} bytes fit {e.args[0]}"
    return str(e)
