"""Does a tile program that a person wrote mean one thing on every target, whatever order tiles that may run at once run in?

`tile.check_program` sees that it means something. Here: accesses under guards stay in their buffers, nothing is read where it is written,
no iteration of a grid or a parallel loop needs what another one leaves, each element is stored once, and tails change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autocomp.errors import ModelError, VerificationError
from autocomp.loops.access import bounds
from autocomp.tile.check_once import stores, tails
from autocomp.tile.meaning import run
from autocomp.tile.program import Loop, Stmt, TileProgram, reads, walk, without_when

Block = tuple[Stmt | Loop, ...]


def check(p: TileProgram) -> None:
    """Raises ModelError at the first thing that is wrong. All sizes are known."""
    for what, hint in _faults(p):
        raise ModelError(what, where=f"kernel {p.name}", hint=hint)
    _check_options(p)


def _faults(p: TileProgram) -> Iterator[tuple[str, str]]:
    for t in (*p.inputs, *p.outputs):
        if t.guard and (left := bounds(t.index, t.guard, tuple(zip(t.axes, t.extents)), t.shape)).why:
            yield f"{t.name}: {left.why}", "narrow its guard `where .. >= 0`"
    written = {t.buffer for t in p.outputs}
    for t in p.inputs:
        if t.buffer in written:
            yield f"{t.name} reads '{t.buffer}', which the program writes", "give the input a buffer of its own"
    if any(isinstance(n, Loop) and n.kind == "grid" for n in p.body) and len(p.body) > 1:
        yield f"{len(p.body) - 1} loops or statements beside a grid", "write one grid with all of it inside, or two programs"
    yield from _cut(p)
    yield from _carried(p.body, p, ())
    for buffer, why in stores(p):
        yield f"output '{buffer}': {why}", "store each element once, behind loops over other axes"
    for s, why in tails(p):
        yield f"{s}: {why}", "mask it, as `map where(inside(..), x, 0.0)`, or take a tile that divides the axis"


def _cut(p: TileProgram) -> Iterator[tuple[str, str]]:
    """Values of a part of an axis, outside of the loops over it."""
    extent = dict(p.axes)
    cut = {a: f"a tile has {n} of {size}" for a, n in p.tile if isinstance(size := extent[a], int) and n < size}
    for s, loops in walk(p.body):
        b = p.tensor(s.dst) if s.op == "store" else p.buf(s.dst)
        assert b is not None
        if lost := next((a for a in b.axes if a in cut and all(a not in n.axes for n in loops)), ""):
            yield f"{s.dst} goes along {lost}, of which {cut[lost]}, and stands in no loop over it", f"a loop over {lost} around it"


def _carried(body: Block, p: TileProgram, around: Block) -> Iterator[tuple[str, str]]:
    """Dependences through on-chip values that loops whose iterations may run at once carry. `around`: what runs after the body, and then
    before it where its turns follow each other."""
    for i, n in enumerate(body):
        if not isinstance(n, Loop):
            continue
        after = (*body[i + 1 :], *around, *body[:i])
        if n.kind in ("grid", "parallel"):
            made = {name for s, _ in walk(n.body) for name in _writes(s)}
            loop, tile = f"{n.kind} {', '.join(n.axes)}", dict(p.tile)
            far = ", ".join(f"{a} {tile.get(a, p.extent(a))}" for a in n.axes)
            if name := _read_first(n.body, set(made)):
                yield (f"{name} is read and written by every iteration of `{loop}`, which may run at once: a dependence, distance ({far})",
                       f"`serial {n.axes[0]}`, or begin {name} inside of the loop")  # fmt: skip
            if name := _read_first(after, set(made)):
                yield (f"{name} is read behind `{loop}`, and every iteration writes it: which of them is last is not defined, "
                       f"distance ({far})", f"`serial {n.axes[0]}`, or use {name} inside of the loop")  # fmt: skip
        else:
            after = (*n.body, *after)
        yield from _carried(n.body, p, after)


def _writes(s: Stmt) -> set[str]:
    return set() if s.op == "store" else {s.dst, *(s.srcs[1:] if s.op == "scan" else ())}


def _read_first(body: Block, left: set[str]) -> str:
    """One of the values `left` that is read before it is written anew, "" if none is; those that are written anew are taken out of it. The
    first turn of a loop stands for all."""
    for n in body:
        if isinstance(n, Loop):
            if n.opt("of") in left:
                return n.opt("of")
            if found := _read_first(n.body, set(left) if n.kind == "when" or n.until else left):
                return found
            continue
        if early := sorted(reads(n) & left):
            return early[0]
        left -= _writes(n)
    return ""


def _check_options(p: TileProgram) -> None:
    """Raises VerificationError where `until`, `when` or `from=end` change results, as some targets run all turns in order: the first and
    the last tile of the grid with and without them, on seeded inputs in float64."""
    plain = _without_options(without_when(p.body))
    if plain == p.body:
        return
    rng = np.random.default_rng(0)
    arrays = {t.buffer: rng.standard_normal([n for n in t.shape if isinstance(n, int)]) * (1 if t.dtype.is_float else 2) for t in p.inputs}
    tile, sizes = dict(p.tile), [(a, n) for a, n in p.axes if isinstance(n, int)]
    last = {a: (n - 1) // tile.get(a, n) * tile.get(a, n) for a, n in sizes}
    wanted = lambda at: not any(at.values()) or all(last[a] == x for a, x in at.items())
    with np.errstate(all="ignore"):
        one, other = (run(replace(p, body=body), arrays, wanted=wanted) for body in (p.body, plain))
    if lost := next((n for n in one if not np.allclose(one[n], other[n], rtol=1e-6, atol=1e-9, equal_nan=True)), ""):
        what = f"output '{lost}' depends on until, when or from=end, which targets may leave out"
        raise VerificationError(what, where=f"kernel {p.name}", hint="mask what those turns would add, so that they change nothing")


def _without_options(body: Block) -> Block:
    """All turns of every loop, from the first to the last."""
    out: list[Stmt | Loop] = []
    for n in body:
        if isinstance(n, Loop):
            scans = any(s.op == "scan" and s.axis.startswith("-") for s, _ in walk(n.body))
            left = tuple(x for x in n.opts if x[0] != "until" and (x[0] != "from" or scans))
            n = replace(n, body=_without_options(n.body), opts=left)
        out.append(n)
    return tuple(out)
