"""Tiny instances of a rule's left side by brute force, for the judge of changed rules.

All shapes of extents from a set of two or three, all permutations, sets of axes, borders and steps of a small range are candidates; an op
takes those of its operands' candidates that its type rule takes, one of them by chance. Nothing here knows which ops want which operands,
what a condition asks for, or how `draw.py` goes about it: so what those overlook is not overlooked here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.builder import checked_attrs, inferred
from autocomp.ir.types import DTYPES, TensorType
from autocomp.rewrite.expr import Call, Lit, Ref, Word, walk
from autocomp.rewrite.functions import Operand, default_functions
from autocomp.rewrite.instance import CONSTANT, Uniform, literal_key
from autocomp.rewrite.pattern import Apply, Pattern, applications
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Env, Unanswerable
from autocomp.rewrite.where import evaluate as value_of

EXTENTS = ((1, 2), (1, 2), (1, 3), (2, 3), (1, 2, 4), (2,))
DTYPES_TRIED = ("f64", "f32", "f16", "bf16", "i8", "u8", "i32", "i64", "u32", "bool", "i16", "u16", "u64", "f8e4m3", "f8e5m2")
NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 0.25, 0.125, 2.0**-0.5, 4.0, 3.0, 1.0 / 3, -2.5, 100.0, 1e-6, 1e6, 65504.0, 1e38, 1e-39)
PICKED = 60  # operand types or attributes that one op tries before this walk is given up
BROKEN = (ModelError, Unanswerable, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError, ZeroDivisionError)


class Dead(Exception):
    """This walk comes to no instance."""


def brute(rule: Rule, rng: np.random.Generator, walks: int) -> Iterator[dict[str, Any]]:
    """Bindings of the left side, of which most are refused by the conditions; one at most from each walk."""
    asked = _Asked(rule)
    for _ in range(walks):
        try:
            walk_ = _Walk(asked, rng)
            walk_.type_of(rule.lhs)  # type: ignore[arg-type]
        except (Dead, *BROKEN):
            continue
        yield walk_.bindings


class _Asked:
    """What a rule asks about: variables that are numbers, those that are constants, numbers that its conditions hold."""

    def __init__(self, rule: Rule) -> None:
        asked = [c for e in rule.where for c in walk(e) if isinstance(c, Call) and c.args and isinstance(c.args[0], Ref)]
        made = [c for a in applications(rule.rhs) for _, e in a.attrs for c in walk(e) if isinstance(c, Call)]  # type: ignore[arg-type]
        of = lambda names: {c.args[0].name for c in (*asked, *made) if c.name in names and c.args and isinstance(c.args[0], Ref)}
        self.numbers, self.constants = of(("value", "is_uniform")), of(("is_constant",))
        self.written = [float(x.value) for e in rule.where for x in walk(e)
                        if isinstance(x, Lit) and isinstance(x.value, (int, float)) and not isinstance(x.value, bool)]  # fmt: skip


@dataclass
class _Walk:
    """One way through the left side, operands before ops."""

    asked: _Asked
    rng: np.random.Generator
    bindings: dict[str, Any] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rng = self.rng
        self.extents = EXTENTS[int(rng.integers(len(EXTENTS)))]
        self.most = 6 if rng.random() < 0.1 else 3 if rng.random() < 0.7 else 4
        self.dtype = DTYPES[DTYPES_TRIED[int(rng.integers(len(DTYPES_TRIED)))] if rng.random() < 0.6 else "f64"]

    def one(self, values: Sequence[Any]) -> Any:
        if not len(values):
            raise Dead
        return values[int(self.rng.integers(len(values)))]

    def shape(self, most: int | None = None) -> tuple[int, ...]:
        return tuple(self.one(self.extents) for _ in range(int(self.rng.integers((self.most if most is None else most) + 1))))

    def type_of(self, p: Pattern) -> TensorType:
        """The type of a pattern, everything in it bound. Raises Dead."""
        if isinstance(p, Ref):
            if p.name not in self.types:
                self.bind(p.name, TensorType(self.dtype, self.shape()))
            return self.types[p.name]
        assert isinstance(p, Apply)
        if p.op == "const":
            return TensorType(self.dtype, ())
        held = {i: self.type_of(a) for i, a in enumerate(p.args) if isinstance(a, Apply) or (isinstance(a, Ref) and a.name in self.types)}
        given = self.given(p)
        free = [a for a in dict.fromkeys(a for i, a in enumerate(p.args) if i not in held)]
        for _ in range(PICKED):
            trial: dict[Pattern, TensorType] = {}
            for a in free:
                dtype = self.one([t.dtype for t in held.values()]) if held and self.rng.random() < 0.8 else self.dtype
                if isinstance(a, Ref) and self.rng.random() < 0.1:
                    dtype = DTYPES[self.one(("bool", "i64", "i32", "f32"))]
                trial[a] = TensorType(dtype, self.shape(1 if isinstance(a, (Lit, Word)) else None))
            operands = tuple(held[i] if i in held else trial[a] for i, a in enumerate(p.args))
            drawn = {k: self.attribute(p.op, k, operands) for k in dict(p.attrs) if k not in given}
            try:
                values = self.settled(p, {**given, **drawn})
                made = inferred(p.op, operands, checked_attrs(p.op, values))
            except BROKEN:
                continue
            if made.elements > 512 or made.rank > 8:
                continue
            for a, t in trial.items():
                if isinstance(a, Ref):
                    self.bind(a.name, t)
                elif isinstance(a, Lit):
                    v = float(a.value) if isinstance(a.value, (int, float)) else 0.0
                    self.bindings[literal_key(a)] = Uniform(t, v)
            for k, e in p.attrs:
                if isinstance(e, Ref):
                    self.bindings[e.name] = self.known[e.name] = values[k]
            return made
        raise Dead

    def given(self, p: Apply) -> dict[str, Any]:
        """Attributes that are fixed by what is bound so far."""
        out = {}
        for k, e in p.attrs:
            if isinstance(e, Word):
                out[k] = e.name
            elif {x.name for x in walk(e) if isinstance(x, Ref)} <= set(self.known):
                out[k] = value_of(e, Env(self.known, default_functions()))
        return out

    def settled(self, p: Apply, values: Mapping[str, Any]) -> dict[str, Any]:
        """All attributes; those that are computed from others of this op, from them."""
        env = {**self.known, **{e.name: values[k] for k, e in p.attrs if isinstance(e, Ref)}}
        return {k: values[k] if isinstance(e, (Ref, Word)) else value_of(e, Env(env, default_functions())) for k, e in p.attrs}

    def bind(self, name: str, t: TensorType) -> None:
        fixed = self.rng.random() < (0.7 if name in self.asked.constants else 0.1)
        self.types[name] = t
        if name in self.asked.numbers and self.rng.random() < 0.9:
            u = Uniform(t, self.one((*NUMBERS, *self.asked.written, *(1 / x for x in self.asked.written if x))))
            if t.dtype.is_float or float(u.held) == u.value:
                self.bindings[name], self.known[name] = u, Operand(t, True, u.held)
                return
        self.bindings[name], self.known[name] = f"{t}{CONSTANT if fixed else ''}", Operand(t, bool(fixed))

    # ---- attributes
    def attribute(self, op: str, name: str, operands: Sequence[TensorType]) -> Any:
        """A candidate for an attribute, whatever the op makes of it."""
        s: tuple[int, ...] = operands[0].shape if operands else ()  # type: ignore[assignment]
        n, one = len(s), self.one
        windows = max(n - 2, 0)
        several = lambda k, *values: tuple(one(values) for _ in range(k))
        at = lambda: int(one(range(-n, n)) if self.rng.random() < 0.2 else one(range(n))) if n else 0
        if name == "perm":
            return one(tuple(permutations(range(n))))
        if name == "axes":
            return one([p for k in range(1, n + 1) for p in permutations(range(n), k)]) if n else ()
        if name == "axis":
            return at()
        if name == "shape":
            return self.regrouped(s) if op == "reshape" else (*self.shape(1), *(d if d != 1 else one(self.extents) for d in s))
        if name in ("starts", "limits", "steps"):
            return several(n, *{"starts": (0, 0, 1, 2), "limits": (-1, 1, 2, 3, 4, *s), "steps": (1, 1, 2, -1)}[name])
        if name in ("lo", "hi"):
            return several(n if op.startswith("pad") else windows, 0, 0, 1, 2, -1)
        if name in ("strides", "dilations", "window"):
            return several(windows, 1, 1, 2, 3)
        if name == "repeats":
            return several(n, 1, 2, 3)
        if name == "value":
            return one((0, 0.0, -0.0, 1.0, -1.5, float("-inf")))
        if name in ("keepdims", "exclusive", "reverse", "largest", "column_major", "count_include_pad"):
            return bool(one((True, False)))
        if name == "spec":
            return one(("ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij,ij->i", "ij,jk->ki"))
        choices: dict[str, Sequence[Any]] = {
            "to": tuple(DTYPES), "dtype": tuple(DTYPES), "part": ("m", "l", "mean", "var", "values", "indices"), "layout": ("nchw", "nhwc"),
            "groups": (1, 1, 2, 3), "k": (1, 2), "size": (1, 2, 3), "depth": (1, 2, 3), "eps": (1e-5, 0.5), "batch_dims": (0, 1),
            "reduction": ("none", "add", "max"), "alpha": (1e-4, 1.0), "beta": (0.75, 1.0), "bias": (1.0, 2.0),
        }  # fmt: skip
        return one(choices.get(name, ()))

    def regrouped(self, s: tuple[int, ...]) -> tuple[int, ...]:
        """Any shape with the same number of elements, of up to five axes."""
        total = int(np.prod(s, dtype=np.int64))
        divisors = [d for d in range(1, total + 1) if total % d == 0] if total <= 256 else [1, total]
        k = int(self.rng.integers(0, min(5, len(s) + 2) + 1))
        fits = [t for t in product(divisors, repeat=k) if int(np.prod(t, dtype=np.int64)) == total] if len(divisors) ** k <= 4096 else [s]
        return self.one(fits)  # type: ignore[no-any-return]


