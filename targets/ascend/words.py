"""Integers of 32 bits on vector cores (whole.py: Held.words): functions of autocomp_ascend_words.h, none of which leaves its type, as no
public page says whether the unit's integers wrap or saturate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from autocomp.targets.ascend.choices import is_mask, joined, mask_of, numbered, selected, wide
from autocomp.targets.ascend.operand import WORD, Operand, name_of
from autocomp.targets.ascend.tables import table
from autocomp.targets.ascend.whole import SHIFTS

from autocomp.errors import UnsupportedOp
from autocomp.ir.body import Const, Map
from autocomp.ir.types import I64, DType
from autocomp.tile.program import Stmt

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector_core import VectorCore

HEADER = "autocomp_ascend_words.h"
LOWEST = -(2**31)
HALVES = {"add": 2, "mul": 4}  # arrays beside the words that two halves are folded with
BY_MASKS = 2  # and more of these where no unit shifts words


def number(n: int) -> Operand:
    """A constant. C++ has no literal of the lowest one."""
    return Operand(f"({LOWEST + 1} - 1)" if n == LOWEST else str(n), "number", element=WORD)


def as_word(v: VectorCore, o: Operand) -> Operand:
    """A whole number or a truth value as a word."""
    if is_mask(o) and not v.rounds:
        return _truth(v, numbered(v, o))
    o = numbered(v, o)
    return o if o.element == WORD else _cast(v, o, WORD)


def as_float(v: VectorCore, o: Operand) -> Operand:
    """A word in single precision, rounded."""
    return _cast(v, o, "float") if o.element == WORD else o


def _cast(v: VectorCore, o: Operand, element: str) -> Operand:
    d = v.temporary(o.kind, o.lane, element=element)
    v.v([f"Cast({d.name}, {o.name}, RoundMode::CAST_RINT, {v.g.elements(o.kind, o.lane)});"], (o,), d)
    return d


def _truth(v: VectorCore, o: Operand) -> Operand:
    """1.0 or 0.0 as a word, without a conversion: the bits of 1.0 are a number that is larger than 1."""
    d = v.temporary(o.kind, o.lane, element=WORD)
    v.v([f"Mins({d.name}, {o.name}.ReinterpretCast<int32_t>(), 1, {v.g.elements(o.kind, o.lane)});"], (o,), d)
    v.release(o)
    return d


def computed(v: VectorCore, e: Map, args: list[Operand], dying: list[Operand]) -> Operand:
    """An integer of others; those that are `dying` are not read again."""
    if e.fn == "cast":
        x = as_word(v, args[0])
        for o in dying:
            if o != x:
                v.release(o)
        return x
    if e.fn == "where":
        d = chosen(v, args[0], args[1], args[2])
    elif e.fn in SHIFTS:
        d = _shifted(v, e, args)
    elif e.fn == "ordinal":
        d = _ordinal(v, args[0])
    else:
        xs = _alike(v, args)
        row = table()["words"][e.fn]
        kind, lane = xs[0].kind, xs[0].lane
        d = v.temporary(kind, lane, element=WORD)
        _call(v, row, d, xs, v.g.elements(kind, lane))
        _free(v, xs, args)
    for o in dying:
        v.release(o)
    return d


def _shifted(v: VectorCore, e: Map, args: list[Operand]) -> Operand:
    """Words shifted by a number of bits."""
    k = e.operands[1]
    assert isinstance(k, Const)
    x = as_word(v, args[0])
    d, *temps = (v.temporary(x.kind, x.lane, element=WORD) for _ in range(1 if v.shifts else 3))
    operands = ", ".join(o.name for o in (d, x, *temps))
    v.v([f"ac_{e.fn}_i32({operands}, {int(k.value)}, {v.g.elements(x.kind, x.lane)});"], (x,), d, *temps)
    for t in temps:
        v.release(t)
    _free(v, [x], args)
    return d


def _ordinal(v: VectorCore, x: Operand) -> Operand:
    """Where a float stands among all."""
    d, *temps = (v.temporary(x.kind, x.lane, element=WORD) for _ in range(3))
    v.v([f"ac_ordinal_f32({', '.join(o.name for o in (d, x, *temps))}, {v.g.elements(x.kind, x.lane)});"], (x,), d, *temps)
    for t in temps:
        v.release(t)
    return d


def _alike(v: VectorCore, args: list[Operand]) -> list[Operand]:
    """Operands as words with as many elements each."""
    words = [as_word(v, o) for o in args]
    kind, lane = joined(*words)
    out = [wide(v, o, kind, lane) for o in words]
    for w, x, given in zip(words, out, args):
        if w is not x and w is not given:
            v.release(w)
    return out


def _free(v: VectorCore, made: list[Operand], given: list[Operand]) -> None:
    for o in made:
        if o not in given:
            v.release(o)


def _call(v: VectorCore, row: dict[str, object], d: Operand, xs: list[Operand], n: object) -> None:
    """d = a function of operands of a kind."""
    more = 0 if v.shifts else int(str(row.get("by_masks", 0)))
    temps = [v.temporary(d.kind, d.lane, element=WORD) for _ in range(int(str(row.get("temps", 0))) + more)]
    v.v([f"{row['call']}({', '.join(o.name for o in (d, *xs, *temps))}, {n});"], tuple(xs), d, *temps)
    for t in temps:
        v.release(t)


def compared(v: VectorCore, a: Operand, b: Operand, mode: str) -> Operand:
    """A bit an element."""
    xs = _alike(v, [a, b])
    kind, lane = xs[0].kind, xs[0].lane
    mask = mask_of(v, kind, lane)
    temps = [v.temporary(kind, lane, element=WORD) for _ in range(1 if v.shifts else 2)]
    v.v([f"ac_{mode}({', '.join(o.name for o in (mask, *xs, *temps))}, {v.g.compared(kind, lane)});"], tuple(xs), mask, *temps)
    for t in temps:
        v.release(t)
    _free(v, xs, [a, b])
    return mask


def chosen(v: VectorCore, mask: Operand, a: Operand, b: Operand) -> Operand:
    """a where the bit is set, else b: the bit becomes 1 or 0, a factor of both."""
    truth = selected(v, mask, Operand("1.0f", "number"), Operand("0.0f", "number"))
    truth = truth if v.rounds else _truth(v, truth)
    xs = _alike(v, [truth, a, b])
    if truth not in xs:
        v.release(truth)
    kind, lane = xs[0].kind, xs[0].lane
    d = v.temporary(kind, lane, element=WORD)
    i, x, y = xs
    v.v([f"ac_chosen({d.name}, {x.name}, {y.name}, {i.name}, {v.g.elements(kind, lane)});"], (i, x, y), d, i)
    _free(v, xs, [a, b])
    return d


def byte(v: VectorCore, x: Operand, to: DType) -> Operand:
    """The lowest 8 bits of a word in single precision."""
    d, t = v.temporary(x.kind, x.lane), v.temporary(x.kind, x.lane, element=WORD)
    call = "ac_byte" if to.kind == "i" else "ac_unsigned_byte"
    v.v([f"{call}({d.name}, {x.name}, {t.name}, {v.g.elements(x.kind, x.lane)});"], (x,), d, t)
    v.release(t)
    return d


def combined(v: VectorCore, fn: str, state: Operand, x: Operand) -> None:
    """state = fn(state, x), in place."""
    _call(v, table()["words"][fn], state, [state, x], v.g.elements(state.kind, state.lane))
    v.release(x)


# ---- copies
def arrived(v: VectorCore, name: str, got: Operand, dtype: DType) -> Operand:
    """What was copied: of 64 bits the low half or the one that the program says (`pairs.py`), statistics a block a row."""
    dense = got.kind == "stat"
    if dtype == I64 or name in v.halves:
        got = _half(v, name, got)
    got = replace(got, element=WORD)
    if not dense:
        return got
    d = v.temporary("stat", "", name, WORD)
    v.v([f"ac_widen({d.name}, {got.name}, {v.g.slots});"], (got,), d)
    v.release(got)
    return d


def _half(v: VectorCore, name: str, got: Operand) -> Operand:
    g = v.g
    d = v.temporary(got.kind, got.lane, name, WORD)
    rows, n = (g.count, g.pitch(got.lane)) if got.kind == "full" else (1, g.slots if got.kind == "stat" else g.pitch(got.lane))
    places, bits = _offsets(v, 2, n)
    size = f"{4 * v.halves.get(name, 0)}, {rows}, {n}, {2 * n}, {n}"
    v.v([f"ac_half({d.name}, {got.name}.ReinterpretCast<int32_t>(), {bits}, {size});"], (got, places), d)
    v.ub.give(places.offset, n * 4)
    return d


def _offsets(v: VectorCore, step: int, n: int) -> tuple[Operand, str]:
    """Byte offsets of every `step`th of words, `n` of them, and their name as an instruction reads them."""
    at, t = place(v, "places", n), place(v, "line", n, "float")
    v.v([f"ac_offsets({at.name}, {t.name}, {step}, {n});"], (), at, t)
    v.ub.give(t.offset, n * 4)
    return at, f"{at.name}.ReinterpretCast<uint32_t>()"


def place(v: VectorCore, hint: str, n: int, element: str = WORD) -> Operand:
    """Room for so many words."""
    v.names += 1
    o = Operand(name_of(hint, v.names), "place", "", v.ub.take(n * 4), element)
    v.frame.declarations.append(f"const LocalTensor<{element}> {o.name} = ac_at<{element}>(ub, {n * 4}, {o.offset});")
    return o


def compacted(v: VectorCore, o: Operand) -> Operand:
    """Statistics side by side."""
    d = v.temporary("stat", "", element=WORD)
    places, bits = _offsets(v, v.g.elements("stat", "") // v.g.slots, v.g.slots)
    v.v([f"ac_picked({d.name}, {o.name}, {bits}, 1, {v.g.slots}, 0, 0);"], (o, places), d)
    v.ub.give(places.offset, v.g.slots * 4)
    return d


def longs(v: VectorCore, out: Operand, o: Operand, n: int) -> None:
    """Whole numbers as integers of 64 bits, `n` of them side by side, where no conversion gives such."""
    short = o if o.element == WORD else place(v, "short", n)
    if short is not o:
        v.v([f"Cast({short.name}, {o.name}, RoundMode::CAST_RINT, {n});"], (o,), short)
    w, p = place(v, "halves", 2 * n), place(v, "places", 2 * n)
    v.v([f"ac_longs({out.name}, {short.name}, {w.name}, {p.name}, {n});"], (short,), out, w, p)
    for x, size in ((short, n), (w, 2 * n), (p, 2 * n)):
        if x is not o:
            v.ub.give(x.offset, size * 4)


def joined_halves(v: VectorCore, out: Operand, low: Operand, high: Operand, n: int) -> None:
    """Integers of 64 bits of their halves, `n` of them side by side."""
    w, p, t = place(v, "halves", 2 * n), place(v, "places", 2 * n), place(v, "line", 2 * n, "float")
    v.v([f"ac_joined({out.name}, {low.name}, {high.name}, {w.name}, {p.name}, {t.name}, {n});"], (low, high), out, w, p, t)
    for x in (w, p, t):
        v.ub.give(x.offset, 2 * n * 4)


# ---- reductions
def folded(v: VectorCore, s: Stmt, x: Operand) -> Operand:
    """One value a lane from all rows of a tile, or one a row from its lanes, which are turned into rows first: half of the rows at a time.
    Raises UnsupportedOp."""
    g = v.g
    wide_rows = [a for a, n in g.rows if n > 1]
    lanes = s.axis == x.lane
    if x.kind != "full" or (not lanes and (wide_rows != [s.axis] or v.true[s.axis] == "c_row")):
        raise UnsupportedOp(f"a reduction '{s.expr}' of integers over {s.axis} in tiles of rows {', '.join(wide_rows)}", where=v.p.name,
                            hint="one axis of rows, which no two cores share, or the axis of the lanes can be folded")  # fmt: skip
    pitch = g.pitch(x.lane)
    rows = -(-g.count // 16) * 16 if lanes else g.count
    w = place(v, "copied", -(-rows * pitch // 64) * 64)
    v.v([f"Adds({w.name}, {x.name}, 0, {g.count * pitch});"], (x,), w)
    sizes = [-(-rows * pitch // 64) * 64]
    if lanes:
        n = -(-g.lanes[x.lane] // 8) * 8 * rows
        y = place(v, "turned", n)
        v.v([f"ac_turn({y.name}, {w.name}, {rows}, {g.lanes[x.lane]}, {pitch}, {rows});"], (w,), y)
        v.ub.give(w.offset, sizes.pop() * 4)
        w, pitch = y, rows
        sizes.append(n)
    half = -(-sizes[0] // 2 // 8) * 8 + pitch
    count = HALVES.get(str(s.expr), 0)
    temps = [place(v, "half", half) for _ in range(count + BY_MASKS * (count > 0 and not v.shifts))] or [w, w]
    names = ", ".join(t.name for t in temps)
    v.v([f"ac_halves_{s.expr}({w.name}, {names}, {v.true[s.axis]}, {pitch});"], (w,), w, *temps)
    for t in temps:
        if t is not w:
            v.ub.give(t.offset, half * 4)
    d = v.temporary("stat" if lanes else "line", "" if lanes else x.lane, s.dst, WORD)
    v.v([f"ac_widen({d.name}, {w.name}, {g.slots});" if lanes else f"Adds({d.name}, {w.name}, 0, {pitch});"], (w,), d)
    v.ub.give(w.offset, sizes[0] * 4)
    return d
