"""Are a rule's two sides equal? Compared on instances that are drawn, beside the author's examples, and their types on every form up
to a rank; a counterexample if not. What holds is then proved over the reals where both sides can be written as formulas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, product
from math import prod
from typing import Any

import numpy as np

from autocomp.deadline import current
from autocomp.errors import ModelError
from autocomp.ir.ops import OPS
from autocomp.ir.ops.windows import kernel_shape
from autocomp.ir.types import BOOL, DTYPES, F8E4M3, F32, DType, TensorType
from autocomp.rewrite.compare import Difference, Undefined, below, compare_sides, terms
from autocomp.rewrite.draw import Drawer
from autocomp.rewrite.feeds import DENSE, EXACT_KINDS, FAINT, FULL, LARGEST, LOOSE_KINDS, NEAR, NORMAL, SCALED, WHOLE
from autocomp.rewrite.forms import all_forms, wrong_type
from autocomp.rewrite.instance import CONSTANT, MOST_TRIED, Instance, Uniform, type_of
from autocomp.rewrite.pattern import applications
from autocomp.rewrite.rule import Example, Rule
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.rewrite.where import Unanswerable

DRAWN = 5  # instances drawn for one of `samples`
TRIES = 60  # draws for one of them, of which most are no instance
KINDS = 3  # kinds of values on each
OTHERS = 4  # drawn instances of which other extents are tried, beside the examples
SIZED = 30  # for one of `samples`: other extents that are tried on them
ALL_SIZES = 9  # axes of which every one may be 1 or 2: all of these are tried
PLACES = frozenset({"reduce_argmax", "reduce_argmin", "maxpool_index", "topk", "radix_topk", "iota", "extent"})
SUMS = frozenset({"reduce_sum", "cumsum", "sum_at", "sumpool", "matmul", "einsum", "conv"})
FOLDED = frozenset({"reduce_sum", "sumpool", "matmul", "einsum", "conv"})  # of which a comprehension says how many terms a sum has
FAR, FAR_FORMS = 2**17 + 4401, 4  # an extent whose places u16 does not hold, nor f32 the sum of as many bytes; on how many forms
FARTHEST = 2**24 + 1  # so many truth values have no sum in f32
MOST_STEP = 64  # numbers of a rule's text that attributes are tried at
NARROW = 120  # sets of values of f8e4m3, each tensor scaled for itself: products of ordinary ones are beyond 448
PAIRS = 6  # sets of large values, of which few overflow on one side alone
LONG, LONG_DRAWS = 256, 4  # an extent that 8 bits count to 0, and how often it is tried
FLOATS = tuple(d for d in DTYPES.values() if d.is_float)
TINY = ((), (1,), (2,), (1, 2), (2, 1), (2, 2))
NO_INSTANCE = (ModelError, Unanswerable, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError)


@dataclass(frozen=True)
class CheckResult:
    """status: proved | tested-N | assumed | refuted | unchecked. `detail`: what was proved, the counterexample, or why nothing was tested.

    tests: sets of values on which both sides agreed; instances: drawn instances among them. note: what else the author should know.
    cut: the deadline came before the end, so that what was not refuted may yet be. again: arguments behind `autocomp rules check FILE`
    that show the counterexample alone.
    """

    status: str
    detail: str = ""
    tests: int = 0
    instances: int = 0
    note: str = ""
    cut: bool = False
    again: str = ""


_KNOWN: dict[str, CheckResult] = {}


def check_rule(rule: Rule, samples: int = 20, prove: bool = True) -> CheckResult:
    """Compare the sides on the examples and on about `samples` times 5 drawn instances, each with several kinds of values; prove the rule
    if z3 is there and the sides can be written as formulas. The same rule is checked to its end once in a process.

    Rules of other phases move no values (their results are checked kernel by kernel), so they are `assumed` here.
    """
    if rule.phase not in GRAPH_PHASES:
        return CheckResult("assumed", "it chooses kernels or schedules; every program is replayed against the reference")
    key = f"{rule.text}|{rule.exact}|{rule.finite}|{rule.siblings}|{rule.examples}|{samples}|{prove}"
    known = _KNOWN.get(key)
    if known is None:
        known = replace(_checked(rule, samples, prove), note=idle(rule))
        if not known.cut:
            _KNOWN[key] = known
    return known


def next_step(rule: Rule, samples: int = 20, fault: str = "") -> str:
    """What to do about a rule that is refuted; `fault`: how."""
    if rule.phase not in GRAPH_PHASES:
        split = any(k == "split" for k, _ in getattr(rule.rhs, "attrs", ()))
        word = "split" if split else "tile"
        known = {"order": f"ask isl: `legal({word})` as a condition of its own in `where`",
                 "capacity": "say in `where` what a tile may take: `fits(L2, bytes)`, on GPUs `fits(tile)`"}  # fmt: skip
        return next((step for what, step in known.items() if f" - {what}" in fault), "say under which condition it holds in `where`")
    if rule.exact and check_rule(replace(rule, exact=False), samples, prove=False).status != "refuted":
        return "both sides are the same but for rounding or the sign of a zero: `exact: false` says that"
    if fault.startswith("unites") and "number " in fault:
        return "a number may be a larger tensor than what is beside it: `shape(?root) == shape(?x)` in `where` says that it is not"
    if "f8e4m3" in fault and "right nan" in fault:
        return "f8e4m3 ends at 448, and its NaN is what is beyond: `dtype(?x) != f8e4m3` in `where` leaves that type out"
    if rule.right_ops & {"div", "rsqrt"} and any(f"right {v}" in fault for v in ("inf", "-inf", "nan")):
        return "say under which condition it holds in `where`: `invertible(dtype(?y), ?y)` where a reciprocal of what is tiny overflows"
    return "correct it, or say under which condition it holds in `where`"


def idle(rule: Rule) -> str:
    """Why a rule can never fire: an op of its left side is written out before rules run. "" if it can."""
    assert rule.lhs is not None
    gone = sorted({a.op for a in applications(rule.lhs) if a.op in OPS and OPS[a.op].decompose is not None and not OPS[a.op].opaque})
    if not gone:
        return ""
    return f"never fires: {', '.join(gone)} is written out in other ops before rules run; match those (`autocomp explain` shows them)"


def _checked(rule: Rule, samples: int, prove: bool) -> CheckResult:
    if current().over:
        return CheckResult("unchecked", "the deadline came first", cut=True)
    tested = 0
    shown = [e for e in rule.examples if e.fires and e.bindings]
    for example in shown:
        found = _on_example(rule, example)
        if isinstance(found, str):
            return CheckResult("refuted", found, tested)
        tested += found
    kept: list[dict[str, Any]] = []
    kinds = EXACT_KINDS if rule.exact else LOOSE_KINDS
    for k, (bindings, drawn) in enumerate(Drawer(rule).draws(DRAWN * samples, DRAWN * samples * TRIES)):
        agreed = 0
        some = [*np.random.default_rng((k, 5)).permutation(kinds)[:KINDS], *([DENSE] if rule.exact and k % 3 == 0 else []), NEAR]
        for j, kind in enumerate(some):
            difference = compare(rule, bindings, 1000 * k + j, str(kind), known=None if rule.siblings else drawn)
            if isinstance(difference, str):
                return CheckResult("refuted", _smallest(rule, bindings, 1000 * k + j, str(kind), difference), tested, len(kept))
            agreed += difference
        tested += agreed
        if agreed:
            kept.append(bindings)
    if not tested and not current().over:
        from autocomp.rewrite.never import why_never

        if never := why_never(rule):
            return CheckResult("assumed", f"it seems never to fire: {never}")
        return CheckResult("assumed", "no positive example to test, and no instance was drawn")
    forms = _of_other_forms(rule, shown, kept)
    more = _on_other_forms(rule, forms, samples)
    if isinstance(more, str):
        return CheckResult("refuted", more, tested, len(kept))
    tested += more
    every = all_forms(rule)
    if wrong := wrong_type(every):
        return CheckResult("refuted", f"{wrong[1]} for {show(wrong[0])}", tested, len(kept))
    if current().over:
        return CheckResult("unchecked", f"the deadline came after {len(kept)} drawn instances", tested, len(kept), cut=True)
    if prove:
        from autocomp.rewrite.prove import prove_rule

        proof = prove_rule(rule, every)
        if proof:
            return CheckResult("proved", proof.reason, tested, len(kept))
        if current().over:
            return CheckResult("unchecked", "the deadline came during the proof", tested, len(kept), cut=True)
        return CheckResult(f"tested-{tested}", f"no proof: {proof.reason}", tested, len(kept))
    return CheckResult(f"tested-{tested}", "", tested, len(kept))


def _on_other_forms(rule: Rule, forms: list[Example], samples: int) -> str | int:
    """A counterexample on forms with other extents, attributes and kinds of values, or the number of sets on which the sides agree."""
    sized = ((bindings, WHOLE) for bindings in _resized(forms, SIZED * samples))
    kinds = EXACT_KINDS if rule.exact else LOOSE_KINDS
    tried = chain(sized, _stepped(rule, forms), _of_kinds(forms, kinds), _far(rule, forms))
    tested = 0
    for k, (bindings, kind, made) in enumerate(_with_instances(rule, tried)):
        if current().over:
            break
        with suppress(*NO_INSTANCE):
            difference = compare(rule, bindings, k, kind, known=made)
            if isinstance(difference, str):
                return difference
            tested += difference
    return tested


def _with_instances(rule: Rule, tried: Iterator[tuple[dict[str, Any], str]]) -> Iterator[tuple[dict[str, Any], str, Instance | None]]:
    """Each with the instance, where the one before had the same bindings and the conditions hold of them: one has many sets of values."""
    before: dict[str, Any] | None = None
    made: Instance | None = None
    for bindings, kind in tried:
        if bindings is not before:
            before, made = bindings, None
        elif made is None and not rule.siblings:
            with suppress(*NO_INSTANCE):
                x = Instance(rule, bindings, open=True)
                made = x if x.conditions() else None
        yield bindings, kind, made


def _of_other_forms(rule: Rule, shown: list[Example], kept: list[dict[str, Any]]) -> list[Example]:
    """The examples, and drawn instances of other ranks and attributes, of floats: whose extents are then varied."""
    out = list(shown)
    seen = {_form(dict(e.bindings)) for e in shown}
    for bindings in kept:
        types = {k: t for k, v in bindings.items() if isinstance(v, str) and (t := type_of(v)) is not None}
        if len(out) >= len(shown) + OTHERS:
            break
        if _form(bindings) in seen or not all(t.dtype.is_float or t.dtype.kind == "b" for t in types.values()):
            continue
        seen.add(_form(bindings))
        out.append(Example(tuple(bindings.items()), True, rule.location))
    return out


def _resized(forms: list[Example], count: int) -> Iterator[dict[str, Any]]:
    """Instances with the same attributes and other extents, up to `count` and as many again: every tensor and number of every shape in
    TINY; and of the same ranks, all extents of 1 and 2 where there are few axes, else some of 1, 2 and 3; of bytes and bools one extent of
    256. A proof takes sizes as unknowns, of which 1 (that broadcasts) and equal ones are not like the others, and compares no types."""
    rng = np.random.default_rng(13)
    ranks: dict[str, tuple[dict[str, Any], dict[str, TensorType]]] = {}
    for form in forms:
        given = dict(form.bindings)
        types = _types(given)
        ranks.setdefault(repr([(k, types[k].rank if k in types else v) for k, v in sorted(given.items())]), (given, types))
    chosen = sorted(ranks.values(), key=lambda form: sum(t.rank for t in form[1].values()))
    for k, (given, types) in enumerate(chosen):
        axes, share = sum(t.rank for t in types.values()), max(count, 0) // (len(chosen) - k)
        if len(TINY) ** len(types) <= share:
            shapes = list(product(TINY, repeat=len(types)))
        else:
            shapes = [tuple(TINY[i] for i in places) for places in rng.integers(len(TINY), size=(share, len(types)))]
        for some in shapes:
            yield _of_shapes(given, types, some)
        every: Iterator[tuple[int, ...]] = product((1, 2), repeat=axes) if axes <= ALL_SIZES else _some(rng, types, share)
        for extents in every:
            taken = iter(extents)
            yield _of_shapes(given, types, [tuple(next(taken) for _ in range(t.rank)) for t in types.values()])
            count -= 1
        if any(not t.dtype.is_float and t.dtype.bits <= 8 for t in types.values()):
            for long in sorted({d for t in types.values() for d in t.shape if isinstance(d, int)}) * LONG_DRAWS:
                yield _of_shapes(given, types, [tuple(LONG if d == long else 1 for d in t.shape) for t in types.values()])


def _stepped(rule: Rule, forms: list[Example]) -> Iterator[tuple[dict[str, Any], str]]:
    """Instances with one attribute beyond a number of the rule's text: a rule that says that a window is at most 6 is tried with one of 7.
    The last axis of each tensor, and what is as long, gets room for it."""
    steps = [int(n) + 1 for n in Drawer(rule).numbers if 1 <= n <= MOST_STEP]
    for step, form in product(steps, forms):
        given = dict(form.bindings)
        types = _types(given)
        last = {t.shape[-1] for t in types.values() if t.rank and t.shape[-1] != 1}
        long = _of_shapes(given, types, [tuple(d + 2 * step if d in last else d for d in t.shape) for t in types.values()])  # type: ignore[misc, operator]
        for name, v in given.items():
            if name in types or isinstance(v, (bool, str)):
                continue
            if isinstance(v, int):
                yield {**long, name: step}, WHOLE
            elif isinstance(v, (tuple, list)) and all(isinstance(d, int) for d in v):
                yield from (({**long, name: tuple(step if i == k else d for i, d in enumerate(v))}, WHOLE) for k in range(len(v)))


def _of_kinds(forms: list[Example], kinds: Sequence[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each kind of values in each type of floats, of which few pairs are drawn: on the forms in turn, as they are or with extents of 2 (two
    large terms, whose sum has one order)."""
    given = [(bindings, types) for bindings in (dict(form.bindings) for form in forms) if (types := _types(bindings))]
    for k, (dtype, kind) in enumerate(product(FLOATS, kinds) if given else ()):
        bindings, types = given[k % len(given)]
        retyped = {name: _retyped(v, dtype) for name, v in bindings.items()}
        pairs = _of_shapes(retyped, _types(retyped), [tuple(min(d, 2) for d in t.shape) for t in types.values()])  # type: ignore[type-var, misc]
        if kind == SCALED and dtype == F8E4M3:
            yield from ((retyped, kind) for _ in range(NARROW))
        yield from ((some, kind) for some in ((pairs,) * PAIRS if kind == LARGEST else (pairs if k % 4 == 0 else retyped,)))


def _types(bindings: Mapping[str, Any]) -> dict[str, TensorType]:
    """Of tensors, and of numbers as tensors."""
    return {k: t for k, v in bindings.items() if (t := v.type if isinstance(v, Uniform) else type_of(v) if isinstance(v, str) else None)}


def _retyped(v: Any, dtype: DType) -> Any:
    """A tensor of floats, or a number, of another type of floats; all else as it is."""
    t = v.type if isinstance(v, Uniform) else type_of(v) if isinstance(v, str) else None
    if t is None or not t.dtype.is_float:
        return v
    new = TensorType(dtype, t.shape)
    return replace(v, type=new) if isinstance(v, Uniform) else f"{new}{CONSTANT if v.endswith(CONSTANT) else ''}"


def _far(rule: Rule, forms: list[Example]) -> Iterator[tuple[dict[str, Any], str]]:
    """Instances with one axis so long that the number of a place on it is none of bytes, of short integers or of halves, where a rule casts
    and computes places; and that the sum of as many bytes, or truth values, has no place in a type, where it casts and sums."""
    assert rule.lhs is not None
    ops = {a.op for a in applications(rule.lhs)} | rule.right_ops
    if "cast" not in ops:
        return
    if ops & PLACES:
        yield from ((bindings, NORMAL) for bindings in _long(forms[:FAR_FORMS], FAR))
    for k, form in enumerate(forms[:FAR_FORMS] if ops & SUMS else ()):
        with suppress(*NO_INSTANCE):
            x = Instance(rule, dict(form.bindings), open=True)
            left, right = ({n.type.dtype for n in below(side) if n.op in SUMS} for side in (x.left, x.right()))
            if left == right:
                continue
            values = (FULL, FAINT) if any(t.is_float for t in left ^ right) else (FULL,)
            yield from ((bindings, kind) for bindings in filter(partial(_sums_many, rule), _long([form], FAR)) for kind in values)
            if k == 0 and F32 in left ^ right and any(n.type.dtype == BOOL for n in x.nodes.values()):
                yield from ((bindings, FULL) for bindings in islice(filter(partial(_folds, rule), _long([form], FARTHEST)), 1))


def _sums_many(rule: Rule, bindings: Mapping[str, Any]) -> bool:
    """Whether the long axis may be one of a sum on the left side: many places are many sums of a few. Of a convolution it is that of the
    channels: its reference takes a window place by place."""
    with suppress(*NO_INSTANCE):
        left = below(Instance(rule, bindings, open=True).left)
        windows = [kernel_shape(n.inputs[1].type, n.attrs["layout"])[2] for n in left if n.op == "conv"]
        return all(prod(w) < FAR for w in windows) and any(terms(n) >= FAR or n.op not in FOLDED for n in left if n.op in SUMS)
    return False


def _folds(rule: Rule, bindings: Mapping[str, Any]) -> bool:
    """Whether the left side makes one element of them."""
    with suppress(*NO_INSTANCE):
        return Instance(rule, bindings, open=True, most=FARTHEST).left.type.elements == 1
    return False


def _long(forms: list[Example], extent: int) -> Iterator[dict[str, Any]]:
    """Instances with one axis of this extent, the others of one element."""
    for form in forms:
        given = dict(form.bindings)
        for name, shape in given.items():
            if isinstance(shape, (tuple, list)) and shape and all(isinstance(d, int) and d > 0 for d in shape):
                yield {**given, name: (extent, *(1 for _ in shape[1:]))}
        types = _types(given)
        for name, t in types.items():
            for k in range(t.rank):
                shapes = [tuple(extent if (n, j) == (name, k) else 1 for j in range(u.rank)) for n, u in types.items()]
                yield _of_shapes(given, types, shapes)
                last, alike = t.rank - k, t.shape[k]
                yield _of_shapes(given, types, [tuple(extent if d == alike else 1 for d in u.shape) for u in types.values()])
                yield _of_shapes(given, types, [tuple(extent if u.rank - j == last else 1 for j in range(u.rank)) for u in types.values()])


def _smallest(rule: Rule, bindings: Mapping[str, Any], seed: int, kind: str, found: str) -> str:
    """The counterexample of an instance as small as one that has it: each extent, where it stands, as 1, 2 or 3."""
    types = _types(bindings)
    given, again = dict(bindings), True
    while again:
        again = False
        extents = sorted({d for t in types.values() for d in t.shape if isinstance(d, int)}, reverse=True)
        for old, new in ((d, n) for d in extents for n in (1, 2, 3) if n < d):
            smaller = {k: replace(t, shape=tuple(new if d == old else d for d in t.shape)) for k, t in types.items()}
            tried = _of_shapes(given, types, [t.shape for t in smaller.values()])  # type: ignore[misc]
            try:
                difference = compare(rule, tried, seed, kind)
            except NO_INSTANCE:
                continue
            if isinstance(difference, str) and difference.startswith("unites") == found.startswith("unites"):
                types, given, found, again = smaller, tried, difference, True
                break
    return found


def _of_shapes(given: Mapping[str, Any], types: Mapping[str, TensorType], shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """The instance with other shapes."""
    out = dict(given)
    for (name, t), shape in zip(types.items(), shapes, strict=True):
        new, v = TensorType(t.dtype, shape), given[name]
        out[name] = replace(v, type=new) if isinstance(v, Uniform) else f"{new}{CONSTANT if v.endswith(CONSTANT) else ''}"
    return out


def _some(rng: np.random.Generator, types: Mapping[str, TensorType], count: int) -> Iterator[tuple[int, ...]]:
    """Extents of all axes: what was equal is so still, or each is for itself."""
    dims = [d for t in types.values() for d in t.shape]
    for _ in range(count):
        new = {d: int(rng.integers(1, 4)) for d in dims}
        yield tuple(rng.integers(1, 3, len(dims)).tolist()) if rng.random() < 0.5 else tuple(new[d] for d in dims)


def _form(bindings: Mapping[str, Any]) -> str:
    """Ranks, where extents are 1, and attributes."""
    parts = []
    for k, v in sorted(bindings.items()):
        t = v.type if isinstance(v, Uniform) else type_of(v) if isinstance(v, str) else None
        parts.append(f"{k}:{''.join('1' if d == 1 else 'n' for d in t.shape)}" if t is not None else f"{k}={v}")
    return " ".join(parts)


def _on_example(rule: Rule, example: Example) -> str | int:
    """A counterexample, or the number of sets of values on which the sides agree."""
    given = dict(example.bindings)
    try:
        answer = Instance(rule, given).conditions()
        if not answer:
            return f"the positive example at {example.location} is refused: {answer.reason}"
        tested = 0
        for seed, kind in enumerate(EXACT_KINDS if rule.exact else LOOSE_KINDS):
            found = compare(rule, given, seed, kind, strict=True)
            if isinstance(found, str):
                return found
            tested += found
        return tested
    except (ModelError, Unanswerable) as e:
        return f"the example at {example.location} has no instance: {e}"
    except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as e:
        return f"the example at {example.location} has no instance: {e} (an attribute has not the form that its op wants)"


def compare(rule: Rule, bindings: Mapping[str, Any], seed: int, kind: str = "whole", strict: bool = False,
            known: Instance | None = None) -> str | int:  # fmt: skip
    """A counterexample's text, 1 if the sides agree, 0 where there is nothing to compare: the conditions refuse the instance, the right
    side has no type there (then the rule does not fire), or the left side no meaning.

    strict: a right side without a type raises Unanswerable or ModelError. known: the instance, of which the conditions hold, where it has
    been made.
    """
    most = FARTHEST if kind == FULL else MOST_TRIED
    group = siblings(rule, bindings, seed, most) if known is None else (known,)
    if known is None and not all(x.conditions() for x in group):
        return 0
    agreed = 0
    for x in group:
        try:
            right = x.right()
        except (ModelError, Unanswerable):
            if strict:
                raise
            return 0
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as e:
            return f"for {show(bindings)}: the right side cannot be built: {e}"
        largest = max((n.type for side in (x.left, right) for n in below(side)), key=lambda t: t.elements)
        if largest.elements > most:
            if strict:
                raise Unanswerable(f"it has a tensor {largest}, and up to {most} elements are tried")
            return 0
        if right.type != x.left.type:
            return f"unites {x.left.type} with {right.type} for {show(bindings)}"
        try:
            found = compare_sides(x, right, seed, kind, rule.finite)
        except Undefined:
            continue
        if isinstance(found, Difference):
            return f"for {show(bindings)} (seed {seed}) {found.text}"
        agreed = 1
    return agreed


def siblings(rule: Rule, bindings: Mapping[str, Any], seed: int = 0, most: int = MOST_TRIED) -> tuple[Instance, ...]:
    """The instance; for a rule of siblings two of them that share what they say, the second with other extents where that fits."""
    x = Instance(rule, bindings, open=True, most=most)
    if not rule.siblings:
        return (x,)
    shared = {v: x.nodes[v] for v in rule.siblings if v in x.nodes}
    held = {int(d) for n in shared.values() for d in n.type.shape}  # type: ignore[arg-type]
    other = {k: _stretched(v, held) if k not in shared else v for k, v in bindings.items()}
    for choice in (other, dict(bindings)) if seed % 2 == 0 else (dict(bindings),):
        try:
            y = Instance(rule, choice, open=True, b=x.b, nodes=dict(shared), suffix=f"_{len(x.b.inputs)}")
            if not y.conditions():
                continue
        except (ModelError, Unanswerable):
            continue
        x.together = y.together = (x, y)
        return (x, y)
    return (x,)


def _stretched(v: Any, held: set[int]) -> Any:
    t = type_of(v) if isinstance(v, str) else None
    if t is None:
        return v
    shape = [d if d in held or d == 1 else int(d) + 2 for d in t.shape]  # type: ignore[arg-type]
    return f"{t.dtype}[{', '.join(map(str, shape))}]{CONSTANT if v.endswith(CONSTANT) else ''}"


def show(bindings: Mapping[str, Any]) -> str:
    """Bindings as an example's author reads them."""
    tensors = [f"?{k}: {v.removesuffix(CONSTANT)}" for k, v in bindings.items() if isinstance(v, str) and type_of(v) is not None]
    rest = [f"?{k} = {_plain(v)}" for k, v in bindings.items() if not (isinstance(v, str) and type_of(v) is not None) and k[0] != "#"]
    numbers = [f"the number {v}" for k, v in bindings.items() if k[0] == "#" and (v.type.shape or str(v.value) == "-0.0")]
    return ", ".join((*tensors, *rest, *numbers))


def _plain(v: Any) -> str:
    if isinstance(v, (tuple, list)):
        return f"[{', '.join(map(_plain, v))}]"
    return str(v).lower() if isinstance(v, bool) else str(v)


def instances(rule: Rule, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Bindings of drawn instances, for tests and for other checks."""
    for bindings, _ in Drawer(rule, seed).draws(count, count * TRIES):
        yield bindings
