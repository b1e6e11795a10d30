"""Kernel bodies: the value of one element as an expression over named axes.

A body is what the op table's comprehensions and the fused kernels are made of. It is a hash-consed DAG, so equality is
identity and sharing is free. An operand is read at an index that is quasi-affine in the axes in scope:

    matmul      Contract((k,), Read(0, [m, k]), Read(1, [k, n]))
    max pool    Reduce("max", (kh, kw), (Read(0, [n, c, 2*oh + kh - 1, 2*ow + kw - 1], guard, -inf),))
    concat      Map("where", (Inside([n0 - 1 - i]), Read(0, [i]), Read(1, [i - n0])))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from autocomp.forks import Lock, kept_property
from autocomp.ir.affine import Aff
from autocomp.ir.types import BOOL, Dim, DType, Sym


@dataclass(frozen=True)
class Axis:
    """A named loop axis; iterates over [0, extent)."""

    name: str
    extent: Dim

    def __str__(self) -> str:
        return f"{self.name}:{self.extent}"


class _Interned(type):
    """Equal constructor arguments give the same object."""

    _table: ClassVar[WeakValueDictionary[tuple[Any, ...], Any]] = WeakValueDictionary()
    _lock: ClassVar[Lock] = Lock()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        new = super().__call__(*args, **kwargs)  # its __dict__ has the fields in their order
        key = (cls, *((type(v), repr(v)) if isinstance(v, (float, int)) else v for v in new.__dict__.values()))
        with _Interned._lock.held:
            return _Interned._table.setdefault(key, new)


@dataclass(frozen=True, eq=False)
class Expr(metaclass=_Interned):
    """Base of body expressions. `dtype` is the type of the value."""

    dtype: DType

    @property
    def args(self) -> tuple[Expr, ...]:
        return ()

    @property
    def wide(self) -> bool:
        """Is it computed on numbers of 64 bits? Places and constants say nothing: they fit in fewer."""
        return any(x.dtype.bits == 64 for x in (self, *self.args) if not isinstance(x, (Const, Index)))

    @kept_property
    def below(self) -> tuple[Expr, ...]:
        """Every distinct node below this one, operands first: asked again and again of bodies, which are the same objects."""
        return tuple(_walk((self,), None))[:-1]

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return self


@dataclass(frozen=True, eq=False)
class Read(Expr):
    """Operand `operand` of an op (in comprehensions only) at `index`; `fill` where a guard (each >= 0) fails."""

    operand: int
    index: tuple[Aff, ...]
    guard: tuple[Aff, ...] = ()
    fill: float = 0.0


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """Element of a tensor in memory at `index`; `fill` where a guard (each >= 0) fails (memory is then not touched)."""

    tensor: str
    index: tuple[Aff, ...]
    guard: tuple[Aff, ...] = ()
    fill: float = 0.0


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A literal (python bool, int or float)."""

    value: float


@dataclass(frozen=True, eq=False)
class Index(Expr):
    """The value of an index expression, as a number of `dtype`."""

    index: Aff


@dataclass(frozen=True, eq=False)
class Inside(Expr):
    """True where every guard is >= 0."""

    guard: tuple[Aff, ...]

    @staticmethod
    def of(guard: tuple[Aff, ...]) -> Inside:
        return Inside(BOOL, guard)


@dataclass(frozen=True, eq=False)
class Map(Expr):
    """A scalar function (name in `ir.scalar.SCALAR`; cast is the function `cast`) of values at the same point."""

    fn: str
    operands: tuple[Expr, ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.operands

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, operands=args)


@dataclass(frozen=True, eq=False)
class Reduce(Expr):
    """Fold of `operands` over `axes` with a monoid of `ir.monoids.MONOIDS`.

    `part` names a state component to return (for monoids of several), "" the finished value. `dtype` is also the
    accumulator's type.
    """

    monoid: str
    axes: tuple[Axis, ...]
    operands: tuple[Expr, ...]
    part: str = ""

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.operands

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, operands=args)


@dataclass(frozen=True, eq=False)
class Contract(Expr):
    """sum over `axes` of a * b, kept apart from Reduce because matrix units apply. `dtype` is the accumulator's."""

    axes: tuple[Axis, ...]
    a: Expr
    b: Expr

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, a=args[0], b=args[1])


@dataclass(frozen=True, eq=False)
class Gather(Expr):
    """Element of a tensor in memory whose indices are values (data-dependent); out of range is clamped."""

    tensor: str | int
    index: tuple[Expr, ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.index

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, index=args)


@dataclass(frozen=True, eq=False)
class Recurrence(Expr):
    """A value carried through time: states A[0], A[1], .., A[T] over the space `axes`, T the extent of `time`.

        A[0, s] = init(s)        A[t + 1, s] = step(t, s), reading earlier states by Prev        value = A[at, index]

    init is over the space axes, step over time and space. `index` and `at` are over the axes in scope outside: the point
    whose state is the value, and which state (None: the last, A[T]). Space and time axes have names of their own.
    """

    time: Axis
    axes: tuple[Axis, ...]
    init: Expr
    step: Expr
    index: tuple[Aff, ...]
    at: Aff | None = None

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.init, self.step)

    def with_args(self, args: tuple[Expr, ...]) -> Expr:
        return replace(self, init=args[0], step=args[1])


@dataclass(frozen=True, eq=False)
class Prev(Expr):
    """Inside a Recurrence's step: A[t + 1 - lag, index], lag >= 1; `fill` where a guard (each >= 0) fails."""

    index: tuple[Aff, ...]
    guard: tuple[Aff, ...] = ()
    fill: float = 0.0
    lag: int = 1


@dataclass(frozen=True)
class Comprehension:
    """Meaning of an op: element of the output at `axes` (one an output dimension, in order) is `value`."""

    axes: tuple[Axis, ...]
    value: Expr


def postorder(*roots: Expr, outside: type[Expr] | None = None) -> Iterator[Expr]:
    """Every distinct node once, operands first; nodes of kind `outside` are not entered."""
    if len(roots) == 1 and outside is None:
        return chain(roots[0].below, roots)
    return _walk(roots, outside)


def _walk(roots: tuple[Expr, ...], outside: type[Expr] | None) -> Iterator[Expr]:
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        e, done = stack.pop()
        if done:
            yield e
        elif id(e) not in seen:
            seen.add(id(e))
            stack.append((e, True))
            if outside is None or not isinstance(e, outside):
                stack.extend((a, False) for a in reversed(e.args))


def rewrite(root: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """Bottom-up: f is given each node with its operands already rewritten."""
    done: dict[int, Expr] = {}
    keep = list(postorder(root))
    for e in keep:
        new = tuple(done[id(a)] for a in e.args)
        done[id(e)] = f(e if all(x is y for x, y in zip(new, e.args, strict=True)) else e.with_args(new))
    return done[id(root)]


def substitute(root: Expr, by: Mapping[str, Aff]) -> Expr:
    """Replace free axes by index expressions everywhere (loads, reads, guards, index values).

    Axes bound by reductions inside must have been renamed apart first (`rename_bound`).
    """
    return with_indices(root, lambda i: i.substitute(by))


def with_indices(root: Expr, f: Callable[[Aff], Aff]) -> Expr:
    """Another expression in the place of every index, guard and index value."""

    def go(e: Expr) -> Expr:
        if isinstance(e, (Read, Load, Prev)):
            return replace(e, index=tuple(map(f, e.index)), guard=tuple(map(f, e.guard)))
        if isinstance(e, Recurrence):
            return replace(e, index=tuple(map(f, e.index)), at=e.at and f(e.at))
        if isinstance(e, Index):
            return replace(e, index=f(e.index))
        if isinstance(e, Inside):
            return replace(e, guard=tuple(map(f, e.guard)))
        return e

    return rewrite(root, go)


def indices(root: Expr) -> Iterator[Aff]:
    """Every index and guard, of loads, of what came before, of conditions and of index values."""
    for e in postorder(root):
        if isinstance(e, (Load, Prev)):
            yield from (*e.index, *e.guard)
        elif isinstance(e, Inside):
            yield from e.guard
        elif isinstance(e, Index):
            yield e.index


def read_sizes(roots: Iterable[Expr], axes: Iterable[str], dims: Iterable[Dim]) -> list[str]:
    """Sizes that are read as numbers and are none of these."""
    known = {*axes, *(d.name for d in dims if isinstance(d, Sym))}
    read = {n for e in postorder(*roots) if isinstance(e, Index) for n in e.index.names()}
    return sorted(read - known) if read else []


def bound_axes(root: Expr) -> tuple[Axis, ...]:
    """Axes that reductions, contractions and recurrences bind, in first-use order."""
    out: dict[Axis, None] = {}
    for e in postorder(root):
        if isinstance(e, (Reduce, Contract)):
            out.update(dict.fromkeys(e.axes))
        elif isinstance(e, Recurrence):
            out.update(dict.fromkeys((e.time, *e.axes)))
    return tuple(out)


def rename_bound(root: Expr, fresh: Callable[[str], str]) -> Expr:
    """Give every bound axis a new name `fresh(old)`; one name an axis, so sharing is kept."""
    names = {a.name: fresh(a.name) for a in bound_axes(root)}
    by = {k: Aff.of(v) for k, v in names.items()}

    def go(e: Expr) -> Expr:
        if isinstance(e, (Reduce, Contract)):
            return replace(e, axes=tuple(replace(a, name=names[a.name]) for a in e.axes))
        if isinstance(e, Recurrence):
            return replace(
                e, time=replace(e.time, name=names[e.time.name]), axes=tuple(replace(a, name=names[a.name]) for a in e.axes)
            )
        return e

    return rewrite(substitute(root, by), go)


MOST_FACTORS = 4  # of a power that is computed by products


def factors(e: Map) -> int:
    """Of how many equal factors a power by a small whole constant is the product, 0 for anything else."""
    by = e.args[-1]
    if e.fn != "pow" or not isinstance(by, Const) or by.value not in range(1, MOST_FACTORS + 1):
        return 0
    return int(by.value)


def free_axes(values: tuple[Expr, ...]) -> dict[int, frozenset[str]]:
    """Axes that each node's value depends on (by id)."""
    out: dict[int, frozenset[str]] = {}
    for e in postorder(*values):
        names = frozenset().union(*(out[id(a)] for a in e.args)) if e.args else frozenset()
        if isinstance(e, Load):
            names |= frozenset().union(*(i.names() for i in (*e.index, *e.guard)))
        elif isinstance(e, Index):
            names |= e.index.names()
        elif isinstance(e, Inside):
            names |= frozenset().union(*(g.names() for g in e.guard))
        elif isinstance(e, (Reduce, Contract)):
            names -= {a.name for a in e.axes}
        out[id(e)] = names
    return out
