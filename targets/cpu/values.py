"""Values of a CPU kernel as C text: where their elements lie, how scalars and vectors are read, written and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from autocomp.targets.cpu.expressions import guard_text, literal, working
from autocomp.targets.cpu.flat import View, index_text
from autocomp.targets.cpu.index_set_split import Ranges, guards
from autocomp.targets.cpu.lower import Nest
from autocomp.targets.cpu.storage import Place, places
from autocomp.targets.cpu.tree import Node
from autocomp.targets.cpu.vectors import kind_of, mask_text, select, stored_as, vector_of

from autocomp.ir.types import SHORT_FLOATS, DType, same_number
from autocomp.tile.program import Tensor


class Values:
    """The text of a kernel so far (`lines`) and its values' places; `vector` is the axis that vectors run over right now, of whose
    lanes the first `part` count ("" for all); `folded`: reduced values whose place is a variable for a part of their terms; `within`:
    axes of which the current loop runs over a range alone."""

    def __init__(self, nest: Nest, tree: Sequence[Node]) -> None:
        self.nest = nest
        self.places = places(nest, tree)
        self.lines: list[str] = []
        self.depth = 1
        self.vector: str | None = None
        self.part = ""
        self.folded: dict[str, str] = {}
        self.within: Ranges = {}

    def w(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.w(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.w("}")

    @contextmanager
    def folding(self, places: Mapping[str, str]) -> Iterator[None]:
        """Inside, reductions fold into these variables."""
        outside, self.folded = self.folded, {**self.folded, **places}
        yield
        self.folded = outside

    def base(self, axis: str) -> str:
        """The loop variable that steps through an axis's tiles."""
        return f"{axis}_tile"

    def dtype(self, name: str) -> DType:
        d = self.nest.dtype_of(name)
        assert isinstance(d, DType)
        return d

    def places_read(self, name: str) -> Mapping[str, str]:
        """Where a read of a buffer finds its element, on the axes that are not plain loop variables there."""
        return {a: index_text(i) for a, i in self.nest.buffers.get(name, {}).items()}

    def element(self, name: str) -> str:
        """The C lvalue of a value's current element (scalar context)."""
        if name in self.folded:
            return self.folded[name]
        p = self.places[name]
        return f"{name}[{self.offset(p)}]" if p.is_array else name

    def offset(self, p: Place, at: Mapping[str, str] | None = None) -> str:
        """Element offset in an array; `at` gives the text of axes that are not plain loop variables here."""
        terms, stride = [], "1"
        for a, e in reversed(p.shape):
            text = (at or {}).get(a, a)
            i = f"({text} - {self.base(a)})" if a in self.nest.tile else f"({text})" if text != a else a
            terms.append(i if stride == "1" else f"{i}*{stride}")
            stride = str(e) if stride == "1" else f"{e}*{stride}"
        return " + ".join(reversed(terms))

    def assign(self, name: str, text: str) -> None:
        p = self.places[name]
        if self.vector is not None and p.is_array and name not in self.folded:
            axes = [a for a, _ in p.shape]
            if self.vector in axes:
                step = "1" if axes[-1] == self.vector else self._stride(p, self.vector)
                with self.whole(p):
                    self.w(self._put(f"&{name}[{self.offset(p)}]", step, text, working(self.dtype(name))))
                return
        self.w(f"{self.element(name)} = {text};")

    def _stride(self, p: Place, axis: str) -> str:
        tail = [str(e) for a, e in p.shape[[a for a, _ in p.shape].index(axis) + 1 :]]
        return "*".join(tail) or "1"

    def slack(self, name: str) -> int:
        """Elements behind the last one of a buffer that the lanes of a short vector may read."""
        steps = [i.coef(a) for i in self.nest.buffers.get(name, {}).values() for a in i.names()]
        return self.nest.lanes * max([1, *steps]) if name in self.nest.buffers else 0

    def _step_read(self, name: str, axis: str) -> tuple[str, bool]:
        """(elements of a buffer between what neighbours along an axis read, whether those are of one row)."""
        p, at = self.places[name], self.nest.buffers[name]
        steps = [(at[a].coef(axis) if a in at else int(a == axis), self._stride(p, a)) for a, _ in p.shape]
        text = " + ".join(s if c == 1 else str(c) if s == "1" else f"{c}*{s}" for c, s in steps if c)
        return text or "0", not any(c for c, _ in steps[:-1])

    def read(self, name: str) -> str:
        if name in self.nest.views:
            return self.load(self.nest.views[name])
        if name in self.nest.buffers:
            return f"{name}[{self.offset(self.places[name], self.places_read(name))}]"
        return self.element(name)

    def load(self, v: View) -> str:
        text = f"{v.pointer}[{v.flat.text()}]"
        if v.dtype in SHORT_FLOATS:
            text = f"s_from_{v.dtype.name}({text})"
        guard = guards(v.guard, self.within)
        if guard is None:
            return literal(v.fill, v.dtype)
        return f"({guard_text(guard)} ? {text} : {literal(v.fill, v.dtype)})" if guard else text

    def table(self, tensor: str, index: list[str]) -> str:
        """A data-dependent read; indices are clamped into the tensor."""
        t = next(t for t in self.nest.inputs if t.name == tensor)  # whole: other views of its buffer may lack dimensions of one element
        text = f"{self.pointer_of(t)}[{self.table_place(t, index)}]"
        return f"s_from_{t.dtype.name}({text})" if t.dtype in SHORT_FLOATS else text

    def pointer_of(self, t: Tensor) -> str:
        """The C pointer of a tensor that is looked up."""
        return next(v.pointer for v in self.nest.views.values() if v.tensor == t.name)

    def table_place(self, t: Tensor, index: Sequence[str]) -> str:
        """The place over the first dimensions of a tensor; each index is clamped."""
        text = "0"
        for i, d in zip(index, t.shape):
            size = d if isinstance(d, int) else d.name
            text = f"({text})*{size} + ac_place({i}, {size})"
        return text

    def vector_read(self, name: str) -> str:
        """A value at the lanes of the current vector: floats (vf), integers of 32 bits (vi) or a mask (vm)."""
        assert self.vector is not None
        d = self.dtype(name)
        if name in self.nest.views:
            v, kind = self.nest.views[name], kind_of(d)
            stride = v.flat.stride(self.vector)
            at, fill = f"&{v.pointer}[{v.flat.text()}]", vector_of(literal(v.fill, v.dtype), d)
            if (guard := guards(v.guard, self.within)) is None:
                return fill
            if stride == 0 and not any(self.vector in g.names() for g in guard):
                return vector_of(self.load(v), d)
            same, lanes = mask_text(guard, self.vector, self.part)
            if lanes:
                ok = f"({lanes})"
                s = stored_as(d)
                text = f"{kind}_load{s}_where({ok}, {at})" if stride == 1 else f"{kind}_strided{s}_where({ok}, {at}, {stride})"
                text = text if same_number(v.fill, 0) else f"{select(kind)}({ok}, {text}, {fill})"
                return f"({same} ? {text} : {fill})" if same else text
            text = self._get(at, str(stride), d)
            return f"({guard_text(guard)} ? {text} : {fill})" if guard else text
        p, w = self.places[name], working(d)
        if name in self.nest.buffers:
            at, (step, near) = f"&{name}[{self.offset(p, self.places_read(name))}]", self._step_read(name, self.vector)
            part, self.part = self.part, "" if near else self.part  # behind the last lane lies the next row, or the buffer's end (`slack`)
            text = self._get(at, step, w) if step != "0" else vector_of(at[1:], w)
            self.part = part
            return text
        if name in self.folded:
            return self.folded[name] if self.vector in self.nest.slots[name].axes else vector_of(self.folded[name], w)
        if not p.is_array:
            return name if self.vector in self.nest.slots[name].axes else vector_of(name, w)
        axes = [a for a, _ in p.shape]
        if self.vector not in axes:
            return vector_of(f"{name}[{self.offset(p)}]", w)
        with self.whole(p):
            return self._get(f"&{name}[{self.offset(p)}]", "1" if axes[-1] == self.vector else self._stride(p, self.vector), w)

    @contextmanager
    def whole(self, p: Place) -> Iterator[None]:
        """Inside, a vector of an array whose rows are whole vectors has all its lanes, unless other elements lie behind its range."""
        all_lanes = p.whole and p.shape[-1][0] == self.vector and self.vector not in self.within
        part, self.part = self.part, "" if all_lanes else self.part
        yield
        self.part = part

    def _put(self, at: str, stride: str, x: str, d: DType) -> str:
        """A vector store of elements that memory holds as `d`; `part`, where set, is how many lanes count."""
        kind, s = kind_of(d), stored_as(d)
        n, some = ("_n", f", {self.part}") if self.part else ("", "")
        return f"{kind}_store{s}{n}({at}, {x}{some});" if stride == "1" else f"{kind}_scatter{s}{n}({at}, {stride}, {x}{some});"

    def _get(self, at: str, stride: str, d: DType) -> str:
        kind, s = kind_of(d), stored_as(d)
        n, some = ("_n", f", {self.part}") if self.part else ("", "")
        return f"{kind}_load{s}{n}({at}{some})" if stride == "1" else f"{kind}_strided{s}{n}({at}, {stride}{some})"
