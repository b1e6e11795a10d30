"""The subject graph: the frozen classes that the outputs need, as the cut enumerator sees them.

Nodes have dense ids and forms; classes come in an order in which operands precede users (strongly connected classes, which
algebra makes by mutual rewrites, stand together).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from math import inf

from autocomp.egraph.forms import Form, comprehension_form, form_of
from autocomp.egraph.frozen import EClass, ENode, Frozen
from autocomp.ir.affine import Aff
from autocomp.ir.body import Axis, Comprehension, Read
from autocomp.ir.node import Attrs
from autocomp.ir.types import TensorType


@dataclass(frozen=True)
class SubjectNode:
    """One way to compute class `cls`."""

    id: int
    cls: int
    enode: ENode
    form: Form


@dataclass(frozen=True)
class Subject:
    """`order`: groups of classes, operands before users; a group of several is strongly connected.

    `memory`: classes that are in memory without a kernel (inputs, parameters, foldable constants). `literal`: value of
    the scalar constants. `users`: how many tensors are made from a class (in any order of axes; an output counts as one).
    `level`: height above the leaves along the lowest form, so that some form of every class uses lower classes only.
    `twins`: one name for the classes that hold one tensor in several orders of its axes. `narrow`: those in `memory` that a body may
    also make itself, from the numbers of at most 8 bits, or the fewer ones, that they are made of; `inner`: of these, those that
    nothing else reads.
    """

    frozen: Frozen
    nodes: tuple[SubjectNode, ...]
    by_class: dict[int, tuple[SubjectNode, ...]]
    types: dict[int, TensorType]
    order: tuple[tuple[int, ...], ...]
    memory: frozenset[int]
    literal: dict[int, float | int | bool]
    users: dict[int, int]
    level: dict[int, int]
    roots: tuple[tuple[str, int], ...]
    twins: dict[int, int] = field(default_factory=dict)
    narrow: frozenset[int] = frozenset()
    inner: frozenset[int] = frozenset()

    def label(self, cls: int) -> str:
        """The source op of a class, or that of its first form."""
        nodes = self.by_class.get(cls, ())
        return self.frozen.source.get(cls) or (nodes[0].enode.op if nodes else f"class {cls}")


COPY = "copy"    # of an output that is an input, a constant or a view of one: memory of its own


DEEP = 16       # operations between a constant and what it is unpacked from
SMALL = 2**16   # elements of a constant that is folded whatever it is made of
LESS = 0.6      # of a constant's bytes that what it is unpacked from has at most, to be read in its place


def subject_of(frozen: Frozen, units: Set[str] = frozenset(), unpacks: bool = False) -> Subject:
    """The part of a frozen e-graph that the outputs need. `units`: the types that the chip's matrix units multiply; `unpacks`: bodies may
    read what constants are unpacked from (bytes, halves of bytes and their scales) in place of these."""
    classes = dict(frozen.classes)
    roots: list[tuple[str, int]] = []
    copies: dict[int, int] = {}
    for name, c in frozen.roots:
        if _in_memory(classes[c]):
            new = copies.setdefault(c, max(classes) + 1)
            classes[new] = EClass(new, classes[c].type, (ENode(COPY, Attrs(), (c,)),))
            c = new
        roots.append((name, c))
    level = _levels(classes)
    groups = tuple(_groups(classes, [c for _, c in roots], level))
    reach = {c for g in groups for c in g}
    nodes: list[SubjectNode] = []
    by_class: dict[int, tuple[SubjectNode, ...]] = {}
    twins = _twins(classes, reach)
    readers: dict[int, set[int]] = {c: set() for c in reach}
    for g in groups:
        for c in g:
            mine = []
            for e in classes[c].nodes:
                if c in e.children:
                    continue
                mine.append(SubjectNode(len(nodes), c, e, _form(e, classes, c)))
                nodes.append(mine[-1])
            by_class[c] = tuple(mine)
            for child in {x for e in mine for x in e.enode.children}:
                if twins[child] != twins[c]:
                    readers[child].add(twins[c])
    forms: dict[int, list[set[int]]] = {}
    for n in nodes:
        forms.setdefault(twins[n.cls], []).append({twins[x] for x in n.enode.children})
    users = {c: _side_by_side(c, readers, twins, forms) for c in reach}
    for c in {c for _, c in roots}:
        users[c] += 1
    literal = {c: v for c in sorted(reach) if (v := _literal(classes, c)) is not None}
    memory = frozenset(c for c in reach if _in_memory(classes[c]) and c not in literal)
    narrow = frozenset(c for c in memory if _casts_narrow(classes, c, units) or _repeats(classes, c))
    unpacked = _unpacked(classes, by_class, memory) if unpacks else frozenset()
    inner = unpacked - {x for n in nodes if n.cls not in unpacked for x in n.enode.children} - {c for _, c in roots}
    return Subject(frozen, tuple(nodes), by_class, {c: classes[c].type for c in sorted(reach)}, groups, memory,
                   literal, users, level, tuple(roots), twins, narrow | unpacked, inner)  # type: ignore[arg-type]


def shape_of(s: Subject, roots: Iterable[int], picks: Mapping[int, SubjectNode]) -> tuple[tuple[object, ...], list[int]]:
    """What the nodes in `picks` compute for some classes from tensors in memory, with the classes numbered as they are met: equal for equal
    bodies over other tensors. And the classes in that order."""
    number = {c: n for n, c in enumerate(dict.fromkeys(roots))}
    classes, out = list(number), list[object]()
    for c in classes:  # grows meanwhile
        node = None if c in s.literal else picks.get(c)
        if node is not None:
            for x in node.enode.children:
                if x not in number:
                    number[x] = len(classes)
                    classes.append(x)
            out.append((id(node.form), *(number[x] for x in node.enode.children)))
        elif c in s.literal:
            out.append((s.types[c], repr(s.literal[c])))
        else:
            out.append((s.types[c], c in s.frozen.classes and s.frozen.classes[c].constant))
    return tuple(out), classes


def _twins(classes: dict[int, EClass], reach: set[int]) -> dict[int, int]:
    """A name for each set of classes that a rule made of one another by moving axes: one tensor in several orders, whose readers
    choose one, so that all of them together are one reader of what they are made from."""
    name = {c: c for c in reach}

    def find(c: int) -> int:
        while name[c] != c:
            c = name[c]
        return c

    for c in sorted(reach):
        for e in classes[c].nodes:
            if e.op == "transpose" and e.why != "source" and find(c) != find(e.children[0]):
                low, high = sorted((find(c), find(e.children[0])))
                name[high] = low
    return {c: find(c) for c in reach}


def _side_by_side(c: int, readers: dict[int, set[int]], twins: dict[int, int], forms: dict[int, list[set[int]]]) -> int:
    """Readers of a class, where those that stand in different forms of one class, and are read for it alone, are one: a form is
    chosen. `forms`: what each form of a class, or of its twins, reads, by the twins' names."""
    ends: dict[int, set[int]] = {}
    for r in readers[c]:
        end = min(readers[r]) if len(readers[r]) == 1 else r
        ends.setdefault(end, set()).add(r)
    most = lambda end, group: max([1, *(len(w & group) + (twins[c] in w) for w in forms.get(end, ()))])
    return sum(most(end, group) if len(group) > 1 else 1 for end, group in ends.items())


def _given(c: EClass) -> bool:
    return any(n.op in ("input", "param", "const") for n in c.nodes)


def _in_memory(c: EClass) -> bool:
    return c.constant or _given(c)


def _casts_narrow(classes: dict[int, EClass], c: int, units: Set[str]) -> bool:
    """Whether a constant is a cast of 8-bit numbers, in any order of its axes, that matrix units multiply as they are."""
    if not classes[c].constant:
        return False
    of = [classes[e.children[0]].type.dtype for e in classes[c].nodes if e.op == "cast"]
    return any(d.bits == 8 and d.name in units for d in of)


def _repeats(classes: dict[int, EClass], c: int) -> bool:
    """Whether a constant repeats fewer numbers, which readers may read where they lie."""
    small = lambda e: classes[e.children[0]].type.elements < classes[c].type.elements
    return classes[c].constant and any(e.op == "broadcast" and small(e) for e in classes[c].nodes)


def _unpacked(classes: dict[int, EClass], by_class: dict[int, tuple[SubjectNode, ...]], memory: frozenset[int]) -> frozenset[int]:
    """Constants that are unpacked, element by element, from numbers of at most 8 bits in fewer bytes than they have, and all between."""
    mapped = {c: [n for n in by_class[c] if n.form.kind == "map"] for c in by_class if c in memory and classes[c].constant}
    size = lambda c: float(t.bytes) if isinstance((t := classes[c].type).elements, int) else inf
    least = {c: size(c) for c in memory}
    for _ in range(DEEP):
        made = {c: min([least[c], *(sum(least.get(x, 0.0) for x in {*n.enode.children}) for n in forms)]) for c, forms in mapped.items()
                if not _given(classes[c])}  # fmt: skip
        if all(made[c] >= least.get(c, inf) for c in made):
            break
        least |= made
    found: set[int] = set()
    wide = lambda c: classes[c].type.dtype.is_float and classes[c].type.dtype.bits > 8 and size(c) > SMALL * classes[c].type.dtype.bytes
    for root in [c for c in mapped if not _given(classes[c]) and wide(c) and least.get(c, inf) <= LESS * size(c)]:
        below, todo, bytes_ = {root}, [root], False
        while todo:
            for x in {x for n in mapped.get(todo.pop(), ()) for x in n.enode.children} - below:
                if _given(classes[x]):
                    bytes_ |= classes[x].type.dtype.bits <= 8 and classes[x].type.elements > SMALL // 2  # type: ignore[operator]
                elif x in mapped:
                    below.add(x)
                    todo.append(x)
        found |= below if bytes_ else set()
    return frozenset(found & memory)


def _literal(classes: dict[int, EClass], c: int) -> float | int | bool | None:
    """The number that a class is: a constant, or a byte that is widened (a zero point)."""
    for n in classes[c].nodes:
        if n.op == "const":
            return n.attrs["value"]  # type: ignore[no-any-return]
        if n.op == "cast" and (of := classes[n.children[0]]).type.dtype.is_int and of.type.dtype.bits == 8 and not of.type.shape:
            byte = next((x.attrs["value"] for x in of.nodes if x.op == "const"), None)
            if byte is not None and classes[c].type.dtype.name in ("f32", "i32"):
                return float(byte) if classes[c].type.dtype.is_float else int(byte)
    return None


def _form(e: ENode, classes: dict[int, EClass], c: int) -> Form:
    t = classes[c].type
    if e.op != COPY:
        return form_of(e.op, e.attrs, tuple(classes[x].type for x in e.children), t)
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(t.shape))
    comp = Comprehension(axes, Read(t.dtype, 0, tuple(Aff.of(a.name) for a in axes)))
    return comprehension_form(comp, (t,), t, COPY)


def _levels(classes: dict[int, EClass]) -> dict[int, int]:
    """Least height of each class, by relaxation along users (each class settles at its lowest form)."""
    waiting: dict[int, int] = {}
    parents: dict[int, list[int]] = {}
    forms: list[tuple[int, int]] = []
    for c in sorted(classes):
        for n in classes[c].nodes:
            i = len(forms)
            children = set(n.children)
            forms.append((c, len(children)))
            waiting[i] = len(children)
            for x in children:
                parents.setdefault(x, []).append(i)
    level: dict[int, int] = {}
    heap = [(0, forms[i][0]) for i in waiting if waiting[i] == 0]
    heapq.heapify(heap)
    while heap:
        h, c = heapq.heappop(heap)
        if c in level:
            continue
        level[c] = h
        for i in parents.get(c, ()):
            waiting[i] -= 1
            if waiting[i] == 0 and forms[i][0] not in level:
                heapq.heappush(heap, (h + 1, forms[i][0]))
    return level


def _groups(classes: dict[int, EClass], roots: list[int], level: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """Strongly connected classes below the roots, operands first (Tarjan's algorithm without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: dict[int, None] = {}  # entered and in no group yet, in order
    work: list[tuple[int, Iterator[int]]] = []

    def enter(c: int) -> None:
        index[c] = low[c] = len(index)
        path[c] = None
        work.append((c, iter(sorted({x for n in classes[c].nodes for x in n.children}))))

    for root in roots:
        if root not in index:
            enter(root)
        while work:
            c, children = work[-1]
            x = next(children, None)
            if x is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[c])
                if low[c] == index[c]:
                    group = [path.popitem()[0]]
                    while group[-1] != c:
                        group.append(path.popitem()[0])
                    yield tuple(sorted(group, key=lambda y: (level.get(y, 0), y)))
            elif x not in index:
                enter(x)
            elif x in path:
                low[c] = min(low[c], index[x])
