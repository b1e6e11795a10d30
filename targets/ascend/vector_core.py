"""A vector core while its works are written: values, their places in unified buffer, instructions and rings of copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from autocomp.targets.ascend import words
from autocomp.targets.ascend.direct import direct
from autocomp.targets.ascend.frames import Frame
from autocomp.targets.ascend.geometry import Geometry
from autocomp.targets.ascend.operand import Operand, name_of, number
from autocomp.targets.ascend.pairs import halves
from autocomp.targets.ascend.scalars import Scalars
from autocomp.targets.ascend.tables import slot_text, table
from autocomp.targets.ascend.whole import Held, whole

from autocomp.errors import UnsupportedOp
from autocomp.tile.agents import Work
from autocomp.tile.places import Place
from autocomp.tile.program import TileProgram, walk

MTE2, V, MTE3 = "vector.MTE2", "vector.V", "vector.MTE3"


@dataclass
class VectorCore:
    """Fills `frame`; `outer` takes loads of what is the same for all rows. `guard`: text in front of copies ("" or a condition).

    `start` and `true`: text of the first index and of the count of a tile along an axis, as this core sees them. `slots`: of rings.
    `kept`: values that are read a round later.
    """

    p: TileProgram
    g: Geometry
    ub: Place
    start: dict[str, str]
    true: dict[str, str]
    frame: Frame
    outer: Frame
    slots: int = 2
    guard: str = ""
    kept: frozenset[str] = frozenset()
    by: int = 0
    fused: bool = False  # directive fused_scale
    rounds: bool = True  # Cast rounds single precision to whole numbers; where it does not, functions of sums do, with values beside
    shifts: bool = True  # words are shifted; where they are not, their sums and products have words more beside
    partial: frozenset[str] = frozenset()  # directive thread_partials: sums that are eight lanes' until behind their loop
    row: str = ""  # the axis whose rows vector cores share
    joins: bool = False  # directive joined_rows
    bf16: bool = True  # Cast knows the type; where it does not, functions of words convert it
    before: list[str] = field(default_factory=list)  # what a core does in front of its loop
    depth: dict[str, int] = field(default_factory=dict)
    values: dict[str, Operand] = field(default_factory=dict)
    names: int = 0
    applied: set[str] = field(default_factory=set)  # directives that took effect
    joined: set[str] = field(default_factory=set)  # tensors in memory whose rows leave as runs
    ending: set[str] = field(default_factory=set)  # values that nobody reads behind the statement at hand
    exact: bool = False  # what is computed is a word: numbers that single precision rounds are none in between
    scalars: Scalars = field(init=False)
    changing: set[str] = field(init=False)
    direct: frozenset[str] = field(init=False)
    whole: Held = field(init=False)
    halves: dict[str, int] = field(init=False)  # pairs.py
    came: tuple[object, str] = (None, "")  # what arrived last of which such halves are, and where it lies

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.p, self.start)
        sums = {s.dst for s, _ in walk(self.p.body) if s.op == "mma"}  # of the cube unit: they arrive when they are whole
        made = Counter(s.dst for s, _ in walk(self.p.body) if s.dst not in sums or s.op == "map")
        self.changing = {name for name, n in made.items() if n > 1 or name in sums}
        self.direct = direct(self.p, self.g)
        self.whole = whole(self.p)
        self.halves = halves(self.p)

    def value(self, name: str) -> Operand:
        """A value by name. Raises UnsupportedOp for one that vector cores do not hold."""
        if name not in self.values:
            b = self.p.buf(name)
            raise UnsupportedOp(f"{name} has elements of type {b.dtype if b else '?'}, which are not computed by vector cores here",
                                where=self.p.name, hint=f"types: {', '.join(table()['stored'])}")  # fmt: skip
        return self.values[name]

    # ---- buffers
    def temporary(self, kind: str, lane: str, hint: str = "t", element: str = "float") -> Operand:
        """A piece of unified buffer with room for a value in single precision."""
        bytes_ = self.g.bytes(kind, lane)
        at = self.ub.take(bytes_)
        self.names += 1
        name = name_of(hint, self.names)
        form = "ac_f32" if element == "float" else f"LocalTensor<{element}>"
        self.frame.declarations.append(f"const {form} {name} = ac_at<{element}>(ub, {bytes_}, {at});")
        return Operand(name, kind, lane, at, element)

    def release(self, o: Operand) -> None:
        if o.offset >= 0:
            self.ub.give(o.offset, self.g.bytes(o.kind, o.lane))

    def drop(self, name: str) -> None:
        """A value that nobody reads any more."""
        o = self.values.pop(name, None)
        if o is not None and o not in self.values.values():
            self.release(o)

    def named(self, name: str, o: Operand) -> Operand:
        """The result of an expression as the value `name`. One that stands for another is that one, unless either changes later."""
        names = {n for n, x in self.values.items() if x == o}
        if o.kind != "number" and not (names and ({name} | names) & self.changing):
            return o
        kind, lane = ("stat", "") if o.kind == "number" else (o.kind, o.lane)
        return self.moved(o, self.temporary(kind, lane, name, o.element))

    def moved(self, o: Operand, d: Operand) -> Operand:
        """A value's copy in the place `d`."""
        if o == d:
            return d
        if o.kind not in ("number", d.kind) or (o.lane != d.lane and o.kind != "number"):
            raise UnsupportedOp(f"{d.name} has a value a {d.kind} and is given one a {o.kind}", where=self.p.name)
        n = self.g.elements(d.kind, d.lane)
        self.v([f"Duplicate({d.name}, {o.name}, {n});" if o.kind == "number" else f"Adds({d.name}, {o.name}, {d.zero}, {n});"], (o,), d)
        if o not in self.values.values():
            self.release(o)
        return d

    def constant(self, name: str, value: float) -> Operand:
        """A number as a value of that name has it."""
        return words.number(int(value)) if name in self.whole.words else Operand(number(float(value)), "number")

    def v(self, lines: list[str], reads: tuple[Operand, ...], *writes: Operand) -> None:
        read = [o for o in reads if o.kind != "number"]
        self.frame.works.append(Work(V, tuple(o.storage for o in read), tuple(o.storage for o in writes), tuple(lines),
                                     tuple(o.name for o in (*read, *writes))))  # fmt: skip

    def staged(self, frame: Frame, name: str, element: str, bytes_: int, slots: int = 0, apart: bool = False) -> str:
        """A ring in unified buffer, of so many slots where they are given; gives the name of the round's slot. `apart`: Place.take."""
        size, slots = self.ub.rounded(bytes_), slots or self.slots
        at = self.ub.take(bytes_, slots, name, apart)
        offset = slot_text(at, frame.turn, slots, size)
        frame.declarations.append(f"const LocalTensor<{element}> {name} = ac_at<{element}>(ub, {bytes_}, {offset});")
        self.depth[name] = slots
        return name

    @contextmanager
    def lying(self, g: Geometry, true: dict[str, str]) -> Iterator[None]:
        """Inside, tiles and their true counts are those of memory's own order."""
        before = self.g, self.true
        self.g, self.true = g, true
        try:
            yield
        finally:
            self.g, self.true = before

    def guarded(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        return (f"{self.guard} {{", *("  " + x for x in lines), "}") if self.guard else lines
