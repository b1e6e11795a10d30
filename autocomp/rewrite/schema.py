"""A JSON schema of rule files, for editors: fields, phases, targets, options, and which side each phase has (`rules/schema.json`).

What a schema cannot say (ops and their attributes, variables that are bound, types) only the loader knows. What the schema refuses the
loader refuses too, at the same line.
"""

from __future__ import annotations

from typing import Any

from autocomp.options import Options
from autocomp.rewrite.laws import target_names
from autocomp.rewrite.load import FIELDS, NAME
from autocomp.rewrite.vocabulary import BODY_PHASES, GRAPH_PHASES, KERNEL_PHASES, PHASES

SAYS = {
    "name": "group/name, by which reports, --without and --why-not call it",
    "phase": "what the rule is about",
    "each": "a family: a rule of every word, $f in its texts replaced",
    "let": "pieces of the rule's text, each of which may use those before it as $name",
    "siblings": "variables; matches that agree on them fire together",
    "lhs": "the form that is there (graph phases and fusion)",
    "rhs": "the form that is as good or better; the schedule; the directive",
    "match": "the kernel or the schedule (tiling, scheduling, directives)",
    "choose": "candidates of each name; every combination that the conditions leave is a schedule",
    "where": "conditions; all must hold",
    "exact": "false: rounding may differ",
    "finite": "true: the sides agree where both are finite",
    "commutes": "true: operands of commuting ops are matched in every order",
    "examples": "types of the variables, or a graph, and whether the rule must fire there",
    "targets": "the targets that the rule is for; all where there is none",
    "requires": "options that must be on",
    "assumed": "true: it may be used though it cannot be tested",
    "why": "one line for people: why the rule is there",
}


def rule_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) as JSON-able values."""
    scalar = {"type": ["string", "number", "boolean"]}
    text = {"type": ["string", "number"]}
    words = lambda item: {"anyOf": [item, {"type": "array", "items": item}]}
    one_of = lambda names: {"anyOf": [{"type": "string", "enum": names}, {"type": "string", "pattern": r"\$"}]}  # $f: a word of `each`
    candidates = {"anyOf": [scalar, {"type": "array", "items": scalar, "minItems": 1}]}
    example = {"type": "object", "properties": {"fires": {"type": "boolean"}, "graph": {"type": "string"}}, "minProperties": 1}
    of: dict[str, Any] = {
        "name": {"type": "string", "pattern": f"^({NAME.pattern.rstrip('$').replace('_.-', '_.$-')})$"},
        "phase": one_of(list(PHASES)),
        "each": {"type": "object", "minProperties": 1,
                 "additionalProperties": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
        "let": {"type": "object", "minProperties": 1, "additionalProperties": scalar},
        "siblings": words({"type": "string"}),
        "lhs": text, "rhs": text, "match": text,
        "choose": {"type": "object", "additionalProperties": candidates},
        "where": {"anyOf": [{"type": ["string", "boolean"]}, {"type": "array", "items": scalar}]},
        "exact": {"type": "boolean"}, "finite": {"type": "boolean"}, "commutes": {"type": "boolean"},
        "examples": {"type": "array", "items": example},
        "targets": words(one_of(list(target_names()))),
        "requires": words(one_of(sorted(n for n, v in vars(Options()).items() if isinstance(v, bool)))),
        "assumed": {"type": "boolean"}, "why": {"type": "string"},
    }  # fmt: skip
    side = lambda phases, left: {"if": {"properties": {"phase": {"enum": list(phases)}}, "required": ["phase"]},
                                 "then": {"required": [left]}}  # fmt: skip
    rule = {
        "type": "object",
        "properties": {f: {"description": SAYS[f], **of[f]} for f in FIELDS},
        "required": ["name", "phase", "rhs"],
        "additionalProperties": False,
        "allOf": [side((*GRAPH_PHASES, *BODY_PHASES), "lhs"), side(KERNEL_PHASES, "match")],
    }
    rules = {"type": "array", "items": {"$ref": "#/$defs/rule"}}
    wrapped = {"type": "object", "properties": {"rules": rules}, "required": ["rules"], "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "autocomp rules",
            "if": {"type": "array"}, "then": rules, "else": {"if": {"type": "object"}, "then": wrapped, "else": {"type": "null"}},
            "$defs": {"rule": rule}}  # fmt: skip
