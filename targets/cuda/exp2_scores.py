"""Scores in base 2 (directive `exp2_scores`; FlashAttention's `softmax_scale_log2`): the softmax scale times log2(e) is multiplied into
the rows of Q once a tile, in shared memory, so that a weight is one `ex2` and no multiplication; and while the running maximum is not
needed (all rows of a warp have weights of ordinary size) it is not subtracted either.

    before                                   after
    acc = q k                                q = cast(q * c log2 e)   a warpgroup's rows, where they lie;  acc = q k
    p = exp(acc * c - m)                     p = exp2(acc)   while m = 0 in all rows of a wave, else exp2(acc - m)
    m1 = max(m, c * reduce max acc)          m1 = max(m, reduce max acc)       m in powers of two
    o = o * exp(m - m1)                      o = o * exp2(m - m1)

Multiplications of scores were a third of a step's maps. A tile begins with a base of 0, and keeps it where each row's largest weight is
neither small nor large: any base serves. Both together take 2.9 % off 2048 keys of heads of 64, 1.2 % off 512; H200, 2026-11-21.

The rows are rounded once more: scores of standard deviation s move by about 2^-12 s. So this is done where the graph has its scores in half
types: rounding them moves each by 2^-12 of it. Outputs are 3.5e-4 from the exact ones with s = 1 (2.8e-4 without, 5.0e-4 in the graph's
types) and 5.3e-4 with s = 4 (2.2e-4, 1.3e-3); 2048 random keys, f16, NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log2
from typing import TYPE_CHECKING

from autocomp.targets.cuda import mma_row_sums, queues
from autocomp.targets.cuda.facts import Facts
from autocomp.targets.cuda.mma_row_sums import RowSums
from autocomp.targets.cuda.softmax_overlap import Overlapped
from autocomp.targets.cuda.tma import Bulk
from autocomp.targets.cuda.tma_store import team_meets
from autocomp.targets.cuda.wgmma import readers_of
from autocomp.targets.simt.expressions import STORED, literal

from autocomp.ir.body import Const, Expr, Map
from autocomp.ir.types import F32, SHORT_FLOATS
from autocomp.tile.plan import Box, Fence
from autocomp.tile.program import Loop, Stmt, Value, walk
from autocomp.tile.steps import Over, Scheme, Steps, by, loops, restated

if TYPE_CHECKING:
    from autocomp.targets.cuda.warp_specialised import WarpSpecialisedPrinter

LEAST = 0.5  # a row's largest weight of the first turn: a base that were its maximum would lose those below 2^-25 of it, none loses 2^-24
ROW = 128  # bytes of a box for each row


@dataclass(frozen=True)
class Exp2Scores(Scheme):
    """`factor` is multiplied by `by`; `weight` is the map whose `base` may be none."""

    factor: str
    by: float
    weight: Stmt
    base: str

    says = "{0.factor} is scaled by {0.by:.4g} before, weights are powers of two"


@dataclass(frozen=True)
class Based(Exp2Scores):
    """The same in a kernel; `flag`: the variable that says that some row of a wave has a base."""

    flag: str = ""


def exp2_scores(steps: Steps, facts: Facts) -> Steps:
    """Puts the exponents of a late product's weights in powers of two."""

    def change(n: Over, loop: Loop) -> Over:
        skew = by(n, Overlapped)
        found = find_exp2_scores(facts, skew, loop) if skew and by(n, RowSums) else None
        return restated(n, skew, *found) if skew and found else n

    return loops(steps, change)


def find_exp2_scores(at: Facts, skew: Overlapped, loop: Loop) -> tuple[Overlapped, Exp2Scores] | None:
    """The split of a loop with exponents in powers of two, and what scales them; None where the loop has another form."""
    inside = [s for s, _ in walk(loop.body)]
    weight = next((s for s in skew.maps if _weight(s.expr)), None)
    if weight is None or skew.when is None or not at.narrow:
        return None
    v, scale, m = _weight(weight.expr)  # type: ignore[misc]
    logs, scores = _logs(inside, m, scale), _scores(inside, v, skew)
    factor = _factor(at, skew)
    if not logs or not scores or not factor or not _alternate(at, skew):
        return None
    if any(logs & {s.dst, *s.srcs} and s.op != "fill" for s, loops in walk(at.p.body) if loop not in loops):
        return None
    body = (*skew.maps, *skew.rare, *skew.rescale, *skew.updates, *skew.then)
    twos = {s: t for s in body if (t := _in_twos(s, scale, logs, scores)) is not None}
    if any(s not in twos for s in body):
        return None
    made = lambda part: tuple(twos[s] for s in part)
    in_twos = replace(skew, maps=made(skew.maps), rare=made(skew.rare), rescale=made(skew.rescale), updates=made(skew.updates),
                      then=made(skew.then))  # fmt: skip
    return in_twos, Exp2Scores(factor, scale * log2(exp(1)), twos[weight], m)


def begin(at: WarpSpecialisedPrinter, x: Exp2Scores) -> None:
    """No row of a tile has a base yet."""
    at.exp2_scores = Based(x.factor, x.by, x.weight, x.base, at.names.fresh("based"))
    at.put(f"bool {at.exp2_scores.flag} = false;")


def _weight(e: object) -> tuple[str, float, str] | None:
    """(v, c, m) of exp(v * c - m)."""
    if isinstance(e, Map) and e.fn == "exp" and isinstance(x := e.args[0], Map) and x.fn == "sub":
        a, m = x.args
        if isinstance(a, Map) and a.fn == "mul" and isinstance(a.args[1], Const) and isinstance(a.args[0], Value) and isinstance(m, Value):
            return a.args[0].name, a.args[1].value, m.name
    return None


def _logs(inside: Sequence[Stmt], m: str, scale: float) -> set[str]:
    """The base and the values that it is made of, which are relative to the scaled scores; none where it is made of anything else."""
    logs, todo = set[str](), [m]
    while todo:
        logs.add(name := todo.pop())
        for s in (s for s in inside if s.dst == name):
            if _times(s.expr, scale):
                continue
            args = (s.expr,) if isinstance(s.expr, Value) else s.expr.args if isinstance(s.expr, Map) and s.expr.fn == "max" else ()
            if not args or not all(isinstance(a, Value) for a in args):
                return set()
            todo += [a.name for a in args if isinstance(a, Value) and a.name not in logs]
    return logs


def _times(e: object, scale: float) -> bool:
    """Whether it is a value times that constant."""
    return (isinstance(e, Map) and e.fn == "mul" and isinstance(e.args[0], Value) and isinstance(e.args[1], Const)
            and e.args[1].value == scale)  # fmt: skip


def _scores(inside: Sequence[Stmt], v: str, skew: Overlapped) -> set[str]:
    """The product's accumulator, what masks of it leave, and their maxima: all that grows with the scale; none where `v` is not of them."""
    product = next(s for s in skew.first if s.op == "mma")
    scores = {product.dst}
    for s in inside:
        masks = isinstance(s.expr, Map) and s.expr.fn == "where" and isinstance(s.expr.args[1], Value) and s.expr.args[1].name in scores
        if s.op == "map" and masks and isinstance(low := s.expr.args[2], Const) and low.value == -inf:  # type: ignore[union-attr]
            scores.add(s.dst)
        if s.op == "reduce" and s.expr == "max" and set(s.srcs) <= scores:
            scores.add(s.dst)
    return scores if v in scores else set()


def _in_twos(s: Stmt, scale: float, logs: set[str], scores: set[str]) -> Stmt | None:
    """The statement where `scores` are scaled and `logs` are in powers of two; None where it reads one of them in another way."""
    if s.op == "reduce" and s.dst in scores:
        return s
    if not isinstance(s.expr, Expr):
        return None if (logs | scores) & set(s.srcs) else s
    if s.dst in logs:
        return replace(s, expr=s.expr.args[0]) if _times(s.expr, scale) else s  # type: ignore[union-attr]
    expr = _exponents(s.expr, scale, logs, scores)
    if s.dst in scores:  # a mask leaves what it masks
        return s if expr is not None or not logs & set(s.srcs) else None
    return None if expr is None else replace(s, expr=expr)


def _exponents(e: Expr, scale: float, logs: set[str], scores: set[str]) -> Expr | None:
    if isinstance(e, Value):
        return None if e.name in logs | scores else e
    if isinstance(e, Map) and e.fn == "exp" and isinstance(x := e.args[0], Map) and x.fn == "sub":
        of = lambda a, names: isinstance(a, Value) and a.name in names
        a, m = x.args
        if of(m, logs) and (of(a, logs) or (_times(a, scale) and of(a.args[0], scores))):
            return Map(e.dtype, "exp2", (Map(x.dtype, "sub", (a if of(a, logs) else a.args[0], m)),))
    args = [_exponents(a, scale, logs, scores) for a in e.args]
    return None if any(a is None for a in args) else e.with_args(tuple(args)) if args else e  # type: ignore[arg-type]


def _factor(at: Facts, skew: Overlapped) -> str:
    """The first factor of the scores' product, where each warpgroup has rows of its own of it that no other tile needs; else ""."""
    product = next(s for s in skew.first if s.op == "mma")
    pr = at.place.products[product]
    x, q = at.placer.bulk.get(pr.a), at.queue(pr.a)
    if type(x) is not Bulk or q is None or q.loop is not None or q.resident or at.together > 1 or at.order or pr.waves != (at.workers, 1):
        return ""
    whole = x.chunk == ROW and x.rows % (16 * at.workers) == 0 and x.buf.dtype in SHORT_FLOATS and not x.more
    return pr.a if whole and readers_of(at.p, pr.a) == [product] else ""


def _alternate(at: Facts, skew: Overlapped) -> bool:
    """Whether a thread's pairs of weights belong to two rows by turns, and four lanes have a row."""
    layout, k = at.place.layouts[skew.late.srcs[0]], at.place.products[skew.late].k
    reg, lane = layout.reg, layout.lane
    return (len(reg) == 3 and (reg[0].count, reg[1].count) == (2, 2) and {reg[0].axis, reg[2].axis, lane[0].axis} == {a for a, _ in k}
            and reg[1].axis == lane[1].axis and lane[0].count == 4)  # fmt: skip


def multiply(at: WarpSpecialisedPrinter, s: Based) -> None:
    """Scales a warpgroup's rows where they lie; its warps read each other's."""
    x, q = at.placer.bulk[s.factor], at.of[s.factor]
    queues.read(at, s.factor)
    kind, bytes_ = STORED[x.buf.dtype.name], x.rows // at.workers * ROW
    slot = f" + {queues.turn(at, q)[0]} * {x.bytes}" if q.depth > 1 else ""
    with at.each(x.boxes, "box"):
        mine = f"{at.memory} + {x.offset}{slot} + box * {x.box_bytes} + {at.side} * {bytes_}"
        at.plan(Box("factor", "write", (("box", 1),), x.boxes, q.name, q.depth))
        at.put(f"ac_scale<{kind}, {bytes_}>({mine}, {literal(s.by, F32)});")
    at.plan(Fence("ac_async_fence();"), team_meets(at))


def first_weights(at: WarpSpecialisedPrinter, s: Based, skew: Overlapped, behind: Sequence[Stmt], packed: str, pack: str) -> None:
    """A tile's first turn, behind its scores: no base where each row has a weight that is not small and none is too large."""
    assert at.row_sums is not None and skew.when is not None
    below = next(x for x, _ in walk(at.p.body) if x.op == "fill" and x.dst == s.base)
    at.run((replace(below, expr=0.0), *(_bare(x) if x is s.weight else x for x in skew.maps), *behind))
    at.put(pack)
    dtype = at.bufs[skew.late.srcs[0]].dtype
    far = mma_row_sums.condition(at, at.row_sums, skew.when, packed)
    at.put(f"{s.flag} = {far} || !ac_rows_reach<{mma_row_sums.bits(LEAST, dtype):#x}>({packed});")
    with at.block(f"if ({s.flag})"):
        at.run((below, *skew.rare, *skew.updates, *behind))
        at.put(pack)


def weights(at: WarpSpecialisedPrinter, s: Based, maps: Sequence[Stmt], behind: Sequence[Stmt], pack: str) -> None:
    """The weights under a base and without one, up to where they are packed."""
    cut = list(maps).index(s.weight)
    at.run(maps[:cut])
    for head, weight in ((f"if ({s.flag})", s.weight), ("else", _bare(s.weight))):
        with at.block(head):
            at.run((weight, *maps[cut + 1 :], *behind))
            at.put(pack)


def _bare(weight: Stmt) -> Stmt:
    """exp2(acc - m) without m."""
    e = weight.expr
    assert isinstance(e, Map) and isinstance(e.args[0], Map)
    return replace(weight, expr=Map(e.dtype, "exp2", (e.args[0].args[0],)))
