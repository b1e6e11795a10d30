"""Values of a CPU kernel as C text: where their elements lie, how scalars and vectors are read, written and kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from autocomp.targets.cpu.expressions import guard_text, literal, mask_text
from autocomp.targets.cpu.flat import View
from autocomp.targets.cpu.lower import Nest
from autocomp.targets.cpu.storage import Place, places
from autocomp.targets.cpu.tree import Node

from autocomp.ir.types import F32, DType


class Values:
    """The text of a kernel so far (`lines`) and its values' places; `vector` is the axis that vectors run over right now, of whose
    lanes the first `part` count ("" for all); `folded`: reduced values whose place is a variable for a part of their terms."""

    def __init__(self, nest: Nest, tree: Sequence[Node]) -> None:
        self.nest = nest
        self.places = places(nest, tree)
        self.lines: list[str] = []
        self.depth = 1
        self.vector: str | None = None
        self.part = ""
        self.folded: dict[str, str] = {}

    def w(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.w(head + " {")
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
                self.w(
                    self._put(
                        f"&{name}[{self.offset(p)}]", "1" if axes[-1] == self.vector else self._stride(p, self.vector), text
                    )
                )
                return
        self.w(f"{self.element(name)} = {text};")

    def _stride(self, p: Place, axis: str) -> str:
        tail = [str(e) for a, e in p.shape[[a for a, _ in p.shape].index(axis) + 1 :]]
        return "*".join(tail) or "1"

    def read(self, name: str) -> str:
        if name in self.nest.views:
            return self.load(self.nest.views[name])
        return self.element(name)

    def load(self, v: View) -> str:
        text = f"{v.pointer}[{v.flat.text()}]"
        if v.dtype.name in ("f16", "bf16"):
            text = f"s_from_{v.dtype.name}({text})"
        return f"({guard_text(v.guard)} ? {text} : {literal(v.fill, v.dtype)})" if v.guard else text

    def table(self, tensor: str, index: list[str]) -> str:
        """A data-dependent read; indices are clamped into the tensor."""
        t = next(t for t in self.nest.inputs if t.name == tensor)  # whole: other views of its buffer may lack dimensions of one element
        pointer = next(v.pointer for v in self.nest.views.values() if v.tensor == t.name)
        text = "0"
        for i, d in zip(index, t.shape, strict=True):
            size = d if isinstance(d, int) else d.name
            text = f"({text})*{size} + ac_clamp({i}, {size})"
        text = f"{pointer}[{text}]"
        return f"s_from_{t.dtype.name}({text})" if t.dtype.name in ("f16", "bf16") else text

    def vector_read(self, name: str) -> str:
        assert self.vector is not None
        if name in self.nest.views:
            v = self.nest.views[name]
            stride = v.flat.stride(self.vector)
            at = f"&{v.pointer}[{v.flat.text()}]"
            if stride == 0 and not any(self.vector in g.names() for g in v.guard):
                return f"vf_set({self.load(v)})"
            same, lanes = mask_text(v.guard, self.vector, self.part)
            if lanes:
                ok = f"({lanes}{f' & vi_set(-{same})' if same else ''})"
                text = f"vf_load_where({ok}, {at})" if stride == 1 else f"vf_strided_where({ok}, {at}, {stride})"
                return text if v.fill == 0 else f"vf_select({ok}, {text}, vf_set({literal(v.fill, F32)}))"
            text = self._get(at, str(stride))
            return f"({guard_text(v.guard)} ? {text} : vf_set({literal(v.fill, F32)}))" if v.guard else text
        p = self.places[name]
        if name in self.folded:
            return self.folded[name] if self.vector in self.nest.slots[name].axes else f"vf_set({self.folded[name]})"
        if not p.is_array:
            return name if self.vector in self.nest.slots[name].axes else f"vf_set({name})"
        axes = [a for a, _ in p.shape]
        if self.vector not in axes:
            return f"vf_set({name}[{self.offset(p)}])"
        return self._get(f"&{name}[{self.offset(p)}]", "1" if axes[-1] == self.vector else self._stride(p, self.vector))

    def _put(self, at: str, stride: str, x: str) -> str:
        """A vector store; `part`, where set, is how many lanes count."""
        n, some = ("_n", f", {self.part}") if self.part else ("", "")
        return f"vf_store{n}({at}, {x}{some});" if stride == "1" else f"vf_scatter{n}({at}, {stride}, {x}{some});"

    def _get(self, at: str, stride: str) -> str:
        n, some = ("_n", f", {self.part}") if self.part else ("", "")
        return f"vf_load{n}({at}{some})" if stride == "1" else f"vf_strided{n}({at}, {stride}{some})"
