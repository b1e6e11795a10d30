"""Scans as C++: what a thread's neighbouring elements come to in front of each, then over lanes by exchange, over waves through shared
memory, and over what is left of a thread's registers. The steps are read off the layout, digits of the axis from the fastest on.

    sum[g]      what group g of a thread's neighbouring elements comes to, then with those of the lanes and waves that it was joined with
    front[g]    what stands in front of group g in what it was joined with
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autocomp.targets.simt.digits import digit, register
from autocomp.targets.simt.expressions import function, held, literal, under
from autocomp.targets.simt.peel_tail import whole_turn
from autocomp.targets.simt.trees import leave

from autocomp.errors import UnsupportedOp
from autocomp.ir.monoids import identity
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.simt.printer import Printer


@dataclass(frozen=True)
class Step:
    """Digits of one level whose elements are joined: (digit, its weight in the number of a lane, a wave, or a group)."""

    level: str
    digits: tuple[tuple[Digit, int], ...]

    @property
    def count(self) -> int:
        n = 1
        for d, _ in self.digits:
            n *= d.count
        return n


@dataclass(frozen=True)
class Steps:
    """How a layout's elements along an axis are joined. `inner`: the digit of a thread's neighbouring elements and its weight among the
    registers; `outer`: the others, which number its groups."""

    inner: tuple[Digit, int] | None
    outer: tuple[tuple[Digit, int], ...]
    steps: tuple[Step, ...]

    @property
    def groups(self) -> int:
        n = 1
        for d, _ in self.outer:
            n *= d.count
        return n


def steps_of(layout: Layout, axis: str) -> Steps:
    """The steps from the fastest digit on; waves' digits that follow each other are one step."""
    found = [(d, w, level) for level in ("reg", "lane", "wave") for d, w in weights(getattr(layout, level)) if d.axis == axis]
    found.sort(key=lambda x: x[0].stride)
    inner = found[0][:2] if found and found[0][2] == "reg" else None
    outer = tuple((d, w) for d, w in weights(layout.reg) if inner is None or (d, w) != inner)
    number, below = {}, 1
    for d, w in outer:
        number[d, w], below = below, below * d.count
    steps: list[Step] = []
    for d, w, level in found[1 if inner else 0 :]:
        pair = (d, number[d, w] if level == "reg" else w)
        if level == "wave" and steps and steps[-1].level == "wave":
            steps[-1] = Step("wave", (*steps[-1].digits, pair))
        else:
            steps.append(Step(level, (pair,)))
    return Steps(inner, outer, tuple(steps))


Combine = Callable[[str, str], str]


def scan(at: Printer, s: Stmt) -> None:
    """One scan. Raises UnsupportedOp where its operand lies otherwise than its result, or over the blocks of a cluster."""
    src, dst, axis, back = at.bufs[s.srcs[0]], at.bufs[s.dst], s.axis.lstrip("-"), s.axis.startswith("-")
    layout = at.place.layouts[s.dst]
    if at.place.layouts[src.name] != layout or at.place.cluster > 1:
        raise UnsupportedOp(f"the scan {s.dst} goes over elements that lie elsewhere", where=f"kernel {at.p.name}",
                            hint="take a schedule without clusters")  # fmt: skip
    how, op = steps_of(layout, axis), str(s.expr)
    combine = lambda a, b: function(op, [a, b], dst.dtype)
    neutral, x, y = literal(identity(op, dst.dtype), dst.dtype), at.names.of(src.name), at.names.of(s.dst)
    total, front, n = at.names.fresh("sum"), at.names.fresh("front"), how.groups
    d, w = how.inner or (Digit(axis, 1, 1), 1)
    place = " + ".join(text for text in (_spread("g", how.outer), f"e * {w}" if w > 1 else "e") if text != "0")
    inside = at.inside(layout, [axis], "r") if not at.covered(src.name, op) else []
    at.put(f"{held(dst.dtype)} {total}[{n}], {front}[{n}];")

    def own(inside: list[str]) -> None:
        with at.block(f"for (int g = 0; g < {n}; ++g)", unroll=True):
            at.put(f"{total}[g] = {front}[g] = {neutral};")
            order = f"for (int e = {d.count - 1}; e >= 0; --e)" if back else f"for (int e = 0; e < {d.count}; ++e)"
            with at.block(order, unroll=True):
                at.put(f"const int r = {place};")
                join = f"{total}[g] = {combine(f'{total}[g]', f'{x}[r]')};"
                at.put(under(inside, join))
                at.put(f"{y}[r] = {total}[g];")

    if inside and axis in at.place.peeled:
        with at.block(f"if ({whole_turn(at, axis)})"):
            own([])
        with at.block("else"):
            own(inside)
    else:
        own(inside)
    for k, step in enumerate(how.steps):
        level = {"reg": _registers, "lane": _lanes, "wave": _waves}[step.level]
        level(at, step, how, total, front, combine, back, f"scan {k} of {s.dst}", neutral, layout, s)
    for carried in s.srcs[1:]:
        _carry(at, carried, layout, how, total, front, combine)
    if how.steps or s.srcs[1:]:
        with at.block(f"for (int g = 0; g < {n}; ++g)", unroll=True), at.block(f"for (int e = 0; e < {d.count}; ++e)", unroll=True):
            at.put(f"const int r = {place};", f"{y}[r] = {combine(f'{front}[g]', f'{y}[r]')};")


def _carry(at: Printer, name: str, layout: Layout, how: Steps, total: str, front: str, combine: Combine) -> None:
    """What the turns before came to stands in front of every group, and this turn's total is added to it."""
    mine, carry = at.place.layouts[name], at.names.of(name)
    last = [w for d, w in _numbers(how.outer) if d.axis not in {x.axis for x in mine.reg}]
    with at.over(how.groups, "g"):
        at.put(f"const int r = {_spread('g', how.outer)};", f"const int c = {register(mine, layout, 'r', name)};",
               f"{front}[g] = {combine(f'{carry}[c]', f'{front}[g]')};")  # fmt: skip
    with at.over(how.groups, "g"):
        first = f"if ({' && '.join(f'g / {w} % {d.count} == 0' for d, w in _numbers(how.outer) if w in last)}) " if last else ""
        at.put(f"const int r = {_spread('g', how.outer)};", f"const int c = {register(mine, layout, 'r', name)};",
               f"{first}{carry}[c] = {combine(f'{carry}[c]', f'{total}[g]')};")  # fmt: skip


def _numbers(outer: Sequence[tuple[Digit, int]]) -> list[tuple[Digit, int]]:
    """Each digit of the groups with its weight in a group's number."""
    return weights(tuple(d for d, _ in outer))


def _spread(g: str, outer: Sequence[tuple[Digit, int]]) -> str:
    """The register of a group's first element."""
    parts, below, total = [], 1, 1
    for d, _ in outer:
        total *= d.count
    for d, w in outer:
        text = f"{g} / {below}" if below > 1 else g
        text += f" % {d.count}" if below * d.count < total else ""
        parts.append(f"({text}) * {w}" if w > 1 else f"({text})")
        below *= d.count
    return " + ".join(parts) or "0"


def _lanes(at: Printer, step: Step, how: Steps, total: str, front: str, combine: Combine, back: bool, key: str, neutral: str,
           layout: Layout, s: Stmt) -> None:  # fmt: skip
    """Halves of ever more lanes: the half behind puts the other's sum in front of its own."""
    ((d, w),) = step.digits
    for bit in range((d.count - 1).bit_length()):
        mask = w << bit
        behind = f"lane / {mask} % 2 == {int(not back)}"
        with at.over(how.groups):
            at.put(f"const {held(at.bufs[s.dst].dtype)} other = ac_shuffle_xor({total}[r], {mask});")
            at.put(f"if ({behind}) {front}[r] = {combine('other', f'{front}[r]')};")
            at.put(f"{total}[r] = {combine(f'{total}[r]', 'other')};")


def _waves(at: Printer, step: Step, how: Steps, total: str, front: str, combine: Combine, back: bool, key: str, neutral: str,
           layout: Layout, s: Stmt) -> None:  # fmt: skip
    """Every wave leaves its sums in shared memory and reads those of its peers."""
    dtype, n = at.bufs[s.dst].dtype, how.groups
    box, _ = leave(at, total, n, layout.waves, dtype, key)
    every = tuple(d for d, _ in weights(layout.wave))
    mine = {w for _, w in step.digits}
    kept = [digit(at.warp, Digit(d.axis, w, d.count), w, every) for d, w in weights(layout.wave) if w not in mine]
    peers, below = [("0", 0)], 1
    me = []
    for d, w in step.digits:
        me.append(digit(at.warp, Digit(d.axis, below, d.count), w, every))
        peers = [(f"{p} + {i * w}" if i else p, q + i * below) for i in range(d.count) for p, q in peers]
        below *= d.count
    number = at.names.fresh("place")
    at.put(f"const int {number} = {' + '.join(f'({x})' for x in me)};")
    with at.over(n):
        at.put(f"{held(dtype)} before = {neutral}, all = {neutral};")
        for p, q in sorted(peers, key=lambda x: -x[1] if back else x[1]):
            at.put(f"const {held(dtype)} part{q} = {box}[(({' + '.join((*kept, p))}) * {n} + r) * {at.place.wave} + lane];")
            at.put(f"if ({q} {'>' if back else '<'} {number}) before = {combine('before', f'part{q}')};")
            at.put(f"all = {combine('all', f'part{q}')};")
        at.put(f"{front}[r] = {combine('before', f'{front}[r]')};", f"{total}[r] = all;")


def _registers(at: Printer, step: Step, how: Steps, total: str, front: str, combine: Combine, back: bool, key: str, neutral: str,
               layout: Layout, s: Stmt) -> None:  # fmt: skip
    """Groups of a thread, one after another."""
    ((d, w),) = step.digits
    n, carry = how.groups, at.names.fresh("carry")
    with at.block(f"for (int h = 0; h < {n // d.count}; ++h)", unroll=True):
        at.put(f"{held(at.bufs[s.dst].dtype)} {carry} = {neutral};")
        order = f"for (int v = {d.count - 1}; v >= 0; --v)" if back else f"for (int v = 0; v < {d.count}; ++v)"
        first = f"h % {w} + h / {w} * {w * d.count}" if w > 1 else f"h * {d.count}"
        with at.block(order, unroll=True):
            at.put(f"const int g = {first} + v * {w};", f"{front}[g] = {combine(carry, f'{front}[g]')};",
                   f"{carry} = {combine(carry, f'{total}[g]')};")  # fmt: skip
        with at.block(f"for (int v = 0; v < {d.count}; ++v)", unroll=True):
            at.put(f"{total}[{first} + v * {w}] = {carry};")
