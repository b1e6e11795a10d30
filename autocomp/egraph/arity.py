"""Ops of more operands than one body reads: for each that is associative a form of several, each of fewer.

    concat(a, b, .., q)  ->  concat(a, .., concat(g, h), .., q)          17 operands, bodies that read 16

Named like a rule (`arity/concat`): `without` leaves it out, and the trace and the kernels say where it was used.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from autocomp.egraph.grammar import load_grammar
from autocomp.egraph.terms import Terms
from autocomp.ir.ops import OPS
from autocomp.options import Options
from autocomp.rewrite.vocabulary import arity_rule
from autocomp.trace import Trace


def split_wide(terms: Terms, options: Options, trace: Trace) -> frozenset[int]:
    """Unite every associative op that no body can compute as it stands with a tree of narrower ones. The terms that have too many
    operands to be looked at any further. The engine is up to date before and afterwards."""
    count: dict[str, int] = {}
    done: set[int] = set()
    most = load_grammar().limits["operands"]
    for n, term in enumerate(list(terms.engine.terms)):
        rule = arity_rule(term.op)
        if not rule or any(fnmatchcase(rule, g) for g in options.without):
            continue
        if not is_wide(tuple(terms.engine.classes[a] for a in term.args)):
            continue
        args = list(term.args)
        while is_wide(args):
            first, size = _least(terms, args)
            types = tuple(terms.types[a] for a in args[first : first + size])
            made = terms.add(term.op, term.attrs, tuple(args[first : first + size]), OPS[term.op].infer(types, term.attrs), rule)
            args[first : first + size] = [made]
        whole = terms.add(term.op, term.attrs, tuple(args), terms.types[n], rule)
        terms.engine.union(n, whole)
        terms.united = True
        count[rule] = count.get(rule, 0) + 1
        if len(term.args) > most:
            done.add(n)
    if count:
        terms.engine.rebuild()
    for rule, times in sorted(count.items()):
        trace.add("rule", rule, phase="arity", count=times)
    return frozenset(done)


def is_wide(args: Sequence[int]) -> bool:
    """Whether an op of these operands reads more tensors than a body may, or has more operands than a body is written for."""
    limits = load_grammar().limits
    return len(set(args)) > limits["leaves"] or len(args) > limits["operands"]


def _least(terms: Terms, args: Sequence[int]) -> tuple[int, int]:
    """(first, how many) of the neighbours to take together: as many as are too many, at most what one body reads, and those with
    the fewest bytes, which are copied once more."""
    most = load_grammar().limits["leaves"]
    size = max(2, min(most, max(len(set(args)), len(args) - load_grammar().limits["operands"] + most) - most + 1))
    held = [terms.types[a].bytes for a in args]
    now = sum(held[:size])
    best, first = now, 0
    for i in range(1, len(args) - size + 1):
        now += held[i + size - 1] - held[i - 1]
        if now < best:
            best, first = now, i
    return first, size
