"""All forms of a rule's left side up to a rank: which extents are 1, which of the others are equal, permutations, axes.

What is drawn (`draw.py`) shows that a rule is wrong; only what leaves no form out can show that it is right. A tensor's extent is 1, one
that some axis has already, or a new one, so that each way in which extents may be equal is made once (`restricted growth`). Operands stand
before their op, whose type rule refuses most; a condition is asked as soon as what it names is bound.

`all_forms` gives every form, or says why it cannot: attributes of any number (strides, borders), conditions that compare sizes, more
forms than are tried. A tensor is of floats unless the rule's examples say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

from autocomp.deadline import current
from autocomp.errors import ModelError
from autocomp.ir.builder import checked_attrs, inferred
from autocomp.ir.node import Graph, Node
from autocomp.ir.scalar import SCALAR
from autocomp.ir.types import DTYPES, TensorType
from autocomp.rewrite.draw import Drawer
from autocomp.rewrite.expr import Call, Expr, Lit, Op, Ref, Word, walk
from autocomp.rewrite.functions import Operand, default_functions
from autocomp.rewrite.instance import CONSTANT, Instance, Uniform, literal_key, tensors, type_of
from autocomp.rewrite.pattern import Apply, Pattern, applications
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env, Unanswerable, holds
from autocomp.rewrite.where import evaluate as value_of

SIZES = (2, 3, 7, 13, 29, 59, 127, 257)  # a new extent is the next of these, none the sum of others: what is equal is so for a reason
RANKS = ((1, 1), (2, 1), (1, 3), (3, 1), (2, 2), (4, 1))  # of tensors, and of numbers as tensors
STEPS, FORMS = 15_000, 1_000  # ways to bind a part of the left side that are tried within one of these, and all of it
FEWEST = 2  # ranks that all forms must reach for a proof to be one
NUMBERS = (1.0, 2.0, 0.5, 0.25, -1.0, 3.0, 0.0)  # one for which conditions hold stands for all of them
FLOATS = ("f64", "f32", "f16", "bf16")
COUNTED = frozenset(
    {"perm", "axes", "axis", "keepdims", "exclusive", "reverse", "largest", "to", "dtype", "shape"}
)  # all of them are tried
UNSIZED = frozenset({"rank", "value", "is_uniform", "is_constant", "dtype", "bytes", "sqrt", "abs", "len"})
ORDERED = frozenset({"<", "<=", ">", ">=", "%", "//"})
SIZED = frozenset({"dim", "shape", "elements", "product"})
STEPPED = frozenset({"min", "max", "missing", "ceil_div", "round_up", "gcd", "power_of_two", "last_over"})  # of some sizes as of no others
BROKEN = (ModelError, Unanswerable, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError)
State = Mapping[str, Any]  # what is bound: name -> Operand, or an attribute's value; `literal_key` -> type


class Cut(Exception):
    """Why not all forms are tried."""


@dataclass(frozen=True)
class Forms:
    """Instances of all forms of rank up to `rank` (`numbers`: of tensors that hold one number), and `more` of a higher one. why: what keeps
    them from being all."""

    instances: tuple[Instance, ...] = ()
    rank: int = -1
    numbers: int = -1
    why: str = ""
    more: tuple[Instance, ...] = ()

    def __str__(self) -> str:
        return f"every form of floats of rank up to {self.rank}{'' if self.numbers == self.rank else f' (of numbers: {self.numbers})'}"


def all_forms(rule: Rule) -> Forms:
    """Those of the largest ranks of which all could be made; where that is none (`why`), those that were made."""
    if why := endless(rule):
        return Forms(why=why)
    sized = next((f"a condition compares sizes: {c}" for e in rule.where for c in walk(e) if _sized(c)), "") or _stepped(rule)
    made: dict[str, Instance] = {}
    more: list[Instance] = []
    cuts: list[tuple[int, int]] = []
    rank, numbers, why = -1, -1, "no form was found"
    bound: dict[Any, Instance | None] = {}
    typed: dict[Any, TensorType | None] = {}
    for r, n in RANKS:
        walk_ = _Forms(rule, r, n, bound, typed)
        if (r < rank and not walk_.has_numbers) or any(r >= a and n >= b for a, b in cuts):
            continue
        found: list[Instance] = []
        try:
            for x in walk_.instances():
                found.append(x)
        except Cut as cut:
            why = str(cut)
            more += found
            cuts.append((r, n))
            continue
        made.update((repr(sorted(x.bindings.items())), x) for x in found)
        rank, numbers = (r, n if walk_.has_numbers else r) if r >= rank else (rank, numbers)
    if sized or rank < FEWEST or not made:
        return Forms(why=sized or why, more=(*made.values(), *more))
    return Forms(tuple(made.values()), rank, numbers, more=tuple(more))


def wrong_type(forms: Forms) -> tuple[Mapping[str, Any], str] | None:
    """The bindings of the first form of which the right side has another type, and what is wrong."""
    for x in (*forms.instances, *forms.more):
        if current().over:
            return None
        try:
            right = x.right()
        except BROKEN:
            continue  # then the rule does not fire
        if right.type != x.left.type:
            return x.bindings, f"unites {x.left.type} with {right.type}"
    return None


def most_general(rule: Rule, forms: Forms) -> Iterator[Instance]:
    """Forms, their numbers as unknowns, that are not another one with the same ops and attributes, some sizes of which are equal, or 1.
    Raises Cut where the right side has no meaning for some."""
    alike: dict[Any, list[tuple[tuple[int, ...], Instance]]] = {}
    computed = any(a.op == "const" and isinstance(e, Ref) for side in (rule.lhs, rule.rhs) if side is not None
                   for a in applications(side) for _, v in a.attrs for e in walk(v))  # fmt: skip
    for form in forms.instances:
        x = form if form.types.keys() >= tensors(rule.lhs) and not computed else Instance(rule, form.bindings, symbolic=True)
        try:
            right = x.right()
        except BROKEN as e:
            raise Cut(f"the right side has no meaning for every form ({e})") from None
        types = [n.type for n in x.nodes.values()] + [v.type for v in x.bindings.values() if isinstance(v, Uniform)]
        extents = tuple(int(d) for t in types for d in t.shape)  # type: ignore[arg-type]
        alike.setdefault((tuple(t.rank for t in types), _structure(x.left, right)), []).append((extents, x))
    for group in alike.values():
        kept: list[tuple[int, ...]] = []
        for extents, x in sorted(group, key=lambda g: -len({*g[0]} - {1})):
            if not any(_is_one_of(extents, other) for other in kept):
                kept.append(extents)
                yield x


def _is_one_of(extents: tuple[int, ...], general: tuple[int, ...]) -> bool:
    """Are these the extents of a more general form, where some of its sizes are equal, or 1?"""
    to = {1: 1}
    return all(to.setdefault(a, b) == b for a, b in zip(general, extents, strict=True))


def _structure(*sides: Node) -> tuple[Any, ...]:
    """Ops and attributes but for shapes."""
    nodes = tuple(Graph("", (), tuple((str(k), n) for k, n in enumerate(sides))).nodes())
    at = {id(n): k for k, n in enumerate(nodes)}
    return tuple((n.op, tuple(at[id(i)] for i in n.inputs), repr([(k, v) for k, v in n.attrs.items() if k != "shape"])) for n in nodes)


def endless(rule: Rule) -> str:
    """What of a rule has more values than can be tried, or ""."""
    assert rule.lhs is not None
    if rule.siblings:
        return "any number of siblings"
    fixed = Drawer(rule).wanted
    free = [f"?{e.name}" for a in applications(rule.lhs) for k, e in a.attrs
            if isinstance(e, Ref) and (k not in COUNTED or (a.op == "reshape" and e.name not in fixed))]  # fmt: skip
    return f"{', '.join(dict.fromkeys(free))} may be any numbers" if free else ""


def _sized(c: Expr) -> bool:
    """Does an expression hold for some sizes alone, other than by which of them are equal?"""
    if not isinstance(c, Op):
        return False
    sizes = any(isinstance(x, Call) and x.name not in UNSIZED for x in walk(c))
    numbers = any(isinstance(x, Lit) and x.value not in (0, 1, True, False) for a in c.args for x in (a,))
    return sizes and (c.op in ORDERED or (c.op in ("==", "!=", "in", "not in") and numbers))


def _stepped(rule: Rule) -> str:
    """What the right side computes from sizes that a few of them do not stand for: `min(dim(?x, 0), 128)`; "" where nothing is."""
    assert rule.lhs is not None and rule.rhs is not None
    shapes = {e.name for a in applications(rule.lhs) for k, e in a.attrs if k == "shape" and isinstance(e, Ref)}
    for e in (e for a in applications(rule.rhs) for _, e in a.attrs):
        for c in walk(e):
            steps = (isinstance(c, Op) and c.op in ORDERED) or (isinstance(c, Call) and c.name in STEPPED)
            if steps and any((isinstance(x, Call) and x.name in SIZED) or (isinstance(x, Ref) and x.name in shapes) for x in walk(c)):
                return f"the right side is not of one form for all sizes: {c}"
    return ""


@dataclass
class _Forms:
    """The forms up to one rank."""

    rule: Rule
    rank: int
    numbers: int
    known_bound: dict[Any, Instance | None] = field(default_factory=dict)  # what walks of smaller ranks came to as well
    known: dict[Any, TensorType | None] = field(default_factory=dict)
    steps: int = 0

    def __post_init__(self) -> None:
        rule, self.drawer = self.rule, Drawer(self.rule)
        assert rule.lhs is not None
        given = {
            k: t.dtype.name for e in rule.examples if e.fires for k, v in e.bindings if isinstance(v, str) and (t := type_of(v)) is not None
        }
        tests = {a.name for p in applications(rule.lhs) if p.op in ("where", "not", "and", "or") for a in p.args[:1] if isinstance(a, Ref)}
        allowed = {n: set(of) & {*FLOATS} for n, of in self.drawer.dtypes.items() if n not in tests and given.get(n, "f64") in FLOATS}
        shared = {*FLOATS}.intersection(*allowed.values())
        floats = {n: next((d for d in FLOATS if d in (shared or of)), "f64") for n, of in allowed.items()}
        self.dtypes = {n: DTYPES[floats.get(n) or ("bool" if n in tests else given[n])] for n in self.drawer.names}
        self.dtype = next(iter(self.dtypes.values()), DTYPES["f64"])
        self.constants = self.drawer.constants
        names = lambda c: {x.name for x in walk(c) if isinstance(x, Ref)}
        self.early: dict[str, list[tuple[Expr, set[str]]]] = {}  # conditions by each name in them
        for c in rule.where:
            if not _of_numbers(c) and "root" not in (among := names(c)):
                for name in among:
                    self.early.setdefault(name, []).append((c, among))
        self.uniform = self.drawer.uniform & tensors(rule.lhs)

    @property
    def has_numbers(self) -> bool:
        assert self.rule.lhs is not None
        return bool(self.uniform) or any(isinstance(a, Lit) for p in applications(self.rule.lhs) for a in p.args)

    def instances(self) -> Iterator[Instance]:
        """Raises Cut where there are too many, or what a rule asks of numbers is not met by those that are tried."""
        assert self.rule.lhs is not None
        for count, (state, _) in enumerate(self.grow(self.rule.lhs, {})):
            if count == FORMS or current().over:
                raise Cut(f"more than {FORMS} forms of rank up to {self.rank}")
            if (key := tuple(state.items())) not in self.known_bound:
                self.known_bound[key] = self.bound(state)
            if (made := self.known_bound[key]) is not None:
                yield made

    # ---- from the leaves to the root
    def grow(
        self, p: Pattern, state: State, beside: tuple[TensorType, ...] = (), mapped: bool = False
    ) -> Iterator[tuple[State, TensorType]]:
        """The ways to bind a pattern, with its type. beside: operands before it, of an element-wise op if `mapped`."""
        if isinstance(p, Ref):
            if p.name in state:
                yield state, state[p.name].type
                return
            number = p.name in self.uniform
            for shape in self.shapes(state, self.numbers if number else self.rank, beside, mapped):
                t = TensorType(self.dtypes[p.name], shape)
                after = {**state, p.name: Operand(t, number or bool(self.constants.get(p.name)), 1.0 if number else None)}
                if self.held(after, p.name):
                    yield after, t
        elif isinstance(p, (Lit, Word)):
            for shape in self.shapes(state, self.numbers, beside, mapped):
                t = TensorType(self.dtype, shape)
                yield ({**state, literal_key(p): t}, t) if isinstance(p, Lit) else (state, t)
        elif p.op == "const":
            yield state, TensorType(self.dtype, ())
        else:
            yield from self.applied(p, state, ())

    def applied(self, p: Apply, state: State, operands: tuple[TensorType, ...]) -> Iterator[tuple[State, TensorType]]:
        if len(operands) < len(p.args):
            for after, t in self.grow(p.args[len(operands)], state, operands, p.op in SCALAR):
                yield from self.applied(p, after, (*operands, t))
            return
        for after, attrs in self.attributes(p.op, p.attrs, state, {}, operands):
            if (made := self.typed(p.op, operands, attrs)) is not None:
                yield after, made

    def attributes(self, op: str, left: Sequence[tuple[str, Expr]], state: State, made: Mapping[str, Any], operands: tuple[TensorType, ...]
                   ) -> Iterator[tuple[State, Mapping[str, Any]]]:  # fmt: skip
        if not left:
            yield state, made
            return
        (name, e), *rest = left
        if isinstance(e, Ref) and e.name not in state:
            for v in self.values(name, state, operands):
                if self.held(after := {**state, e.name: v}, e.name):
                    yield from self.attributes(op, rest, after, {**made, name: v}, operands)
            return
        try:
            v = e.name if isinstance(e, Word) else value_of(e, Env(state, default_functions()))
        except BROKEN:
            return
        yield from self.attributes(op, rest, state, {**made, name: v}, operands)

    def typed(self, op: str, operands: tuple[TensorType, ...], attrs: Mapping[str, Any]) -> TensorType | None:
        key = (op, operands, tuple(attrs.items()))
        if key not in self.known:
            try:
                self.known[key] = inferred(op, operands, checked_attrs(op, attrs))
            except BROKEN:
                self.known[key] = None
        return self.known[key]

    def held(self, state: State, name: str) -> bool:
        """Whether conditions that name what was bound last, and nothing that is not bound, hold."""
        asked = [c for c, names in self.early.get(name, ()) if names <= state.keys()]
        return not asked or bool(holds(tuple(asked), Env(state, default_functions())))

    # ---- candidates
    def shapes(self, state: State, most: int, beside: tuple[TensorType, ...], mapped: bool = False) -> Iterator[tuple[int, ...]]:
        """Each way to choose extents: 1, those that are there, or a new one. Element-wise ops want the others', or 1."""
        held = {int(d) for v in state.values() for d in _shape(v)} | {int(d) for t in beside for d in t.shape}  # type: ignore[arg-type]
        others = tuple(sorted(held - {1, *SIZES}))  # sums, of what is joined
        there = SIZES[: max((SIZES.index(d) + 1 for d in held.intersection(SIZES)), default=0)]
        widest = max(beside, key=lambda t: t.rank, default=None) if mapped else None
        for rank in range(most + 1):
            beside_it = (1,) * (rank - widest.rank) + widest.shape[max(widest.rank - rank, 0) :] if widest is not None else (1,) * rank
            for shape in _extents(there, others, beside_it):
                self.steps += 1
                if self.steps > STEPS:
                    raise Cut(f"more than {STEPS} shapes of rank up to {self.rank}")
                yield shape

    def values(self, name: str, state: State, operands: tuple[TensorType, ...]) -> Iterator[Any]:
        n = operands[0].rank if operands else 0
        if name == "perm":
            yield from permutations(range(n))
        elif name == "axes":
            yield from (c for k in range(n + 1) for c in combinations(range(n), k))
        elif name == "axis":
            yield from range(n)
        elif name == "shape":
            yield from self.shapes(state, self.rank, operands)
        elif name in ("to", "dtype"):
            yield from FLOATS[:3]
        else:
            yield from (False, True)

    # ---- to an instance
    def bound(self, state: State) -> Instance | None:
        """An instance for which all conditions hold, or None."""
        numbers = [k for k in state if k in self.uniform]
        out: dict[str, Any] = {}
        for k, v in state.items():
            if isinstance(v, Operand) and k not in self.uniform:
                out[k] = f"{v.type}{CONSTANT if v.constant else ''}"
            elif not isinstance(v, (Operand, TensorType)):
                out[k] = v
        for a in (a for p in applications(self.rule.lhs) for a in p.args if isinstance(a, Lit)):  # type: ignore[arg-type]
            out[literal_key(a)] = Uniform(state[literal_key(a)], float(a.value))
        short: list[Expr] = []
        operands = {k: x for k, x in state.items() if k[0] != "#"}
        for v in (*self.drawer.numbers, *NUMBERS) if numbers else (1.0,):
            found = {k: Uniform(state[k].type, v) for k in numbers}
            held = {k: replace(state[k], value=v) for k in numbers}
            made = self.drawer.solved({**out, **found}, {**operands, **held}) if numbers else out
            try:
                x = Instance(self.rule, made, open=True)
                if x.conditions():
                    return x
                short = [c for c in self.rule.where if not holds((c,), x.env)]
            except BROKEN:
                return None
            if not all(map(_of_numbers, short)):
                return None
        raise Cut(f"no numbers were found for {short[0]}")


@lru_cache(maxsize=4096)
def _extents(there: tuple[int, ...], others: tuple[int, ...], beside: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Shapes of as many axes as `beside` has, by their first extents: 1 or that of `beside`; where this is 1 also one of those that are
    there, of the others, or the next of SIZES."""
    if not beside:
        return ((),)
    new = SIZES[len(there) : len(there) + 1]
    first = (1, beside[0]) if beside[0] != 1 else (1, *there, *others, *new)
    return tuple((d, *rest) for d in first for rest in _extents((*there, *new) if d in new else there, others, beside[1:]))


def _of_numbers(c: Expr) -> bool:
    return any(isinstance(x, Call) and x.name in ("value", "is_uniform") for x in walk(c))


def _shape(v: Any) -> tuple[Any, ...]:
    return v.type.shape if isinstance(v, Operand) else v.shape if isinstance(v, TensorType) else ()
