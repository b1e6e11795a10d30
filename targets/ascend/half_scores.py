"""Scores in half precision (directive `half_scores`), for a loop whose weights are exponentials of scores less a value a row.

    m' = max over r of acc; m1 = max(m, m' c); p = exp(acc c - m1); l += sum over r of p; w = cast p
    ->  the same in halves, of which an instruction takes twice as many: only the states m, l and o are in single precision

A tile of scores leaves L0C as halves in blocks of sixteen columns, as its fractals lie, and stays so on vector cores: folds over columns
are folds of blocks of all rows, and the weights are fractals when they are made. Columns leave a part at a time (score_columns.py), so
that many keys share a round. Only for models that round their scores to halves themselves (`Roles.scores`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autocomp.targets.ascend.geometry import tile_of, values
from autocomp.targets.ascend.half_masks import Step, addable, arrive, prepared, room, settled_step, steps_of, tail
from autocomp.targets.ascend.operand import Operand, name_of, number
from autocomp.targets.ascend.tables import RING, table

from autocomp.ir.body import Const, Expr, Map
from autocomp.ir.types import F16, F32
from autocomp.tile.agents import Work
from autocomp.tile.program import Stmt, TileProgram, Value, walk

if TYPE_CHECKING:
    from autocomp.targets.ascend.vector import VectorPart

FOLDED = 4  # blocks that a fold keeps
LINE = 32  # bytes of a block


@dataclass(frozen=True)
class Scores:
    """The statements of a loop around the scores `acc`: `top`, their maximum, which `scaled` multiplies by `by` (or None), `weights`, what
    they are `less`, `factor`, the weights that are handed over, and `total`, which sums them (or None). `lane`: the scores' columns;
    `steps`: what is done to them first, with the tiles `added` to them."""

    acc: str
    lane: str
    top: Stmt
    scaled: Stmt | None
    by: float
    weights: Stmt
    less: str
    factor: Stmt
    total: Stmt | None
    inside: tuple[Stmt, ...]  # what prepares scores, and of weights conversions and masks that only hide what lies outside of the tensors
    weighed: tuple[Stmt, ...]
    steps: tuple[Step, ...]
    added: tuple[Stmt, ...]

    @property
    def statements(self) -> frozenset[int]:
        mine = (self.top, self.scaled, self.weights, self.factor, self.total, *self.inside, *self.weighed, *self.added)
        return frozenset(id(s) for s in mine if s is not None)


def half_scores(p: TileProgram) -> Scores | None:
    """The scores of a program whose loop has this form."""
    statements = [s for s, _ in walk(p.body)]
    products = [s for s in statements if s.op == "mma"]
    tops = [s for s in statements if s.op == "reduce" and s.expr == "max" and not s.acc and "," not in s.axis]
    return next((found for s in tops if (found := _around(s, p, statements, products)) is not None), None)


def _around(top: Stmt, p: TileProgram, statements: list[Stmt], products: list[Stmt]) -> Scores | None:
    """The statements around a maximum."""
    lane, b = top.axis, p.buf(top.dst)
    wide = [a for a in (b.axes if b is not None else ()) if tile_of(p, a) > 1]
    row = wide[0] if len(wide) == 1 else ""
    tiles = {s.dst: s for s in statements if addable(s, p, row, lane)}
    made = {s.dst: (s, found) for s in statements if s.op == "map" and isinstance(s.expr, Map) and s.expr.dtype == F32
            and s.expr.fn in ("where", "cast") and (e := settled_step(s, p)) is not None
            and (found := steps_of(e, p, tiles, row, lane)) is not None}  # fmt: skip

    def path(v: str) -> tuple[str, tuple[Step, ...]]:
        """The value that `v` is made of, and how."""
        if v not in made:
            return v, ()
        of, steps = made[v][1]
        root, first = path(of)
        return root, (*first, *steps)

    plain = lambda v: path(v)[0]
    acc, steps = path(top.srcs[0])
    of = {id(s): {plain(v) for v in (*s.srcs, *values(s.expr))} for s in statements if s.op != "fill" and s.dst not in made}
    users = lambda v: [s for s in statements if v in of.get(id(s), ())]
    weights = [s for s in users(acc) if s is not top]
    if acc not in {s.dst for s in products} or _changed(statements, acc) or len(weights) != 1:
        return None
    found = _weights(weights[0], acc, plain)
    if found is None or any(path(v) != (acc, steps) for v in values(weights[0].expr) if plain(v) == acc):
        return None
    by, less = found
    scaled = users(top.dst)[0] if by != 1 and len(users(top.dst)) == 1 else None
    if by != 1 and (scaled is None or scaled.op != "map" or _times(scaled.expr, plain) != (top.dst, by)):
        return None
    after = users(weights[0].dst)
    casts = [s for s in after if s.op == "map" and isinstance(s.expr, Map) and s.expr.fn == "cast" and s.expr.dtype == F16
             and any(s.dst in x.srcs for x in products)]  # fmt: skip
    sums = [s for s in after if s.op == "reduce" and s.expr == "add" and s.acc and s.axis == lane]
    inside, weighed = (tuple(s for n, (s, _) in made.items() if plain(n) == root) for root in (acc, weights[0].dst))
    added = tuple(tiles[s.of] for s in steps if s.of)
    read = [v for s in statements if s not in inside for v in (*s.srcs, *values(s.expr))]
    if len(casts) != 1 or len(sums) > 1 or len(after) != 1 + len(sums) or any(path(s.dst)[1] for s in weighed):
        return None
    if len(added) != len({s.dst for s in added}) or any(s.dst in read for s in added):
        return None
    return Scores(acc, lane, top, scaled, by, weights[0], less, casts[0], sums[0] if sums else None, inside, weighed,
                  (*steps, *tail(p, lane)), added)  # fmt: skip


def _changed(statements: list[Stmt], acc: str) -> bool:
    return any(s.dst == acc and s.op not in ("mma", "fill") for s in statements)


def _weights(s: Stmt, acc: str, plain: Callable[[str], str]) -> tuple[float, str] | None:
    """(number, value) where a statement is exp(scores by the number less the value)."""
    e = s.expr
    if s.op != "map" or not isinstance(e, Map) or e.fn != "exp" or not isinstance(d := e.operands[0], Map) or d.fn != "sub":
        return None
    x, less = d.operands
    of = (plain(x.name), 1.0) if isinstance(x, Value) else _times(x, plain)
    return (of[1], less.name) if of is not None and of[0] == acc and isinstance(less, Value) else None


def _times(e: Expr | float | str | None, plain: Callable[[str], str]) -> tuple[str, float] | None:
    if not isinstance(e, Map) or e.fn != "mul":
        return None
    x, c = e.operands
    return (plain(x.name), float(c.value)) if isinstance(x, Value) and isinstance(c, Const) else None


@dataclass
class Halves:
    """Works of vector cores on the scores of `of`; `whole`: text of a tile's true columns in whole fractals."""

    of: Scores
    v: VectorPart
    whole: str
    scores: Operand = field(init=False)
    weights: Operand = field(init=False)
    fold: int = 1  # rows of keys that are copied as one: a column has keys so far apart
    added: dict[str, tuple[Operand, int]] = field(default_factory=dict)  # tiles that are added, and elements from row to row

    def __post_init__(self) -> None:
        self.side = int(table()["fractal"])
        self.rows = self.v.g.slots + 2  # blocks from column to column: what is read at once lies in different banks
        self.column = self.rows * self.side
        self.size = self.v.g.pitch(self.of.lane) // self.side * self.column * F16.bytes
        self.blocks = str(int(self.whole) // self.side) if self.whole.isdigit() else f"{self.whole} / {self.side}"

    def declared(self, hint: str, element: str, bytes_: int, at: int) -> str:
        v = self.v
        v.names += 1
        name = name_of(hint, v.names)
        v.frame.declarations.append(f"const LocalTensor<{element}> {name} = ac_at<{element}>(ub, {bytes_}, {at});")
        return name

    def piece(self, more: int = 0) -> tuple[Operand, int]:
        """Room for four columns, where folds go and what lies in it then (`inside`), or for `more` bytes."""
        bytes_ = max(FOLDED * self.column * F16.bytes, more)
        at = self.v.ub.take(bytes_)
        return Operand(self.declared("t", "half", bytes_, at), "piece", "", at, "half"), bytes_

    def inside(self, piece: Operand, column: int, element: str, size: int, past: int = 0) -> str:
        """`size` elements a row in a piece, from one of its columns on and `past` bytes behind it."""
        bytes_ = max(LINE, size * self.v.g.slots * (F32 if element == "float" else F16).bytes)
        at = piece.offset + column * self.column * F16.bytes + past
        return self.declared("f" if element == "float" else "d", element, bytes_, at)

    def dense(self, piece: Operand) -> tuple[str, str]:
        """An element a row, as halves and in single precision."""
        past = -(-self.v.g.slots * F16.bytes // LINE) * LINE
        return self.inside(piece, 2, "half", 1), self.inside(piece, 2, "float", 1, past)

    def arrive(self, scratch: str, slot: str, rows: int) -> None:
        """Scores of this core's rows, from a tile of `rows`."""
        v = self.v
        name = f"{self.of.acc}_in"
        v.staged(v.frame, name, "half", self.size, RING, True)
        own = v.true[v.row] if v.row else "1"
        shape = f"ac_copy({self.blocks}, {own} * 32, ({rows} - {own}) * 32, {self.rows} - {own})"
        copy = f"DataCopyPad({name}[0], {scratch}_g[{slot} + {self.side} * w_row], {shape}, {{false, 0, 0, 0}});"
        v.frame.works.append(Work("vector.MTE2", (scratch,), (name,), v.guarded((copy,))))
        self.scores = v.values[self.of.acc] = Operand(name, "scores", self.of.lane, element="half")

    def in_their_place(self, name: str) -> Operand:
        """Weights where the scores lie, which nobody reads any more."""
        v, x = self.v, self.scores.name
        v.frame.declarations.append(f"const LocalTensor<half> {name} = {x};")
        v.depth[name], v.ub.spans[name] = v.depth[x], v.ub.spans[x]
        return Operand(name, "scores", self.of.lane, element="half")

    def holding(self, w: Work) -> Work:
        """A work on weights: no scores come to their place until it is done."""
        return replace(w, reads=(self.scores.name, *w.reads), values=("", *w.values))

    def statement(self, s: Stmt, by: str | None) -> None:
        """One of the statements; `by`: a value a row that the sums are scaled by."""
        of, v, g = self.of, self.v, self.v.g
        size = f"{self.blocks}, {g.slots}, {self.column}"
        if s is of.top:
            x, top = self.scores, v.temporary("stat", "", s.dst)
            t, bytes_ = self.piece(room(self))
            line = f"{table()['scores_max']}({', '.join([top.name, x.name, t.name, *self.dense(t)])}, {number(of.by)}, {size});"
            lines, added = prepared(self, t)
            v.v([*lines, line], (x, *added), top, t)
            v.ub.give(t.offset, bytes_)
            v.values[s.dst] = top
        elif s is of.scaled:
            v.values[s.dst] = v.values[of.top.dst]
        elif s is of.weights:
            x, less = self.scores, v.value(of.less)
            self.weights = w = self.in_their_place(f"{of.factor.dst}_out")
            t, bytes_ = self.piece()
            names = ", ".join([w.name, less.name, self.inside(t, 0, "half", self.side, LINE), *self.dense(t)])  # in other banks than scores
            v.applied.add("half_scores")
            none = ", true" if any(s.kind in ("until", "from", "keep", "drop") for s in of.steps) else ""  # rows may have no key in a round
            v.v([f"{table()['scores_exp']}({names}, {number(of.by)}, {size}{none});"], (x, less), w, t)
            v.ub.give(t.offset, bytes_)
            v.values[s.dst] = w
        elif s in of.added:
            arrive(self, s)
        elif s in of.inside:
            v.values[s.dst] = self.scores
        elif s is of.factor or s in of.weighed:
            v.values[s.dst] = self.weights
        else:
            w, state, scaled = self.weights, v.value(s.dst), v.value(by) if by is not None else v.value(s.dst)
            t, bytes_ = self.piece()
            names = ", ".join([state.name, scaled.name, w.name, t.name, self.inside(t, 2, "float", 16), self.inside(t, 1, "float", 8)])
            v.v([f"{table()['scores_sum']}({names}, {size}, {str(by is not None).lower()});"], (w, state, scaled), state, t)
            v.frame.works.append(self.holding(v.frame.works.pop()))
            v.ub.give(t.offset, bytes_)

    def hand_over(self, scratch: str, slot: str, rows: int) -> None:
        """The weights to a slot of memory as columns of fractals of `rows` rows."""
        v, out = self.v, self.weights.name
        own = v.true[v.row] if v.row else "1"
        shape = f"ac_copy({self.blocks}, {own} * 32, {self.rows} - {own}, ({rows} - {own}) * 32)"
        copy = f"DataCopyPad({scratch}_g[{slot} + {self.side} * w_row], {out}[0], {shape});"
        v.frame.works.append(self.holding(Work("vector.MTE3", (out,), (scratch,), v.guarded((copy,)), (out, scratch))))
