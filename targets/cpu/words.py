"""Words of bytes over windows: four steps of depth of each place of an image are gathered once, borders filled, not once for each tap.

    panel[r1][r2][q][i2] = bytes 4q .. 4q + 3 of x[.., i1 + r1 - 1, i2 + r2 - 1], each read where it lies inside
    ->  words[q][u1][u2] = bytes 4q .. 4q + 3 of x[.., u1 - 1, u2 - 1]
        panel[r1][r2][q][i2] = words[q][i1 + r1][i2 + r2]

A panel may hold columns of several lines. Their words then lie apart by as much from each line to the next, so that a vector of them is one
read for each line in it, of which lanes are taken by masks made once a panel.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING

from autocomp.targets.cpu.expressions import CTYPE
from autocomp.targets.cpu.flat import Flat, View
from autocomp.targets.cpu.tree import Contraction

from autocomp.cost.derived import constant
from autocomp.ir.affine import Aff

if TYPE_CHECKING:
    from autocomp.targets.cpu.lower import Nest
    from autocomp.targets.cpu.packing import Panels
    from autocomp.targets.cpu.shape import Shape

NEAR = 1 << 19  # bytes that stay in the second cache of a current core
WORD = 4  # steps of depth, and bytes


@dataclass(frozen=True)
class Line:
    """A dimension that windows slide along: they read x at `at`, of which one term is `step` times the axis of results `row` ("" for none),
    the others are taps; `count` places in one tile, of which those from `low` to below `high` of the image are read."""

    at: Aff
    row: str
    step: int
    count: int
    low: int
    high: int


@dataclass(frozen=True)
class Words:
    """The buffer: words along `near`, one dimension of lines after the other, the last one that of neighbours in memory."""

    view: View
    near: str
    size: int
    lines: tuple[Line, ...]

    @property
    def places(self) -> int:
        return prod(x.count for x in self.lines)

    @property
    def elements(self) -> int:
        return -(-self.size // WORD) * self.places

    def apart(self, row: str) -> int:
        """Words from one step along an axis of results to the next."""
        at = next(i for i, x in enumerate(self.lines) if x.row == row)
        return self.lines[at].step * prod(x.count for x in self.lines[at + 1 :])


def words_of(nest: Nest, c: Contraction, s: Shape) -> Words | None:
    """The buffer that a contraction of bytes reads its windows from; None where windows do not overlap enough, where they do not run
    along the places of the image, or where it would not stay near."""
    v, m = nest.views.get(s.b), c.mmas[0]
    if "stage_windows" not in nest.schemes or len(c.mmas) != 1 or v is None or v.constant or len(s.depth) < 2:
        return None
    if any(nest.dtype_of(x).bytes != 1 for x in m.srcs) or any(x in nest.tile and not _inside(c, x) for x in s.depth):  # type: ignore[attr-defined]
        return None
    near, taps = s.depth[-1], frozenset(s.depth[:-1])
    if v.flat != Flat.of(v.index, v.shape) or not isinstance(nest.extent[near], int):
        return None
    lines = _lines(nest, v, near, taps)
    if lines is None or not _hold(lines, v, near, taps) or not _slide(nest, lines, v, s):
        return None
    bounded = [g for g in v.guard if not any(_bound(g, line) for line in lines)]
    again = prod(int(nest.extent[x]) for x in taps) / prod(min(x.step, _taps(nest, x)) for x in lines)
    found = Words(v, near, int(nest.extent[near]), tuple(_bounded(line, v.guard) for line in lines))
    return found if not bounded and again >= constant("staged_words") and found.elements * WORD <= NEAR else None


def _lines(nest: Nest, v: View, near: str, taps: frozenset[str]) -> list[Line] | None:
    """The image's dimensions along which windows slide; None where taps step along one in another way, or beside the words' own axis."""
    lines: list[Line] = []
    for i, extent in zip(v.index, v.shape, strict=True):
        names = i.names()
        if not i.is_affine or (near in names and (i.coef(near) != 1 or names & taps)):
            return None
        if near in names or not names & taps:
            if all(nest.tile.get(x) == 1 for x in names - {near}):
                continue
            if near in names:
                return None
        line = _line(nest, i, taps, extent)
        if line is None:
            return None
        lines.append(line)
    return lines


def _hold(lines: list[Line], v: View, near: str, taps: frozenset[str]) -> bool:
    """Whether each tap is in one line, and the last line runs along memory; words are in one dimension beside them."""
    names = [x for line in lines for x in line.at.names()]
    last = bool(lines) and lines[-1].at == v.index[-1]
    return last and sum(near in i.names() for i in v.index) == 1 and taps <= {*names} and len(names) == len({*names})


def _slide(nest: Nest, lines: list[Line], v: View, s: Shape) -> bool:
    """Whether what the image is read by in a tile are rows of lines, each its own, and the tile's columns slide along the last line."""
    rows = [line.row for line in lines if line.row]
    others = {s.col, *s.outer} & set(v.axes) - {x for x, t in nest.tile.items() if t == 1}
    return others <= {*rows} and len({*rows}) == len(rows) and s.col == lines[-1].row


def turns(line: int, lanes: int) -> int:
    """Lines that begin inside of a vector at most, where vectors of `lanes` columns go on over lines of `line` columns."""
    near = gcd(line, lanes)  # beginnings are multiples of it
    return (lanes - 2 * near) // line + 1 if near < lanes else 0


def _inside(c: Contraction, axis: str) -> bool:
    return c.loop is not None and axis in c.loop.axes


def _line(nest: Nest, at: Aff, taps: frozenset[str], extent: object) -> Line | None:
    sizes = {x: nest.extent[x] for x in at.names()}
    rows = [x for x in sizes if x not in taps]
    if len(rows) > 1 or not isinstance(extent, int) or not all(isinstance(e, int) and at.coef(x) > 0 for x, e in sizes.items()):
        return None
    row = rows[0] if rows else ""
    step = at.coef(row) if row else 1
    length = min(nest.tile.get(row, int(nest.extent[row])), int(nest.extent[row])) if row else 1
    reach = sum(at.coef(x) * (int(e) - 1) for x, e in sizes.items() if x in taps)  # type: ignore[call-overload]
    return Line(at, row, step, step * (length - 1) + max(reach + 1, step), 0, extent)


def _taps(nest: Nest, line: Line) -> int:
    return prod(int(nest.extent[x]) for x in line.at.names() if x != line.row)


def _bound(g: Aff, line: Line) -> tuple[int, int] | None:
    """(sign, constant) of a guard that says sign * place + constant >= 0 of a place of the image; None where it does not."""
    names = line.at.names()
    if not g.is_affine or g.names() != names or not names:
        return None
    sign = 1 if g.coef(next(iter(names))) > 0 else -1
    if any(g.coef(x) != sign * line.at.coef(x) for x in names):
        return None
    return sign, g.const - sign * line.at.const


def _bounded(line: Line, guard: tuple[Aff, ...]) -> Line:
    low, high = line.low, line.high
    for sign, c in (b for b in (_bound(g, line) for g in guard) if b):
        low, high = (max(low, -c), high) if sign > 0 else (low, min(high, c + 1))
    return replace(line, low=low, high=high)


class WordsPrinter:
    """Prints the buffer and what reads it, for one contraction's panels."""

    def __init__(self, panels: Panels, w: Words) -> None:
        self.panels, self.p, self.w = panels, panels.p, w

    def _first(self, row: str) -> str:
        return self.p.bounds(row)[0] if row else "0"

    def fill(self) -> None:
        """The loops that fill the buffer for the current tile."""
        p, w = self.p, self.w
        *outer, last = w.lines
        with ExitStack() as loops:
            loops.enter_context(p.block(f"for (long q = 0; q < {-(-w.size // WORD)}; q++)"))
            inside, place = [], "q"
            for n, x in enumerate(outer):
                loops.enter_context(p.block(f"for (long u{n} = 0; u{n} < {x.count}; u{n}++)"))
                p.w(f"const long x{n} = u{n} + {self._origin(x)};")
                inside.append(f"x{n} >= {x.low} && x{n} < {x.high}")
                place = f"({place})*{x.count} + u{n}"
            p.w(f"int32_t *restrict line = words + ({place})*{last.count};")
            p.w(f"const vi border = vi_set((int32_t)0x{(int(w.view.fill) & 255) * 0x01010101:08x}u);")
            p.w(f"const long first = {self._origin(last)};")
            here = " && ".join(inside)
            begin, end = f"ac_clamp({last.low} - first, {last.count + 1})", f"ac_clamp({last.high} - first, {last.count + 1})"
            p.w(f"const long begin = {f'!({here}) ? {last.count} : ' if here else ''}{begin};")
            p.w(f"const long end = {f'!({here}) ? {last.count} : ' if here else ''}{end};")
            p.w(f"for (long u = 0; u < begin; u += {p.lanes}) vi_store(line + u, border);")
            self._body(outer)
            p.w(f"for (long u = end; u < {last.count}; u += {p.lanes}) vi_store(line + u, border);")

    def _origin(self, x: Line) -> str:
        first = self._first(x.row)
        return f"{x.step}*{first} + ({x.at.const})" if first != "0" else f"({x.at.const})"

    def _body(self, outer: list[Line]) -> None:
        """A line's places that lie inside, in whole vectors and the rest."""
        p, w = self.p, self.w
        zero = {x: "0" for line in w.lines for x in line.at.names()}
        steps = [w.view.flat.stride(line.at.terms[0][0]) for line in w.lines]  # type: ignore[arg-type]
        units = [int(step) // line.at.terms[0][1] for step, line in zip(steps, w.lines, strict=True)]  # type: ignore[arg-type]
        const = sum(u * line.at.const for u, line in zip(units, w.lines, strict=True))
        at = w.view.flat.text({**zero, w.near: f"({WORD}*q)"})
        at += f" - ({const})" + "".join(f" + x{n}*{u}" for n, u in enumerate(units[:-1]))
        far = w.view.flat.stride(w.near)
        kind, short = CTYPE[w.view.dtype.name], w.view.dtype.name

        def word(n: str) -> str:
            tail, parts = f"_n({{}}, {n})" if n else "({})", []
            for i in range(WORD):
                read = f"vi_load_{short}" + tail.format(f"from + u + {i}*(long)({far})")
                ask = f"{WORD}*q + {i} < {w.size} ? " if i and w.size % WORD else ""
                parts.append(f"({ask}vi_byte({read}, {i}){' : vi_set(0)' if ask else ''})")
            return " | ".join(parts)

        with p.block("if (begin < end)"):
            p.w(f"const {kind} *from = {w.view.pointer} + ({at}) + first;")
            p.w("long u = begin;")
            p.w(f"for (; u + {p.lanes} <= end; u += {p.lanes}) vi_store(line + u, {word('')});")
            p.w(f"if (u < end) vi_store(line + u, {word('end - u')});")

    # ---- rows of panels
    def start(self) -> None:
        """Where the columns of each vector of the current panel begin, and the lanes from which they are those of the next lines."""
        p, k = self.p, self.panels
        if not k.wide:
            return
        col, wide, width = k.s.col, k.wide, k.nest.extent[k.s.col]
        first, steps = self._first(wide), (self.w.apart(wide), self.w.apart(col))
        for j in range(k.nv):
            at = f"({col}_p + {j * p.lanes})" if j else f"{col}_p"
            line = f"({at}/{width} - {first})" if first != "0" else f"{at}/{width}"
            p.w(f"const long x{j} = {at} % {width}, at{j} = {line}*{steps[0]} + x{j}*{steps[1]};")
            for n in range(1, turns(int(width), p.lanes) + 1):  # type: ignore[call-overload]
                p.w(f"const vm turn{j}_{n} = vi_iota() >= vi_set((int32_t)({n * int(width)} - x{j}));")  # type: ignore[call-overload]

    def row(self, at: str) -> None:
        """One row of a panel: words of the steps from `at` on."""
        p, k = self.p, self.panels
        step, lanes = self.w.lines[-1].step, p.lanes
        load = lambda a: f"vi_load({a})" if step == 1 else f"vi_strided({a}, {step})"
        if not k.wide:
            p.w(f"const int32_t *from = words + ({self._place(at, {k.s.col: f'{k.s.col}_p'})});")
            for j in range(k.nv):
                self._store(j, load(f"from + {j * lanes * step}"))
        else:
            width = int(k.nest.extent[k.s.col])  # type: ignore[call-overload]
            on = self.w.apart(k.wide) - width * self.w.apart(k.s.col)  # from a line's end to the next one's begin
            p.w(f"const int32_t *from = words + ({self._place(at, {k.s.col: '', k.wide: ''})});")
            for j in range(k.nv):
                q = load(f"from + at{j}")
                for n in range(1, turns(width, lanes) + 1):
                    q = f"vi_select(turn{j}_{n}, {load(f'from + at{j} + {n * on}')}, {q})"
                self._store(j, q)
        p.w(f"out += {k.nr * k.kind.rows};")

    def _store(self, j: int, words: str) -> None:
        """A vector of a panel's row, or of both rows of its words (see `Arithmetic.pairs`)."""
        p, k = self.p, self.panels
        if k.kind.pairs:
            places = [f"out + {odd * k.nr + j * p.lanes}" for odd in (0, 1)]
            p.w(f"{{ const vi q = {words}; " + " ".join(f"vi_store({x}, {k.kind.half('q', odd)});" for odd, x in enumerate(places)) + " }")
        else:
            p.w(f"vi_store(out + {j * p.lanes}, {words});")

    def _place(self, at: str, rows: dict[str, str]) -> str:
        """Where the words of the steps from `at` on begin, rows of lines as in `rows` ("": the first)."""
        text = f"({at})/{WORD}"
        for x in self.w.lines:
            row = rows.get(x.row, x.row)
            first = self._first(x.row)
            terms = [f"({row}{f' - {first}' if first != '0' else ''})*{x.step}"] if row else []
            terms += [f"{a}*{n}" for a, n in x.at.terms if a != x.row]
            text = f"({text})*{x.count} + {' + '.join(terms) or '0'}"
        return text
