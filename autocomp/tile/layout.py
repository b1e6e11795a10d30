"""Where the elements of an on-chip value lie among a block's workers: mixed-radix digits of registers, lanes and waves.

A digit (axis, stride, count) contributes (its number mod count) * stride to the axis' index; a level's digits are numbered from
the fastest to the slowest. A digit without an axis is replication. The accumulator of an m16n8k16 matrix instruction:

    reg (n,1,2) (m,8,2)      lane (n,2,4) (m,1,8)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from autocomp.cost.derived import constant
from autocomp.quick import quick

EMPLOYED = constant("employed")  # of the workers, by results of their own: then no result is shared


@quick
@dataclass(frozen=True)
class Digit:
    """axis "" is replication (its stride is 0)."""

    axis: str
    stride: int
    count: int

    def __str__(self) -> str:
        return f"({self.axis or '-'},{self.stride},{self.count})"


@quick
@dataclass(frozen=True)
class Layout:
    """Digits per level, fastest first. Lanes times waves are the workers of a block; every value covers all of them."""

    reg: tuple[Digit, ...]
    lane: tuple[Digit, ...]
    wave: tuple[Digit, ...]

    @property
    def registers(self) -> int:
        """Elements that one worker holds."""
        return prod(d.count for d in self.reg)

    @property
    def lanes(self) -> int:
        return prod(d.count for d in self.lane)

    @property
    def waves(self) -> int:
        return prod(d.count for d in self.wave)

    def extent(self, axis: str) -> int:
        """Elements along an axis that the layout covers (the tile, padded)."""
        return prod(d.count for level in (self.reg, self.lane, self.wave) for d in level if d.axis == axis)

    def uncut(self, axis: str, extent: int) -> int:
        """How many registers, from the first on, lie within `extent` elements of an axis on every worker."""
        mine = [(d, w) for d, w in weights(self.reg) if d.axis == axis]
        last = sum(d.stride * (d.count - 1) for d in (*self.lane, *self.wave) if d.axis == axis)
        inside = lambda r: last + sum(r // w % d.count * d.stride for d, w in mine) < extent
        return next((r for r in range(self.registers) if not inside(r)), self.registers)

    def axes(self) -> frozenset[str]:
        return frozenset(d.axis for level in (self.reg, self.lane, self.wave) for d in level if d.axis)

    def project(self, axes: Iterable[str]) -> Layout:
        """The layout of a value with fewer axes: register digits of the others vanish, thread digits become replication."""
        keep = set(axes)
        drop = lambda level: tuple(d if d.axis in keep else Digit("", 0, d.count) for d in level)
        return Layout(tuple(d for d in self.reg if d.axis in keep), drop(self.lane), drop(self.wave))

    def extend(self, sizes: Mapping[str, int]) -> Layout:
        """The layout of a value with more axes (name -> tile size): workers that held copies share their elements, and registers hold
        what is left."""
        left = dict(sizes)
        stride = dict.fromkeys(sizes, 1)

        def shared(level: Sequence[Digit]) -> Iterator[Digit]:
            for d in level:
                copies = d.count if not d.axis else 1
                for a in sizes if not d.axis else ():
                    n = min(copies, 1 << (left[a] - 1).bit_length())
                    if n > 1 and copies % n == 0:
                        yield Digit(a, stride[a], n)
                        left[a], stride[a], copies = -(-left[a] // n), stride[a] * n, copies // n
                if d.axis or copies > 1:
                    yield d if d.axis else Digit("", 0, copies)

        lane, wave = tuple(shared(self.lane)), tuple(shared(self.wave))
        return Layout((*self.reg, *(Digit(a, stride[a], n) for a, n in left.items() if n > 1)), lane, wave)

    def rename(self, names: Mapping[str, str]) -> Layout:
        """Axes under other names."""
        new = lambda level: tuple(Digit(names.get(d.axis, d.axis), d.stride, d.count) for d in level)
        return Layout(new(self.reg), new(self.lane), new(self.wave))

    def __str__(self) -> str:
        text = lambda level: "".join(map(str, level)) or "()"
        return f"reg {text(self.reg)} lane {text(self.lane)} wave {text(self.wave)}"


def weights(level: Sequence[Digit]) -> list[tuple[Digit, int]]:
    """Each digit with the product of the counts below it: digit value = number / weight % count."""
    out, below = [], 1
    for d in level:
        out.append((d, below))
        below *= d.count
    return out


def split(digit: Digit, sizes: Sequence[tuple[str, int]]) -> tuple[Digit, ...]:
    """A digit of a combined axis as digits of its parts, given innermost first as (axis, power-of-two size).

    The slowest part takes what is left, so its size is not looked at. Raises ValueError where a part's size cuts a digit.
    """
    out: list[Digit] = []
    stride, count = digit.stride, digit.count
    for i, (axis, size) in enumerate(sizes):
        last = i == len(sizes) - 1
        if not last and stride >= size:
            if stride % size:
                raise ValueError(f"axis {axis} of {size} cuts a step of {stride}")
            stride //= size
            continue
        here = count if last else min(count, size // stride)
        if not last and (size % stride or count % here):
            raise ValueError(f"axis {axis} of {size} cuts digit {digit}")
        if here > 1 or count == 1:
            out.append(Digit(axis, stride, here))
        count //= here
        stride = 1
        if count == 1:
            break
    return tuple(out)


def free_layout(sizes: Mapping[str, int], inner: str, vector: int, lanes: int, waves: int, whole: frozenset[str] = frozenset(),
                front: Sequence[str] = (), runs: Collection[str] = (), last: Collection[str] = (),
                strips: Sequence[str] = ()) -> Layout:  # fmt: skip
    """A layout by access pattern: `vector` contiguous elements of axis `inner` a worker, lanes along it, then the other axes.

    sizes   tile size of each axis, outermost first (powers of two except for `inner`, which is padded)
    whole   axes that are reduced: waves go to the other axes first, so that a reduction stays inside a wave where it can, and lanes
            too where the others employ most workers, so that it stays inside a thread
    front   axes whose elements lie next to each other in the memory of some value: first among a worker's elements
    runs    axes along which a worker's elements are neighbours
    last    axes that workers share out when nothing else is left
    strips  axes that they share out after all others, in this order, so that registers hold neighbours along them
    """
    left = dict(sizes)
    vector = min(vector, _power(left[inner]))
    reg = [Digit(inner, 1, vector)] if vector > 1 else []
    first: list[Digit] = []
    done = dict.fromkeys(sizes, 1)
    done[inner] = vector
    late = {a: n for n, a in enumerate(strips, 1)}
    order = sorted([inner, *(a for a in reversed(list(sizes)) if a != inner)], key=lambda a: (a in last, late.get(a, 0)))

    def take(axes: Sequence[str], workers: int) -> tuple[Digit, ...]:
        level: list[Digit] = []
        for a in axes:
            room = -(-left[a] // done[a])
            n = min(workers, _power(room) if room & (room - 1) == 0 or a != inner else 1 << (room - 1).bit_length())
            if n > 1:
                level.append(Digit(a, done[a], n))
                done[a] *= n
                workers //= n
        if workers > 1:
            level.append(Digit("", 0, workers))
        return tuple(level)

    kept, gone = [a for a in order if a not in whole and a not in last], [a for a in order if a in whole]
    gone += [a for a in order if a in last]
    rooms = {a: -(-left[a] // done[a]) for a in kept}
    alone = inner not in whole and prod(_power(2 * n - 1 if a == inner else n) for a, n in rooms.items()) >= EMPLOYED * lanes * waves
    lane = take([*kept, *gone] if alone else order, lanes)
    wave = take([*kept, *gone], waves)
    for a in order:
        n = -(-left[a] // done[a])
        if n > 1 and a in runs:
            lane, wave = (tuple(Digit(a, d.stride * n, d.count) if d.axis == a else d for d in level) for level in (lane, wave))
            reg.append(Digit(a, 1, n))
        elif n > 1:
            (first if a in front else reg).append(Digit(a, done[a], n))
    return Layout((*first, *reg), lane, wave)


def _power(n: int) -> int:
    """The largest power of two that is at most n."""
    return 1 << (n.bit_length() - 1) if n else 1
