"""Loop nests: statements with domains, accesses and a place in the order of execution, as a kernel's body defines them.

A kernel is written as the plain program it means: every reduction is a nest of its own (initialise the cells, then update
them), in order of use, and then the stores. Tiling, fusion and the rest (`transforms`) change each statement's rows only:

    rows  =  [b0, loop0, b1, loop1, ..., bn]      (2d+1 form: constants b order what the loops around do not)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import Axis, Contract, Expr, Index, Inside, Load, Reduce
from autocomp.ir.kernel import Kernel
from autocomp.ir.types import Sym


@dataclass(frozen=True)
class Access:
    """tensor[index] wherever every guard is >= 0. index and guard are over the statement's axes."""

    tensor: str
    index: tuple[Aff, ...]
    guard: tuple[Aff, ...] = ()

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True)
class Statement:
    """role: init | update | store | step (of a recurrence) | load (of a pipeline).

    `cell` is the access that an update folds into; it is also among reads and writes. `reassociable`: the monoid's
    updates may run in any order and grouping. The domain is 0 <= axis < extent and every guard >= 0.
    """

    name: str
    role: str
    axes: tuple[Axis, ...]
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    cell: Access | None = None
    reassociable: bool = False
    guard: tuple[Aff, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.axes)


@dataclass(frozen=True)
class LoopDim:
    """A loop of a statement: its value as a function of the statement's axes.

    `free`: a tile loop whose size is left open; the answer must hold for every size.
    """

    name: str
    value: Aff
    free: bool = False


@dataclass(frozen=True)
class Rows:
    """When an instance runs: lexicographically by (beta[0], loops[0], beta[1], ..., beta[n])."""

    beta: tuple[int, ...]
    loops: tuple[LoopDim, ...]

    def names(self) -> tuple[str, ...]:
        return tuple(l.name for l in self.loops)

    def flat(self, length: int) -> tuple[Aff, ...]:
        """The 2d+1 vector, padded with zeros to `length`."""
        out = [aff(self.beta[0])]
        for b, l in zip(self.beta[1:], self.loops, strict=True):
            out += [l.value, aff(b)]
        return tuple(out + [aff(0)] * (length - len(out)))


@dataclass(frozen=True)
class LoopNest:
    """Statements with the order they were written in (`origin`) and the order they are to run in (`rows`).

    `marks` are loops whose iterations are to run at once: (loop, "parallel" | "lanes"); `split` the loops of them that
    are parts of a reduction.
    """

    statements: tuple[Statement, ...]
    origin: tuple[Rows, ...]
    rows: tuple[Rows, ...]
    marks: tuple[tuple[str, str], ...] = ()
    split: frozenset[str] = field(default_factory=frozenset)

    @staticmethod
    def of(kernel: Kernel) -> LoopNest:
        """The nest of a kernel with its own extents (sizes and input reads as they are)."""
        return _of(kernel)

    @staticmethod
    def make(statements: tuple[Statement, ...], rows: tuple[Rows, ...] | None = None) -> LoopNest:
        """A nest in the given order; without rows, each statement is a nest of its own, in sequence."""
        rows = rows or tuple(Rows((p, *(0,) * len(s.axes)), tuple(LoopDim(n, aff(n)) for n in s.names))
                             for p, s in enumerate(statements))
        return LoopNest(statements, rows, rows)

    def statement(self, name: str) -> Statement:
        return next(s for s in self.statements if s.name == name)

    @property
    def depth(self) -> int:
        """Length of the padded 2d+1 vector."""
        return 1 + 2 * max(len(r.loops) for r in self.rows)

    def loops(self) -> tuple[str, ...]:
        """Names of all loops, outermost first, in statement order."""
        return tuple(dict.fromkeys(n for r in self.rows for n in r.names()))

    def with_rows(self, rows: tuple[Rows, ...]) -> LoopNest:
        return replace(self, rows=rows)

    def nest_class(self) -> LoopNest:
        """The nest with what no dependence can see taken away: reads of tensors that are never written, and extents of
        axes that are only ever used plainly (each becomes a symbol). Proofs about the class hold for every member.

            matmul of 64 x 48 x 32, of 4096 x 4096 x 4096, of (S*12) x 768 x 64   ->   one class
        """
        return _class_of(self)


@lru_cache(maxsize=4096)
def _class_of(nest: LoopNest) -> LoopNest:
    written = {w.tensor for s in nest.statements for w in s.writes}
    literal: set[str] = set()
    kept = []
    for s in nest.statements:
        s = replace(s, reads=tuple(r for r in s.reads if r.tensor in written))
        kept.append(s)
        for x in (*s.reads, *s.writes):
            literal |= {n for e in (*x.index, *x.guard) if not _plain(e) for n in e.names()}
        literal |= {n for g in s.guard for n in g.names()}
    extents: dict[str, set[object]] = {}
    for s in nest.statements:
        for a in s.axes:
            extents.setdefault(a.name, set()).add(a.extent)
    literal |= {n for n, e in extents.items() if len(e) > 1}
    return replace(nest, statements=tuple(
        replace(s, axes=tuple(a if a.name in literal else Axis(a.name, Sym(f"N{a.name}")) for a in s.axes)) for s in kept))


def _plain(e: Aff) -> bool:
    return e.is_const or (len(e.terms) == 1 and isinstance(e.terms[0][0], str) and e.terms[0][1] == 1)


# ---- from a kernel

@lru_cache(maxsize=4096)
def _of(kernel: Kernel) -> LoopNest:
    statements: list[Statement] = []
    cells: dict[Expr, Access] = {}
    scope = {a.name: a for a in kernel.axes}
    for n, store in enumerate(kernel.stores):
        _reductions(store.value, scope, cells, statements)
        reads = tuple(_reads(store.value, cells))
        used = frozenset().union(*(i.names() for i in store.index), *(_names(store.value),))
        axes = tuple(a for a in kernel.axes if a.name in used)
        statements.append(Statement(f"S{n}", "store", axes, reads, (Access(store.tensor, store.index, store.guard),)))
    return LoopNest.make(tuple(statements))


def _reductions(value: Expr, outer: dict[str, Axis], cells: dict[Expr, Access], out: list[Statement]) -> None:
    """Statements of every reduction inside `value`, operands first; fills `cells`."""
    for e in _topmost(value):
        if e in cells:
            continue
        scope = {**outer, **{a.name: a for a in e.axes}}
        for operand in e.args:
            _reductions(operand, scope, cells, out)
        bound = {a.name for a in e.axes}
        names = frozenset().union(*(_names(o) for o in e.args)) - bound
        free = tuple(a for a in scope.values() if a.name in names)
        n = sum(s.role == "update" for s in out)
        cell = Access(f"r{n}", tuple(aff(a.name) for a in free))
        cells[e] = cell
        reads = tuple(r for o in e.args for r in _reads(o, cells))
        out.append(Statement(f"I{n}", "init", free, (), (cell,)))
        out.append(Statement(f"U{n}", "update", (*free, *e.axes), (cell, *reads), (cell,), cell, True))


def _topmost(value: Expr) -> Iterator[Reduce | Contract]:
    """Reductions with no other reduction between them and the root, in order."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, (Reduce, Contract)):
            yield e
        else:
            stack.extend(reversed(e.args))


def _reads(value: Expr, cells: dict[Expr, Access]) -> Iterator[Access]:
    """Accesses that evaluating `value` at one point makes; a reduction inside is its cell."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        e = stack.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if isinstance(e, (Reduce, Contract)):
            yield cells[e]
            continue
        if isinstance(e, Load):
            yield Access(e.tensor, e.index, e.guard)
        stack.extend(reversed(e.args))


def _names(value: Expr) -> frozenset[str]:
    """Free axis names of a value."""
    return _free(value, {})


def _free(value: Expr, memo: dict[Expr, frozenset[str]]) -> frozenset[str]:
    if value not in memo:
        own: set[str] = set()
        if isinstance(value, Load):
            own |= {n for e in (*value.index, *value.guard) for n in e.names()}
        elif isinstance(value, Index):
            own |= value.index.names()
        elif isinstance(value, Inside):
            own |= {n for g in value.guard for n in g.names()}
        for a in value.args:
            own |= _free(a, memo)
        if isinstance(value, (Reduce, Contract)):
            own -= {a.name for a in value.axes}
        memo[value] = frozenset(own)
    return memo[value]
