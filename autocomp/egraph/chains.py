"""How each kernel of a cover came about: the rule instances behind its nodes, and the bodies that were taken into it.

One event `chain` for each kind of kernel: the instances with what their variables stood for, the values that their conditions saw, and
what the step saved by the cover's own model. Kernels of layers that repeat have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autocomp.egraph.chosen import Cover, kernel_order
from autocomp.egraph.cut import Cut
from autocomp.egraph.frozen import Instance
from autocomp.egraph.kernels import reasons_of, tensor_names
from autocomp.egraph.rows import Body, body_functions
from autocomp.egraph.subject import Subject
from autocomp.rewrite.functions import Operand
from autocomp.rewrite.where import Env, held, show
from autocomp.trace import Trace

MOST = 40  # steps of one kernel that are recorded


def record_chains(c: Cover, s: Subject, trace: Trace) -> None:
    """An event for each kind of kernel of a cover, named by the first tensor that it stores. `reasons`: the same as in `Call.rules`, by
    which a kernel's event is found."""
    makers: dict[int, list[int]] = {}
    for u, x in sorted(c.extra.items()):
        makers.setdefault(x, []).append(u)
    names, seen = tensor_names(c, s), set[tuple[Any, ...]]()
    stored = {*c.used(), *c.extra, *s.memory}
    for x in kernel_order(c, s):
        cut = c.pick[x]
        reasons = reasons_of(s, cut, makers.get(x, []))
        key = (reasons, str(s.types[x]), tuple(str(s.types[k]) for k in sorted(cut.leaves)))
        if key in seen:
            continue
        seen.add(key)
        steps = [*_rewrites(c, s, x, cut), *_equal(s, cut), *_fusions(c, s, cut, stored)]
        trace.add("chain", names[x], reasons=list(reasons), steps=steps[:MOST], steps_in_all=len(steps))


def _rewrites(c: Cover, s: Subject, x: int, cut: Cut) -> Iterator[dict[str, Any]]:
    """Instances of rules that made nodes of a kernel, each once. What one saves: the flow of the cheapest body for the same tensor that has
    none of the rule's nodes, less that of this one."""
    done: set[int] = set()
    for n in sorted(cut.nodes):
        node = s.nodes[n]
        found = s.frozen.instances.get((node.enode.why, node.cls))
        if node.enode.why == "source" or id(found) in done:
            continue
        done.update({id(found)} if found else ())
        rule = node.enode.why
        other = next((k for k in c.enum.cuts[x] if not any(s.nodes[m].enode.why == rule for m in k.nodes)), None)
        yield {"rule": rule, "did": f"made {node.enode.op} {s.types[node.cls]}", **_said(s, found),
               "seconds": other.flow - cut.flow if other is not None else None, "bytes": None}  # fmt: skip


def _equal(s: Subject, cut: Cut) -> Iterator[dict[str, Any]]:
    """Instances that made nothing new: what the model computes there is a tensor that was there already."""
    for k in sorted({s.nodes[n].cls for n in cut.nodes} | cut.leaves):
        for found in s.frozen.joined.get(k, ()):
            yield {"rule": found.rule.name, "did": f"needs nothing new for {s.types[k]}", **_said(s, found), "seconds": None, "bytes": None}


def _fusions(c: Cover, s: Subject, cut: Cut, stored: set[int]) -> Iterator[dict[str, Any]]:
    """Bodies that were taken into the kernel. What one saves: its tensor is not written, where it is not stored all the same, and is not
    read by this operand. A view of a tensor saves nothing."""
    rules = {row.rule.name: row.rule for row in c.enum.rows.rows}
    written = set(stored)
    for consumer, j, row in sorted(cut.steps):
        node = s.nodes[consumer]
        child = node.enode.children[j]
        picked = next((s.nodes[n] for n in cut.nodes if s.nodes[n].cls == child), None)
        size = 0 if picked is None or picked.form.view else s.types[child].bytes
        body = max((k for k in c.enum.cuts.get(child, ()) if k.nodes <= cut.nodes), key=lambda k: len(k.nodes), default=None)
        guards: list[list[str]] = []
        if body is not None and row in rules:
            reads = sum(s.types[leaf].bytes for leaf in body.leaves)
            asked = Body(body.record, body.ops, s.types[child], s.users[child], reads)
            guards = [list(g) for g in held(rules[row].where, Env({"k": asked}, body_functions(c.enum.options)))]
        yield {"rule": row, "did": f"took {s.label(child)} {s.types[child]} into operand {j} of {node.enode.op}",
               "at": s.frozen.places.get(child, ""), "matched": {}, "guards": guards, "seconds": None,
               "bytes": size * (1 if child in written else 2)}  # fmt: skip
        written.add(child)


def _said(s: Subject, found: Instance | None) -> dict[str, Any]:
    """Where an instance stands in the model, what it matched, and its conditions with their values."""
    if found is None:  # a rule that is not a file's, such as `arity/concat`
        return {"at": "", "matched": {}, "guards": []}
    matched = {v: _tensor(s, k) for v, k in sorted(found.tensors)}
    matched |= {v: show(value) for v, value in found.env.variables.items() if v not in matched and not isinstance(value, Operand)}
    return {"at": s.frozen.places.get(found.root, ""), "matched": matched, "guards": [list(g) for g in held(found.rule.where, found.env)]}


def _tensor(s: Subject, k: int) -> str:
    """`matmul f32[64, 96]`: what makes a tensor in the model, and its type; its name where it is in memory."""
    cls = s.frozen.classes[k]
    leaf = next((str(n.attrs["name"]) for n in cls.nodes if n.op in ("input", "param")), None)
    number = next((str(n.attrs["value"]) for n in cls.nodes if n.op == "const"), None)
    return f"{leaf or number or s.frozen.source.get(k) or (cls.nodes[0].op if cls.nodes else '?')} {cls.type}"
