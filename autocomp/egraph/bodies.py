"""A chosen body (nodes and leaves of a cut) -> Kernel: comprehensions inlined into each other, views into the loads.

exp(i) = e(x[i]);  sum(b) = reduce_r y[b, r];  out(b, j) = exp(b, j) / sum(b, 0)
->  out[b, j] = e(x[b, j]) / reduce_r e(x[b, r])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autocomp.deadline import current
from autocomp.egraph.known import use_known
from autocomp.egraph.merge import merge_axes
from autocomp.egraph.split import split_axes
from autocomp.egraph.subject import Subject, SubjectNode, shape_of
from autocomp.ir.affine import Aff, aff
from autocomp.ir.body import (
    Axis,
    Const,
    Contract,
    Expr,
    Gather,
    Index,
    Inside,
    Load,
    Map,
    Prev,
    Read,
    Recurrence,
    Reduce,
    bound_axes,
    indices,
    postorder,
    rewrite,
    substitute,
    with_indices,
)
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.monoid_terms import alone
from autocomp.ir.rounding import rounded_already, unrounded
from autocomp.ir.scalar import narrows
from autocomp.ir.sizes import expression, quotients, spelt, spelt_together
from autocomp.ir.types import BOOL, DType, Sym, same_number
from autocomp.loops.access import simplest


@dataclass
class Inliner:
    """Builds the expression of any class at any index. `picks`: the node that computes each interior class; every other
    class is in memory, loaded as `t<class>`."""

    subject: Subject
    picks: Mapping[int, SubjectNode]
    done: dict[tuple[int, tuple[Aff, ...]], Expr] = field(default_factory=dict)
    fresh: int = 0
    extents: dict[str, int] = field(default_factory=dict)

    def value(self, cls: int, index: tuple[Aff, ...]) -> Expr:
        """The element of class `cls` at `index`. Equal questions give the same node, so work is shared."""
        key = (cls, index)
        if key not in self.done:
            self.done[key] = self._value(cls, index)
        return self.done[key]

    def _value(self, cls: int, index: tuple[Aff, ...]) -> Expr:
        t = self.subject.types[cls]
        if cls in self.subject.literal:
            return Const(t.dtype, self.subject.literal[cls])
        if cls not in self.picks:
            return Load(t.dtype, f"t{cls}", index)
        node = self.picks[cls]
        comp = node.form.comp
        assert comp is not None
        names = {a.name: self._axis(a) for a in bound_axes(comp.value)}
        by = {a.name: i for a, i in zip(comp.axes, index)} | {old: aff(new) for old, new in names.items()}
        place = lambda i: self._composed(i.substitute(by))

        def node_of(e: Expr) -> Expr:
            if isinstance(e, Read):
                guard = tuple(g for g in map(place, e.guard) if not self._always(g))
                return self._operand(node.enode.children[e.operand], tuple(map(place, e.index)), guard, e.fill, e.dtype)
            if isinstance(e, Gather):
                return replace(e, tensor=f"t{self._base(node.enode.children[int(e.tensor)])}")
            if isinstance(e, Index):
                return replace(e, index=place(e.index))
            if isinstance(e, Inside):
                left = tuple(g for g in map(place, e.guard) if not self._always(g))
                return Inside(e.dtype, left) if left else Const(BOOL, True)
            if isinstance(e, (Reduce, Contract)):
                return replace(e, axes=tuple(replace(a, name=names[a.name]) for a in e.axes))
            if isinstance(e, Prev):
                return replace(e, index=tuple(map(place, e.index)), guard=tuple(map(place, e.guard)))
            if isinstance(e, Recurrence):
                return renamed_recurrence(e, names, place)
            return e

        return rewrite(comp.value, node_of)

    def _operand(self, cls: int, index: tuple[Aff, ...], guard: tuple[Aff, ...], fill: float, dtype: DType) -> Expr:
        v = self.value(cls, index)
        if not guard:
            return v
        if isinstance(v, Load) and (not v.guard or same_number(v.fill, fill)):
            return replace(v, guard=tuple(dict.fromkeys(v.guard + guard)), fill=fill)
        safe = rewrite(v, lambda e: replace(e, guard=tuple(dict.fromkeys(e.guard + guard))) if isinstance(e, Load) else e)
        if same_number(fill, 0) and _only_cast(safe):  # what is read outside is 0 already
            return safe
        value = int(fill) if not dtype.is_float else fill
        return Map(dtype, "where", (Inside.of(guard), safe, Const(dtype, value)))

    def _base(self, cls: int) -> int:
        return cls

    def _axis(self, a: Axis) -> str:
        self.fresh += 1
        name = f"r{self.fresh}"
        self.extents[name] = a.extent.hi if isinstance(a.extent, Sym) else a.extent
        return name

    def _composed(self, i: Aff) -> Aff:
        """A view's index over the axes of its reader, in its simplest form: by ranges, and by isl where divisions are left."""
        new = i.simplify(self.extents)
        if new.is_affine or not new.names() <= self.extents.keys() or current().passed("cover", "the simplest forms of indices"):
            return new
        return simplest(new, (), tuple((n, self.extents[n]) for n in sorted(new.names())))

    def _always(self, g: Aff) -> bool:
        return g.names() <= self.extents.keys() and g.range(self.extents)[0] >= 0


def _only_cast(e: Expr) -> bool:
    """Is it an element of a tensor, 0 outside of its guard, in another type of numbers?"""
    while isinstance(e, Map) and e.fn == "cast":
        e = e.args[0]
    return isinstance(e, Load) and same_number(e.fill, 0)


class Bodies:
    """Kernels of chosen bodies. Layers that repeat have equal bodies over other tensors, and those are built once."""

    def __init__(self, subject: Subject, uneven: bool = False) -> None:
        self.subject, self.uneven = subject, uneven
        self._built: dict[tuple[object, ...], tuple[Kernel, dict[str, int]]] = {}

    def kernel(self, stored: Sequence[int], picks: Mapping[int, SubjectNode], kind: str, name: str) -> tuple[Kernel, dict[str, int]]:
        """As `build_kernel`; of equal bodies the first one's name."""
        shape, classes = shape_of(self.subject, stored, picks)
        key = (kind, len(stored), shape)
        if key not in self._built:
            kernel, args = build_kernel(self.subject, stored, picks, kind, name, self.uneven)
            number = {c: n for n, c in enumerate(classes)}
            self._built[key] = kernel, {a: number[c] for a, c in args.items()}
        kernel, places = self._built[key]
        return kernel, {a: classes[n] for a, n in places.items()}


def build_kernel(
    subject: Subject, stored: Sequence[int], picks: Mapping[int, SubjectNode], kind: str, name: str, uneven: bool = False
) -> tuple[Kernel, dict[str, int]]:
    """The kernel that computes `stored` classes (the root first, then by-products), and which class each argument is.

    Argument and axis names are canonical. The domain is the root's shape; by-products have it too (equal shapes up to
    extents of 1), or are statistics that lack some of its axes.
    """
    root = stored[0]
    axes = tuple(Axis(f"i{k}", d) for k, d in enumerate(subject.types[root].shape))
    ext = {a.name: (a.extent.hi if isinstance(a.extent, Sym) else a.extent) for a in axes}
    inliner = Inliner(subject, picks, extents=dict(ext))
    stores, args = [], {}
    for k, cls in enumerate(stored):
        index = tuple(aff(a.name) if a.extent != 1 else aff(0) for a in axes)
        shape = subject.types[cls].shape
        if k and shape != subject.types[root].shape:
            index = _aligned(shape, axes)
        stores.append((f"out{k}", cls, index, inliner.value(cls, index)))
        args[f"out{k}"] = cls
    kept = tuple(a for a in axes if a.extent != 1)
    values = tidy(tuple(v for *_, v in stores))
    reads: dict[str, None] = {}
    for e in postorder(*values):
        if isinstance(e, Load) or (isinstance(e, Gather) and isinstance(e.tensor, str)):
            reads.setdefault(str(e.tensor))
    names = {t: f"in{k}" for k, t in enumerate(reads)}
    args |= {names[t]: int(t[1:]) for t in reads}
    bound: dict[str, str] = {}
    for a in (a for v in values for a in bound_axes(v)):
        bound.setdefault(a.name, f"r{len(bound)}")
    place = {a.name: f"i{k}" for k, a in enumerate(kept)} | bound
    values = tuple(renamed(v, place, names) for v in values)
    by = {old: aff(new) for old, new in place.items()}
    inputs = tuple(
        Arg(
            names[t],
            subject.types[int(t[1:])],
            subject.frozen.classes[int(t[1:])].constant if int(t[1:]) in subject.frozen.classes else False,
        )
        for t in reads
    )
    outputs = tuple(Arg(out, subject.types[cls]) for out, cls, _, _ in stores)
    final = tuple(Store(out, tuple(i.substitute(by) for i in index), v) for (out, _, index, _), v in zip(stores, values))
    domain = tuple(replace(a, name=place[a.name]) for a in kept)
    final = _over_own_sizes(domain, inputs, outputs, final, (d for c in picks for d in subject.types[c].shape if isinstance(d, Sym)))
    kernel = numbered(merge_axes(use_known(split_axes(Kernel(name, kind, domain, inputs, outputs, final, ""), uneven)), digits=uneven))
    return replace(kernel, signature=signature(kernel)), args


def _over_own_sizes(
    domain: tuple[Axis, ...], inputs: tuple[Arg, ...], outputs: tuple[Arg, ...], stores: tuple[Store, ...], inner: Iterable[Sym]
) -> tuple[Store, ...]:
    """Indices over sizes that the kernel has; `inner`: sizes of what it keeps to itself.

    in0[i0 + s] of in0: f32[2*s]   ->   in0[i0 + floor(n / 2)] of in0: f32[n], and
    in0[i0 + floor(s / 2)] of in0: f32[s // 2]   ->   in0[i0 + n] of in0: f32[n]"""
    bound = [a for s in stores for a in bound_axes(s.value)]
    dims = [*(d for a in (*inputs, *outputs) for d in a.type.shape), *(a.extent for a in (*domain, *bound))]
    own, axes = {d.name for d in dims if isinstance(d, Sym)}, {a.name for a in (*domain, *bound)}
    if not own:
        return stores
    if foreign := _names(stores) - axes - own:
        stores = _substituted(stores, {d.name: expression(d) for d in inner if d.name in foreign and d.is_computed})
    if not any(isinstance(d, Sym) and d.parts for d in dims):
        return stores
    if floors := quotients(dims):
        stores = tuple(replace(s, index=tuple(i.with_atoms(floors) for i in s.index),
                               value=with_indices(s.value, lambda i: i.with_atoms(floors))) for s in stores)  # fmt: skip
    named = _names(stores) - axes
    by = spelt(named, dims)
    if named - own - by.keys():
        together = lambda i: spelt_together(i, dims)
        stores = tuple(replace(s, index=tuple(map(together, s.index)), value=with_indices(s.value, together)) for s in stores)
    return _substituted(stores, by) if by else stores


def _names(stores: tuple[Store, ...]) -> frozenset[str]:
    return frozenset().union(*(i.names() for s in stores for i in (*s.index, *indices(s.value))))


def _substituted(stores: tuple[Store, ...], by: Mapping[str, Aff]) -> tuple[Store, ...]:
    return tuple(replace(s, index=tuple(i.substitute(by) for i in s.index), value=substitute(s.value, by)) for s in stores)


def numbered(k: Kernel) -> Kernel:
    """Axis names in order again (i0, i1.., r0, r1..) after some were merged."""
    place = {a.name: f"i{n}" for n, a in enumerate(k.axes)}
    for a in (a for s in k.stores for a in bound_axes(s.value)):
        place.setdefault(a.name, f"r{sum(v[0] == 'r' for v in place.values())}")
    if all(old == new for old, new in place.items()):
        return k
    by = {old: aff(new) for old, new in place.items()}
    tensors = {a.name: a.name for a in k.inputs}
    stores = tuple(Store(s.tensor, tuple(i.substitute(by) for i in s.index), renamed(s.value, place, tensors),
                         tuple(g.substitute(by) for g in s.guard)) for s in k.stores)  # fmt: skip
    return replace(k, axes=tuple(replace(a, name=place[a.name]) for a in k.axes), stores=stores)


def _aligned(shape: tuple[object, ...], axes: tuple[Axis, ...]) -> tuple[Aff, ...]:
    tail = axes[len(axes) - len(shape) :]
    return tuple(aff(a.name) if d != 1 else aff(0) for d, a in zip(shape, tail))


def tidy(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Reduced axes of extent 1 go; a reduction without axes left is what its monoid makes of one element. Factors are multiplied in
    the type in which they are loaded, and rounded once (`ir.rounding`)."""

    def one(e: Expr) -> Expr:
        e = rounded_already(e)
        if isinstance(e, Contract):
            e = _narrow(e)
        if isinstance(e, (Reduce, Contract)):
            gone = {a.name for a in e.axes if a.extent == 1}
            kept = tuple(a for a in e.axes if a.extent != 1)
            if gone and kept:
                e = replace(e, axes=kept)
                e = e.with_args(tuple(map(unrounded, e.args))) if isinstance(e, Contract) else e
            elif gone and isinstance(e, Contract):
                a, b = (x if x.dtype == e.dtype else Map(e.dtype, "cast", (x,)) for x in e.args)
                e = Map(e.dtype, "mul", (a, b))
            elif gone and isinstance(e, Reduce):
                e = alone(e)
            else:
                return e.with_args(tuple(map(unrounded, e.args))) if isinstance(e, Contract) else e
            zero = dict.fromkeys(gone, aff(0))
            return substitute(e, zero)
        return e

    return tuple(unrounded(rewrite(v, one)) for v in values)


def _narrow(e: Contract) -> Contract:
    """contract(cast(i32, a: i8), cast(i32, b: i8)) -> contract(a, b): exact where the sum's type is the accumulator of theirs."""
    narrow = [x.args[0] for x in e.args if isinstance(x, Map) and x.fn == "cast" and isinstance(x.args[0], Load)]
    if len(narrow) < 2 or not narrows(narrow[0].dtype, narrow[1].dtype, e.a.dtype, e.dtype):
        return e
    return replace(e, a=narrow[0], b=narrow[1])


def renamed(root: Expr, place: Mapping[str, str], tensors: Mapping[str, str]) -> Expr:
    by = {old: aff(new) for old, new in place.items()}

    def one(e: Expr) -> Expr:
        if isinstance(e, Load):
            return replace(
                e,
                tensor=tensors[e.tensor],
                index=tuple(i.substitute(by) for i in e.index),
                guard=tuple(g.substitute(by) for g in e.guard),
            )
        if isinstance(e, Gather):
            return replace(e, tensor=tensors[str(e.tensor)])
        if isinstance(e, Index):
            return replace(e, index=e.index.substitute(by))
        if isinstance(e, Inside):
            return replace(e, guard=tuple(g.substitute(by) for g in e.guard))
        if isinstance(e, (Reduce, Contract)):
            return replace(e, axes=tuple(replace(a, name=place[a.name]) for a in e.axes))
        if isinstance(e, Prev):
            return replace(e, index=tuple(i.substitute(by) for i in e.index), guard=tuple(g.substitute(by) for g in e.guard))
        if isinstance(e, Recurrence):
            return renamed_recurrence(e, place, lambda i: i.substitute(by))
        return e

    return rewrite(root, one)


def renamed_recurrence(e: Recurrence, names: Mapping[str, str], place: Callable[[Aff], Aff]) -> Recurrence:
    """Its time and space axes renamed; the point and time asked for moved by `place`. init and step are done already."""
    return replace(
        e,
        time=replace(e.time, name=names[e.time.name]),
        axes=tuple(replace(a, name=names[a.name]) for a in e.axes),
        index=tuple(map(place, e.index)),
        at=e.at if e.at is None else place(e.at),
    )


def signature(k: Kernel) -> str:
    """Canonical text of a kernel: arguments, domain and body; equal texts mean equal kernels."""
    number: dict[int, int] = {}
    lines = [f"{a.name}: {a.type}{' constant' if a.constant else ''}" for a in (*k.inputs, *k.outputs)]
    lines.append("domain " + " ".join(map(str, k.axes)))
    for e in postorder(*(s.value for s in k.stores)):
        number[id(e)] = len(number)
        args = " ".join(f"%{number[id(a)]}" for a in e.args)
        lines.append(f"%{number[id(e)]} {e.dtype} {_head(e)} {args}".rstrip())
    lines += [f"{s.tensor}[{', '.join(map(str, s.index))}] = %{number[id(s.value)]}{_where(s.guard)}" for s in k.stores]
    return "\n".join([*lines, k.opaque]).strip()


def _where(guard: tuple[Aff, ...]) -> str:
    return f" where {', '.join(map(str, guard))}" if guard else ""


def _head(e: Expr) -> str:
    if isinstance(e, Load):
        return f"load {e.tensor}[{', '.join(map(str, e.index))}]{_where(e.guard)}{f' else {e.fill}' if e.guard else ''}"
    if isinstance(e, Const):
        return f"const {e.value!r}"
    if isinstance(e, Index):
        return f"index {e.index}"
    if isinstance(e, Inside):
        return f"inside {', '.join(map(str, e.guard))}"
    if isinstance(e, Map):
        return e.fn
    if isinstance(e, Reduce):
        return f"reduce {e.monoid}{'.' + e.part if e.part else ''} {' '.join(map(str, e.axes))}"
    if isinstance(e, Contract):
        return f"contract {' '.join(map(str, e.axes))}"
    if isinstance(e, Prev):
        return f"prev[{', '.join(map(str, e.index))}] lag {e.lag}" + (
            f" if {', '.join(map(str, e.guard))} else {e.fill!r}" if e.guard else ""
        )
    if isinstance(e, Recurrence):
        return (
            f"recurrence {e.time} over {' '.join(map(str, e.axes))} at {'the end' if e.at is None else e.at} "
            f"[{', '.join(map(str, e.index))}]"
        )
    assert isinstance(e, Gather)
    return f"gather {e.tensor}"
