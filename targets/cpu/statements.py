"""Statements -> C, element by element or as vectors along the axis of the loop around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autocomp.targets.cpu.expressions import CTYPE, Scalar, guard_text, literal, rounded, scalar_function, working
from autocomp.targets.cpu.flat import index_text
from autocomp.targets.cpu.index_set_split import decided
from autocomp.targets.cpu.lower import Nest
from autocomp.targets.cpu.tree import Node
from autocomp.targets.cpu.values import Values
from autocomp.targets.cpu.vectors import Vector, kind_of, vector_of

from autocomp.ir.body import Expr, Gather, Index
from autocomp.ir.types import F32, F64, SHORT_FLOATS, DType
from autocomp.tile.program import Stmt


class Statements(Values):
    """Prints what stands at the leaves of a loop tree. `chain`: the partial result that a vector reduction folds into."""

    def __init__(self, nest: Nest, tree: Sequence[Node]) -> None:
        super().__init__(nest, tree)
        self.chain = 0

    def statement(self, s: Stmt) -> None:
        if s.op == "store":
            self.store(s)
        elif s.op == "fill":
            self.assign(s.dst, self.constant(s.expr, self.dtype(s.dst)))  # type: ignore[arg-type]
        elif s.op == "map":
            assert isinstance(s.expr, Expr)
            self.assign(s.dst, self.expression(s.expr))
        elif s.op == "reduce":
            self.reduce(s)
        elif s.op == "scan":
            self.scan(s)
        else:
            raise AssertionError(f"statement {s.op} outside of a contraction")

    def constant(self, v: object, d: DType) -> str:
        """A number as a value of the current loop: the same in every lane of a vector."""
        text = literal(v, d)
        return vector_of(text, working(d)) if self.vector is not None and kind_of(d) else text

    def expression(self, e: Expr) -> str:
        e = decided(e, self.within, self.nest.inside)
        if self.vector is not None:
            return Vector(self.vector_read, self.vector, self.looked_up).text(e)
        return Scalar(self.read, self.table).text(e)

    def looked_up(self, e: Gather) -> str:
        """Neighbours in a row of a tensor that is looked up (`vectors.is_row`)."""
        (*places, last), t = e.index, next(t for t in self.nest.inputs if t.name == e.tensor)
        at = self.table_place(t, [Scalar(self.read, self.table).text(x) for x in places])
        assert isinstance(last, Index)
        return self._get(f"&{self.pointer_of(t)}[({at})*{t.shape[-1]} + {index_text(last.index)}]", "1", t.dtype)

    def reduce(self, s: Stmt) -> None:
        fn, d = str(s.expr), self.dtype(s.dst)
        factors = s.srcs
        if self.vector is not None:
            x = " * ".join(self.vector_read(f) for f in factors)
            kind = kind_of(d)
            if self.vector in s.axis.split(","):
                acc = f"{s.dst}_v{self.chain}"
                text = self.combine(fn, x, acc, kind)  # a test of x for NaN does not wait for the sum so far
                self.w(f"{acc} = {f'{kind}_first_n({text}, {acc}, {self.part})' if self.part else text};")
            else:
                self.assign(s.dst, self.combine(fn, x, self.vector_read(s.dst), kind))
            return
        wide = CTYPE[working(d).name]
        x, *others = [f"({wide})({self.read(f)})" for f in factors]
        for other in others:
            x = scalar_function("mul", [x, other], working(d))
        self.assign(s.dst, rounded(scalar_function(fn, [self.element(s.dst), x], working(d)), d))

    def scan(self, s: Stmt) -> None:
        """An element takes in what those in front of it came to."""
        d, fn, so_far, x = self.dtype(s.dst), str(s.expr), self.so_far(s), s.srcs[0]
        if self.vector is not None:
            self.w(f"{so_far} = {self.combine(fn, self.vector_read(x), so_far, kind_of(d))};")
        else:
            wide = self.carried_as(s)
            self.w(f"{so_far} = {scalar_function(fn, [so_far, f'({CTYPE[wide.name]})({self.read(x)})'], wide)};")
        self.assign(s.dst, so_far if self.vector is not None else rounded(f"({CTYPE[working(d).name]}){so_far}", d))

    def so_far(self, s: Stmt) -> str:
        """The variable that a scan goes on from."""
        return f"{s.dst}_so_far"

    def carried_as(self, s: Stmt) -> DType:
        """Its type, element by element: sums and products of floats are carried in f64, which takes no longer, as each waits anyway."""
        d = working(self.dtype(s.dst))
        return F64 if d == F32 and str(s.expr) in ("add", "mul") else d

    def store(self, s: Stmt, read: Callable[[str], str] | None = None) -> None:
        v, value = self.nest.views[s.dst], s.srcs[0]
        if self.vector is not None:
            x = (read or self.vector_read)(value)
            self.w(self._put(f"&{v.pointer}[{v.flat.text()}]", str(v.flat.stride(self.vector)), x, v.dtype))
            return
        x = self.read(value)
        target = f"{v.pointer}[{v.flat.text()}]"
        text = f"s_to_{v.dtype.name}({x})" if v.dtype in SHORT_FLOATS else f"({CTYPE[v.dtype.name]})({x})"
        self.w(f"{f'if {guard_text(v.guard)} ' if v.guard else ''}{target} = {text};")

    # ---- partial results
    def lanewise(self, name: str) -> bool:
        """Has every lane of the current vector its own value?"""
        return self.vector is not None and self.vector in self.nest.slots[name].axes

    def fold(self, s: Stmt, x: str, y: str) -> str:
        """Two partial results as one."""
        if self.lanewise(s.dst):
            return self.combine(str(s.expr), x, y, kind_of(self.dtype(s.dst)))
        return scalar_function(str(s.expr), [x, y], working(self.dtype(s.dst)))

    def combine(self, fn: str, a: str, b: str, kind: str) -> str:
        """Two vectors of partial results as one."""
        return f"{kind}_{fn}({a}, {b})" if kind == "vi" or fn in ("max", "min") else f"({a} {'+' if fn == 'add' else '*'} {b})"
