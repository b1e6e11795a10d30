"""Are a rule's two sides equal? Proved over the reals where they can be written as formulas, and tested on random instances:
odd shapes, several dtypes, zeros, infinities and NaN where the rule claims to be exact; a counterexample if not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.builder import Builder
from autocomp.ir.reference import evaluate
from autocomp.ir.types import TensorType
from autocomp.rewrite.expr import Ref
from autocomp.rewrite.instance import CONSTANT, Instance, random_array, tensors
from autocomp.rewrite.pattern import applications
from autocomp.rewrite.rule import Example, Rule
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.rewrite.where import Unanswerable

SIZES = (2, 3, 5, 7, 9, 4, 6)  # what extents of an example are replaced by: distinct stay distinct, equal stay equal
DTYPES_TRIED = ("f64", "f32", "f16", "bf16", "i32", "u8")
KINDS = 3  # of random tensors
SHAPES = ("[4, 4]", "[3, 4]", "[2, 4, 4]", "[4]", "[]")  # of tensors in guessed examples
GUESSES: Mapping[str, tuple[Any, ...]] = {  # attribute -> values in guessed examples
    "axes": ((0,), (1,)), "axis": (0, 1), "perm": ((1, 0), (0, 2, 1)), "keepdims": (True, False), "shape": ((16,), (12,), (2, 8)),
    "to": ("f32",), "dtype": ("f32",), "lo": ((1, 0),), "hi": ((0, 1),), "value": (0.0, 0.5), "eps": (1e-5,), "starts": ((0, 1),),
    "limits": ((2, 3),), "steps": ((1, 1),), "repeats": ((2, 1),),
}  # fmt: skip
MOST = 200  # combinations of them that are looked at
BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


@dataclass(frozen=True)
class CheckResult:
    """status: proved | tested-N | assumed | refuted. `detail`: what was proved, the counterexample, or why nothing was tested.

    tests: random instances on which both sides agreed.
    """

    status: str
    detail: str = ""
    tests: int = 0


def check_rule(rule: Rule, samples: int = 20, prove: bool = True) -> CheckResult:
    """Prove the rule if z3 is there and the sides can be written as formulas over the reals, and compare them on `samples` random
    instances for each positive example.

    Rules of other phases move no values (their results are checked kernel by kernel), so they are `assumed` here.
    """
    if rule.phase not in GRAPH_PHASES:
        return CheckResult("assumed", "it chooses kernels or schedules; every program is replayed against the reference")
    tested = 0
    examples = [e for e in rule.examples if e.fires and e.bindings] or list(guesses(rule))
    for example in examples:
        found = _refute(rule, example, samples)
        if isinstance(found, str):
            return CheckResult("refuted", found, tested)
        tested += found
    if not tested:
        return CheckResult("assumed", "no positive example to test, and none of the guessed ones is an instance")
    if prove:
        from autocomp.rewrite.prove import prove_rule

        proof = prove_rule(rule, examples)
        if proof:
            return CheckResult("proved", proof.reason, tested)
        return CheckResult(f"tested-{tested}", f"no proof: {proof.reason}", tested)
    return CheckResult(f"tested-{tested}", "", tested)


def guesses(rule: Rule) -> Iterator[Example]:
    """Instances of a rule that gives no example: one for each shape that all its tensors can have, or have as constants."""
    assert rule.lhs is not None
    named = sorted(tensors(rule.lhs))
    values = {e.name: GUESSES[k] for a in applications(rule.lhs) for k, e in a.attrs if isinstance(e, Ref) and k in GUESSES}
    for shape, kind in product(SHAPES, ("", CONSTANT)):
        for chosen in islice(product(*values.values()), MOST):
            bindings = dict.fromkeys(named, f"f64{shape}{kind}") | dict(zip(values, chosen, strict=True))
            try:
                if not Instance(rule, bindings).conditions():
                    continue
            except (ModelError, Unanswerable):
                continue
            yield Example(tuple(bindings.items()), True, rule.location)
            break


def _refute(rule: Rule, example: Example, samples: int) -> str | int:
    """A counterexample, or the number of instances on which the sides agree."""
    try:
        given = dict(example.bindings)
        answer = Instance(rule, given).conditions()
        if not answer:
            return f"the positive example at {example.location} is refused: {answer.reason}"
    except (ModelError, Unanswerable) as e:
        return f"the example at {example.location} has no instance: {e}"
    tested = 0
    for k, bindings in enumerate(variants(given)):
        if k >= samples and tested >= samples:
            break
        for kind in range(KINDS if samples > len(DTYPES_TRIED) else 1):
            try:
                found = compare(rule, bindings, KINDS * k + kind)
            except (ModelError, Unanswerable) as e:
                if bindings == given:
                    return f"the example at {example.location} has no instance: {e}"
                continue
            if isinstance(found, str):
                return found
            tested += found
    return tested


def variants(given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The example's bindings, then the same with other extents and dtypes, smaller ones first.

    A list that names extents (a shape) makes most of them no instance; those are skipped.
    """
    yield dict(given)
    texts = {k: v for k, v in given.items() if isinstance(v, str) and "[" in v}
    old = sorted({int(d) for v in texts.values() for d in re.findall(r"\d+", v[v.index("["):])} - {0, 1})
    dtypes = {v[: v.index("[")].strip() for v in texts.values()}
    for start, name in product(range(4), DTYPES_TRIED if dtypes == {"f64"} else sorted(dtypes)):
        new = {d: SIZES[(i * (1 if start % 2 else 2) + start) % len(SIZES)] for i, d in enumerate(old)}
        if len(dtypes) > 1:
            yield {**given, **{k: _resized(v, new, v[: v.index("[")]) for k, v in texts.items()}}
        else:
            yield {**given, **{k: _resized(v, new, name) for k, v in texts.items()}}


def _resized(text: str, new: Mapping[int, int], dtype: str) -> str:
    at = text.index("[")
    return dtype + re.sub(r"\d+", lambda m: str(new.get(int(m[0]), int(m[0]))), text[at:])


def compare(rule: Rule, bindings: Mapping[str, Any], seed: int) -> str | int:
    """A counterexample's text, 1 if the sides agree, 0 if the conditions refuse the instance. Raises Unanswerable, ModelError.

    The seed modulo KINDS says what is in the tensors: small whole numbers, infinities and NaN too (exact rules), any numbers.
    """
    instance = Instance(rule, bindings, seed)
    if not instance.conditions():
        return 0
    left, right = instance.left, instance.right()
    types = instance.types
    if right.type != left.type:
        return f"unites {left.type} with {right.type} for {_show(types)}"
    b = instance.b
    b.output("left", left)
    b.output("right", right)
    rng = np.random.default_rng(seed)
    inputs = {n.attrs["name"] for n in b.inputs}
    small, special = seed % KINDS == 0, rule.exact and seed % KINDS == 1
    feed = {k: random_array(rng, t, small, special) for k, t in types.items() if k in inputs}
    wide = not rule.exact and left.type.dtype.is_float
    out = evaluate(b.graph(), feed, float64=wide)
    x, y = out["left"], out["right"]
    bad = ~_agree(x, y, 0.0 if rule.exact or not left.type.dtype.is_float else max(1e-7, 8 * _rounding(b)))
    if not bad.any():
        return 1
    at = tuple(int(i[0]) for i in np.nonzero(bad)) if bad.ndim else ()
    values = "".join(f"; ?{k} = {v.tolist()}" for k, v in feed.items()) if sum(v.size for v in feed.values()) <= 12 else ""
    return f"for {_show(types)} (seed {seed}) element {list(at)}: left {x[at].item()!r}, right {y[at].item()!r}{values}"


def _agree(x: np.ndarray, y: np.ndarray, rtol: float) -> np.ndarray:
    """Element by element; rtol 0: the same value, or both NaN."""
    x, y = (v.astype(np.float64) if v.dtype.kind not in "iub" else v for v in (x, y))
    with np.errstate(all="ignore"):
        same = (x == y) | ((x != x) & (y != y))
        if rtol:
            scale = max(1.0, float(np.abs(x[np.isfinite(x)]).max(initial=0)))
            same |= np.isclose(x, y, rtol=rtol, atol=(rtol if rtol > 1e-6 else 1e-2 * rtol) * scale)
    return same


def _rounding(b: Builder) -> float:
    """Half a unit in the last place of the narrowest float type on either side: what a cast inside may lose."""
    return max(2.0 ** -BITS[n.type.dtype.name] for n in b.graph().nodes() if n.type.dtype.name in BITS)


def _show(types: Mapping[str, TensorType]) -> str:
    return ", ".join(f"?{k}: {t}" for k, t in types.items())
