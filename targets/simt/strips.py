"""Windows of one thread that overlap are read as strips (directive `window_strips`): each element of memory is loaded once.

    before   x: reg (i2,1,8)(r1,1,5)      40 loads: window i2 at tap r1 reads x[i2 + r1]
    after    strip of 12                  12 loads; register (i2, r1) is element i2 + r1 of the strip

A dimension read at c*i + d*r, with i a result's axis and r a tap's, both in registers, has the offsets {c*i + d*r}. They are a strip where
they lie evenly, one step from each to the next. An element is there where the first window that reads it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import gcd, prod

from autocomp.targets.simt.digits import digit
from autocomp.targets.simt.placed import Placement, tile_of

from autocomp.ir.affine import Aff
from autocomp.ir.body import Map
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Tensor, TileProgram, walk


@dataclass(frozen=True)
class Slide:
    """One dimension: offset = by * (number of `out`) + apart * (number of `tap`), `length` of them, `step` from one to the next.
    `taps`: the largest number of the tap."""

    out: str
    tap: str
    by: int
    apart: int
    taps: int
    step: int
    length: int

    @property
    def carrier(self) -> tuple[str, int]:
        """The axis whose number says where an element of the strip lies, and how far that goes from one element to the next."""
        return (self.out, self.step // self.by) if self.step % self.by == 0 else (self.tap, self.step // self.apart)

    def first(self, place: str) -> str:
        """The number of the first window that reads the element at a place of the strip."""
        at = f"({place}) * {self.step}" if self.step > 1 else f"({place})"
        beyond = f"({at} - {self.apart * self.taps - self.by + 1}) / {self.by}" if self.by > 1 else f"{at} - {self.apart * self.taps}"
        return f"({at} > {self.apart * self.taps} ? {beyond} : 0)"

    def exact(self, numbers: Iterable[int]) -> bool:
        """Whether that is one of the windows that read it."""
        mine = sorted(numbers)
        for n in range(self.length):
            o = n * self.step
            low = max(0, -(-(o - self.apart * self.taps) // self.by))
            if low not in mine or (o - self.by * low) % self.apart:
                return False
        return True


@dataclass(frozen=True)
class Strip:
    """The elements that a thread loads of a view: as `layout`, in which the axis that carries a slide has its elements' digit and the other
    one none; `slides`, by the number of that digit."""

    layout: Layout
    slides: tuple[tuple[Slide, int], ...]

    @property
    def registers(self) -> int:
        return self.layout.registers

    def place(self, n: int, r: str) -> str:
        """The place in its strip of register r of `layout`, along slide n."""
        at = self.slides[n][1]
        return digit(r, Digit("", 1, self.layout.reg[at].count), weights(self.layout.reg)[at][1], self.layout.reg)

    def register(self, mine: Layout, of: Layout, r: str) -> str:
        """The strip's register with the element at register r of layout `of`, where the whole value would lie as `mine`."""
        where = {(d.axis, d.stride, d.count): w for d, w in weights(of.reg)}
        weight = {(d.axis, d.stride, d.count): w for d, w in weights(self.layout.reg)}
        slid = {a: (c // s.step, weights(self.layout.reg)[at][1]) for s, at in self.slides for a, c in ((s.out, s.by), (s.tap, s.apart))}
        parts = []
        for d in mine.reg:
            times, w = slid[d.axis] if d.axis in slid else (1, weight[d.axis, d.stride, d.count])
            text = digit(r, Digit(d.axis, d.stride * times if d.axis in slid else 1, d.count), where[d.axis, d.stride, d.count], of.reg)
            parts.append(f"({text}) * {w}" if w > 1 else f"({text})")
        return " + ".join(parts) or "0"


def slid(t: Tensor, reduced: Collection[str]) -> list[tuple[str, str, Aff]]:
    """(result's axis, tap's axis, index) of the dimensions along which windows slide."""
    found = []
    for i in t.index:
        names = sorted(i.names())
        taps, outs = [n for n in names if n in reduced], [n for n in names if n not in reduced]
        if len(taps) == 1 and len(outs) == 1 and i.is_affine:
            found.append((outs[0], taps[0], i))
    return found


def strip_of(p: TileProgram, layout: Layout, t: Tensor, reduced: Collection[str], vector: int) -> Strip | None:
    """The strip of a view's fragment, None where windows share nothing in a thread or lie unevenly. `vector`: elements of an access."""
    if not all(i.is_affine for i in t.index) or not all(g.is_affine for g in t.guard):
        return None
    slides: list[Slide] = []
    for out, tap, i in slid(t, reduced):
        by, apart = i.coef(out), i.coef(tap)
        mine, taps = _numbers(layout, out), _numbers(layout, tap)
        if len(mine) < 2 or len(taps) < 2:
            continue
        offsets = sorted({by * a + apart * b for a in mine for b in taps}) if by > 0 and apart > 0 else []
        if len(offsets) == len(mine) * len(taps) or not offsets:
            continue
        step = gcd(*offsets)
        elsewhere = any(out in j.names() or tap in j.names() for j in t.index if j is not i)
        even = offsets[-1] // step + 1 == len(offsets) and taps == list(range(len(taps)))
        alike = all(g.coef(out) * apart == g.coef(tap) * by for g in t.guard)
        whole = not cut(p, layout, tap)
        if by % step or apart % step:
            return None
        s = Slide(out, tap, by, apart, len(taps) - 1, step, len(offsets))
        if elsewhere or not even or not alike or not whole or not (step % by == 0 or step % apart == 0):
            return None
        if cut(p, layout, out) and not s.exact(mine):
            return None
        slides.append(s)
    gone = {a for s in slides for a in (s.out, s.tap)}
    if not slides:
        return None
    rest = [d for d in layout.reg if d.axis not in gone]
    first = 1
    for d in layout.reg:
        if d.axis in gone:
            break
        first *= d.count
    if first % vector:
        return None
    reg = (*rest, *(Digit(s.carrier[0], s.carrier[1], s.length) for s in slides))
    return Strip(Layout(reg, layout.lane, layout.wave), tuple((s, len(rest) + n) for n, s in enumerate(slides)))


def cut(p: TileProgram, layout: Layout, axis: str) -> bool:
    """Whether some elements of a layout lie beyond a tile or beyond the axis."""
    e = p.extent(axis)
    return layout.extent(axis) != tile_of(p, axis) or not isinstance(e, int) or bool(e % tile_of(p, axis))


def _numbers(layout: Layout, axis: str) -> list[int]:
    """What a thread's registers add to an axis."""
    mine = [d for d in layout.reg if d.axis == axis]
    out = [0]
    for d in mine:
        out = [x + n * d.stride for n in range(d.count) for x in out]
    return sorted(out)


def multiplied(p: TileProgram, place: Placement) -> frozenset[str]:
    """Products of strips that one reduction adds up: compilers make each a multiply-add where it is added, and no register holds it."""
    stmts = [s for s, _ in walk(p.body)] if place.strips else []
    readers = lambda name: [(s.op, str(s.expr)) for s in stmts if name in s.srcs]
    product = lambda e: isinstance(e, Map) and e.fn == "mul" and e.dtype.is_float
    return frozenset(s.dst for s in stmts if s.op == "map" and product(s.expr) and place.strips.keys() & set(s.srcs)
                     and readers(s.dst) == [("reduce", "add")])  # fmt: skip


def share(strip: Strip | None, layout: Layout) -> float:
    """Of a fragment's elements those that are loaded."""
    return strip.registers / prod(d.count for d in layout.reg) if strip else 1.0
