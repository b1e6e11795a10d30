"""The NumPy meaning of tile programs: the oracle of derivation and of every pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Gather, Index, Inside, Map, postorder
from autocomp.ir.scalar import SCALAR, apply
from autocomp.ir.types import F64, Dim, DType, Sym
from autocomp.tile.program import Buf, Loop, Stmt, Tensor, TileProgram, Value

Wanted = Callable[[Mapping[str, int]], bool]  # whether a tile of the grid that begins there is computed


def run(program: TileProgram, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int] | None = None,
        float64: bool = True, wanted: Wanted | None = None, backwards: bool = False) -> dict[str, np.ndarray]:  # fmt: skip
    """Execute on arrays (by buffer name). `float64`: all floats in double precision, else in the program's own dtypes.
    `wanted`: which tiles of the grid are computed, by where their axes begin; the others' elements are left as those never stored.
    `backwards`: tiles that may run at once (grid, parallel) from the last to the first.

    Copies give zero outside the axes' extents and the view's fill outside its guards; stores are clipped to both.
    Elements of the outputs that are never stored are NaN (0 for integers).
    """
    return _Run(program, arrays, dict(sizes or {}), float64, wanted, backwards).outputs()


class _Run:
    def __init__(self, p: TileProgram, arrays: Mapping[str, np.ndarray], sizes: dict[str, int], float64: bool,
                 wanted: Wanted | None = None, backwards: bool = False) -> None:  # fmt: skip
        self.wanted, self.backwards = wanted, backwards
        self.p, self.sizes, self.float64 = p, sizes, float64
        self.extent = {a: self.size(e) for a, e in p.axes}
        tile = dict(p.tile)
        self.tile = {a: min(tile.get(a, n), n) for a, n in self.extent.items()}
        self.base = dict.fromkeys(self.extent, 0)
        self.env: dict[str, np.ndarray] = {}
        self.arrays = {t.buffer: np.asarray(arrays[t.buffer]).astype(self.type(t.dtype)) for t in p.inputs}
        self.bufs = {b.name: b for b in p.bufs}
        self.out: dict[str, np.ndarray] = {}
        for t in p.outputs:
            empty = np.nan if t.dtype.is_float else 0
            self.out.setdefault(t.buffer, np.full([self.size(d) for d in t.shape], empty, self.type(t.dtype)))

    def outputs(self) -> dict[str, np.ndarray]:
        self.block(self.p.body)
        return self.out

    def size(self, d: Dim) -> int:
        return self.sizes[d.name] if isinstance(d, Sym) else d

    def type(self, d: DType) -> np.dtype:
        return F64.numpy if self.float64 and d.is_float else d.numpy

    def block(self, body: tuple[Loop | Stmt, ...]) -> None:
        for n in body:
            if isinstance(n, Stmt):
                getattr(self, n.op)(n)
                continue
            if n.kind == "when" and np.all(self.env[n.opt("of")] <= float(n.opt("above"))):
                continue
            steps = [range(0, self.extent[a], self.tile[a]) for a in n.axes]
            if n.back:
                steps = [r[::-1] for r in steps]
            if self.backwards and n.kind in ("grid", "parallel") and not n.until:
                steps = [r[::-1] for r in steps]
            for point in itertools.product(*steps):
                if n.kind == "grid" and self.wanted is not None and not self.wanted(dict(zip(n.axes, point))):
                    continue
                if n.until and point[0] > self.base[n.until[0]] + self.tile[n.until[0]] - 1 + n.until[1]:
                    break
                self.base.update(zip(n.axes, point))
                self.block(n.body)
            self.base.update(dict.fromkeys(n.axes, 0))

    # ---- index arithmetic
    def points(self, axes: tuple[str, ...]) -> dict[str, Any]:
        """Global indices of a tile's points, broadcastable over `axes`; sizes by name."""
        env: dict[str, Any] = dict(self.sizes)
        for i, a in enumerate(axes):
            shape = [1] * len(axes)
            shape[i] = self.tile[a]
            env[a] = (np.arange(self.tile[a]) + self.base[a]).reshape(shape)
        return env

    def all_of(self, guard: tuple[Aff, ...], env: dict[str, Any], shape: list[int]) -> np.ndarray:
        ok = np.ones(shape, bool)
        for g in guard:
            ok = ok & (np.asarray(g.eval(env)) >= 0)
        return ok

    def address(self, t: Tensor) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
        """Indices into the buffer (0 where outside), what is inside the extents, and what is inside the guards too."""
        env, shape = self.points(t.axes), [self.tile[a] for a in t.axes]
        there = np.ones(shape, bool)
        for a in t.axes:
            there = there & (env[a] < self.extent[a])
        ok = there & self.all_of(t.guard, env, shape)
        return tuple(np.where(ok, i.eval(env), 0) for i in t.index), there, ok

    def align(self, x: np.ndarray, axes: tuple[str, ...], to: tuple[str, ...]) -> np.ndarray:
        x = np.transpose(x, [axes.index(a) for a in to if a in axes])
        return x.reshape([self.tile[a] if a in axes else 1 for a in to])

    # ---- statements
    def copy(self, s: Stmt) -> None:
        t, b = self.p.tensor(s.srcs[0]), self.bufs[s.dst]
        if t is None:
            self.env[s.dst] = self.align(self.env[s.srcs[0]], self.bufs[s.srcs[0]].axes, b.axes).astype(self.type(b.dtype))
            return
        index, there, ok = self.address(t)
        data = self.arrays[t.buffer].reshape([self.size(d) for d in t.shape])[index] if ok.any() else np.zeros(ok.shape, self.type(t.dtype))
        x = np.where(ok, data, np.where(there, t.fill, 0).astype(self.type(t.dtype)))
        self.env[s.dst] = self.align(x.astype(self.type(b.dtype)), t.axes, b.axes)

    def store(self, s: Stmt) -> None:
        t = self.p.tensor(s.dst)
        assert t is not None
        index, _, ok = self.address(t)
        x = np.broadcast_to(self.align(self.env[s.srcs[0]], self.bufs[s.srcs[0]].axes, t.axes), ok.shape)
        self.out[t.buffer][tuple(i[ok] for i in index)] = (x[ok] if index else x.ravel()[0]).astype(self.type(t.dtype))

    def fill(self, s: Stmt) -> None:
        b = self.bufs[s.dst]
        self.env[s.dst] = np.full([self.tile[a] for a in b.axes], s.expr, self.type(b.dtype))

    def map(self, s: Stmt) -> None:
        b = self.bufs[s.dst]
        assert isinstance(s.expr, Expr)
        env, shape = self.points(b.axes), [self.tile[a] for a in b.axes]
        done: dict[int, np.ndarray] = {}
        for e in postorder(s.expr):
            done[id(e)] = self.node(e, [done[id(a)] for a in e.args], b, env)
        self.env[s.dst] = np.broadcast_to(done[id(s.expr)], shape).astype(self.type(b.dtype))

    def node(self, e: Expr, args: list[np.ndarray], b: Buf, env: dict[str, Any]) -> np.ndarray:
        if isinstance(e, Value):
            return self.align(self.env[e.name], self.bufs[e.name].axes, b.axes)
        if isinstance(e, Const):
            return np.asarray(e.value, self.type(e.dtype))
        if isinstance(e, Index):
            return np.asarray(e.index.eval(env)).astype(self.type(e.dtype))
        if isinstance(e, Inside):
            return self.all_of(e.guard, env, [1] * len(b.axes))
        if isinstance(e, Gather):
            t = self.p.tensor(str(e.tensor))
            assert t is not None
            data = self.arrays[t.buffer]
            return data[tuple(np.clip(i, 0, n - 1) for i, n in zip(args, data.shape))]
        assert isinstance(e, Map), type(e)
        return apply(e.fn, args, F64 if self.float64 and e.dtype.is_float else e.dtype)

    def reduce(self, s: Stmt) -> None:
        src, b = self.bufs[s.srcs[0]], self.bufs[s.dst]
        f = SCALAR[str(s.expr)].numpy
        x = self.env[src.name].astype(self.type(b.dtype))
        gone = s.axis.split(",")
        r = f.reduce(x, axis=tuple(src.axes.index(a) for a in gone))  # type: ignore[attr-defined]
        r = self.align(r, tuple(a for a in src.axes if a not in gone), b.axes)
        self.env[s.dst] = (f(self.env[s.dst], r) if s.acc else r).astype(self.type(b.dtype))

    def scan(self, s: Stmt) -> None:
        src, b, axis = self.bufs[s.srcs[0]], self.bufs[s.dst], s.axis.lstrip("-")
        x = self.align(self.env[src.name].astype(self.type(b.dtype)), src.axes, b.axes)
        k = b.axes.index(axis)
        here = min(self.tile[axis], self.extent[axis] - self.base[axis])
        x = x.take(range(here), k)  # what is past the end is not folded
        x = np.flip(x, k) if s.axis != axis else x
        f = SCALAR[str(s.expr)].numpy
        y = f.accumulate(x, axis=k)  # type: ignore[attr-defined]
        if carried := s.srcs[1:]:
            before = self.bufs[carried[0]]
            y = f(self.align(self.env[before.name], before.axes, b.axes), y)
            self.env[before.name] = self.align(y.take([-1], k).squeeze(k), tuple(a for a in b.axes if a != axis), before.axes)
        y = np.flip(y, k) if s.axis != axis else y
        past = [(0, self.tile[axis] - here if i == k else 0) for i in range(y.ndim)]
        self.env[s.dst] = np.pad(y, past).astype(self.type(b.dtype))

    def mma(self, s: Stmt) -> None:
        x, y, b = self.bufs[s.srcs[0]], self.bufs[s.srcs[1]], self.bufs[s.dst]
        number = {a: i for i, a in enumerate(self.extent)}
        u, v = (self.env[o.name].astype(self.type(b.dtype)) for o in (x, y))
        ids = [[number[a] for a in o.axes] for o in (x, y, b)]
        r = np.einsum(u, ids[0], v, ids[1], ids[2])
        self.env[s.dst] = (self.env[s.dst] + r if s.acc else r).astype(self.type(b.dtype))
