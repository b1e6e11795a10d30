"""Whether a tile program means something: every name is there, axes agree, what is read was made, views lie inside their buffers and every
output is stored. Programs that a person writes are checked when they are parsed; `tile.meaning` and placement then find no surprise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from autocomp.errors import ModelError
from autocomp.ir.affine import Aff
from autocomp.ir.body import Gather, Index, Inside, postorder
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.types import Dim, Sym
from autocomp.tile.program import Expr, Loop, Stmt, Tensor, TileProgram, walk

HEAD = 1  # the line of the kernel's head
REDUCTIONS = {op for m in MONOIDS.values() for _, op, _ in m.base}  # in any order the same
MOST = 1 << 31  # elements of a value in one tile


def check(p: TileProgram, lines: Sequence[int] = ()) -> None:
    """Raises ModelError at the first line that is wrong. `lines`: numbers of the lines of loops and statements, in order."""
    _Check(p, lines).run()


class _Check:
    def __init__(self, p: TileProgram, lines: Sequence[int]) -> None:
        self.p, self.lines, self.at, self.depth = p, lines, -1, 0
        self.axes = dict(p.axes)
        self.names = self.axes.keys() | {d.name for t in (*p.inputs, *p.outputs) for d in (*t.shape, *t.extents) if isinstance(d, Sym)}
        self.made: set[str] = set()

    def refuse(self, what: str, hint: str = "docs/tile_program.md") -> ModelError:
        line = self.lines[self.at] if 0 <= self.at < len(self.lines) else HEAD
        return ModelError(what, where=f"line {line}:{2 * self.depth + 1}" if self.lines else f"kernel {self.p.name}", hint=hint)

    def run(self) -> None:
        p = self.p
        for what, found in (("tensor", [t.name for t in (*p.inputs, *p.outputs)]), ("axis", [a for a, _ in p.axes]),
                            ("tile of axis", [a for a, _ in p.tile])):  # fmt: skip
            if twice := next((x for i, x in enumerate(found) if x in found[:i]), ""):
                raise self.refuse(f"{what} {twice!r} stands there twice")
        for axis, n in p.tile:
            self.known(axis)
            if not isinstance(n, int) or n < 1:
                raise self.refuse(f"the tile of {axis} is {n}, and not a whole number of 1 or more")
        if zero := next((a for a, n in p.axes if n == 0), ""):
            raise self.refuse(f"axis {zero} has no elements")
        for t in (*p.inputs, *p.outputs):
            self.view(t)
        tile: dict[str, Dim] = dict(p.tile)
        for b in p.bufs:
            self.all_known(b.axes, b.name)
            sizes: list[Dim] = [tile.get(a, self.axes[a]) for a in b.axes]
            if prod(n for n in sizes if isinstance(n, int)) > MOST:
                raise self.refuse(f"a tile of {b.name} has more than {MOST} elements", "use smaller tiles")
        self.block(p.body, ())
        self.at, self.depth = -1, 0
        if lost := next((t.name for t in p.outputs if t.name not in self.made), ""):
            raise self.refuse(f"output {lost!r} is never stored", f"add `store {lost} = value`")

    def known(self, axis: str) -> None:
        if axis not in self.axes:
            raise self.refuse(f"there is no axis {axis!r}", f"the axes are {', '.join(self.axes)}")

    def all_known(self, axes: Iterable[str], of: str) -> None:
        axes = tuple(axes)
        for a in axes:
            self.known(a)
        if len(set(axes)) < len(axes):
            raise self.refuse(f"{of} has an axis twice: {', '.join(axes)}")

    def view(self, t: Tensor) -> None:
        self.all_known(t.axes, t.name)
        for a, n in zip(t.axes, t.extents):
            if n != self.axes[a]:
                raise self.refuse(f"{t.name} has {n} elements along {a}, the axis {self.axes[a]}")
        if len(t.index) != len(t.shape):
            raise self.refuse(f"{t.name}: {len(t.index)} indices into a buffer of {len(t.shape)} dimensions")
        for i in (*t.index, *t.guard):
            self.index(i, t.name)
        if t.guard or any(isinstance(n, Sym) for n in (*self.axes.values(), *t.shape)):
            return  # what a guard leaves is masked; symbols have their sizes when it runs
        extents = {a: n for a, n in self.axes.items() if isinstance(n, int)}
        for i, n in zip(t.index, t.shape):
            low, high = i.range(extents)
            if isinstance(n, int) and not 0 <= low <= high < n:
                raise self.refuse(f"{t.name}: index {i} goes from {low} to {high} in a dimension of {n}", "add `where .. >= 0 else 0.0`")

    def index(self, i: Aff, of: str) -> None:
        if unknown := sorted(i.names() - self.names):
            raise self.refuse(f"{of}: there is no axis {unknown[0]!r}", f"the axes are {', '.join(self.axes)}")

    # ---- statements
    def block(self, body: Sequence[Loop | Stmt], loops: tuple[Loop, ...]) -> None:
        for n in body:
            self.at, self.depth, self.loops = self.at + 1, len(loops), loops
            if isinstance(n, Stmt):
                getattr(self, n.op)(n)
                continue
            self.loop(n, loops)
            self.block(n.body, (*loops, n))

    def loop(self, n: Loop, loops: tuple[Loop, ...]) -> None:
        if n.kind == "when":
            self.value(n.opt("of"))
            return
        self.all_known(n.axes, n.kind)
        if not n.axes:
            raise self.refuse(f"a loop '{n.kind}' without axes")
        if again := next((a for a in n.axes for outer in loops if a in outer.axes), ""):
            raise self.refuse(f"a loop over {again} inside of a loop over {again}")
        if n.kind == "grid" and loops:
            raise self.refuse("a grid inside of a loop", "grid stands outermost; inside it is serial, pipelined or parallel")

        if not (stages := n.opt("stages", "1")).isdecimal() or int(stages) < 1:
            raise self.refuse(f"a loop of {stages} stages, which is not a whole number of 1 or more")

    def value(self, name: str) -> tuple[str, ...]:
        """The axes of a value that was made."""
        b = self.p.buf(name)
        if b is None or name not in self.made:
            raise self.refuse(f"value {name!r} is not made yet")
        return b.axes

    def makes(self, s: Stmt, axes: Iterable[str], exactly: bool = False) -> None:
        """A statement's result has these axes, at least or exactly."""
        b = self.p.buf(s.dst)
        assert b is not None, s
        lacks = set(axes) - set(b.axes)
        if lacks or (exactly and set(b.axes) != set(axes)):
            raise self.refuse(f"{s.dst} has axes [{', '.join(b.axes)}], what it is made of [{', '.join(axes)}]")
        if s.acc and s.dst not in self.made:
            raise self.refuse(f"{s.dst} is added to before it has a value", f"`{s.dst} = fill 0.0` in front of the loop")
        self.made.add(s.dst)

    def copy(self, s: Stmt) -> None:
        t = next((t for t in self.p.inputs if t.name == s.srcs[0]), None)
        if t is None:
            raise self.refuse(f"there is no input {s.srcs[0]!r} to copy", f"`{s.dst} = map {s.srcs[0]}` repeats a value")
        self.makes(s, t.axes)

    def fill(self, s: Stmt) -> None:
        self.makes(s, ())

    def map(self, s: Stmt) -> None:
        for name in s.srcs:
            self.value(name)
        found: set[str] = {a for name in s.srcs for a in self.value(name)}
        for e in postorder(s.expr) if isinstance(s.expr, Expr) else ():
            for i in (e.index,) if isinstance(e, Index) else e.guard if isinstance(e, Inside) else ():
                self.index(i, s.dst)
                found |= i.names() & self.axes.keys()
            if isinstance(e, Gather) and e.tensor not in {t.name for t in self.p.inputs}:
                raise self.refuse(f"there is no input {e.tensor!r}")
        self.makes(s, tuple(a for a in self.axes if a in found))

    def reduce(self, s: Stmt) -> None:
        axes = self.value(s.srcs[0])
        if s.expr not in REDUCTIONS:
            raise self.refuse(f"there is no reduction {s.expr!r}", ", ".join(sorted(REDUCTIONS)))
        folded = s.axis.split(",")
        if unknown := next((a for a in folded if a not in axes), ""):
            raise self.refuse(f"{s.srcs[0]} has no axis {unknown!r}, but [{', '.join(axes)}]")
        self.makes(s, tuple(a for a in axes if a not in folded), exactly=True)

    def scan(self, s: Stmt) -> None:
        axes, axis = self.value(s.srcs[0]), s.axis.lstrip("-")
        if s.expr not in ("add", "mul", "max", "min"):
            raise self.refuse(f"there is no scan {s.expr!r}", "add, mul, max or min")
        if axis not in axes:
            raise self.refuse(f"{s.srcs[0]} has no axis {axis!r}, but [{', '.join(axes)}]")
        size, extent = dict(self.p.tile).get(axis), self.axes[axis]
        loop = next((n for n in self.loops if axis in n.axes), None)
        if loop is None and size is not None and not (isinstance(extent, int) and size >= extent):
            raise self.refuse(f"a scan along {axis}, of which a tile has {size} of {extent}", "leave the axis whole, or loop over it")
        if loop is not None and (loop.kind not in ("serial", "pipelined") or loop.axes != (axis,) or loop.back != (s.axis != axis)):
            way = "from its end" if s.axis != axis else "from its beginning"
            raise self.refuse(f"a scan along {axis} in turns that do not follow each other {way}", f"`serial {axis}`")
        if (loop is None) == bool(s.srcs[1:]):
            how = "without" if loop else "with"
            raise self.refuse(f"a scan along {axis} {how} what the turns before came to", "`s = scan add i1 x, c`")
        for c in s.srcs[1:]:
            self.carried(c, s, tuple(a for a in axes if a != axis), loop)
        if s.acc:
            raise self.refuse("a scan is not added to what was there", "`s = scan add i1 x`")
        self.makes(s, axes, exactly=True)

    def carried(self, name: str, s: Stmt, axes: tuple[str, ...], loop: Loop | None) -> None:
        """What a scan carries from turn to turn begins in front of its loop and is nobody else's."""
        if set(self.value(name)) != set(axes):
            raise self.refuse(f"{name} has axes [{', '.join(self.value(name))}], what {s.dst} carries [{', '.join(axes)}]")
        others = [(x, loops) for x, loops in walk(self.p.body) if x is not s and name in (x.dst, *x.srcs)]
        if any(x.op != "fill" or any(n is loop for n in loops) for x, loops in others):
            raise self.refuse(f"{name} is what a scan carries, and a statement beside it reads or writes it", "fill it before the loop")

    def mma(self, s: Stmt) -> None:
        if len(s.srcs) != 2:
            raise self.refuse(f"mma wants two values, found {len(s.srcs)}")
        a, b = map(self.value, s.srcs)
        dst = self.p.buf(s.dst)
        assert dst is not None, s
        both = set(a) & set(b)
        self.makes(s, tuple(x for x in dict.fromkeys((*a, *b)) if x not in both or x in dst.axes), exactly=True)

    def store(self, s: Stmt) -> None:
        t = next((t for t in self.p.outputs if t.name == s.dst), None)
        if t is None:
            raise self.refuse(f"there is no output {s.dst!r}", f"the outputs are {', '.join(t.name for t in self.p.outputs)}")
        if lacks := [a for a in self.value(s.srcs[0]) if a not in t.axes]:
            raise self.refuse(f"{s.srcs[0]} has axis {lacks[0]}, which {s.dst} has not")
        if lacks := [a for a in t.axes if a not in self.value(s.srcs[0])]:
            raise self.refuse(f"{s.dst} has axis {lacks[0]}, which {s.srcs[0]} has not", "spread it: `y: f32[i, j] fragment = map x`")
        b = self.p.buf(s.srcs[0])
        assert b is not None, s
        if b.dtype is not t.dtype and not (b.dtype.is_float and t.dtype.is_float):
            raise self.refuse(f"{s.srcs[0]} is {b.dtype}, {s.dst} is {t.dtype}", f"`map cast(..)` to {t.dtype} in front of the store")
        self.made.add(s.dst)
