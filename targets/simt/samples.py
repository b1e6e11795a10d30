"""Some waves of a placed tile program, as numbers: what the printer writes as text of coordinates, evaluated where it can be counted.

A sample is a wave of some block in some turn of its loops. They are spread over every axis by multiples of irrational numbers, so that a
count over a few of them is near that over all, and the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, sqrt
from typing import Any

import numpy as np
from autocomp.targets.simt.placed import Placement, Shared, tile_of

from autocomp.forks import kept_property
from autocomp.ir.affine import Aff
from autocomp.ir.masks import tiles_inside
from autocomp.ir.types import dim_hint
from autocomp.quick import quick
from autocomp.tile.layout import Digit, Layout, weights
from autocomp.tile.program import Loop, Tensor, TileProgram

WAVES = 16  # samples
REGISTERS = 32  # of a value that are looked at
BANKS, WORD = 32, 4  # of shared memory: CUDA C++ programming guide, and as many in MACA's
SECTOR, LINE = 32, 128  # bytes: CUDA C++ best practices guide, coalesced access
TAGS = 4  # lines of a load that a core's cache takes in a clock: 32 lines took 8.4 clocks where no banks collide (32 where they do), and
# neighbours that begin anywhere 1.07. Stores of 32 lines took 16 on one core; they count as 32, as all cores write to one L2: a product
# whose lanes store 16 bytes of a line each took 422 us, 223 by whole lines (targets/cuda/microbenchmarks.yaml, H100, 2026-11-27)
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
Array = Any  # of numbers


@dataclass(frozen=True)
class Limit:
    """A condition on elements: `left` is negative where it fails. Two of one `name` are limits of one index, from both sides. `known`:
    no index of a block or a loop is in it, so that compilers see where it always holds."""

    name: Any
    left: Array
    known: bool

    @kept_property
    def holds(self) -> Array:
        """Where."""
        return self.left >= 0

    @kept_property
    def asked(self) -> Array:
        """For which registers the text of a kernel keeps it."""
        if self.left.shape[:2] == (1, 1):
            return np.zeros(self.left.shape[-1], bool)
        if not self.known:
            return np.ones(self.left.shape[-1], bool)
        return ~self.holds.all(axis=(0, 1)) & self.holds.any(axis=(0, 1))


@quick
@dataclass(frozen=True)
class Accesses:
    """Accesses of sampled waves: bytes from a buffer's beginning and which lanes make them, as (accesses, lanes); `times`: how many each
    stands for."""

    place: Array
    there: Array
    times: Array

    @kept_property
    def _sectors(self) -> Array:
        """Those that lanes name, in order (-1: of lanes that make no access)."""
        return np.sort(np.where(self.there, self.place // SECTOR, -1), axis=1)

    def _first(self, grain: int) -> tuple[Array, Array]:
        """The pieces of `grain` bytes, of whole sectors, that lanes name, as `_sectors` are, and which stand there first."""
        ordered = self._sectors // (grain // SECTOR)
        first = np.ones_like(ordered, dtype=bool)
        first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
        return ordered, first

    def distinct(self, grain: int) -> float:
        """Pieces of `grain` bytes that the lanes of a wave name, in the mean of the samples and summed over the registers."""
        ordered, first = self._first(grain)
        return float((first & (ordered >= 0)).sum(axis=1) @ self.times) / WAVES

    def partial(self, bytes_: int) -> float:
        """Sectors that the lanes of a wave, `bytes_` each at different places, name without covering them: the same measure."""
        ordered, first = self._first(SECTOR)
        begin = np.flatnonzero(first)
        lanes = np.diff(np.append(begin, ordered.size))
        part = (lanes * min(bytes_, SECTOR) < SECTOR) & (ordered.ravel()[begin] >= 0)
        return float(np.bincount(begin // ordered.shape[1], part, len(ordered)) @ self.times) / WAVES

    def passes(self, bytes_: int) -> float:
        """Times that the lanes of a wave pass over the banks of shared memory, in which a core's cache lies too, for accesses of `bytes_`
        at `place`, of lanes that make none at the first one's: the same measure. Wide accesses of a wave are made in parts, each of as
        many neighbouring lanes as fill the banks; half as many where each lane and its neighbour, or the one behind that, name the same
        place (accesses of 8 and 16 bytes at drawn places: 2 and 4 clocks, 1 and 2 where pairs of lanes agree, however many more do; H100,
        2026-11-28)."""
        place = np.where(self.there, self.place, self.place[:, :1])
        parts = max(1, place.shape[1] * min(bytes_, 16) // (BANKS * WORD))
        lane = np.arange(place.shape[1])
        if parts > 1 and any((place[:, lane ^ apart] == place).all() for apart in (1, 2)):
            parts //= 2
        together = np.split(place, parts, axis=1) if place.shape[1] % parts == 0 else [place]
        return sum(float(_passes(x, bytes_) @ self.times) / WAVES for x in together)


def accesses(place: Array, there: Array) -> Accesses:
    """Of (samples, lanes, registers). Where lanes lie apart alike in all accesses, those that begin alike in a line and are made by the
    same lanes are told once: sectors, lines and banks ask for no more of them."""
    samples, lanes, registers = place.shape
    apart = place - place[:, :1]
    if lanes not in (32, 64) or not (apart == apart[:1, :, :1]).all() or (there & (place < 0)).any():
        rows = lambda x: np.moveaxis(x, 1, 2).reshape(samples * registers, lanes)
        return Accesses(rows(place), rows(there), np.ones(samples * registers, np.int64))
    same = place[:, 0] % LINE
    if not there.all():
        lanes_of = np.ascontiguousarray(np.moveaxis(np.packbits(there, axis=1), 1, 2)).view(f"u{lanes // 8}")
        same = same + LINE * np.unique(lanes_of, return_inverse=True)[1].reshape(same.shape)
    _, at, times = np.unique(same, return_index=True, return_counts=True)
    sample, register = np.divmod(at, registers)
    return Accesses(place[sample, :, register], there[sample, :, register], times)


def _passes(place: Array, bytes_: int) -> Array:
    """Passes of lanes whose accesses are made at once, of each."""
    words = np.sort(np.concatenate([place // WORD + i for i in range(max(1, bytes_ // WORD))], axis=1), axis=1)
    first = np.ones_like(words, dtype=bool)
    first[:, 1:] = words[:, 1:] != words[:, :-1]
    bank = np.arange(len(words))[:, None] * BANKS + words % BANKS
    return np.bincount(bank[first], minlength=len(words) * BANKS).reshape(-1, BANKS).max(axis=1)


class Samples:
    """Coordinates of sampled waves; arrays are (samples, lanes, registers)."""

    def __init__(self, p: TileProgram, place: Placement) -> None:
        self.p, self.place = p, place
        self.extent = {a: dim_hint(e) for a, e in p.axes}
        self.lane = np.arange(place.wave).reshape(1, -1, 1)
        self.wave = self._spread(0, max(1, place.threads // place.wave)).reshape(-1, 1, 1)
        self.base: dict[str, Array] = {}
        self._local: dict[tuple[int, int], dict[str, Any]] = {}  # by the numbers of a layout and of the registers that are looked at
        self._known: dict[tuple[Layout, int], tuple[dict[str, Array], dict[str, list[Limit]], Array]] = {}  # in the loops around

    def _spread(self, n: int, count: int) -> Array:
        """Numbers below `count`, one a sample."""
        step = sqrt(PRIMES[n % len(PRIMES)]) % 1
        return (((np.arange(WAVES) + 0.5) * step % 1) * count).astype(np.int64)

    def enter(self, loop: Loop) -> None:
        """The tiles of a loop's axes."""
        for a in loop.axes:
            size = tile_of(self.p, a)
            n = 1 + [x for x, _ in self.p.axes].index(a)
            self.base[a] = (self._spread(n, -(-self.extent[a] // size)) * size).reshape(-1, 1, 1)
        self._known.clear()

    def leave(self, loop: Loop) -> None:
        for a in loop.axes:
            self.base.pop(a, None)
        self._known.clear()

    def registers(self, layout: Layout, step: int = 1) -> tuple[Array, float]:
        """Numbers of the registers that are looked at, and how many each of them stands for."""
        return _looked_at(max(1, layout.registers // step), step)

    def local(self, layout: Layout, axis: str, r: Array) -> Array:
        known = self._local.setdefault((id(layout), id(r)), {"": (layout, r)})  # kept: no others have their numbers
        if axis not in known:
            known[axis] = _value(layout.reg, axis, r) + _value(layout.lane, axis, self.lane) + _value(layout.wave, axis, self.wave)
        return known[axis]

    def at(self, layout: Layout, r: Array) -> dict[str, Array]:
        """Indices along every axis, of registers `r` of a layout."""
        return self._around(layout, r)[0]

    def _around(self, layout: Layout, r: Array) -> tuple[dict[str, Array], dict[str, list[Limit]], Array]:
        """Indices of registers, and limits of axes as they are asked for: once for all views of a loop's body. And the registers."""
        found = self._known.get((layout, id(r)))
        if found is None:
            mine = layout.axes()
            at = {a: self.base.get(a, 0) + (self.local(layout, a, r) if a in mine else 0) for a in self.extent}
            found = self._known[layout, id(r)] = at, {}, r
        return found

    def inside(self, layout: Layout, axes: Sequence[str], r: Array) -> list[Limit]:
        """The limits of axes that are asked."""
        known = self._around(layout, r)[1]
        for a in axes:
            if a not in known:
                known[a] = self._limits(layout, a, r)
        return [x for a in axes for x in known[a]]

    def _limits(self, layout: Layout, a: str, r: Array) -> list[Limit]:
        t, e, covers = tile_of(self.p, a), self.extent[a], layout.extent(a)
        here = self.local(layout, a, r) if a in layout.axes() else np.zeros((1, 1, 1), np.int64)
        if a not in self.base:
            return [Limit(a, e - 1 - here, True)] if covers > t else []
        out = [Limit(f"{a} of a tile", t - 1 - here, True)] if covers > t else []
        return [*out, Limit(a, e - 1 - self.base[a] - here, False)] if e % t else out

    def guard(self, guard: Sequence[Aff], at: dict[str, Array]) -> list[Limit]:
        """The limits that a view's guards are."""
        name = lambda g: frozenset((str(a), abs(c)) for a, c in g.terms)
        left = lambda g: np.asarray(g.eval(_Hinted(at))) + np.zeros((1, 1, 1), np.int64)  # of a number alone too
        return [Limit(name(g), left(g), not g.names() & self.base.keys()) for g in guard]

    def shape(self, r: Array) -> tuple[int, int, int]:
        return WAVES, self.place.wave, r.shape[-1]

    def address(self, t: Tensor, at: dict[str, Array]) -> Array:
        """Bytes from a buffer's beginning."""
        place, pitch = np.zeros((1, 1, 1), np.int64), 1
        for i, n in zip(reversed(t.index), reversed(t.shape)):
            place, pitch = place + np.asarray(i.eval(_Hinted(at))) * pitch, pitch * dim_hint(n)
        return place * t.dtype.bytes

    def passes(self, place: Array, bytes_: int) -> float:
        """`Accesses.passes` of accesses that all lanes make."""
        return accesses(place, np.ones(place.shape, bool)).passes(bytes_)

    def swizzled(self, x: Shared, row: Array, col: Array) -> Array:
        """Where an element of a shared operand lies: rows that are `apart` side by side, chunks permuted as by `ac_swizzle`."""
        row = row if x.apart == 1 else row % x.apart * (x.rows // x.apart) + row // x.apart
        chunks, byte = x.row_bytes // 16, col * x.buf.dtype.bytes
        if not x.swizzled:
            return row * x.row_bytes + byte
        phases = next((n for n in (8, 4, 2) if chunks % n == 0), 1) if chunks else 1
        return row * x.row_bytes + (((byte >> 4) ^ (row // (8 // phases) % phases)) << 4) + (byte & 15)

    def linear(self, group: Sequence[tuple[str, int]], layout: Layout, r: Array) -> Array:
        """The number of an element along combined axes, innermost first."""
        out, below = np.zeros((1, 1, 1), np.int64), 1
        for axis, size in group:
            out, below = out + self.local(layout, axis, r) * below, below * size
        return out

    def wanted(self, guards: Sequence[Aff]) -> float:
        """The share of tiles in which all of these may be at least 0."""
        return tiles_inside(guards, self.extent, {a: tile_of(self.p, a) for g in guards for a in g.names()})

    def turns(self, loop: Loop) -> float:
        """Turns of a loop, in the mean of blocks."""
        total = 1.0
        for a in loop.axes:
            total *= -(-self.extent[a] // tile_of(self.p, a))
        if loop.until is None:
            return total
        axis, constant = loop.until
        last = self.base.get(axis, np.zeros(1)) + tile_of(self.p, axis) - 1 + constant
        return float(np.minimum(total, np.maximum(0, last // tile_of(self.p, loop.axes[0]) + 1)).mean())


@lru_cache(maxsize=256)
def _looked_at(n: int, step: int) -> tuple[Array, float]:
    """`Samples.registers` of `n` accesses of `step` registers."""
    few = np.unique(np.linspace(0, n - 1, min(n, REGISTERS)).astype(np.int64))
    return (few * step).reshape(1, 1, -1), n / len(few)


class _Hinted(dict[str, Any]):
    """Indices; a symbol stands for the size that is expected of it, which no text of an index says: one."""

    def __missing__(self, name: str) -> int:
        return 1


def _value(level: Sequence[Digit], axis: str, number: Array) -> Array:
    """What a level's digits contribute to an axis."""
    out: Array = 0
    for d, w in weights(level):
        if d.axis == axis:
            out = out + number // w % d.count * d.stride
    return out


def footprint(t: Tensor, size: dict[str, int]) -> tuple[float, float]:
    """Bytes of the sectors that hold a view's distinct elements over so many neighbouring indices of each axis, and of those of them that
    it has in part: both ends of each run of memory that begins nowhere or anywhere in a sector, in the mean."""
    runs, run, pitch, grain, together = 1.0, float(t.dtype.bytes), t.dtype.bytes, 0, True
    for i, d in zip(reversed(t.index), reversed(t.shape)):
        low, high = i.range({a: size.get(a, 1) for a in i.names()})
        whole = dim_hint(d)
        span = min(high - low + 1, whole, _points(i, size))
        if span < whole or not together:  # begins at multiples of it
            grain = gcd(grain, span * pitch if together else pitch)
        runs, run = (runs, run * span) if together else (runs * span, run)
        together, pitch = together and span == whole, pitch * whole
    grain = gcd(grain, SECTOR)
    if grain == SECTOR:
        return runs * -(-run // SECTOR) * SECTOR, 0.0
    cut = 1 - grain / SECTOR
    return runs * (run + cut * SECTOR), runs * 2 * cut * SECTOR


def _points(a: Aff, size: dict[str, int]) -> int:
    """No more values than there are points."""
    out = 1
    for name in a.names():
        out *= size.get(name, 1)
    return out
