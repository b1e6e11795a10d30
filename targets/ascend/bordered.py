"""Tiles that lie in part outside of a tensor: pads, the parts of a concatenation, windows at an edge.

    i1 - 3 >= 0, 39 - i1 >= 0 else 1    ->    copy columns max(0, 3 - s) .. min(n, 40 - s) of the tile; where(3 <= i1 < 40, copied, 1)

The part inside is copied to where it belongs, lanes that begin within a block by padding on the left. What lies outside holds anything
until a selection puts the fill there; where an expression reads the value only where it lies inside, nothing is selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from autocomp.targets.ascend.copies import Region
from autocomp.targets.ascend.geometry import Geometry, values
from autocomp.targets.ascend.masks import difference, holds_inside
from autocomp.targets.ascend.tables import interface

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Expr, Inside, Map
from autocomp.tile.program import Tensor, TileProgram, Value, walk


@dataclass(frozen=True)
class Inner:
    """The part of a tile inside of a tensor's guards: along an axis the text of its first index and of the one behind its last, which may
    name the counter of a loop over the rows of an axis further out (`looped`)."""

    ends: Mapping[str, tuple[str, str]]
    declarations: tuple[str, ...]
    looped: frozenset[str] = frozenset()

    def spread(self, axis: str, step: int) -> Inner:
        """The same where a tile holds what lies between its elements along an axis too."""
        first, end = self.ends[axis]
        return replace(self, ends={**self.ends, axis: (f"({first} * {step})", f"(({end} - 1) * {step} + 1)")})


def inner(t: Tensor, name: str, wide: tuple[str, ...], start: Mapping[str, str], true: Mapping[str, str], where: str) -> Inner:
    """What of a tile with several elements along the axes `wide` is inside.

        c a + rest >= 0   ->   a >= ceil(-rest / c), or a < ceil((rest + 1) / -c), or all or nothing where no wide axis is named

    Of a guard about several wide axes (a window's tap and its place) the innermost has ends for each row of the others. Raises
    UnsupportedOp for one that is not affine, and where rows differ in their border alone (a triangle): each would be copied again."""
    low = dict.fromkeys(wide, "0")
    high = {a: f"int32_t({true[a]})" for a in wide}
    looped: set[str] = set()
    for g in sorted(t.guard, key=lambda g: sum(a in g.names() for a in wide)):
        named = [a for a in wide if a in g.names()]
        if not g.is_affine:
            raise UnsupportedOp(f"{t.name} is read with a border [{g}]", where=where, hint="borders are along axes of the tile")
        if still := [a for a in named if len(named) > 1 and all(a not in i.names() for i in t.index)]:
            raise UnsupportedOp(f"{t.name} is read with a border [{g}], and does not vary along {still[0]}", where=where,
                                hint="choose by indices behind the copy")  # fmt: skip
        terms = [f"{g.coef(a)} * int32_t({start[a]})" for a in sorted(g.names()) if start[a] != "0"]
        terms += [f"{g.coef(a)} * int32_t(r_{a})" for a in named[:-1]]
        rest = " + ".join([*terms, str(g.const)])
        axis = named[-1] if named else wide[-1]
        looped.update(named[:-1])
        c = g.coef(axis)
        if c > 0:
            low[axis] = f"ac_most({low[axis]}, ac_ceil(-({rest}), {c}))"
        elif c < 0:
            high[axis] = f"ac_fewest({high[axis]}, ac_ceil({rest} + 1, {-c}))"
        else:
            high[axis] = f"({rest} >= 0 ? {high[axis]} : 0)"
    lines, ends = [], {}
    for a in wide:
        if any(f"r_{b})" in x for b in looped for x in (low[a], high[a])):
            ends[a] = (low[a], high[a])
            continue
        ends[a] = (f"{name}_lo_{a}", f"{name}_hi_{a}")
        lines.append(f"const int32_t {ends[a][0]} = {low[a]}, {ends[a][1]} = {high[a]};")
    return Inner(ends, tuple(lines), frozenset(looped))


def bordered_lines(r: Region, part: Inner, g: Geometry, lane: str, local: str, where: str) -> tuple[str, ...]:
    """Text that copies a tile's part inside from memory. Raises UnsupportedOp where elements do not lie side by side."""
    if r.step.get(lane, 0) != 1:
        raise UnsupportedOp(f"elements of {r.tensor.removesuffix('_g')} along axis {lane} lie {r.step.get(lane, 0)} apart", where=where,
                            hint="vector cores copy rows; transpose the tensor beforehand")  # fmt: skip
    first, end = part.ends[lane]
    each = 32 // r.bytes  # elements of a block
    left, count = f"{first} % {each}", f"({end} - {first})"
    rows = [(a, n) for a, n in g.rows if n > 1]
    last = rows[-1][0] if rows else ""
    most = interface().most("DataCopyExtParams", "blockCount")
    block = bool(rows) and last not in part.looped and r.step.get(last, 0) >= g.lanes[lane] and rows[-1][1] <= most
    pitch = g.pitch(lane)
    apart = _apart(rows, pitch)
    outer = [a for a, _ in (rows[:-1] if block else rows)]
    inner_rows = f"{part.ends[last][1]} - {part.ends[last][0]}" if block else "1"
    at = [f"r_{a} * {apart[a]}" for a in outer] + ([f"{part.ends[last][0]} * {apart[last]}"] if block else [])
    gm = [f"{r.step[a]}ull * r_{a}" for a in outer if r.step.get(a, 0)]
    gm += [f"{r.step[last]}ull * {part.ends[last][0]}"] if block else []
    gap = f"({pitch * r.bytes} - ({left} * {r.bytes} + {count} * {r.bytes} + 31) / 32 * 32) / 32" if block else "0"
    far = f"({r.step[last]} - {count}) * {r.bytes}" if block else "0"
    copy = (f"DataCopyPad({local}[{' + '.join([*at, f'{first} / {each} * {each}'])}], {r.tensor}[{' + '.join([r.base, *gm, first])}], "
            f"ac_copy({inner_rows}, {count} * {r.bytes}, {far}, {gap}), {{false, uint8_t({left}), 0, 0}});")  # fmt: skip
    loops = [f"for (int32_t r_{a} = {part.ends[a][0]}; r_{a} < {part.ends[a][1]}; ++r_{a})" for a in outer]
    some = " && ".join(f"{part.ends[a][0]} < {part.ends[a][1]}" for a in (*((last,) if block else ()), lane))
    lines = [*loops, f"if ({some})"] if part.looped else [f"if ({some})", *loops]  # one copy stands behind all of them
    return tuple("  " * i + x for i, x in enumerate((*lines, copy)))


def _apart(rows: list[tuple[str, int]], pitch: int) -> dict[str, int]:
    """Elements of unified buffer between neighbours along each row axis."""
    out = {}
    for a, n in reversed(rows):
        out[a] = pitch
        pitch *= n
    return out


def asked_outside(name: str, t: Tensor, p: TileProgram) -> list[Aff]:
    """The guards behind which somebody reads the fill of a copied value."""
    left = [g for g in t.guard if not holds_inside(g, p)]
    asked: list[Aff] = []
    for s, _ in walk(p.body):
        if s.op not in ("map", "copy", "fill") and name in s.srcs:
            return left
        if isinstance(s.expr, Expr) and name in values(s.expr):
            asked += [g for known in _readings(s.expr, name, ()) for g in left if not any(_follows(g, k) for k in known)]
    return [g for g in left if g in asked]


def _readings(e: Expr, name: str, known: tuple[Aff, ...]) -> Iterator[tuple[Aff, ...]]:
    """What is known to be at least 0 at each place of an expression that reads a value."""
    if isinstance(e, Value):
        if e.name == name:
            yield known
    elif isinstance(e, Map) and e.fn == "where":
        condition, x, y = e.operands
        yield from _readings(condition, name, known)
        yield from _readings(x, name, (*known, *_facts(condition, True)))
        yield from _readings(y, name, (*known, *_facts(condition, False)))
    else:
        for a in e.args:
            yield from _readings(a, name, known)


def _facts(c: Expr, holds: bool) -> tuple[Aff, ...]:
    """Index expressions that are at least 0 where a condition holds, or where it does not."""
    if isinstance(c, Inside):
        return c.guard if holds else ((-c.guard[0] - 1,) if len(c.guard) == 1 else ())
    if isinstance(c, Map) and c.fn == "not":
        return _facts(c.operands[0], not holds)
    if isinstance(c, Map) and c.fn == ("and" if holds else "or"):
        return tuple(f for a in c.operands for f in _facts(a, holds))
    if (found := difference(c)) is None:
        return ()
    d, how = found
    true = {"LT": (-d - 1,), "LE": (-d,), "GT": (d - 1,), "GE": (d,), "EQ": (d, -d)}
    false = {"LT": (d,), "LE": (d - 1,), "GT": (-d,), "GE": (-d - 1,), "NE": (d, -d)}
    return (true if holds else false).get(how, ())


def _follows(g: Aff, known: Aff) -> bool:
    """Whether g >= 0 follows from known >= 0."""
    rest = g - known
    return rest.is_const and rest.const >= 0
