"""Are a rule's two sides equal? Tested on random instances through the op table's references, with a counterexample if not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.builder import Builder
from autocomp.ir.node import Node
from autocomp.ir.reference import evaluate
from autocomp.ir.types import DTYPES, TensorType
from autocomp.options import Options
from autocomp.rewrite.expr import Lit, Ref, Word
from autocomp.rewrite.functions import Operand, tensor_functions
from autocomp.rewrite.pattern import Apply, Pattern
from autocomp.rewrite.rule import Example, Rule
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.rewrite.where import Env, Unanswerable, holds
from autocomp.rewrite.where import evaluate as value_of

CONSTANT = " constant"    # behind an example's type: the tensor is a parameter or computed from parameters


@dataclass(frozen=True)
class CheckResult:
    """status: tested-N | assumed | refuted. `detail`: the counterexample, or why nothing was tested."""

    status: str
    detail: str = ""


def check_rule(rule: Rule, samples: int = 20) -> CheckResult:
    """Compare both sides on the rule's positive examples with `samples` random inputs each, in float64.

    Rules of other phases move no values (their results are checked kernel by kernel), so they are `assumed` here.
    """
    if rule.phase not in GRAPH_PHASES:
        return CheckResult("assumed", "it chooses kernels or schedules; every program is replayed against the reference")
    tested = 0
    for example in rule.examples:
        if not example.fires:
            continue
        for seed in range(max(1, samples // max(1, len(rule.examples)))):
            try:
                found = _compare(rule, example, seed)
            except (ModelError, Unanswerable) as e:
                return CheckResult("refuted", f"the example at {example.location} has no instance: {e}")
            if found:
                return CheckResult("refuted", found)
            tested += 1
    return CheckResult(f"tested-{tested}") if tested else CheckResult("assumed", "no positive example to test")


def _compare(rule: Rule, example: Example, seed: int) -> str:
    """A counterexample's text, "" if the sides agree."""
    rng = np.random.default_rng(seed)
    b = Builder("rule")
    types = {k: _type(v) for k, v in example.bindings if isinstance(v, str) and _type(v) is not None}
    nodes = {k: b.input(k, t) for k, t in types.items() if t is not None}
    given = dict(example.bindings)
    variables: dict[str, Any] = {k: _plain(v) for k, v in example.bindings if k not in types}
    variables |= {k: Operand(t, str(given[k]).endswith(CONSTANT)) for k, t in types.items() if t is not None}
    for k in sorted(_tensors(rule.lhs) - set(types)):    # a number where the pattern has a tensor is a constant
        if k not in variables:
            raise Unanswerable(f"?{k} is not given")
        nodes[k] = b.const(variables[k], next(iter(nodes.values())).type.dtype)
        variables[k] = Operand(nodes[k].type, True, float(variables[k]))
    env = Env(variables, tensor_functions(Options()))
    assert rule.lhs is not None and rule.rhs is not None
    left = _build(b, rule.lhs, nodes, env, None)
    env = Env({**variables, "root": Operand(left.type)}, env.functions)
    answer = holds(rule.where, env)
    if not answer:
        return f"the positive example at {example.location} is refused: {answer.reason}"
    right = _build(b, rule.rhs, nodes, env, left)
    if right.type != left.type:
        return f"unites {left.type} with {right.type} for {_show(types)}"
    b.output("left", left)
    b.output("right", right)
    feed = {k: _random(rng, t) for k, t in types.items() if t is not None}
    out = evaluate(b.graph(), feed)
    x, y = (out[k].astype(np.float64) for k in ("left", "right"))
    scale = max(1.0, float(np.abs(x[np.isfinite(x)]).max(initial=0)))
    rtol = 1e-7 if rule.exact else max(1e-7, 8 * _rounding(b))
    bad = ~(np.isclose(x, y, rtol=rtol, atol=1e-2 * rtol * scale) | (np.isnan(x) & np.isnan(y)))
    if not bad.any():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(bad)) if bad.ndim else ()
    return f"for {_show(types)} (seed {seed}) element {list(at)}: left {x[at]!r}, right {y[at]!r}"


def _tensors(p: Pattern | None) -> frozenset[str]:
    """Variables that stand for tensors (the others stand for attributes)."""
    if isinstance(p, Ref):
        return frozenset({p.name})
    return frozenset().union(*(_tensors(a) for a in p.args)) if isinstance(p, Apply) else frozenset()


def _rounding(b: Builder) -> float:
    """Half a unit in the last place of the narrowest float type on either side: what a cast inside may lose."""
    bits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
    return max(2.0 ** -bits[n.type.dtype.name] for n in b.graph().nodes() if n.type.dtype.name in bits)


def _build(b: Builder, p: Pattern, nodes: dict[str, Node], env: Env, like: Node | None) -> Node:
    if isinstance(p, Ref):
        return nodes[p.name]
    if isinstance(p, (Lit, Word)):
        dtype = like.type.dtype if like is not None else next(iter(nodes.values())).type.dtype
        return b.const(p.value if isinstance(p, Lit) else p.name, dtype)
    assert isinstance(p, Apply)
    given = {k: e.name if isinstance(e, Word) else value_of(e, env) for k, e in p.attrs}
    if p.op == "const":
        dtype = like.type.dtype if like is not None else next(iter(nodes.values())).type.dtype
        return b.const(given["value"], DTYPES[given["dtype"]] if "dtype" in given else dtype)
    return b.op(p.op, *(_build(b, a, nodes, env, like) for a in p.args), **given)


def _type(text: str) -> TensorType | None:
    m = re.fullmatch(r"(\w+)\[([\d, ]*)\]", text.removesuffix(CONSTANT).strip())
    if not m or m[1] not in DTYPES:
        return None
    return TensorType(DTYPES[m[1]], tuple(int(d) for d in m[2].split(",") if d.strip()))


def _plain(v: Any) -> Any:
    return tuple(map(_plain, v)) if isinstance(v, (list, tuple)) else v


def _random(rng: np.random.Generator, t: TensorType) -> np.ndarray:
    shape = tuple(int(d) for d in t.shape)  # type: ignore[arg-type]
    if t.dtype.is_float:
        return rng.standard_normal(shape).astype(t.dtype.numpy)
    return rng.integers(0, 5 if t.dtype.is_int else 2, shape).astype(t.dtype.numpy)


def _show(types: dict[str, TensorType | None]) -> str:
    return ", ".join(f"?{k}: {t}" for k, t in types.items())
