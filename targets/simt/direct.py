"""Products whose factors never pass through shared memory: every lane loads, or computes, the elements that it multiplies.

Steps in depth may come in any order as long as both factors agree. A lane holds a run of neighbours in depth, as long as its widest
load is; one step of the instruction takes some of them (four halves, eight bytes), the next lane holds the next run. Waves share the
depth first (each sums its part, the parts meet behind the loop), then the rows.

    depth k, runs of R, c chunks a wave:   reg (k,1,R)(k,4R,c)   lane (k,R,4)   wave (k,4Rc,..)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from autocomp.targets.simt.access import contiguous_axis, vector_width
from autocomp.targets.simt.placed import Product

from autocomp.tile.instruction import Instruction
from autocomp.tile.layout import Digit, Layout, split
from autocomp.tile.program import Buf, Stmt, Tensor

if TYPE_CHECKING:
    from autocomp.targets.simt.placement import Placer

Group = tuple[tuple[str, int], ...]
SLICES = 4  # lanes that share a step's depth
WIDEST = 16  # bytes of a load


def place_direct(at: Placer, s: Stmt, i: Instruction, m: Group, n: Group, k: Group) -> Product:
    """The product placed, with the layouts of its factors and accumulator.

    The factor that is computed is the instruction's first one: more of it is used at once, and the other one's registers are as they
    were loaded. The last turn may be short: loads bring zeros past the end. Raises UnsupportedOp where a factor's loads do not run along
    the depth.
    """
    a, b, c = (at.bufs[x] for x in (*s.srcs, s.dst))
    if at.made[a.name].op == "copy" and at.made[b.name].op != "copy":
        a, b, m, n = b, a, n, m
    depth = prod(size for _, size in k)
    runs = {buf.name: _run(at, buf, k, i.k // SLICES) for buf in (a, b)}
    run = max((runs[x.name] for x in (a, b) if at.made[x.name].op != "copy"), default=min(runs.values()))
    for axis, size in k:
        if not isinstance(extent := at.p.extent(axis), int):
            raise at.refuse(f"the depth along {axis} ({extent}) is known only when it runs, its tile is {size}")
    if depth % (SLICES * run):
        raise at.refuse(f"a depth of {depth} is not shared by {SLICES} lanes in runs of {run}")
    chunks, total = depth // (SLICES * run), at.out.threads // at.out.wave
    parts = 1
    while parts < total and chunks % (2 * parts) == 0:
        parts *= 2
    over = total // parts
    mine = chunks // parts
    high, wide = (prod(x for _, x in group) for group in (m, n))
    rm, rn = max(1, -(-high // (i.m * over))), max(1, -(-wide // i.n))
    inner, outer = Digit("k", 1, run), Digit("k", SLICES * run, mine)
    lane, wave = Digit("k", run, SLICES), Digit("k", SLICES * run * mine, parts)
    blank = lambda count: Digit("", 0, count)
    groups = {"m": m, "n": n, "k": k}
    rows = [Digit("m", i.m // 2, 2), Digit("m", i.m, rm)]
    layouts = {
        a.name: ([inner, outer, *rows], [lane, Digit("m", 1, i.m // 2)], [wave, Digit("m", i.m * rm, over)]),
        b.name: ([inner, outer, Digit("n", i.n, rn)], [lane, Digit("n", 1, i.n)], [wave, blank(over)]),
        c.name: ([*i.c[0], Digit("n", i.n, rn), Digit("m", i.m, rm)], list(i.c[1]), [blank(parts), Digit("m", i.m * rm, over)]),
    }
    for buf in (a, b, c):
        levels = [_over(at, level, groups) for level in layouts[buf.name]]
        if buf is not c:
            levels = [[_alike(d, buf) for d in level] for level in levels]
        at.out.layouts[buf.name] = Layout(tuple(d for d in levels[0] if d.axis), tuple(levels[1]), tuple(levels[2]))
    _hold(at, (a, b), c)
    return Product(s, i, m, n, k, (rm, rn), (over, 1), mine * run * SLICES // i.k, at.out.layouts[c.name], a.name, b.name, parts)


def _run(at: Placer, buf: Buf, k: Group, step: int) -> int:
    """Neighbours in depth that the widest load behind a factor brings to one lane; a step takes `step`.

    Raises UnsupportedOp where the load runs elsewhere.
    """
    main = max(_views(at, buf.name), key=lambda t: prod(at.size(x) for x in t.axes) * t.dtype.bytes)
    near, axes = contiguous_axis(main), [x for x, _ in k]
    if near not in axes:
        raise at.refuse(f"{main.name} lies along {near or 'no axis'}, not along the depth",
                        "take a schedule that keeps factors in shared memory")  # fmt: skip
    inner = prod(size for _, size in k[: axes.index(near)])
    most = WIDEST // main.dtype.bytes
    if at.made[buf.name].op == "copy":
        return inner * most  # over several axes: their vectors are found where they are loaded
    run = inner * min(vector_width(main, near, most, at.p.extent(near)), at.size(near))
    if run % step:
        raise at.refuse(f"loads of {main.name} bring {run} neighbours in depth, a step takes {step}")
    return run


def _views(at: Placer, name: str) -> list[Tensor]:
    """The views that a value is computed from."""
    s = at.made.get(name)
    if s is None:
        return []
    if s.op == "copy":
        t = at.p.tensor(s.srcs[0])
        return [t] if t is not None else []
    return [t for x in s.srcs if x in at.bufs and x != name for t in _views(at, x)]


def _over(at: Placer, level: Sequence[Digit], groups: dict[str, Group]) -> list[Digit]:
    out: list[Digit] = []
    for d in level:
        try:
            out += split(d, groups[d.axis]) if d.axis else (d,)
        except ValueError as e:
            raise at.refuse(f"a tile cannot be laid out: {e}", "use power-of-two tiles") from None
    return [d for d in out if d.count > 1]


def _alike(d: Digit, buf: Buf) -> Digit:
    """Rows or columns that a product has only for the instruction's sake are all alike."""
    return d if d.axis in buf.axes or not d.axis else Digit("", 0, d.count)


def _hold(at: Placer, factors: Sequence[Buf], c: Buf) -> None:
    """Copied factors are held as they are stored, several elements a register; computed ones are made where they are multiplied, and so
    is what only they read."""
    out = at.out
    for buf in factors:
        if at.made[buf.name].op == "copy":
            out.words.add(buf.name)
        else:
            out.late.add(buf.name)
    grown = True
    while grown:
        grown = False
        for s in at.stmts:
            readers = [x for x in at.stmts if s.dst in x.srcs]
            if s.op == "map" and s.dst not in out.late and readers and all(x.dst in out.late for x in readers):
                out.late.add(s.dst)
                grown = True
    behind = [s for s in at.stmts if c.name in s.srcs and s.op not in ("map", "store")]
    if any(at.depends(name, {c.name}) for s in behind for name in s.srcs):
        raise at.refuse(f"{c.name} is summed over waves and then {behind[0].op} reads it")
    out.plain |= {x for buf in factors for x in at.meeting[buf.name]}
