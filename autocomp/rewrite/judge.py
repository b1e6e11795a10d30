"""Is a changed rule really wrong? Decided apart from the checker: by its own instances (every example, negative ones too, with extents,
lists and numbers replaced at will, and drawn ones of other seeds, many more), and by plain evaluation of both sides as two graphs.

It knows no proof and no bound from disturbed values: sides differ where types do, where whole numbers give other results, where any
numbers differ by more than a loose tolerance, or where one side alone is no number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.node import Graph, Node
from autocomp.ir.reference import evaluate_nodes
from autocomp.ir.types import DTYPES, TensorType
from autocomp.rewrite.check import siblings
from autocomp.rewrite.draw import Drawer
from autocomp.rewrite.instance import CONSTANT, Instance, type_of
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Unanswerable

VARIED, DRAWN, TRIES, FEEDS = 200, 40, 20, 4
EXTENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
BROKEN = (ModelError, Unanswerable, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError)


def really_wrong(rule: Rule, original: Rule, seed: int = 1) -> str:
    """Where the sides differ, or "" where they were equal on all that was tried."""
    rng = np.random.default_rng((seed, 2))
    drawn = (b for b, _ in Drawer(rule, seed + 1000).draws(DRAWN, DRAWN * TRIES))
    for bindings in (*_varied(original, rng), *drawn):
        found = _on(rule, bindings, seed)
        if found and not _on(original, bindings, seed):  # what is wrong with both was not brought in by the change
            return f"{found} for {dict(bindings)}"
    return ""


def _on(rule: Rule, bindings: Mapping[str, Any], seed: int) -> str:
    """Where the sides of a rule differ on one instance, or ""."""
    rng = np.random.default_rng((seed, 3))
    try:
        group = siblings(rule, bindings)
        if rule.siblings and len(group) < 2:
            return ""
        if max(n.type.elements for x in group for n in _nodes(x.left)) > 4096 or not all(x.conditions() for x in group):
            return ""
        rights = [x.right() for x in group]
    except BROKEN:
        return ""
    for x, right in zip(group, rights, strict=True):
        if right.type != x.left.type:
            return f"{x.left.type} and {right.type}"
        if max(n.type.elements for n in _nodes(right)) > 65536:
            return ""
        for k in range(FEEDS):
            if found := _differ(x, right, rng, k, rule):
                return found
    return ""


def _nodes(root: Node) -> tuple[Node, ...]:
    return tuple(Graph("", (), (("y", root),)).nodes())


def _varied(rule: Rule, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
    """Examples of the rule as it was, also those where it must not fire, with anything replaced."""
    shown = [dict(e.bindings) for e in rule.examples if e.bindings]
    yield from shown
    for _ in range(VARIED if shown else 0):
        given = shown[int(rng.integers(len(shown)))]
        new = {d: int(rng.choice(EXTENTS)) if rng.random() < 0.5 else d for d in range(100)}
        dtype = str(rng.choice(("f64", "f32", "f16", "i32", "i8", "u8"))) if rng.random() < 0.3 else ""
        out: dict[str, Any] = {}
        for k, v in given.items():
            t = type_of(v) if isinstance(v, str) else None
            if t is not None:
                shape = [new.get(int(d), int(d)) if rng.random() < 0.9 else int(rng.choice(EXTENTS)) for d in t.shape]  # type: ignore[arg-type]
                out[k] = f"{dtype or t.dtype}[{', '.join(map(str, shape))}]{CONSTANT if v.endswith(CONSTANT) else ''}"
            elif isinstance(v, tuple) and v and all(isinstance(i, int) for i in v) and rng.random() < 0.5:
                turned = tuple(int(i) for i in rng.permutation(v))
                out[k] = turned if rng.random() < 0.5 else tuple(int(i + rng.integers(-1, 3)) for i in v)
            elif isinstance(v, bool):
                out[k] = v if rng.random() < 0.5 else not v
            elif isinstance(v, (int, float)) and rng.random() < 0.5:
                out[k] = v + int(rng.integers(-2, 4)) if isinstance(v, int) else float(rng.choice((0.0, 1.0, -1.5, v, 2.0, 1e-6)))
            elif isinstance(v, str) and v in DTYPES and rng.random() < 0.3:
                out[k] = str(rng.choice(("f64", "f32", "f16", "i32")))
            else:
                out[k] = v
        yield out


def _fed(rng: np.random.Generator, t: TensorType, k: int) -> np.ndarray:
    shape = tuple(int(d) for d in t.shape)  # type: ignore[arg-type]
    if t.dtype.is_float:
        x = rng.integers(-4, 5, shape) / (1 if k == 0 else 2) if k < 2 else rng.standard_normal(shape) * (1 if k == 2 else 20)
        return x.astype(t.dtype.numpy)
    if t.dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(t.dtype.numpy)
    small = rng.integers(max(info.min, -4), 5, shape)
    return (small if k < 2 else rng.integers(info.min, info.max, shape, dtype=t.dtype.numpy, endpoint=True)).astype(t.dtype.numpy)


def _differ(x: Instance, right: Node, rng: np.random.Generator, k: int, rule: Rule) -> str:
    fed = {str(n.attrs["name"]): _fed(rng, n.type, k) for n in x.b.inputs}
    try:
        with np.errstate(all="ignore"):
            p, q = (np.asarray(v) for v in evaluate_nodes((x.left, right), fed, {}, float64=False))
            wide = np.asarray(evaluate_nodes((x.left,), fed, {}, float64=True)[0])
    except BROKEN:
        return ""
    if p.dtype.kind in "iub":
        bad = p != q
        steps = any(i.type.dtype.is_float for n in _nodes(x.left) for i in n.inputs)
        return f"{_at(p, q, bad)}" if bad.any() and not (steps and k >= 2 and not rule.exact) else ""
    a, b, w = (v.astype(np.float64) for v in (p, q, wide))
    eps = max((n.type.dtype.eps for n in _nodes(x.left) if n.type.dtype.is_float), default=0.0)
    eps = max(eps, x.left.type.dtype.eps)
    with np.errstate(all="ignore"):
        scale = float(np.abs(a[np.isfinite(a)]).max(initial=1.0))
        loose = np.abs(a - b) <= 64 * eps * (np.abs(a) + scale)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (loose & np.isfinite(b))
        if k == 3 or rule.finite:  # large values may overflow on the way
            same |= ~np.isfinite(a) | ~np.isfinite(w)
        if rule.exact and not _sums((*_nodes(x.left), *_nodes(right))):
            same &= (a == b) | (np.isnan(a) & np.isnan(b))
    return _at(p, q, ~same) if not same.all() else ""


def _sums(nodes: tuple[Node, ...]) -> bool:
    return any(n.op in ("matmul", "conv", "einsum", "sumpool", "cumsum", "welford", "max_sumexp", "softmax_weighted_sum")
               or n.op.startswith("reduce_") for n in nodes)  # fmt: skip


def _at(p: np.ndarray, q: np.ndarray, bad: np.ndarray) -> str:
    i = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
    return f"{p[i]} and {q[i]}"
