"""Eigenvalues of symmetric matrices and singular values by Jacobi's rotations, as the op `loop`. Matrices [.., m, n] of known sizes.

A step turns all columns at once, in pairs j, k: x_j' = c x_j - s x_k, x_k' = s x_j + c x_k, and brings them into the next order of a
tournament (the first stays, the others move on by one place): after n - 1 steps each pair has met once and all stand where they began.

    eigenvalues        rows and columns are turned so that the pair's element beside the diagonal is 0: A = V diag(w) V^T
    singular values    columns are turned so that the pair's product is 0: A V = U diag(S); U is what QR makes of A V, whose columns
                       stand in descending order, so that it has columns also where singular values are 0

Values are torch's. Vectors may be the negatives of LAPACK's (any of the space, for equal values), as torch says too. What torch raises
for (elements that are no numbers) gives NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autocomp.frontends.torch.call import Call, row
from autocomp.frontends.torch.factorisations import _identity, _sizes, _triangle, qr
from autocomp.frontends.torch.linear_algebra import _at, _checked, _numbers, _same, _sum, _turned
from autocomp.frontends.torch.views import sliced
from autocomp.ir.loop_bodies import loop
from autocomp.ir.node import Node
from autocomp.ir.types import I64

SWEEPS = 4  # and three for each doubling of n: two groups of equal values take the most, for others the last find nothing to turn
LIBRARY = ("_linalg_eigh", "_linalg_svd", "linalg_pinv")  # under torch.compile torch's own stay, which are eager's to the sign


class _Tournament:
    """Who meets whom: in a step column j meets j + h, of 2 h columns."""

    def __init__(self, c: Call, n: int) -> None:
        """`n`: the columns, of which an odd number has one of zeros in front."""
        self.c, self.extra = c, n % 2
        self.size = n + self.extra
        h = self.size // 2
        self.steps = (self.size - 1) * (SWEEPS + 3 * (self.size - 1).bit_length())
        mine = [*range(self.size)] if h == 1 else [0, h, *range(1, h - 1), *range(h + 1, self.size), h - 1]
        mate = [(j + h) % self.size for j in mine]
        self.mine, self.mate = c.array(np.array(mine)), c.array(np.array(mate))
        self.pairs = c.array(np.array([(j + h) % self.size for j in range(self.size)]))
        self.side = np.array([1.0 if j < h else -1.0 for j in mine])

    def padded(self, x: Node, rows: bool = False) -> Node:
        if not self.extra:
            return x
        none = (0,) * x.type.rank
        return self.c.op("pad", x, lo=(*none[:-2], int(rows), 1), hi=none, value=0.0)

    def cut(self, x: Node, axis: int) -> Node:
        return sliced(self.c, x, x.type.rank + axis, self.extra, self.size) if self.extra else x

    def rotation(self, squares: Node, products: Node, absolute: bool) -> tuple[Node, Node]:
        """(s, s / (1 + c)) of each column of the next order, from [.., n] squares of columns (or the diagonal) and products of
        each with its mate (or the element beside the diagonal): tan(2 a) = 2 p / (q_k - q_j), by the smaller angle. `absolute`:
        the largest element is 1, and what is below its rounding is not turned, else equal values turn by angles of their noise."""
        c, op = self.c, self.c.op
        dtype, last = squares.type.dtype, squares.type.rank - 1
        zero, one = c.b.const(0, dtype), c.b.const(1, dtype)
        own, other = (op("gather", products, p, axis=last) for p in (self.mine, self.mate))
        twice = op("add", own, other)  # the same number for both of a pair, so that they turn by the same angle
        apart = op("sub", op("gather", squares, self.mate, axis=last), op("gather", squares, self.mine, axis=last))
        tau = op("div", apart, twice)
        sign = op("where", op("lt", tau, zero), c.b.const(-1, dtype), one)
        sign = op("where", op("eq", tau, zero), c.array(self.side.astype(dtype.numpy)), sign)
        t = op("div", sign, op("add", op("abs", tau), op("sqrt", op("add", one, op("mul", tau, tau)))))
        t = op("where", op("le", op("abs", twice), c.b.const(dtype.eps if absolute else 0, dtype)), zero, t)
        cosine = op("rsqrt", op("add", one, op("mul", t, t)))
        s = op("mul", t, cosine)
        return s, op("div", s, op("add", one, cosine))

    def turned(self, x: Node, by: tuple[Node, Node], axis: int = -1) -> Node:
        """x_j - s (x_k + r x_j) with r = s / (1 + c), in the next order."""
        c, op = self.c, self.c.op
        s, r = (_at(v, c, -3 - axis) for v in by)
        own, other = (op("gather", x, p, axis=x.type.rank + axis) for p in (self.mine, self.mate))
        return op("sub", own, op("mul", s, op("add", other, op("mul", r, own))))


def _descending(c: Call, values: Node, ascending: bool = False) -> Node:
    """Where [.., place, i] value i stands at a place of the order; equal ones stay in theirs."""
    n = values.type.shape[-1]
    assert isinstance(n, int)
    here, there = _at(values, c, -1), _at(values, c, -2)
    before = c.op("lt" if ascending else "gt", there, here)
    first = c.op("lt", _at(_numbers(c, n), c, -2), _at(_numbers(c, n), c, -1))
    before = c.op("or", before, c.op("and", c.op("eq", there, here), first))
    rank = _sum(c, c.cast(before, I64), -1)
    return c.op("eq", _at(rank, c, -2), _at(_numbers(c, n), c, -1))


def _ordered(c: Call, x: Node, order: Node, columns: bool) -> Node:
    """Values [.., n], or the columns of matrices, in that order."""
    if not columns:
        return _sum(c, c.op("broadcast", _at(x, c, -2), shape=order.type.shape), -1, order)
    return c.op("matmul", x, _turned(c, c.cast(order, x.type.dtype)))


def _scaled(c: Call, a: Node) -> tuple[Node, Node]:
    """(a by its largest element, that element [.., 1, 1]): squares are within the type then."""
    rank, dtype = a.type.rank, a.type.dtype
    largest = c.op("reduce_max", c.op("abs", a), axes=(rank - 2, rank - 1), keepdims=True)
    largest = c.op("where", c.op("eq", largest, c.b.const(0, dtype)), c.b.const(1, dtype), largest)
    return c.op("div", a, largest), largest


def _row(c: Call, largest: Node) -> Node:
    return c.op("reshape", largest, shape=largest.type.shape[:-1])


@row("_linalg_eigh")
def eigenvalues(c: Call, a: Node, UPLO: str = "L", compute_v: bool = True) -> tuple[Node | None, Node | None]:
    return _symmetric(c, a, UPLO in ("U", "u"), compute_v and 1 in c.read)


def _symmetric(c: Call, a: Node, upper: bool, vectors: bool) -> tuple[Node, Node | None]:
    """(values in ascending order, vectors as columns), of one triangle."""
    n = _checked(c, a)
    half = _triangle(c, a, upper)
    a = c.op("where", _same(c, n, n), a, c.op("add", half, _turned(c, half)))
    a, largest = _scaled(c, a)
    if n == 1:
        return c.op("mul", _sum(c, a, -1), _row(c, largest)), _identity(c, 1, a)
    t = _Tournament(c, n)
    x = t.padded(a, rows=True)
    diagonal = _same(c, t.size, t.size)
    beside = c.op("eq", _at(_numbers(c, t.size), c, -1), _at(t.pairs, c, -2))  # [mate of j, j]

    def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
        x, *v = carries
        by = t.rotation(_sum(c, x, -2, diagonal), _sum(c, x, -2, beside), absolute=True)
        return [t.turned(t.turned(x, by), by, -2), *(t.turned(y, by) for y in v)], []

    start = [x, _identity(c, t.size, x)] if vectors else [x]
    x, *v = loop(c.b, start, [_numbers(c, t.steps)], body, t.steps)[0]
    values = t.cut(_sum(c, x, -1, diagonal), -1)
    order = _descending(c, values, ascending=True)
    values = c.op("mul", _ordered(c, values, order, columns=False), _row(c, largest))
    return values, _ordered(c, t.cut(t.cut(v[0], -1), -2), order, columns=True) if v else None


def singular(c: Call, a: Node, full: bool, vectors: bool) -> tuple[Node | None, Node, Node | None]:
    """(U, values in descending order, V^T); the vectors only where they are asked for."""
    m, n = _sizes(c, a)
    if m < n:
        u, s, vt = singular(c, _turned(c, a), full, vectors)
        return _turned(c, vt) if vt else None, s, _turned(c, u) if u else None
    a, largest = _scaled(c, a)
    v: list[Node] = []
    x = a
    if n > 1:
        t = _Tournament(c, n)
        x = t.padded(a)

        def body(carries: list[Node], slices: list[Node]) -> tuple[list[Node], list[Node]]:
            x, *v = carries
            mates = c.op("gather", x, t.pairs, axis=x.type.rank - 1)
            by = t.rotation(_sum(c, c.op("mul", x, x), -2), _sum(c, c.op("mul", x, mates), -2), absolute=False)
            return [t.turned(y, by) for y in (x, *v)], []

        unit = _identity(c, t.size, c.op("broadcast", c.b.const(0, a.type.dtype), shape=(*a.type.shape[:-2], t.size, t.size)))
        x, *v = loop(c.b, [x, unit] if vectors else [x], [_numbers(c, t.steps)], body, t.steps)[0]
        x = t.cut(x, -1)
        v = [t.cut(t.cut(y, -1), -2) for y in v]
    length = c.op("sqrt", _sum(c, c.op("mul", x, x), -2))
    order = _descending(c, length)
    values = c.op("mul", _ordered(c, length, order, columns=False), _row(c, largest))
    if not vectors:
        return None, values, None
    q, r = qr(c, _ordered(c, x, order, columns=True), "complete" if full else "reduced")
    assert q is not None
    zero, one = c.b.const(0, a.type.dtype), c.b.const(1, a.type.dtype)
    q_columns = q.type.shape[-1]
    assert isinstance(q_columns, int)
    on = _sum(c, r, -2, _same(c, *(int(d) for d in r.type.shape[-2:])))  # type: ignore[arg-type]
    sign = c.op("where", c.op("lt", on, zero), c.b.const(-1, a.type.dtype), one)
    if q_columns > n:
        sign = c.op("concat", sign, c.op("broadcast", one, shape=(*sign.type.shape[:-1], q_columns - n)), axis=sign.type.rank - 1)
    right = _ordered(c, v[0], order, columns=True) if v else _identity(c, 1, sliced(c, a, a.type.rank - 2, 0, 1))
    return c.op("mul", q, _at(sign, c, -2)), values, _turned(c, right)


@row("_linalg_svd")
def svd(c: Call, a: Node, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> tuple[Node | None, ...]:
    return singular(c, a, full_matrices, compute_uv and bool({0, 2} & c.read))


def _tolerance(c: Call, a: Node, largest: Node, atol: Any, rtol: Any) -> Node:
    """What counts as 0 [.., 1]: the larger of atol and rtol times the largest value; rtol is m or n roundings where neither is given."""
    m, n = _sizes(c, a)
    dtype = a.type.dtype

    def column(x: Any) -> Node:
        x = c.value(x, dtype)
        return _at(x, c, -1) if x.type.rank else x

    least = column(0.0 if atol is None else atol)
    times = column(max(m, n) * dtype.eps if rtol is None else rtol)
    if rtol is None and atol is not None:
        times = c.op("where", c.op("gt", least, c.b.const(0, dtype)), c.b.const(0, dtype), times)
    return c.op("max", least, c.op("mul", times, largest))


@row("linalg_pinv")
def pseudo_inverse(c: Call, a: Node, rcond: Any = None, symmetric: bool = False, *, atol: Any = None, rtol: Any = None,
                   hermitian: bool = False) -> Node:  # fmt: skip
    """V diag(1 / S) U^T over singular values that are not 0; of a symmetric matrix by its eigenvalues."""
    rtol = rtol if rcond is None else rcond
    if hermitian or symmetric:
        w, v = _symmetric(c, a, upper=False, vectors=True)
        assert v is not None
        size, left, right = c.op("abs", w), v, v
    else:
        u, w, vt = singular(c, a, full=False, vectors=True)
        assert u is not None and vt is not None
        size, left, right = w, _turned(c, vt), u
    largest = c.op("reduce_max", size, axes=(size.type.rank - 1,), keepdims=True)
    some = c.op("gt", size, _tolerance(c, a, largest, atol, rtol))
    zero, one = c.b.const(0, a.type.dtype), c.b.const(1, a.type.dtype)
    inverse = c.op("where", some, c.op("div", one, c.op("where", some, w, one)), zero)
    return c.op("matmul", c.op("mul", left, _at(inverse, c, -2)), _turned(c, right))
