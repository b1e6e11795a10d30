"""Why the program is as it is: every sentence is read off the recorded trace."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.places import short
from autocomp.report.layers import layer_lines, model_places, model_text
from autocomp.report.tables import plural, remarks, runners_up, seconds_text

FEW = 12  # names that an error lists; of more it says what lists them


def explain(program: Any, why: str | None = None, why_not: str | None = None) -> tuple[str, dict[str, Any]]:
    """(text, data). Without arguments the whole program; `why` a kernel's name; `why_not` a rule's name.

    Raises AutocompError when there is no such kernel or rule, with the nearest name.
    """
    if why is not None:
        return _why(program, why)
    if why_not is not None:
        return _why_not(program, why_not)
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
    for k in program.kernels:
        lines.append(f"{k.name} x{k.calls}: {seconds_text(k.predicted)}, bound by {k.bound}; ops {' '.join(k.ops)}")
    if named := layer_lines(program):
        lines += ["in the model's words, in order:", *(f"  {x}" for x in named)]
    return "\n".join(lines), {
        "program": program.name,
        "rules": fired,
        "kernels": [k.name for k in program.kernels],
        "calls": [{"kernel": c.kernel.name, "model": [short(p) for p in model_places(program, c)]} for c in program.calls.calls],
        "predicted": program.predicted,
    }


def _near(name: str, known: list[str], all_of_them: str) -> str:
    near = get_close_matches(name, known, 3)
    return f"nearest: {', '.join(near)}" if near else f"known: {', '.join(known)}" if len(known) <= FEW else all_of_them


def _why(program: Any, name: str) -> tuple[str, dict[str, Any]]:
    k = next((k for k in program.kernels if k.name == name), None)
    if k is None:
        hint = _near(name, [k.name for k in program.kernels], "`autocomp explain MODEL` lists them")
        raise AutocompError(f"there is no kernel '{name}'", where="explain --why", hint=hint)
    others = [e for e in program.trace.of("schedule") if e.data.get("signature") == k.signature]
    lines = [
        f"{k.name}, called {plural(k.calls, 'time')}",
        f"  computes   {' '.join(k.ops)}",
        *[f"  of model   {text}" for text in _few(_model_of(program, k.name))],
        f"  predicted  {seconds_text(k.predicted)}, bound by {k.bound}",
        f"  schedule   {k.schedule}",
    ]
    given = [e for e in program.trace.of("directive") if e.data["signature"] == k.signature]
    kept = set(k.schedule.split(" | "))  # a program of one kernel has no use for what concerns its neighbours
    lines += [f"    {e.data['directive']}: {e.name}" for e in given if e.data["directive"] in kept]
    idle = [e.data["directive"] for e in given if e.data["directive"] not in kept]
    lines += [f"    no use for {', '.join(idle)}"] if idle else []
    lines += [f"  tuned      {e.data['text']}" for e in program.trace.of("tuned") if e.data.get("signature") == k.signature]
    lines += ["  made by"] + [f"    {r}" for r in (*k.rules, *(f"{e.data['rule']}: the schedule" for e in others if e.data.get("rule")))]
    for e in others:
        if "candidates" in e.data:
            lines.append(f"  chosen among {plural(e.data['candidates'], 'legal schedule')}")
        lines += [f"    lost: {r}" for r in runners_up(k.schedule, e.data)]
    return "\n".join(lines), {
        "kernel": k.name,
        "calls": k.calls,
        "ops": list(k.ops),
        "model": [[short(p) for p in model_places(program, c)] for c in program.calls.calls if c.kernel.name == k.name],
        "rules": list(k.rules),
        "schedule": k.schedule,
        "directives": [{"name": e.data["directive"], "rule": e.name, "used": e.data["directive"] in kept} for e in given],
        "predicted": k.predicted,
        "bound": k.bound,
        "trace": [e.data for e in others],
    }


def _model_of(program: Any, kernel: str) -> list[str]:
    """What the model calls the nodes that each call of a kernel computes."""
    return [t for c in program.calls.calls if c.kernel.name == kernel and (t := model_text(program, c, FEW))]


def _few(texts: list[str], most: int = 4) -> list[str]:
    left = len(texts) - most + 1
    return texts if left < 2 else [*texts[: most - 1], f"and {plural(left, 'more call')}"]


def _why_not(program: Any, rule: str) -> tuple[str, dict[str, Any]]:
    known = sorted(set(program.rule_names))
    if rule not in known:
        hint = _near(rule, known, "`autocomp rules list` shows them")
        raise AutocompError(f"there is no rule '{rule}' in force", where="explain --why-not", hint=hint)
    fired = [e for e in program.trace.of("rule") if e.name == rule]
    rejected = [e for e in program.trace.of("reject") if e.name == rule]
    count = sum(int(e.data.get("count", 1)) for e in fired)
    made = [(e.name, *e.data["made"][rule].values(), e.data["rule"] == rule) for e in program.trace.of("schedule")
            if rule in e.data.get("made", ())]  # fmt: skip
    gave = [(e.data["kernel"], e.data["directive"], e.data["used"]) for e in program.trace.of("directive") if e.name == rule]
    lines = [f"{rule}: fired {plural(count, 'time')}, matched and was refused {plural(len(rejected), 'time')}"]
    if made:
        n = sum(m for _, m, *_ in made)
        lines[0] = f"{rule}: made {plural(n, 'schedule')}, matched and was refused {plural(len(rejected), 'time')}"
    for kernel, n, best, chosen in made:
        lines.append(f"  made: kernel {kernel}, {plural(n, 'schedule')}, {'one of them was chosen, ' if chosen else ''}the cheapest {best}")
    lines += [f"  gave: kernel {kernel}, {name}{'' if used else ', which had no use for it'}" for kernel, name, used in gave]
    lines += ["  refused: " + ", ".join(f"{k} {v}" for k, v in e.data.items()) for e in rejected[:20]]
    if not fired and not made and not rejected and not gave:
        lines.append(f"  {_silent(program, rule)}")
    return "\n".join(lines), {"rule": rule, "fired": len(fired), "refused": [e.data for e in rejected],
                              "made": {kernel: {"schedules": n, "cheapest": best} for kernel, n, best, _ in made},
                              "gave": [{"kernel": kernel, "directive": name, "used": used} for kernel, name, used in gave]}  # fmt: skip


def _silent(program: Any, rule: str) -> str:
    """What it means that the trace does not mention a rule."""
    from autocomp.rewrite import load_rules
    from autocomp.rewrite.vocabulary import KERNEL_PHASES

    phase = next(r.phase for r in load_rules(program.options.rules, options=program.options) if r.name == rule)
    if phase in KERNEL_PHASES:
        return f"it matched no kernel of {program.target.name}, or made no schedule that another rule had not made before"
    return "its left side matched nothing in this model"
