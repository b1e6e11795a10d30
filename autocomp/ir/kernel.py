"""A kernel: a fused body with its domain, as the cover selects it; and the whole graph's list of kernel calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autocomp.forks import kept_property
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, Expr, bound_axes, read_sizes
from autocomp.ir.node import Attrs, Graph
from autocomp.ir.ops.loops import ENDLESS, expected
from autocomp.ir.sizes import computed
from autocomp.ir.types import Dim, Sym, TensorType


@dataclass(frozen=True)
class Arg:
    """A tensor in memory that a kernel reads or writes, row-major with the type's shape. `constant`: a parameter whose
    data is known before the first run, so a target may repack it once."""

    name: str
    type: TensorType
    constant: bool = False


@dataclass(frozen=True)
class Store:
    """out[index] = value for every point of the kernel's domain (index lacks an axis only if value does) where every guard is >= 0."""

    tensor: str
    index: tuple[Aff, ...]
    value: Expr
    guard: tuple[Aff, ...] = ()


@dataclass(frozen=True)
class Kernel:
    """One fused body. Argument and axis names are canonical (in0, in1.., out0..; axes as in the signature), so equal
    kernels of a model are one object and are scheduled, emitted and compiled once.

    `kind` is the body grammar's letter (E S N C K O A X); `axes` the domain (axes of the stored values, not the reduced ones).
    `opaque`: the op (with `attrs`) that is no comprehension; such a kernel has no body. It is a function of the target's where `coded`
    (`ir.coded`), else it runs through its reference.
    `program`: the text of a tile program that was written by hand and is printed in the place of what a schedule makes of the body.
    """

    name: str
    kind: str
    axes: tuple[Axis, ...]
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    stores: tuple[Store, ...]
    signature: str
    opaque: str = ""
    attrs: Attrs = field(default_factory=Attrs)
    program: str = ""
    coded: bool = False

    @property
    def in_order(self) -> bool:
        """Whether each result lies in memory in the order of the kernel's axes, so that a part of these is a part of it. False where
        only a number at run time says so."""
        of = {o.name: o.type.shape for o in self.outputs}
        axes = [Aff.of(a.name) for a in self.axes], [a.extent for a in self.axes]
        return all(not s.guard and _place(s.index, of[s.tensor]) == _place(*axes) for s in self.stores)

    @property
    def by_reference(self) -> bool:
        """Whether it runs as the op table has it, on the host."""
        return bool(self.opaque) and not self.coded

    @property
    def identity(self) -> list[str]:
        """The signature, which names its symbols, and beside it their bounds: what keys of stored results are made of."""
        symbols = {d for a in (*self.inputs, *self.outputs) for d in a.type.shape if isinstance(d, Sym)}
        return [self.signature, *sorted(map(repr, symbols))]


def _place(index: Sequence[Aff], shape: Sequence[Dim]) -> tuple[Aff, ...]:
    """An element's number in its tensor; behind a dimension known at run time, one for each such."""
    out = [Aff.of(0)]
    for i, d in zip(index, shape):
        out = [*out[:-1], out[-1] * d + i] if isinstance(d, int) else [*out, i]
    return tuple(out)


def dims_of(kernel: Kernel) -> tuple[Dim, ...]:
    """Dimensions of a kernel's tensors, then the extents of its axes and of its reductions (no tensor need have one that is computed), then
    those whose values it computes with."""
    reduced = [a for s in kernel.stores for a in bound_axes(s.value)]
    dims = (*(d for a in (*kernel.inputs, *kernel.outputs) for d in a.type.shape), *(a.extent for a in (*kernel.axes, *reduced)))
    return *dims, *map(Sym, read_sizes((s.value for s in kernel.stores), [a.name for a in (*kernel.axes, *reduced)], dims))


@dataclass(frozen=True)
class Call:
    """One launch: `args` binds the kernel's canonical argument names to tensors of the plan.

    `ops` are the source ops that it computes; `rules` the rules that made it, in order, one line each. `of`: the kernel whose reduction
    is done in parts, of which this call is a piece (`ir.parts`); its pieces stand one behind the other. `body`: nodes of the frozen e-graph
    that make the kernel what it is: its reductions where it has several, else all; a cover that does without them has other kernels.
    `feeds`: where it has several, the nodes that compute what the first of them read; a cover may store these and keep the kernel.
    `factors`: (a contraction, a node that makes a factor of it) of each; a cover may store these and keep the rest of the kernel.
    `apart`: (a contraction, a node through which it reads a factor: a transposition, a cast) of each, or the contraction alone where it
    reads through none and the graph has other forms of it (a convolution whose channels come first); covers without them have others.
    `forms`: the node of a body of one operation of whose value the graph has other forms.
    `contracts`: its contractions; a cover without one has other forms of what it makes (factors that no copy fills up).
    `turned`: (a contraction, a transposition of what is made of its result) of each in the graph, where the body has one of them; without
    them transpositions are kernels of their own.
    `waits`: its reductions that read what another kernel's reduction of a tensor makes, where the graph has their value as a reduction of
    that tensor alone too; without them one kernel may read it for both (`egraph.siblings`).
    `expected`: its seconds by the cover's price, which knows no schedule. `cut`: where it is of one cut, what a later cover knows that by,
    and cuts like it (`Cut.key`, `Cut.alike`).
    `computes`: the nodes of the source graph that it computes, as numbers in `source.nodes()`; one node may be in several kernels, and
    `ir.places` says what the model calls them. `loop`: the name of the loop (`KernelGraph.loops`) in whose body it is; calls of one loop
    stand one behind the other.
    """

    kernel: Kernel
    args: Mapping[str, str]
    ops: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    name: str = ""
    of: Kernel | None = None
    body: tuple[int, ...] = field(default=(), compare=False)
    feeds: tuple[int, ...] = field(default=(), compare=False)
    forms: tuple[int, ...] = field(default=(), compare=False)
    factors: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    apart: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    contracts: tuple[int, ...] = field(default=(), compare=False)
    turned: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    waits: tuple[int, ...] = field(default=(), compare=False)
    computes: tuple[int, ...] = field(default=(), compare=False)
    expected: float = field(default=0.0, compare=False)
    cut: tuple[tuple[object, ...], ...] = field(default=(), compare=False)
    loop: str = ""


@dataclass(frozen=True)
class Place:
    """Where a tensor of a loop's body lies at step t: in one tensor of the program, along whose first axis the steps lie (it may have more
    elements a step than the tensor), or in turns in two (t even, t odd). `before`: that of the step before, at step 0 this tensor of
    the program."""

    memory: tuple[str, ...]
    before: str = ""

    def at(self, step: int) -> tuple[str, int | None]:
        """(tensor of the program, place along its first axis, None where it is the value as a whole) at a step."""
        if self.before and not step:
            return self.before, None
        now = step - bool(self.before)
        return (self.memory[0], now) if len(self.memory) == 1 else (self.memory[now & 1], None)


@dataclass(frozen=True)
class Copied:
    """A tensor of the program that a loop fills at its beginning or end: with what a tensor of its body was last (`first`, where no step
    ran), or with another tensor of the program, step by step of both (`first` is "")."""

    to: str
    of: str
    first: str = ""


@dataclass(frozen=True)
class Loop:
    """Calls of a body that run `trips` times, or fewer: `condition` is the place of a truth value that a step wants in order to run, as the
    step before left it. `places`: tensors of the body that steps hand on, or that they read or write a slice of;
    its other tensors are made and used up within a step. `begins`, `ends`: what is copied in front of its steps and behind them."""

    trips: Dim
    places: Mapping[str, Place]
    ends: tuple[Copied, ...] = ()
    begins: tuple[Copied, ...] = ()
    condition: Place | None = None

    @property
    def expected(self) -> int:
        """Steps that its price counts."""
        return expected(self.trips, self.condition is not None)

    @property
    def steps(self) -> str:
        """How many there are, for a reader."""
        if self.condition is None:
            return str(self.trips)
        return "any number of" if self.trips == ENDLESS else f"up to {self.trips}"

    @property
    def touched(self) -> frozenset[str]:
        """Tensors of the program that it reads or writes by places and at its end."""
        places = [*self.places.values(), *filter(None, (self.condition,))]
        of = {t for p in places for t in (*p.memory, *filter(None, (p.before,)))}
        return frozenset(of | {t for e in (*self.begins, *self.ends) for t in (e.to, e.first, e.of) if t and t not in self.places})

    def filled(self, trips: int) -> list[tuple[str, str, int | None]]:
        """Behind so many steps: (tensor of the program to fill, tensor that has its value, place along the first axis of that)."""
        found: list[tuple[str, str, int | None]] = []
        for e in self.ends:
            source = (e.of, None) if not e.first else self.places[e.of].at(trips - 1) if trips else (e.first, None)
            found.append((e.to, *source))
        return found


@dataclass(frozen=True)
class KernelGraph:
    """The covered model: calls in a valid order over named tensors.

    `tensors` has the type of every tensor; `inputs`, `params`, `outputs` name those of the source graph (an output maps
    its public name to a tensor). `constants` are tensors folded at compile time from parameters: name -> (graph whose
    single output is the tensor, over parameters only). `donated`: tensors that lie in an input's memory -> that input, which
    no later call reads (`ir.donation`). `loops`: of calls that run once a step (`Call.loop`).
    """

    source: Graph
    calls: tuple[Call, ...]
    tensors: Mapping[str, TensorType]
    inputs: tuple[str, ...]
    params: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]
    constants: Mapping[str, Graph] = field(default_factory=dict)
    predicted: float = 0.0
    donated: Mapping[str, str] = field(default_factory=dict)
    loops: Mapping[str, Loop] = field(default_factory=dict)

    @kept_property
    def computed(self) -> tuple[Sym, ...]:
        """Sizes of tensors and axes that are computed from those of inputs."""
        kernels = {c.kernel.signature: c.kernel for c in self.calls}.values()
        trips = [x.trips for x in self.loops.values()]
        return computed([*(d for t in self.tensors.values() for d in t.shape), *(d for k in kernels for d in dims_of(k)), *trips])

    @kept_property
    def spans(self) -> Mapping[str, tuple[int, int]]:
        """The calls first .. last - 1 of each loop, by its name."""
        numbers = {name: [i for i, c in enumerate(self.calls) if c.loop == name] for name in self.loops}
        return {name: (found[0], found[-1] + 1) for name, found in numbers.items() if found}

    def places(self, c: Call) -> Mapping[str, Place]:
        """Of the loop that a call is in."""
        return self.loops[c.loop].places if c.loop else {}
