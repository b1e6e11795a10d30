"""Factorisations and systems of equations of torch as the op `loop`, a column or a row a step: Cholesky, triangular systems, and
elimination with the largest pivot (Gauss and Jordan) for inverses and solutions. Matrices [.., n, n].

What torch raises for (no positive definite matrix, a singular one) gives NaN or infinities.
"""

from __future__ import annotations

from autocomp.frontends.torch.call import Call, row
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Node
from autocomp.ir.ops.pointwise import broadcast_shapes
from autocomp.ir.types import F32, F64, I32, I64, Dim


def _checked(c: Call, a: Node) -> int:
    """The n of matrices [.., n, n]."""
    n = a.type.shape[-1]
    if a.type.dtype not in (F32, F64) or not isinstance(n, int) or a.type.shape[-2] != n or not n:
        raise c.refuse(f"of {a.type}", "matrices are square, not empty, of known size and of f32 or f64")
    return n


def _at(x: Node, c: Call, axis: int) -> Node:
    """x with a new dimension of size 1 at a place counted from the end of the result."""
    shape = [*x.type.shape]
    shape.insert(len(shape) + 1 + axis, 1)
    return c.op("reshape", x, shape=tuple(shape))


def _batched(c: Call, *xs: Node) -> list[Node]:
    """Matrices [.., n, m] with the batches of all of them."""
    batch = broadcast_shapes("a system of equations", *(x.type.shape[:-2] for x in xs))
    return [c.op("broadcast", x, shape=(*batch, *x.type.shape[-2:])) if x.type.shape[:-2] != batch else x for x in xs]


def _turned(c: Call, x: Node) -> Node:
    """The matrices transposed."""
    rank = x.type.rank
    return c.op("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _to_front(c: Call, x: Node) -> Node:
    """[.., n, m] as [n, .., m]."""
    rank = x.type.rank
    return c.op("transpose", x, perm=(rank - 2, *range(rank - 2), rank - 1))


def _numbers(c: Call, n: int, backwards: bool = False) -> Node:
    x = c.op("iota", shape=(n,), axis=0, dtype=I64.name)
    return c.op("sub", c.b.const(n - 1, I64), x) if backwards else x


def _sum(c: Call, x: Node, axis: int, where: Node | None = None) -> Node:
    zero = c.b.const(0, x.type.dtype)
    rank = x.type.rank
    return c.op("reduce_sum", x if where is None else c.op("where", where, x, zero), axes=(rank + axis,), keepdims=False)


@row("linalg_cholesky_ex")
def cholesky(c: Call, a: Node, *, upper: bool = False, check_errors: bool = False) -> tuple[Node, Node]:
    """Step j: column j of L, whose square is taken from what is left of A. The first column that has no root makes the rest NaN."""
    n, zero = _checked(c, a), c.b.const(0, a.type.dtype)
    places = _numbers(c, n)

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        (left,), (j,) = carries, slices
        here = c.op("eq", places, j)
        column = _sum(c, left, -1, here)
        root = c.op("sqrt", _at(_sum(c, column, -1, here), c, -1))
        v = c.op("where", c.op("ge", places, j), c.op("div", column, root), zero)
        return [c.op("sub", left, c.op("mul", _at(v, c, -1), _at(v, c, -2)))], [v]

    _, (columns,) = loop(c.b, [_turned(c, a) if upper else a], [places], body, n)
    rank = columns.type.rank
    lower = c.op("transpose", columns, perm=(*range(1, rank), 0))
    on_diagonal = _sum(c, lower, -1, _same(c, n, n))
    return _turned(c, lower) if upper else lower, first_without(c, c.op("gt", on_diagonal, zero))


def _same(c: Call, m: int, n: int) -> Node:
    """Where the diagonal of [m, n] is."""
    return c.op("eq", _at(_numbers(c, m), c, -1), _at(_numbers(c, n), c, -2))


def first_without(c: Call, good: Node) -> Node:
    """LAPACK's info, of [.., n]: the number, from 1, of the first element that is not good; 0 where all are."""
    n = good.type.shape[-1]
    assert isinstance(n, int)
    none = c.b.const(n + 1, I64)
    numbers = c.op("where", good, none, c.op("add", _numbers(c, n), c.b.const(1, I64)))
    first = c.op("reduce_min", numbers, axes=(numbers.type.rank - 1,), keepdims=False)
    return c.cast(c.op("where", c.op("eq", first, none), c.b.const(0, I64), first), I32)


@row("linalg_solve_triangular")
def triangular(c: Call, a: Node, b: Node, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Node:
    """Step i: row i of the solution, from those before it (for upper matrices: behind it)."""
    if not left:
        return _turned(c, triangular(c, _turned(c, a), _turned(c, b), upper=not upper, unitriangular=unitriangular))
    n = _checked(c, a)
    a, b = _batched(c, a, b)
    places, order = _numbers(c, n), _numbers(c, n, upper)
    zero = c.b.const(0, a.type.dtype)
    rows = [c.op("gather", _to_front(c, x), order, axis=0) if upper else _to_front(c, x) for x in (a, b)]

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        (x,), (i, a_i, b_i) = carries, slices
        known = c.op("gt" if upper else "lt", places, i)
        told = _sum(c, c.op("mul", _at(c.op("where", known, a_i, zero), c, -1), x), -2)
        new = c.op("sub", b_i, told)
        if not unitriangular:
            new = c.op("div", new, _at(_sum(c, a_i, -1, c.op("eq", places, i)), c, -1))
        return [c.op("where", _at(c.op("eq", places, i), c, -1), _at(new, c, -2), x)], []

    start = c.op("broadcast", zero, shape=b.type.shape)
    return loop(c.b, [start], [order, *rows], body, n)[0][0]


@row("cholesky_solve")
def cholesky_solution(c: Call, b: Node, a: Node, upper: bool = False) -> Node:
    """A X = B by A's factor: two triangular systems."""
    lower, turned = (_turned(c, a), a) if upper else (a, _turned(c, a))
    return triangular(c, turned, triangular(c, lower, b, upper=False), upper=True)


@row("cholesky_inverse")
def cholesky_inverse(c: Call, a: Node, upper: bool = False) -> Node:
    """A^-1 by A's factor."""
    return cholesky_solution(c, _unit(c, a), a, upper)


def _unit(c: Call, a: Node) -> Node:
    """Unit matrices of a's type."""
    n = _checked(c, a)
    same = c.op("eq", _at(_numbers(c, n), c, -1), _at(_numbers(c, n), c, -2))
    return c.op("broadcast", c.cast(same, a.type.dtype), shape=a.type.shape)


def eliminated(c: Call, a: Node, b: Node) -> tuple[Node, Node]:
    """(A^-1 B, the pivots [n, ..]): step j makes column j of [A B] that of the unit matrix, with the row as pivot whose element is the
    largest of those left."""
    n = _checked(c, a)
    m = c.op("concat", a, b, axis=a.type.rank - 1)
    wide = m.type.shape[-1]
    assert isinstance(wide, int)
    places, columns, dtype = _numbers(c, n), _numbers(c, wide), a.type.dtype

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        (m,), (j,) = carries, slices
        mine, here = c.op("eq", columns, j), c.op("eq", places, j)
        column = _sum(c, m, -1, mine)
        left = c.op("where", c.op("ge", places, j), c.op("abs", column), c.b.const(-1, dtype))
        pivot = c.op("reduce_argmax", left, axes=(left.type.rank - 1,), keepdims=False)
        chosen = c.op("eq", places, _at(c.cast(pivot, I64), c, -1))
        row, other = _sum(c, m, -2, _at(chosen, c, -1)), _sum(c, m, -2, _at(here, c, -1))
        head = _sum(c, row, -1, mine)
        unit = c.op("div", row, _at(head, c, -1))
        swapped = c.op("where", _at(chosen, c, -1), _at(other, c, -2), m)
        by = c.op("where", chosen, _at(_sum(c, other, -1, mine), c, -1), column)
        rest = c.op("sub", swapped, c.op("mul", _at(by, c, -1), _at(unit, c, -2)))
        return [c.op("where", _at(here, c, -1), _at(unit, c, -2), rest)], [head]

    (m,), (heads,) = loop(c.b, [m], [places], body, n)
    full: list[tuple[Dim, Dim, int]] = [(0, d, 1) for d in m.type.shape]
    full[-1] = (n, wide, 1)
    starts, limits, steps = zip(*full, strict=True)
    return c.op("slice", m, starts=starts, limits=limits, steps=steps), heads


@row("linalg_inv_ex")
def inverse(c: Call, a: Node, *, check_errors: bool = False) -> tuple[Node, Node]:
    x, heads = eliminated(c, a, _unit(c, a))
    return x, singular(c, heads)


def singular(c: Call, heads: Node) -> Node:
    """LAPACK's info, of pivots [n, ..]."""
    last = c.op("transpose", heads, perm=(*range(1, heads.type.rank), 0))
    return first_without(c, c.op("ne", last, c.b.const(0, heads.type.dtype)))
