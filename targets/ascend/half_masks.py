"""What stands between scores in half precision and their maximum (half_scores.py): scales, additions and masks, done where the tile lies.

    w = where(row + c >= key, acc by + bias, -inf)    ->    acc *= by; acc += bias; acc of keys past row + c = -inf

A mask by a row's and a key's index touches only the blocks of columns that its edge cuts, and those past it: of a column of sixteen keys
rows on one side are filled, and sixteen rows at the edge are the smaller of their scores and a triangle of infinities, made once. What is
added lies in memory by rows; an instruction takes a block of each of eight rows, a column of keys a repeat, as it takes scores. Truth
values that say which scores are kept become infinities first, some rows at a time, and scores the smaller of themselves and those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from autocomp.targets.ascend.copies import region
from autocomp.targets.ascend.geometry import extent, strides, tile_of
from autocomp.targets.ascend.masks import difference, settled
from autocomp.targets.ascend.operand import Operand, number
from autocomp.targets.ascend.tables import table

from autocomp.cost.derived import constant
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Map
from autocomp.ir.types import BOOL, F16
from autocomp.tile.agents import Work
from autocomp.tile.program import Stmt, TileProgram, Value

if TYPE_CHECKING:
    from autocomp.targets.ascend.half_scores import Halves

LOWEST = {"f16": -65504.0, "bf16": -3.3895e38}  # no score of a model in these types is less
ROWS = int(constant("kept_rows"))  # of truth values that become halves at once
BARRIER = "PipeBarrier<PIPE_V>();"


@dataclass(frozen=True)
class Step:
    """by: scores times `number`; add: plus the tile `of`; keep, drop: where that is false, or true, they are `number`; until, from: keys
    past row + `first`, or in front of it, are `number`; tail: what lies behind the last key is."""

    kind: str
    number: float = 0.0
    of: str = ""
    first: int = 0


def steps_of(e: Expr, p: TileProgram, added: Mapping[str, Stmt], row: str, lane: str) -> tuple[str, tuple[Step, ...]] | None:
    """The value that an expression prepares, and how; None where it does anything else. `added`: tiles that can be added, or say what is
    kept."""
    tile = lambda x, dtype: isinstance(x, Value) and x.name in added and x.dtype == dtype
    if isinstance(e, Value):
        return e.name, ()
    if not isinstance(e, Map):
        return None
    if e.fn == "mul" and isinstance(e.operands[1], Const):
        inner, step = e.operands[0], Step("by", float(e.operands[1].value))
    elif e.fn == "add" and len(tiles := [x for x in e.operands if isinstance(x, Value) and x.name in added]) == 1:
        inner, step = next(x for x in e.operands if x != tiles[0]), Step("add", of=tiles[0].name)
    elif e.fn == "where" and tile(e.operands[0], BOOL) and (found := kept(e)) is not None:
        inner, step = found
    elif e.fn == "where" and (mask := mask_of(e, row, lane)) is not None:
        inner, step = mask
    else:
        return None
    below = steps_of(inner, p, added, row, lane)
    return None if below is None else (below[0], (*below[1], step))


def kept(e: Map) -> tuple[Expr, Step] | None:
    """What where(truth values, x, the lowest number) keeps, or the other way round."""
    c, x, y = e.operands
    kind = "drop" if isinstance(x, Const) else "keep"
    number, inner = (x, y) if isinstance(x, Const) else (y, x)
    if not isinstance(number, Const) or isinstance(inner, Const) or not isinstance(c, Value):
        return None
    low = float(number.value)
    return None if low > LOWEST.get(e.dtype.name, LOWEST["f16"]) else (inner, Step(kind, low, of=c.name))


def mask_of(e: Map, row: str, lane: str) -> tuple[Expr, Step] | None:
    """What where(index compared with index, x, the lowest number) keeps, and which keys it keeps of it."""
    c, x, y = e.operands
    if (d := difference(c)) is None or not isinstance(x if isinstance(x, Const) else y, Const):
        return None
    g = {"GE": d[0], "GT": d[0] - 1, "LE": -1 * d[0], "LT": -1 * d[0] - 1}.get(d[1])
    if g is None or (isinstance(x, Const) and isinstance(y, Const)):
        return None
    if isinstance(x, Const):
        g, x, y = -1 * g - 1, y, x
    value = float(y.value)  # type: ignore[attr-defined]
    if value > LOWEST.get(e.dtype.name, -inf) or not _crosses(g, row, lane):
        return None
    if g.coef(row) == 1:
        return x, Step("until", value, first=g.const)
    return x, Step("from", value, first=-g.const)


def _crosses(g: Aff, row: str, lane: str) -> bool:
    return g.is_affine and set(g.names()) == {row, lane} and abs(g.coef(row)) == 1 and g.coef(lane) == -g.coef(row)


def addable(s: Stmt, p: TileProgram, row: str, lane: str) -> bool:
    """Whether a copied tile can be added to scores or choose among them: halves, or truth values, with keys side by side, whole rows of
    them or one for all rows."""
    t, b = p.tensor(s.srcs[0]) if s.op == "copy" else None, p.buf(s.dst)
    if t is None or b is None or t.guard or b.dtype not in (F16, BOOL) or t.dtype != b.dtype or lane not in b.axes:
        return False
    step, _ = strides(replace(t, guard=()), p.name)
    wide = [a for a in b.axes if a != lane and tile_of(p, a) > 1]
    return step.get(lane) == 1 and wide in ([], [row]) and (row not in b.axes or step.get(row, 0) >= extent(p, lane))


def settled_step(s: Stmt, p: TileProgram) -> Expr | None:
    """A statement's expression without conversions and masks that are true inside of the tensors."""
    return settled(s.expr, p, {}) if isinstance(s.expr, Expr) else None


def arrive(h: Halves, s: Stmt) -> None:
    """A tile that will be added or chooses: its rows lie a block further apart, truth values two once they are halves, so that those of a
    repeat lie in different banks.
    """
    v, lane, name = h.v, h.of.lane, f"{s.dst}_in"
    t = v.p.tensor(s.srcs[0])
    assert t is not None
    size, element = t.dtype.bytes, "uint8_t" if t.dtype == BOOL else "half"
    r, full = region(replace(t, guard=()), v.start, v.p.name), v.row in s_axes(h, s)
    pitch = -(-v.g.pitch(lane) * size // 32) * 32 + 32
    frame = v.frame if full else v.outer
    v.staged(frame, name, element, (v.g.slots if full else 1) * pitch)
    columns = v.true[lane]
    far = f"({r.step[v.row]} - {columns}) * {size}" if full else "0"
    gap = f"({pitch} - ({columns} * {size} + 31) / 32 * 32) / 32" if full else "0"
    shape = f"ac_copy({v.true[v.row] if full else 1}, {columns} * {size}, {far}, {gap})"
    copy = f"DataCopyPad({name}[0], {r.tensor}[{r.base}], {shape}, {{false, 0, 0, 0}});"
    frame.loads.append(Work("vector.MTE2", (), (name,), v.guarded((copy,))))
    h.added[s.dst] = Operand(name, "full" if full else "line", lane, element=element), pitch // size if full else 0


def s_axes(h: Halves, s: Stmt) -> tuple[str, ...]:
    """Axes of a copied tile."""
    b = h.v.p.buf(s.dst)
    assert b is not None
    return b.axes


def room(h: Halves) -> int:
    """Bytes that truth values take as halves at once; 0 where there are none."""
    pitches = [h.added[s.of][1] for s in h.of.steps if s.kind in ("keep", "drop")]
    return max((2 * (p * min(h.v.g.slots, ROWS) or h.v.g.pitch(h.of.lane)) for p in pitches), default=0)


def prepared(h: Halves, room: Operand) -> tuple[list[str], tuple[Operand, ...]]:
    """Text that does the steps on the scores' tile, and what it reads beside them; `room`: for truth values as halves."""
    v, x, t = h.v, h.scores.name, table()
    lines: list[str] = []
    reads: list[Operand] = []
    row, lane = v.start[v.row] if v.row else "0", v.start[h.of.lane]
    for s in h.of.steps:
        none = f"half({number(s.number)})"
        if s.kind == "by":
            lines.append(f"Muls({x}, {x}, {none}, {h.blocks} * {h.column});")
        elif s.kind == "add":
            o, pitch = h.added[s.of]
            reads.append(o)
            lines.append(f"{t['scores_add']}({x}, {o.name}, {h.blocks}, {v.g.slots}, {h.column}, {pitch});")
        elif s.kind in ("keep", "drop"):
            o, pitch = h.added[s.of]
            reads.append(o)
            size = f"{h.blocks}, {v.g.slots}, {h.column}, {pitch}, {ROWS}"
            lines.append(f"{t['scores_keep']}({x}, {o.name}, {room.name}, {none}, {str(s.kind == 'drop').lower()}, {size});")
        elif s.kind == "tail":
            lines.append(f"{t['scores_tail']}({x}, {v.true[h.of.lane]}, {v.g.slots}, {h.column}, {none});")
        else:
            first = f"int32_t({row}) - int32_t({lane}) + {s.first}"
            edge = triangle(h, s)
            lines.append(f"{t[f'scores_{s.kind}']}({x}, {edge}, {first}, {h.blocks}, {v.g.slots}, {h.column}, {none}, {h.fold});")
        lines.append(BARRIER)
    return lines, tuple(reads)


def triangle(h: Halves, s: Step) -> str:
    """Sixteen rows of infinities up to each row's own column, and the mask's number past it; from there on for the other edge."""
    v, (name, below) = h.v, (f"keys_{s.kind}", "true" if s.kind == "until" else "false")
    if name not in v.depth:
        size = h.side * h.side * h.fold * 2
        at = v.ub.take(size, 1, name)
        v.depth[name] = 1
        v.before += [f"const LocalTensor<half> {name} = ac_at<half>(ub, {size}, {at});",
                     f"{table()['scores_edge']}({name}, half({number(s.number)}), {h.fold}, {below});", BARRIER]  # fmt: skip
    return name


def tail(p: TileProgram, lane: str) -> tuple[Step, ...]:
    """What is done where the last keys fill no column."""
    return (Step("tail", -inf),) if extent(p, lane) % int(table()["fractal"]) else ()
