"""Where the elements of a placed tile program lie, as C++ text: indices of a thread's elements, their conditions, addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any

from autocomp.targets.cpu.flat import Flat, dim_text, rounded_text
from autocomp.targets.cpu.names import Names
from autocomp.targets.simt.digits import digit
from autocomp.targets.simt.expressions import index
from autocomp.targets.simt.placed import Placement, Shared, tile_of

from autocomp.ir.affine import Aff, FloorDiv, Mod
from autocomp.ir.types import Dim, Sym
from autocomp.tile.layout import Layout, weights
from autocomp.tile.plan import Block, Draft, Line, Node, Open
from autocomp.tile.program import Tensor, TileProgram

LONG = 2**30  # what offsets, indices and guards reach from which they need 64 bits; half of what 31 hold, for tiles stick out


class Coordinates:
    """The plan of a kernel so far and the variables that say where its elements lie."""

    def __init__(self, p: TileProgram, place: Placement, taken: Iterable[str]) -> None:
        """`taken`: names that the kernel's own variables have."""
        self.p, self.place = p, place
        self.names = Names()
        self.whole = self.here = Draft()  # the function's body; where statements are being written
        self.top = Draft()  # declarations of what a thread is, in it
        for name in taken:
            self.names.fresh(name)
        self.base: dict[str, str] = {}  # axis -> variable with the tile's first index
        self.thread: dict[tuple[Any, ...], str] = {}  # (axis, lane and wave digits) -> variable
        self.paired, self.together = "", 1  # a cluster's blocks take neighbouring tiles of this axis, that many
        self.uncut: frozenset[str] = frozenset()  # axes whose end does not cut the tile, by a condition around what is being written
        self.slot: dict[str, str] = {}  # ring buffer -> text of its slot
        self.pointer = {t.buffer: self.names.of(t.buffer) for t in (*p.inputs, *p.outputs)}

    # ---- text
    def put(self, *lines: str) -> None:
        self.here.put(*map(Line, lines))

    def plan(self, *nodes: Node) -> None:
        """Statements of the plan that are no text."""
        self.here.put(*nodes)

    @contextmanager
    def block(self, head: str, unroll: bool = False, most: int = 0, again: str = "", **of_loop: Any) -> Any:
        """`again`: the variable that counts the turns of a loop in which threads may meet; `of_loop`: more fields of `plan.Block`."""
        pragma = "" if not unroll else f"#pragma unroll {most}" if most else "#pragma unroll"
        with self.within(Block(head, (), pragma, again, bool(head) and not unroll and not again, **of_loop)):
            yield

    @contextmanager
    def within(self, block: Block) -> Any:
        outer, self.here = self.here, Draft()
        outer.put(Open(block, self.here))
        yield
        self.here = outer

    def over(self, count: int, var: str = "r") -> Any:
        """An unrolled loop over registers."""
        return self.block(f"for (int {var} = 0; {var} < {count}; ++{var})", unroll=count > 1)

    def each(self, count: int, var: str) -> Any:
        """The same, whose turns a plan's statements name."""
        return self.block(f"for (int {var} = 0; {var} < {count}; ++{var})", unroll=count > 1, again=var, turns=count)

    def registers(self, layout: Layout, var: str = "r", step: int = 1) -> Any:
        """An unrolled loop over a value's registers, `step` at a time."""
        return self.over(layout.registers // step, var)

    # ---- indices
    def local(self, layout: Layout, axis: str, r: str | int) -> str:
        """Index inside the tile of an element: what the thread contributes plus what the register does."""
        mine = lambda level: tuple(x for x in weights(level) if x[0].axis == axis)
        key = (axis, mine(layout.lane), mine(layout.wave))
        parts: list[str] = []
        if key[1] or key[2]:
            if key not in self.thread:
                name = self.names.fresh(f"{axis}_t")
                text = " + ".join([digit("lane", *x, layout.lane) for x in key[1]] + [digit("wave", *x, layout.wave) for x in key[2]])
                self.thread[key] = name
                self.top.first(Line(f"const int {name} = {text};"))
            parts.append(self.thread[key])
        if isinstance(r, int):
            number = sum(r // w % d.count * d.stride for d, w in weights(layout.reg) if d.axis == axis)
            parts += [str(number)] if number else []
        else:
            parts += [digit(r, d, w, layout.reg) for d, w in weights(layout.reg) if d.axis == axis]
        return " + ".join(parts) or "0"

    def first(self, axis: str, number: str, always: bool = False) -> str:
        """The declaration of the first index of an axis' tile of that number."""
        t = tile_of(self.p, axis)
        kind, number = ("long long", f"(long long)({number})") if self.far(axis) else ("int", number)
        return f"const {kind} {self.base[axis]} = {number}{f' * {t}' if t > 1 or always else ''};"

    def far(self, axis: str) -> bool:
        """Whether an axis is so long that its indices need 64 bits."""
        return most(self.p.extent(axis)) > LONG

    def wide(self, a: Aff) -> bool:
        """Whether what an index expression counts, in its floors and mods too, needs 64 bits."""
        return _reach(a, dict(self.p.axes)) > LONG

    def index(self, a: Aff, at: Callable[[str], str]) -> str:
        """An index expression; `at(axis)` gives the text of its axes."""
        return index(a, (lambda x: f"(long long){at(x)}") if self.wide(a) else at)

    def coordinate(self, layout: Layout, axis: str, r: str | int) -> str:
        """Global index of an element along an axis; the value of a symbol."""
        if all(axis != a for a, _ in self.p.axes):
            return axis
        local = self.local(layout, axis, r)
        base = self.base.get(axis)
        if axis in layout.axes():
            return f"({base} + {local})" if base else f"({local})"
        return base or "0"

    def outside(self, axis: str, extent: int, base: str | None) -> list[str]:
        """Conditions ('%s' for the local index) under which a tile of padded `extent` may leave the axis."""
        t, e = tile_of(self.p, axis), self.p.extent(axis)
        out = []
        if extent > t and base:
            out.append(f"%s < {t}")
        together = self.together if axis == self.paired else 1  # a cluster's last block may have a tile behind the last one
        if base and not (isinstance(e, int) and e % (t * together) == 0):
            out.append(f"{base} + %s < {dim_text(e)}")
        elif not base and extent > t:
            out.append(f"%s < {dim_text(e)}")
        return out

    def inside(self, layout: Layout, axes: Iterable[str], r: str | int) -> list[str]:
        """Conditions that an element lies in its tile and in the extents."""
        out = []
        for a in (a for a in axes if a not in self.uncut):
            for c in self.outside(a, layout.extent(a), self.base.get(a)):
                text = c.replace("%s", self.local(layout, a, r) if a in layout.axes() else "0")
                n = self.certain(layout, a)
                out.append(f"({r} < {n} || {text})" if n else text)
        return out

    def certain(self, layout: Layout, axis: str) -> int:
        """How many registers, from the first on, no worker compares with the end of an axis that is whole in a tile."""
        e = self.p.extent(axis)
        return layout.uncut(axis, e) if self.place.ends and axis not in self.base and isinstance(e, int) else 0

    def address(self, t: Tensor, at: Any, at_once: bool = False) -> str:
        """pointer + offset of a view's element; `at(axis)` gives the text of its indices. `at_once`: the offset is summed up in the width
        of its indices and widened once, where term by term every one takes an addition of 64 bits."""
        flat = Flat.of(t.index, t.shape)
        n = 1
        for d in t.shape:
            n *= most(d)
        wide = "(long long)" if n > LONG else ""
        text = flat.text({a: f"{wide}{at(a)}" for a in t.axes}, self.rounded)
        at_once = at_once or not all(i.is_affine for i in t.index)  # every place is summed up for itself
        return f"{self.pointer[t.buffer]} + ({text})" if at_once and " + " in text else f"{self.pointer[t.buffer]} + {text}"

    def rounded(self, atom: FloorDiv | Mod, num: str) -> str:
        """A floor or a remainder whose numerator has this text. One with two values, by the axes' extents, is a comparison."""
        step = steps_once(atom, dict(self.p.axes))
        if step is None:
            return rounded_text(atom, num)
        if isinstance(atom, FloorDiv):
            return f"({num} < {(step + 1) * atom.den} ? {step} : {step + 1})"
        return f"ac_wrapped({num}{f' - {step * atom.den}' if step else ''}, {atom.den})".replace("- -", "+ ")

    def guards(self, guard: tuple[Aff, ...], at: Any) -> list[str]:
        return [f"{self.index(g, at)} >= 0" for g in guard]

    def reached(self, layout: Layout, t: Tensor, r: str) -> tuple[list[str], list[str], str]:
        """(conditions inside the extents, conditions of the guards, address) of a view's element at register `r` of a layout."""
        at = lambda a: self.coordinate(layout, a, r)
        return self.inside(layout, t.axes, r), self.guards(t.guard, at), self.address(t, at)

    # ---- shared memory
    def start(self, x: Shared) -> str:
        """Where a shared operand begins, in the ring's slot."""
        slot = self.slot.get(x.buf.name)
        ring = f" + {slot} * {x.bytes}" if slot and x.view is not None and self.place.stages > 1 else ""
        return f"smem + {x.offset}{ring}"

    def element(self, x: Shared, row: str, col: str, turn: str = "") -> str:
        """Address of an element of a shared operand. `turn`: what changes in the byte of its row before the swizzle does."""
        return f"{self.start(x)} + {x.byte(row, f'({col}) * {x.buf.dtype.bytes}{turn}')}"


def most(d: Dim) -> int:
    """The largest value of a dimension."""
    return d.hi if isinstance(d, Sym) else d


def steps_once(atom: FloorDiv | Mod, extents: Mapping[str, Dim]) -> int | None:
    """The first of the two whole quotients that an atom's numerator may have over its axes, None where there are more, or nobody knows."""
    sizes = {n: d for n, d in extents.items() if isinstance(d, int)}
    if not atom.num.names() <= sizes.keys():
        return None
    low, high = (x // atom.den for x in atom.num.range(sizes))
    return low if high <= low + 1 else None


def _reach(a: Aff, extents: dict[str, Dim]) -> int:
    """The largest magnitude that computing an index expression may meet."""
    of = lambda t: most(extents.get(t, 1)) if isinstance(t, str) else _reach(t.num, extents)
    return abs(a.const) + sum(abs(c) * of(t) for t, c in a.terms)
