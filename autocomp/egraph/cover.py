"""Choosing kernels: one cut for every tensor that has to be stored, so that the summed time is least.

Area flow gives the first choice; exact area with compound moves improves it: change one kernel's cut, stop storing a tensor
(all its users switch together), start storing one. A kernel may also store interior tensors that others need (by-products).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autocomp.cost.chip import Chip
from autocomp.egraph.bodies import Bodies
from autocomp.egraph.cuts import Cut, Enumerator
from autocomp.egraph.frozen import Frozen
from autocomp.egraph.grammar import LOADED
from autocomp.egraph.rows import compile_rows
from autocomp.egraph.subject import Subject, subject_of
from autocomp.errors import UnsupportedOp
from autocomp.ir.kernel import Arg, Call, Kernel, KernelGraph
from autocomp.ir.node import Graph, Node, make
from autocomp.options import Options
from autocomp.rewrite.rule import RuleSet
from autocomp.trace import Trace

PASSES = 4
DEEP = 3  # rounds in which the users of a tensor, and then theirs, are moved away from it


@dataclass
class Cover:
    """The current choice. `pick`: cut of every stored class; `refs`: how many kernels (and outputs) load a class;
    `extra`: by-products, class -> the class whose kernel stores it."""

    enum: Enumerator
    pick: dict[int, Cut] = field(default_factory=dict)
    refs: dict[int, int] = field(default_factory=dict)
    extra: dict[int, int] = field(default_factory=dict)
    total: float = 0.0
    _readers: dict[int, set[int]] = field(default_factory=dict)  # class -> classes of which some cut chosen so far loads it
    _holders: dict[int, set[int]] = field(default_factory=dict)  # class -> classes of which some cut chosen so far has it inside

    def stored(self, c: int) -> bool:
        return c in self.enum.cuts

    def best(self, c: int) -> Cut:
        """The cut in use, or the one that area flow ranks first."""
        return self.pick.get(c) or self.enum.cuts[c][0]

    def ref(self, c: int) -> None:
        """One more reader of c; its kernel enters the cover with the first one."""
        stack = [c]
        while stack:
            x = stack.pop()
            self.refs[x] = self.refs.get(x, 0) + 1
            if self.refs[x] == 1 and self.stored(x):
                self._choose(x, self.best(x))
                self.total += self.pick[x].time
                stack.extend(sorted(self.pick[x].leaves))

    def deref(self, c: int) -> None:
        """One reader less; a kernel that nobody reads leaves the cover (its cut stays remembered as the best)."""
        stack = [c]
        while stack:
            x = stack.pop()
            self.refs[x] -= 1
            if self.refs[x] == 0 and self.stored(x):
                self.total -= self.pick[x].time
                stack.extend(sorted(self.pick[x].leaves))

    def swap(self, c: int, cut: Cut) -> Cut:
        """Use another cut for c. New leaves are referenced before old ones are released: the other order walks the whole
        graph above a residual stream."""
        old = self.pick[c]
        for x in sorted(cut.leaves):
            self.ref(x)
        self.total += cut.time - old.time
        self._choose(c, cut)
        for x in sorted(old.leaves):
            self.deref(x)
        return old

    def used(self) -> list[int]:
        return sorted(c for c, n in self.refs.items() if n > 0 and c in self.pick)

    def _choose(self, c: int, cut: Cut) -> None:
        """pick[c] = cut; the indices keep what earlier cuts had, so that `users` and `holders` look at few classes."""
        if self.pick.get(c) is cut:
            return
        self.pick[c] = cut
        for index, classes in ((self._readers, cut.leaves), (self._holders, cut.inside)):
            for x in classes:
                index.setdefault(x, set()).add(c)

    def users(self, x: int) -> list[int]:
        """Classes in use whose kernel loads x."""
        return sorted(c for c in self._readers.get(x, ()) if self.refs.get(c, 0) > 0 and x in self.pick[c].leaves)

    def holders(self, x: int) -> list[int]:
        """Classes in use, but x, whose kernel has x inside."""
        return sorted(c for c in self._holders.get(x, ()) if c != x and self.refs.get(c, 0) > 0 and x in self.pick[c].inside)

    def attempt(self, moves: Callable[[], Iterator[tuple[int, Cut]]]) -> bool:
        """Apply moves; keep them if the total falls, else undo them in reverse order."""
        before, done = self.total, []
        for c, cut in moves():
            if self.refs.get(c, 0) > 0 and self.pick[c] is not cut:
                done.append((c, self.swap(c, cut)))
        if self.total < before * (1 - 1e-9):
            return bool(done)
        for c, old in reversed(done):
            self.swap(c, old)
        return False


def cover(frozen: Frozen, rules: RuleSet, chip: Chip, options: Options, trace: Trace,
          without: frozenset[frozenset[int]] = frozenset()) -> KernelGraph:  # fmt: skip
    """Kernels for the whole graph, in an order in which every tensor is made before it is read. `without`: sets of nodes that no kernel
    computes together (`Call.body` of earlier covers).

    Raises UnsupportedOp when no finite cover exists (an op whose forms all need themselves).
    """
    subject = subject_of(frozen, chip.matrix.keys())
    enum = Enumerator(subject, compile_rows(rules.of("fusion", chip.target), options), chip, options, without=without)
    enum.run()
    for reason, n in sorted(enum.refused.items()):
        rule, _, condition = reason.partition(": ")
        trace.add("reject", rule, phase="fusion", reason=condition or reason, count=n)
    c = Cover(enum)
    for name, root in subject.roots:
        if root not in enum.cuts:
            raise UnsupportedOp(
                f"no form of output '{name}' can be computed",
                where=frozen.graph.name,
                hint="run with --without to see which rule removed it",
            )
        c.ref(root)
    seed = c.total
    _improve(c, subject)
    by_product_gain = _by_products(c, subject)
    check_cover(c, subject)
    fired: dict[str, int] = {}
    for x in c.used():
        for _, _, row in c.pick[x].steps:
            fired[row] = fired.get(row, 0) + 1
    for row, n in sorted(fired.items()):
        trace.add("rule", row, phase="fusion", count=n)
    trace.add(
        "cut",
        "cover",
        area_flow=seed,
        exact_area=c.total,
        by_products=len(c.extra),
        saved_by_by_products=by_product_gain,
        cuts=sum(map(len, enum.cuts.values())),
    )
    return _kernel_graph(c, subject, frozen.graph, trace)


# ---- local search
def _improve(c: Cover, s: Subject) -> None:
    order = [x for g in s.order for x in g]
    for _ in range(PASSES):
        before = c.total
        for x in reversed(order):
            if c.refs.get(x, 0) > 0 and x in c.pick:
                _best_swap(c, x)
        for x in order:
            if c.refs.get(x, 0) > 1 and x in c.pick:
                c.attempt(lambda x=x: _stop_storing(c, x))  # type: ignore[misc]
        for x in order:
            if c.stored(x) and not c.refs.get(x, 0):
                c.attempt(lambda x=x: _start_storing(c, x))  # type: ignore[misc]
        if c.total >= before * (1 - 1e-9):
            break


def _best_swap(c: Cover, x: int) -> None:
    for cut in c.enum.cuts[x]:
        c.attempt(lambda cut=cut: iter([(x, cut)]))  # type: ignore[misc]


def _stop_storing(c: Cover, x: int) -> Iterator[tuple[int, Cut]]:
    for _ in range(DEEP):  # a user's other cut may load what is a view of x in turn
        for u in c.users(x):
            other = [k for k in c.enum.cuts[u] if x not in k.leaves]
            if not other:
                return
            yield u, other[0]


def _start_storing(c: Cover, x: int) -> Iterator[tuple[int, Cut]]:
    for u in c.holders(x):
        other = [k for k in c.enum.cuts[u] if x in k.leaves]
        if other:
            yield u, other[0]
    if c.refs.get(x, 0) > 0:
        best = min(c.enum.cuts[x], key=lambda k: (k.flow, k.order()))
        yield x, best


# ---- by-products
def _by_products(c: Cover, s: Subject) -> float:
    """Let a kernel store interior tensors that other kernels load, where that is cheaper than a kernel of their own."""
    before = c.total
    for x in sorted(c.used(), key=lambda x: (s.level.get(x, 0), x)):
        if x in c.extra:
            continue
        settled = {*c.extra, *c.extra.values(), x}  # a kernel that stores by-products may not become one itself
        for cut in c.enum.cuts[x]:
            needed = [
                u
                for u in sorted(cut.top)
                if u not in settled and c.refs.get(u, 0) > 0 and u in c.pick and s.types[u].shape == s.types[x].shape
            ]
            if needed and _attach(c, s, x, cut, needed):
                break
    return before - c.total


def _attach(c: Cover, s: Subject, x: int, cut: Cut, needed: list[int]) -> bool:
    """Try x := cut storing `needed` too. A leaf that depends on x or on one of them would be a cycle."""
    inner = {x, *needed}
    if _reaches(c, cut.leaves, inner):
        return False
    joint = c.enum.priced(cut, tuple(needed))
    before = c.total
    done = [(x, c.swap(x, joint))]
    taken = []
    for u in needed:
        if c.refs.get(u, 0) > 0:
            done.append((u, c.swap(u, _taken_from(u, x))))
            taken.append(u)
    if taken != needed:
        taken = []  # one is no longer read once the others are by-products: price the smaller set another time
    if taken and c.total < before * (1 - 1e-9):
        c.extra.update(dict.fromkeys(taken, x))
        return True
    for k, old in reversed(done):
        c.swap(k, old)
    return False


def _taken_from(u: int, x: int) -> Cut:
    """The free 'cut' of a by-product: it costs nothing and keeps the kernel of x in the cover."""
    none: frozenset[int] = frozenset()
    return Cut(u, frozenset({x}), none, none, LOADED, 0, {}, frozenset(), none, none)


def _reaches(c: Cover, start: frozenset[int], goals: set[int]) -> bool:
    """Does any of `start` depend on a goal, through the kernels chosen?"""
    seen, stack = set(), list(start)
    while stack:
        x = stack.pop()
        if x in goals:
            return True
        if x in seen:
            continue
        seen.add(x)
        if c.stored(x):
            stack.extend(c.best(x).leaves)
    return False


# ---- the checked result
def check_cover(c: Cover, s: Subject) -> None:
    """The cover is acyclic, complete, and its total recounted from scratch is the one kept. Raises AssertionError (a bug of ours)."""
    order = kernel_order(c, s)
    total = sum(c.pick[x].time for x in order)
    if abs(total - c.total) > 1e-6 * max(total, 1e-12):
        raise AssertionError(f"cover total {c.total} but its kernels sum to {total}")


def kernel_order(c: Cover, s: Subject) -> list[int]:
    """Stored classes, those of by-products left out, in an order in which leaves come first; ties by class."""
    order: list[int] = []
    state: dict[int, int] = {}
    for _, root in s.roots:
        stack = [(root, False)]
        while stack:
            x, done = stack.pop()
            if done:
                state[x] = 2
                if x not in c.extra:
                    order.append(x)
                continue
            if state.get(x) == 2:
                continue
            if state.get(x) == 1:
                raise AssertionError(f"the cover has a cycle through class {x}")
            state[x] = 1
            stack.append((x, True))
            stack += [(leaf, False) for leaf in sorted(c.pick[x].leaves, reverse=True) if leaf in c.pick and state.get(leaf) != 2]
    return order


def _kernel_graph(c: Cover, s: Subject, graph: Graph, trace: Trace) -> KernelGraph:
    makers: dict[int, list[int]] = {}
    for u, x in sorted(c.extra.items()):
        makers.setdefault(x, []).append(u)
    names = _tensor_names(c, s)
    kernels: dict[str, Kernel] = {}
    taken: dict[str, int] = {}
    built = Bodies(s)
    calls, predicted = [], 0.0
    for x in kernel_order(c, s):
        cut = c.pick[x]
        predicted += cut.time
        kernel, args = _kernel(built, x, makers.get(x, []), cut)
        if kernel.signature not in kernels:
            taken[kernel.name] = taken.get(kernel.name, 0) + 1
            unique = kernel.name if taken[kernel.name] == 1 else f"{kernel.name}_{taken[kernel.name]}"
            kernels[kernel.signature] = Kernel(**{**kernel.__dict__, "name": unique})
        kernel = kernels[kernel.signature]
        rules = _reasons(s, cut, makers.get(x, []))
        calls.append(Call(kernel, {a: names[k] for a, k in args.items()}, _ops(s, cut), rules, kernel.name,
                          body=tuple(sorted(cut.heavy if len(cut.heavy) > 1 else cut.nodes))))  # fmt: skip
    tensors = {n: s.types[k] for k, n in names.items()}
    constants = {names[k]: _constant_graph(s, k, graph) for k in sorted(names) if k in s.memory and _is_folded(s, k)}
    inputs = tuple(n.attrs["name"] for n in graph.inputs)
    for n in graph.inputs:
        tensors.setdefault(n.attrs["name"], n.type)
    params = tuple(names[k] for k in sorted(names) if k in s.memory and not _is_folded(s, k) and names[k] not in inputs)
    outputs = tuple((name, names[root]) for name, root in s.roots)
    return KernelGraph(graph, tuple(calls), tensors, inputs, params, outputs, constants, predicted)


def _kernel(built: Bodies, x: int, extra: list[int], cut: Cut) -> tuple[Kernel, dict[str, int]]:
    s = built.subject
    picks = {s.nodes[n].cls: s.nodes[n] for n in cut.nodes}
    name = _name(s, cut)
    node = picks[x]
    if node.form.kind == "opaque":
        inputs = tuple(Arg(f"in{j}", s.types[k], False) for j, k in enumerate(node.enode.children))
        sig = f"opaque {node.enode.op} {node.enode.attrs!r} {[str(a.type) for a in inputs]} {s.types[x]}"
        kernel = Kernel(name, "X", (), inputs, (Arg("out0", s.types[x]),), (), sig, f"{node.enode.op}")
        return Kernel(**{**kernel.__dict__, "attrs": node.enode.attrs}), {"out0": x} | {
            f"in{j}": k for j, k in enumerate(node.enode.children)
        }
    return built.kernel([x, *extra], picks, cut.record.kind, name)


def _name(s: Subject, cut: Cut) -> str:
    """matmul_add_gelu: the ops that compute, in order of dataflow, runs collapsed, at most four and a count."""
    ops: list[str] = []
    for n in (n for n in _flow(s, cut) if not s.nodes[n].form.view):
        op = s.nodes[n].enode.op
        if not ops or ops[-1] != op:
            ops.append(op)
    if not ops:
        ops = sorted(s.nodes[n].enode.op for n in cut.nodes)[:1]
    heavy = [o for o in ops if o in {s.nodes[n].enode.op for n in cut.heavy}]
    if len(ops) > 4:
        ops = (
            [*dict.fromkeys([*heavy, *ops])][:4] + [f"{len(ops) - 4}more"]
            if len(dict.fromkeys([*heavy, *ops])) > 4
            else [*dict.fromkeys(ops)]
        )
    return "_".join(ops)


def _flow(s: Subject, cut: Cut) -> list[int]:
    """Nodes of a cut in order of dataflow: by height along the forms that it chose."""
    chosen = {s.nodes[n].cls: s.nodes[n] for n in cut.nodes}
    height: dict[int, int] = {}

    def above(c: int) -> int:
        if c not in height:
            node = chosen.get(c)
            height[c] = s.level.get(c, 0) if node is None else 1 + max((above(x) for x in node.enode.children), default=-1)
        return height[c]

    return sorted(cut.nodes, key=lambda n: (above(s.nodes[n].cls), n))


def _ops(s: Subject, cut: Cut) -> tuple[str, ...]:
    return tuple(s.nodes[n].enode.op for n in _flow(s, cut))


def _reasons(s: Subject, cut: Cut, extra: list[int]) -> tuple[str, ...]:
    """One line a step: the algebra that made a node, the fusion row that inlined it."""
    lines = [
        f"{s.nodes[n].enode.why}: made {s.nodes[n].enode.op} {s.types[s.nodes[n].cls]}"
        for n in sorted(cut.nodes)
        if s.nodes[n].enode.why != "source"
    ]
    for consumer, j, row in sorted(cut.steps):
        node = s.nodes[consumer]
        lines.append(f"{row}: {s.label(node.enode.children[j])} into operand {j} of {node.enode.op}")
    lines += [f"by-product: also stores {s.label(u)} {s.types[u]}" for u in extra]
    return tuple(lines)


# ---- tensors by name
def _leaf(s: Subject, k: int) -> str | None:
    for node in s.frozen.classes[k].nodes if k in s.frozen.classes else ():
        if node.op in ("input", "param"):
            return str(node.attrs["name"])
    return None


def _is_folded(s: Subject, k: int) -> bool:
    return _leaf(s, k) is None


def _tensor_names(c: Cover, s: Subject) -> dict[int, str]:
    """Public names for inputs and parameters, t<n> for the rest; for every class that a kernel reads or writes."""
    used = {k for x in c.used() for k in (*c.pick[x].leaves, x)} | set(c.extra) | {r for _, r in s.roots}
    names: dict[int, str] = {}
    taken = {n for k in used if (n := _leaf(s, k))} | {n.attrs["name"] for n in s.frozen.graph.inputs}
    for k in sorted(used):
        name = _leaf(s, k) if k in s.memory else None
        if name is None:
            name = f"t{k}"
            while name in taken:
                name = "_" + name
        names[k] = name
    return names


def _constant_graph(s: Subject, k: int, graph: Graph) -> Graph:
    """A class computed from parameters alone, as a graph of its own: what the program evaluates once."""
    done: dict[int, Node] = {}

    def build(c: int, path: frozenset[int]) -> Node | None:
        if c in done:
            return done[c]
        t = s.frozen.classes[c].type
        for e in sorted(s.frozen.classes[c].nodes, key=lambda e: (len(e.children), e.op, repr(e.attrs))):
            if e.op == "input" or path & set(e.children):
                continue
            parts = [build(x, path | {c}) for x in e.children]
            if all(p is not None for p in parts):
                done[c] = make(e.op, tuple(p for p in parts if p is not None), t, e.attrs)
                return done[c]
        return None

    node = build(k, frozenset({k}))
    assert node is not None, f"class {k} is marked constant but has no constant form"
    g = Graph(f"constant_{k}", (), (("value", node),), graph.params)
    used = {n.attrs["name"] for n in g.nodes() if n.op == "param"}
    return Graph(g.name, (), g.outputs, {p: d for p, d in graph.params.items() if p in used})
