"""NumPy meaning of comprehensions and kernels: what every later stage is compared with.

Every axis, free or bound, gets its own array dimension; a node's value is an array that has size 1 along axes it does not
mention. Contractions go through einsum, so no product is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy

import numpy as np

from autocomp.errors import ModelError
from autocomp.ir.affine import Aff
from autocomp.ir.body import (
    Axis,
    Const,
    Contract,
    Expr,
    Gather,
    Index,
    Inside,
    Load,
    Map,
    Prev,
    Read,
    Recurrence,
    Reduce,
    bound_axes,
    postorder,
)
from autocomp.ir.kernel import Kernel
from autocomp.ir.monoids import fold
from autocomp.ir.scalar import apply
from autocomp.ir.types import F64, DType, Sym

Fetch = Callable[[Expr], np.ndarray]


class Meaning:
    """Evaluates body expressions over one domain. `float64`: floats are computed in float64 and casts do not round."""

    def __init__(
        self, axes: Sequence[Axis], roots: Sequence[Expr], sizes: Mapping[str, int], float64: bool, fetch: Fetch
    ) -> None:
        every = list(dict.fromkeys([*axes, *(a for r in roots for a in bound_axes(r))]))
        if len({a.name for a in every}) != len(every):
            raise ModelError(f"two axes share a name: {', '.join(map(str, every))}", where="body")
        self.at = {a.name: k for k, a in enumerate(every)}
        self.extent = {a.name: sizes[a.extent.name] if isinstance(a.extent, Sym) else a.extent for a in every}
        self.rank, self.float64, self.fetch = len(every), float64, fetch
        self.states: list[np.ndarray] = []
        self.env: dict[str, np.ndarray | int] = dict(sizes)
        for name, k in self.at.items():
            self.env[name] = np.arange(self.extent[name]).reshape([-1 if j == k else 1 for j in range(self.rank)])

    def dtype(self, d: DType) -> DType:
        return F64 if self.float64 and d.is_float else d

    def index(self, a: Aff) -> np.ndarray:
        return np.asarray(a.eval(self.env))

    def inside(self, guard: tuple[Aff, ...]) -> np.ndarray:
        ok = np.ones((1,) * self.rank, bool)
        for g in guard:
            ok = ok & (self.index(g) >= 0)
        return ok

    def value(self, root: Expr) -> np.ndarray:
        done: dict[int, np.ndarray] = {}
        for e in postorder(root, outside=Recurrence):  # its steps run once a time step
            done[id(e)] = self._node(e, [] if isinstance(e, Recurrence) else [done[id(a)] for a in e.args])
        return done[id(root)]

    def _node(self, e: Expr, args: list[np.ndarray]) -> np.ndarray:
        if isinstance(e, (Load, Read)):
            return self._read(e, self.fetch(e))
        if isinstance(e, Prev):
            return self._read(e, self.states[-e.lag])
        if isinstance(e, Recurrence):
            return self._recurrence(e)
        if isinstance(e, Const):
            return np.full((1,) * self.rank, e.value, self.dtype(e.dtype).numpy)
        if isinstance(e, Index):
            return np.reshape(
                self.index(e.index), (1,) * self.rank if np.ndim(self.index(e.index)) == 0 else self.index(e.index).shape
            ).astype(self.dtype(e.dtype).numpy)
        if isinstance(e, Inside):
            return self.inside(e.guard)
        if isinstance(e, Map):
            return apply(e.fn, args, self.dtype(e.dtype))
        if isinstance(e, Gather):
            return self._gather(e, args)
        if isinstance(e, Reduce):
            return self._reduce(e, args)
        if isinstance(e, Contract):
            return self._contract(e, args)
        raise ModelError(f"no meaning for {type(e).__name__}", where="body")

    def _recurrence(self, e: Recurrence) -> np.ndarray:
        """The states one after the other, each an array over the space axes, then the one that is asked for."""
        space = [self.at[a.name] for a in e.axes]
        shape = [self.extent[a.name] for a in e.axes]
        full = [1] * self.rank
        for k, n in zip(space, shape):
            full[k] = n
        order = [*space, *(k for k in range(self.rank) if k not in space)]

        def plane(v: np.ndarray) -> np.ndarray:
            return np.broadcast_to(v, full).transpose(order).reshape(shape)

        inner = copy(self)
        inner.states = [plane(self.value(e.init))]
        for t in range(self.extent[e.time.name]):
            inner.env = {**self.env, e.time.name: t}
            inner.states.append(plane(inner.value(e.step)))
        at = self.index(e.at) if e.at is not None else np.asarray(len(inner.states) - 1)
        v = np.stack(inner.states)[(at, *(self.index(i) for i in e.index))]
        return v if v.ndim == self.rank else v.reshape((1,) * self.rank)

    def _read(self, e: Load | Read | Prev, x: np.ndarray) -> np.ndarray:
        if self.float64 and e.dtype.is_float:
            x = x.astype(np.float64)
        ok = self.inside(e.guard)
        index = []
        for i, n in zip(e.index, x.shape):
            at = self.index(i)
            good = (at >= 0) & (at < n) | ~ok
            if not np.all(good):
                raise ModelError(
                    f"index {i} leaves [0, {n}) of {getattr(e, 'tensor', None) or getattr(e, 'operand', 'the state')}",
                    where="body",
                )
            index.append(np.clip(at, 0, max(n - 1, 0)))
        v = x[tuple(index)] if index else x.reshape((1,) * self.rank)
        v = np.reshape(v, v.shape if v.ndim == self.rank else (1,) * self.rank)
        return np.where(ok, v, np.asarray(e.fill).astype(v.dtype)) if e.guard else v

    def _gather(self, e: Gather, args: list[np.ndarray]) -> np.ndarray:
        x = self.fetch(e)
        x = x.astype(np.float64) if self.float64 and e.dtype.is_float else x
        return x[tuple(np.clip(a.astype(np.int64), 0, n - 1) for a, n in zip(args, x.shape))]

    def _reduce(self, e: Reduce, args: list[np.ndarray]) -> np.ndarray:
        where = tuple(self.at[a.name] for a in e.axes)
        shape = list(args[0].shape)
        for a in e.axes:
            shape[self.at[a.name]] = self.extent[a.name]
        first = np.broadcast_to(args[0], tuple(shape))
        return fold(e.monoid, (first, *args[1:]), where, e.part, self.dtype(e.dtype).numpy).astype(self.dtype(e.dtype).numpy)

    def _contract(self, e: Contract, args: list[np.ndarray]) -> np.ndarray:
        wide = self.dtype(e.dtype).numpy
        reduced = {self.at[a.name]: self.extent[a.name] for a in e.axes}
        subs = [[k for k in range(self.rank) if x.shape[k] > 1] for x in args]
        out = sorted({k for s in subs for k in s} - set(reduced))
        flat = [x.astype(wide).reshape([x.shape[k] for k in s]) for x, s in zip(args, subs)]
        y = np.einsum(flat[0], subs[0], flat[1], subs[1], out, optimize=True)
        for k, n in reduced.items():
            if not any(k in s for s in subs):
                y = y * n
        shape = [1] * self.rank
        for k, n in zip(out, y.shape):
            shape[k] = n
        return np.asarray(y, wide).reshape(shape)


def evaluate(
    kernel: Kernel, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None, float64: bool = True
) -> dict[str, np.ndarray]:
    """Outputs of a kernel by argument name, in its arguments' shapes; `arrays` has its inputs (reshaped to those), `sizes`
    the symbols' values."""
    types = {a.name: a.type for a in kernel.inputs}

    def fetch(e: Expr) -> np.ndarray:
        t = types[e.tensor]  # type: ignore[attr-defined]
        x = np.asarray(arrays[e.tensor])  # type: ignore[attr-defined]
        return x.reshape(t.shape) if t.is_static and x.shape != t.shape else x  # type: ignore[arg-type]

    sizes = dict(sizes or {})
    m = Meaning(kernel.axes, [s.value for s in kernel.stores], sizes, float64, fetch)
    out = {}
    for arg, store in zip(kernel.outputs, kernel.stores):
        shape = tuple(sizes[d.name] if isinstance(d, Sym) else d for d in arg.type.shape)
        y = np.zeros(shape, m.dtype(arg.type.dtype).numpy)
        index = [m.index(i) for i in store.index]
        value = m.value(store.value)
        full = np.broadcast_shapes(value.shape, *(np.shape(i) for i in index))
        stored = np.broadcast_to(m.inside(store.guard), full) if store.guard else ...
        made = np.broadcast_to(value, full)[stored]
        y[tuple(np.broadcast_to(i, full)[stored] for i in index)] = made if index else made.reshape(shape)  # one number has no index
        out[arg.name] = y
    return out


def evaluate_comprehension(
    axes: Sequence[Axis],
    value: Expr,
    operands: Sequence[np.ndarray],
    sizes: Mapping[str, int] | None = None,
    float64: bool = False,
) -> np.ndarray:
    """Value of a comprehension on operands; shape = extents of the axes."""

    def fetch(e: Expr) -> np.ndarray:
        return np.asarray(operands[e.operand if isinstance(e, Read) else e.tensor])  # type: ignore[attr-defined]

    m = Meaning(axes, [value], dict(sizes or {}), float64, fetch)
    shape = tuple(m.extent[a.name] for a in axes)
    return np.broadcast_to(m.value(value), shape + (1,) * (m.rank - len(axes))).reshape(shape)
