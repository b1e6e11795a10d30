"""Matrix products as works of a cube core's agents: MTE2 to L1, MTE1 to L0A and L0B, M into L0C, FIX out to memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autocomp.targets.ascend.geometry import tile_of
from autocomp.targets.ascend.tables import place, slot_text, stored, table

from autocomp.cost.chip import Chip
from autocomp.errors import UnsupportedOp
from autocomp.ir.types import DType
from autocomp.tile.agents import Work
from autocomp.tile.places import Place
from autocomp.tile.program import Tensor, TileProgram

MTE2, MTE1, M, FIX = "cube.MTE2", "cube.MTE1", "cube.M", "cube.FIX"


@dataclass(frozen=True)
class Factor:
    """A factor in L1: a matrix [rows, cols] of `dtype`, columns side by side, in the ring `name`; tiles padded to whole fractals.

    `summed`: rows are summed over, so what pads them must be zero. `folded`: so many neighbouring rows were copied as one, so
    those with the same remainder lie together: all of them, or (`summed`) sixteen and sixteen, whose fractals then lie band by band.
    """

    name: str
    dtype: DType
    rows: str
    cols: str
    summed: bool
    folded: int = 1


@dataclass(frozen=True)
class Part:
    """Elements of a step's depth that one instruction takes: at most `size`, text of their number and of it in whole fractals, text of the
    first one ("" where there is but one part)."""

    depth: str
    size: int
    count: str
    whole: str
    begin: str = ""


@dataclass(frozen=True)
class Some:
    """Elements of a factor's axis beside the depth: at most `size`, text of their number in whole fractals, text of the place of the first
    one in L1, where the next of the depth lies `step` elements on and `rows` rows share a column of fractals."""

    size: int
    whole: str
    at: str
    step: int
    rows: int


@dataclass
class Cube:
    """Texts of the works around products. `true`: count of a tile along an axis; an axis "" has one element. `slots`: of rings; `sums`: of
    those in L0C."""

    p: TileProgram
    chip: Chip
    true: Mapping[str, str]
    slots: int
    sums: int
    depth: dict[str, int] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    def place(self, name: str) -> Place:
        if name not in self.places:
            self.places[name] = place(name, self.chip)
        return self.places[name]

    def size(self, axis: str) -> int:
        """A tile along an axis in whole fractals."""
        return whole(tile_of(self.p, axis) if axis else 1)

    def count(self, axis: str) -> str:
        return axis if axis.isdigit() else self.true[axis] if axis else "1"

    def whole(self, axis: str) -> str:
        """The true count in whole fractals."""
        n = self.count(axis)
        return str(whole(int(n))) if n.isdigit() else f"ac_whole({n})"

    def ring(self, where: str, name: str, element: str, count: int, turn: str, more: int = 0) -> str:
        """A ring of tensors in a memory, of `slots` and `more` where they fit; gives the round's declaration. Raises DoesNotFit."""
        bytes_, memory = count * (4 if element == "float" else 2), self.place(where)
        most = (self.sums if where == "l0c" else self.slots) + more
        n = max((n for n in range(1, most + 1) if memory.top + memory.rounded(bytes_) * n <= memory.capacity), default=1)
        at = memory.take(bytes_, n, name)
        self.depth[name] = n
        offset = slot_text(at, turn, n, memory.rounded(bytes_))
        return f"const LocalTensor<{element}> {name} = {where}.GetWithOffset<{element}>({count}, {offset});"

    def load(self, f: Factor, tensor: str, at: str, apart: int, reads: tuple[str, ...], turn: str,
             border: tuple[str, str] | None = None, more: int = 0) -> tuple[str, Work]:  # fmt: skip
        """(declaration, work): a tile from memory to L1; `at` is the text of its first element's index, rows lie `apart` elements apart.

        `border`: text of the first row that is in the tensor and of the one behind the last; the others are zero. `more`: slots.
        Raises UnsupportedOp for rows that run backwards.
        """
        if apart <= 0:
            raise UnsupportedOp(f"{f.name}: rows {apart} elements apart", where=self.p.name, hint="cube cores copy rows forwards")
        rows, cols = self.size(f.rows), self.size(f.cols)
        text = self.ring("l1", f.name, stored(f.dtype, self.p.name), rows * cols, turn, more)
        call = "ac_to_l1_summed" if f.summed else "ac_to_l1"
        if (n := f.folded) > 1:
            size = f"{self.count(f.rows)} / {n}, {n} * {self.count(f.cols)}, {n} * {apart}{'' if f.summed else f', {rows // n}'}"
            line = f"{'ac_to_l1_bands' if f.summed else 'ac_to_l1'}({f.name}, {tensor}[{at}], {size});"
            return text, Work(MTE2, reads, (f.name,), (line,))
        line = f"{call}({f.name}, {tensor}[{at}], {self.count(f.rows)}, {self.count(f.cols)}, {apart}, {rows});"
        if border is not None:
            size = f"{self.count(f.rows)}, {self.count(f.cols)}, {apart}, {rows}"
            line = f"ac_to_l1_bordered({f.name}, {tensor}, {at}, {border[0]}, {border[1]}, {size});"
        return text, Work(MTE2, reads, (f.name,), (line,))

    def as_it_lies(self, f: Factor, source: str, rows: int, reads: str, turn: str, more: int = 0) -> tuple[str, Work]:
        """(declaration, work): a tile that lies in memory as in L1, in columns of fractals of `rows` rows."""
        text = self.ring("l1", f.name, stored(f.dtype, self.p.name), rows * self.size(f.cols), turn, more)
        return text, Work(MTE2, (reads,), (f.name,), (f"DataCopy({f.name}, {source}, {rows} * {self.whole(f.cols)});",))

    def feed(self, f: Factor, side: str, other: str, part: Part, turn: str, some: Some | None = None,
             slots: int = 0) -> tuple[str, str, Work]:  # fmt: skip
        """(name, declaration, work): a part of a factor from L1 to L0A (side a) or L0B (side b); `other` is its axis beside the depth, of
        which it may be `some` elements. `slots`: 0 for those of rings."""
        where, size, name = f"l0{side}", (some.size if some else self.size(other)) * part.size, f"{f.name}_{side}"
        name += str(sum(x.startswith(name) for x in self.depth) or "")
        text = self.ring(where, name, stored(f.dtype, self.p.name), size, turn, slots - self.slots if slots else 0)
        along = f.cols == part.depth
        call = f"ac_to_{where}{'' if along else '_turned'}"
        source = f.name
        if part.begin:  # columns of fractals lie one behind another; rows of them, in single precision, in bands of 16
            bands = not along and f.dtype.bytes == 4
            source += f"[{part.begin} * {self.size(f.rows) if along else self.whole(other) if bands else whole(1)}]"
        line = f"{call}({name}, {source}, {self.whole(other)}, {part.whole}, {self.size(f.rows)});"
        if f.folded > 1 and f.summed:
            line = f"ac_to_{where}_bands({name}, {f.name}[{part.begin or 0} * {self.size(other)}], {self.size(other)}, {part.whole});"
        elif some:
            source = f"{f.name}[{f'{part.begin} * {some.step} + ' if part.begin else ''}{some.at}]"
            line = f"{call}({name}, {source}, {some.whole}, {part.whole}, {some.rows});"
        return name, text, Work(MTE1, (f.name,), (name,), (line,))

    def product(self, acc: str, a: str, b: str, m: str, n: str, part: Part, first: str) -> Work:
        """One matrix instruction; `first`: text that is true where the sum starts."""
        line = f"ac_mmad({acc}, {a}, {b}, {self.count(m)}, {self.count(n)}, {part.count}, {first});"
        return Work(M, (a, b), (acc,), (line,))

    def part(self, depth: str, fed: int, loop: str) -> Part:
        """What one instruction takes of a step's depth: all of it, or `fed` elements in each turn of `loop`, which counts elements."""
        size, count = self.size(depth), self.count(depth)
        if fed >= size:
            return Part(depth, size, count, self.whole(depth))
        if count.isdigit() and int(count) % fed == 0:
            return Part(depth, fed, str(fed), str(fed), loop)
        return Part(depth, fed, f"ac_least({fed}, {count} - {loop})", f"ac_whole(ac_least({fed}, {count} - {loop}))", loop)

    def accumulator(self, name: str, m: str, n: str, turn: str, more: int = 0) -> str:
        """Declaration of a sum in L0C with room for `more` columns."""
        return self.ring("l0c", name, "float", self.size(m) * (self.size(n) + more), turn)

    def out(self, acc: str, target: str, m: str, n: str, apart: int, writes: tuple[str, ...], call: str = "ac_fixpipe") -> Work:
        """A sum to memory, in rows `apart` elements apart."""
        line = f"{call}({target}, {acc}, {self.count(m)}, {self.count(n)}, {apart});"
        return Work(FIX, (acc,), writes, (line,))


def whole(n: int) -> int:
    """Elements in whole fractals."""
    grain = int(table()["fractal"])
    return -(-n // grain) * grain


def borders(t: Tensor, f: Factor, start: Mapping[str, str], where: str) -> tuple[str, str]:
    """Text of the first row of a tile that lies inside a tensor's guards and of the one behind the last.

        c row + rest >= 0   ->   row >= ceil(-rest / c), or row <= floor(rest / -c), or all rows or none for c = 0

    Raises UnsupportedOp where the guards say more than that about rows, or what lies outside is not zero.
    """
    low, high = "0", "ac_all"
    for g in t.guard:
        if not g.is_affine or t.fill != 0 or f.summed or f.cols in g.names():
            raise UnsupportedOp(f"{t.name} is read with a border (a pad or a mask) along {f.cols or 'its rows'}", where=where,
                                hint="cube cores fill whole rows with zeros")  # fmt: skip
        terms = [f"{g.coef(a)} * int32_t({start[a]})" for a in sorted(g.names()) if start[a] != "0"]
        rest = " + ".join([*terms, str(g.const)])
        c = g.coef(f.rows) if f.rows else 0
        if c > 0:
            low = f"ac_most({low}, ac_ceil(-({rest}), {c}))"
        elif c < 0:
            high = f"ac_fewest({high}, ac_ceil({rest} + 1, {-c}))"
        else:
            high = f"({rest} >= 0 ? {high} : 0)"
    return low, high
