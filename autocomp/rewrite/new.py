"""The beginning of a rule file: a rule of a phase that loads and passes its check, to be changed into the idea that it names."""

from __future__ import annotations

from autocomp.rewrite.vocabulary import BODY_PHASES, GRAPH_PHASES

GRAPH = """  lhs: add(?x, ?x)                     # the form that is there; ?x stands for any tensor (`autocomp rules words {phase}`)
  rhs: mul(?x, 2)                      # the form that is as good or better
  where: [is_float(?x)]                # all must hold
  exact: true                          # false: rounding may differ
  why: {idea}
  examples:
    - {{x: "f32[3, 4]"}}                 # must fire here, and both sides agree
    - {{x: "i32[3, 4]", fires: false}}   # must not fire here
"""
FUSION = """  lhs: map(?f, load(store(?k)), ?rest...)   # a consumer that reads what a producer stored (`autocomp rules words fusion`)
  rhs: map(?f, ?k, ?rest...)                # the consumer with the producer's body inside
  where: [kind(?k) == elementwise, users(?k) == 1]
  why: {idea}
"""
KERNEL = {
    "tiling": """  match: "contract(m: ?M, n: ?N, k: ?K, b: ?B)"   # a kernel by the extents of its axes (`autocomp rules words tiling`)
  choose: {{bm: [16, 32], bn: [32, 64]}}   # every combination that the conditions leave is a schedule
  where: [legal(tile), ?bm <= ?M, fits(L2, 4 * ?K * (?bm + ?bn))]
  rhs: "tile(m: ?bm, n: ?bn, b: 1)"
  targets: [cpu]
  why: {idea}
""",
    "scheduling": """  match: "tile(m: ?bm)"                  # a schedule that another rule made (`autocomp rules words scheduling`)
  where: [legal(tile), ?bm % 2 == 0, ?bm >= 16]
  rhs: "tile(m: ?bm // 2)"               # the same with these fields replaced
  why: {idea}
""",
    "directives": """  match: "tile(threads: ?t)"             # a schedule (`autocomp rules words directives`)
  where: [?t >= 128]
  rhs: batch_copies()                    # one thing that the kernel's code does beside its tile (docs/schedules.md)
  targets: [cuda]
  why: {idea}
""",
}


def new_rule(name: str, phase: str, idea: str) -> str:
    """The text of a rule file. `idea`: one line, why the rule is there."""
    body = GRAPH if phase in GRAPH_PHASES else FUSION if phase in BODY_PHASES else KERNEL[phase]
    quoted = "'" + " ".join(idea.split()).replace("'", "''") + "'"
    return f"- name: {name}\n  phase: {phase}\n" + body.format(phase=phase, idea=quoted)
