"""Scores in half precision on the cube core (directive `half_scores`): parts of their columns, each its own product and way out.

    S = Q K'; S to memory    ->    for part: S = Q K[part]'; S to memory as halves, in blocks of sixteen columns

Two parts lie in L0C, so one leaves beside the next one's product. Q stays in L0A for all rounds of a tile. Where rows of keys and of values
lie one behind the other in memory, `n` of them are copied to L1 as one row, which takes fewer starts: the parts are then the columns of
one remainder, and their blocks are put between each other as those of the values lie.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.targets.ascend.cube import FIX, MTE1, Factor, M, Part, Some
from autocomp.targets.ascend.frames import Frame
from autocomp.targets.ascend.geometry import extent, strides, tile_of
from autocomp.targets.ascend.tables import interface, stored

from autocomp.cost.engines import columns_at_once
from autocomp.errors import UnsupportedOp
from autocomp.ir.types import F16
from autocomp.tile.agents import Again, Work
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.ascend.split import Split


def at_once(sp: Split) -> int:
    """Columns of scores that leave at once."""
    assert sp.halves is not None
    lane, (weighted,) = sp.halves.of.lane, [x for x in sp.products if sp.halves.of.factor.dst in x.srcs]
    wide = [[a for a in sp.buf[x].axes if a != lane and tile_of(sp.p, a) > 1] for x in sp.sides(weighted)]
    m, n = (sp.cube.size(axes[0] if axes else "") for axes in wide)
    return columns_at_once(m, n + (sp.cube.size("") if sp.beside else 0), sp.cube.size(lane), sp.cube.chip)


def columns(sp: Split, s: Stmt, m: str, n: str, k: str) -> None:
    """A product in parts of its columns, each of which leaves as halves in blocks of columns."""
    assert sp.halves is not None
    (a, b), above, whole, rows = sp.sides(s), sp.frame, sp.cube.whole(n), sp.cube.size(m)
    size = at_once(sp)
    scratch = sp.scratch(s.dst, F16, rows, sp.vector.g.pitch(n))
    slot, name, fold, fractal = sp.slot(scratch), f"{n}_columns", sp.factors[b].folded, sp.cube.size("")
    if split := size < sp.cube.size(n):
        sp.loops.append(name)
        sp.frame = Frame(name, f"{name}_round")
    if fold > 1:  # columns of one remainder
        head = f"for (uint32_t {name} = 0; {name} < {fold}; ++{name}, ++{name}_round) {{"
        columns = f"{whole} / {fold}" if not whole.isdigit() else str(int(whole) // fold)
        some = Some(size, columns, f"{name} * {size * sp.cube.size(k)}", size, size)
        to, apart = f"{slot} + {name} * {rows * fractal}", fold * rows
    else:
        head = f"for (uint32_t {name} = 0; {name} < {whole}; {name} += {size}, ++{name}_round) {{"
        even = whole.isdigit() and int(whole) % size == 0
        columns = whole if not split else str(size) if even else f"ac_least({size}, {whole} - {name})"
        beside = sp.cube.size(n), fractal  # elements from column to column and from row to row of scores
        step, each = beside if sp.factors[b].cols == k else (fractal, sp.cube.size(k))
        some = Some(size, columns, f"{name} * {each}" if split else "0", step, sp.cube.size(sp.factors[b].rows))
        to, apart = f"{slot} + {name} * {rows}" if split else slot, rows
    sp.frame.declarations.append(sp.cube.ring("l0c", s.dst, "float", rows * size, sp.frame.turn, sp.cube.slots - sp.cube.sums))
    part, frame = sp.in_parts(sp.fed_at_once(a, m, n, k), k)
    near = [fed_once(sp, a, m, k, part)] if stays(sp, sp.factors[a], m, n, k) else []
    for v, side, other, of in ((a, "a", m, None), (b, "b", n, some))[len(near) :]:
        text, line, work = sp.cube.feed(sp.factors[v], side, other, part, frame.turn, of)
        frame.declarations.append(line)
        frame.works.append(work)
        near.append(text)
    first = f"{part.begin} == 0" if part.begin else "true"
    line = f"ac_mmad({s.dst}, {near[0]}, {near[1]}, {sp.cube.count(m)}, {some.whole}, {part.count}, {first});"
    sp.multiply(frame, Work(M, (near[0].partition("[")[0], near[1]), (s.dst,), (line,)))
    out = f"ac_fixpipe_blocks({scratch.name}_g[{to}], {s.dst}, {sp.cube.count(m)}, {some.whole}, {apart});"
    sp.frame.works.append(Work(FIX, (s.dst,), (scratch.name,), (out,), apart=(scratch.name,)))
    if split:
        inside, sp.frame = sp.frame, above
        above.works.append(Again(name, (head, *("  " + d for d in inside.declarations)), inside.body, ("}",)))
    sp.halves.fold = fold
    sp.halves.arrive(scratch.name, slot, rows)


def stays(sp: Split, f: Factor, m: str, n: str, k: str) -> bool:
    """Whether a factor of scores that a tile has once stays in L0A for all its rounds: it takes no more room there than two slots."""
    return f.name in sp.once and f.cols == k and sp.cube.size(k) <= 2 * sp.fed_at_once(f.name, m, n, k)


def stays_in_loop(sp: Split, f: Factor) -> bool:
    """The same of a factor that has just been copied."""
    s = next(x for x in sp.products if f.name in x.srcs)
    if sp.halves is None or s.dst != sp.halves.of.acc:
        return False
    a, b = sp.sides(s)
    (m, k), (n, depth) = sp.axes_of(a, s), sp.axes_of(b, s)
    return a == f.name and stays(sp, f, m, n, k or depth)


def fed_once(sp: Split, a: str, m: str, k: str, part: Part) -> str:
    """A factor's copy to L0A in front of the loop; gives the text of a part of it."""
    name, size, rows = f"{a}_a", sp.cube.size(k), sp.cube.size(m)
    place = f"[{part.begin} * {rows}]" if part.begin else ""
    if (a, "a", id(sp.tile)) not in sp.fed:
        element = stored(sp.buf[a].dtype, sp.p.name)
        sp.tile.declarations.append(sp.cube.ring("l0a", name, element, rows * size, "", 1 - sp.cube.slots))
        line = f"ac_to_l0a({name}{place}, {a}{place}, {sp.cube.whole(m)}, {part.whole}, {rows});"
        loop = f"for (uint32_t {part.begin} = 0; {part.begin} < {sp.cube.count(k)}; {part.begin} += {part.size}) "
        sp.tile.works.append(Work(MTE1, (a,), (name,), ((loop if part.begin else "") + line,)))
        sp.fed[a, "a", id(sp.tile)] = name
    return name + place


def folded(sp: Split, f: Factor, apart: int, bordered: bool) -> int:
    """How many rows of a factor are copied as one: as many as scores leave in parts, each of the columns with one remainder, where the rows
    of all that they multiply lie one behind the other and their parts fill fractals; else 1."""
    if sp.halves is None or bordered or f.rows != sp.halves.of.lane or any(s.of for s in sp.halves.of.steps):
        return 1  # what is added lies in memory in the keys' order
    columns, fractal = at_once(sp), sp.cube.size("")
    n = sp.cube.size(f.rows) // columns
    if n < 2 or extent(sp.p, f.rows) % (n * fractal) or tile_of(sp.p, f.rows) != n * columns:
        return 1
    if n * fractal * apart > interface().most("Nd2NzParams", "dstNzMatrixStride"):  # from band to band of values
        return 1
    others = [rows_apart(sp, x) for s in sp.products for x in s.srcs if f.rows in sp.buf[x].axes and x in sp.copied]
    whole = all(apart == tile_of(sp.p, c) == extent(sp.p, c) and apart % fractal == 0 for apart, c in others)
    return n if whole and len(others) == 2 else 1


def rows_apart(sp: Split, name: str) -> tuple[int, str]:
    """How far the rows of a factor in memory lie apart, 0 for rows that are not side by side elements, and the axis of its columns."""
    t = sp.p.tensor(sp.copied[name])
    assert t is not None
    try:
        f, apart = sp.factor(name, strides(replace(t, guard=()), sp.p.name)[0])
    except UnsupportedOp:
        return 0, name
    return 0 if t.guard or f.rows != sp.halves.of.lane else apart, f.cols  # type: ignore[union-attr]
