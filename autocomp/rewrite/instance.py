"""A rule on one of its examples: the left side as a graph of real tensors, the right side built from what it binds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.builder import Builder, checked_attrs, inferred
from autocomp.ir.node import Node, make
from autocomp.ir.types import DTYPES, DType, TensorType
from autocomp.rewrite.expr import Expr, Lit, Ref, Word, walk
from autocomp.rewrite.functions import Operand, default_functions
from autocomp.rewrite.pattern import Apply, Pattern, is_number, typed_by
from autocomp.rewrite.rule import Rule
from autocomp.rewrite.where import Answer, Env, Unanswerable, holds
from autocomp.rewrite.where import evaluate as value_of

MOST_TRIED = 2**20  # elements of a tensor
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?) as (\w+)")  # an example's number of a type of its own, e.g. "128 as i32"
CONSTANT = " constant"  # behind an example's type: the tensor is a parameter or computed from parameters


@dataclass(frozen=True)
class Uniform:
    """A tensor whose elements are one known number."""

    type: TensorType
    value: float

    @property
    def held(self) -> float:
        """The number as its dtype holds it."""
        with np.errstate(all="ignore"):
            return float(np.asarray(self.value).astype(self.type.dtype.numpy).item())

    def __str__(self) -> str:
        return f"{self.value!r} as {self.type}" if self.type.shape else repr(self.value)


def literal_key(p: Lit) -> str:
    """Under which name bindings hold the tensor for a number of the left side."""
    return f"#{p.at}"


@dataclass
class Instance:
    """One instance of a rule's left side. Numbers where the pattern has a tensor are constants.

    Operands stand as the rule writes them (a graph's builder sorts those of commuting ops). `nodes` may hold some tensors already:
    a second instance of siblings shares them, under a `suffix` of its own for the others; `together` are all of them, set before the
    right side is built.

    symbolic: such numbers are inputs instead, and so is what the right side computes from them (`made`: name -> expression), for
    proofs that hold for any number. open: parameters are inputs too, so that any values can be fed. most: elements that a tensor may have.
    """

    rule: Rule
    bindings: Mapping[str, Any]
    seed: int = 0
    symbolic: bool = False
    open: bool = False
    b: Builder = field(default_factory=lambda: Builder("rule"))
    nodes: dict[str, Node] = field(default_factory=dict)
    suffix: str = ""
    most: int = MOST_TRIED
    made: dict[str, Expr] = field(default_factory=dict)
    together: tuple[Instance, ...] = ()
    left: Node = field(init=False)
    env: Env = field(init=False)
    _right: Node | None = None

    def __post_init__(self) -> None:
        """Raises Unanswerable or ModelError where the bindings make no instance."""
        rng: np.random.Generator | None = None  # it takes as long as a small instance
        types = self.types
        variables: dict[str, Any] = {k: plain(v) for k, v in self.bindings.items() if k not in types and not k.startswith("#")}
        for k, t in types.items():
            fixed, name = str(self.bindings[k]).endswith(CONSTANT), k + self.suffix
            if t.elements > self.most:
                raise Unanswerable(f"?{k} is a tensor {t}, and up to {self.most} elements are tried")
            if k not in self.nodes:
                real = fixed and not self.symbolic and not self.open
                if real:
                    rng = rng or np.random.default_rng(self.seed)
                    self.nodes[k] = self.b.param(name, random_array(rng, t, True))
                else:
                    self.nodes[k] = self.b.input(name, t)
            variables[k] = Operand(t, fixed)
        for k in _sorted_tensors(self.rule.lhs):
            if k in types:
                continue
            if k not in variables:
                raise Unanswerable(f"?{k} is not given")
            u = variables[k]
            if not isinstance(u, Uniform):
                dtype = self.dtype
                if isinstance(u, bool) or not isinstance(u, (int, float)):
                    raise Unanswerable(f"?{k} is a tensor, and '{u}' is neither a type such as 'f64[3, 4]' nor a number")
                u = Uniform(TensorType(dtype, ()), float(u))
            if not u.type.dtype.is_float and not u.held == u.value:
                raise Unanswerable(f"?{k} is {u.value!r}, which {u.type.dtype} does not hold")
            self.nodes[k] = self.number(k, u)
            variables[k] = Operand(u.type, True, u.held)
        self.env = Env(variables, {**default_functions(), "offset": self._offset})
        assert self.rule.lhs is not None
        self.left = self.build(self.rule.lhs, None, left=True)
        self.env = Env({**variables, "root": Operand(self.left.type)}, self.env.functions)

    def _offset(self, operand: Operand, axis: int) -> int:
        """Where this one's part begins among its siblings."""
        name = next((n for n, x in self.env.variables.items() if x is operand), None)
        if name is None:
            raise ValueError("offset() is asked of a variable that stands for a tensor")
        before = (x.nodes[name].type.shape[axis] for x in self.together[: self._place()])
        return sum(d for d in before if isinstance(d, int))

    def _place(self) -> int:
        return next((k for k, x in enumerate(self.together) if x is self), 0)

    @property
    def types(self) -> dict[str, TensorType]:
        """Of the variables that stand for tensors of any values."""
        return {k: t for k, v in self.bindings.items() if isinstance(v, str) and (t := type_of(v)) is not None}

    @property
    def dtype(self) -> DType:
        """Of the numbers: that of the first tensor. Raises Unanswerable where no variable has a type."""
        for t in self.types.values():
            return t.dtype
        for v in self.bindings.values():
            if isinstance(v, Uniform):
                return v.type.dtype
        given = ", ".join(f"{k}: '{v}'" for k, v in self.bindings.items())
        raise Unanswerable(f"no variable has a type such as 'f64[3, 4]'{f', given are {given}' if given else ''}")

    def conditions(self) -> Answer:
        """Do the rule's conditions hold here?"""
        return holds(self.rule.where, self.env)

    def right(self) -> Node:
        """The right side. Raises Unanswerable or ModelError where it has no meaning here."""
        assert self.rule.rhs is not None
        if self._right is None:
            self._right = self.build(self.rule.rhs, self.left.type.dtype)
        return self._right

    def number(self, name: str, u: Uniform) -> Node:
        """One known number, spread over the shape of `u`."""
        scalar = TensorType(u.type.dtype, ())
        n = self.b.input(name, scalar) if self.symbolic and not name.startswith("#") else self.b.const(u.held, u.type.dtype)
        return n if u.type == scalar else self.b.op("broadcast", n, shape=u.type.shape)

    def build(self, p: Pattern, like: DType | None, left: bool = False) -> Node:
        """The node of a pattern; `like`: the dtype that a bare number takes where `typed_by` names none (None: the first tensor's)."""
        if isinstance(p, Ref):
            return self.nodes[p.name]
        if left and isinstance(p, Lit) and isinstance(u := self.bindings.get(literal_key(p)), Uniform):
            return self.number(literal_key(p), u)
        if isinstance(p, (Lit, Word)):
            return self.b.const(p.value if isinstance(p, Lit) else p.name, like or self.dtype)
        assert isinstance(p, Apply)
        given = {k: e.name if isinstance(e, Word) else value_of(e, self.env) for k, e in p.attrs}
        if p.op == "const":
            dtype = like or self.dtype
            if given.get("dtype", dtype.name) not in DTYPES:
                raise ModelError(f"there is no dtype '{given['dtype']}'", where="const")
            dtype = DTYPES[given["dtype"]] if "dtype" in given else dtype
            value = dict(p.attrs)["value"]
            if self.symbolic and any(isinstance(e, Ref) for e in walk(value)):
                name = f"made{len(self.made)}"
                self.made[name] = value
                return self.b.input(name, TensorType(dtype, ()))
            return self.b.const(given["value"], dtype)
        first, inputs = typed_by(p), tuple[Node, ...]()
        head = None if first is None else self.build(p.args[first], like, left)
        beside = like if head is None else head.type.dtype
        for i, a in enumerate(p.args):
            if isinstance(a, Ref) and a.rest and self.together:
                inputs += tuple(x.nodes[a.name] for x in self.together)
            elif head is not None and i == first:
                inputs += (head,)
            else:
                inputs += (self.build(a, beside if is_number(a) else like, left),)
        values = checked_attrs(p.op, given)
        return make(p.op, inputs, inferred(p.op, tuple(n.type for n in inputs), values), values)


def _sorted_tensors(p: Pattern | None) -> tuple[str, ...]:
    """Kept beside the pattern's fields: to hash one takes longer than to read it."""
    if p is None:
        return ()
    known: tuple[str, ...] | None = p.__dict__.get("_sorted_tensors")
    if known is None:
        known = p.__dict__["_sorted_tensors"] = tuple(sorted(tensors(p)))
    return known


def tensors(p: Pattern | None) -> frozenset[str]:
    """Variables that stand for tensors (the others stand for attributes)."""
    if isinstance(p, Ref):
        return frozenset({p.name})
    return frozenset().union(*(tensors(a) for a in p.args)) if isinstance(p, Apply) else frozenset()


@lru_cache(maxsize=4096)
def type_of(text: str) -> TensorType | None:
    """`f32[2, 3]` as a type; None for other text."""
    m = re.fullmatch(r"(\w+)\[( *(?:\d{1,18} *(?:, *\d{1,18} *)*,? *)?)\]", text.removesuffix(CONSTANT).strip())
    if not m or m[1] not in DTYPES:
        return None
    return TensorType(DTYPES[m[1]], tuple(int(d) for d in m[2].split(",") if d.strip()))


def plain(v: Any) -> Any:
    if isinstance(v, str) and (m := NUMBER.fullmatch(v)) and m[2] in DTYPES:
        return Uniform(TensorType(DTYPES[m[2]], ()), float(m[1]))
    return tuple(map(plain, v)) if isinstance(v, (list, tuple)) else v


SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0)


def random_array(rng: np.random.Generator, t: TensorType, small: bool = False, special: bool = False) -> np.ndarray:
    """Normal values for floats; `small`: whole numbers from -3 to 3; `special`: zeros, infinities and NaN among them."""
    shape = tuple(int(d) for d in t.shape)  # type: ignore[arg-type]
    if t.dtype.is_float:
        x = rng.integers(-3, 4, shape).astype(np.float64) if small else rng.standard_normal(shape)
        return (np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), x) if special else x).astype(t.dtype.numpy)
    low = -3 if t.dtype.is_int and t.dtype.kind == "i" else 0
    return rng.integers(low, 5 if t.dtype.is_int else 2, shape).astype(t.dtype.numpy)
