"""A rule's examples run for real: through saturation with this rule alone, or through the cover with the fusion rules in force."""

from __future__ import annotations

from autocomp.cost.chip import Chip, load_chip
from autocomp.egraph.choose import choose_schedules
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import freeze_graph, saturate
from autocomp.egraph.siblings import joined
from autocomp.errors import ModelError, RuleError
from autocomp.frontends.text import parse
from autocomp.ir.decompose import decompose
from autocomp.ir.kernel import KernelGraph
from autocomp.ir.node import Graph
from autocomp.options import Options
from autocomp.rewrite.expr import Call, Lit, walk
from autocomp.rewrite.instance import Instance
from autocomp.rewrite.laws import is_sibling
from autocomp.rewrite.rule import Example, Rule, RuleSet
from autocomp.rewrite.vocabulary import GRAPH_PHASES
from autocomp.rewrite.where import Unanswerable
from autocomp.trace import Trace

CHIP = "h200"  # whose figures decide where an example of a fusion rule needs a price


def graph_of(rule: Rule, example: Example) -> Graph:
    """The example's graph, or the left side on the example's tensors (twice, with what siblings share, for a rule of siblings).
    Raises RuleError where there is none."""
    try:
        if example.graph:
            return parse("graph example\n" + "\n".join(x.strip() for x in example.graph.split(";")) + "\n")
        x = Instance(rule, dict(example.bindings))
        x.b.output("y", x.left)
        if rule.siblings:
            shared = {v: x.nodes[v] for v in rule.siblings}
            x.b.output("z", Instance(rule, dict(example.bindings), seed=1, b=x.b, nodes=shared, suffix="_2").left)
        return x.b.graph()
    except (ModelError, Unanswerable) as e:
        raise RuleError(f"the example has no graph: {e}", where=f"{example.location} rule '{rule.name}'") from None


def fires(rule: Rule, example: Example, rules: RuleSet, chip: Chip | None = None) -> bool:
    """Does the rule fire on its example? `rules`: what else is in force in the cover (a body often needs several rows)."""
    trace, options = Trace(), Options()
    graph = graph_of(rule, example)
    if rule.phase in GRAPH_PHASES:
        saturate(graph, RuleSet((rule,)), options, trace, features_of(rule), drawn=not example.graph)
    else:
        program_of(rule, graph, *setting(rule, rules, chip), options, trace)
    return any(e.name == rule.name for e in trace.of("rule"))


def setting(rule: Rule, rules: RuleSet, chip: Chip | None = None) -> tuple[RuleSet, Chip]:
    """The rules among which a fusion rule is tried, and the chip (that one, else one of its targets) whose figures decide."""
    return (RuleSet((*(r for r in rules if r.name != rule.name), rule)),
            chip or load_chip("cpu" if rule.targets == ("cpu",) else CHIP))  # fmt: skip


def program_of(rule: Rule, graph: Graph, rules: RuleSet, chip: Chip, options: Options, trace: Trace) -> KernelGraph:
    """The kernels of a graph as it is written, by the fusion rules alone; those that a rule of siblings joins, joined. Raises UnsupportedOp
    where there are none."""
    calls = cover(freeze_graph(decompose(graph)), rules, chip, options, trace)
    if not is_sibling(rule):
        return calls
    kernels = [c.kernel for c in calls.calls if not c.kernel.opaque]
    return joined(calls, choose_schedules(kernels, rules, chip, options, Trace()), rules, chip, options, trace)[0]


def features_of(rule: Rule) -> tuple[str, ...]:
    """Features of a chip that the rule asks for: its examples are for chips that have them."""
    calls = [e for c in rule.where for e in walk(c) if isinstance(e, Call) and e.name == "feature"]
    return tuple(str(a.value) for e in calls for a in e.args if isinstance(a, Lit))


def check_examples(rule: Rule, rules: RuleSet) -> str:
    """What is wrong with the rule's examples when they are run, or ""."""
    for example in rule.examples:
        if rule.phase not in (*GRAPH_PHASES, "fusion"):
            continue
        if fires(rule, example, rules) != example.fires:
            return f"the {'positive' if example.fires else 'negative'} example at {example.location} " + (
                "does not fire" if example.fires else "fires"
            )
    return ""
