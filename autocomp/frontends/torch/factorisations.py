"""QR, LU and what torch computes by it, and the exponential of matrices as the op `loop`, a column a step. Matrices [.., m, n] of known
sizes.

    QR      column j: R = H R, Q = Q H      H = 1 - tau v v^T, a reflection that leaves one element of the column (LAPACK's signs)
    LU      column j: the row with the largest element of those left comes to j, and a multiple of it is taken from the rows below

Factors that torch gives for a singular matrix are the same; what it raises for gives NaN or infinities.
"""

from __future__ import annotations

import numpy as np

from autocomp.frontends.torch import linear_algebra as la
from autocomp.frontends.torch.call import Call, row
from autocomp.frontends.torch.linear_algebra import _at, _batched, _checked, _numbers, _same, _sum, _turned, first_without, triangular
from autocomp.frontends.torch.views import sliced
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Node
from autocomp.ir.types import F32, F64, I32, I64


def _sizes(c: Call, a: Node) -> tuple[int, int]:
    """m and n of matrices [.., m, n]."""
    m, n = a.type.shape[-2:] if a.type.rank > 1 else (0, 0)
    if a.type.dtype not in (F32, F64) or not isinstance(m, int) or not isinstance(n, int) or not m or not n:
        raise c.refuse(f"of {a.type}", "matrices are not empty, of known sizes and of f32 or f64")
    return m, n


def _diagonal(c: Call, m: int, n: int) -> Node:
    """How far each element [m, n] lies right of the diagonal."""
    return c.op("sub", _at(_numbers(c, n), c, -2), _at(_numbers(c, m), c, -1))


def _identity(c: Call, n: int, like: Node) -> Node:
    """The unit matrix [.., n, n] for each of a batch."""
    ones = c.cast(c.op("eq", _diagonal(c, n, n), c.b.const(0, I64)), like.type.dtype)
    return c.op("broadcast", ones, shape=(*like.type.shape[:-2], n, n))


def _picked(c: Call, x: Node, where: Node) -> Node:
    """Of a vector the one element that `where` [.., n] says."""
    return _sum(c, c.op("broadcast", x, shape=where.type.shape), -1, where)


def _triangle(c: Call, a: Node, upper: bool, unit: bool = False) -> Node:
    """Elements on the diagonal and on one side of it; `unit`: the diagonal's are 1."""
    m, n = _sizes(c, a)
    off, zero = _diagonal(c, m, n), c.b.const(0, I64)
    kept = c.op("where", c.op("ge" if upper else "le", off, zero), a, c.b.const(0, a.type.dtype))
    return c.op("where", c.op("eq", off, zero), c.b.const(1, a.type.dtype), kept) if unit else kept


@row("linalg_qr")
def qr(c: Call, a: Node, mode: str = "reduced") -> tuple[Node | None, Node]:
    """(Q or None, R): the column is divided by its largest element before its length is taken, which is within the type then."""
    m, n = _sizes(c, a)
    k, batch, dtype = min(m, n), a.type.shape[:-2], a.type.dtype
    rows, columns, zero, one = _numbers(c, m), _numbers(c, n), c.b.const(0, dtype), c.b.const(1, dtype)
    unit = _identity(c, m, a)

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        r, *q = carries
        (j,) = slices
        column = c.op("where", c.op("ge", rows, j), _sum(c, r, -1, c.op("eq", columns, j)), zero)
        head, below = _sum(c, column, -1, c.op("eq", rows, j)), c.op("where", c.op("gt", rows, j), column, zero)
        largest = c.op("reduce_max", c.op("abs", column), axes=(len(batch),), keepdims=False)
        scaled = c.op("div", column, _at(c.op("where", c.op("eq", largest, zero), one, largest), c, -1))
        length = c.op("mul", largest, c.op("sqrt", _sum(c, c.op("mul", scaled, scaled), -1)))
        left = c.op("where", c.op("lt", head, zero), length, c.op("neg", length))
        done = c.op("eq", c.op("reduce_max", c.op("abs", below), axes=(len(batch),), keepdims=False), zero)
        some = c.op("where", done, one, left)
        tau = c.op("where", done, zero, c.op("div", c.op("sub", left, head), some))
        v = c.op("div", below, _at(c.op("where", done, one, c.op("sub", head, left)), c, -1))
        v = c.op("where", c.op("eq", rows, j), one, v)
        tv = c.op("mul", v, _at(tau, c, -1))
        along = _sum(c, c.op("mul", _at(v, c, -1), r), -2)
        new = [c.op("sub", r, c.op("mul", _at(tv, c, -1), _at(along, c, -2)))]
        for x in q:
            across = _sum(c, c.op("mul", x, _at(v, c, -2)), -1)
            new.append(c.op("sub", x, c.op("mul", _at(across, c, -1), _at(tv, c, -2))))
        return new, []

    (r, *q), _ = loop(c.b, [a] if mode == "r" else [a, unit], [_numbers(c, k)], body, k)
    r = _triangle(c, r, upper=True)
    if mode != "complete":
        r = sliced(c, r, r.type.rank - 2, 0, k)
        q = [sliced(c, x, x.type.rank - 1, 0, k) for x in q]
    return (q[0] if q else None), r


def _factored(c: Call, a: Node, pivot: bool) -> tuple[Node, Node]:
    """(L below the diagonal and U on and above it, which row came to j in step j [.., k])."""
    if not pivot:
        raise c.refuse("without pivots", "let it choose the rows")
    m, n = _sizes(c, a)
    k = min(m, n)
    rows, columns, dtype = _numbers(c, m), _numbers(c, n), a.type.dtype
    zero = c.b.const(0, dtype)

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        (x,), (j,) = carries, slices
        mine, here = c.op("eq", columns, j), c.op("eq", rows, j)
        size = c.op("where", c.op("ge", rows, j), c.op("abs", _sum(c, x, -1, mine)), c.b.const(-1, dtype))
        place = c.cast(c.op("reduce_argmax", size, axes=(size.type.rank - 1,), keepdims=False), I64)
        chosen = c.op("eq", rows, _at(place, c, -1))
        first, other = _sum(c, x, -2, _at(chosen, c, -1)), _sum(c, x, -2, _at(here, c, -1))
        swapped = c.op("where", _at(chosen, c, -1), _at(other, c, -2), x)
        swapped = c.op("where", _at(here, c, -1), _at(first, c, -2), swapped)
        head = _sum(c, first, -1, mine)
        head = c.op("where", c.op("eq", head, zero), c.b.const(1, dtype), head)  # a column of zeros stays
        below = c.op("gt", rows, j)
        times = c.op("where", below, c.op("div", _sum(c, swapped, -1, mine), _at(head, c, -1)), zero)
        rest = c.op("where", c.op("gt", columns, j), first, zero)
        rest = c.op("sub", swapped, c.op("mul", _at(times, c, -1), _at(rest, c, -2)))
        return [c.op("where", c.op("and", _at(below, c, -1), mine), _at(times, c, -1), rest)], [place]

    (x,), (places,) = loop(c.b, [a], [_numbers(c, k)], body, k)
    return x, c.op("transpose", places, perm=(*range(1, places.type.rank), 0))


def _order(c: Call, places: Node, m: int) -> Node:
    """Which row of the matrix each row of its factors is [.., m], from the rows that changed places [.., k]."""
    k = places.type.shape[-1]
    rows = _numbers(c, m)
    steps = c.op("transpose", places, perm=(places.type.rank - 1, *range(places.type.rank - 1)))

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        (order,), (j, place) = carries, slices
        here, there = c.op("eq", rows, j), c.op("eq", rows, _at(place, c, -1))
        a, b = _sum(c, order, -1, here), _sum(c, order, -1, there)
        return [c.op("where", here, _at(b, c, -1), c.op("where", there, _at(a, c, -1), order))], []

    start = c.op("broadcast", rows, shape=(*places.type.shape[:-1], m))
    assert isinstance(k, int)
    return loop(c.b, [start], [_numbers(c, k), steps], body, k)[0][0]


def _permutation(c: Call, order: Node, a: Node) -> Node:
    """P [.., m, m] of a's type, A = P L U."""
    return c.cast(c.op("eq", _at(order, c, -2), _at(_numbers(c, order.type.shape[-1]), c, -1)), a.type.dtype)  # type: ignore[arg-type]


def _both(c: Call, x: Node) -> tuple[Node, Node]:
    """L [.., m, k] and U [.., k, n]."""
    k = min(_sizes(c, x))
    lower, upper = _triangle(c, x, upper=False, unit=True), _triangle(c, x, upper=True)
    return sliced(c, lower, x.type.rank - 1, 0, k), sliced(c, upper, x.type.rank - 2, 0, k)


@row("linalg_lu_factor_ex")
def lu_factor(c: Call, a: Node, *, pivot: bool = True, check_errors: bool = False) -> tuple[Node, Node, Node]:
    x, places = _factored(c, a, pivot)
    m, n = _sizes(c, a)
    pivots = sliced(c, _sum(c, x, -1, _same(c, m, n)), x.type.rank - 2, 0, min(m, n))
    info = first_without(c, c.op("ne", pivots, c.b.const(0, x.type.dtype)))
    return x, _pivots(places, c), info


@row("linalg_lu")
def lu(c: Call, a: Node, *, pivot: bool = True) -> tuple[Node, Node, Node]:
    x, places = _factored(c, a, pivot)
    return _permutation(c, _order(c, places, _sizes(c, a)[0]), a), *_both(c, x)


def _of_determinant(c: Call, a: Node) -> tuple[Node, Node]:
    """(L and U, which row came to j in step j [.., n]) as torch keeps them: those of a contiguous matrix are its transpose's."""
    _checked(c, a)
    return _factored(c, _turned(c, a) if c.contiguous else a, pivot=True)


def _pivots(places: Node, c: Call) -> Node:
    """The rows as LAPACK counts them, from 1."""
    return c.cast(c.op("add", places, c.b.const(1, I64)), I32)


def _turns(c: Call, x: Node, places: Node) -> Node:
    """The factors [.., n] of the determinant: the diagonal, negative where two rows changed places."""
    n = _checked(c, x)
    diagonal = _sum(c, x, -1, _same(c, n, n))
    return c.op("where", c.op("eq", places, _numbers(c, n)), diagonal, c.op("neg", diagonal))


@row("_linalg_det")
def determinant(c: Call, a: Node) -> tuple[Node, ...]:
    x, places = _of_determinant(c, a)
    turns = _turns(c, x, places)
    return c.op("reduce_prod", turns, axes=(turns.type.rank - 1,), keepdims=False), x, _pivots(places, c)


@row("_linalg_slogdet")
def logarithm_of_determinant(c: Call, a: Node) -> tuple[Node, ...]:
    """(sign, logarithm of the magnitude, ..), of the pivots: their product may overflow."""
    x, places = _of_determinant(c, a)
    turns, zero = _turns(c, x, places), c.b.const(0, a.type.dtype)
    sign = c.op("where", c.op("lt", turns, zero), c.b.const(-1, a.type.dtype), c.b.const(1, a.type.dtype))
    sign = c.op("where", c.op("eq", turns, zero), turns, sign)
    last = {"axes": (turns.type.rank - 1,), "keepdims": False}
    logs = c.op("log", c.op("abs", turns))
    return c.op("reduce_prod", sign, **last), c.op("reduce_sum", logs, **last), x, _pivots(places, c)


@row("_linalg_solve_ex")
def solution(c: Call, a: Node, b: Node, *, left: bool = True, check_errors: bool = False) -> tuple[Node | None, ...]:
    """A X = B, or X A = B, by elimination; by L and U where these are read. B is vectors [.., n] where it has the shape of A without its
    columns, or is one [n]."""
    vector, batch = b.type.rank == 1 or b.type.shape == a.type.shape[:-1], a.type.shape[:-2]
    x, pivots, info = lu_factor(c, a) if c.read & {1, 2} else (None, None, None)
    a, b = _batched(c, a, _at(b, c, -1) if vector else b)
    y, heads = la.eliminated(c, a if left else _turned(c, a), b if left else _turned(c, b))
    y = y if left else _turned(c, y)
    if info is None and a.type.shape[:-2] == batch:
        info = la.singular(c, heads)
    return c.op("reshape", y, shape=y.type.shape[:-1]) if vector else y, x, pivots, info


@row("lu_unpack")
def unpacked(c: Call, x: Node, pivots: Node, unpack_data: bool = True, unpack_pivots: bool = True) -> tuple[Node | None, ...]:
    places = c.op("sub", c.cast(pivots, I64), c.b.const(1, I64))
    p = _permutation(c, _order(c, places, _sizes(c, x)[0]), x) if unpack_pivots else None
    return (p, *(_both(c, x) if unpack_data else (None, None)))


@row("linalg_lu_solve")
def lu_solution(c: Call, x: Node, pivots: Node, b: Node, *, left: bool = True, adjoint: bool = False) -> Node:
    """A X = B, or X A = B, with A or its transpose (`adjoint`)."""
    n = _checked(c, x)
    if not left:
        return _turned(c, _solved(c, x, pivots, _turned(c, b), n, not adjoint))
    return _solved(c, x, pivots, b, n, adjoint)


def _solved(c: Call, x: Node, pivots: Node, b: Node, n: int, adjoint: bool) -> Node:
    order = _order(c, c.op("sub", c.cast(pivots, I64), c.b.const(1, I64)), n)
    if adjoint:
        turned = _turned(c, x)
        y = triangular(c, turned, triangular(c, turned, b, upper=False), upper=True, unitriangular=True)
        here = c.op("eq", _at(order, c, -2), _at(_numbers(c, n), c, -1))  # [.., to, from]
        return _rows(c, y, _picked(c, _numbers(c, n), here))
    return triangular(c, x, triangular(c, x, _rows(c, b, order), upper=False, unitriangular=True), upper=True)


def _rows(c: Call, b: Node, order: Node) -> Node:
    """b's rows in this order."""
    b, places = _batched(c, b, _at(order, c, -1))
    return c.op("gather_elements", b, c.op("broadcast", places, shape=b.type.shape), axis=b.type.rank - 2)


@row("triangular_solve")
def triangular_solution(c: Call, b: Node, a: Node, upper: bool = True, transpose: bool = False,
                        unitriangular: bool = False) -> tuple[Node, Node]:  # fmt: skip
    if transpose:
        return triangular(c, _turned(c, a), b, upper=not upper, unitriangular=unitriangular), a
    return triangular(c, a, b, upper=upper, unitriangular=unitriangular), a


HALVINGS = 32
TERMS = {F32: 12, F64: 18}  # of the exponential's series, of which the rest is below the type's precision where the norm is at most 1


@row("linalg_matrix_exp")
def exponential(c: Call, a: Node) -> Node:
    """exp(A) = exp(A / 2^s)^(2^s) by the series, with the least s that brings the norm (the largest sum of a column) to 1. A norm beyond
    2^32, where no digit of an f32 result would be right, gives NaN."""
    n, dtype = _checked(c, a), a.type.dtype
    rank = a.type.rank
    sums = c.op("reduce_sum", c.op("abs", a), axes=(rank - 2,), keepdims=False)
    norm = c.op("reduce_max", sums, axes=(rank - 2,), keepdims=True)  # [.., 1]
    powers = c.array(2.0 ** np.arange(HALVINGS + 1).astype(dtype.numpy))
    above = c.cast(c.op("gt", norm, powers), I64)  # [.., 33]
    times = c.op("reduce_sum", above, axes=(rank - 2,), keepdims=True)
    chosen = c.op("eq", times, _numbers(c, HALVINGS + 1))
    factor = _picked(c, c.array((2.0 ** -np.arange(HALVINGS + 1)).astype(dtype.numpy)), chosen)
    factor = c.op("where", c.op("lt", _sum(c, times, -1), c.b.const(HALVINGS + 1, I64)), factor, c.b.const(float("nan"), dtype))
    small = c.op("mul", a, _at(_at(factor, c, -1), c, -1))
    unit = _identity(c, n, a)

    def add(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        (total, term), (k,) = carries, slices
        term = c.op("mul", c.op("matmul", term, small), k)
        return [c.op("add", total, term), term], []

    inverses = c.array((1.0 / np.arange(1, TERMS[dtype] + 1)).astype(dtype.numpy))
    (y, _), _ = loop(c.b, [unit, unit], [inverses], add, TERMS[dtype])
    most = c.op("reduce_max", times, axes=tuple(range(times.type.rank)), keepdims=False)
    left = c.op("reshape", times, shape=(*times.type.shape, 1)) if rank > 2 else c.op("reshape", times, shape=(1, 1))

    def square(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        _, k, y = carries
        new = c.op("add", k, c.b.const(1, I64))
        y = c.op("where", c.op("lt", k, left), c.op("matmul", y, y), y)
        return [c.op("lt", new, most), new, y], []

    zero = c.b.const(0, I64)
    return loop(c.b, [c.op("lt", zero, most), zero, y], [], square, HALVINGS, condition=0)[0][2]
