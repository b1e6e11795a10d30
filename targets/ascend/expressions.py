"""Expressions of a tile program as vector instructions (V): each part once, in the places of what nobody reads any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from autocomp.targets.ascend import bf16, words
from autocomp.targets.ascend.choices import compared, indices, is_mask, numbered, selected
from autocomp.targets.ascend.edges import cut, masked
from autocomp.targets.ascend.geometry import extent
from autocomp.targets.ascend.masks import COMPARISONS, difference, settled
from autocomp.targets.ascend.operand import WORD, Operand, number
from autocomp.targets.ascend.tables import stored, table
from autocomp.targets.ascend.vector_core import VectorCore
from autocomp.targets.ascend.whole import EXACT, WRAPPING, compares_words, computed, has_end, is_short, is_word

from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import Aff
from autocomp.ir.body import Const, Expr, Index, Map
from autocomp.ir.types import BOOL
from autocomp.tile.program import Stmt, Value


class Expressions(VectorCore):
    """Expressions as instructions of a vector core."""

    def evaluated(self, s: Stmt, into: Operand | None) -> Operand:
        """The value of a statement's expression, as values of its name are held."""
        assert isinstance(s.expr, Expr)
        self.exact = s.dst in self.whole.words
        if self.exact and isinstance(s.expr, Const):
            return self.constant(s.dst, s.expr.value)
        result = numbered(self, self.expression(settled(s.expr, self.p, self.scalars.known, self.whole.words), into))
        return (words.as_word if self.exact else words.as_float)(self, result)

    def expression(self, root: Expr, into: Operand | None = None) -> Operand:
        """Instructions for an expression; each part once, temporaries freed behind their last use. The last one writes `into`."""
        nodes = list(_evaluated(root))
        uses = Counter(a for e in nodes for a in e.args)
        done: dict[Expr, Operand] = {}
        fused = {e: e.args[0] for e in nodes if self.fused and self.is_scaled_less(e) and uses[e.args[0]] == 1}
        edges = {e: m for e in nodes if (m := cut(self, e)) is not None and uses[m[0]] == 1}
        spared = {e.args[0] for e in edges if uses[e.args[0]] == 1}
        for e in nodes:
            if e in spared:
                continue
            if e in edges:
                kept, step = edges[e]
                done[e] = masked(self, done[kept], step)
                if isinstance(kept, Value):  # it is the result now
                    self.values.pop(kept.name)
            elif e in fused:
                done[e] = self.scaled_less(e)
            elif e not in fused.values():
                done[e] = self.node(e, done, uses, into if e is root else None)
        return done[root]

    def is_scaled_less(self, e: Expr) -> bool:
        """Whether an expression is a tile by a number less a value a row."""
        if not isinstance(e, Map) or e.fn != "sub" or not isinstance(x := e.args[0], Map) or x.fn != "mul":
            return False
        kinds = [self.values[a.name] for a in (x.args[0], e.args[1]) if isinstance(a, Value) and a.name in self.values]
        return isinstance(x.args[1], Const) and [(o.kind, o.element) for o in kinds] == [("full", "float"), ("stat", "float")]

    def scaled_less(self, e: Expr) -> Operand:
        """That difference: what it is less is spread over the rows, and the tile by the number added to it."""
        x, less = e.args
        of, by, stat = self.value(x.args[0].name), number(float(x.args[1].value)), self.value(less.name)  # type: ignore[attr-defined]
        d = self.temporary(of.kind, of.lane)
        size = f"{self.g.count}, {self.g.pitch(d.lane)}, {self.g.elements(d.kind, d.lane)}"
        self.applied.add("fused_scale")
        self.v([f"{table()['scaled_less']}({d.name}, {of.name}, {stat.name}, {by}, {size});"], (of, stat), d)
        return d

    def node(self, e: Expr, done: dict[Expr, Operand], uses: Counter[Expr], into: Operand | None) -> Operand:
        if isinstance(e, Value):
            return self.value(e.name)
        if isinstance(e, Const):
            return Operand(number(float(e.value)), "number")
        if isinstance(e, Index):
            return self.counted(e.index)
        if not isinstance(e, Map):
            raise UnsupportedOp(f"'{type(e).__name__}' is not computed by vector cores here", where=self.p.name)
        if (d := difference(e)) is not None:
            x = self.counted(d[0])
            mask = compared(self, x, Operand("0.0f", "number"), d[1])
            self.release(x)
            return mask
        if not e.dtype.is_float and not computed(e, self.whole) and not is_word(e, self.whole):
            raise UnsupportedOp(f"'{e.fn}' of elements of type {e.operands[0].dtype} into {e.dtype} is not computed by vector cores here",
                                where=self.p.name, hint=f"types: {', '.join(table()['stored'])}; see targets/ascend/whole.py")  # fmt: skip
        args = [done[a] for a in e.operands]
        dying = []
        for a in dict.fromkeys(e.operands):
            uses[a] -= e.operands.count(a)
            if isinstance(a, Map) and not uses[a]:
                dying.append(done[a])
        for i, o in enumerate(args):
            if e.fn == "where" and i == 0:
                args[0] = o if is_mask(o) else compared(self, o, Operand("0.0f", "number"), "NE")
            elif is_mask(o):
                args[i] = numbered(self, o)
            dying += [args[i]] if args[i] is not o else []
        if compares_words(e, self.whole):
            return self.freed(words.compared(self, *self.given(e, args), COMPARISONS[e.fn]), dying)
        single = computed(e, self.whole) and not (self.exact and has_end(e))
        if e.dtype.is_int and not is_short(e.dtype) and not single:
            return words.computed(self, e, self.given(e, args), dying)
        if e.fn == "cast" and is_short(e.dtype) and e.dtype != BOOL and args[0].element == WORD:
            return self.freed(words.byte(self, args[0], e.dtype), dying)
        for i, o in enumerate(args):
            args[i] = words.as_float(self, o)
            dying += [args[i]] if args[i] is not o else []
        if e.fn == "cast" and e.dtype.is_float:  # of words
            return self.freed(args[0], [o for o in dying if o != args[0]])
        if not e.dtype.is_float and e.fn in ("cast", "and", "or", "not", *WRAPPING):
            return self.whole_numbers(e, args, dying)
        if e.fn == "as_stored":
            return self.rounded(args[0], stored(e.dtype, self.p.name), dying)
        return self.call(e.fn, args, dying, into)

    def given(self, e: Map, args: list[Operand]) -> list[Operand]:
        """Operands of a function of words: constants as words have them."""
        return [words.number(int(a.value)) if isinstance(a, Const) and not a.dtype.is_float else o for a, o in zip(e.operands, args)]

    def freed(self, d: Operand, dying: list[Operand]) -> Operand:
        for o in dying:
            self.release(o)
        return d

    def counted(self, e: Aff) -> Operand:
        """An index expression as a value. Raises UnsupportedOp where single precision does not hold all of its numbers."""
        most = abs(e.const) + sum(abs(e.coef(a)) * (extent(self.p, a) - 1) for a in e.names())
        if most > EXACT:
            raise UnsupportedOp(f"indices [{e}] up to {most}, vector cores hold whole numbers up to {EXACT}", where=self.p.name)
        last = self.p.outputs[0].axes[-1] if self.p.outputs[0].axes else ""
        lane = next((a for a in e.names() if a in self.g.lanes), last if last in self.g.lanes else next(iter(self.g.lanes)))
        return indices(self, e, lane)

    def whole_numbers(self, e: Map, args: list[Operand], dying: list[Operand]) -> Operand:
        """Integers and truth values: what single precision makes of them, wrapped to a short type."""
        if e.dtype == BOOL and e.fn == "cast":  # what is not 0, and what is no number
            mask = compared(self, args[0], Operand("0.0f", "number"), "EQ")
            d = selected(self, mask, Operand("0.0f", "number"), Operand("1.0f", "number"))
            for o in (mask, *dying):
                self.release(o)
            return d
        if e.dtype == BOOL:
            call = {"and": ("mul", args), "or": ("max", args), "not": ("sub", [Operand("1.0f", "number"), *args])}[e.fn]
            return self.call(call[0], call[1], dying, None)
        cut = e.fn == "cast" and e.operands[0].dtype.is_float
        if cut:
            x = self.unary(table()["unary"]["trunc"], args[0], dying)
            if not is_short(e.dtype):
                return x
        else:
            x = args[0] if e.fn == "cast" else self.call(e.fn, args, dying, None)
        if not is_short(e.dtype):
            raise UnsupportedOp(f"'{e.fn}' of elements of type {e.dtype} wraps, single precision does not", where=self.p.name)
        d, *temps = (self.temporary(x.kind, x.lane) for _ in range(2 if self.rounds else 4))
        low = 128 if e.dtype.kind == "i" else 0
        operands = ", ".join(o.name for o in (d, x, *temps))
        self.v([f"ac_wrapped({operands}, {low}.0f, {self.g.elements(x.kind, x.lane)});"], (x,), d, *temps)
        for o in (*temps, *(dying if e.fn == "cast" and not cut else [x])):
            self.release(o)
        return d

    def rounded(self, x: Operand, element: str, dying: list[Operand]) -> Operand:
        """A value as a type of memory has it, in single precision again."""
        if x.kind == "number":
            x = self.named("t", x)
        d, n = self.temporary(x.kind, x.lane), self.g.elements(x.kind, x.lane)
        if element == "float":
            self.v([f"Adds({d.name}, {x.name}, 0.0f, {n});"], (x,), d)
        elif bf16.made(self, element):
            bf16.rounded(self, d, x, n)
        else:
            short = self.temporary(x.kind, x.lane, element=element)
            self.v([f"Cast({short.name}, {x.name}, RoundMode::CAST_RINT, {n});", "PipeBarrier<PIPE_V>();",
                    f"Cast({d.name}, {short.name}, RoundMode::CAST_NONE, {n});"], (x,), short, d)  # fmt: skip
            self.release(short)
        for o in dying:
            self.release(o)
        return d

    def call(self, fn: str, args: list[Operand], dying: list[Operand], into: Operand | None) -> Operand:
        unary, binary = table()["unary"].get(fn), table()["binary"].get(fn)
        if fn in COMPARISONS or fn == "where":
            d = compared(self, *args, COMPARISONS[fn]) if fn in COMPARISONS else selected(self, *args)
            for o in dying:
                self.release(o)
            return d
        if unary is not None:
            return self.unary(unary, args[0], dying, into)
        if binary is None:
            raise UnsupportedOp(f"no vector instruction for '{fn}'", where=self.p.name,
                                hint="see binary and unary in targets/ascend/instructions.yaml")  # fmt: skip
        kinds = {a.kind for a in args} - {"number"}
        kind = "full" if "full" in kinds or len(kinds) > 1 else kinds.pop() if kinds else "stat"
        lanes = {a.lane for a in args if a.lane}
        if len(lanes) > 1:
            raise UnsupportedOp(f"'{fn}' of values with lanes along {' and '.join(sorted(lanes))}", where=self.p.name)
        lane = lanes.pop() if lanes else ""
        for o in [x for x in dying if (x.kind, x.lane) == (kind, lane)]:
            self.release(o)
        d = into if into is not None and (into.kind, into.lane) == (kind, lane) else self.temporary(kind, lane)
        lines, scratch = self.binary(fn, binary, d, *args)
        self.v(lines, tuple(args), d, *scratch)
        for o in [x for x in dying if (x.kind, x.lane) != (kind, lane)]:
            self.release(o)
        return d

    def unary(self, row: Mapping[str, object], x: Operand, dying: list[Operand], into: Operand | None = None) -> Operand:
        """A function of one value: `into` a place or in place where nobody reads that again, if it is one instruction; functions of the
        header may read their argument twice."""
        if x.kind == "number":
            x = self.named("t", x)
        beside = int(str(row.get("temps", 0))) + (0 if self.rounds else int(str(row.get("by_sums", 0))))
        temps = [self.temporary(x.kind, x.lane) for _ in range(beside)]
        once = not str(row["call"]).startswith("ac_")
        if once and into is not None and (into.kind, into.lane, into.element) == (x.kind, x.lane, x.element):
            d = into
        elif once and x in dying and x.offset >= 0:
            d, dying = x, [o for o in dying if o != x]
        else:
            d = self.temporary(x.kind, x.lane)
        operands = ", ".join([d.name, x.name, *(t.name for t in temps)])
        self.v([f"{row['call']}({operands}, {self.g.elements(x.kind, x.lane)});"], (x,), d, *temps)
        for t in [*temps, *dying]:
            self.release(t)
        return d

    def binary(self, fn: str, row: dict[str, str], d: Operand, a: Operand, b: Operand) -> tuple[list[str], tuple[Operand, ...]]:
        """Text of one binary function, and what it writes besides its result."""
        n, call = self.g.elements(d.kind, d.lane), row["call"]
        if a.kind == "number" and "scalar" in row:
            a, b = b, a
        if {a.kind, b.kind} == {"line", "stat"}:  # all pairs
            size = f"{self.g.count}, {self.g.pitch(d.lane)}"
            return [f"Duplicate({d.name}, {d.neutral}, {n});", "PipeBarrier<PIPE_V>();",
                    f"ac_Add_{a.kind}({d.name}, {d.name}, {a.name}, {size});", "PipeBarrier<PIPE_V>();",
                    f"ac_{call}_{b.kind}({d.name}, {d.name}, {b.name}, {size});"], ()  # fmt: skip
        if a.kind == b.kind == "number":
            raise UnsupportedOp(f"'{fn}' of a {a.kind} and a {b.kind} has no vector instruction", where=self.p.name)
        if b.kind == "number":
            text = {"sub": f"Adds({d.name}, {a.name}, -({b.name}), {n});", "div": f"Muls({d.name}, {a.name}, 1.0f / {b.name}, {n});"}
            return [text.get(fn) or f"{row['scalar']}({d.name}, {a.name}, {b.name}, {n});"], ()
        if a.kind == "number":
            constant = self.temporary(d.kind, d.lane)
            self.release(constant)
            return [f"Duplicate({constant.name}, {a.name}, {n});", "PipeBarrier<PIPE_V>();",
                    f"{call}({d.name}, {constant.name}, {b.name}, {n});"], (constant,)  # fmt: skip
        if a.kind == b.kind:
            return [f"{call}({d.name}, {a.name}, {b.name}, {n});"], ()
        name = f"ac_{call}_{b.kind}" if a.kind == "full" else f"ac_{a.kind}_{call}"
        return [f"{name}({d.name}, {a.name}, {b.name}, {self.g.count}, {self.g.pitch(d.lane)});"], ()


def _evaluated(root: Expr) -> list[Expr]:
    """The parts of an expression, operands first, without the indices that a comparison is about."""
    out: dict[int, Expr] = {}

    def visit(e: Expr) -> None:
        if id(e) in out:
            return
        if difference(e) is None:
            for a in e.args:
                visit(a)
        out[id(e)] = e

    visit(root)
    return list(out.values())
