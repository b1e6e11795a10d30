"""The kernels of a cover: bodies of its cuts, equal ones once, names of kernels and tensors, and what is computed once from parameters."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from autocomp.egraph.bodies import Bodies
from autocomp.egraph.chosen import Cover, kernel_order
from autocomp.egraph.cut import Cut
from autocomp.egraph.provenance import Provenance
from autocomp.egraph.subject import Subject, SubjectNode
from autocomp.ir.coded import coded
from autocomp.ir.kernel import Arg, Call, Kernel, KernelGraph
from autocomp.ir.node import Graph, Node, make
from autocomp.ir.types import holds_symbol

NAMED = 4  # ops that a kernel's name has at most


def kernel_graph(c: Cover, s: Subject, graph: Graph) -> KernelGraph:
    """Kernels in the order in which they run, equal ones once, with the tensors between them."""
    makers: dict[int, list[int]] = {}
    for u, x in sorted(c.extra.items()):
        makers.setdefault(x, []).append(u)
    names = tensor_names(c, s)
    kernels: dict[str, Kernel] = {}
    taken: dict[str, int] = {}
    built = Bodies(s, c.enum.chip.runs_blocks)
    model = Provenance(c, s)
    readers: dict[int, list[int]] = {}
    for node in s.nodes:
        for k in dict.fromkeys(node.enode.children):
            readers.setdefault(k, []).append(node.id)
    calls, predicted = [], 0.0
    for x in kernel_order(c, s):
        cut = c.pick[x]
        predicted += cut.time
        kernel, args = _kernel(built, x, makers.get(x, []), cut, c.enum.chip.features)
        if kernel.signature not in kernels:
            taken[kernel.name] = taken.get(kernel.name, 0) + 1
            unique = kernel.name if taken[kernel.name] == 1 else f"{kernel.name}_{taken[kernel.name]}"
            kernels[kernel.signature] = Kernel(**{**kernel.__dict__, "name": unique})
        kernel = kernels[kernel.signature]
        rules = reasons_of(s, cut, makers.get(x, []))
        calls.append(Call(kernel, {a: names[k] for a, k in args.items()}, _ops(s, cut), rules, kernel.name,
                          body=tuple(sorted(cut.heavy if len(cut.heavy) > 1 else cut.nodes)),
                          feeds=_feeds(s, cut) if len(cut.heavy) > 1 else (),
                          factors=tuple((h, n) for h in sorted(cut.heavy) for n in _factors(s, cut, h)),
                          forms=tuple(n for n in cut.nodes if len(cut.nodes) == 1 and len(s.by_class[s.nodes[n].cls]) > 1),
                          apart=tuple(t for h in sorted(cut.heavy) for t in _apart(s, cut, h)),
                          contracts=tuple(h for h in sorted(cut.heavy) if s.nodes[h].form.kind == "contract"),
                          turned=tuple(t for h in sorted(cut.heavy) for t in _turned(s, cut, h, readers)),
                          waits=_waits(c, s, cut),
                          computes=model.of([x, *makers.get(x, [])], cut), expected=cut.time,
                          cut=(cut.key(makers.get(x, [])), cut.alike())))  # fmt: skip
    tensors = {n: s.types[k] for k, n in names.items()}
    constants = {names[k]: _constant_graph(s, k, graph) for k in sorted(names) if k in s.memory and _is_folded(s, k)}
    inputs = tuple(n.attrs["name"] for n in graph.inputs)
    for n in graph.inputs:
        tensors.setdefault(n.attrs["name"], n.type)
    params = tuple(names[k] for k in sorted(names) if k in s.memory and not _is_folded(s, k) and names[k] not in inputs)
    outputs = tuple((name, names[root]) for name, root in s.roots)
    return KernelGraph(graph, tuple(calls), tensors, inputs, params, outputs, constants, predicted)


def _kernel(built: Bodies, x: int, extra: list[int], cut: Cut, features: Sequence[str]) -> tuple[Kernel, dict[str, int]]:
    s = built.subject
    picks = {s.nodes[n].cls: s.nodes[n] for n in cut.nodes}
    name = _name(s, cut)
    node = picks[x]
    if node.form.kind == "opaque":
        inputs = tuple(Arg(f"in{j}", s.types[k], False) for j, k in enumerate(node.enode.children))
        sig = f"opaque {node.enode.op} {node.enode.attrs!r} {[str(a.type) for a in inputs]} {s.types[x]}"
        kernel = Kernel(name, "X", (), inputs, (Arg("out0", s.types[x]),), (), sig, f"{node.enode.op}")
        known = coded(kernel.opaque, [a.type for a in inputs], features, node.enode.attrs)
        return Kernel(**{**kernel.__dict__, "attrs": node.enode.attrs, "coded": known}), {"out0": x} | {
            f"in{j}": k for j, k in enumerate(node.enode.children)
        }
    return built.kernel([x, *extra], picks, cut.record.kind, name)


def _name(s: Subject, cut: Cut) -> str:
    """matmul_add_gelu: the ops that compute, in order of dataflow, runs collapsed, at most NAMED and a count."""
    ops: list[str] = []
    for n in (n for n in _flow(s, cut) if not s.nodes[n].form.view):
        op = s.nodes[n].enode.op
        if not ops or ops[-1] != op:
            ops.append(op)
    if not ops:
        ops = sorted(s.nodes[n].enode.op for n in cut.nodes)[:1]
    heavy = [o for o in ops if o in {s.nodes[n].enode.op for n in cut.heavy}]
    if len(ops) > NAMED:
        first = [*dict.fromkeys([*heavy, *ops])]
        ops = [*first[:NAMED], f"{len(ops) - NAMED}more"] if len(first) > NAMED else [*dict.fromkeys(ops)]
    return "_".join(ops)


def _flow(s: Subject, cut: Cut) -> list[int]:
    """Nodes of a cut in order of dataflow: by height along the forms that it chose."""
    chosen = {s.nodes[n].cls: s.nodes[n] for n in cut.nodes}
    height: dict[int, int] = {}
    return sorted(cut.nodes, key=lambda n: (_above(s.nodes[n].cls, s, chosen, height), n))


def _above(c: int, s: Subject, chosen: Mapping[int, SubjectNode], height: dict[int, int]) -> int:
    """How many operations of a body stand below a class, and the level of what it loads. No closure: one that calls itself keeps the whole
    cover until Python looks for cycles."""
    if c not in height:
        node = chosen.get(c)
        height[c] = s.level.get(c, 0) if node is None else 1 + max([_above(x, s, chosen, height) for x in node.enode.children], default=-1)
    return height[c]


def _feeds(s: Subject, cut: Cut) -> tuple[int, ...]:
    """Nodes of a cut that compute what its first reductions read."""
    chosen = {s.nodes[n].cls: n for n in cut.nodes}
    inner = lambda n: [chosen[c] for c in s.nodes[n].enode.children if c in chosen]
    below: dict[int, set[int]] = {}
    for n in _flow(s, cut):  # operands first
        below[n] = set().union(*({m, *below.get(m, ())} for m in inner(n)))
    first = [n for n in cut.heavy if not below[n] & cut.heavy]
    return tuple(sorted(m for m in set().union(*(below[n] for n in first)) if not s.nodes[m].form.view))


def _apart(s: Subject, cut: Cut, heavy: int) -> list[tuple[int, ...]]:
    """A contraction with each node of its body that is between it and its operands; alone where there is none and its tensor has other
    forms."""
    if s.nodes[heavy].form.kind != "contract":
        return []
    chosen = {s.nodes[n].cls: n for n in cut.nodes}
    below = [heavy]
    found: list[tuple[int, ...]] = []
    while below:
        n = below.pop()
        inner = [chosen[c] for c in s.nodes[n].enode.children if c in chosen]
        found += [(heavy, m) for m in inner]
        below += inner
    return found or ([(heavy,)] if len(s.by_class[s.nodes[heavy].cls]) > 1 else [])


def _turned(s: Subject, cut: Cut, heavy: int, readers: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """A contraction whose result the body turns, with each transposition in the graph of what views and maps make of it. `readers`: nodes
    that read a class."""
    if s.nodes[heavy].form.kind != "contract" or not any(s.nodes[n].enode.op == "transpose" for n in cut.nodes):
        return []
    found, seen, new = list[tuple[int, int]](), {s.nodes[heavy].cls}, [s.nodes[heavy].cls]
    while new:
        below, new = set(new), []
        for n in (s.nodes[i] for i in sorted({i for k in below for i in readers.get(k, ())})):
            if n.form.kind in ("contract", "reduce", "online"):
                continue
            if n.enode.op == "transpose":
                found.append((heavy, n.id))
            elif n.cls not in seen:
                seen.add(n.cls)
                new.append(n.cls)
    return found if any(n in cut.nodes for _, n in found) else []


def _waits(c: Cover, s: Subject, cut: Cut) -> tuple[int, ...]:
    """Reductions of a cut that read what another kernel's reduction made, while a form of their value reduces what that one does.

        m = max_r x[r]    l = sum_r exp(x[r] - m)    of which the graph has    l = max_sumexp_r x[r]
    """
    made = [c.pick[x] for x in cut.leaves if x in c.pick and _reductions(s, c.pick[x])]
    others = (n for x in (cut.cls, *cut.inside) for n in s.by_class[x] if n.id not in cut.nodes and n.form.kind == "reduce")
    once = made and any(p.leaves | p.inside >= set(n.enode.children) for n in others for p in made)
    return tuple(_reductions(s, cut)) if once else ()


def _reductions(s: Subject, cut: Cut) -> list[int]:
    """Nodes of a cut that are reductions other than contractions."""
    return [h for h in sorted(cut.heavy) if s.nodes[h].form.kind == "reduce"]


def _factors(s: Subject, cut: Cut, heavy: int) -> tuple[int, ...]:
    """Nodes of a cut that make the factors of a contraction."""
    if s.nodes[heavy].form.kind != "contract":
        return ()
    chosen = {s.nodes[n].cls: n for n in cut.nodes}
    found, stack = set[int](), [heavy]
    while stack:
        new = [chosen[c] for c in s.nodes[stack.pop()].enode.children if c in chosen and chosen[c] not in found | cut.heavy]
        found.update(new)
        stack += new
    return tuple(sorted(n for n in found if not s.nodes[n].form.view))


def _ops(s: Subject, cut: Cut) -> tuple[str, ...]:
    return tuple(s.nodes[n].enode.op for n in _flow(s, cut))


def reasons_of(s: Subject, cut: Cut, extra: list[int]) -> tuple[str, ...]:
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


def _leaf(s: Subject, k: int) -> str | None:
    for node in s.frozen.classes[k].nodes if k in s.frozen.classes else ():
        if node.op in ("input", "param"):
            return str(node.attrs["name"])
    return None


def _is_folded(s: Subject, k: int) -> bool:
    return _leaf(s, k) is None


def tensor_names(c: Cover, s: Subject) -> dict[int, str]:
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

    path: set[int] = set()  # classes that are being built

    def build(c: int) -> Generator[int, Node | None, Node | None]:
        """Asks for the nodes of classes below by their names."""
        if c in done:
            return done[c]
        path.add(c)
        t = s.frozen.classes[c].type
        for e in sorted(s.frozen.classes[c].nodes, key=lambda e: (len(e.children), e.op, repr(e.attrs))):
            if e.op == "input" or holds_symbol(t) or holds_symbol(e.attrs) or path & set(e.children):
                continue
            parts = []
            for x in e.children:
                parts.append((yield x))
            if all(p is not None for p in parts):
                done[c] = make(e.op, tuple(p for p in parts if p is not None), t, e.attrs)
                break
        path.discard(c)
        return done.get(c)

    stack, node = [build(k)], None  # by hand: constants may be chains of any length
    while stack:
        try:
            stack.append(build(stack[-1].send(node)))
            node = None
        except StopIteration as made:
            stack.pop()
            node = made.value
    assert node is not None, f"class {k} is marked constant but has no constant form"
    g = Graph(f"constant_{k}", (), (("value", node),), graph.params)
    used = {n.attrs["name"] for n in g.nodes() if n.op == "param"}
    return Graph(g.name, (), g.outputs, {p: d for p, d in graph.params.items() if p in used})
