"""Legality of whole schedules, and of one move on a kernel: what rules ask as `legal(...)`.

Tile sizes do not matter to these answers (they hold for every size), so the thousand candidates of a kernel ask isl a
handful of questions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from autocomp.errors import IllegalTransform
from autocomp.ir.affine import aff
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.loops import legality
from autocomp.loops.nest import LoopDim, LoopNest, Rows, Statement
from autocomp.loops.recurrences import band_of, lag_of, last_only, recurrence_nest, recurrence_of, require_recurrence, step_names
from autocomp.loops.transforms import (
    Fuse,
    Interchange,
    Parallel,
    Pipeline,
    Reverse,
    Skew,
    SplitReduction,
    Tile,
    Transform,
    Unimodular,
    UnrollAndJam,
    Vectorize,
)
from autocomp.loops.verdict import Verdict

MOVES = ("tile", "interchange", "fuse", "reverse", "skew", "parallel", "vectorize", "unroll_and_jam", "pipeline", "split")


def legal(kernel: Kernel, schedule: Schedule, exact: bool = False) -> Verdict:
    """May the kernel run under this schedule? `exact`: without regrouping a floating point reduction."""
    if recurrence_of(kernel) is not None:
        return _legal_recurrence(kernel, schedule)
    tiled = tuple(a for a, size in schedule.tile if not _whole(kernel, a, size))
    split = schedule.split[0] if schedule.split else ""
    return _legal_tiles(kernel, tiled, schedule.order, schedule.parallel, schedule.vector, split, exact)


def _whole(kernel: Kernel, axis: str, size: int) -> bool:
    extent = {a.name: a.extent for s in LoopNest.of(kernel).statements for a in s.axes}.get(axis)
    return isinstance(extent, int) and size >= extent


@lru_cache(maxsize=16384)
def _legal_tiles(kernel: Kernel, tiled: tuple[str, ...], order: tuple[str, ...], parallel: tuple[str, ...],
                 vector: tuple[str, int] | None, split: str, exact: bool) -> Verdict:
    nest = LoopNest.of(kernel)
    known = {a.name for s in nest.statements for a in s.axes}
    unknown = sorted({*tiled, *order, *parallel, *([vector[0]] if vector else []), *([split] if split else [])} - known)
    if unknown:
        return Verdict(False, why=f"{', '.join(unknown)} is no axis of {kernel.name} (axes: {', '.join(sorted(known))})")
    return legality.verdict(_tiled(kernel, tiled, order, parallel, vector, split).nest_class(), not exact)


def _tiled(kernel: Kernel, tiled: tuple[str, ...], order: tuple[str, ...], parallel: tuple[str, ...], vector: tuple[str, int] | None,
           split: str) -> LoopNest:  # fmt: skip
    """The kernel's nest in the order of its tile program."""
    nest, output = LoopNest.of(kernel), {a.name for a in kernel.axes}
    grid = [a for a in (*order, *(x.name for x in kernel.axes if x.name not in order)) if a in output and a in tiled]
    serial = [a for a in tiled if a not in output]
    rows = tiled_rows(nest, grid, serial, vector)
    marks = tuple((f"{a}_tile" if a in tiled else a, "parallel") for a in parallel)
    if vector:
        marks += ((f"{vector[0]}_lane", "lanes"),)
    if split:
        rows, marks = _with_parts(nest, rows, split), (*marks, (f"{split}_part", "parallel"))
    return LoopNest(nest.statements, nest.origin, rows, marks, frozenset({f"{split}_part"} if split else ()))


def scheduled(kernel: Kernel, schedule: Schedule) -> LoopNest:
    """The nest of a kernel, which is no recurrence, as `schedule` runs it: what `legal` judges."""
    tiled = tuple(a for a, size in schedule.tile if not _whole(kernel, a, size))
    return _tiled(kernel, tiled, schedule.order, schedule.parallel, schedule.vector, schedule.split[0] if schedule.split else "")


def tiled_rows(nest: LoopNest, grid: list[str], serial: list[str], vector: tuple[str, int] | None) -> tuple[Rows, ...]:
    """The order of a tile program: grid tiles outermost, then the statements in sequence, each over its reduced tiles and
    then over the points of the tile; a statement that feeds a reduction along that reduction's axis runs in its loop.

        for m_tile: for n_tile: { I; for k_tile: { for m: for n: for k: U };  for m: for n: S }
    """
    host = _hosts(nest, serial)
    rows = []
    for p, s in enumerate(nest.statements):
        beta, loops = [], []
        for g in grid:
            if g in s.names:
                beta.append(min(q for q, t in enumerate(nest.statements) if g in t.names))
                loops.append(LoopDim(f"{g}_tile", aff(g), free=True))
        top = host.get(p, p)
        beta.append(top)
        for a in serial:
            if a in s.names and (_reduced(s, a) or p in host):
                loops.append(LoopDim(f"{a}_tile", aff(a), free=True))
                beta.append(p)
        if p in host and len(beta) == len(grid) + 1:
            beta[-1] = top
        for a in s.names:
            v = aff(a)
            whole = v if not vector or a != vector[0] else v // vector[1]
            loops.append(LoopDim(a, whole))
            beta.append(0)
        if vector and vector[0] in s.names:
            v = aff(vector[0])
            loops.append(LoopDim(f"{vector[0]}_lane", v - (v // vector[1]) * vector[1]))
            beta.append(0)
        rows.append(Rows(tuple(beta), tuple(loops)))
    return tuple(rows)


def _reduced(s: Statement, axis: str) -> bool:
    return s.cell is not None and axis in s.names and not any(axis in i.names() for i in s.cell.index)


def _hosts(nest: LoopNest, serial: list[str]) -> dict[int, int]:
    """Statement -> the reduction whose tile loop it runs in: producers over a reduced axis, and that reduction itself."""
    out: dict[int, int] = {}
    for q, u in enumerate(nest.statements):
        for a in serial:
            if not _reduced(u, a):
                continue
            fed = {r.tensor for r in u.reads if r != u.cell}
            inner = [p for p in range(q) if p not in out and a in nest.statements[p].names
                     and any(w.tensor in fed for w in nest.statements[p].writes) and not _reduced(nest.statements[p], a)]
            if inner:
                out.update(dict.fromkeys((*inner, q), q))
    return out


def _with_parts(nest: LoopNest, rows: tuple[Rows, ...], axis: str) -> tuple[Rows, ...]:
    """A part loop in front of the loops of every statement that reduces `axis`."""
    out = []
    for s, r in zip(nest.statements, rows, strict=True):
        if _reduced(s, axis):
            p = next(n for n, l in enumerate(r.loops) if l.name in (axis, f"{axis}_tile"))
            part = LoopDim(f"{axis}_part", aff(axis), free=True)
            r = Rows((*r.beta[:p + 1], 0, *r.beta[p + 1:]), (*r.loops[:p], part, *r.loops[p:]))
        out.append(r)
    return tuple(out)


@lru_cache(maxsize=16384)
def legal_transform(kernel: Kernel, kind: str, axes: tuple[str, ...], number: int = 0, exact: bool = False) -> Verdict:
    """One move on the kernel's fused nest: kind is one of MOVES; `number` the width, factor, parts or stages where one is
    needed. `legal(tile, m, n, k)` in a rule is legal_transform(kernel, "tile", ("m", "n", "k")).
    """
    if kind not in MOVES:
        return Verdict(False, why=f"{kind} is no loop transformation (there are {', '.join(MOVES)})")
    rec = recurrence_of(kernel)
    nest = recurrence_nest(kernel) if rec else fused(kernel)
    only = step_names(nest) if rec else ()
    try:
        move = _move(kind, axes, number, only)
    except IllegalTransform as e:
        return Verdict(False, why=e.what)
    return legality.check(nest, move, not exact)


def fused(kernel: Kernel) -> LoopNest:
    """The kernel's nests merged over the output axes that all statements begin with."""
    nest = LoopNest.of(kernel)
    shared: list[str] = []
    for a in kernel.axes:
        if any(s.names[:len(shared) + 1] != (*shared, a.name) for s in nest.statements):
            break
        shared.append(a.name)
    return Fuse(tuple(shared)).apply(nest) if shared and len(nest.statements) > 1 else nest


def _move(kind: str, axes: tuple[str, ...], number: int, only: tuple[str, ...]) -> Transform:
    wanted = max(1, len(axes)) if kind in ("tile", "fuse") else 2 if kind in ("interchange", "skew") else 1
    if len(axes) != wanted:
        raise IllegalTransform(f"{kind} takes {wanted} axes, not {len(axes)}")
    match kind:
        case "tile": return Tile(axes, (None,) * len(axes), only)
        case "interchange": return Interchange(axes[0], axes[1], only)
        case "fuse": return Fuse(axes)
        case "reverse": return Reverse(axes[0], only)
        case "skew": return Skew(axes[0], axes[1], number or 1, only)
        case "parallel": return Parallel(axes[0])
        case "vectorize": return Vectorize(axes[0], number or 8)
        case "unroll_and_jam": return UnrollAndJam(axes[0], number or 2)
        case "pipeline": return Pipeline(axes[0], number or 2, number or 2)
        case _: return SplitReduction(axes[0], number or 2)


def forget() -> None:
    """Drop every remembered answer (for tests that replace the judge)."""
    for f in (_legal_tiles, _legal_recurrence, legal_transform, legality.verdict):
        f.cache_clear()


# ---- recurrences

def recurrence_steps(kernel: Kernel, schedule: Schedule) -> tuple[Transform, ...]:
    """The transformations that a schedule of a recurrence means: the unimodular change of its band, tiling, wavefront.

    With time tiled, tiles along `parallel` run at once on a wavefront: (t_tile, i_tile) -> (t_tile + i_tile, i_tile).
    """
    rec = require_recurrence(kernel)
    band = band_of(rec)
    steps: list[Transform] = []
    only = step_names(recurrence_nest(kernel))
    if schedule.skew:
        steps.append(Unimodular(band, schedule.skew, only))
    size = dict(schedule.tile)
    tiled = tuple(a for a in band if a in size)
    if tiled:
        steps.append(Tile(tiled, tuple(size[a] for a in tiled), only))
    for a in schedule.parallel:
        if a in tiled and band[0] in tiled and a != band[0]:
            steps.append(Skew(f"{band[0]}_tile", f"{a}_tile", 1, only))
        steps.append(Parallel(f"{a}_tile" if a in tiled else a))
    return tuple(steps)


@lru_cache(maxsize=4096)
def _legal_recurrence(kernel: Kernel, schedule: Schedule) -> Verdict:
    return legality.check(recurrence_nest(kernel), recurrence_steps(kernel, schedule))


def ring_of(kernel: Kernel, schedule: Schedule) -> int | None:
    """The fewest state planes that this schedule can do with: lag + 1 where no state is overwritten before its last read
    (isl's answer about the anti-dependences), else None: a plane a time step."""
    rec = require_recurrence(kernel)
    if not last_only(rec):
        return None
    planes = lag_of(rec) + 1
    safe = legality.check(recurrence_nest(kernel, planes), recurrence_steps(kernel, schedule))
    return planes if safe else None


def scheduled_recurrence(kernel: Kernel, schedule: Schedule) -> LoopNest:
    """The nest in the schedule's order, on the storage `ring_of` found. The innermost loop is marked as lanes where its
    iterations are independent. Raises IllegalTransform with the two iterations."""
    nest = recurrence_nest(kernel, ring_of(kernel, schedule))
    nest = legality.require(nest, recurrence_steps(kernel, schedule), where=kernel.name)
    inner = band_of(require_recurrence(kernel))[-1]
    if legality.check(nest, Parallel(inner)):
        nest = replace(nest, marks=(*nest.marks, (inner, "lanes")))
    return nest
