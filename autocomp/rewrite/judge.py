"""Is a changed rule really wrong? Decided apart from the checker: by instances of its own (brute force over tiny ones, `brute.py`; and
every example, negative ones too, with extents, lists and numbers replaced at will), with values of its own, by plain evaluation.

It knows no proof and no bound from disturbed values: sides differ where types do, where whole numbers give other results, where any
numbers differ by more than a loose tolerance, where one side alone is no number or has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from autocomp.ir.node import Graph, Node
from autocomp.ir.reference import evaluate_nodes
from autocomp.ir.rounding import PRODUCTS
from autocomp.ir.types import DTYPES, TensorType
from autocomp.rewrite.brute import BROKEN, brute
from autocomp.rewrite.instance import CONSTANT, Instance, type_of
from autocomp.rewrite.rule import Rule

VARIED, WALKS, TRIED = 200, 600, 120  # varied examples; walks by brute force, of which so many instances are tried
EXTENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
SMALL, HALVES, NORMAL, LOUD, ENDS, HOLES, INFINITE, SHIFTED = range(8)
SIGNED = frozenset({"input", "param", "const", "neg", "abs", "mul", "div", "transpose", "reshape", "broadcast", "slice", "pad", "concat",
                    "where", "gather", "tile", "cast", "sqrt", "matmul"})  # fmt: skip


def really_wrong(rule: Rule, original: Rule, seed: int = 1) -> str:
    """Where the sides differ, or "" where they were equal on all that was tried."""
    rng = np.random.default_rng((seed, 2))
    for bindings in (*_varied(original, rng), *_tiny(rule, rng)):
        found = _on(rule, bindings, seed)
        if found and not _on(original, bindings, seed):  # what is wrong with both was not brought in by the change
            return f"{found} for {dict(bindings)}"
    return ""


def _tiny(rule: Rule, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
    """Up to TRIED instances by brute force for which the conditions hold."""
    found = 0
    for bindings in brute(rule, rng, WALKS):
        try:
            if not Instance(rule, bindings, open=True).conditions():
                continue
        except BROKEN:
            continue
        yield bindings
        found += 1
        if found == TRIED:
            return


def _on(rule: Rule, bindings: Mapping[str, Any], seed: int) -> str:
    """Where the sides of a rule differ on one instance, or ""."""
    try:
        group = _group(rule, bindings)
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
        rng = np.random.default_rng((seed, 3))
        for k in (SMALL, HALVES, NORMAL, LOUD, ENDS, HOLES, INFINITE, SHIFTED):
            if found := _differ(x, right, rng, k, rule):
                return found
    return ""


def _group(rule: Rule, bindings: Mapping[str, Any]) -> tuple[Instance, ...]:
    """The instance; of a rule of siblings two that share what they say, whose other tensors are as they are and turned by chance."""
    x = Instance(rule, bindings, open=True)
    if not rule.siblings:
        return (x,)
    shared = {v: x.nodes[v] for v in rule.siblings if v in x.nodes}
    y = Instance(rule, bindings, open=True, b=x.b, nodes=dict(shared), suffix="_other")
    x.together = y.together = (x, y)
    return (x, y)


def _nodes(root: Node) -> tuple[Node, ...]:
    return tuple(Graph("", (), (("y", root),)).nodes())


def _varied(rule: Rule, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
    """Examples of the rule as it was, also those where it must not fire, with anything replaced."""
    shown = [dict(e.bindings) for e in rule.examples if e.bindings]
    yield from shown
    for _ in range(VARIED if shown else 0):
        given = shown[int(rng.integers(len(shown)))]
        new = {d: int(rng.choice(EXTENTS)) if rng.random() < 0.5 else d for d in _extents(given)}
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


def _extents(given: Mapping[str, Any]) -> list[int]:
    types = (type_of(v) for v in given.values() if isinstance(v, str))
    return sorted({int(d) for t in types if t is not None for d in t.shape})  # type: ignore[arg-type]


# ---- values
def _fed(rng: np.random.Generator, t: TensorType, k: int) -> np.ndarray:
    shape = tuple(int(d) for d in t.shape)  # type: ignore[arg-type]
    d = t.dtype
    with np.errstate(all="ignore"):
        if d.is_float:
            return _floats(rng, shape, k, d.bits).astype(d.numpy)
        if d.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        info = np.iinfo(d.numpy)
        if k in (SMALL, HALVES):
            return rng.integers(max(info.min, -4), 5, shape).astype(d.numpy)
        if k in (ENDS, INFINITE):
            ends = np.array([info.min, info.min + 1, info.max, info.max - 1, info.max // 2 + 1, 0, 1], d.numpy)
            return rng.choice(ends, shape)
        return rng.integers(info.min, info.max, shape, dtype=d.numpy, endpoint=True)


def _floats(rng: np.random.Generator, shape: tuple[int, ...], k: int, bits: int) -> np.ndarray:
    x = rng.standard_normal(shape)
    some = rng.random(shape) < 0.3
    if k in (SMALL, HALVES):
        return rng.integers(-4, 5, shape) / (1 if k == SMALL else 2)
    if k == LOUD:
        return x * (20 if bits > 8 else 2)
    if k == ENDS:  # around the ends of integer types, and where floats have no halves left
        edge = 2.0 ** rng.choice((7, 8, 15, 16, 24, 31, 32, 53, 63), shape)
        return np.where(some, x, np.sign(x) * (edge + rng.choice((-1.0, 0.0, 1.0, 0.5), shape)))
    if k == HOLES:
        return np.where(some, np.nan, x)
    if k == INFINITE:
        return np.where(some, rng.choice((np.inf, -np.inf, 0.0, -0.0), shape), x)
    return x + (1000.0 if bits > 16 else 8.0) if k == SHIFTED else x


def _values(root: Node, fed: Mapping[str, np.ndarray], float64: bool) -> dict[int, np.ndarray]:
    """The value of each node, computed in its own type or in f64. Raises ArithmeticError where one has no meaning."""
    nodes = _nodes(root)
    with np.errstate(all="ignore"):
        values = dict(zip(map(id, nodes), map(np.asarray, evaluate_nodes(nodes, fed, {}, float64=float64))))
    for n in nodes:
        args = [values[id(i)] for i in n.inputs]
        if n.op in ("idiv", "floordiv", "mod", "fmod") and n.type.dtype.is_int:
            least = np.iinfo(n.type.dtype.numpy).min
            if (args[1] == 0).any() or (least < 0 and np.any((args[0] == least) & (args[1].astype(float) == -1))):
                raise ArithmeticError
        if n.op in ("shl", "shr") and np.any((args[1].astype(float) < 0) | (args[1].astype(float) >= n.type.dtype.bits)):
            raise ArithmeticError
        if n.op == "cast" and n.type.dtype.is_int and args[0].dtype.kind not in "iub":
            info, v = np.iinfo(n.type.dtype.numpy), np.trunc(args[0].astype(np.float64))
            if not np.all((v >= info.min) & (v < float(info.max) + (info.max < 2**53))):
                raise ArithmeticError
    return values


def _differ(x: Instance, right: Node, rng: np.random.Generator, k: int, rule: Rule) -> str:
    fed = {str(n.attrs["name"]): _fed(rng, n.type, k) for n in x.b.inputs}
    try:
        lefts, wide = _values(x.left, fed, False), _values(x.left, fed, True)[id(x.left)]
    except (*BROKEN, ArithmeticError):
        return ""
    try:
        q = _values(right, fed, False)[id(right)]
    except ArithmeticError:
        return "the right side has no meaning there"
    except BROKEN:
        return ""
    p, nodes = lefts[id(x.left)], _nodes(x.left)
    if k == ENDS and p.dtype.kind not in "iub" and not rule.exact:
        return ""  # what is summed is lost beside what is large
    if p.dtype.kind in "iub":
        steps = any(i.type.dtype.is_float for n in nodes for i in n.inputs)
        bad = np.asarray(p != q)
        return _at(p, q, bad) if bad.any() and not (steps and k >= NORMAL and not rule.exact) else ""
    a, b = p.astype(np.float64), q.astype(np.float64)
    eps = max((n.type.dtype.eps for n in nodes if n.type.dtype.is_float), default=x.left.type.dtype.eps)
    with np.errstate(all="ignore"):
        held = [np.abs(v[np.isfinite(v)]).max(initial=0.0) for n in nodes if n.type.dtype.is_float
                for v in (lefts[id(n)].astype(np.float64),)]  # fmt: skip
        loose = np.abs(a - b) <= 64 * eps * (np.abs(a) + max(1.0, *held))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        both = (*nodes, *_nodes(right))
        if rule.exact and not _sums(both):
            if all(n.op in SIGNED for n in both):
                same &= np.isnan(a) | (np.signbit(a) == np.signbit(b))
        else:
            same |= loose & np.isfinite(b)
            if k in (LOUD, ENDS, INFINITE, SHIFTED) or rule.finite:  # large values may overflow on the way, and infinities meet
                same |= ~np.isfinite(a) | ~np.isfinite(wide)
            if rule.finite and k in (HOLES, INFINITE):
                same |= ~np.isfinite(b)
    return _at(p, q, ~same) if not same.all() else ""


def _sums(nodes: tuple[Node, ...]) -> bool:
    others = ("einsum", "sumpool", "cumsum", "welford", "max_sumexp", "softmax_weighted_sum")
    return any(n.op in PRODUCTS or n.op in others or n.op.startswith("reduce_") for n in nodes)


def _at(p: np.ndarray, q: np.ndarray, bad: np.ndarray) -> str:
    i = tuple(int(k[0]) for k in np.nonzero(bad)) if bad.ndim else ()
    return f"{p[i]} and {q[i]}"
