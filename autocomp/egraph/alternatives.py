"""What the e-graph and the cover had besides what was chosen: the forms of each stored tensor, and other kernels that could store it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocomp.egraph.chosen import Cover, kernel_order
from autocomp.egraph.cut import Cut
from autocomp.egraph.subject import Subject

MOST = 6  # of each that the trace keeps
TOTALS = 2  # of other kernels, whose program is priced as a whole


def record_alternatives(c: Cover, s: Subject, names: Mapping[int, str], trace: Any) -> None:
    """One event a kernel into the trace: `forms` of the tensor that it stores (op, rule, whether it was chosen) and `others`, bodies that
    lost, the cheapest first (`seconds` of the kernel, `flow` with its share of what it reads, `total` of the whole program with it, the
    rest as it is; None where the kernel also stores what others need, and past the first TOTALS)."""
    joint = set(c.extra.values())
    for x in kernel_order(c, s):
        cut = c.pick[x]
        text = lambda n: f"{n.enode.op}({', '.join(s.label(k) for k in n.enode.children)})"
        forms = [{"op": text(n), "rule": n.enode.why, "chosen": n.id in cut.nodes} for n in s.by_class[x]]
        forms.sort(key=lambda f: not f["chosen"])
        lost = [k for k in c.enum.cuts[x] if k.nodes != cut.nodes]
        others = [{"ops": [s.nodes[n].enode.op for n in sorted(k.nodes) if not s.nodes[n].form.view], "seconds": k.time, "flow": k.flow,
                   "total": None if x in joint or place >= TOTALS else total_with(c, x, k),
                   "reads": [names.get(t) or f"{s.label(t)} {s.types[t]}" for t in sorted(k.leaves)]}
                  for place, k in enumerate(lost[:MOST])]  # fmt: skip
        trace.add("alternatives", names[x], cut.time, flow=cut.flow, forms=forms[:MOST], forms_in_all=len(forms), others=others,
                  others_in_all=len(lost))  # fmt: skip


def total_with(c: Cover, x: int, cut: Cut) -> float:
    """The price of all kernels with another body for one tensor. The cover stays as it was."""
    old = c.swap(x, cut)
    total = c.total
    c.swap(x, old)
    return total


def least_fused(c: Cover, s: Subject) -> tuple[float, int]:
    """(price, kernels) of the cover that has the fewest operations in each kernel, of the bodies that were kept."""
    few = Cover(c.enum, {x: min(cuts, key=lambda k: (k.ops, k.flow, k.order())) for x, cuts in c.enum.cuts.items() if cuts})
    for _, root in s.roots:
        few.ref(root)
    return few.total, len(few.used())
