"""What fusion, tiling and scheduling rules must look like: they move no values, so nothing but their form can be wrong.

A fusion rule is an instance of load(store(?k)) = ?k, or of beside(store(?j), store(?k)) = store(?j, ?k): two kernels of which neither needs
the other are one that stores both. A tiling rule gives a form of kernel a schedule, a scheduling rule gives a schedule another one, or a
recurrence a move; a rule of directives names what a schedule's code does beside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from autocomp.ir.directives import DIRECTIVES
from autocomp.rewrite.expr import Call, Lit, Ref, walk
from autocomp.rewrite.location import Text
from autocomp.rewrite.pattern import Apply, Pattern
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.vocabulary import BESIDE, BODY, CONSUMERS, COUNTED, FIELDS, FORMS, MOVES, ROLE, WORDS

SIBLINGS = "lhs: beside(store(?j), store(?k)), rhs: store(?j, ?k)"  # the second law
SIBLING_ASKS = ("kind", "ops", "reads", "elements", "bytes", "gigabytes", "dtype", "rank", "shared")  # what a condition may ask of two
SCALAR_UNIT = "scalar"  # an element at a time, on NPUs
ROLES = ("single", "warp_specialise")
SHIFT = 2**15  # a skew by more moves a row out of every cache
LAW = "lhs: map(?f, load(store(?k)), ?rest...), rhs: map(?f, ?k, ?rest...)"


@lru_cache(maxsize=1)
def target_names() -> tuple[str, ...]:
    """Folders of `targets/` with a manifest."""
    return tuple(sorted(f.name for f in files("autocomp.targets").iterdir() if f.is_dir() and f.joinpath("target.yaml").is_file()))


@lru_cache(maxsize=1)
def instruction_words() -> tuple[str, ...]:
    """Words by which a schedule asks a target for an instruction: `asked` in tables of matrix instructions; an NPU's scalar unit."""
    tables = (files("autocomp.targets").joinpath(t, "instructions.yaml") for t in target_names())
    asked = (re.findall(r"^ +asked: *(\w+)", t.read_text(encoding="utf-8"), re.MULTILINE) for t in tables if t.is_file())
    return tuple(sorted({SCALAR_UNIT, *(word for words in asked for word in words)}))


def is_stored(p: Pattern) -> bool:
    """load(store(?k))?"""
    return isinstance(p, Apply) and str(p) == "load(store(?k))"


def is_sibling(rule: Rule) -> bool:
    """Is it a fusion rule of kernels beside each other?"""
    return isinstance(rule.lhs, Apply) and rule.lhs.op == "beside"


def check_fusion(rule: Rule, lhs: Text, rhs: Text) -> None:
    """Raises RuleError where a fusion rule is no instance of load(store(?k)) = ?k or of beside(store(?j), store(?k)) = store(?j, ?k), or
    asks of something else than of these bodies."""
    left, right = rule.lhs, rule.rhs
    assert isinstance(left, Apply)
    if is_sibling(rule):
        _check_siblings(rule, lhs, rhs)
        return
    if left.op not in CONSUMERS:
        raise lhs.error(f"'{left.op}' takes nothing in", left.at, f"consumers are {', '.join(CONSUMERS)}")
    at = [i for i, a in enumerate(left.args) if is_stored(a)]
    if len(at) != 1:
        raise lhs.error("a fusion rule has exactly one operand load(store(?k))", left.at, LAW)
    law = Apply(left.op, tuple(Ref("k") if i == at[0] else a for i, a in enumerate(left.args)))
    if str(right) != str(law):
        raise rhs.error(f"the right side is {right}, the law says {law}", 0, LAW)
    for c in rule.where:
        for x in walk(c):
            if isinstance(x, Ref) and x.name != "k":
                raise lhs.error(f"the condition '{c}' asks of ?{x.name}, and only ?k is a body", 0, "ask of ?k")
            if isinstance(x, Call) and x.name in BESIDE:
                raise lhs.error(f"the condition '{c}' asks {x.name}(), which is about kernels beside each other", 0, SIBLINGS)


def _check_siblings(rule: Rule, lhs: Text, rhs: Text) -> None:
    if str(rule.lhs) != "beside(store(?j), store(?k))":
        raise lhs.error(f"the left side is {rule.lhs}", 0, SIBLINGS)
    if str(rule.rhs) != "store(?j, ?k)":
        raise rhs.error(f"the right side is {rule.rhs}, the law says store(?j, ?k)", 0, SIBLINGS)
    for c in rule.where:
        for x in walk(c):
            if isinstance(x, Ref) and x.name not in ("j", "k"):
                raise lhs.error(f"the condition '{c}' asks of ?{x.name}, and only ?j and ?k are bodies", 0, "ask of ?j and ?k")
            if isinstance(x, Call) and x.name in BODY and x.name not in SIBLING_ASKS:
                raise lhs.error(f"the condition '{c}' asks {x.name}() of two kernels", 0, f"they answer {', '.join(SIBLING_ASKS)}")


def check_kernel_rule(rule: Rule, match: Text, rhs: Text) -> None:
    """Raises RuleError where a tiling or scheduling rule matches no form of kernel, or makes no schedule."""
    left, right = rule.match, rule.rhs
    if rule.phase == "directives":
        _check_directive(rule, match, rhs)
        return
    if not isinstance(left, Apply) or not isinstance(right, Apply):
        raise (match if not isinstance(left, Apply) else rhs).error("an op with its fields is wanted", 0, "rhs: tile(m: ?bm)")
    moves = [m for m in MOVES if m != "recurrence"]
    makes = ["tile"] if rule.phase == "tiling" or left.op == "tile" else moves
    matches = ["tile", "recurrence"] if rule.phase == "scheduling" else [*FORMS, "recurrence"]
    if left.op not in matches:
        raise match.error(f"a {rule.phase} rule does not match '{left.op}'", left.at, f"it matches {', '.join(matches)}")
    if right.op not in makes:
        raise rhs.error(f"what matches {left.op} does not become '{right.op}'", right.at, f"it becomes {', '.join(makes)}")
    if left.op == "recurrence" and right.op != "tile":
        _check_move(rule, left, right, rhs)
    if left.op != "recurrence":
        _check_words(left, match)
        _check_words(right, rhs)
        _check_fields(left.op, right, rhs)
    _check_choices(rule, right)


def _check_words(p: Apply, text: Text) -> None:
    """Words of a schedule are those that some target knows."""
    for key, e in p.attrs:
        if key in WORDS and isinstance(e, Lit):
            _check_word(key, e.value, lambda what, known, e=e: text.error(what, e.at, known))  # type: ignore[misc]


def _check_word(key: str, value: Any, refuse: Callable[[str, str], Exception]) -> None:
    known = ("", *instruction_words()) if key == "instruction" else ROLES
    if value not in known:
        raise refuse(f"no target has the {key} '{value}'", f"known are {', '.join(repr(w) for w in known)}")


def _check_move(rule: Rule, left: Apply, right: Apply, rhs: Text) -> None:
    """A move of a recurrence names the loop that is time where it says time, the other where it says space; a skew is by whole numbers,
    since (t, i) -> (t, i + factor*t) then goes through each iteration once."""
    given, own = dict(right.attrs), {key: e.name for key, e in left.attrs if isinstance(e, Ref)}
    for key in MOVES[right.op]:
        e = given.get(key)
        if key == "factor":
            chosen = dict(rule.choose).get(e.name) if isinstance(e, Ref) else (e.value,) if isinstance(e, Lit) else ()
            if e is not None and not (isinstance(chosen, tuple) and chosen and all(type(v) is int and 0 < abs(v) <= SHIFT for v in chosen)):
                raise rhs.error(f"a skew's factor is a whole number other than 0, up to {SHIFT}, or one that `choose` lists", e.at,
                                "such as `choose: {factor: [1, 2]}`")
        elif e is not None and not (isinstance(e, Ref) and e.name == own.get(key)):
            raise rhs.error(f"the {key} of {right.op} is {e}, and the pattern's {key} is ?{own.get(key, '?')}", getattr(e, "at", right.at),
                            f"{right.op}({', '.join(f'{k}: ?{own[k]}' for k in MOVES[right.op] if k in own)})")


def _check_directive(rule: Rule, match: Text, rhs: Text) -> None:
    """A rule of directives matches a schedule and names one of `ir.directives`."""
    if not isinstance(rule.match, Apply) or rule.match.op != "tile":
        raise match.error("a directives rule matches a schedule", 0, "match: tile(roles: 'warp_specialise')")
    if not isinstance(rule.rhs, Apply) or rule.rhs.op not in DIRECTIVES:
        raise rhs.error("the right side of a directives rule names one directive", 0, "such as `rhs: tma_store()`")
    if rule.choose:
        raise rule.error("a directives rule chooses nothing", "a scheduling rule makes several schedules of one")


def _check_fields(form: str, right: Apply, rhs: Text) -> None:
    """A schedule has its kernel's roles and the fields of schedules."""
    roles = set(ROLE) if form == "tile" else set(FORMS[form][0])
    for key, e in right.attrs:
        if key not in roles and key not in FIELDS and key not in WORDS:
            at = next((x.at for x in walk(e)), right.at)
            raise rhs.error(f"a schedule of {form} has no '{key}'", at, f"it has {', '.join([*sorted(roles), *FIELDS, *WORDS])}")
        least = int(key in COUNTED)
        if isinstance(e, Lit) and isinstance(e.value, (int, float)) and key not in WORDS and e.value < least:
            raise rhs.error(f"{key} is {e}, and a schedule's {key} is a whole number, {least} or more", e.at, f"such as `{key}: 2`")


def _check_choices(rule: Rule, right: Apply) -> None:
    """Sizes of tiles and counts are 1 or more, other numbers 0 or more, and words stand only where words do."""
    where = {e.name: key for key, e in right.attrs if isinstance(e, Ref)}
    for name, values in rule.choose:
        if isinstance(values, tuple):
            check_choice(rule, name, values, where)


def check_choice(rule: Rule, name: str, values: tuple[Any, ...], where: Mapping[str, str]) -> None:
    """Raises RuleError for a value that field `where[name]` of a schedule cannot take."""
    key = where.get(name, "")
    least = 1 if key in COUNTED else 0
    next_step = f"such as `choose: {{{name}: [{'direct' if key in WORDS else '16, 32'}]}}`"
    for i, v in enumerate(values):
        word = isinstance(v, str)
        if word and key in WORDS:
            _check_word(key, v, lambda what, known, i=i: rule.choice_error(name, i, what, known))  # type: ignore[misc]
        if word != (key in WORDS) if key else isinstance(v, float):
            wants = "a word" if key in WORDS else "whole numbers"
            raise rule.choice_error(name, i, f"?{name} may be '{v}', and {key or 'a choice'} wants {wants}", next_step)
        if not word and (not isinstance(v, int) or v < least):
            raise rule.choice_error(name, i, f"?{name} may be {v}, and {key or 'a choice'} is a whole number, {least} or more", next_step)
