"""Schedules as text, printed and parsed: the same words in rules, in `explain`, in the tuner's tables and in `optimize(schedule=..)`.

    tile i0 128, i1 256, r0 64 | stages 4 | warp_specialise 2 | persistent | ping_pong | tma_store | load_c

A clause is a field of `ir.schedule.Schedule` or a directive of `ir.directives`; what is not there has its default.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.directives import DIRECTIVES, complete
from autocomp.ir.schedule import Schedule

NUMBERS = ("stages", "threads", "grouped", "cluster", "cluster_split_k", "resident", "softmax_overlap", "rescale_threshold")
FLAGS = ("persistent", "ping_pong", "stream_k", "scan")
CLAUSES = ("tile", "vector", "order", "parallel", "skew", *NUMBERS, "warp_specialise", *FLAGS, "split_k", "join", "instruction")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
LONGEST = 4096  # characters of a text


def show(s: Schedule) -> str:
    """One line; `parse` reads it back. The empty schedule is "one tile"."""
    plain, out = Schedule(), list[str]()
    pairs = lambda xs: ", ".join(f"{a} {n}" for a, n in xs)
    out += [f"tile {pairs(s.tile)}"] if s.tile else []
    out += [f"vector {s.vector[0]} {s.vector[1]}"] if s.vector else []
    out += [f"{word} {', '.join(axes)}" for word, axes in (("order", s.order), ("parallel", s.parallel)) if axes]
    out += [f"skew {', '.join(' '.join(map(str, row)) for row in s.skew)}"] if s.skew else []
    out += [f"{word} {n}" for word in NUMBERS if (n := getattr(s, word)) != getattr(plain, word)]
    out += [f"warp_specialise {s.workers}"] if s.roles == "warp_specialise" else []
    out += [word for word in FLAGS if getattr(s, word)]
    out += [f"split_k {s.split[0]} {s.split[1]}"] if s.split else []
    out += [f"join {pairs(s.join)}"] if s.join else []
    out += [f"instruction {s.instruction}"] if s.instruction else []
    return " | ".join((*out, *s.directives)) or "one tile"


def parse(text: str, where: str = "schedule") -> Schedule:
    """The schedule of a text. Raises AutocompError that names the clause."""
    if len(text) > LONGEST:
        raise AutocompError(f"{len(text)} characters are no schedule; the limit is {LONGEST}", where=where, hint=EXAMPLE)
    fields: dict[str, Any] = {}
    named: list[str] = []
    for clause in (c.strip() for c in text.split("|")):
        word, _, rest = clause.partition(" ")
        refuse = lambda what, hint=EXAMPLE, clause=clause: AutocompError(f"'{clause[:60]}' {what}", where=where, hint=hint)
        if clause == "one tile" or not clause:
            continue
        if word in fields or word in named:
            raise refuse("stands there twice", "write each clause once")
        if word in DIRECTIVES and not rest:
            named.append(word)
        elif word in FLAGS and not rest:
            fields[word] = True
        elif word in CLAUSES and word not in FLAGS:
            fields[word] = _value(word, rest.strip(), refuse)
        else:
            near = get_close_matches(word, (*CLAUSES, *DIRECTIVES), 1)
            raise refuse("is no clause of a schedule", f"did you mean '{near[0]}'?" if near else EXAMPLE)
    if (lost := [n for n in named if n not in complete(named)]):
        wanted = ", ".join(r for r in DIRECTIVES[lost[0]].requires if r not in named)
        raise AutocompError(f"'{lost[0]}' is nothing without {wanted}", where=where, hint=f"add `| {wanted}`, or leave it out")
    workers = fields.pop("warp_specialise", None)
    split, tile = fields.pop("split_k", None), tuple(sorted(fields.pop("tile", ())))
    roles = {"roles": "warp_specialise", "workers": workers} if workers else {}
    return Schedule(tile=tile, split=split, directives=complete(named), **roles, **fields)


EXAMPLE = "such as `tile i0 128, i1 256, r0 64 | stages 4 | warp_specialise 2 | tma_store`"


def _value(word: str, rest: str, refuse: Callable[..., AutocompError]) -> Any:
    """What stands behind a clause's word."""
    parts = [p.split() for p in rest.split(",")]
    if word in ("order", "parallel"):
        if not all(len(p) == 1 and NAME.match(p[0]) for p in parts):
            raise refuse("wants axes", f"such as `{word} i0, i1`")
        return tuple(p[0] for p in parts)
    if word == "instruction":
        if not NAME.match(rest):
            raise refuse("wants one word", "such as `instruction direct`")
        return rest
    if word == "skew":
        return tuple(tuple(_number(x, refuse, -(2**15)) for x in p) for p in parts)
    if word in ("tile", "join", "vector", "split_k"):
        if not all(len(p) == 2 and NAME.match(p[0]) for p in parts) or (word in ("vector", "split_k") and len(parts) != 1):
            raise refuse("wants an axis and a size", f"such as `{word} i0 16`")
        if len({p[0] for p in parts}) < len(parts):
            raise refuse("names an axis twice")
        pairs = tuple((p[0], _number(p[1], refuse, 2 if word == "split_k" else 1)) for p in parts)
        return pairs if word in ("tile", "join") else pairs[0]
    return _number(rest, refuse, 0 if word in ("grouped", "softmax_overlap", "rescale_threshold") else 1)


def _number(text: str, refuse: Callable[..., AutocompError], least: int) -> int:
    if not re.fullmatch(r"-?\d{1,9}", text) or int(text) < least:
        raise refuse(f"wants a whole number of {least} or more")
    return int(text)
