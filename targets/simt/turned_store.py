"""Results whose neighbours in memory lie in different registers leave through shared memory (directive `turned_store`): each thread writes
what it has, and behind a barrier the block stores the tile in memory's order, in wide accesses.

    before   lanes along i1, out[i0, i1, i2, i3] contiguous along i3: a store names 32 lines
    after    tile[i1][i2][i3] in shared memory; a warp stores neighbours along i3

Results of products too: of halves four lanes of a matrix instruction hold 16 bytes of a row, half of a sector, parts of two where rows
begin anywhere (610 columns). Of each such part the cache takes a line of its own, and a warp's next store fills no sector that this one
began: 94 MB stored so took 105 us, as whole lines 23 (H200, 2026-11-28).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING

from autocomp.targets.simt import untied_accumulators
from autocomp.targets.simt.access import access_width, contiguous_axis, vector_width
from autocomp.targets.simt.expressions import STORED, every, under
from autocomp.targets.simt.placed import tile_of

from autocomp.tile.layout import Layout
from autocomp.tile.program import Stmt, Tensor, walk

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer

WIDE = 16  # bytes of the widest access
SECTOR = 32  # bytes that memory writes at once
UNDER_WAY = 8  # chunks that a thread reads before it writes the first


@dataclass(frozen=True)
class Turned:
    """The tile in shared memory: its axes in memory's order with their sizes and pitches in elements, `vector` elements of a chunk. Rows
    begin at multiples of `aligned` elements."""

    axes: tuple[tuple[str, int, int], ...]
    vector: int
    elements: int
    aligned: int

    @property
    def chunks(self) -> int:
        return prod(n for _, n, _ in self.axes) // self.vector


def turned(at: Printer, s: Stmt, t: Tensor) -> Turned | None:
    """How a store would leave so, None where threads have neighbours of it themselves, or where its tile does not lie by axes."""
    layout, near = at.place.layouts[s.srcs[0]], contiguous_axis(t)
    inside = [x for x in walk(at.p.body) if x[0] is s]
    if at.place.cluster > 1 or t.guard or any(x.kind != "grid" for _, loops in inside for x in loops):
        return None
    first = next((d.axis for d in layout.lane if d.axis), "")
    terms = [sorted(i.terms, key=lambda x: -x[1]) for i in t.index]  # of one dimension the axis with the widest step is the outermost
    by_axes = all(isinstance(n, str) and step > 0 for of in terms for n, step in of) and not any(i.const for i in t.index)
    kept = [str(n) for of in terms for n, _ in of]
    if not near or near != kept[-1] or not by_axes or len(set(kept)) != len(kept) or set(kept) != set(t.axes) or layout.axes() - set(kept):
        return None
    size = {a: tile_of(at.p, a) for a in kept}
    width = access_width(at.p, layout, t)
    if size[near] < 2 or width * t.dtype.bytes >= WIDE:
        return None
    if at.place.products:
        run = _side_by_side(layout, near, width)
        bytes_ = min(run, vector_width(t, near, run, at.p.extent(near))) * t.dtype.bytes
        if bytes_ >= SECTOR:
            return None
    elif near == first:
        return None
    vector = gcd(vector_width(t, near, WIDE // t.dtype.bytes, at.p.extent(near)), size[near])
    axes, pitch = list[tuple[str, int, int]](), 1
    for a in reversed(kept):
        pitch += vector if a == first != near else 0  # lanes that go along it are not all at one bank
        axes.append((a, size[a], pitch))
        pitch *= size[a]
        if a == near == first:  # rows of an odd number of chunks: eight rows of one column lie in different banks
            chunk = WIDE // t.dtype.bytes
            pitch = (-(-pitch // chunk) | 1) * chunk
    return Turned(tuple(reversed(axes)), vector, pitch, WIDE // t.dtype.bytes if near == first else vector)


def _side_by_side(layout: Layout, near: str, width: int) -> int:
    """Elements that a warp stores next to each other, `width` a thread."""
    run = width
    for d in layout.lane:
        if d.axis == near and d.stride == run:
            run *= d.count
    return run


def store(at: Printer, s: Stmt, t: Tensor, x: Turned) -> None:
    """Registers to shared memory, a barrier, and shared memory to the tensor."""
    layout, (box, key) = at.place.layouts[s.srcs[0]], memory(at, s, t, x)
    single, v = at.first_of_replicas(layout), beside(at, s, x)
    function = untied_accumulators.stored_by(at, s, t.dtype)
    r = f"(q * {v})" if v > 1 else "q"
    with at.registers(layout, "q", v):
        place = " + ".join(f"({at.local(layout, a, r)}) * {p}" if p > 1 else f"({at.local(layout, a, r)})" for a, n, p in x.axes if n > 1)
        ok = single + [f"{at.local(layout, a, r)} < {n}" for a, n, _ in x.axes if layout.extent(a) > n]
        write = f"{function}<{v}>({box} + {place or '0'}, &{at.names.of(s.srcs[0])}[{r}]);"
        at.put(under(ok, write))
    at.before_read(key)
    _leave(at, t, x, box)


def _leave(at: Printer, t: Tensor, x: Turned, box: str) -> None:
    """The tile to the tensor. Where the block covers whole rows of chunks, a thread's chunks lie one below the other: its column is known
    before the loop. Several chunks are read before the first is written, since a read of shared memory takes 30 clocks to come."""
    near, width, threads = x.axes[-1][0], x.axes[-1][1] // x.vector, at.place.threads
    rows = prod(n for _, n, _ in x.axes[:-1])
    column = lambda number: f"{number} % {width}" + (f" * {x.vector}" if x.vector > 1 else "")
    if x.chunks % threads:
        with at.block(f"for (int c = threadIdx.x; c < {x.chunks}; c += {threads})", unroll=True, most=4):
            here = {near: column("c")} | _coordinates(x.axes[:-1], f"c / {width}")
            _move(at, x, _outside(at, x, here), _to(at, t, here), _from(x, box, here))
        return
    held, u, each = at.names.fresh("held"), at.names.fresh("u"), gcd(x.chunks // threads, UNDER_WAY)
    if threads % width:
        c = at.names.fresh("c")
        number = f"({c} + {u} * {threads})"
        here = {near: column(number)} | _coordinates(x.axes[:-1], f"{number} / {width}")
        beyond, others = "", _outside(at, x, here)
        steps = f"for (int {c} = threadIdx.x; {c} < {x.chunks}; {c} += {threads * each})"
    else:
        row, below = at.names.fresh("row"), threads // width
        mine, above = {near: at.names.fresh("column")}, _coordinates(x.axes[:-1], f"({row} + {u} * {below})")
        at.put(f"const int {mine[near]} = {column('threadIdx.x')};")
        out = _outside(at, x, mine)
        here, beyond, others = mine | above, every(out) if out else "", _outside(at, x, above)
        steps = f"for (int {row} = threadIdx.x / {width}; {row} < {rows}; {row} += {below * each})"
    with at.block(f"if ({beyond})") if beyond else nullcontext(), at.block(steps):
        at.put(f"ac_pack_of<{x.vector}, {STORED[t.dtype.name]}> {held}[{each}];")
        with at.over(each, u):
            _move(at, x, [], f"{held}[{u}].v", _from(x, box, here))
        with at.over(each, u):
            _move(at, x, others, _to(at, t, here), f"{held}[{u}].v")


def _move(at: Printer, x: Turned, conditions: Sequence[str], to: str, of: str) -> None:
    """One chunk, under conditions."""
    at.put(under(conditions, f"ac_move<{x.vector}>({to}, {of});"))


def _coordinates(axes: Sequence[tuple[str, int, int]], number: str) -> dict[str, str]:
    """The index along each axis of the row that has this number."""
    out, below = dict[str, str](), 1
    for i, (a, n, _) in enumerate(reversed(axes)):
        last = prod(m for _, m, _ in axes[: len(axes) - 1 - i]) == 1
        out[a] = "0" if n == 1 else number + (f" / {below}" if below > 1 else "") + ("" if last else f" % {n}")
        below *= n
    return out


def _outside(at: Printer, x: Turned, index: Mapping[str, str]) -> list[str]:
    """Conditions under which chunks at these indices lie in the tensor."""
    return [c.replace("%s", index[a]) for a, n, _ in x.axes if a in index for c in at.outside(a, n, at.base.get(a))]


def _to(at: Printer, t: Tensor, index: Mapping[str, str]) -> str:
    """Where a chunk goes in the tensor."""
    local = lambda a: f" + {index[a]}" if index[a] != "0" else ""
    return at.address(t, lambda a: f"({at.base[a]}{local(a)})" if a in at.base else f"({index[a]})")


def _from(x: Turned, box: str, index: Mapping[str, str]) -> str:
    """Where it lies in shared memory."""
    parts = [f"({index[a]}) * {p}" if p > 1 else f"({index[a]})" for a, n, p in x.axes if n > 1]
    return " + ".join([box, *parts])


def memory(at: Printer, s: Stmt, t: Tensor, x: Turned) -> tuple[str, str]:
    """(pointer, name) of the tile's place in shared memory, which nobody reads any more: that of the factors of products, where they have
    taken as much and no product stands behind the store. All results that leave from there have one name, so that threads meet between."""
    order = [n for n, _ in walk(at.p.body)]
    last = max((i for i, n in enumerate(order) if n.op == "mma"), default=-1) < order.index(s)
    bytes_, factors = x.elements * t.dtype.bytes, at.place.shared.values() if last and not at.turn else ()
    begin = min((f.offset for f in factors), default=0)
    over = max((f.offset + f.bytes * (at.place.depth(f.buf.name) if f.view else 1) for f in factors), default=0) - begin >= bytes_
    key = "stage of results" if over else f"stage of {s.dst}"
    if key not in at.place.trees:
        at.place.trees[key] = begin if over else at.place.reserve(bytes_, WIDE)
    for f in factors if over else ():
        at.before_write(f.buf.name)
    at.before_write(key)
    box, kind = at.names.fresh("box"), STORED[t.dtype.name]
    at.put(f"{kind} *{box} = ({kind} *)({at.memory} + {at.place.trees[key]});")
    return box, key


def beside(at: Printer, s: Stmt, x: Turned) -> int:
    """Registers that lie side by side in shared memory too."""
    first = next(iter(at.place.layouts[s.srcs[0]].reg), None)
    near, n, _ = x.axes[-1]
    v = gcd(x.aligned, first.count) if first and (first.axis, first.stride) == (near, 1) else 1
    return v if n % v == 0 else 1
