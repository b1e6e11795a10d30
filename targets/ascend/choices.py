"""Choices on vector cores: a comparison gives a bit an element, a selection reads them. Both work on whole repeats."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from autocomp.targets.ascend.geometry import MASK, Geometry
from autocomp.targets.ascend.operand import WORD, Operand

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector_core import VectorCore


def is_mask(o: Operand) -> bool:
    return o.kind.startswith(MASK)


def wide(v: VectorCore, o: Operand, kind: str, lane: str) -> Operand:
    """A value of that kind; a new one where it had fewer elements."""
    if o.kind == kind:
        return o
    d = v.temporary(kind, lane, element=o.element)
    v.v([f"Duplicate({d.name}, {o.name if o.kind == 'number' else o.neutral}, {v.g.compared(kind, lane)});"], (), d)
    if o.kind != "number":
        v.v([f"ac_Add_{o.kind}({d.name}, {d.name}, {o.name}, {v.g.count}, {v.g.pitch(lane)});"], (d, o), d)
    return d


def indices(v: VectorCore, e: Aff, lane: str) -> Operand:
    """The value of an index expression at every element of tiles with lanes along `lane`. Raises UnsupportedOp for several axes of lanes
    or expressions not affine."""
    if not e.is_affine or [a for a in e.names() if a in v.g.lanes] not in ([lane], []) or lane not in v.g.lanes:
        raise UnsupportedOp(f"a comparison of {e} with 0", where=v.p.name, hint="compare indices of rows and of one lane axis")
    size = f"{v.g.count}, {v.g.pitch(lane)}"
    fixed = [f"{e.coef(a)} * int32_t({v.start[a]})" for a in sorted(e.names()) if v.start[a] != "0"]
    d = v.temporary("full", lane)
    first = " + ".join([*fixed, str(e.const)])
    if e.coef(lane):
        line = v.temporary("line", lane)
        v.v([f"ac_steps({line.name}, float({first}), {e.coef(lane)}.0f, {v.g.pitch(lane)});"], (), line)
        v.v([f"Duplicate({d.name}, 0.0f, {v.g.elements('full', lane)});"], (), d)
        v.v([f"ac_Add_line({d.name}, {d.name}, {line.name}, {size});"], (d, line), d)
        v.release(line)
    else:
        v.v([f"Duplicate({d.name}, float({first}), {v.g.elements('full', lane)});"], (), d)
    if steps := _of_rows(v.g, e):
        dense, each = v.temporary("stat", ""), v.temporary("stat", "")
        for i, (below, c) in enumerate(steps):
            _steps_of_rows(v, each if i else dense, below, c)
            if i:
                v.v([f"Add({dense.name}, {dense.name}, {each.name}, {v.g.slots});"], (dense, each), dense)
        v.v([f"ac_widen({each.name}, {dense.name}, {v.g.slots});"], (dense,), each)
        v.v([f"ac_Add_stat({d.name}, {d.name}, {each.name}, {size});"], (d, each), d)
        v.release(dense)
        v.release(each)
    return d


def _of_rows(g: Geometry, e: Aff) -> list[tuple[int, int]]:
    """A row's part of an index expression as terms c floor(row / below), (below, c) each.

    rows (a: 3, b: 5): index b of row r is r - 5 floor(r / 5), a is floor(r / 5)
    """
    terms: Counter[int] = Counter()
    below = 1
    for a, n in reversed(g.rows):
        terms[below] += e.coef(a) * (n > 1)
        if below * n < g.count:
            terms[below * n] -= n * e.coef(a) * (n > 1)
        below *= n
    return [(b, c) for b, c in terms.items() if c]


def _steps_of_rows(v: VectorCore, d: Operand, below: int, c: int) -> None:
    """d = c floor(row / below), a number a row, side by side."""
    if below == 1:
        v.v([f"ac_steps({d.name}, 0.0f, {c}.0f, {v.g.slots});"], (), d)
        return
    t = v.temporary("stat", "", element=WORD)
    v.v([f"ac_steps_of_rows({d.name}, {t.name}, {below}.0f, {c}.0f, {v.g.slots});"], (), d, t)
    v.release(t)


def compared(v: VectorCore, a: Operand, b: Operand, mode: str) -> Operand:
    """A bit an element."""
    kind, lane = joined(a, b)
    x, y = wide(v, a, kind, lane), b if b.kind == "number" else wide(v, b, kind, lane)
    mask = mask_of(v, kind, lane)
    call = "CompareScalar" if y.kind == "number" else "Compare"
    v.v([f"{call}({mask.name}, {x.name}, {y.name}, CMPMODE::{mode}, {v.g.compared(kind, lane)});"], (x, y), mask)
    _free_copies(v, (x, a), (y, b))
    return mask


def mask_of(v: VectorCore, kind: str, lane: str) -> Operand:
    """Room for a bit an element."""
    bytes_ = v.g.bytes(MASK + kind, lane)
    v.names += 1
    mask = Operand(f"mask{v.names}", MASK + kind, lane, v.ub.take(bytes_))
    v.frame.declarations.append(f"const LocalTensor<uint8_t> {mask.name} = ac_at<uint8_t>(ub, {bytes_}, {mask.offset});")
    return mask


def selected(v: VectorCore, mask: Operand, a: Operand, b: Operand) -> Operand:
    """a where the bit is set, else b."""
    kind, lane = joined(Operand("", mask.kind.removeprefix(MASK), mask.lane), a, b)
    if MASK + kind != mask.kind:  # a condition of fewer elements than what is chosen
        truth = selected(v, mask, Operand("1.0f", "number"), Operand("0.0f", "number"))
        mask = compared(v, wide(v, truth, kind, lane), Operand("0.0f", "number"), "NE")
    x, y = wide(v, a, kind, lane), b if b.kind == "number" else wide(v, b, kind, lane)
    d = v.temporary(kind, lane)
    how = "SCALAR" if y.kind == "number" else "TENSOR"
    n = v.g.compared(kind, lane)
    v.v([f"Select({d.name}, {mask.name}, {x.name}, {y.name}, SELMODE::VSEL_TENSOR_{how}_MODE, {n});"], (mask, x, y), d)
    _free_copies(v, (x, a), (y, b))
    return d


def joined(*given: Operand) -> tuple[str, str]:
    """Kind and lane of what operands make together."""
    kinds = {o.kind for o in given} - {"number"}
    lanes = [o.lane for o in given if o.lane]
    return ("full" if len(kinds) > 1 else kinds.pop() if kinds else "stat"), lanes[0] if lanes else ""


def _free_copies(v: VectorCore, *pairs: tuple[Operand, Operand]) -> None:
    """Operands that were widened for one instruction."""
    for made, given in pairs:
        if made is not given:
            v.release(made)


def numbered(v: VectorCore, x: Operand) -> Operand:
    """A bit an element as 1 or 0; another value as it is."""
    if not is_mask(x):
        return x
    return selected(v, x, Operand("1.0f", "number"), Operand("0.0f", "number"))
