"""Why the program is as it is: every sentence is read off the recorded trace."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from autocomp.errors import AutocompError
from autocomp.ir.places import short
from autocomp.report.layers import layer_lines, model_places, model_text
from autocomp.report.tables import plural, remarks, runners_up, seconds_text

FEW = 12  # names that an error lists; of more it says what lists them
SHOWN = 3  # conditions of a rule that failed, which are shown
VALUES = 2  # that one condition saw
LONG = 120  # characters of a condition


def explain(program: Any, why: str | None = None, why_not: str | None = None, at: str | None = None) -> tuple[str, dict[str, Any]]:
    """(text, data). Without arguments the whole program; `why` a kernel's name; `why_not` a rule's name, `at` a part of the name of a node
    of the model.

    Raises AutocompError when there is no such kernel, rule or node, with the nearest name.
    """
    if why is not None:
        return _why(program, why)
    if why_not is not None:
        return _why_not(program, why_not, at)
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
    lines += [f"    {e.data['directive']}: {e.name}{_saving(e)}" for e in given if e.data["directive"] in kept]
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


def _saving(directive: Any) -> str:
    """What a directive saves by the model; "" where its price does not know it."""
    saves = directive.data.get("saves", 0.0)
    return f", {'saves' if saves > 0 else 'costs'} {seconds_text(abs(saves))} by the model" if saves else ""


def _few(texts: list[str], most: int = 4) -> list[str]:
    left = len(texts) - most + 1
    return texts if left < 2 else [*texts[: most - 1], f"and {plural(left, 'more call')}"]


def _why_not(program: Any, rule: str, at: str | None) -> tuple[str, dict[str, Any]]:
    known = sorted(set(program.rule_names))
    if rule not in known:
        hint = _near(rule, known, "`autocomp rules list` shows them")
        raise AutocompError(f"there is no rule '{rule}' in force", where="explain --why-not", hint=hint)
    rejected = [e.data for e in program.trace.of("reject") if e.name == rule]
    if at is not None:
        rejected = [r for r in rejected if at.lower() in _where(program, r).lower()]
        if not rejected and not any(at.lower() in p.lower() for p in _all_places(program)):
            near = get_close_matches(at, _all_places(program), 3)
            raise AutocompError(f"the model has no node that is called '{at}'", where="explain --at",
                                hint=f"nearest: {', '.join(near)}" if near else "`autocomp explain MODEL` lists them")  # fmt: skip
    count = sum(int(e.data.get("count", 1)) for e in program.trace.of("rule") if e.name == rule)
    refused = sum(int(r.get("count", 1)) for r in rejected)
    made = [(e.name, *e.data["made"][rule].values(), e.data["rule"] == rule) for e in program.trace.of("schedule")
            if rule in e.data.get("made", ())]  # fmt: skip
    gave = [(e.data["kernel"], e.data["directive"], e.data["used"]) for e in program.trace.of("directive") if e.name == rule]
    place = f" at {at}" if at is not None else ""
    lines = [f"{rule}: fired {plural(count, 'time')}, matched and was refused {plural(refused, 'time')}{place}"]
    if made:
        n = sum(m for _, m, *_ in made)
        lines[0] = f"{rule}: made {plural(n, 'schedule')}, matched and was refused {plural(refused, 'time')}{place}"
    for kernel, n, best, chosen in made:
        lines.append(f"  made: kernel {kernel}, {plural(n, 'schedule')}, {'one of them was chosen, ' if chosen else ''}the cheapest {best}")
    lines += [f"  gave: kernel {kernel}, {name}{'' if used else ', which had no use for it'}" for kernel, name, used in gave]
    misses = near_misses(program, rule, rejected)
    lines += [f"  {m}" for m in misses[:SHOWN]]
    if len(misses) > SHOWN:
        lines.append(f"  and {plural(len(misses) - SHOWN, 'other condition')} before these in the rule")
    if not count and not made and not rejected and not gave:
        lines.append(f"  {_silent(program, rule) if at is None else _none_there(program, rule)}")
    return "\n".join(lines), {"rule": rule, "fired": count, "refused": rejected,
                              "made": {kernel: {"schedules": n, "cheapest": best} for kernel, n, best, _ in made},
                              "gave": [{"kernel": kernel, "directive": name, "used": used} for kernel, name, used in gave]}  # fmt: skip


def near_misses(program: Any, rule: str, rejected: list[dict[str, Any]]) -> list[str]:
    """A line for each condition that failed, the nearest miss first (a rule's conditions are asked in order, so the last ones): how often,
    which values it saw, and one place.

    rank(?x) == 2 fails 18 times: rank(?x) is 3 (14 times), 4 (4 times); for example at encoder.layer.0.query (linear), f32[1, 32, 64]
    """
    from autocomp.rewrite import load_rules

    groups: dict[str, dict[str, int]] = {}
    example: dict[str, str] = {}
    told = [r for r in rejected if r.get("reason") or r.get("why")]
    for r in told:
        condition, _, values = str(r.get("reason") or r["why"]).partition(" is false")
        seen = groups.setdefault(condition, {})
        seen[values.removeprefix(": ")] = seen.get(values.removeprefix(": "), 0) + max(1, int(r.get("count", 1)))
        example.setdefault(condition, _where(program, r))
    mine = next((r for r in load_rules(program.options.rules, options=program.options) if r.name == rule), None)
    order = [str(c) for c in mine.where] if mine else []
    rank = lambda c: next((k for k, text in enumerate(order) if c in text), -1)
    lines = []
    for condition, seen in sorted(groups.items(), key=lambda g: (-rank(g[0]), -sum(g[1].values()))):
        n = sum(seen.values())
        most = sorted(seen.items(), key=lambda v: -v[1])
        values = "; ".join(f"{_cut(v)} ({plural(k, 'time')})" if len(seen) > 1 else _cut(v) for v, k in most[:VALUES] if v)
        more = f"; {len(most) - VALUES} other values" if len(most) > VALUES else ""
        fails = f"{_cut(condition)} fails" if rank(condition) >= 0 or condition != _cut(condition) or values else condition
        where = f"; for example at {example[condition]}" if example[condition] else ""
        lines.append(f"refused {plural(n, 'time')}: {fails}{f': {values}{more}' if values else ''}{where}")
    if (rest := sum(int(r["count"]) for r in rejected if r not in told)) and lines:
        lines[-1] += f" ({rest} more of this rule are not in the trace)"
    return lines


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _where(program: Any, refused: dict[str, Any]) -> str:
    """Where a rule was refused: the model's name for the node, its type; or the kernel and what it computes."""
    if "kernel" in refused:
        called = _model_of(program, refused["kernel"])
        return f"kernel {refused['kernel']}" + (f" ({called[0]})" if called else "")
    return ", ".join(filter(None, (short(refused.get("place", "")), refused.get("at", ""))))


def _all_places(program: Any) -> list[str]:
    return sorted({short(p) for p in program.calls.source.locations.values()})


def _none_there(program: Any, rule: str) -> str:
    """What it means that no refusal of a rule at some node is in the trace."""
    left_out = sum(e.data.get("count", 1) for e in program.trace.of("reject") if e.name == rule and not e.data.get("reason", "-"))
    kept = f"it matched nothing there, or is one of the {left_out} refusals that the trace has not kept"
    return kept if left_out else "its left side matches nothing there"


def _silent(program: Any, rule: str) -> str:
    """What it means that the trace does not mention a rule."""
    from autocomp.rewrite import load_rules
    from autocomp.rewrite.vocabulary import KERNEL_PHASES

    phase = next(r.phase for r in load_rules(program.options.rules, options=program.options) if r.name == rule)
    if phase in KERNEL_PHASES:
        return f"it matched no kernel of {program.target.name}, or made no schedule that another rule had not made before"
    return "its left side matched nothing in this model"
