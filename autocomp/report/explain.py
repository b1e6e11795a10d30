"""Why the program is as it is: every sentence is read off the recorded trace."""

from __future__ import annotations

from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.directives import DIRECTIVES
from autocomp.ir.places import short
from autocomp.report.chain import Evidence, chain, chain_lines
from autocomp.report.layers import called, layer_lines, model_places
from autocomp.report.tables import near_hint, plural, remarks, runners_up, seconds_text
from autocomp.report.why_not import why_not as refusals


def explain(program: Any, why: str | None = None, why_not: str | None = None, at: str | None = None) -> tuple[str, dict[str, Any]]:
    """(text, data). Without arguments the whole program; `why` a kernel's name; `why_not` a rule's name, `at` a part of the name of a node
    of the model.

    Raises AutocompError when there is no such kernel, rule or node, with the nearest name.
    """
    if why is not None:
        return _why(program, why)
    if why_not is not None:
        return refusals(program, why_not, at)
    lines = [
        f"{program.name} on {program.target.name} ({program.target.chip.name}): {plural(len(program.calls.calls), 'kernel')}, "
        f"predicted {seconds_text(program.predicted)}"
    ]
    for e in program.trace.of("stage"):
        lines.append(f"  {e.name:10s} {e.seconds:7.3f} s  " + ", ".join(f"{k} {v}" for k, v in e.data.items()))
    fired: dict[str, int] = {}
    for e in program.trace.of("rule"):
        fired[e.name] = fired.get(e.name, 0) + int(e.data.get("count", 1))
    lines.append("rules that fired: " + (", ".join(f"{n} x{c}" for n, c in sorted(fired.items())) or "none"))
    for e in [e for e in program.trace.of("budget") if "undone" not in e.data]:
        lines.append(f"budget reached in phase {e.name}: " + ", ".join(f"{k} {v}" for k, v in e.data.items()))
    lines += remarks(program)
    for name, (first, last) in program.calls.spans.items():
        names = ", ".join(c.kernel.name for c in program.calls.calls[first:last])
        lines.append(f"{name}: {program.calls.loops[name].steps} steps of {names}")
    if donated := program.calls.donated:
        writers = {c.args[a.name]: c.kernel.name for c in program.calls.calls for a in c.kernel.outputs}
        lines.append("written in place: " + ", ".join(f"{name} by {writers[t]}" for t, name in donated.items()))
    for k in program.kernels:
        lines.append(f"{k.name} x{k.calls}: {seconds_text(k.predicted)}, bound by {k.bound}; ops {' '.join(k.ops)}")
    if named := layer_lines(program):
        lines += ["in the model's words, in order:", *(f"  {x}" for x in named)]
    return "\n".join(lines), {
        "program": program.name,
        "rules": fired,
        "kernels": [k.name for k in program.kernels],
        "calls": [{"kernel": c.kernel.name, "model": [short(p) for p in model_places(program, c)], **({"loop": c.loop} if c.loop else {})}
                  for c in program.calls.calls],
        "predicted": program.predicted,
    }


def _why(program: Any, name: str) -> tuple[str, dict[str, Any]]:
    pieces = [c.kernel.name for c in program.calls.calls if c.of is not None and c.of.name == name]  # of one whose reduction is in parts
    k = next((k for k in program.kernels if k.name in (name, *pieces[:1])), None)
    if k is None:
        hint = near_hint(name, [k.name for k in program.kernels], "`autocomp explain MODEL` lists them")
        raise AutocompError(f"there is no kernel '{name}'", where="explain --why", hint=hint)
    others = [e for e in program.trace.of("schedule") if e.data.get("signature") == k.signature]
    parts = f" ({name} in parts: {', '.join(dict.fromkeys(pieces))})" if pieces else ""
    lines = [
        f"{k.name}, called {plural(k.calls, 'time')}{parts}",
        f"  computes   {' '.join(k.ops)}",
        *[f"  of model   {text}" for text in _few(called(program, k.name))],
        f"  predicted  {seconds_text(k.predicted)}, bound by {k.bound}",
        f"  schedule   {k.schedule}",
    ]
    given = [e for e in program.trace.of("directive") if e.data["signature"] == k.signature]
    kept = set(k.schedule.split(" | "))  # a program of one kernel has no use for what concerns its neighbours
    evidence = Evidence(program)
    why = {r.name: r.why for r in evidence.rules.of("directives")}
    lines += [f"    {e.data['directive']}: {e.name}{_saving(e)}: {why.get(e.name, '')}" for e in given if e.data["directive"] in kept]
    idle = [e.data["directive"] for e in given if e.data["directive"] not in kept]
    lines += [f"    no use for {', '.join(idle)}"] if idle else []
    lines += [f"  tuned      {e.data['text']}" for e in program.trace.of("tuned") if e.data.get("signature") == k.signature]
    steps = chain(program, k)
    lines += ["  made by", *chain_lines(steps, evidence), *(f"    {_schedule_rule(evidence, e)}" for e in others if e.data.get("rule"))]
    for e in others:
        if "candidates" in e.data:
            at = "; ".join(", ".join(f"{k} = {n}" for k, n in x.items()) for x in e.data.get("sizes", ()))
            by = f", by the mean of their times at {at}" if at else ""
            lines.append(f"  chosen among {plural(e.data['candidates'], 'legal schedule')}{by}")
        lines += [f"    lost: {r}" for r in runners_up(k.schedule, e.data)]
    return "\n".join(lines), {
        "kernel": k.name,
        "calls": k.calls,
        "ops": list(k.ops),
        "model": [[short(p) for p in model_places(program, c)] for c in program.calls.calls if c.kernel.name == k.name],
        "rules": list(k.rules),
        "chain": [{**s, "evidence": evidence.of(s["rule"])} for s in steps],
        "schedule": k.schedule,
        "directives": [{"name": e.data["directive"], "rule": e.name, "used": e.data["directive"] in kept,
                        "saves": e.data.get("saves", 0.0), "why": why.get(e.name, "")} for e in given],
        "predicted": k.predicted,
        "bound": k.bound,
        "trace": [e.data for e in others],
    }


def _schedule_rule(evidence: Evidence, choice: Any) -> str:
    """The rule that made the chosen schedule, its evidence, and what it saved over the cheapest one that lost."""
    rule = choice.data["rule"]
    others = [f"the cheapest of {name} is {made['best']}" for name, made in choice.data.get("made", {}).items() if name != rule]
    return f"{rule}: the schedule ({evidence.of(rule)}){f'; {others[0]}' if others else ''}"


def _saving(directive: Any) -> str:
    """What a directive saves by the model, or why no price knows it."""
    saves = directive.data.get("saves", 0.0)
    if not saves:
        neutral = DIRECTIVES[directive.data["directive"]].neutral
        return f" (not priced: {neutral})" if neutral else ""
    return f", {'saves' if saves > 0 else 'costs'} {seconds_text(abs(saves))} by the model"


def _few(texts: list[str], most: int = 4) -> list[str]:
    left = len(texts) - most + 1
    return texts if left < 2 else [*texts[: most - 1], f"and {plural(left, 'more call')}"]
